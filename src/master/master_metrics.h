/*
 * The /metrics page among its files. The page is made in sections, one part of the answer each, so
 * that a pool of many segments and members does not hold the core loop for longer than a slice.
 *
 * To add a metric that is one number of the master, add a row in master_metrics.c. A counter or
 * gauge of the core is a line in core_metrics.h. docs/metrics.md is made from a running pool by
 * tools/gen_pages.
 */
#ifndef MC_MASTER_MASTER_METRICS_H
#define MC_MASTER_MASTER_METRICS_H

#include "base/mem.h"
#include "master/master_impl.h"

/* A page that is being made. */
struct mc_metrics_page {
    struct mc_master *master;
    struct mc_arena arena; /* of the lists, which are gathered first, a page at a time */
    struct mc_list_segments_reply segments; /* without those that are gone */
    struct mc_list_clients_reply clients;
    size_t segments_max, clients_max; /* what the lists have room for */
    struct mc_core_space space;       /* gathered too */
    uint64_t space_cursor;
    const struct mc_master_rpc_metrics *requests; /* of all threads, as of some moment since then */
    unsigned section;
    size_t at; /* how far a long section has come; 0 at its start */
};

/* Append the next lines of a section; *again: it has more. */
typedef mooncake_err (*mc_metrics_section)(struct mc_metrics_page *page, struct mc_buf *out,
                                           bool *again);

/* ---- lines ---------------------------------------------------------------------------------- */

mooncake_err mc_metrics_counter(struct mc_buf *out, const char *name, const char *help,
                                uint64_t value) MC_MUST_CHECK;
mooncake_err mc_metrics_gauge(struct mc_buf *out, const char *name, const char *help,
                              uint64_t value) MC_MUST_CHECK;
/** Two labels at most are ever needed: one. Fills and returns @p pair. */
const char *const *mc_metrics_label(const char *pair[3], const char *name, const char *value);

/* ---- sections ------------------------------------------------------------------------------- */

/* Counters and gauges of the core, under our names and the C++ Mooncake's: one moment. */
mooncake_err mc_metrics_print_core_known(const struct mc_metrics_page *page,
                                         struct mc_buf *out) MC_MUST_CHECK;
/* Gather the lists for the sections below. */
mooncake_err mc_metrics_gather(struct mc_metrics_page *page, struct mc_buf *out, bool *again);
mooncake_err mc_metrics_segments(struct mc_metrics_page *page, struct mc_buf *out, bool *again);
mooncake_err mc_metrics_clients(struct mc_metrics_page *page, struct mc_buf *out, bool *again);
mooncake_err mc_metrics_methods(struct mc_metrics_page *page, struct mc_buf *out, bool *again);
mooncake_err mc_metrics_latency(struct mc_metrics_page *page, struct mc_buf *out, bool *again);
mooncake_err mc_metrics_rejected(struct mc_metrics_page *page, struct mc_buf *out, bool *again);
/* What each thread spends its time on, and the way of requests between them. */
mooncake_err mc_metrics_threads(struct mc_metrics_page *page, struct mc_buf *out, bool *again);
mooncake_err mc_metrics_handover(struct mc_metrics_page *page, struct mc_buf *out, bool *again);
mooncake_err mc_metrics_known_methods(struct mc_metrics_page *page, struct mc_buf *out,
                                      bool *again);
/* Names of things that do not exist here: always 0, so that dashboards show 0 and not a gap. */
mooncake_err mc_metrics_absent_ops(struct mc_metrics_page *page, struct mc_buf *out, bool *again);
mooncake_err mc_metrics_absent(struct mc_metrics_page *page, struct mc_buf *out, bool *again);

/* ---- figures of methods --------------------------------------------------------------------- */

uint64_t mc_method_requests(const struct mc_method_metrics *metrics);
uint64_t mc_method_failures(const struct mc_method_metrics *metrics);
uint64_t mc_method_items(const struct mc_method_metrics *metrics);
uint64_t mc_method_failed_items(const struct mc_method_metrics *metrics);

#endif
