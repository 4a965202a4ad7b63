/* Connecting and accepting: every way it can fail, and running out of descriptors. */
#include "io_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#include "held_port.h"

static void connect_to(struct fixture *f, const char *address, uint32_t timeout_ms)
{
    assert_int_equal(
        mc_stream_connect(f->loop, address, timeout_ms, &end_ops, &f->end, &f->end.stream),
        MOONCAKE_OK);
}

/* ---- connecting ---------------------------------------------------------------------------- */

static void connect__nonsense_is_refused_with_a_sentence(void **state)
{
    static const char *const bad[] = {
        "",          "host",        ":1",         "1.2.3.4:",    "1.2.3.4:65536",
        "1.2.3.4:x", "1.2.3.4:0",   "1.2.3.4:-1", "::1:80",      "[::1]",
        "[]:1",      "1.2.3.4: 80", "h:1:2",      "1.2.3.4:+80", "1.2.3.4:080000",
    };
    struct fixture f;

    (void)state;
    fixture_init(&f);
    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        mc_err_clear();
        assert_int_equal(mc_stream_connect(f.loop, bad[i], 100, &end_ops, &f.end, &f.end.stream),
                         MOONCAKE_EINVAL);
        assert_null(f.end.stream);
        assert_string_not_equal(mooncake_last_error(), "");
    }
    run_some(&f);
    assert_int_equal(f.end.closeds, 0); /* no callback comes for a refused call */
    fixture_fini(&f);
}

static void connect__to_a_closed_port_fails_at_once_and_says_so(void **state)
{
    struct fixture f;
    char address[64];
    uint16_t port;
    int holder = held_port_open(&port);

    (void)state;
    fixture_init(&f);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    f.end.in_call = true;
    connect_to(&f, address, 10000);
    f.end.in_call = false;
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(f.end.why, MOONCAKE_ERPC);
    assert_int_equal(f.end.connecteds, 0);
    assert_non_null(strstr(f.end.sentence, address));
    assert_non_null(strstr(f.end.sentence, strerror(ECONNREFUSED)));
    fixture_fini(&f);
    (void)close(holder);
}

/* A listener whose backlog is full: the kernel ignores further connects. */
struct deaf {
    int listen_fd;
    int fillers[8];
    char address[64];
};

static void deaf_open(struct deaf *deaf)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);

    deaf->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(deaf->listen_fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(deaf->listen_fd, 0), 0);
    assert_int_equal(getsockname(deaf->listen_fd, (struct sockaddr *)&at, &len), 0);
    for (size_t i = 0; i < MC_ARRAY_LEN(deaf->fillers); i++) {
        deaf->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(deaf->fillers[i], (struct sockaddr *)&at, sizeof(at));
    }
    (void)snprintf(deaf->address, sizeof(deaf->address), "127.0.0.1:%u", ntohs(at.sin_port));
}

static void deaf_close(struct deaf *deaf)
{
    for (size_t i = 0; i < MC_ARRAY_LEN(deaf->fillers); i++) {
        (void)close(deaf->fillers[i]);
    }
    (void)close(deaf->listen_fd);
}

static void connect__to_a_silent_address_ends_at_its_deadline(void **state)
{
    struct fixture f;
    struct deaf deaf;
    uint64_t start_ns;

    (void)state;
    fixture_init(&f);
    deaf_open(&deaf);
    start_ns = mc_monotonic_ns();
    connect_to(&f, deaf.address, 50);
    RUN_UNTIL(&f, f.end.closed);
    assert_in_range(mc_monotonic_ns() - start_ns, 50 * MC_NS_PER_MS, WAIT_NS / 2);
    assert_int_equal(f.end.why, MOONCAKE_ETIMEDOUT);
    assert_non_null(strstr(f.end.sentence, deaf.address));
    deaf_close(&deaf);
    fixture_fini(&f);
}

static void connect__closed_under_way_ends_once_and_sends_fail(void **state)
{
    struct fixture f;
    struct deaf deaf;

    (void)state;
    fixture_init(&f);
    deaf_open(&deaf);
    connect_to(&f, deaf.address, 5000);
    run_some(&f);
    assert_false(mc_stream_is_connected(f.end.stream));
    mc_stream_close(f.end.stream, MOONCAKE_OK);
    RUN_UNTIL(&f, f.end.closed);
    assert_int_equal(f.end.why, MOONCAKE_OK);
    assert_int_equal(f.end.connecteds, 0);
    deaf_close(&deaf);
    fixture_fini(&f);
}

static void connect__resolves_a_name_and_shows_the_number(void **state)
{
    struct fixture f;
    char address[64];
    char got[5];

    (void)state;
    fixture_init(&f);
    (void)snprintf(address, sizeof(address), "localhost:%u", mc_listener_port(f.listener));
    connect_to(&f, address, 10000);
    assert_string_equal(mc_stream_peer(f.end.stream), address);
    assert_int_equal(mc_stream_send(f.end.stream, "early", 5, NULL, NULL), MOONCAKE_OK);
    mc_stream_flush(f.end.stream); /* there is no socket yet: it goes when there is */
    RUN_UNTIL(&f, f.end.connected && f.accepted_fd >= 0);
    assert_true(mc_stream_is_connected(f.end.stream));
    assert_string_equal(mc_stream_peer(f.end.stream), f.address);
    f.peer = f.accepted_fd;
    f.accepted_fd = -1;
    peer_receive(&f, got, sizeof(got));
    assert_memory_equal(got, "early", 5);
    fixture_fini(&f);
}

