/*
 * A whole master inside this process, its core loop on a thread of its own: what a large pool, an
 * ending master and a blocked loop mean for who asks by HTTP.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/http_client.h"
#include "master/master_impl.h"

/* As many keys as make a listing of 20 MiB; sanitizers get fewer, they are slow. */
#ifdef MC_TEST_SANITIZED
#define KEYS 100000u
#else
#define KEYS 1000000u
#endif
#define BATCH 1000u
/* Memory that a request for all keys may cost this process, client's buffer and all. */
#define GROWTH_MAX ((uint64_t)8 << 20)

struct inside {
    struct mc_loop *loop;
    struct mc_master *master;
    uint16_t port;
    /* Most processor time of the core loop's thread between two fires of a timer of 1 ms: unlike
     * the time on the wall it does not grow when the machine does other things. */
    _Atomic uint64_t worst_turn_ns;
    uint64_t fired_ns;
    struct mc_timer *timer;
};

static int set_up(void **state)
{
    static struct inside in;
    struct mc_master_options options = {.host = "127.0.0.1"};

    memset(&in, 0, sizeof(in));
    mc_core_options_init(&options.core);
    options.core.epoch = 1;
    options.core.seed = 2;
    options.core.client_ttl_ms = 3600000; /* nobody pings here */
    if (mc_loop_create(0, &in.loop) != MOONCAKE_OK ||
        mc_master_create(in.loop, &options, &in.master) != MOONCAKE_OK) {
        return -1;
    }
    in.port = mc_master_metrics_port(in.master);
    *state = &in;
    return mc_loop_start(in.loop, "core") == MOONCAKE_OK ? 0 : -1;
}

/* Of the test that blocks the loop. */
static atomic_int blocked, let_go;

static int tear_down(void **state)
{
    struct inside *in = *state;

    atomic_store(&let_go, 1); /* also when the test has failed */
    mc_loop_stop(in->loop);
    mc_loop_adopt(in->loop);
    mc_timer_destroy(&in->timer);
    mc_master_destroy(&in->master);
    mc_loop_destroy(&in->loop);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

/* ---- something on the loop's thread ---------------------------------------------------------- */

struct job {
    struct mc_post post;
    struct inside *in;
    void (*run)(struct inside *in);
    atomic_bool done;
};

static void run_job(struct mc_post *post)
{
    struct job *job = MC_CONTAINER_OF(post, struct job, post);

    job->run(job->in);
    atomic_store(&job->done, true);
}

static void on_loop(struct inside *in, void (*run)(struct inside *in))
{
    struct job job = {.post.run = run_job, .in = in, .run = run};
    uint64_t deadline_ns = mc_deadline_ns(mc_monotonic_ns(), 100000);

    mc_loop_post(in->loop, &job.post);
    while (!atomic_load(&job.done)) {
        const struct timespec moment = {.tv_nsec = 1000000};

        assert_true(mc_monotonic_ns() < deadline_ns);
        (void)nanosleep(&moment, NULL);
    }
}

/* ---- a blocked loop and an ending master ----------------------------------------------------- */

static void block(struct mc_post *post)
{
    (void)post;
    atomic_store(&blocked, 1);
    while (atomic_load(&let_go) == 0) {
        const struct timespec moment = {.tv_nsec = 1000000};

        (void)nanosleep(&moment, NULL);
    }
}

static void inside__blocked_core_loop_is_not_ready_but_alive(void **state)
{
    struct inside *in = *state;
    struct mc_post post = {.run = block};
    uint64_t start_ns;

    http_expect(in->port, "GET", "/ready", 200, "{\"ready\":true}");
    mc_loop_post(in->loop, &post);
    while (atomic_load(&blocked) == 0) {
        (void)sched_yield();
    }
    start_ns = mc_monotonic_ns();
    http_expect(in->port, "GET", "/live", 200, "{\"live\":true}");
    http_expect(in->port, "GET", "/ready", 503, "\"error_code\":-901");
    assert_true(mc_monotonic_ns() - start_ns < 10 * MC_NS_PER_S); /* 2 s, and a busy machine */
    atomic_store(&let_go, 1);
    http_expect(in->port, "GET", "/ready", 200, "{\"ready\":true}");
}

static void nobody(void *arg)
{
    (void)arg;
}

static void drain(struct inside *in)
{
    mc_master_drain(in->master, 60000, nobody, NULL);
}

static void inside__ending_master_is_alive_and_not_ready(void **state)
{
    struct inside *in = *state;

    on_loop(in, drain);
    http_expect(in->port, "GET", "/ready", 503, "{\"ready\":false}");
    http_expect(in->port, "GET", "/health", 200, "\"service_ready\":false");
    http_expect(in->port, "GET", "/live", 200, NULL);
}

/* ---- a million keys -------------------------------------------------------------------------- */

static void mount(struct inside *in)
{
    const struct mc_mount_item item = {
        .name = "s", .addresses = "tcp://127.0.0.1:1", .mount_id = 7, .len = (uint64_t)KEYS * 256};
    const struct mc_mount_request request = {
        .client_id = 1, .host = "h", .program = "test", .items = &item, .count = 1};
    struct mc_status_reply reply;
    struct mc_arena arena;

    mc_arena_init(&arena, 0);
    assert_int_equal(mc_core_mount(in->master->core, &request, &arena, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_OK);
    mc_arena_fini(&arena);
}

static void put_batch(struct mc_core *core, unsigned first, struct mc_arena *arena)
{
    static char names[BATCH][24];
    static struct mc_key keys[BATCH];
    static uint64_t lens[BATCH];
    const struct mc_put_start_request start = {.client_id = 1,
                                               .nonce = 1 + first,
                                               .keys = keys,
                                               .value_lens = lens,
                                               .count = BATCH,
                                               .replicas = 1};
    struct mc_put_end_request end = {.client_id = 1, .keys = keys, .count = BATCH};
    struct mc_put_start_reply started;
    struct mc_status_reply ended;

    for (unsigned i = 0; i < BATCH; i++) {
        keys[i].bytes = names[i];
        keys[i].len = (uint32_t)snprintf(names[i], sizeof(names[i]), "key-%09u-padding", first + i);
    }
    assert_int_equal(mc_core_put_start(core, &start, arena, &started), MOONCAKE_OK);
    end.attempts = started.attempts;
    assert_int_equal(mc_core_put_end(core, &end, arena, &ended), MOONCAKE_OK);
    assert_int_equal(ended.statuses[BATCH - 1], MOONCAKE_OK);
}

static void fill(struct inside *in)
{
    struct mc_arena arena;

    mount(in);
    mc_arena_init(&arena, 0);
    for (unsigned first = 0; first < KEYS; first += BATCH) {
        mc_arena_reset(&arena);
        put_batch(in->master->core, first, &arena);
    }
    mc_arena_fini(&arena);
}

/* The loop's turns from now on. */
static void on_timer(void *arg)
{
    struct inside *in = arg;
    struct timespec cpu;
    uint64_t now_ns;

    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu), 0);
    now_ns = (uint64_t)cpu.tv_sec * MC_NS_PER_S + (uint64_t)cpu.tv_nsec;
    if (in->fired_ns != 0 && now_ns - in->fired_ns > atomic_load(&in->worst_turn_ns)) {
        atomic_store(&in->worst_turn_ns, now_ns - in->fired_ns);
    }
    in->fired_ns = now_ns;
}

