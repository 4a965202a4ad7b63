/*
 * Mounts that have lately failed this client: they are read last, for a while, so that a store
 * which hangs costs one call its patience and not every call. Any thread.
 */
#ifndef MC_CLIENT_SUSPECTS_H
#define MC_CLIENT_SUSPECTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* More than this many stores failing at once is a network that is down: then order is no help. */
#define MC_SUSPECTS_MAX 64u
#define MC_SUSPECT_MS 5000u
/* One store is reported to the master at most so often. */
#define MC_SUSPECT_REPORT_MS 1000u

struct mc_suspects {
    pthread_mutex_t lock;
    _Atomic uint64_t any_until_ns; /* no suspicion lasts longer than this */
    struct mc_suspect {
        uint64_t mount_id, until_ns, reported_ns;
        uint64_t failures;    /* since they were told of last */
    } items[MC_SUSPECTS_MAX]; /* guarded by lock */
};

void mc_suspects_init(struct mc_suspects *suspects);
void mc_suspects_fini(struct mc_suspects *suspects);
/** Suspect this mount from now on. Returns whether the master should hear of it now. */
bool mc_suspects_add(struct mc_suspects *suspects, uint64_t mount_id, uint64_t now_ns);
/** How many failures were added since this was asked last. */
uint64_t mc_suspects_take_failures(struct mc_suspects *suspects, uint64_t mount_id);
bool mc_suspects_has(struct mc_suspects *suspects, uint64_t mount_id, uint64_t now_ns);

#endif
