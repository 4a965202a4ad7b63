/*
 * Requests out on one connection, client side.
 *
 * Design notes
 * - An extent's header holds its payload's checksum, and no payload should go through the cache
 *   twice. So a large WRITE is several requests: parts of the payload, each hashed and then given
 *   to the kernel, and last the header.
 * - No more is hashed than will be sent soon: a connection with much unsent has no room.
 * - Callers' memory is lent to the stream with the connection as the argument, never the op: an op
 *   may be cancelled, and gone, before the stream tells that the send has ended.
 */
#include "transport/tcp_impl.h"

/* Unsent bytes beyond which nothing further is prepared. */
#define SEND_AHEAD_LEN ((size_t)1024 << 10)

static void on_piece_sent(void *arg, mooncake_err err)
{
    (void)err;
    mc_tcp_conn_send_ended(arg);
}

bool mc_tcp_conn_has_room(const struct mc_tcp_conn *conn)
{
    return conn->state == MC_TCP_CONN_UP && !conn->old && conn->ops < MC_TCP_CONN_OPS_MAX &&
           mc_stream_queued(conn->stream) < SEND_AHEAD_LEN;
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

/* Queue the request for @p len bytes of the extent, header included, from @p offset on. */
static mooncake_err ask(struct mc_tcp_conn *conn, const struct mc_xfer_op *op, uint64_t offset,
                        uint64_t len)
{
    const struct mc_tcp_request request = {.op = op->right,
                                           .id = op->id,
                                           .extent = op->extent,
                                           .part_offset = offset,
                                           .part_len = len};
    uint8_t frame[MC_TCP_REQUEST_LEN];

    mc_tcp_request_encode(&request, frame);
    return copy(conn, frame, sizeof(frame));
}

static mooncake_err send_header(struct mc_tcp_conn *conn, const struct mc_xfer_op *op,
                                uint64_t checksum)
{
    uint8_t header[MC_EXTENT_HEADER_LEN];

    mc_extent_header_build(&op->extent, checksum, header);
    return copy(conn, header, sizeof(header));
}

static mooncake_err send_payload(struct mc_tcp_conn *conn, const struct mc_xfer_op *op,
                                 struct mc_tcp_cursor at, uint64_t len)
{
    const bool small = len <= MC_TCP_SMALL_LEN;

    for (; len > 0; at.piece++, at.done = 0) {
        const struct iovec *piece = &op->pieces[at.piece];
        const uint8_t *from = (const uint8_t *)piece->iov_base + at.done;
        size_t run = piece->iov_len - at.done;

        run = run < len ? run : (size_t)len;
        if (run > 0) {
            MC_TRY(small ? copy(conn, from, run) : lend(conn, from, run));
        }
        len -= run;
    }
    return MOONCAKE_OK;
}

static mooncake_err send_whole(struct mc_tcp_conn *conn, const struct mc_xfer_op *op)
{
    MC_TRY(ask(conn, op, 0, MC_EXTENT_HEADER_LEN + op->extent.payload_len));
    if (op->right == MC_RIGHT_READ) {
        return MOONCAKE_OK;
    }
    MC_TRY(send_header(conn, op, mc_extent_hash_iov(op->pieces, op->pieces_count)));
    return send_payload(conn, op, (struct mc_tcp_cursor){0}, op->extent.payload_len);
}

static mooncake_err send_part(struct mc_tcp_conn *conn, const struct mc_tcp_part *part)
{
    const struct mc_xfer_op *op = &part->op;
    const struct mc_tcp_stripe *stripe = op->stripe;

    if (mc_tcp_op_has_header(op)) {
        MC_TRY(ask(conn, op, 0, MC_EXTENT_HEADER_LEN + part->len));
    } else {
        MC_TRY(ask(conn, op, MC_EXTENT_HEADER_LEN + part->offset, part->len));
    }
    if (op->right == MC_RIGHT_READ) {
        return MOONCAKE_OK;
    }
    if (part->header_only) {
        return send_header(conn, op, mc_extent_hash_digest(&stripe->hash));
    }
    return send_payload(conn, op, part->start, part->len);
}

mooncake_err mc_tcp_conn_send(struct mc_tcp_conn *conn, struct mc_xfer_op *op)
{
    const struct mc_tcp_part *part = mc_tcp_part_of(op);
    mooncake_err err;

    MC_ASSERT(mc_tcp_conn_has_room(conn));
    op->peer = &conn->place;
    op->id = ++conn->place.peer->tcp->op_id;
    op->err = MOONCAKE_OK;
    op->mark = 0;
    mc_list_add_tail(&conn->asked, &op->node);
    conn->ops++;
    conn->load += mc_tcp_op_load(op);
    conn->unflushed = true;
    err = part != NULL ? send_part(conn, part) : send_whole(conn, op);
    op->mark = conn->sends;
    return err;
}
