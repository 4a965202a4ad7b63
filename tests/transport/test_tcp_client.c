/*
 * The client's side of tcp against stores that die, freeze and restart; its connections, and its
 * end. The stores are processes of their own.
 */
#include "rig.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "held_port.h"
#include "transport/xfer.h"

/* Several times what the sockets' buffers hold. */
#define LARGE_LEN ((size_t)20 << 20)
#define SEGMENT_LEN ((uint64_t)24 << 20)

struct fixture {
    struct rig_segment segment;
    struct rig_store store;
    struct rig_engine engine;
    uint8_t *memory;
    int held_fd; /* -1: no port is kept */
};

static int open_fixture(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    rig_segment_open(&f->segment, 31, SEGMENT_LEN);
    f->memory = malloc(LARGE_LEN);
    assert_non_null(f->memory);
    f->held_fd = -1;
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;

    rig_engine_close(&f->engine);
    rig_store_close(&f->store);
    rig_segment_close(&f->segment);
    free(f->memory);
    if (f->held_fd >= 0) {
        (void)close(f->held_fd);
    }
    free(f);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

static void open_store(struct fixture *f, uint16_t port)
{
    rig_store_open(&f->store, &f->segment, port);
}

static void open_engine(struct fixture *f, uint16_t port)
{
    rig_engine_open(&f->engine, "tcp", 31, port, &rig_options);
}

/* ---- stores that go away --------------------------------------------------------------------- */

/* One where a store may be, and be again. */
static uint16_t keep_port(struct fixture *f)
{
    uint16_t port;

    f->held_fd = held_port_open(&port);
    return port;
}

static void submit__to_a_dead_store_fails_at_once_until_it_is_back(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, 1000, 1);
    uint16_t port = keep_port(f);
    struct rig_op op;
    mooncake_err err = MOONCAKE_ERPC;
    uint64_t until_ns = mc_monotonic_ns() + RIG_WAIT_NS;

    open_engine(f, port);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_ERPC);
    rig_op_init(&op, &f->engine, MC_RIGHT_READ, &extent, f->memory);
    assert_int_equal(f->engine.transport->ops->submit(f->engine.transport, &op.op), MOONCAKE_ERPC);
    open_store(f, port);
    while (err != MOONCAKE_OK) {
        assert_true(mc_monotonic_ns() < until_ns);
        err = f->engine.transport->ops->submit(f->engine.transport, &op.op);
        rig_run_a_little(f->engine.loop);
    }
    rig_wait(&f->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_OK);
    rig_check(f->memory, 1000, 1);
}

static void submit__to_an_address_that_is_none_is_a_lost_peer(void **state)
{
    static const char *const bad[] = {"tcp://", "tcp://nonsense", "tcp://127.0.0.1:99999", "x://y"};
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, 1000, 1);

    open_engine(f, 1);
    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        struct rig_op op;
        mooncake_err err;

        f->engine.target.addresses = bad[i];
        rig_op_init(&op, &f->engine, MC_RIGHT_READ, &extent, f->memory);
        err = f->engine.transport->ops->submit(f->engine.transport, &op.op);
        if (err == MOONCAKE_OK) {
            rig_wait(&f->engine, &op);
            err = op.op.err;
        }
        assert_int_equal(err, MOONCAKE_ERPC);
    }
}

static void op__finds_a_restarted_store_inside_the_call(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, 200000, 1);
    uint16_t port = keep_port(f);

    open_store(f, port);
    open_engine(f, port);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_OK);
        assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, &extent, f->memory), MOONCAKE_OK);
        rig_check(f->memory, 200000, 1);
        assert_int_equal(mc_counter_get(&rig_stats(&f->engine)->reconnects), i);
        rig_store_kill(&f->store); /* nobody runs our loop meanwhile */
        open_store(f, port);
    }
}

/* Run until the first byte of a large read has landed. */
static void begin_large_read(struct fixture *f, struct rig_op *op, struct mc_extent_ref *extent)
{
    *extent = rig_plant(&f->segment, LARGE_LEN, 7);
    memset(f->memory, 0xee, LARGE_LEN);
    f->segment.view[MC_EXTENT_HEADER_LEN] = 0x11; /* differs; the checksum is of no account here */
    rig_op_init(op, &f->engine, MC_RIGHT_READ, extent, f->memory);
    rig_submit(&f->engine, op);
    f->engine.transport->ops->flush(f->engine.transport);
    for (uint64_t until_ns = mc_monotonic_ns() + RIG_WAIT_NS; f->memory[0] == 0xee;) {
        assert_true(mc_monotonic_ns() < until_ns);
        mc_loop_run_ready(f->engine.loop);
    }
    assert_false(op->done);
}

