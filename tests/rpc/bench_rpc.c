/*
 * How far the control path is from what the machine can do: round trips over loopback between two
 * processes, against a blocking 1-byte ping-pong. Not a test; run it on a quiet machine.
 *
 *     bench_rpc [seconds per figure]
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "rpc/rpc_client.h"
#include "rpc/rpc_server.h"

#define HELLO 1u
#define ECHO 2u  /* the body comes back */
#define EXIST 3u /* 512 keys in, 512 bytes out */
#define EXIST_KEYS 512u
#define EXIST_KEY_LEN 100u
#define SAMPLES_MAX 4000000u

static uint32_t *samples; /* ns */
static size_t samples_count;
static uint64_t run_ns = MC_NS_PER_S;

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static double percentile_us(double part)
{
    return (double)samples[(size_t)((double)(samples_count - 1) * part)] / 1e3;
}

/* Print rate and percentiles; returns the median in microseconds. */
static double report(const char *what, uint64_t elapsed_ns)
{
    qsort(samples, samples_count, sizeof(*samples), by_value);
    (void)printf("%-44s %9.0f /s   p50 %7.1f us   p99 %7.1f us\n", what,
                 (double)samples_count * 1e9 / (double)elapsed_ns, percentile_us(0.50),
                 percentile_us(0.99));
    return percentile_us(0.50);
}

static void add_sample(uint64_t ns)
{
    if (samples_count < SAMPLES_MAX) {
        samples[samples_count++] = (uint32_t)ns;
    }
}

static void must(bool ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "bench_rpc: %s failed: %s\n", what, mooncake_last_error());
        exit(1);
    }
}

/* ---- raw ping-pong -------------------------------------------------------------------------- */

static void raw_serve(int listen_fd)
{
    int fd = accept(listen_fd, NULL, NULL);
    int on = 1;
    char byte;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1) {
    }
    _exit(0);
}

