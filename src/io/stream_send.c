/*
 * The send queue of a stream. Sends are gathered into one system call; copied ones coalesce.
 *
 * Design note: `sent` and `on_drained` run inside the flush and may do anything to the stream, also
 * close it or send more. So no pointer into the ring is kept over a callback, the state is looked
 * at again after each, and a flush inside a flush is left to the outer one.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "io/stream_impl.h"

#define IOV_PER_CALL_MAX 128u
#define RING_CAP_MIN 16u
/* One flush gives the kernel at most this; the rest goes in the next turn of the loop. */
#define FLUSH_LEN_MAX ((size_t)4 << 20)
/* Memory for copied sends that is kept when the queue is empty. */
#define COPIED_KEEP_LEN_MAX ((size_t)256 << 10)

static struct mc_send *slot(const struct mc_send_ring *ring, size_t at)
{
    return &ring->slots[at & (ring->cap - 1)];
}

static mooncake_err ring_reserve(struct mc_send_ring *ring)
{
    size_t cap = ring->cap == 0 ? RING_CAP_MIN : ring->cap * 2;
    struct mc_send *slots;

    if (ring->tail - ring->head < ring->cap) {
        return MOONCAKE_OK;
    }
    slots = cap > SIZE_MAX / sizeof(*slots) ? NULL : mc_malloc(cap * sizeof(*slots));
    if (slots == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t at = ring->head; at != ring->tail; at++) {
        slots[at & (cap - 1)] = *slot(ring, at);
    }
    mc_free(ring->slots);
    ring->slots = slots;
    ring->cap = cap;
    return MOONCAKE_OK;
}

static mooncake_err send_copied(struct mc_stream *stream, const void *bytes, size_t len)
{
    struct mc_send_ring *ring = &stream->ring;
    struct mc_send *last = ring->tail == ring->head ? NULL : slot(ring, ring->tail - 1);

    if (len == 0) {
        return MOONCAKE_OK;
    }
    if (last != NULL && last->bytes == NULL && last->sent == NULL) {
        MC_TRY(mc_buf_append(&stream->copied, bytes, len));
        last->len += len;
    } else {
        MC_TRY(ring_reserve(ring));
        MC_TRY(mc_buf_append(&stream->copied, bytes, len));
        *slot(ring, ring->tail++) = (struct mc_send){.len = len};
    }
    stream->queued += len;
    return MOONCAKE_OK;
}

mooncake_err mc_stream_send(struct mc_stream *stream, const void *bytes, size_t len,
                            void (*sent)(void *sent_arg, mooncake_err err), void *sent_arg)
{
    MC_ASSERT_ON_LOOP(stream->loop);
    if (stream->state == MC_STREAM_CLOSING || stream->finishing) {
        return mc_err_set(MOONCAKE_ERPC, "the connection to %s is closing", stream->peer);
    }
    if (len > SIZE_MAX / 2 - stream->queued) {
        return MOONCAKE_ENOMEM;
    }
    if (sent == NULL) {
        return send_copied(stream, bytes, len);
    }
    MC_TRY(ring_reserve(&stream->ring));
    *slot(&stream->ring, stream->ring.tail++) = (struct mc_send){
        .bytes = bytes,
        .len = len,
        .sent = sent,
        .sent_arg = sent_arg,
    };
    stream->queued += len;
    return MOONCAKE_OK;
}

size_t mc_stream_queued(const struct mc_stream *stream)
{
    return stream->queued;
}

/* Point @p iov at the front of the queue. */
static unsigned gather(const struct mc_stream *stream, struct iovec iov[IOV_PER_CALL_MAX])
{
    const struct mc_send_ring *ring = &stream->ring;
    uint8_t *copied = stream->copied.data + stream->copied.start;
    size_t total = 0;
    unsigned count = 0;

    for (size_t at = ring->head; at != ring->tail && count < IOV_PER_CALL_MAX; at++) {
        const struct mc_send *send = slot(ring, at);

        if (total >= FLUSH_LEN_MAX) {
            break;
        }
        if (send->len == 0) {
            continue;
        }
        if (send->bytes == NULL) {
            iov[count].iov_base = copied;
            copied += send->len;
        } else {
            /* sendmsg() does not write there; its struct has no const. */
            memcpy(&iov[count].iov_base, &send->bytes, sizeof(iov[count].iov_base));
        }
        iov[count].iov_len = send->len;
        total += send->len;
        count++;
    }
    return count;
}

