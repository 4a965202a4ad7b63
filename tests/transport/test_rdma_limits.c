/* Bounds of rdma: queues, staging, locked memory; and what is counted. */
#include "rdma_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "transport/rdma_pin.h"
#include "transport/xfer.h"

#define LEN ((size_t)256 << 10)

static void queue__never_takes_more_than_its_length(void **state)
{
    static struct rig_op ops[600];
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, 4096, 0);

    fake_set_send_max(8);
    rdma_rig_restart(rig);
    rdma_rig_put(rig, 0, 4096, 1);
    for (size_t i = 0; i < MC_ARRAY_LEN(ops); i++) {
        rig_op_init(&ops[i], &rig->engine, MC_RIGHT_READ, &extent, rig->in + 4096 * i);
        rig_submit(&rig->engine, &ops[i]);
    }
    fake_hold(0, true);
    fake_hold(1, true);
    rig->engine.transport->ops->flush(rig->engine.transport);
    RIG_RUN_UNTIL(rig->engine.loop, fake_counts().under_way_max == 8);
    fake_hold(0, false);
    fake_hold(1, false);
    for (size_t i = 0; i < MC_ARRAY_LEN(ops); i++) {
        rig_wait(&rig->engine, &ops[i]);
        assert_int_equal(ops[i].op.err, MOONCAKE_OK);
        rig_check(rig->in + 4096 * i, 4096, 1);
    }
    assert_int_equal(fake_counts().overflows, 0);
}

static void posting__needs_few_doorbells_and_completions(void **state)
{
    static struct rig_op ops[512];
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, 4096, 0);
    struct fake_counts before, after;

    rdma_rig_put(rig, 0, 4096, 1);
    rdma_rig_get(rig, 0, 4096, 1);
    before = fake_counts();
    for (size_t i = 0; i < MC_ARRAY_LEN(ops); i++) {
        rig_op_init(&ops[i], &rig->engine, MC_RIGHT_READ, &extent, rig->in + 4096 * i);
        rig_submit(&rig->engine, &ops[i]);
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(ops); i++) {
        rig_wait(&rig->engine, &ops[i]);
        assert_int_equal(ops[i].op.err, MOONCAKE_OK);
    }
    after = fake_counts();
    assert_int_equal(after.requests - before.requests, 512); /* header and payload in one */
    assert_true(after.signaled - before.signaled <= 512 / 8);
    assert_true(after.posts - before.posts <= 512 / 16);
}

static void large_op__is_striped_over_both_devices(void **state)
{
    struct rdma_rig *rig = *state;
    const size_t len = (size_t)32 << 20;
    uint64_t before[2];

    rdma_rig_put(rig, 0, len, 1);
    rdma_rig_get(rig, 0, len, 1); /* both are connected now, or the second would not count */
    before[0] = fake_moved(0);
    before[1] = fake_moved(1);
    rdma_rig_get(rig, 0, len, 1);
    assert_true(fake_moved(0) - before[0] > len / 4);
    assert_true(fake_moved(1) - before[1] > len / 4);
}

static void staging__that_is_used_up_is_waited_for_and_then_an_error_of_its_own(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extents[2];
    struct rig_op ops[2];
    uint64_t begun_ns;

    rig->options.rdma_staging = 1; /* one chunk */
    rig->options.rdma_stall_ms = 60000;
    rdma_rig_reopen(rig);
    for (unsigned i = 0; i < 2; i++) {
        rdma_rig_put(rig, i * LEN * 2, 4096, i);
        extents[i] = rig_extent(&rig->segment, i * LEN * 2, 4096, i * LEN * 2);
    }
    assert_int_equal(rdma_rig_read(rig, 0, 4096, rig->loose), MOONCAKE_OK);
    rig_check(rig->loose, 4096, 0);
    fake_hold(0, true);
    fake_hold(1, true);
    begun_ns = mc_monotonic_ns();
    for (unsigned i = 0; i < 2; i++) {
        rig_op_init(&ops[i], &rig->engine, MC_RIGHT_READ, &extents[i], rig->loose + i * LEN);
        rig_submit(&rig->engine, &ops[i]);
    }
    rig_wait(&rig->engine, &ops[1]);
    assert_int_equal(ops[1].op.err, MOONCAKE_ENOSPACE);
    assert_non_null(strstr(mooncake_last_error(), "rdma_staging"));
    assert_true(mc_monotonic_ns() - begun_ns >= 150 * MC_NS_PER_MS);
    fake_hold(0, false);
    fake_hold(1, false);
    rig_wait(&rig->engine, &ops[0]);
    assert_int_equal(ops[0].op.err, MOONCAKE_OK);
    rig_check(rig->loose, 4096, 0);
}

