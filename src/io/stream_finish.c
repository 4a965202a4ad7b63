/*
 * The polite end of a stream. close() on a socket that holds unread bytes makes the kernel send a
 * reset, and a reset may overtake the last bytes we sent; so we read until the peer has closed.
 */
#include <errno.h>
#include <sys/socket.h>

#include "io/stream_impl.h"

#define DROP_LEN ((size_t)16 << 10)
#define DROPS_PER_TURN_MAX 16u

static void linger_over(void *arg)
{
    mc_stream_close(arg, MOONCAKE_OK);
}

void mc_stream_finish(struct mc_stream *stream, uint32_t linger_ms)
{
    MC_ASSERT_ON_LOOP(stream->loop);
    if (stream->state == MC_STREAM_CLOSING || stream->finishing) {
        return;
    }
    if (stream->state == MC_STREAM_CONNECTING ||
        mc_timer_create(stream->loop, linger_over, stream, &stream->linger) != MOONCAKE_OK) {
        mc_stream_close(stream, MOONCAKE_OK);
        return;
    }
    stream->finishing = true;
    stream->reading_paused = false;
    mc_timer_set(stream->linger, linger_ms, 0);
    mc_stream_update_interest(stream);
    mc_stream_flush(stream);
}

void mc_stream_finish_flushed(struct mc_stream *stream)
{
    if (!stream->half_closed) {
        stream->half_closed = true;
        (void)shutdown(stream->fd, SHUT_WR);
    }
}

void mc_stream_finish_readable(struct mc_stream *stream)
{
    char dropped[DROP_LEN];

    for (unsigned i = 0; i < DROPS_PER_TURN_MAX; i++) {
        ssize_t n = recv(stream->fd, dropped, sizeof(dropped), 0);

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) &&
            !stream->broken) {
            return;
        }
        if (n <= 0) {
            mc_stream_close(stream, MOONCAKE_OK);
            return;
        }
    }
    if (stream->broken) {
        mc_stream_close(stream, MOONCAKE_OK);
    }
}
