/*
 * One connection, client side: its life, and answers in, each where it belongs. Requests out are
 * tcp_send.c's business.
 *
 * Design notes
 * - Answers come in the order of the requests, so the op that the next byte is for is known before
 *   the byte is read. A small payload is read through the buffer, together with its neighbours. Of
 *   an answer with a large one only the frames are read through the buffer; the payload goes from
 *   the socket to the caller's pieces, and is hashed after each read, while it is in the cache.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/tcp_impl.h"

/* What one read may bring in place: it should be in the cache still when it is hashed. */
#define RECEIVE_LEN_MAX ((uint64_t)128 << 10)

static struct mc_xfer_op *first_op(const struct mc_list *list)
{
    return mc_list_first(list, struct mc_xfer_op, node);
}

static struct mc_tcp *tcp_of(const struct mc_tcp_conn *conn)
{
    return conn->place.peer->tcp;
}

/* ---- the end of an op ------------------------------------------------------------------------ */

/* @p op leaves the connection and the peer. */
static void end_op(struct mc_tcp_conn *conn, struct mc_xfer_op *op, mooncake_err err)
{
    mc_list_drop(&op->node);
    MC_ASSERT(conn->ops > 0);
    conn->ops--;
    conn->load -= mc_tcp_op_load(op);
    conn->since_ns = mc_loop_now_ns(tcp_of(conn)->transport.loop);
    mc_tcp_peer_end_op(conn->place.peer, op, err);
    if (conn->old && conn->ops == 0) {
        mc_tcp_conn_close(conn);
    }
}

/* The first op of `asked` has its answer. */
static void op_answered(struct mc_tcp_conn *conn, mooncake_err err)
{
    struct mc_xfer_op *op = first_op(&conn->asked);

    conn->receiving = false;
    op->err = err;
    if (op->mark > conn->sends_ended) { /* refused early: the stream still reads its pieces */
        mc_list_move_tail(&conn->answered, &op->node);
    } else {
        end_op(conn, op, op->err);
    }
}

void mc_tcp_conn_send_ended(struct mc_tcp_conn *conn)
{
    conn->sends_ended++;
    while (conn->state == MC_TCP_CONN_UP && !mc_list_empty(&conn->answered)) {
        struct mc_xfer_op *op = first_op(&conn->answered);

        if (op->mark > conn->sends_ended) {
            return;
        }
        end_op(conn, op, op->err);
    }
}

/* ---- answers in ------------------------------------------------------------------------------ */

/* Fill the next @p n payload bytes of the op that is received: from @p from, or they are in place
 * already (@p from NULL). */
static void receive(struct mc_tcp_conn *conn, const uint8_t *from, uint64_t n)
{
    struct mc_xfer_op *op = first_op(&conn->asked);
    struct mc_tcp_part *part_of_whole = mc_tcp_part_of(op); /* whose checksum is the whole's */
    const bool hashed =
        op->verify == MC_VERIFY_FULL && conn->verdict == MOONCAKE_OK && part_of_whole == NULL;
    const uint64_t landed = n;

    MC_ASSERT(n <= conn->left);
    conn->left -= n;
    tcp_of(conn)->moved += n;
    while (n > 0) {
        const struct iovec *piece = &op->pieces[conn->piece];
        uint8_t *to = (uint8_t *)piece->iov_base + conn->piece_done;
        size_t part = piece->iov_len - conn->piece_done;

        part = part < n ? part : (size_t)n;
        if (from != NULL && hashed) {
            mc_extent_copy_hash(&conn->hash, to, from, part);
        } else if (from != NULL) {
            memcpy(to, from, part);
        } else if (hashed) {
            mc_extent_hash_update(&conn->hash, to, part);
        }
        from = from == NULL ? NULL : from + part;
        n -= part;
        conn->piece_done += part;
        if (conn->piece_done == piece->iov_len) {
            conn->piece++;
            conn->piece_done = 0;
        }
    }
    if (part_of_whole != NULL) {
        mc_tcp_part_landed(part_of_whole, landed);
    }
    if (conn->left > 0) {
        return;
    }
    if (hashed && mc_extent_hash_digest(&conn->hash) != conn->promised) {
        conn->verdict = MOONCAKE_ECHECKSUM;
    }
    op_answered(conn, conn->verdict);
}

