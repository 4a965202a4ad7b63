/*
 * A server on several threads. Each front is a loop with a thread and a server of its own
 * (rpc_server.h) that has some of the port's connections: sockets, framing and codec are there.
 * What requests ask for is done on one other loop, the core's, which sees whole requests only.
 *
 * Life of a request
 *   front  server_ops->handle() decodes into the request's arena and gives the task to the core
 *          (or, if there is nothing to do, replies at once)
 *   core   ops->run(), then mc_rpc_task_done(), at once or later
 *   front  ops->finish() encodes and replies
 * A request and all in its arena belong to one thread at a time: the front's before
 * mc_rpc_task_give() and from finish() on, the core's in between. Only `conn` is the front's all
 * the time: it is gone when the peer is, and then the reply is dropped in the end.
 *
 * Order: requests of one connection reach the core as they came, and answers of the core reach the
 * connection as they were given.
 * Bounds: MC_RPC_AWAY_* of base/limits.h. A front that has too much on its way stops reading; one
 * that is too slow with its answers gets no more of them made.
 * Waking: a loop that is awake is not woken; requests that came together cost one wake-up.
 *
 * Threads: all functions belong to the core's loop if not said otherwise.
 */
#ifndef MC_RPC_RPC_FRONTS_H
#define MC_RPC_RPC_FRONTS_H

#include "rpc/rpc_server.h"

struct mc_rpc_front;
struct mc_rpc_fronts;

/* A request on its way. Inside a struct of the owner's, in the request's arena. */
struct mc_rpc_task {
    struct mc_list node;
    struct mc_rpc_request *request;
    struct mc_rpc_front *front;
    size_t bytes; /* of the arena, when it was last handed over */
};

struct mc_rpc_fronts_ops {
    const struct mc_rpc_server_ops *server; /* on the front's thread */
    void (*run)(void *arg, struct mc_rpc_task *task);
    void (*finish)(void *front_arg, struct mc_rpc_task *task); /* on the front's thread */
};

struct mc_rpc_fronts_options {
    const char *address;    /* as of mc_rpc_server_open() */
    unsigned count;         /* 1 to MC_IO_THREADS_MAX */
    uint32_t poll_us;       /* of their loops */
    uint32_t spent_turns;   /* mc_spent_init() of their loops */
    void *arg;              /* for run */
    void *const *front_arg; /* one for each: for what is called on that front's thread */
};

/** Listens when it returns. @p core is borrowed. Errors as of mc_rpc_server_open(). */
mooncake_err mc_rpc_fronts_open(struct mc_loop *core, const struct mc_rpc_fronts_options *options,
                                const struct mc_rpc_fronts_ops *ops,
                                struct mc_rpc_fronts **out) MC_MUST_CHECK;
uint16_t mc_rpc_fronts_port(const struct mc_rpc_fronts *fronts);

/** To the core; inside handle() of server_ops, on the front's thread. */
void mc_rpc_task_give(struct mc_rpc_task *task, struct mc_rpc_request *request);
/** Back to its front; exactly once for each run(). */
void mc_rpc_task_done(struct mc_rpc_task *task);

/**
 * Is every front awake? Sends a question through all of them and says how long the oldest one has
 * been without an answer, in nanoseconds; so it tells the truth when it is asked again and again.
 */
uint64_t mc_rpc_fronts_late_ns(struct mc_rpc_fronts *fronts);

/** As mc_rpc_server_drain(), of all fronts together. */
void mc_rpc_fronts_drain(struct mc_rpc_fronts *fronts, uint32_t grace_ms, void (*done)(void *arg),
                         void *done_arg);
/** End the threads. What the core has not begun is refused, what it has answered is finished here;
 * mc_rpc_task_done() goes on to work, as the core is now the thread of all. */
void mc_rpc_fronts_stop(struct mc_rpc_fronts *fronts);
/** Close at once; stops first. No task may be with the core any more. Nulls *fronts. */
void mc_rpc_fronts_close(struct mc_rpc_fronts **fronts);

/* ---- figures: from any thread ---------------------------------------------------------------- */

struct mc_rpc_fronts_stats {
    uint64_t requests;  /* given to the core */
    uint64_t bursts;    /* times that it took some */
    uint64_t queue_max; /* most that were waiting for it at once, of one front */
    uint64_t stalls;    /* times that a front had too much on its way and stopped reading */
    uint64_t holds;     /* times that the core stopped answering a front that was slow */
};
struct mc_rpc_fronts_stats mc_rpc_fronts_stats(const struct mc_rpc_fronts *fronts);
unsigned mc_rpc_fronts_count(const struct mc_rpc_fronts *fronts);
struct mc_loop *mc_rpc_fronts_loop(const struct mc_rpc_fronts *fronts, unsigned index);
const struct mc_rpc_server_stats *mc_rpc_fronts_server_stats(const struct mc_rpc_fronts *fronts,
                                                             unsigned index);

#endif
