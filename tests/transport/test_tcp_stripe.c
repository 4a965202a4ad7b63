/*
 * Large values over several connections of the tcp transport: that they are used and counted, and
 * what becomes of a value when one of them, or the store, dies in the middle. A proxy that counts
 * and resets lies between the transport and a store in a process of its own.
 */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tcp_proxy.h"
#include "transport/tcp_impl.h"
#include "transport/xfer.h"

#define CONNECTIONS 3u
#define SEGMENT_LEN ((uint64_t)48 << 20)
#define LARGE_LEN (((size_t)20 << 20) + 3)
/* What may be asked for ahead on one connection. */
#define AHEAD_LEN ((uint64_t)MC_TCP_PARTS_AHEAD * MC_TCP_PART_LEN)

static const struct mc_transport_options options = {
    .connect_timeout_ms = 3000, .idle_close_ms = 60000, .connections_max = CONNECTIONS};
static const struct tcp_proxy_limit no_limit;

struct fixture {
    struct rig_segment segment;
    struct rig_store store;
    struct rig_engine engine;
    struct tcp_proxy *proxy;
    uint8_t *memory;
};

static int open_fixture(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    rig_segment_open(&f->segment, 31, SEGMENT_LEN);
    f->memory = malloc(LARGE_LEN);
    assert_non_null(f->memory);
    rig_store_open(&f->store, &f->segment, 0);
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;

    rig_engine_close(&f->engine);
    tcp_proxy_close(f->proxy);
    rig_store_close(&f->store);
    rig_segment_close(&f->segment);
    free(f->memory);
    free(f);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

static void open_engine(struct fixture *f, const struct tcp_proxy_limit *limits, unsigned count)
{
    f->proxy = tcp_proxy_open(f->store.port, limits, count);
    rig_engine_open(&f->engine, "tcp", 31, tcp_proxy_port(f->proxy), &options);
}

/* Is it there, whole, with a header that proves it? */
static void expect_stored(struct fixture *f, const struct mc_extent_ref *extent, uint64_t seed)
{
    const uint8_t *at = f->segment.view + extent->offset;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)(at + MC_EXTENT_HEADER_LEN),
                        .iov_len = extent->payload_len};
    uint64_t checksum;

    assert_int_equal(mc_extent_header_check(extent, at, &checksum), MOONCAKE_OK);
    assert_int_equal(checksum, mc_extent_hash_iov(&iov, 1));
    rig_check(iov.iov_base, iov.iov_len, seed);
}

/* A small value behind the large one. */
static struct mc_extent_ref put_behind(struct fixture *f, uint8_t *bytes, size_t len)
{
    struct mc_extent_ref small = rig_extent(&f->segment, LARGE_LEN + 128, len, 5);

    rig_fill(bytes, len, 5);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, &small, bytes), MOONCAKE_OK);
    return small;
}

static uint64_t moved_in_all(const struct fixture *f,
                             uint64_t (*of)(const struct tcp_proxy *proxy, unsigned n))
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < tcp_proxy_accepted(f->proxy); i++) {
        sum += of(f->proxy, i);
    }
    return sum;
}

/* Let everything that was on its way arrive, and see that our memory is as it was. */
static void expect_quiet(struct fixture *f)
{
    struct iovec iov = {.iov_base = f->memory, .iov_len = LARGE_LEN};
    uint64_t before = mc_extent_hash_iov(&iov, 1);

    for (unsigned i = 0; i < 50; i++) {
        rig_run_a_little(f->engine.loop);
    }
    assert_int_equal(mc_extent_hash_iov(&iov, 1), before);
}

/* ---- several connections --------------------------------------------------------------------- */

static void read__of_a_large_value_uses_several_connections(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, LARGE_LEN, 1);

    open_engine(f, &no_limit, 1);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_OK);
    rig_check(f->memory, LARGE_LEN, 1);
    assert_int_equal(tcp_proxy_open_most(f->proxy), CONNECTIONS);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        assert_true(tcp_proxy_from_store(f->proxy, i) > MC_TCP_PART_LEN);
    }
    assert_true(moved_in_all(f, tcp_proxy_from_store) < LARGE_LEN + (64u << 10));
}

static void write__of_a_large_value_uses_several_connections(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 64, LARGE_LEN, 2);

    open_engine(f, &no_limit, 1);
    rig_fill(f->memory, LARGE_LEN, 2);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, &extent, f->memory), MOONCAKE_OK);
    expect_stored(f, &extent, 2);
    assert_int_equal(tcp_proxy_open_most(f->proxy), CONNECTIONS);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        assert_true(tcp_proxy_from_client(f->proxy, i) > MC_TCP_PART_LEN);
    }
    assert_true(moved_in_all(f, tcp_proxy_from_client) < LARGE_LEN + (64u << 10));
}

