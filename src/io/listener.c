/* Accepts connections. Also when the process or the machine has run out of descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/address.h"
#include "io/loop_impl.h"
#include "io/stream.h"

#define BACKLOG 1024
/* Connections taken in one turn, so that a storm of them does not starve those that are up. */
#define ACCEPTS_PER_TURN_MAX 64u
/* Rest after accept() failed for lack of something. */
#define PAUSE_MS 100u

struct mc_listener {
    uv_poll_t poll;
    struct mc_loop *loop; /* borrowed */
    struct mc_timer *pause;
    mc_listener_cb on_accept;
    void *arg;
    uint16_t port;
    int fd;
    int reserve_fd;    /* given up for a moment to turn a peer away when there is no other; -1 */
    bool short_of_fds; /* has been logged */
    bool closing;
};

static void open_reserve(struct mc_listener *listener)
{
    if (listener->reserve_fd < 0) {
        listener->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
}

/* No descriptor for the next peer: use the reserve to close its connection, so that it knows. */
static bool turn_away(struct mc_listener *listener)
{
    int fd;

    if (listener->reserve_fd < 0) {
        return false;
    }
    (void)close(listener->reserve_fd);
    fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        (void)close(fd);
    }
    listener->reserve_fd = -1;
    open_reserve(listener);
    return fd >= 0;
}

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void accept_cb(uv_poll_t *poll, int status, int events);

static void pause_over(void *arg)
{
    struct mc_listener *listener = arg;

    open_reserve(listener);
    (void)uv_poll_start(&listener->poll, UV_READABLE, accept_cb);
}

/* Take one connection. False if this turn is over. */
static bool accept_one(struct mc_listener *listener)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int error = errno;

    if (fd >= 0) {
        listener->short_of_fds = false;
        listener->on_accept(listener->arg, fd);
        return !listener->closing;
    }
    if (error == EAGAIN || error == EWOULDBLOCK) {
        return false;
    }
    if (!is_shortage(error)) {
        return true; /* this peer has gone already (ECONNABORTED and its kin), or EINTR */
    }
    if (!listener->short_of_fds) {
        mc_log_error("listener.accept", "port=%u error=\"%s\" cure=\"raise ulimit -n\"",
                     (unsigned)listener->port, strerror(error));
        listener->short_of_fds = true;
    }
    if (turn_away(listener)) {
        return true;
    }
    (void)uv_poll_stop(&listener->poll);
    mc_timer_set(listener->pause, PAUSE_MS, 0);
    return false;
}

static void accept_cb(uv_poll_t *poll, int status, int events)
{
    struct mc_listener *listener = MC_CONTAINER_OF(poll, struct mc_listener, poll);
    struct mc_loop *loop = listener->loop;
    enum mc_spent_kind was = mc_spend(&loop->spent, MC_SPENT_SOCKETS);

    (void)status;
    (void)events;
    mc_loop_note_event(loop);
    for (unsigned i = 0; i < ACCEPTS_PER_TURN_MAX; i++) {
        if (!accept_one(listener)) {
            break;
        }
    }
    (void)mc_spend(&loop->spent, was);
}

static mooncake_err open_socket(const struct sockaddr_storage *address, bool share_port,
                                const char *text, int *out_fd)
{
    static const int on = 1;
    static const int off = 0;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error;

    if (fd < 0) {
        error = errno;
        return mc_err_set(mc_err_from_errno(error), "cannot listen on %s: %s", text,
                          strerror(error));
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (share_port) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    }
    if (address->ss_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    if (bind(fd, (const struct sockaddr *)address, mc_address_len(address)) != 0 ||
        listen(fd, BACKLOG) != 0) {
        error = errno;
        (void)close(fd);
        return mc_err_set(
            error == EACCES ? MOONCAKE_ERPC : mc_err_from_errno(error), "cannot listen on %s: %s%s",
            text, strerror(error),
            error == EADDRINUSE
                ? "; stop the program that has it, or take another port (0: any; option "
                  "rpc_port of a master, data_address or serve_port of a store)"
                : "");
    }
    *out_fd = fd;
    return MOONCAKE_OK;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    struct sockaddr_in v4;

    memset(&address, 0, sizeof(address));
    (void)getsockname(fd, (struct sockaddr *)&address, &len);
    memcpy(&v4, &address, sizeof(v4)); /* the port is at the same place in both families */
    return ntohs(v4.sin_port);
}

static mooncake_err parse(const char *text, struct sockaddr_storage *out)
{
    struct mc_address_parts parts;

    MC_TRY(mc_address_split(text, &parts));
    if (strcmp(parts.host, "localhost") == 0) {
        memcpy(parts.host, "127.0.0.1", sizeof("127.0.0.1"));
    }
    if (!mc_address_numeric(&parts, out)) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "cannot listen on %s: give a numeric address of this machine, "
                          "0.0.0.0 for all",
                          text);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_listener_open(struct mc_loop *loop, const char *address, bool share_port,
                              mc_listener_cb on_accept, void *arg, struct mc_listener **out)
{
    struct sockaddr_storage where;
    struct mc_listener *listener;
    mooncake_err err;
    int status;

    MC_ASSERT_ON_LOOP(loop);
    MC_ASSERT(on_accept != NULL);
    MC_TRY(parse(address, &where));
    listener = mc_calloc(1, sizeof(*listener));
    if (listener == NULL) {
        return MOONCAKE_ENOMEM;
    }
    listener->loop = loop;
    listener->on_accept = on_accept;
    listener->arg = arg;
    listener->reserve_fd = -1;
    err = open_socket(&where, share_port, address, &listener->fd);
    if (err != MOONCAKE_OK) {
        goto free_listener;
    }
    err = mc_timer_create(loop, pause_over, listener, &listener->pause);
    if (err != MOONCAKE_OK) {
        goto close_fd;
    }
    status = uv_poll_init(mc_loop_uv(loop), &listener->poll, listener->fd);
    if (status != 0) {
        err =
            mc_err_set(mc_err_from_uv(status), "cannot watch %s: %s", address, uv_strerror(status));
        goto destroy_timer;
    }
    listener->port = port_of(listener->fd);
    open_reserve(listener);
    (void)uv_poll_start(&listener->poll, UV_READABLE, accept_cb);
    *out = listener;
    return MOONCAKE_OK;

destroy_timer:
    mc_timer_destroy(&listener->pause);
close_fd:
    (void)close(listener->fd);
free_listener:
    mc_free(listener);
    return err;
}

uint16_t mc_listener_port(const struct mc_listener *listener)
{
    return listener->port;
}

static void closed_cb(uv_handle_t *handle)
{
    mc_free(MC_CONTAINER_OF(handle, struct mc_listener, poll));
}

void mc_listener_close(struct mc_listener **listener_ptr)
{
    struct mc_listener *listener = *listener_ptr;

    if (listener == NULL) {
        return;
    }
    MC_ASSERT_ON_LOOP(listener->loop);
    listener->closing = true;
    mc_timer_destroy(&listener->pause);
    uv_close((uv_handle_t *)&listener->poll, closed_cb);
    (void)close(listener->fd);
    if (listener->reserve_fd >= 0) {
        (void)close(listener->reserve_fd);
    }
    *listener_ptr = NULL;
}
