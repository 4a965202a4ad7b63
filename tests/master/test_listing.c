/* Removing everything, listing, describing, counting: the core as a whole is asked. */
#include <stdio.h>
#include <string.h>

#include "master/pool.h"

static void opened(struct pool *pool)
{
    pool_options(pool);
    pool_open(pool);
    (void)pool_mount(pool, "a:1", "host-a", 1, MIB);
}

static void on_removed(void *arg, mooncake_err err, const struct mc_remove_all_reply *reply)
{
    struct mc_remove_all_reply *out = arg;

    assert_int_equal(err, MOONCAKE_OK);
    *out = *reply;
}

static void listing__remove_all_counts_what_it_removed_and_what_it_left(void **state)
{
    struct pool pool;
    struct mc_remove_all_request request = {.client_id = WRITER};
    struct mc_remove_all_reply reply = {.removed = UINT64_MAX};

    (void)state;
    opened(&pool);
    pool_put_many(&pool, "k", 100, 10);
    assert_int_equal(pool_query(&pool, "k7").status, MOONCAKE_OK);
    assert_int_equal(pool_start(&pool, "w", 10, NULL).status, MOONCAKE_OK);
    assert_int_equal(mc_core_remove_all(pool.core, &request, on_removed, &reply), MOONCAKE_OK);
    pool_settle(&pool);
    assert_int_equal(reply.removed, 99);
    assert_int_equal(reply.left_leased, 1);
    assert_int_equal(reply.left_writing, 1);
    request.force = true;
    assert_int_equal(mc_core_remove_all(pool.core, &request, on_removed, &reply), MOONCAKE_OK);
    pool_settle(&pool);
    assert_int_equal(reply.removed, 1);
    assert_int_equal(reply.left_leased, 0);
    assert_int_equal(pool_status(&pool).keys, 0);
    pool_close(&pool);
}

static void listing__a_big_removal_goes_in_slices_and_counts_each_left_one_once(void **state)
{
    struct pool pool;
    struct mc_remove_all_request const request = {.client_id = WRITER};
    struct mc_remove_all_reply first = {.removed = UINT64_MAX};
    struct mc_remove_all_reply second = {.removed = UINT64_MAX};

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 16 * MIB);
    pool_put_many(&pool, "k", 20000, 10);
    for (unsigned i = 0; i < 20000; i += 100) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_query(&pool, key).status, MOONCAKE_OK);
    }
    assert_int_equal(mc_core_remove_all(pool.core, &request, on_removed, &first), MOONCAKE_OK);
    assert_int_equal(mc_core_remove_all(pool.core, &request, on_removed, &second), MOONCAKE_OK);
    assert_int_equal(first.removed, UINT64_MAX); /* not in one go */
    assert_true(mc_core_wants_tick(pool.core));
    pool_put_many(&pool, "new", 2000, 10); /* the table grows meanwhile */
    pool_settle(&pool);
    assert_int_equal(first.left_leased, 200);
    assert_int_equal(second.left_leased, 200);
    assert_int_equal(first.removed + second.removed, 20000 - 200 + 2000);
    assert_int_equal(pool_status(&pool).keys, 200);
    pool_close(&pool);
}

static void listing__a_removal_whose_asker_is_gone_calls_nobody(void **state)
{
    struct pool pool;
    struct mc_remove_all_request const request = {.client_id = WRITER};
    struct mc_remove_all_reply reply = {.removed = UINT64_MAX};

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, 16 * MIB);
    pool_put_many(&pool, "k", 10000, 10);
    assert_int_equal(mc_core_remove_all(pool.core, &request, on_removed, &reply), MOONCAKE_OK);
    mc_core_remove_all_forget(pool.core, &reply);
    pool_settle(&pool);
    assert_int_equal(reply.removed, UINT64_MAX);
    assert_int_equal(pool_status(&pool).keys, 0);
    pool_close(&pool);
}

static void listing__listing_by_cursor_names_every_readable_key_once(void **state)
{
    struct pool pool;
    struct mc_list_keys_request request = {.keys_max = 7, .pattern = ""};
    struct mc_list_keys_reply reply;
    unsigned seen[100] = {0};
    struct mc_arena arena;

    (void)state;
    opened(&pool);
    mc_arena_init(&arena, 0);
    pool_put_many(&pool, "", 100, 10);
    assert_int_equal(pool_start(&pool, "written", 10, NULL).status, MOONCAKE_OK);
    do {
        mc_arena_reset(&arena);
        assert_int_equal(mc_core_list_keys(pool.core, &request, &arena, &reply), MOONCAKE_OK);
        for (size_t i = 0; i < reply.count; i++) {
            unsigned number = 0;

            for (unsigned j = 0; j < reply.keys[i].len; j++) {
                number = number * 10 + (unsigned)(reply.keys[i].bytes[j] - '0');
            }
            assert_true(number < 100);
            seen[number]++;
        }
        request.cursor = reply.cursor;
    } while (reply.cursor != 0);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(seen[i], 1);
    }
    mc_arena_fini(&arena);
    pool_close(&pool);
}

static void listing__describe_tells_state_pin_and_lease(void **state)
{
    struct pool pool;
    struct wish const soft = {.soft_pin = true, .soft_pin_ms = 60000};
    struct mc_key const key[1] = {pool_key("k")};
    struct mc_keys_request const request = {.client_id = WRITER, .keys = key, .count = 1};
    struct mc_describe_key_reply reply;
    struct started started;

    (void)state;
    opened(&pool);
    assert_int_equal(mc_core_describe_key(pool.core, &request, &pool.arena, &reply),
                     MOONCAKE_ENOENT);
    started = pool_start(&pool, "k", 100, &soft);
    pool_advance(&pool, 1000);
    assert_int_equal(mc_core_describe_key(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    assert_int_equal(reply.state, MC_OBJECT_WRITING);
    assert_int_equal(reply.owner_client_id, WRITER);
    assert_int_equal(reply.age_ms, 1000);
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_OK);
    pool_advance(&pool, 500);
    assert_int_equal(mc_core_describe_key(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    assert_int_equal(reply.state, MC_OBJECT_READABLE);
    assert_int_equal(reply.lease_left_ms, 1500);
    assert_int_equal(reply.soft_pin_left_ms, 59500);
    assert_int_equal(reply.table.objects[0].replicas[0].extents[0].capability, 0);
    pool_close(&pool);
}

static void listing__lookups_are_hits_and_misses_together(void **state)
{
    struct pool pool;
    const struct mc_core_metrics *metrics;

    (void)state;
    opened(&pool);
    metrics = mc_core_metrics(pool.core);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    (void)pool_query(&pool, "k");
    (void)pool_query(&pool, "none");
    (void)pool_exist(&pool, "k", NULL);
    (void)pool_exist(&pool, "none", NULL);
    (void)pool_exist(&pool, "", NULL);
    assert_int_equal(mc_counter_get(&metrics->lookups), 5);
    assert_int_equal(mc_counter_get(&metrics->hits), 2);
    assert_int_equal(mc_counter_get(&metrics->misses), 3);
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listing__remove_all_counts_what_it_removed_and_what_it_left),
        cmocka_unit_test(listing__a_big_removal_goes_in_slices_and_counts_each_left_one_once),
        cmocka_unit_test(listing__a_removal_whose_asker_is_gone_calls_nobody),
        cmocka_unit_test(listing__listing_by_cursor_names_every_readable_key_once),
        cmocka_unit_test(listing__describe_tells_state_pin_and_lease),
        cmocka_unit_test(listing__lookups_are_hits_and_misses_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
