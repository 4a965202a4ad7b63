/* A server and peers that misbehave: raw sockets on the other side. */
#include "rpc/rpc_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "rpc/rpc_server_impl.h"

static uint64_t bad_frames(const struct fixture *f)
{
    return mc_counter_get(&mc_rpc_server_stats(f->server)->bad_frames);
}

static int64_t connections(const struct fixture *f)
{
    return mc_gauge_get(&mc_rpc_server_stats(f->server)->connections);
}

/* A raw socket that has said Hello and got its answer. */
static int raw_hello(struct fixture *f)
{
    int fd = raw_connect(f);
    struct mc_frame frame;
    uint8_t body[16];

    raw_send_frame(fd, FIXTURE_HELLO, 77, "hello", 5);
    raw_receive_frame(f, fd, &frame, body, sizeof(body));
    assert_int_equal(frame.flags, MC_FRAME_REPLY);
    assert_int_equal(frame.method, FIXTURE_HELLO);
    assert_int_equal(frame.request_id, 77);
    assert_int_equal(frame.status, MOONCAKE_OK);
    assert_int_equal(frame.body_len, 5);
    return fd;
}

static void expect_closed_as_bad(struct fixture *f, int fd)
{
    assert_int_equal(raw_wait_closed(f, fd), 0);
    assert_int_equal(bad_frames(f), 1);
    RUN_UNTIL(f, connections(f) == 0);
    assert_int_equal(f->conns_closed, 1);
    (void)close(fd);
    fixture_fini(f);
}

/* ---- nonsense ------------------------------------------------------------------------------ */

static void server__garbage_closes_the_connection(void **state)
{
    struct fixture f;
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_connect(&f);
    raw_send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    expect_closed_as_bad(&f, fd);
}

static void server__request_before_hello_closes_the_connection(void **state)
{
    struct fixture f;
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_connect(&f);
    raw_send_frame(fd, FIXTURE_ECHO, 1, "x", 1);
    expect_closed_as_bad(&f, fd);
    assert_int_equal(f.handled, 0);
}

static void server__reply_closes_the_connection(void **state)
{
    const struct mc_frame frame = {.version = 1, .flags = MC_FRAME_REPLY, .method = FIXTURE_ECHO};
    uint8_t header[MC_FRAME_LEN];
    struct fixture f;
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_hello(&f);
    mc_frame_encode(&frame, header);
    raw_send(fd, header, sizeof(header));
    expect_closed_as_bad(&f, fd);
}

static void server__request_of_an_unknown_protocol_closes_the_connection(void **state)
{
    const struct mc_frame frame = {.version = MC_PROTOCOL_MAX + 1, .method = FIXTURE_ECHO};
    uint8_t header[MC_FRAME_LEN];
    struct fixture f;
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_hello(&f);
    mc_frame_encode(&frame, header);
    raw_send(fd, header, sizeof(header));
    expect_closed_as_bad(&f, fd);
}

static void server__forged_body_length_closes_the_connection(void **state)
{
    const struct mc_frame frame = {.version = 1, .method = FIXTURE_ECHO};
    uint8_t header[MC_FRAME_LEN];
    struct fixture f;
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_hello(&f);
    mc_frame_encode(&frame, header);
    mc_store_u32(header + 20, MC_RPC_BODY_LEN_MAX + 1);
    raw_send(fd, header, sizeof(header));
    expect_closed_as_bad(&f, fd);
}

static void server__hello_that_is_too_long_is_not_read_to_its_end(void **state)
{
    static uint8_t noise[256 << 10];
    const struct mc_frame frame = {
        .version = 1, .method = FIXTURE_HELLO, .body_len = MC_RPC_BODY_LEN_MAX};
    uint8_t header[MC_FRAME_LEN];
    struct fixture f;
    int fd;

    (void)state;
    fixture_init(&f);
    f.server->hello_ns_max = UINT64_MAX; /* its length has to be the reason */
    fd = raw_connect(&f);
    mc_frame_encode(&frame, header);
    raw_send(fd, header, sizeof(header));
    (void)!send(fd, noise, sizeof(noise), MSG_DONTWAIT | MSG_NOSIGNAL);
    expect_closed_as_bad(&f, fd);
    assert_int_equal(f.hellos, 0);
}

