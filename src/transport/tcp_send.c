/*
 * Requests out on one connection, client side.
 *
 * Design notes
 * - An extent's header holds its payload's checksum, and no payload should go through the cache
 *   twice. So a large WRITE is two requests: one for the payload, which is hashed and given to the
 *   kernel chunk by chunk, and one for the header, which goes last. It has two answers.
 * - No more is hashed than will be sent soon: when the kernel takes no more, the op stays half sent
 *   (`out`) until on_drained.
 * - Callers' memory is lent to the stream with the connection as the argument, never the op: an op
 *   may be cancelled, and gone, before the stream tells that the send has ended.
 */
#include "transport/tcp_impl.h"

/* Hashed and then sent: it should be in the second-level cache still. A longer WRITE is cut.
 * Shorter chunks leave the socket idle between them: 128 KiB cost a third of the rate on loopback.
 */
#define CHUNK_LEN ((size_t)512 << 10)
/* Unsent bytes beyond which nothing further is prepared. */
#define SEND_AHEAD_LEN ((size_t)1024 << 10)

static void on_piece_sent(void *arg, mooncake_err err)
{
    (void)err;
    mc_tcp_conn_send_ended(arg);
}

bool mc_tcp_conn_wants_push(const struct mc_tcp_conn *conn)
{
    return conn->state == MC_TCP_CONN_UP && conn->out != NULL &&
           mc_stream_queued(conn->stream) < SEND_AHEAD_LEN;
}

bool mc_tcp_conn_has_room(const struct mc_tcp_conn *conn)
{
    return conn->state == MC_TCP_CONN_UP && conn->out == NULL && !conn->old &&
           conn->ops < MC_TCP_CONN_OPS_MAX && mc_stream_queued(conn->stream) < SEND_AHEAD_LEN;
}

/* Queue @p len bytes of the caller's memory. */
static mooncake_err lend(struct mc_tcp_conn *conn, const void *bytes, size_t len)
{
    MC_TRY(mc_stream_send(conn->stream, bytes, len, on_piece_sent, conn));
    conn->sends++;
    conn->place.peer->tcp->moved += len;
    return MOONCAKE_OK;
}

static mooncake_err copy(struct mc_tcp_conn *conn, const void *bytes, size_t len)
{
    MC_TRY(mc_stream_send(conn->stream, bytes, len, NULL, NULL));
    conn->place.peer->tcp->moved += len;
    return MOONCAKE_OK;
}

static void encode(const struct mc_xfer_op *op, uint64_t id, uint64_t part_offset,
                   uint64_t part_len, uint8_t frame[MC_TCP_REQUEST_LEN])
{
    const struct mc_tcp_request request = {.op = op->right,
                                           .id = id,
                                           .extent = op->extent,
                                           .part_offset = part_offset,
                                           .part_len = part_len};

    mc_tcp_request_encode(&request, frame);
}

static mooncake_err send_read(struct mc_tcp_conn *conn, const struct mc_xfer_op *op)
{
    uint8_t frame[MC_TCP_REQUEST_LEN];

    encode(op, op->id, 0, MC_EXTENT_HEADER_LEN + op->extent.payload_len, frame);
    return copy(conn, frame, sizeof(frame));
}

/* A WRITE of one request: header and payload together. */
static mooncake_err send_write(struct mc_tcp_conn *conn, const struct mc_xfer_op *op)
{
    const bool small = op->extent.payload_len <= MC_TCP_SMALL_LEN;
    uint8_t frames[MC_TCP_REQUEST_LEN + MC_EXTENT_HEADER_LEN];

    encode(op, op->id, 0, MC_EXTENT_HEADER_LEN + op->extent.payload_len, frames);
    mc_extent_header_build(&op->extent, mc_extent_hash_iov(op->pieces, op->pieces_count),
                           frames + MC_TCP_REQUEST_LEN);
    MC_TRY(copy(conn, frames, sizeof(frames)));
    for (unsigned i = 0; i < op->pieces_count; i++) {
        const struct iovec *piece = &op->pieces[i];

        if (piece->iov_len > 0) {
            MC_TRY(small ? copy(conn, piece->iov_base, piece->iov_len)
                         : lend(conn, piece->iov_base, piece->iov_len));
        }
    }
    return MOONCAKE_OK;
}

