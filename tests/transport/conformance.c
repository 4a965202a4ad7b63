/*
 * One suite for every kind of transport; built once per kind, with MC_TEST_KIND naming it. The
 * store is in this process, because then all kinds reach it.
 *
 * tcp is built twice, the second time with small parts over several connections; so is shm, the
 * second time with threads that help to copy.
 * rdma is built three times: over the fake verbs with registered memory, the same through staging,
 * and over the devices of this machine. There the environment says which belong to the store
 * (MC_TEST_RDMA_STORE) and which to the client (MC_TEST_RDMA_CLIENT); without any the suite is
 * skipped.
 */
#include "rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "transport/direct_pool.h"
#include "transport/memreg.h"
#include "transport/shm_map.h"
#include "transport/tcp_frame.h"

#define SEGMENT_LEN ((uint64_t)80 << 20)
#define LARGE_LEN (((size_t)64 << 20) + 3)
#define SKIPPED 77

#ifdef MC_TEST_FAKE
#include "fake/fake_verbs.h"
#else
static void fake_verbs_install(void)
{
}
static void fake_verbs_uninstall(void)
{
}
#endif

#ifdef MC_TEST_STAGED
#define IS_STAGED true
#else
#define IS_STAGED false
#endif

#ifdef MC_TEST_STRIPED
#define CONNECTIONS 3u
#define PART_LEN 10000u
#else
#define CONNECTIONS 1u
#define PART_LEN 0u /* the default */
#endif

#ifdef MC_TEST_HELPED
#define HELPERS 2u
#else
#define HELPERS 0u
#endif

static bool is_kind(const char *kind)
{
    return strcmp(MC_TEST_KIND, kind) == 0;
}

struct fixture {
    struct rig_segment segment;
    struct mc_tcp_server *server;
    struct mc_shm_server *shm_server;
    char shm_dir[32];
    struct mc_rdma_server *rdma_server; /* NULL but for rdma */
    struct mc_memreg *memreg;
    struct mc_direct_pool *copiers;
    struct rig_engine engine;
    uint8_t *out, *in; /* LARGE_LEN bytes each */
};

/* What rdma needs beyond the others: a server of its own, and memory that is registered. */
static void open_rdma(struct fixture *f, struct mc_transport_options *options)
{
    struct mc_rdma_server_options server = {.devices = getenv("MC_TEST_RDMA_STORE")};

    fake_verbs_install();
    options->rdma_devices = getenv("MC_TEST_RDMA_CLIENT");
#ifdef MC_TEST_FAKE
    server.devices = "fake2,fake3";
    options->rdma_devices = "fake0,fake1";
#endif
    assert_int_equal(mc_rdma_server_open(&server, &f->rdma_server), MOONCAKE_OK);
    assert_int_equal(
        mc_rdma_server_add_segment(f->rdma_server, f->segment.mount.base, f->segment.mount.len),
        MOONCAKE_OK);
    if (!IS_STAGED) {
        assert_int_equal(mc_memreg_create(&f->memreg), MOONCAKE_OK);
        assert_int_equal(mc_memreg_add(f->memreg, f->out, LARGE_LEN), MOONCAKE_OK);
        assert_int_equal(mc_memreg_add(f->memreg, f->in, LARGE_LEN), MOONCAKE_OK);
        options->memreg = f->memreg;
    }
}

