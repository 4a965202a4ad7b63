/* A loop that is checked for what it leaves behind. */
#ifndef MC_TESTS_LOOP_FIXTURE_H
#define MC_TESTS_LOOP_FIXTURE_H

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/loop.h"

#define WAIT_NS (60 * MC_NS_PER_S)

static inline uint64_t in_ms(uint64_t ms)
{
    return mc_deadline_ns(mc_monotonic_ns(), ms);
}

/* Let so much time pass: it is the clock that is waited for. */
static inline void stand_still(uint64_t ms)
{
    const uint64_t until_ns = in_ms(ms);

    while (mc_monotonic_ns() < until_ns) {
        (void)sched_yield();
    }
}

static inline struct mc_loop *open_loop(uint32_t poll_us)
{
    struct mc_loop *loop = NULL;

    assert_int_equal(mc_mem_live_count(), 0);
    assert_int_equal(mc_loop_create(poll_us, &loop), MOONCAKE_OK);
    return loop;
}

static inline void close_loop(struct mc_loop *loop)
{
    mc_loop_destroy(&loop);
    assert_null(loop);
    assert_int_equal(mc_mem_live_count(), 0);
}

static inline void run_until(struct mc_loop *loop, const bool *flag)
{
    assert_int_equal(mc_loop_run_until(loop, flag, mc_monotonic_ns() + WAIT_NS), MOONCAKE_OK);
}

#endif
