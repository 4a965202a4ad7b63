/*
 * What one op costs, counted at the verbs themselves: work requests, calls to the device, bytes
 * that the processor copies. On real devices, because the tests on fake ones know what they want to
 * hear.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rig.h"
#include "transport/memreg.h"
#include "transport/rdma_verbs.h"

#define LEN ((uint64_t)8 << 20)
#define SEGMENT_LEN ((uint64_t)20 << 20)
#define KIB ((uint64_t)1 << 10)

static struct {
    unsigned requests, entries, doorbells, completions;
    uint64_t in_place; /* bytes moved between the segment and the caller's own memory */
    uint64_t beside;   /* and other memory: headers, staging */
} counts;

static const struct mc_verbs *real;
static struct mc_verbs counting;
static struct rig_segment segment;
static struct mc_rdma_server *server;
static struct mc_memreg *memreg;
static struct rig_engine engine;
static uint8_t *bytes; /* LEN of the caller's */

static int count_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **out_bad)
{
    if (wr->num_sge == 0) { /* the store asks whether we are there */
        return real->post_send(qp, wr, out_bad);
    }
    counts.doorbells++;
    for (const struct ibv_send_wr *at = wr; at != NULL; at = at->next) {
        counts.requests++;
        for (int i = 0; i < at->num_sge; i++) {
            uintptr_t from = (uintptr_t)at->sg_list[i].addr;

            if (from >= (uintptr_t)bytes && from < (uintptr_t)bytes + LEN) {
                counts.in_place += at->sg_list[i].length;
            } else {
                counts.beside += at->sg_list[i].length;
            }
            counts.entries++;
        }
    }
    return real->post_send(qp, wr, out_bad);
}

static int count_poll(struct ibv_cq *cq, int count, struct ibv_wc *out)
{
    int found = real->poll_cq(cq, count, out);

    counts.completions += found > 0 ? (unsigned)found : 0;
    return found;
}