static int open_fixture(void **state)
{
    static const struct mc_tcp_server_options options = {.address = "127.0.0.1:0", .loops = 2};
    struct mc_transport_options transport = rig_options;
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    transport.connections_max = CONNECTIONS;
    transport.tcp_part_len = PART_LEN;
    if (HELPERS > 0) {
        assert_int_equal(mc_direct_pool_create(HELPERS, 1, &f->copiers), MOONCAKE_OK);
        transport.copiers = f->copiers;
    }
    f->out = malloc(LARGE_LEN);
    f->in = malloc(LARGE_LEN);
    assert_non_null(f->out);
    assert_non_null(f->in);
    rig_segment_open(&f->segment, 11, SEGMENT_LEN);
    if (is_kind("rdma")) {
        open_rdma(f, &transport);
    }
    rig_segment_serve(&f->segment);
    assert_int_equal(mc_tcp_server_open(&options, &f->server), MOONCAKE_OK);
    rig_engine_open(&f->engine, MC_TEST_KIND, 11, mc_tcp_server_port(f->server), &transport);
    (void)snprintf(f->shm_dir, sizeof(f->shm_dir), "/tmp/mc-test-XXXXXX");
    assert_non_null(mkdtemp(f->shm_dir));
    assert_int_equal(mc_shm_server_open(f->shm_dir, MC_SHM_UID, &f->shm_server), MOONCAKE_OK);
    rig_engine_add_shm(&f->engine, f->shm_server);
    if (f->rdma_server != NULL) {
        rig_engine_add_rdma(&f->engine, f->rdma_server);
    }
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;

    rig_engine_close(&f->engine);
    mc_tcp_server_close(&f->server, 0);
    mc_shm_server_close(&f->shm_server);
    mc_shm_map_sweep();
    (void)rmdir(f->shm_dir);
    mc_mount_drop(f->segment.mount.mount_id);
    mc_rdma_server_close(&f->rdma_server);
    mc_memreg_destroy(&f->memreg);
    mc_direct_pool_destroy(&f->copiers);
    if (is_kind("rdma")) {
        fake_verbs_uninstall();
    }
    rig_segment_close(&f->segment);
    free(f->out);
    free(f->in);
    free(f);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

static void put(struct fixture *f, const struct mc_extent_ref *extent, uint64_t seed)
{
    rig_fill(f->out, extent->payload_len, seed);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, extent, f->out), MOONCAKE_OK);
}

static void get(struct fixture *f, const struct mc_extent_ref *extent, uint64_t seed)
{
    memset(f->in, 0xee, extent->payload_len);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, extent, f->in), MOONCAKE_OK);
    rig_check(f->in, extent->payload_len, seed);
}

static void transport__returns_the_bytes_of_every_size(void **state)
{
    static const size_t lens[] = {0,     1,     63,    64,     4096,   16383,   16384,
                                  16385, 65536, 65537, 100000, 524288, 1 << 20, LARGE_LEN};
    struct fixture *f = *state;

    for (size_t i = 0; i < MC_ARRAY_LEN(lens); i++) {
        struct mc_extent_ref extent = rig_extent(&f->segment, 64 * i, lens[i], i);
        const uint8_t *at = f->segment.view + extent.offset;
        uint64_t checksum;

        put(f, &extent, i);
        assert_int_equal(mc_extent_header_check(&extent, at, &checksum), MOONCAKE_OK);
        rig_check(at + MC_EXTENT_HEADER_LEN, lens[i], i);
        get(f, &extent, i);
    }
}

static void transport__touches_no_byte_beside_the_extent_or_the_pieces(void **state)
{
    struct fixture *f = *state;
    const size_t len = 70000;
    struct mc_extent_ref extent = rig_extent(&f->segment, 6400, len, 1);
    uint8_t *at = f->segment.view + extent.offset;

    memset(at - 64, 0xee, len + 192);
    put(f, &extent, 1);
    assert_int_equal(at[-1], 0xee);
    assert_int_equal(at[MC_EXTENT_HEADER_LEN + len], 0xee);
    memset(f->in, 0xdd, len + 2);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->in + 1), MOONCAKE_OK);
    assert_int_equal(f->in[0], 0xdd);
    assert_int_equal(f->in[len + 1], 0xdd);
}

