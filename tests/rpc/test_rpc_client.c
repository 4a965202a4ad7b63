/* A client and servers that fail it: lost connections, fail-over, raw sockets that misbehave. */
#include "rpc/rpc_fixture.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/limits.h"

/* A server that does what a test makes it do, byte by byte. */
struct fake {
    int listen_fd;
    int fd; /* the client's connection */
    char address[64];
};

static void fake_open(struct fake *fake)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);

    fake->fd = -1;
    fake->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listen_fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fake->listen_fd, 8), 0);
    assert_int_equal(getsockname(fake->listen_fd, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(fake->address, sizeof(fake->address), "127.0.0.1:%u", ntohs(at.sin_port));
}

static void fake_accept(struct fixture *f, struct fake *fake)
{
    RUN_UNTIL(f, (fake->fd = accept4(fake->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0);
}

static void fake_close(struct fake *fake)
{
    if (fake->fd >= 0) {
        (void)close(fake->fd);
    }
    (void)close(fake->listen_fd);
}

static void fake_reply(struct fake *fake, uint16_t method, uint64_t id, int32_t status,
                       const void *body, uint32_t body_len)
{
    const struct mc_frame frame = {
        .version = 1,
        .flags = MC_FRAME_REPLY,
        .method = method,
        .request_id = id,
        .status = status,
        .body_len = body_len,
    };
    uint8_t header[MC_FRAME_LEN];

    mc_frame_encode(&frame, header);
    raw_send(fake->fd, header, sizeof(header));
    if (body_len > 0) {
        raw_send(fake->fd, body, body_len);
    }
}

/* Client of @p fake with one call waiting. */
static void open_with_call(struct fixture *f, struct fake *fake, struct call *call)
{
    fixture_init(f);
    mc_rpc_client_destroy(&f->client);
    fake_open(fake);
    fixture_open_client(f, fake->address);
    call_init(call, 10000);
    call_start(f, call, FIXTURE_ECHO, "abc", 3);
    fake_accept(f, fake);
}

/* The same, with Hello done and the request received. Returns its id. */
static uint64_t open_with_call_sent(struct fixture *f, struct fake *fake, struct call *call)
{
    struct mc_frame frame;
    char body[8];

    open_with_call(f, fake, call);
    raw_receive_frame(f, fake->fd, &frame, body, sizeof(body));
    assert_int_equal(frame.method, FIXTURE_HELLO);
    assert_int_equal(frame.flags, 0);
    assert_memory_equal(body, "hello", 5);
    fake_reply(fake, FIXTURE_HELLO, frame.request_id, 0, NULL, 0);
    raw_receive_frame(f, fake->fd, &frame, body, sizeof(body));
    assert_int_equal(frame.method, FIXTURE_ECHO);
    assert_memory_equal(body, "abc", 3);
    return frame.request_id;
}

static void expect_error(struct fixture *f, struct fake *fake, struct call *call, const char *word)
{
    run_until(f, &call->done);
    assert_int_equal(call->err, MOONCAKE_ERPC);
    assert_non_null(strstr(call->sentence, fake->address));
    if (strstr(call->sentence, word) == NULL) {
        fail_msg("\"%s\" is not in: %s", word, call->sentence);
    }
    fake_close(fake);
    fixture_fini(f);
}

/* ---- peers that speak something else -------------------------------------------------------- */

static void expect_said_of(const char *first_bytes, const char *word)
{
    struct fixture f;
    struct fake fake;
    struct call call;

    open_with_call(&f, &fake, &call);
    raw_send(fake.fd, first_bytes, strlen(first_bytes));
    expect_error(&f, &fake, &call, word);
}

static void client__says_that_a_peer_speaks_another_protocol(void **state)
{
    (void)state;
    expect_said_of("some other protocol, of 24 bytes",
                   "is no master, it begins with \"some other protocol, of 24 bytes\"");
    expect_said_of("\1\2\3\4\5\6\1\2\3\4\5\6\1\2\3\4\5\6\1\2\3\4\5\6",
                   "does not speak the Mooncake control");
}

/* At once, by bytes that are fewer than a frame has. */
static void client__names_what_it_found_in_the_place_of_a_master(void **state)
{
    (void)state;
    expect_said_of("HTTP/1.1 400 Bad", "an HTTP server");
    expect_said_of("SSH-2.0-x\r\n", "an SSH server");
    expect_said_of("MCDH\1", "the data port of a store");
}

/* A server that reads lines of text refuses it, instead of waiting for the end of one. */
static void client__says_hello_with_ends_of_lines(void **state)
{
    struct fixture f;
    struct fake fake;
    struct call call;
    struct mc_frame hello;
    char body[64];

    (void)state;
    open_with_call(&f, &fake, &call);
    raw_receive_frame(&f, fake.fd, &hello, body, sizeof(body));
    assert_memory_equal(&hello.request_id, "\r\n\r\n\r\n\r\n", 8);
    raw_send(fake.fd, "HTTP/1.1 400 Bad", 16);
    expect_error(&f, &fake, &call, "an HTTP server");
}

static void client__says_that_a_peer_closed_instead_of_answering_hello(void **state)
{
    struct fixture f;
    struct fake fake;
    struct call call;

    (void)state;
    open_with_call(&f, &fake, &call);
    (void)close(fake.fd);
    fake.fd = -1;
    expect_error(&f, &fake, &call, "is this the RPC port?");
    assert_false(call.rpc.maybe_executed);
}

static void client__gives_up_a_peer_that_does_not_answer_hello(void **state)
{
    struct mc_rpc_client_options options = fixture_options;
    struct fixture f;
    struct fake fake;
    struct call call;

    (void)state;
    fixture_init(&f);
    mc_rpc_client_destroy(&f.client);
    fake_open(&fake);
    options.connect_timeout_ms = 50;
    assert_int_equal(mc_rpc_client_create(f.loop, fake.address, &options, &f.client), MOONCAKE_OK);
    call_init(&call, 10000);
    call_start(&f, &call, FIXTURE_ECHO, "abc", 3);
    expect_error(&f, &fake, &call, "accepted the connection but said nothing within");
}

static void client__tells_why_it_was_refused_and_cleans_the_sentence(void **state)
{
    struct mc_frame frame;
    struct fixture f;
    struct fake fake;
    struct call call;
    char body[8];

    (void)state;
    open_with_call(&f, &fake, &call);
    raw_receive_frame(&f, fake.fd, &frame, body, sizeof(body));
    fake_reply(&fake, FIXTURE_HELLO, frame.request_id, MOONCAKE_ENOTSUP, "go\033[2Jaway\n", 11);
    expect_error(&f, &fake, &call, "go?[2Jaway?");
}

static mooncake_err refuse_hello(void *arg, const uint8_t *body, size_t body_len)
{
    (void)arg;
    (void)body;
    (void)body_len;
    return mc_err_set(MOONCAKE_ENOTSUP, "it speaks protocols 7 to 9, we speak 1 to 1");
}

static void client__may_refuse_the_peer_after_hello(void **state)
{
    struct mc_rpc_client_options options = fixture_options;
    struct fixture f;
    struct call call;

    (void)state;
    fixture_init(&f);
    mc_rpc_client_destroy(&f.client);
    options.on_hello = refuse_hello;
    assert_int_equal(mc_rpc_client_create(f.loop, f.address, &options, &f.client), MOONCAKE_OK);
    call_init(&call, 10000);
    call_start(&f, &call, FIXTURE_ECHO, "abc", 3);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_ERPC);
    assert_non_null(strstr(call.sentence, "it speaks protocols 7 to 9, we speak 1 to 1"));
    assert_int_equal(f.handled, 0);
    fixture_fini(&f);
}

static void client__request_instead_of_an_answer_ends_the_connection(void **state)
{
    struct fixture f;
    struct fake fake;
    struct call call;
    uint64_t id;

    (void)state;
    id = open_with_call_sent(&f, &fake, &call);
    raw_send_frame(fake.fd, FIXTURE_ECHO, id, "abc", 3);
    expect_error(&f, &fake, &call, "sent a request where an answer was due");
}

static void client__answer_with_a_forged_length_ends_the_connection(void **state)
{
    const struct mc_frame frame = {.version = 1, .flags = MC_FRAME_REPLY, .method = FIXTURE_ECHO};
    uint8_t header[MC_FRAME_LEN];
    struct fixture f;
    struct fake fake;
    struct call call;

    (void)state;
    (void)open_with_call_sent(&f, &fake, &call);
    mc_frame_encode(&frame, header);
    mc_store_u32(header + 20, UINT32_MAX);
    raw_send(fake.fd, header, sizeof(header));
    expect_error(&f, &fake, &call, "body of 4294967295 bytes");
}

static void client__peer_that_goes_inside_an_answer_fails_the_call(void **state)
{
    const struct mc_frame frame = {
        .version = 1, .flags = MC_FRAME_REPLY, .method = FIXTURE_ECHO, .body_len = 100000};
    static uint8_t body[50000];
    uint8_t header[MC_FRAME_LEN];
    struct fixture f;
    struct fake fake;
    struct call call;

    (void)state;
    (void)open_with_call_sent(&f, &fake, &call);
    mc_frame_encode(&frame, header);
    raw_send(fake.fd, header, sizeof(header));
    raw_send(fake.fd, body, sizeof(body));
    (void)close(fake.fd);
    fake.fd = -1;
    run_until(&f, &call.done);
    assert_true(call.rpc.maybe_executed);
    expect_error(&f, &fake, &call, "closed the connection");
}

static void client__answers_to_nobody_are_dropped(void **state)
{
    struct fixture f;
    struct fake fake;
    struct call call;
    uint64_t id;

    (void)state;
    id = open_with_call_sent(&f, &fake, &call);
    fake_reply(&fake, FIXTURE_ECHO, id + 1, 0, "no", 2);
    fake_reply(&fake, FIXTURE_ECHO, id + MC_RPC_IN_FLIGHT_MAX, 0, "no", 2);
    fake_reply(&fake, FIXTURE_ECHO, UINT64_MAX, 0, "no", 2);
    fake_reply(&fake, FIXTURE_ECHO, 0, 0, "no", 2);
    fake_reply(&fake, FIXTURE_ECHO, id, 0, "yes", 3);
    fake_reply(&fake, FIXTURE_ECHO, id, 0, "twice", 5);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_OK);
    assert_memory_equal(call.body, "yes", 3);
    run_some(&f);
    assert_int_equal(call.dones, 1);
    assert_true(mc_rpc_client_is_up(f.client));
    call_fini(&call);
    fake_close(&fake);
    fixture_fini(&f);
}

static void client__status_that_is_not_in_the_list_becomes_an_internal_error(void **state)
{
    static const int32_t statuses[] = {1, -3, INT32_MIN, INT32_MAX};

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(statuses); i++) {
        struct fixture f;
        struct fake fake;
        struct call call;
        uint64_t id = open_with_call_sent(&f, &fake, &call);

        fake_reply(&fake, FIXTURE_ECHO, id, statuses[i], NULL, 0);
        run_until(&f, &call.done);
        assert_int_equal(call.err, MOONCAKE_EINTERNAL);
        fake_close(&fake);
        fixture_fini(&f);
    }
}