/* The kernel has taken @p taken bytes: take them off the queue and tell whose they were. */
static void advance(struct mc_stream *stream, size_t taken)
{
    struct mc_send_ring *ring = &stream->ring;

    MC_ASSERT(taken <= stream->queued);
    stream->queued -= taken;
    while (ring->head != ring->tail) {
        struct mc_send *front = slot(ring, ring->head);
        size_t part = front->len < taken ? front->len : taken;
        struct mc_send ended;

        if (front->bytes == NULL) {
            mc_buf_consume(&stream->copied, part);
        } else {
            front->bytes += part;
        }
        front->len -= part;
        taken -= part;
        if (front->len > 0) {
            break;
        }
        ended = *front;
        ring->head++;
        if (ended.sent != NULL) {
            ended.sent(ended.sent_arg, MOONCAKE_OK);
        }
        if (stream->state == MC_STREAM_CLOSING) {
            return;
        }
    }
    MC_ASSERT(taken == 0);
}

/* Give the kernel one call's worth. False if it takes no more now, or the stream has failed. */
static bool send_some(struct mc_stream *stream, size_t *budget)
{
    struct iovec iov[IOV_PER_CALL_MAX];
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = gather(stream, iov)};
    enum mc_spent_kind was = mc_spend(&stream->loop->spent, MC_SPENT_SOCKETS);
    ssize_t n = 0;
    int error = 0;

    if (msg.msg_iovlen > 0) {
        n = sendmsg(stream->fd, &msg, MSG_NOSIGNAL);
        error = errno;
    }
    (void)mc_spend(&stream->loop->spent, was);
    if (n < 0) {
        if (error == EINTR) {
            return true;
        }
        if (error == EAGAIN || error == EWOULDBLOCK) {
            stream->send_blocked = true;
            return false;
        }
        mc_stream_fail(stream, error == ENOMEM ? MOONCAKE_ENOMEM : MOONCAKE_ERPC,
                       "the connection to %s was lost while sending: %s", stream->peer,
                       strerror(error));
        return false;
    }
    *budget -= (size_t)n < *budget ? (size_t)n : *budget;
    advance(stream, (size_t)n);
    return stream->state != MC_STREAM_CLOSING;
}

void mc_stream_flush(struct mc_stream *stream)
{
    size_t budget = FLUSH_LEN_MAX;

    MC_ASSERT_ON_LOOP(stream->loop);
    if (stream->state != MC_STREAM_UP || stream->flushing || stream->send_blocked) {
        return;
    }
    stream->flushing = true;
    while (stream->ring.head != stream->ring.tail) {
        if (budget == 0) {
            stream->send_blocked = true; /* goes on when the loop has looked at the others */
            break;
        }
        if (!send_some(stream, &budget)) {
            break;
        }
        if (stream->ring.head == stream->ring.tail) {
            mc_buf_clear(&stream->copied, COPIED_KEEP_LEN_MAX);
            if (stream->ops->on_drained != NULL) {
                stream->ops->on_drained(stream->arg);
            }
        }
        if (stream->state == MC_STREAM_CLOSING) {
            break;
        }
    }
    stream->flushing = false;
    if (stream->state != MC_STREAM_CLOSING) {
        mc_stream_update_interest(stream);
        if (stream->finishing && stream->ring.head == stream->ring.tail) {
            mc_stream_finish_flushed(stream);
        }
    }
}

void mc_stream_drop_sends(struct mc_stream *stream, mooncake_err err)
{
    struct mc_send_ring *ring = &stream->ring;

    while (ring->head != ring->tail) {
        struct mc_send ended = *slot(ring, ring->head++);

        if (ended.sent != NULL) {
            ended.sent(ended.sent_arg, err);
        }
    }
    stream->queued = 0;
    mc_free(ring->slots);
    memset(ring, 0, sizeof(*ring));
    mc_buf_fini(&stream->copied);
}
