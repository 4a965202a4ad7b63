/*
 * Turning a loop: by its own thread or by whoever borrows it.
 *
 * Design notes
 * - A turn is one uv_run() that does not block, or, when the loop has polled for long enough since
 *   the last event, one that does. How long that is, polling.c learns. libuv 1.44 does not tell
 * whether a turn found anything, so our own callbacks count events (mc_loop_note_event). Timers are
 * not events: a tick should not start a spin.
 * - The time of the turn is read when first asked for; a prepare handle, which libuv calls just
 *   before it waits, forgets it. Timers run before that: two of the handles see to it that libuv
 *   does not wait when a timer has set *done or the deadline has passed.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "io/loop_impl.h"

/* An empty turn takes a microsecond or two. If it takes this long, somebody else has run on our
 * core meanwhile and will again: polling costs more than it gains, and we leave it for a while,
 * longer each time, until it has gone well for CALM_NS in all. */
#define CROWDED_TURN_NS (500 * MC_NS_PER_US)
#define CROWDED_REST_NS_MIN (100 * MC_NS_PER_MS)
#define CROWDED_REST_NS_MAX (5 * MC_NS_PER_S)
#define CALM_NS (20 * MC_NS_PER_MS)

/* ---- libuv's callbacks --------------------------------------------------------------------- */

void mc_loop_on_wake(uv_async_t *wake)
{
    mc_loop_note_event(wake->data);
}

static void idle_cb(uv_idle_t *idle)
{
    (void)idle; /* being active is all */
}

void mc_loop_on_deadline(uv_timer_t *timer)
{
    struct mc_loop *loop = timer->data;

    /* It may be due before libuv begins to wait; then there must be no wait. */
    (void)uv_idle_start(&loop->idle, idle_cb);
}

/* libuv is about to wait. */
void mc_loop_on_prepare(uv_prepare_t *prepare)
{
    struct mc_loop *loop = prepare->data;

    loop->time->now_ns = 0;
    if (loop->done != NULL && *loop->done) {
        /* A timer, which libuv runs before this, has ended what we turn for. */
        (void)uv_idle_start(&loop->idle, idle_cb);
    }
}

/* ---- turning ------------------------------------------------------------------------------- */

/* Work has ended, or has been made by whoever entered the loop. */
static void begin_gap(struct mc_loop *loop)
{
    loop->gap_start_ns = mc_loop_now_ns(loop);
    loop->poll_until_ns = loop->gap_start_ns + mc_polling_window(&loop->polling);
    loop->polled_ns = 0;
    loop->slept = false;
}

/* There was work: learn from the gap before it. Work that the first look found says nothing. */
static void end_gap(struct mc_loop *loop, uint64_t found_ns)
{
    if (loop->polled_ns > 0) {
        mc_polling_found(&loop->polling, loop->polled_ns);
        mc_counter_add_owner(&loop->stats.polls_found, 1);
    } else if (loop->slept) {
        mc_polling_slept(&loop->polling, found_ns - loop->gap_start_ns);
    }
    begin_gap(loop);
}

