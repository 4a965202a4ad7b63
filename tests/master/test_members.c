/* Who is alive, who is judged, and who is not to be judged. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "master/pool.h"

static const struct mc_core_metrics *metrics(struct pool *pool)
{
    return mc_core_metrics(pool->core);
}

/* ---- expiry -------------------------------------------------------------------------------- */

static void members__silence_beyond_the_ttl_ends_a_mount(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    pool_silence(&pool, 1);
    pool_advance(&pool, 4900);
    assert_true(pool_has(&pool, "k"));
    pool_advance(&pool, 150);
    assert_false(pool_has(&pool, "k"));
    assert_int_equal(pool_status(&pool).segments, 0);
    assert_int_equal(pool_status(&pool).clients, 0);
    assert_int_equal(pool_status(&pool).stores, 0);
    assert_int_equal(mc_counter_get(&metrics(&pool)->expired_segments), 1);
    assert_int_equal(pool_ping(&pool, 1, mount).unknown_mount_ids[0], mount);
    pool_close(&pool);
}

static void members__pings_keep_a_mount_for_ever(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    pool_advance(&pool, 60000);
    assert_int_equal(pool_ping(&pool, 1, mount).unknown_count, 0);
    pool_close(&pool);
}

static void members__a_goodbye_ends_all_mounts_at_once(void **state)
{
    struct pool pool;
    struct mc_ping_request const bye = {.client_id = 1, .role = MC_ROLE_STORE, .leaving = true};
    struct mc_ping_reply reply;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    (void)pool_mount(&pool, "a:2", "host-a", 1, MIB);
    assert_int_equal(mc_core_ping(pool.core, &bye, &pool.arena, &reply), MOONCAKE_OK);
    assert_int_equal(pool_status(&pool).segments, 0);
    assert_int_equal(pool_status(&pool).clients, 0);
    assert_int_equal(mc_core_ping(pool.core, &bye, &pool.arena, &reply), MOONCAKE_OK);
    pool_close(&pool);
}

static void members__nobody_is_expired_for_the_masters_own_stall(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool.options.stall_ms = 1000;
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    pool_silence(&pool, 1);
    pool_advance(&pool, 3000);
    pool.clock.now_ns += 10 * MC_NS_PER_S; /* twice the TTL: frozen and woken */
    pool_settle(&pool);
    assert_true(pool_has(&pool, "k"));
    assert_int_equal(mc_counter_get(&metrics(&pool)->stalls), 1);
    pool_advance(&pool, 1900);
    assert_int_equal(pool_ping(&pool, 1, mount).unknown_count, 0);
    pool_advance(&pool, 5100); /* but real silence still counts */
    assert_int_equal(pool_status(&pool).segments, 0);
    pool_close(&pool);
}

static void members__the_tick_asks_to_be_called_when_something_is_due(void **state)
{
    struct pool pool;
    uint64_t next_ns;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    next_ns = mc_core_tick(pool.core);
    assert_in_range(next_ns, pool.clock.now_ns + 1, pool.clock.now_ns + 100 * MC_NS_PER_MS);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    pool_silence(&pool, 1);
    pool_advance(&pool, 4970);
    assert_int_equal(mc_core_tick(pool.core), pool.clock.now_ns + 30 * MC_NS_PER_MS);
    pool_close(&pool);
}

/* ---- reports ------------------------------------------------------------------------------- */

static void members__one_report_of_a_pinging_store_changes_nothing(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    for (unsigned i = 0; i < 10; i++) { /* however often */
        assert_int_equal(pool_report(&pool, 8, mount, MOONCAKE_ERPC), MOONCAKE_OK);
    }
    assert_int_equal(pool_segment(&pool, mount).state, MC_SEGMENT_OK);
    assert_int_equal(pool_report(&pool, 8, mount + 999, MOONCAKE_ERPC), MOONCAKE_ENOSEGMENT);
    pool_close(&pool);
}

static void members__reports_of_two_clients_make_a_suspect(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_put(&pool, "k", 1000), MOONCAKE_OK);
    assert_int_equal(pool_report(&pool, 8, mount, MOONCAKE_ERPC), MOONCAKE_OK);
    assert_int_equal(pool_report(&pool, 9, mount, MOONCAKE_ERPC), MOONCAKE_OK);
    assert_int_equal(pool_segment(&pool, mount).state, MC_SEGMENT_SUSPECT);
    assert_true(pool_has(&pool, "k")); /* what it holds is still offered */
    assert_int_equal(pool_put(&pool, "n", 1000), MOONCAKE_ENOSPACE);
    pool_close(&pool);
}

static void members__two_reports_far_apart_make_no_suspect(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_report(&pool, 8, mount, MOONCAKE_ERPC), MOONCAKE_OK);
    pool_advance(&pool, 2600);
    assert_int_equal(pool_report(&pool, 9, mount, MOONCAKE_ERPC), MOONCAKE_OK);
    assert_int_equal(pool_segment(&pool, mount).state, MC_SEGMENT_OK);
    pool_close(&pool);
}

