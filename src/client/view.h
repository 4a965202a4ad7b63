/*
 * Views: values lent in place (or copied), and the thread that renews the leases of those in place.
 *
 * A view belongs to its caller. What the keeper's thread does with it, and who of both frees it, is
 * guarded by one lock for all clients of the process, so that a view may be released when its
 * client is gone.
 */
#ifndef MC_CLIENT_VIEW_H
#define MC_CLIENT_VIEW_H

#include <stdatomic.h>

#include "base/list.h"
#include "client/get.h"
#include "mooncake/view.h"
#include "transport/lend.h"

struct mc_view_keeper;

struct mooncake_view {
    const void *data;
    uint64_t len;
    void *own;           /* owned; NULL: in place */
    struct mc_lend lend; /* held until the end */

    /* In place only. */
    char *key; /* owned; not terminated */
    uint32_t key_len;
    struct mc_object_id id;
    _Atomic uint64_t lease_end_ns;
    uint64_t fork_generation;

    /* Guarded by the lock of views. */
    struct mc_list node;           /* in the keeper's list, earliest end of a lease first */
    struct mc_view_keeper *keeper; /* NULL: nobody renews the lease (any more) */
    uint64_t lease_ms;
    unsigned refs; /* the caller, and a renewal under way */
};

void mc_views_lock(void);
void mc_views_unlock(void);
/** Undo one reference; with the last one the view is freed. Outside the lock. */
void mc_view_unref(struct mooncake_view *view);

/* ---- view_keeper.c ----------------------------------------------------------------------- */

struct mc_view_keeper_options {
    const char *master, *program; /* borrowed until close */
    uint64_t client_id;
    uint32_t connect_timeout_ms;
};

/** Start the thread. */
mooncake_err mc_view_keeper_open(const struct mc_view_keeper_options *options,
                                 struct mc_view_keeper **out) MC_MUST_CHECK;
/** Stop it; what views are left keep their memory and lose their keeper. Nulls *keeper; accepts
 * NULL in it. */
void mc_view_keeper_close(struct mc_view_keeper **keeper);
/** Renew the lease of @p view from now on. Any thread, without the lock. */
void mc_view_keeper_add(struct mc_view_keeper *keeper, struct mooncake_view *view);

#endif
