/* The ring of the last hour, and its JSON. */
#include "master/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

static struct mc_history history;

static int empty(void **state)
{
    (void)state;
    memset(&history, 0, sizeof(history));
    return 0;
}

/* Sample number @p n, taken n steps after the start; its figures can be told apart. */
static void add(uint64_t n)
{
    const struct mc_history_sample sample = {
        .at_ns = n * 10u * MC_NS_PER_S, .used = n, .capacity = 1000 + n, .put_rejected = 2 * n};

    mc_history_add(&history, &sample);
}

/* What is printed at the time of sample @p n; the caller drops it. */
static json_t *print_at(uint64_t n)
{
    struct mc_buf out;
    json_t *json;

    mc_buf_init(&out);
    assert_int_equal(mc_history_print(&history, n * 10u * MC_NS_PER_S, &out), MOONCAKE_OK);
    json = json_loadb((const char *)mc_buf_bytes(&out), mc_buf_len(&out), 0, NULL);
    assert_non_null(json);
    mc_buf_fini(&out);
    return json;
}

/* Value @p field of line @p at. */
static double value(const json_t *json, size_t at, const char *field)
{
    const json_t *fields = json_object_get(json, "fields");
    const json_t *line = json_array_get(json_object_get(json, "samples"), at);
    size_t i;

    assert_int_equal(json_array_size(line), json_array_size(fields));
    for (i = 0; i < json_array_size(fields); i++) {
        if (strcmp(json_string_value(json_array_get(fields, i)), field) == 0) {
            return json_number_value(json_array_get(line, i));
        }
    }
    fail_msg("no field %s", field);
    return 0;
}

static void history__without_samples_is_an_empty_list(void **state)
{
    json_t *json = print_at(5);

    (void)state;
    assert_int_equal(json_array_size(json_object_get(json, "samples")), 0);
    assert_int_equal(json_integer_value(json_object_get(json, "step_seconds")), 10);
    json_decref(json);
}

static void history__tells_figures_by_name_and_age(void **state)
{
    json_t *json;

    (void)state;
    add(3);
    add(4);
    json = print_at(5);
    assert_int_equal(json_array_size(json_object_get(json, "samples")), 2);
    assert_true(value(json, 0, "age_seconds") == 20 && value(json, 1, "age_seconds") == 10);
    assert_true(value(json, 0, "used") == 3 && value(json, 1, "used") == 4);
    assert_true(value(json, 1, "capacity") == 1004 && value(json, 1, "put_rejected") == 8);
    json_decref(json);
}

static void history__keeps_the_newest_hour_oldest_first(void **state)
{
    uint64_t const n = 1000;
    json_t *json;
    size_t i;

    (void)state;
    for (i = 0; i <= n; i++) {
        add(i);
    }
    json = print_at(n);
    assert_int_equal(json_array_size(json_object_get(json, "samples")), MC_HISTORY_SAMPLES_MAX);
    for (i = 0; i < MC_HISTORY_SAMPLES_MAX; i++) {
        assert_true(value(json, i, "used") == (double)(n + 1 - MC_HISTORY_SAMPLES_MAX + i));
    }
    assert_true(value(json, 0, "age_seconds") == 3590);
    json_decref(json);
}

static void history__of_the_greatest_numbers_fits(void **state)
{
    struct mc_history_sample sample;
    struct mc_buf out;

    (void)state;
    memset(&sample, 0xff, sizeof(sample));
    sample.at_ns = 0;
    mc_history_add(&history, &sample);
    mc_buf_init(&out);
    assert_int_equal(mc_history_print(&history, UINT64_MAX, &out), MOONCAKE_OK);
    assert_int_equal(mc_buf_append(&out, "", 1), MOONCAKE_OK);
    assert_non_null(strstr((const char *)mc_buf_bytes(&out), "[18446744073.7,184467440737095516"));
    mc_buf_fini(&out);
}

static void history__without_memory_says_so(void **state)
{
    struct mc_buf out;

    (void)state;
    add(1);
    mc_buf_init(&out);
    mc_mem_fail_after(0);
    assert_int_equal(mc_history_print(&history, 0, &out), MOONCAKE_ENOMEM);
    mc_mem_fail_after(-1);
    mc_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(history__without_samples_is_an_empty_list, empty),
        cmocka_unit_test_setup(history__tells_figures_by_name_and_age, empty),
        cmocka_unit_test_setup(history__keeps_the_newest_hour_oldest_first, empty),
        cmocka_unit_test_setup(history__of_the_greatest_numbers_fits, empty),
        cmocka_unit_test_setup(history__without_memory_says_so, empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
