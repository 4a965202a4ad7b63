/* Mounts that come, go, come again, and what readers see of what they held. */
#include <stdio.h>

#include "master/pool.h"

/* ---- mounting ------------------------------------------------------------------------------ */

static void segments__the_same_mount_twice_is_one_mount(void **state)
{
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:1", 1, 50), MOONCAKE_OK);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:1", 1, 50), MOONCAKE_OK);
    assert_int_equal(pool_status(&pool).segments, 1);
    assert_int_equal(pool_status(&pool).capacity, MIB);
    assert_int_equal(pool_status(&pool).stores, 1);
    pool_close(&pool);
}

static void segments__a_name_of_a_living_store_is_refused(void **state)
{
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:1", 1, 50), MOONCAKE_OK);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:2", 2, 51), MOONCAKE_ESEGMENTEXISTS);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:1", 1, 52), MOONCAKE_ESEGMENTEXISTS);
    assert_int_equal(pool_mount_as(&pool, "other", "a:2", 2, 50), MOONCAKE_ESEGMENTEXISTS);
    assert_int_equal(pool_status(&pool).segments, 1);
    pool_close(&pool);
}

static void segments__bad_mounts_are_refused(void **state)
{
    struct pool pool;
    struct mc_mount_item const items[3] = {
        {.name = "", .addresses = "a:1", .mount_id = 50, .len = MIB},
        {.name = "zero", .addresses = "a:1", .mount_id = 0, .len = MIB},
        {.name = "short", .addresses = "a:1", .mount_id = 51, .len = 63},
    };
    struct mc_mount_request const request = {.client_id = 1, .items = items, .count = 3};
    struct mc_status_reply reply;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    assert_int_equal(mc_core_mount(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(reply.statuses[i], MOONCAKE_EINVAL);
    }
    assert_int_equal(pool_status(&pool).segments, 0);
    pool_close(&pool);
}

static void segments__a_store_restarted_at_its_address_mounts_at_once(void **state)
{
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:1", 1, 50), MOONCAKE_OK);
    pool_put_many(&pool, "k", 20, 1000);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:1", 2, 51), MOONCAKE_OK);
    assert_int_equal(pool_has_many(&pool, "k", 20), 0);
    assert_int_equal(pool_query(&pool, "k0").status, MOONCAKE_ENOENT);
    assert_int_equal(pool_status(&pool).segments, 1);
    assert_int_equal(pool_status(&pool).used, 0);
    pool_close(&pool);
}

static void segments__a_store_restarted_elsewhere_mounts_when_the_old_one_missed_pings(void **state)
{
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:1", 1, 50), MOONCAKE_OK);
    pool_advance(&pool, 2400);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:2", 2, 51), MOONCAKE_ESEGMENTEXISTS);
    pool_advance(&pool, 150);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:2", 2, 51), MOONCAKE_OK);
    assert_int_equal(pool_ping(&pool, 1, 50).unknown_count, 1);
    assert_int_equal(pool_ping(&pool, 2, 51).unknown_count, 0);
    pool_close(&pool);
}

static void segments__late_clean_up_of_an_old_mount_cannot_hurt_the_new_one(void **state)
{
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:1", 1, 50), MOONCAKE_OK);
    pool_put_many(&pool, "k", 500, 1000);
    assert_int_equal(pool_mount_as(&pool, "seg", "a:1", 2, 51), MOONCAKE_OK);
    pool_put_many(&pool, "k", 250, 1000); /* before anything was swept, half of the keys again */
    assert_int_equal(pool_unmount(&pool, 1, 50, 0), MOONCAKE_ENOSEGMENT);
    pool_recount(&pool);
    pool_settle(&pool);
    assert_int_equal(pool_has_many(&pool, "k", 500), 250);
    assert_int_equal(pool_status(&pool).keys, 250);
    assert_int_equal(pool_status(&pool).used, 250 * 1088);
    assert_int_equal(mc_gauge_get(&mc_core_metrics(pool.core)->gone_segments), 0);
    pool_close(&pool);
}

/* ---- leaving ------------------------------------------------------------------------------- */

static void segments__a_leaving_segment_is_read_but_not_written_until_its_grace_ends(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    assert_int_equal(pool_unmount(&pool, 2, mount, 3000), MOONCAKE_ENOSEGMENT); /* not its own */
    assert_int_equal(pool_unmount(&pool, 1, mount, 3000), MOONCAKE_OK);
    assert_int_equal(pool_segment(&pool, mount).state, MC_SEGMENT_DRAINING);
    pool_advance(&pool, 2900);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_OK);
    assert_int_equal(pool_put(&pool, "new", 1000), MOONCAKE_ENOSPACE);
    pool_advance(&pool, 150);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_ENOENT);
    assert_int_equal(pool_status(&pool).segments, 0);
    assert_int_equal(pool_status(&pool).capacity, 0);
    assert_int_equal(pool_status(&pool).keys, 0);
    pool_close(&pool);
}

