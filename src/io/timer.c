/*
 * Timers of a loop.
 *
 * A delay of 0 is a post and no timer of libuv: version 1.44 fires a timer that its own callback
 * sets to 0 again and again before it looks at any descriptor, so that work which means to go on
 * after others were served would be done in one go.
 */
#include <uv.h>

#include "base/mem.h"
#include "io/loop.h"

struct mc_timer {
    uv_timer_t uv;
    struct mc_loop *loop; /* borrowed */
    void (*fire)(void *arg);
    void *arg;
    struct mc_post soon;
    bool soon_posted; /* holds the memory */
    bool soon_wanted; /* fire when the post runs */
    bool closed;
};

static void fire_cb(uv_timer_t *uv)
{
    struct mc_timer *timer = MC_CONTAINER_OF(uv, struct mc_timer, uv);

    timer->fire(timer->arg); /* may destroy it */
}

static void closed_cb(uv_handle_t *handle)
{
    struct mc_timer *timer = MC_CONTAINER_OF(handle, struct mc_timer, uv);

    timer->closed = true;
    if (!timer->soon_posted) {
        mc_free(timer);
    }
}

static void on_soon(struct mc_post *post)
{
    struct mc_timer *timer = MC_CONTAINER_OF(post, struct mc_timer, soon);

    timer->soon_posted = false;
    if (timer->closed) {
        mc_free(timer);
    } else if (timer->soon_wanted) {
        timer->soon_wanted = false;
        timer->fire(timer->arg); /* may destroy it */
    }
}

mooncake_err mc_timer_create(struct mc_loop *loop, void (*fire)(void *arg), void *arg,
                             struct mc_timer **out)
{
    struct mc_timer *timer = mc_calloc(1, sizeof(*timer));

    MC_ASSERT_ON_LOOP(loop);
    if (timer == NULL) {
        return MOONCAKE_ENOMEM;
    }
    timer->loop = loop;
    timer->soon.run = on_soon;
    timer->fire = fire;
    timer->arg = arg;
    (void)uv_timer_init(mc_loop_uv(loop), &timer->uv);
    *out = timer;
    return MOONCAKE_OK;
}

void mc_timer_set(struct mc_timer *timer, uint64_t delay_ms, uint64_t repeat_ms)
{
    MC_ASSERT_ON_LOOP(timer->loop);
    timer->soon_wanted = delay_ms == 0;
    if (timer->soon_wanted && !timer->soon_posted) {
        timer->soon_posted = true;
        mc_loop_post(timer->loop, &timer->soon);
    }
    if (delay_ms == 0 && repeat_ms == 0) {
        (void)uv_timer_stop(&timer->uv);
        return;
    }
    delay_ms = delay_ms == 0 ? repeat_ms : delay_ms;
    /* libuv counts from its own idea of now, which is old if this loop was not run for a while. It
     * also cuts fractions off: one more keeps the timer from firing early. */
    uv_update_time(mc_loop_uv(timer->loop));
    delay_ms += delay_ms < UINT64_MAX ? 1 : 0;
    (void)uv_timer_start(&timer->uv, fire_cb, delay_ms, repeat_ms);
}

void mc_timer_clear(struct mc_timer *timer)
{
    MC_ASSERT_ON_LOOP(timer->loop);
    timer->soon_wanted = false;
    (void)uv_timer_stop(&timer->uv);
}

void mc_timer_destroy(struct mc_timer **timer_ptr)
{
    struct mc_timer *timer = *timer_ptr;

    if (timer == NULL) {
        return;
    }
    MC_ASSERT_ON_LOOP(timer->loop);
    timer->soon_wanted = false;
    uv_close((uv_handle_t *)&timer->uv, closed_cb);
    *timer_ptr = NULL;
}
