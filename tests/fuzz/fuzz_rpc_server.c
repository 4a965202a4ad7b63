/*
 * Any bytes on a server's connection, over a real socket. Laws: no crash; whatever comes back is a
 * flow of whole, valid replies, one at most for each request; afterwards nothing is left of the
 * connection.
 *
 * The first byte says how many bytes are written between two turns of the loop, the rest is sent.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "rpc/rpc_server_impl.h"

#include "law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* More than this is not sent: it has to fit into the socket. */
#define SEND_LEN_MAX ((size_t)32 << 10)
#define KEPT_MAX 64u

enum method {
    HELLO = 1,
    ECHO = 2,
    KEEP = 3, /* answered after the peer has gone, or when 64 are kept */
    FAIL = 4,
};

static struct mc_loop *loop;
static struct mc_rpc_server *server;
static struct mc_rpc_request *kept[KEPT_MAX];
static unsigned kept_count, requests;

static mooncake_err on_hello(void *arg, struct mc_rpc_conn *conn, const uint8_t *body,
                             size_t body_len, struct mc_buf *out)
{
    (void)arg;
    (void)conn;
    if (body_len > 0 && body[0] == 0xff) {
        return mc_err_set(MOONCAKE_ENOTSUP, "not you");
    }
    return mc_buf_append(out, body, body_len);
}

static void answer_kept(void)
{
    while (kept_count > 0) {
        mc_rpc_reply(kept[--kept_count], MOONCAKE_OK, "kept", 4);
    }
}

static void handle(void *arg, struct mc_rpc_request *request)
{
    (void)arg;
    requests++;
    if (request->body_len > 0) {
        void *copy = mc_arena_alloc(request->arena, request->body_len);

        law(copy != NULL);
        memcpy(copy, request->body, request->body_len);
    }
    if (request->method == ECHO) {
        mc_rpc_reply(request, MOONCAKE_OK, request->body, request->body_len);
    } else if (request->method == KEEP) {
        kept[kept_count++] = request;
        if (kept_count == KEPT_MAX) {
            answer_kept();
        }
    } else {
        mc_rpc_reply(request, mc_err_set(MOONCAKE_ENOENT, "no such method"), NULL, 0);
    }
}

static void open_once(void)
{
    static const struct mc_rpc_server_ops ops = {
        .hello_method = HELLO,
        .on_hello = on_hello,
        .handle = handle,
    };

    if (server == NULL) {
        mc_log_set_level(MC_LOG_OFF);
        law(mc_loop_create(0, &loop) == MOONCAKE_OK);
        law(mc_rpc_server_open(loop, "127.0.0.1:0", &ops, NULL, &server) == MOONCAKE_OK);
    }
}

/* Replies so far; parsed by hand, not by the code under test. */
struct replies {
    uint8_t *bytes;
    size_t len;
};

static void receive(int fd, struct replies *replies, size_t cap)
{
    ssize_t n;

    while ((n = recv(fd, replies->bytes + replies->len, cap - replies->len, MSG_DONTWAIT)) > 0) {
        replies->len += (size_t)n;
    }
}

static void check_replies(const struct replies *replies)
{
    unsigned count = 0;
    size_t at = 0;

    while (at < replies->len) {
        struct mc_frame frame;

        law(replies->len - at >= MC_FRAME_LEN);
        law(mc_frame_decode(replies->bytes + at, &frame) == MOONCAKE_OK);
        law(frame.flags == MC_FRAME_REPLY);
        law(frame.body_len <= replies->len - at - MC_FRAME_LEN);
        at += MC_FRAME_LEN + frame.body_len;
        count++;
    }
    law(count <= requests + 1); /* and Hello's */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const size_t cap = 64 * SEND_LEN_MAX;
    int64_t blocks;
    struct replies replies = {malloc(cap), 0};
    size_t piece = len > 0 && data[0] > 0 ? (size_t)data[0] * data[0] : SIZE_MAX;
    int fds[2];

    law(replies.bytes != NULL);
    open_once();
    blocks = mc_mem_live_count();
    requests = 0;
    len = len > SEND_LEN_MAX ? SEND_LEN_MAX : len;
    law(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    mc_rpc_conn_accept(server, fds[0]);
    for (size_t at = 1; at < len; at += piece < len - at ? piece : len - at) {
        (void)!send(fds[1], data + at, piece < len - at ? piece : len - at, MSG_NOSIGNAL);
        mc_loop_run_ready(loop);
        receive(fds[1], &replies, cap);
    }
    mc_loop_run_ready(loop);
    receive(fds[1], &replies, cap);
    check_replies(&replies);
    (void)close(fds[1]);
    while (mc_gauge_get(&server->stats.connections) > 0) {
        mc_loop_run_ready(loop);
    }
    answer_kept();
    law(server->requests_count == 0);
    law(server->input_total == 0 && server->output_total == 0);
    law(mc_list_empty(&server->work) && mc_list_empty(&server->newcomers) &&
        mc_list_empty(&server->unfinished));
    law(mc_mem_live_count() <= blocks + 2 * KEPT_MAX + 8); /* recycled requests and their arenas */
    free(replies.bytes);
    return 0;
}
