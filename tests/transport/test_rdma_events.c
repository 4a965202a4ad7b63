/* What devices tell of themselves: it ends what is of no use at once, long before retries would. */
#include "rdma_rig.h"

#include <sched.h>
#include <string.h>

#include "transport/rdma_device.h"

#define LEN ((size_t)1 << 20)
#define SMALL_AT (LEN * 32) /* where a value of 4096 bytes is */
/* Far beyond what any wait of these tests takes: only an event can end it sooner. */
#define STALL_MS 600000u

static uint64_t reconnects(const struct rdma_rig *rig)
{
    return mc_counter_get(&rig->engine.transport->ops->stats(rig->engine.transport)->reconnects);
}

static int64_t connections(const struct rdma_rig *rig)
{
    return mc_gauge_get(&mc_rdma_server_stats(rig->server)->connections);
}

static void get_small(struct rdma_rig *rig)
{
    rdma_rig_get(rig, SMALL_AT, 4096, 2);
}

/* Both paths are connected, and stalls are not noticed. */
static void warm_up(struct rdma_rig *rig)
{
    rig->options.rdma_stall_ms = STALL_MS;
    rdma_rig_reopen(rig);
    rdma_rig_put(rig, SMALL_AT, 4096, 2);
    rdma_rig_connect_all(rig, LEN * 16);
}

/* A read of LEN x 16 that stands still on both devices. */
static void begin_held_read(struct rdma_rig *rig, const struct mc_extent_ref *extent,
                            struct rig_op *op)
{
    unsigned posted = fake_counts().requests;

    fake_hold(0, true);
    fake_hold(1, true);
    rig_op_init(op, &rig->engine, MC_RIGHT_READ, extent, rig->in);
    rig_submit(&rig->engine, op);
    rig->engine.transport->ops->flush(rig->engine.transport);
    RIG_RUN_UNTIL(rig->engine.loop, fake_counts().requests >= posted + 16);
}

/* By ops: nobody connects for nothing. */
static void await_up(struct rdma_rig *rig, const char *device)
{
    uint64_t until_ns = mc_monotonic_ns() + RIG_WAIT_NS;

    while (strcmp(rdma_rig_path_state(rig, device), "up") != 0) {
        assert_true(mc_monotonic_ns() < until_ns);
        get_small(rig);
        rig_run_a_little(rig->engine.loop);
    }
}

static void read__moves_to_the_other_port_at_once_when_one_tells_it_is_down(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN * 16, 0);
    uint64_t retries;
    struct rig_op op;

    warm_up(rig);
    retries = rdma_rig_peer(rig).retries;
    begin_held_read(rig, &extent, &op);
    fake_set_port(0, false);
    RIG_RUN_UNTIL(rig->engine.loop, fake_qps_of(0) == 0);
    assert_false(op.done);
    fake_hold(0, false);
    fake_hold(1, false);
    rig_wait(&rig->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_OK);
    rig_check(rig->in, LEN * 16, 1);
    assert_string_equal(rdma_rig_path_state(rig, "fake0"), "port down");
    assert_string_equal(rdma_rig_path_state(rig, "fake1"), "up");
    assert_true(rdma_rig_peer(rig).retries > retries);
}

static void port__that_is_down_is_not_tried_and_is_used_at_once_when_it_is_up(void **state)
{
    struct rdma_rig *rig = *state;
    uint64_t moved;
    unsigned ids;

    warm_up(rig);
    fake_set_port(0, false);
    RIG_RUN_UNTIL(rig->engine.loop, fake_qps_of(0) == 0);
    ids = fake_counts().ids;
    for (unsigned i = 0; i < 50; i++) {
        get_small(rig);
    }
    assert_int_equal(fake_counts().ids, ids); /* no connection was begun */
    fake_set_port(0, true);
    RIG_RUN_UNTIL(rig->engine.loop, strcmp(rdma_rig_path_state(rig, "fake0"), "idle") == 0);
    await_up(rig, "fake0");
    moved = fake_moved(0);
    rdma_rig_get(rig, 0, LEN * 16, 1);
    assert_true(fake_moved(0) - moved >= LEN * 4);
}

/* The event that it is up again is lost; the device is asked. */
static void port__that_comes_back_silently_is_found(void **state)
{
    struct rdma_rig *rig = *state;

    warm_up(rig);
    fake_set_port(0, false);
    RIG_RUN_UNTIL(rig->engine.loop, fake_qps_of(0) == 0);
    fake_set_link(0, true);
    await_up(rig, "fake0");
}