/* Cut @p len bytes at @p bytes into @p count pieces of uneven lengths, some of them empty. */
static void cut(uint8_t *bytes, size_t len, struct iovec *pieces, unsigned count)
{
    size_t at = 0;

    for (unsigned i = 0; i < count; i++) {
        size_t part = i + 1 == count ? len - at : (len / count) * (i % 3);

        part = part < len - at ? part : len - at;
        pieces[i] = (struct iovec){.iov_base = bytes + at, .iov_len = part};
        at += part;
    }
}

static void transport__gathers_and_scatters_many_pieces(void **state)
{
    static const size_t lens[] = {5000, 16000, 200000, 3 << 20};
    static struct iovec pieces[MC_PIECES_MAX];
    struct fixture *f = *state;

    for (size_t i = 0; i < MC_ARRAY_LEN(lens); i++) {
        struct mc_extent_ref extent = rig_extent(&f->segment, 0, lens[i], i);
        struct rig_op op;

        rig_fill(f->out, lens[i], i);
        rig_op_init(&op, &f->engine, MC_RIGHT_WRITE, &extent, NULL);
        cut(f->out, lens[i], pieces, MC_PIECES_MAX);
        op.op.pieces = pieces;
        op.op.pieces_count = MC_PIECES_MAX;
        rig_submit(&f->engine, &op);
        rig_wait(&f->engine, &op);
        assert_int_equal(op.op.err, MOONCAKE_OK);

        rig_op_init(&op, &f->engine, MC_RIGHT_READ, &extent, NULL);
        cut(f->in, lens[i], pieces, MC_PIECES_MAX);
        op.op.pieces = pieces;
        op.op.pieces_count = MC_PIECES_MAX;
        rig_submit(&f->engine, &op);
        rig_wait(&f->engine, &op);
        assert_int_equal(op.op.err, MOONCAKE_OK);
        rig_check(f->in, lens[i], i);
    }
}

#define BATCH 512u

/* Uneven sizes, small and large ones side by side. */
static size_t batch_len(unsigned i)
{
    return i % 16 == 3 ? 100000 + i : 4096 + i;
}

static void run_batch(struct fixture *f, enum mc_rights right, uint8_t *bytes)
{
    static struct rig_op ops[BATCH];

    for (unsigned i = 0; i < BATCH; i++) {
        struct mc_extent_ref extent =
            rig_extent(&f->segment, (uint64_t)i << 17, batch_len(i), 1000 + i);

        rig_op_init(&ops[i], &f->engine, right, &extent, bytes + ((size_t)i << 17));
        rig_submit(&f->engine, &ops[i]);
    }
    for (unsigned i = 0; i < BATCH; i++) {
        rig_wait(&f->engine, &ops[i]);
        assert_int_equal(ops[i].op.err, MOONCAKE_OK);
    }
}

static void transport__keeps_the_ops_of_a_batch_apart(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < BATCH; i++) {
        rig_fill(f->out + ((size_t)i << 17), batch_len(i), i);
    }
    run_batch(f, MC_RIGHT_WRITE, f->out);
    run_batch(f, MC_RIGHT_READ, f->in);
    for (unsigned i = 0; i < BATCH; i++) {
        rig_check(f->in + ((size_t)i << 17), batch_len(i), i);
    }
}

static void transport__takes_more_ops_than_fit_on_a_connection(void **state)
{
    static struct rig_op ops[3000];
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, 100, 1);

    put(f, &extent, 1);
    for (size_t i = 0; i < MC_ARRAY_LEN(ops); i++) {
        rig_op_init(&ops[i], &f->engine, MC_RIGHT_READ, &extent, f->in + 100 * i);
        rig_submit(&f->engine, &ops[i]);
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(ops); i++) {
        rig_wait(&f->engine, &ops[i]);
        assert_int_equal(ops[i].op.err, MOONCAKE_OK);
        rig_check(f->in + 100 * i, 100, 1);
    }
}

