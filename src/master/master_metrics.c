/*
 * The /metrics page. Names with the prefix mooncake_master_ are ours; the others are those that
 * dashboards made for the C++ Mooncake ask for.
 */
#include "master/master_metrics.h"

#include <stdio.h>

#include "base/clock.h"
#include "io/admin_process.h"

const char *const *mc_metrics_label(const char *pair[3], const char *name, const char *value)
{
    pair[0] = name;
    pair[1] = value;
    pair[2] = NULL;
    return pair;
}

mooncake_err mc_metrics_counter(struct mc_buf *out, const char *name, const char *help,
                                uint64_t value)
{
    MC_TRY(mc_metric_print_head(out, name, "counter", help));
    return mc_metric_print_u64(out, name, NULL, value);
}

mooncake_err mc_metrics_gauge(struct mc_buf *out, const char *name, const char *help,
                              uint64_t value)
{
    MC_TRY(mc_metric_print_head(out, name, "gauge", help));
    return mc_metric_print_u64(out, name, NULL, value);
}

/* ---- one number each: the table to add to ---------------------------------------------------- */

static double uptime(const struct mc_metrics_page *page)
{
    return (double)(mc_monotonic_ns() - page->master->started_ns) / 1e9;
}

static double table_bytes(const struct mc_metrics_page *page)
{
    return (double)(mc_core_table_bytes(page->master->core) + page->space.books);
}

static double connections(const struct mc_metrics_page *page)
{
    struct mc_rpc_server_stats stats = mc_master_connections(page->master);

    return (double)mc_gauge_get(&stats.connections);
}

static double accepted(const struct mc_metrics_page *page)
{
    struct mc_rpc_server_stats stats = mc_master_connections(page->master);

    return (double)mc_counter_get(&stats.accepted);
}

static double undecodable(const struct mc_metrics_page *page)
{
    return (double)mc_counter_get(&page->requests->undecodable);
}

static double oldest_put(const struct mc_metrics_page *page)
{
    return (double)mc_core_oldest_put_ms(page->master->core) / 1e3;
}

static double self_stall(const struct mc_metrics_page *page)
{
    return (double)mc_counter_get(&mc_core_metrics(page->master->core)->stalled_ms) / 1e3;
}

static double loop_turns(const struct mc_metrics_page *page)
{
    return (double)mc_loop_stats(page->master->loop).turns;
}

static double poll_idle(const struct mc_metrics_page *page)
{
    return (double)mc_loop_stats(page->master->loop).idle_poll_ns / 1e9;
}

static double polls_found(const struct mc_metrics_page *page)
{
    return (double)mc_loop_stats(page->master->loop).polls_found;
}

static double polls_missed(const struct mc_metrics_page *page)
{
    return (double)mc_loop_stats(page->master->loop).polls_missed;
}

static double sleeps(const struct mc_metrics_page *page)
{
    return (double)mc_loop_stats(page->master->loop).sleeps;
}

static const struct row {
    const char *name, *type, *help;
    double (*value)(const struct mc_metrics_page *page);
} rows[] = {
    {"mooncake_master_uptime_seconds", "gauge", "Seconds since the start", uptime},
    {"mooncake_master_table_bytes", "gauge", "Heap bytes of tables and allocators", table_bytes},
    {"mooncake_master_connections", "gauge", "Control connections that are open", connections},
    {"mooncake_master_connections_accepted_total", "counter",
     "Control connections that were accepted", accepted},
    {"mooncake_master_rpc_undecodable_total", "counter", "Requests whose body could not be decoded",
     undecodable},
    {"mooncake_master_oldest_unfinished_put_seconds", "gauge",
     "Age of the oldest unfinished put; 0: there is none", oldest_put},
    {"mooncake_master_self_stall_seconds_total", "counter",
     "Time by which own stalls moved deadlines", self_stall},
    {"mooncake_master_loop_turns_total", "counter", "Turns of the core loop", loop_turns},
    {"mooncake_master_poll_idle_seconds_total", "counter",
     "Time the core loop has polled without finding work", poll_idle},
    {"mooncake_master_polls_found_total", "counter",
     "Times that polling found work instead of a sleep", polls_found},
    {"mooncake_master_polls_missed_total", "counter",
     "Times that polling found nothing and the core loop slept", polls_missed},
    {"mooncake_master_sleeps_total", "counter", "Times that the core loop slept", sleeps},
};

static mooncake_err print_rows(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    size_t i;

    (void)again;
    for (i = 0; i < MC_ARRAY_LEN(rows); i++) {
        MC_TRY(mc_metric_print_head(out, rows[i].name, rows[i].type, rows[i].help));
        MC_TRY(mc_metric_print_double(out, rows[i].name, NULL, rows[i].value(page)));
    }
    return mc_admin_process_print(out, "mooncake_master");
}

/* ---- the core -------------------------------------------------------------------------------- */

/* A metric inside struct mc_core_metrics. */
struct core_metric {
    const char *name, *help;
    size_t offset;
};