static void client__frozen_peer_costs_a_call_its_deadline_and_then_the_connection(void **state)
{
    struct mc_rpc_client_options options = fixture_options;
    struct mc_frame frame;
    struct fixture f;
    struct fake fake;
    struct call call;
    char body[8];

    (void)state;
    fixture_init(&f);
    mc_rpc_client_destroy(&f.client);
    fake_open(&fake);
    options.connect_timeout_ms = 1000;
    assert_int_equal(mc_rpc_client_create(f.loop, fake.address, &options, &f.client), MOONCAKE_OK);
    call_init(&call, 10000);
    call_start(&f, &call, FIXTURE_ECHO, "abc", 3);
    fake_accept(&f, &fake);
    raw_receive_frame(&f, fake.fd, &frame, body, sizeof(body));
    fake_reply(&fake, FIXTURE_HELLO, frame.request_id, 0, NULL, 0);
    raw_receive_frame(&f, fake.fd, &frame, body, sizeof(body));
    fake_reply(&fake, FIXTURE_ECHO, frame.request_id, 0, NULL, 0);
    run_until(&f, &call.done);
    call_fini(&call);

    call_init(&call, 20); /* less than the patience with a connection */
    call_start(&f, &call, FIXTURE_ECHO, "abc", 3);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_ETIMEDOUT);
    assert_true(mc_rpc_client_is_up(f.client));
    call_init(&call, 1100);
    call_start(&f, &call, FIXTURE_ECHO, "abc", 3);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_ETIMEDOUT);
    RUN_UNTIL(&f, !mc_rpc_client_is_up(f.client));
    fake_close(&fake);
    fixture_fini(&f);
}

