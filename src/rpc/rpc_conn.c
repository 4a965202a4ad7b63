/*
 * One connection of a server: bytes to frames, Hello, requests, replies, back-pressure.
 *
 * Design notes
 * - Frames are handled as they lie in the read buffer; a read of 64 KiB may hold thousands. Their
 *   replies are queued as they are made and go out in one call when the read is done.
 * - Back-pressure is looked at between frames. A connection that is paused keeps the rest of what
 *   was read; it goes on from the loop when its replies are taken or given.
 * - handle may close the server or drop the connection's last request; the structs stay, because
 *   on_closed comes from the loop only.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "rpc/rpc_server_impl.h"

/* Hello is small; nobody may make us keep more before it has come. */
#define HELLO_LEN_MAX ((size_t)64 << 10)
/* Recycled requests, each with at most 64 KiB of arena. */
#define FREE_REQUESTS_MAX 64u
/* Above this total, connections keep less memory for their next requests. */
#define INPUT_KEEP_TOTAL_MAX ((uint64_t)64 << 20)
/* One request may take this much of its arena: decoding multiplies small elements. */
#define ARENA_LEN_MAX ((size_t)4 * MC_RPC_BODY_LEN_MAX)

/* A reply of a few items goes to the stream in one piece. */
#define SMALL_BODY_LEN_MAX 232u

/* ---- requests -------------------------------------------------------------------------------- */

static struct mc_rpc_request_slot *take_slot(struct mc_rpc_server *server)
{
    struct mc_rpc_request_slot *slot;

    if (!mc_list_empty(&server->free_requests)) {
        slot = mc_list_first(&server->free_requests, struct mc_rpc_request_slot, node);
        mc_list_drop(&slot->node);
        server->free_requests_count--;
        return slot;
    }
    slot = mc_malloc(sizeof(*slot));
    if (slot != NULL) {
        mc_list_init(&slot->node);
        mc_arena_init(&slot->arena, ARENA_LEN_MAX);
    }
    return slot;
}

static void return_slot(struct mc_rpc_server *server, struct mc_rpc_request_slot *slot)
{
    if (server->closed || server->free_requests_count >= FREE_REQUESTS_MAX) {
        mc_arena_fini(&slot->arena);
        mc_free(slot);
        return;
    }
    mc_arena_reset(&slot->arena);
    mc_list_add_head(&server->free_requests, &slot->node);
    server->free_requests_count++;
}

/* ---- replies --------------------------------------------------------------------------------- */

static void out_of_memory(struct mc_rpc_conn *conn)
{
    mc_log_warn("rpc.no_memory", "peer=%s", mc_stream_peer(conn->stream));
    conn->ended = true;
    mc_stream_close(conn->stream, MOONCAKE_ENOMEM);
}

/* Our part of the server's total of queued bytes has changed. */
static void count_output(struct mc_rpc_conn *conn)
{
    size_t queued = mc_stream_queued(conn->stream);

    conn->server->output_total += (uint64_t)queued - conn->queued_seen; /* wraps back when less */
    conn->queued_seen = queued;
}

static void send_reply(struct mc_rpc_conn *conn, const struct mc_frame *frame, const void *body)
{
    uint8_t bytes[MC_FRAME_LEN + SMALL_BODY_LEN_MAX];
    size_t with = frame->body_len <= SMALL_BODY_LEN_MAX ? frame->body_len : 0;
    mooncake_err err;

    mc_frame_encode(frame, bytes);
    if (with > 0) {
        memcpy(bytes + MC_FRAME_LEN, body, with);
    }
    err = mc_stream_send(conn->stream, bytes, MC_FRAME_LEN + with, NULL, NULL);
    if (err == MOONCAKE_OK && with < frame->body_len) {
        err = mc_stream_send(conn->stream, body, frame->body_len, NULL, NULL);
    }
    if (err == MOONCAKE_ENOMEM) {
        out_of_memory(conn);
        return;
    }
    count_output(conn);
    if (conn->server->front != NULL && !conn->ended &&
        conn->queued_seen > MC_RPC_AWAY_OUTPUT_LEN_MAX) {
        mc_log_warn("rpc.output_limit", "peer=%s queued_bytes=%zu", mc_stream_peer(conn->stream),
                    conn->queued_seen);
        conn->ended = true;
        mc_stream_close(conn->stream, MOONCAKE_ENOMEM);
    }
}

