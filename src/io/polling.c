/* The averages forget half of what they know in five gaps or so: a change of the load is seen at
 * once, and one odd gap changes nothing. */
#include "io/polling.h"

#include "base/assert.h"

#define WHOLE 1024u
#define WEIGHT 8
/* So many gaps in a row for which polling paid, and its failures are forgotten. */
#define PAID_LONG 64u

static void start_afresh(struct mc_polling *polling, uint64_t cost_ns)
{
    polling->cost_ns = cost_ns;
    polling->found = WHOLE;
    polling->paid = 0;
    polling->trial = false;
}

void mc_polling_init(struct mc_polling *polling, uint64_t window_ns)
{
    *polling = (struct mc_polling){.window_ns = window_ns};
    start_afresh(polling, 0);
}

uint64_t mc_polling_window(const struct mc_polling *polling)
{
    return polling->skip > 0 ? 0 : polling->window_ns;
}

static void give_up_for_a_while(struct mc_polling *polling)
{
    polling->skip_len = polling->skip_len == 0 ? 1 : polling->skip_len * 2;
    if (polling->skip_len > MC_POLLING_SKIP_MAX) {
        polling->skip_len = MC_POLLING_SKIP_MAX;
    }
    polling->skip = polling->skip_len;
    polling->trial = true;
}

static void judge(struct mc_polling *polling)
{
    /* Windows are at most seconds and found at most 1024: nothing wraps. */
    if (polling->cost_ns > polling->window_ns * polling->found / WHOLE) {
        give_up_for_a_while(polling);
    } else if (++polling->paid >= PAID_LONG) {
        polling->skip_len = 0;
        polling->paid = 0;
    }
}

void mc_polling_found(struct mc_polling *polling, uint64_t polled_ns)
{
    MC_ASSERT(polling->window_ns > 0);
    if (polling->trial) {
        start_afresh(polling, polled_ns < polling->window_ns ? polled_ns : polling->window_ns);
        return;
    }
    polling->cost_ns = (polling->cost_ns * (WEIGHT - 1) + polled_ns) / WEIGHT;
    polling->found = (polling->found * (WEIGHT - 1) + WHOLE) / WEIGHT;
    judge(polling);
}

void mc_polling_missed(struct mc_polling *polling, uint64_t polled_ns)
{
    MC_ASSERT(polling->window_ns > 0);
    if (polling->trial) {
        give_up_for_a_while(polling);
        return;
    }
    polling->cost_ns = (polling->cost_ns * (WEIGHT - 1) + polled_ns) / WEIGHT;
    polling->found = polling->found * (WEIGHT - 1) / WEIGHT;
    judge(polling);
}

void mc_polling_slept(struct mc_polling *polling, uint64_t gap_ns)
{
    if (polling->skip == 0) {
        return;
    }
    /* Work that comes inside the window even though we slept is what polling would have found. */
    polling->skip = gap_ns < polling->window_ns ? 0 : polling->skip - 1;
}