static void read__of_a_stale_descriptor_is_a_miss(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref fresh = rig_extent(&f->segment, 0, 50000, 2);
    struct mc_extent_ref stale = rig_extent(&f->segment, 0, 50000, 1);
    struct mc_extent_ref shorter = rig_extent(&f->segment, 0, 49999, 2);

    put(f, &fresh, 1);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &stale, f->in), MOONCAKE_ENOENT);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &shorter, f->in), MOONCAKE_ENOENT);
    get(f, &fresh, 1);
}

static mooncake_err read_verified(struct fixture *f, const struct mc_extent_ref *extent,
                                  enum mc_verify verify)
{
    struct rig_op op;

    rig_op_init(&op, &f->engine, MC_RIGHT_READ, extent, f->in);
    op.op.verify = verify;
    rig_submit(&f->engine, &op);
    rig_wait(&f->engine, &op);
    return op.op.err;
}

static void read__of_a_damaged_payload_is_found(void **state)
{
    static const size_t lens[] = {1, 4096, 16385, 300000};
    struct fixture *f = *state;

    for (size_t i = 0; i < MC_ARRAY_LEN(lens); i++) {
        struct mc_extent_ref extent = rig_extent(&f->segment, 0, lens[i], 2);
        uint8_t *last = f->segment.view + MC_EXTENT_HEADER_LEN + lens[i] - 1;

        put(f, &extent, 1);
        *last ^= 0x40;
        assert_int_equal(read_verified(f, &extent, MC_VERIFY_FULL), MOONCAKE_ECHECKSUM);
        assert_int_equal(read_verified(f, &extent, MC_VERIFY_HEADER), MOONCAKE_OK);
        *last ^= 0x40;
        assert_int_equal(read_verified(f, &extent, MC_VERIFY_FULL), MOONCAKE_OK);
    }
}

static void read__of_a_damaged_header_is_found(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 128, 300000, 2);

    put(f, &extent, 1);
    f->segment.view[128 + 9] ^= 1;
    assert_int_equal(read_verified(f, &extent, MC_VERIFY_FULL), MOONCAKE_ECHECKSUM);
    assert_int_equal(read_verified(f, &extent, MC_VERIFY_HEADER), MOONCAKE_ECHECKSUM);
    assert_int_equal(read_verified(f, &extent, MC_VERIFY_NONE), MOONCAKE_OK);
    rig_check(f->in, 300000, 1);
}

static void transport__refuses_a_wrong_capability_and_harms_no_neighbour(void **state)
{
    static const size_t lens[] = {100, 5 << 20}; /* through buffers, and in place */
    struct fixture *f = *state;

    if (is_kind("shm") || is_kind("rdma")) {
        /* Who is let in reaches the whole segment: the socket's policy is the guard there, the
         * capability that the connection is asked for with here (test_rdma_faults.c). */
        skip();
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(lens); i++) {
        struct mc_extent_ref good = rig_extent(&f->segment, 0, lens[i], 1);
        struct mc_extent_ref other = rig_extent(&f->segment, 10 << 20, lens[i], 2);
        struct mc_extent_ref forged = other;
        struct rig_op ops[4];

        put(f, &good, 1);
        put(f, &other, 2);
        rig_fill(f->out, lens[i], 3);
        forged.capability++;
        rig_op_init(&ops[0], &f->engine, MC_RIGHT_WRITE, &good, f->out);
        rig_op_init(&ops[1], &f->engine, MC_RIGHT_WRITE, &forged, f->out);
        rig_op_init(&ops[2], &f->engine, MC_RIGHT_READ, &forged, f->in + (20 << 20));
        rig_op_init(&ops[3], &f->engine, MC_RIGHT_READ, &other, f->in);
        for (size_t k = 0; k < 4; k++) {
            rig_submit(&f->engine, &ops[k]);
        }
        for (size_t k = 0; k < 4; k++) {
            rig_wait(&f->engine, &ops[k]);
        }
        assert_int_equal(ops[0].op.err, MOONCAKE_OK);
        assert_int_equal(ops[1].op.err, MOONCAKE_ENOTOWNER);
        assert_int_equal(ops[2].op.err, MOONCAKE_ENOTOWNER);
        assert_int_equal(ops[3].op.err, MOONCAKE_OK);
        rig_check(f->in, lens[i], 2);
        get(f, &good, 3);
    }
}

