/* Counting, and judging what was read. */
#include "tally.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"

/* A byte in each of these is spoilt. */
#define SPOIL_STEP 512u

void mc_tally_call(struct mc_tally *tally, uint64_t ns, uint64_t items, uint64_t bytes)
{
    mc_histogram_add(&tally->latency, ns);
    tally->items += items;
    tally->bytes += bytes;
}

void mc_tally_error(struct mc_tally *tally, const char *what, const char *key, mooncake_err err)
{
    const char *detail = mooncake_last_error();

    if (tally->sentence[0] == '\0') {
        (void)snprintf(tally->sentence, sizeof(tally->sentence), "%s of %.60s: %s: %.160s", what,
                       key, mooncake_err_name(err),
                       detail[0] == '\0' ? mooncake_err_text(err) : detail);
    }
    tally->errors++;
}

void mc_tally_wrong(struct mc_tally *tally, const char *key, const char *how)
{
    if (tally->wrong == 0) { /* takes the place of an error's sentence: it is worse */
        (void)snprintf(tally->sentence, sizeof(tally->sentence), "value of %.60s: %.200s", key,
                       how);
    }
    tally->wrong++;
}

void mc_tally_finish(struct mc_tally *tally)
{
    if (tally->latency.sum > 0) {
        tally->items_rate = (double)tally->items * 1e9 / (double)tally->latency.sum;
        tally->bytes_rate = (double)tally->bytes * 1e9 / (double)tally->latency.sum;
    }
}

void mc_tally_merge(struct mc_tally *tally, const struct mc_tally *from)
{
    if (from->sentence[0] != '\0' &&
        (tally->sentence[0] == '\0' || (tally->wrong == 0 && from->wrong > 0))) {
        memcpy(tally->sentence, from->sentence, sizeof(tally->sentence));
    }
    mc_histogram_merge(&tally->latency, &from->latency);
    tally->items += from->items;
    tally->bytes += from->bytes;
    tally->verified += from->verified;
    tally->errors += from->errors;
    tally->wrong += from->wrong;
    tally->cpu_ns += from->cpu_ns;
    if (from->daemons_cpu_ns > tally->daemons_cpu_ns) { /* each worker has seen the same time */
        tally->daemons_cpu_ns = from->daemons_cpu_ns;
    }
    tally->items_rate += from->items_rate;
    tally->bytes_rate += from->bytes_rate;
}

void mc_tally_verify(struct mc_tally *tally, const char *key, const void *data, uint64_t len,
                     uint64_t expected_len)
{
    uint64_t seed = mc_pattern_seed(key, 0);
    char how[200];
    size_t right;

    if (len != expected_len) {
        (void)snprintf(how, sizeof(how), "%llu bytes long, not %llu", (unsigned long long)len,
                       (unsigned long long)expected_len);
        mc_tally_wrong(tally, key, how);
        return;
    }
    right = mc_pattern_check(seed, data, len);
    tally->verified += right;
    if (right != len) {
        mc_pattern_explain(seed, data, len, right, how, sizeof(how));
        mc_tally_wrong(tally, key, how);
    }
}

void mc_spoil(void *data, uint64_t len)
{
    unsigned char *at = data;

    for (uint64_t i = 0; i < len; i += SPOIL_STEP) {
        at[i] = (unsigned char)~at[i];
    }
    if (len > 0 && (len - 1) % SPOIL_STEP != 0) { /* once only: twice would mend it */
        at[len - 1] = (unsigned char)~at[len - 1];
    }
}

static int by_rate(const void *a, const void *b)
{
    const struct mc_tally *x = a;
    const struct mc_tally *y = b;

    return (x->items_rate > y->items_rate) - (x->items_rate < y->items_rate);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of the ratio that lies @p offset bytes into each one's. */
static double median_ratio(const struct mc_tally *tallies, uint64_t count, size_t offset)
{
    double values[MC_REPEAT_MAX];

    for (uint64_t i = 0; i < count; i++) {
        memcpy(&values[i], (const char *)&tallies[i].x + offset, sizeof(values[i]));
    }
    qsort(values, count, sizeof(values[0]), by_value);
    return values[(count - 1) / 2];
}

const struct mc_tally *mc_tally_median(struct mc_tally *tallies, uint64_t count)
{
    const struct mc_ratios x = {
        .copy = median_ratio(tallies, count, offsetof(struct mc_ratios, copy)),
        .stream = median_ratio(tallies, count, offsetof(struct mc_ratios, stream)),
        .stream2 = median_ratio(tallies, count, offsetof(struct mc_ratios, stream2)),
        .trip = median_ratio(tallies, count, offsetof(struct mc_ratios, trip)),
        .ask = median_ratio(tallies, count, offsetof(struct mc_ratios, ask)),
    };

    qsort(tallies, count, sizeof(tallies[0]), by_rate);
    tallies[(count - 1) / 2].x = x;
    return &tallies[(count - 1) / 2];
}

/* ---- beside what the machine can do ---------------------------------------------------------- */

/* 0: one of them is not known. */
static double mean(double before, double after)
{
    return before > 0 && after > 0 ? (before + after) / 2 : 0;
}

static uint64_t mean_ns(uint64_t before, uint64_t after)
{
    return before > 0 && after > 0 ? (before + after) / 2 : 0;
}

static double over(double value, double limit)
{
    return limit > 0 ? value / limit : 0;
}

void mc_tally_compare(struct mc_tally *tally, const struct mc_limits *before,
                      const struct mc_limits *after)
{
    const struct mc_limits beside = {
        .fused_rate = mean(before->fused_rate, after->fused_rate),
        .stream_rate = mean(before->stream_rate, after->stream_rate),
        .stream2_rate = mean(before->stream2_rate, after->stream2_rate),
        .trip_p50_ns = mean_ns(before->trip_p50_ns, after->trip_p50_ns),
        .mib_p50_ns = mean_ns(before->mib_p50_ns, after->mib_p50_ns),
    };
    const double p50 = (double)mc_histogram_at(&tally->latency, 0.5);

    tally->beside = beside;
    tally->x = (struct mc_ratios){
        .copy = over(tally->bytes_rate, beside.fused_rate),
        .stream = over(tally->bytes_rate, beside.stream_rate),
        .stream2 = over(tally->bytes_rate, beside.stream2_rate),
        .trip = over(p50, (double)beside.trip_p50_ns),
        .ask = beside.mib_p50_ns == 0 ? 0
                                      : over(p50, (double)(beside.mib_p50_ns + beside.trip_p50_ns)),
    };
}
