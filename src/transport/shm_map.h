/*
 * The segments of other processes on this host that are mapped here: one mapping per mount and
 * process, shared by all engines, gone when the mount is gone. Client side. Thread-safe.
 */
#ifndef MC_TRANSPORT_SHM_MAP_H
#define MC_TRANSPORT_SHM_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "transport/touched.h"

struct mc_shm_map {
    uint64_t mount_id;
    uint8_t *base;
    uint64_t len;
    struct mc_touched *touched; /* of this mapping; NULL: none */
};

/** The mapping of this mount, held until mc_shm_map_return(); NULL if there is none. */
struct mc_shm_map *mc_shm_map_borrow(uint64_t mount_id);
void mc_shm_map_return(struct mc_shm_map *map);
/** One more holder of a mapping that the caller holds. */
void mc_shm_map_hold(struct mc_shm_map *map);

/**
 * Map a segment that its store has handed out, and hold it. If another engine was faster, its
 * mapping is the result and ours is given back. Forked children do not inherit the memory.
 *
 * @param memfd   closed here in every case
 * @param socket  the connection it came over, whose end is the mount's; taken in every case
 * @retval EINVAL  the memory could shrink under us, or is shorter than @p len
 * @retval ENOMEM  no address space, or none for the entry
 */
mooncake_err mc_shm_map_add(uint64_t mount_id, int memfd, uint64_t len, int socket,
                            struct mc_shm_map **out) MC_MUST_CHECK;

/**
 * Map a segment that this process serves itself a second time, so that what was lent of it outlives
 * the mount; hold it. It is alive as long as the mount (mount_table.h) is.
 *
 * @param memfd  borrowed
 */
mooncake_err mc_shm_map_own(uint64_t mount_id, int memfd, uint64_t len,
                            struct mc_shm_map **out) MC_MUST_CHECK;

/** Does the store still own this memory? One system call that does not wait. */
bool mc_shm_map_is_alive(const struct mc_shm_map *map);
/** Nobody gets it any more; unmapped when the last holder has returned it. */
void mc_shm_map_drop(struct mc_shm_map *map);
/** Drop every mapping whose store has gone: called now and then by a client's background thread,
 * so that the memory of a dead store does not wait for the next transfer. */
void mc_shm_map_sweep(void);
/** Drop every mapping: when the last client of the process has been closed. */
void mc_shm_map_drop_all(void);
/** Mappings in the table, and their bytes. */
void mc_shm_map_totals(uint64_t *out_count, uint64_t *out_bytes);

#endif
