/* What a real master does with bytes that no honest client sends. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "master/daemon.h"
#include "rpc/frame.h"

static int set_up(void **state)
{
    static struct daemon d;

    daemon_start(&d, NULL);
    *state = &d;
    return daemon_mount(&d, "seg-a", 11, 1u << 20) == MOONCAKE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    return daemon_stop(*state, SIGTERM) == 0 ? 0 : -1;
}

/* A raw connection that has said Hello. */
static int greeted(const struct daemon *d)
{
    char body[256];
    int fd = daemon_connect(d->rpc_port);

    assert_int_equal(daemon_hello(fd, MC_PROTOCOL_MIN, MC_PROTOCOL_MAX, body, sizeof(body)),
                     MOONCAKE_OK);
    return fd;
}

static void hello__without_a_common_protocol_is_refused_with_both_named(void **state)
{
    struct daemon *d = *state;
    char body[512];
    int fd = daemon_connect(d->rpc_port);

    assert_int_equal(daemon_hello(fd, 7, 9, body, sizeof(body)), MOONCAKE_ENOTSUP);
    assert_non_null(strstr(body, "test_raw 9.9 speaks protocol 7 to 9"));
    assert_non_null(strstr(body, d->stub.master_program));
    assert_non_null(strstr(body, "speaks 1 to 1"));
    assert_true(daemon_is_closed(fd));
    (void)close(fd);
    fd = daemon_connect(d->rpc_port);
    assert_int_equal(daemon_hello(fd, 9, 7, body, sizeof(body)), MOONCAKE_EINVAL);
    (void)close(fd);
}

static void hello__of_a_newer_program_agrees_on_ours(void **state)
{
    struct daemon *d = *state;
    char body[512];
    int fd = daemon_connect(d->rpc_port);

    assert_int_equal(daemon_hello(fd, 1, 200, body, sizeof(body)), MOONCAKE_OK);
    assert_int_equal(body[0], 1 << 3); /* protocol */
    assert_int_equal(body[1], MC_PROTOCOL_MAX);
    assert_non_null(strstr(body, d->stub.master_program));
    (void)close(fd);
}

static void hello__comes_first_and_once(void **state)
{
    struct daemon *d = *state;
    char body[512];
    int fd = daemon_connect(d->rpc_port);

    daemon_send_frame(fd, MC_METHOD_POOL_STATUS, 1, "", 0, 0);
    assert_true(daemon_is_closed(fd));
    (void)close(fd);
    fd = greeted(d);
    daemon_send_frame(fd, MC_METHOD_HELLO, 2, "", 0, 0);
    assert_int_equal(daemon_read_reply(fd, 2, body, sizeof(body)), MOONCAKE_EINVAL);
    (void)close(fd);
}

static void request__of_an_unknown_method_leaves_the_connection_usable(void **state)
{
    static const uint16_t unknown[] = {0, 2, 9, MC_METHOD_NUMBER_MAX + 1, 1000, UINT16_MAX};
    struct daemon *d = *state;
    int fd = greeted(d);
    char body[512], wanted[64];
    size_t i;

    for (i = 0; i < MC_ARRAY_LEN(unknown); i++) {
        daemon_send_frame(fd, unknown[i], 10 + i, "junk", 4, 4);
        assert_int_equal(daemon_read_reply(fd, 10 + i, body, sizeof(body)), MOONCAKE_ENOTSUP);
        (void)snprintf(wanted, sizeof(wanted), "method %u", (unsigned)unknown[i]);
        assert_non_null(strstr(body, wanted));
    }
    daemon_send_frame(fd, MC_METHOD_POOL_STATUS, 99, "", 0, 0);
    assert_int_equal(daemon_read_reply(fd, 99, body, sizeof(body)), MOONCAKE_OK);
    (void)close(fd);
}

