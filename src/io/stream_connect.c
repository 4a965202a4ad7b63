/*
 * Connecting a stream: resolve the name if there is one, then try its addresses one after another,
 * all within one deadline.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/resolve.h"
#include "io/stream_impl.h"

/* Addresses of one name that are tried. */
#define ADDRESSES_MAX 8u

/* A connect under way. */
struct mc_connecting {
    struct mc_stream *stream;   /* borrowed */
    struct mc_resolve *resolve; /* NULL: not asking */
    struct mc_timer *timer;
    uint64_t deadline_ns;
    uint32_t timeout_ms;
    struct mc_address_parts parts;
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    unsigned count, next; /* of addresses */
    int last_error;       /* errno of the last attempt */
};

static const char *address_text(const struct mc_connecting *c)
{
    return c->stream->peer;
}

static void fail_last(struct mc_connecting *c)
{
    mooncake_err err = mc_err_from_errno(c->last_error);

    mc_stream_fail(c->stream,
                   err == MOONCAKE_ENOMEM || err == MOONCAKE_ETIMEDOUT ? err : MOONCAKE_ERPC,
                   "cannot connect to %s: %s", address_text(c), strerror(c->last_error));
}

/* Begin an attempt. False: it failed at once, last_error tells why. */
static bool attempt(struct mc_connecting *c, const struct sockaddr_storage *address)
{
    struct mc_stream *stream = c->stream;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        c->last_error = errno;
        return false;
    }
    mc_stream_tune(fd);
    if (connect(fd, (const struct sockaddr *)address, mc_address_len(address)) != 0 &&
        errno != EINPROGRESS) {
        c->last_error = errno;
        (void)close(fd);
        return false;
    }
    if (mc_stream_watch(stream, fd) != MOONCAKE_OK) {
        c->last_error = ENOMEM;
        return false;
    }
    mc_stream_update_interest(stream);
    return true;
}

/* Try addresses until one is under way; the stream fails when none is left. */
static void attempt_next(struct mc_connecting *c)
{
    uint64_t left_ms = mc_left_ms(mc_monotonic_ns(), c->deadline_ns);
    unsigned untried;

    while (c->next < c->count) {
        const struct sockaddr_storage *address = &c->addresses[c->next++];

        if (attempt(c, address)) {
            /* A silent address must leave time for those behind it. */
            untried = c->count - c->next;
            mc_timer_set(c->timer, left_ms / (untried + 1), 0);
            return;
        }
    }
    fail_last(c);
}

static void timer_fired(void *arg)
{
    struct mc_connecting *c = arg;

    if (c->resolve != NULL) {
        mc_stream_fail(c->stream, MOONCAKE_ETIMEDOUT,
                       "cannot connect to %s: its name was not resolved within %u ms",
                       address_text(c), (unsigned)c->timeout_ms);
        return;
    }
    if (c->next < c->count) {
        c->last_error = ETIMEDOUT;
        mc_stream_unwatch(c->stream);
        attempt_next(c);
        return;
    }
    mc_stream_fail(c->stream, MOONCAKE_ETIMEDOUT, "cannot connect to %s: no answer within %u ms",
                   address_text(c), (unsigned)c->timeout_ms);
}

void mc_stream_connect_abort(struct mc_stream *stream)
{
    struct mc_connecting *c = stream->connecting;

    if (c != NULL) {
        stream->connecting = NULL;
        mc_resolve_abandon(&c->resolve);
        mc_timer_destroy(&c->timer);
        mc_free(c);
    }
}

static int pending_error(int fd)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        return errno;
    }
    return error;
}

/* A connection to ourselves: the kernel picked, as our own port, the very port that we connect to
 * and nobody listens on. */