static void connections__of_large_values_stay_few_and_close_when_idle(void **state)
{
    const struct mc_transport_options impatient = {
        .connect_timeout_ms = 3000, .idle_close_ms = 1000, .connections_max = CONNECTIONS};
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, LARGE_LEN, 1);

    f->proxy = tcp_proxy_open(f->store.port, &no_limit, 1);
    rig_engine_open(&f->engine, "tcp", 31, tcp_proxy_port(f->proxy), &impatient);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(
            rig_do(&f->engine, i % 2 == 0 ? MC_RIGHT_READ : MC_RIGHT_WRITE, &extent, f->memory),
            MOONCAKE_OK);
    }
    assert_int_equal(mc_gauge_get(&rig_stats(&f->engine)->connections), CONNECTIONS);
    RIG_RUN_UNTIL(f->engine.loop, mc_gauge_get(&rig_stats(&f->engine)->connections) == 0);
    assert_int_equal(mc_counter_get(&rig_stats(&f->engine)->reconnects), 0);
    assert_int_equal(tcp_proxy_open_most(f->proxy), CONNECTIONS);
}

/* A value that one connection can carry in a moment is not worth a second one. */
static void read__of_a_smaller_value_takes_one_connection(void **state)
{
    const size_t len = MC_TCP_READ_PARTS_MIN * MC_TCP_PART_LEN - 1;
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, len, 1);

    open_engine(f, &no_limit, 1);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_OK);
        rig_check(f->memory, len, 1);
    }
    assert_int_equal(tcp_proxy_accepted(f->proxy), 1);
}

static void op__that_is_small_overtakes_a_huge_value(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref huge = rig_plant(&f->segment, LARGE_LEN, 1);
    static uint8_t bytes[1000];
    struct mc_extent_ref small;
    struct rig_op huge_op, small_op;

    open_engine(f, &no_limit, 1);
    small = put_behind(f, bytes, sizeof(bytes));
    for (unsigned i = 0; i < 2; i++) {
        rig_op_init(&huge_op, &f->engine, i == 0 ? MC_RIGHT_READ : MC_RIGHT_WRITE, &huge,
                    f->memory);
        rig_op_init(&small_op, &f->engine, MC_RIGHT_READ, &small, bytes);
        rig_submit(&f->engine, &huge_op);
        f->engine.transport->ops->flush(f->engine.transport);
        rig_submit(&f->engine, &small_op);
        rig_wait(&f->engine, &small_op);
        assert_int_equal(small_op.op.err, MOONCAKE_OK);
        assert_false(huge_op.done);
        rig_wait(&f->engine, &huge_op);
        assert_int_equal(huge_op.op.err, MOONCAKE_OK);
        rig_check(f->memory, LARGE_LEN, 1);
    }
}

/* ---- one connection dies --------------------------------------------------------------------- */

static void read__loses_one_connection_and_only_what_it_carried_is_read_again(void **state)
{
    /* The one that is made after the loss is a good one. */
    static const struct tcp_proxy_limit limits[] = {{0, 0}, {0, 2500000}, {0, 0}};
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, LARGE_LEN, 3);

    open_engine(f, limits, MC_ARRAY_LEN(limits));
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_OK);
    rig_check(f->memory, LARGE_LEN, 3);
    assert_int_equal(mc_counter_get(&rig_stats(&f->engine)->reconnects), 1);
    assert_int_equal(tcp_proxy_from_store(f->proxy, 1), 2500000);
    /* Twice: no more than what was under way on the connection that died. */
    assert_true(moved_in_all(f, tcp_proxy_from_store) < LARGE_LEN + AHEAD_LEN + (64u << 10));
}

static void write__loses_one_connection_and_only_what_it_carried_is_sent_again(void **state)
{
    static const struct tcp_proxy_limit limits[] = {{0, 0}, {2500000, 0}, {0, 0}};
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 64, LARGE_LEN, 4);

    open_engine(f, limits, MC_ARRAY_LEN(limits));
    rig_fill(f->memory, LARGE_LEN, 4);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, &extent, f->memory), MOONCAKE_OK);
    expect_stored(f, &extent, 4);
    assert_int_equal(mc_counter_get(&rig_stats(&f->engine)->reconnects), 1);
    assert_true(moved_in_all(f, tcp_proxy_from_client) < LARGE_LEN + AHEAD_LEN + (64u << 10));
}