static void reply_to(struct mc_rpc_conn *conn, uint16_t method, uint64_t request_id,
                     mooncake_err status, const void *body, size_t body_len)
{
    const char *sentence;
    struct mc_frame frame = {
        .version = MC_PROTOCOL_MAX,
        .flags = MC_FRAME_REPLY,
        .method = method,
        .request_id = request_id,
    };

    if (status == MOONCAKE_OK && body_len > MC_RPC_BODY_LEN_MAX) {
        status =
            mc_err_set(MOONCAKE_EINTERNAL, "the reply would have %zu bytes, at most %u are allowed",
                       body_len, MC_RPC_BODY_LEN_MAX);
    }
    if (status != MOONCAKE_OK) {
        sentence = mooncake_last_error();
        body = sentence;
        body_len = strnlen(sentence, MC_FRAME_DETAIL_LEN_MAX);
    }
    frame.status = (int32_t)status;
    frame.body_len = (uint32_t)body_len;
    send_reply(conn, &frame, body);
}

void mc_rpc_reply(struct mc_rpc_request *request, mooncake_err status, const void *body,
                  size_t body_len)
{
    struct mc_rpc_request_slot *slot =
        MC_CONTAINER_OF(request, struct mc_rpc_request_slot, request);
    struct mc_rpc_server *server = slot->server;
    struct mc_rpc_conn *conn = request->conn;

    MC_ASSERT_ON_LOOP(server->loop);
    MC_ASSERT(server->requests_count > 0);
    if (conn != NULL) {
        mc_list_drop(&slot->node);
        conn->requests_count--;
        conn->requests_len -= request->body_len;
        reply_to(conn, request->method, request->request_id, status, body, body_len);
        mc_counter_add_owner(&server->stats.replies, 1);
        if (conn != server->current) {
            mc_rpc_server_work(server, conn);
        }
    }
    server->requests_count--;
    return_slot(server, slot);
    mc_rpc_server_settle(server);
}

/* ---- frames ---------------------------------------------------------------------------------- */

void mc_rpc_conn_finish(struct mc_rpc_conn *conn)
{
    conn->ended = true;
    mc_stream_finish(conn->stream, MC_RPC_LINGER_MS);
}

/* The peer has sent nonsense; the thread's sentence tells which. */
static void bad_frame(struct mc_rpc_conn *conn)
{
    mc_counter_add_owner(&conn->server->stats.bad_frames, 1);
    mc_log_warn("rpc.bad_frame", "peer=%s why=\"%s\"", mc_stream_peer(conn->stream),
                mooncake_last_error());
    conn->ended = true;
    mc_stream_close(conn->stream, MOONCAKE_ERPC);
}

static void handle_hello(struct mc_rpc_conn *conn, const struct mc_frame *frame,
                         const uint8_t *body)
{
    struct mc_rpc_server *server = conn->server;
    struct mc_buf out;
    mooncake_err err;

    if (frame->method != server->ops.hello_method || frame->body_len > HELLO_LEN_MAX) {
        (void)mc_err_set(MOONCAKE_ERPC, "the first message is not Hello but %u with %u bytes",
                         (unsigned)frame->method, (unsigned)frame->body_len);
        bad_frame(conn);
        return;
    }
    mc_buf_init(&out);
    mc_err_clear();
    err = server->ops.on_hello(server->arg, conn, body, frame->body_len, &out);
    if (!conn->ended) {
        reply_to(conn, frame->method, frame->request_id, err,
                 err == MOONCAKE_OK ? mc_buf_bytes(&out) : NULL, mc_buf_len(&out));
    }
    mc_buf_fini(&out);
    if (conn->ended) {
        return;
    }
    mc_list_drop(&conn->owing);
    conn->hello_done = true;
    if (err != MOONCAKE_OK) {
        mc_counter_add_owner(&server->stats.refused, 1);
        mc_log_warn("rpc.refused", "peer=%s err=%s why=\"%s\"", mc_stream_peer(conn->stream),
                    mooncake_err_name(err), mooncake_last_error());
        mc_rpc_conn_finish(conn);
    }
}

