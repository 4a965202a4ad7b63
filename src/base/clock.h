/*
 * Time behind a struct, so that tests and the simulation can hold it still. Monotonic time decides
 * everything; wall time is only printed.
 */
#ifndef MC_BASE_CLOCK_H
#define MC_BASE_CLOCK_H

#include <stdint.h>

#define MC_NS_PER_US 1000ull
#define MC_NS_PER_MS 1000000ull
#define MC_NS_PER_S 1000000000ull

/** A source of time. Objects that need time borrow one for their life. */
struct mc_clock {
    uint64_t (*now_ns)(const struct mc_clock *clock); /* monotonic, any starting point, never 0 */
};

/** The kernel's CLOCK_MONOTONIC. Any thread. */
const struct mc_clock *mc_clock_system(void);

/** A clock that stands still until told: for tests. now_ns must not be 0 at the start. */
struct mc_clock_fake {
    struct mc_clock clock;
    uint64_t now_ns;
};
void mc_clock_fake_init(struct mc_clock_fake *fake, uint64_t now_ns);

static inline uint64_t mc_now_ns(const struct mc_clock *clock)
{
    return clock->now_ns(clock);
}

/** CLOCK_MONOTONIC in nanoseconds. */
uint64_t mc_monotonic_ns(void);
/** Microseconds since 1970, for logs and answers to people. */
uint64_t mc_wall_us(void);

/** @p now_ns + @p ms, without wrapping. */
uint64_t mc_deadline_ns(uint64_t now_ns, uint64_t ms);
/** Whole milliseconds from @p now_ns until @p deadline_ns, rounded up; 0 when it has passed. */
uint64_t mc_left_ms(uint64_t now_ns, uint64_t deadline_ns);

#endif