static void transport__keeps_to_the_right_that_was_granted(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, 5000, 1);
    struct mc_extent_ref read_only = extent;

    put(f, &extent, 1);
    read_only.rights = MC_RIGHT_READ;
    read_only.capability = mc_capability(f->segment.mount.secret, &read_only);
    rig_fill(f->out, 5000, 2);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, &read_only, f->out), MOONCAKE_ENOTOWNER);
    get(f, &read_only, 1);
}

static void transport__refuses_a_range_outside_the_segment(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref beyond = rig_extent(&f->segment, SEGMENT_LEN - 64, 1, 1);
    struct mc_extent_ref far = rig_extent(&f->segment, UINT64_MAX - 63, 1000, 1);
    struct mc_extent_ref last = rig_extent(&f->segment, SEGMENT_LEN - 64 - 1000, 1000, 1);

    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &beyond, f->in), MOONCAKE_EINVAL);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, &beyond, f->out), MOONCAKE_EINVAL);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, &far, f->out), MOONCAKE_EINVAL);
    put(f, &last, 1);
    get(f, &last, 1);
    /* And over the connections that there are now. */
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &beyond, f->in), MOONCAKE_EINVAL);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, &far, f->out), MOONCAKE_EINVAL);
    get(f, &last, 1);
}

static void transport__tells_that_a_segment_is_not_mounted_any_more(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, 200000, 1);

    put(f, &extent, 1);
    mc_mount_drop(f->segment.mount.mount_id);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &extent, f->in), MOONCAKE_ENOSEGMENT);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_WRITE, &extent, f->out), MOONCAKE_ENOSEGMENT);
    rig_segment_serve(&f->segment);
    get(f, &extent, 1);
}

static void transport__counts_what_it_moved(void **state)
{
    struct fixture *f = *state;
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, 1000, 1);
    struct mc_extent_ref stale = rig_extent(&f->segment, 0, 1000, 2);
    const struct mc_transport_stats *stats = rig_stats(&f->engine);

    put(f, &extent, 1);
    get(f, &extent, 1);
    get(f, &extent, 1);
    assert_int_equal(rig_do(&f->engine, MC_RIGHT_READ, &stale, f->in), MOONCAKE_ENOENT);
    assert_int_equal(mc_counter_get(&stats->bytes_written), 1000);
    assert_int_equal(mc_counter_get(&stats->bytes_read), 2000);
    assert_int_equal(mc_counter_get(&stats->ops), 4);
    assert_int_equal(mc_counter_get(&stats->failures), 1);
}

/* Of some dozens of reads; an emulated machine needs it. */
#define OVERWRITING_SECONDS 120u

/* Write alternating versions of the whole extent, for ever, with no regard to readers, but pausing
 * between two for up to a few times as long as a read takes (@p read_ns): how fast reads are beside
 * writes differs by a factor of hundred, and some are to fall between two. In a process of its own:
 * a thread here would be a data race by intent. Pinned memory (f->out) may be missing there, and
 * nothing of the test's may be closed there, whatever goes wrong. */
