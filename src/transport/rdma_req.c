/*
 * One op as a request: where its memory is registered, cutting it into works, and the proof at its
 * end.
 *
 * Design notes: an extent is [header | payload]; a work covers bytes [at, at + len) of it. The
 * first work carries the header, which lies in staging memory, and payload as further scatter
 * entries, so that both move in one work request. Payload lies in the caller's memory if every
 * piece is in a registered range, else each work goes through a chunk of staging.
 */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "transport/rdma_impl.h"

/* Payload of one work request: small enough to be striped and to be seen to make progress. */
#define WORK_LEN_MAX ((uint64_t)1 << 20)
#define SGES_MAX 64u

/* ---- pieces ---------------------------------------------------------------------------------- */

static void return_pieces(struct mc_rdma_req *req)
{
    struct mc_memreg *reg = req->peer->rdma->options.memreg;

    for (unsigned i = 0; req->pieces != NULL && i < req->op->pieces_count; i++) {
        if (req->pieces[i].range != NULL) {
            mc_memreg_return(reg, req->pieces[i].range);
            req->pieces[i].range = NULL;
        }
    }
    if (req->pieces != req->pieces_inline) {
        mc_free(req->pieces);
    }
    req->pieces = NULL;
}

static bool inside(const struct mc_memreg_range *range, const struct iovec *piece)
{
    uintptr_t at = (uintptr_t)piece->iov_base;

    return at >= range->base && at - range->base <= range->len &&
           piece->iov_len <= range->len - (at - range->base);
}

static void say_unpinned(const struct mc_memreg_range *range, mooncake_err err)
{
    if (err != MOONCAKE_EUNAVAILABLE) { /* else it was said when it was tried */
        mc_log_warn("rdma.unpinned", "bytes=%llu detail=\"%s\"", (unsigned long long)range->len,
                    mooncake_last_error());
    }
}

/* Find where each piece is registered. False: one is not. */
static bool find_pieces(struct mc_rdma_req *req)
{
    mooncake_err err;
    struct mc_rdma *rdma = req->peer->rdma;
    struct mc_memreg_range *last = NULL;
    struct mc_rdma_region *region = NULL;

    for (unsigned i = 0; i < req->op->pieces_count; i++) {
        const struct iovec *piece = &req->op->pieces[i];

        if (piece->iov_len == 0) {
            continue;
        }
        if (last == NULL || !inside(last, piece)) {
            last = mc_memreg_borrow(rdma->options.memreg, piece->iov_base, piece->iov_len);
            if (last == NULL) {
                return false;
            }
            req->pieces[i].range = last;
            err = mc_rdma_range_region_soon(last, rdma->verbs, rdma->ports, rdma->ports_count,
                                            &region);
            if (err != MOONCAKE_OK) {
                say_unpinned(last, err);
                return false;
            }
            if (req->numa_node < 0) {
                req->numa_node = region->numa_node;
            }
        }
        req->pieces[i].region = region;
    }
    return true;
}

/* Decide how the payload goes. ENOMEM. */
static mooncake_err place_payload(struct mc_rdma_req *req)
{
    unsigned count = req->op->pieces_count;

    req->numa_node = -1;
    req->staged = true;
    if (req->peer->rdma->options.memreg == NULL) {
        return MOONCAKE_OK;
    }
    req->pieces = count <= MC_RDMA_PIECES_INLINE ? req->pieces_inline
                                                 : mc_calloc(count, sizeof(*req->pieces));
    if (req->pieces == NULL) {
        return MOONCAKE_ENOMEM;
    }
    req->staged = !find_pieces(req);
    if (req->staged) {
        return_pieces(req);
    }
    return MOONCAKE_OK;
}

/* The piece that holds payload byte @p at, and how far into it that is. Skips empty ones. */
static unsigned seek(struct mc_rdma_req *req, uint64_t at, uint64_t *out_within)
{
    const struct iovec *pieces = req->op->pieces;

    if (at < req->cursor_at) {
        req->cursor = 0;
        req->cursor_at = 0;
    }
    while (req->cursor < req->op->pieces_count &&
           at - req->cursor_at >= pieces[req->cursor].iov_len) {
        req->cursor_at += pieces[req->cursor].iov_len;
        req->cursor++;
    }
    *out_within = at - req->cursor_at;
    return req->cursor;
}

