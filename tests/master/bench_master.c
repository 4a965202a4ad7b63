/*
 * Keys per second of batches against a real master: exist and query. Prints wall time, and the
 * master's own processor time, which says what one core can do when the client is the slower part.
 * Not a test; run by hand: bench_master MASTER_PROGRAM [keys] [batch] [depth] [seconds]
 * [io_threads].
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/option.h"
#include "io/loop.h"
#include "wire/master_stub.h"

#define DEPTH_MAX 64u
#define KEY_CAP 104u
#define DEADLINE_MS 30000u

struct bench;

/* One request under way, again and again. */
struct lane {
    struct bench *bench;
    struct mc_master_call call;
    struct mc_arena arena;
    union {
        struct mc_exist_reply exist;
        struct mc_query_reply query;
        struct mc_put_start_reply start;
        struct mc_status_reply status;
    } reply;
};

struct bench {
    pid_t pid;
    char io_threads[24]; /* the master's option */
    struct mc_loop *loop;
    struct mc_master_stub stub;
    char *key_bytes;
    struct mc_key *keys;
    size_t keys_count, batch, depth;
    uint64_t seconds, random;

    enum mc_method method;
    size_t under_way, answered, found;
    uint64_t end_ns;
    bool done;
    struct lane lanes[DEPTH_MAX];
};

static void must(mooncake_err err, const char *what)
{
    if (err != MOONCAKE_OK) {
        (void)fprintf(stderr, "bench_master: %s: %s %s\n", what, mooncake_err_name(err),
                      mooncake_last_error());
        exit(1);
    }
}

static uint64_t argument(int argc, char **argv, int index, uint64_t otherwise, uint64_t max)
{
    uint64_t value = otherwise;

    if (index < argc) {
        must(mc_parse_u64(argv[index], 0, max, &value), argv[index]);
    }
    return value;
}

static size_t random_below(struct bench *b, size_t end)
{
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return (size_t)((b->random >> 33) % end);
}

/* ---- the master ------------------------------------------------------------------------------ */

