/* What became of keys; draining a segment; which keys have their only copy there. */
#include "master/pool.h"

#include <stdio.h>
#include <string.h>

#include "master/fates.h"

static struct mc_why_miss_reply why(struct pool *pool, const char *key)
{
    struct mc_key const one = pool_key(key);
    struct mc_keys_request const request = {.keys = &one, .count = 1};
    struct mc_why_miss_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_why_miss(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    return reply;
}

static void open_with(struct pool *pool, uint32_t entries)
{
    pool_options(pool);
    pool->options.miss_history = entries;
    pool_open(pool);
    (void)pool_mount(pool, "a", "hosta", 1, 16 * MIB);
}

/* ---- history ------------------------------------------------------------------------------- */

static void history__tells_removed_from_never_written(void **state)
{
    struct pool pool;
    struct mc_why_miss_reply reply;

    (void)state;
    open_with(&pool, 64);
    assert_int_equal(why(&pool, "k").fate, MC_FATE_UNKNOWN);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    assert_int_equal(why(&pool, "k").fate, MC_FATE_READABLE);
    pool_advance(&pool, 3000);
    assert_int_equal(pool_remove(&pool, "k", true), MOONCAKE_OK);
    pool_advance(&pool, 2000);
    reply = why(&pool, "k");
    assert_int_equal(reply.fate, MC_FATE_REMOVED);
    assert_in_range(reply.age_ms, 2900, 3000);
    assert_in_range(reply.idle_ms, 2900, 3000);
    assert_in_range(reply.ago_ms, 2000, 2100);
    assert_in_range(reply.uptime_ms, 5000, 5100);
    assert_int_equal(reply.reach_ms, reply.uptime_ms);
    assert_int_equal(reply.entries, 64);
    assert_int_equal(why(&pool, "other").fate, MC_FATE_UNKNOWN);
    pool_close(&pool);
}

static void history__the_latest_fate_counts(void **state)
{
    struct pool pool;

    (void)state;
    open_with(&pool, 64);
    assert_int_equal(pool_put(&pool, "k", 10), MOONCAKE_OK);
    assert_int_equal(pool_remove(&pool, "k", true), MOONCAKE_OK);
    assert_int_equal(pool_put(&pool, "k", 10), MOONCAKE_OK);
    assert_int_equal(why(&pool, "k").fate, MC_FATE_READABLE);
    assert_int_equal(pool_remove(&pool, "k", true), MOONCAKE_OK);
    {
        struct started const put = pool_start(&pool, "k", 10, NULL);
        struct mc_why_miss_reply const reply = why(&pool, "k");

        assert_int_equal(reply.fate, MC_FATE_WRITING);
        assert_int_equal(reply.owner_client_id, WRITER);
        assert_int_equal(pool_revoke(&pool, "k", put.attempt), MOONCAKE_OK);
    }
    assert_int_equal(why(&pool, "k").fate, MC_FATE_ABANDONED);
    pool_close(&pool);
}

static void history__knows_that_a_put_nobody_ended_was_abandoned(void **state)
{
    struct pool pool;

    (void)state;
    open_with(&pool, 64);
    assert_int_equal(pool_start(&pool, "k", 10, NULL).status, MOONCAKE_OK);
    pool_advance(&pool, 9000); /* release 8 s */
    assert_int_equal(why(&pool, "k").fate, MC_FATE_ABANDONED);
    pool_close(&pool);
}

static void history__knows_evicted_keys(void **state)
{
    struct pool pool;

    (void)state;
    open_with(&pool, 64);
    pool_put_many(&pool, "k", 20, MIB);
    pool_settle(&pool);
    assert_false(pool_has(&pool, "k0"));
    assert_int_equal(why(&pool, "k0").fate, MC_FATE_EVICTED);
    assert_int_equal(why(&pool, "k19").fate, MC_FATE_READABLE);
    pool_close(&pool);
}

static void history__names_the_store_that_a_key_was_lost_with(void **state)
{
    struct pool pool;
    struct mc_why_miss_reply reply;

    (void)state;
    open_with(&pool, 64);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    pool_silence(&pool, 1);
    pool_advance(&pool, 6000); /* TTL 5 s */
    reply = why(&pool, "k");
    assert_int_equal(reply.fate, MC_FATE_LOST);
    assert_string_equal(reply.store, "a");
    pool_close(&pool);
}

static void history__names_the_store_also_before_the_sweep(void **state)
{
    struct pool pool;
    uint64_t mount;
    struct mc_why_miss_reply reply;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "gone:1", "hosta", 1, 16 * MIB);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    assert_int_equal(pool_unmount(&pool, 1, mount, 0), MOONCAKE_OK); /* no tick since */
    reply = why(&pool, "k");
    assert_int_equal(reply.fate, MC_FATE_LOST);
    assert_string_equal(reply.store, "gone:1");
    pool_close(&pool);
}

