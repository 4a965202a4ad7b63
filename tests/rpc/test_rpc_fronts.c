/*
 * A server on several threads. The test's thread is the core: it runs that loop when it wants to,
 * so that a test can hold requests on their way, in the core, or on their way back.
 */
#include "rpc/rpc_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "rpc/rpc_fronts.h"

#define FRONTS_MAX 3u
#define KEPT_TASKS_MAX MC_RPC_AWAY_MAX

struct scene;

/* What the calls on one front's thread get. */
struct side {
    struct scene *scene;
    atomic_uint conns_closed;
};

struct scene {
    struct fixture f; /* the core's loop, and raw sockets */
    struct mc_rpc_fronts *fronts;
    struct side sides[FRONTS_MAX];
    pthread_mutex_t gate; /* who has it keeps fronts from finishing */
    struct mc_rpc_task *kept[KEPT_TASKS_MAX];
    unsigned kept_count, runs;
    bool drained;
};

/* A request and its answer, in its arena. */
struct job {
    struct mc_rpc_task task;
    uint8_t *body;
    size_t body_len;
};

/* ---- what the server does ------------------------------------------------------------------ */

static mooncake_err on_hello(void *arg, struct mc_rpc_conn *conn, const uint8_t *body,
                             size_t body_len, struct mc_buf *out)
{
    (void)arg;
    (void)conn;
    return mc_buf_append(out, body, body_len);
}

static void handle(void *arg, struct mc_rpc_request *request)
{
    struct side *side = arg;
    struct job *job = mc_arena_alloc(request->arena, sizeof(*job));

    MC_ASSERT(!mc_loop_is_owner(side->scene->f.loop));
    MC_ASSERT(job != NULL);
    job->body_len = request->body_len;
    job->body = mc_arena_alloc(request->arena, request->body_len);
    MC_ASSERT(job->body != NULL);
    memcpy(job->body, request->body, request->body_len);
    request->data = job;
    mc_rpc_task_give(&job->task, request);
}

static void run(void *arg, struct mc_rpc_task *task)
{
    struct scene *s = arg;
    struct job *job = MC_CONTAINER_OF(task, struct job, task);

    MC_ASSERT_ON_LOOP(s->f.loop);
    s->runs++;
    if (task->request->method == FIXTURE_KEEP) {
        MC_ASSERT(s->kept_count < KEPT_TASKS_MAX);
        s->kept[s->kept_count++] = task;
        return;
    }
    if (task->request->method == FIXTURE_GROW) {
        job->body_len = mc_load_u32(job->body);
        job->body = mc_arena_alloc(task->request->arena, job->body_len);
        MC_ASSERT(job->body != NULL);
        memset(job->body, 'g', job->body_len);
    }
    mc_rpc_task_done(task);
}

static void finish(void *arg, struct mc_rpc_task *task)
{
    struct side *side = arg;
    struct job *job = MC_CONTAINER_OF(task, struct job, task);

    (void)pthread_mutex_lock(&side->scene->gate);
    (void)pthread_mutex_unlock(&side->scene->gate);
    mc_rpc_reply(task->request, MOONCAKE_OK, job->body, job->body_len);
}

static void on_conn_closed(void *arg, struct mc_rpc_conn *conn)
{
    struct side *side = arg;

    (void)conn;
    atomic_fetch_add(&side->conns_closed, 1);
}

static mooncake_err open_fronts(struct scene *s, const char *address, unsigned count,
                                struct mc_rpc_fronts **out)
{
    static const struct mc_rpc_server_ops server_ops = {.hello_method = FIXTURE_HELLO,
                                                        .on_hello = on_hello,
                                                        .handle = handle,
                                                        .on_conn_closed = on_conn_closed};
    static const struct mc_rpc_fronts_ops ops = {
        .server = &server_ops, .run = run, .finish = finish};
    void *args[FRONTS_MAX] = {&s->sides[0], &s->sides[1], &s->sides[2]};
    const struct mc_rpc_fronts_options options = {
        .address = address, .count = count, .spent_turns = 1, .arg = s, .front_arg = args};

