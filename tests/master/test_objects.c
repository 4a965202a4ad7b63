/* Keys, attempts, versions: who may write what, and what readers see. */
#include <stdio.h>
#include <string.h>

#include "master/pool.h"

static void opened(struct pool *pool)
{
    pool_options(pool);
    pool_open(pool);
    (void)pool_mount(pool, "a:1", "host-a", 1, MIB);
}

/* ---- attempts ------------------------------------------------------------------------------ */

static void objects__a_key_reads_as_absent_until_its_put_ends(void **state)
{
    struct pool pool;
    struct started started;

    (void)state;
    opened(&pool);
    started = pool_start(&pool, "k", 100, NULL);
    assert_int_equal(started.status, MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_ENOTREADY);
    assert_int_equal(pool_exist(&pool, "k", NULL), MOONCAKE_ENOENT);
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_OK);
    assert_int_equal(pool_exist(&pool, "k", NULL), MOONCAKE_OK);
    pool_close(&pool);
}

static void objects__a_start_asked_again_gives_the_same_attempt_and_place(void **state)
{
    struct pool pool;
    struct wish const wish = {.nonce = 55};
    struct started first;
    struct mc_extent_ref place;
    struct started again;

    (void)state;
    opened(&pool);
    first = pool_start(&pool, "k", 100, &wish);
    place = first.object.replicas[0].extents[0];
    again = pool_start(&pool, "k", 100, &wish);
    assert_int_equal(again.status, MOONCAKE_OK);
    assert_int_equal(again.attempt, first.attempt);
    assert_memory_equal(&again.object.replicas[0].extents[0], &place, sizeof(place));
    assert_int_equal(pool_status(&pool).unfinished_puts, 1);
    pool_close(&pool);
}

static void objects__another_start_of_a_key_being_written_is_refused(void **state)
{
    struct pool pool;
    struct wish const other_client = {.client_id = 8, .nonce = 55};
    struct wish const other_nonce = {.nonce = 56};
    struct wish const wish = {.nonce = 55};

    (void)state;
    opened(&pool);
    assert_int_equal(pool_start(&pool, "k", 100, &wish).status, MOONCAKE_OK);
    assert_int_equal(pool_start(&pool, "k", 100, &other_client).status, MOONCAKE_EEXIST);
    assert_int_equal(pool_start(&pool, "k", 100, &other_nonce).status, MOONCAKE_EEXIST);
    pool_close(&pool);
}

static void objects__a_start_of_a_readable_key_is_refused(void **state)
{
    struct pool pool;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_EEXIST);
    assert_int_equal(pool_status(&pool).keys, 1);
    pool_close(&pool);
}

static void objects__only_its_own_attempt_can_end_or_revoke_a_put(void **state)
{
    struct pool pool;
    struct started started;

    (void)state;
    opened(&pool);
    started = pool_start(&pool, "k", 100, NULL);
    assert_int_equal(pool_end(&pool, "k", started.attempt + 1, 0), MOONCAKE_ENOTOWNER);
    assert_int_equal(pool_revoke(&pool, "k", started.attempt - 1), MOONCAKE_ENOTOWNER);
    assert_int_equal(pool_status(&pool).unfinished_puts, 1);
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_OK);
    assert_int_equal(pool_end(&pool, "k", started.attempt + 1, 0), MOONCAKE_ENOTOWNER);
    assert_true(pool_has(&pool, "k"));
    pool_close(&pool);
}

static void objects__another_client_cannot_end_an_attempt_that_it_guessed(void **state)
{
    struct pool pool;
    struct wish const other = {.client_id = 8};
    struct started started;

    (void)state;
    opened(&pool);
    started = pool_start(&pool, "k", 100, &other);
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_ENOTOWNER);
    assert_int_equal(pool_revoke(&pool, "k", started.attempt), MOONCAKE_ENOTOWNER);
    assert_false(pool_has(&pool, "k"));
    pool_close(&pool);
}

