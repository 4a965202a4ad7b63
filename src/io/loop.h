/*
 * A libuv loop and the one thread that runs it. Objects on a loop are touched by that thread only;
 * others hand work over with mc_loop_post(). A loop either has a thread of its own (start/stop) or
 * is run by whoever borrows it (run_until). After work it keeps polling for a bounded time, because
 * a sleeping thread is slow to wake, and then sleeps.
 */
#ifndef MC_IO_LOOP_H
#define MC_IO_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "io/spent.h"

struct mc_loop;
struct uv_loop_s;

/** @p poll_us: microseconds to keep polling after the last event before sleeping, at most; 0: none.
 * While polling finds nothing often enough to pay (polling.h), the loop sleeps at once. */
mooncake_err mc_loop_create(uint32_t poll_us, struct mc_loop **out) MC_MUST_CHECK;
/** By the owner. All handles on it must be closed or closing: it runs until they are gone, and
 * posts that wait. Nulls *loop. */
void mc_loop_destroy(struct mc_loop **loop);

/** Run @p loop on a thread of its own, called @p name (15 characters). */
mooncake_err mc_loop_start(struct mc_loop *loop, const char *name) MC_MUST_CHECK;
/** Ask the loop to end and join its thread; the caller owns the loop then. Not from the loop. */
void mc_loop_stop(struct mc_loop *loop);

/** Run on the calling thread until mc_loop_stop_soon() is called. For a daemon's main loop. */
void mc_loop_run(struct mc_loop *loop);
/** From any thread or a signal handler: make mc_loop_run() return. */
void mc_loop_stop_soon(struct mc_loop *loop);
/** Borrower: run until *done is true or @p deadline_ns (monotonic) has passed; *done is set by
 * callbacks on this loop. Returns ETIMEDOUT in the second case. */
mooncake_err mc_loop_run_until(struct mc_loop *loop, const bool *done,
                               uint64_t deadline_ns) MC_MUST_CHECK;
/** Handle what is ready now and return. */
void mc_loop_run_ready(struct mc_loop *loop);

/** The calling thread becomes the loop's owner (borrowed engines change hands). */
void mc_loop_adopt(struct mc_loop *loop);
/** Is the calling thread the owner? */
bool mc_loop_is_owner(const struct mc_loop *loop);
#define MC_ASSERT_ON_LOOP(loop) MC_ASSERT(mc_loop_is_owner(loop))

/** Time of this turn of the loop, monotonic nanoseconds: cheap, at most one turn old. Between turns
 * it is read anew. */
uint64_t mc_loop_now_ns(const struct mc_loop *loop);
/** The libuv loop, for code under io/ and transport/. */
struct uv_loop_s *mc_loop_uv(struct mc_loop *loop);

/** A closure that runs once on the loop's thread. Lives inside its user's struct. */
struct mc_post {
    struct mc_list node;
    void (*run)(struct mc_post *post);
};
/** From any thread. @p post is borrowed until run is entered. After mc_loop_stop() has begun, posts
 * still run before the loop's thread ends. */
void mc_loop_post(struct mc_loop *loop, struct mc_post *post);

/** A timer. Lives on the heap because libuv closes it asynchronously; owner thread only. */
struct mc_timer;
mooncake_err mc_timer_create(struct mc_loop *loop, void (*fire)(void *arg), void *arg,
                             struct mc_timer **out) MC_MUST_CHECK;
/** Fire after @p delay_ms, then each @p repeat_ms (0: once). Replaces an earlier setting. 0: when
 * what is ready has been handled, so that a timer which sets itself to 0 lets everybody have a turn
 * in between. */
void mc_timer_set(struct mc_timer *timer, uint64_t delay_ms, uint64_t repeat_ms);
void mc_timer_clear(struct mc_timer *timer);
/** fire is not called any more. Nulls *timer. */
void mc_timer_destroy(struct mc_timer **timer);

/** Call @p fire on the loop for SIGTERM and SIGINT (number given). One loop per process. */
mooncake_err mc_loop_on_signal(struct mc_loop *loop, void (*fire)(void *arg, int signum),
                               void *arg) MC_MUST_CHECK;

/* Any thread may read them. */
struct mc_loop_stats {
    uint64_t idle_poll_ns; /* polled without finding work, with what a yield gave to others */
    uint64_t polls_found;  /* work that came while the loop polled for it */
    uint64_t polls_missed; /* times that it polled for nothing and then slept */
    uint64_t turns;
    uint64_t sleeps;
    uint64_t rests; /* times that it left polling for a while because others wanted its core */
};
struct mc_loop_stats mc_loop_stats(const struct mc_loop *loop);

/** What the loop's thread spends its time on: for those who do things there to say so (mc_spend()),
 * and for any thread to read its counters. Nothing is timed until mc_spent_init() says so. */
struct mc_spent *mc_loop_spent(struct mc_loop *loop);
/** Processor time of the thread that owns the loop, which must be alive. From any thread. */
uint64_t mc_loop_cpu_ns(const struct mc_loop *loop);

/** Our error for a libuv status. */
mooncake_err mc_err_from_uv(int status);

#endif