/* The frames of a READ's good answer are here: payload follows. */
static void begin_receive(struct mc_tcp_conn *conn, const uint8_t *header)
{
    struct mc_xfer_op *op = first_op(&conn->asked);
    struct mc_tcp_part *part = mc_tcp_part_of(op);

    conn->receiving = true;
    conn->verdict = MOONCAKE_OK;
    if (mc_tcp_op_has_header(op) && op->verify != MC_VERIFY_NONE) {
        conn->verdict = mc_extent_header_check(&op->extent, header, &conn->promised);
    }
    conn->left = mc_tcp_op_len(op);
    conn->piece = 0;
    conn->piece_done = 0;
    if (part != NULL) {
        conn->piece = part->start.piece;
        conn->piece_done = part->start.done;
        mc_tcp_part_begin(part);
        mc_tcp_part_promise(part, conn->verdict, conn->promised);
    } else {
        mc_extent_hash_init(&conn->hash);
    }
    if (conn->left == 0) {
        receive(conn, NULL, 0);
    }
}

static void bad_answer(struct mc_tcp_conn *conn, const char *what)
{
    mc_log_error("tcp.bad_answer", "peer=%s what=\"%s\"", conn->place.peer->address, what);
    (void)mc_err_set(MOONCAKE_ERPC, "%s: %s", conn->place.peer->address, what);
    mc_tcp_conn_fail(conn, MOONCAKE_ERPC);
}

/* What comes before the payload of a READ's good answer. */
static uint32_t frames_len(const struct mc_xfer_op *op)
{
    return mc_tcp_op_has_header(op) ? MC_TCP_ANSWER_FRAMES_LEN : MC_TCP_ANSWER_LEN;
}

static bool parse_answer(struct mc_tcp_conn *conn, const uint8_t *bytes, uint32_t have)
{
    struct mc_tcp_answer answer;
    const struct mc_xfer_op *op;
    uint64_t wanted = 0;
    uint32_t frames;
    bool payload;

    if (have < MC_TCP_ANSWER_LEN) {
        return false;
    }
    if (mc_tcp_answer_decode(bytes, &answer) != MOONCAKE_OK || mc_list_empty(&conn->asked) ||
        (op = first_op(&conn->asked))->id != answer.id) {
        bad_answer(conn, "no answer to our request");
        return false;
    }
    payload = op->right == MC_RIGHT_READ && answer.status == MOONCAKE_OK;
    frames = payload ? frames_len(op) : MC_TCP_ANSWER_LEN;
    if (have < frames) {
        return false;
    }
    wanted = payload ? frames - MC_TCP_ANSWER_LEN + mc_tcp_op_len(op) : 0;
    if (answer.len != wanted) {
        bad_answer(conn, "wrong length");
        return false;
    }
    conn->in_start += frames;
    if (payload) {
        begin_receive(conn, bytes + MC_TCP_ANSWER_LEN);
    } else {
        op_answered(conn, mc_err_from_wire(answer.status));
    }
    return true;
}

