/* What is counted of control calls, per method. */
#include <string.h>

#include "base/clock.h"
#include "master/master_front.h"

static const double latency_bounds[] = {10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3,
                                        2e-3,  5e-3,  10e-3, 50e-3,  100e-3, 1.0,    10.0};

void mc_master_rpc_metrics_init(struct mc_master_rpc_metrics *metrics)
{
    size_t i;

    memset(metrics, 0, sizeof(*metrics));
    for (i = 0; i < MC_ARRAY_LEN(metrics->methods); i++) {
        mc_histogram_init(&metrics->methods[i].latency, latency_bounds,
                          MC_ARRAY_LEN(latency_bounds), 1e9);
    }
}

static void add_method(struct mc_method_metrics *to, const struct mc_method_metrics *from)
{
    mc_counter_add_owner(&to->single_requests, mc_counter_get(&from->single_requests));
    mc_counter_add_owner(&to->single_failures, mc_counter_get(&from->single_failures));
    mc_counter_add_owner(&to->batch_requests, mc_counter_get(&from->batch_requests));
    mc_counter_add_owner(&to->batch_failures, mc_counter_get(&from->batch_failures));
    mc_counter_add_owner(&to->batch_partial, mc_counter_get(&from->batch_partial));
    mc_counter_add_owner(&to->batch_items, mc_counter_get(&from->batch_items));
    mc_counter_add_owner(&to->batch_failed_items, mc_counter_get(&from->batch_failed_items));
    mc_histogram_add(&to->latency, &from->latency);
}

void mc_master_rpc_metrics_add(struct mc_master_rpc_metrics *to,
                               const struct mc_master_rpc_metrics *from)
{
    for (size_t i = 0; i < MC_ARRAY_LEN(to->methods); i++) {
        add_method(&to->methods[i], &from->methods[i]);
    }
    add_method(&to->list_by_regex, &from->list_by_regex);
    add_method(&to->remove_by_regex, &from->remove_by_regex);
    add_method(&to->remount, &from->remount);
    mc_counter_add_owner(&to->undecodable, mc_counter_get(&from->undecodable));
    mc_counter_add_owner(&to->unknown_methods, mc_counter_get(&from->unknown_methods));
    mc_counter_add_owner(&to->hellos_refused, mc_counter_get(&from->hellos_refused));
}

static size_t count_failed(enum mc_method method, const mooncake_err *statuses, size_t count)
{
    mooncake_err harmless = method == MC_METHOD_EXIST ? MOONCAKE_ENOENT : MOONCAKE_OK;
    size_t failed = 0, i;

    for (i = 0; i < count; i++) {
        failed += (size_t)(statuses[i] != MOONCAKE_OK) & (size_t)(statuses[i] != harmless);
    }
    return failed;
}

struct mc_master_outcome mc_master_outcome(enum mc_method method,
                                           const union mc_master_message *reply)
{
    const mooncake_err *statuses = NULL;
    size_t count = 1;

    switch (method) {
    case MC_METHOD_PUT_START:
        statuses = reply->put_start_reply.statuses;
        count = reply->put_start_reply.table.count;
        break;
    case MC_METHOD_QUERY:
        statuses = reply->query_reply.statuses;
        count = reply->query_reply.table.count;
        break;
    case MC_METHOD_EXIST:
        statuses = reply->exist_reply.statuses;
        count = reply->exist_reply.count;
        break;
    case MC_METHOD_RENEW:
        statuses = reply->renew_reply.statuses;
        count = reply->renew_reply.count;
        break;
    case MC_METHOD_PUT_END:
    case MC_METHOD_PUT_REVOKE:
    case MC_METHOD_REMOVE:
    case MC_METHOD_REPORT:
    case MC_METHOD_MOUNT:
    case MC_METHOD_UNMOUNT:
        statuses = reply->put_end_reply.statuses;
        count = reply->put_end_reply.count;
        break;
    case MC_METHOD_HELLO:
    case MC_METHOD_REMOVE_ALL:
    case MC_METHOD_PING:
    case MC_METHOD_LIST_KEYS:
    case MC_METHOD_LIST_SEGMENTS:
    case MC_METHOD_LIST_CLIENTS:
    case MC_METHOD_POOL_STATUS:
    case MC_METHOD_DESCRIBE_KEY:
    case MC_METHOD_CONFIG:
    case MC_METHOD_SPACE:
    case MC_METHOD_WHY_MISS:
    case MC_METHOD_DRAIN:
    case MC_METHOD_SOLE_KEYS:
    case MC_METHOD_ATTACH:
        break;
    }
    return (struct mc_master_outcome){
        .err = MOONCAKE_OK,
        .items = count,
        .failed_items = statuses == NULL ? 0 : count_failed(method, statuses, count)};
}

void mc_master_count(struct mc_method_metrics *metrics, struct mc_master_outcome outcome)
{
    bool failed =
        outcome.err != MOONCAKE_OK || (outcome.items > 0 && outcome.failed_items == outcome.items);

    if (outcome.items == 1) {
        mc_counter_add_owner(&metrics->single_requests, 1);
        mc_counter_add_owner(&metrics->single_failures, failed ? 1 : 0);
    } else {
        mc_counter_add_owner(&metrics->batch_requests, 1);
        mc_counter_add_owner(&metrics->batch_failures, failed ? 1 : 0);
        mc_counter_add_owner(&metrics->batch_partial, !failed && outcome.failed_items > 0 ? 1 : 0);
        mc_counter_add_owner(&metrics->batch_items, outcome.items);
        mc_counter_add_owner(&metrics->batch_failed_items, outcome.failed_items);
    }
}

void mc_master_tally(struct mc_master_rpc_metrics *metrics, const struct mc_rpc_request *request,
                     struct mc_master_outcome outcome)
{
    struct mc_method_metrics *method = &metrics->methods[request->method];

    mc_master_count(method, outcome);
    mc_histogram_observe_owner(&method->latency, mc_monotonic_ns() - request->started_ns);
}

void mc_master_count_kind(struct mc_method_metrics *kind, mooncake_err err)
{
    mc_master_count(kind, (struct mc_master_outcome){
                              .err = err, .items = 1, .failed_items = err == MOONCAKE_OK ? 0 : 1});
}
