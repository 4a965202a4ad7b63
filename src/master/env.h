/*
 * What every part of the core shares: the time of the call that is running, the options, the
 * counters. Owned by the core, borrowed by the parts.
 */
#ifndef MC_MASTER_ENV_H
#define MC_MASTER_ENV_H

#include <stdint.h>

#include "master/core.h"

struct mc_fates;

struct mc_core_env {
    struct mc_core_options options;
    struct mc_core_metrics metrics;
    /* Core time: the clock less the time of our own stalls, so that a stall moves every deadline.
     * Set at the entry of each call and constant during it. */
    uint64_t now_ns;
    /* When versions were last lost: with a segment, by damage, or with our own memory. */
    uint64_t lost_ns;
    struct mc_fates *fates;   /* the core's */
    enum mc_core_fault fault; /* tests only */
};

/* Only the core's thread writes these, so no locked instruction is needed. */
#define MC_COUNT(env, name, n) mc_counter_add_owner(&(env)->metrics.name, (uint64_t)(n))
#define MC_GAUGE(env, name, n)                                                                     \
    mc_gauge_set(&(env)->metrics.name, mc_gauge_get(&(env)->metrics.name) + (int64_t)(n))

/* How much a slice of background work, or the eviction inside one request, may still do. */
struct mc_budget {
    const struct mc_clock *clock;
    uint64_t end_ns;     /* on the clock's scale */
    uint32_t steps_left; /* bounds the work also when the clock stands still */
};

/** So many steps, and @p ns on the clock from now. */
void mc_budget_init(struct mc_budget *budget, const struct mc_clock *clock, uint32_t steps,
                    uint64_t ns);
/** Count one step (an object moved or dropped). False: stop. */
bool mc_budget_step(struct mc_budget *budget);
bool mc_budget_spent(const struct mc_budget *budget);

#endif