static void connect__to_an_unknown_name_fails_and_names_it(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f);
    connect_to(&f, "no-such-host.invalid:1", 2000);
    RUN_UNTIL(&f, f.end.closed);
    assert_true(f.end.why == MOONCAKE_ERPC || f.end.why == MOONCAKE_ETIMEDOUT);
    assert_non_null(strstr(f.end.sentence, "no-such-host.invalid"));
    fixture_fini(&f);
}

static void keep_fd(void *arg, int fd)
{
    ((struct fixture *)arg)->accepted_fd = fd;
}

static void connect__works_over_ipv6(void **state)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct mc_listener *listener = NULL;
    struct fixture f;
    char address[64];

    (void)state;
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0) {
        skip(); /* this machine has none */
    }
    (void)close(fd);
    fixture_init(&f);
    assert_int_equal(mc_listener_open(f.loop, "[::1]:0", false, keep_fd, &f, &listener),
                     MOONCAKE_OK);
    (void)snprintf(address, sizeof(address), "[::1]:%u", mc_listener_port(listener));
    connect_to(&f, address, 5000);
    RUN_UNTIL(&f, f.end.connected && f.accepted_fd >= 0);
    assert_string_equal(mc_stream_peer(f.end.stream), address);
    mc_listener_close(&listener);
    fixture_fini(&f);
}

static void connect__survives_each_failing_allocation(void **state)
{
    struct fixture f;
    bool failed = true;

    (void)state;
    for (int n = 0; failed; n++) {
        mooncake_err err;

        fixture_init(&f);
        mc_mem_fail_after(n);
        err = mc_stream_connect(f.loop, f.address, 5000, &end_ops, &f.end, &f.end.stream);
        if (err == MOONCAKE_OK) {
            RUN_UNTIL(&f, f.end.connected || f.end.closed);
            failed = f.end.closed;
        } else {
            assert_int_equal(err, MOONCAKE_ENOMEM);
        }
        mc_mem_fail_after(-1);
        assert_true(n < 20);
        fixture_fini(&f);
    }
}

/* ---- listening ------------------------------------------------------------------------------ */

static void ignore_fd(void *arg, int fd)
{
    unsigned *count = arg;

    ++*count;
    (void)close(fd);
}

static void listener__port_in_use_is_named(void **state)
{
    struct mc_listener *second = NULL;
    struct fixture f;
    unsigned count = 0;

    (void)state;
    fixture_init(&f);
    assert_int_equal(mc_listener_open(f.loop, f.address, false, ignore_fd, &count, &second),
                     MOONCAKE_ERPC);
    assert_null(second);
    assert_non_null(strstr(mooncake_last_error(), f.address));
    assert_non_null(strstr(mooncake_last_error(), strerror(EADDRINUSE)));
    fixture_fini(&f);
}

static void listener__two_share_a_port_if_both_wish(void **state)
{
    struct mc_listener *first = NULL;
    struct mc_listener *second = NULL;
    struct fixture f;
    unsigned count = 0;
    char address[64];

    (void)state;
    fixture_init(&f);
    assert_int_equal(mc_listener_open(f.loop, "127.0.0.1:0", true, ignore_fd, &count, &first),
                     MOONCAKE_OK);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", mc_listener_port(first));
    assert_int_equal(mc_listener_open(f.loop, address, true, ignore_fd, &count, &second),
                     MOONCAKE_OK);
    assert_int_equal(mc_listener_port(first), mc_listener_port(second));
    mc_listener_close(&first);
    connect_to(&f, address, 5000);
    RUN_UNTIL(&f, count == 1); /* the one that is left takes it */
    mc_listener_close(&second);
    fixture_fini(&f);
}

static void listener__name_of_another_machine_is_refused(void **state)
{
    struct mc_listener *listener = NULL;
    struct fixture f;

    (void)state;
    fixture_init(&f);
    assert_int_equal(mc_listener_open(f.loop, "somewhere:0", false, ignore_fd, NULL, &listener),
                     MOONCAKE_EINVAL);
    assert_int_equal(mc_listener_open(f.loop, "192.0.2.1:0", false, ignore_fd, NULL, &listener),
                     MOONCAKE_ERPC);
    assert_null(listener);
    fixture_fini(&f);
}

