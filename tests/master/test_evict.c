/* What goes when space is wanted, what stays, and who is told no. */
#include <stdio.h>

#include "master/pool.h"

/* Ten values of this length fill a segment of 1 MiB but for 384 bytes. */
#define TENTH (MIB / 10 - 64 - 38)
/* What one takes in the segment. */
#define TENTH_TAKEN ((uint64_t)104832)

static void opened(struct pool *pool)
{
    pool_options(pool);
    pool_open(pool);
    (void)pool_mount(pool, "a:1", "host-a", 1, MIB);
}

static struct mc_core_space space_of(struct pool *pool)
{
    struct mc_core_space space;

    mc_core_space(pool->core, &space);
    assert_int_equal(space.free + space.evictable + space.leased + space.soft_pinned +
                         space.hard_pinned + space.writing + space.parked + space.reading +
                         space.unplaceable,
                     space.capacity);
    return space;
}

static uint64_t evicted(struct pool *pool)
{
    return pool_status(pool).evicted_keys;
}

/* ---- order --------------------------------------------------------------------------------- */

static void evict__writing_three_times_the_pool_keeps_the_youngest(void **state)
{
    struct pool pool;

    (void)state;
    opened(&pool);
    for (unsigned i = 0; i < 750; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_put(&pool, key, 4096 - 64), MOONCAKE_OK);
        assert_true(pool_status(&pool).used <= MIB);
    }
    for (unsigned i = 0; i < 750; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_has(&pool, key), i >= 750 - 256); /* exactly the last 256 fit */
    }
    pool_close(&pool);
}

static void evict__what_was_read_goes_after_what_was_not(void **state)
{
    struct pool pool;

    (void)state;
    opened(&pool);
    pool_put_many(&pool, "k", 10, TENTH);
    assert_int_equal(pool_query(&pool, "k0").status, MOONCAKE_OK);
    pool_advance(&pool, 2100);
    assert_int_equal(pool_put(&pool, "new", TENTH), MOONCAKE_OK);
    assert_true(pool_has(&pool, "k0"));
    assert_false(pool_has(&pool, "k1"));
    assert_int_equal(evicted(&pool), 1);
    pool_close(&pool);
}

