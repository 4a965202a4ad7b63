/*
 * The /metrics page. Names with the prefix mooncake_master_ are ours; the others are those that
 * dashboards made for the C++ Mooncake ask for, as far as the thing exists here.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/option.h"
#include "master/master_impl.h"

static const char *const *label(const char *pair[3], const char *name, const char *value)
{
    pair[0] = name;
    pair[1] = value;
    pair[2] = NULL;
    return pair;
}

static mooncake_err counter(struct mc_buf *out, const char *name, const char *help, uint64_t value)
{
    MC_TRY(mc_metric_print_head(out, name, "counter", help));
    return mc_metric_print_u64(out, name, NULL, value);
}

static mooncake_err gauge(struct mc_buf *out, const char *name, const char *help, uint64_t value)
{
    MC_TRY(mc_metric_print_head(out, name, "gauge", help));
    return mc_metric_print_u64(out, name, NULL, value);
}

/* ---- the core -------------------------------------------------------------------------------- */

/* A counter or gauge inside struct mc_core_metrics. */
struct core_metric {
    const char *name, *help;
    size_t offset;
};

static mooncake_err print_core(const struct mc_core_metrics *core, struct mc_buf *out)
{
#define COUNTER(field, help)                                                                       \
    {"mooncake_master_" #field "_total", help, offsetof(struct mc_core_metrics, field)},
#define GAUGE(field, help)                                                                         \
    {"mooncake_master_" #field, help, offsetof(struct mc_core_metrics, field)},
    static const struct core_metric counters[] = {MC_CORE_COUNTER_LIST(COUNTER)};
    static const struct core_metric gauges[] = {MC_CORE_GAUGE_LIST(GAUGE)};
#undef COUNTER
#undef GAUGE
    const char *base = (const char *)core;
    size_t i;

    for (i = 0; i < MC_ARRAY_LEN(counters); i++) {
        const void *at = base + counters[i].offset;

        MC_TRY(counter(out, counters[i].name, counters[i].help, mc_counter_get(at)));
    }
    for (i = 0; i < MC_ARRAY_LEN(gauges); i++) {
        const void *at = base + gauges[i].offset;

        MC_TRY(gauge(out, gauges[i].name, gauges[i].help, (uint64_t)mc_gauge_get(at)));
    }
    return MOONCAKE_OK;
}

static mooncake_err print_space(struct mc_core *core, struct mc_buf *out)
{
    static const char name[] = "mooncake_master_protected_bytes";
    struct mc_core_space space;
    const char *pair[3];
    size_t i;

    mc_core_space(core, &space);
    MC_TRY(gauge(out, "mooncake_master_free_bytes", "Bytes that are free now", space.free));
    MC_TRY(gauge(out, "mooncake_master_evictable_bytes", "Bytes that eviction could free now",
                 space.evictable));
    MC_TRY(gauge(out, "mooncake_master_parked_bytes",
                 "Bytes that a lost writer or an old version left, until a time has passed",
                 space.parked));
    MC_TRY(gauge(out, "mooncake_master_unplaceable_bytes",
                 "Bytes that are free in segments that are draining or suspect",
                 space.unplaceable));
    MC_TRY(gauge(out, "mooncake_master_largest_free_extent_bytes",
                 "Bytes of the longest free extent in the pool", space.largest_free));
    MC_TRY(
        mc_metric_print_head(out, name, "gauge", "Bytes that eviction must not free, by reason"));
    {
        const struct {
            const char *reason;
            uint64_t bytes;
        } reasons[] = {
            {"lease", space.leased},
            {"soft_pin", space.soft_pinned},
            {"hard_pin", space.hard_pinned},
            {"writing", space.writing},
        };

        for (i = 0; i < MC_ARRAY_LEN(reasons); i++) {
            MC_TRY(mc_metric_print_u64(out, name, label(pair, "reason", reasons[i].reason),
                                       reasons[i].bytes));
        }
    }
    return MOONCAKE_OK;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* One gauge for all segments. */
struct segment_gauge {
    const char *name, *help;
    uint64_t (*value)(const struct mc_segment_status *segment);
};

static uint64_t value_used(const struct mc_segment_status *segment)
{
    return segment->used;
}

static uint64_t value_len(const struct mc_segment_status *segment)
{
    return segment->len;
}

static uint64_t value_largest(const struct mc_segment_status *segment)
{
    return segment->largest_free_extent;
}

static mooncake_err print_segments(struct mc_core *core, struct mc_buf *out)
{
    static const struct segment_gauge gauges[] = {
        {"segment_allocated_bytes", "Bytes taken in a segment", value_used},
        {"segment_total_capacity_bytes", "Bytes of a segment", value_len},
        {"mooncake_master_segment_largest_free_extent_bytes",
         "Bytes of the longest free extent in a segment", value_largest},
    };
    struct mc_list_segments_reply segments;
    struct mc_arena arena;
    const char *pair[3];
    mooncake_err err;
    size_t i, g;

    mc_arena_init(&arena, 0);
    err = mc_core_list_segments(core, &arena, &segments);
    for (g = 0; g < MC_ARRAY_LEN(gauges) && err == MOONCAKE_OK; g++) {
        err = mc_metric_print_head(out, gauges[g].name, "gauge", gauges[g].help);
        for (i = 0; i < segments.count && err == MOONCAKE_OK; i++) {
            err = mc_metric_print_u64(out, gauges[g].name,
                                      label(pair, "segment", segments.items[i].name),
                                      gauges[g].value(&segments.items[i]));
        }
    }
    mc_arena_fini(&arena);
    return err;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static uint64_t requests_of(const struct mc_method_metrics *m)
{
    return mc_counter_get(&m->single_requests) + mc_counter_get(&m->batch_requests);
}

static uint64_t failures_of(const struct mc_method_metrics *m)
{
    return mc_counter_get(&m->single_failures) + mc_counter_get(&m->batch_failures);
}

static uint64_t items_of(const struct mc_method_metrics *m)
{
    return mc_counter_get(&m->single_requests) + mc_counter_get(&m->batch_items);
}

static uint64_t failed_items_of(const struct mc_method_metrics *m)
{
    return mc_counter_get(&m->single_failures) + mc_counter_get(&m->batch_failed_items);
}

static mooncake_err print_methods(const struct mc_master_rpc_metrics *rpc, struct mc_buf *out)
{
    static const unsigned methods[] = {
#define NUMBER(number, NAME, name, request, reply) (number),
        MC_METHOD_LIST(NUMBER)
#undef NUMBER
    };
    static const struct {
        const char *name, *help;
        uint64_t (*value)(const struct mc_method_metrics *metrics);
    } counters[] = {
        {"mooncake_master_rpc_requests_total", "Requests", requests_of},
        {"mooncake_master_rpc_failures_total", "Requests that failed as a whole or in every item",
         failures_of},
        {"mooncake_master_rpc_items_total", "Items in requests", items_of},
        {"mooncake_master_rpc_failed_items_total", "Items that failed", failed_items_of},
    };
    static const char latency[] = "mooncake_master_rpc_latency_seconds";
    const char *pair[3];
    size_t c, i;

    for (c = 0; c < MC_ARRAY_LEN(counters); c++) {
        MC_TRY(mc_metric_print_head(out, counters[c].name, "counter", counters[c].help));
        for (i = 0; i < MC_ARRAY_LEN(methods); i++) {
            MC_TRY(mc_metric_print_u64(out, counters[c].name,
                                       label(pair, "method", mc_method_name(methods[i])),
                                       counters[c].value(&rpc->methods[methods[i]])));
        }
    }
    MC_TRY(mc_metric_print_head(out, latency, "histogram",
                                "Time from a request's arrival to its answer"));
    for (i = 0; i < MC_ARRAY_LEN(methods); i++) {
        MC_TRY(mc_metric_print_histogram(out, latency,
                                         label(pair, "method", mc_method_name(methods[i])),
                                         &rpc->methods[methods[i]].latency));
    }
    return MOONCAKE_OK;
}

static mooncake_err print_connections(const struct mc_master *master, struct mc_buf *out)
{
    const struct mc_rpc_server_stats *stats = mc_rpc_server_stats(master->server);
    static const char rejected[] = "mooncake_master_rpc_rejected_total";
    const char *pair[3];
    size_t i;
    const struct {
        const char *reason;
        const struct mc_counter *value;
    } reasons[] = {
        {"connection", &stats->refused},
        {"hello", &master->metrics.hellos_refused},
        {"bad_frame", &stats->bad_frames},
        {"unknown_method", &master->metrics.unknown_methods},
    };

    MC_TRY(gauge(out, "mooncake_master_connections", "Control connections that are open",
                 (uint64_t)mc_gauge_get(&stats->connections)));
    MC_TRY(counter(out, "mooncake_master_connections_accepted_total",
                   "Control connections that were accepted", mc_counter_get(&stats->accepted)));
    MC_TRY(counter(out, "mooncake_master_rpc_undecodable_total",
                   "Requests whose body could not be decoded",
                   mc_counter_get(&master->metrics.undecodable)));
    MC_TRY(mc_metric_print_head(out, rejected, "counter",
                                "Connections and requests refused, by reason"));
    for (i = 0; i < MC_ARRAY_LEN(reasons); i++) {
        MC_TRY(mc_metric_print_u64(out, rejected, label(pair, "reason", reasons[i].reason),
                                   mc_counter_get(reasons[i].value)));
    }
    return MOONCAKE_OK;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static mooncake_err print_loop(const struct mc_loop *loop, struct mc_buf *out)
{
    static const char seconds[] = "mooncake_master_poll_idle_seconds_total";
    const struct mc_loop_stats stats = mc_loop_stats(loop);

    MC_TRY(mc_metric_print_head(out, seconds, "counter",
                                "Time the core loop has polled without finding work"));
    MC_TRY(mc_metric_print_double(out, seconds, NULL,
                                  (double)stats.idle_poll_ns / (double)MC_NS_PER_S));
    MC_TRY(counter(out, "mooncake_master_polls_found_total",
                   "Times that polling found work instead of a sleep", stats.polls_found));
    MC_TRY(counter(out, "mooncake_master_polls_missed_total",
                   "Times that polling found nothing and the core loop slept", stats.polls_missed));
    return counter(out, "mooncake_master_sleeps_total", "Times that the core loop slept",
                   stats.sleeps);
}

/* ---- the C++ Mooncake's names ---------------------------------------------------------------- */

static mooncake_err named(struct mc_buf *out, const char *op, const char *what, const char *help,
                          uint64_t value)
{
    char name[96];

    (void)snprintf(name, sizeof(name), "master_%s_%s_total", op, what);
    return counter(out, name, help, value);
}

static mooncake_err print_known_methods(const struct mc_master_rpc_metrics *rpc, struct mc_buf *out)
{
    static const struct {
        enum mc_method method;
        const char *op, *batch_op; /* batch_op NULL: all requests count as one kind */
    } known[] = {
        {MC_METHOD_PUT_START, "put_start", "batch_put_start"},
        {MC_METHOD_PUT_END, "put_end", "batch_put_end"},
        {MC_METHOD_PUT_REVOKE, "put_revoke", "batch_put_revoke"},
        {MC_METHOD_QUERY, "get_replica_list", "batch_get_replica_list"},
        {MC_METHOD_EXIST, "exist_key", "batch_exist_key"},
        {MC_METHOD_REMOVE, "remove", NULL},
        {MC_METHOD_REMOVE_ALL, "remove_all", NULL},
        {MC_METHOD_MOUNT, "mount_segment", NULL},
        {MC_METHOD_UNMOUNT, "unmount_segment", NULL},
        {MC_METHOD_PING, "ping", NULL},
    };
    size_t i;

    for (i = 0; i < MC_ARRAY_LEN(known); i++) {
        const struct mc_method_metrics *m = &rpc->methods[known[i].method];
        const char *batch = known[i].batch_op;

        MC_TRY(named(out, known[i].op, "requests", "Requests of one item",
                     batch == NULL ? requests_of(m) : mc_counter_get(&m->single_requests)));
        MC_TRY(named(out, known[i].op, "failures", "Requests of one item that failed",
                     batch == NULL ? failures_of(m) : mc_counter_get(&m->single_failures)));
        if (batch == NULL) {
            continue;
        }
        MC_TRY(named(out, batch, "requests", "Batches", mc_counter_get(&m->batch_requests)));
        MC_TRY(named(out, batch, "failures", "Batches that failed in every item",
                     mc_counter_get(&m->batch_failures)));
        MC_TRY(named(out, batch, "partial_successes", "Batches of which some items failed",
                     mc_counter_get(&m->batch_partial)));
        MC_TRY(named(out, batch, "items", "Items of batches", mc_counter_get(&m->batch_items)));
        MC_TRY(named(out, batch, "failed_items", "Items of batches that failed",
                     mc_counter_get(&m->batch_failed_items)));
    }
    return MOONCAKE_OK;
}

static mooncake_err print_known(struct mc_core *core, struct mc_buf *out)
{
    const struct mc_core_metrics *m = mc_core_metrics(core);
    uint64_t query_hits = mc_counter_get(&m->query_hits);
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } rows[] = {
        {"master_allocated_bytes", "gauge", "Bytes taken in the pool",
         (uint64_t)mc_gauge_get(&m->used_bytes)},
        {"master_total_capacity_bytes", "gauge", "Bytes of the pool",
         (uint64_t)mc_gauge_get(&m->capacity_bytes)},
        {"master_key_count", "gauge", "Readable objects", (uint64_t)mc_gauge_get(&m->keys)},
        {"master_active_clients", "gauge", "Clients and stores that ping",
         (uint64_t)mc_gauge_get(&m->members)},
        {"mem_cache_nums_", "gauge", "Readable objects in memory",
         (uint64_t)mc_gauge_get(&m->keys)},
        {"mem_cache_hit_nums_", "counter", "Hits in memory", query_hits},
        {"valid_get_nums_", "counter", "Queries that found their key", query_hits},
        {"total_get_nums_", "counter", "Queries", query_hits + mc_counter_get(&m->query_misses)},
        {"master_evicted_key_count", "counter", "Objects that eviction removed",
         mc_counter_get(&m->evicted_keys)},
        {"master_evicted_size_bytes", "counter", "Bytes freed by eviction",
         mc_counter_get(&m->evicted_bytes)},
        {"master_put_start_discard_cnt", "counter", "Attempts that lost their key to a later put",
         mc_counter_get(&m->put_taken_over)},
        {"master_put_start_release_cnt", "counter", "Attempts freed by the release timeout",
         mc_counter_get(&m->put_released)},
        {"master_put_start_alloc_failures_total", "counter", "Puts refused for want of space",
         mc_counter_get(&m->put_rejected)},
        {"master_put_start_partial_allocations_total", "counter",
         "Attempts opened with fewer replicas than wished", mc_counter_get(&m->put_degraded)},
    };
    size_t i;

    for (i = 0; i < MC_ARRAY_LEN(rows); i++) {
        MC_TRY(mc_metric_print_head(out, rows[i].name, rows[i].type, rows[i].help));
        MC_TRY(mc_metric_print_u64(out, rows[i].name, NULL, rows[i].value));
    }
    return MOONCAKE_OK;
}

/* ---- pages ----------------------------------------------------------------------------------- */

mooncake_err mc_master_metrics_print(struct mc_master *master, struct mc_buf *out)
{
    MC_TRY(print_core(mc_core_metrics(master->core), out));
    MC_TRY(print_space(master->core, out));
    MC_TRY(print_segments(master->core, out));
    MC_TRY(print_methods(&master->metrics, out));
    MC_TRY(print_connections(master, out));
    MC_TRY(print_loop(master->loop, out));
    MC_TRY(gauge(out, "mooncake_master_table_bytes", "Heap bytes of tables and allocators",
                 mc_core_table_bytes(master->core)));
    MC_TRY(gauge(out, "mooncake_master_uptime_seconds", "Seconds since the start",
                 (mc_monotonic_ns() - master->started_ns) / MC_NS_PER_S));
    MC_TRY(print_known_methods(&master->metrics, out));
    return print_known(master->core, out);
}

mooncake_err mc_master_summary_print(struct mc_master *master, struct mc_buf *out)
{
    struct mc_pool_status_reply status;
    char used[16], capacity[16], line[384];
    uint64_t lookups;
    int len;

    mc_core_pool_status(master->core, &status);
    lookups = status.hits + status.misses;
    len = snprintf(
        line, sizeof(line),
        "Mem Storage: %s / %s (%.1f%%) | Keys: %" PRIu64 " | Unfinished puts: %" PRIu64
        " | Segments: %" PRIu64 " | Stores: %" PRIu64 " | Clients: %" PRIu64 " | Hits: %" PRIu64
        " / %" PRIu64 " (%.1f%%) | Evicted: %" PRIu64 " keys | Puts rejected: %" PRIu64 "\n",
        mc_format_size(status.used, used, sizeof(used)),
        mc_format_size(status.capacity, capacity, sizeof(capacity)),
        status.capacity == 0 ? 0.0 : 100.0 * (double)status.used / (double)status.capacity,
        status.keys, status.unfinished_puts, status.segments, status.stores, status.clients,
        status.hits, lookups, lookups == 0 ? 0.0 : 100.0 * (double)status.hits / (double)lookups,
        status.evicted_keys, status.put_rejected);
    MC_ASSERT(len > 0 && (size_t)len < sizeof(line));
    return mc_buf_append(out, line, (size_t)len);
}