static bool parse_hello(struct mc_tcp_conn *conn, const uint8_t *bytes, uint32_t have)
{
    struct mc_tcp_hello hello;

    if (have < MC_TCP_HELLO_LEN) {
        return false;
    }
    conn->in_start += MC_TCP_HELLO_LEN;
    if (mc_tcp_hello_decode(bytes, &hello) != MOONCAKE_OK) {
        bad_answer(conn, "no hello: not the data port of a store");
    } else if (hello.status != MOONCAKE_OK || !mc_tcp_hello_agrees(&hello)) {
        mc_log_error("tcp.protocol", "peer=%s theirs=%u-%u ours=%u cure=\"update the older one\"",
                     conn->place.peer->address, hello.protocol_min, hello.protocol_max,
                     MC_TCP_PROTOCOL);
        mc_tcp_conn_fail(conn, MOONCAKE_ERPC);
    } else {
        conn->state = MC_TCP_CONN_UP;
        conn->was_up = true;
        conn->since_ns = mc_loop_now_ns(tcp_of(conn)->transport.loop);
        conn->place.peer->backoff_ms = 0;
        conn->place.peer->backoff_until_ns = 0;
    }
    return true;
}

static bool parse_one(struct mc_tcp_conn *conn)
{
    const uint32_t have = conn->in_end - conn->in_start;
    const uint8_t *bytes = conn->in + conn->in_start;
    uint32_t n;

    switch (conn->state) {
    case MC_TCP_CONN_CONNECTING:
        return parse_hello(conn, bytes, have);
    case MC_TCP_CONN_CLOSED:
        return false;
    case MC_TCP_CONN_UP:
        break;
    }
    if (!conn->receiving) {
        return parse_answer(conn, bytes, have);
    }
    n = have < conn->left ? have : (uint32_t)conn->left;
    if (n == 0) {
        return false;
    }
    conn->in_start += n;
    receive(conn, bytes, n);
    return true;
}

/* ---- the stream's callbacks ------------------------------------------------------------------ */

/* Ranges for the rest of the payload, as much as one read may bring. Returns how many. */
static unsigned payload_space(const struct mc_tcp_conn *conn, struct iovec *iov, uint64_t *out_len)
{
    const struct mc_xfer_op *op = first_op(&conn->asked);
    const uint64_t max = conn->left < RECEIVE_LEN_MAX ? conn->left : RECEIVE_LEN_MAX;
    size_t done = conn->piece_done;
    uint64_t len = 0;
    unsigned count = 0;

    for (unsigned i = conn->piece; i < op->pieces_count && count < MC_STREAM_IOV_MAX - 1; i++) {
        size_t part = op->pieces[i].iov_len - done;

        part = part < max - len ? part : (size_t)(max - len);
        if (part > 0) {
            iov[count].iov_base = (uint8_t *)op->pieces[i].iov_base + done;
            iov[count++].iov_len = part;
            len += part;
        }
        done = 0;
    }
    *out_len = len;
    return count;
}

static bool is_large_read(const struct mc_xfer_op *op)
{
    return op->right == MC_RIGHT_READ && mc_tcp_op_len(op) > MC_TCP_SMALL_LEN;
}

static unsigned on_space(void *arg, struct iovec *iov)
{
    struct mc_tcp_conn *conn = arg;
    struct mc_list *next = conn->asked.next; /* whose answer's frames come next */
    uint32_t room;
    unsigned count = 0;

    if (conn->in_start > 0) {
        memmove(conn->in, conn->in + conn->in_start, conn->in_end - conn->in_start);
        conn->in_end -= conn->in_start;
        conn->in_start = 0;
    }
    room = MC_TCP_IN_LEN - conn->in_end;
    if (conn->receiving) {
        uint64_t len;

        count = payload_space(conn, iov, &len);
        if (len < conn->left) {
            return count;
        }
        next = next->next;
    }
    if (next != &conn->asked) {
        const struct mc_xfer_op *op = MC_CONTAINER_OF(next, struct mc_xfer_op, node);

        if (is_large_read(op)) {
            MC_ASSERT(conn->in_end < frames_len(op));
            room = frames_len(op) - conn->in_end;
        }
    }
    iov[count].iov_base = conn->in + conn->in_end;
    iov[count++].iov_len = room;
    return count;
}

