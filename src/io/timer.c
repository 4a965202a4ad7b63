/* Timers of a loop. */
#include <uv.h>

#include "base/mem.h"
#include "io/loop.h"

struct mc_timer {
    uv_timer_t uv;
    struct mc_loop *loop; /* borrowed */
    void (*fire)(void *arg);
    void *arg;
};

static void fire_cb(uv_timer_t *uv)
{
    struct mc_timer *timer = MC_CONTAINER_OF(uv, struct mc_timer, uv);

    timer->fire(timer->arg); /* may destroy it */
}

static void closed_cb(uv_handle_t *handle)
{
    mc_free(MC_CONTAINER_OF(handle, struct mc_timer, uv));
}

mooncake_err mc_timer_create(struct mc_loop *loop, void (*fire)(void *arg), void *arg,
                             struct mc_timer **out)
{
    struct mc_timer *timer = mc_malloc(sizeof(*timer));

    MC_ASSERT_ON_LOOP(loop);
    if (timer == NULL) {
        return MOONCAKE_ENOMEM;
    }
    timer->loop = loop;
    timer->fire = fire;
    timer->arg = arg;
    (void)uv_timer_init(mc_loop_uv(loop), &timer->uv);
    *out = timer;
    return MOONCAKE_OK;
}

void mc_timer_set(struct mc_timer *timer, uint64_t delay_ms, uint64_t repeat_ms)
{
    MC_ASSERT_ON_LOOP(timer->loop);
    /* libuv counts from its own idea of now, which is old if this loop was not run for a while. It
     * also cuts fractions off: one more keeps the timer from firing early. */
    uv_update_time(mc_loop_uv(timer->loop));
    delay_ms += delay_ms > 0 && delay_ms < UINT64_MAX ? 1 : 0;
    (void)uv_timer_start(&timer->uv, fire_cb, delay_ms, repeat_ms);
}

void mc_timer_clear(struct mc_timer *timer)
{
    MC_ASSERT_ON_LOOP(timer->loop);
    (void)uv_timer_stop(&timer->uv);
}

void mc_timer_destroy(struct mc_timer **timer_ptr)
{
    struct mc_timer *timer = *timer_ptr;

    if (timer == NULL) {
        return;
    }
    MC_ASSERT_ON_LOOP(timer->loop);
    uv_close((uv_handle_t *)&timer->uv, closed_cb);
    *timer_ptr = NULL;
}
