/*
 * Counters, gauges and histograms, written by one thread or many (relaxed atomics) and printed as
 * Prometheus text. A metric is a struct inside its owner; a table names them for printing.
 */
#ifndef MC_BASE_METRIC_H
#define MC_BASE_METRIC_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct mc_counter {
    _Atomic uint64_t value;
};

struct mc_gauge {
    _Atomic int64_t value;
};

/* Upper bounds are given by the owner; at most 24, ascending. */
#define MC_HISTOGRAM_BOUNDS_MAX 24u

struct mc_histogram {
    const double *bounds; /* borrowed, static */
    unsigned bounds_count;
    _Atomic uint64_t counts[MC_HISTOGRAM_BOUNDS_MAX + 1];
    _Atomic uint64_t sum_scaled; /* sum in units of 1/scale */
    double scale;                /* e.g. 1e9 when values arrive in ns and are shown in seconds */
};

static inline void mc_counter_add(struct mc_counter *counter, uint64_t n)
{
    (void)atomic_fetch_add_explicit(&counter->value, n, memory_order_relaxed);
}

/* For a counter that only one thread writes: no locked instruction. */
static inline void mc_counter_add_owner(struct mc_counter *counter, uint64_t n)
{
    atomic_store_explicit(&counter->value,
                          atomic_load_explicit(&counter->value, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline uint64_t mc_counter_get(const struct mc_counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

static inline void mc_gauge_add(struct mc_gauge *gauge, int64_t n)
{
    (void)atomic_fetch_add_explicit(&gauge->value, n, memory_order_relaxed);
}

static inline void mc_gauge_set(struct mc_gauge *gauge, int64_t value)
{
    atomic_store_explicit(&gauge->value, value, memory_order_relaxed);
}

static inline int64_t mc_gauge_get(const struct mc_gauge *gauge)
{
    return atomic_load_explicit(&gauge->value, memory_order_relaxed);
}

/** @p bounds are in shown units; values observed are multiplied by 1/@p scale to be shown. */
void mc_histogram_init(struct mc_histogram *histogram, const double *bounds, unsigned count,
                       double scale);
void mc_histogram_observe(struct mc_histogram *histogram, uint64_t value);
/** For a histogram that only one thread writes: no locked instruction. */
void mc_histogram_observe_owner(struct mc_histogram *histogram, uint64_t value);
/** Add what @p from has observed, which has the same bounds. By the owner of @p to. */
void mc_histogram_add(struct mc_histogram *to, const struct mc_histogram *from);

/* Printing. Each appends to @p out in Prometheus text format 0.0.4; ENOMEM. */

/** "# HELP" and "# TYPE" lines. @p type: "counter", "gauge" or "histogram". Once per name. */
mooncake_err mc_metric_print_head(struct mc_buf *out, const char *name, const char *type,
                                  const char *help) MC_MUST_CHECK;
/** One sample. @p labels is NULL or pairs name, value, ..., NULL; values are escaped here. */
mooncake_err mc_metric_print_u64(struct mc_buf *out, const char *name, const char *const *labels,
                                 uint64_t value) MC_MUST_CHECK;
mooncake_err mc_metric_print_i64(struct mc_buf *out, const char *name, const char *const *labels,
                                 int64_t value) MC_MUST_CHECK;
mooncake_err mc_metric_print_double(struct mc_buf *out, const char *name, const char *const *labels,
                                    double value) MC_MUST_CHECK;
/** _bucket, _sum and _count lines. */
mooncake_err mc_metric_print_histogram(struct mc_buf *out, const char *name,
                                       const char *const *labels,
                                       const struct mc_histogram *histogram) MC_MUST_CHECK;

#endif