/* Wherever the first connection is cut: frames, first part, header, later parts. */
static void op__survives_a_reset_at_any_byte(void **state)
{
    static const uint64_t at[] = {17, 100, 170, 16 + 96, 4096, 524288 + 112, 700000, 1500001};
    struct fixture *f = *state;
    const size_t len = 4 << 20;

    for (size_t i = 0; i < MC_ARRAY_LEN(at); i++) {
        const struct tcp_proxy_limit limits[2][2] = {{{0, at[i]}, {0, 0}}, {{at[i], 0}, {0, 0}}};

        for (unsigned w = 0; w < 2; w++) {
            struct mc_extent_ref extent = rig_plant(&f->segment, len, i);

            open_engine(f, limits[w], 2);
            memset(f->memory, 0xee, len);
            if (w == 1) {
                rig_fill(f->memory, len, i);
                memset(f->segment.view, 0, MC_EXTENT_HEADER_LEN + len);
            }
            assert_int_equal(
                rig_do(&f->engine, w == 0 ? MC_RIGHT_READ : MC_RIGHT_WRITE, &extent, f->memory),
                MOONCAKE_OK);
            rig_check(f->memory, len, i);
            expect_stored(f, &extent, i);
            assert_int_equal(mc_counter_get(&rig_stats(&f->engine)->reconnects), 1);
            rig_engine_close(&f->engine);
            tcp_proxy_close(f->proxy);
            f->proxy = NULL;
        }
    }
}

static void op__whose_part_loses_two_connections_ends_and_memory_is_quiet(void **state)
{
    /* One good connection goes on while the others die, one after another. */
    static const struct tcp_proxy_limit limits[2][2] = {{{0, 0}, {0, 300000}},
                                                        {{0, 0}, {300000, 0}}};
    struct fixture *f = *state;

    for (unsigned i = 0; i < 2; i++) {
        struct mc_extent_ref extent = rig_plant(&f->segment, LARGE_LEN, 6);

        open_engine(f, limits[i], 2);
        memset(f->memory, 0xee, LARGE_LEN);
        assert_int_equal(
            rig_do(&f->engine, i == 0 ? MC_RIGHT_READ : MC_RIGHT_WRITE, &extent, f->memory),
            MOONCAKE_ERPC);
        expect_quiet(f);
        rig_engine_close(&f->engine);
        tcp_proxy_close(f->proxy);
        f->proxy = NULL;
    }
}

/* ---- other ends ------------------------------------------------------------------------------ */

static void read__of_a_large_value_is_proven_as_a_whole(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, LARGE_LEN, 7);
    struct mc_extent_ref stale = rig_extent(&f->segment, 0, LARGE_LEN, 8);
    static const size_t at[] = {0, MC_TCP_PART_LEN, LARGE_LEN / 2, LARGE_LEN - 1};

    open_engine(f, &no_limit, 1);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &stale, f->memory), MOONCAKE_ENOENT);
    expect_quiet(f);
    for (size_t i = 0; i < MC_ARRAY_LEN(at); i++) {
        f->segment.view[MC_EXTENT_HEADER_LEN + at[i]] ^= 1;
        assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_ECHECKSUM);
        f->segment.view[MC_EXTENT_HEADER_LEN + at[i]] ^= 1;
    }
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->memory), MOONCAKE_OK);
    rig_check(f->memory, LARGE_LEN, 7);
}

static void on_xfer_done(struct mc_xfer *xfer)
{
    *(bool *)xfer->arg = true;
}

static void xfer__of_large_values_on_a_frozen_store_ends_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref read = rig_plant(&f->segment, LARGE_LEN, 9);
    struct mc_extent_ref write = rig_extent(&f->segment, LARGE_LEN + 125, LARGE_LEN, 10);
    struct rig_op ops[2];
    struct mc_xfer xfer;
    bool done = false;
    uint64_t begin_ns;

    open_engine(f, &no_limit, 1);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &read, f->memory), MOONCAKE_OK);
    rig_store_freeze(&f->store);
    mc_xfer_init(&xfer, &f->engine.set, on_xfer_done, &done);
    rig_op_init(&ops[0], &f->engine, MC_RIGHT_READ, &read, f->memory);
    rig_op_init(&ops[1], &f->engine, MC_RIGHT_WRITE, &write, f->memory);
    mc_xfer_add(&xfer, &ops[0].op);
    mc_xfer_add(&xfer, &ops[1].op);
    begin_ns = mc_monotonic_ns();
    assert_int_equal(mc_xfer_start(&xfer, begin_ns + 100 * MC_NS_PER_MS), MOONCAKE_OK);
    RIG_RUN_UNTIL(f->engine.loop, done);
    assert_true(mc_monotonic_ns() - begin_ns < 10 * MC_NS_PER_S);
    assert_int_equal(ops[0].op.err, MOONCAKE_ETIMEDOUT);
    assert_int_equal(ops[1].op.err, MOONCAKE_ETIMEDOUT);
    rig_store_thaw(&f->store);
    expect_quiet(f);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &read, f->memory), MOONCAKE_OK);
    rig_check(f->memory, LARGE_LEN, 9);
}

