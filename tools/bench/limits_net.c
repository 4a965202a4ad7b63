/* Loopback sockets: trips, requests, streams. */
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "histogram.h"
#include "limits_impl.h"
#include "timing.h"

#define MESSAGE_LEN MC_LIMITS_MESSAGE_LEN
#define RING_LEN MC_LIMITS_RING_LEN
#define PHASE_NS 300000000u
#define SLICE_NS 100000000u
#define SLICES 5
/* The same for a short look. */
#define PHASE_NOW_NS 40000000u
#define SLICE_NOW_NS 30000000u
#define SLICES_NOW 3

/* How long. */
struct span {
    uint64_t phase_ns, slice_ns;
    int slices;
};

static const struct span whole = {PHASE_NS, SLICE_NS, SLICES};
static const struct span short_look = {PHASE_NOW_NS, SLICE_NOW_NS, SLICES_NOW};

static unsigned char *ring;          /* where bytes are received; not a forked worker's */
static size_t mib_best, stream_best; /* the buffers that did better, when the whole was measured */

static bool ask(int fd, enum mc_end_command command)
{
    unsigned char byte = (unsigned char)command;

    return mc_end_send(fd, &byte, 1);
}

static bool run_trips(int fd, enum mc_end_command command, uint64_t for_ns,
                      struct mc_histogram *out)
{
    uint64_t end = mc_now_ns() + for_ns;
    uint64_t start;

    while ((start = mc_now_ns()) < end) {
        if (!ask(fd, command) || !(command == MC_END_POLLED_TRIP ? mc_end_poll(fd, ring)
                                                                 : mc_end_receive(fd, ring, 1))) {
            return false;
        }
        mc_histogram_add(out, mc_now_ns() - start);
    }
    return true;
}

static bool measure_trips(int fd, const struct span *span, struct mc_limits *out)
{
    struct mc_histogram trips = {0};

    if (!run_trips(fd, MC_END_TRIP, span->phase_ns, &trips)) {
        return false;
    }
    out->trip_p50_ns = mc_histogram_at(&trips, 0.5);
    out->trip_p99_ns = mc_histogram_at(&trips, 0.99);
    return true;
}

static bool measure_polled_trips(int fd, struct mc_limits *out)
{
    struct mc_histogram trips = {0};

    if (!run_trips(fd, MC_END_POLLED_TRIP, whole.phase_ns, &trips)) {
        return false;
    }
    out->polled_trip_p50_ns = mc_histogram_at(&trips, 0.5);
    return true;
}