static void server__peer_without_hello_is_closed_in_time(void **state)
{
    struct fixture f;
    int fd;

    (void)state;
    fixture_init(&f);
    f.server->hello_ns_max = 1;
    fd = raw_connect(&f);
    raw_send(fd, "MCK1", 4);
    expect_closed_as_bad(&f, fd);
}

static void server__peer_that_stops_inside_a_request_is_closed_in_time(void **state)
{
    uint8_t header[MC_FRAME_LEN];
    const struct mc_frame frame = {.version = 1, .method = FIXTURE_ECHO, .body_len = 10};
    struct fixture f;
    int fd, idle;

    (void)state;
    fixture_init(&f);
    f.server->frame_ns_max = 1;
    idle = raw_hello(&f);
    fd = raw_hello(&f);
    mc_frame_encode(&frame, header);
    raw_send(fd, header, sizeof(header));
    raw_send(fd, "12345", 5);
    assert_int_equal(raw_wait_closed(&f, fd), 0);
    assert_int_equal(connections(&f), 1); /* who owes nothing may be idle */
    (void)close(fd);
    (void)close(idle);
    fixture_fini(&f);
}

static void server__peer_that_goes_inside_a_request_leaves_nothing_behind(void **state)
{
    static uint8_t body[300000];
    struct fixture f;
    int fd;

    (void)state;
    for (size_t cut = 1; cut < MC_FRAME_LEN + sizeof(body); cut = cut * 3 + 1) {
        const struct mc_frame frame = {
            .version = 1, .method = FIXTURE_ECHO, .body_len = sizeof(body)};
        uint8_t header[MC_FRAME_LEN];

        fixture_init(&f);
        fd = raw_hello(&f);
        mc_frame_encode(&frame, header);
        raw_send(fd, header, cut < sizeof(header) ? cut : sizeof(header));
        if (cut > sizeof(header)) {
            raw_send(fd, body, cut - sizeof(header));
        }
        run_some(&f);
        (void)close(fd);
        RUN_UNTIL(&f, f.conns_closed == 1);
        assert_int_equal(f.handled, 0);
        fixture_fini(&f); /* counts blocks */
    }
}

static void server__refused_hello_carries_the_sentence_though_more_was_sent(void **state)
{
    static uint8_t noise[40000];
    struct mc_frame frame;
    struct fixture f;
    char body[512];
    int fd;

    (void)state;
    fixture_init(&f);
    f.hello_err = MOONCAKE_ENOTSUP;
    fd = raw_connect(&f);
    raw_send_frame(fd, FIXTURE_HELLO, 1, "hello", 5);
    raw_send_frame(fd, FIXTURE_ECHO, 2, noise, sizeof(noise));
    raw_receive_frame(&f, fd, &frame, body, sizeof(body));
    assert_int_equal(frame.status, MOONCAKE_ENOTSUP);
    assert_memory_equal(body, "protocols 1 to 1", 16);
    assert_int_equal(raw_wait_closed(&f, fd), 0);
    assert_int_equal(f.handled, 0);
    (void)close(fd);
    fixture_fini(&f);
}

/* ---- order and amount ---------------------------------------------------------------------- */

static void server__request_that_comes_byte_by_byte_is_answered(void **state)
{
    uint8_t bytes[MC_FRAME_LEN + 5];
    const struct mc_frame frame = {
        .version = 1, .method = FIXTURE_ECHO, .request_id = 9, .body_len = 5};
    struct mc_frame reply;
    struct fixture f;
    char body[8];
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_hello(&f);
    mc_frame_encode(&frame, bytes);
    memcpy(bytes + MC_FRAME_LEN, "abcde", 5);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        raw_send(fd, bytes + i, 1);
        run_some(&f);
    }
    raw_receive_frame(&f, fd, &reply, body, sizeof(body));
    assert_int_equal(reply.request_id, 9);
    assert_memory_equal(body, "abcde", 5);
    (void)close(fd);
    fixture_fini(&f);
}

