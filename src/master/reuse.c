/*
 * Promises about descriptors.
 *
 * Design note: an object has five bits for this. They hold the number of the tick, an eighth of a
 * window, in which the latest promise was made, so that a promise is believed up to an eighth
 * longer than it lasts. Numbers come again after 30 ticks: a promise that ended long ago may look
 * alive then, which costs somebody a needless wait of at most a window and harms nothing.
 */
#include "master/reuse.h"

#define TICKS_PER_WINDOW 8u
#define TICKS 30u
#define NONE 0u
#define CLOSED 31u /* somebody waits to take it away */

void mc_reuse_init(struct mc_reuse *reuse, struct mc_core_env *env)
{
    *reuse = (struct mc_reuse){.env = env, .last_ns = env->now_ns};
    env->lost_ns = env->now_ns;
}

uint64_t mc_reuse_window_ms(const struct mc_reuse *reuse)
{
    const struct mc_core_options *options = &reuse->env->options;
    uint64_t const half_ms = options->lease_ms / 2;

    return options->reuse_ms < half_ms ? options->reuse_ms : half_ms;
}

static uint64_t window_ns(const struct mc_reuse *reuse)
{
    return mc_reuse_window_ms(reuse) * MC_NS_PER_MS;
}

static uint64_t tick_ns(const struct mc_reuse *reuse)
{
    return window_ns(reuse) / TICKS_PER_WINDOW + 1;
}

/* Nanoseconds from now until @p end_ns. */
static uint64_t left_ns(const struct mc_reuse *reuse, uint64_t end_ns)
{
    return end_ns > reuse->env->now_ns ? end_ns - reuse->env->now_ns : 0;
}

bool mc_reuse_promise(struct mc_reuse *reuse, struct mc_object *object)
{
    uint64_t const tick = reuse->env->now_ns / tick_ns(reuse);

    MC_ASSERT(mc_reuse_window_ms(reuse) > 0);
    MC_ASSERT(mc_object_leased(object, reuse->env->now_ns));
    if (object->promise == CLOSED) {
        return false;
    }
    object->promise = (uint8_t)(tick % TICKS + 1) & 0x1fu;
    reuse->last_ns = reuse->env->now_ns;
    MC_COUNT(reuse->env, reuse_promises, 1);
    return true;
}

uint64_t mc_reuse_all_ns(const struct mc_reuse *reuse)
{
    return left_ns(reuse, reuse->last_ns + window_ns(reuse));
}

uint64_t mc_reuse_close(struct mc_reuse *reuse, struct mc_object *object)
{
    uint64_t const tick = reuse->env->now_ns / tick_ns(reuse);
    uint64_t const any_ns = mc_reuse_all_ns(reuse);
    uint64_t since, wait_ns;

    if (any_ns == 0 || object->promise == NONE || !mc_object_leased(object, reuse->env->now_ns)) {
        return 0;
    }
    if (object->promise == CLOSED) {
        return any_ns; /* when is not remembered any more */
    }
    since = (tick % TICKS + TICKS - (object->promise - 1u)) % TICKS;
    if (since > TICKS_PER_WINDOW) {
        return 0;
    }
    wait_ns = left_ns(reuse, (tick - since + 1) * tick_ns(reuse) + window_ns(reuse));
    object->promise = CLOSED;
    return wait_ns < any_ns ? wait_ns : any_ns;
}

uint64_t mc_reuse_lost_ns(const struct mc_reuse *reuse)
{
    uint64_t const lost_ns = reuse->env->lost_ns;
    uint64_t const last_ns = reuse->last_ns < lost_ns ? reuse->last_ns : lost_ns;

    return left_ns(reuse, last_ns + window_ns(reuse));
}