static void history__forgets_the_oldest_and_says_how_far_it_reaches(void **state)
{
    struct pool pool;
    char key[16];

    (void)state;
    open_with(&pool, 16);
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_put(&pool, key, 10), MOONCAKE_OK);
        assert_int_equal(pool_remove(&pool, key, true), MOONCAKE_OK);
        pool_advance(&pool, 100);
    }
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(why(&pool, key).fate, i < 24 ? MC_FATE_UNKNOWN : MC_FATE_REMOVED);
    }
    assert_in_range(why(&pool, "k0").reach_ms, 1500, 1700);
    assert_in_range(why(&pool, "k0").uptime_ms, 4000, 4100);
    pool_close(&pool);
}

static void history__can_be_off(void **state)
{
    struct pool pool;
    struct mc_why_miss_reply reply;

    (void)state;
    open_with(&pool, 0);
    assert_int_equal(pool_put(&pool, "k", 10), MOONCAKE_OK);
    assert_int_equal(pool_remove(&pool, "k", true), MOONCAKE_OK);
    reply = why(&pool, "k");
    assert_int_equal(reply.fate, MC_FATE_UNKNOWN);
    assert_int_equal(reply.entries, 0);
    assert_int_equal(reply.reach_ms, 0);
    pool_close(&pool);
}

static void history__survives_many_rounds_against_a_plain_list(void **state)
{
    enum { ENTRIES = 8, KEYS = 24, ROUNDS = 4000 };
    struct pool pool;
    unsigned last[KEYS] = {0}; /* round in which it went, from 1 */
    uint64_t seed = 1;
    char key[16];

    (void)state;
    open_with(&pool, ENTRIES);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        unsigned n;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        n = (unsigned)(seed >> 33) % KEYS;
        (void)snprintf(key, sizeof(key), "k%u", n);
        assert_int_equal(pool_put(&pool, key, 10), MOONCAKE_OK);
        assert_int_equal(pool_remove(&pool, key, true), MOONCAKE_OK);
        last[n] = round;
        n = (unsigned)(seed >> 17) % KEYS;
        (void)snprintf(key, sizeof(key), "k%u", n);
        assert_int_equal(why(&pool, key).fate, last[n] != 0 && round - last[n] < ENTRIES
                                                   ? MC_FATE_REMOVED
                                                   : MC_FATE_UNKNOWN);
    }
    pool_close(&pool);
}

/* ---- drain --------------------------------------------------------------------------------- */

static struct mc_drain_reply drain(struct pool *pool, uint64_t mount, enum mc_drain_action action)
{
    struct mc_drain_request const request = {
        .mount_ids = &mount, .count = 1, .action = (uint32_t)action};
    struct mc_drain_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_drain(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    return reply;
}

static struct mc_sole_keys_reply sole(struct pool *pool, uint64_t mount, uint32_t keys_max)
{
    struct mc_sole_keys_request request = {.mount_ids = &mount, .count = 1, .keys_max = keys_max};
    struct mc_sole_keys_reply reply, sum = {0};

    mc_arena_reset(&pool->arena);
    do {
        assert_int_equal(mc_core_sole_keys(pool->core, &request, &pool->arena, &reply),
                         MOONCAKE_OK);
        sum.keys_there += reply.keys_there;
        sum.bytes_there += reply.bytes_there;
        sum.keys_sole += reply.keys_sole;
        sum.bytes_sole += reply.bytes_sole;
        if (reply.count > 0) {
            sum.keys = reply.keys;
            sum.count = reply.count;
        }
        request.cursor = reply.cursor;
    } while (request.cursor != 0);
    return sum;
}

static void drain__places_nothing_new_and_keeps_what_is_there(void **state)
{
    struct pool pool;
    uint64_t a, b;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    a = pool_mount(&pool, "a", "hosta", 1, 64 * MIB);
    b = pool_mount(&pool, "b", "hostb", 2, 64 * MIB);
    pool_put_many(&pool, "before", 20, 1000);
    assert_true(pool_segment(&pool, a).extents > 0);
    assert_int_equal(drain(&pool, a, MC_DRAIN_BEGIN).draining, 1);
    {
        uint64_t const extents = pool_segment(&pool, a).extents;

        pool_put_many(&pool, "after", 20, 1000);
        assert_int_equal(pool_segment(&pool, a).extents, extents);
    }
    assert_int_equal(pool_has_many(&pool, "before", 20), 20);
    pool_advance(&pool, 60000); /* no time ends it */
    assert_int_equal(pool_segment(&pool, a).state, MC_SEGMENT_DRAINING);
    assert_int_equal(pool_has_many(&pool, "before", 20), 20);
    assert_int_equal(drain(&pool, a, MC_DRAIN_CANCEL).draining, 0);
    assert_int_equal(pool_segment(&pool, a).state, MC_SEGMENT_OK);
    pool_put_many(&pool, "again", 40, MIB / 2);
    assert_true(pool_segment(&pool, a).used > 5 * MIB);
    (void)b;
    pool_close(&pool);
}

static void drain__tells_what_is_in_use(void **state)
{
    struct pool pool;
    struct mc_drain_reply reply;
    struct started put;
    uint64_t a;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    a = pool_mount(&pool, "a", "hosta", 1, 64 * MIB);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    put = pool_start(&pool, "w", 1000, NULL);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_OK);
    reply = drain(&pool, a, MC_DRAIN_BEGIN);
    assert_int_equal(reply.statuses[0], MOONCAKE_OK);
    assert_true(reply.leased >= 1000 && reply.writing >= 1000);
    assert_int_equal(pool_end(&pool, "w", put.attempt, 0), MOONCAKE_OK);
    pool_advance(&pool, 2500); /* lease 2 s, and an eighth */
    reply = drain(&pool, a, MC_DRAIN_LOOK);
    assert_int_equal(reply.leased + reply.writing + reply.reading, 0);
    assert_true(reply.used >= 2000);
    pool_close(&pool);
}