    return mc_rpc_fronts_open(s->f.loop, &options, &ops, out);
}

static void scene_init(struct scene *s, unsigned count)
{
    memset(s, 0, sizeof(*s));
    assert_int_equal(mc_mem_live_count(), 0);
    for (unsigned i = 0; i < FRONTS_MAX; i++) {
        s->sides[i].scene = s;
    }
    assert_int_equal(pthread_mutex_init(&s->gate, NULL), 0);
    assert_int_equal(mc_loop_create(0, &s->f.loop), MOONCAKE_OK);
    assert_int_equal(open_fronts(s, "127.0.0.1:0", count, &s->fronts), MOONCAKE_OK);
    (void)snprintf(s->f.address, sizeof(s->f.address), "127.0.0.1:%u",
                   mc_rpc_fronts_port(s->fronts));
}

static void scene_fini(struct scene *s)
{
    mc_rpc_fronts_close(&s->fronts);
    mc_loop_destroy(&s->f.loop);
    (void)pthread_mutex_destroy(&s->gate);
    assert_int_equal(mc_mem_live_count(), 0);
}

static void end_with(struct scene *s, int fd)
{
    (void)close(fd);
    scene_fini(s);
}

static int connect_and_hello(struct scene *s)
{
    int fd = raw_connect(&s->f);
    struct mc_frame frame;
    uint8_t body[16];

    raw_send_frame(fd, FIXTURE_HELLO, 77, "hello", 5);
    raw_receive_frame(&s->f, fd, &frame, body, sizeof(body));
    assert_int_equal(frame.status, MOONCAKE_OK);
    return fd;
}

static void send_number(int fd, uint16_t method, uint64_t id, uint32_t number)
{
    uint8_t body[4];

    mc_store_u32(body, number);
    raw_send_frame(fd, method, id, body, sizeof(body));
}

/* The next reply on @p fd is to @p id and carries @p number. */
static void expect_number(struct scene *s, int fd, uint64_t id, uint32_t number)
{
    struct mc_frame frame;
    uint8_t body[4];

    raw_receive_frame(&s->f, fd, &frame, body, sizeof(body));
    assert_int_equal(frame.request_id, id);
    assert_int_equal(frame.status, MOONCAKE_OK);
    assert_int_equal(frame.body_len, 4);
    assert_int_equal(mc_load_u32(body), number);
}

#define STATS(s) mc_rpc_fronts_stats((s).fronts)

/* Wait for the fronts without running the core. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        uint64_t give_up_ns_ = mc_monotonic_ns() + WAIT_NS;                                        \
        while (!(condition)) {                                                                     \
            assert_true(mc_monotonic_ns() < give_up_ns_);                                          \
            (void)sched_yield();                                                                   \
        }                                                                                          \
    } while (0)

static void answer_kept(struct scene *s)
{
    for (unsigned i = 0; i < s->kept_count; i++) {
        mc_rpc_task_done(s->kept[i]);
    }
    s->kept_count = 0;
}

static void fronts__answers_are_right_and_in_order_on_every_connection(void **state)
{
    enum { CONNS = 30, EACH = 100 };
    struct scene s;
    int fds[CONNS];

    (void)state;
    scene_init(&s, FRONTS_MAX);
    for (unsigned c = 0; c < CONNS; c++) {
        fds[c] = connect_and_hello(&s);
    }
    for (uint32_t i = 0; i < EACH; i++) {
        for (uint32_t c = 0; c < CONNS; c++) {
            send_number(fds[c], FIXTURE_ECHO, i, c * 1000 + i);
        }
    }
    for (uint32_t c = 0; c < CONNS; c++) {
        for (uint32_t i = 0; i < EACH; i++) {
            expect_number(&s, fds[c], i, c * 1000 + i);
        }
        (void)close(fds[c]);
    }
    assert_int_equal(s.runs, CONNS * EACH);
    assert_int_equal(STATS(s).requests, CONNS * EACH);
    assert_true(STATS(s).bursts <= CONNS * EACH);
    for (unsigned i = 0; i < FRONTS_MAX; i++) { /* each has its share of the connections */
        const struct mc_rpc_server_stats *of = mc_rpc_fronts_server_stats(s.fronts, i);

        assert_int_equal(mc_counter_get(&of->accepted), CONNS / FRONTS_MAX);
        assert_int_equal(mc_counter_get(&of->requests), CONNS / FRONTS_MAX * EACH);
    }
    scene_fini(&s);
}