static void objects__an_end_that_comes_twice_succeeds_twice(void **state)
{
    struct pool pool;
    struct started started;

    (void)state;
    opened(&pool);
    started = pool_start(&pool, "k", 100, NULL);
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_OK);
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_OK);
    assert_int_equal(pool_revoke(&pool, "k", started.attempt), MOONCAKE_ESTATE);
    assert_true(pool_has(&pool, "k"));
    pool_close(&pool);
}

static void objects__a_revoked_put_leaves_nothing(void **state)
{
    struct pool pool;
    struct started started;

    (void)state;
    opened(&pool);
    started = pool_start(&pool, "k", 100, NULL);
    assert_int_equal(pool_revoke(&pool, "k", started.attempt), MOONCAKE_OK);
    assert_int_equal(pool_status(&pool).used, 0);
    assert_int_equal(pool_revoke(&pool, "k", started.attempt), MOONCAKE_ENOENT);
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_ENOENT);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    pool_close(&pool);
}

/* ---- failed replicas ----------------------------------------------------------------------- */

static void objects__failed_replicas_are_dropped_and_their_space_waits_a_ttl(void **state)
{
    struct pool pool;
    struct wish const two = {.replicas = 2};
    struct started started;
    uint64_t good_mount;
    struct found found;

    (void)state;
    opened(&pool);
    (void)pool_mount(&pool, "b:1", "host-b", 2, MIB);
    started = pool_start(&pool, "k", 1000, &two);
    assert_int_equal(started.object.replicas_count, 2);
    good_mount = started.object.replicas[1].extents[0].mount_id;
    assert_int_equal(pool_end(&pool, "k", started.attempt, 1), MOONCAKE_OK);
    found = pool_query(&pool, "k");
    assert_int_equal(found.object.replicas_count, 1);
    assert_int_equal(found.object.replicas[0].extents[0].mount_id, good_mount);
    pool_recount(&pool);
    assert_int_equal(pool_status(&pool).used, 2 * 1088);
    pool_advance(&pool, 4900);
    assert_int_equal(pool_status(&pool).used, 2 * 1088);
    pool_advance(&pool, 200);
    assert_int_equal(pool_status(&pool).used, 1088);
    pool_close(&pool);
}

static void objects__a_put_of_which_every_replica_failed_is_undone(void **state)
{
    struct pool pool;
    struct started started;

    (void)state;
    opened(&pool);
    started = pool_start(&pool, "k", 1000, NULL);
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0xffffffff), MOONCAKE_ETRANSFER);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_ENOENT);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK); /* the key is free at once */
    pool_advance(&pool, 5100);
    assert_int_equal(pool_status(&pool).used, 1088);
    pool_close(&pool);
}

static void objects__a_put_whose_segments_were_lost_cannot_end_well(void **state)
{
    struct pool pool;
    struct wish const two = {.replicas = 2};
    struct wish const on_a = {.preferred = "a:1"};
    struct started one;
    struct started both;

    (void)state;
    opened(&pool);
    (void)pool_mount(&pool, "b:1", "host-b", 2, MIB);
    one = pool_start(&pool, "one", 1000, &on_a);
    both = pool_start(&pool, "both", 1000, &two);
    pool_silence(&pool, 1);
    pool_advance(&pool, 5100);
    assert_int_equal(pool_status(&pool).segments, 1);
    assert_int_equal(pool_end(&pool, "one", one.attempt, 0), MOONCAKE_ETRANSFER);
    assert_int_equal(pool_end(&pool, "both", both.attempt, 0), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "both").object.replicas_count, 1);
    assert_false(pool_has(&pool, "one"));
    pool_close(&pool);
}

/* ---- bad input, batches -------------------------------------------------------------------- */

