/* Admin HTTP and its loop: busy, streaming, crowded, closing. */
#include "admin_fixture.h"

#include <sched.h>

#include "io/admin_impl.h"

/* ---- a busy loop ---------------------------------------------------------------------------- */

static void admin_http__busy_loop_gives_503_in_time_and_health_still_answers(void **state)
{
    uint64_t start_ns = mc_monotonic_ns();
    int running = admin_begin("/block?name=x");
    int queued;

    (void)state;
    assert_int_equal(sem_wait(&f.entered), 0); /* the handler is on the loop now */
    queued = admin_begin("/hello");
    http_expect(f.port, "GET", "/health", 200, "alive");
    assert_int_equal(admin_end(running, "\"error_code\":-901"), 503);
    assert_int_equal(admin_end(queued, "\"error_code\":-901"), 503);
    assert_true(mc_monotonic_ns() - start_ns >= HASTY_MS * MC_NS_PER_MS);
    assert_true(mc_monotonic_ns() - start_ns < 10 * MC_NS_PER_S);
    (void)sem_post(&f.let_go);
    http_expect(f.port, "GET", "/hello?name=again", 200, "hello again");
    assert_int_equal(atomic_load(&f.calls), 2); /* the one given up in the queue did not run */
}

static void admin_http__slow_handler_within_the_deadline_is_waited_for(void **state)
{
    int fd = admin_begin("/block?name=patience");

    (void)state;
    assert_int_equal(sem_wait(&f.entered), 0);
    (void)sem_post(&f.let_go);
    assert_int_equal(admin_end(fd, "patience"), 200);
}

static void admin_http__peer_that_leaves_while_the_loop_works_is_survived(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        int fd = admin_begin("/block?name=gone");

        assert_int_equal(sem_wait(&f.entered), 0);
        (void)close(fd);
        (void)sem_post(&f.let_go);
    }
    http_expect(f.port, "GET", "/hello", 200, "hello ?");
}

/* ---- streams -------------------------------------------------------------------------------- */

/* The body of a chunked answer, joined in place; false if the last chunk is missing. */
static bool join_chunks(struct http_answer *answer)
{
    char *at = answer->body;
    char *stop = answer->text + answer->len;
    char *out = answer->body;

    while (at < stop) {
        char *data;
        size_t len = strtoul(at, &data, 16);

        if (data + 2 > stop || memcmp(data, "\r\n", 2) != 0) {
            break;
        }
        data += 2;
        if (len == 0) {
            answer->body_len = (size_t)(out - answer->body);
            return true;
        }
        if (len > (size_t)(stop - data)) {
            break;
        }
        memmove(out, data, len);
        out += len;
        at = data + len + 2;
    }
    return false;
}

static void admin_http__stream_comes_whole_and_its_state_is_freed(void **state)
{
    struct http_answer answer;

    (void)state;
    atomic_store(&f.parts_end, STREAM_PARTS);
    answer = http_fetch(f.port, "GET", "/stream");
    assert_int_equal(answer.status, 200);
    assert_true(join_chunks(&answer));
    assert_int_equal(answer.body_len, 6 + STREAM_PARTS * PART_LEN);
    assert_memory_equal(answer.body, "begin ", 6);
    for (size_t i = 0; i < STREAM_PARTS * PART_LEN; i++) {
        if (answer.body[6 + i] != (char)('a' + i / PART_LEN % 26)) {
            fail_msg("byte %zu is wrong", i);
        }
    }
    free(answer.text);
    admin_wait_for(&f.parts_freed, 1);
    assert_int_equal(atomic_load(&f.parts), STREAM_PARTS);
}

static void admin_http__stream_that_fails_does_not_look_complete(void **state)
{
    struct http_answer answer;

    (void)state;
    atomic_store(&f.parts_end, -5);
    answer = http_fetch(f.port, "GET", "/stream");
    assert_int_equal(answer.status, 200);
    assert_false(join_chunks(&answer));
    free(answer.text);
    admin_wait_for(&f.parts_freed, 1);
}

static void admin_http__head_of_a_stream_frees_its_state(void **state)
{
    struct http_answer answer = http_fetch(f.port, "HEAD", "/stream");

    (void)state;
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body_len, 0);
    free(answer.text);
    admin_wait_for(&f.parts_freed, 1);
    assert_int_equal(atomic_load(&f.parts), 0);
}

