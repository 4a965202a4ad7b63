/*
 * A stream's inside, for stream.c (life, reading), stream_send.c (the queue) and stream_connect.c.
 */
#ifndef MC_IO_STREAM_IMPL_H
#define MC_IO_STREAM_IMPL_H

#include <uv.h>

#include "base/buf.h"
#include "io/address.h"
#include "io/loop_impl.h"
#include "io/stream.h"

#define MC_STREAM_DETAIL_LEN_MAX 400u

enum mc_stream_state {
    MC_STREAM_CONNECTING, /* resolving too */
    MC_STREAM_UP,
    MC_STREAM_CLOSING,
};

/* One send that the kernel has not taken whole. Copied bytes have no pointer: they are the front of
 * `copied`, in the same order. */
struct mc_send {
    const uint8_t *bytes; /* borrowed; NULL: in `copied` */
    size_t len;           /* what is left */
    void (*sent)(void *sent_arg, mooncake_err err);
    void *sent_arg;
};

/* Ring of sends; cap is 0 or a power of two; head and tail only grow. */
struct mc_send_ring {
    struct mc_send *slots; /* owned */
    size_t cap;
    size_t head, tail;
};

struct mc_connecting;
struct mc_watch;

struct mc_stream {
    struct mc_loop *loop; /* borrowed */
    const struct mc_stream_ops *ops;
    void *arg;
    enum mc_stream_state state;

    struct mc_watch *watch; /* owned; NULL: no descriptor */
    int fd;                 /* -1: none */
    int interest;           /* UV_READABLE | UV_WRITABLE as registered */

    bool broken;             /* the kernel has reported an error; what it holds is still read */
    bool reading_paused;     /* on_space has returned 0 */
    bool send_blocked;       /* the kernel has taken all it can; waiting for UV_WRITABLE */
    bool flushing;           /* inside mc_stream_flush() */
    bool finishing;          /* mc_stream_finish() was called: input is dropped */
    bool half_closed;        /* the peer has been told that no more comes */
    struct mc_timer *linger; /* owned; NULL unless finishing */
    struct mc_send_ring ring;
    struct mc_buf copied;
    size_t queued;

    struct mc_connecting *connecting; /* owned; NULL once up or closing */
    struct mc_post closed_post;
    mooncake_err why;
    char peer[MC_ADDR_LEN_MAX];
    char detail[MC_STREAM_DETAIL_LEN_MAX]; /* sentence for on_closed; "" if none */
};

/** A stream without a descriptor. NULL: no memory. */
struct mc_stream *mc_stream_make(struct mc_loop *loop, const struct mc_stream_ops *ops, void *arg);
/** Watch @p fd, which the stream owns from here also on error. */
mooncake_err mc_stream_watch(struct mc_stream *stream, int fd) MC_MUST_CHECK;
/** Stop watching and close the descriptor. */
void mc_stream_unwatch(struct mc_stream *stream);
/** Register interest in what the stream's state needs. */
void mc_stream_update_interest(struct mc_stream *stream);
/** As mc_stream_close(), with a sentence for the one who hears on_closed. */
void mc_stream_fail(struct mc_stream *stream, mooncake_err why, const char *fmt, ...)
    MC_PRINTF(3, 4);
/** Settings that each socket gets: no delay, keep-alive, a bound on unacknowledged data. */
void mc_stream_tune(int fd);

/** The descriptor is writable, or has an error: the attempt has ended. */
void mc_stream_connect_ready(struct mc_stream *stream);
/** Forget a connect under way. */
void mc_stream_connect_abort(struct mc_stream *stream);

/** While finishing: the queue is empty, or bytes have come. */
void mc_stream_finish_flushed(struct mc_stream *stream);
void mc_stream_finish_readable(struct mc_stream *stream);

/** Tell each queued send that it ends with @p err, and free the queue. */
void mc_stream_drop_sends(struct mc_stream *stream, mooncake_err err);

#endif