/* Copy payload bytes [at, at + len) into @p chunk (a write) or out of it (a read). */
static void copy_chunk(struct mc_rdma_req *req, uint64_t at, uint64_t len, uint8_t *chunk)
{
    bool is_read = req->op->right == MC_RIGHT_READ;

    while (len > 0) {
        uint64_t within;
        const struct iovec *piece = &req->op->pieces[seek(req, at, &within)];
        uint64_t n = piece->iov_len - within < len ? piece->iov_len - within : len;
        uint8_t *memory = (uint8_t *)piece->iov_base + within;

        if (is_read) {
            memcpy(memory, chunk, n);
        } else {
            memcpy(chunk, memory, n);
        }
        at += n;
        chunk += n;
        len -= n;
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void write_header(struct mc_rdma_req *req)
{
    const struct mc_xfer_op *op = req->op;

    if (op->right == MC_RIGHT_WRITE) {
        mc_extent_header_build(&op->extent, mc_extent_hash_iov(op->pieces, op->pieces_count),
                               req->header);
    }
}

mooncake_err mc_rdma_req_create(struct mc_rdma_peer *peer, struct mc_xfer_op *op,
                                struct mc_rdma_req **out)
{
    struct mc_rdma_req *req = mc_calloc(1, sizeof(*req));
    mooncake_err err;

    if (req == NULL) {
        return MOONCAKE_ENOMEM;
    }
    req->peer = peer;
    req->op = op;
    req->number = ++peer->reqs_made;
    req->total = MC_EXTENT_HEADER_LEN + op->extent.payload_len;
    mc_list_init(&req->node);
    mc_list_init(&req->works);
    err = mc_rdma_staging_take_header(&peer->rdma->staging, &req->header);
    if (err != MOONCAKE_OK) {
        mc_free(req);
        return err;
    }
    err = place_payload(req);
    if (err != MOONCAKE_OK) {
        mc_rdma_staging_return_header(&peer->rdma->staging, req->header);
        mc_free(req);
        return err;
    }
    write_header(req);
    mc_list_add_tail(req->staged ? &peer->waiting_staged : &peer->waiting, &req->node);
    peer->reqs++;
    peer->ticket = op->extent;
    *out = req;
    return MOONCAKE_OK;
}

static void free_work(struct mc_rdma_work *work)
{
    MC_ASSERT(work->conn == NULL);
    mc_list_drop(&work->node);
    mc_list_drop(&work->req_node);
    if (work->chunk != NULL) {
        mc_rdma_staging_return_chunk(&work->req->peer->rdma->staging, work->chunk);
    }
    mc_free(work);
}

void mc_rdma_req_destroy(struct mc_rdma_req *req)
{
    struct mc_rdma_peer *peer = req->peer;

    mc_list_for_each_safe (node, next, &req->works) {
        struct mc_rdma_work *work = MC_CONTAINER_OF(node, struct mc_rdma_work, req_node);

        if (work->conn != NULL) {
            /* The device may be about to touch the op's memory; only this stops it. The path is not
             * to blame. The list keeps its order, so the iteration goes on. */
            mc_rdma_path_drop(work->conn->path, MOONCAKE_OK);
        }
        MC_ASSERT(work->conn == NULL);
        free_work(work);
    }
    return_pieces(req);
    mc_rdma_staging_return_header(&peer->rdma->staging, req->header);
    mc_list_drop(&req->node);
    MC_ASSERT(peer->reqs > 0);
    peer->reqs--;
    mc_free(req);
    mc_rdma_pump_soon(peer); /* others may have got room or staging, or lost their connection */
}

void mc_rdma_req_end(struct mc_rdma_req *req, mooncake_err err)
{
    struct mc_transport_stats *stats = &req->peer->rdma->stats;
    struct mc_xfer_op *op = req->op;

    mc_rdma_req_destroy(req);
    mc_counter_add_owner(&stats->ops, 1);
    if (err != MOONCAKE_OK) {
        mc_counter_add_owner(&stats->failures, 1);
    } else if (op->right == MC_RIGHT_READ) {
        mc_counter_add_owner(&stats->bytes_read, op->extent.payload_len);
    } else {
        mc_counter_add_owner(&stats->bytes_written, op->extent.payload_len);
    }
    op->err = err;
    op->peer = NULL;
    op->done(op);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Payload of a work at byte @p at of the extent: its first payload byte. */
static uint64_t payload_at(uint64_t at)
{
    return at == 0 ? 0 : at - MC_EXTENT_HEADER_LEN;
}

static uint64_t header_len(uint64_t at)
{
    return at == 0 ? MC_EXTENT_HEADER_LEN : 0;
}

/* Scatter entries for up to @p len payload bytes from byte @p at. Returns the bytes they hold. */
static uint64_t gather(struct mc_rdma_req *req, const struct mc_rdma_device *device, uint64_t at,
                       uint64_t len, unsigned room, struct ibv_sge *sges, unsigned *count)
{
    uint64_t begun = at;

    while (len > 0 && room > 0) {
        uint64_t within;
        unsigned index = seek(req, at, &within);
        const struct iovec *piece = &req->op->pieces[index];
        uint64_t n = piece->iov_len - within < len ? piece->iov_len - within : len;

        sges[(*count)++] =
            (struct ibv_sge){.addr = (uintptr_t)piece->iov_base + within,
                             .length = (uint32_t)n,
                             .lkey = req->pieces[index].region->mrs[device->index]->lkey};
        room--;
        at += n;
        len -= n;
    }
    return at - begun;
}

/* Fill in @p request and @p sges for @p work, whose len is the most it may be and is made what it
 * is. */
static void describe(struct mc_rdma_work *work, const struct mc_rdma_conn *conn,
                     struct mc_rdma_work_request *request, struct ibv_sge *sges)
{
    struct mc_rdma_req *req = work->req;
    struct mc_rdma *rdma = req->peer->rdma;
    const struct mc_rdma_device *device = conn->path->port->device;
    uint64_t head = header_len(work->at);
    uint64_t payload = work->len - head;
    unsigned count = 0;
    uint64_t remote = req->op->extent.offset + work->at;
    uint64_t left;

    if (head > 0) {
        sges[count++] =
            (struct ibv_sge){.addr = (uintptr_t)req->header,
                             .length = MC_EXTENT_HEADER_LEN,
                             .lkey = rdma->staging.headers_region.mrs[device->index]->lkey};
    }
    if (payload > 0 && req->staged) {
        sges[count++] =
            (struct ibv_sge){.addr = (uintptr_t)work->chunk,
                             .length = (uint32_t)payload,
                             .lkey = rdma->staging.chunks_region.mrs[device->index]->lkey};
    } else if (payload > 0) {
        payload =
            gather(req, device, payload_at(work->at), payload, rdma->sge_max - count, sges, &count);
    }
    work->len = head + payload;
    *request = (struct mc_rdma_work_request){
        .is_write = req->op->right == MC_RIGHT_WRITE,
        .remote_at = conn->remote.base + remote,
        .remote_key = conn->remote.keys[mc_rdma_part_of(&conn->remote, remote, &left)],
        .pieces = sges,
        .pieces_count = count,
        .len = work->len,
    };
    MC_ASSERT(work->len <= left);
}

/* Post @p work. Takes a chunk if it needs one. */
static mooncake_err post(struct mc_rdma_work *work, struct mc_rdma_conn *conn)
{
    struct mc_rdma_req *req = work->req;
    struct mc_rdma_work_request request;
    struct ibv_sge sges[SGES_MAX + 1];
    uint64_t payload = work->len - header_len(work->at);

    if (req->staged && payload > 0) {
        MC_TRY(mc_rdma_staging_take_chunk(&req->peer->rdma->staging, &work->chunk));
        if (req->op->right == MC_RIGHT_WRITE) {
            copy_chunk(req, payload_at(work->at), payload, work->chunk);
        }
    }
    describe(work, conn, &request, sges);
    mc_list_drop(&work->node);
    work->conn = conn;
    conn->under_way += work->len;
    return mc_rdma_qp_add(conn->qp, &request, work); /* an error: it comes back as lost */
}

/* How long the next work may be at most. */
static uint64_t next_len(const struct mc_rdma_req *req, const struct mc_rdma_conn *conn)
{
    uint64_t head = header_len(req->at);
    uint64_t len = req->total - req->at;
    uint64_t most = head + (req->staged ? MC_RDMA_CHUNK_LEN : WORK_LEN_MAX);
    uint64_t left;

    (void)mc_rdma_part_of(&conn->remote, req->op->extent.offset + req->at, &left);
    len = len < most ? len : most;
    return len < left ? len : left;
}

static bool inside_segment(const struct mc_rdma_req *req, const struct mc_rdma_answer *remote)
{
    const struct mc_extent_ref *extent = &req->op->extent;

    return extent->offset <= remote->len && MC_EXTENT_HEADER_LEN <= remote->len - extent->offset &&
           extent->payload_len <= remote->len - extent->offset - MC_EXTENT_HEADER_LEN;
}

mooncake_err mc_rdma_req_send_next(struct mc_rdma_req *req, struct mc_rdma_conn *conn)
{
    struct mc_rdma_work *work;
    mooncake_err err;

    MC_ASSERT(req->at < req->total);
    if (!inside_segment(req, &conn->remote)) {
        return mc_err_set(MOONCAKE_EINVAL, "segment %s: the extent lies outside", req->peer->name);
    }
    if (req->at == 0 && next_len(req, conn) < MC_EXTENT_HEADER_LEN) {
        return mc_err_set(MOONCAKE_EINVAL, "segment %s: the extent's header is cut by two parts",
                          req->peer->name);
    }
    work = mc_calloc(1, sizeof(*work));
    if (work == NULL) {
        return MOONCAKE_ENOMEM;
    }
    work->req = req;
    work->at = req->at;
    work->len = next_len(req, conn);
    mc_list_init(&work->node);
    mc_list_add_tail(&req->works, &work->req_node);
    err = post(work, conn);
    if (work->conn == NULL) { /* not taken */
        free_work(work);
        return err;
    }
    req->at += work->len;
    if (req->at == req->total) {
        mc_list_move_tail(&req->peer->sent, &req->node);
    }
    return err;
}

mooncake_err mc_rdma_work_send_again(struct mc_rdma_work *work, struct mc_rdma_conn *conn)
{
    MC_ASSERT(work->conn == NULL && work->chunk == NULL);
    return post(work, conn);
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Everything has come: is it what was asked for? */
static mooncake_err prove(const struct mc_rdma_req *req)
{
    const struct mc_xfer_op *op = req->op;
    uint64_t promised = 0;

    if (op->right != MC_RIGHT_READ || op->verify == MC_VERIFY_NONE) {
        return MOONCAKE_OK;
    }
    MC_TRY(mc_extent_header_check(&op->extent, req->header, &promised));
    if (op->verify == MC_VERIFY_FULL &&
        mc_extent_hash_iov(op->pieces, op->pieces_count) != promised) {
        return MOONCAKE_ECHECKSUM;
    }
    return MOONCAKE_OK;
}

void mc_rdma_work_done(struct mc_rdma_work *work)
{
    struct mc_rdma_req *req = work->req;
    uint64_t payload = work->len - header_len(work->at);

    work->conn->under_way -= work->len;
    work->conn->used_ns = mc_loop_now_ns(req->peer->rdma->transport.loop);
    if (!work->conn->proved) {
        work->conn->proved = true;
        mc_rdma_path_proved(work->conn->path);
    }
    work->conn = NULL;
    req->peer->rdma->moved += payload;
    if (work->chunk != NULL && req->op->right == MC_RIGHT_READ) {
        copy_chunk(req, payload_at(work->at), payload, work->chunk);
    }
    free_work(work);
    if (req->at == req->total && mc_list_empty(&req->works)) {
        mc_rdma_req_end(req, prove(req));
    }
}

void mc_rdma_work_lost(struct mc_rdma_work *work)
{
    struct mc_rdma_req *req = work->req;

    if (req->lost_serial != work->conn->serial) {
        req->lost_serial = work->conn->serial;
        req->losses++;
    }
    work->conn->under_way -= work->len;
    work->conn = NULL;
    if (work->chunk != NULL) {
        mc_rdma_staging_return_chunk(&req->peer->rdma->staging, work->chunk);
        work->chunk = NULL;
    }
    mc_list_add_tail(&req->peer->redo, &work->node);
}
