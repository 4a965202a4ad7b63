/*
 * The segments that this process serves: mount id -> memory, length, secret. Store side. Filled by
 * the thread that mounts, read by data loops and, in the same process, by the `local` transport.
 * Thread-safe; a mount in use cannot go away under its user.
 */
#ifndef MC_TRANSPORT_MOUNT_TABLE_H
#define MC_TRANSPORT_MOUNT_TABLE_H

#include <stdint.h>

#include "base/err.h"
#include "base/ids.h"

struct mc_mount {
    uint64_t mount_id;
    uint8_t *base; /* borrowed: whoever added it unmaps after mc_mount_drop() */
    uint64_t len;  /* bytes */
    uint64_t secret[2];
    int memfd; /* for same-host sharing; -1: none. Borrowed. */
};

/** Serve @p mount (copied). ESEGMENTEXISTS if the id is served already; ENOMEM. */
mooncake_err mc_mount_add(const struct mc_mount *mount) MC_MUST_CHECK;
/** No new user gets it; returns once the last one has given it back (they hold it for one chunk of
 * work, never across a wait for a peer). Unknown ids are ignored. */
void mc_mount_drop(uint64_t mount_id);

/** The mount, held until mc_mount_return(); NULL if it is not served here. */
const struct mc_mount *mc_mount_borrow(uint64_t mount_id);
void mc_mount_return(const struct mc_mount *mount);

/**
 * May a peer do @p right with this extent? Checks that header and payload lie inside the mount and
 * that the capability is genuine.
 *
 * @retval ENOTOWNER  the capability is not genuine or lacks the right
 * @retval EINVAL     the range is outside the segment
 */
mooncake_err mc_mount_check(const struct mc_mount *mount, const struct mc_extent_ref *extent,
                            enum mc_rights right) MC_MUST_CHECK;

#endif