static void on_bytes(void *arg, size_t len)
{
    struct mc_tcp_conn *conn = arg;
    size_t in_place = 0;

    if (conn->receiving) {
        in_place = len < conn->left ? len : (size_t)conn->left;
    }
    MC_ASSERT(len - in_place <= MC_TCP_IN_LEN - conn->in_end);
    conn->in_end += (uint32_t)(len - in_place);
    if (in_place > 0) {
        receive(conn, NULL, in_place);
    }
    while (parse_one(conn)) {
    }
    if (conn->state == MC_TCP_CONN_UP) {
        mc_tcp_peer_pump(conn->place.peer);
    }
}

static void on_connected(void *arg)
{
    struct mc_tcp_conn *conn = arg;
    const struct mc_tcp_hello hello = {.protocol_min = MC_TCP_PROTOCOL,
                                       .protocol_max = MC_TCP_PROTOCOL};
    uint8_t frame[MC_TCP_HELLO_LEN];
    mooncake_err err;

    mc_tcp_hello_encode(&hello, frame);
    err = mc_stream_send(conn->stream, frame, sizeof(frame), NULL, NULL);
    if (err != MOONCAKE_OK) {
        mc_tcp_conn_fail(conn, err);
        return;
    }
    mc_stream_flush(conn->stream);
}

static void on_drained(void *arg)
{
    struct mc_tcp_conn *conn = arg;

    if (conn->state == MC_TCP_CONN_UP) {
        mc_tcp_peer_pump(conn->place.peer);
    }
}

static void on_closed(void *arg, mooncake_err why)
{
    struct mc_tcp_conn *conn = arg;
    struct mc_tcp_peer *peer = conn->place.peer;
    struct mc_tcp *tcp = peer->tcp;

    mc_tcp_conn_fail(conn, why);
    mc_free(conn);
    peer->conns_alive--;
    mc_gauge_add(&tcp->stats.connections, -1);
    mc_tcp_peer_pump(peer); /* ops that a cancel has put back */
    mc_tcp_conn_gone(tcp);
}

static const struct mc_stream_ops stream_ops = {
    .on_connected = on_connected,
    .on_space = on_space,
    .on_bytes = on_bytes,
    .on_drained = on_drained,
    .on_closed = on_closed,
};

/* ---- life ------------------------------------------------------------------------------------ */

mooncake_err mc_tcp_conn_open(struct mc_tcp_peer *peer)
{
    struct mc_tcp *tcp = peer->tcp;
    struct mc_tcp_conn *conn = mc_aligned_alloc(_Alignof(struct mc_tcp_conn), sizeof(*conn));
    mooncake_err err;

    if (conn == NULL) {
        return MOONCAKE_ENOMEM;
    }
    memset(conn, 0, offsetof(struct mc_tcp_conn, in)); /* in is written before it is read */
    conn->place.peer = peer;
    conn->place.conn = conn;
    conn->since_ns = mc_monotonic_ns();
    mc_list_init(&conn->asked);
    mc_list_init(&conn->answered);
    err = mc_stream_connect(tcp->transport.loop, peer->address, tcp->options.connect_timeout_ms,
                            &stream_ops, conn, &conn->stream);
    if (err != MOONCAKE_OK) {
        mc_free(conn);
        return err;
    }
    mc_list_add_tail(&peer->conns, &conn->node);
    peer->conns_alive++;
    tcp->conns++;
    mc_gauge_add(&tcp->stats.connections, 1);
    return MOONCAKE_OK;
}

void mc_tcp_conn_close(struct mc_tcp_conn *conn)
{
    if (conn->state != MC_TCP_CONN_CLOSED) {
        conn->state = MC_TCP_CONN_CLOSED;
        mc_stream_close(conn->stream, MOONCAKE_OK);
        mc_list_drop(&conn->node);
    }
}

void mc_tcp_conn_fail(struct mc_tcp_conn *conn, mooncake_err why)
{
    if (conn->state != MC_TCP_CONN_CLOSED) {
        mc_tcp_conn_close(conn);
        mc_tcp_peer_lost(conn->place.peer, conn, why);
    }
}
