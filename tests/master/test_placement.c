/* Where new data goes: the comparison by itself, and what it makes of a pool. */
#include <stdio.h>
#include <string.h>

#include "master/placement.h"
#include "master/pool.h"

/* ---- pure ---------------------------------------------------------------------------------- */

static const struct mc_place_view plain_view = {
    .capacity = 1000, .free = 500, .largest = 400, .others_capacity = 1000, .others_free = 500};

static void placement__a_place_that_fits_beats_an_emptier_one_that_does_not(void **state)
{
    struct mc_place_view a = plain_view;
    struct mc_place_view b = plain_view;

    (void)state;
    a.free = 900;
    a.largest = 99;
    assert_false(mc_place_better(&a, &b, 100));
    assert_true(mc_place_better(&b, &a, 100));
    a.largest = 100;
    assert_true(mc_place_better(&a, &b, 100));
}

static void placement__another_host_beats_an_emptier_segment(void **state)
{
    struct mc_place_view a = plain_view;
    struct mc_place_view b = plain_view;

    (void)state;
    a.host_used = true;
    a.free = 999;
    assert_true(mc_place_better(&b, &a, 100));
    assert_false(mc_place_better(&a, &b, 100));
}

static void placement__equals_are_neither_better(void **state)
{
    (void)state;
    assert_false(mc_place_better(&plain_view, &plain_view, 100));
}

static void placement__only_a_newcomer_with_its_share_is_capped(void **state)
{
    struct mc_place_view view = plain_view;

    (void)state;
    view.recent_total = 100;
    view.recent = 80;
    view.free = 601; /* just more than a tenth ahead of the others */
    assert_true(mc_place_capped(&view));
    view.free = 599;
    assert_false(mc_place_capped(&view));
    view.free = 601;
    view.recent = 79;
    assert_false(mc_place_capped(&view));
    view.recent = 80;
    view.others_capacity = 0; /* alone */
    assert_false(mc_place_capped(&view));
}

static void placement__random_numbers_stay_below_their_bound_and_reach_all(void **state)
{
    struct mc_place_random random = {.state = 1};
    unsigned seen[7] = {0};

    (void)state;
    for (unsigned i = 0; i < 7000; i++) {
        uint32_t const at = mc_place_random_below(&random, 7);

        assert_true(at < 7);
        seen[at]++;
    }
    for (unsigned i = 0; i < 7; i++) {
        assert_in_range(seen[i], 850, 1150);
    }
}

/* ---- replicas ------------------------------------------------------------------------------ */

static void placement__replicas_are_on_different_segments_and_hosts(void **state)
{
    struct pool pool;
    struct wish const two = {.replicas = 2};

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 16 * MIB);
    (void)pool_mount(&pool, "a:2", "host-a", 2, 16 * MIB);
    (void)pool_mount(&pool, "b:1", "host-b", 3, 2 * MIB);
    for (unsigned i = 0; i < 50; i++) {
        char key[16];
        struct started started;
        const char *host[2];

        (void)snprintf(key, sizeof(key), "k%u", i);
        started = pool_start(&pool, key, 10000, &two);
        assert_int_equal(started.object.replicas_count, 2);
        for (unsigned r = 0; r < 2; r++) {
            host[r] = started.table.segments[started.object.replicas[r].segment[0]].host;
        }
        assert_string_not_equal(host[0], host[1]);
    }
    pool_close(&pool);
}

static void placement__one_host_is_shared_only_when_no_other_has_room(void **state)
{
    struct pool pool;
    struct wish const two = {.replicas = 2};
    struct wish const hard_on_b = {.hard_pin = true, .preferred = "b:1"};
    struct started started;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 16 * MIB);
    (void)pool_mount(&pool, "a:2", "host-a", 2, 16 * MIB);
    (void)pool_mount(&pool, "b:1", "host-b", 3, MIB);
    assert_int_equal(pool_put_wish(&pool, "full", MIB - 64, &hard_on_b), MOONCAKE_OK);
    started = pool_start(&pool, "k", 1000, &two);
    assert_int_equal(started.object.replicas_count, 2);
    assert_true(started.object.replicas[0].extents[0].mount_id !=
                started.object.replicas[1].extents[0].mount_id);
    pool_close(&pool);
}

