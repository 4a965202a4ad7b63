/*
 * The same traffic with and without --io_threads: answers must be the same, and the master's own
 * counters must say where its time goes. Hundreds of connections, some of which are killed while
 * their requests are anywhere.
 */
#include "master/daemon.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/frame.h"

#define KEYS 2000u /* every second one is there */
#define BATCH 32u
#define CLIENTS 200u
/* So that the samples that the times come from are some. */
#define TURNS_MIN 1000.0
#define TRAFFIC_S_MAX 120u
#define VICTIMS 12u

struct traffic;

/* A connection with one request under way, again and again. */
struct lane {
    struct traffic *traffic;
    struct mc_master_stub stub;
    struct mc_master_call call;
    struct mc_arena arena;
    struct mc_key keys[BATCH];
    struct mc_exist_reply reply;
    unsigned first; /* key of the batch */
};

struct traffic {
    struct daemon d;
    char names[KEYS][16];
    struct lane lanes[CLIENTS];
    uint64_t answered, random;
    unsigned under_way;
    bool stopping, pause; /* leave the loop: all are stopped, or it is time to look */
};

/* What the page says at the end. */
struct seen {
    struct mc_buf page;
    double turns, requests, handed, answered;
};

static unsigned next_random(struct traffic *t, unsigned end)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((t->random >> 33) % end);
}

/* ---- the pool ------------------------------------------------------------------------------ */

static void put_keys(struct traffic *t)
{
    assert_int_equal(daemon_mount(&t->d, "seg-0", 1, 1u << 30), MOONCAKE_OK);
    for (unsigned i = 0; i < KEYS; i++) {
        (void)snprintf(t->names[i], sizeof(t->names[i]), "key-%u", i);
    }
    for (unsigned i = 0; i < KEYS; i += 2) {
        daemon_put(&t->d, t->names[i], 100);
        mc_arena_reset(&t->d.arena);
    }
}

/* ---- clients ------------------------------------------------------------------------------- */

static void on_answer(struct mc_master_call *call, mooncake_err err);

static void ask(struct lane *lane)
{
    struct traffic *t = lane->traffic;
    const struct mc_keys_request request = {
        .client_id = DAEMON_CLIENT_ID, .keys = lane->keys, .count = BATCH};

    lane->first = next_random(t, KEYS - BATCH);
    for (unsigned i = 0; i < BATCH; i++) {
        lane->keys[i] = daemon_key(t->names[lane->first + i]);
    }
    mc_arena_reset(&lane->arena);
    mc_master_call_init(&lane->call, &lane->arena, mc_deadline_ns(mc_monotonic_ns(), 30000),
                        on_answer, lane);
    assert_int_equal(
        mc_master_call_start(lane->stub.rpc, &lane->call, MC_METHOD_EXIST, &request, &lane->reply),
        MOONCAKE_OK);
    mc_rpc_client_flush(lane->stub.rpc);
    t->under_way++;
}

static void on_answer(struct mc_master_call *call, mooncake_err err)
{
    struct lane *lane = call->arg;
    struct traffic *t = lane->traffic;

    assert_int_equal(err, MOONCAKE_OK);
    assert_int_equal(lane->reply.count, BATCH);
    for (unsigned i = 0; i < BATCH; i++) {
        assert_int_equal(lane->reply.statuses[i],
                         (lane->first + i) % 2 == 0 ? MOONCAKE_OK : MOONCAKE_ENOENT);
    }
    t->under_way--;
    t->answered++;
    if (!t->stopping) {
        ask(lane);
        t->pause = t->answered % 1000 == 0;
    } else {
        t->pause = t->under_way == 0;
    }
}

static void run_traffic(struct traffic *t)
{
    t->pause = false;
    assert_int_equal(
        mc_loop_run_until(t->d.loop, &t->pause,
                          mc_deadline_ns(mc_monotonic_ns(), TRAFFIC_S_MAX * (uint64_t)1000)),
        MOONCAKE_OK);
}

static void open_clients(struct traffic *t)
{
    char address[32];
    struct mc_master_stub_options options = {.program = "test_threads 1.0",
                                             .address = address,
                                             .client_id = DAEMON_CLIENT_ID,
                                             .connect_timeout_ms = 20000};

    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", t->d.rpc_port);
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct lane *lane = &t->lanes[i];

        lane->traffic = t;
        mc_arena_init(&lane->arena, 0);
        assert_int_equal(mc_master_stub_open(t->d.loop, &options, &lane->stub), MOONCAKE_OK);
        ask(lane);
    }
}

static void close_clients(struct traffic *t)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        mc_master_stub_close(&t->lanes[i].stub);
        mc_arena_fini(&t->lanes[i].arena);
    }
}

/* ---- victims ------------------------------------------------------------------------------- */

