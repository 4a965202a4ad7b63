/* Patterns: what they match, what they refuse, and that a hostile one ends soon. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "master/pattern.h"
#include "master/pool.h"

static bool matches(const char *text, const char *key)
{
    struct mc_pattern *pattern = NULL;
    bool found = false;

    assert_int_equal(mc_pattern_create(text, &pattern), MOONCAKE_OK);
    assert_int_equal(mc_pattern_match(pattern, key, strlen(key), &found), MOONCAKE_OK);
    mc_pattern_destroy(&pattern);
    assert_null(pattern);
    return found;
}

static void pattern__that_is_none_is_refused_with_the_position(void **state)
{
    static const char *const bad[] = {"(", "[a", "a{2", "*a", "(?<n", "\\"};
    struct mc_pattern *pattern = NULL;

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        if (strcmp(bad[i], "a{2") == 0) {
            continue; /* PCRE2 takes it literally */
        }
        assert_int_equal(mc_pattern_create(bad[i], &pattern), MOONCAKE_EINVAL);
        assert_non_null(strstr(mooncake_last_error(), "at byte"));
        assert_null(pattern);
    }
}

static void pattern__longer_than_the_limit_is_refused(void **state)
{
    static char text[MC_PATTERN_LEN_MAX + 2];
    struct mc_pattern *pattern = NULL;

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    assert_int_equal(mc_pattern_create(text, &pattern), MOONCAKE_EINVAL);
    text[MC_PATTERN_LEN_MAX] = '\0';
    assert_int_equal(mc_pattern_create(text, &pattern), MOONCAKE_OK);
    mc_pattern_destroy(&pattern);
}

static void pattern__is_found_anywhere_unless_anchored(void **state)
{
    (void)state;
    assert_true(matches("b+", "abbc"));
    assert_true(matches("^model/.*_tp_[0-3]$", "model/layer7_tp_2"));
    assert_false(matches("^model/.*_tp_[0-3]$", "model/layer7_tp_4"));
    assert_false(matches("^b", "ab"));
    assert_true(matches(".", "\xff\xfe")); /* any bytes */
    assert_true(matches("a.b", "a\nb"));
}

static void pattern__out_of_memory_leaves_the_result_untouched(void **state)
{
    struct mc_pattern *pattern = NULL;

    (void)state;
    mc_mem_fail_after(0);
    assert_int_equal(mc_pattern_create("a", &pattern), MOONCAKE_ENOMEM);
    mc_mem_fail_after(-1);
    assert_null(pattern);
}

