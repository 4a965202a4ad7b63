/* What goes wrong on the way: lost, late, false and missing completions, paths that fail. */
#include "rdma_rig.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LEN ((size_t)1 << 20)

static void run_until_posted(struct rdma_rig *rig, unsigned requests)
{
    rig->engine.transport->ops->flush(rig->engine.transport);
    RIG_RUN_UNTIL(rig->engine.loop, fake_counts().requests >= requests);
}

static void hold_client(bool hold)
{
    fake_hold(0, hold);
    fake_hold(1, hold);
}

static void check_untouched(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(bytes[i], 0xdd);
    }
}

static void cancel__makes_memory_quiet_and_harms_no_neighbour(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extents[2];
    struct rig_op ops[2];
    unsigned posted;

    rdma_rig_put(rig, 0, LEN, 1);
    rdma_rig_put(rig, LEN * 2, LEN, 2);
    rdma_rig_get(rig, 0, LEN, 1);
    hold_client(true);
    posted = fake_counts().requests;
    for (unsigned i = 0; i < 2; i++) {
        extents[i] = rig_extent(&rig->segment, LEN * 2 * i, LEN, LEN * 2 * i);
        rig_op_init(&ops[i], &rig->engine, MC_RIGHT_READ, &extents[i], rig->in + LEN * i);
        rig_submit(&rig->engine, &ops[i]);
    }
    run_until_posted(rig, posted + 2);
    rig->engine.transport->ops->cancel(rig->engine.transport, &ops[0].op);
    memset(rig->in, 0xdd, LEN);
    hold_client(false); /* what still lives is done now */
    rig_wait(&rig->engine, &ops[1]);
    assert_int_equal(ops[1].op.err, MOONCAKE_OK);
    rig_check(rig->in + LEN, LEN, 2);
    assert_false(ops[0].done);
    check_untouched(rig->in, LEN);
}

static void read__whose_completion_never_comes_ends_and_leaves_memory_alone(void **state)
{
    struct rdma_rig *rig = *state;
    uint64_t begun_ns;

    rdma_rig_put(rig, 0, LEN, 1);
    rig->options.rdma_stall_ms = 300; /* every connection is to be lost by it */
    rdma_rig_reopen(rig);
    hold_client(true);
    begun_ns = mc_monotonic_ns();
    assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->in), MOONCAKE_ERPC);
    assert_true(mc_monotonic_ns() - begun_ns < 15 * MC_NS_PER_S);
    memset(rig->in, 0xdd, LEN);
    hold_client(false);
    check_untouched(rig->in, LEN);
    assert_true(rdma_rig_peer(rig).retries >= 2);
}

static void reads__outlive_an_error_completion_and_the_flushes_behind_it(void **state)
{
    static const enum ibv_wc_status statuses[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR,
                                                  IBV_WC_WR_FLUSH_ERR, IBV_WC_FATAL_ERR};
    struct rdma_rig *rig = *state;

    rdma_rig_put(rig, 0, LEN * 32, 1);
    for (size_t i = 0; i < MC_ARRAY_LEN(statuses); i++) {
        fake_fail_nth(0, (unsigned)i * 3, statuses[i]);
        fake_fail_nth(1, 2, statuses[i]);
        rdma_rig_get(rig, 0, LEN * 32, 1);
    }
    assert_true(
        mc_counter_get(&rig->engine.transport->ops->stats(rig->engine.transport)->reconnects) >=
        MC_ARRAY_LEN(statuses));
}

static void read__is_not_fooled_by_a_completion_of_nothing(void **state)
{
    struct rdma_rig *rig = *state;

    rdma_rig_put(rig, 0, LEN * 8, 1);
    fake_lie_once(0);
    fake_lie_once(1);
    rdma_rig_get(rig, 0, LEN * 8, 1);
    assert_true(rdma_rig_peer(rig).retries >= 1);
}

