/* The client's own struct: options as they are in force, and the parts it owns. */
#ifndef MC_CLIENT_CLIENT_IMPL_H
#define MC_CLIENT_CLIENT_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/limits.h"
#include "client/engine.h"
#include "client/known.h"
#include "client/session.h"
#include "client/suspects.h"
#include "mooncake/client.h"
#include "transport/direct_pool.h"
#include "transport/extent.h"
#include "transport/memreg.h"
#include "transport/peers.h"
#include "transport/shm_map.h"
#include "transport/shm_server.h"

/* What mooncake_client_get_stats() tells; any thread counts. */
struct mc_client_counters {
    _Atomic uint64_t puts_again, puts_degraded, damaged_extents, read_failovers, reads_disturbed;
};

struct mooncake_client {
    /* Options in force; set at open, read-only afterwards. */
    char *master;         /* owned */
    char *local_hostname; /* owned; NULL: this machine's name */
    char *data_address;   /* owned */
    char *transport;      /* owned; NULL: all */
    char *program;        /* owned */
    char *shm_dir;        /* owned; NULL: the usual one */
    char *rdma_devices;   /* owned; NULL: all */
    char *rdma_gid_index; /* owned; NULL: auto */
    uint64_t rdma_staging;
    bool rdma_poll;
    enum mc_shm_policy shm;
    uint64_t segment_size;
    uint64_t client_id;
    _Atomic uint64_t next_nonce; /* names put requests; begins at random */
    uint32_t timeout_ms;
    uint32_t connect_timeout_ms;
    uint32_t poll_us;
    enum mc_verify verify;
    bool tool;
    char hostname[MC_SEGMENT_NAME_LEN_MAX + 1]; /* see mooncake_client_hostname() */

    uint64_t fork_generation; /* that of the process which opened it */
    struct mc_engine_pool engines;
    struct mc_session *session; /* owned; NULL for tools */
    struct mc_suspects suspects;
    struct mc_client_counters counters;
    struct mc_known known;
    struct mc_memreg *memreg;       /* owned */
    struct mc_peers *peers;         /* owned */
    struct mc_direct_pool *copiers; /* owned; NULL: none */

    struct mc_shm_map *pool;    /* held; NULL: none. See thin.h */
    _Atomic uint64_t pool_used; /* bytes handed out, whole pages */

    /* Calls under way, for close to wait for. */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    unsigned calls;                     /* guarded by lock */
    struct mc_view_keeper *view_keeper; /* owned; guarded by lock; NULL: nothing was viewed yet */
    bool closing, leaving;              /* guarded by lock */
};

/** What every engine's transports are opened with. Texts and tables stay the client's. */
void mc_client_transport_options(const struct mooncake_client *client,
                                 struct mc_transport_options *out);

/** Counts the forks that lie between this process and the one that loaded the library. */
uint64_t mc_fork_generation(void);

#endif
