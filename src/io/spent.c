/* Timing the turns of a loop, by kind of work. */
#include "io/spent.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"

static uint64_t thread_ns(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * MC_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* At random, or turns that come in a pattern would always find the same ones timed. */
static void choose_next(struct mc_spent *spent)
{
    uint64_t const range = 2 * (uint64_t)spent->turns_mean - 1; /* 1 to this: the mean is right */

    spent->random = spent->random * 6364136223846793005u + 1442695040888963407u;
    spent->turns_left = (uint32_t)(1 + (spent->random >> 33) % range);
}

void mc_spent_init(struct mc_spent *spent, uint32_t turns_mean)
{
    MC_ASSERT(turns_mean <= 1u << 20);
    memset(spent, 0, sizeof(*spent));
    spent->turns_mean = turns_mean;
    spent->random = mc_monotonic_ns();
    if (turns_mean != 0) {
        choose_next(spent);
    }
}

/* What was done until now has taken this long. */
static void book(struct mc_spent *spent)
{
    uint64_t const now_ns = thread_ns();
    uint64_t const ns = now_ns - spent->since_ns;

    if (ns > spent->read_ns) {
        mc_counter_add_owner(&spent->ns[spent->kind], (ns - spent->read_ns) * spent->turns_mean);
    }
    spent->since_ns = now_ns;
}

void mc_spent_turn_begin_(struct mc_spent *spent)
{
    uint64_t const start_ns = thread_ns();

    spent->since_ns = thread_ns();
    spent->read_ns = spent->since_ns - start_ns;
    spent->kind = MC_SPENT_LOOP;
    spent->timing = true;
}

void mc_spent_turn_end_(struct mc_spent *spent)
{
    book(spent);
    spent->timing = false;
    choose_next(spent);
}

enum mc_spent_kind mc_spend_(struct mc_spent *spent, enum mc_spent_kind kind)
{
    enum mc_spent_kind const was = spent->kind;

    if (kind != was) {
        book(spent);
        spent->kind = kind;
    }
    return was;
}
