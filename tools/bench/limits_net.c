/* Sockets: a child process answers one-byte commands. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "histogram.h"
#include "limits_impl.h"
#include "timing.h"

#define MESSAGE_LEN MC_LIMITS_MESSAGE_LEN
#define RING_LEN (32 * MESSAGE_LEN) /* what a batch of 32 such values moves through */
#define PHASE_NS 300000000u
#define SLICE_NS 100000000u
#define SLICES 5
#define SOCKET_TIMEOUT_S 5
#define PAIR 2 /* connections that a client has to one store at most */

/* What the kernel chooses, and what holds a message: the better one is the limit. */
static const int buffer_lens[] = {0, 4 << 20};
#define BUFFER_LENS (sizeof(buffer_lens) / sizeof(buffer_lens[0]))

enum command { TRIP = 't', POLLED_TRIP = 'p', MESSAGE = 'm', STREAM = 's' };

/* Trips and messages are measured between two processors, as between two hosts. On one processor
 * they take half the time: nobody is woken, and the bytes are in its cache. The kernel may choose
 * either, so without this a limit is one or the other by chance. */
struct places {
    cpu_set_t all; /* where this process may run */
    int count;
};

static void places_init(struct places *places)
{
    CPU_ZERO(&places->all);
    places->count =
        sched_getaffinity(0, sizeof(places->all), &places->all) == 0 ? CPU_COUNT(&places->all) : 0;
}

/* Run on the @p index-th processor, if there are so many. */
static void places_take(const struct places *places, int index)
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

static void places_free(const struct places *places)
{
    if (places->count > 0) {
        (void)sched_setaffinity(0, sizeof(places->all), &places->all);
    }
}

/* ---- two ends ------------------------------------------------------------------------------- */

/* @p buffer_len 0 leaves the buffers to the kernel's own tuning. */
static void set_up(int fd, int buffer_len)
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

static bool send_all(int fd, const unsigned char *data, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, data, len, MSG_NOSIGNAL);

        if (sent <= 0) {
            return false;
        }
        data += sent;
        len -= (size_t)sent;
    }
    return true;
}

/* One byte, looked for without sleeping. */
static bool poll_byte(int fd, unsigned char *out)
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

/* Answer commands until the other end closes. */
static void serve(int fd, const unsigned char *ring)
{
    unsigned char command = TRIP;
    size_t at = 0;

    while (command == POLLED_TRIP ? poll_byte(fd, &command) : recv(fd, &command, 1, 0) == 1) {
        bool going = true;

        if (command == TRIP || command == POLLED_TRIP) {
            going = send_all(fd, &command, 1);
        } else if (command == MESSAGE) {
            going = send_all(fd, ring + at, MESSAGE_LEN);
            at = (at + MESSAGE_LEN) % RING_LEN;
        } else {
            while (going) {
                going = send_all(fd, ring + at, MESSAGE_LEN);
                at = (at + MESSAGE_LEN) % RING_LEN;
            }
        }
        if (!going) {
            break;
        }
    }
}

/* @p places NULL: it runs where the kernel likes. */
static _Noreturn void child(int listener, const unsigned char *ring, const struct places *places)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (places != NULL) {
        places_take(places, 1);
    }
    for (size_t i = 0; i < BUFFER_LENS; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0) {
            set_up(fd, buffer_lens[i]);
            serve(fd, ring);
            (void)close(fd);
        }
    }
    _exit(0);
}

/* Takes what there is, as a program does that has other connections too. */
static bool receive(int fd, unsigned char *data, size_t len)
{
    while (len > 0) {
        ssize_t got = recv(fd, data, len, 0);

        if (got <= 0) {
            return false;
        }
        data += got;
        len -= (size_t)got;
    }
    return true;
}

static bool ask(int fd, enum command command)
{
    unsigned char byte = (unsigned char)command;

    return send_all(fd, &byte, 1);
}

static bool run_trips(int fd, enum command command, unsigned char *ring, struct mc_histogram *out)
{
    uint64_t end = mc_now_ns() + PHASE_NS;
    uint64_t start;

    while ((start = mc_now_ns()) < end) {
        if (!ask(fd, command) ||
            !(command == POLLED_TRIP ? poll_byte(fd, ring) : receive(fd, ring, 1))) {
            return false;
        }
        mc_histogram_add(out, mc_now_ns() - start);
    }
    return true;
}

static bool measure_trips(int fd, unsigned char *ring, struct mc_limits *out)
{
    struct mc_histogram trips = {0}, polled = {0};

    if (!run_trips(fd, TRIP, ring, &trips) || !run_trips(fd, POLLED_TRIP, ring, &polled)) {
        return false;
    }
    out->trip_p50_ns = mc_histogram_at(&trips, 0.5);
    out->trip_p99_ns = mc_histogram_at(&trips, 0.99);
    out->polled_trip_p50_ns = mc_histogram_at(&polled, 0.5);
    return true;
}

static bool measure_messages(int fd, unsigned char *ring, struct mc_limits *out)
{
    struct mc_histogram messages = {0};
    uint64_t end = mc_now_ns() + PHASE_NS;
    uint64_t start;
    double rate;
    size_t at = 0;

    while ((start = mc_now_ns()) < end) {
        if (!ask(fd, MESSAGE) || !receive(fd, ring + at, MESSAGE_LEN)) {
            return false;
        }
        mc_histogram_add(&messages, mc_now_ns() - start);
        at = (at + MESSAGE_LEN) % RING_LEN;
    }
    rate = (double)messages.count * (double)MESSAGE_LEN * 1e9 / (double)messages.sum;
    if (rate > out->mib_rate) {
        out->mib_rate = rate;
        out->mib_p50_ns = mc_histogram_at(&messages, 0.5);
    }
    return true;
}

