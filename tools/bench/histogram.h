/* Latencies in nanoseconds: 64 steps an octave, so that a percentile is right to 1 %. */
#ifndef MC_BENCH_HISTOGRAM_H
#define MC_BENCH_HISTOGRAM_H

#include <stdint.h>

#define MC_HISTOGRAM_STEP_BITS 6u
#define MC_HISTOGRAM_STEPS (1u << MC_HISTOGRAM_STEP_BITS)
/* Up to 2^40 ns, 18 minutes; what is longer counts as that. */
#define MC_HISTOGRAM_OCTAVES 35u

struct mc_histogram {
    uint64_t count, sum, max;
    uint64_t steps[MC_HISTOGRAM_OCTAVES * MC_HISTOGRAM_STEPS];
};

void mc_histogram_add(struct mc_histogram *histogram, uint64_t ns);
/** Add what @p from holds. */
void mc_histogram_merge(struct mc_histogram *histogram, const struct mc_histogram *from);
/** The value that a share of 0 to 1 of all do not exceed; 0 if there is none. */
uint64_t mc_histogram_at(const struct mc_histogram *histogram, double share);

#endif