static void admin_http__peer_that_reads_nothing_costs_no_memory_and_no_loop(void **state)
{
    char bytes[1000];
    int fd = admin_begin("/stream");
    int before;

    (void)state;
    admin_wait_for(&f.parts, 10);
    do { /* until the kernel's buffers are full and nothing more is asked for */
        before = atomic_load(&f.parts);
        for (int i = 0; i < 20; i++) {
            http_expect(f.port, "GET", "/hello", 200, "hello ?"); /* others are served */
        }
    } while (atomic_load(&f.parts) != before);
    assert_int_equal(http_read(fd, bytes, sizeof(bytes)), sizeof(bytes));
    (void)close(fd); /* it leaves in the middle */
    admin_wait_for(&f.parts_freed, 1);
}

static void admin_http__stream_over_a_busy_loop_ends_without_looking_complete(void **state)
{
    char *text = malloc((size_t)64 << 20);
    struct http_answer answer = {.text = text};
    int stream = admin_begin("/stream");
    int block;

    (void)state;
    assert_non_null(text);
    admin_wait_for(&f.parts, 10);
    block = admin_begin("/block?name=x");
    assert_int_equal(sem_wait(&f.entered), 0);
    answer.len = http_read(stream, text, ((size_t)64 << 20) - 1); /* ends: the loop is late */
    http_parse(&answer);
    assert_int_equal(answer.status, 200);
    assert_false(join_chunks(&answer));
    (void)close(stream);
    (void)sem_post(&f.let_go);
    (void)admin_end(block, NULL);
    admin_wait_for(&f.parts_freed, 1);
    free(text);
}

/* ---- many ----------------------------------------------------------------------------------- */

static bool is_closed(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    char byte;

    return poll(&wait, 1, 0) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

/* Peers that connect and say nothing must not lock anybody out, not even for a moment. */
static void admin_http__idle_connections_lock_nobody_out(void **state)
{
    static const char post[] = "POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc";
    int fds[100];

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(fds); i++) {
        /* in the middle of a header, or of a body */
        size_t len = i % 2 == 0 ? 30 : sizeof(post) - 1;

        fds[i] = http_connect(f.port);
        assert_true(fds[i] >= 0);
        (void)http_send(fds[i], post, len);
    }
    for (int i = 0; i < 20; i++) {
        http_expect(f.port, "GET", "/hello?name=operator", 200, "hello operator");
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(fds); i++) {
        (void)close(fds[i]);
    }
}

static void admin_http__newcomer_goes_when_64_are_being_answered(void **state)
{
    char text[1024];
    int fds[64];
    int extra;

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(fds); i++) {
        fds[i] = admin_begin("/later?name=x");
    }
    admin_wait_for(&f.calls, 64);
    extra = http_connect(f.port);
    assert_true(extra >= 0);
    assert_int_equal(http_read(extra, text, sizeof(text)), 0); /* closed, in place of a wait */
    (void)close(extra);
    for (size_t i = 0; i < MC_ARRAY_LEN(fds); i++) {
        assert_false(is_closed(fds[i]));
    }
    admin_answer_later();
    for (size_t i = 0; i < MC_ARRAY_LEN(fds); i++) {
        assert_int_equal(admin_end(fds[i], "at last"), 200);
    }
}

static void admin_http__longest_idle_connection_makes_room(void **state)
{
    struct mc_admin_gate *gate = NULL;
    void *conns[66];
    int pairs[66][2];

    (void)state;
    assert_int_equal(mc_admin_gate_create(&gate), MOONCAKE_OK);
    for (int i = 0; i < 66; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]), 0);
    }
    for (int i = 0; i < 64; i++) {
        conns[i] = mc_admin_conn_begin(gate, pairs[i][0]);
    }
    mc_admin_conn_mark(gate, conns[0], true); /* being answered */
    mc_admin_conn_mark(gate, conns[1], true);
    mc_admin_conn_mark(gate, conns[1], false); /* idle again, but later than the others */
    conns[64] = mc_admin_conn_begin(gate, pairs[64][0]);
    assert_true(is_closed(pairs[2][1]));
    assert_false(is_closed(pairs[64][1]));
    conns[65] = mc_admin_conn_begin(gate, pairs[65][0]);
    assert_true(is_closed(pairs[3][1]));
    assert_false(is_closed(pairs[0][1]));
    assert_false(is_closed(pairs[1][1]));
    assert_false(is_closed(pairs[65][1]));
    for (int i = 0; i < 66; i++) {
        mc_admin_conn_end(gate, conns[i]);
        (void)close(pairs[i][0]);
        (void)close(pairs[i][1]);
    }
    mc_admin_gate_unref(gate);
}

