/* Sizes, durations, addresses, numbers from text: refusals first. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/option.h"

#define UNTOUCHED 0x5eedu

static void assert_size_refused(const char *text)
{
    uint64_t bytes = UNTOUCHED;

    mc_err_clear();
    if (mc_parse_size(text, &bytes) != MOONCAKE_EINVAL) {
        fail_msg("\"%s\" was taken as %" PRIu64 " bytes", text, bytes);
    }
    assert_int_equal(bytes, UNTOUCHED);
    assert_true(mooncake_last_error()[0] == '"'); /* the sentence begins with the value */
}

static void parse__size_that_is_no_size_is_refused(void **state)
{
    static const char *const bad[] = {
        "",          " ",     "0",     "0B",     "0GiB", "0.0000000000001K",
        "-1",        "-4GiB", "+4",    "nan",    "NaN",  "inf",
        "INF",       "1e3",   "0x10",  "4 ",     " 4",   "4  K",
        "4KiBx",     "4KB B", "4Ki",   "4iB",    "K",    "GiB",
        ".5G",       "5.G",   "5..1G", "5.1.1G", "4P",   "4K4",
        "4,5G",      "4_000", "four",  "4K\n",   "4\tK", "1K ",
        "4 GiB ",    "0.9",   "0.99B", "4bb",    "4kk",  "\xd9\xa4K",
        "4\xc2\xa0K"};

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        assert_size_refused(bad[i]);
    }
}

static void parse__size_beyond_64_bits_is_refused(void **state)
{
    static const char *const bad[] = {"18446744073709551616", "16777216T", "99999999999999999999T",
                                      "18014398509481984K", "16777216.5TiB"};

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        assert_size_refused(bad[i]);
        assert_non_null(strstr(mooncake_last_error(), "too large"));
    }
}

static void parse__size_in_every_spelling_is_taken(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"1", 1},
        {"4096", 4096},
        {"4096B", 4096},
        {"4096 b", 4096},
        {"64KiB", 65536},
        {"64KB", 65536},
        {"64K", 65536},
        {"64k", 65536},
        {"64 kib", 65536},
        {"4.5gb", 4831838208},
        {"4.5 GiB", 4831838208},
        {"1M", 1048576},
        {"2T", 2199023255552},
        {"0.5K", 512},
        {"0.1GiB", 107374182},
        {"1.0000000000000000000000000000000000000K", 1024},
        {"1.9999999999999999999999999999999999999K", 2047},
        {"000004K", 4096},
        {"16777215T", 16777215ull << 40},
        {"16777215.9999999999T", UINT64_MAX - 109},
        {"18446744073709551615", UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(good); i++) {
        uint64_t bytes = 0;

        assert_int_equal(mc_parse_size(good[i].text, &bytes), MOONCAKE_OK);
        if (bytes != good[i].bytes) {
            fail_msg("\"%s\" came out as %" PRIu64, good[i].text, bytes);
        }
    }
}

static void parse__long_value_is_cut_in_the_sentence(void **state)
{
    char text[4096];
    uint64_t bytes = UNTOUCHED;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    text[3] = '\n'; /* and one event stays one line */
    assert_int_equal(mc_parse_size(text, &bytes), MOONCAKE_EINVAL);
    assert_true(strlen(mooncake_last_error()) < 256);
    assert_non_null(strstr(mooncake_last_error(), "xxx?xxx"));
    assert_non_null(strstr(mooncake_last_error(), "4GiB")); /* what is allowed is still there */
}

static void parse__duration_that_is_none_is_refused(void **state)
{
    static const char *const bad[] = {"",      "-1",    "-10s", "s",      "ms",    "10x",  "10S",
                                      "10 ",   " 10",   "1e3",  "nan",    "inf",   "10s ", "10ss",
                                      "0.1ms", "1.ms",  ".5s",  "1d",     "1 2s",  "+1s",  "0x1s",
                                      "1:30",  "1h30m", "10\n", "0.0004", "10  s", "1,5s"};

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        uint64_t ms = UNTOUCHED;

        if (mc_parse_duration(bad[i], 1, &ms) != MOONCAKE_EINVAL) {
            fail_msg("\"%s\" was taken as %" PRIu64 " ms", bad[i], ms);
        }
        assert_int_equal(ms, UNTOUCHED);
    }
}

