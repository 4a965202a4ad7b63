/*
 * Loops: their life, posts and signals. Turning is loop_turn.c's.
 *
 * Design note: posts do not wake a loop that is awake. `may_sleep` is set under the lock just
 * before a turn that may block, and only then does a post cost a system call.
 */
#include "io/loop.h"

#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/loop_impl.h"

/* Handles close within a few turns; a request of libuv's pool, if somebody made one, may take a
 * while. */
#define DESTROY_NS_MAX (120u * MC_NS_PER_S)

/* Give back what create made once uv_loop_init() has succeeded; runs until handles are closed. */
static void close_uv(struct mc_loop *loop)
{
    int status;

    do {
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
        status = uv_loop_close(&loop->uv);
    } while (status == UV_EBUSY);
    MC_ASSERT(status == 0);
}

mooncake_err mc_loop_create(uint32_t poll_us, struct mc_loop **out)
{
    struct mc_loop *loop = mc_calloc(1, sizeof(*loop));
    mooncake_err err = MOONCAKE_ENOMEM;
    int status;

    if (loop == NULL) {
        return MOONCAKE_ENOMEM;
    }
    loop->time = mc_calloc(1, sizeof(*loop->time));
    if (loop->time == NULL) {
        goto free_loop;
    }
    status = uv_loop_init(&loop->uv);
    if (status != 0) {
        err = mc_err_set(mc_err_from_uv(status), "cannot make an event loop: %s",
                         uv_strerror(status));
        goto free_time;
    }
    status = uv_async_init(&loop->uv, &loop->wake, mc_loop_on_wake);
    if (status != 0) {
        err = mc_err_set(mc_err_from_uv(status), "cannot make an event loop: %s",
                         uv_strerror(status));
        goto close_loop;
    }
    (void)uv_prepare_init(&loop->uv, &loop->prepare);
    (void)uv_prepare_start(&loop->prepare, mc_loop_on_prepare);
    (void)uv_idle_init(&loop->uv, &loop->idle);
    (void)uv_timer_init(&loop->uv, &loop->deadline);
    loop->wake.data = loop;
    loop->prepare.data = loop;
    loop->deadline.data = loop;
    mc_polling_init(&loop->polling, poll_us * MC_NS_PER_US);
    (void)pthread_mutex_init(&loop->lock, NULL);
    mc_list_init(&loop->posts);
    mc_loop_adopt(loop);
    *out = loop;
    return MOONCAKE_OK;

close_loop:
    close_uv(loop);
free_time:
    mc_free(loop->time);
free_loop:
    mc_free(loop);
    return err;
}

/* ---- time, ownership, posts ---------------------------------------------------------------- */

void mc_loop_adopt(struct mc_loop *loop)
{
    atomic_store_explicit(&loop->owner, (uintptr_t)pthread_self(), memory_order_release);
}

bool mc_loop_is_owner(const struct mc_loop *loop)
{
    return atomic_load_explicit(&loop->owner, memory_order_acquire) == (uintptr_t)pthread_self();
}

uint64_t mc_loop_now_ns(const struct mc_loop *loop)
{
    if (!loop->running) {
        return mc_monotonic_ns(); /* nothing would forget it before the loop is entered again */
    }
    if (loop->time->now_ns == 0) {
        loop->time->now_ns = mc_monotonic_ns();
    }
    return loop->time->now_ns;
}

struct uv_loop_s *mc_loop_uv(struct mc_loop *loop)
{
    return &loop->uv;
}

struct mc_loop_stats mc_loop_stats(const struct mc_loop *loop)
{
    const struct mc_loop_counters *c = &loop->stats;

    return (struct mc_loop_stats){
        .idle_poll_ns = mc_counter_get(&c->idle_poll_ns),
        .polls_found = mc_counter_get(&c->polls_found),
        .polls_missed = mc_counter_get(&c->polls_missed),
        .turns = mc_counter_get(&c->turns),
        .sleeps = mc_counter_get(&c->sleeps),
        .rests = mc_counter_get(&c->rests),
    };
}

struct mc_spent *mc_loop_spent(struct mc_loop *loop)
{
    return &loop->spent;
}

uint64_t mc_loop_cpu_ns(const struct mc_loop *loop)
{
    struct timespec spent = {0};
    clockid_t clock;

    if (pthread_getcpuclockid((pthread_t)atomic_load(&loop->owner), &clock) == 0) {
        (void)clock_gettime(clock, &spent);
    }
    return (uint64_t)spent.tv_sec * MC_NS_PER_S + (uint64_t)spent.tv_nsec;
}

void mc_loop_note_event(struct mc_loop *loop)
{
    loop->events++;
}

void mc_loop_post(struct mc_loop *loop, struct mc_post *post)
{
    bool must_wake;

    MC_ASSERT(post->run != NULL);
    (void)pthread_mutex_lock(&loop->lock);
    mc_list_add_tail(&loop->posts, &post->node);
    atomic_store_explicit(&loop->has_posts, true, memory_order_relaxed);
    must_wake = loop->may_sleep;
    loop->may_sleep = false; /* one wake is enough */
    if (must_wake) {
        /* Under the lock: the loop cannot be destroyed before this has been written. */
        MC_ASSERT(uv_async_send(&loop->wake) == 0);
    }
    (void)pthread_mutex_unlock(&loop->lock);
}

