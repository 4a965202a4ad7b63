/* What the master keeps for those who look at a version in place. */
#include "master/pool.h"

#define LEN 1000u
#define BYTES 1088u /* that it takes of a segment */

static void opened(struct pool *pool, uint64_t *out_mount_id)
{
    pool_options(pool);
    pool_open(pool);
    *out_mount_id = pool_mount(pool, "a:1", "host-a", 1, MIB);
}

/* Query it for a look in place; returns its attempt. */
static uint64_t view(struct pool *pool, const char *key)
{
    struct mc_key const keys[1] = {pool_key(key)};
    struct mc_keys_request const request = {.keys = keys, .count = 1, .view = true};
    struct mc_query_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_query(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_OK);
    return reply.table.objects[0].id.lo;
}

static mooncake_err renew_in(struct pool *pool, const char *key, uint64_t attempt, uint64_t mount,
                             uint64_t epoch)
{
    struct mc_key const keys[1] = {pool_key(key)};
    struct mc_renew_request const request = {
        .epoch = epoch, .keys = keys, .attempts = &attempt, .mount_ids = &mount, .count = 1};
    struct mc_renew_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_renew(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    assert_int_equal(reply.lease_ms, pool->options.lease_ms);
    return reply.statuses[0];
}

static mooncake_err renew(struct pool *pool, const char *key, uint64_t attempt, uint64_t mount)
{
    return renew_in(pool, key, attempt, mount, pool->options.epoch);
}

static void views__renewal_is_for_this_version_on_this_mount_in_this_life(void **state)
{
    struct pool pool;
    uint64_t mount, attempt;

    (void)state;
    opened(&pool, &mount);
    assert_int_equal(pool_put(&pool, "k", LEN), MOONCAKE_OK);
    attempt = view(&pool, "k");
    assert_int_equal(renew(&pool, "k", attempt + 1, mount), MOONCAKE_ENOENT);
    assert_int_equal(renew(&pool, "k", attempt, mount + 1), MOONCAKE_ENOENT);
    assert_int_equal(renew(&pool, "none", attempt, mount), MOONCAKE_ENOENT);
    assert_int_equal(renew(&pool, "", attempt, mount), MOONCAKE_EBADKEY);
    assert_int_equal(renew_in(&pool, "k", attempt, mount, pool.options.epoch + 1), MOONCAKE_ENOENT);
    pool_advance(&pool, 1950);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_ELEASED);
    assert_int_equal(renew(&pool, "k", attempt, mount), MOONCAKE_OK);
    pool_advance(&pool, 1950);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_ELEASED);
    pool_advance(&pool, 100);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_OK);
    pool_close(&pool);
}

static void views__space_is_kept_after_a_forced_removal_while_it_is_renewed(void **state)
{
    struct pool pool;
    uint64_t mount, attempt;

    (void)state;
    opened(&pool, &mount);
    assert_int_equal(pool_put(&pool, "k", LEN), MOONCAKE_OK);
    attempt = view(&pool, "k");
    assert_int_equal(pool_remove(&pool, "k", true), MOONCAKE_OK);
    assert_false(pool_has(&pool, "k"));
    for (unsigned i = 0; i < 10; i++) {
        pool_advance(&pool, 1000);
        assert_int_equal(renew(&pool, "k", attempt, mount), MOONCAKE_OK);
        assert_int_equal(pool_status(&pool).used, BYTES);
        pool_recount(&pool);
    }
    assert_int_equal(renew(&pool, "k", attempt, mount + 1), MOONCAKE_ENOENT);
    pool_advance(&pool, 1950);
    assert_int_equal(pool_status(&pool).used, BYTES);
    pool_advance(&pool, 100);
    assert_int_equal(pool_status(&pool).used, 0);
    assert_int_equal(renew(&pool, "k", attempt, mount), MOONCAKE_ENOENT);
    pool_close(&pool);
}

