/*
 * Engines: a loop with a connection to the master and transports to the stores, on which one call
 * runs at a time. A call borrows one, runs its loop on its own thread, and returns it. The pool
 * makes them as they are needed, up to a bound, and hands out the one returned last, whose
 * connections are warm.
 *
 * Thread: the pool is safe from any thread; an engine belongs to its borrower.
 */
#ifndef MC_CLIENT_ENGINE_H
#define MC_CLIENT_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/mem.h"
#include "transport/transport.h"
#include "wire/master_stub.h"

/* Parts of one batch that are under way at the same time: while one moves bytes, the next asks the
 * master. */
#define MC_WINDOWS_MAX 2u

/* Findings that wait for the end of their call. Beyond that they are forgotten: what is damaged is
 * found again by the next reader. */
#define MC_FINDINGS_MAX 64u

struct mc_engine {
    struct mc_list node; /* in the pool's idle list */
    uint64_t returned_ns;
    struct mc_loop *loop;
    struct mc_master_stub stub;
    struct mc_transport_set transports;
    struct mc_arena arena;                   /* of the call as a whole; reset at the return */
    struct mc_arena windows[MC_WINDOWS_MAX]; /* of parts of a batch */

    /* One alarm for whoever has borrowed the engine. */
    struct mc_timer *alarm;
    void (*on_alarm)(void *arg);
    void *alarm_arg;

    /* A report to the master on its way; it may outlive the call that made it. And what the next
     * one will say. */
    struct mc_master_call report;
    struct mc_arena report_arena;
    struct mc_status_reply report_reply;
    bool report_under_way;
    struct mc_report_item findings[MC_FINDINGS_MAX];
    size_t findings_count;
    struct mc_arena findings_arena; /* their keys */

    struct mc_loop_stats counted; /* what the pool knows of this loop */
};

struct mc_engine_options {
    const char *master, *program; /* borrowed for the pool's life */
    const char *transport;        /* as is this; which kinds */
    struct mc_transport_options transports;
    uint64_t client_id;
    uint32_t connect_timeout_ms, poll_us;
    uint32_t tcp_connections; /* to one store, of one engine */
    unsigned engines_max;
};

struct mc_engine_pool {
    struct mc_engine_options options;
    pthread_mutex_t lock;
    pthread_cond_t returned;
    struct mc_list idle; /* guarded by lock, as is the next */
    unsigned count;
    struct mc_loop_stats stats; /* of all engines, without what calls under way have added */
};

mooncake_err mc_engine_pool_init(struct mc_engine_pool *pool,
                                 const struct mc_engine_options *options) MC_MUST_CHECK;
/** All engines must have been returned. */
void mc_engine_pool_fini(struct mc_engine_pool *pool);

/**
 * Borrow an engine: its loop is the calling thread's, and what happened to its connections while
 * it lay idle has been handled.
 *
 * @retval ETIMEDOUT  all engines were busy until the deadline
 * @retval ENOMEM, ENOTSUP, EINVAL  a new engine could not be made
 */
mooncake_err mc_engine_borrow(struct mc_engine_pool *pool, uint64_t deadline_ns,
                              struct mc_engine **out) MC_MUST_CHECK;
/** Nothing of the call may be under way on it any more. */
void mc_engine_return(struct mc_engine_pool *pool, struct mc_engine **engine);

/** What the loops of all engines have done, in calls that have ended. */
struct mc_loop_stats mc_engine_pool_stats(struct mc_engine_pool *pool);

/** Call @p fire(arg) once on the engine's loop in @p delay_ms; replaces an earlier setting. */
void mc_engine_set_alarm(struct mc_engine *engine, uint64_t delay_ms, void (*fire)(void *arg),
                         void *arg);
void mc_engine_clear_alarm(struct mc_engine *engine);

#endif
