/* The monotonic clock in nanoseconds. */
#ifndef MC_BENCH_TIMING_H
#define MC_BENCH_TIMING_H

#include <stdint.h>
#include <time.h>

static inline uint64_t mc_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