static void placement__fewer_segments_than_replicas_degrade_or_refuse(void **state)
{
    struct pool pool;
    struct wish const three = {.replicas = 3};
    struct wish const all = {.replicas = 3, .all_replicas = true};
    struct started started;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    (void)pool_mount(&pool, "b:1", "host-b", 2, MIB);
    assert_int_equal(pool_start(&pool, "all", 1000, &all).status, MOONCAKE_ENOSPACE);
    assert_int_equal(pool_status(&pool).used, 0);
    started = pool_start(&pool, "k", 1000, &three);
    assert_int_equal(started.status, MOONCAKE_OK);
    assert_int_equal(started.object.replicas_count, 2);
    assert_int_equal(mc_counter_get(&mc_core_metrics(pool.core)->put_degraded), 1);
    pool_close(&pool);
}

static void placement__preferred_segments_come_first_while_they_have_room(void **state)
{
    struct pool pool;
    struct wish const wish = {.preferred = "small"};
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "big", "host-a", 1, 64 * MIB);
    mount = pool_mount(&pool, "small", "host-b", 2, MIB);
    for (unsigned i = 0; i < 10; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_put_wish(&pool, key, 100000, &wish), MOONCAKE_OK);
    }
    assert_int_equal(pool_segment(&pool, mount).extents, 10);
    assert_int_equal(pool_put_wish(&pool, "next", 100000, &wish), MOONCAKE_OK);
    assert_int_equal(pool_segment(&pool, mount).extents, 10);
    assert_int_equal(pool_has_many(&pool, "k", 10), 10);
    pool_close(&pool);
}

static void placement__leaves_excluded_mounts_alone_also_when_nothing_else_has_room(void **state)
{
    struct pool pool;
    struct wish wish = {.preferred = "big", .hard_pin = true};
    struct wish const on_big = {.preferred = "big"};
    uint64_t small;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    wish.excluded = pool_mount(&pool, "big", "host-a", 1, 64 * MIB);
    small = pool_mount(&pool, "small", "host-b", 2, MIB);
    assert_int_equal(pool_put_wish(&pool, "evictable", 100000, &on_big), MOONCAKE_OK);
    for (unsigned i = 0; i < 10; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_put_wish(&pool, key, 100000, &wish), MOONCAKE_OK);
    }
    assert_int_equal(pool_segment(&pool, small).extents, 10);
    assert_int_equal(pool_put_wish(&pool, "next", 100000, &wish), MOONCAKE_ENOSPACE);
    assert_true(pool_has(&pool, "evictable")); /* nothing was evicted where it would not help */
    wish.excluded = 1u << 20;                  /* a mount that is gone excludes nothing */
    assert_int_equal(pool_put_wish(&pool, "next", 100000, &wish), MOONCAKE_OK);
    pool_close(&pool);
}

/* ---- pieces -------------------------------------------------------------------------------- */

static void placement__a_value_larger_than_any_segment_stays(void **state)
{
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool.options.high_watermark = 0.9;
    pool.options.eviction_ratio = 0.05;
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 16 * MIB);
    (void)pool_mount(&pool, "b:1", "host-b", 2, 16 * MIB);
    assert_int_equal(pool_put(&pool, "large", 24 * MIB), MOONCAKE_OK);
    pool_advance(&pool, 1000); /* neither segment is above its watermark: nothing goes */
    assert_true(pool_has(&pool, "large"));
    pool_close(&pool);
}

static void placement__a_value_is_cut_over_fragments_and_segments(void **state)
{
    struct pool pool;
    struct wish const hard = {.hard_pin = true};
    struct started started;
    uint32_t extents;
    uint64_t sum = 0;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    (void)pool_mount(&pool, "b:1", "host-b", 2, MIB);
    for (unsigned i = 0; i < 16; i++) { /* fill with eighths and free every second one */
        char key[16];

        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_put_wish(&pool, key, MIB / 8 - 64, &hard), MOONCAKE_OK);
    }
    for (unsigned i = 0; i < 16; i += 2) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_remove(&pool, key, false), MOONCAKE_OK);
    }
    started = pool_start(&pool, "cut", MIB - 16 * 64, NULL);
    assert_int_equal(started.status, MOONCAKE_OK);
    assert_in_range(started.object.replicas[0].extents_count, 2, MC_EXTENTS_MAX);
    for (unsigned i = 0; i < started.object.replicas[0].extents_count; i++) {
        const struct mc_extent_ref *ref = &started.object.replicas[0].extents[i];

        assert_int_equal(ref->slice_index, i);
        assert_int_equal(ref->slice_count, started.object.replicas[0].extents_count);
        assert_true(ref->payload_len > 0);
        sum += ref->payload_len;
    }
    assert_int_equal(sum, MIB - 16 * 64);
    extents = started.object.replicas[0].extents_count; /* the next call takes its memory back */
    assert_int_equal(pool_end(&pool, "cut", started.attempt, 0), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "cut").object.replicas[0].extents_count, extents);
    pool_close(&pool);
}

