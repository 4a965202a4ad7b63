/*
 * A payload lent in place: a read-only look at the memory of a segment of this host, instead of a
 * copy of it. The mapping stays while the lend is held, whatever becomes of the store, so looking
 * is always safe; what the bytes are worth is the matter of leases, and of mc_lend_is_sure().
 *
 * Thread-safe, but one lend is one holder's.
 */
#ifndef MC_TRANSPORT_LEND_H
#define MC_TRANSPORT_LEND_H

#include <stdbool.h>
#include <stdint.h>

struct mc_shm_map;

struct mc_lend {
    const uint8_t *data;
    uint64_t len;
    uint64_t mount_id;
    struct mc_shm_map *map; /* held; NULL: nothing is lent */
};

/** Hold @p map, which the caller has borrowed, for the payload of @p len bytes at @p offset. */
void mc_lend_init(struct mc_lend *lend, struct mc_shm_map *map, uint64_t offset, uint64_t len);
/** Let go of the memory. Harmless if nothing is lent. */
void mc_lend_return(struct mc_lend *lend);
/** Does the store still own the memory, so that only the master's word decides who writes there?
 * One system call that does not wait. False also when it has died: then nobody is asked any more.
 */
bool mc_lend_is_sure(const struct mc_lend *lend);

#endif
