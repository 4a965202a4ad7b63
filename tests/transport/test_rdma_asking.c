/* Connection requests that are wrong, and paths that never work: what is said, and how often. */
#include "rdma_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "transport/rdma_wire.h"

#define LEN ((size_t)1 << 20)

/* ---- a stranger ------------------------------------------------------------------------------ */

struct stranger {
    const struct mc_verbs *verbs;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
};

struct verdict {
    bool refused;
    mooncake_err err;
    char reason[MC_RDMA_REFUSAL_TEXT_MAX + 1];
};

/* The next event; fails if there is none in time. */
static struct rdma_cm_event *await_event(const struct stranger *stranger)
{
    struct pollfd pollfd = {.fd = stranger->channel->fd, .events = POLLIN};
    struct rdma_cm_event *event = NULL;

    assert_int_equal(poll(&pollfd, 1, 20000), 1);
    assert_int_equal(stranger->verbs->get_event(stranger->channel, &event), 0);
    return event;
}

static void step(const struct stranger *stranger, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = await_event(stranger);

    assert_int_equal(event->event, type);
    (void)stranger->verbs->ack_event(event);
}

/* Ask the store's first address with these bytes. */
static struct verdict ask(struct rdma_rig *rig, const void *data, size_t len)
{
    struct rdma_conn_param param = {.private_data = data, .private_data_len = (uint8_t)len};
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct verdict verdict = {.refused = false};
    struct mc_rdma_place place;
    struct stranger stranger;
    struct rdma_cm_event *event;

    assert_int_equal(mc_verbs_load(&stranger.verbs), MOONCAKE_OK);
    assert_int_equal(inet_pton(AF_INET, "10.99.0.1", &from.sin_addr), 1);
    assert_int_equal(mc_rdma_places_parse(rig->engine.addresses, &place, 1), 1);
    stranger.channel = stranger.verbs->create_event_channel();
    assert_int_equal(stranger.verbs->create_id(stranger.channel, &stranger.id, NULL, RDMA_PS_TCP),
                     0);
    (void)stranger.verbs->resolve_addr(stranger.id, (struct sockaddr *)&from, &place.address.any,
                                       1000);
    step(&stranger, RDMA_CM_EVENT_ADDR_RESOLVED);
    (void)stranger.verbs->resolve_route(stranger.id, 1000);
    step(&stranger, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(stranger.verbs->connect(stranger.id, &param), 0);
    event = await_event(&stranger);
    verdict.refused = event->event == RDMA_CM_EVENT_REJECTED;
    if (verdict.refused) {
        assert_int_equal(event->status, 28);
        verdict.err = mc_rdma_refusal_decode(event->param.conn.private_data,
                                             event->param.conn.private_data_len, verdict.reason);
    } else {
        assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
    }
    (void)stranger.verbs->ack_event(event);
    (void)stranger.verbs->destroy_id(stranger.id);
    stranger.verbs->destroy_event_channel(stranger.channel);
    return verdict;
}

static void make_request_at(const struct rdma_rig *rig, uint64_t offset,
                            uint8_t out[MC_RDMA_REQUEST_LEN])
{
    struct mc_rdma_request request = {.extent = rig_extent(&rig->segment, offset, LEN, 0),
                                      .right = MC_RIGHT_READ};

    assert_int_equal(mc_rdma_request_encode(&request, out), MOONCAKE_OK);
}

static void expect_refusal(struct rdma_rig *rig, const void *data, size_t len, mooncake_err err,
                           const char *reason)
{
    struct verdict verdict = ask(rig, data, len);

    assert_true(verdict.refused);
    assert_int_equal(verdict.err, err);
    if (strstr(verdict.reason, reason) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", verdict.reason, reason);
    }
}

/* A byte of the request, what it becomes, and what is said to that. */
static const struct {
    unsigned at;
    uint8_t value;
    mooncake_err err;
    const char *reason;
} changes[] = {
    {0, 'X', MOONCAKE_ERPC, "none of Mooncake's"},
    {2, 9, MOONCAKE_ENOTSUP, "version 9"},
    {3, 0, MOONCAKE_ERPC, "unknown right 0"},
    {3, 7, MOONCAKE_ERPC, "unknown right 7"},
    {4, 0, MOONCAKE_EINVAL, "unknown rights 0"},
    {4, 0xff, MOONCAKE_EINVAL, "unknown rights 255"},
    {5, 1, MOONCAKE_EINVAL, "slice 1 of 1"},
    {7, 1, MOONCAKE_ERPC, "byte 7"},
    {8, 99, MOONCAKE_ENOSEGMENT, "mounted here as"},
    {16, 64, MOONCAKE_ENOTOWNER, "not genuine"},
    {23, 0xff, MOONCAKE_ENOTOWNER, "not genuine"},
    {31, 0xff, MOONCAKE_ENOTOWNER, "not genuine"},
    {32, 1, MOONCAKE_ENOTOWNER, "not genuine"},
    {48, 9, MOONCAKE_ENOTOWNER, "not genuine"},
};

static void request__that_is_wrong_is_refused_with_a_reason_and_hurts_nobody(void **state)
{
    struct rdma_rig *rig = *state;
    const struct mc_rdma_server_stats *stats = mc_rdma_server_stats(rig->server);
    static const uint8_t noise[MC_RDMA_REQUEST_LEN] = "GET / HTTP/1.1";
    uint8_t good[MC_RDMA_REQUEST_LEN], bad[MC_RDMA_REQUEST_LEN];
    uint64_t accepted;
    struct fake_counts before;

    rdma_rig_put(rig, 0, LEN, 1);
    rdma_rig_get(rig, 0, LEN, 1);
    /* Two paths in two directions, each with two ends. */
    rdma_rig_connect_all(rig, LEN);
    accepted = mc_counter_get(&stats->accepted);
    before = fake_counts();
    make_request_at(rig, 0, good);
    for (size_t i = 0; i < MC_ARRAY_LEN(changes); i++) {
        memcpy(bad, good, sizeof(bad));
        bad[changes[i].at] = changes[i].value;
        expect_refusal(rig, bad, sizeof(bad), changes[i].err, changes[i].reason);
    }
    make_request_at(rig, RDMA_RIG_SEGMENT_LEN, bad);
    expect_refusal(rig, bad, sizeof(bad), MOONCAKE_EINVAL, "outside the segment of 50331648 bytes");
    expect_refusal(rig, NULL, 0, MOONCAKE_ERPC, "0 bytes, fewer than 56");
    expect_refusal(rig, noise, sizeof(noise), MOONCAKE_ERPC, "none of Mooncake's");
    expect_refusal(rig, good, 6, MOONCAKE_EINVAL, "slice 0 of 0"); /* padded with zeros */
    assert_int_equal(mc_counter_get(&stats->accepted), accepted);
    assert_int_equal(mc_counter_get(&stats->refused), MC_ARRAY_LEN(changes) + 4);
    assert_int_equal(fake_counts().qps, before.qps); /* the client's are untouched */
    RIG_RUN_UNTIL(rig->engine.loop, fake_counts().ids == before.ids);
    rdma_rig_get(rig, 0, LEN, 1);
    assert_int_equal(fake_counts().qps, before.qps);
    assert_false(ask(rig, good, sizeof(good)).refused);
}

/* The connection manager of some links carries more than ours needs. */
static void request__may_be_padded_with_zeros_and_with_nothing_else(void **state)
{
    uint8_t bytes[200] = {0};
    struct mc_rdma_request request;

    make_request_at(*state, 0, bytes);
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        assert_int_equal(mc_rdma_request_decode(bytes, len, &request),
                         len < MC_RDMA_REQUEST_LEN ? MOONCAKE_ERPC : MOONCAKE_OK);
    }
    bytes[MC_RDMA_REQUEST_LEN] = 1;
    assert_int_equal(mc_rdma_request_decode(bytes, MC_RDMA_REQUEST_LEN, &request), MOONCAKE_OK);
    assert_int_equal(mc_rdma_request_decode(bytes, sizeof(bytes), &request), MOONCAKE_ERPC);
}