static int open_all(void **state)
{
    const struct mc_rdma_server_options options = {.devices = "rxeb0"};
    struct mc_transport_options transport = rig_options;

    (void)state;
    assert_int_equal(mc_verbs_load(&real), MOONCAKE_OK);
    counting = *real;
    counting.post_send = count_post;
    counting.poll_cq = count_poll;
    mc_verbs_replace(&counting); /* for the store as well, which posts nothing but its probes */
    bytes = malloc(LEN);
    assert_non_null(bytes);
    rig_segment_open(&segment, 11, SEGMENT_LEN);
    assert_int_equal(mc_rdma_server_open(&options, &server), MOONCAKE_OK);
    assert_int_equal(mc_rdma_server_add_segment(server, segment.mount.base, segment.mount.len),
                     MOONCAKE_OK);
    rig_segment_serve(&segment);
    assert_int_equal(mc_memreg_create(&memreg), MOONCAKE_OK);
    transport.rdma_devices = "rxea0";
    transport.memreg = memreg;
    rig_engine_open(&engine, "rdma", 11, 1, &transport);
    rig_engine_add_rdma(&engine, server);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    rig_engine_close(&engine);
    mc_verbs_replace(NULL);
    mc_mount_drop(segment.mount.mount_id);
    mc_rdma_server_close(&server);
    mc_memreg_destroy(&memreg);
    rig_segment_close(&segment);
    free(bytes);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

/* One write and one read of @p len bytes; the counts of each are shown, those of the read left. */
static void count_one(const char *what, uint64_t len)
{
    struct mc_extent_ref extent = rig_extent(&segment, 0, len, 1);

    rig_fill(bytes, len, len);
    for (unsigned i = 0; i < 4; i++) { /* the first of each makes the connection */
        enum mc_rights right = i % 2 == 0 ? MC_RIGHT_WRITE : MC_RIGHT_READ;

        if (right == MC_RIGHT_READ) {
            memset(bytes, 0xee, len);
        }
        memset(&counts, 0, sizeof(counts));
        assert_int_equal(rig_do(&engine, right, &extent, bytes), MOONCAKE_OK);
        if (i >= 2) {
            print_message("           %s of %llu KiB, %s: %u work requests with %u entries in %u "
                          "calls, %u completions, %llu bytes in place, %llu beside\n",
                          right == MC_RIGHT_READ ? "read" : "write",
                          (unsigned long long)(len / KIB), what, counts.requests, counts.entries,
                          counts.doorbells, counts.completions, (unsigned long long)counts.in_place,
                          (unsigned long long)counts.beside);
        }
    }
    rig_check(bytes, len, len);
}

static void op__in_registered_memory_is_one_request_and_no_copy(void **state)
{
    (void)state;
    assert_int_equal(mc_memreg_add(memreg, bytes, LEN), MOONCAKE_OK);
    count_one("registered", 256 * KIB);
    assert_int_equal(counts.requests, 1); /* header and payload together */
    assert_int_equal(counts.entries, 2);
    assert_int_equal(counts.doorbells, 1);
    assert_true(counts.completions >= 1); /* and of a probe, perhaps */
    assert_int_equal(counts.in_place, 256 * KIB);
    assert_int_equal(counts.beside, MC_EXTENT_HEADER_LEN);
    assert_int_equal(mc_memreg_drop(memreg, bytes), MOONCAKE_OK);
}

static void op__of_a_large_value_is_few_requests_and_fewer_calls(void **state)
{
    (void)state;
    assert_int_equal(mc_memreg_add(memreg, bytes, LEN), MOONCAKE_OK);
    count_one("registered", LEN / KIB * KIB);
    assert_true(counts.requests <= 10); /* of a mebibyte */
    assert_true(counts.doorbells <= 2 && counts.completions <= counts.requests + 1);
    assert_int_equal(counts.in_place, LEN);
    assert_int_equal(counts.beside, MC_EXTENT_HEADER_LEN);
    assert_int_equal(mc_memreg_drop(memreg, bytes), MOONCAKE_OK);
}

static void op__in_other_memory_is_copied_once(void **state)
{
    (void)state;
    count_one("not registered", 256 * KIB);
    assert_true(counts.requests <= 3);
    assert_int_equal(counts.in_place, 0);
    assert_int_equal(counts.beside, 256 * KIB + MC_EXTENT_HEADER_LEN);
}

/* The one bell at the end is enough for all of them. */
static void ops__given_together_share_calls(void **state)
{
    enum { OPS = 16 };
    static struct rig_op ops[OPS];

    (void)state;
    assert_int_equal(mc_memreg_add(memreg, bytes, LEN), MOONCAKE_OK);
    for (unsigned round = 0; round < 2; round++) {
        memset(&counts, 0, sizeof(counts));
        for (unsigned i = 0; i < OPS; i++) {
            struct mc_extent_ref extent = rig_extent(&segment, i * 8 * KIB, 4 * KIB, i);

            rig_op_init(&ops[i], &engine, MC_RIGHT_WRITE, &extent, bytes + i * 4 * KIB);
            rig_submit(&engine, &ops[i]);
        }
        engine.transport->ops->flush(engine.transport);
        for (unsigned i = 0; i < OPS; i++) {
            rig_wait(&engine, &ops[i]);
            assert_int_equal(ops[i].op.err, MOONCAKE_OK);
        }
    }
    print_message("           %u writes of 4 KiB together: %u work requests in %u calls, %u "
                  "completions\n",
                  OPS, counts.requests, counts.doorbells, counts.completions);
    assert_int_equal(counts.requests, OPS);
    assert_int_equal(counts.in_place, OPS * 4 * KIB);
    assert_true(counts.doorbells <= 2 && counts.completions <= OPS);
    assert_int_equal(mc_memreg_drop(memreg, bytes), MOONCAKE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(op__in_registered_memory_is_one_request_and_no_copy),
        cmocka_unit_test(op__of_a_large_value_is_few_requests_and_fewer_calls),
        cmocka_unit_test(op__in_other_memory_is_copied_once),
        cmocka_unit_test(ops__given_together_share_calls),
    };

    return cmocka_run_group_tests_name("rdma counts", tests, open_all, close_all);
}
