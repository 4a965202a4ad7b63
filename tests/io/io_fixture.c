/* See the header. */
#include "io_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/stream_impl.h"

static void on_connected(void *arg)
{
    struct end *end = arg;

    end->connecteds++;
    end->connected = true;
    if (end->when_connected != NULL) {
        end->in_callback = true;
        end->when_connected(end);
        end->in_callback = false;
    }
}

static unsigned on_space(void *arg, struct iovec *iov)
{
    struct end *end = arg;
    size_t room = END_IN_LEN - end->in_len;
    unsigned ranges = end->ranges == 0 ? 1 : end->ranges;
    uint8_t *at = end->in + end->in_len;
    unsigned count = 0;

    end->spaces++;
    if (end->pause_at > 0 && end->in_len >= end->pause_at) {
        return 0;
    }
    if (end->space_max > 0 && room > end->space_max) {
        room = end->space_max;
    }
    for (; count < ranges && room > 0; count++) {
        size_t len = count + 1 == ranges ? room : (room + ranges - 1) / ranges;

        iov[count].iov_base = at;
        iov[count].iov_len = len;
        at += len;
        room -= len;
    }
    return count;
}

static void on_bytes(void *arg, size_t len)
{
    struct end *end = arg;

    end->in_len += len;
    if (end->when_bytes != NULL) {
        end->in_callback = true;
        end->when_bytes(end, len);
        end->in_callback = false;
    }
}

static void on_drained(void *arg)
{
    struct end *end = arg;

    end->draineds++;
    end->drained = true;
    if (end->when_drained != NULL) {
        end->in_callback = true;
        end->when_drained(end);
        end->in_callback = false;
    }
}

static void on_closed(void *arg, mooncake_err why)
{
    struct end *end = arg;

    end->closed_inside = end->in_callback || end->in_call;
    end->closeds++;
    end->closed = true;
    end->why = why;
    (void)snprintf(end->sentence, sizeof(end->sentence), "%s", mooncake_last_error());
    end->stream = NULL;
}

const struct mc_stream_ops end_ops = {
    .on_connected = on_connected,
    .on_space = on_space,
    .on_bytes = on_bytes,
    .on_drained = on_drained,
    .on_closed = on_closed,
};

static void on_accept(void *arg, int fd)
{
    struct fixture *f = arg;

    assert_int_equal(f->accepted_fd, -1);
    f->accepted_fd = fd;
}

void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->accepted_fd = -1;
    f->peer = -1;
    assert_int_equal(mc_mem_live_count(), 0);
    assert_int_equal(mc_loop_create(0, &f->loop), MOONCAKE_OK);
    assert_int_equal(mc_listener_open(f->loop, "127.0.0.1:0", false, on_accept, f, &f->listener),
                     MOONCAKE_OK);
    (void)snprintf(f->address, sizeof(f->address), "127.0.0.1:%u", mc_listener_port(f->listener));
    f->end.loop = f->loop;
    f->end.in = mc_malloc(END_IN_LEN);
    assert_non_null(f->end.in);
}

void fixture_init_connected(struct fixture *f)
{
    fixture_init(f);
    assert_int_equal(
        mc_stream_connect(f->loop, f->address, 5000, &end_ops, &f->end, &f->end.stream),
        MOONCAKE_OK);
    RUN_UNTIL(f, f->end.connected && f->accepted_fd >= 0);
    f->peer = f->accepted_fd;
    f->accepted_fd = -1;
}

void fixture_fini(struct fixture *f)
{
    if (f->end.stream != NULL) {
        mc_stream_close(f->end.stream, MOONCAKE_OK);
        RUN_UNTIL(f, f->end.closed);
    }
    assert_in_range(f->end.closeds, 0, 1);
    assert_false(f->end.closed_inside);
    if (f->peer >= 0) {
        (void)close(f->peer);
    }
    if (f->accepted_fd >= 0) {
        (void)close(f->accepted_fd);
    }
    mc_listener_close(&f->listener);
    mc_loop_destroy(&f->loop);
    mc_free(f->end.in);
    assert_int_equal(mc_mem_live_count(), 0);
}

void run_some(struct fixture *f)
{
    const bool never = false;

    (void)!mc_loop_run_until(f->loop, &never, mc_monotonic_ns() + MC_NS_PER_MS);
}

void peer_send(struct fixture *f, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    while (len > 0) {
        ssize_t n;

        RUN_UNTIL(f, (n = send(f->peer, at, len, MSG_NOSIGNAL | MSG_DONTWAIT)) >= 0);
        at += n;
        len -= (size_t)n;
    }
}

void peer_receive(struct fixture *f, void *out, size_t len)
{
    uint8_t *at = out;

    while (len > 0) {
        ssize_t n;

        RUN_UNTIL(f, (n = recv(f->peer, at, len, MSG_DONTWAIT)) >= 0);
        assert_true(n > 0);
        at += n;
        len -= (size_t)n;
    }
}

size_t peer_wait_end(struct fixture *f)
{
    uint8_t drop[4096];
    size_t total = 0;
    ssize_t n = 1;

    while (n > 0) {
        RUN_UNTIL(f, (n = recv(f->peer, drop, sizeof(drop), MSG_DONTWAIT)) >= 0 || errno != EAGAIN);
        total += n > 0 ? (size_t)n : 0;
    }
    return total;
}

void peer_reset(struct fixture *f)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = 0};

    assert_int_equal(setsockopt(f->peer, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    (void)close(f->peer);
    f->peer = -1;
}

int end_waiting_bytes(const struct fixture *f)
{
    int waiting = 0;

    assert_int_equal(ioctl(f->end.stream->fd, FIONREAD, &waiting), 0);
    return waiting;
}