static void encode_exist(struct traffic *t, struct mc_buf *out)
{
    struct mc_key keys[BATCH];
    const struct mc_keys_request request = {
        .client_id = DAEMON_CLIENT_ID, .keys = keys, .count = BATCH};

    for (unsigned i = 0; i < BATCH; i++) {
        keys[i] = daemon_key(t->names[i]);
    }
    mc_buf_init(out);
    assert_int_equal(mc_method_codec(MC_METHOD_EXIST)->encode_request(&request, out), MOONCAKE_OK);
}

/* Connections that ask for much and die at once: with a reset, so that nothing is read any more, or
 * with a part of a request outstanding. */
static void kill_some(struct traffic *t)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    struct mc_buf body;
    uint32_t len;

    encode_exist(t, &body);
    len = (uint32_t)mc_buf_len(&body);
    for (unsigned i = 0; i < VICTIMS; i++) {
        char words[512];
        int fd = daemon_connect(t->d.rpc_port);

        assert_int_equal(daemon_hello(fd, 1, 1, words, sizeof(words)), MOONCAKE_OK);
        for (unsigned request = 0; request < 40; request++) {
            daemon_send_frame(fd, MC_METHOD_EXIST, request, mc_buf_bytes(&body), len, len);
        }
        if (i % 2 == 0) {
            daemon_send_frame(fd, MC_METHOD_EXIST, 99, mc_buf_bytes(&body), len, len / 2);
        }
        if (i % 3 != 0) {
            (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        }
        (void)close(fd);
    }
    mc_buf_fini(&body);
}

/* ---- counters ------------------------------------------------------------------------------ */

static double spent(const struct mc_buf *page, const char *thread, const char *work)
{
    char name[128];

    (void)snprintf(name, sizeof(name),
                   "mooncake_master_thread_spent_seconds_total{thread=\"%s\",work=\"%s\"}", thread,
                   work);
    return daemon_metric(page, name);
}

static double of_thread(const struct mc_buf *page, const char *metric, const char *thread)
{
    char name[128];

    (void)snprintf(name, sizeof(name), "mooncake_master_thread_%s{thread=\"%s\"}", metric, thread);
    return daemon_metric(page, name);
}

/* Has a turn with requests been timed, on the core and where the codec is? */
static bool has_samples(const struct mc_buf *page, bool threads)
{
    return spent(page, "core", "table") > 0 &&
           (threads ? spent(page, "io-0", "codec") + spent(page, "io-1", "codec")
                    : spent(page, "core", "codec")) > 0;
}

/* Run the traffic until the core has made enough turns; what the counters say then. */
static void measure(struct traffic *t, bool threads, struct seen *out)
{
    const char *const options[] = {threads ? "--io_threads=2" : "--io_threads=0",
                                   "--client_ttl=1000", NULL};
    uint64_t give_up_ns;

    memset(t, 0, sizeof(*t));
    daemon_start(&t->d, options);
    put_keys(t);
    open_clients(t);
    mc_buf_init(&out->page);
    give_up_ns = mc_deadline_ns(mc_monotonic_ns(), TRAFFIC_S_MAX * (uint64_t)1000);
    do {
        assert_true(mc_monotonic_ns() < give_up_ns);
        run_traffic(t);
        kill_some(t);
        assert_int_equal(daemon_http(&t->d, "GET", "/metrics", &out->page), 200);
        out->turns = daemon_metric(&out->page, "mooncake_master_loop_turns_total");
    } while (out->turns < TURNS_MIN || !has_samples(&out->page, threads));
    t->stopping = true;
    run_traffic(t);
    close_clients(t);
    assert_int_equal(daemon_exist(&t->d, "key-0"), MOONCAKE_OK);
    assert_int_equal(daemon_http(&t->d, "GET", "/ready", &out->page), 200);
    do { /* what the dead have asked may be under way between the threads for a moment */
        assert_true(mc_monotonic_ns() < give_up_ns);
        assert_int_equal(daemon_http(&t->d, "GET", "/metrics", &out->page), 200);
        out->handed = daemon_metric(&out->page, "mooncake_master_handover_requests_total");
    } while (threads && of_thread(&out->page, "requests_total", "io-0") +
                                of_thread(&out->page, "requests_total", "io-1") !=
                            out->handed);
    out->requests = daemon_metric(&out->page, "mooncake_master_rpc_requests_total"
                                              "{method=\"exist\"}");
    out->answered = (double)t->answered + 1;
    assert_int_equal(daemon_stop(&t->d, SIGTERM), 0);
}

static void print_shares(const struct seen *seen, const char *thread)
{
    print_message("%-5s table %.3f handover %.3f loop %.3f codec %.3f frames %.3f sockets %.3f "
                  "cpu %.3f s, %.0f requests read\n",
                  thread, spent(&seen->page, thread, "table"),
                  spent(&seen->page, thread, "handover"), spent(&seen->page, thread, "loop"),
                  spent(&seen->page, thread, "codec"), spent(&seen->page, thread, "frames"),
                  spent(&seen->page, thread, "sockets"),
                  of_thread(&seen->page, "cpu_seconds_total", thread),
                  of_thread(&seen->page, "requests_total", thread));
}

