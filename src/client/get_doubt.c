/*
 * A second look at what seems damaged, into memory of our own.
 *
 * A checksum that does not hold tells that either the copy is damaged or somebody else has written
 * to the caller's memory while we read: buffers of a batch overlap, or another thread of the
 * program uses one of them. The master drops copies that it is told are damaged, so a slip of one
 * program could cost every reader its data. Nobody else knows the memory of the second look.
 */
#include <string.h>

#include "client/get_impl.h"

/* Second looks of one job at a time; a longer extent is looked at alone. Beyond that damage goes
 * untold: the next reader finds it too. */
#define DOUBT_BYTES_MAX ((uint64_t)64 << 20)

bool mc_get_doubt_begin(struct mc_get_window *window, struct mc_get_op *op)
{
    struct mc_get_job *job = window->job;
    const uint64_t len = op->op.extent.payload_len;

    if (op->op.lend != NULL || job->mode != MC_GET_INTO || op->own.iov_base != NULL || len == 0 ||
        mc_call_expired(job->base.call)) {
        return false;
    }
    if (job->doubt_bytes > 0 &&
        (len > DOUBT_BYTES_MAX || job->doubt_bytes > DOUBT_BYTES_MAX - len)) {
        op->untold = true;
        return false;
    }
    op->own.iov_base = mc_malloc((size_t)len);
    if (op->own.iov_base == NULL) {
        op->untold = true;
        return false;
    }
    op->own.iov_len = (size_t)len;
    op->pieces = op->op.pieces;
    op->pieces_count = op->op.pieces_count;
    op->op.pieces = &op->own;
    op->op.pieces_count = 1;
    job->doubt_bytes += len;
    return true;
}

void mc_get_doubt_end(struct mc_get_window *window, struct mc_get_op *op)
{
    const uint8_t *from = op->own.iov_base;

    if (from == NULL) {
        return;
    }
    if (op->op.err == MOONCAKE_OK) {
        for (unsigned i = 0; i < op->pieces_count; i++) {
            memcpy(op->pieces[i].iov_base, from, op->pieces[i].iov_len);
            from += op->pieces[i].iov_len;
        }
        (void)atomic_fetch_add_explicit(&window->job->base.call->client->counters.reads_disturbed,
                                        1, memory_order_relaxed);
    }
    MC_ASSERT(window->job->doubt_bytes >= op->own.iov_len);
    window->job->doubt_bytes -= op->own.iov_len;
    mc_free(op->own.iov_base);
    op->own = (struct iovec){0};
}