static void client__shows_the_reason_it_was_refused_for(void **state)
{
    struct rdma_rig *rig = *state;
    struct mc_extent_ref extent = rig_extent(&rig->segment, 0, LEN, 0);

    extent.capability++;
    assert_int_equal(rig_do(&rig->engine, MC_RIGHT_WRITE, &extent, rig->out), MOONCAKE_ENOTOWNER);
    assert_non_null(strstr(mooncake_last_error(), "the capability is not genuine"));
    mc_rdma_server_drop_segment(rig->server, rig->segment.mount.base); /* mounted all the same */
    extent.capability--;
    assert_int_equal(rig_do(&rig->engine, MC_RIGHT_WRITE, &extent, rig->out), MOONCAKE_ENOSEGMENT);
    assert_non_null(strstr(mooncake_last_error(), "the segment is not registered"));
}

static void refusal__of_another_version_or_with_odd_text_can_be_shown(void **state)
{
    uint8_t bytes[MC_RDMA_REFUSAL_LEN_MAX];
    char text[MC_RDMA_REFUSAL_TEXT_MAX + 1];
    char much[400];
    size_t len;

    (void)state;
    len = mc_rdma_refusal_encode(MOONCAKE_ENOTSUP, "we speak \"3\"\n\x1b[2J\xc3\xa4", bytes);
    bytes[2] = 3; /* its version */
    assert_int_equal(mc_rdma_refusal_decode(bytes, len, text), MOONCAKE_ENOTSUP);
    assert_string_equal(text, "we speak ?3???[2J??");
    memset(much, 'x', sizeof(much));
    much[sizeof(much) - 1] = '\0';
    assert_int_equal(mc_rdma_refusal_encode(MOONCAKE_EINVAL, much, bytes), sizeof(bytes));
    assert_int_equal(mc_rdma_refusal_decode(bytes, sizeof(bytes), text), MOONCAKE_EINVAL);
    assert_int_equal(strlen(text), MC_RDMA_REFUSAL_TEXT_MAX);
    assert_int_equal(mc_rdma_refusal_decode(bytes, 20, text), MOONCAKE_EINVAL);
    assert_int_equal(strlen(text), 12);
    assert_int_equal(mc_rdma_refusal_decode(bytes, 7, text), MOONCAKE_ERPC);
    bytes[3] = 255;
    assert_int_equal(mc_rdma_refusal_decode(bytes, sizeof(bytes), text), MOONCAKE_EINVAL);
    assert_int_equal(strlen(text), MC_RDMA_REFUSAL_TEXT_MAX);
    mc_store_u32(bytes + 4, 0); /* a refusal that says all is well */
    assert_int_equal(mc_rdma_refusal_decode(bytes, sizeof(bytes), text), MOONCAKE_ERPC);
}