static void both_ports__down_are_a_named_error_at_once(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN * 16, 0);
    struct rig_op op;

    warm_up(rig);
    begin_held_read(rig, &extent, &op);
    fake_set_port(0, false);
    fake_set_port(1, false);
    rig_wait(&rig->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_ERPC);
    assert_non_null(strstr(mooncake_last_error(), "the port is down"));
    assert_int_equal(rig->engine.transport->ops->submit(rig->engine.transport, &op.op),
                     MOONCAKE_ERPC);
    fake_hold(0, false);
    fake_hold(1, false);
}

static void link__that_is_down_from_the_start_is_left_alone(void **state)
{
    struct rdma_rig *rig = *state;

    fake_set_link(0, false);
    rdma_rig_restart(rig);
    rdma_rig_put(rig, 0, LEN, 1);
    rdma_rig_get(rig, 0, LEN, 1);
    assert_int_equal(fake_moved(0), 0);
    assert_string_equal(rdma_rig_path_state(rig, "fake0"), "port down");
}

static void device__that_is_broken_or_gone_is_never_used_again(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN * 16, 0);
    struct rig_op op;

    warm_up(rig);
    begin_held_read(rig, &extent, &op);
    fake_tell(0, IBV_EVENT_DEVICE_FATAL);
    RIG_RUN_UNTIL(rig->engine.loop, fake_qps_of(0) == 0);
    fake_hold(0, false);
    fake_hold(1, false);
    rig_wait(&rig->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_OK);
    rig_check(rig->in, LEN * 16, 1);
    fake_tell(0, IBV_EVENT_PORT_ACTIVE); /* a late one brings nothing back */
    rdma_rig_get(rig, 0, LEN * 16, 1);
    assert_string_equal(rdma_rig_path_state(rig, "fake0"), "device gone");
    assert_int_equal(fake_qps_of(0), 0);
}

static void events__that_cannot_be_read_any_more_are_the_end_of_the_device(void **state)
{
    struct rdma_rig *rig = *state;

    warm_up(rig);
    fake_end_events(1);
    RIG_RUN_UNTIL(rig->engine.loop, fake_qps_of(1) == 0);
    assert_string_equal(rdma_rig_path_state(rig, "fake1"), "device gone");
    rdma_rig_get(rig, 0, LEN * 16, 1);
}

static void queue_pair__that_has_failed_is_replaced_at_once(void **state)
{
    static const enum ibv_event_type types[] = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
                                                IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_PATH_MIG_ERR,
                                                IBV_EVENT_CQ_ERR};
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN * 16, 0);

    warm_up(rig);
    for (size_t i = 0; i < MC_ARRAY_LEN(types); i++) {
        uint64_t before = reconnects(rig);
        struct rig_op op;

        begin_held_read(rig, &extent, &op);
        fake_tell_queues(0, types[i]);
        fake_tell_queues(1, types[i]);
        RIG_RUN_UNTIL(rig->engine.loop, reconnects(rig) > before);
        fake_hold(0, false); /* what is dead stays so */
        fake_hold(1, false);
        rig_wait(&rig->engine, &op);
        assert_int_equal(op.op.err, MOONCAKE_OK);
        rig_check(rig->in, LEN * 16, 1);
    }
}

static void events__for_information_change_nothing_and_are_acknowledged(void **state)
{
    static const enum ibv_event_type types[] = {IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE,
                                                IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER};
    struct rdma_rig *rig = *state;
    unsigned told = fake_counts().events_told;
    uint64_t before;

    warm_up(rig);
    before = reconnects(rig);
    for (size_t i = 0; i < MC_ARRAY_LEN(types); i++) {
        fake_tell(0, types[i]);
    }
    RIG_RUN_UNTIL(rig->engine.loop, fake_counts().events_acked == told + MC_ARRAY_LEN(types));
    get_small(rig);
    assert_int_equal(reconnects(rig), before);
}

/* More than a watcher remembers, while its loop does not run: what came last must be seen too. */
static void flood__of_events_is_bounded_and_its_end_is_seen(void **state)
{
    struct rdma_rig *rig = *state;
    const unsigned told = fake_counts().events_told;
    uint64_t until_ns = mc_monotonic_ns() + RIG_WAIT_NS;

    warm_up(rig);
    for (unsigned i = 0; i < 500; i++) {
        fake_set_port(1, i % 2 == 1);
    }
    fake_set_port(0, false);
    while (fake_counts().events_acked < told + 501) {
        assert_true(mc_monotonic_ns() < until_ns);
        (void)sched_yield();
    }
    RIG_RUN_UNTIL(rig->engine.loop, fake_qps_of(0) == 0);
    assert_string_equal(rdma_rig_path_state(rig, "fake0"), "port down");
    fake_set_port(0, true);
    RIG_RUN_UNTIL(rig->engine.loop, strcmp(rdma_rig_path_state(rig, "fake0"), "idle") == 0);
    rdma_rig_get(rig, 0, LEN * 16, 1);
}