static void parse__duration_beyond_64_bits_is_refused(void **state)
{
    uint64_t ms = UNTOUCHED;

    (void)state;
    assert_int_equal(mc_parse_duration("18446744073709551616", 1, &ms), MOONCAKE_EINVAL);
    assert_int_equal(mc_parse_duration("18446744073709552s", 1, &ms), MOONCAKE_EINVAL);
    assert_int_equal(mc_parse_duration("18446744073709551615", 1000, &ms), MOONCAKE_EINVAL);
    assert_int_equal(mc_parse_duration("18446744073709551.616s", 1, &ms), MOONCAKE_EINVAL);
    assert_int_equal(ms, UNTOUCHED);
    assert_non_null(strstr(mooncake_last_error(), "too long"));
}

static void parse__duration_in_every_unit_is_taken(void **state)
{
    static const struct {
        const char *text;
        uint64_t plain_ms, ms;
    } good[] = {
        {"0", 1, 0},           {"0s", 1, 0},         {"250", 1, 250},
        {"250", 1000, 250000}, {"250ms", 1000, 250}, {"10s", 1, 10000},
        {"5m", 1, 300000},     {"2h", 1, 7200000},   {"1.5s", 1, 1500},
        {"0.5", 1000, 500},    {"10 s", 1, 10000},   {"18446744073709551615", 1, UINT64_MAX}};

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(good); i++) {
        uint64_t ms = UNTOUCHED;

        assert_int_equal(mc_parse_duration(good[i].text, good[i].plain_ms, &ms), MOONCAKE_OK);
        assert_int_equal(ms, good[i].ms);
    }
}

static void parse__address_that_is_none_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        ":",
        ":80",
        "host:",
        "host:65536",
        "host:99999999999",
        "host:-1",
        "host:+1",
        "host:0x50",
        "host:80 ",
        "host: 80",
        " host:80",
        "ho st:80",
        "host:80:81",
        "::1",
        "::1:80",
        "fe80::1:80",
        "[::1",
        "[::1]80",
        "[]:80",
        "[host]:80",
        "[1.2.3.4]:1",
        "[::1]:",
        "[::1]:65536",
        "[::1%]:80",
        "[::1% x]:1",
        "[:::1]:80",
        "1.2.3.4.5:1",
        "10.0.0.300:80",
        "256.1.1.1:80",
        "1.2.3:80",
        "127.1:80",
        "123:80",
        "host..x:80",
        ".host:80",
        "h/x:80",
        "tcp://h:80",
        "h\xc3\xb6:1",
        "host\n:80",
        "[::1]]:80",
        "[[::1]]:80",
        "host:000080",
        "a@b:80",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:80"};

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        char host[300] = "untouched";
        uint16_t port = UNTOUCHED;

        if (mc_parse_address(bad[i], 1234, host, sizeof(host), &port) != MOONCAKE_EINVAL) {
            fail_msg("\"%s\" was taken as %s port %u", bad[i], host, port);
        }
        assert_string_equal(host, "untouched");
        assert_int_equal(port, UNTOUCHED);
        assert_non_null(strstr(mooncake_last_error(), "host:port"));
    }
}

static void parse__address_without_port_needs_a_default(void **state)
{
    char host[64] = "untouched";
    uint16_t port = UNTOUCHED;

    (void)state;
    assert_int_equal(mc_parse_address("host", 0, host, sizeof(host), &port), MOONCAKE_EINVAL);
    assert_int_equal(mc_parse_address("[::1]", 0, host, sizeof(host), &port), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "has no port"));
    assert_string_equal(host, "untouched");
    assert_int_equal(mc_parse_address("host", 50051, host, sizeof(host), &port), MOONCAKE_OK);
    assert_string_equal(host, "host");
    assert_int_equal(port, 50051);
}

