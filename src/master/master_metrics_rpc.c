/* Metrics of the control calls: per method, and what was refused. */
#include "master/master_metrics.h"

static const unsigned methods[] = {
#define NUMBER(number, NAME, name, request, reply) (number),
    MC_METHOD_LIST(NUMBER)
#undef NUMBER
};

uint64_t mc_method_requests(const struct mc_method_metrics *m)
{
    return mc_counter_get(&m->single_requests) + mc_counter_get(&m->batch_requests);
}

uint64_t mc_method_failures(const struct mc_method_metrics *m)
{
    return mc_counter_get(&m->single_failures) + mc_counter_get(&m->batch_failures);
}

uint64_t mc_method_items(const struct mc_method_metrics *m)
{
    return mc_counter_get(&m->single_requests) + mc_counter_get(&m->batch_items);
}

uint64_t mc_method_failed_items(const struct mc_method_metrics *m)
{
    return mc_counter_get(&m->single_failures) + mc_counter_get(&m->batch_failed_items);
}

mooncake_err mc_metrics_methods(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    static const struct {
        const char *name, *help;
        uint64_t (*value)(const struct mc_method_metrics *metrics);
    } counters[] = {
        {"mooncake_master_rpc_requests_total", "Requests", mc_method_requests},
        {"mooncake_master_rpc_failures_total", "Requests that failed as a whole or in every item",
         mc_method_failures},
        {"mooncake_master_rpc_items_total", "Items in requests", mc_method_items},
        {"mooncake_master_rpc_failed_items_total", "Items that failed", mc_method_failed_items},
    };
    const struct mc_master_rpc_metrics *rpc = page->requests;
    const char *pair[3];
    size_t c, i;

    (void)again;
    for (c = 0; c < MC_ARRAY_LEN(counters); c++) {
        MC_TRY(mc_metric_print_head(out, counters[c].name, "counter", counters[c].help));
        for (i = 0; i < MC_ARRAY_LEN(methods); i++) {
            MC_TRY(mc_metric_print_u64(out, counters[c].name,
                                       mc_metrics_label(pair, "method", mc_method_name(methods[i])),
                                       counters[c].value(&rpc->methods[methods[i]])));
        }
    }
    return MOONCAKE_OK;
}

/* A method a part: each has some seventeen lines. */
mooncake_err mc_metrics_latency(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    static const char name[] = "mooncake_master_rpc_latency_seconds";
    const unsigned method = methods[page->at];
    const char *pair[3];

    if (page->at == 0) {
        MC_TRY(mc_metric_print_head(out, name, "histogram",
                                    "Time from a request's arrival to its answer"));
    }
    MC_TRY(mc_metric_print_histogram(out, name,
                                     mc_metrics_label(pair, "method", mc_method_name(method)),
                                     &page->requests->methods[method].latency));
    page->at++;
    *again = page->at < MC_ARRAY_LEN(methods);
    return MOONCAKE_OK;
}

mooncake_err mc_metrics_rejected(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    static const char name[] = "mooncake_master_rpc_rejected_total";
    const struct mc_rpc_server_stats stats = mc_master_connections(page->master);
    const struct mc_master_rpc_metrics *rpc = page->requests;
    const struct {
        const char *reason;
        const struct mc_counter *value;
    } reasons[] = {
        {"connection", &stats.refused},
        {"hello", &rpc->hellos_refused},
        {"bad_frame", &stats.bad_frames},
        {"unknown_method", &rpc->unknown_methods},
    };
    const char *pair[3];
    size_t i;

    (void)again;
    MC_TRY(
        mc_metric_print_head(out, name, "counter", "Connections and requests refused, by reason"));
    for (i = 0; i < MC_ARRAY_LEN(reasons); i++) {
        MC_TRY(mc_metric_print_u64(out, name, mc_metrics_label(pair, "reason", reasons[i].reason),
                                   mc_counter_get(reasons[i].value)));
    }
    return MOONCAKE_OK;
}
