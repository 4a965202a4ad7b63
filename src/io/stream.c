/*
 * Streams: their life, and reading. Connecting and sending have files of their own.
 *
 * Design notes
 * - We watch the socket with uv_poll and do readv() and sendmsg() ourselves, because bytes have to
 *   land where they belong and many small sends have to go out in one call; uv_tcp can do neither.
 * - Changing what is watched costs two system calls in libuv. So reading is unregistered only when
 *   bytes have come while it is paused, and writing is registered only while the kernel is full.
 * - The descriptor is closed at once by mc_stream_close(): nothing can touch the user's memory
 *   afterwards. The struct lives on until the loop has run the last callbacks.
 */
#include "io/stream.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/stream_impl.h"

/* What one stream may read in one turn of the loop before others get theirs. */
#define READS_PER_TURN_MAX 16u
#define READ_LEN_PER_TURN_MAX ((size_t)1 << 20)

/* A silent peer is asked after 15 s, and given up 3 questions later; one that does not acknowledge
 * what was sent, after 30 s. */
#define KEEPALIVE_IDLE_S 15
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES 3
#define UNACKNOWLEDGED_MS 30000

void mc_stream_tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS},
    };

    for (size_t i = 0; i < MC_ARRAY_LEN(options); i++) {
        /* Works without them, only slower to notice things; a Unix socket in a test has none. */
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof(options[i].value));
    }
}

/* ---- watching the descriptor ----------------------------------------------------------------- */

/* A watched descriptor. Apart from the stream, because a connect tries several descriptors and
 * libuv lets go of each some time after it was closed. */
struct mc_watch {
    uv_poll_t poll;
    struct mc_stream *stream; /* borrowed; NULL once unwatched */
};

static void read_ready(struct mc_stream *stream);

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct mc_stream *stream = MC_CONTAINER_OF(poll, struct mc_watch, poll)->stream;

    if (stream == NULL) {
        return;
    }
    mc_loop_note_event(stream->loop);
    if (stream->state == MC_STREAM_CONNECTING) {
        mc_stream_connect_ready(stream);
        return;
    }
    if (status < 0) {
        /* libuv has stopped watching: the connection is broken. What came before that can still be
         * read, and reading tells what is wrong. */
        stream->interest = 0;
        stream->broken = true;
        read_ready(stream);
        return;
    }
    if ((events & UV_WRITABLE) != 0) {
        stream->send_blocked = false;
        mc_stream_flush(stream);
    }
    if ((events & UV_READABLE) != 0 && stream->state == MC_STREAM_UP) {
        read_ready(stream);
    }
}

static void watch_closed_cb(uv_handle_t *handle)
{
    mc_free(MC_CONTAINER_OF(handle, struct mc_watch, poll));
}

mooncake_err mc_stream_watch(struct mc_stream *stream, int fd)
{
    struct mc_watch *watch = mc_malloc(sizeof(*watch));
    int status;

    MC_ASSERT(stream->watch == NULL);
    if (watch == NULL) {
        (void)close(fd);
        return MOONCAKE_ENOMEM;
    }
    status = uv_poll_init(mc_loop_uv(stream->loop), &watch->poll, fd);
    if (status != 0) {
        mc_free(watch);
        (void)close(fd);
        return mc_err_set(mc_err_from_uv(status), "cannot watch a socket: %s", uv_strerror(status));
    }
    watch->stream = stream;
    stream->watch = watch;
    stream->fd = fd;
    stream->interest = 0;
    return MOONCAKE_OK;
}

void mc_stream_unwatch(struct mc_stream *stream)
{
    if (stream->watch == NULL) {
        return;
    }
    stream->watch->stream = NULL;
    uv_close((uv_handle_t *)&stream->watch->poll, watch_closed_cb);
    stream->watch = NULL;
    (void)close(stream->fd); /* libuv has taken it out of its epoll already */
    stream->fd = -1;
}

void mc_stream_update_interest(struct mc_stream *stream)
{
    int want = stream->interest & UV_READABLE; /* lazily dropped, see read_ready() */

    MC_ASSERT(stream->state != MC_STREAM_CLOSING);
    if (stream->state == MC_STREAM_CONNECTING) {
        want = UV_WRITABLE;
    } else {
        want |= stream->reading_paused ? 0 : UV_READABLE;
        want |= stream->send_blocked ? UV_WRITABLE : 0;
    }
    if (want == stream->interest || stream->broken) {
        return;
    }
    stream->interest = want;
    (void)uv_poll_start(&stream->watch->poll, want, poll_cb);
}

/* ---- reading -------------------------------------------------------------------------------- */

static size_t iov_total(const struct iovec *iov, unsigned count)
{
    size_t total = 0;

    for (unsigned i = 0; i < count; i++) {
        total += iov[i].iov_len;
    }
    return total;
}

/* Bytes have come while nobody wants them. */
static void stop_reading(struct mc_stream *stream)
{
    if (stream->broken) {
        mc_stream_fail(stream, MOONCAKE_ERPC, "the connection to %s was lost", stream->peer);
        return;
    }
    stream->interest &= ~UV_READABLE;
    (void)uv_poll_start(&stream->watch->poll, stream->interest, poll_cb);
}