/* ---- losing a server and finding one --------------------------------------------------------- */

static void client__comes_back_by_itself_after_the_server_did(void **state)
{
    struct fixture f;
    struct call call;
    char address[64];

    (void)state;
    fixture_init(&f);
    (void)snprintf(address, sizeof(address), "%s", f.address);
    call_init(&call, 10000);
    call_start(&f, &call, FIXTURE_KEEP, NULL, 0);
    RUN_UNTIL(&f, f.kept_count == 1);
    assert_int_equal(f.ups, 1);
    mc_rpc_server_close(&f.server);
    mc_rpc_reply(f.kept[0], MOONCAKE_OK, "x", 1); /* too late, harmless */
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_ERPC);
    assert_true(call.rpc.maybe_executed);
    assert_int_equal(f.downs, 1);
    fixture_open_server(&f, address);
    RUN_UNTIL(&f, f.ups == 2); /* no call asks for it */
    call_init(&call, 10000);
    call_start(&f, &call, FIXTURE_ECHO, NULL, 0);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_OK);
    call_fini(&call);
    fixture_fini(&f);
}

static void client__without_a_server_fails_each_call_once_and_backs_off(void **state)
{
    struct fixture f;
    struct call calls[50];
    uint64_t start_ns;

    (void)state;
    fixture_init(&f);
    mc_rpc_server_close(&f.server);
    start_ns = mc_monotonic_ns();
    for (size_t i = 0; i < MC_ARRAY_LEN(calls); i++) {
        call_init(&calls[i], 10000);
        call_start(&f, &calls[i], FIXTURE_ECHO, NULL, 0);
        run_until(&f, &calls[i].done);
        assert_int_equal(calls[i].err, MOONCAKE_ERPC);
        assert_false(calls[i].rpc.maybe_executed);
    }
    /* 50 attempts with pauses that double from 1 to 20 ms, and are cut by half at most */
    assert_true(mc_monotonic_ns() - start_ns > 400 * MC_NS_PER_MS);
    for (size_t i = 0; i < MC_ARRAY_LEN(calls); i++) {
        assert_int_equal(calls[i].dones, 1);
    }
    fixture_fini(&f);
}