static void fronts__time_on_sockets_is_not_the_cores(void **state)
{
    struct scene s;
    const struct mc_spent *core, *front;
    int fd;

    (void)state;
    scene_init(&s, 1);
    mc_spent_init(mc_loop_spent(s.f.loop), 1);
    fd = connect_and_hello(&s);
    for (uint32_t i = 0; i < 200; i++) {
        send_number(fd, FIXTURE_ECHO, i, i);
        expect_number(&s, fd, i, i);
    }
    (void)close(fd);
    core = mc_loop_spent(s.f.loop);
    front = mc_loop_spent(mc_rpc_fronts_loop(s.fronts, 0));
    assert_int_equal(mc_counter_get(&core->ns[MC_SPENT_SOCKETS]), 0);
    assert_int_equal(mc_counter_get(&core->ns[MC_SPENT_FRAMES]), 0);
    assert_true(mc_counter_get(&core->ns[MC_SPENT_HANDOVER]) > 0);
    assert_true(mc_counter_get(&front->ns[MC_SPENT_SOCKETS]) > 0);
    assert_true(mc_counter_get(&front->ns[MC_SPENT_FRAMES]) > 0);
    assert_true(mc_loop_cpu_ns(mc_rpc_fronts_loop(s.fronts, 0)) > 0);
    scene_fini(&s);
}

static void fronts__an_answer_for_a_peer_that_is_gone_is_dropped(void **state)
{
    struct scene s;
    int fd, other;

    (void)state;
    scene_init(&s, 2);
    fd = connect_and_hello(&s);
    other = connect_and_hello(&s);
    for (uint32_t i = 0; i < 3; i++) {
        send_number(fd, FIXTURE_KEEP, i, i);
    }
    send_number(other, FIXTURE_KEEP, 9, 99);
    RUN_UNTIL(&s.f, s.kept_count == 4);
    (void)close(fd);
    AWAIT(atomic_load(&s.sides[0].conns_closed) + atomic_load(&s.sides[1].conns_closed) == 1);
    answer_kept(&s);
    expect_number(&s, other, 9, 99);
    send_number(other, FIXTURE_ECHO, 10, 100);
    expect_number(&s, other, 10, 100);
    end_with(&s, other);
}

/* ---- bounds -------------------------------------------------------------------------------- */

static void fronts__a_front_with_too_much_on_its_way_stops_reading(void **state)
{
    enum { CONNS = 3 };
    const uint32_t each = MC_RPC_IN_FLIGHT_MAX;
    struct scene s;
    int fds[CONNS];

    (void)state;
    scene_init(&s, 1);
    for (unsigned c = 0; c < CONNS; c++) {
        fds[c] = connect_and_hello(&s);
    }
    for (uint32_t c = 0; c < CONNS; c++) {
        for (uint32_t i = 0; i < each; i++) {
            send_number(fds[c], FIXTURE_ECHO, i, c + i);
        }
    }
    AWAIT(STATS(s).stalls > 0); /* nobody runs the core */
    assert_int_equal(STATS(s).requests, MC_RPC_AWAY_MAX);
    assert_int_equal(s.runs, 0);
    for (uint32_t c = 0; c < CONNS; c++) {
        for (uint32_t i = 0; i < each; i++) {
            expect_number(&s, fds[c], i, c + i);
        }
        (void)close(fds[c]);
    }
    assert_int_equal(s.runs, CONNS * each);
    assert_int_equal(STATS(s).queue_max, MC_RPC_AWAY_MAX);
    scene_fini(&s);
}

