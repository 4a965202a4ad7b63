/* Clocks in nanoseconds: the monotonic one, and those of CPU time. */
#ifndef MC_BENCH_TIMING_H
#define MC_BENCH_TIMING_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

static inline uint64_t mc_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What the calling thread has used. */
static inline uint64_t mc_thread_cpu_ns(void)
{
    struct timespec used = {0, 0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* What process @p pid has used; 0 if there is none. */
static inline uint64_t mc_process_cpu_ns(pid_t pid)
{
    struct timespec used = {0, 0};
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) {
        return 0;
    }
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

#endif