/* ---- the tests ----------------------------------------------------------------------------- */

static struct traffic traffic;

static void threads__without_them_the_core_loop_does_everything(void **state)
{
    struct seen seen;

    (void)state;
    measure(&traffic, false, &seen);
    print_shares(&seen, "core");
    assert_true(seen.requests >= seen.answered);
    assert_true(spent(&seen.page, "core", "codec") > 0);
    assert_true(spent(&seen.page, "core", "sockets") > 0);
    assert_true(spent(&seen.page, "core", "frames") > 0);
    assert_true(spent(&seen.page, "core", "handover") == 0);
    assert_true(of_thread(&seen.page, "requests_total", "core") >= seen.requests);
    assert_true(seen.handed == 0);
    mc_buf_fini(&seen.page);
}

static void threads__with_them_the_core_loop_does_the_table_only(void **state)
{
    struct seen seen;
    double read0, read1;

    (void)state;
    measure(&traffic, true, &seen);
    print_shares(&seen, "core");
    print_shares(&seen, "io-0");
    print_shares(&seen, "io-1");
    assert_true(seen.requests >= seen.answered);
    assert_true(spent(&seen.page, "core", "codec") == 0);
    assert_true(spent(&seen.page, "core", "sockets") == 0);
    assert_true(spent(&seen.page, "core", "frames") == 0);
    assert_true(spent(&seen.page, "core", "table") > 0);
    assert_true(of_thread(&seen.page, "requests_total", "core") == 0);
    read0 = of_thread(&seen.page, "requests_total", "io-0");
    read1 = of_thread(&seen.page, "requests_total", "io-1");
    assert_true(read0 > 0 && read1 > 0);
    assert_true(read0 + read1 == seen.handed); /* whatever became of their peers */
    assert_true(spent(&seen.page, "io-0", "codec") + spent(&seen.page, "io-1", "codec") > 0);
    assert_true(spent(&seen.page, "io-0", "table") == 0);
    assert_true(spent(&seen.page, "io-1", "table") == 0);
    mc_buf_fini(&seen.page);
}

/* A request that was answered before the end was carried out, and the end comes soon. */
static void threads__sigterm_answers_what_is_under_way(void **state)
{
    const char *const options[] = {"--io_threads=2", NULL};
    struct traffic *t = &traffic;
    struct mc_buf body;
    char words[512];
    uint32_t len;
    int fd;

    (void)state;
    memset(t, 0, sizeof(*t));
    daemon_start(&t->d, options);
    put_keys(t);
    encode_exist(t, &body);
    len = (uint32_t)mc_buf_len(&body);
    fd = daemon_connect(t->d.rpc_port);
    assert_int_equal(daemon_hello(fd, 1, 1, words, sizeof(words)), MOONCAKE_OK);
    for (unsigned request = 0; request < 100; request++) {
        daemon_send_frame(fd, MC_METHOD_EXIST, request, mc_buf_bytes(&body), len, len);
    }
    assert_int_equal(daemon_read_reply(fd, 0, words, sizeof(words)), MOONCAKE_OK);
    assert_int_equal(daemon_stop(&t->d, SIGTERM), 0);
    assert_true(daemon_is_closed(fd));
    (void)close(fd);
    mc_buf_fini(&body);
}

static void threads__a_taken_port_ends_the_second_master(void **state)
{
    const char *const options[] = {"--io_threads=2", NULL};
    struct daemon first, second;
    char port[32];
    const char *const again[] = {"--io_threads=2", "--rpc_address=127.0.0.1", "--metrics_port=0",
                                 port, NULL};

    (void)state;
    daemon_start(&first, options);
    (void)snprintf(port, sizeof(port), "--rpc_port=%u", first.rpc_port);
    assert_int_equal(daemon_run_to_end(&second, again), 1);
    assert_non_null(strstr(second.text, "cannot listen on 127.0.0.1"));
    assert_int_equal(daemon_exist(&first, "key-0"), MOONCAKE_ENOENT);
    assert_int_equal(daemon_stop(&first, SIGTERM), 0);
}

static int kill_what_runs(void **state)
{
    (void)state;
    daemon_kill(&traffic.d);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(threads__without_them_the_core_loop_does_everything,
                                  kill_what_runs),
        cmocka_unit_test_teardown(threads__with_them_the_core_loop_does_the_table_only,
                                  kill_what_runs),
        cmocka_unit_test_teardown(threads__sigterm_answers_what_is_under_way, kill_what_runs),
        cmocka_unit_test(threads__a_taken_port_ends_the_second_master),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