/* Begin a WRITE of two requests. */
static mooncake_err begin_large(struct mc_tcp_conn *conn, struct mc_xfer_op *op)
{
    uint8_t frame[MC_TCP_REQUEST_LEN];

    conn->place.peer->tcp->op_id++; /* the second request's */
    op->answers_due = 2;
    conn->out = op;
    conn->out_piece = 0;
    conn->out_done = 0;
    mc_extent_hash_init(&conn->out_hash);
    encode(op, op->id, MC_EXTENT_HEADER_LEN, op->extent.payload_len, frame);
    return copy(conn, frame, sizeof(frame));
}

/* The payload is out: the header follows. */
static mooncake_err end_large(struct mc_tcp_conn *conn)
{
    struct mc_xfer_op *op = conn->out;
    uint8_t frames[MC_TCP_REQUEST_LEN + MC_EXTENT_HEADER_LEN];

    conn->out = NULL;
    op->mark = conn->sends;
    /* If the payload's answer is here already, op->id is the second request's by now. */
    encode(op, op->answers_due == 2 ? op->id + 1 : op->id, 0, MC_EXTENT_HEADER_LEN, frames);
    mc_extent_header_build(&op->extent, mc_extent_hash_digest(&conn->out_hash),
                           frames + MC_TCP_REQUEST_LEN);
    return copy(conn, frames, sizeof(frames));
}

static mooncake_err push_chunk(struct mc_tcp_conn *conn)
{
    const struct mc_xfer_op *op = conn->out;
    size_t room = CHUNK_LEN;

    while (room > 0 && conn->out_piece < op->pieces_count) {
        const struct iovec *piece = &op->pieces[conn->out_piece];
        const uint8_t *from = (const uint8_t *)piece->iov_base + conn->out_done;
        size_t part = piece->iov_len - conn->out_done;

        part = part < room ? part : room;
        if (part > 0) {
            mc_extent_hash_update(&conn->out_hash, from, part);
            MC_TRY(lend(conn, from, part));
        }
        room -= part;
        conn->out_done += part;
        if (conn->out_done == piece->iov_len) {
            conn->out_piece++;
            conn->out_done = 0;
        }
    }
    return conn->out_piece == op->pieces_count ? end_large(conn) : MOONCAKE_OK;
}

mooncake_err mc_tcp_conn_push(struct mc_tcp_conn *conn)
{
    while (mc_tcp_conn_wants_push(conn)) {
        MC_TRY(push_chunk(conn));
        mc_stream_flush(conn->stream); /* may end ops, and whoever hears of it may close us */
    }
    return MOONCAKE_OK;
}

mooncake_err mc_tcp_conn_send(struct mc_tcp_conn *conn, struct mc_xfer_op *op)
{
    mooncake_err err;

    MC_ASSERT(mc_tcp_conn_has_room(conn));
    op->peer = &conn->place;
    op->id = ++conn->place.peer->tcp->op_id;
    op->err = MOONCAKE_OK;
    op->answers_due = 1;
    op->mark = 0;
    mc_list_add_tail(&conn->asked, &op->node);
    conn->ops++;
    conn->bytes_out += op->right == MC_RIGHT_WRITE ? op->extent.payload_len : 0;
    conn->unflushed = true;
    if (op->right == MC_RIGHT_READ) {
        return send_read(conn, op);
    }
    if (op->extent.payload_len > CHUNK_LEN) {
        MC_TRY(begin_large(conn, op));
        return mc_tcp_conn_push(conn);
    }
    err = send_write(conn, op);
    op->mark = conn->sends;
    return err;
}
