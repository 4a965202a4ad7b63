/*
 * How busy the master's threads were lately: the share of a processor that each used, polling in
 * vain left out. Looked at twice, ten seconds or more apart. Thread: the core loop.
 */
#ifndef MC_MASTER_MASTER_BUSY_H
#define MC_MASTER_MASTER_BUSY_H

#include <stdint.h>

#include "base/limits.h"

/* What the threads had used at some time: the core loop, then the others. */
struct mc_busy_mark {
    uint64_t at_ns; /* monotonic; 0: never */
    uint64_t used_ns[1 + MC_IO_THREADS_MAX];
};

struct mc_busy {
    struct mc_busy_mark older, newer;
};

struct mc_master;

/* Lately. */
struct mc_master_busy {
    uint64_t span_ms; /* 0: too short to tell */
    unsigned io_threads;
    uint32_t core_permille, io_permille; /* the latter of the busiest */
};

/** Begin a new span; the last one goes on to count. Each MC_HISTORY_STEP_MS. */
void mc_master_busy_note(struct mc_master *master);
/** Of a thread, 0 the core loop, since the older mark; 0 at first. */
uint32_t mc_master_thread_permille(const struct mc_master *master, unsigned index);
void mc_master_busy(const struct mc_master *master, struct mc_master_busy *out);

#endif
