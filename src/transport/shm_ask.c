/* Asking a store on this host for the memory of a mount. */
#include "transport/shm_ask.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

mooncake_err mc_shm_ask(const struct sockaddr_un *address, uint64_t mount_id, int *out_fd)
{
    const struct mc_shm_request request = {.mount_id = mount_id};
    uint8_t bytes[MC_SHM_MESSAGE_LEN];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error;

    if (fd < 0) {
        return mc_err_from_errno(errno);
    }
    mc_shm_request_encode(&request, bytes);
    /* A full backlog is EAGAIN, and a fault like any other. */
    if (connect(fd, (const struct sockaddr *)(const void *)address, sizeof(*address)) != 0 ||
        send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) != (ssize_t)sizeof(bytes)) {
        error = errno;
        (void)close(fd);
        errno = error;
        return MOONCAKE_ERPC;
    }
    *out_fd = fd;
    return MOONCAKE_OK;
}

ssize_t mc_shm_receive(int fd, uint8_t *bytes, int *out_memfd)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = MC_SHM_MESSAGE_LEN};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *head = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

    *out_memfd = -1;
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(out_memfd, CMSG_DATA(head), sizeof(int));
    }
    return n;
}

static mooncake_err await(int fd, const char *path, uint32_t timeout_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int n;

    do {
        n = poll(&poll_fd, 1, (int)(timeout_ms < INT32_MAX ? timeout_ms : INT32_MAX));
    } while (n < 0 && errno == EINTR);
    return n > 0 ? MOONCAKE_OK
                 : mc_err_set(MOONCAKE_ETIMEDOUT, "%s did not hand out memory within %u ms", path,
                              (unsigned)timeout_ms);
}

/* What has come on @p fd, checked; *out_memfd is the memory's. */
static mooncake_err take_answer(int fd, const char *path, struct mc_shm_reply *reply,
                                int *out_memfd)
{
    uint8_t bytes[MC_SHM_MESSAGE_LEN];
    int memfd;
    ssize_t n = mc_shm_receive(fd, bytes, &memfd);

    if (n == 0) {
        return mc_err_set(MOONCAKE_EUNAVAILABLE,
                          "%s refused to hand out memory: it trusts only processes of its own user "
                          "(--shm=uid), or is ending",
                          path);
    }
    if (n > 0 && mc_shm_reply_decode(bytes, (size_t)n, reply) == MOONCAKE_OK &&
        (reply->status == 0) == (memfd >= 0)) {
        if (reply->status == 0) {
            *out_memfd = memfd;
            return MOONCAKE_OK;
        }
        return mc_err_set(MOONCAKE_ENOSEGMENT, "%s has no such memory (any more)", path);
    }
    if (memfd >= 0) {
        (void)close(memfd);
    }
    return mc_err_set(MOONCAKE_ERPC, "%s: not the answer of a store: %s", path,
                      n < 0 ? strerror(errno) : "unknown bytes");
}

mooncake_err mc_shm_fetch(const char *addresses, uint64_t mount_id, uint32_t timeout_ms,
                          struct mc_shm_map **out)
{
    struct sockaddr_un address;
    struct mc_shm_reply reply;
    int fd, memfd = -1;
    mooncake_err err;

    if (!mc_shm_address_find(addresses, &address)) {
        return mc_err_set(MOONCAKE_ENOTSUP,
                          "memory can be shared on one host only, and \"%.200s\" "
                          "is not this one",
                          addresses);
    }
    if (mc_shm_ask(&address, mount_id, &fd) != MOONCAKE_OK) {
        return mc_err_set(errno == EACCES || errno == EPERM ? MOONCAKE_EUNAVAILABLE : MOONCAKE_ERPC,
                          "cannot connect to %s: %s", address.sun_path, strerror(errno));
    }
    err = await(fd, address.sun_path, timeout_ms);
    if (err == MOONCAKE_OK) {
        err = take_answer(fd, address.sun_path, &reply, &memfd);
    }
    if (err != MOONCAKE_OK) {
        (void)close(fd);
        return err;
    }
    return mc_shm_map_add(mount_id, memfd, reply.len, fd, out); /* takes both descriptors */
}
