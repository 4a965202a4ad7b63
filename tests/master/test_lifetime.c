/* Leases, and the ends of puts that nobody ends. */
#include "master/pool.h"

static void opened(struct pool *pool)
{
    pool_options(pool);
    pool_open(pool);
    (void)pool_mount(pool, "a:1", "host-a", 1, MIB);
}

/* ---- puts that nobody ends ----------------------------------------------------------------- */

static void lifetime__a_dead_writers_key_is_free_at_the_discard_timeout(void **state)
{
    struct pool pool;
    struct wish const other = {.client_id = 9};

    (void)state;
    opened(&pool);
    assert_int_equal(pool_start(&pool, "k", 100, NULL).status, MOONCAKE_OK);
    pool_advance(&pool, 3999);
    assert_int_equal(pool_start(&pool, "k", 100, &other).status, MOONCAKE_EEXIST);
    pool_advance(&pool, 1);
    assert_int_equal(pool_start(&pool, "k", 100, &other).status, MOONCAKE_OK);
    pool_close(&pool);
}

static void lifetime__a_dead_writers_space_is_back_at_the_release_timeout_once(void **state)
{
    struct pool pool;
    struct wish const other = {.client_id = 9};
    struct started lost;
    struct started taken;

    (void)state;
    opened(&pool);
    lost = pool_start(&pool, "k", 1000, NULL);
    uint64_t const lost_offset = lost.object.replicas[0].extents[0].offset;

    pool_advance(&pool, 5000);
    taken = pool_start(&pool, "k", 1000, &other);
    assert_int_equal(taken.status, MOONCAKE_OK);
    assert_true(taken.object.replicas[0].extents[0].offset != lost_offset);
    assert_int_equal(pool_status(&pool).used, 2 * 1088);
    assert_int_equal(pool_status(&pool).unfinished_puts, 1);
    pool_recount(&pool);
    pool_advance(&pool, 2950);
    assert_int_equal(pool_status(&pool).used, 2 * 1088);
    pool_advance(&pool, 100);
    assert_int_equal(pool_status(&pool).used, 1088); /* the second one's time runs from its start */
    pool_advance(&pool, 4900);
    assert_int_equal(pool_status(&pool).used, 1088);
    pool_advance(&pool, 100);
    assert_int_equal(pool_status(&pool).used, 0);
    assert_int_equal(pool_status(&pool).unfinished_puts, 0);
    pool_close(&pool);
}

static void lifetime__a_late_end_after_a_take_over_changes_nothing(void **state)
{
    struct pool pool;
    struct wish const other = {.client_id = 9};
    struct started lost;

    (void)state;
    opened(&pool);
    lost = pool_start(&pool, "k", 1000, NULL);
    pool_advance(&pool, 4000);
    assert_int_equal(pool_start(&pool, "k", 500, &other).status, MOONCAKE_OK);
    assert_int_equal(pool_end(&pool, "k", lost.attempt, 0), MOONCAKE_ENOTOWNER);
    assert_int_equal(pool_revoke(&pool, "k", lost.attempt), MOONCAKE_ENOTOWNER);
    assert_false(pool_has(&pool, "k"));
    assert_int_equal(pool_status(&pool).unfinished_puts, 1);
    pool_close(&pool);
}

static void lifetime__a_slow_writer_may_end_while_nobody_took_its_key(void **state)
{
    struct pool pool;
    struct started slow;
    struct started too_slow;

    (void)state;
    opened(&pool);
    slow = pool_start(&pool, "slow", 1000, NULL);
    too_slow = pool_start(&pool, "too slow", 1000, NULL);
    pool_advance(&pool, 7900);
    assert_int_equal(pool_end(&pool, "slow", slow.attempt, 0), MOONCAKE_OK);
    pool_advance(&pool, 200);
    assert_int_equal(pool_end(&pool, "too slow", too_slow.attempt, 0), MOONCAKE_ENOENT);
    assert_true(pool_has(&pool, "slow"));
    assert_int_equal(pool_status(&pool).used, 1088);
    pool_close(&pool);
}

/* ---- leases -------------------------------------------------------------------------------- */

static void lifetime__a_read_protects_from_removal_until_its_lease_ends(void **state)
{
    struct pool pool;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").lease_ms, 2000);
    pool_advance(&pool, 1999);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_ELEASED);
    pool_advance(&pool, 1);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_OK);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_ENOENT);
    assert_int_equal(pool_status(&pool).used, 0);
    pool_close(&pool);
}

static void lifetime__a_forced_removal_asks_for_no_lease(void **state)
{
    struct pool pool;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_OK);
    assert_int_equal(pool_remove(&pool, "k", true), MOONCAKE_OK);
    assert_int_equal(pool_status(&pool).used, 0);
    pool_close(&pool);
}

static void lifetime__a_put_grants_no_lease(void **state)
{
    struct pool pool;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_OK);
    pool_close(&pool);
}

