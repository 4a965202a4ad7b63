/*
 * How near the tcp transport comes to the socket under it: two processes over loopback, each figure
 * as a ratio to one measured in the same run. Not a test; run it by hand on an idle machine:
 *
 *     bench_tcp [POLL_US [CONNECTIONS_MAX]]
 */
#include "rig.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "transport/xfer.h"

#define POOL_LEN ((size_t)256 << 20)
#define RING_LEN ((size_t)128 << 20)
#define RUN_NS (1500 * MC_NS_PER_MS)
#define TRIPS 20000u

static uint8_t *pool; /* the caller's memory */
static pid_t store_pid;

/* What a stretch of time cost. CPU seconds tell more than the clock on a machine that is busy. */
struct stretch {
    pid_t other; /* the process at the far end */
    uint64_t start_ns, cpu_ns, other_cpu_ns;
};

struct figure {
    double gbs;            /* 1e9 bytes a second */
    double cpu, other_cpu; /* CPU seconds a GiB, near and far end */
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t = {0};

    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * MC_NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns_of(pid_t pid)
{
    clockid_t clock;

    return clock_getcpuclockid(pid, &clock) == 0 ? clock_ns(clock) : 0;
}

static struct stretch begin(pid_t other)
{
    return (struct stretch){.other = other,
                            .start_ns = mc_monotonic_ns(),
                            .cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID),
                            .other_cpu_ns = cpu_ns_of(other)};
}

static struct figure end(const struct stretch *stretch, size_t bytes)
{
    const double gib = (double)bytes / (double)(1 << 30);

    return (struct figure){
        .gbs = (double)bytes / (double)(mc_monotonic_ns() - stretch->start_ns),
        .cpu = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - stretch->cpu_ns) / 1e9 / gib,
        .other_cpu = (double)(cpu_ns_of(stretch->other) - stretch->other_cpu_ns) / 1e9 / gib};
}

/* ---- the socket itself ----------------------------------------------------------------------- */

/* A connected pair over loopback. */
static void connect_pair(int fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    const int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&address, len), 0);
    fds[1] = accept(listener, NULL, NULL);
    (void)setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)close(listener);
}

