/*
 * Does it pay to poll between two pieces of work? Learnt from how it went. Pure: no clock, no loop.
 *
 * A gap is the time from one piece of work to the next. Polling through its first part finds work
 * that comes soon, at the price of a core, and finds nothing if the work comes late. It pays as
 * long as what is polled, per piece of work found, is on average no more than the window: a loop
 * that finds work in most gaps polls, one that finds some in a few stops, and tries again after 1,
 * 2, 4, ... gaps.
 */
#ifndef MC_IO_POLLING_H
#define MC_IO_POLLING_H

#include <stdbool.h>
#include <stdint.h>

/* Gaps slept through before polling is tried again, at most. */
#define MC_POLLING_SKIP_MAX 256u

struct mc_polling {
    uint64_t window_ns; /* longest polling in one gap; 0: none */
    uint64_t cost_ns;   /* moving average of what was polled in a gap */
    uint32_t found;     /* moving average of how many ended inside it, in 1/1024 of a gap */
    uint32_t skip;      /* gaps to sleep through from here; 0: poll */
    uint32_t skip_len;  /* how many it was the last time; 0: it has paid for long */
    uint32_t paid;      /* gaps since then */
    bool trial;         /* the averages are old: the next gap alone decides */
};

void mc_polling_init(struct mc_polling *polling, uint64_t window_ns);
/** How long to poll in the gap that begins now. */
uint64_t mc_polling_window(const struct mc_polling *polling);
/** Work was found after @p polled_ns of looking in vain. */
void mc_polling_found(struct mc_polling *polling, uint64_t polled_ns);
/** @p polled_ns were polled for nothing. */
void mc_polling_missed(struct mc_polling *polling, uint64_t polled_ns);
/** Nothing was polled in a gap that has taken @p gap_ns. */
void mc_polling_slept(struct mc_polling *polling, uint64_t gap_ns);

#endif