static bool is_self_connected(int fd)
{
    struct sockaddr_storage own, peer;
    socklen_t own_len = sizeof(own);
    socklen_t peer_len = sizeof(peer);

    memset(&own, 0, sizeof(own));
    memset(&peer, 0, sizeof(peer));
    return getsockname(fd, (struct sockaddr *)&own, &own_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0 && own_len == peer_len &&
           memcmp(&own, &peer, own_len) == 0;
}

void mc_stream_connect_ready(struct mc_stream *stream)
{
    struct mc_connecting *c = stream->connecting;
    int error = pending_error(stream->fd);

    if (error == 0 && is_self_connected(stream->fd)) {
        error = ECONNREFUSED;
    }
    if (error != 0) {
        c->last_error = error;
        mc_stream_unwatch(stream);
        attempt_next(c);
        return;
    }
    mc_address_print(&c->addresses[c->next - 1], stream->peer, sizeof(stream->peer));
    mc_stream_connect_abort(stream); /* it has done its work */
    stream->state = MC_STREAM_UP;
    mc_stream_update_interest(stream);
    stream->ops->on_connected(stream->arg);
    if (stream->state == MC_STREAM_UP) {
        mc_stream_flush(stream);
    }
}

static void resolved(void *arg, int gai_error, const struct addrinfo *found)
{
    struct mc_connecting *c = arg;

    c->resolve = NULL;
    if (gai_error != 0) {
        mc_stream_fail(c->stream, MOONCAKE_ERPC, "cannot resolve the host name of %s: %s",
                       address_text(c), gai_strerror(gai_error));
        return;
    }
    for (const struct addrinfo *at = found; at != NULL && c->count < ADDRESSES_MAX;
         at = at->ai_next) {
        if (at->ai_addrlen <= sizeof(c->addresses[0]) &&
            (at->ai_family == AF_INET || at->ai_family == AF_INET6)) {
            memcpy(&c->addresses[c->count++], at->ai_addr, at->ai_addrlen);
        }
    }
    c->last_error = EADDRNOTAVAIL; /* if there was none */
    attempt_next(c);
}

static mooncake_err begin(struct mc_connecting *c)
{
    MC_TRY(mc_timer_create(c->stream->loop, timer_fired, c, &c->timer));
    mc_timer_set(c->timer, c->timeout_ms, 0);
    if (mc_address_numeric(&c->parts, &c->addresses[0])) {
        c->count = 1;
        attempt_next(c); /* a failure at once is told from the loop */
        return MOONCAKE_OK;
    }
    return mc_resolve_start(c->stream->loop, &c->parts, resolved, c, &c->resolve);
}

mooncake_err mc_stream_connect(struct mc_loop *loop, const char *address, uint32_t timeout_ms,
                               const struct mc_stream_ops *ops, void *arg, struct mc_stream **out)
{
    struct mc_address_parts parts;
    struct mc_connecting *c;
    struct mc_stream *stream;
    mooncake_err err;

    MC_ASSERT_ON_LOOP(loop);
    MC_ASSERT(ops->on_connected != NULL);
    MC_TRY(mc_address_split(address, &parts));
    if (parts.port == 0) {
        return mc_err_set(MOONCAKE_EINVAL, "%s: there is no port 0 to connect to", address);
    }
    stream = mc_stream_make(loop, ops, arg);
    if (stream == NULL) {
        return MOONCAKE_ENOMEM;
    }
    c = mc_calloc(1, sizeof(*c));
    if (c == NULL) {
        err = MOONCAKE_ENOMEM;
        goto free_stream;
    }
    (void)snprintf(stream->peer, sizeof(stream->peer), "%s", address);
    c->parts = parts;
    c->stream = stream;
    c->timeout_ms = timeout_ms;
    c->deadline_ns = mc_deadline_ns(mc_monotonic_ns(), timeout_ms);
    stream->connecting = c;
    err = begin(c);
    if (err != MOONCAKE_OK) {
        goto free_connecting;
    }
    *out = stream;
    return MOONCAKE_OK;

free_connecting:
    mc_timer_destroy(&c->timer);
    mc_free(c);
free_stream:
    mc_free(stream);
    return err;
}