static void client__call_in_a_back_off_may_end_by_its_deadline(void **state)
{
    struct mc_rpc_client_options options = fixture_options;
    struct fixture f;
    struct call call;

    (void)state;
    fixture_init(&f);
    mc_rpc_server_close(&f.server);
    mc_rpc_client_destroy(&f.client);
    options.backoff_min_ms = 60000;
    options.backoff_max_ms = 60000;
    assert_int_equal(mc_rpc_client_create(f.loop, f.address, &options, &f.client), MOONCAKE_OK);
    call_init(&call, 10000);
    call_start(&f, &call, FIXTURE_ECHO, NULL, 0);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_ERPC);
    call_init(&call, 30);
    call_start(&f, &call, FIXTURE_ECHO, NULL, 0);
    run_until(&f, &call.done);
    assert_true(call.err == MOONCAKE_ETIMEDOUT);
    assert_false(call.rpc.maybe_executed);
    fixture_fini(&f);
}

static void client__waiting_requests_are_bounded_in_bytes(void **state)
{
    const size_t len = MC_RPC_BODY_LEN_MAX / 2;
    struct call calls[4];
    struct fixture f;
    unsigned refused = 0;
    uint8_t *body;

    (void)state;
    fixture_init(&f);
    body = mc_calloc(1, len);
    assert_non_null(body);
    for (size_t i = 0; i < MC_ARRAY_LEN(calls); i++) {
        call_init(&calls[i], 10000);
        if (mc_rpc_call_start(f.client, &calls[i].rpc, FIXTURE_KEEP, body, len) != MOONCAKE_OK) {
            refused++;
        }
    }
    assert_int_equal(refused, 2);
    mc_free(body);
    mc_rpc_client_destroy(&f.client);
    fixture_fini(&f);
}