static void read__goes_on_over_the_other_device_when_a_cable_is_pulled(void **state)
{
    struct rdma_rig *rig = *state;
    uint64_t before;

    rdma_rig_put(rig, 0, LEN * 16, 1);
    rdma_rig_get(rig, 0, LEN * 16, 1);
    fake_set_link(0, false);
    before = fake_moved(1);
    for (unsigned i = 0; i < 5; i++) {
        rdma_rig_get(rig, 0, LEN * 16, 1);
    }
    assert_true(fake_moved(1) - before >= 5 * LEN * 16);
}

static void path__comes_back_by_itself(void **state)
{
    struct rdma_rig *rig = *state;
    uint64_t until_ns = mc_monotonic_ns() + RIG_WAIT_NS;
    uint64_t before;

    rdma_rig_put(rig, 0, LEN, 1);
    fake_set_link(0, false);
    rdma_rig_get(rig, 0, LEN, 1);
    rdma_rig_get(rig, 0, LEN, 1);
    fake_set_link(0, true);
    before = fake_moved(0);
    while (fake_moved(0) == before) {
        assert_true(mc_monotonic_ns() < until_ns);
        rdma_rig_get(rig, 0, LEN, 1);
        rig_run_a_little(rig->engine.loop);
    }
}

/* Reads until the path over fake0 has failed to connect, which nobody hears an event of. */
static void lose_first_path(struct rdma_rig *rig)
{
    uint64_t until_ns = mc_monotonic_ns() + RIG_WAIT_NS;

    rdma_rig_connect_all(rig, LEN * 16);
    fake_set_link(2, false);
    while (strcmp(rdma_rig_path_state(rig, "fake0"), "paused") != 0) {
        assert_true(mc_monotonic_ns() < until_ns);
        rdma_rig_get(rig, 0, LEN * 16, 1);
        rig_run_a_little(rig->engine.loop);
    }
}

static void path__comes_back_while_nobody_asks_for_anything(void **state)
{
    struct rdma_rig *rig = *state;

    lose_first_path(rig);
    fake_set_link(2, true);
    RIG_RUN_UNTIL(rig->engine.loop, strcmp(rdma_rig_path_state(rig, "fake0"), "up") == 0);
}

/* The first has been mended by then, and nothing has been tried over it since. */
static void second_fault__is_not_seen_where_the_first_is_mended(void **state)
{
    struct rdma_rig *rig = *state;
    uint64_t before;

    lose_first_path(rig);
    fake_set_link(2, true);
    fake_set_port(1, false);
    RIG_RUN_UNTIL(rig->engine.loop, fake_qps_of(1) == 0);
    before = fake_moved(0);
    rdma_rig_get(rig, 0, LEN * 16, 1);
    assert_true(fake_moved(0) - before >= LEN * 16);
}

/* As above, in the middle of an op. */
static void second_fault__in_mid_read_is_not_seen_where_the_first_is_mended(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN * 16, 0);
    struct rig_op op;
    unsigned posted;

    lose_first_path(rig);
    posted = fake_counts().requests;
    hold_client(true);
    rig_op_init(&op, &rig->engine, MC_RIGHT_READ, &extent, rig->in);
    rig_submit(&rig->engine, &op);
    run_until_posted(rig, posted + 16);
    fake_set_link(2, true);
    fake_set_port(1, false);
    hold_client(false);
    rig_wait(&rig->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_OK);
    rig_check(rig->in, LEN * 16, 1);
}

static void read__fails_with_a_name_when_no_path_is_left_and_works_again_later(void **state)
{
    struct rdma_rig *rig = *state;
    uint64_t until_ns = mc_monotonic_ns() + RIG_WAIT_NS;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN, 0);
    struct rig_op op;
    mooncake_err err;

    rdma_rig_put(rig, 0, LEN, 1);
    fake_set_link(2, false);
    fake_set_link(3, false);
    assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->in), MOONCAKE_ERPC);
    assert_non_null(strstr(mooncake_last_error(), "segment-under-test"));
    fake_set_link(2, true);
    fake_set_link(3, true);
    do { /* refused while paused, at once */
        rig_op_init(&op, &rig->engine, MC_RIGHT_READ, &extent, rig->in);
        err = rig->engine.transport->ops->submit(rig->engine.transport, &op.op);
        rig_run_a_little(rig->engine.loop);
        assert_true(mc_monotonic_ns() < until_ns);
    } while (err == MOONCAKE_ERPC);
    assert_int_equal(err, MOONCAKE_OK);
    rig_wait(&rig->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_OK);
    rig_check(rig->in, LEN, 1);
}

