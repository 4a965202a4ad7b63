/* What the core counts for operators: gauges equal a recount, histograms see what happened. */
#include <string.h>

#include "base/clock.h"
#include "master/pool.h"

static uint64_t total(const struct mc_histogram *histogram)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i <= histogram->bounds_count; i++) {
        sum += histogram->counts[i];
    }
    return sum;
}

static int64_t soft_pinned(const struct pool *pool)
{
    return mc_gauge_get(&mc_core_metrics(pool->core)->soft_pinned_keys);
}

static void counting__soft_pinned_keys_come_and_go(void **state)
{
    struct wish const soft = {.soft_pin = true, .soft_pin_ms = 3000};
    struct wish const again = {.upsert = true, .soft_pin = true, .soft_pin_ms = 3000};
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "s", "h", 1, MIB);
    assert_int_equal(pool_start(&pool, "half", 100, &soft).status, MOONCAKE_OK);
    assert_int_equal(soft_pinned(&pool), 0); /* not readable yet */
    assert_int_equal(pool_put_wish(&pool, "a", 100, &soft), MOONCAKE_OK);
    assert_int_equal(pool_put_wish(&pool, "b", 100, &soft), MOONCAKE_OK);
    assert_int_equal(pool_put(&pool, "plain", 100), MOONCAKE_OK);
    assert_int_equal(soft_pinned(&pool), 2);
    pool_recount(&pool);
    assert_int_equal(pool_put_wish(&pool, "a", 200, &again), MOONCAKE_OK); /* replaces */
    assert_int_equal(soft_pinned(&pool), 2);
    assert_int_equal(pool_remove(&pool, "b", true), MOONCAKE_OK);
    assert_int_equal(soft_pinned(&pool), 1);
    pool_recount(&pool);
    pool_silence(&pool, 1); /* its store dies */
    pool_advance(&pool, 6000);
    assert_int_equal(soft_pinned(&pool), 0);
    pool_close(&pool);
}

static void counting__a_pin_that_ended_is_uncounted_when_eviction_sees_it(void **state)
{
    struct wish const soft = {.soft_pin = true, .soft_pin_ms = 1000};
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "s", "h", 1, 64 * KIB);
    assert_int_equal(pool_put_wish(&pool, "pinned", 20 * KIB, &soft), MOONCAKE_OK);
    pool_advance(&pool, 1500);
    pool_put_many(&pool, "k", 20, 10 * KIB); /* evicts, over and over */
    pool_settle(&pool);
    assert_int_equal(soft_pinned(&pool), 0);
    assert_false(pool_has(&pool, "pinned"));
    pool_close(&pool);
}

static void counting__sizes_and_ages_are_observed(void **state)
{
    const struct mc_core_metrics *metrics;
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    metrics = mc_core_metrics(pool.core);
    (void)pool_mount(&pool, "s", "h", 1, 64 * KIB);
    assert_int_equal(pool_put(&pool, "small", 4096), MOONCAKE_OK);
    assert_int_equal(pool_put(&pool, "large", 4097), MOONCAKE_OK);
    assert_int_equal(metrics->value_size_bytes.counts[0], 1); /* up to 4 KiB */
    assert_int_equal(metrics->value_size_bytes.counts[1], 1);
    pool_advance(&pool, 10000);
    assert_int_equal(total(&metrics->key_age_at_eviction_seconds), 0);
    assert_int_equal(pool_put(&pool, "big", 60 * KIB), MOONCAKE_OK);     /* both must go */
    assert_int_equal(metrics->key_age_at_eviction_seconds.counts[2], 2); /* 5 s to 15 s */
    assert_true(mc_counter_get(&metrics->evictions_attempted) >=
                mc_counter_get(&metrics->evictions_successful));
    assert_true(mc_counter_get(&metrics->evictions_successful) > 0);
    pool_close(&pool);
}

static void counting__evictions_for_puts_and_for_the_watermark_are_told_apart(void **state)
{
    const struct mc_core_metrics *metrics;
    uint64_t before;
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool.options.high_watermark = 0.50;
    pool_open(&pool);
    metrics = mc_core_metrics(pool.core);
    (void)pool_mount(&pool, "s", "h", 1, 64 * KIB);
    pool_put_many(&pool, "k", 5, 10 * KIB);
    pool_settle(&pool);
    before = mc_counter_get(&metrics->evicted_bytes);
    assert_true(before > 0);
    assert_int_equal(mc_counter_get(&metrics->evicted_for_puts_bytes), 0);
    assert_int_equal(pool_put(&pool, "big", 60 * KIB), MOONCAKE_OK);
    assert_true(mc_counter_get(&metrics->evicted_for_puts_bytes) > 0);
    assert_int_equal(mc_counter_get(&metrics->evicted_for_puts_bytes),
                     mc_counter_get(&metrics->evicted_bytes) - before);
    pool_close(&pool);
}

