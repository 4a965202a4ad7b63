/* See the header. */
#include "rpc/rpc_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "held_port.h"

static mooncake_err server_hello(void *arg, struct mc_rpc_conn *conn, const uint8_t *body,
                                 size_t body_len, struct mc_buf *out)
{
    struct fixture *f = arg;

    (void)conn;
    f->hellos++;
    if (f->hello_err != MOONCAKE_OK) {
        return mc_err_set(f->hello_err, "protocols 1 to 1 are spoken here, not 7 to 9");
    }
    return mc_buf_append(out, body, body_len);
}

static void server_handle(void *arg, struct mc_rpc_request *request)
{
    struct fixture *f = arg;
    struct mc_buf *out;

    f->handled++;
    switch (request->method) {
    case FIXTURE_ECHO:
        mc_rpc_reply(request, MOONCAKE_OK, request->body, request->body_len);
        return;
    case FIXTURE_KEEP:
        assert_true(f->kept_count < KEPT_MAX);
        f->kept[f->kept_count++] = request;
        return;
    case FIXTURE_FAIL:
        mc_rpc_reply(request, mc_err_set(MOONCAKE_ENOENT, "no key \"k\" here"), NULL, 0);
        return;
    case FIXTURE_GROW:
        out = mc_rpc_reply_buf(f->server);
        assert_int_equal(request->body_len, 4);
        assert_int_equal(mc_buf_reserve(out, mc_load_u32(request->body)), MOONCAKE_OK);
        memset(out->data, 'g', mc_load_u32(request->body));
        mc_rpc_reply(request, MOONCAKE_OK, out->data, mc_load_u32(request->body));
        return;
    default:
        mc_rpc_reply(request, MOONCAKE_ENOENT, NULL, 0);
        return;
    }
}

static void server_conn_closed(void *arg, struct mc_rpc_conn *conn)
{
    struct fixture *f = arg;

    (void)conn;
    f->conns_closed++;
}

static void client_state(void *arg, bool up)
{
    struct fixture *f = arg;

    if (up) {
        f->ups++;
    } else {
        f->downs++;
    }
}

const struct mc_rpc_client_options fixture_options = {
    .connect_timeout_ms = 2000,
    .backoff_min_ms = 1,
    .backoff_max_ms = 20,
    .hello_method = FIXTURE_HELLO,
    .hello_body = (const uint8_t *)"hello",
    .hello_body_len = 5,
};

void fixture_open_server(struct fixture *f, const char *address)
{
    static const struct mc_rpc_server_ops ops = {
        .hello_method = FIXTURE_HELLO,
        .on_hello = server_hello,
        .handle = server_handle,
        .on_conn_closed = server_conn_closed,
    };

    assert_int_equal(mc_rpc_server_open(f->loop, address, &ops, f, &f->server), MOONCAKE_OK);
    (void)snprintf(f->address, sizeof(f->address), "127.0.0.1:%u", mc_rpc_server_port(f->server));
}

void fixture_open_client(struct fixture *f, const char *address)
{
    struct mc_rpc_client_options options = fixture_options;

    options.on_state = client_state;
    options.arg = f;
    assert_int_equal(mc_rpc_client_create(f->loop, address, &options, &f->client), MOONCAKE_OK);
}

void fixture_init(struct fixture *f)
{
    char address[32];
    uint16_t port;

    memset(f, 0, sizeof(*f));
    assert_int_equal(mc_mem_live_count(), 0);
    assert_int_equal(mc_loop_create(0, &f->loop), MOONCAKE_OK);
    f->held_fd = held_port_open(&port);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    fixture_open_server(f, address);
    fixture_open_client(f, f->address);
}

void fixture_fini(struct fixture *f)
{
    mc_rpc_client_destroy(&f->client);
    mc_rpc_server_close(&f->server);
    (void)close(f->held_fd);
    mc_loop_destroy(&f->loop);
    assert_int_equal(mc_mem_live_count(), 0);
}

static void on_done(struct mc_rpc_call *rpc, mooncake_err err, const uint8_t *body, size_t body_len)
{
    struct call *call = MC_CONTAINER_OF(rpc, struct call, rpc);

    call->done = true;
    call->dones++;
    call->err = err;
    assert_true(err == MOONCAKE_OK || body == NULL);
    if (err == MOONCAKE_OK) {
        call->body = mc_malloc(body_len);
        assert_non_null(call->body);
        memcpy(call->body, body, body_len);
        call->body_len = body_len;
    } else {
        (void)snprintf(call->sentence, sizeof(call->sentence), "%s", mooncake_last_error());
    }
}

void call_init(struct call *call, uint64_t timeout_ms)
{
    memset(call, 0, sizeof(*call));
    call->rpc.done = on_done;
    call->rpc.deadline_ns = mc_deadline_ns(mc_monotonic_ns(), timeout_ms);
}

void call_fini(struct call *call)
{
    mc_free(call->body);
    call->body = NULL;
}

void call_start(struct fixture *f, struct call *call, uint16_t method, const void *body,
                size_t body_len)
{
    assert_int_equal(mc_rpc_call_start(f->client, &call->rpc, method, body, body_len), MOONCAKE_OK);
    mc_rpc_client_flush(f->client);
}

void run_until(struct fixture *f, const bool *flag)
{
    assert_int_equal(mc_loop_run_until(f->loop, flag, mc_monotonic_ns() + WAIT_NS), MOONCAKE_OK);
}

void run_some(struct fixture *f)
{
    const bool never = false;

    (void)!mc_loop_run_until(f->loop, &never, mc_monotonic_ns() + 2 * MC_NS_PER_MS);
}

int raw_connect(const struct fixture *f)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    to.sin_port = htons((uint16_t)strtoul(strrchr(f->address, ':') + 1, NULL, 10));
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

void raw_send(int fd, const void *bytes, size_t len)
{
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (int)len);
}

void raw_send_frame(int fd, uint16_t method, uint64_t request_id, const void *body,
                    uint32_t body_len)
{
    const struct mc_frame frame = {
        .version = 1,
        .method = method,
        .request_id = request_id,
        .body_len = body_len,
    };
    uint8_t header[MC_FRAME_LEN];

    mc_frame_encode(&frame, header);
    raw_send(fd, header, sizeof(header));
    if (body_len > 0) {
        raw_send(fd, body, body_len);
    }
}

size_t raw_wait_closed(struct fixture *f, int fd)
{
    uint8_t drop[4096];
    size_t total = 0;
    ssize_t n = -1;

    while (n != 0) {
        RUN_UNTIL(f, (n = recv(fd, drop, sizeof(drop), MSG_DONTWAIT)) >= 0 || errno != EAGAIN);
        if (n < 0) {
            assert_int_equal(errno, ECONNRESET);
            break;
        }
        total += (size_t)n;
    }
    return total;
}

static void raw_receive(struct fixture *f, int fd, uint8_t *out, size_t len)
{
    ssize_t n;

    while (len > 0) {
        RUN_UNTIL(f, (n = recv(fd, out, len, MSG_DONTWAIT)) >= 0);
        assert_true(n > 0);
        out += n;
        len -= (size_t)n;
    }
}

void raw_receive_frame(struct fixture *f, int fd, struct mc_frame *out, void *body, size_t cap)
{
    uint8_t header[MC_FRAME_LEN];

    raw_receive(f, fd, header, sizeof(header));
    assert_int_equal(mc_frame_decode(header, out), MOONCAKE_OK);
    assert_true(out->body_len <= cap);
    raw_receive(f, fd, body, out->body_len);
}