static void fronts__requests_that_wait_in_the_core_hold_up_no_others(void **state)
{
    struct scene s;
    int waiting, other;

    (void)state;
    scene_init(&s, 1);
    waiting = connect_and_hello(&s);
    other = connect_and_hello(&s);
    for (uint32_t i = 0; i < MC_RPC_AWAY_MAX; i++) {
        send_number(waiting, FIXTURE_KEEP, i, i);
    }
    AWAIT(STATS(s).stalls > 0); /* full, and nobody runs the core */
    send_number(other, FIXTURE_ECHO, 1, 2);
    AWAIT(STATS(s).stalls > 1); /* it waits too, and nothing more will come */
    expect_number(&s, other, 1, 2);
    assert_int_equal(s.kept_count, MC_RPC_AWAY_MAX);
    answer_kept(&s);
    for (uint32_t i = 0; i < MC_RPC_AWAY_MAX; i++) {
        expect_number(&s, waiting, i, i);
    }
    (void)close(waiting);
    end_with(&s, other);
}

static void fronts__a_front_with_many_bytes_on_their_way_stops_reading(void **state)
{
    enum { CONNS = 64, EACH = 8, LEN = 128 << 10 };
    static uint8_t body[LEN];
    struct scene s;
    struct mc_frame frame;
    int fds[CONNS];
    uint64_t requests;
    uint32_t sent = 0;

    (void)state;
    scene_init(&s, 1);
    for (unsigned c = 0; c < CONNS; c++) {
        fds[c] = connect_and_hello(&s);
    }
    for (; sent < CONNS * EACH && STATS(s).stalls == 0; sent++) {
        raw_send_frame(fds[sent / EACH], FIXTURE_ECHO, sent, body, LEN);
        AWAIT(STATS(s).requests == sent + 1 || STATS(s).stalls > 0);
    }
    requests = STATS(s).requests; /* nobody has run the core */
    assert_true(requests * LEN <= MC_RPC_AWAY_TOTAL_MAX);
    assert_true(requests < MC_RPC_AWAY_MAX && sent < CONNS * EACH);
    for (uint32_t i = 0; i < sent; i++) {
        raw_receive_frame(&s.f, fds[i / EACH], &frame, body, LEN);
        assert_int_equal(frame.request_id, i);
    }
    for (unsigned c = 0; c < CONNS; c++) {
        (void)close(fds[c]);
    }
    scene_fini(&s);
}

static void fronts__a_connection_with_many_bytes_on_their_way_waits(void **state)
{
    enum { COUNT = 40, LEN = 64 << 10 };
    static uint8_t body[LEN];
    struct scene s;
    struct mc_frame frame;
    int fd;

    (void)state;
    scene_init(&s, 1);
    fd = connect_and_hello(&s);
    for (uint32_t i = 0; i < COUNT; i++) {
        raw_send_frame(fd, FIXTURE_KEEP, i, body, LEN);
        run_some(&s.f);
    }
    RUN_UNTIL(&s.f, s.kept_count > MC_RPC_AWAY_LEN_MAX / LEN);
    assert_int_equal(s.kept_count, MC_RPC_AWAY_LEN_MAX / LEN + 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        RUN_UNTIL(&s.f, s.kept_count > 0 || s.runs == COUNT);
        answer_kept(&s);
        raw_receive_frame(&s.f, fd, &frame, body, LEN);
        assert_int_equal(frame.request_id, i);
    }
    assert_int_equal(s.runs, COUNT);
    end_with(&s, fd);
}

/* Ask for answers of 4 MiB. */
static void ask_large(int fd, unsigned count)
{
    for (uint32_t i = 0; i < count; i++) {
        send_number(fd, FIXTURE_GROW, i, 4u << 20);
    }
}