static void server__many_requests_in_one_write_are_answered_in_order(void **state)
{
    enum { COUNT = 2000 };
    static uint8_t bytes[COUNT * (MC_FRAME_LEN + 4)];
    struct mc_frame reply;
    struct fixture f;
    uint32_t body;
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_hello(&f);
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct mc_frame frame = {
            .version = 1, .method = FIXTURE_ECHO, .request_id = i, .body_len = 4};

        mc_frame_encode(&frame, bytes + i * (MC_FRAME_LEN + 4));
        mc_store_u32(bytes + i * (MC_FRAME_LEN + 4) + MC_FRAME_LEN, i * 3);
    }
    raw_send(fd, bytes, sizeof(bytes));
    for (uint32_t i = 0; i < COUNT; i++) {
        raw_receive_frame(&f, fd, &reply, &body, sizeof(body));
        assert_int_equal(reply.request_id, i);
        assert_int_equal(body, i * 3);
    }
    (void)close(fd);
    fixture_fini(&f);
}

static void server__peer_that_does_not_read_is_not_read_from(void **state)
{
    enum { COUNT = 200 };
    const uint32_t reply_len = 1 << 20;
    uint8_t *body;
    struct mc_frame reply;
    struct fixture f;
    unsigned handled;
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_hello(&f);
    for (unsigned i = 0; i < COUNT; i++) {
        raw_send_frame(fd, FIXTURE_GROW, i, &reply_len, sizeof(reply_len));
    }
    RUN_UNTIL(&f, f.handled >= 8);
    do { /* until it rests */
        handled = f.handled;
        for (int i = 0; i < 20; i++) {
            run_some(&f);
        }
    } while (f.handled != handled);
    /* What the kernel buffers, what we queue, and one reply more; not all of it. */
    assert_in_range(handled, 8, 40);
    assert_true(f.server->output_total <= MC_STREAM_QUEUE_LEN_MAX + reply_len + MC_FRAME_LEN);
    body = mc_malloc(reply_len);
    assert_non_null(body);
    for (unsigned i = 0; i < COUNT; i++) {
        raw_receive_frame(&f, fd, &reply, body, reply_len);
        assert_int_equal(reply.request_id, i);
        assert_int_equal(reply.body_len, reply_len);
    }
    mc_free(body);
    RUN_UNTIL(&f, f.server->output_total == 0);
    (void)close(fd);
    fixture_fini(&f);
}

static void server__peer_with_too_many_unanswered_requests_is_not_read_from(void **state)
{
    enum { COUNT = MC_RPC_IN_FLIGHT_MAX + 500 };
    struct mc_frame reply;
    struct fixture f;
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_hello(&f);
    for (unsigned i = 0; i < COUNT; i++) {
        raw_send_frame(fd, FIXTURE_KEEP, i, NULL, 0);
    }
    RUN_UNTIL(&f, f.kept_count == MC_RPC_IN_FLIGHT_MAX);
    for (int i = 0; i < 20; i++) {
        run_some(&f);
    }
    assert_int_equal(f.kept_count, MC_RPC_IN_FLIGHT_MAX);
    for (unsigned i = 0; i < COUNT; i++) {
        RUN_UNTIL(&f, i < f.kept_count);
        mc_rpc_reply(f.kept[i], MOONCAKE_OK, NULL, 0);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        raw_receive_frame(&f, fd, &reply, NULL, 0);
        assert_int_equal(reply.request_id, i);
    }
    (void)close(fd);
    fixture_fini(&f);
}

static void server__connections_above_the_limit_are_closed_at_once(void **state)
{
    struct fixture f;
    int fd;

    (void)state;
    fixture_init(&f);
    mc_gauge_add(&f.server->stats.connections, MC_CONNECTIONS_MAX); /* as if they were there */
    fd = raw_connect(&f);
    assert_int_equal(raw_wait_closed(&f, fd), 0);
    assert_int_equal(mc_counter_get(&mc_rpc_server_stats(f.server)->refused), 1);
    mc_gauge_add(&f.server->stats.connections, -(int64_t)MC_CONNECTIONS_MAX);
    (void)close(fd);
    fd = raw_hello(&f);
    (void)close(fd);
    fixture_fini(&f);
}

