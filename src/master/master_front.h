/*
 * The side of the master that faces its peers: decode a request, have the core do it, encode the
 * answer, count. With --io_threads all but the doing is on threads of their own, each of which has
 * some of the connections (rpc/rpc_fronts.h); without, on the core loop.
 */
#ifndef MC_MASTER_MASTER_FRONT_H
#define MC_MASTER_MASTER_FRONT_H

#include "master/master_rpc.h"

/* Room for any request or reply struct. */
union mc_master_message {
#define MC_MASTER_MEMBERS_(number, NAME, name, request, reply)                                     \
    struct request name##_request;                                                                 \
    struct reply name##_reply;
    MC_METHOD_LIST(MC_MASTER_MEMBERS_)
#undef MC_MASTER_MEMBERS_
};

/* ---- what is asked for (master_rpc.c); on the core loop -------------------------------------- */

/** Do it, now or later; then one of the two below. */
void mc_master_do(struct mc_master *master, struct mc_rpc_request *request,
                  const union mc_master_message *message);

/* ---- the end of a request; on the core loop -------------------------------------------------- */

/** @p reply is copied; what it points to is the request's arena's, or constant. */
void mc_master_answer(struct mc_master *master, struct mc_rpc_request *request,
                      const union mc_master_message *reply);
/** The sentence of mooncake_last_error() goes along. */
void mc_master_refuse(struct mc_master *master, struct mc_rpc_request *request, mooncake_err err);

/* ---- threads --------------------------------------------------------------------------------- */

void mc_master_front_init(struct mc_master_front *front, struct mc_master *master);
/** Listen on @p address with @p count threads. Errors as of mc_rpc_server_open(). */
mooncake_err mc_master_fronts_open(struct mc_master *master, const char *address, unsigned count,
                                   uint32_t poll_us) MC_MUST_CHECK;

/* ---- counting (master_count.c) --------------------------------------------------------------- */

/* What one request came to. */
struct mc_master_outcome {
    mooncake_err err;
    size_t items, failed_items;
};

/** Of a reply that was made; a reply without statuses is one item, which went well. */
struct mc_master_outcome mc_master_outcome(enum mc_method method,
                                           const union mc_master_message *reply);
void mc_master_count(struct mc_method_metrics *metrics, struct mc_master_outcome outcome);
/** With its latency. */
void mc_master_tally(struct mc_master_rpc_metrics *metrics, const struct mc_rpc_request *request,
                     struct mc_master_outcome outcome);
/** Count a call whose kind is a method of its own in the C++ Mooncake. */
void mc_master_count_kind(struct mc_method_metrics *kind, mooncake_err err);

#endif