static void staging__carries_more_than_it_holds(void **state)
{
    struct rdma_rig *rig = *state;
    const size_t len = (size_t)8 << 20;

    rig->options.rdma_staging = (uint64_t)512 << 10;
    rdma_rig_reopen(rig);
    rdma_rig_put(rig, 0, len, 1);
    assert_int_equal(rdma_rig_read(rig, 0, len, rig->loose), MOONCAKE_OK);
    rig_check(rig->loose, len, 1);
}

static void range__is_pinned_once_a_device_and_let_go_with_its_last_registration(void **state)
{
    struct rdma_rig *rig = *state;
    struct fake_counts before = fake_counts();

    assert_int_equal(mc_memreg_add(rig->memreg, rig->loose, LEN), MOONCAKE_OK);
    assert_int_equal(mc_memreg_add(rig->memreg, rig->loose, LEN), MOONCAKE_OK);
    assert_int_equal(mc_rdma_pin(&rig->options, rig->loose, LEN), MOONCAKE_OK);
    assert_int_equal(mc_rdma_pin(&rig->options, rig->loose, LEN), MOONCAKE_OK);
    assert_int_equal(fake_counts().registered - before.registered, 2); /* fake0 and fake1 */
    assert_int_equal(mc_memreg_drop(rig->memreg, rig->loose), MOONCAKE_OK);
    assert_int_equal(fake_counts().mrs, before.mrs + 2);
    assert_int_equal(mc_memreg_drop(rig->memreg, rig->loose), MOONCAKE_OK);
    assert_int_equal(fake_counts().mrs, before.mrs);
}

static void range__that_is_dropped_under_a_read_stays_until_its_end(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN, 0);
    struct rig_op op;
    unsigned mrs, posted;

    rdma_rig_put(rig, 0, LEN, 1);
    rdma_rig_get(rig, 0, LEN, 1);
    assert_int_equal(mc_memreg_add(rig->memreg, rig->loose, LEN), MOONCAKE_OK);
    assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->loose), MOONCAKE_OK);
    mrs = fake_counts().mrs;
    posted = fake_counts().requests;
    fake_hold(0, true);
    fake_hold(1, true);
    rig_op_init(&op, &rig->engine, MC_RIGHT_READ, &extent, rig->loose);
    rig_submit(&rig->engine, &op);
    rig->engine.transport->ops->flush(rig->engine.transport);
    RIG_RUN_UNTIL(rig->engine.loop, fake_counts().requests > posted);
    assert_int_equal(mc_memreg_drop(rig->memreg, rig->loose), MOONCAKE_OK);
    assert_int_equal(fake_counts().mrs, mrs);
    fake_hold(0, false);
    fake_hold(1, false);
    rig_wait(&rig->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_OK);
    assert_int_equal(fake_counts().mrs, mrs - 2);
}

static void pin__beyond_memlock_names_the_limit_and_what_is_needed(void **state)
{
    struct rdma_rig *rig = *state;
    struct rlimit old, low;

    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &old), 0);
    low = old;
    low.rlim_cur = 65536;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
    assert_int_equal(mc_memreg_add(rig->memreg, rig->loose, (uint64_t)32 << 20), MOONCAKE_OK);
    fake_set_memlock((uint64_t)49 << 20);
    assert_int_equal(mc_rdma_pin(&rig->options, rig->loose, (uint64_t)32 << 20), MOONCAKE_ENOMEM);
    assert_non_null(strstr(mooncake_last_error(), "RLIMIT_MEMLOCK is 65536"));
    assert_non_null(strstr(mooncake_last_error(), "33554432"));
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &old), 0);
    fake_set_memlock(UINT64_MAX);
}

