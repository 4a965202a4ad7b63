/* Figures: percentiles against a sorted array, sizes as they are written, sums of tallies. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "histogram.h"
#include "options.h"
#include "pattern.h"
#include "requests.h"
#include "tally.h"

#define SAMPLES 5000

/* Not linked: the client library. */
const char *mooncake_last_error(void)
{
    return "";
}

const char *mooncake_err_name(mooncake_err err)
{
    return err == MOONCAKE_ENOENT ? "ENOENT" : "other";
}

const char *mooncake_err_text(mooncake_err err)
{
    (void)err;
    return "the text";
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

static void histogram__percentiles_are_right_to_one_percent(void **state)
{
    static struct mc_histogram h;
    static uint64_t samples[SAMPLES];

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        uint64_t rnd = seed;

        print_message("seed %" PRIu64 "\n", seed);
        memset(&h, 0, sizeof(h));
        for (size_t i = 0; i < SAMPLES; i++) {
            samples[i] = mc_random(&rnd) >> (25 + mc_random_below(&rnd, 39));
            mc_histogram_add(&h, samples[i]);
        }
        qsort(samples, SAMPLES, sizeof(samples[0]), by_value);
        for (uint32_t percent = 1; percent <= 100; percent++) {
            uint64_t is = mc_histogram_at(&h, percent / 100.0);
            uint64_t should = samples[percent * SAMPLES / 100 - 1];

            assert_in_range(is, should - should / 100, should + should / 100);
        }
        assert_true(h.max == samples[SAMPLES - 1]);
    }
}

static void histogram__of_none_and_of_the_longest_time(void **state)
{
    static struct mc_histogram h;

    (void)state;
    assert_int_equal(mc_histogram_at(&h, 0.5), 0);
    mc_histogram_add(&h, UINT64_MAX); /* counts as the longest there is */
    mc_histogram_add(&h, 0);
    assert_int_equal(mc_histogram_at(&h, 0.5), 0);
    assert_true(mc_histogram_at(&h, 1.0) >= (uint64_t)1 << 39);
}

static void histogram__merged_is_as_if_counted_together(void **state)
{
    static struct mc_histogram a, b, both;
    uint64_t rnd = 1;

    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        uint64_t sample = mc_random_below(&rnd, 1000000);

        mc_histogram_add(i % 3 == 0 ? &a : &b, sample);
        mc_histogram_add(&both, sample);
    }
    mc_histogram_merge(&a, &b);
    assert_memory_equal(&a, &both, sizeof(a));
}

static void size__what_is_no_size_is_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "K",
                                      "-1",
                                      "1 K",
                                      "1.",
                                      ".5K",
                                      "1..5K",
                                      "1.2.3",
                                      "nan",
                                      "inf",
                                      "1e3",
                                      "4kb",
                                      "0x10",
                                      "4KiBB",
                                      "18446744073709551616",
                                      "16777216T",
                                      "999999999999T"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t size = 5;

        if (mc_parse_size(bad[i], strlen(bad[i]), &size)) {
            fail_msg("\"%s\" is taken for %" PRIu64, bad[i], size);
        }
        assert_int_equal(size, 5);
    }
}

static void size__units_are_multiplied(void **state)
{
    static const struct {
        const char *text;
        uint64_t size;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"17B", 17},
                {"4K", 4096},
                {"4KiB", 4096},
                {"4KB", 4000},
                {"1.5MiB", 1572864},
                {"2GB", 2000000000},
                {"3GiB", 3221225472},
                {"1T", 1099511627776},
                {"18446744073709551615", UINT64_MAX}};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t size = 5;

        assert_true(mc_parse_size(good[i].text, strlen(good[i].text), &size));
        assert_true(size == good[i].size);
    }
}

static void tally__wrong_value_takes_the_sentence_of_an_error(void **state)
{
    static struct mc_tally tally, sum;
    unsigned char data[100];

    (void)state;
    mc_tally_error(&tally, "get", "k1", MOONCAKE_ENOENT);
    assert_non_null(strstr(tally.sentence, "get of k1: ENOENT: the text"));
    mc_pattern_fill(mc_pattern_seed("k2", 0), data, sizeof(data));
    mc_tally_verify(&tally, "k2", data, 100, 100);
    assert_int_equal(tally.verified, 100);
    assert_int_equal(tally.wrong, 0);
    mc_tally_verify(&tally, "k2", data, 99, 100);
    assert_int_equal(tally.wrong, 1);
    assert_non_null(strstr(tally.sentence, "99 bytes long, not 100"));
    data[50] ^= 1;
    mc_tally_verify(&tally, "k2", data, 100, 100);
    assert_int_equal(tally.wrong, 2);
    assert_int_equal(tally.verified, 150);
    mc_tally_merge(&sum, &tally);
    assert_int_equal(sum.wrong, 2);
    assert_int_equal(sum.errors, 1);
    assert_string_equal(sum.sentence, tally.sentence);
}

static void tally__spoilt_memory_is_never_right(void **state)
{
    unsigned char data[3000];

    (void)state;
    for (size_t len = 1; len < sizeof(data); len += 1 + len / 2) {
        static struct mc_tally tally;
        uint64_t wrong = tally.wrong;

        mc_pattern_fill(mc_pattern_seed("k", 0), data, len);
        mc_spoil(data, len);
        mc_tally_verify(&tally, "k", data, len, len);
        assert_true(tally.wrong == wrong + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histogram__percentiles_are_right_to_one_percent),
        cmocka_unit_test(histogram__of_none_and_of_the_longest_time),
        cmocka_unit_test(histogram__merged_is_as_if_counted_together),
        cmocka_unit_test(size__what_is_no_size_is_refused),
        cmocka_unit_test(size__units_are_multiplied),
        cmocka_unit_test(tally__wrong_value_takes_the_sentence_of_an_error),
        cmocka_unit_test(tally__spoilt_memory_is_never_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
