/* Bounds of rdma: queues, staging, locked memory; and what is counted. */
#include "rdma_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/rdma_pin.h"
#include "transport/rdma_staging.h"
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

static void ops__beyond_the_bound_are_told_to_wait_and_room_is_made_by_each_end(void **state)
{
    static struct rig_op ops[MC_RDMA_OPS_MAX], more;
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, 64, 0);

    rdma_rig_put(rig, 0, 64, 1);
    for (size_t i = 0; i < MC_ARRAY_LEN(ops); i++) {
        rig_op_init(&ops[i], &rig->engine, MC_RIGHT_READ, &extent, rig->in + 64 * i);
        rig_submit(&rig->engine, &ops[i]);
    }
    rig_op_init(&more, &rig->engine, MC_RIGHT_READ, &extent, rig->in + 64 * MC_RDMA_OPS_MAX);
    assert_int_equal(rig->engine.transport->ops->submit(rig->engine.transport, &more.op),
                     MOONCAKE_EREPLICABUSY);
    for (size_t i = 0; i < MC_ARRAY_LEN(ops); i++) {
        rig_wait(&rig->engine, &ops[i]);
        assert_int_equal(ops[i].op.err, MOONCAKE_OK);
        rig_check(rig->in + 64 * i, 64, 1);
    }
    rig_submit(&rig->engine, &more);
    rig_wait(&rig->engine, &more);
    assert_int_equal(more.op.err, MOONCAKE_OK);
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

    rdma_rig_connect_all(rig, len);
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
    assert_true(mc_monotonic_ns() - begun_ns >= rig->options.rdma_staging_wait_ms * MC_NS_PER_MS);
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

static void staging__is_smaller_where_less_may_be_locked(void **state)
{
    struct rdma_rig *rig = *state;
    const size_t len = (size_t)8 << 20;
    uint64_t before;

    rig->options.rdma_staging = len;
    rdma_rig_reopen(rig);
    rdma_rig_put(rig, 0, len, 1);
    rdma_rig_get(rig, 0, len, 1);
    before = fake_counts().locked;
    fake_set_memlock(before + ((uint64_t)5 << 20)); /* for both devices */
    assert_int_equal(rdma_rig_read(rig, 0, len, rig->loose), MOONCAKE_OK);
    rig_check(rig->loose, len, 1);
    assert_int_equal(fake_counts().locked - before, (uint64_t)4 << 20);
    fake_set_memlock(UINT64_MAX);
}

/* Reading and writing are two peers that share the staging. */
static void staging__is_shared_by_peers_in_turns(void **state)
{
    struct rdma_rig *rig = *state;
    const size_t len = (size_t)16 << 20;
    struct mc_extent_ref extents[2] = {rig_extent(&rig->segment, 0, len, 0),
                                       rig_extent(&rig->segment, len * 2, LEN, len * 2)};
    struct rig_op ops[2];

    rig->options.rdma_staging = 1; /* one chunk */
    rdma_rig_reopen(rig);
    rdma_rig_connect_all(rig, len);
    rig_fill(rig->loose + len, LEN, 2);
    rig_op_init(&ops[0], &rig->engine, MC_RIGHT_READ, &extents[0], rig->loose);
    rig_op_init(&ops[1], &rig->engine, MC_RIGHT_WRITE, &extents[1], rig->loose + len);
    rig_submit(&rig->engine, &ops[0]);
    rig->engine.transport->ops->flush(rig->engine.transport);
    rig_submit(&rig->engine, &ops[1]);
    rig_wait(&rig->engine, &ops[1]);
    assert_int_equal(ops[1].op.err, MOONCAKE_OK);
    assert_false(ops[0].done); /* 128 chunks against 2: it cannot be through if both have turns */
    rig_wait(&rig->engine, &ops[0]);
    assert_int_equal(ops[0].op.err, MOONCAKE_OK);
    rig_check(rig->loose, len, 1);
    rdma_rig_get(rig, len * 2, LEN, 2);
}

/* Staging has one chunk, three small extents are there, and the devices hold back what is done.
 */
static void hold_one_chunk(struct rdma_rig *rig, struct mc_extent_ref extents[3])
{
    rig->options.rdma_staging = 1; /* one chunk */
    rig->options.rdma_stall_ms = 60000;
    rig->options.rdma_staging_wait_ms = 60000;
    rdma_rig_reopen(rig);
    for (unsigned i = 0; i < 3; i++) {
        rdma_rig_put(rig, i * LEN * 2, 4096, i);
        extents[i] = rig_extent(&rig->segment, i * LEN * 2, 4096, i * LEN * 2);
    }
    rdma_rig_get(rig, 0, 4096, 0);
    fake_hold(0, true);
    fake_hold(1, true);
}

/* However many they are: kinds take turns, so that one of them would get by in any case. */
static void staging__that_is_used_up_holds_up_nobody_who_needs_none(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extents[3];
    struct rig_op ops[8];
    unsigned posted;

    hold_one_chunk(rig, extents);
    posted = fake_counts().requests;
    for (unsigned i = 0; i < MC_ARRAY_LEN(ops); i++) { /* the first two need staging */
        rig_op_init(&ops[i], &rig->engine, MC_RIGHT_READ, &extents[i % 3],
                    (i < 2 ? rig->loose : rig->in) + i * LEN);
        rig_submit(&rig->engine, &ops[i]);
    }
    rig->engine.transport->ops->flush(rig->engine.transport);
    assert_int_equal(fake_counts().requests, posted + 7); /* all but one of those */
    fake_hold(0, false);
    fake_hold(1, false);
    for (unsigned i = 0; i < MC_ARRAY_LEN(ops); i++) {
        rig_wait(&rig->engine, &ops[i]);
        assert_int_equal(ops[i].op.err, MOONCAKE_OK);
        rig_check(ops[i].piece.iov_base, 4096, i % 3);
    }
}