static void start_master(struct bench *b, const char *program)
{
    struct mc_master_stub_options options = {
        .program = "bench_master", .client_id = 1, .connect_timeout_ms = 5000};
    char line[256] = "", address[32];
    const char *port;
    int ends[2];
    FILE *output;

    if (pipe(ends) != 0 || (b->pid = fork()) < 0) {
        must(MOONCAKE_EINTERNAL, "fork");
    }
    if (b->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)execl(program, program, "--rpc_port=0", "--metrics_port=0", "--rpc_address=127.0.0.1",
                    "--log_level=warn", "--client_ttl=1h", b->io_threads, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    output = fdopen(ends[0], "r");
    if (output == NULL || fgets(line, sizeof(line), output) == NULL ||
        (port = strstr(line, "rpc_port=")) == NULL) {
        must(MOONCAKE_ERPC, "the master did not start");
    }
    (void)snprintf(address, sizeof(address), "127.0.0.1:%lu", strtoul(port + 9, NULL, 10));
    options.address = address;
    must(mc_loop_create(0, &b->loop), "loop");
    must(mc_master_stub_open(b->loop, &options, &b->stub), "stub");
}

static uint64_t master_cpu_ns(const struct bench *b)
{
    struct timespec at = {0, 0};
    clockid_t clock;

    if (clock_getcpuclockid(b->pid, &clock) == 0) {
        (void)clock_gettime(clock, &at);
    }
    return (uint64_t)at.tv_sec * MC_NS_PER_S + (uint64_t)at.tv_nsec;
}

/* ---- one call at a time, for setting up ------------------------------------------------------ */

static void on_single(struct mc_master_call *call, mooncake_err err)
{
    struct bench *b = call->arg;

    must(err, mc_method_name(call->codec->method));
    b->done = true;
}

static void call_one(struct bench *b, enum mc_method method, const void *request)
{
    struct lane *lane = &b->lanes[0];
    uint64_t deadline_ns = mc_deadline_ns(mc_monotonic_ns(), DEADLINE_MS);

    mc_arena_reset(&lane->arena);
    mc_master_call_init(&lane->call, &lane->arena, deadline_ns, on_single, b);
    b->done = false;
    must(mc_master_call_start(b->stub.rpc, &lane->call, method, request, &lane->reply), "start");
    mc_rpc_client_flush(b->stub.rpc);
    must(mc_loop_run_until(b->loop, &b->done, deadline_ns), "wait");
}

static void mount(struct bench *b)
{
    const struct mc_mount_item item = {.name = "bench",
                                       .addresses = "tcp://127.0.0.1:1",
                                       .mount_id = 1,
                                       .len = 1ull << 44,
                                       .secret = {1, 2}};
    const struct mc_mount_request request = {
        .client_id = 1, .host = "h", .program = "bench", .items = &item, .count = 1};

    call_one(b, MC_METHOD_MOUNT, &request);
    must(b->lanes[0].reply.status.statuses[0], "mount");
}

/* Every second key is put, so that half of all lookups hit. */
static void put_keys(struct bench *b)
{
    static struct mc_key keys[512];
    static uint64_t lens[512], attempts[512];
    size_t next = 0;

    while (next < b->keys_count) {
        struct mc_put_start_request start = {
            .client_id = 1, .nonce = next + 1, .keys = keys, .value_lens = lens, .replicas = 1};
        struct mc_put_end_request end = {.client_id = 1, .keys = keys, .attempts = attempts};
        size_t count = 0;

        for (; next < b->keys_count && count < MC_ARRAY_LEN(keys); next += 2, count++) {
            keys[count] = b->keys[next];
            lens[count] = 1310720;
        }
        start.count = end.count = count;
        call_one(b, MC_METHOD_PUT_START, &start);
        memcpy(attempts, b->lanes[0].reply.start.attempts, count * sizeof(attempts[0]));
        call_one(b, MC_METHOD_PUT_END, &end);
        must(b->lanes[0].reply.status.statuses[count - 1], "put");
    }
}

/* ---- measuring ------------------------------------------------------------------------------- */

static void on_batch(struct mc_master_call *call, mooncake_err err);

static void start_batch(struct lane *lane)
{
    struct bench *b = lane->bench;
    size_t first = random_below(b, b->keys_count - b->batch + 1);
    const struct mc_keys_request request = {
        .client_id = 1, .keys = b->keys + first, .count = b->batch};

    mc_arena_reset(&lane->arena);
    mc_master_call_init(&lane->call, &lane->arena,
                        mc_deadline_ns(mc_loop_now_ns(b->loop), DEADLINE_MS), on_batch, lane);
    must(mc_master_call_start(b->stub.rpc, &lane->call, b->method, &request, &lane->reply),
         "start");
    b->under_way++;
}

static void on_batch(struct mc_master_call *call, mooncake_err err)
{
    struct lane *lane = call->arg;
    struct bench *b = lane->bench;

    must(err, "batch");
    b->under_way--;
    b->answered++;
    b->found += (b->method == MC_METHOD_EXIST ? lane->reply.exist.statuses[0]
                                              : lane->reply.query.statuses[0]) == MOONCAKE_OK;
    if (mc_loop_now_ns(b->loop) < b->end_ns) {
        start_batch(lane);
        mc_rpc_client_flush(b->stub.rpc);
    } else if (b->under_way == 0) {
        b->done = true;
    }
}

static void measure(struct bench *b, enum mc_method method)
{
    uint64_t start_ns, cpu_ns, took_ns;
    double keys;
    size_t i;

    b->method = method;
    b->done = false;
    b->answered = b->found = 0;
    start_ns = mc_monotonic_ns();
    cpu_ns = master_cpu_ns(b);
    b->end_ns = start_ns + b->seconds * MC_NS_PER_S;
    for (i = 0; i < b->depth; i++) {
        start_batch(&b->lanes[i]);
    }
    mc_rpc_client_flush(b->stub.rpc);
    must(mc_loop_run_until(b->loop, &b->done, b->end_ns + DEADLINE_MS * MC_NS_PER_MS), "run");
    took_ns = mc_monotonic_ns() - start_ns;
    cpu_ns = master_cpu_ns(b) - cpu_ns;
    keys = (double)(b->answered * b->batch);
    (void)printf("%-6s batch=%zu depth=%zu keys_per_s=%.2fM batch_us=%.1f "
                 "master_cpu_ns_per_key=%.0f keys_per_master_cpu_s=%.2fM busy=%.0f%% hit=%.2f\n",
                 mc_method_name(method), b->batch, b->depth, keys / (double)took_ns * 1e3,
                 (double)took_ns / 1e3 * (double)b->depth / (double)b->answered,
                 (double)cpu_ns / keys, keys / (double)cpu_ns * 1e3,
                 100.0 * (double)cpu_ns / (double)took_ns, (double)b->found / (double)b->answered);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct bench *b = &bench;
    size_t i;

    if (argc < 2) {
        (void)fprintf(stderr,
                      "usage: bench_master MASTER_PROGRAM [keys] [batch] [depth] [s] [io]\n");
        return 2;
    }
    b->keys_count = argument(argc, argv, 2, 200000, 100000000);
    b->batch = argument(argc, argv, 3, 512, MC_BATCH_KEYS_MAX);
    b->depth = argument(argc, argv, 4, 4, DEPTH_MAX);
    b->seconds = argument(argc, argv, 5, 2, 3600);
    (void)snprintf(b->io_threads, sizeof(b->io_threads), "--io_threads=%u",
                   (unsigned)argument(argc, argv, 6, 0, 16));
    b->keys_count = b->keys_count < b->batch ? b->batch : b->keys_count;
    b->random = 7;
    b->key_bytes = mc_malloc(b->keys_count * KEY_CAP);
    b->keys = mc_calloc(b->keys_count, sizeof(*b->keys));
    if (b->key_bytes == NULL || b->keys == NULL) {
        must(MOONCAKE_ENOMEM, "keys");
    }
    for (i = 0; i < b->keys_count; i++) {
        char *at = b->key_bytes + i * KEY_CAP;
        int len = snprintf(at, KEY_CAP, "model-70b/tp8/rank3/layer-all/%016llx%016llx/page-%08zu",
                           (unsigned long long)(i * 0x9e3779b97f4a7c15u),
                           (unsigned long long)(i * 0xbf58476d1ce4e5b9u), i);

        b->keys[i] = (struct mc_key){.bytes = at, .len = (uint32_t)len};
    }
    for (i = 0; i < DEPTH_MAX; i++) {
        b->lanes[i].bench = b;
        mc_arena_init(&b->lanes[i].arena, 0);
    }
    start_master(b, argv[1]);
    mount(b);
    put_keys(b);
    measure(b, MC_METHOD_EXIST);
    measure(b, MC_METHOD_QUERY);
    mc_master_stub_close(&b->stub);
    mc_loop_destroy(&b->loop);
    for (i = 0; i < DEPTH_MAX; i++) {
        mc_arena_fini(&b->lanes[i].arena);
    }
    mc_free(b->keys);
    mc_free(b->key_bytes);
    (void)kill(b->pid, SIGTERM);
    (void)waitpid(b->pid, NULL, 0);
    return 0;
}