static void objects__bad_keys_are_refused_and_good_ones_beside_them_are_not(void **state)
{
    static char long_key[MC_KEY_LEN_MAX + 1];
    struct mc_key keys[5];
    uint64_t const lens[5] = {10, 10, 10, 10, 10};
    struct mc_put_start_request request = {
        .client_id = WRITER, .nonce = 9, .keys = keys, .value_lens = lens, .count = 5};
    struct mc_put_start_reply reply;
    struct pool pool;

    (void)state;
    opened(&pool);
    memset(long_key, 'x', sizeof(long_key));
    keys[0] = (struct mc_key){.bytes = "", .len = 0};
    keys[1] = (struct mc_key){.bytes = long_key, .len = sizeof(long_key)};
    keys[2] = (struct mc_key){.bytes = "a\0b", .len = 3};
    keys[3] = (struct mc_key){.bytes = long_key, .len = MC_KEY_LEN_MAX};
    keys[4] = pool_key("x");
    assert_int_equal(mc_core_put_start(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_EBADKEY);
    assert_int_equal(reply.statuses[1], MOONCAKE_EBADKEY);
    assert_int_equal(reply.statuses[2], MOONCAKE_EBADKEY);
    assert_int_equal(reply.statuses[3], MOONCAKE_OK);
    assert_int_equal(reply.statuses[4], MOONCAKE_OK);
    assert_int_equal(reply.table.objects[0].replicas_count, 0);
    pool_close(&pool);
}

static void objects__a_mixed_batch_gives_one_code_per_item(void **state)
{
    struct mc_key const keys[6] = {pool_key("good"), pool_key("good"), pool_key(""),
                                   pool_key("big"),  pool_key("old"),  pool_key("fine")};
    uint64_t const lens[6] = {10, 10, 10, 2 * MIB, 10, 0};
    mooncake_err const expected[6] = {MOONCAKE_OK,       MOONCAKE_EEXIST, MOONCAKE_EBADKEY,
                                      MOONCAKE_ENOSPACE, MOONCAKE_EEXIST, MOONCAKE_OK};
    struct mc_put_start_request const request = {
        .client_id = WRITER, .nonce = 9, .keys = keys, .value_lens = lens, .count = 6};
    struct mc_put_start_reply reply;
    uint64_t attempt;
    struct pool pool;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "old", 10), MOONCAKE_OK);
    assert_int_equal(mc_core_put_start(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    assert_memory_equal(reply.statuses, expected, sizeof(expected));
    assert_int_equal(reply.retry_after_ms, 0);
    attempt = reply.attempts[0];
    /* The same request again, as after a lost connection: the same codes and attempts. */
    assert_int_equal(mc_core_put_start(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    assert_memory_equal(reply.statuses, expected, sizeof(expected));
    assert_int_equal(reply.attempts[0], attempt);
    assert_true(pool_has(&pool, "old"));
    pool_close(&pool);
}

static void objects__empty_values_and_missing_keys_are_told_apart(void **state)
{
    struct pool pool;
    struct found found;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "empty", 0), MOONCAKE_OK);
    found = pool_query(&pool, "empty");
    assert_int_equal(found.status, MOONCAKE_OK);
    assert_int_equal(found.object.value_len, 0);
    assert_int_equal(found.object.replicas_count, 1);
    assert_int_equal(found.object.replicas[0].extents_count, 1);
    assert_int_equal(pool_query(&pool, "none").status, MOONCAKE_ENOENT);
    pool_close(&pool);
}

static void objects__descriptors_carry_capabilities_that_the_store_can_check(void **state)
{
    struct pool pool;
    uint64_t mount;
    struct started started;
    struct found found;
    struct mc_extent_ref write;
    struct mc_extent_ref read;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    started = pool_start(&pool, "k", 1000, NULL);
    write = started.object.replicas[0].extents[0];
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_OK);
    found = pool_query(&pool, "k");
    read = found.object.replicas[0].extents[0];
    assert_int_equal(write.rights, MC_RIGHT_WRITE);
    assert_int_equal(read.rights, MC_RIGHT_READ);
    assert_int_equal(write.mount_id, mount);
    assert_int_equal(write.capability, mc_capability((uint64_t[2]){mount, 3}, &write));
    assert_int_equal(read.capability, mc_capability((uint64_t[2]){mount, 3}, &read));
    assert_true(write.capability != read.capability);
    assert_int_equal(read.object_id.hi, 0xe90c);
    assert_int_equal(read.object_id.lo, started.attempt);
    assert_string_equal(found.table.segments[found.object.replicas[0].segment[0]].name, "a:1");
    pool_close(&pool);
}