static void drain__does_not_stop_a_store_that_leaves_by_itself(void **state)
{
    struct pool pool;
    uint64_t a;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    a = pool_mount(&pool, "a", "hosta", 1, MIB);
    (void)drain(&pool, a, MC_DRAIN_BEGIN);
    assert_int_equal(pool_unmount(&pool, 1, a, 1000), MOONCAKE_OK);
    assert_int_equal(drain(&pool, a, MC_DRAIN_CANCEL).statuses[0], MOONCAKE_ESTATE);
    assert_int_equal(drain(&pool, a, MC_DRAIN_BEGIN).statuses[0], MOONCAKE_OK);
    pool_advance(&pool, 1500);
    assert_int_equal(drain(&pool, a, MC_DRAIN_LOOK).statuses[0], MOONCAKE_ENOSEGMENT);
    pool_close(&pool);
}

static void drain__a_suspect_stays_draining_when_it_pings_again(void **state)
{
    struct pool pool;
    uint64_t a;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    a = pool_mount(&pool, "a", "hosta", 1, MIB);
    assert_int_equal(pool_report(&pool, 8, a, MOONCAKE_ETRANSFER), MOONCAKE_OK);
    assert_int_equal(pool_report(&pool, 9, a, MOONCAKE_ETRANSFER), MOONCAKE_OK);
    assert_int_equal(pool_segment(&pool, a).state, MC_SEGMENT_SUSPECT);
    (void)drain(&pool, a, MC_DRAIN_BEGIN);
    pool_advance(&pool, 10000);
    assert_int_equal(pool_segment(&pool, a).state, MC_SEGMENT_DRAINING);
    pool_close(&pool);
}

static void sole__counts_keys_without_a_copy_elsewhere(void **state)
{
    struct wish const only_a = {.preferred = "a"};
    struct wish const both = {.replicas = 2, .all_replicas = true};
    struct mc_sole_keys_reply reply;
    struct pool pool;
    uint64_t a, b;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    a = pool_mount(&pool, "a", "hosta", 1, 16 * MIB);
    b = pool_mount(&pool, "b", "hostb", 2, 16 * MIB);
    assert_int_equal(pool_put_wish(&pool, "one", 1000, &only_a), MOONCAKE_OK);
    assert_int_equal(pool_put_wish(&pool, "two", 1000, &both), MOONCAKE_OK);
    reply = sole(&pool, a, 10);
    assert_int_equal(reply.keys_there, 2);
    assert_int_equal(reply.keys_sole, 1);
    assert_int_equal(reply.bytes_there, 2 * reply.bytes_sole);
    assert_int_equal(reply.count, 1);
    assert_int_equal(reply.keys[0].len, 3);
    assert_memory_equal(reply.keys[0].bytes, "one", 3);
    reply = sole(&pool, b, 10);
    assert_int_equal(reply.keys_there, 1);
    assert_int_equal(reply.keys_sole, 0);
    assert_int_equal(pool_unmount(&pool, 2, b, 0), MOONCAKE_OK);
    reply = sole(&pool, a, 0);
    assert_int_equal(reply.keys_sole, 2);
    assert_int_equal(reply.count, 0);
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history__tells_removed_from_never_written),
        cmocka_unit_test(history__the_latest_fate_counts),
        cmocka_unit_test(history__knows_that_a_put_nobody_ended_was_abandoned),
        cmocka_unit_test(history__knows_evicted_keys),
        cmocka_unit_test(history__names_the_store_that_a_key_was_lost_with),
        cmocka_unit_test(history__names_the_store_also_before_the_sweep),
        cmocka_unit_test(history__forgets_the_oldest_and_says_how_far_it_reaches),
        cmocka_unit_test(history__can_be_off),
        cmocka_unit_test(history__survives_many_rounds_against_a_plain_list),
        cmocka_unit_test(drain__places_nothing_new_and_keeps_what_is_there),
        cmocka_unit_test(drain__tells_what_is_in_use),
        cmocka_unit_test(drain__does_not_stop_a_store_that_leaves_by_itself),
        cmocka_unit_test(drain__a_suspect_stays_draining_when_it_pings_again),
        cmocka_unit_test(sole__counts_keys_without_a_copy_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
