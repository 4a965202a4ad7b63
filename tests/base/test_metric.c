/* Prometheus text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/metric.h"

static void assert_printed(struct mc_buf *out, const char *expected)
{
    assert_int_equal(mc_buf_append(out, "", 1), MOONCAKE_OK);
    assert_string_equal((const char *)mc_buf_bytes(out), expected);
    mc_buf_fini(out);
}

static void metric__label_value_cannot_break_the_page(void **state)
{
    /* a quote, a backslash, a newline; then bytes that are no UTF-8: a lone byte, an overlong
     * slash, a surrogate, beyond Unicode, cut off; then good UTF-8 of 2, 3 and 4 bytes */
    const char *const labels[] = {"a", "q\"b\\n\n",
                                  "b", "\xff|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82",
                                  "c", "\xc3\xb6\xe2\x82\xac\xf0\x9f\xa5\xae",
                                  NULL};
    struct mc_buf out;

    (void)state;
    mc_buf_init(&out);
    assert_int_equal(mc_metric_print_u64(&out, "m", labels, 1), MOONCAKE_OK);
    assert_printed(&out, "m{a=\"q\\\"b\\\\n\\n\",b=\"?|?\?|?\?\?|?\?\?\?|?\?\","
                         "c=\"\xc3\xb6\xe2\x82\xac\xf0\x9f\xa5\xae\"} 1\n");
}

static void metric__head_escapes_help(void **state)
{
    struct mc_buf out;

    (void)state;
    mc_buf_init(&out);
    assert_int_equal(mc_metric_print_head(&out, "m", "gauge", "a \\ \"b\"\nc"), MOONCAKE_OK);
    assert_printed(&out, "# HELP m a \\\\ \"b\"\\nc\n# TYPE m gauge\n");
}

static void metric__numbers_print_exactly(void **state)
{
    const double doubles[] = {0,       0.1, 1e-9,     1e300,    123456789.125,
                              1.0 / 3, NAN, INFINITY, -INFINITY};
    const char *const none[] = {NULL};
    struct mc_buf out;

    (void)state;
    mc_buf_init(&out);
    assert_int_equal(mc_metric_print_u64(&out, "u", NULL, UINT64_MAX), MOONCAKE_OK);
    assert_int_equal(mc_metric_print_i64(&out, "i", none, INT64_MIN), MOONCAKE_OK);
    for (size_t i = 0; i < MC_ARRAY_LEN(doubles); i++) {
        assert_int_equal(mc_metric_print_double(&out, "d", NULL, doubles[i]), MOONCAKE_OK);
    }
    assert_printed(&out, "u 18446744073709551615\ni -9223372036854775808\nd 0\nd 0.1\nd 1e-09\n"
                         "d 1e+300\nd 123456789.125\nd 0.3333333333333333\nd NaN\nd +Inf\n"
                         "d -Inf\n");
}

static void metric__histogram_counts_a_value_at_its_bound_as_below(void **state)
{
    static const double bounds[] = {0.001, 0.01, 1};
    const char *const labels[] = {"method", "get", NULL};
    struct mc_histogram histogram;
    struct mc_buf out;

    (void)state;
    mc_histogram_init(&histogram, bounds, MC_ARRAY_LEN(bounds), 1e9);
    mc_histogram_observe(&histogram, 1000000); /* 1 ms: le="0.001" */
    mc_histogram_observe(&histogram, 1000001);
    mc_histogram_observe(&histogram, 2000000000);
    mc_buf_init(&out);
    assert_int_equal(mc_metric_print_histogram(&out, "t", labels, &histogram), MOONCAKE_OK);
    assert_printed(&out, "t_bucket{method=\"get\",le=\"0.001\"} 1\n"
                         "t_bucket{method=\"get\",le=\"0.01\"} 2\n"
                         "t_bucket{method=\"get\",le=\"1\"} 2\n"
                         "t_bucket{method=\"get\",le=\"+Inf\"} 3\n"
                         "t_sum{method=\"get\"} 2.002000001\n"
                         "t_count{method=\"get\"} 3\n");
}

static void metric__histogram_adds_up_what_several_threads_have_observed(void **state)
{
    static const double bounds[] = {1, 2};
    struct mc_histogram sum, one, other;

    (void)state;
    mc_histogram_init(&sum, bounds, MC_ARRAY_LEN(bounds), 1);
    mc_histogram_init(&one, bounds, MC_ARRAY_LEN(bounds), 1);
    mc_histogram_init(&other, bounds, MC_ARRAY_LEN(bounds), 1);
    mc_histogram_observe_owner(&one, 1);
    mc_histogram_observe_owner(&one, 3);
    mc_histogram_observe(&other, 2);
    mc_histogram_observe(&other, 9);
    mc_histogram_add(&sum, &one);
    mc_histogram_add(&sum, &other);
    assert_int_equal(sum.counts[0], 1);
    assert_int_equal(sum.counts[1], 1);
    assert_int_equal(sum.counts[2], 2);
    assert_int_equal(sum.sum_scaled, 15);
}

static void metric__histogram_without_bounds_has_one_bucket(void **state)
{
    struct mc_histogram histogram;
    struct mc_buf out;

    (void)state;
    mc_histogram_init(&histogram, NULL, 0, 1);
    mc_histogram_observe(&histogram, 5);
    mc_buf_init(&out);
    assert_int_equal(mc_metric_print_histogram(&out, "t", NULL, &histogram), MOONCAKE_OK);
    assert_printed(&out, "t_bucket{le=\"+Inf\"} 1\nt_sum 5\nt_count 1\n");
}

static void metric__out_of_memory_leaves_no_half_line(void **state)
{
    char value[300];
    const char *const labels[] = {"a", value, NULL};
    struct mc_buf out;

    (void)state;
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    mc_buf_init(&out);
    assert_int_equal(mc_metric_print_u64(&out, "first", NULL, 1), MOONCAKE_OK);
    mc_mem_fail_after(0);
    assert_int_equal(mc_metric_print_u64(&out, "second", labels, 2), MOONCAKE_ENOMEM);
    assert_printed(&out, "first 1\n");
}

static void metric__counters_and_gauges_keep_what_they_are_told(void **state)
{
    struct mc_counter counter = {0};
    struct mc_gauge gauge = {0};

    (void)state;
    mc_counter_add(&counter, 3);
    mc_counter_add_owner(&counter, 4);
    assert_int_equal(mc_counter_get(&counter), 7);
    mc_gauge_set(&gauge, -5);
    mc_gauge_add(&gauge, 2);
    assert_int_equal(mc_gauge_get(&gauge), -3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metric__label_value_cannot_break_the_page),
        cmocka_unit_test(metric__head_escapes_help),
        cmocka_unit_test(metric__numbers_print_exactly),
        cmocka_unit_test(metric__histogram_counts_a_value_at_its_bound_as_below),
        cmocka_unit_test(metric__histogram_without_bounds_has_one_bucket),
        cmocka_unit_test(metric__histogram_adds_up_what_several_threads_have_observed),
        cmocka_unit_test(metric__out_of_memory_leaves_no_half_line),
        cmocka_unit_test(metric__counters_and_gauges_keep_what_they_are_told),
    };

    return cmocka_run_group_tests_name("metric", tests, NULL, NULL);
}