static void placement__freed_space_fits_any_size_again(void **state)
{
    struct pool pool;
    uint64_t capacity = 0;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 8 * MIB);
    for (unsigned cycle = 0; cycle < 10; cycle++) {
        struct mc_remove_all_request const all = {.client_id = WRITER};
        struct wish const hard = {.hard_pin = true};
        uint64_t fitted = 0;

        pool_put_many(&pool, "k", 2048, 4096 - 64);
        assert_int_equal(pool_status(&pool).used, 8 * MIB);
        assert_int_equal(mc_core_remove_all(pool.core, &all, NULL, NULL), MOONCAKE_OK);
        pool_settle(&pool);
        assert_int_equal(pool_status(&pool).used, 0);
        for (;; fitted++) {
            char key[16];

            (void)snprintf(key, sizeof(key), "big%u", (unsigned)fitted);
            if (pool_put_wish(&pool, key, MIB - 64, &hard) != MOONCAKE_OK) {
                break;
            }
        }
        assert_true(cycle == 0 || fitted == capacity);
        assert_int_equal(fitted, 8);
        capacity = fitted;
        assert_int_equal(mc_core_remove_all(pool.core, &all, NULL, NULL), MOONCAKE_OK);
        pool_settle(&pool);
    }
    pool_close(&pool);
}

/* ---- balance ------------------------------------------------------------------------------- */

static void placement__unequal_segments_fill_to_the_same_ratio(void **state)
{
    struct pool pool;
    uint64_t const lens[3] = {64 * MIB, 128 * MIB, 512 * MIB};
    uint64_t mounts[3];

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mounts[0] = pool_mount(&pool, "a:1", "host-a", 1, lens[0]);
    mounts[1] = pool_mount(&pool, "b:1", "host-b", 2, lens[1]);
    mounts[2] = pool_mount(&pool, "c:1", "host-c", 3, lens[2]);
    for (unsigned part = 1; part < 9; part++) {
        double least = 1.0;
        double most = 0.0;
        char prefix[16];

        (void)snprintf(prefix, sizeof(prefix), "%u-", part);
        pool_put_many(&pool, prefix, 280, MIB / 4 - 64); /* a tenth */
        for (unsigned i = 0; i < 3; i++) {
            double const ratio = (double)pool_segment(&pool, mounts[i]).used / (double)lens[i];

            least = ratio < least ? ratio : least;
            most = ratio > most ? ratio : most;
        }
        assert_true(most - least < 0.15);
    }
    assert_int_equal(pool_status(&pool).evicted_keys, 0);
    pool_close(&pool);
}

static void placement__a_newcomer_gets_more_than_its_share_and_less_than_nine_tenths(void **state)
{
    (void)state;
    for (unsigned old = 1; old <= 20; old++) {
        struct pool pool;
        uint64_t mount;
        double share;

        pool_options(&pool);
        pool.options.high_watermark = 0.95;
        pool.options.eviction_ratio = 0.05;
        pool_open(&pool);
        for (unsigned i = 0; i < old; i++) {
            char name[16];

            (void)snprintf(name, sizeof(name), "old%u", i);
            (void)pool_mount(&pool, name, name, i + 1, 16 * MIB);
        }
        pool_put_many(&pool, "k", old * 12, MIB - 64); /* three quarters full */
        mount = pool_mount(&pool, "new", "new", 100, 64 * MIB);
        pool_put_many(&pool, "n", 200, MIB / 16 - 64); /* as in one second */
        share = (double)pool_segment(&pool, mount).extents / 200.0;
        assert_true(share < 0.90);
        assert_true(share > 1.0 / (old + 1));
        pool_close(&pool);
    }
}

