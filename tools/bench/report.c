/* Tables with fixed columns, and JSON with exact numbers. */
#include "report.h"

#include <stdio.h>

#include "mooncake/error.h"

const char *mc_text_size(char *text, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(text, MC_TEXT_LEN, "%.4g %s", value, units[unit]);
    return text;
}

const char *mc_text_time(char *text, uint64_t ns)
{
    if (ns < 1000000) {
        (void)snprintf(text, MC_TEXT_LEN, "%.1f us", (double)ns / 1e3);
    } else if (ns < 1000000000) {
        (void)snprintf(text, MC_TEXT_LEN, "%.2f ms", (double)ns / 1e6);
    } else {
        (void)snprintf(text, MC_TEXT_LEN, "%.2f s", (double)ns / 1e9);
    }
    return text;
}

const char *mc_text_rate(char *text, double bytes_per_second)
{
    (void)snprintf(text, MC_TEXT_LEN, "%.2f GB/s", bytes_per_second / 1e9);
    return text;
}

const char *mc_text_count(char *text, double count)
{
    if (count < 1e4) {
        (void)snprintf(text, MC_TEXT_LEN, "%.0f", count);
    } else if (count < 1e6) {
        (void)snprintf(text, MC_TEXT_LEN, "%.1f k", count / 1e3);
    } else {
        (void)snprintf(text, MC_TEXT_LEN, "%.2f M", count / 1e6);
    }
    return text;
}

void mc_report_measure_limits(const struct mc_bench_options *options, struct mc_limits *out)
{
    char why[200];

    *out = (struct mc_limits){0};
    if (!options->no_limits && !mc_limits_measure(out, why, sizeof(why))) {
        (void)fprintf(stderr, "mooncake_bench: the machine's limits are not known: %s\n", why);
    }
}

void mc_report_limits(const struct mc_limits *limits)
{
    char a[MC_TEXT_LEN], b[MC_TEXT_LEN];

    if (!limits->measured) {
        return;
    }
    (void)printf("this machine, now\n");
    (void)printf("  memcpy, out of cache         %12s\n", mc_text_rate(a, limits->memcpy_rate));
    (void)printf("  copy and xxh3 in one pass    %12s\n", mc_text_rate(a, limits->fused_rate));
    (void)printf("  xxh3 checksum                %12s\n", mc_text_rate(a, limits->xxh3_rate));
    (void)printf("  loopback TCP stream          %12s\n", mc_text_rate(a, limits->stream_rate));
    (void)printf("  the same, two connections    %12s\n", mc_text_rate(a, limits->stream2_rate));
    (void)printf("  1 MiB asked for and sent     %12s   p50 %s\n",
                 mc_text_rate(a, limits->mib_rate), mc_text_time(b, limits->mib_p50_ns));
    (void)printf("  1-byte TCP round trip    p50 %12s   p99 %s\n",
                 mc_text_time(a, limits->trip_p50_ns), mc_text_time(b, limits->trip_p99_ns));
    (void)printf("  the same, both ends poll p50 %12s\n",
                 mc_text_time(a, limits->polled_trip_p50_ns));
}

void mc_report_head(const char *title, const struct mc_limits *limits)
{
    (void)printf("%-24s %9s %10s %12s %10s %10s %10s %9s", title, "calls", "keys/s", "rate", "p50",
                 "p99", "max", "CPU s/GiB");
    if (limits->measured) {
        (void)printf(" %9s %9s %9s %9s %9s", "x copy", "x stream", "x two", "x trip", "x ask");
    }
    (void)printf("\n");
}

static double cpu_per_gib(const struct mc_tally *tally)
{
    const double gib = (double)tally->bytes / (double)(1u << 30);

    return (double)(tally->cpu_ns + tally->daemons_cpu_ns) / 1e9 / gib;
}

static void print_ratio(bool applies, double ratio)
{
    if (applies) {
        (void)printf(" %9.2f", ratio);
    } else {
        (void)printf(" %9s", "-");
    }
}

void mc_report_line(const char *title, const struct mc_tally *tally, const struct mc_limits *limits)
{
    const struct mc_histogram *h = &tally->latency;
    char items[MC_TEXT_LEN], rate[MC_TEXT_LEN], p50[MC_TEXT_LEN], p99[MC_TEXT_LEN];
    char longest[MC_TEXT_LEN];

    (void)printf("%-24s %9llu %10s %12s %10s %10s %10s", title, (unsigned long long)h->count,
                 mc_text_count(items, tally->items_rate),
                 tally->bytes == 0 ? "-" : mc_text_rate(rate, tally->bytes_rate),
                 mc_text_time(p50, mc_histogram_at(h, 0.5)),
                 mc_text_time(p99, mc_histogram_at(h, 0.99)), mc_text_time(longest, h->max));
    print_ratio(tally->cpu_ns > 0 && tally->bytes > 0, cpu_per_gib(tally));
    if (limits->measured) {
        print_ratio(tally->x.copy > 0, tally->x.copy);
        print_ratio(tally->x.stream > 0, tally->x.stream);
        print_ratio(tally->x.stream2 > 0, tally->x.stream2);
        print_ratio(tally->x.trip > 0, tally->x.trip);
        print_ratio(tally->x.ask > 0, tally->x.ask);
    }
    (void)printf("\n");
}