/* True too if it was no better than what is known. */
static bool measure_messages(int fd, const struct span *span, struct mc_limits *out)
{
    struct mc_histogram messages = {0};
    uint64_t end = mc_now_ns() + span->phase_ns;
    uint64_t start;
    double rate;
    size_t at = 0;

    while ((start = mc_now_ns()) < end) {
        if (!ask(fd, MC_END_MESSAGE) || !mc_end_receive(fd, ring + at, MESSAGE_LEN)) {
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

/* Receive what one or several streams send, for a while. 0: one of them has failed. */
static double stream_slice(struct pollfd *fds, unsigned count, uint64_t for_ns)
{
    uint64_t start = mc_now_ns();
    uint64_t now = start;
    uint64_t bytes = 0;

    while (now - start < for_ns) {
        if (count > 1 && poll(fds, count, MC_LIMITS_TIMEOUT_S * 1000) <= 0) {
            return 0;
        }
        for (unsigned i = 0; i < count; i++) {
            unsigned char *to = ring + bytes % (RING_LEN - MESSAGE_LEN);
            ssize_t got;

            if (count > 1 && fds[i].revents == 0) {
                continue;
            }
            got = recv(fds[i].fd, to, MESSAGE_LEN, count > 1 ? MSG_DONTWAIT : 0);
            if (got <= 0) {
                return 0;
            }
            bytes += (uint64_t)got;
        }
        now = mc_now_ns();
    }
    return (double)bytes * 1e9 / (double)(now - start);
}

/* The best of some slices: as with memory, what the machine can do. 0: it failed. */
static double stream_rate(unsigned count, size_t buffer, const struct span *span)
{
    struct pollfd fds[MC_LIMITS_ENDS];
    double best = 0;
    bool fine = true;
    unsigned made;

    for (made = 0; fine && made < count; made++) {
        fds[made] = (struct pollfd){.fd = mc_end_connect(buffer, count == 1), .events = POLLIN};
        fine = fds[made].fd >= 0 && ask(fds[made].fd, MC_END_STREAM);
    }
    for (int i = 0; fine && i < span->slices; i++) {
        double rate = stream_slice(fds, count, span->slice_ns);

        fine = rate > 0;
        best = rate > best ? rate : best;
    }
    for (unsigned i = 0; i < made; i++) {
        if (fds[i].fd >= 0) {
            (void)close(fds[i].fd);
        }
    }
    return fine ? best : 0;
}

static bool have_ring(void)
{
    if (ring == NULL) {
        ring = mc_limits_memory(RING_LEN);
    }
    /* Without DONTFORK the first writes here after a fork would copy pages. */
    return ring != NULL && madvise(ring, RING_LEN, MADV_DONTFORK) == 0;
}

/* Trips and requests, from the first processor to the second. */
static bool measure_apart(size_t buffer, bool trips, const struct span *span, bool messages,
                          struct mc_limits *out)
{
    int fd = mc_end_connect(buffer, true);
    struct mc_places places;
    bool fine = fd >= 0;

    mc_places_init(&places);
    mc_places_take(&places, 0);
    fine = fine && (!trips || measure_trips(fd, span, out));
    fine = fine && (!messages || measure_messages(fd, span, out));
    mc_places_free(&places);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fine;
}

static bool measure_polled(struct mc_limits *out)
{
    int fd = mc_end_connect(0, true);
    struct mc_places places;
    bool fine;

    if (fd < 0) {
        return false;
    }
    mc_places_init(&places);
    mc_places_take(&places, 0);
    fine = measure_polled_trips(fd, out);
    mc_places_free(&places);
    (void)close(fd);
    return fine;
}

bool mc_limits_sockets(struct mc_limits *out)
{
    if (!have_ring() || !mc_ends_start() || !measure_polled(out)) {
        return false;
    }
    for (size_t buffer = 0; buffer < MC_LIMITS_BUFFERS; buffer++) {
        double before = out->mib_rate;
        double rate;

        if (!measure_apart(buffer, buffer == 0, &whole, true, out)) {
            return false;
        }
        mib_best = out->mib_rate > before ? buffer : mib_best;
        rate = stream_rate(1, buffer, &whole);
        if (rate > out->stream_rate) {
            out->stream_rate = rate;
            stream_best = buffer;
        }
    }
    out->stream2_rate = stream_rate(MC_LIMITS_ENDS, 0, &whole);
    return out->stream_rate > 0 && out->stream2_rate > 0;
}

void mc_limits_sockets_look(unsigned kinds, struct mc_limits *out)
{
    if ((kinds & (MC_LIMITS_TRIP | MC_LIMITS_ASK | MC_LIMITS_STREAM)) == 0 || !have_ring() ||
        !mc_ends_start()) {
        return;
    }
    if ((kinds & MC_LIMITS_TRIP) != 0) {
        (void)measure_apart(0, true, &short_look, false, out);
    }
    if ((kinds & MC_LIMITS_ASK) != 0) {
        (void)measure_apart(mib_best, false, &short_look, true, out);
    }
    if ((kinds & MC_LIMITS_STREAM) != 0) {
        out->stream_rate = stream_rate(1, stream_best, &short_look);
        out->stream2_rate = stream_rate(MC_LIMITS_ENDS, 0, &short_look);
    }
}
