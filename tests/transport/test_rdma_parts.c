/* Segments that are registered in several parts: at once, all or nothing, and used as one. */
#include "rdma_rig.h"

#include <string.h>

#include "base/log.h"
#include "transport/rdma_wire.h"

#define PART ((uint64_t)4 << 20)
#define PARTS (RDMA_RIG_SEGMENT_LEN / PART)
#define HEADER 64u

static void restart_in_parts(struct rdma_rig *rig)
{
    rig->store.part_len_min = PART;
    rdma_rig_restart(rig);
}

static void values__across_the_edges_of_parts_are_right(void **state)
{
    /* Header and first bytes before an edge; header up to it; header behind it. */
    static const uint64_t before[] = {HEADER + 1024, HEADER, 0, HEADER + PART / 2};
    static const size_t lens[] = {0, 1, 1024, 5000, (size_t)1 << 20, 9u << 20};
    struct rdma_rig *rig = *state;

    restart_in_parts(rig);
    for (size_t i = 0; i < MC_ARRAY_LEN(before); i++) {
        for (size_t k = 0; k < MC_ARRAY_LEN(lens); k++) {
            uint64_t at = PART * (1 + i) - before[i];

            rdma_rig_put(rig, at, lens[k], i * 10 + k);
            rdma_rig_get(rig, at, lens[k], i * 10 + k);
            rig_check(rig->segment.view + at + HEADER, lens[k], i * 10 + k); /* it lies there */
            assert_int_equal(rdma_rig_read(rig, at, lens[k], rig->loose), MOONCAKE_OK);
            rig_check(rig->loose, lens[k], i * 10 + k);
        }
    }
    rdma_rig_put(rig, 0, (size_t)40 << 20, 7); /* over nearly all of them */
    rdma_rig_get(rig, 0, (size_t)40 << 20, 7);
}

/* A store for itself, whose segment is in parts. */
static struct mc_rdma_server *open_server(uint32_t progress_ms)
{
    const struct mc_rdma_server_options options = {
        .devices = "fake2,fake3", .part_len_min = PART, .progress_ms = progress_ms};
    struct mc_rdma_server *server = NULL;

    assert_int_equal(mc_rdma_server_open(&options, &server), MOONCAKE_OK);
    return server;
}

static void parts__are_registered_at_once_with_each_device(void **state)
{
    struct rdma_rig *rig = *state;
    struct fake_counts before;
    struct mc_rdma_server *server = open_server(0);

    before = fake_counts();
    fake_pair_registrations(true);
    assert_int_equal(
        mc_rdma_server_add_segment(server, rig->segment.mount.base, RDMA_RIG_SEGMENT_LEN),
        MOONCAKE_OK);
    fake_pair_registrations(false);
    assert_int_equal(fake_counts().mrs - before.mrs, PARTS * 2);
    assert_true(fake_counts().registering_max >= 2);
    mc_rdma_server_close(&server);
}

static void failure__of_one_part_undoes_the_others_and_names_the_limit(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_rdma_server *server = open_server(0);
    unsigned mrs = fake_counts().mrs;

    for (int nth = 0; nth < (int)PARTS * 2; nth++) {
        fake_fail_registration(nth);
        assert_int_equal(
            mc_rdma_server_add_segment(server, rig->segment.mount.base, RDMA_RIG_SEGMENT_LEN),
            MOONCAKE_ENOMEM);
        assert_int_equal(fake_counts().mrs, mrs);
        assert_non_null(strstr(mooncake_last_error(), "RLIMIT_MEMLOCK"));
        assert_non_null(strstr(mooncake_last_error(), "100663296 bytes")); /* 48 MiB twice */
    }
    fake_fail_registration(-1);
    assert_int_equal(
        mc_rdma_server_add_segment(server, rig->segment.mount.base, RDMA_RIG_SEGMENT_LEN),
        MOONCAKE_OK);
    assert_int_equal(fake_counts().mrs, mrs + PARTS * 2);
    mc_rdma_server_close(&server);
    assert_int_equal(fake_counts().mrs, mrs);
}

struct progress {
    unsigned lines;
    bool whole; /* the last one: all is done */
};

static void see_line(void *arg, enum mc_log_level level, const char *line)
{
    struct progress *progress = arg;

    (void)level;
    if (strstr(line, " rdma.registering ") != NULL) {
        assert_non_null(strstr(line, "of_bytes=100663296 devices=2"));
        progress->lines++;
    }
    progress->whole = progress->whole ||
                      strstr(line, " rdma.registered bytes=50331648 devices=2 parts=12") != NULL;
}

static void registering__says_how_far_it_is(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_rdma_server *server = open_server(1);
    struct progress progress = {0};

    mc_log_set_level(MC_LOG_INFO);
    mc_log_set_sink(see_line, &progress);
    fake_delay_registrations(2);
    assert_int_equal(
        mc_rdma_server_add_segment(server, rig->segment.mount.base, RDMA_RIG_SEGMENT_LEN),
        MOONCAKE_OK);
    fake_delay_registrations(0);
    mc_log_set_sink(NULL, NULL);
    mc_log_set_level(MC_LOG_WARN);
    assert_true(progress.lines >= 1);
    assert_true(progress.whole);
    mc_rdma_server_close(&server);
}

/* An answer decides where the client writes: parts that make no sense must not be believed. */
static void answer__with_parts_that_make_no_sense_is_refused(void **state)
{
    struct mc_rdma_answer answer = {.base = 4096, .len = 4000, .part_len = 100, .parts = 40};
    uint8_t bytes[MC_RDMA_ANSWER_LEN_MAX];
    size_t len;

    (void)state;
    len = mc_rdma_answer_encode(&answer, bytes); /* headers would be cut */
    assert_int_equal(mc_rdma_answer_decode(bytes, len, &answer), MOONCAKE_ERPC);
    answer = (struct mc_rdma_answer){.base = 4096, .len = 4000, .part_len = 2048, .parts = 2};
    len = mc_rdma_answer_encode(&answer, bytes);
    assert_int_equal(mc_rdma_answer_decode(bytes, len, &answer), MOONCAKE_OK);
    assert_int_equal(mc_rdma_answer_decode(bytes, len - 1, &answer), MOONCAKE_ERPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RDMA_RIG_TEST(values__across_the_edges_of_parts_are_right),
        RDMA_RIG_TEST(parts__are_registered_at_once_with_each_device),
        RDMA_RIG_TEST(failure__of_one_part_undoes_the_others_and_names_the_limit),
        RDMA_RIG_TEST(registering__says_how_far_it_is),
        cmocka_unit_test(answer__with_parts_that_make_no_sense_is_refused),
    };

    return cmocka_run_group_tests_name("rdma parts", tests, NULL, NULL);
}