static void request__that_cannot_be_decoded_leaves_the_connection_usable(void **state)
{
    static const unsigned methods[] = {
#define NUMBER(number, NAME, name, request, reply) (number),
        MC_METHOD_LIST(NUMBER)
#undef NUMBER
    };
    struct daemon *d = *state;
    int fd = greeted(d);
    char body[512];
    size_t i;

    for (i = 0; i < MC_ARRAY_LEN(methods); i++) {
        daemon_send_frame(fd, (uint16_t)methods[i], 10 + i, "\x0b\xff\xff\xff", 4, 4);
        assert_int_equal(daemon_read_reply(fd, 10 + i, body, sizeof(body)), MOONCAKE_EINVAL);
        assert_true(body[0] != '\0'); /* a sentence says why */
    }
    daemon_send_frame(fd, MC_METHOD_POOL_STATUS, 99, "", 0, 0);
    assert_int_equal(daemon_read_reply(fd, 99, body, sizeof(body)), MOONCAKE_OK);
    (void)close(fd);
}

static void request__above_the_body_limit_is_refused_before_it_is_read(void **state)
{
    struct daemon *d = *state;
    int fd = greeted(d);

    daemon_send_frame(fd, MC_METHOD_EXIST, 5, "", MC_RPC_BODY_LEN_MAX + 1, 0);
    assert_true(daemon_is_closed(fd));
    (void)close(fd);
    assert_int_equal(daemon_exist(d, "k"), MOONCAKE_ENOENT); /* others are served */
}

/* The largest lawful body: 64 MiB of one key. It is one bad item and no bad request. */
static void request__of_exactly_the_body_limit_is_answered(void **state)
{
    struct daemon *d = *state;
    static uint8_t filler[1 << 16];
    /* keys (field 2) { bytes (field 1): the rest; lens (field 2): one varint of 4 bytes } */
    const uint32_t inner_len = MC_RPC_BODY_LEN_MAX - 5, bytes_len = inner_len - 5 - 6;
    uint8_t head[10], tail[6];
    uint32_t left = bytes_len;
    char body[512];
    int fd = greeted(d);

    head[0] = 2 << 3 | 2;
    head[5] = 1 << 3 | 2;
    tail[0] = 2 << 3 | 2;
    tail[1] = 4;
    for (unsigned i = 0; i < 4; i++) {
        unsigned more = i < 3 ? 0x80 : 0;

        head[1 + i] = (uint8_t)((inner_len >> (7 * i) & 0x7f) | more);
        head[6 + i] = (uint8_t)((bytes_len >> (7 * i) & 0x7f) | more);
        tail[2 + i] = (uint8_t)((bytes_len >> (7 * i) & 0x7f) | more);
    }
    memset(filler, 'x', sizeof(filler));
    daemon_send_frame(fd, MC_METHOD_EXIST, 6, head, MC_RPC_BODY_LEN_MAX, sizeof(head));
    while (left > 0) {
        uint32_t part = left < sizeof(filler) ? left : sizeof(filler);

        daemon_send(fd, filler, part);
        left -= part;
    }
    daemon_send(fd, tail, sizeof(tail));
    assert_int_equal(daemon_read_reply(fd, 6, body, sizeof(body)), MOONCAKE_OK);
    assert_int_equal(body[0], 1 << 3 | 2); /* status: one number, zigzag of -400 */
    assert_int_equal(body[1], 2);
    assert_int_equal((uint8_t)body[2] | (uint8_t)body[3] << 8, 0x069f);
    (void)close(fd);
}

static void bytes__that_are_no_frame_close_the_connection(void **state)
{
    struct daemon *d = *state;
    int fd = daemon_connect(d->rpc_port);

    daemon_send(fd, "GET / HTTP/1.1\r\nHost: example\r\n\r\n", 33);
    assert_true(daemon_is_closed(fd));
    (void)close(fd);
    fd = greeted(d);
    daemon_send(fd, "0123456789abcdef0123456789abcdef", 32);
    assert_true(daemon_is_closed(fd));
    (void)close(fd);
    assert_int_equal(daemon_exist(d, "k"), MOONCAKE_ENOENT);
}