static void mtu__is_the_smaller_of_both_ends(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_peer_info peer;

    rdma_rig_put(rig, 0, 4096, 1);
    assert_int_equal(rdma_rig_peer(rig).paths[0].mtu, 4096);
    fake_set_mtu(2, IBV_MTU_1024); /* the store's is smaller */
    fake_set_mtu(3, IBV_MTU_1024);
    rdma_rig_restart(rig);
    rdma_rig_get(rig, 0, 4096, 1);
    assert_int_equal(rdma_rig_peer(rig).paths[0].mtu, 1024);
    fake_set_mtu(0, IBV_MTU_512); /* ours is */
    fake_set_mtu(1, IBV_MTU_512);
    rdma_rig_restart(rig);
    rdma_rig_get(rig, 0, 4096, 1);
    peer = rdma_rig_peer(rig);
    assert_int_equal(peer.paths[0].mtu, 512);
    assert_string_equal(peer.paths[0].gid_kind, "rocev2");
    assert_int_equal(peer.paths[0].gid_index, 2); /* routable v2 IPv4 before the others */
    assert_int_equal(strncmp(peer.paths[0].gid, "10.99.", 6), 0);
    assert_true(peer.queue_pairs >= 1);
}

static void on_xfer_done(struct mc_xfer *xfer)
{
    *(bool *)xfer->arg = true;
}

static void xfer__goes_on_over_tcp_and_says_why(void **state)
{
    static const struct mc_tcp_server_options tcp_options = {.address = "127.0.0.1:0", .loops = 1};
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN, 0);
    struct mc_tcp_server *tcp = NULL;
    struct rig_engine both;
    struct mc_peer_info peer;
    struct rig_op op;
    struct mc_xfer xfer;
    bool done = false;

    rdma_rig_put(rig, 0, LEN, 1);
    assert_int_equal(mc_tcp_server_open(&tcp_options, &tcp), MOONCAKE_OK);
    rig_engine_open(&both, "rdma,tcp", 11, mc_tcp_server_port(tcp), &rig->options);
    rig_engine_add_rdma(&both, rig->server);
    fake_set_link(2, false);
    fake_set_link(3, false);
    rig_op_init(&op, &both, MC_RIGHT_READ, &extent, rig->in);
    mc_xfer_init(&xfer, &both.set, on_xfer_done, &done);
    mc_xfer_add(&xfer, &op.op);
    assert_int_equal(mc_xfer_start(&xfer, mc_monotonic_ns() + RIG_WAIT_NS), MOONCAKE_OK);
    RIG_RUN_UNTIL(both.loop, done);
    assert_int_equal(op.op.err, MOONCAKE_OK);
    rig_check(rig->in, LEN, 1);
    peer = rdma_rig_peer(rig);
    assert_int_equal(peer.fallbacks, 1);
    assert_string_equal(peer.transport, "tcp");
    assert_string_equal(peer.fallback_from, "rdma");
    assert_true(strlen(peer.fallback_reason) > 0);
    rig_engine_close(&both);
    mc_tcp_server_close(&tcp, 0);
}

static void names__of_devices_that_are_not_there_are_refused_with_a_list(void **state)
{
    const struct mc_rdma_server_options wrong = {.devices = "fake9"};
    const struct mc_rdma_server_options index = {.gid_index = "many"};
    struct mc_rdma_server *server = NULL;

    (void)state;
    assert_int_equal(mc_rdma_server_open(&wrong, &server), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "fake0, fake1, fake2, fake3"));
    assert_int_equal(mc_rdma_server_open(&index, &server), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "rdma_gid_index"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RDMA_RIG_TEST(queue__never_takes_more_than_its_length),
        RDMA_RIG_TEST(posting__needs_few_doorbells_and_completions),
        RDMA_RIG_TEST(large_op__is_striped_over_both_devices),
        RDMA_RIG_TEST(staging__that_is_used_up_is_waited_for_and_then_an_error_of_its_own),
        RDMA_RIG_TEST(staging__carries_more_than_it_holds),
        RDMA_RIG_TEST(range__is_pinned_once_a_device_and_let_go_with_its_last_registration),
        RDMA_RIG_TEST(range__that_is_dropped_under_a_read_stays_until_its_end),
        RDMA_RIG_TEST(pin__beyond_memlock_names_the_limit_and_what_is_needed),
        RDMA_RIG_TEST(mtu__is_the_smaller_of_both_ends),
        RDMA_RIG_TEST(xfer__goes_on_over_tcp_and_says_why),
        RDMA_RIG_TEST(names__of_devices_that_are_not_there_are_refused_with_a_list),
    };

    return cmocka_run_group_tests_name("rdma limits", tests, NULL, NULL);
}