static void server__much_unfinished_input_of_all_peers_costs_the_next_its_connection(void **state)
{
    static uint8_t part[100 << 10];
    const struct mc_frame frame = {
        .version = 1, .method = FIXTURE_ECHO, .body_len = 2 * sizeof(part)};
    uint8_t header[MC_FRAME_LEN];
    struct fixture f;
    int fd, other;

    (void)state;
    fixture_init(&f);
    other = raw_hello(&f);
    fd = raw_hello(&f);
    f.server->input_total += MC_RPC_INPUT_TOTAL_MAX; /* as if others had sent that much */
    mc_frame_encode(&frame, header);
    raw_send(fd, header, sizeof(header));
    raw_send(fd, part, sizeof(part));
    assert_int_equal(raw_wait_closed(&f, fd), 0);
    RUN_UNTIL(&f, connections(&f) == 1);
    assert_int_equal(f.server->input_total, MC_RPC_INPUT_TOTAL_MAX); /* all of its own is back */
    f.server->input_total = 0;
    (void)close(fd);
    (void)close(other);
    fixture_fini(&f);
}

static void server__much_unread_output_of_all_peers_stops_the_reading_from_each(void **state)
{
    enum { COUNT = 30 };
    const uint32_t reply_len = 1 << 20;
    struct mc_frame reply;
    struct fixture f;
    uint8_t *body;
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_hello(&f);
    f.server->output_total += MC_RPC_OUTPUT_TOTAL_MAX; /* as if others had not read that much */
    for (unsigned i = 0; i < COUNT; i++) {
        raw_send_frame(fd, FIXTURE_GROW, i, &reply_len, sizeof(reply_len));
    }
    RUN_UNTIL(&f, f.handled > 0);
    for (int i = 0; i < 20; i++) {
        run_some(&f);
    }
    /* What the kernel takes, and the one that it does not: none of the usual 8 MiB is queued. */
    assert_true(f.server->output_total - MC_RPC_OUTPUT_TOTAL_MAX <= reply_len + MC_FRAME_LEN);
    assert_true(f.handled < COUNT);
    body = mc_malloc(reply_len);
    assert_non_null(body);
    for (unsigned i = 0; i < COUNT; i++) {
        raw_receive_frame(&f, fd, &reply, body, reply_len);
        assert_int_equal(reply.request_id, i);
    }
    mc_free(body);
    f.server->output_total -= MC_RPC_OUTPUT_TOTAL_MAX;
    (void)close(fd);
    fixture_fini(&f);
}

static void server__serves_a_thousand_connections(void **state)
{
    enum { COUNT = 1000 };
    static int fds[COUNT];
    struct rlimit limit;
    struct mc_frame reply;
    struct fixture f;
    uint32_t body;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    fixture_init(&f);
    for (uint32_t i = 0; i < COUNT; i++) {
        fds[i] = raw_connect(&f);
        raw_send_frame(fds[i], FIXTURE_HELLO, 0, NULL, 0);
        raw_send_frame(fds[i], FIXTURE_ECHO, i, &i, sizeof(i));
        if (i % 100 == 99) {
            run_some(&f);
        }
    }
    RUN_UNTIL(&f, connections(&f) == COUNT && f.handled == COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        raw_receive_frame(&f, fds[i], &reply, &body, 0);
        raw_receive_frame(&f, fds[i], &reply, &body, sizeof(body));
        assert_int_equal(reply.request_id, i);
        assert_int_equal(body, i);
        (void)close(fds[i]);
    }
    RUN_UNTIL(&f, connections(&f) == 0);
    assert_int_equal(f.conns_closed, COUNT);
    fixture_fini(&f);
}

static void server__memory_of_requests_is_reused(void **state)
{
    static uint8_t body[51200]; /* 512 keys of 100 bytes; two of them do not fit into one read */
    static uint8_t got[sizeof(body)];
    struct mc_frame reply;
    struct fixture f;
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_hello(&f);
    for (unsigned i = 0; i < 60; i++) {
        if (i == 30) {
            mc_mem_fail_after(0); /* steady state: there is no allocation that could fail */
        }
        for (unsigned j = 0; j < 3; j++) {
            raw_send_frame(fd, FIXTURE_ECHO, j, body, sizeof(body));
        }
        for (unsigned j = 0; j < 3; j++) {
            raw_receive_frame(&f, fd, &reply, got, sizeof(got));
            assert_int_equal(reply.request_id, j);
        }
    }
    /* Had one been made meanwhile, it would have failed and closed the connection. */
    assert_int_equal(f.conns_closed, 0);
    assert_null(mc_malloc(1)); /* and this is the one that was to fail */
    mc_mem_fail_after(-1);
    (void)close(fd);
    fixture_fini(&f);
}