static void handle_request(struct mc_rpc_conn *conn, const struct mc_frame *frame,
                           const uint8_t *body)
{
    struct mc_rpc_server *server = conn->server;
    struct mc_rpc_request_slot *slot = take_slot(server);

    if (slot == NULL) {
        out_of_memory(conn);
        return;
    }
    slot->server = server;
    slot->request = (struct mc_rpc_request){
        .conn = conn,
        .request_id = frame->request_id,
        .method = frame->method,
        .body = body,
        .body_len = frame->body_len,
        .arena = &slot->arena,
        .spent = server->spent,
        .started_ns = mc_loop_now_ns(server->loop),
    };
    mc_list_add_tail(&conn->requests, &slot->node);
    conn->requests_count++;
    conn->requests_len += frame->body_len;
    server->requests_count++;
    mc_counter_add_owner(&server->stats.requests, 1);
    mc_err_clear();
    server->ops.handle(server->arg, &slot->request);
    (void)mc_spend(server->spent, MC_SPENT_FRAMES);
}

static void handle_frame(struct mc_rpc_conn *conn, const struct mc_frame *frame,
                         const uint8_t *body)
{
    if ((frame->flags & MC_FRAME_REPLY) != 0) {
        (void)mc_err_set(MOONCAKE_ERPC, "a reply came where a request was due");
        bad_frame(conn);
    } else if (!conn->hello_done) {
        handle_hello(conn, frame, body);
    } else if (frame->version < MC_PROTOCOL_MIN || frame->version > MC_PROTOCOL_MAX) {
        (void)mc_err_set(MOONCAKE_ERPC, "a request of protocol version %u came; %u to %u are known",
                         (unsigned)frame->version, MC_PROTOCOL_MIN, MC_PROTOCOL_MAX);
        bad_frame(conn);
    } else {
        handle_request(conn, frame, body);
    }
}

/* ---- back-pressure --------------------------------------------------------------------------- */

/* Requests that another loop answers come to their replies together, so what these may become is
 * bounded before they are made. */
static bool must_stall(struct mc_rpc_conn *conn)
{
    if (conn->requests_count > 0 && conn->requests_len > MC_RPC_AWAY_LEN_MAX) {
        return true; /* replies make it go on */
    }
    if (!mc_rpc_front_is_full(conn->server->front)) {
        return false;
    }
    if (!mc_list_linked(&conn->stalled)) {
        mc_list_add_tail(&conn->server->stalled, &conn->stalled);
    }
    return true;
}

static bool must_pause(struct mc_rpc_conn *conn)
{
    struct mc_rpc_server *server = conn->server;
    size_t queue_max = MC_STREAM_QUEUE_LEN_MAX;

    if (conn->requests_count >= MC_RPC_IN_FLIGHT_MAX) {
        return true;
    }
    if (server->front != NULL && must_stall(conn)) {
        return true;
    }
    if (server->output_total > server->output_total_max) {
        queue_max = 0;
    }
    if (conn->queued_seen > queue_max) {
        mc_stream_flush(conn->stream);
        count_output(conn);
    }
    return conn->queued_seen > queue_max;
}

