/*
 * Hands out the memory of mounts. A connection sends one packet, gets one, and then stays open as
 * the sign that the mount lives.
 */
#include "transport/shm_server.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/loop.h"
#include "transport/mount_table.h"
#include "transport/shm_wire.h"

#define BACKLOG 128
#define CONNECTIONS_MAX 1024
/* A peer that says nothing for so long after connecting is closed. */
#define SILENT_NS_MAX (5u * MC_NS_PER_S)
#define SWEEP_MS 1000u
/* Accepting pauses for so long when descriptors have run out. */
#define PAUSE_MS 100u
#define ACCEPTS_PER_TURN 32u

struct mc_shm_server {
    struct mc_loop *loop;
    enum mc_shm_policy policy;
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    char address[MC_SHM_ADDRESS_LEN_MAX];
    int fd;          /* owned */
    uv_poll_t *poll; /* own allocation, freed by libuv's close callback */
    struct mc_list conns;
    struct mc_timer *sweep;  /* closes the silent */
    struct mc_timer *resume; /* ends a pause of accepting */
    struct mc_mount_watcher watcher;
    struct mc_post drop_post;
    atomic_bool drop_posted;
    struct mc_shm_server_stats stats;
};

struct conn {
    struct mc_shm_server *server;
    struct mc_list node;
    const struct mc_mount *mount; /* held: its memory is with the peer; NULL: has not asked yet */
    uint64_t accepted_ns;
    int fd;         /* owned */
    uv_poll_t poll; /* its close callback frees the conn */
};

mooncake_err mc_shm_policy_parse(const char *text, enum mc_shm_policy *out)
{
    static const char *const names[] = {"off", "uid", "any"};

    for (unsigned i = 0; i < MC_ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum mc_shm_policy)i;
            return MOONCAKE_OK;
        }
    }
    return mc_err_set(MOONCAKE_EINVAL,
                      "shm: \"%.40s\" is no policy; write uid (processes of the same user), any "
                      "or off",
                      text);
}

/* ---- connections --------------------------------------------------------------------------- */

static void free_conn(uv_handle_t *handle)
{
    mc_free(handle->data);
}

/* The peer must be able to see the end before a drop of the mount goes on: mount last. */
static void close_conn(struct conn *conn)
{
    const struct mc_mount *mount = conn->mount;

    mc_list_drop(&conn->node);
    mc_gauge_add(&conn->server->stats.connections, -1);
    (void)uv_poll_stop(&conn->poll);
    uv_close((uv_handle_t *)&conn->poll, free_conn);
    (void)close(conn->fd);
    if (mount != NULL) {
        mc_mount_return(mount);
    }
}

/* One packet, with @p memfd unless it is negative. */
static bool send_reply(int fd, const struct mc_shm_reply *reply, int memfd)
{
    uint8_t bytes[MC_SHM_MESSAGE_LEN];
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    mc_shm_reply_encode(reply, bytes);
    if (memfd >= 0) {
        struct cmsghdr *head;

        memset(&control, 0, sizeof(control));
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
        head = CMSG_FIRSTHDR(&msg);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &memfd, sizeof(int));
    }
    /* The packet fits an empty socket buffer; one that does not take it is no peer to wait for. */
    return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(bytes);
}

/* Give the memory away. On true the connection holds the mount. */
static bool grant(struct conn *conn, uint64_t mount_id)
{
    const struct mc_mount *mount = mc_mount_borrow(mount_id);
    struct mc_shm_reply reply = {.status = MOONCAKE_ENOSEGMENT};

    if (mount != NULL && mount->memfd >= 0) {
        reply.status = 0;
        reply.len = mount->len;
        if (send_reply(conn->fd, &reply, mount->memfd)) {
            conn->mount = mount;
            return true;
        }
    } else {
        reply.status = mount == NULL ? MOONCAKE_ENOSEGMENT : MOONCAKE_ENOTSUP;
        (void)send_reply(conn->fd, &reply, -1);
    }
    if (mount != NULL) {
        mc_mount_return(mount);
    }
    return false;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    struct mc_shm_server *server = conn->server;
    struct mc_shm_request request;
    uint8_t bytes[MC_SHM_MESSAGE_LEN + 1]; /* one more, so that a longer packet is seen */
    ssize_t n;

    (void)events;
    MC_ASSERT_ON_LOOP(server->loop);
    n = status < 0 ? 0 : recv(conn->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        close_conn(conn);
        return;
    }
    if (conn->mount != NULL || mc_shm_request_decode(bytes, (size_t)n, &request) != MOONCAKE_OK ||
        !grant(conn, request.mount_id)) {
        mc_counter_add(&server->stats.refused, 1);
        close_conn(conn);
        return;
    }
    mc_counter_add(&server->stats.granted, 1);
}

/* Is the peer one that the policy trusts? */
static bool is_trusted(const struct mc_shm_server *server, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (server->policy == MC_SHM_ANY) {
        return true;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0) {
        return false;
    }
    if (peer.uid == geteuid() || peer.uid == 0) {
        return true;
    }
    mc_log_info("shm.refused", "peer_uid=%u pid=%d policy=uid", peer.uid, (int)peer.pid);
    return false;
}

