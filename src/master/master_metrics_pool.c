/* Metrics of each segment and each member, in parts: a pool may have 65536 of either. */
#include <stdio.h>
#include <string.h>

#include "master/master_metrics.h"

/* Lines of one part: about a microsecond each. */
#define LINES_PER_PART 256u

/* ---- gathering ------------------------------------------------------------------------------ */

/* Room for @p more items behind those in *items, which may move. */
static mooncake_err reserve(struct mc_arena *arena, void **items, size_t item_len, size_t count,
                            size_t more, size_t *max)
{
    size_t const wanted = count + more > 2 * *max ? count + more : 2 * *max;
    void *grown;

    if (count + more <= *max) {
        return MOONCAKE_OK;
    }
    grown = mc_arena_array(arena, wanted, item_len);
    if (grown == NULL) {
        return MOONCAKE_ENOMEM;
    }
    if (count > 0) {
        memcpy(grown, *items, count * item_len);
    }
    *items = grown;
    *max = wanted;
    return MOONCAKE_OK;
}

static mooncake_err gather_segments(struct mc_metrics_page *page)
{
    struct mc_list_request const request = {.cursor = page->segments.cursor};
    struct mc_list_segments_reply more;
    void *items = page->segments.items;

    MC_TRY(mc_core_list_segments(page->master->core, &request, &page->arena, &more));
    MC_TRY(reserve(&page->arena, &items, sizeof(*more.items), page->segments.count, more.count,
                   &page->segments_max));
    page->segments.items = items;
    page->segments.cursor = more.cursor;
    for (size_t i = 0; i < more.count; i++) {
        page->segments.items[page->segments.count++] = more.items[i];
    }
    return MOONCAKE_OK;
}

static mooncake_err gather_clients(struct mc_metrics_page *page)
{
    struct mc_list_request const request = {.cursor = page->clients.cursor};
    struct mc_list_clients_reply more;
    void *items = page->clients.items;

    MC_TRY(mc_core_list_clients(page->master->core, &request, &page->arena, &more));
    MC_TRY(reserve(&page->arena, &items, sizeof(*more.items), page->clients.count, more.count,
                   &page->clients_max));
    page->clients.items = items;
    page->clients.cursor = more.cursor;
    for (size_t i = 0; i < more.count; i++) {
        page->clients.items[page->clients.count++] = more.items[i];
    }
    return MOONCAKE_OK;
}

/* A lost segment has no lines: a store that came back may have mounted its name again, also since
 * the older mount was gathered, and a name must not come twice. */
static void drop_gone(struct mc_metrics_page *page)
{
    struct mc_list_segments_reply *segments = &page->segments;
    size_t kept = 0;

    for (size_t i = 0; i < segments->count; i++) {
        if (mc_core_is_mounted(page->master->core, segments->items[i].mount_id)) {
            segments->items[kept++] = segments->items[i];
        }
    }
    segments->count = kept;
}

/* page->at is the stage: segments, clients, space, and what is gone by then. */
mooncake_err mc_metrics_gather(struct mc_metrics_page *page, struct mc_buf *out, bool *again)
{
    (void)out;
    *again = page->at < 3;
    switch (page->at) {
    case 0:
        MC_TRY(gather_segments(page));
        page->at += page->segments.cursor == 0 ? 1 : 0;
        return MOONCAKE_OK;
    case 1:
        MC_TRY(gather_clients(page));
        page->at += page->clients.cursor == 0 ? 1 : 0;
        return MOONCAKE_OK;
    case 2:
        mc_core_space_page(page->master->core, &page->space_cursor, &page->space);
        page->at += page->space_cursor == 0 ? 1 : 0;
        return MOONCAKE_OK;
    default:
        drop_gone(page);
        return MOONCAKE_OK;
    }
}

/* ---- segments ------------------------------------------------------------------------------- */

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
    static const char fallback[] = "mooncake_master_transport_fallback_total";
    const struct mc_core_metrics *metrics = mc_core_metrics(page->master->core);
    const char *pair[3];
    unsigned i;

    if (page->at == 0) {
        MC_TRY(mc_metric_print_head(out, expired, "counter",
                                    "Clients and stores that were given up, by cause"));
        MC_TRY(mc_metric_print_u64(out, expired, mc_metrics_label(pair, "cause", "silence"),
                                   mc_counter_get(&metrics->expired_members)));
        MC_TRY(mc_metric_print_head(out, fallback, "counter",
                                    "Transfers of clients that went on over another transport, as "
                                    "they tell, by the one that gave way"));
        MC_TRY(mc_metric_print_u64(out, fallback, mc_metrics_label(pair, "reason", "rdma"),
                                   mc_counter_get(&metrics->rdma_fallbacks)));
        MC_TRY(mc_metric_print_u64(out, fallback, mc_metrics_label(pair, "reason", "shm"),
                                   mc_counter_get(&metrics->shm_fallbacks)));
        MC_TRY(mc_metric_print_u64(out, fallback, mc_metrics_label(pair, "reason", "other"),
                                   mc_counter_get(&metrics->other_fallbacks)));
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