static void cancel__in_mid_value_leaves_memory_quiet_and_others_alive(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_plant(&f->segment, LARGE_LEN, 11);
    static uint8_t bytes[100000];
    struct mc_extent_ref small;
    struct rig_op op, other;

    open_engine(f, &no_limit, 1);
    small = put_behind(f, bytes, sizeof(bytes));
    memset(f->memory, 0xee, LARGE_LEN);
    rig_op_init(&op, &f->engine, MC_RIGHT_READ, &extent, f->memory);
    rig_submit(&f->engine, &op);
    rig_op_init(&other, &f->engine, MC_RIGHT_READ, &small, bytes);
    rig_submit(&f->engine, &other);
    f->engine.transport->ops->flush(f->engine.transport);
    RIG_RUN_UNTIL(f->engine.loop, f->memory[0] != 0xee || f->memory[1] != 0xee);
    assert_false(op.done);
    f->engine.transport->ops->cancel(f->engine.transport, &op.op);
    expect_quiet(f);
    rig_wait(&f->engine, &other);
    assert_int_equal(other.op.err, MOONCAKE_OK);
    rig_check(bytes, sizeof(bytes), 5);
    assert_false(op.done);
    assert_int_equal(mc_counter_get(&rig_stats(&f->engine)->reconnects), 0);
}

static void op__of_a_killed_store_ends(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 2; i++) {
        struct mc_extent_ref extent = rig_plant(&f->segment, LARGE_LEN, 12);
        struct rig_op op;

        open_engine(f, &no_limit, 1);
        memset(f->memory, 0xee, LARGE_LEN);
        rig_op_init(&op, &f->engine, i == 0 ? MC_RIGHT_READ : MC_RIGHT_WRITE, &extent, f->memory);
        rig_submit(&f->engine, &op);
        f->engine.transport->ops->flush(f->engine.transport);
        rig_store_freeze(&f->store);
        rig_store_kill(&f->store);
        rig_wait(&f->engine, &op);
        assert_int_equal(op.op.err, MOONCAKE_ERPC);
        expect_quiet(f);
        rig_engine_close(&f->engine);
        tcp_proxy_close(f->proxy);
        f->proxy = NULL;
        rig_store_close(&f->store);
        rig_store_open(&f->store, &f->segment, 0);
    }
}

static void ops__of_large_values_end_whichever_allocation_fails(void **state)
{
    struct fixture *f = *state;
    const size_t len = 3 << 20;
    bool all_well = false;

    for (int64_t n = 0; !all_well; n++) {
        struct mc_extent_ref extent = rig_plant(&f->segment, len, (uint64_t)n);
        struct rig_op ops[2];

        assert_true(n < 200);
        rig_engine_open(&f->engine, "tcp", 31, f->store.port, &options);
        rig_fill(f->memory, len, (uint64_t)n);
        mc_mem_fail_after(n);
        all_well = true;
        for (size_t i = 0; i < 2; i++) {
            rig_op_init(&ops[i], &f->engine, i == 1 ? MC_RIGHT_WRITE : MC_RIGHT_READ, &extent,
                        f->memory + len * i);
            rig_fill(f->memory + len * i, len, (uint64_t)n);
            ops[i].op.err = f->engine.transport->ops->submit(f->engine.transport, &ops[i].op);
            ops[i].done = ops[i].op.err != MOONCAKE_OK; /* refused: done will not run */
        }
        for (size_t i = 0; i < 2; i++) {
            rig_wait(&f->engine, &ops[i]);
            all_well = all_well && ops[i].op.err == MOONCAKE_OK;
            rig_check(f->memory + len * i, i == 1 || ops[i].op.err == MOONCAKE_OK ? len : 0,
                      (uint64_t)n);
        }
        mc_mem_fail_after(-1);
        rig_engine_close(&f->engine);
        assert_int_equal(mc_mem_live_count(), 0);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_fixture, close_fixture)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(read__of_a_large_value_uses_several_connections),
        TEST(write__of_a_large_value_uses_several_connections),
        TEST(connections__of_large_values_stay_few_and_close_when_idle),
        TEST(read__of_a_smaller_value_takes_one_connection),
        TEST(op__that_is_small_overtakes_a_huge_value),
        TEST(read__loses_one_connection_and_only_what_it_carried_is_read_again),
        TEST(write__loses_one_connection_and_only_what_it_carried_is_sent_again),
        TEST(op__survives_a_reset_at_any_byte),
        TEST(op__whose_part_loses_two_connections_ends_and_memory_is_quiet),
        TEST(read__of_a_large_value_is_proven_as_a_whole),
        TEST(xfer__of_large_values_on_a_frozen_store_ends_at_its_deadline),
        TEST(cancel__in_mid_value_leaves_memory_quiet_and_others_alive),
        TEST(op__of_a_killed_store_ends),
        TEST(ops__of_large_values_end_whichever_allocation_fails),
    };

    rig_store_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