/* Takes @p fd. */
static void add_conn(struct mc_shm_server *server, int fd)
{
    struct conn *conn;

    if (mc_gauge_get(&server->stats.connections) >= CONNECTIONS_MAX || !is_trusted(server, fd)) {
        goto refuse;
    }
    conn = mc_calloc(1, sizeof(*conn));
    if (conn == NULL) {
        goto refuse;
    }
    conn->server = server;
    conn->fd = fd;
    conn->accepted_ns = mc_loop_now_ns(server->loop);
    if (uv_poll_init(mc_loop_uv(server->loop), &conn->poll, fd) != 0) {
        mc_free(conn);
        goto refuse;
    }
    conn->poll.data = conn;
    mc_list_add_tail(&server->conns, &conn->node);
    mc_gauge_add(&server->stats.connections, 1);
    (void)uv_poll_start(&conn->poll, UV_READABLE | UV_DISCONNECT, on_readable);
    return;

refuse:
    mc_counter_add(&server->stats.refused, 1);
    (void)close(fd);
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    struct mc_shm_server *server = poll->data;

    (void)status;
    (void)events;
    for (unsigned i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            add_conn(server, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            mc_log_warn("shm.accept", "err=\"%s\" pause_ms=%u", strerror(errno), PAUSE_MS);
            (void)uv_poll_stop(server->poll);
            mc_timer_set(server->resume, PAUSE_MS, 0);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return; /* EAGAIN: that was all */
        }
    }
}

static void on_resume(void *arg)
{
    struct mc_shm_server *server = arg;

    (void)uv_poll_start(server->poll, UV_READABLE, on_acceptable);
}

static void on_sweep(void *arg)
{
    struct mc_shm_server *server = arg;
    uint64_t now = mc_loop_now_ns(server->loop);

    mc_list_for_each_safe (node, tmp, &server->conns) {
        struct conn *conn = MC_CONTAINER_OF(node, struct conn, node);

        if (conn->mount == NULL && now - conn->accepted_ns > SILENT_NS_MAX) {
            mc_counter_add(&server->stats.refused, 1);
            close_conn(conn);
        }
    }
}

/* ---- mounts that go ------------------------------------------------------------------------ */

static void run_drop(struct mc_post *post)
{
    struct mc_shm_server *server = MC_CONTAINER_OF(post, struct mc_shm_server, drop_post);

    atomic_store(&server->drop_posted, false); /* before looking: a later drop posts again */
    mc_list_for_each_safe (node, tmp, &server->conns) {
        struct conn *conn = MC_CONTAINER_OF(node, struct conn, node);

        if (conn->mount != NULL && mc_mount_is_dropped(conn->mount)) {
            close_conn(conn);
        }
    }
}

static void on_mount_drop(struct mc_mount_watcher *watcher)
{
    struct mc_shm_server *server = MC_CONTAINER_OF(watcher, struct mc_shm_server, watcher);

    if (!atomic_exchange(&server->drop_posted, true)) {
        mc_loop_post(server->loop, &server->drop_post);
    }
}

/* ---- the socket ---------------------------------------------------------------------------- */

static void default_dir(char *out, size_t cap)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0) {
        (void)snprintf(out, cap, "/run/mooncake");
    } else if (runtime != NULL && runtime[0] == '/') {
        (void)snprintf(out, cap, "%s/mooncake", runtime);
    } else {
        (void)snprintf(out, cap, "/tmp/mooncake-%u", (unsigned)geteuid());
    }
}

/* The directory must be ours (or root's), or somebody else could put a socket in our place. */
static mooncake_err ready_dir(const char *dir, enum mc_shm_policy policy)
{
    struct stat st;

    if (mkdir(dir, policy == MC_SHM_ANY ? 0755 : 0700) != 0 && errno != EEXIST) {
        return mc_err_set(MOONCAKE_EINVAL, "shm_dir: cannot make %s: %s", dir, strerror(errno));
    }
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return mc_err_set(MOONCAKE_EINVAL, "shm_dir: %s is no directory", dir);
    }
    if (st.st_uid != geteuid() && st.st_uid != 0) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "shm_dir: %s belongs to user %u, neither to this process's user nor to "
                          "root",
                          dir, (unsigned)st.st_uid);
    }
    return MOONCAKE_OK;
}

/* Remove a socket that nobody listens on: its store was killed. */
static void remove_if_dead(const char *dir, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", dir, name);
    int fd;

    if (n < 0 || (size_t)n >= sizeof(address.sun_path)) {
        return;
    }
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return;
    }
    if (connect(fd, (struct sockaddr *)(void *)&address, sizeof(address)) != 0 &&
        errno == ECONNREFUSED) {
        (void)unlink(address.sun_path);
    }
    (void)close(fd);
}

static void remove_dead_sockets(const char *dir)
{
    DIR *entries = opendir(dir);
    struct dirent *entry;

    if (entries == NULL) {
        return;
    }
    while ((entry = readdir(entries)) != NULL) {
        size_t len = strlen(entry->d_name);

        if (len > 5 && strcmp(entry->d_name + len - 5, ".sock") == 0) {
            remove_if_dead(dir, entry->d_name);
        }
    }
    (void)closedir(entries);
}

