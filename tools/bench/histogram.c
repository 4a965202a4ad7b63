/* Octaves cut into equal steps; values below the number of steps are exact. */
#include "histogram.h"

#define STEPS MC_HISTOGRAM_STEPS
#define BITS MC_HISTOGRAM_STEP_BITS

static uint32_t step_of(uint64_t ns)
{
    uint32_t octave;

    if (ns < STEPS) {
        return (uint32_t)ns;
    }
    octave = 64u - BITS - (uint32_t)__builtin_clzll(ns); /* 1 for STEPS to 2 * STEPS - 1 */
    if (octave >= MC_HISTOGRAM_OCTAVES) {
        return MC_HISTOGRAM_OCTAVES * STEPS - 1;
    }
    return octave * STEPS + (uint32_t)(ns >> (octave - 1)) - STEPS;
}

/* The middle of a step. */
static uint64_t value_of(uint32_t step)
{
    uint32_t octave = step / STEPS;

    if (octave == 0) {
        return step;
    }
    return ((uint64_t)(step % STEPS + STEPS) << (octave - 1)) + ((1ull << (octave - 1)) >> 1);
}

void mc_histogram_add(struct mc_histogram *histogram, uint64_t ns)
{
    histogram->count++;
    histogram->sum += ns;
    histogram->max = ns > histogram->max ? ns : histogram->max;
    histogram->steps[step_of(ns)]++;
}

void mc_histogram_merge(struct mc_histogram *histogram, const struct mc_histogram *from)
{
    histogram->count += from->count;
    histogram->sum += from->sum;
    histogram->max = from->max > histogram->max ? from->max : histogram->max;
    for (uint32_t i = 0; i < MC_HISTOGRAM_OCTAVES * STEPS; i++) {
        histogram->steps[i] += from->steps[i];
    }
}

uint64_t mc_histogram_at(const struct mc_histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)histogram->count + 0.9999999);
    uint64_t seen = 0;

    for (uint32_t i = 0; i < MC_HISTOGRAM_OCTAVES * STEPS; i++) {
        seen += histogram->steps[i];
        if (seen >= wanted && histogram->steps[i] > 0) {
            uint64_t value = value_of(i);

            return value < histogram->max ? value : histogram->max;
        }
    }
    return histogram->max;
}