static mooncake_err print_core(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
#define COUNTER(field, help)                                                                       \
    {"mooncake_master_" #field "_total", help, offsetof(struct mc_core_metrics, field)},
#define GAUGE(field, help)                                                                         \
    {"mooncake_master_" #field, help, offsetof(struct mc_core_metrics, field)},
    static const struct core_metric counters[] = {MC_CORE_COUNTER_LIST(COUNTER)};
    static const struct core_metric gauges[] = {MC_CORE_GAUGE_LIST(GAUGE)};
#undef COUNTER
#undef GAUGE
    const char *base = (const char *)mc_core_metrics(page->master->core);
    size_t i;

    (void)again;
    for (i = 0; i < MC_ARRAY_LEN(counters); i++) {
        const void *at = base + counters[i].offset;

        MC_TRY(mc_metrics_counter(out, counters[i].name, counters[i].help, mc_counter_get(at)));
    }
    for (i = 0; i < MC_ARRAY_LEN(gauges); i++) {
        const void *at = base + gauges[i].offset;

        MC_TRY(mc_metrics_gauge(out, gauges[i].name, gauges[i].help, (uint64_t)mc_gauge_get(at)));
    }
    return mc_metrics_print_core_known(page, out);
}

static mooncake_err print_histograms(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    const struct mc_core_metrics *metrics = mc_core_metrics(page->master->core);
#define HISTOGRAM(field, help, ...) {#field, help, &metrics->field},
    const struct {
        const char *name, *help;
        const struct mc_histogram *histogram;
    } histograms[] = {MC_CORE_HISTOGRAM_LIST(HISTOGRAM)};
#undef HISTOGRAM
    size_t i;

    (void)again;
    for (i = 0; i < MC_ARRAY_LEN(histograms); i++) {
        bool known = histograms[i].histogram == &metrics->value_size_bytes;
        char name[96];

        (void)snprintf(name, sizeof(name), "%s_%s", known ? "master" : "mooncake_master",
                       histograms[i].name);
        MC_TRY(mc_metric_print_head(out, name, "histogram", histograms[i].help));
        MC_TRY(mc_metric_print_histogram(out, name, NULL, histograms[i].histogram));
    }
    return MOONCAKE_OK;
}

static mooncake_err print_space(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    static const char name[] = "mooncake_master_protected_bytes";
    const struct mc_core_space space = page->space;
    const char *pair[3];
    size_t i;

    (void)again;
    MC_TRY(
        mc_metrics_gauge(out, "mooncake_master_free_bytes", "Bytes that are free now", space.free));
    MC_TRY(mc_metrics_gauge(out, "mooncake_master_evictable_bytes",
                            "Bytes that eviction could free now", space.evictable));
    MC_TRY(mc_metrics_gauge(out, "mooncake_master_parked_bytes",
                            "Bytes that a lost writer left, until a time has passed",
                            space.parked));
    MC_TRY(mc_metrics_gauge(out, "mooncake_master_unplaceable_bytes",
                            "Bytes that are free in segments that are draining or suspect",
                            space.unplaceable));
    MC_TRY(
        mc_metric_print_head(out, name, "gauge", "Bytes that eviction must not free, by reason"));
    {
        const struct {
            const char *reason;
            uint64_t bytes;
        } reasons[] = {
            {"lease", space.leased},         {"soft_pin", space.soft_pinned},
            {"hard_pin", space.hard_pinned}, {"writing", space.writing},
            {"reading", space.reading},
        };

        for (i = 0; i < MC_ARRAY_LEN(reasons); i++) {
            MC_TRY(mc_metric_print_u64(
                out, name, mc_metrics_label(pair, "reason", reasons[i].reason), reasons[i].bytes));
        }
    }
    return MOONCAKE_OK;
}

/* ---- the page -------------------------------------------------------------------------------- */

static const mc_metrics_section sections[] = {
    mc_metrics_gather,
    print_core,
    print_histograms,
    print_space,
    print_rows,
    mc_metrics_segments,
    mc_metrics_clients,
    mc_metrics_methods,
    mc_metrics_latency,
    mc_metrics_rejected,
    mc_metrics_threads,
    mc_metrics_handover,
    mc_metrics_known_methods,
    mc_metrics_absent_ops,
    mc_metrics_absent,
};

static mooncake_err next_section(void *state, struct mc_buf *out, bool *more)
{
    struct mc_metrics_page *page = state;
    bool again = false;

    MC_TRY(sections[page->section](page, out, &again));
    if (!again) {
        page->section++;
        page->at = 0;
    }
    *more = page->section < MC_ARRAY_LEN(sections);
    return MOONCAKE_OK;
}

static void free_page(void *state)
{
    struct mc_metrics_page *page = state;

    mc_arena_fini(&page->arena);
    mc_free(page);
}

mooncake_err mc_master_metrics_begin(struct mc_master *master, struct mc_admin_reply *reply)
{
    struct mc_metrics_page *page = mc_calloc(1, sizeof(*page));

    if (page == NULL) {
        return MOONCAKE_ENOMEM;
    }
    page->master = master;
    page->requests = mc_master_requests(master);
    mc_arena_init(&page->arena, 0);
    reply->part = next_section;
    reply->part_state = page;
    reply->part_free = free_page;
    return MOONCAKE_OK;
}