/* Handle what is ready. Returns whether there was anything. */
static bool run_ready(struct mc_loop *loop)
{
    uint64_t before = loop->events;

    (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
    mc_loop_run_posts(loop);
    loop->time->now_ns = 0;
    return loop->events != before;
}

/* A turn without work has taken @p ns: was somebody else on the core? */
static void judge_crowd(struct mc_loop *loop, uint64_t ns)
{
    if (ns >= CROWDED_TURN_NS) {
        loop->rest_ns = loop->rest_ns == 0 ? CROWDED_REST_NS_MIN : loop->rest_ns * 2;
        loop->rest_ns = loop->rest_ns < CROWDED_REST_NS_MAX ? loop->rest_ns : CROWDED_REST_NS_MAX;
        loop->rest_until_ns = mc_loop_now_ns(loop) + loop->rest_ns;
        loop->calm_ns = 0;
        mc_counter_add_owner(&loop->stats.rests, 1);
    } else if (loop->rest_ns > 0) {
        loop->calm_ns += ns;
        loop->rest_ns = loop->calm_ns < CALM_NS ? loop->rest_ns : 0;
    }
}

static void turn_without_sleep(struct mc_loop *loop)
{
    uint64_t start_ns = mc_loop_now_ns(loop);
    uint64_t ns;

    if (run_ready(loop)) {
        end_gap(loop, start_ns);
        return;
    }
    /* If the peer waits for this core, it is the one who can end the wait. */
    (void)sched_yield();
    ns = mc_loop_now_ns(loop) - start_ns;
    loop->polled_ns += ns;
    mc_counter_add_owner(&loop->stats.idle_poll_ns, ns);
    judge_crowd(loop, ns);
}

/* It has polled for as long as it may, and nothing has come. */
static void stop_polling(struct mc_loop *loop)
{
    if (loop->polled_ns > 0) {
        mc_polling_missed(&loop->polling, loop->polled_ns);
        mc_counter_add_owner(&loop->stats.polls_missed, 1);
        loop->polled_ns = 0;
    } else {
        loop->slept = loop->poll_until_ns == loop->gap_start_ns;
    }
}

/* Sleep until something happens, but not beyond @p deadline_ns (UINT64_MAX: no bound). */
static void turn_with_sleep(struct mc_loop *loop, uint64_t deadline_ns)
{
    uint64_t before = loop->events;

    stop_polling(loop);
    if (deadline_ns != UINT64_MAX) {
        uv_update_time(&loop->uv);
        (void)uv_timer_start(&loop->deadline, mc_loop_on_deadline,
                             mc_left_ms(mc_loop_now_ns(loop), deadline_ns), 0);
    }
    if (mc_loop_allow_sleep(loop)) {
        mc_counter_add_owner(&loop->stats.sleeps, 1);
        (void)uv_run(&loop->uv, UV_RUN_ONCE);
    } else {
        (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
    }
    mc_loop_forbid_sleep(loop);
    (void)uv_idle_stop(&loop->idle);
    if (deadline_ns != UINT64_MAX) {
        (void)uv_timer_stop(&loop->deadline);
    }
    mc_loop_run_posts(loop);
    loop->time->now_ns = 0;
    if (loop->events != before) {
        end_gap(loop, mc_loop_now_ns(loop));
    }
}

static void turn(struct mc_loop *loop, uint64_t deadline_ns)
{
    uint64_t now_ns = mc_loop_now_ns(loop);

    mc_counter_add_owner(&loop->stats.turns, 1);
    mc_spent_turn_begin(&loop->spent);
    if (now_ns < loop->poll_until_ns && now_ns >= loop->rest_until_ns) {
        turn_without_sleep(loop);
    } else {
        turn_with_sleep(loop, deadline_ns);
    }
    mc_spent_turn_end(&loop->spent);
}

static void enter(struct mc_loop *loop)
{
    MC_ASSERT_ON_LOOP(loop);
    MC_ASSERT(!loop->running);
    loop->running = true;
    loop->time->now_ns = 0;
    /* Who enters has just made work, so an answer is near. */
    begin_gap(loop);
}

void mc_loop_run(struct mc_loop *loop)
{
    enter(loop);
    while (!atomic_load(&loop->stop)) {
        turn(loop, UINT64_MAX);
    }
    atomic_store(&loop->stop, false);
    loop->running = false;
}

mooncake_err mc_loop_run_until(struct mc_loop *loop, const bool *done, uint64_t deadline_ns)
{
    enter(loop);
    loop->done = done;
    while (!*done && mc_loop_now_ns(loop) < deadline_ns) {
        turn(loop, deadline_ns);
    }
    loop->done = NULL;
    loop->running = false;
    return *done ? MOONCAKE_OK : MOONCAKE_ETIMEDOUT;
}

void mc_loop_run_ready(struct mc_loop *loop)
{
    enter(loop);
    mc_counter_add_owner(&loop->stats.turns, 1);
    (void)run_ready(loop); /* no yield: who calls this has work to do */
    loop->running = false;
}

void mc_loop_stop_soon(struct mc_loop *loop)
{
    atomic_store(&loop->stop, true);
    (void)uv_async_send(&loop->wake);
}

/* ---- a thread of its own -------------------------------------------------------------------- */

static void *thread_main(void *arg)
{
    struct mc_loop *loop = arg;

    (void)pthread_setname_np(pthread_self(), loop->name);
    mc_loop_adopt(loop);
    mc_loop_run(loop);
    while (atomic_load(&loop->has_posts)) {
        mc_loop_run_posts(loop);
    }
    return NULL;
}

mooncake_err mc_loop_start(struct mc_loop *loop, const char *name)
{
    sigset_t all, old;
    int error;

    MC_ASSERT_ON_LOOP(loop);
    MC_ASSERT(!loop->has_thread);
    (void)snprintf(loop->name, sizeof(loop->name), "%s", name);
    /* Signals are for the application's own threads. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&loop->thread, NULL, thread_main, loop);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error != 0) {
        return mc_err_set(mc_err_from_errno(error), "cannot start the thread %s: %s", name,
                          strerror(error));
    }
    loop->has_thread = true;
    return MOONCAKE_OK;
}

void mc_loop_stop(struct mc_loop *loop)
{
    if (!loop->has_thread) {
        return;
    }
    MC_ASSERT(!pthread_equal(loop->thread, pthread_self()));
    mc_loop_stop_soon(loop);
    (void)pthread_join(loop->thread, NULL);
    loop->has_thread = false;
    mc_loop_adopt(loop);
}