static void store__asks_its_peers_when_its_port_is_down_and_keeps_those_that_answer(void **state)
{
    struct rdma_rig *rig = *state;
    const struct mc_rdma_server_stats *stats;
    unsigned posts;
    int64_t before;

    rig->store.probe_ms = STALL_MS; /* it asks on its own only then */
    rdma_rig_restart(rig);
    stats = mc_rdma_server_stats(rig->server);
    warm_up(rig);
    assert_int_equal(mc_gauge_get(&stats->ports_up), 2);
    before = connections(rig);
    fake_hold(2, true); /* its probes stand still, as retries do */
    posts = fake_counts().posts;
    fake_set_port(2, false);
    RIG_RUN_UNTIL(rig->engine.loop, mc_gauge_get(&stats->ports_up) == 1);
    RIG_RUN_UNTIL(rig->engine.loop, fake_counts().posts > posts);
    fake_set_port(2, true);
    RIG_RUN_UNTIL(rig->engine.loop, mc_gauge_get(&stats->ports_up) == 2);
    fake_hold(2, false);
    assert_int_equal(connections(rig), before);
    assert_int_equal(mc_counter_get(&stats->lost), 0);
    rdma_rig_get(rig, 0, LEN * 16, 1);
    fake_set_port(2, false); /* for good: nobody answers */
    RIG_RUN_UNTIL(rig->engine.loop, fake_qps_of(2) == 0);
    assert_int_equal(mc_counter_get(&stats->port_losses), 2);
    assert_true(fake_qps_of(3) > 0);
}

static void store__loses_the_peers_of_a_device_that_is_gone_and_no_others(void **state)
{
    struct rdma_rig *rig = *state;

    warm_up(rig);
    fake_tell(2, IBV_EVENT_DEVICE_FATAL);
    RIG_RUN_UNTIL(rig->engine.loop, fake_qps_of(2) == 0);
    assert_true(fake_qps_of(3) > 0);
    rdma_rig_get(rig, 0, LEN * 16, 1);
    assert_int_equal(fake_qps_of(2), 0); /* nobody is let in there */
}

static void store__ends_the_connection_whose_queue_pair_has_failed(void **state)
{
    struct rdma_rig *rig = *state;
    const struct mc_rdma_server_stats *stats = mc_rdma_server_stats(rig->server);

    warm_up(rig);
    fake_tell_queues(2, IBV_EVENT_QP_ACCESS_ERR);
    RIG_RUN_UNTIL(rig->engine.loop, fake_qps_of(2) == 0);
    assert_true(mc_counter_get(&stats->lost) >= 1);
    assert_true(fake_qps_of(3) > 0);
    rdma_rig_get(rig, 0, LEN * 16, 1);
}

/* The thread that reads goes with the devices, whatever has not been heard yet. */
static void close__with_events_under_way_leaves_nothing(void **state)
{
    struct rdma_rig *rig = *state;

    for (unsigned i = 0; i < 20; i++) {
        rdma_rig_put(rig, 0, 4096, 1);
        for (unsigned k = 0; k < 40; k++) {
            fake_set_port(k % 4, k % 8 >= 4);
        }
        fake_tell_queues(0, IBV_EVENT_QP_FATAL);
        for (unsigned k = 0; k < 4; k++) {
            fake_set_port(k, true);
        }
        rdma_rig_restart(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RDMA_RIG_TEST(read__moves_to_the_other_port_at_once_when_one_tells_it_is_down),
        RDMA_RIG_TEST(port__that_is_down_is_not_tried_and_is_used_at_once_when_it_is_up),
        RDMA_RIG_TEST(port__that_comes_back_silently_is_found),
        RDMA_RIG_TEST(both_ports__down_are_a_named_error_at_once),
        RDMA_RIG_TEST(link__that_is_down_from_the_start_is_left_alone),
        RDMA_RIG_TEST(device__that_is_broken_or_gone_is_never_used_again),
        RDMA_RIG_TEST(events__that_cannot_be_read_any_more_are_the_end_of_the_device),
        RDMA_RIG_TEST(queue_pair__that_has_failed_is_replaced_at_once),
        RDMA_RIG_TEST(events__for_information_change_nothing_and_are_acknowledged),
        RDMA_RIG_TEST(flood__of_events_is_bounded_and_its_end_is_seen),
        RDMA_RIG_TEST(store__asks_its_peers_when_its_port_is_down_and_keeps_those_that_answer),
        RDMA_RIG_TEST(store__loses_the_peers_of_a_device_that_is_gone_and_no_others),
        RDMA_RIG_TEST(store__ends_the_connection_whose_queue_pair_has_failed),
        RDMA_RIG_TEST(close__with_events_under_way_leaves_nothing),
    };

    return cmocka_run_group_tests_name("rdma events", tests, NULL, NULL);
}