static void watch(struct inside *in)
{
    assert_int_equal(mc_timer_create(in->loop, on_timer, in, &in->timer), MOONCAKE_OK);
    mc_timer_set(in->timer, 1, 1);
}

/* Parts take half a millisecond; where processors are shared, the clock of the thread jumps. */
static void check_turns(struct inside *in)
{
    uint64_t worst_ns = atomic_load(&in->worst_turn_ns);

    print_message("longest turn of the core loop: %llu us\n", (unsigned long long)worst_ns / 1000);
#ifndef MC_TEST_SANITIZED
    assert_true(worst_ns < 100 * MC_NS_PER_MS); /* all keys in one go take three times that */
#endif
}

static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long size, resident = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu %llu", &size, &resident), 2);
    assert_int_equal(fclose(file), 0);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void inside__all_keys_of_a_large_pool_stream_in_bounded_memory(void **state)
{
    static const char request[] = "GET /get_all_keys HTTP/1.0\r\nHost: x\r\n\r\n";
    static char bytes[64 << 10];
    struct inside *in = *state;
    uint64_t before, most = 0, lines = 0, parts = 0;
    char last = 0;
    size_t len;
    int fd;

    on_loop(in, fill);
    on_loop(in, watch);
    before = resident_bytes();
    fd = http_connect(in->port);
    assert_true(fd >= 0);
    assert_true(http_send(fd, request, sizeof(request) - 1));
    while ((len = http_read(fd, bytes, sizeof(bytes))) > 0) {
        for (size_t i = 0; i < len; i++) {
            lines += bytes[i] == '\n' ? 1 : 0;
        }
        last = bytes[len - 1];
        if (++parts % 16 == 0) {
            uint64_t now = resident_bytes();

            most = now > most ? now : most;
        }
    }
    (void)close(fd);
    assert_int_equal(last, '\n');
    assert_in_range(lines, KEYS, KEYS + 10); /* and the lines of the head */
    print_message("%llu keys: %lld KiB more than before\n", (unsigned long long)KEYS,
                  (long long)(most - before) / 1024);
#ifndef MC_TEST_SANITIZED
    assert_true(most < before + GROWTH_MAX);
#endif
    check_turns(in);
}

static void inside__metrics_page_holds_the_loop_for_a_slice_at_a_time(void **state)
{
    struct inside *in = *state;

    on_loop(in, mount);
    on_loop(in, watch);
    for (int i = 0; i < 20; i++) {
        http_expect(in->port, "GET", "/metrics", 200, "ha_state_transitions_total 0");
    }
    check_turns(in);
}

int main(void)
{
#define INSIDE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        INSIDE_TEST(inside__blocked_core_loop_is_not_ready_but_alive),
        INSIDE_TEST(inside__ending_master_is_alive_and_not_ready),
        INSIDE_TEST(inside__all_keys_of_a_large_pool_stream_in_bounded_memory),
        INSIDE_TEST(inside__metrics_page_holds_the_loop_for_a_slice_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
