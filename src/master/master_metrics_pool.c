/* Metrics of each segment and each member, in parts: a pool may have 65536 of either. */
#include <stdio.h>

#include "master/master_metrics.h"

/* Lines of one part: about a microsecond each. */
#define LINES_PER_PART 256u

static mooncake_err print_used(struct mc_buf *out, const char *name, const char *const *labels,
                               const struct mc_segment_status *segment)
{
    return mc_metric_print_u64(out, name, labels, segment->used);
}

static mooncake_err print_len(struct mc_buf *out, const char *name, const char *const *labels,
                              const struct mc_segment_status *segment)
{
    return mc_metric_print_u64(out, name, labels, segment->len);
}

static mooncake_err print_largest(struct mc_buf *out, const char *name, const char *const *labels,
                                  const struct mc_segment_status *segment)
{
    return mc_metric_print_u64(out, name, labels, segment->largest_free_extent);
}

static mooncake_err print_ratio(struct mc_buf *out, const char *name, const char *const *labels,
                                const struct mc_segment_status *segment)
{
    double ratio = segment->len == 0 ? 0.0 : (double)segment->used / (double)segment->len;

    return mc_metric_print_double(out, name, labels, ratio);
}

/* 1 for a segment that takes new data. */
static mooncake_err print_placeable(struct mc_buf *out, const char *name, const char *const *labels,
                                    const struct mc_segment_status *segment)
{
    return mc_metric_print_u64(out, name, labels, segment->state == MC_SEGMENT_OK ? 1 : 0);
}

/* One gauge for all segments. */
static const struct segment_gauge {
    const char *name, *help;
    mooncake_err (*print)(struct mc_buf *out, const char *name, const char *const *labels,
                          const struct mc_segment_status *segment);
} gauges[] = {
    {"segment_allocated_bytes", "Bytes taken in a segment", print_used},
    {"segment_total_capacity_bytes", "Bytes of a segment", print_len},
    {"mooncake_master_largest_free_extent_bytes", "Bytes of the longest free extent in a segment",
     print_largest},
    {"mooncake_master_segment_used_ratio", "Used part of a segment, 0 to 1", print_ratio},
    {"mooncake_master_segment_placeable", "1: new data is placed there; 0: draining or suspect",
     print_placeable},
};

/* page->at counts gauge by gauge, with one step more for each head. */
mooncake_err mc_metrics_segments(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    size_t const per_gauge = page->segments.count + 1;
    size_t const end = per_gauge * MC_ARRAY_LEN(gauges);
    size_t stop = page->at + LINES_PER_PART;

    stop = stop < end ? stop : end;
    for (; page->at < stop; page->at++) {
        const struct segment_gauge *gauge = &gauges[page->at / per_gauge];
        size_t const line = page->at % per_gauge;

        if (line == 0) {
            MC_TRY(mc_metric_print_head(out, gauge->name, "gauge", gauge->help));
        } else {
            const struct mc_segment_status *segment = &page->segments.items[line - 1];
            const char *pair[3];

            MC_TRY(gauge->print(out, gauge->name, mc_metrics_label(pair, "segment", segment->name),
                                segment));
        }
    }
    *again = page->at < end;
    return MOONCAKE_OK;
}

mooncake_err mc_metrics_clients(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    static const char age[] = "mooncake_master_client_last_ping_age_seconds";
    static const char expired[] = "mooncake_master_client_expired_total";
    const struct mc_core_metrics *metrics = mc_core_metrics(page->master->core);
    const char *pair[3];
    unsigned i;

    if (page->at == 0) {
        MC_TRY(mc_metric_print_head(out, expired, "counter",
                                    "Clients and stores that were given up, by cause"));
        MC_TRY(mc_metric_print_u64(out, expired, mc_metrics_label(pair, "cause", "silence"),
                                   mc_counter_get(&metrics->expired_members)));
        MC_TRY(
            mc_metric_print_head(out, age, "gauge", "Time since a client's or store's last ping"));
    }
    for (i = 0; i < LINES_PER_PART && page->at < page->clients.count; i++, page->at++) {
        const struct mc_client_status *client = &page->clients.items[page->at];
        char id[24];

        (void)snprintf(id, sizeof(id), "%016llx", (unsigned long long)client->client_id);
        MC_TRY(mc_metric_print_double(out, age, mc_metrics_label(pair, "client", id),
                                      (double)client->ping_age_ms / 1e3));
    }
    *again = page->at < page->clients.count;
    return MOONCAKE_OK;
}
