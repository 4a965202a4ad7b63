/*
 * This process as a member of the pool: a thread that pings the master, and serves the segment
 * that the client lends, if any. Calls do not need it: they have engines of their own.
 */
#ifndef MC_CLIENT_SESSION_H
#define MC_CLIENT_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "store/store_serve.h"

struct mc_session;

/**
 * Join the pool: returns when the master has answered and the segments are mounted. @p options
 * are borrowed for the call; on_state and arg are set here. On an error (the first that joining
 * meets) nothing is left behind; ETIMEDOUT at the deadline, ECANCELED by the interrupt hook.
 */
mooncake_err mc_session_open(const struct mc_store_options *options, uint64_t deadline_ns,
                             struct mc_session **out) MC_MUST_CHECK;
/** Name of the segment, or the host's. As long as the session. */
const char *mc_session_name(const struct mc_session *session);
/**
 * Leave the pool: nothing new is placed in the segments, reads are served for @p grace_ms, then
 * they are unmounted. Returns then; ECANCELED if the interrupt hook asks for it first, ETIMEDOUT a
 * minute after the grace: leaving goes on. At most once; only mc_session_close() may follow.
 */
mooncake_err mc_session_leave(struct mc_session *session, uint64_t grace_ms) MC_MUST_CHECK;
/** Leave the pool; a few seconds at most. The interrupt hook ends the waiting: then the master
 * finds out by silence. Nulls *session. */
void mc_session_close(struct mc_session **session);

#endif
