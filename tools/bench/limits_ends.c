/* The other ends of loopback sockets: processes that answer commands of a byte until we end. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limits_impl.h"
#include "timing.h"

#define MESSAGE_LEN MC_LIMITS_MESSAGE_LEN
#define RING_LEN MC_LIMITS_RING_LEN
#define SOCKET_TIMEOUT_S MC_LIMITS_TIMEOUT_S

/* What the kernel chooses, and what holds a message. */
static const int buffer_lens[MC_LIMITS_BUFFERS] = {0, 4 << 20};

/* What a connection begins with. */
struct set_up {
    uint8_t buffer; /* index of buffer_lens */
    uint8_t apart;  /* run on the second processor */
};

static int listener = -1;
static pid_t pids[MC_LIMITS_ENDS];

/* ---- processors ------------------------------------------------------------------------------ */

void mc_places_init(struct mc_places *places)
{
    CPU_ZERO(&places->all);
    places->count =
        sched_getaffinity(0, sizeof(places->all), &places->all) == 0 ? CPU_COUNT(&places->all) : 0;
}

void mc_places_take(const struct mc_places *places, int index)
{
    cpu_set_t one;
    int seen = 0;

    if (index >= places->count) {
        return;
    }
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &places->all) && seen++ == index) {
            CPU_SET(cpu, &one);
        }
    }
    (void)sched_setaffinity(0, sizeof(one), &one);
}

void mc_places_free(const struct mc_places *places)
{
    if (places->count > 0) {
        (void)sched_setaffinity(0, sizeof(places->all), &places->all);
    }
}

/* ---- both ends ------------------------------------------------------------------------------- */

/* @p buffer_len 0 leaves the buffers to the kernel's own tuning. */
static void tune(int fd, int buffer_len)
{
    struct timeval timeout = {SOCKET_TIMEOUT_S, 0};
    int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (buffer_len > 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_len, sizeof(buffer_len));
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_len, sizeof(buffer_len));
    }
}

bool mc_end_send(int fd, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    while (len > 0) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);

        if (sent <= 0) {
            return false;
        }
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

bool mc_end_receive(int fd, void *to, size_t len)
{
    unsigned char *at = to;

    while (len > 0) {
        ssize_t got = recv(fd, at, len, 0);

        if (got <= 0) {
            return false;
        }
        at += got;
        len -= (size_t)got;
    }
    return true;
}

bool mc_end_poll(int fd, unsigned char *out)
{
    uint64_t end = mc_now_ns() + SOCKET_TIMEOUT_S * 1000000000u;

    do {
        ssize_t got = recv(fd, out, 1, MSG_DONTWAIT);

        if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
            return got == 1;
        }
    } while (mc_now_ns() < end);
    return false;
}

/* ---- the other end --------------------------------------------------------------------------- */

/* Answer commands until the other end closes. */
static void serve(int fd, const unsigned char *ring)
{
    unsigned char command = MC_END_TRIP;
    bool going = true;
    size_t at = 0;

    while (going && (command == MC_END_POLLED_TRIP ? mc_end_poll(fd, &command)
                                                   : recv(fd, &command, 1, 0) == 1)) {
        if (command == MC_END_TRIP || command == MC_END_POLLED_TRIP) {
            going = mc_end_send(fd, &command, 1);
            continue;
        }
        do {
            going = mc_end_send(fd, ring + at, MESSAGE_LEN);
            at = (at + MESSAGE_LEN) % RING_LEN;
        } while (going && command == MC_END_STREAM);
    }
}

static _Noreturn void child(const unsigned char *ring, pid_t parent)
{
    struct mc_places places;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1); /* it was gone before it could be noticed */
    }
    mc_places_init(&places);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        struct set_up set_up;

        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            _exit(1);
        }
        tune(fd, 0);
        if (recv(fd, &set_up, sizeof(set_up), MSG_WAITALL) == (ssize_t)sizeof(set_up) &&
            set_up.buffer < MC_LIMITS_BUFFERS) {
            tune(fd, buffer_lens[set_up.buffer]);
            if (set_up.apart != 0) {
                mc_places_take(&places, 1);
            }
            serve(fd, ring);
            mc_places_free(&places);
        }
        (void)close(fd);
    }
}

static void stop(void)
{
    for (size_t i = 0; i < MC_LIMITS_ENDS; i++) {
        if (pids[i] > 0) {
            (void)kill(pids[i], SIGKILL);
            (void)waitpid(pids[i], NULL, 0);
        }
        pids[i] = 0;
    }
    if (listener >= 0) {
        (void)close(listener);
        listener = -1;
    }
}

static bool start(const unsigned char *ring)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, MC_LIMITS_ENDS) != 0) {
        return false;
    }
    for (size_t i = 0; i < MC_LIMITS_ENDS; i++) {
        const pid_t parent = getpid();

        pids[i] = fork();
        if (pids[i] == 0) {
            child(ring, parent);
        }
        if (pids[i] < 0) {
            return false;
        }
    }
    return true;
}

bool mc_ends_start(void)
{
    unsigned char *ring; /* what they send from; ours only until they have it */
    bool fine;

    if (listener >= 0) {
        return true;
    }
    ring = mc_limits_memory(RING_LEN);
    fine = ring != NULL && start(ring);
    if (ring != NULL) {
        (void)munmap(ring, RING_LEN);
    }
    if (!fine) {
        int error = errno;

        stop();
        errno = error;
    }
    return fine;
}

int mc_end_connect(size_t buffer, bool apart)
{
    const struct set_up set_up = {(uint8_t)buffer, apart};
    struct sockaddr_in address;
    socklen_t address_len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    tune(fd, buffer_lens[buffer]);
    if (getsockname(listener, (struct sockaddr *)&address, &address_len) != 0 ||
        connect(fd, (struct sockaddr *)&address, address_len) != 0 ||
        !mc_end_send(fd, &set_up, sizeof(set_up))) {
        (void)close(fd);
        return -1;
    }
    return fd;
}