static void parse__address_that_does_not_fit_is_refused(void **state)
{
    char host[9] = "before";
    uint16_t port = UNTOUCHED;

    (void)state;
    assert_int_equal(mc_parse_address("123456.xy:1", 0, host, sizeof(host), &port),
                     MOONCAKE_EINVAL);
    assert_string_equal(host, "before");
    assert_int_equal(mc_parse_address("123456.x:1", 0, host, sizeof(host), &port), MOONCAKE_OK);
    assert_string_equal(host, "123456.x"); /* exactly the room there is */
}

static void parse__address_in_every_form_is_taken(void **state)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
    } good[] = {{"host:80", "host", 80},
                {"10.0.0.7:18515", "10.0.0.7", 18515},
                {"0.0.0.0:0", "0.0.0.0", 0},
                {"a-b_c.example.com:65535", "a-b_c.example.com", 65535},
                {"host.:1", "host.", 1},
                {"[::1]:50051", "::1", 50051},
                {"[::]", "::", 7},
                {"[fe80::1%eth0]:9", "fe80::1%eth0", 9},
                {"[::ffff:10.0.0.1]:9", "::ffff:10.0.0.1", 9},
                {"7up:9", "7up", 9}};

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(good); i++) {
        char host[64];
        uint16_t port = UNTOUCHED;

        assert_int_equal(mc_parse_address(good[i].text, 7, host, sizeof(host), &port), MOONCAKE_OK);
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
    }
}

static void parse__number_outside_its_range_is_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "-1",
                                      "+5",
                                      " 5",
                                      "5 ",
                                      "5.0",
                                      "0x5",
                                      "1e1",
                                      "four",
                                      "4",
                                      "11",
                                      "18446744073709551616",
                                      "99999999999999999999999"};

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        uint64_t value = UNTOUCHED;

        assert_int_equal(mc_parse_u64(bad[i], 5, 10, &value), MOONCAKE_EINVAL);
        assert_int_equal(value, UNTOUCHED);
        assert_non_null(strstr(mooncake_last_error(), "5 to 10"));
    }
}

static void parse__number_at_both_ends_of_its_range_is_taken(void **state)
{
    uint64_t value = 0;

    (void)state;
    assert_int_equal(mc_parse_u64("5", 5, 10, &value), MOONCAKE_OK);
    assert_int_equal(value, 5);
    assert_int_equal(mc_parse_u64("10", 5, 10, &value), MOONCAKE_OK);
    assert_int_equal(value, 10);
    assert_int_equal(mc_parse_u64("18446744073709551615", 0, UINT64_MAX, &value), MOONCAKE_OK);
    assert_true(value == UINT64_MAX);
}

static void parse__size_for_a_person_has_one_decimal(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {{0, "0B"},
                 {1023, "1023B"},
                 {1024, "1.0KiB"},
                 {1048575, "1023.9KiB"},
                 {4ull << 30, "4.0GiB"},
                 {4831838208, "4.5GiB"},
                 {1ull << 60, "1.0EiB"},
                 {UINT64_MAX, "15.9EiB"}};
    char out[16];

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(sizes); i++) {
        assert_string_equal(mc_format_size(sizes[i].bytes, out, sizeof(out)), sizes[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__size_that_is_no_size_is_refused),
        cmocka_unit_test(parse__size_beyond_64_bits_is_refused),
        cmocka_unit_test(parse__size_in_every_spelling_is_taken),
        cmocka_unit_test(parse__long_value_is_cut_in_the_sentence),
        cmocka_unit_test(parse__duration_that_is_none_is_refused),
        cmocka_unit_test(parse__duration_beyond_64_bits_is_refused),
        cmocka_unit_test(parse__duration_in_every_unit_is_taken),
        cmocka_unit_test(parse__address_that_is_none_is_refused),
        cmocka_unit_test(parse__address_without_port_needs_a_default),
        cmocka_unit_test(parse__address_that_does_not_fit_is_refused),
        cmocka_unit_test(parse__address_in_every_form_is_taken),
        cmocka_unit_test(parse__number_outside_its_range_is_refused),
        cmocka_unit_test(parse__number_at_both_ends_of_its_range_is_taken),
        cmocka_unit_test(parse__size_for_a_person_has_one_decimal),
    };

    return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
