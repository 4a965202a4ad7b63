/* How far a call has come that answers only at its end. */
#ifndef MC_CTL_PROGRESS_H
#define MC_CTL_PROGRESS_H

#include "ctl.h"

struct mc_progress;

/**
 * Show on a terminal, in a line that is drawn anew, how many keys the client's removal has
 * removed. Elsewhere, and under --json, nothing. Asks the pool from a thread of its own.
 */
struct mc_progress *mc_progress_begin(const struct mc_ctl *ctl);
/** The line goes. NULL allowed. */
void mc_progress_end(struct mc_progress **progress);

#endif