static void client__new_address_gets_what_waits_and_fails_what_was_sent(void **state)
{
    struct fixture f;
    struct fake fake;
    struct call sent, waiting;

    (void)state;
    (void)open_with_call_sent(&f, &fake, &sent);
    assert_int_equal(mc_rpc_client_set_address(f.client, "nonsense"), MOONCAKE_EINVAL);
    assert_int_equal(mc_rpc_client_set_address(f.client, f.address), MOONCAKE_OK);
    assert_string_equal(mc_rpc_client_address(f.client), f.address);
    assert_false(sent.done); /* told from the loop */
    call_init(&waiting, 10000);
    call_start(&f, &waiting, FIXTURE_ECHO, "w", 1);
    run_until(&f, &waiting.done);
    assert_int_equal(waiting.err, MOONCAKE_OK);
    assert_true(sent.done);
    assert_int_equal(sent.err, MOONCAKE_ERPC);
    assert_true(sent.rpc.maybe_executed);
    assert_int_equal(f.ups, 2);
    assert_int_equal(f.downs, 1);
    call_fini(&waiting);
    fake_close(&fake);
    fixture_fini(&f);
}

static void client__destroyed_right_after_a_new_address_tells_each_call_once(void **state)
{
    struct fixture f;
    struct fake fake;
    struct call sent;

    (void)state;
    (void)open_with_call_sent(&f, &fake, &sent);
    assert_int_equal(mc_rpc_client_set_address(f.client, f.address), MOONCAKE_OK);
    mc_rpc_client_destroy(&f.client);
    assert_int_equal(sent.dones, 1);
    run_some(&f);
    assert_int_equal(sent.dones, 1);
    fake_close(&fake);
    fixture_fini(&f);
}

static void client__survives_each_failing_allocation(void **state)
{
    bool failed = true;

    (void)state;
    for (int n = 0; failed; n++) {
        struct fixture f;
        struct call call;
        mooncake_err err;

        assert_true(n < 100);
        fixture_init(&f);
        call_init(&call, 10000);
        mc_mem_fail_after(n);
        err = mc_rpc_call_start(f.client, &call.rpc, FIXTURE_FAIL, "abc", 3);
        if (err == MOONCAKE_OK) {
            run_until(&f, &call.done);
            err = call.err;
        }
        mc_mem_fail_after(-1);
        failed = err != MOONCAKE_ENOENT;
        fixture_fini(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client__says_that_a_peer_speaks_another_protocol),
        cmocka_unit_test(client__names_what_it_found_in_the_place_of_a_master),
        cmocka_unit_test(client__says_hello_with_ends_of_lines),
        cmocka_unit_test(client__says_that_a_peer_closed_instead_of_answering_hello),
        cmocka_unit_test(client__gives_up_a_peer_that_does_not_answer_hello),
        cmocka_unit_test(client__tells_why_it_was_refused_and_cleans_the_sentence),
        cmocka_unit_test(client__may_refuse_the_peer_after_hello),
        cmocka_unit_test(client__request_instead_of_an_answer_ends_the_connection),
        cmocka_unit_test(client__answer_with_a_forged_length_ends_the_connection),
        cmocka_unit_test(client__peer_that_goes_inside_an_answer_fails_the_call),
        cmocka_unit_test(client__answers_to_nobody_are_dropped),
        cmocka_unit_test(client__status_that_is_not_in_the_list_becomes_an_internal_error),
        cmocka_unit_test(client__frozen_peer_costs_a_call_its_deadline_and_then_the_connection),
        cmocka_unit_test(client__comes_back_by_itself_after_the_server_did),
        cmocka_unit_test(client__without_a_server_fails_each_call_once_and_backs_off),
        cmocka_unit_test(client__call_in_a_back_off_may_end_by_its_deadline),
        cmocka_unit_test(client__waiting_requests_are_bounded_in_bytes),
        cmocka_unit_test(client__new_address_gets_what_waits_and_fails_what_was_sent),
        cmocka_unit_test(client__destroyed_right_after_a_new_address_tells_each_call_once),
        cmocka_unit_test(client__survives_each_failing_allocation),
    };

    return cmocka_run_group_tests_name("rpc/client", tests, NULL, NULL);
}