static void fronts__the_core_makes_no_more_answers_than_a_slow_front_can_hold(void **state)
{
    enum { COUNT = 24 };
    const size_t len = (size_t)4 << 20;
    struct scene s;
    struct mc_frame frame;
    uint8_t *body;
    int fd;

    (void)state;
    scene_init(&s, 1);
    fd = connect_and_hello(&s);
    (void)pthread_mutex_lock(&s.gate);
    ask_large(fd, COUNT);
    AWAIT(STATS(s).requests == COUNT); /* so that the core takes them all at once */
    RUN_UNTIL(&s.f, STATS(s).holds > 0);
    assert_int_equal(s.runs, MC_RPC_AWAY_TOTAL_MAX / len);
    (void)pthread_mutex_unlock(&s.gate);
    body = mc_malloc(len);
    assert_non_null(body);
    for (uint32_t i = 0; i < COUNT; i++) {
        raw_receive_frame(&s.f, fd, &frame, body, len);
        assert_int_equal(frame.request_id, i);
        assert_int_equal(frame.body_len, len);
        assert_int_equal(body[len - 1], 'g');
    }
    mc_free(body);
    end_with(&s, fd);
}

static void fronts__a_peer_that_takes_no_answers_is_closed(void **state)
{
    const unsigned count = (unsigned)(MC_RPC_AWAY_OUTPUT_LEN_MAX >> 22) + 8;
    struct scene s;
    int fd;

    (void)state;
    scene_init(&s, 1);
    fd = connect_and_hello(&s);
    ask_large(fd, count);
    AWAIT(STATS(s).requests == count);      /* all before the first answer could hold them up */
    for (unsigned i = 1; i <= count; i++) { /* one by one: a slow machine takes its time */
        RUN_UNTIL(&s.f, s.runs >= i || atomic_load(&s.sides[0].conns_closed) == 1);
    }
    RUN_UNTIL(&s.f, atomic_load(&s.sides[0].conns_closed) == 1);
    (void)close(fd);
    fd = connect_and_hello(&s); /* others are served */
    send_number(fd, FIXTURE_ECHO, 1, 2);
    expect_number(&s, fd, 1, 2);
    end_with(&s, fd);
}

/* ---- the end ------------------------------------------------------------------------------- */

static void fronts__close_frees_requests_wherever_they_are(void **state)
{
    struct scene s;
    int fds[3];

    (void)state;
    scene_init(&s, 2);
    for (unsigned i = 0; i < 3; i++) {
        fds[i] = connect_and_hello(&s);
    }
    send_number(fds[0], FIXTURE_KEEP, 1, 1);
    RUN_UNTIL(&s.f, s.kept_count == 1); /* in the core */
    (void)pthread_mutex_lock(&s.gate);
    send_number(fds[1], FIXTURE_ECHO, 2, 2);
    RUN_UNTIL(&s.f, s.runs == 2); /* on its way back */
    send_number(fds[2], FIXTURE_ECHO, 3, 3);
    AWAIT(STATS(s).requests == 3); /* on its way to the core */
    (void)pthread_mutex_unlock(&s.gate);
    mc_rpc_fronts_stop(s.fronts);
    answer_kept(&s);
    scene_fini(&s);
    assert_int_equal(s.runs, 2);
    for (unsigned i = 0; i < 3; i++) {
        (void)close(fds[i]);
    }
}

static void on_drained(void *arg)
{
    struct scene *s = arg;

    MC_ASSERT_ON_LOOP(s->f.loop);
    s->drained = true;
}