/* ---- upsert -------------------------------------------------------------------------------- */

static void objects__an_upsert_shows_the_old_version_until_its_end(void **state)
{
    struct pool pool;
    struct wish const upsert = {.upsert = true};
    struct started started;
    struct mc_object_id old;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    old = pool_query(&pool, "k").object.id;
    started = pool_start(&pool, "k", 200, &upsert);
    assert_int_equal(started.status, MOONCAKE_OK);
    assert_true(mc_object_id_equal(pool_query(&pool, "k").object.id, old));
    pool_recount(&pool);
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").object.value_len, 200);
    assert_int_equal(pool_query(&pool, "k").object.id.lo, started.attempt);
    assert_int_equal(pool_status(&pool).keys, 1);
    pool_close(&pool);
}

static void objects__a_replaced_version_keeps_its_space_while_it_is_leased(void **state)
{
    struct pool pool;
    struct wish const upsert = {.upsert = true};
    struct started started;
    uint64_t old_offset;
    uint64_t used;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    old_offset = pool_query(&pool, "k").object.replicas[0].extents[0].offset;
    started = pool_start(&pool, "k", 100, &upsert);
    used = pool_status(&pool).used;
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_OK);
    assert_int_equal(pool_status(&pool).used, used);
    assert_true(pool_start(&pool, "other", 100, NULL).object.replicas[0].extents[0].offset !=
                old_offset);
    pool_advance(&pool, 2100);
    assert_int_equal(pool_status(&pool).used, used);
    assert_int_equal(pool_end(&pool, "other", started.attempt + 1, 0), MOONCAKE_OK);
    assert_int_equal(pool_put_wish(&pool, "other", 100, &upsert), MOONCAKE_OK); /* no lease */
    assert_int_equal(pool_status(&pool).used, used);
    pool_close(&pool);
}

static void objects__a_killed_upsert_leaves_the_old_version(void **state)
{
    struct pool pool;
    struct wish const upsert = {.upsert = true};
    struct wish const second = {.upsert = true, .client_id = 9};
    struct started lost;
    struct started next;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    lost = pool_start(&pool, "k", 200, &upsert);
    assert_int_equal(pool_start(&pool, "k", 300, &second).status, MOONCAKE_EEXIST);
    pool_advance(&pool, 4000);
    next = pool_start(&pool, "k", 300, &second);
    assert_int_equal(next.status, MOONCAKE_OK);
    assert_int_equal(pool_end(&pool, "k", lost.attempt, 0), MOONCAKE_ENOTOWNER);
    assert_int_equal(pool_query(&pool, "k").object.value_len, 100);
    pool_advance(&pool, 13000);
    assert_int_equal(pool_status(&pool).unfinished_puts, 0);
    assert_int_equal(pool_status(&pool).used, 192);
    pool_close(&pool);
}

static void objects__removing_under_an_upsert_removes_only_the_old_version(void **state)
{
    struct pool pool;
    struct wish const upsert = {.upsert = true};
    struct started started;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "k", 100), MOONCAKE_OK);
    started = pool_start(&pool, "k", 200, &upsert);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_OK);
    assert_false(pool_has(&pool, "k"));
    pool_recount(&pool);
    assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_ENOTREADY);
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").object.value_len, 200);
    pool_close(&pool);
}