static void counting__bytes_that_may_be_read_after_an_upsert_are_told_apart(void **state)
{
    struct wish const upsert = {.upsert = true};
    struct mc_core_space space;
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "s", "h", 1, MIB);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_OK); /* a lease */
    assert_int_equal(pool_put_wish(&pool, "k", 2000, &upsert), MOONCAKE_OK);
    mc_core_space(pool.core, &space);
    assert_int_equal(space.reading, 1088);
    assert_int_equal(space.parked, 0);
    pool_recount(&pool);
    pool_advance(&pool, 3000);
    mc_core_space(pool.core, &space);
    assert_int_equal(space.reading, 0);
    pool_close(&pool);
}

static void counting__the_oldest_unfinished_put_is_known(void **state)
{
    struct wish const other = {.client_id = 9};
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "s", "h", 1, MIB);
    assert_int_equal(mc_core_oldest_put_ms(pool.core), 0);
    assert_int_equal(pool_start(&pool, "lost", 10, NULL).status, MOONCAKE_OK);
    pool_advance(&pool, 2000);
    assert_int_equal(pool_start(&pool, "second", 10, NULL).status, MOONCAKE_OK);
    pool_advance(&pool, 2500);
    assert_int_equal(mc_core_oldest_put_ms(pool.core), 4500);
    /* taken over after 4 s, it holds its key no more: the second is the oldest now */
    assert_int_equal(pool_start(&pool, "lost", 10, &other).status, MOONCAKE_OK);
    assert_int_equal(mc_core_oldest_put_ms(pool.core), 2500);
    pool_close(&pool);
}

static void counting__sweeps_and_damage_are_counted(void **state)
{
    const struct mc_core_metrics *metrics;
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    metrics = mc_core_metrics(pool.core);
    mount = pool_mount(&pool, "s", "h", 1, MIB);
    pool_put_many(&pool, "k", 10, 100);
    assert_int_equal(pool_report(&pool, 5, mount, MOONCAKE_ECHECKSUM), MOONCAKE_OK);
    assert_int_equal(pool_report(&pool, 5, mount, MOONCAKE_ERPC), MOONCAKE_OK);
    assert_int_equal(mc_counter_get(&metrics->checksum_mismatch), 1);
    assert_int_equal(pool_query(&pool, "k1").status, MOONCAKE_OK);
    assert_int_equal(mc_counter_get(&metrics->query_hit_bytes), 100);
    assert_int_equal(pool_unmount(&pool, 1, mount, 0), MOONCAKE_OK);
    pool_settle(&pool);
    assert_int_equal(total(&metrics->sweep_duration_seconds), 1);
    pool_close(&pool);
}

static void counting__recounts_are_counted(void **state)
{
    const struct mc_core_metrics *metrics;
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    metrics = mc_core_metrics(pool.core);
    pool_recount(&pool);
    assert_int_equal(mc_counter_get(&metrics->recounts), 1);
    assert_int_equal(mc_counter_get(&metrics->gauge_recount_mismatch), 0);
    /* a gauge that lies; the struct is the core's, and this test is all there is beside it */
    mc_gauge_add((struct mc_gauge *)(uintptr_t)&metrics->soft_pinned_keys, 1);
    assert_int_equal(mc_core_recount(pool.core), MOONCAKE_EINTERNAL);
    assert_non_null(strstr(mooncake_last_error(), "soft_pinned_keys"));
    assert_int_equal(mc_counter_get(&metrics->gauge_recount_mismatch), 1);
    mc_gauge_add((struct mc_gauge *)(uintptr_t)&metrics->soft_pinned_keys, -1);
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counting__soft_pinned_keys_come_and_go),
        cmocka_unit_test(counting__a_pin_that_ended_is_uncounted_when_eviction_sees_it),
        cmocka_unit_test(counting__sizes_and_ages_are_observed),
        cmocka_unit_test(counting__evictions_for_puts_and_for_the_watermark_are_told_apart),
        cmocka_unit_test(counting__bytes_that_may_be_read_after_an_upsert_are_told_apart),
        cmocka_unit_test(counting__the_oldest_unfinished_put_is_known),
        cmocka_unit_test(counting__sweeps_and_damage_are_counted),
        cmocka_unit_test(counting__recounts_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