/* Read once. Returns how many bytes more could be read at once: 0 ends this turn. */
static size_t read_some(struct mc_stream *stream)
{
    struct iovec iov[MC_STREAM_IOV_MAX];
    unsigned count = stream->ops->on_space(stream->arg, iov);
    enum mc_spent_kind was;
    size_t space;
    ssize_t n;
    int error;

    if (stream->state == MC_STREAM_CLOSING || stream->finishing) {
        return 0;
    }
    if (count == 0) {
        stream->reading_paused = true; /* still watched: it is often resumed before more comes */
        return 0;
    }
    MC_ASSERT(count <= MC_STREAM_IOV_MAX);
    space = iov_total(iov, count);
    MC_ASSERT(space > 0);
    was = mc_spend(&stream->loop->spent, MC_SPENT_SOCKETS);
    n = readv(stream->fd, iov, (int)count);
    error = errno;
    (void)mc_spend(&stream->loop->spent, was);
    if (n > 0) {
        stream->ops->on_bytes(stream->arg, (size_t)n);
        if (stream->state == MC_STREAM_UP) {
            mc_stream_flush(stream);
        }
        /* A short read has emptied the socket: asking again would be a wasted call. */
        return (size_t)n < space && !stream->broken ? 0 : (size_t)n;
    }
    if (n == 0) {
        mc_stream_fail(stream, MOONCAKE_ERPC, "%s closed the connection", stream->peer);
    } else if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) {
        if (stream->broken) {
            mc_stream_fail(stream, MOONCAKE_ERPC, "the connection to %s was lost", stream->peer);
        }
    } else {
        mc_stream_fail(stream, error == ETIMEDOUT ? MOONCAKE_ETIMEDOUT : MOONCAKE_ERPC,
                       "the connection to %s was lost: %s", stream->peer, strerror(error));
    }
    return 0;
}

static void read_ready(struct mc_stream *stream)
{
    size_t total = 0;

    if (stream->finishing) {
        mc_stream_finish_readable(stream);
        return;
    }
    if (stream->reading_paused) {
        stop_reading(stream);
        return;
    }
    for (unsigned i = 0; i < READS_PER_TURN_MAX && total < READ_LEN_PER_TURN_MAX; i++) {
        size_t n = read_some(stream);

        if (stream->state == MC_STREAM_CLOSING || stream->finishing) {
            return;
        }
        if (n == 0) {
            break;
        }
        total += n;
    }
    if (stream->broken) {
        /* Ask to be told of the error again: libuv has stopped watching. */
        stream->broken = false;
        mc_stream_update_interest(stream);
    }
}

void mc_stream_resume(struct mc_stream *stream)
{
    MC_ASSERT_ON_LOOP(stream->loop);
    if (stream->state != MC_STREAM_UP || stream->finishing) {
        return;
    }
    stream->reading_paused = false;
    mc_stream_update_interest(stream);
}

/* ---- beginning and end --------------------------------------------------------------------- */

struct mc_stream *mc_stream_make(struct mc_loop *loop, const struct mc_stream_ops *ops, void *arg)
{
    struct mc_stream *stream = mc_calloc(1, sizeof(*stream));

    if (stream != NULL) {
        stream->loop = loop;
        stream->ops = ops;
        stream->arg = arg;
        stream->fd = -1;
        mc_buf_init(&stream->copied);
    }
    return stream;
}

mooncake_err mc_stream_accept(struct mc_loop *loop, int fd, const struct mc_stream_ops *ops,
                              void *arg, struct mc_stream **out)
{
    struct mc_stream *stream = mc_stream_make(loop, ops, arg);
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);
    mooncake_err err;

    MC_ASSERT_ON_LOOP(loop);
    if (stream == NULL) {
        (void)close(fd);
        return MOONCAKE_ENOMEM;
    }
    memset(&peer, 0, sizeof(peer));
    (void)getpeername(fd, (struct sockaddr *)&peer, &len);
    mc_address_print(&peer, stream->peer, sizeof(stream->peer));
    mc_stream_tune(fd);
    err = mc_stream_watch(stream, fd);
    if (err != MOONCAKE_OK) {
        mc_free(stream);
        return err;
    }
    stream->state = MC_STREAM_UP;
    mc_stream_update_interest(stream);
    *out = stream;
    return MOONCAKE_OK;
}

/* Last act, from the loop. */
static void finish_post(struct mc_post *post)
{
    struct mc_stream *stream = MC_CONTAINER_OF(post, struct mc_stream, closed_post);

    mc_stream_drop_sends(stream, stream->why == MOONCAKE_OK ? MOONCAKE_ERPC : stream->why);
    mc_err_clear();
    if (stream->detail[0] != '\0') {
        (void)mc_err_set(stream->why, "%s", stream->detail);
    }
    stream->ops->on_closed(stream->arg, stream->why);
    mc_free(stream);
}

void mc_stream_close(struct mc_stream *stream, mooncake_err why)
{
    MC_ASSERT_ON_LOOP(stream->loop);
    if (stream->state == MC_STREAM_CLOSING) {
        return;
    }
    stream->state = MC_STREAM_CLOSING;
    stream->why = why;
    mc_timer_destroy(&stream->linger);
    mc_stream_connect_abort(stream);
    mc_stream_unwatch(stream);
    stream->closed_post.run = finish_post;
    mc_loop_post(stream->loop, &stream->closed_post);
}

void mc_stream_fail(struct mc_stream *stream, mooncake_err why, const char *fmt, ...)
{
    va_list args;

    if (stream->state == MC_STREAM_CLOSING) {
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(stream->detail, sizeof(stream->detail), fmt, args);
    va_end(args);
    mc_stream_close(stream, why);
}

bool mc_stream_is_connected(const struct mc_stream *stream)
{
    return stream->state == MC_STREAM_UP && !stream->finishing;
}

const char *mc_stream_peer(const struct mc_stream *stream)
{
    return stream->peer;
}