static void objects__an_upsert_of_an_absent_key_is_a_put(void **state)
{
    struct pool pool;
    struct wish const upsert = {.upsert = true};

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put_wish(&pool, "k", 100, &upsert), MOONCAKE_OK);
    assert_true(pool_has(&pool, "k"));
    pool_close(&pool);
}

static void objects__no_memory_at_any_point_changes_nothing(void **state)
{
    struct pool pool;
    struct wish const two = {.replicas = 2, .nonce = 77};
    struct mc_key const keys[1] = {pool_key("k")};
    uint64_t const lens[1] = {1000};
    struct mc_put_start_request const request = {.client_id = WRITER,
                                                 .nonce = 77,
                                                 .keys = keys,
                                                 .value_lens = lens,
                                                 .count = 1,
                                                 .replicas = 2};
    struct mc_put_start_reply reply;
    int64_t failing = 0;
    bool failed = true;

    (void)state;
    opened(&pool);
    (void)pool_mount(&pool, "b:1", "host-b", 2, MIB);
    for (; failed; failing++) {
        mooncake_err err;

        mc_arena_fini(&pool.arena);
        mc_arena_init(&pool.arena, 0);
        mc_mem_fail_after(failing);
        err = mc_core_put_start(pool.core, &request, &pool.arena, &reply);
        mc_mem_fail_after(-1);
        failed = err != MOONCAKE_OK || reply.statuses[0] != MOONCAKE_OK ||
                 reply.table.objects[0].replicas_count != 2;
        pool_recount(&pool);
        if (err == MOONCAKE_OK && reply.statuses[0] == MOONCAKE_OK) {
            assert_int_equal(pool_revoke(&pool, "k", reply.attempts[0]), MOONCAKE_OK);
        }
        assert_int_equal(pool_status(&pool).used, 0);
        assert_true(failing < 100);
    }
    assert_true(failing > 2);
    assert_int_equal(pool_start(&pool, "k", 1000, &two).object.replicas_count, 2);
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects__a_key_reads_as_absent_until_its_put_ends),
        cmocka_unit_test(objects__a_start_asked_again_gives_the_same_attempt_and_place),
        cmocka_unit_test(objects__another_start_of_a_key_being_written_is_refused),
        cmocka_unit_test(objects__a_start_of_a_readable_key_is_refused),
        cmocka_unit_test(objects__only_its_own_attempt_can_end_or_revoke_a_put),
        cmocka_unit_test(objects__another_client_cannot_end_an_attempt_that_it_guessed),
        cmocka_unit_test(objects__an_end_that_comes_twice_succeeds_twice),
        cmocka_unit_test(objects__a_revoked_put_leaves_nothing),
        cmocka_unit_test(objects__failed_replicas_are_dropped_and_their_space_waits_a_ttl),
        cmocka_unit_test(objects__a_put_of_which_every_replica_failed_is_undone),
        cmocka_unit_test(objects__a_put_whose_segments_were_lost_cannot_end_well),
        cmocka_unit_test(objects__bad_keys_are_refused_and_good_ones_beside_them_are_not),
        cmocka_unit_test(objects__a_mixed_batch_gives_one_code_per_item),
        cmocka_unit_test(objects__empty_values_and_missing_keys_are_told_apart),
        cmocka_unit_test(objects__descriptors_carry_capabilities_that_the_store_can_check),
        cmocka_unit_test(objects__an_upsert_shows_the_old_version_until_its_end),
        cmocka_unit_test(objects__a_replaced_version_keeps_its_space_while_it_is_leased),
        cmocka_unit_test(objects__a_killed_upsert_leaves_the_old_version),
        cmocka_unit_test(objects__removing_under_an_upsert_removes_only_the_old_version),
        cmocka_unit_test(objects__an_upsert_of_an_absent_key_is_a_put),
        cmocka_unit_test(objects__no_memory_at_any_point_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
