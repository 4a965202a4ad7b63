/*
 * Requests to the core and answers back: decode, one call below, encode. And what is counted on the
 * way, per method.
 */
#ifndef MC_MASTER_MASTER_RPC_H
#define MC_MASTER_MASTER_RPC_H

#include "base/metric.h"
#include "rpc/rpc_server.h"
#include "wire/methods.h"

/* Of one method. A request of one item counts as single, any other as a batch. An item that fails
 * is one whose status is an error; of Exist, "not there" is an answer and no failure. */
struct mc_method_metrics {
    struct mc_counter single_requests, single_failures;
    struct mc_counter batch_requests, batch_failures; /* failed: as a whole, or in every item */
    struct mc_counter batch_partial;                  /* some items failed */
    struct mc_counter batch_items, batch_failed_items;
    struct mc_histogram latency; /* from the request's arrival to its reply, in seconds */
};

struct mc_master_rpc_metrics {
    struct mc_method_metrics methods[MC_METHOD_NUMBER_MAX + 1];
    /* Calls of these methods that are calls of their own in the C++ Mooncake. */
    struct mc_method_metrics list_by_regex, remove_by_regex, remount;
    struct mc_counter undecodable, unknown_methods, hellos_refused;
};

void mc_master_rpc_metrics_init(struct mc_master_rpc_metrics *metrics);
/** Add what @p from has counted. */
void mc_master_rpc_metrics_add(struct mc_master_rpc_metrics *to,
                               const struct mc_master_rpc_metrics *from);

struct mc_master;

/* Of one thread that has connections: the argument of what is called there. */
struct mc_master_front {
    struct mc_master *master; /* borrowed; another thread's, if there are threads for connections */
    struct mc_master_rpc_metrics metrics;
};

/** Refuse the requests that still wait for something: the master is closing. */
void mc_master_rpc_end_waiting(struct mc_master *master);

/** For mc_rpc_server_open(), with a struct mc_master_front as argument. */
extern const struct mc_rpc_server_ops mc_master_rpc_ops;

/** A peer's first words (master_hello.c); rpc_server.h says what is expected of it. */
mooncake_err mc_master_on_hello(void *arg, struct mc_rpc_conn *conn, const uint8_t *body,
                                size_t body_len, struct mc_buf *out) MC_MUST_CHECK;

#endif