static void fronts__drain_ends_when_the_last_answer_is_out(void **state)
{
    struct scene s;
    int busy, idle;

    (void)state;
    scene_init(&s, 2);
    busy = connect_and_hello(&s);
    idle = connect_and_hello(&s);
    send_number(busy, FIXTURE_KEEP, 1, 11);
    RUN_UNTIL(&s.f, s.kept_count == 1);
    mc_rpc_fronts_drain(s.fronts, 60000, on_drained, &s);
    assert_int_equal(raw_wait_closed(&s.f, idle), 0);
    assert_false(s.drained);
    answer_kept(&s);
    expect_number(&s, busy, 1, 11);
    assert_int_equal(raw_wait_closed(&s.f, busy), 0);
    (void)close(busy);
    (void)close(idle);
    RUN_UNTIL(&s.f, s.drained);
    scene_fini(&s);
}

static void fronts__a_taken_port_is_refused_by_name(void **state)
{
    struct scene s;
    struct mc_rpc_fronts *const before = (struct mc_rpc_fronts *)0x1;
    struct mc_rpc_fronts *second = before;

    (void)state;
    scene_init(&s, 1);
    assert_int_equal(open_fronts(&s, s.f.address, 3, &second), MOONCAKE_ERPC);
    assert_ptr_equal(second, before);
    assert_non_null(strstr(mooncake_last_error(), s.f.address));
    scene_fini(&s);
}

static void fronts__open_out_of_memory_leaves_nothing(void **state)
{
    mooncake_err err = MOONCAKE_ENOMEM;
    struct scene s;

    (void)state;
    scene_init(&s, 1);
    for (int64_t n = 0; err == MOONCAKE_ENOMEM; n++) {
        struct mc_rpc_fronts *second = NULL;

        mc_mem_fail_after(n);
        err = open_fronts(&s, "127.0.0.1:0", 2, &second);
        mc_mem_fail_after(-1);
        mc_rpc_fronts_close(&second);
    }
    assert_int_equal(err, MOONCAKE_OK);
    scene_fini(&s);
}

static void fronts__one_that_is_stuck_is_seen_to_be_late(void **state)
{
    struct scene s;
    int fd;

    (void)state;
    scene_init(&s, 2);
    RUN_UNTIL(&s.f, mc_rpc_fronts_late_ns(s.fronts) < MC_NS_PER_S);
    fd = connect_and_hello(&s);
    (void)pthread_mutex_lock(&s.gate);
    send_number(fd, FIXTURE_ECHO, 1, 1);
    RUN_UNTIL(&s.f, s.runs == 1);
    RUN_UNTIL(&s.f, mc_rpc_fronts_late_ns(s.fronts) > 20 * MC_NS_PER_MS);
    (void)pthread_mutex_unlock(&s.gate);
    expect_number(&s, fd, 1, 1);
    RUN_UNTIL(&s.f, mc_rpc_fronts_late_ns(s.fronts) == 0);
    end_with(&s, fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fronts__answers_are_right_and_in_order_on_every_connection),
        cmocka_unit_test(fronts__time_on_sockets_is_not_the_cores),
        cmocka_unit_test(fronts__an_answer_for_a_peer_that_is_gone_is_dropped),
        cmocka_unit_test(fronts__a_front_with_too_much_on_its_way_stops_reading),
        cmocka_unit_test(fronts__requests_that_wait_in_the_core_hold_up_no_others),
        cmocka_unit_test(fronts__a_front_with_many_bytes_on_their_way_stops_reading),
        cmocka_unit_test(fronts__a_connection_with_many_bytes_on_their_way_waits),
        cmocka_unit_test(fronts__the_core_makes_no_more_answers_than_a_slow_front_can_hold),
        cmocka_unit_test(fronts__a_peer_that_takes_no_answers_is_closed),
        cmocka_unit_test(fronts__close_frees_requests_wherever_they_are),
        cmocka_unit_test(fronts__drain_ends_when_the_last_answer_is_out),
        cmocka_unit_test(fronts__a_taken_port_is_refused_by_name),
        cmocka_unit_test(fronts__open_out_of_memory_leaves_nothing),
        cmocka_unit_test(fronts__one_that_is_stuck_is_seen_to_be_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
