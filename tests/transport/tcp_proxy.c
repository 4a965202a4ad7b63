/* See tcp_proxy.h. */
#include "tcp_proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rig.h"

#define CHUNK_LEN 65536u

enum side {
    SIDE_CLIENT,
    SIDE_STORE,
    SIDES,
};

struct link {
    int fds[SIDES]; /* -1: closed */
    struct tcp_proxy_limit limit;
    _Atomic uint64_t from[SIDES];
    uint8_t held[SIDES][CHUNK_LEN]; /* from this side, for the other one */
    size_t held_len[SIDES];
};

struct tcp_proxy {
    pthread_t thread;
    int listener, stop[2];
    uint16_t port, store_port;
    struct tcp_proxy_limit limits[TCP_PROXY_CONNECTIONS_MAX];
    unsigned limits_count, open;
    _Atomic unsigned accepted, open_most;
    struct link links[TCP_PROXY_CONNECTIONS_MAX];
};

static int connect_to(uint16_t port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(port),
                                        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* With a reset: what lies in the sockets is gone. */
static void reset(struct tcp_proxy *proxy, struct link *link)
{
    const struct linger linger = {.l_onoff = 1};

    for (unsigned side = 0; side < SIDES; side++) {
        (void)setsockopt(link->fds[side], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        (void)close(link->fds[side]);
        link->fds[side] = -1;
    }
    proxy->open--;
}

static void accept_one(struct tcp_proxy *proxy)
{
    unsigned n = proxy->accepted;
    struct link *link = &proxy->links[n];
    int fd = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0 || n == TCP_PROXY_CONNECTIONS_MAX) {
        abort(); /* no test makes so many */
    }
    link->fds[SIDE_CLIENT] = fd;
    link->fds[SIDE_STORE] = connect_to(proxy->store_port);
    link->limit = proxy->limits[n < proxy->limits_count ? n : proxy->limits_count - 1];
    proxy->open++;
    if (proxy->open > proxy->open_most) {
        proxy->open_most = proxy->open;
    }
    proxy->accepted++;
}

/* May more come from @p side? */
static size_t room(const struct link *link, enum side side)
{
    uint64_t limit = side == SIDE_CLIENT ? link->limit.from_client : link->limit.from_store;
    size_t len = CHUNK_LEN - link->held_len[side];

    return limit > 0 && limit - link->from[side] < len ? (size_t)(limit - link->from[side]) : len;
}

/* Move what can be moved from @p side to the other. False: the link is over. */
static bool move(struct link *link, enum side side, bool readable, bool writable)
{
    const enum side other = side == SIDE_CLIENT ? SIDE_STORE : SIDE_CLIENT;
    uint64_t limit = side == SIDE_CLIENT ? link->limit.from_client : link->limit.from_store;
    uint8_t *held = link->held[side];
    ssize_t n;

    if (readable) {
        n = recv(link->fds[side], held + link->held_len[side], room(link, side), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            return false;
        }
        link->held_len[side] += n > 0 ? (size_t)n : 0;
        link->from[side] += n > 0 ? (uint64_t)n : 0;
    }
    if (writable && link->held_len[side] > 0) {
        n = send(link->fds[other], held, link->held_len[side], MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) {
            return false;
        }
        if (n > 0) {
            link->held_len[side] -= (size_t)n;
            memmove(held, held + n, link->held_len[side]);
        }
    }
    return limit == 0 || link->from[side] < limit;
}

static void watch(const struct link *link, struct pollfd fds[SIDES])
{
    for (unsigned side = 0; side < SIDES; side++) {
        fds[side] = (struct pollfd){.fd = link->fds[side]};
        if (room(link, side) > 0) {
            fds[side].events |= POLLIN;
        }
        if (link->held_len[side == SIDE_CLIENT ? SIDE_STORE : SIDE_CLIENT] > 0) {
            fds[side].events |= POLLOUT;
        }
    }
}

static void serve(struct tcp_proxy *proxy, struct link *link, const struct pollfd fds[SIDES])
{
    const short in = POLLIN | POLLHUP | POLLERR;

    if (link->fds[SIDE_CLIENT] < 0) {
        return;
    }
    for (unsigned side = 0; side < SIDES; side++) {
        const unsigned other = side == SIDE_CLIENT ? SIDE_STORE : SIDE_CLIENT;

        if (!move(link, side, (fds[side].revents & in) != 0 && room(link, side) > 0,
                  (fds[other].revents & POLLOUT) != 0)) {
            reset(proxy, link);
            return;
        }
    }
}

static void *run(void *arg)
{
    static struct pollfd fds[2 + 2 * TCP_PROXY_CONNECTIONS_MAX];
    struct tcp_proxy *proxy = arg;

    for (;;) {
        const unsigned count = proxy->accepted;

        fds[0] = (struct pollfd){.fd = proxy->stop[0], .events = POLLIN};
        fds[1] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
        for (unsigned i = 0; i < count; i++) {
            watch(&proxy->links[i], fds + 2 + 2 * (size_t)i);
        }
        if (poll(fds, 2 + 2 * count, -1) < 0 && errno != EINTR) {
            abort();
        }
        if (fds[0].revents != 0) {
            return NULL;
        }
        for (unsigned i = 0; i < count; i++) {
            serve(proxy, &proxy->links[i], fds + 2 + 2 * (size_t)i);
        }
        if (fds[1].revents != 0) {
            accept_one(proxy);
        }
    }
}

struct tcp_proxy *tcp_proxy_open(uint16_t store_port, const struct tcp_proxy_limit *limits,
                                 unsigned limits_count)
{
    struct tcp_proxy *proxy = calloc(1, sizeof(*proxy));
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);

    assert_non_null(proxy);
    proxy->store_port = store_port;
    memcpy(proxy->limits, limits, limits_count * sizeof(*limits));
    proxy->limits_count = limits_count;
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(proxy->listener, (const struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(proxy->listener, 16), 0);
    assert_int_equal(getsockname(proxy->listener, (struct sockaddr *)&address, &len), 0);
    proxy->port = ntohs(address.sin_port);
    assert_int_equal(pipe(proxy->stop), 0);
    assert_int_equal(pthread_create(&proxy->thread, NULL, run, proxy), 0);
    return proxy;
}

void tcp_proxy_close(struct tcp_proxy *proxy)
{
    if (proxy == NULL) {
        return;
    }
    assert_int_equal(write(proxy->stop[1], "", 1), 1);
    assert_int_equal(pthread_join(proxy->thread, NULL), 0);
    for (unsigned i = 0; i < proxy->accepted; i++) {
        if (proxy->links[i].fds[SIDE_CLIENT] >= 0) {
            reset(proxy, &proxy->links[i]);
        }
    }
    (void)close(proxy->listener);
    (void)close(proxy->stop[0]);
    (void)close(proxy->stop[1]);
    free(proxy);
}

uint16_t tcp_proxy_port(const struct tcp_proxy *proxy)
{
    return proxy->port;
}

unsigned tcp_proxy_accepted(const struct tcp_proxy *proxy)
{
    return proxy->accepted;
}

unsigned tcp_proxy_open_most(const struct tcp_proxy *proxy)
{
    return proxy->open_most;
}

uint64_t tcp_proxy_from_client(const struct tcp_proxy *proxy, unsigned n)
{
    return proxy->links[n].from[SIDE_CLIENT];
}

uint64_t tcp_proxy_from_store(const struct tcp_proxy *proxy, unsigned n)
{
    return proxy->links[n].from[SIDE_STORE];
}