static void keys__that_are_bad_cost_only_their_item(void **state)
{
    static char long_key[MC_KEY_LEN_MAX + 1];
    struct daemon *d = *state;
    const struct mc_key keys[] = {
        {.bytes = "a\0b", .len = 3},
        {.bytes = "", .len = 0},
        {.bytes = long_key, .len = MC_KEY_LEN_MAX + 1},
        {.bytes = "k", .len = 1},
    };
    const struct mc_keys_request request = {.keys = keys, .count = MC_ARRAY_LEN(keys)};
    const uint64_t attempts[MC_ARRAY_LEN(keys)] = {0};
    const struct mc_put_end_request end = {
        .keys = keys, .attempts = attempts, .count = MC_ARRAY_LEN(keys)};
    static const enum mc_method methods[] = {MC_METHOD_QUERY, MC_METHOD_EXIST, MC_METHOD_REMOVE,
                                             MC_METHOD_PUT_END, MC_METHOD_PUT_REVOKE};
    size_t i, m;

    memset(long_key, 'x', sizeof(long_key));
    for (m = 0; m < MC_ARRAY_LEN(methods); m++) {
        union {
            struct mc_query_reply query;
            struct mc_exist_reply exist;
            struct mc_status_reply status;
        } reply;
        const mooncake_err *statuses;
        bool ends = methods[m] == MC_METHOD_PUT_END || methods[m] == MC_METHOD_PUT_REVOKE;

        assert_int_equal(
            daemon_call(d, methods[m], ends ? (const void *)&end : (const void *)&request, &reply),
            MOONCAKE_OK);
        statuses = methods[m] == MC_METHOD_QUERY   ? reply.query.statuses
                   : methods[m] == MC_METHOD_EXIST ? reply.exist.statuses
                                                   : reply.status.statuses;
        for (i = 0; i < 3; i++) {
            assert_int_equal(statuses[i], MOONCAKE_EBADKEY);
        }
        assert_int_equal(statuses[3], MOONCAKE_ENOENT);
    }
}

/* A peer that goes away in the middle of a frame, and in the middle of a removal of everything. */
static void peers__that_vanish_harm_nobody(void **state)
{
    struct daemon *d = *state;
    struct mc_remove_all_request remove = {.client_id = 1, .force = true};
    struct mc_buf body;
    int fd = greeted(d);

    daemon_send_frame(fd, MC_METHOD_EXIST, 5, "half", 100, 4);
    (void)close(fd);
    daemon_put(d, "k", 10);
    mc_buf_init(&body);
    assert_int_equal(mc_method_codec(MC_METHOD_REMOVE_ALL)->encode_request(&remove, &body),
                     MOONCAKE_OK);
    fd = greeted(d);
    daemon_send_frame(fd, MC_METHOD_REMOVE_ALL, 6, mc_buf_bytes(&body), (uint32_t)mc_buf_len(&body),
                      mc_buf_len(&body));
    (void)close(fd);
    mc_buf_fini(&body);
    daemon_put(d, "later", 10);
    assert_int_equal(daemon_exist(d, "later"), MOONCAKE_OK);
}

int main(void)
{
#define MASTER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        MASTER_TEST(hello__without_a_common_protocol_is_refused_with_both_named),
        MASTER_TEST(hello__of_a_newer_program_agrees_on_ours),
        MASTER_TEST(hello__comes_first_and_once),
        MASTER_TEST(request__of_an_unknown_method_leaves_the_connection_usable),
        MASTER_TEST(request__that_cannot_be_decoded_leaves_the_connection_usable),
        MASTER_TEST(request__above_the_body_limit_is_refused_before_it_is_read),
        MASTER_TEST(request__of_exactly_the_body_limit_is_answered),
        MASTER_TEST(bytes__that_are_no_frame_close_the_connection),
        MASTER_TEST(keys__that_are_bad_cost_only_their_item),
        MASTER_TEST(peers__that_vanish_harm_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