static void pattern__that_explodes_on_one_key_is_refused(void **state)
{
    static const char key[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    struct mc_pattern *pattern = NULL;
    bool found = true;

    (void)state;
    assert_int_equal(mc_pattern_create("^(a+)+$", &pattern), MOONCAKE_OK);
    assert_int_equal(mc_pattern_match(pattern, key, sizeof(key) - 1, &found), MOONCAKE_EINVAL);
    assert_true(found); /* untouched */
    mc_pattern_destroy(&pattern);
}

/* Found by the fuzzer: PCRE2 counts its steps anew at each place where a match may start, and does
 * not count plain letters; this took 2.7 s. */
static void pattern__that_is_tried_at_many_places_is_refused_soon(void **state)
{
    static char text[1000], key[3200];
    struct mc_pattern *pattern = NULL;
    bool found = true;
    clock_t start;

    (void)state;
    memset(text, 'k', sizeof(text) - 1);
    text[150] = '+';
    text[sizeof(text) - 3] = 'x';
    memset(key, 'k', sizeof(key) - 2);
    memcpy(key + sizeof(key) - 2, "xy", 2);
    assert_int_equal(mc_pattern_create(text, &pattern), MOONCAKE_OK);
    start = clock();
    assert_int_equal(mc_pattern_match(pattern, key, sizeof(key), &found), MOONCAKE_EINVAL);
    assert_true(found); /* untouched */
    assert_true(clock() - start < CLOCKS_PER_SEC / 4);
    mc_pattern_destroy(&pattern);
}

static void pattern__that_is_slow_on_every_key_is_refused_soon(void **state)
{
    static const char key[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    struct mc_pattern *pattern = NULL;
    mooncake_err err = MOONCAKE_OK;
    unsigned count = 0;
    bool found;

    (void)state;
    /* Some thousand steps a key: below the limit of one match. */
    assert_int_equal(mc_pattern_create("^a*a*a*a*[bc]", &pattern), MOONCAKE_OK);
    assert_int_equal(mc_pattern_match(pattern, key, 16, &found), MOONCAKE_OK);
    while (err == MOONCAKE_OK && count < 5000) {
        err = mc_pattern_match(pattern, key, 16, &found);
        count++;
    }
    assert_int_equal(err, MOONCAKE_EINVAL);
    mc_pattern_destroy(&pattern);
}

struct removed {
    mooncake_err err;
    struct mc_remove_all_reply reply;
    bool done;
};

static void on_removed(void *arg, mooncake_err err, const struct mc_remove_all_reply *reply)
{
    struct removed *out = arg;

    *out = (struct removed){.err = err, .reply = *reply, .done = true};
}

static struct removed remove_matching(struct pool *pool, const char *pattern)
{
    struct mc_remove_all_request const request = {.client_id = WRITER, .pattern = pattern};
    struct removed out = {0};
    mooncake_err err = mc_core_remove_all(pool->core, &request, on_removed, &out);

    if (err != MOONCAKE_OK) {
        return (struct removed){.err = err, .done = true};
    }
    pool_settle(pool);
    assert_true(out.done);
    return out;
}

static void removal__by_pattern_counts_the_keys_that_have_it(void **state)
{
    struct pool pool;
    struct removed out;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    pool_put_many(&pool, "x", 100, 10);
    pool_put_many(&pool, "y", 100, 10);
    assert_int_equal(pool_query(&pool, "x7").status, MOONCAKE_OK); /* a lease */
    assert_int_equal(pool_query(&pool, "y7").status, MOONCAKE_OK); /* not of a matching key */
    assert_int_equal(remove_matching(&pool, "(").err, MOONCAKE_EINVAL);
    out = remove_matching(&pool, "^x");
    assert_int_equal(out.err, MOONCAKE_OK);
    assert_int_equal(out.reply.removed, 99);
    assert_int_equal(out.reply.left_leased, 1);
    assert_int_equal(pool_has_many(&pool, "x", 100), 1);
    assert_int_equal(pool_has_many(&pool, "y", 100), 100);
    pool_close(&pool);
}

/* Two of different clients, and a third key's own removal: each counts its own only. */
static void removal__under_way_tells_what_it_has_removed_itself(void **state)
{
    struct pool pool;
    struct removed mine = {.done = false}, other = {.done = false};
    struct mc_remove_all_request const wanted = {.client_id = 7, .pattern = "^x"};
    struct mc_remove_all_request const next = {.client_id = 8, .pattern = "^y"};
    uint64_t seen = 0;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 64 * MIB);
    pool_put_many(&pool, "x", 20000, 10);
    pool_put_many(&pool, "y", 20000, 10);
    assert_int_equal(mc_core_removed_now(pool.core, 7), 0);
    assert_int_equal(mc_core_remove_all(pool.core, &wanted, on_removed, &mine), MOONCAKE_OK);
    assert_int_equal(mc_core_remove_all(pool.core, &next, on_removed, &other), MOONCAKE_OK);
    while (!other.done) {
        uint64_t removed = mc_core_removed_now(pool.core, 7);
        uint64_t others = mc_core_removed_now(pool.core, 8);

        assert_int_equal(mc_core_removed_now(pool.core, 0), 0);
        assert_int_equal(removed + others + (mine.done ? mine.reply.removed : 0),
                         40000 - pool_status(&pool).keys);
        assert_true(mine.done ? removed == 0 : removed >= seen && others == 0);
        seen = removed > seen ? removed : seen;
        (void)mc_core_tick(pool.core);
    }
    assert_true(seen > 0);
    assert_int_equal(mine.reply.removed, 20000);
    assert_int_equal(mc_core_removed_now(pool.core, 8), 0);
    pool_close(&pool);
}

static void removal__by_a_hostile_pattern_ends_and_says_why(void **state)
{
    struct pool pool;
    struct removed out;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 16 * MIB);
    pool_put_many(&pool, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 2000, 10);
    out = remove_matching(&pool, "^(a+)+$");
    assert_int_equal(out.err, MOONCAKE_EINVAL);
    assert_int_equal(out.reply.removed, 0);
    assert_non_null(strstr(mooncake_last_error(), "steps"));
    assert_int_equal(pool_status(&pool).keys, 2000);
    pool_close(&pool);
}