/* A listening socket at server->path. */
static mooncake_err listen_at(struct mc_shm_server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, server->path, sizeof(address.sun_path));
    server->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->fd < 0) {
        return mc_err_set(mc_err_from_errno(errno), "shm: cannot make a socket: %s",
                          strerror(errno));
    }
    if (bind(server->fd, (struct sockaddr *)(void *)&address, sizeof(address)) != 0 ||
        chmod(server->path, server->policy == MC_SHM_ANY ? 0666 : 0600) != 0 ||
        listen(server->fd, BACKLOG) != 0) {
        return mc_err_set(MOONCAKE_EINVAL, "shm_dir: cannot listen at %s: %s", server->path,
                          strerror(errno));
    }
    return MOONCAKE_OK;
}

static void free_poll(uv_handle_t *handle)
{
    mc_free(handle);
}

static mooncake_err watch(struct mc_shm_server *server)
{
    MC_TRY(mc_timer_create(server->loop, on_sweep, server, &server->sweep));
    MC_TRY(mc_timer_create(server->loop, on_resume, server, &server->resume));
    server->poll = mc_calloc(1, sizeof(*server->poll));
    if (server->poll == NULL) {
        return MOONCAKE_ENOMEM;
    }
    if (uv_poll_init(mc_loop_uv(server->loop), server->poll, server->fd) != 0) {
        mc_free(server->poll);
        server->poll = NULL;
        return MOONCAKE_EINTERNAL;
    }
    server->poll->data = server;
    mc_timer_set(server->sweep, SWEEP_MS, SWEEP_MS);
    (void)uv_poll_start(server->poll, UV_READABLE, on_acceptable);
    return MOONCAKE_OK;
}

/* Take down what has been built, as far as it has been. */
static void teardown(struct mc_shm_server *server)
{
    mc_loop_stop(server->loop);
    while (!mc_list_empty(&server->conns)) {
        close_conn(mc_list_first(&server->conns, struct conn, node));
    }
    mc_timer_destroy(&server->sweep);
    mc_timer_destroy(&server->resume);
    if (server->poll != NULL) {
        (void)uv_poll_stop(server->poll);
        uv_close((uv_handle_t *)server->poll, free_poll);
    }
    if (server->fd >= 0) {
        (void)close(server->fd);
        (void)unlink(server->path);
    }
    mc_loop_destroy(&server->loop);
    mc_free(server);
}

/* Address, socket, watchers: all that can fail before the thread starts. */
static mooncake_err prepare(struct mc_shm_server *server, const char *dir)
{
    int n = snprintf(server->path, sizeof(server->path), "%s/%d-%08x.sock", dir, (int)getpid(),
                     (unsigned)mc_random_u64());

    if (n < 0 || (size_t)n >= sizeof(server->path)) {
        return mc_err_set(MOONCAKE_EINVAL, "shm_dir: %s is too long for a socket's path", dir);
    }
    MC_TRY(mc_shm_address_format(server->path, server->address));
    MC_TRY(listen_at(server));
    return watch(server);
}

mooncake_err mc_shm_server_open(const char *dir, enum mc_shm_policy policy,
                                struct mc_shm_server **out)
{
    char chosen[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    struct mc_shm_server *server;
    mooncake_err err;

    if (policy == MC_SHM_OFF) {
        return mc_err_set(MOONCAKE_EINVAL, "shm: the policy is off");
    }
    default_dir(chosen, sizeof(chosen));
    if (dir == NULL || dir[0] == '\0') {
        dir = chosen;
    }
    MC_TRY(ready_dir(dir, policy));
    remove_dead_sockets(dir);
    server = mc_calloc(1, sizeof(*server));
    if (server == NULL) {
        return MOONCAKE_ENOMEM;
    }
    server->policy = policy;
    server->fd = -1;
    server->watcher.on_drop = on_mount_drop;
    server->drop_post.run = run_drop;
    mc_list_init(&server->conns);
    err = mc_loop_create(0, &server->loop);
    if (err != MOONCAKE_OK) {
        mc_free(server);
        return err;
    }
    err = prepare(server, dir);
    if (err == MOONCAKE_OK) {
        err = mc_loop_start(server->loop, "mc-shm");
    }
    if (err != MOONCAKE_OK) {
        teardown(server);
        return err;
    }
    mc_mount_watch(&server->watcher);
    mc_log_info("shm.serving", "path=%s", server->path);
    *out = server;
    return MOONCAKE_OK;
}

const char *mc_shm_server_address(const struct mc_shm_server *server)
{
    return server->address;
}

const struct mc_shm_server_stats *mc_shm_server_stats(const struct mc_shm_server *server)
{
    return &server->stats;
}

void mc_shm_server_close(struct mc_shm_server **server)
{
    if (*server == NULL) {
        return;
    }
    mc_mount_unwatch(&(*server)->watcher); /* from here on, teardown() gives all mounts back */
    teardown(*server);
    *server = NULL;
}
