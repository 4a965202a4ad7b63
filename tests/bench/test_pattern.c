/* Data that describes itself: every wrong byte is found, and named for what it is. */
#include "pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LEN_MAX 9000u

static void pattern__every_changed_bit_is_found_where_it_is(void **state)
{
    static const size_t lens[] = {1, 7, 8, 9, 63, 64, 65, 4095, 4096, 4097, 8191, 8999};
    uint64_t seed = mc_pattern_seed("key", 1);
    unsigned char data[LEN_MAX];

    (void)state;
    for (size_t l = 0; l < sizeof(lens) / sizeof(lens[0]); l++) {
        mc_pattern_fill(seed, data, lens[l]);
        for (size_t i = 0; i < lens[l]; i++) {
            unsigned char bit = (unsigned char)(1u << (i % 8));

            data[i] ^= bit;
            assert_int_equal(mc_pattern_check(seed, data, lens[l]), i);
            data[i] ^= bit;
        }
        assert_int_equal(mc_pattern_check(seed, data, lens[l]), lens[l]);
    }
}

static void pattern__fill_stays_within_its_length(void **state)
{
    unsigned char data[LEN_MAX];

    (void)state;
    for (size_t len = 0; len < 200; len++) {
        memset(data, 0xee, sizeof(data));
        mc_pattern_fill(12345, data, len);
        for (size_t i = len; i < len + 100; i++) {
            assert_int_equal(data[i], 0xee);
        }
    }
}

static void pattern__value_of_zero_bytes_is_right(void **state)
{
    unsigned char none = 0;

    (void)state;
    assert_int_equal(mc_pattern_check(1, &none, 0), 0);
}

static void pattern__longer_value_begins_like_a_shorter_one(void **state)
{
    unsigned char data[LEN_MAX];

    (void)state;
    mc_pattern_fill(77, data, LEN_MAX);
    for (size_t len = 0; len < LEN_MAX; len += 13) {
        assert_int_equal(mc_pattern_check(77, data, len), len);
    }
}

static void pattern__other_keys_and_versions_differ_at_once(void **state)
{
    unsigned char data[64];

    (void)state;
    mc_pattern_fill(mc_pattern_seed("a", 0), data, sizeof(data));
    assert_true(mc_pattern_check(mc_pattern_seed("b", 0), data, sizeof(data)) < 8);
    assert_true(mc_pattern_check(mc_pattern_seed("a", 1), data, sizeof(data)) < 8);
    assert_int_equal(mc_pattern_check(mc_pattern_seed("a", 0), data, sizeof(data)), sizeof(data));
}

static void pattern__misplaced_bytes_are_named_by_their_place(void **state)
{
    unsigned char data[LEN_MAX];
    char text[200];

    (void)state;
    mc_pattern_fill(5, data, LEN_MAX);
    memmove(data + 800, data + 4096, 16);
    assert_true(mc_pattern_check(5, data, LEN_MAX) - 800 < 8);
    mc_pattern_explain(5, data, LEN_MAX, 800, text, sizeof(text));
    assert_non_null(strstr(text, "byte 800 of 9000"));
    assert_non_null(strstr(text, "belongs at 4096"));
}

static void pattern__zeros_and_foreign_bytes_are_named(void **state)
{
    unsigned char data[128];
    char text[200];

    (void)state;
    mc_pattern_fill(5, data, sizeof(data));
    memset(data + 16, 0, 8);
    mc_pattern_explain(5, data, sizeof(data), 16, text, sizeof(text));
    assert_non_null(strstr(text, "zeros"));
    memset(data + 16, 0xff, 8);
    mc_pattern_explain(5, data, sizeof(data), 16, text, sizeof(text));
    assert_non_null(strstr(text, "ffffffffffffffff"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pattern__every_changed_bit_is_found_where_it_is),
        cmocka_unit_test(pattern__fill_stays_within_its_length),
        cmocka_unit_test(pattern__value_of_zero_bytes_is_right),
        cmocka_unit_test(pattern__longer_value_begins_like_a_shorter_one),
        cmocka_unit_test(pattern__other_keys_and_versions_differ_at_once),
        cmocka_unit_test(pattern__misplaced_bytes_are_named_by_their_place),
        cmocka_unit_test(pattern__zeros_and_foreign_bytes_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