/* ---- answers that come later ---------------------------------------------------------------- */

static void admin_http__answer_that_comes_later_is_waited_for(void **state)
{
    int fd = admin_begin("/later?name=x");

    (void)state;
    admin_wait_for(&f.calls, 1);
    http_expect(f.port, "GET", "/hello?name=a", 200, "hello a"); /* the loop is free meanwhile */
    assert_false(is_closed(fd));
    admin_answer_later();
    assert_int_equal(admin_end(fd, "at last"), 200);
    http_expect(f.port, "GET", "/later", 200, "at once"); /* from inside the handler */
}

static void admin_http__answer_that_comes_too_late_reaches_nobody(void **state)
{
    int fd = admin_begin("/later?name=x");

    (void)state;
    assert_int_equal(admin_end(fd, "\"error_code\":-901"), 503); /* the route's own deadline */
    admin_answer_later();
    http_expect(f.port, "GET", "/hello?name=a", 200, "hello a");
}

static void admin_http__answer_after_the_close_is_survived(void **state)
{
    int fd = admin_begin("/later?name=x");

    (void)state;
    while (atomic_load(&f.calls) == 0) {
        mc_loop_run_ready(f.loop);
    }
    mc_admin_http_close(&f.http);
    admin_answer_later();
    assert_int_equal(admin_end(fd, NULL), 503);
}

static void *fetch_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 30; i++) {
        char path[64];
        char expected[64];

        (void)snprintf(path, sizeof(path), "/hello?name=n%d", i);
        (void)snprintf(expected, sizeof(expected), "hello n%d", i);
        http_expect(f.port, "GET", path, 200, expected);
    }
    return NULL;
}

static void admin_http__threads_of_clients_get_their_own_answers(void **state)
{
    pthread_t threads[8];

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, fetch_many, NULL), 0);
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&f.calls), 8 * 30);
}

static void admin_http__out_of_memory_costs_one_request_only(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 12; n++) {
        struct http_answer answer;

        mc_mem_fail_after(n);
        answer = http_fetch(f.port, "GET", "/hello?name=somebody");
        mc_mem_fail_after(-1);
        assert_true(answer.status == 0 || answer.status == 200 || answer.status == 400 ||
                    answer.status == 500);
        free(answer.text);
        http_expect(f.port, "GET", "/hello?name=b", 200, "hello b");
    }
}

/* ---- closing -------------------------------------------------------------------------------- */

static void admin_http__close_on_the_loops_thread_gives_503_to_who_waits(void **state)
{
    static const char both[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
                               "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    int fds[5];
    int refused = 0;

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(fds); i++) {
        char text[1024];

        fds[i] = http_connect(f.port);
        assert_true(fds[i] >= 0);
        assert_true(http_send(fds[i], both, sizeof(both) - 1));
        assert_true(recv(fds[i], text, sizeof(text), 0) > 0); /* health: now it is /hello's turn */
    }
    mc_admin_http_close(&f.http);
    assert_null(f.http);
    for (size_t i = 0; i < MC_ARRAY_LEN(fds); i++) {
        char text[4096];

        text[http_read(fds[i], text, sizeof(text) - 1)] = '\0'; /* it ends in any case */
        refused += strstr(text, "HTTP/1.1 503 ") != NULL ? 1 : 0;
        (void)close(fds[i]);
    }
    assert_true(refused > 0);
    mc_loop_run_ready(f.loop); /* what was posted is let go */
    assert_int_equal(atomic_load(&f.calls), 0);
}

/* Turn the loop until the peer, who reads nothing, is asked nothing more. */
static void turn_until_stuck(void)
{
    uint64_t deadline_ns = mc_deadline_ns(mc_monotonic_ns(), HTTP_WAIT_MS);
    int before;

    do {
        before = atomic_load(&f.parts);
        for (int i = 0; i < 100; i++) {
            assert_true(mc_monotonic_ns() < deadline_ns);
            mc_loop_run_ready(f.loop);
            (void)poll(NULL, 0, 1); /* the server's own thread needs the processor */
        }
    } while (atomic_load(&f.parts) < 10 || atomic_load(&f.parts) != before);
}