/* Part of a frame is here: the rest is owed. A frame was whole: a new time begins. */
static void note_owing(struct mc_rpc_conn *conn, bool frame_taken)
{
    struct mc_rpc_server *server = conn->server;

    if (!conn->hello_done) {
        return; /* among the newcomers */
    }
    if (frame_taken || conn->paused || mc_buf_len(&conn->input.held) == 0) {
        mc_list_drop(&conn->owing);
    }
    if (mc_buf_len(&conn->input.held) > 0 && !conn->paused && !mc_list_linked(&conn->owing)) {
        conn->owing_since_ns = mc_loop_now_ns(server->loop);
        mc_list_add_tail(&server->unfinished, &conn->owing);
        mc_rpc_server_tick(server);
    }
}

/* Keep what is left of the read; bounded for this peer and for all. */
static void settle_input(struct mc_rpc_conn *conn, bool frame_taken)
{
    struct mc_rpc_server *server = conn->server;

    if (mc_rpc_input_settle(&conn->input) != MOONCAKE_OK) {
        out_of_memory(conn);
        return;
    }
    server->input_total += (uint64_t)conn->input.held.cap - conn->held_seen;
    conn->held_seen = conn->input.held.cap;
    note_owing(conn, frame_taken);
    if (!conn->hello_done && mc_buf_len(&conn->input.held) > HELLO_LEN_MAX) {
        (void)mc_err_set(MOONCAKE_ERPC, "the first message has more than %zu bytes", HELLO_LEN_MAX);
        bad_frame(conn);
    } else if (server->input_total > server->input_total_max && conn->held_seen > HELLO_LEN_MAX) {
        mc_log_warn("rpc.input_limit", "peer=%s held_bytes=%zu", mc_stream_peer(conn->stream),
                    conn->held_seen);
        conn->ended = true;
        mc_stream_close(conn->stream, MOONCAKE_ENOMEM);
    }
}

static void take_frames(struct mc_rpc_conn *conn)
{
    struct mc_rpc_server *server = conn->server;
    struct mc_frame frame;
    const uint8_t *body;
    bool got = false;
    bool any = false;
    mooncake_err err;
    enum mc_spent_kind was = mc_spend(server->spent, MC_SPENT_FRAMES);

    server->current = conn;
    conn->paused = false;
    conn->input.keep_len_max = server->input_total < INPUT_KEEP_TOTAL_MAX
                                   ? MC_RPC_INPUT_KEEP_LEN
                                   : MC_RPC_INPUT_KEEP_LEN_SMALL;
    while (!conn->ended) {
        if (must_pause(conn)) {
            conn->paused = true;
            break;
        }
        err = mc_rpc_input_next(&conn->input, &frame, &body, &got);
        if (err == MOONCAKE_ENOMEM) {
            out_of_memory(conn);
        } else if (err != MOONCAKE_OK) {
            bad_frame(conn);
        } else if (!got) {
            break;
        } else {
            any = true;
            handle_frame(conn, &frame, body);
        }
    }
    server->current = NULL;
    if (!conn->ended) {
        settle_input(conn, any);
    }
    if (server->front != NULL) {
        mc_rpc_front_flush(server->front);
    }
    if (server->draining && conn->requests_count == 0 && !conn->ended) {
        mc_rpc_conn_finish(conn);
    }
    (void)mc_spend(server->spent, was);
}

/* ---- the stream's callbacks ------------------------------------------------------------------ */

static unsigned on_space(void *arg, struct iovec *iov)
{
    struct mc_rpc_conn *conn = arg;
    unsigned count = 0;

    if (conn->paused || conn->ended) {
        return 0;
    }
    if (mc_rpc_input_space(&conn->input, conn->server->scratch, iov, &count) != MOONCAKE_OK) {
        out_of_memory(conn);
    }
    return count;
}

static void on_bytes(void *arg, size_t len)
{
    struct mc_rpc_conn *conn = arg;

    mc_rpc_input_feed(&conn->input, conn->server->scratch, len);
    take_frames(conn);
}