static void members__one_report_and_a_missed_ping_make_a_suspect(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    pool_silence(&pool, 1);
    pool_advance(&pool, 1000);
    assert_int_equal(pool_report(&pool, 8, mount, MOONCAKE_ERPC), MOONCAKE_OK);
    assert_int_equal(pool_segment(&pool, mount).state, MC_SEGMENT_OK);
    pool_advance(&pool, 1600);
    assert_int_equal(pool_segment(&pool, mount).state, MC_SEGMENT_SUSPECT);
    pool_close(&pool);
}

static void members__a_ping_and_time_clear_a_suspect(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_report(&pool, 8, mount, MOONCAKE_ERPC), MOONCAKE_OK);
    assert_int_equal(pool_report(&pool, 9, mount, MOONCAKE_ERPC), MOONCAKE_OK);
    (void)pool_ping(&pool, 1, mount); /* a ping alone does not: its data port may be dead */
    assert_int_equal(pool_segment(&pool, mount).state, MC_SEGMENT_SUSPECT);
    pool_advance(&pool, 3100);
    assert_int_equal(pool_segment(&pool, mount).state, MC_SEGMENT_OK);
    assert_int_equal(pool_put(&pool, "n", 1000), MOONCAKE_OK);
    pool_close(&pool);
}

static void members__a_suspect_that_leaves_is_draining_and_stays_so(void **state)
{
    struct pool pool;
    uint64_t mount;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mount = pool_mount(&pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_report(&pool, 8, mount, MOONCAKE_ERPC), MOONCAKE_OK);
    assert_int_equal(pool_report(&pool, 9, mount, MOONCAKE_ERPC), MOONCAKE_OK);
    assert_int_equal(pool_unmount(&pool, 1, mount, 10000), MOONCAKE_OK);
    pool_advance(&pool, 5000);
    assert_int_equal(pool_segment(&pool, mount).state, MC_SEGMENT_DRAINING);
    pool_advance(&pool, 5100);
    assert_int_equal(pool_status(&pool).segments, 0);
    pool_close(&pool);
}

/* ---- many ---------------------------------------------------------------------------------- */

static void members__many_join_at_once_and_die_at_once(void **state)
{
    struct pool pool;
    struct wish const on_survivor = {.preferred = "survivor"};

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "survivor", "host-s", 99, MIB);
    assert_int_equal(pool_put_wish(&pool, "kept", 1000, &on_survivor), MOONCAKE_OK);
    for (unsigned i = 0; i < 24; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "c:%u", i);
        (void)pool_mount(&pool, name, "host-c", i + 1, MIB);
    }
    assert_int_equal(pool_status(&pool).stores, 25);
    pool_put_many(&pool, "k", 5000, 1000);
    for (unsigned i = 0; i < 24; i++) {
        pool_silence(&pool, i + 1);
    }
    pool_advance(&pool, 5100);
    pool_recount(&pool);
    assert_int_equal(pool_status(&pool).stores, 1);
    assert_true(pool_has(&pool, "kept"));
    assert_int_equal(pool_status(&pool).keys, pool_has_many(&pool, "k", 5000) + 1);
    pool_close(&pool);
}

static void members__too_many_are_refused_and_those_known_stay(void **state)
{
    struct pool pool;
    struct mc_ping_request ping = {.role = MC_ROLE_CLIENT};
    struct mc_ping_reply reply;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    mc_log_set_level(MC_LOG_ERROR);
    for (ping.client_id = 1; ping.client_id <= 65536; ping.client_id++) {
        mc_arena_reset(&pool.arena);
        assert_int_equal(mc_core_ping(pool.core, &ping, &pool.arena, &reply), MOONCAKE_OK);
    }
    assert_int_equal(mc_core_ping(pool.core, &ping, &pool.arena, &reply), MOONCAKE_EUNAVAILABLE);
    ping.client_id = 1;
    assert_int_equal(mc_core_ping(pool.core, &ping, &pool.arena, &reply), MOONCAKE_OK);
    pool_close(&pool);
}

static void members__clients_are_listed_with_the_age_of_their_ping(void **state)
{
    struct pool pool;
    struct mc_list_request const request = {0};
    struct mc_list_clients_reply reply;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    pool_silence(&pool, 1);
    pool_advance(&pool, 700);
    (void)pool_ping(&pool, 2, 0);
    pool_advance(&pool, 100);
    assert_int_equal(mc_core_list_clients(pool.core, &request, &pool.arena, &reply), MOONCAKE_OK);
    assert_int_equal(reply.count, 2);
    assert_int_equal(reply.items[0].client_id, 1);
    assert_int_equal(reply.items[0].ping_age_ms, 800);
    assert_int_equal(reply.items[0].segments, 1);
    assert_int_equal(reply.items[1].client_id, 2);
    assert_int_equal(reply.items[1].ping_age_ms, 100);
    assert_string_equal(reply.items[0].host, "host-a");
    pool_close(&pool);
}

