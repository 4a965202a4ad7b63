/*
 * What this machine can do at all, measured in the same run: the figures of a pool are ratios to
 * these. Forks a process for the other end of the loopback sockets; call it before any client is
 * opened.
 */
#ifndef MC_BENCH_LIMITS_H
#define MC_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MC_LIMITS_MESSAGE_LEN ((size_t)1 << 20)

/* Rates in bytes per second. */
struct mc_limits {
    bool measured;
    double memcpy_rate;  /* out of any cache */
    double fused_rate;   /* copy and xxh3 in one pass, block by block */
    double xxh3_rate;    /* checksum alone, out of any cache */
    double stream_rate;  /* TCP over loopback between two processes, 1 MiB at a time */
    double stream2_rate; /* the same over two connections at a time, to one thread */
    double mib_rate;     /* a byte asks for 1 MiB, one at a time */
    uint64_t mib_p50_ns; /* the same, time of one */
    uint64_t trip_p50_ns, trip_p99_ns; /* one byte to another processor and back; both ends sleep */
    uint64_t polled_trip_p50_ns;       /* the same while both ends poll */
};

/**
 * One thread's copy with its checksum as it goes at this moment: a machine that is shared gives its
 * memory's width by turns, so a rate of copies is compared with what was measured beside it. Best
 * of three passes over memory that stays allocated; 30 ms. 0: there is no memory.
 */
double mc_limits_copy_now(void);

/** About three seconds. False: @p why says what the system refused. */
bool mc_limits_measure(struct mc_limits *out, char *why, size_t why_len);

#endif