static void evict__the_tail_of_a_batch_goes_before_its_head(void **state)
{
    struct pool pool;
    struct mc_key keys[3] = {pool_key("k0"), pool_key("k1"), pool_key("k2")};
    struct mc_keys_request const request = {.client_id = WRITER, .keys = keys, .count = 3};
    struct mc_query_reply reply;

    (void)state;
    opened(&pool);
    pool_put_many(&pool, "k", 3, TENTH);
    pool_put_many(&pool, "x", 7, TENTH);
    assert_int_equal(mc_core_query(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    pool_advance(&pool, 2100);
    pool_put_many(&pool, "y", 8, TENTH);
    assert_int_equal(pool_has_many(&pool, "x", 7), 0);
    assert_true(pool_has(&pool, "k0"));
    assert_true(pool_has(&pool, "k1"));
    assert_false(pool_has(&pool, "k2"));
    pool_close(&pool);
}

static void evict__the_tail_of_a_written_batch_goes_before_its_head(void **state)
{
    struct pool pool;
    struct mc_key keys[3] = {pool_key("k0"), pool_key("k1"), pool_key("k2")};
    uint64_t const lens[3] = {TENTH, TENTH, TENTH};
    struct mc_put_start_request const start = {
        .client_id = WRITER, .nonce = 99, .keys = keys, .value_lens = lens, .count = 3};
    struct mc_put_end_request end = {.client_id = WRITER, .keys = keys, .count = 3};
    struct mc_put_start_reply started;
    struct mc_status_reply ended;

    (void)state;
    opened(&pool);
    assert_int_equal(mc_core_put_start(pool.core, &start, &pool.arena, &started), MOONCAKE_OK);
    end.attempts = started.attempts;
    assert_int_equal(mc_core_put_end(pool.core, &end, &pool.arena, &ended), MOONCAKE_OK);
    pool_put_many(&pool, "x", 8, TENTH);
    assert_true(pool_has(&pool, "k0"));
    assert_true(pool_has(&pool, "k1"));
    assert_false(pool_has(&pool, "k2"));
    pool_close(&pool);
}

/* ---- what stays ---------------------------------------------------------------------------- */

static void evict__leased_objects_stay_and_the_put_is_refused_for_good(void **state)
{
    struct pool pool;
    struct started refused;

    (void)state;
    opened(&pool);
    pool_put_many(&pool, "k", 10, TENTH);
    for (unsigned i = 0; i < 10; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_query(&pool, key).status, MOONCAKE_OK);
    }
    refused = pool_start(&pool, "new", TENTH, NULL);
    assert_int_equal(refused.status, MOONCAKE_ENOSPACE);
    assert_int_equal(refused.retry_after_ms, 0);
    assert_int_equal(space_of(&pool).leased, pool_status(&pool).used);
    pool_advance(&pool, 2300); /* the lease, and what the books may be late by */
    assert_int_equal(space_of(&pool).leased, 0);
    assert_int_equal(pool_put(&pool, "new", TENTH), MOONCAKE_OK);
    assert_false(pool_has(&pool, "k0"));
    assert_int_equal(pool_has_many(&pool, "k", 10), 9);
    pool_close(&pool);
}

static void evict__one_leased_among_many_stays_and_its_turn_comes_back(void **state)
{
    struct pool pool;

    (void)state;
    opened(&pool);
    pool_put_many(&pool, "k", 10, TENTH);
    assert_int_equal(pool_exist(&pool, "k0", NULL),
                     MOONCAKE_OK); /* a lease, and still the oldest */
    assert_int_equal(pool_put(&pool, "n0", TENTH), MOONCAKE_OK);
    assert_true(pool_has(&pool, "k0"));
    assert_false(pool_has(&pool, "k1"));
    pool_recount(&pool);
    pool_advance(&pool, 2100);
    assert_int_equal(pool_put(&pool, "n1", TENTH), MOONCAKE_OK);
    assert_false(pool_has(&pool, "k0"));
    assert_true(pool_has(&pool, "k2"));
    pool_close(&pool);
}

static void evict__polling_exist_on_everything_cannot_freeze_it(void **state)
{
    struct pool pool;
    unsigned refused = 0;

    (void)state;
    opened(&pool);
    pool_put_many(&pool, "k", 10, TENTH);
    for (unsigned i = 0; i < 100; i++) { /* 10 s of polling each 100 ms */
        for (unsigned k = 0; k < 10; k++) {
            char key[16];

            (void)snprintf(key, sizeof(key), "k%u", k);
            (void)pool_exist(&pool, key, NULL);
        }
        if (pool_put(&pool, "new", TENTH) != MOONCAKE_OK) {
            refused++;
        } else {
            break;
        }
        pool_advance(&pool, 100);
    }
    assert_in_range(refused, 50, 64); /* three leases are 6 s */
    pool_close(&pool);
}

static void evict__hard_pins_survive_any_pressure(void **state)
{
    struct pool pool;
    struct wish const hard = {.hard_pin = true};

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put_wish(&pool, "pinned", TENTH, &hard), MOONCAKE_OK);
    pool_put_many(&pool, "k", 50, TENTH);
    assert_true(pool_has(&pool, "pinned"));
    for (unsigned i = 0; i < 9; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "p%u", i);
        assert_int_equal(pool_put_wish(&pool, key, TENTH, &hard), MOONCAKE_OK);
    }
    assert_int_equal(pool_put(&pool, "new", TENTH), MOONCAKE_ENOSPACE);
    assert_int_equal(space_of(&pool).hard_pinned, pool_status(&pool).used);
    assert_int_equal(pool_has_many(&pool, "p", 9), 9);
    pool_close(&pool);
}

static void evict__soft_pins_go_only_when_nothing_else_can(void **state)
{
    struct pool pool;
    struct wish const soft = {.soft_pin = true};

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put_wish(&pool, "s0", TENTH, &soft), MOONCAKE_OK);
    assert_int_equal(pool_put_wish(&pool, "s1", TENTH, &soft), MOONCAKE_OK);
    pool_put_many(&pool, "k", 30, TENTH);
    assert_int_equal(pool_has_many(&pool, "s", 2), 2);
    assert_int_equal(space_of(&pool).soft_pinned, 2 * TENTH_TAKEN);
    /* More than all unpinned together: now they go, the first pinned first. */
    assert_int_equal(pool_put(&pool, "big", 9 * TENTH), MOONCAKE_OK);
    assert_false(pool_has(&pool, "s0"));
    assert_true(pool_has(&pool, "s1"));
    pool_close(&pool);
}

static void evict__soft_pins_stay_if_the_option_says_so_until_their_time(void **state)
{
    struct pool pool;
    struct wish const soft = {.soft_pin = true, .soft_pin_ms = 3000};

    (void)state;
    pool_options(&pool);
    pool.options.allow_evict_soft_pinned = false;
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_put_wish(&pool, "s0", 9 * TENTH, &soft), MOONCAKE_OK);
    pool_advance(&pool, 2900);
    assert_int_equal(pool_put(&pool, "new", 5 * TENTH), MOONCAKE_ENOSPACE);
    assert_true(pool_has(&pool, "s0"));
    pool_advance(&pool, 100);
    assert_int_equal(pool_put(&pool, "new", 5 * TENTH), MOONCAKE_OK);
    assert_false(pool_has(&pool, "s0"));
    pool_close(&pool);
}