static mooncake_err ping_counts(struct pool *pool, uint64_t client_id, uint64_t failovers,
                                uint64_t shm)
{
    struct mc_ping_request const ping = {
        .client_id = client_id,
        .role = MC_ROLE_CLIENT,
        .counts = {.read_failovers = failovers, .shm_fallbacks = shm},
    };
    struct mc_ping_reply reply;

    return mc_core_ping(pool->core, &ping, &pool->arena, &reply);
}

static void members__what_clients_count_is_summed_once(void **state)
{
    const struct mc_core_metrics *m;
    struct pool pool;

    (void)state;
    pool_options(&pool);
    pool_open(&pool);
    m = mc_core_metrics(pool.core);
    assert_int_equal(ping_counts(&pool, 1, 1000, 7), MOONCAKE_OK); /* where it stands */
    assert_int_equal(ping_counts(&pool, 2, 0, 0), MOONCAKE_OK);
    assert_int_equal(mc_counter_get(&m->read_failover), 0);
    assert_int_equal(ping_counts(&pool, 1, 1003, 7), MOONCAKE_OK);
    assert_int_equal(ping_counts(&pool, 2, 2, 1), MOONCAKE_OK);
    assert_int_equal(ping_counts(&pool, 2, 2, 1), MOONCAKE_OK); /* the same again */
    assert_int_equal(mc_counter_get(&m->read_failover), 5);
    assert_int_equal(mc_counter_get(&m->shm_fallbacks), 1);
    assert_int_equal(mc_counter_get(&m->rdma_fallbacks), 0);
    assert_int_equal(ping_counts(&pool, 2, 1, 0), MOONCAKE_OK); /* less: nonsense, adds nothing */
    assert_int_equal(mc_counter_get(&m->read_failover), 5);
    assert_int_equal(ping_counts(&pool, 2, UINT64_MAX, 0), MOONCAKE_OK);
    assert_int_equal(mc_counter_get(&m->read_failover), 5 + (1u << 30));
    pool_close(&pool);
}

/* ---- options ------------------------------------------------------------------------------- */

static void members__options_out_of_range_are_refused_by_name(void **state)
{
    struct mc_clock_fake clock;
    struct mc_core_options options;
    struct mc_core *core = NULL;

    (void)state;
    mc_clock_fake_init(&clock, 1);
    mc_core_options_init(&options);
    assert_int_equal(mc_core_create(&options, &clock.clock, &core), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "epoch"));
    options.epoch = 1;
    options.put_release_ms = options.put_discard_ms - 1;
    assert_int_equal(mc_core_create(&options, &clock.clock, &core), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "put_release"));
    options.put_release_ms = options.put_discard_ms;
    options.high_watermark = 1.01;
    assert_int_equal(mc_core_create(&options, &clock.clock, &core), MOONCAKE_EINVAL);
    options.high_watermark = 0.0 / 0.0;
    assert_int_equal(mc_core_create(&options, &clock.clock, &core), MOONCAKE_EINVAL);
    options.high_watermark = 0.9;
    options.eviction_ratio = 0.9;
    assert_int_equal(mc_core_create(&options, &clock.clock, &core), MOONCAKE_EINVAL);
    assert_null(core);
    options.eviction_ratio = 0.1;
    assert_int_equal(mc_core_create(&options, &clock.clock, &core), MOONCAKE_OK);
    mc_core_destroy(&core);
    assert_null(core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members__silence_beyond_the_ttl_ends_a_mount),
        cmocka_unit_test(members__pings_keep_a_mount_for_ever),
        cmocka_unit_test(members__a_goodbye_ends_all_mounts_at_once),
        cmocka_unit_test(members__nobody_is_expired_for_the_masters_own_stall),
        cmocka_unit_test(members__the_tick_asks_to_be_called_when_something_is_due),
        cmocka_unit_test(members__one_report_of_a_pinging_store_changes_nothing),
        cmocka_unit_test(members__reports_of_two_clients_make_a_suspect),
        cmocka_unit_test(members__two_reports_far_apart_make_no_suspect),
        cmocka_unit_test(members__one_report_and_a_missed_ping_make_a_suspect),
        cmocka_unit_test(members__a_ping_and_time_clear_a_suspect),
        cmocka_unit_test(members__a_suspect_that_leaves_is_draining_and_stays_so),
        cmocka_unit_test(members__many_join_at_once_and_die_at_once),
        cmocka_unit_test(members__too_many_are_refused_and_those_known_stay),
        cmocka_unit_test(members__clients_are_listed_with_the_age_of_their_ping),
        cmocka_unit_test(members__what_clients_count_is_summed_once),
        cmocka_unit_test(members__options_out_of_range_are_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