/* Let everything that was on its way arrive, and see that our memory is as it was. */
static void expect_quiet(struct fixture *f)
{
    struct iovec iov = {.iov_base = f->memory, .iov_len = LARGE_LEN};
    uint64_t before = mc_extent_hash_iov(&iov, 1);

    RIG_RUN_UNTIL(f->engine.loop, mc_gauge_get(&rig_stats(&f->engine)->connections) == 0);
    for (unsigned i = 0; i < 10; i++) {
        rig_run_a_little(f->engine.loop);
    }
    assert_int_equal(mc_extent_hash_iov(&iov, 1), before);
}

static void op__ends_when_its_store_is_killed_in_the_middle(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent;
    struct rig_op op;

    open_store(f, 0);
    open_engine(f, f->store.port);
    begin_large_read(f, &op, &extent);
    rig_store_freeze(&f->store);
    rig_store_kill(&f->store);
    rig_wait(&f->engine, &op);
    assert_int_equal(op.op.err, MOONCAKE_ERPC);
    expect_quiet(f);
}

static void cancel__in_the_middle_leaves_memory_quiet(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent;
    struct rig_op op;

    open_store(f, 0);
    open_engine(f, f->store.port);
    begin_large_read(f, &op, &extent);
    f->engine.transport->ops->cancel(f->engine.transport, &op.op);
    expect_quiet(f);
    assert_false(op.done);
}

static void cancel__of_one_op_does_not_fail_the_others(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref large;
    struct mc_extent_ref small;
    struct rig_op op;
    struct rig_op others[20];
    static uint8_t bytes[20][1000];

    open_store(f, 0);
    open_engine(f, f->store.port);
    begin_large_read(f, &op, &large);
    small = rig_extent(&f->segment, LARGE_LEN + 128, 1000, 5);
    for (size_t i = 0; i < 20; i++) {
        enum mc_rights right = i % 2 == 0 ? MC_RIGHT_WRITE : MC_RIGHT_READ;

        rig_fill(bytes[i], 1000, 5);
        rig_op_init(&others[i], &f->engine, right, &small, bytes[i]);
        rig_submit(&f->engine, &others[i]);
    }
    f->engine.transport->ops->flush(f->engine.transport);
    f->engine.transport->ops->cancel(f->engine.transport, &op.op);
    f->engine.transport->ops->cancel(f->engine.transport, &others[3].op); /* waits again */
    for (size_t i = 0; i < 20; i++) {
        if (i != 3) {
            rig_wait(&f->engine, &others[i]);
            assert_int_equal(others[i].op.err, MOONCAKE_OK);
            rig_check(bytes[i], 1000, 5);
        }
    }
    assert_false(op.done);
    assert_false(others[3].done);
    assert_int_equal(mc_counter_get(&rig_stats(&f->engine)->reconnects), 0);
}

static void on_xfer_done(struct mc_xfer *xfer)
{
    *(bool *)xfer->arg = true;
}

static void xfer__on_a_frozen_store_ends_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, 100000, 1);
    struct rig_op ops[10];
    struct mc_xfer xfer;
    bool done = false;
    uint64_t begin_ns;

    open_store(f, 0);
    open_engine(f, f->store.port);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_OK);
    rig_store_freeze(&f->store);
    mc_xfer_init(&xfer, &f->engine.set, on_xfer_done, &done);
    for (size_t i = 0; i < 10; i++) {
        /* A write may still reach the store after it was given up. */
        struct mc_extent_ref other = rig_extent(&f->segment, (i + 2) << 20, 100000, i);

        rig_op_init(&ops[i], &f->engine, i % 2 == 0 ? MC_RIGHT_READ : MC_RIGHT_WRITE,
                    i % 2 == 0 ? &extent : &other, f->memory + 100000 * i);
        mc_xfer_add(&xfer, &ops[i].op);
    }
    begin_ns = mc_monotonic_ns();
    assert_int_equal(mc_xfer_start(&xfer, begin_ns + 100 * MC_NS_PER_MS), MOONCAKE_OK);
    RIG_RUN_UNTIL(f->engine.loop, done);
    assert_true(mc_monotonic_ns() - begin_ns < 10 * MC_NS_PER_S);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(ops[i].op.err, MOONCAKE_ETIMEDOUT);
    }
    rig_store_thaw(&f->store);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_OK);
    rig_check(f->memory, 100000, 1);
}

