/*
 * Fronts inside, for rpc_fronts.c (their life) and rpc_handover.c (the way to the core and back).
 */
#ifndef MC_RPC_RPC_FRONTS_IMPL_H
#define MC_RPC_RPC_FRONTS_IMPL_H

#include <pthread.h>

#include "base/limits.h"
#include "io/stream.h"
#include "rpc/rpc_fronts.h"
#include "rpc/rpc_server_impl.h"

struct mc_rpc_front {
    struct mc_rpc_fronts *fronts; /* borrowed */
    struct mc_loop *loop;         /* owned */
    struct mc_rpc_server *server; /* owned; its `front` is this */
    void *arg;

    /* The front's own. */
    struct mc_list outbox; /* tasks of the read that is being handled */
    unsigned outbox_count;
    size_t outbox_bytes;
    unsigned given_count_seen; /* as of the last look: the truth is no more */
    size_t given_bytes_seen;

    /* The core's own. */
    struct mc_list taken; /* to be run */
    struct mc_list answers;
    size_t answers_bytes;
    bool running; /* answers go back at the end of the burst */

    pthread_mutex_t lock; /* guards the next ones */
    struct mc_list given; /* tasks for the core, oldest first */
    struct mc_list ended; /* tasks that come back, oldest first */
    unsigned given_count;
    size_t given_bytes;
    size_t ended_bytes;     /* until finish() has let go of them */
    bool to_core, to_front; /* a post is under way */
    bool stalled;           /* the front wants to know when there is room */
    bool held;              /* the core wants to know when answers have been taken */

    struct mc_post core_post, front_post;
    struct mc_post ask_post, told_post; /* mc_rpc_fronts_late_ns() */
    uint64_t asked_ns;                  /* the core's; 0: no question is under way */
    struct mc_post drain_post, drained_post;

    uint64_t assigned;             /* the acceptor's: connections given to this front */
    struct mc_counter ended_conns; /* of those */
    struct mc_counter requests, bursts, stalls, holds;
    struct mc_gauge queue_max;
};

struct mc_rpc_fronts {
    struct mc_loop *core; /* borrowed */
    struct mc_rpc_fronts_ops ops;
    struct mc_rpc_server_ops server_ops; /* theirs, with our on_conn_closed */
    void *arg;
    struct mc_listener *listener; /* on the loop of front 0 */
    uint16_t port;
    unsigned count;
    bool stopped; /* the threads have ended */

    uint32_t grace_ms;
    unsigned drains_left;
    void (*drain_done)(void *arg);
    void *drain_arg;
    struct mc_post free_post; /* the last of ours on the core's loop */

    struct mc_rpc_front front[MC_IO_THREADS_MAX];
};

/** Lists, lock and posts of a front. */
void mc_rpc_handover_init(struct mc_rpc_front *front);
void mc_rpc_handover_fini(struct mc_rpc_front *front);
/** The threads have ended: refuse what has not begun, finish what has been answered. */
void mc_rpc_handover_end(struct mc_rpc_front *front);

#endif