static double bench_raw(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    int fd;
    int on = 1;
    uint64_t start_ns, now_ns, last_ns;
    char byte = 1;
    pid_t pid;

    must(bind(listen_fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(listen_fd, 1) == 0 &&
             getsockname(listen_fd, (struct sockaddr *)&at, &len) == 0,
         "listen");
    pid = fork();
    if (pid == 0) {
        raw_serve(listen_fd);
    }
    fd = socket(AF_INET, SOCK_STREAM, 0); /* after the fork: the child must see it close */
    must(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0, "connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    samples_count = 0;
    start_ns = last_ns = now_ns = mc_monotonic_ns();
    while (now_ns - start_ns < run_ns) {
        must(write(fd, &byte, 1) == 1 && read(fd, &byte, 1) == 1, "ping-pong");
        now_ns = mc_monotonic_ns();
        add_sample(now_ns - last_ns);
        last_ns = now_ns;
    }
    (void)close(fd);
    (void)close(listen_fd);
    (void)waitpid(pid, NULL, 0);
    return report("raw blocking TCP, 1 byte", now_ns - start_ns);
}

/* ---- server --------------------------------------------------------------------------------- */

static mooncake_err on_hello(void *arg, struct mc_rpc_conn *conn, const uint8_t *body,
                             size_t body_len, struct mc_buf *out)
{
    (void)arg;
    (void)conn;
    return mc_buf_append(out, body, body_len);
}

static void handle(void *arg, struct mc_rpc_request *request)
{
    uint8_t found[EXIST_KEYS];

    (void)arg;
    if (request->method == ECHO) {
        mc_rpc_reply(request, MOONCAKE_OK, request->body, request->body_len);
        return;
    }
    /* Stand-in for hashing: each key's bytes are looked at. */
    for (size_t i = 0; i < EXIST_KEYS; i++) {
        const uint8_t *key = request->body + i * EXIST_KEY_LEN;
        unsigned sum = 0;

        for (size_t j = 0; j < EXIST_KEY_LEN; j++) {
            sum += key[j];
        }
        found[i] = (uint8_t)sum;
    }
    mc_rpc_reply(request, MOONCAKE_OK, found, sizeof(found));
}

static pid_t start_server(uint32_t poll_us, char *address, size_t cap)
{
    static const struct mc_rpc_server_ops ops = {
        .hello_method = HELLO,
        .on_hello = on_hello,
        .handle = handle,
    };
    struct mc_rpc_server *server;
    struct mc_loop *loop;
    uint16_t port = 0;
    int pipe_fds[2];
    pid_t pid;

    must(pipe(pipe_fds) == 0, "pipe");
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        must(mc_loop_create(poll_us, &loop) == MOONCAKE_OK, "loop");
        must(mc_rpc_server_open(loop, "127.0.0.1:0", &ops, NULL, &server) == MOONCAKE_OK, "server");
        port = mc_rpc_server_port(server);
        must(write(pipe_fds[1], &port, sizeof(port)) == (ssize_t)sizeof(port), "write");
        mc_loop_run(loop);
        _exit(0);
    }
    must(read(pipe_fds[0], &port, sizeof(port)) == (ssize_t)sizeof(port), "read");
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
    (void)snprintf(address, cap, "127.0.0.1:%u", port);
    return pid;
}

/* ---- client --------------------------------------------------------------------------------- */

struct call {
    struct mc_rpc_call rpc;
    uint64_t start_ns;
    bool *done; /* set when it ends, if not NULL */
};

static struct {
    struct mc_loop *loop;
    struct mc_rpc_client *client;
    uint16_t method;
    const void *body;
    size_t body_len;
    uint64_t stop_ns;
    unsigned under_way;
    bool all_done;
} bench;

static void start_call(struct call *call)
{
    call->start_ns = mc_monotonic_ns();
    call->rpc.deadline_ns = call->start_ns + 10 * MC_NS_PER_S;
    must(mc_rpc_call_start(bench.client, &call->rpc, bench.method, bench.body, bench.body_len) ==
             MOONCAKE_OK,
         "call");
}

static void on_done(struct mc_rpc_call *rpc, mooncake_err err, const uint8_t *body, size_t body_len)
{
    struct call *call = MC_CONTAINER_OF(rpc, struct call, rpc);
    uint64_t now_ns = mc_monotonic_ns();

    (void)body;
    (void)body_len;
    must(err == MOONCAKE_OK, "answer");
    add_sample(now_ns - call->start_ns);
    if (call->done != NULL) {
        *call->done = true;
    } else if (now_ns < bench.stop_ns) {
        start_call(call);
    } else if (--bench.under_way == 0) {
        bench.all_done = true;
    }
}

/* One call after another, as a blocking caller makes them. */
static double bench_serial(const char *what)
{
    bool done = false;
    struct call call = {.rpc.done = on_done, .done = &done};
    uint64_t start_ns;

    samples_count = 0;
    start_ns = mc_monotonic_ns();
    bench.stop_ns = start_ns + run_ns;
    do {
        done = false;
        start_call(&call);
        mc_rpc_client_flush(bench.client);
        must(mc_loop_run_until(bench.loop, &done, call.rpc.deadline_ns) == MOONCAKE_OK, "wait");
    } while (mc_monotonic_ns() < bench.stop_ns);
    return report(what, mc_monotonic_ns() - start_ns);
}

/* @p depth calls under way all the time. */
static void bench_pipelined(const char *what, unsigned depth)
{
    static struct call calls[1024];
    uint64_t start_ns = mc_monotonic_ns();

    samples_count = 0;
    bench.stop_ns = start_ns + run_ns;
    bench.all_done = false;
    bench.under_way = depth;
    for (unsigned i = 0; i < depth; i++) {
        calls[i].rpc.done = on_done;
        start_call(&calls[i]);
    }
    mc_rpc_client_flush(bench.client);
    must(mc_loop_run_until(bench.loop, &bench.all_done, bench.stop_ns + 10 * MC_NS_PER_S) ==
             MOONCAKE_OK,
         "wait");
    (void)report(what, mc_monotonic_ns() - start_ns);
}

static void bench_with_polling(uint32_t poll_us, double raw_us)
{
    static const struct mc_rpc_client_options options = {
        .hello_method = HELLO,
        .hello_body = (const uint8_t *)"hi",
        .hello_body_len = 2,
    };
    static uint8_t body[EXIST_KEYS * EXIST_KEY_LEN];
    char address[64];
    pid_t pid = start_server(poll_us, address, sizeof(address));
    double p50_us;

    (void)printf("\npolling %u us\n", (unsigned)poll_us);
    must(mc_loop_create(poll_us, &bench.loop) == MOONCAKE_OK, "loop");
    must(mc_rpc_client_create(bench.loop, address, &options, &bench.client) == MOONCAKE_OK,
         "client");
    bench.body = body;
    bench.method = ECHO;
    bench.body_len = 100;
    p50_us = bench_serial("rpc, 100 bytes, one at a time");
    (void)printf("%-44s %9.2f\n", "  p50 as a multiple of raw TCP", p50_us / raw_us);
    bench_pipelined("rpc, 100 bytes, 32 under way", 32);
    bench_pipelined("rpc, 100 bytes, 512 under way", 512);
    bench.method = EXIST;
    bench.body_len = sizeof(body);
    (void)bench_serial("rpc, 512 keys of 100 bytes, one at a time");
    bench_pipelined("rpc, 512 keys of 100 bytes, 8 under way", 8);
    (void)printf("%-44s %9.2f M/s\n", "  keys",
                 (double)samples_count * EXIST_KEYS * 1e3 / (double)run_ns);
    mc_rpc_client_destroy(&bench.client);
    mc_loop_destroy(&bench.loop);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    double raw_us;

    if (argc > 1) {
        run_ns = (uint64_t)(strtod(argv[1], NULL) * 1e9);
    }
    samples = mc_malloc(SAMPLES_MAX * sizeof(*samples));
    must(samples != NULL, "memory");
    raw_us = bench_raw();
    bench_with_polling(0, raw_us);
    bench_with_polling(50, raw_us);
    mc_free(samples);
    return 0;
}