static void evict__a_leased_soft_pin_comes_back_to_its_queue(void **state)
{
    struct pool pool;
    struct wish const soft = {.soft_pin = true};

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put_wish(&pool, "s0", 4 * TENTH, &soft), MOONCAKE_OK);
    assert_int_equal(pool_put_wish(&pool, "s1", 4 * TENTH, &soft), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "s0").status, MOONCAKE_OK);
    assert_int_equal(pool_put(&pool, "new", 5 * TENTH), MOONCAKE_OK); /* s1 went, s0 is held */
    assert_true(pool_has(&pool, "s0"));
    assert_false(pool_has(&pool, "s1"));
    pool_recount(&pool);
    pool_advance(&pool, 2300);
    assert_int_equal(pool_put(&pool, "n1", 2 * TENTH), MOONCAKE_OK);
    assert_true(pool_has(&pool, "s0")); /* still pinned: the plain one went */
    assert_false(pool_has(&pool, "new"));
    assert_int_equal(pool_put(&pool, "n2", 9 * TENTH), MOONCAKE_OK);
    assert_false(pool_has(&pool, "s0"));
    pool_close(&pool);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void evict__a_put_that_can_never_fit_evicts_nothing(void **state)
{
    struct pool pool;
    uint64_t const lens[] = {MIB, MIB - 63, 2 * MIB, UINT64_MAX, UINT64_MAX - 63, 1ull << 47};

    (void)state;
    opened(&pool);
    pool_put_many(&pool, "k", 10, TENTH);
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        struct started const refused = pool_start(&pool, "big", lens[i], NULL);

        assert_int_equal(refused.status, MOONCAKE_ENOSPACE);
        assert_int_equal(refused.retry_after_ms, 0);
    }
    assert_int_equal(pool_has_many(&pool, "k", 10), 10);
    assert_int_equal(pool_put(&pool, "whole", MIB - 64), MOONCAKE_OK);
    pool_close(&pool);
}

static void evict__a_put_larger_than_what_may_go_evicts_nothing(void **state)
{
    struct pool pool;
    struct wish const hard = {.hard_pin = true};

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put_wish(&pool, "pinned", 4 * TENTH, &hard), MOONCAKE_OK);
    assert_int_equal(pool_put(&pool, "leased", 2 * TENTH), MOONCAKE_OK);
    pool_put_many(&pool, "k", 4, TENTH - 64);
    assert_int_equal(pool_query(&pool, "leased").status, MOONCAKE_OK);
    assert_int_equal(pool_put(&pool, "new", 5 * TENTH), MOONCAKE_ENOSPACE);
    assert_int_equal(pool_has_many(&pool, "k", 4), 4);
    assert_int_equal(evicted(&pool), 0);
    assert_int_equal(pool_put(&pool, "new", 3 * TENTH), MOONCAKE_OK);
    pool_close(&pool);
}

static void evict__all_replicas_or_none_that_cannot_be_had_evict_nothing(void **state)
{
    struct pool pool;
    struct wish const two = {.replicas = 2, .all_replicas = true};
    struct wish const preferred = {.preferred = "a:1"};

    (void)state;
    opened(&pool);
    (void)pool_mount(&pool, "b:1", "host-b", 2, MIB / 4);
    for (unsigned i = 0; i < 10; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_put_wish(&pool, key, TENTH, &preferred), MOONCAKE_OK);
    }
    assert_int_equal(pool_put_wish(&pool, "new", MIB / 2, &two), MOONCAKE_ENOSPACE);
    assert_int_equal(pool_has_many(&pool, "k", 10), 10);
    pool_close(&pool);
}

static void evict__a_large_put_over_many_small_ones_is_deferred_and_then_fits(void **state)
{
    struct pool pool;
    struct wish const wish = {.nonce = 4711};
    struct started started = {.status = MOONCAKE_ENOSPACE};
    unsigned tries = 0;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 16 * MIB);
    pool_put_many(&pool, "k", 16384, 1024 - 64);
    started = pool_start(&pool, "big", 12 * MIB, &wish);
    assert_int_equal(started.status, MOONCAKE_ENOSPACE);
    assert_true(started.retry_after_ms > 0);
    assert_true(mc_core_wants_tick(pool.core));
    assert_int_equal(mc_counter_get(&mc_core_metrics(pool.core)->put_rejected), 0);
    for (; tries < 10 && started.status != MOONCAKE_OK; tries++) {
        pool_advance(&pool, started.retry_after_ms);
        started = pool_start(&pool, "big", 12 * MIB, &wish);
    }
    assert_int_equal(started.status, MOONCAKE_OK);
    assert_in_range(evicted(&pool), 12288, 12288 + 64);
    pool_close(&pool);
}