static void placement__suspect_and_leaving_segments_get_nothing_new(void **state)
{
    struct pool pool;
    uint64_t leaving;
    uint64_t suspect;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    leaving = pool_mount(&pool, "b:1", "host-b", 2, 64 * MIB);
    suspect = pool_mount(&pool, "c:1", "host-c", 3, 64 * MIB);
    assert_int_equal(pool_unmount(&pool, 2, leaving, 60000), MOONCAKE_OK);
    assert_int_equal(pool_report(&pool, 8, suspect, MOONCAKE_ERPC), MOONCAKE_OK);
    assert_int_equal(pool_report(&pool, 9, suspect, MOONCAKE_ETIMEDOUT), MOONCAKE_OK);
    pool_put_many(&pool, "k", 100, 1000);
    assert_int_equal(pool_segment(&pool, leaving).extents, 0);
    assert_int_equal(pool_segment(&pool, suspect).extents, 0);
    assert_int_equal(pool_put(&pool, "big", 2 * MIB), MOONCAKE_ENOSPACE);
    pool_close(&pool);
}

/* Puts of WRITER, who is on host-w, and what of them went there. */
static unsigned put_near(struct pool *pool, const char *prefix, unsigned count,
                         const struct wish *wish)
{
    unsigned near = 0;

    for (unsigned i = 0; i < count; i++) {
        char key[32];
        struct started put;

        (void)snprintf(key, sizeof(key), "%s%u", prefix, i);
        put = pool_start(pool, key, 64 * KIB, wish);
        assert_int_equal(put.status, MOONCAKE_OK);
        for (uint32_t r = 0; r < put.object.replicas_count; r++) {
            uint32_t const segment = put.object.replicas[r].segment[0];

            near += strcmp(put.table.segments[segment].host, "host-w") == 0 ? 1 : 0;
        }
        if (wish == NULL || wish->client_id == 0) { /* else it is not ours to end */
            assert_int_equal(pool_end(pool, key, put.attempt, 0), MOONCAKE_OK);
        }
    }
    return near;
}

static void placement__local_first_fills_the_writers_host_first(void **state)
{
    struct wish const stranger = {.client_id = 99}, far = {.preferred = "a:1"};
    struct wish const two = {.replicas = 2, .all_replicas = true};
    struct pool pool;
    unsigned near;

    (void)state;
    pool_options(&pool);
    pool.options.local_first = true;
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 4 * MIB);
    (void)pool_mount(&pool, "b:1", "host-b", 2, 4 * MIB);
    (void)pool_mount(&pool, "w:1", "host-w", WRITER, MIB);
    (void)pool_mount(&pool, "w:2", "host-w", 3, MIB);
    assert_int_equal(put_near(&pool, "preferred", 5, &far), 0);
    assert_int_equal(put_near(&pool, "two", 5, &two), 5); /* the other copy is on another host */
    near = put_near(&pool, "n", 40, NULL);
    assert_in_range(near, 20, 27); /* while there is room, in both segments; then elsewhere */
    assert_true(put_near(&pool, "stranger", 20, &stranger) <= 5);
    pool_close(&pool);
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 4 * MIB);
    (void)pool_mount(&pool, "w:1", "host-w", WRITER, 4 * MIB);
    near = put_near(&pool, "n", 40, NULL); /* not asked for */
    assert_in_range(near, 5, 35);
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placement__a_place_that_fits_beats_an_emptier_one_that_does_not),
        cmocka_unit_test(placement__another_host_beats_an_emptier_segment),
        cmocka_unit_test(placement__equals_are_neither_better),
        cmocka_unit_test(placement__only_a_newcomer_with_its_share_is_capped),
        cmocka_unit_test(placement__random_numbers_stay_below_their_bound_and_reach_all),
        cmocka_unit_test(placement__replicas_are_on_different_segments_and_hosts),
        cmocka_unit_test(placement__one_host_is_shared_only_when_no_other_has_room),
        cmocka_unit_test(placement__fewer_segments_than_replicas_degrade_or_refuse),
        cmocka_unit_test(placement__preferred_segments_come_first_while_they_have_room),
        cmocka_unit_test(placement__leaves_excluded_mounts_alone_also_when_nothing_else_has_room),
        cmocka_unit_test(placement__a_value_is_cut_over_fragments_and_segments),
        cmocka_unit_test(placement__freed_space_fits_any_size_again),
        cmocka_unit_test(placement__unequal_segments_fill_to_the_same_ratio),
        cmocka_unit_test(placement__a_newcomer_gets_more_than_its_share_and_less_than_nine_tenths),
        cmocka_unit_test(placement__a_value_larger_than_any_segment_stays),
        cmocka_unit_test(placement__suspect_and_leaving_segments_get_nothing_new),
        cmocka_unit_test(placement__local_first_fills_the_writers_host_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