static void op__gives_up_on_a_store_that_takes_connections_but_is_mute(void **state)
{
    const struct mc_transport_options options = {.connect_timeout_ms = 60, .connections_max = 1};
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, 1000, 1);

    open_store(f, 0);
    rig_store_freeze(&f->store);
    rig_engine_open(&f->engine, "tcp", 31, f->store.port, &options);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_ERPC);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void connection__that_is_idle_is_closed_and_made_again(void **state)
{
    const struct mc_transport_options options = {
        .connect_timeout_ms = 3000, .idle_close_ms = 50, .connections_max = 1};
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, 1000, 1);

    open_store(f, 0);
    rig_engine_open(&f->engine, "tcp", 31, f->store.port, &options);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_OK);
        assert_int_equal(mc_gauge_get(&rig_stats(&f->engine)->connections), 1);
        RIG_RUN_UNTIL(f->engine.loop, mc_gauge_get(&rig_stats(&f->engine)->connections) == 0);
    }
    assert_int_equal(mc_counter_get(&rig_stats(&f->engine)->reconnects), 0);
}

#define MANY 20u
#define MIB ((size_t)1 << 20)

/* MANY ops of 1 MiB at a time, each on its own extent and memory. Returns how many connections
 * there were at most. */
static int64_t do_many(struct fixture *f, enum mc_rights right)
{
    struct rig_op ops[MANY];
    struct mc_extent_ref extents[MANY];
    int64_t most = 0;

    for (size_t i = 0; i < MANY; i++) {
        extents[i] = rig_extent(&f->segment, 2 * MIB + i * (MIB + 64), MIB, i);
        rig_op_init(&ops[i], &f->engine, right, &extents[i], f->memory + i * MIB);
        rig_submit(&f->engine, &ops[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        int64_t now;

        rig_wait(&f->engine, &ops[i]);
        assert_int_equal(ops[i].op.err, MOONCAKE_OK);
        now = mc_gauge_get(&rig_stats(&f->engine)->connections);
        most = now > most ? now : most;
    }
    return most;
}

static void fill_many(struct fixture *f)
{
    for (size_t i = 0; i < MANY; i++) {
        rig_fill(f->memory + i * MIB, MIB, i);
    }
}

static void connections__grow_with_what_is_moved_up_to_their_bound(void **state)
{
    const struct mc_transport_options options = {.connect_timeout_ms = 3000, .connections_max = 2};
    struct fixture *f = *state;

    open_store(f, 0);
    rig_engine_open(&f->engine, "tcp", 31, f->store.port, &options);
    fill_many(f);
    assert_int_equal(do_many(f, MC_RIGHT_WRITE), 2);
    memset(f->memory, 0xee, MANY * MIB);
    assert_int_equal(do_many(f, MC_RIGHT_READ), 2); /* as they are there */
    for (size_t i = 0; i < MANY; i++) {
        rig_check(f->memory + i * MIB, MIB, i);
    }
    rig_engine_close(&f->engine);

    rig_engine_open(&f->engine, "tcp", 31, f->store.port, &options);
    memset(f->memory, 0xee, MANY * MIB);
    assert_int_equal(do_many(f, MC_RIGHT_READ), 2);
    for (size_t i = 0; i < MANY; i++) {
        rig_check(f->memory + i * MIB, MIB, i);
    }
}

/* An op that one dead connection has lost must not be lost by the next dead one, too. */
static void connections__to_a_restarted_store_are_all_given_up_at_once(void **state)
{
    const struct mc_transport_options options = {.connect_timeout_ms = 3000, .connections_max = 2};
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, 1 << 20, 1);
    uint16_t port = keep_port(f);

    open_store(f, port);
    rig_engine_open(&f->engine, "tcp", 31, port, &options);
    for (unsigned round = 0; round < 2; round++) {
        (void)do_many(f, MC_RIGHT_WRITE);
        RIG_RUN_UNTIL(f->engine.loop, mc_gauge_get(&rig_stats(&f->engine)->connections) == 2);
        rig_store_kill(&f->store);
        open_store(f, port);
    }
    for (size_t i = 0; i < 5; i++) { /* few enough to begin on one of the two */
        assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_OK);
    }
}

static void transport__leaks_no_descriptor_over_200_lives(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, 1000, 1);
    unsigned before;

    open_store(f, 0);
    before = rig_count_fds();
    for (unsigned i = 0; i < 200; i++) {
        open_engine(f, f->store.port);
        assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_OK);
        rig_engine_close(&f->engine);
    }
    assert_int_equal(rig_count_fds(), before);
}