/* ---- background ---------------------------------------------------------------------------- */

static void evict__the_watermark_keeps_space_free_in_the_background(void **state)
{
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool.options.high_watermark = 0.90;
    pool.options.eviction_ratio = 0.05;
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 16 * MIB);
    pool_put_many(&pool, "k", 14700, 1024 - 64); /* 0.897 */
    pool_settle(&pool);
    assert_int_equal(evicted(&pool), 0);
    pool_put_many(&pool, "n", 100, 1024 - 64); /* 0.903 */
    assert_true(mc_core_wants_tick(pool.core));
    pool_settle(&pool);
    assert_in_range(pool_status(&pool).used, 0.849 * 16 * MIB, 0.8501 * 16 * MIB);
    assert_int_equal(pool_has_many(&pool, "n", 100), 100);
    assert_false(mc_core_wants_tick(pool.core));
    pool_close(&pool);
}

static void evict__the_background_spares_soft_pins_and_does_not_spin(void **state)
{
    struct pool pool;
    struct wish const soft = {.soft_pin = true};

    (void)state;
    pool_options(&pool);
    pool.options.high_watermark = 0.50;
    pool.options.eviction_ratio = 0.05;
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    for (unsigned i = 0; i < 8; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "s%u", i);
        assert_int_equal(pool_put_wish(&pool, key, TENTH, &soft), MOONCAKE_OK);
    }
    pool_settle(&pool); /* fails if the tick asks to be called for ever */
    assert_int_equal(pool_has_many(&pool, "s", 8), 8);
    assert_true(mc_core_tick(pool.core) > pool.clock.now_ns);
    pool_close(&pool);
}

static void evict__pressure_on_one_segment_makes_one_copy_of_two(void **state)
{
    struct pool pool;
    struct wish const two = {.replicas = 2, .all_replicas = true};
    struct wish const on_a = {.preferred = "a:1"};
    struct found found;

    (void)state;
    pool_options(&pool);
    pool.options.high_watermark = 0.90;
    pool.options.eviction_ratio = 0.40;
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    uint64_t const mount_b = pool_mount(&pool, "b:1", "host-b", 2, 16 * MIB);

    for (unsigned i = 0; i < 8; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_put_wish(&pool, key, TENTH, &two), MOONCAKE_OK);
    }
    assert_int_equal(pool_put_wish(&pool, "x0", TENTH, &on_a), MOONCAKE_OK);
    assert_int_equal(pool_put_wish(&pool, "x1", TENTH / 2, &on_a), MOONCAKE_OK);
    pool_settle(&pool); /* a was above its watermark, b far below */
    found = pool_query(&pool, "k0");
    assert_int_equal(found.object.replicas_count, 1);
    assert_int_equal(found.object.replicas[0].extents[0].mount_id, mount_b);
    assert_int_equal(pool_query(&pool, "k7").object.replicas_count, 2);
    assert_int_equal(pool_has_many(&pool, "k", 8), 8);
    assert_int_equal(evicted(&pool), 0);
    assert_true(mc_counter_get(&mc_core_metrics(pool.core)->evicted_replicas) > 0);
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evict__writing_three_times_the_pool_keeps_the_youngest),
        cmocka_unit_test(evict__what_was_read_goes_after_what_was_not),
        cmocka_unit_test(evict__the_tail_of_a_batch_goes_before_its_head),
        cmocka_unit_test(evict__the_tail_of_a_written_batch_goes_before_its_head),
        cmocka_unit_test(evict__leased_objects_stay_and_the_put_is_refused_for_good),
        cmocka_unit_test(evict__one_leased_among_many_stays_and_its_turn_comes_back),
        cmocka_unit_test(evict__polling_exist_on_everything_cannot_freeze_it),
        cmocka_unit_test(evict__hard_pins_survive_any_pressure),
        cmocka_unit_test(evict__soft_pins_go_only_when_nothing_else_can),
        cmocka_unit_test(evict__soft_pins_stay_if_the_option_says_so_until_their_time),
        cmocka_unit_test(evict__a_leased_soft_pin_comes_back_to_its_queue),
        cmocka_unit_test(evict__a_put_that_can_never_fit_evicts_nothing),
        cmocka_unit_test(evict__a_put_larger_than_what_may_go_evicts_nothing),
        cmocka_unit_test(evict__all_replicas_or_none_that_cannot_be_had_evict_nothing),
        cmocka_unit_test(evict__a_large_put_over_many_small_ones_is_deferred_and_then_fits),
        cmocka_unit_test(evict__the_watermark_keeps_space_free_in_the_background),
        cmocka_unit_test(evict__the_background_spares_soft_pins_and_does_not_spin),
        cmocka_unit_test(evict__pressure_on_one_segment_makes_one_copy_of_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