static void segments__no_grace_is_gone_now(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    assert_int_equal(pool_unmount(&pool, 1, mount, 0), MOONCAKE_OK);
    assert_false(pool_has(&pool, "k")); /* no tick has passed */
    assert_int_equal(pool_segment(&pool, mount).state, MC_SEGMENT_GONE);
    pool_settle(&pool);
    assert_int_equal(pool_segment(&pool, mount).mount_id, 0);
    pool_close(&pool);
}

/* ---- loss ---------------------------------------------------------------------------------- */

static void segments__with_two_replicas_a_loss_leaves_one_at_once(void **state)
{
    struct pool pool;
    struct wish const two = {.replicas = 2};
    uint64_t mount_a;
    uint64_t mount_b;
    struct found found;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount_a = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    mount_b = pool_mount(&pool, "b:1", "host-b", 2, MIB);
    assert_int_equal(pool_put_wish(&pool, "k", 1000, &two), MOONCAKE_OK);
    assert_int_equal(pool_unmount(&pool, 1, mount_a, 0), MOONCAKE_OK);
    found = pool_query(&pool, "k");
    assert_int_equal(found.status, MOONCAKE_OK);
    assert_int_equal(found.object.replicas_count, 1);
    assert_int_equal(found.object.replicas[0].extents[0].mount_id, mount_b);
    pool_recount(&pool);
    pool_settle(&pool);
    assert_int_equal(pool_query(&pool, "k").object.replicas_count, 1);
    assert_int_equal(pool_status(&pool).used, 1088);
    assert_int_equal(mc_counter_get(&mc_core_metrics(pool.core)->lost_keys), 0);
    pool_close(&pool);
}

