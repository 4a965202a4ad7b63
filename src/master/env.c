/* Budgets of work. */
#include "master/env.h"

/* Steps between two looks at the clock: a step is well below 1 us. */
#define STEPS_PER_LOOK 32u

void mc_budget_init(struct mc_budget *budget, const struct mc_clock *clock, uint32_t steps,
                    uint64_t ns)
{
    budget->clock = clock;
    budget->end_ns = mc_now_ns(clock) + ns;
    budget->steps_left = steps;
}

bool mc_budget_step(struct mc_budget *budget)
{
    if (budget->steps_left == 0) {
        return false;
    }
    budget->steps_left--;
    if (budget->steps_left % STEPS_PER_LOOK == 0 && mc_now_ns(budget->clock) >= budget->end_ns) {
        budget->steps_left = 0;
    }
    return true;
}

bool mc_budget_spent(const struct mc_budget *budget)
{
    return budget->steps_left == 0;
}