void mc_report_verdict(const struct mc_tally *tally)
{
    char size[MC_TEXT_LEN];

    (void)printf("verified %s, byte for byte: %llu wrong values; %llu errors\n",
                 mc_text_size(size, tally->verified), (unsigned long long)tally->wrong,
                 (unsigned long long)tally->errors);
    (void)fflush(stdout);
    if (tally->sentence[0] != '\0') {
        (void)fprintf(stderr, "mooncake_bench: %s\n", tally->sentence);
    }
}

json_t *mc_json_limits(const struct mc_limits *limits)
{
    if (!limits->measured) {
        return json_null();
    }
    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I}", "memcpy_bytes_per_s",
        limits->memcpy_rate, "copy_xxh3_bytes_per_s", limits->fused_rate, "xxh3_bytes_per_s",
        limits->xxh3_rate, "tcp_stream_bytes_per_s", limits->stream_rate, "tcp_stream2_bytes_per_s",
        limits->stream2_rate, "tcp_1mib_bytes_per_s", limits->mib_rate, "tcp_1mib_p50_ns",
        (json_int_t)limits->mib_p50_ns, "tcp_trip_p50_ns", (json_int_t)limits->trip_p50_ns,
        "tcp_trip_p99_ns", (json_int_t)limits->trip_p99_ns, "tcp_trip_polled_p50_ns",
        (json_int_t)limits->polled_trip_p50_ns);
}

/* The ratios, and what they were made with. */
static void add_ratios(json_t *root, const struct mc_tally *tally)
{
    const struct mc_limits *limits = &tally->beside;
    const struct {
        const char *name, *limit;
        double ratio, value;
    } all[] = {
        {"x_copy_xxh3", "copy_xxh3_bytes_per_s", tally->x.copy, limits->fused_rate},
        {"x_tcp_stream", "tcp_stream_bytes_per_s", tally->x.stream, limits->stream_rate},
        {"x_tcp_stream2", "tcp_stream2_bytes_per_s", tally->x.stream2, limits->stream2_rate},
        {"x_tcp_trip", "tcp_trip_p50_ns", tally->x.trip, (double)limits->trip_p50_ns},
        {"x_tcp_1mib", "tcp_1mib_p50_ns", tally->x.ask, (double)limits->mib_p50_ns},
    };
    json_t *beside = json_object();

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].ratio > 0) {
            (void)json_object_set_new(root, all[i].name, json_real(all[i].ratio));
            (void)json_object_set_new(beside, all[i].limit, json_real(all[i].value));
        }
    }
    (void)json_object_set_new(root, "beside", beside);
}

json_t *mc_json_tally(const struct mc_tally *tally)
{
    const struct mc_histogram *h = &tally->latency;
    json_t *root = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:s}", "cpu_ns",
        (json_int_t)tally->cpu_ns, "daemons_cpu_ns", (json_int_t)tally->daemons_cpu_ns, "calls",
        (json_int_t)h->count, "keys", (json_int_t)tally->items, "bytes", (json_int_t)tally->bytes,
        "verified_bytes", (json_int_t)tally->verified, "wrong", (json_int_t)tally->wrong, "errors",
        (json_int_t)tally->errors, "keys_per_s", tally->items_rate, "bytes_per_s",
        tally->bytes_rate, "p50_ns", (json_int_t)mc_histogram_at(h, 0.5), "p99_ns",
        (json_int_t)mc_histogram_at(h, 0.99), "max_ns", (json_int_t)h->max, "first_error",
        tally->sentence);

    if (root != NULL) {
        add_ratios(root, tally);
    }
    return root;
}

void mc_json_print(json_t *root)
{
    (void)json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    (void)printf("\n");
    (void)fflush(stdout);
    json_decref(root);
}

enum mc_exit mc_exit_of(const struct mc_tally *tally)
{
    if (tally->wrong > 0) {
        return MC_EXIT_WRONG;
    }
    return tally->errors > 0 ? MC_EXIT_FAILED : MC_EXIT_OK;
}
