/* Telling the master what a transfer has found out: stores that cannot be reached, damage. */
#ifndef MC_CLIENT_REPORT_H
#define MC_CLIENT_REPORT_H

#include "client/call.h"

/**
 * A transfer to or from this extent has failed with @p err: suspect its store for a while, and
 * tell the master, as far as either is called for. Nobody waits for the master's answer. Damage is
 * told at the end of the call, stores that fail at once, or when the report before has arrived.
 *
 * @param idle_ms  how long nothing had moved, for ETIMEDOUT
 */
void mc_report_failure(struct mc_call *call, const struct mc_xfer_op *op, const struct mc_key *key,
                       uint64_t idle_ms);
/** The end of a call: tell what has been found and not yet told. */
void mc_report_flush(struct mc_call *call);

#endif