/* Receive for a while. 0: the connection has failed. */
static double stream_slice(int fd, unsigned char *ring)
{
    uint64_t start = mc_now_ns();
    uint64_t now = start;
    uint64_t bytes = 0;

    while (now - start < SLICE_NS) {
        if (!receive(fd, ring + bytes % RING_LEN, MESSAGE_LEN)) {
            return 0;
        }
        bytes += MESSAGE_LEN;
        now = mc_now_ns();
    }
    return (double)bytes * 1e9 / (double)(now - start);
}

/* The best of some slices: as with memory, what the machine can do. */
static bool measure_stream(int fd, unsigned char *ring, struct mc_limits *out)
{
    if (!ask(fd, STREAM)) {
        return false;
    }
    for (int i = 0; i < SLICES; i++) {
        double rate = stream_slice(fd, ring);

        if (rate <= 0) {
            return false;
        }
        out->stream_rate = rate > out->stream_rate ? rate : out->stream_rate;
    }
    return true;
}

/* Take what there is on either of the two. False: neither has anything for long, or one failed. */
static bool receive_either(struct pollfd fds[PAIR], unsigned char *to, uint64_t *bytes)
{
    if (poll(fds, PAIR, SOCKET_TIMEOUT_S * 1000) <= 0) {
        return false;
    }
    for (int i = 0; i < PAIR; i++) {
        ssize_t got;

        if (fds[i].revents == 0) {
            continue;
        }
        got = recv(fds[i].fd, to, MESSAGE_LEN, MSG_DONTWAIT);
        if (got <= 0) {
            return false;
        }
        *bytes += (uint64_t)got;
    }
    return true;
}

static bool measure_pair(const int pair[PAIR], unsigned char *ring, struct mc_limits *out)
{
    struct pollfd fds[PAIR];

    for (int i = 0; i < PAIR; i++) {
        fds[i] = (struct pollfd){.fd = pair[i], .events = POLLIN};
        if (!ask(pair[i], STREAM)) {
            return false;
        }
    }
    for (int i = 0; i < SLICES; i++) {
        uint64_t start = mc_now_ns();
        uint64_t now = start;
        uint64_t bytes = 0;
        double rate;

        while (now - start < SLICE_NS) {
            if (!receive_either(fds, ring + bytes % (RING_LEN - MESSAGE_LEN), &bytes)) {
                return false;
            }
            now = mc_now_ns();
        }
        rate = (double)bytes * 1e9 / (double)(now - start);
        out->stream2_rate = rate > out->stream2_rate ? rate : out->stream2_rate;
    }
    return true;
}

/* A socket to @p listener; -1: none. */
static int connect_to(int listener, int buffer_len)
{
    struct sockaddr_in address;
    socklen_t address_len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    set_up(fd, buffer_len);
    if (getsockname(listener, (struct sockaddr *)&address, &address_len) != 0 ||
        connect(fd, (struct sockaddr *)&address, address_len) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* @p listener is bound to loopback; the child has it too. */
static bool measure_connected(int listener, int buffer_len, const struct places *places,
                              unsigned char *ring, struct mc_limits *out)
{
    int fd = connect_to(listener, buffer_len);
    bool fine;

    if (fd < 0) {
        return false;
    }
    places_take(places, 0);
    fine =
        (out->trip_p50_ns > 0 || measure_trips(fd, ring, out)) && measure_messages(fd, ring, out);
    places_free(places);
    fine = fine && measure_stream(fd, ring, out);
    (void)close(fd);
    return fine;
}

/* Two connections, each with a sender of its own. */
static bool measure_two(int listener, const unsigned char *source, unsigned char *ring,
                        struct mc_limits *out)
{
    pid_t pids[PAIR] = {0, 0};
    int fds[PAIR] = {-1, -1};
    bool fine = true;

    for (int i = 0; fine && i < PAIR; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            child(listener, source, NULL);
        }
        fds[i] = pids[i] < 0 ? -1 : connect_to(listener, 0);
        fine = fds[i] >= 0;
    }
    fine = fine && measure_pair(fds, ring, out);
    for (int i = 0; i < PAIR; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
        if (pids[i] > 0) {
            (void)kill(pids[i], SIGKILL);
            (void)waitpid(pids[i], NULL, 0);
        }
    }
    return fine;
}

bool mc_limits_sockets(struct mc_limits *out, char *why, size_t why_len)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned char *source = mc_limits_memory(RING_LEN);
    unsigned char *ring = mc_limits_memory(RING_LEN);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct places places;
    bool fine = false;
    pid_t pid;

    places_init(&places);
    /* Without DONTFORK the first writes here after the fork would copy pages. */
    if (source == NULL || ring == NULL || madvise(ring, RING_LEN, MADV_DONTFORK) != 0 ||
        listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, (int)BUFFER_LENS) != 0) {
        (void)mc_limits_fail(why, why_len, "a loopback socket for measuring");
        goto close_listener;
    }
    pid = fork();
    if (pid == 0) {
        child(listener, source, &places);
    }
    if (pid < 0) {
        (void)mc_limits_fail(why, why_len, "a process for measuring");
        goto close_listener;
    }
    fine = true;
    for (size_t i = 0; fine && i < BUFFER_LENS; i++) {
        fine = measure_connected(listener, buffer_lens[i], &places, ring, out);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    fine = fine && measure_two(listener, source, ring, out);
    if (!fine) {
        (void)mc_limits_fail(why, why_len, "loopback socket");
    }

close_listener:
    if (listener >= 0) {
        (void)close(listener);
    }
    if (ring != NULL) {
        (void)munmap(ring, RING_LEN);
    }
    if (source != NULL) {
        (void)munmap(source, RING_LEN);
    }
    return fine;
}