static pid_t start_overwriter(const struct rig_segment *segment, const struct mc_extent_ref *extent,
                              uint64_t read_ns)
{
    const struct timespec step = {.tv_sec = (time_t)(read_ns / 2 / MC_NS_PER_S),
                                  .tv_nsec = (long)(read_ns / 2 % MC_NS_PER_S)};

    uint8_t *at = segment->view + extent->offset;
    uint8_t *bytes;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid != 0) {
        return pid;
    }
    (void)signal(SIGSEGV, SIG_DFL);
    (void)signal(SIGBUS, SIG_DFL);
    (void)alarm(2 * OVERWRITING_SECONDS);
    bytes = malloc(extent->payload_len);
    for (uint64_t round = 0; bytes != NULL; round++) {
        struct iovec iov = {.iov_base = bytes, .iov_len = extent->payload_len};
        uint8_t header[MC_EXTENT_HEADER_LEN];

        for (uint64_t steps = round % 6; steps > 0; steps--) {
            (void)nanosleep(&step, NULL);
        }
        rig_fill(bytes, extent->payload_len, round % 2);
        mc_extent_header_build(extent, mc_extent_hash_iov(&iov, 1), header);
        memcpy(at, header, sizeof(header));
        memcpy(at + sizeof(header), bytes, extent->payload_len);
    }
    _exit(1);
}

static void read__of_what_is_being_overwritten_is_never_ok_and_wrong(void **state)
{
    struct fixture *f = *state;
    /* In small parts a read takes long, and must fit between two writes now and then. */
    const size_t len = PART_LEN > 0 ? 8 * PART_LEN : 1 << 20;
    struct mc_extent_ref extent = rig_extent(&f->segment, 0, len, 1);
    unsigned good = 0;
    unsigned torn = 0;
    uint64_t begun_ns, until_ns;
    pid_t pid;

    put(f, &extent, 0);
    get(f, &extent, 0); /* connects */
    begun_ns = mc_monotonic_ns();
    get(f, &extent, 0);
    until_ns = mc_monotonic_ns() + OVERWRITING_SECONDS * MC_NS_PER_S;
    pid = start_overwriter(&f->segment, &extent, mc_monotonic_ns() - begun_ns);
    while (good < 20 || torn < 20) {
        mooncake_err err = rig_do(&f->engine, MC_RIGHT_READ, &extent, f->in);
        uint64_t first;

        assert_true(mc_monotonic_ns() < until_ns);
        if (err == MOONCAKE_OK) {
            rig_fill(&first, sizeof(first), 0);
            rig_check(f->in, extent.payload_len, memcmp(f->in, &first, sizeof(first)) == 0 ? 0 : 1);
            good++;
        } else {
            assert_int_equal(err, MOONCAKE_ECHECKSUM);
            torn++;
        }
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(transport__returns_the_bytes_of_every_size),
        TEST(transport__touches_no_byte_beside_the_extent_or_the_pieces),
        TEST(transport__gathers_and_scatters_many_pieces),
        TEST(transport__keeps_the_ops_of_a_batch_apart),
        TEST(transport__takes_more_ops_than_fit_on_a_connection),
        TEST(read__of_a_stale_descriptor_is_a_miss),
        TEST(read__of_a_damaged_payload_is_found),
        TEST(read__of_a_damaged_header_is_found),
        TEST(transport__refuses_a_wrong_capability_and_harms_no_neighbour),
        TEST(transport__keeps_to_the_right_that_was_granted),
        TEST(transport__refuses_a_range_outside_the_segment),
        TEST(transport__tells_that_a_segment_is_not_mounted_any_more),
        TEST(transport__counts_what_it_moved),
        TEST(read__of_what_is_being_overwritten_is_never_ok_and_wrong),
    };

#ifndef MC_TEST_FAKE
    if (is_kind("rdma")) {
        struct mc_rdma_server_options options = {.devices = getenv("MC_TEST_RDMA_STORE")};
        struct mc_rdma_server *server = NULL;

        if (mc_rdma_server_open(&options, &server) == MOONCAKE_ENOTSUP) {
            (void)printf("skipped: %s\n", mooncake_last_error());
            return SKIPPED;
        }
        mc_rdma_server_close(&server);
    }
#endif
    return cmocka_run_group_tests_name("transport " MC_TEST_KIND, tests, NULL, NULL);
}