static void read__survives_the_removal_of_a_device(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN * 16, 0);
    struct rig_op op;
    unsigned posted;

    rdma_rig_put(rig, 0, LEN * 16, 1);
    rdma_rig_get(rig, 0, LEN * 16, 1); /* connected now */
    posted = fake_counts().requests;
    hold_client(true);
    rig_op_init(&op, &rig->engine, MC_RIGHT_READ, &extent, rig->in);
    rig_submit(&rig->engine, &op);
    run_until_posted(rig, posted + 16);
    fake_remove(0);
    hold_client(false);
    rig_wait(&rig->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_OK);
    rig_check(rig->in, LEN * 16, 1);
    assert_int_equal(fake_qps_of(0), 0);
}

static void connect__without_an_answer_ends_in_time(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN, 0);
    uint64_t begun_ns;

    rig->options.connect_timeout_ms = 400;
    rdma_rig_reopen(rig);
    fake_mute_connects(2);
    begun_ns = mc_monotonic_ns();
    assert_int_equal(rig_do(&rig->engine, MC_RIGHT_WRITE, &extent, rig->out), MOONCAKE_ERPC);
    assert_true(mc_monotonic_ns() - begun_ns < 10 * MC_NS_PER_S);
    assert_int_equal(fake_qps_of(0), 0); /* nothing is left of the attempts */
    assert_int_equal(fake_qps_of(1), 0);
}

static void connect__to_nobody_is_an_error_at_once(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN, 0);

    (void)snprintf(rig->engine.addresses, sizeof(rig->engine.addresses),
                   "rdma://10.99.0.2:9 rdma://10.99.1.2:9");
    assert_int_equal(rig_do(&rig->engine, MC_RIGHT_WRITE, &extent, rig->out), MOONCAKE_ERPC);
}

static void store__that_takes_its_keys_back_costs_only_the_reads_under_way(void **state)
{
    struct rdma_rig *rig = *state;

    rdma_rig_put(rig, 0, LEN, 1);
    fake_break_keys(2, true);
    fake_break_keys(3, true);
    assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->in), MOONCAKE_ERPC);
    fake_break_keys(2, false);
    fake_break_keys(3, false);
    rdma_rig_reopen(rig);
    rdma_rig_get(rig, 0, LEN, 1);
}

/* On each connection of the client one request is done, which shows that it works, and the next one
 * fails. */
static void fail_the_second_request(void)
{
    for (unsigned device = 0; device < 2; device++) {
        fake_release(device, 1);
        fake_fail_nth(device, 0, IBV_WC_RETRY_EXC_ERR);
        fake_release(device, 1);
        fake_fail_nth(device, UINT_MAX, IBV_WC_SUCCESS); /* nothing was there to fail: not later */
    }
}

/* Every path is good for something, so none is left alone; it is the read that is given up. */
static void read__that_loses_one_connection_after_the_other_is_given_up(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN * 32, 0);
    struct rig_op op;
    unsigned posted, rounds = 0;

    rdma_rig_connect_all(rig, LEN * 32);
    posted = fake_counts().requests;
    hold_client(true);
    rig_op_init(&op, &rig->engine, MC_RIGHT_READ, &extent, rig->in);
    rig_submit(&rig->engine, &op);
    rig->engine.transport->ops->flush(rig->engine.transport);
    while (!op.done) {
        assert_true(rounds++ < 6);
        RIG_RUN_UNTIL(rig->engine.loop, op.done || fake_counts().requests > posted);
        posted = fake_counts().requests;
        fail_the_second_request();
    }
    assert_int_equal(op.op.err, MOONCAKE_ERPC);
    assert_non_null(strstr(mooncake_last_error(), "has lost 5 RDMA connections in a row"));
    hold_client(false);
    rdma_rig_get(rig, 0, LEN * 32, 1);
}