/* The queue for staging is left by those who do not need it any more. */
static void staging__goes_on_when_the_first_who_waits_is_cancelled(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extents[3];
    struct rig_op ops[3];

    hold_one_chunk(rig, extents);
    /* A read has the chunk; a write waits for it, and a read behind that. */
    for (unsigned i = 0; i < 3; i++) {
        rig_fill(rig->loose + i * LEN, 4096, i);
        rig_op_init(&ops[i], &rig->engine, i == 1 ? MC_RIGHT_WRITE : MC_RIGHT_READ, &extents[i],
                    rig->loose + i * LEN);
        rig_submit(&rig->engine, &ops[i]);
        rig->engine.transport->ops->flush(rig->engine.transport);
    }
    rig->engine.transport->ops->cancel(rig->engine.transport, &ops[1].op);
    fake_hold(0, false);
    fake_hold(1, false);
    rig_wait(&rig->engine, &ops[0]);
    rig_wait(&rig->engine, &ops[2]);
    assert_int_equal(ops[0].op.err, MOONCAKE_OK);
    assert_int_equal(ops[2].op.err, MOONCAKE_OK);
    rig_check(rig->loose + 2 * LEN, 4096, 2);
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

/* Pinning what does not fit takes long: not at each op. */
static void range__that_cannot_be_pinned_goes_by_staging_and_is_not_tried_at_each_op(void **state)
{
    struct rdma_rig *rig = *state;
    unsigned tries;

    rdma_rig_put(rig, 0, LEN, 1);
    assert_int_equal(mc_memreg_add(rig->memreg, rig->loose, LEN), MOONCAKE_OK);
    /* By staging, so that it has its memory before there is none. */
    assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->loose + RDMA_RIG_BUFFER_LEN / 2), MOONCAKE_OK);
    fake_set_memlock(0);
    assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->loose), MOONCAKE_OK);
    rig_check(rig->loose, LEN, 1);
    tries = fake_counts().tried;
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->loose), MOONCAKE_OK);
    }
    assert_int_equal(fake_counts().tried, tries);
    fake_set_memlock(UINT64_MAX);
    assert_int_equal(mc_rdma_pin(&rig->options, rig->loose, LEN), MOONCAKE_OK); /* asked for: now */
    assert_true(fake_counts().tried > tries);
    assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->loose), MOONCAKE_OK);
    rig_check(rig->loose, LEN, 1);
}

static void staging__that_cannot_be_registered_is_an_error_and_not_tried_at_each_op(void **state)
{
    struct rdma_rig *rig = *state;
    unsigned tries;

    rdma_rig_put(rig, 0, LEN, 1);
    rdma_rig_get(rig, 0, LEN, 1);
    fake_set_memlock(0);
    assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->loose), MOONCAKE_ERPC); /* TCP may do it */
    tries = fake_counts().tried;
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->loose), MOONCAKE_ERPC);
        assert_non_null(strstr(mooncake_last_error(), "RLIMIT_MEMLOCK"));
    }
    assert_int_equal(fake_counts().tried, tries);
    fake_set_memlock(UINT64_MAX);
    rdma_rig_get(rig, 0, LEN, 1); /* registered memory needs none */
}

static void fork__leaves_the_parent_unharmed_and_the_child_an_error(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_rdma_server_options options = {.devices = "fake2"};
    struct mc_rdma_server *server = NULL;
    int status = 0;
    pid_t pid;

    rdma_rig_put(rig, 0, LEN, 1);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)alarm(20); /* a hang ends, too */
        _exit(mc_rdma_server_open(&options, &server) == MOONCAKE_ENOTSUP &&
                      strstr(mooncake_last_error(), "forked") != NULL
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    rdma_rig_get(rig, 0, LEN, 1);
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
        RDMA_RIG_TEST(ops__beyond_the_bound_are_told_to_wait_and_room_is_made_by_each_end),
        RDMA_RIG_TEST(posting__needs_few_doorbells_and_completions),
        RDMA_RIG_TEST(large_op__is_striped_over_both_devices),
        RDMA_RIG_TEST(staging__that_is_used_up_is_waited_for_and_then_an_error_of_its_own),
        RDMA_RIG_TEST(staging__carries_more_than_it_holds),
        RDMA_RIG_TEST(staging__is_smaller_where_less_may_be_locked),
        RDMA_RIG_TEST(staging__is_shared_by_peers_in_turns),
        RDMA_RIG_TEST(staging__that_is_used_up_holds_up_nobody_who_needs_none),
        RDMA_RIG_TEST(staging__goes_on_when_the_first_who_waits_is_cancelled),
        RDMA_RIG_TEST(range__is_pinned_once_a_device_and_let_go_with_its_last_registration),
        RDMA_RIG_TEST(range__that_is_dropped_under_a_read_stays_until_its_end),
        RDMA_RIG_TEST(pin__beyond_memlock_names_the_limit_and_what_is_needed),
        RDMA_RIG_TEST(range__that_cannot_be_pinned_goes_by_staging_and_is_not_tried_at_each_op),
        RDMA_RIG_TEST(staging__that_cannot_be_registered_is_an_error_and_not_tried_at_each_op),
        RDMA_RIG_TEST(fork__leaves_the_parent_unharmed_and_the_child_an_error),
        RDMA_RIG_TEST(mtu__is_the_smaller_of_both_ends),
        RDMA_RIG_TEST(xfer__goes_on_over_tcp_and_says_why),
        RDMA_RIG_TEST(names__of_devices_that_are_not_there_are_refused_with_a_list),
    };

    return cmocka_run_group_tests_name("rdma limits", tests, NULL, NULL);
}
