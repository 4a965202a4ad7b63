/* Clocks. */
#include "base/clock.h"

#include <time.h>

#include "base/assert.h"

uint64_t mc_monotonic_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * MC_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t mc_wall_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000ull + (uint64_t)ts.tv_nsec / MC_NS_PER_US;
}

static uint64_t system_now_ns(const struct mc_clock *clock)
{
    (void)clock;
    return mc_monotonic_ns();
}

const struct mc_clock *mc_clock_system(void)
{
    static const struct mc_clock system = {.now_ns = system_now_ns};

    return &system;
}

static uint64_t fake_now_ns(const struct mc_clock *clock)
{
    return ((const struct mc_clock_fake *)(const void *)clock)->now_ns;
}

void mc_clock_fake_init(struct mc_clock_fake *fake, uint64_t now_ns)
{
    MC_ASSERT(now_ns != 0);
    fake->clock.now_ns = fake_now_ns;
    fake->now_ns = now_ns;
}

uint64_t mc_deadline_ns(uint64_t now_ns, uint64_t ms)
{
    if (ms > (UINT64_MAX - now_ns) / MC_NS_PER_MS) {
        return UINT64_MAX;
    }
    return now_ns + ms * MC_NS_PER_MS;
}

uint64_t mc_left_ms(uint64_t now_ns, uint64_t deadline_ns)
{
    if (deadline_ns <= now_ns) {
        return 0;
    }
    return (deadline_ns - now_ns - 1) / MC_NS_PER_MS + 1;
}