static void stop_child(pid_t pid, int fd)
{
    (void)close(fd);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static struct figure raw_stream(void)
{
    int fds[2];
    size_t total = 0;
    size_t at = 0;
    struct stretch stretch;
    struct figure figure;
    pid_t pid;

    connect_pair(fds);
    pid = fork();
    if (pid == 0) {
        (void)close(fds[0]);
        for (size_t from = 0;; from = (from + (1 << 20)) % POOL_LEN) {
            for (size_t done = 0; done < 1 << 20;) {
                ssize_t n = write(fds[1], pool + from + done, (1 << 20) - done);

                if (n <= 0) {
                    _exit(0);
                }
                done += (size_t)n;
            }
        }
    }
    (void)close(fds[1]);
    stretch = begin(pid);
    for (bool warm = false; !warm || mc_monotonic_ns() - stretch.start_ns < RUN_NS;) {
        ssize_t n = read(fds[0], pool + at, (size_t)512 << 10);

        assert_true(n > 0);
        total += (size_t)n;
        if (!warm && total > 2 * POOL_LEN) { /* all pages are mapped on both sides */
            warm = true;
            total = 0;
            stretch = begin(pid);
        }
        at = at + (size_t)n + (512 << 10) > POOL_LEN ? 0 : at + (size_t)n;
    }
    figure = end(&stretch, total);
    stop_child(pid, fds[0]);
    return figure;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

static double median_us(uint64_t *ns, size_t count)
{
    qsort(ns, count, sizeof(*ns), by_value);
    return (double)ns[count / 2] / 1e3;
}

static double raw_round_trip_us(void)
{
    static uint64_t ns[TRIPS];
    int fds[2];
    char byte = 1;
    pid_t pid;

    connect_pair(fds);
    pid = fork();
    if (pid == 0) {
        (void)close(fds[0]);
        while (read(fds[1], &byte, 1) == 1 && write(fds[1], &byte, 1) == 1) {
        }
        _exit(0);
    }
    (void)close(fds[1]);
    for (size_t i = 0; i < TRIPS; i++) {
        uint64_t start = mc_monotonic_ns();

        assert_int_equal(write(fds[0], &byte, 1), 1);
        assert_int_equal(read(fds[0], &byte, 1), 1);
        ns[i] = mc_monotonic_ns() - start;
    }
    stop_child(pid, fds[0]);
    return median_us(ns, TRIPS);
}

/* ---- through xfer ---------------------------------------------------------------------------- */

static bool batch_done;

static void on_done(struct mc_xfer *xfer)
{
    (void)xfer;
    batch_done = true;
}

/* Extents of one length that are used in turn: more bytes than the caches hold. */
static size_t ring_of(size_t len)
{
    size_t ring = RING_LEN / (len + 64);

    return ring < 32768 ? ring : 32768;
}

static void batch(struct rig_engine *engine, const struct rig_segment *segment,
                  enum mc_rights right, size_t len, unsigned count, size_t first)
{
    static struct rig_op ops[512];
    struct mc_xfer xfer;

    mc_xfer_init(&xfer, &engine->set, on_done, NULL);
    batch_done = false;
    for (unsigned i = 0; i < count; i++) {
        size_t slot = (first + i) % ring_of(len);
        struct mc_extent_ref extent = rig_extent(segment, slot * (len + 64), len, slot);

        rig_op_init(&ops[i], engine, right, &extent, pool + slot * len);
        mc_xfer_add(&xfer, &ops[i].op);
    }
    assert_int_equal(mc_xfer_start(&xfer, mc_monotonic_ns() + RIG_WAIT_NS), MOONCAKE_OK);
    assert_int_equal(mc_loop_run_until(engine->loop, &batch_done, mc_monotonic_ns() + RIG_WAIT_NS),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(ops[i].op.err, MOONCAKE_OK);
    }
}

/* Write every extent of the ring once, so that reads find it and no page is new. */
static void prepare(struct rig_engine *engine, const struct rig_segment *segment, size_t len)
{
    for (size_t i = 0; i < ring_of(len); i += 32) {
        batch(engine, segment, MC_RIGHT_WRITE, len, 32, i);
    }
}

/* Batches, each on other memory than the one before. */
static struct figure throughput(struct rig_engine *engine, const struct rig_segment *segment,
                                enum mc_rights right, size_t len, unsigned count)
{
    struct stretch stretch = begin(store_pid);
    size_t batches = 0;

    while (mc_monotonic_ns() - stretch.start_ns < RUN_NS) {
        batch(engine, segment, right, len, count, batches++ * count);
    }
    return end(&stretch, batches * count * len);
}

static double one_by_one_us(struct rig_engine *engine, const struct rig_segment *segment,
                            enum mc_rights right, size_t len)
{
    static uint64_t ns[TRIPS];

    for (size_t i = 0; i < TRIPS; i++) {
        uint64_t start = mc_monotonic_ns();

        batch(engine, segment, right, len, 1, i % 1000);
        ns[i] = mc_monotonic_ns() - start;
    }
    return median_us(ns, TRIPS);
}

static void show(const char *what, struct figure figure, struct figure raw)
{
    (void)printf("%-28s %6.2f GB/s  CPU s/GiB %.2f + %.2f  %.2f x raw\n", what, figure.gbs,
                 figure.cpu, figure.other_cpu, figure.gbs / raw.gbs);
}

static void bench(struct rig_engine *engine, const struct rig_segment *segment)
{
    static const struct {
        const char *what;
        enum mc_rights right;
        size_t len;
        unsigned count;
    } rows[] = {
        {"put 1 MiB, batches of 32", MC_RIGHT_WRITE, 1 << 20, 32},
        {"get 1 MiB, batches of 32", MC_RIGHT_READ, 1 << 20, 32},
        {"put 4 MiB, batches of 8", MC_RIGHT_WRITE, 4 << 20, 8},
        {"get 4 MiB, batches of 8", MC_RIGHT_READ, 4 << 20, 8},
        {"put 16 MiB, one by one", MC_RIGHT_WRITE, 16 << 20, 1},
        {"get 16 MiB, one by one", MC_RIGHT_READ, 16 << 20, 1},
        {"get 1 MiB, one by one", MC_RIGHT_READ, 1 << 20, 1},
        {"get 64 KiB, batches of 32", MC_RIGHT_READ, 64 << 10, 32},
        {"put 4 KiB, batches of 128", MC_RIGHT_WRITE, 4 << 10, 128},
        {"get 4 KiB, batches of 128", MC_RIGHT_READ, 4 << 10, 128},
    };
    struct figure raw = raw_stream();
    double trip = raw_round_trip_us();
    double us;

    show("raw loopback stream", raw, raw);
    for (size_t i = 0; i < MC_ARRAY_LEN(rows); i++) {
        prepare(engine, segment, rows[i].len);
        show(rows[i].what, throughput(engine, segment, rows[i].right, rows[i].len, rows[i].count),
             raw);
    }
    (void)printf("raw 1-byte round trip        %6.1f us\n", trip);
    us = one_by_one_us(engine, segment, MC_RIGHT_WRITE, 4 << 10);
    (void)printf("put 4 KiB, one by one        %6.1f us  %.2f x round trip\n", us, us / trip);
    us = one_by_one_us(engine, segment, MC_RIGHT_READ, 4 << 10);
    (void)printf("get 4 KiB, one by one        %6.1f us  %.2f x round trip\n", us, us / trip);
}

int main(int argc, char **argv)
{
    struct mc_transport_options options = rig_options;
    struct rig_segment segment;
    struct rig_engine engine;
    struct rig_store store;

    rig_store_main(argc, argv);
    if (argc > 1) {
        rig_poll_us = (uint32_t)strtoul(argv[1], NULL, 10);
    }
    if (argc > 2) {
        options.connections_max = (uint32_t)strtoul(argv[2], NULL, 10);
    }
    pool = mmap(NULL, POOL_LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pool, MAP_FAILED);
    memset(pool, 1, POOL_LEN);
    rig_segment_open(&segment, 5, POOL_LEN + 64);
    rig_store_open(&store, &segment, 0);
    store_pid = store.pid;
    rig_engine_open(&engine, "tcp", 5, store.port, &options);
    bench(&engine, &segment);
    rig_engine_close(&engine);
    rig_store_close(&store);
    rig_segment_close(&segment);
    (void)munmap(pool, POOL_LEN);
    return 0;
}