/* ---- drain ---------------------------------------------------------------------------------- */

static void on_drained(void *arg)
{
    *(bool *)arg = true;
}

static void server__drain_lets_a_request_be_answered_and_closes_the_idle(void **state)
{
    struct mc_frame reply;
    struct fixture f;
    int busy, idle;
    char body[4];

    (void)state;
    fixture_init(&f);
    idle = raw_hello(&f);
    busy = raw_hello(&f);
    raw_send_frame(busy, FIXTURE_KEEP, 5, NULL, 0);
    RUN_UNTIL(&f, f.kept_count == 1);
    mc_rpc_server_drain(f.server, 60000, on_drained, &f.drained);
    assert_int_equal(raw_wait_closed(&f, idle), 0);
    (void)close(idle);
    assert_false(f.drained);
    mc_rpc_reply(f.kept[0], MOONCAKE_OK, "done", 4);
    raw_receive_frame(&f, busy, &reply, body, sizeof(body));
    assert_memory_equal(body, "done", 4);
    assert_int_equal(raw_wait_closed(&f, busy), 0);
    (void)close(busy);
    RUN_UNTIL(&f, f.drained);
    fixture_fini(&f);
}

static void server__drain_waits_no_longer_than_its_grace(void **state)
{
    struct fixture f;
    int fd;

    (void)state;
    fixture_init(&f);
    fd = raw_hello(&f);
    raw_send_frame(fd, FIXTURE_KEEP, 5, NULL, 0);
    RUN_UNTIL(&f, f.kept_count == 1);
    mc_rpc_server_drain(f.server, 20, on_drained, &f.drained);
    RUN_UNTIL(&f, f.drained);
    assert_null(f.kept[0]->conn);
    mc_rpc_reply(f.kept[0], MOONCAKE_OK, "late", 4);
    (void)close(fd);
    fixture_fini(&f);
}

static void server__drain_without_connections_is_done_from_the_loop(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f);
    mc_rpc_server_drain(f.server, 60000, on_drained, &f.drained);
    assert_false(f.drained);
    RUN_UNTIL(&f, f.drained);
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server__garbage_closes_the_connection),
        cmocka_unit_test(server__request_before_hello_closes_the_connection),
        cmocka_unit_test(server__reply_closes_the_connection),
        cmocka_unit_test(server__request_of_an_unknown_protocol_closes_the_connection),
        cmocka_unit_test(server__forged_body_length_closes_the_connection),
        cmocka_unit_test(server__hello_that_is_too_long_is_not_read_to_its_end),
        cmocka_unit_test(server__peer_without_hello_is_closed_in_time),
        cmocka_unit_test(server__peer_that_stops_inside_a_request_is_closed_in_time),
        cmocka_unit_test(server__peer_that_goes_inside_a_request_leaves_nothing_behind),
        cmocka_unit_test(server__refused_hello_carries_the_sentence_though_more_was_sent),
        cmocka_unit_test(server__request_that_comes_byte_by_byte_is_answered),
        cmocka_unit_test(server__many_requests_in_one_write_are_answered_in_order),
        cmocka_unit_test(server__peer_that_does_not_read_is_not_read_from),
        cmocka_unit_test(server__peer_with_too_many_unanswered_requests_is_not_read_from),
        cmocka_unit_test(server__connections_above_the_limit_are_closed_at_once),
        cmocka_unit_test(server__much_unfinished_input_of_all_peers_costs_the_next_its_connection),
        cmocka_unit_test(server__much_unread_output_of_all_peers_stops_the_reading_from_each),
        cmocka_unit_test(server__serves_a_thousand_connections),
        cmocka_unit_test(server__memory_of_requests_is_reused),
        cmocka_unit_test(server__drain_lets_a_request_be_answered_and_closes_the_idle),
        cmocka_unit_test(server__drain_waits_no_longer_than_its_grace),
        cmocka_unit_test(server__drain_without_connections_is_done_from_the_loop),
    };

    return cmocka_run_group_tests_name("rpc/server", tests, NULL, NULL);
}