/* ---- paths that never work ------------------------------------------------------------------- */

struct lines {
    unsigned paused, resumed, all;
};

static void count_line(void *arg, enum mc_log_level level, const char *line)
{
    struct lines *lines = arg;

    (void)level;
    lines->all++;
    lines->paused += strstr(line, " rdma.paused ") != NULL ? 1 : 0;
    lines->resumed += strstr(line, " rdma.resumed ") != NULL ? 1 : 0;
}

/* For @p ms: gets, one after the other. */
static void get_for(struct rdma_rig *rig, uint64_t ms)
{
    uint64_t until_ns = mc_monotonic_ns() + ms * MC_NS_PER_MS;

    while (mc_monotonic_ns() < until_ns) {
        rdma_rig_get(rig, 0, 4096, 1);
        rig_run_a_little(rig->engine.loop);
    }
}

static void path__that_never_works_is_tried_less_and_less_and_said_once(void **state)
{
    struct rdma_rig *rig = *state;
    struct lines lines = {0};
    char *second;

    rdma_rig_put(rig, 0, 4096, 1);
    rig_engine_close(&rig->engine);
    rig_engine_open(&rig->engine, "rdma", 11, 1, &rig->options);
    rig_engine_add_rdma(&rig->engine, rig->server);
    second = strstr(rig->engine.addresses, "rdma://10.99.1.2:");
    assert_non_null(second);
    memcpy(second + strlen("rdma://10.99.1.2:"), "00009", 5); /* there nobody listens */
    mc_log_set_sink(count_line, &lines);
    get_for(rig, 3500);
    mc_log_set_sink(NULL, NULL);
    assert_int_equal(lines.paused, 1);
    assert_int_equal(lines.resumed, 0);
    /* 0, 100, 300, 700, 1500, 3100 ms; the other path is connected in both directions */
    assert_in_range(fake_connects(1), 4, 7);
}

static void path__that_fails_and_works_again_says_each_once_with_a_count(void **state)
{
    struct rdma_rig *rig = *state;
    uint64_t until_ns = mc_monotonic_ns() + RIG_WAIT_NS;
    struct lines lines = {0};

    rdma_rig_put(rig, 0, 4096, 1);
    get_for(rig, 50);
    mc_log_set_level(MC_LOG_INFO);
    mc_log_set_sink(count_line, &lines);
    fake_set_link(2, false);
    get_for(rig, 3000);
    assert_int_equal(lines.paused, 1);
    assert_int_equal(lines.resumed, 0);
    fake_set_link(2, true);
    while (lines.resumed == 0) { /* by a short op, or more than one */
        assert_true(mc_monotonic_ns() < until_ns);
        get_for(rig, 20);
    }
    get_for(rig, 100);
    mc_log_set_sink(NULL, NULL);
    mc_log_set_level(MC_LOG_WARN);
    assert_int_equal(lines.paused, 1);
    assert_int_equal(lines.resumed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RDMA_RIG_TEST(request__that_is_wrong_is_refused_with_a_reason_and_hurts_nobody),
        RDMA_RIG_TEST(request__may_be_padded_with_zeros_and_with_nothing_else),
        RDMA_RIG_TEST(client__shows_the_reason_it_was_refused_for),
        cmocka_unit_test(refusal__of_another_version_or_with_odd_text_can_be_shown),
        RDMA_RIG_TEST(path__that_never_works_is_tried_less_and_less_and_said_once),
        RDMA_RIG_TEST(path__that_fails_and_works_again_says_each_once_with_a_count),
    };

    return cmocka_run_group_tests_name("rdma asking", tests, NULL, NULL);
}
