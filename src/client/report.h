/* Telling the master what a transfer has found out: stores that cannot be reached, damage. */
#ifndef MC_CLIENT_REPORT_H
#define MC_CLIENT_REPORT_H

#include "client/call.h"

/**
 * A transfer to or from this extent has failed with @p err: suspect its store for a while, and
 * tell the master, as far as either is called for. Nobody waits for the master's answer; a report
 * while another is on its way is dropped, because whoever fails again will report again.
 *
 * @param idle_ms  how long nothing had moved, for ETIMEDOUT
 */
void mc_report_failure(struct mc_call *call, const struct mc_xfer_op *op, const struct mc_key *key,
                       uint64_t idle_ms);

#endif