static void segments__a_value_over_two_segments_is_lost_with_one_and_frees_the_other(void **state)
{
    struct pool pool;
    uint64_t mount_a;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount_a = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    (void)pool_mount(&pool, "b:1", "host-b", 2, MIB);
    assert_int_equal(pool_put(&pool, "k", MIB + MIB / 2), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").table.segments_count, 2);
    assert_int_equal(pool_unmount(&pool, 1, mount_a, 0), MOONCAKE_OK);
    assert_false(pool_has(&pool, "k"));
    pool_settle(&pool);
    assert_int_equal(pool_status(&pool).used, 0);
    assert_int_equal(pool_status(&pool).keys, 0);
    pool_close(&pool);
}

static void segments__a_lost_key_can_be_written_before_it_is_swept(void **state)
{
    struct pool pool;
    uint64_t mount_a;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount_a = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    (void)pool_mount(&pool, "b:1", "host-b", 2, MIB);
    assert_int_equal(pool_unmount(&pool, 1, mount_a, 0), MOONCAKE_OK);
    assert_int_equal(pool_put(&pool, "k", 2000), MOONCAKE_OK);
    pool_settle(&pool);
    assert_int_equal(pool_query(&pool, "k").object.value_len, 2000);
    pool_close(&pool);
}

static void segments__a_loss_under_an_upsert_leaves_the_new_version_to_its_writer(void **state)
{
    struct pool pool;
    struct wish const upsert = {.upsert = true, .preferred = "b:1"};
    uint64_t mount_a;
    struct started started;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount_a = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    (void)pool_mount(&pool, "b:1", "host-b", 2, MIB);
    started = pool_start(&pool, "k", 2000, &upsert);
    assert_int_equal(pool_unmount(&pool, 1, mount_a, 0), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_ENOTREADY);
    pool_settle(&pool);
    pool_recount(&pool);
    assert_int_equal(pool_end(&pool, "k", started.attempt, 0), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").object.value_len, 2000);
    pool_close(&pool);
}

static void segments__many_lost_keys_are_swept_in_slices(void **state)
{
    struct pool pool;
    struct wish const on_a = {.preferred = "a:1"};
    uint64_t mount_a;
    unsigned slices = 0;
    int64_t gone;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount_a = pool_mount(&pool, "a:1", "host-a", 1, 32 * MIB);
    (void)pool_mount(&pool, "b:1", "host-b", 2, MIB);
    for (unsigned i = 0; i < 20000; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_put_wish(&pool, key, 1000, &on_a), MOONCAKE_OK);
    }
    assert_int_equal(pool_unmount(&pool, 1, mount_a, 0), MOONCAKE_OK);
    do {
        assert_int_equal(pool_has_many(&pool, "k", 100), 0);
        assert_int_equal(pool_put(&pool, "in between", 100), MOONCAKE_OK);
        assert_int_equal(pool_remove(&pool, "in between", false), MOONCAKE_OK);
        (void)mc_core_tick(pool.core);
        gone = mc_gauge_get(&mc_core_metrics(pool.core)->gone_segments);
        slices++;
    } while (gone > 0);
    assert_in_range(slices, 5, 20);
    assert_int_equal(pool_status(&pool).keys, 0);
    pool_close(&pool);
}

static void segments__a_damaged_replica_is_dropped_if_the_version_is_still_there(void **state)
{
    struct pool pool;
    struct wish const two = {.replicas = 2};
    struct mc_report_item item = {.reason = MOONCAKE_ECHECKSUM, .key = pool_key("k")};
    struct mc_report_request const request = {.client_id = 9, .items = &item, .count = 1};
    struct mc_status_reply reply;
    struct found found;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    (void)pool_mount(&pool, "b:1", "host-b", 2, MIB);
    assert_int_equal(pool_put_wish(&pool, "k", 1000, &two), MOONCAKE_OK);
    found = pool_query(&pool, "k");
    item.mount_id = found.object.replicas[0].extents[0].mount_id;
    item.object_id_lo = found.object.id.lo - 1;
    assert_int_equal(mc_core_report(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").object.replicas_count, 2);
    item.object_id_lo++;
    assert_int_equal(mc_core_report(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    found = pool_query(&pool, "k");
    assert_int_equal(found.object.replicas_count, 1);
    assert_true(found.object.replicas[0].extents[0].mount_id != item.mount_id);
    item.mount_id = found.object.replicas[0].extents[0].mount_id;
    assert_int_equal(mc_core_report(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_ENOENT);
    assert_int_equal(pool_status(&pool).used, 0);
    pool_close(&pool);
}

/* ---- told in pages ------------------------------------------------------------------------- */

/* The next page of at most two; its names are put behind those in @p out. */
static void next_names(struct pool *pool, uint64_t *cursor, char *out, size_t cap)
{
    struct mc_list_request const request = {.cursor = *cursor, .items_max = 2};
    struct mc_list_segments_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_list_segments(pool->core, &request, &pool->arena, &reply),
                     MOONCAKE_OK);
    assert_true(reply.count <= 2);
    for (size_t i = 0; i < reply.count; i++) {
        size_t const len = strlen(out);

        (void)snprintf(out + len, cap - len, "%s ", reply.items[i].name);
    }
    *cursor = reply.cursor;
}

static void segments__pages_go_on_where_they_ended_whatever_comes_and_goes(void **state)
{
    struct pool pool;
    char names[128] = "";
    uint64_t cursor = 0, mount_ids[4];

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    for (unsigned i = 0; i < 4; i++) {
        char const name[] = {(char)('a' + i), '\0'};

        mount_ids[i] = pool_mount(&pool, name, "host", 1, MIB);
    }
    next_names(&pool, &cursor, names, sizeof(names));
    assert_string_equal(names, "a b ");
    assert_int_equal(pool_unmount(&pool, 1, mount_ids[1], 0), MOONCAKE_OK); /* told already */
    assert_int_equal(pool_unmount(&pool, 1, mount_ids[2], 0), MOONCAKE_OK); /* not yet */
    pool_settle(&pool);
    (void)pool_mount(&pool, "e", "host", 1, MIB);
    next_names(&pool, &cursor, names, sizeof(names));
    while (cursor != 0) {
        next_names(&pool, &cursor, names, sizeof(names));
    }
    assert_string_equal(names, "a b d e ");
    pool_close(&pool);
}

static void segments__a_thousand_are_each_told_once(void **state)
{
    struct pool pool;
    struct mc_list_request request = {0};
    struct mc_list_segments_reply reply;
    uint64_t last = 0;
    unsigned told = 0;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    for (unsigned i = 0; i < 1300; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "s%u", i);
        assert_int_equal(pool_mount_as(&pool, name, name, 1, 1000 + i), MOONCAKE_OK);
    }
    for (unsigned i = 0; i < 1300; i += 13) {
        assert_int_equal(pool_unmount(&pool, 1, 1000 + i, 0), MOONCAKE_OK);
    }
    pool_settle(&pool);
    do {
        mc_arena_reset(&pool.arena);
        assert_int_equal(mc_core_list_segments(pool.core, &request, &pool.arena, &reply),
                         MOONCAKE_OK);
        assert_true(reply.count <= MC_PAGE_ITEMS_MAX);
        for (size_t i = 0; i < reply.count; i++) {
            assert_true(reply.items[i].mount_id > last);
            last = reply.items[i].mount_id;
            told++;
        }
        request.cursor = reply.cursor;
    } while (request.cursor != 0);
    assert_int_equal(told, 1200);
    pool_close(&pool);
}

static void segments__say_why_nothing_new_is_placed_there(void **state)
{
    struct pool pool;
    struct mc_segment_status s;
    uint64_t ids[3];
    struct mc_drain_reply drained;
    struct mc_drain_request drain = {.count = 1, .action = MC_DRAIN_BEGIN};

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    for (unsigned i = 0; i < 3; i++) {
        char const name[] = {(char)('a' + i), '\0'};

        ids[i] = pool_mount(&pool, name, "host", 1 + i, MIB);
    }
    assert_int_equal(pool_segment(&pool, ids[0]).reason, MC_EXCLUDED_NOT);
    assert_int_equal(pool_unmount(&pool, 1, ids[0], 3000), MOONCAKE_OK);
    drain.mount_ids = &ids[1];
    assert_int_equal(mc_core_drain(pool.core, &drain, &pool.arena, &drained), MOONCAKE_OK);
    assert_int_equal(pool_report(&pool, 50, ids[2], MOONCAKE_ETIMEDOUT), MOONCAKE_OK);
    assert_int_equal(pool_report(&pool, 51, ids[2], MOONCAKE_ETIMEDOUT), MOONCAKE_OK);
    pool_advance(&pool, 1000);
    s = pool_segment(&pool, ids[0]);
    assert_int_equal(s.reason, MC_EXCLUDED_LEAVING);
    assert_int_equal(s.reason_ms, 2000);
    s = pool_segment(&pool, ids[1]);
    assert_int_equal(s.reason, MC_EXCLUDED_DRAINED);
    assert_true(s.ping_age_ms <= 1000);
    s = pool_segment(&pool, ids[2]);
    assert_int_equal(s.reason, MC_EXCLUDED_REPORTED);
    assert_int_equal(s.reason_ms, 1000);
    pool_close(&pool);
}

static void segments__tell_when_their_first_lease_ends(void **state)
{
    struct pool pool;
    struct mc_segment_status s;
    uint64_t id;

    (void)state;
    pool_options(&pool); /* leases of 2 s */
    pool_open(&pool);
    id = pool_mount(&pool, "a", "host", 1, MIB);
    assert_int_equal(pool_put(&pool, "first", 1000), MOONCAKE_OK);
    assert_int_equal(pool_put(&pool, "second", 5000), MOONCAKE_OK);
    s = pool_segment(&pool, id);
    assert_int_equal(s.next_lease_ms, 0);
    assert_int_equal(s.evictable, s.used);
    assert_int_equal(pool_query(&pool, "first").status, MOONCAKE_OK);
    pool_advance(&pool, 1000);
    assert_int_equal(pool_query(&pool, "second").status, MOONCAKE_OK);
    s = pool_segment(&pool, id);
    assert_int_equal(s.next_lease_bytes, 1088); /* with its header */
    assert_in_range(s.next_lease_ms, 1000, 1250);
    assert_int_equal(s.leased, s.used);
    pool_advance(&pool, s.next_lease_ms);
    s = pool_segment(&pool, id);
    assert_int_equal(s.evictable, 1088);
    assert_int_equal(s.next_lease_bytes, 5120);
    pool_advance(&pool, s.next_lease_ms);
    s = pool_segment(&pool, id);
    assert_int_equal(s.next_lease_ms, 0);
    assert_int_equal(s.leased, 0);
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments__the_same_mount_twice_is_one_mount),
        cmocka_unit_test(segments__a_name_of_a_living_store_is_refused),
        cmocka_unit_test(segments__bad_mounts_are_refused),
        cmocka_unit_test(segments__a_store_restarted_at_its_address_mounts_at_once),
        cmocka_unit_test(
            segments__a_store_restarted_elsewhere_mounts_when_the_old_one_missed_pings),
        cmocka_unit_test(segments__late_clean_up_of_an_old_mount_cannot_hurt_the_new_one),
        cmocka_unit_test(segments__a_leaving_segment_is_read_but_not_written_until_its_grace_ends),
        cmocka_unit_test(segments__no_grace_is_gone_now),
        cmocka_unit_test(segments__with_two_replicas_a_loss_leaves_one_at_once),
        cmocka_unit_test(segments__a_value_over_two_segments_is_lost_with_one_and_frees_the_other),
        cmocka_unit_test(segments__a_lost_key_can_be_written_before_it_is_swept),
        cmocka_unit_test(segments__a_loss_under_an_upsert_leaves_the_new_version_to_its_writer),
        cmocka_unit_test(segments__many_lost_keys_are_swept_in_slices),
        cmocka_unit_test(segments__a_damaged_replica_is_dropped_if_the_version_is_still_there),
        cmocka_unit_test(segments__pages_go_on_where_they_ended_whatever_comes_and_goes),
        cmocka_unit_test(segments__a_thousand_are_each_told_once),
        cmocka_unit_test(segments__say_why_nothing_new_is_placed_there),
        cmocka_unit_test(segments__tell_when_their_first_lease_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