static void lifetime__asking_for_the_size_grants_no_lease(void **state)
{
    struct pool pool;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    assert_true(pool_has(&pool, "k"));
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_OK);
    pool_close(&pool);
}

static void lifetime__exist_protects_as_long_as_it_says(void **state)
{
    struct pool pool;
    uint64_t lease_ms;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    assert_int_equal(pool_exist(&pool, "k", &lease_ms), MOONCAKE_OK);
    assert_int_equal(lease_ms, 2000);
    pool_advance(&pool, lease_ms - 1);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_ELEASED);
    pool_advance(&pool, 1);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_OK);
    pool_close(&pool);
}

static void lifetime__polling_exist_protects_for_three_leases_at_most(void **state)
{
    struct pool pool;
    uint64_t lease_ms;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    for (unsigned i = 0; i < 59; i++) { /* 5.9 s of polling each 100 ms */
        assert_int_equal(pool_exist(&pool, "k", &lease_ms), MOONCAKE_OK);
        assert_int_equal(lease_ms, i <= 40 ? 2000 : 6000 - i * 100);
        pool_advance(&pool, 100);
        assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_ELEASED);
    }
    pool_advance(&pool, 100);
    assert_int_equal(pool_exist(&pool, "k", &lease_ms), MOONCAKE_OK);
    assert_int_equal(lease_ms, 0);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_OK);
    pool_close(&pool);
}

static void lifetime__a_real_read_lets_exist_protect_anew(void **state)
{
    struct pool pool;
    uint64_t lease_ms;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    pool_advance(&pool, 7000);
    (void)pool_exist(&pool, "k", &lease_ms);
    assert_int_equal(lease_ms, 0);
    (void)pool_query(&pool, "k");
    pool_advance(&pool, 3000);
    (void)pool_exist(&pool, "k", &lease_ms);
    assert_int_equal(lease_ms, 2000);
    pool_close(&pool);
}

static void lifetime__a_batch_tells_the_shortest_lease_of_its_items(void **state)
{
    struct pool pool;
    struct mc_key const keys[3] = {pool_key("old"), pool_key("none"), pool_key("young")};
    struct mc_keys_request const request = {.client_id = WRITER, .keys = keys, .count = 3};
    struct mc_exist_reply reply;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "old", 100), MOONCAKE_OK);
    pool_advance(&pool, 5500);
    assert_int_equal(pool_put(&pool, "young", 100), MOONCAKE_OK);
    assert_int_equal(mc_core_exist(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_OK);
    assert_int_equal(reply.statuses[1], MOONCAKE_ENOENT);
    assert_int_equal(reply.statuses[2], MOONCAKE_OK);
    assert_int_equal(reply.lease_ms, 500);
    pool_close(&pool);
}

static void lifetime__own_stalls_move_the_deadlines_of_puts_and_leases(void **state)
{
    struct pool pool;
    struct wish const other = {.client_id = 9};

    (void)state;
    pool_options(&pool);
    pool.options.stall_ms = 1000;
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_put(&pool, "leased", 100), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "leased").status, MOONCAKE_OK);
    assert_int_equal(pool_start(&pool, "written", 100, NULL).status, MOONCAKE_OK);
    pool.clock.now_ns += 20 * MC_NS_PER_S; /* frozen and woken */
    assert_int_equal(pool_remove(&pool, "leased", false), MOONCAKE_ELEASED);
    assert_int_equal(pool_start(&pool, "written", 100, &other).status, MOONCAKE_EEXIST);
    pool_settle(&pool);
    assert_int_equal(pool_status(&pool).unfinished_puts, 1);
    pool_advance(&pool, 4000);
    assert_int_equal(pool_remove(&pool, "leased", false), MOONCAKE_OK);
    assert_int_equal(pool_start(&pool, "written", 100, &other).status, MOONCAKE_OK);
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lifetime__a_dead_writers_key_is_free_at_the_discard_timeout),
        cmocka_unit_test(lifetime__a_dead_writers_space_is_back_at_the_release_timeout_once),
        cmocka_unit_test(lifetime__a_late_end_after_a_take_over_changes_nothing),
        cmocka_unit_test(lifetime__a_slow_writer_may_end_while_nobody_took_its_key),
        cmocka_unit_test(lifetime__a_read_protects_from_removal_until_its_lease_ends),
        cmocka_unit_test(lifetime__a_forced_removal_asks_for_no_lease),
        cmocka_unit_test(lifetime__a_put_grants_no_lease),
        cmocka_unit_test(lifetime__asking_for_the_size_grants_no_lease),
        cmocka_unit_test(lifetime__exist_protects_as_long_as_it_says),
        cmocka_unit_test(lifetime__polling_exist_protects_for_three_leases_at_most),
        cmocka_unit_test(lifetime__a_real_read_lets_exist_protect_anew),
        cmocka_unit_test(lifetime__a_batch_tells_the_shortest_lease_of_its_items),
        cmocka_unit_test(lifetime__own_stalls_move_the_deadlines_of_puts_and_leases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