static void listing__by_pattern_names_the_keys_that_have_it(void **state)
{
    struct mc_list_keys_request request = {.keys_max = 10, .pattern = "7$"};
    struct mc_list_keys_reply reply;
    struct pool pool;
    unsigned count = 0;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    pool_put_many(&pool, "k", 1000, 10);
    do {
        mc_arena_reset(&pool.arena);
        assert_int_equal(mc_core_list_keys(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
        for (size_t i = 0; i < reply.count; i++) {
            assert_int_equal(reply.keys[i].bytes[reply.keys[i].len - 1], '7');
        }
        count += (unsigned)reply.count;
        request.cursor = reply.cursor;
    } while (reply.cursor != 0);
    assert_int_equal(count, 100);
    request.pattern = "(";
    assert_int_equal(mc_core_list_keys(pool.core, &request, &pool.arena, &reply), MOONCAKE_EINVAL);
    pool_close(&pool);
}

static void listing__by_a_slow_pattern_is_refused_on_the_first_page(void **state)
{
    struct mc_list_keys_request request = {.keys_max = 10, .pattern = "^a*a*a*a*[bc]"};
    struct mc_list_keys_reply reply;
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    pool_put_many(&pool, "aaaaaaaaaaaaaaaa", 1000, 10);
    assert_int_equal(mc_core_list_keys(pool.core, &request, &pool.arena, &reply), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "on average"));
    pool_close(&pool);
}

static void pattern__that_backtracks_as_far_as_a_key_is_long_is_honest(void **state)
{
    char key[250];
    struct mc_pattern *pattern = NULL;
    bool found = true;

    (void)state;
    memset(key, 'x', sizeof(key));
    memcpy(key, "layer", 5);
    assert_int_equal(mc_pattern_create("layer.*rank.*[0-9]", &pattern), MOONCAKE_OK);
    for (unsigned i = 0; i < 20000; i++) {
        assert_int_equal(mc_pattern_match(pattern, key, sizeof(key), &found), MOONCAKE_OK);
        assert_false(found);
    }
    mc_pattern_destroy(&pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pattern__that_is_none_is_refused_with_the_position),
        cmocka_unit_test(pattern__longer_than_the_limit_is_refused),
        cmocka_unit_test(pattern__is_found_anywhere_unless_anchored),
        cmocka_unit_test(pattern__out_of_memory_leaves_the_result_untouched),
        cmocka_unit_test(pattern__that_explodes_on_one_key_is_refused),
        cmocka_unit_test(pattern__that_is_tried_at_many_places_is_refused_soon),
        cmocka_unit_test(pattern__that_is_slow_on_every_key_is_refused_soon),
        cmocka_unit_test(removal__by_pattern_counts_the_keys_that_have_it),
        cmocka_unit_test(removal__under_way_tells_what_it_has_removed_itself),
        cmocka_unit_test(removal__by_a_hostile_pattern_ends_and_says_why),
        cmocka_unit_test(pattern__that_backtracks_as_far_as_a_key_is_long_is_honest),
        cmocka_unit_test(listing__by_pattern_names_the_keys_that_have_it),
        cmocka_unit_test(listing__by_a_slow_pattern_is_refused_on_the_first_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
