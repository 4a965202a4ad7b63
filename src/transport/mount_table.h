/*
 * The segments that this process serves: mount id -> memory, length, secret. Store side. Filled by
 * the thread that mounts, read by data loops and, in the same process, by the `local` transport.
 * Thread-safe; a mount in use cannot go away under its user.
 *
 * How a mount ends while a peer is slow: a data loop keeps a mount borrowed for as long as bytes of
 * it are queued for a peer or expected from one, which may be long. So whoever holds a mount across
 * a wait must be a watcher. mc_mount_drop() first closes the mount for new users, then calls each
 * watcher, which has its loops close the connections that hold a dropped mount (no byte moves after
 * a stream is closed) and give the mount back; then drop waits, and only then returns. The wait is
 * as long as a turn of the slowest loop and never depends on a peer.
 *
 * A fork's child serves nothing: its table is empty.
 */
#ifndef MC_TRANSPORT_MOUNT_TABLE_H
#define MC_TRANSPORT_MOUNT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ids.h"
#include "base/list.h"

struct mc_mount {
    uint64_t mount_id;
    uint8_t *base; /* borrowed: whoever added it unmaps after mc_mount_drop() */
    uint64_t len;  /* bytes */
    uint64_t secret[2];
    int memfd; /* for same-host sharing; -1: none. Borrowed. */
};

/** Serve @p mount (copied). ESEGMENTEXISTS if the id is served already; ENOMEM. */
mooncake_err mc_mount_add(const struct mc_mount *mount) MC_MUST_CHECK;
/** No new user gets it; returns once the last one has given it back (see above). Unknown ids are
 * ignored. Never from a thread that holds the mount or runs a watcher's loop. */
void mc_mount_drop(uint64_t mount_id);

/** The mount, held until mc_mount_return(); NULL if it is not served here. */
const struct mc_mount *mc_mount_borrow(uint64_t mount_id);
void mc_mount_return(const struct mc_mount *mount);
/** Does anybody hold it now? False also for an id that is not served. Any thread. */
bool mc_mount_is_held(uint64_t mount_id);
/** Has its drop begun? For one who holds it. Any thread. */
bool mc_mount_is_dropped(const struct mc_mount *mount);

/* One who holds mounts across waits. Lives inside its user's struct. */
struct mc_mount_watcher {
    struct mc_list node;
    /* A drop has begun: see to it, soon and on the right threads, that every held mount which
     * mc_mount_is_dropped() is given back. Runs on the dropping thread under the table's lock: it
     * may post to loops and may call nothing of this header. */
    void (*on_drop)(struct mc_mount_watcher *watcher);
};
void mc_mount_watch(struct mc_mount_watcher *watcher);
/** on_drop neither runs nor will run after this. */
void mc_mount_unwatch(struct mc_mount_watcher *watcher);

/**
 * May a peer do @p right with this extent? Checks that header and payload lie inside the mount and
 * that the capability is genuine.
 *
 * @retval ENOTOWNER  the capability is not genuine or lacks the right
 * @retval EINVAL     the range is outside the segment
 */
mooncake_err mc_mount_check(const struct mc_mount *mount, const struct mc_extent_ref *extent,
                            enum mc_rights right) MC_MUST_CHECK;

/** These bytes of a mount that the caller holds are about to be used: see touched.h. */
void mc_mount_touch(const struct mc_mount *mount, uint64_t offset, uint64_t len);

#endif