static void close__ends_ops_under_way(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent;
    struct rig_op op;
    struct rig_op waiting;

    open_store(f, 0);
    open_engine(f, f->store.port);
    begin_large_read(f, &op, &extent);
    rig_op_init(&waiting, &f->engine, MC_RIGHT_READ, &extent, f->memory);
    rig_submit(&f->engine, &waiting);
    mc_transport_set_close(&f->engine.set);
    assert_true(op.done && waiting.done);
    assert_int_equal(op.op.err, MOONCAKE_ERPC);
    assert_int_equal(waiting.op.err, MOONCAKE_ERPC);
}

static void submit__is_busy_when_a_peer_has_its_fill(void **state)
{
    static struct rig_op ops[10000];
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, 10, 1);
    mooncake_err err = MOONCAKE_OK;
    size_t n = 0;

    open_store(f, 0);
    open_engine(f, f->store.port);
    for (; err == MOONCAKE_OK; n++) {
        assert_true(n < MC_ARRAY_LEN(ops));
        rig_op_init(&ops[n], &f->engine, MC_RIGHT_READ, &extent, f->memory + 10 * n);
        err = f->engine.transport->ops->submit(f->engine.transport, &ops[n].op);
    }
    assert_int_equal(err, MOONCAKE_EREPLICABUSY);
    for (size_t i = 0; i + 1 < n; i++) {
        rig_wait(&f->engine, &ops[i]);
        assert_int_equal(ops[i].op.err, MOONCAKE_OK);
    }
    rig_submit(&f->engine, &ops[n - 1]);
    rig_wait(&f->engine, &ops[n - 1]);
    assert_int_equal(ops[n - 1].op.err, MOONCAKE_OK);
}

/* Fail each allocation in turn: the ops end, and none ends well without being so. */
static void ops__end_whichever_allocation_fails(void **state)
{
    struct fixture *f = *state;
    bool all_well = false;

    open_store(f, 0);
    for (int64_t n = 0; !all_well; n++) {
        struct mc_extent_ref extent = rig_plant(&f->segment, 100000, (uint64_t)n);
        struct rig_op ops[4];

        assert_true(n < 200);
        open_engine(f, f->store.port);
        memset(f->memory, 0, 400000);
        mc_mem_fail_after(n);
        all_well = true;
        for (size_t i = 0; i < 4; i++) {
            rig_op_init(&ops[i], &f->engine, i == 1 ? MC_RIGHT_WRITE : MC_RIGHT_READ, &extent,
                        f->memory + 100000 * i);
            rig_fill(f->memory + 100000 * i, 100000, (uint64_t)n);
            ops[i].op.err = f->engine.transport->ops->submit(f->engine.transport, &ops[i].op);
            ops[i].done = ops[i].op.err != MOONCAKE_OK; /* refused: done will not run */
            if (ops[i].done) {
                all_well = false;
            }
        }
        for (size_t i = 0; i < 4; i++) {
            rig_wait(&f->engine, &ops[i]);
            all_well = all_well && ops[i].op.err == MOONCAKE_OK;
        }
        mc_mem_fail_after(-1);
        assert_true(n > 0 || !all_well);
        rig_engine_close(&f->engine);
        assert_int_equal(mc_mem_live_count(), 0);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_fixture, close_fixture)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(submit__to_a_dead_store_fails_at_once_until_it_is_back),
        TEST(submit__to_an_address_that_is_none_is_a_lost_peer),
        TEST(op__finds_a_restarted_store_inside_the_call),
        TEST(op__ends_when_its_store_is_killed_in_the_middle),
        TEST(cancel__in_the_middle_leaves_memory_quiet),
        TEST(cancel__of_one_op_does_not_fail_the_others),
        TEST(xfer__on_a_frozen_store_ends_at_its_deadline),
        TEST(op__gives_up_on_a_store_that_takes_connections_but_is_mute),
        TEST(connection__that_is_idle_is_closed_and_made_again),
        TEST(connections__grow_with_what_is_moved_up_to_their_bound),
        TEST(connections__to_a_restarted_store_are_all_given_up_at_once),
        TEST(transport__leaks_no_descriptor_over_200_lives),
        TEST(close__ends_ops_under_way),
        TEST(submit__is_busy_when_a_peer_has_its_fill),
        TEST(ops__end_whichever_allocation_fails),
    };

    rig_store_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