static void store__refuses_a_stranger_and_serves_the_next(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref forged = rig_extent(&rig->segment, 0, LEN, 0);
    struct mc_extent_ref read_only = rig_extent(&rig->segment, 0, LEN, 0);

    forged.capability++;
    assert_int_equal(rig_do(&rig->engine, MC_RIGHT_WRITE, &forged, rig->out), MOONCAKE_ENOTOWNER);
    assert_true(mc_counter_get(&mc_rdma_server_stats(rig->server)->refused) >= 1);
    assert_int_equal(mc_counter_get(&mc_rdma_server_stats(rig->server)->accepted), 0);
    /* A ticket for reading that says it is one for writing is forged, too. */
    read_only.rights = MC_RIGHT_READ;
    read_only.capability = mc_capability(rig->segment.mount.secret, &read_only);
    read_only.rights = MC_RIGHT_READ | MC_RIGHT_WRITE;
    assert_int_equal(rig_do(&rig->engine, MC_RIGHT_WRITE, &read_only, rig->out),
                     MOONCAKE_ENOTOWNER);
    rdma_rig_put(rig, 0, LEN, 1);
    rdma_rig_get(rig, 0, LEN, 1);
}

static void store__closes_every_connection_of_a_mount_that_goes(void **state)
{
    struct rdma_rig *rig = *state;

    rdma_rig_put(rig, 0, LEN, 1);
    rdma_rig_get(rig, 0, LEN, 1);
    assert_true(fake_qps_of(2) > 0);
    mc_mount_drop(rig->segment.mount.mount_id);
    assert_int_equal(fake_qps_of(2) + fake_qps_of(3), 0);
    assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->in), MOONCAKE_ENOSEGMENT);
    rig_segment_serve(&rig->segment);
    rdma_rig_get(rig, 0, LEN, 1);
}

static void store__that_has_no_such_segment_is_asked_on_no_other_path(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN, 0);

    mc_mount_drop(rig->segment.mount.mount_id);
    fake_mute_connects(1); /* one path is still asking when the other is told */
    assert_int_equal(rig_do(&rig->engine, MC_RIGHT_WRITE, &extent, rig->out), MOONCAKE_ENOSEGMENT);
    assert_int_equal(fake_qps_of(0) + fake_qps_of(1), 0);
    rig_segment_serve(&rig->segment);
    rdma_rig_put(rig, 0, LEN, 1);
    rdma_rig_get(rig, 0, LEN, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RDMA_RIG_TEST(cancel__makes_memory_quiet_and_harms_no_neighbour),
        RDMA_RIG_TEST(read__whose_completion_never_comes_ends_and_leaves_memory_alone),
        RDMA_RIG_TEST(reads__outlive_an_error_completion_and_the_flushes_behind_it),
        RDMA_RIG_TEST(read__is_not_fooled_by_a_completion_of_nothing),
        RDMA_RIG_TEST(read__goes_on_over_the_other_device_when_a_cable_is_pulled),
        RDMA_RIG_TEST(path__comes_back_by_itself),
        RDMA_RIG_TEST(path__comes_back_while_nobody_asks_for_anything),
        RDMA_RIG_TEST(second_fault__is_not_seen_where_the_first_is_mended),
        RDMA_RIG_TEST(second_fault__in_mid_read_is_not_seen_where_the_first_is_mended),
        RDMA_RIG_TEST(read__fails_with_a_name_when_no_path_is_left_and_works_again_later),
        RDMA_RIG_TEST(read__survives_the_removal_of_a_device),
        RDMA_RIG_TEST(connect__without_an_answer_ends_in_time),
        RDMA_RIG_TEST(connect__to_nobody_is_an_error_at_once),
        RDMA_RIG_TEST(store__that_takes_its_keys_back_costs_only_the_reads_under_way),
        RDMA_RIG_TEST(read__that_loses_one_connection_after_the_other_is_given_up),
        RDMA_RIG_TEST(store__refuses_a_stranger_and_serves_the_next),
        RDMA_RIG_TEST(store__closes_every_connection_of_a_mount_that_goes),
        RDMA_RIG_TEST(store__that_has_no_such_segment_is_asked_on_no_other_path),
    };

    return cmocka_run_group_tests_name("rdma faults", tests, NULL, NULL);
}
