/* Streams and listeners over real sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/stream.h"

#define WAIT_NS (10 * MC_NS_PER_S)

/* One end of a connection: gathers what comes, remembers what happened. */
struct end {
    struct mc_stream *stream;
    uint8_t in[1 << 16];
    size_t in_len;
    size_t space_max;
    bool echo;
    bool connected, closed, got_all;
    size_t want;
    mooncake_err why;
};

static void on_connected(void *arg)
{
    struct end *end = arg;

    end->connected = true;
}

static unsigned on_space(void *arg, struct iovec *iov)
{
    struct end *end = arg;

    iov[0].iov_base = end->in + end->in_len;
    iov[0].iov_len = sizeof(end->in) - end->in_len;
    if (end->space_max > 0 && iov[0].iov_len > end->space_max) {
        iov[0].iov_len = end->space_max;
    }
    return iov[0].iov_len > 0 ? 1 : 0;
}

static void on_bytes(void *arg, size_t len)
{
    struct end *end = arg;

    if (end->echo) {
        assert_int_equal(mc_stream_send(end->stream, end->in + end->in_len, len, NULL, NULL),
                         MOONCAKE_OK);
        return;
    }
    end->in_len += len;
    end->got_all = end->in_len >= end->want;
}

static void on_closed(void *arg, mooncake_err why)
{
    struct end *end = arg;

    end->closed = true;
    end->why = why;
}

static const struct mc_stream_ops ops = {
    .on_connected = on_connected,
    .on_space = on_space,
    .on_bytes = on_bytes,
    .on_closed = on_closed,
};

static struct mc_loop *loop;

static void on_accept(void *arg, int fd)
{
    struct end *end = arg;

    assert_int_equal(mc_stream_accept(loop, fd, &ops, end, &end->stream), MOONCAKE_OK);
}

static void stream__bytes_come_back_from_an_echo(void **state)
{
    static struct end client, server;
    struct mc_listener *listener;
    char address[64];

    (void)state;
    server.echo = true;
    client.want = 5;
    assert_int_equal(mc_loop_create(0, &loop), MOONCAKE_OK);
    assert_int_equal(mc_listener_open(loop, "127.0.0.1:0", false, on_accept, &server, &listener),
                     MOONCAKE_OK);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", mc_listener_port(listener));
    assert_int_equal(mc_stream_connect(loop, address, 1000, &ops, &client, &client.stream),
                     MOONCAKE_OK);
    assert_int_equal(mc_stream_send(client.stream, "hello", 5, NULL, NULL), MOONCAKE_OK);
    assert_int_equal(mc_loop_run_until(loop, &client.got_all, mc_monotonic_ns() + WAIT_NS),
                     MOONCAKE_OK);
    assert_memory_equal(client.in, "hello", 5);
    mc_stream_close(client.stream, MOONCAKE_OK);
    assert_int_equal(mc_loop_run_until(loop, &server.closed, mc_monotonic_ns() + WAIT_NS),
                     MOONCAKE_OK);
    assert_int_equal(server.why, MOONCAKE_ERPC);
    assert_true(client.closed);
    assert_int_equal(client.why, MOONCAKE_OK);
    mc_listener_close(&listener);
    mc_loop_destroy(&loop);
    assert_int_equal(mc_mem_live_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__bytes_come_back_from_an_echo),
    };

    return cmocka_run_group_tests_name("io/stream", tests, NULL, NULL);
}
