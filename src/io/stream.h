/*
 * A byte stream to a peer over TCP: connect with a deadline, read straight into where the bytes
 * belong, a bounded write queue sent with one system call, close. No message format is known here.
 *
 * Promises, for every function:
 *   Thread    the loop's owner only.
 *   Blocking  never.
 *   Order     on_connected (client side), then any number of on_space/on_bytes, then on_closed
 *             exactly once, after which the stream's memory is gone. If a function returns an
 *             error, it had no effect and no callback will come for it.
 *   Reentry   send, flush and close may be called from callbacks; on_closed never runs inside
 *             another call, always from the loop.
 */
#ifndef MC_IO_STREAM_H
#define MC_IO_STREAM_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "io/loop.h"

struct mc_stream;

#define MC_STREAM_IOV_MAX 16u

struct mc_stream_ops {
    /* The connection is up. NULL allowed on accepted streams only. */
    void (*on_connected)(void *arg);

    /* Where may the next bytes land? Fill up to MC_STREAM_IOV_MAX ranges, first byte first, at
     * least one byte in all; return how many. 0 pauses reading until mc_stream_resume(). The ranges
     * stay valid until on_bytes or mc_stream_close(); if nothing had come after all, it is asked
     * again and the newest answer counts. */
    unsigned (*on_space)(void *arg, struct iovec *iov);

    /* @p len bytes have landed in the ranges of the last on_space, filling them in order. After
     * it returns, queued sends are flushed. */
    void (*on_bytes)(void *arg, size_t len);

    /* The last queued byte has gone to the kernel. NULL allowed. */
    void (*on_drained)(void *arg);

    /* The end; @p why is what mc_stream_close() was given when we closed it, ERPC when the peer
     * did, ETIMEDOUT when it could not connect in time. If the stream ended by itself, the sentence
     * that tells how is in mooncake_last_error(). Memory handed to mc_stream_send() is free again.
     * Don't touch the stream. */
    void (*on_closed)(void *arg, mooncake_err why);
};

/**
 * Begin to connect. Numeric addresses and names (resolved on a thread for each).
 *
 * @param address     "host:port"; copied
 * @param timeout_ms  for resolving and connecting
 * @retval EINVAL  not an address
 * @retval ENOMEM
 */
mooncake_err mc_stream_connect(struct mc_loop *loop, const char *address, uint32_t timeout_ms,
                               const struct mc_stream_ops *ops, void *arg,
                               struct mc_stream **out) MC_MUST_CHECK;

/**
 * Queue bytes: they are borrowed until @p sent runs (or, with @p sent NULL, copied). Nothing goes
 * out before mc_stream_flush() or the end of an on_bytes.
 *
 * @param sent  runs once when the last byte has gone to the kernel (from the loop or from inside
 *              mc_stream_flush()) or the stream is closed (then from the loop, before on_closed;
 * the bytes are not read any more from mc_stream_close() on); NULL: the bytes are copied into the
 * stream's own buffer
 * @retval ERPC    the stream is closing
 * @retval ENOMEM
 */
mooncake_err mc_stream_send(struct mc_stream *stream, const void *bytes, size_t len,
                            void (*sent)(void *sent_arg, mooncake_err err),
                            void *sent_arg) MC_MUST_CHECK;
/** Give what is queued to the kernel, as far as it takes it; the rest follows by itself. */
void mc_stream_flush(struct mc_stream *stream);
/** Bytes queued and not yet taken by the kernel. */
size_t mc_stream_queued(const struct mc_stream *stream);
/** Ask on_space again after it returned 0. */
void mc_stream_resume(struct mc_stream *stream);
/** Begin to close; unsent bytes are dropped. on_closed(why) follows. Calling twice is harmless.
 * After this no byte is written to or read from any memory of the user. */
void mc_stream_close(struct mc_stream *stream, mooncake_err why);
/** Send what is queued, tell the peer that no more will come, drop what it still sends, and close
 * when it has closed too or @p linger_ms have passed; on_closed(OK) follows. A plain close can cost
 * the peer the last bytes, if it has sent some that were not read. Nothing can be sent and nothing
 * is read into the user's memory from here on. */
void mc_stream_finish(struct mc_stream *stream, uint32_t linger_ms);
bool mc_stream_is_connected(const struct mc_stream *stream);
/** "10.0.0.7:18515"; valid as long as the stream. */
const char *mc_stream_peer(const struct mc_stream *stream);

/* ---- accepting --------------------------------------------------------------------------- */

struct mc_listener;

/** A peer has connected. The descriptor is the callee's: hand it to mc_stream_accept(), here or on
 * another loop, or close() it. */
typedef void (*mc_listener_cb)(void *arg, int fd);

/**
 * Listen on @p address ("0.0.0.0:0": the kernel picks). Several loops may listen on one port
 * with @p share_port (SO_REUSEPORT). The host is numeric or "localhost". EINVAL, ERPC (address in
 * use: the sentence names it), ENOMEM.
 */
mooncake_err mc_listener_open(struct mc_loop *loop, const char *address, bool share_port,
                              mc_listener_cb on_accept, void *arg,
                              struct mc_listener **out) MC_MUST_CHECK;
uint16_t mc_listener_port(const struct mc_listener *listener);
/** No on_accept any more. Nulls *listener. */
void mc_listener_close(struct mc_listener **listener);
/** Make a stream of an accepted descriptor, which is taken in every case. May be called on any
 * loop's owner, for handing connections to other loops. */
mooncake_err mc_stream_accept(struct mc_loop *loop, int fd, const struct mc_stream_ops *ops,
                              void *arg, struct mc_stream **out) MC_MUST_CHECK;

#endif
