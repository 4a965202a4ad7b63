/*
 * What this machine can do at all, measured in the same run: the figures of a pool are ratios to
 * these. A machine that is shared with others changes its pace, so what a case is compared with is
 * measured again just before and after it.
 *
 * Forks processes for the other ends of loopback sockets, which end with this one: first call it
 * before any client is opened. One thread.
 */
#ifndef MC_BENCH_LIMITS_H
#define MC_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MC_LIMITS_MESSAGE_LEN ((size_t)1 << 20)

/* Rates in bytes per second; 0: not measured. */
struct mc_limits {
    bool measured;       /* all of them */
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

/* What can be looked at again. */
enum mc_limits_kind {
    MC_LIMITS_COPY = 1,   /* fused_rate: 30 ms */
    MC_LIMITS_STREAM = 2, /* stream_rate and stream2_rate: 200 ms */
    MC_LIMITS_TRIP = 4,   /* trip_p50_ns: 40 ms */
    MC_LIMITS_ASK = 8,    /* mib_rate, mib_p50_ns: 40 ms */
};

/** All of them; about four seconds. False: @p why says what the system refused. */
bool mc_limits_measure(struct mc_limits *out, char *why, size_t why_len);

/** Those of @p kinds (mc_limits_kind or-ed together), as they are at this moment. What fails, and
 * all others, are 0. */
void mc_limits_look(unsigned kinds, struct mc_limits *out);

#endif