static void admin_http__close_on_the_loops_thread_frees_streams(void **state)
{
    int stuck = admin_begin("/stream");
    int waiting;

    (void)state;
    turn_until_stuck();
    waiting = admin_begin("/stream"); /* and one that waits for the loop */
    while (atomic_load(&f.streams) < 2) {
        mc_loop_run_ready(f.loop);
    }
    mc_admin_http_close(&f.http);
    assert_int_equal(atomic_load(&f.parts_freed), 2); /* before the owner's objects go */
    mc_loop_run_ready(f.loop);
    assert_int_equal(atomic_load(&f.parts_freed), 2);
    (void)close(stuck);
    (void)close(waiting);
}

static void *close_it(void *arg)
{
    (void)arg;
    mc_admin_http_close(&f.http);
    return NULL;
}

static void admin_http__close_waits_for_a_handler_that_runs(void **state)
{
    pthread_t thread;
    int fd = admin_begin("/block?name=x");

    (void)state;
    assert_int_equal(sem_wait(&f.entered), 0);
    assert_int_equal(pthread_create(&thread, NULL, close_it, NULL), 0);
    (void)admin_end(fd, NULL); /* at its deadline; the handler runs on */
    (void)sem_post(&f.let_go);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(f.http);
    assert_int_equal(atomic_load(&f.calls), 1);
}

static void admin_http__close_lets_a_request_under_way_finish(void **state)
{
    pthread_t thread;
    int fd = admin_begin("/block?name=finished");

    (void)state;
    assert_int_equal(sem_wait(&f.entered), 0);
    assert_int_equal(pthread_create(&thread, NULL, close_it, NULL), 0);
    for (int tries = 0;; tries++) { /* until the close has begun: the port takes no more */
        int probe = http_connect(f.port);

        if (probe < 0 || tries > 3) {
            (void)close(probe);
            break;
        }
        (void)close(probe);
    }
    (void)sem_post(&f.let_go);
    assert_int_equal(admin_end(fd, "finished"), 200);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void admin_http__close_under_load_ends(void **state)
{
    int fds[40];

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(fds); i++) {
        fds[i] = i % 2 == 0 ? admin_begin("/stream") : admin_begin("/hello");
    }
    mc_admin_http_close(&f.http);
    for (size_t i = 0; i < MC_ARRAY_LEN(fds); i++) {
        (void)close(fds[i]);
    }
    assert_int_equal(atomic_load(&f.parts_freed), atomic_load(&f.streams));
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, admin_setup, admin_teardown)
#define T_HASTY(test) cmocka_unit_test_setup_teardown(test, admin_setup_hasty, admin_teardown)
#define T_OWN(test) cmocka_unit_test_setup_teardown(test, admin_setup_own_loop, admin_teardown)
    const struct CMUnitTest tests[] = {
        T_HASTY(admin_http__busy_loop_gives_503_in_time_and_health_still_answers),
        T(admin_http__slow_handler_within_the_deadline_is_waited_for),
        T(admin_http__peer_that_leaves_while_the_loop_works_is_survived),
        T(admin_http__stream_comes_whole_and_its_state_is_freed),
        T(admin_http__stream_that_fails_does_not_look_complete),
        T(admin_http__head_of_a_stream_frees_its_state),
        T(admin_http__peer_that_reads_nothing_costs_no_memory_and_no_loop),
        T_HASTY(admin_http__stream_over_a_busy_loop_ends_without_looking_complete),
        T(admin_http__idle_connections_lock_nobody_out),
        T(admin_http__newcomer_goes_when_64_are_being_answered),
        T(admin_http__longest_idle_connection_makes_room),
        T(admin_http__answer_that_comes_later_is_waited_for),
        T_HASTY(admin_http__answer_that_comes_too_late_reaches_nobody),
        T_OWN(admin_http__answer_after_the_close_is_survived),
        T(admin_http__threads_of_clients_get_their_own_answers),
        T(admin_http__out_of_memory_costs_one_request_only),
        T_OWN(admin_http__close_on_the_loops_thread_gives_503_to_who_waits),
        T_OWN(admin_http__close_on_the_loops_thread_frees_streams),
        T_HASTY(admin_http__close_waits_for_a_handler_that_runs),
        T(admin_http__close_lets_a_request_under_way_finish),
        T(admin_http__close_under_load_ends),
    };
#undef T
#undef T_HASTY
#undef T_OWN

    return cmocka_run_group_tests_name("admin_loop", tests, NULL, NULL);
}