static void views__others_do_not_keep_the_space_of_a_forced_removal(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    opened(&pool, &mount);
    assert_int_equal(pool_put(&pool, "k", LEN), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_OK);
    assert_int_equal(pool_remove(&pool, "k", true), MOONCAKE_OK);
    assert_int_equal(pool_status(&pool).used, 0);
    /* Nor does a look that ended long ago, when others read now. */
    assert_int_equal(pool_put(&pool, "k", LEN), MOONCAKE_OK);
    (void)view(&pool, "k");
    pool_advance(&pool, 2050);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_OK);
    assert_int_equal(pool_remove(&pool, "k", true), MOONCAKE_OK);
    assert_int_equal(pool_status(&pool).used, 0);
    pool_close(&pool);
}

static void views__of_an_old_version_keep_its_space(void **state)
{
    struct pool pool;
    struct wish const upsert = {.upsert = true};
    uint64_t mount, attempt;

    (void)state;
    opened(&pool, &mount);
    assert_int_equal(pool_put(&pool, "k", LEN), MOONCAKE_OK);
    attempt = view(&pool, "k");
    assert_int_equal(pool_put_wish(&pool, "k", LEN, &upsert), MOONCAKE_OK);
    for (unsigned i = 0; i < 5; i++) {
        pool_advance(&pool, 1500);
        assert_int_equal(renew(&pool, "k", attempt, mount), MOONCAKE_OK);
        assert_int_equal(pool_status(&pool).used, 2 * BYTES);
    }
    pool_advance(&pool, 2050);
    assert_int_equal(pool_status(&pool).used, BYTES);
    pool_close(&pool);
}

static void views__a_report_of_damage_takes_no_bytes_from_under_them(void **state)
{
    struct pool pool;
    struct wish const two = {.replicas = 2, .all_replicas = true};
    struct mc_report_item item = {.reason = MOONCAKE_ECHECKSUM, .key = pool_key("k")};
    struct mc_report_request const request = {.items = &item, .count = 1};
    struct mc_status_reply reply;
    uint64_t mounts[2];

    (void)state;
    opened(&pool, &mounts[0]);
    mounts[1] = pool_mount(&pool, "b:1", "host-b", 2, MIB);
    assert_int_equal(pool_put_wish(&pool, "k", LEN, &two), MOONCAKE_OK);
    item.object_id_lo = view(&pool, "k");
    for (unsigned i = 0; i < 2; i++) {
        item.mount_id = mounts[i];
        assert_int_equal(mc_core_report(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
        pool_recount(&pool);
        assert_int_equal(pool_has(&pool, "k"), i == 0);
        assert_int_equal(pool_status(&pool).used, 2 * BYTES);
    }
    for (unsigned i = 0; i < 5; i++) {
        pool_advance(&pool, 1500);
        assert_int_equal(renew(&pool, "k", item.object_id_lo, mounts[0]), MOONCAKE_OK);
        assert_int_equal(pool_status(&pool).used, i == 0 ? 2 * BYTES : BYTES);
    }
    pool_advance(&pool, 2050);
    assert_int_equal(pool_status(&pool).used, 0);
    pool_close(&pool);
}

static void views__of_a_lost_mount_are_not_renewed(void **state)
{
    struct pool pool;
    uint64_t mount, attempt;

    (void)state;
    opened(&pool, &mount);
    assert_int_equal(pool_put(&pool, "k", LEN), MOONCAKE_OK);
    attempt = view(&pool, "k");
    assert_int_equal(pool_remove(&pool, "k", true), MOONCAKE_OK);
    assert_int_equal(renew(&pool, "k", attempt, mount), MOONCAKE_OK);
    assert_int_equal(pool_unmount(&pool, 1, mount, 0), MOONCAKE_OK);
    assert_int_equal(renew(&pool, "k", attempt, mount), MOONCAKE_ENOENT);
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views__renewal_is_for_this_version_on_this_mount_in_this_life),
        cmocka_unit_test(views__space_is_kept_after_a_forced_removal_while_it_is_renewed),
        cmocka_unit_test(views__others_do_not_keep_the_space_of_a_forced_removal),
        cmocka_unit_test(views__of_an_old_version_keep_its_space),
        cmocka_unit_test(views__a_report_of_damage_takes_no_bytes_from_under_them),
        cmocka_unit_test(views__of_a_lost_mount_are_not_renewed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