static void listener__takes_a_thousand_connections(void **state)
{
    enum { COUNT = 1000 };
    static int fds[COUNT];
    struct rlimit limit;
    struct mc_listener *listener = NULL;
    struct fixture f;
    unsigned count = 0;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    fixture_init(&f);
    assert_int_equal(mc_listener_open(f.loop, "127.0.0.1:0", false, ignore_fd, &count, &listener),
                     MOONCAKE_OK);
    at.sin_port = htons(mc_listener_port(listener));
    for (unsigned i = 0; i < COUNT; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        assert_true(fds[i] >= 0);
        assert_true(connect(fds[i], (struct sockaddr *)&at, sizeof(at)) == 0 ||
                    errno == EINPROGRESS);
        if (i % 200 == 199) {
            run_some(&f); /* the backlog is bounded */
        }
    }
    RUN_UNTIL(&f, count == COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        (void)close(fds[i]);
    }
    mc_listener_close(&listener);
    fixture_fini(&f);
}

static unsigned shortage_lines;

static void count_line(void *arg, enum mc_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    shortage_lines += strstr(line, "listener.accept") != NULL ? 1 : 0;
}

/* One more than the largest descriptor in use. */
static rlim_t fds_in_use(void)
{
    int fd = dup(STDIN_FILENO);
    rlim_t next;

    assert_true(fd >= 0);
    next = (rlim_t)fd;
    (void)close(fd);
    return next;
}

static int client_socket(const struct mc_listener *listener)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    at.sin_port = htons(mc_listener_port(listener));
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static void listener__out_of_descriptors_turns_peers_away_and_recovers(void **state)
{
    struct mc_listener *listener = NULL;
    struct rlimit before, tight;
    struct mc_loop_stats stats;
    struct fixture f;
    unsigned count = 0;
    int first, second, third;
    char byte;

    (void)state;
    fixture_init(&f);
    mc_log_set_sink(count_line, NULL);
    shortage_lines = 0;
    assert_int_equal(mc_listener_open(f.loop, "127.0.0.1:0", false, ignore_fd, &count, &listener),
                     MOONCAKE_OK);
    first = client_socket(listener);
    second = client_socket(listener);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    tight = before;
    tight.rlim_cur = fds_in_use(); /* not one more */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    RUN_UNTIL(&f, recv(first, &byte, 1, MSG_DONTWAIT) == 0);
    RUN_UNTIL(&f, recv(second, &byte, 1, MSG_DONTWAIT) == 0);
    assert_int_equal(count, 0); /* not accepted: closed */
    assert_int_equal(shortage_lines, 1);
    stats = mc_loop_stats(f.loop);
    run_some(&f);
    run_some(&f);
    assert_in_range(mc_loop_stats(f.loop).turns - stats.turns, 1, 20); /* does not spin */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    third = client_socket(listener);
    RUN_UNTIL(&f, count == 1);
    mc_log_set_sink(NULL, NULL);
    (void)close(first);
    (void)close(second);
    (void)close(third);
    mc_listener_close(&listener);
    fixture_fini(&f);
}

static void listener__without_a_reserve_rests_instead_of_spinning(void **state)
{
    struct mc_listener *listener = NULL;
    struct rlimit before, tight;
    struct mc_loop_stats stats;
    struct fixture f;
    unsigned count = 0;
    int peer;

    (void)state;
    fixture_init(&f);
    mc_log_set_sink(count_line, NULL);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    tight = before;
    tight.rlim_cur = fds_in_use() + 1; /* enough for the listener, not for its reserve */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    assert_int_equal(mc_listener_open(f.loop, "127.0.0.1:0", false, ignore_fd, &count, &listener),
                     MOONCAKE_OK);
    tight.rlim_cur++;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    peer = client_socket(listener);
    run_some(&f);
    stats = mc_loop_stats(f.loop);
    for (int i = 0; i < 5; i++) {
        run_some(&f);
    }
    assert_in_range(mc_loop_stats(f.loop).turns - stats.turns, 1, 30);
    assert_int_equal(count, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    RUN_UNTIL(&f, count == 1); /* after the rest it is accepted */
    mc_log_set_sink(NULL, NULL);
    (void)close(peer);
    mc_listener_close(&listener);
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect__nonsense_is_refused_with_a_sentence),
        cmocka_unit_test(connect__to_a_closed_port_fails_at_once_and_says_so),
        cmocka_unit_test(connect__to_a_silent_address_ends_at_its_deadline),
        cmocka_unit_test(connect__closed_under_way_ends_once_and_sends_fail),
        cmocka_unit_test(connect__resolves_a_name_and_shows_the_number),
        cmocka_unit_test(connect__to_an_unknown_name_fails_and_names_it),
        cmocka_unit_test(connect__works_over_ipv6),
        cmocka_unit_test(connect__survives_each_failing_allocation),
        cmocka_unit_test(listener__port_in_use_is_named),
        cmocka_unit_test(listener__two_share_a_port_if_both_wish),
        cmocka_unit_test(listener__name_of_another_machine_is_refused),
        cmocka_unit_test(listener__takes_a_thousand_connections),
        cmocka_unit_test(listener__out_of_descriptors_turns_peers_away_and_recovers),
        cmocka_unit_test(listener__without_a_reserve_rests_instead_of_spinning),
    };

    return cmocka_run_group_tests_name("io/connect", tests, NULL, NULL);
}