/* Run what was posted until now; what these post runs in the next turn. */
void mc_loop_run_posts(struct mc_loop *loop)
{
    struct mc_list ready;

    if (!atomic_load_explicit(&loop->has_posts, memory_order_relaxed)) {
        return;
    }
    mc_list_init(&ready);
    (void)pthread_mutex_lock(&loop->lock);
    mc_list_splice_tail(&ready, &loop->posts);
    atomic_store_explicit(&loop->has_posts, false, memory_order_relaxed);
    (void)pthread_mutex_unlock(&loop->lock);
    while (!mc_list_empty(&ready)) {
        struct mc_post *post = mc_list_first(&ready, struct mc_post, node);

        mc_list_drop(&post->node);
        mc_loop_note_event(loop);
        post->run(post); /* may free it */
    }
}

/* From now on a post wakes the loop. False if one is waiting already. */
bool mc_loop_allow_sleep(struct mc_loop *loop)
{
    bool empty;

    (void)pthread_mutex_lock(&loop->lock);
    empty = mc_list_empty(&loop->posts);
    loop->may_sleep = empty;
    (void)pthread_mutex_unlock(&loop->lock);
    return empty;
}

void mc_loop_forbid_sleep(struct mc_loop *loop)
{
    (void)pthread_mutex_lock(&loop->lock);
    loop->may_sleep = false;
    (void)pthread_mutex_unlock(&loop->lock);
}

/* ---- end ----------------------------------------------------------------------------------- */

/* What is left on a loop that is to end. */
struct census {
    const struct mc_loop *loop;
    unsigned closing;
    unsigned leaked;
};

static void count_handle(uv_handle_t *handle, void *arg)
{
    struct census *census = arg;
    const char *at = (const char *)handle;
    const char *own = (const char *)census->loop;

    if (at >= own && at < own + sizeof(*census->loop)) {
        return;
    }
    if (uv_is_closing(handle)) {
        census->closing++;
    } else {
        census->leaked++;
    }
}

static void log_leaked(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) {
        mc_log_error("loop.leak", "handle=%s", uv_handle_type_name(handle->type));
    }
}

/* Turn until nothing is closing, no request is under way and no post waits. */
static struct census run_down(struct mc_loop *loop)
{
    uint64_t give_up_ns = mc_monotonic_ns() + DESTROY_NS_MAX;
    struct census census;

    for (;;) {
        mc_loop_run_posts(loop);
        census = (struct census){.loop = loop};
        uv_walk(&loop->uv, count_handle, &census);
        if (census.closing == 0 && loop->uv.active_reqs.count == 0 &&
            !atomic_load(&loop->has_posts)) {
            return census;
        }
        MC_ASSERT(mc_monotonic_ns() < give_up_ns);
        /* The timer keeps a turn short: closing itself does not need one, a request may. */
        (void)uv_timer_start(&loop->deadline, mc_loop_on_deadline, 10, 0);
        (void)uv_run(&loop->uv, UV_RUN_ONCE);
        (void)uv_idle_stop(&loop->idle);
        loop->time->now_ns = 0;
    }
}

void mc_loop_destroy(struct mc_loop **loop_ptr)
{
    struct mc_loop *loop = *loop_ptr;
    struct census census;

    if (loop == NULL) {
        return;
    }
    MC_ASSERT(!loop->has_thread);
    MC_ASSERT_ON_LOOP(loop);
    MC_ASSERT(!loop->running);
    census = run_down(loop);
    if (census.leaked > 0) {
        uv_walk(&loop->uv, log_leaked, NULL);
    }
    MC_ASSERT(census.leaked == 0);
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->idle, NULL);
    uv_close((uv_handle_t *)&loop->deadline, NULL);
    for (size_t i = 0; loop->has_signals && i < MC_ARRAY_LEN(loop->signals); i++) {
        uv_close((uv_handle_t *)&loop->signals[i], NULL);
    }
    close_uv(loop);
    (void)pthread_mutex_destroy(&loop->lock);
    mc_free(loop->time);
    mc_free(loop);
    *loop_ptr = NULL;
}

/* ---- signals, errors ------------------------------------------------------------------------ */

static void signal_cb(uv_signal_t *signal, int signum)
{
    struct mc_loop *loop = signal->data;

    mc_loop_note_event(loop);
    loop->on_signal(loop->on_signal_arg, signum);
}

mooncake_err mc_loop_on_signal(struct mc_loop *loop, void (*fire)(void *arg, int signum), void *arg)
{
    static const int numbers[2] = {SIGTERM, SIGINT};
    int status = 0;

    MC_ASSERT_ON_LOOP(loop);
    MC_ASSERT(!loop->has_signals);
    loop->on_signal = fire;
    loop->on_signal_arg = arg;
    loop->has_signals = true;
    for (size_t i = 0; i < MC_ARRAY_LEN(numbers); i++) {
        (void)uv_signal_init(&loop->uv, &loop->signals[i]);
        loop->signals[i].data = loop;
        uv_unref((uv_handle_t *)&loop->signals[i]);
        status = status == 0 ? uv_signal_start(&loop->signals[i], signal_cb, numbers[i]) : status;
    }
    return status == 0 ? MOONCAKE_OK
                       : mc_err_set(mc_err_from_uv(status), "cannot watch SIGTERM and SIGINT: %s",
                                    uv_strerror(status));
}

mooncake_err mc_err_from_uv(int status)
{
    switch (status) {
    case UV_EAI_MEMORY:
        return MOONCAKE_ENOMEM;
    case UV_EOF:
    case UV_ECANCELED:
    case UV_EAI_ADDRFAMILY:
    case UV_EAI_AGAIN:
    case UV_EAI_CANCELED:
    case UV_EAI_FAIL:
    case UV_EAI_FAMILY:
    case UV_EAI_NODATA:
    case UV_EAI_NONAME:
    case UV_EAI_SERVICE:
        return MOONCAKE_ERPC;
    default:
        return mc_err_from_errno(-status);
    }
}