static void on_drained(void *arg)
{
    struct mc_rpc_conn *conn = arg;

    count_output(conn);
    if (conn->paused) {
        mc_rpc_server_work(conn->server, conn);
    }
}

void mc_rpc_conn_tell_closed(struct mc_rpc_conn *conn)
{
    struct mc_rpc_server *server = conn->server;

    if (conn->told) {
        return;
    }
    conn->told = true;
    while (!mc_list_empty(&conn->requests)) { /* they live on without us */
        struct mc_rpc_request_slot *slot =
            mc_list_first(&conn->requests, struct mc_rpc_request_slot, node);

        slot->request.conn = NULL;
        mc_list_drop(&slot->node);
    }
    conn->requests_count = 0;
    conn->requests_len = 0;
    if (server->ops.on_conn_closed != NULL) {
        server->ops.on_conn_closed(server->arg, conn);
    }
}

static void on_closed(void *arg, mooncake_err why)
{
    struct mc_rpc_conn *conn = arg;
    struct mc_rpc_server *server = conn->server;

    mc_log_debug("rpc.closed", "peer=%s err=%s", mc_stream_peer(conn->stream),
                 mooncake_err_name(why));
    conn->ended = true;
    mc_rpc_conn_tell_closed(conn);
    server->input_total -= conn->held_seen;
    server->output_total -= conn->queued_seen;
    mc_gauge_add(&server->stats.connections, -1);
    mc_list_drop(&conn->node);
    mc_list_drop(&conn->owing);
    mc_list_drop(&conn->work);
    mc_list_drop(&conn->stalled);
    mc_rpc_input_fini(&conn->input);
    mc_free(conn);
    mc_rpc_server_settle(server);
}

static const struct mc_stream_ops conn_ops = {
    .on_space = on_space,
    .on_bytes = on_bytes,
    .on_drained = on_drained,
    .on_closed = on_closed,
};

void mc_rpc_conn_work(struct mc_rpc_conn *conn)
{
    if (conn->ended) {
        return;
    }
    mc_stream_flush(conn->stream);
    if (conn->ended) {
        return;
    }
    count_output(conn);
    if (conn->paused || conn->server->draining) {
        take_frames(conn);
        if (!conn->ended && !conn->paused) {
            mc_stream_flush(conn->stream);
            mc_stream_resume(conn->stream);
        }
    }
}

bool mc_rpc_conn_accept(struct mc_rpc_server *server, int fd)
{
    struct mc_rpc_conn *conn;

    if (mc_gauge_get(&server->stats.connections) >= (int64_t)server->connections_max) {
        mc_counter_add_owner(&server->stats.refused, 1);
        mc_log_warn("rpc.too_many", "connections=%u", server->connections_max);
        (void)close(fd);
        return false;
    }
    conn = mc_calloc(1, sizeof(*conn));
    if (conn == NULL) {
        (void)close(fd);
        return false;
    }
    conn->server = server;
    mc_list_init(&conn->work);
    mc_list_init(&conn->stalled);
    mc_list_init(&conn->requests);
    mc_rpc_input_init(&conn->input);
    if (mc_stream_accept(server->loop, fd, &conn_ops, conn, &conn->stream) != MOONCAKE_OK) {
        mc_free(conn);
        return false;
    }
    conn->owing_since_ns = mc_loop_now_ns(server->loop);
    mc_list_add_tail(&server->conns, &conn->node);
    mc_list_add_tail(&server->newcomers, &conn->owing);
    mc_counter_add_owner(&server->stats.accepted, 1);
    mc_gauge_add(&server->stats.connections, 1);
    mc_rpc_server_tick(server);
    return true;
}

const char *mc_rpc_conn_peer(const struct mc_rpc_conn *conn)
{
    return mc_stream_peer(conn->stream);
}

void mc_rpc_conn_set_data(struct mc_rpc_conn *conn, void *data)
{
    conn->data = data;
}

void *mc_rpc_conn_data(const struct mc_rpc_conn *conn)
{
    return conn->data;
}
