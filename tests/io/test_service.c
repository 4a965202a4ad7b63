/* What a service manager is told: the test is the manager. */
#include "loop_fixture.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/service.h"

#define WATCHDOG_MS 40

struct manager {
    int fd;
    char name[64]; /* in the abstract namespace: nothing to clean up */
};

static int setup(void **state)
{
    struct manager *manager = calloc(1, sizeof(*manager));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len;

    assert_non_null(manager);
    (void)snprintf(manager->name, sizeof(manager->name), "@mc-test-service-%ld", (long)getpid());
    len = strlen(manager->name);
    memcpy(address.sun_path + 1, manager->name + 1, len - 1);
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(manager->fd >= 0);
    assert_int_equal(bind(manager->fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                     0);
    assert_int_equal(setenv("NOTIFY_SOCKET", manager->name, 1), 0);
    assert_int_equal(unsetenv("WATCHDOG_USEC"), 0);
    assert_int_equal(unsetenv("WATCHDOG_PID"), 0);
    *state = manager;
    return 0;
}

static int teardown(void **state)
{
    struct manager *manager = *state;

    (void)close(manager->fd);
    free(manager);
    return 0;
}

/* Is a message there, now? It goes to @p out. */
static bool hear(struct manager *manager, char out[512])
{
    ssize_t len = recv(manager->fd, out, 511, MSG_DONTWAIT);

    if (len < 0) {
        assert_int_equal(errno, EAGAIN);
        return false;
    }
    out[len] = '\0';
    return true;
}

static void expect_heard(struct manager *manager, const char *line)
{
    char heard[512];

    assert_true(hear(manager, heard));
    assert_string_equal(heard, line);
}

static void expect_silence(struct manager *manager)
{
    char heard[512];

    assert_false(hear(manager, heard));
}

static void service__says_how_the_daemon_stands(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct mc_service *service;
    char text[400], line[512];

    assert_int_equal(mc_service_create(loop, &service), MOONCAKE_OK);
    expect_silence(*state);
    mc_service_ready(service);
    expect_heard(*state, "READY=1");
    mc_service_status(service, "serving");
    expect_heard(*state, "STATUS=serving");
    mc_service_stopping(service);
    expect_heard(*state, "STOPPING=1");

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    mc_service_status(service, text);
    assert_true(hear(*state, line));
    assert_int_equal(strlen(line), strlen("STATUS=") + 255);
    mc_service_destroy(&service);
    assert_null(service);
    close_loop(loop);
}

static void service__is_silent_when_nobody_listens(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct mc_service *service;

    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", "40000", 1), 0);
    assert_int_equal(mc_service_create(loop, &service), MOONCAKE_OK);
    mc_service_ready(service);
    mc_service_stopping(service);
    expect_silence(*state);
    mc_service_destroy(&service);
    mc_service_destroy(&service);
    close_loop(loop);
}

static void never(void *arg)
{
    bool *fired = arg;

    *fired = true;
}

/* Turn the loop for @p ms; signs of life heard meanwhile. */
static unsigned count_signs(struct manager *manager, struct mc_loop *loop, unsigned ms)
{
    struct mc_timer *timer;
    char heard[512];
    bool over = false;
    unsigned signs = 0;

    assert_int_equal(mc_timer_create(loop, never, &over, &timer), MOONCAKE_OK);
    mc_timer_set(timer, ms, 0);
    run_until(loop, &over);
    mc_timer_destroy(&timer);
    while (hear(manager, heard)) {
        assert_string_equal(heard, "WATCHDOG=1");
        signs++;
    }
    return signs;
}

/* Turn the loop until two have come. */
static void await_signs(struct manager *manager, struct mc_loop *loop)
{
    const uint64_t give_up_ns = mc_monotonic_ns() + WAIT_NS;

    for (unsigned signs = 0; signs < 2;) {
        assert_true(mc_monotonic_ns() < give_up_ns);
        signs += count_signs(manager, loop, WATCHDOG_MS);
    }
}

static void service__signs_of_life_come_from_the_loop_and_stop_with_it(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct mc_service *service;
    struct pollfd nobody = {.fd = -1};
    char pid[32];

    (void)snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    assert_int_equal(setenv("WATCHDOG_USEC", "40000", 1), 0);
    assert_int_equal(setenv("WATCHDOG_PID", pid, 1), 0);
    assert_int_equal(mc_service_create(loop, &service), MOONCAKE_OK);
    await_signs(*state, loop);
    (void)poll(&nobody, 1, 3 * WATCHDOG_MS); /* the loop is stuck */
    expect_silence(*state);
    await_signs(*state, loop);
    mc_service_destroy(&service);
    assert_int_equal(count_signs(*state, loop, 3 * WATCHDOG_MS), 0);
    close_loop(loop);
}

static void service__leaves_a_watchdog_of_another_process_alone(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct mc_service *service;

    assert_int_equal(setenv("WATCHDOG_USEC", "40000", 1), 0);
    assert_int_equal(setenv("WATCHDOG_PID", "1", 1), 0);
    assert_int_equal(mc_service_create(loop, &service), MOONCAKE_OK);
    assert_int_equal(count_signs(*state, loop, 3 * WATCHDOG_MS), 0);
    mc_service_destroy(&service);
    close_loop(loop);
}

static void service__does_not_wait_for_a_manager_that_does_not_read(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct mc_service *service;

    (void)state;
    assert_int_equal(mc_service_create(loop, &service), MOONCAKE_OK);
    for (unsigned i = 0; i < 5000; i++) { /* far more than the socket's queue */
        mc_service_ready(service);
    }
    mc_service_destroy(&service);
    close_loop(loop);
}

static void service__names_a_variable_that_cannot_be_meant(void **state)
{
    static const struct {
        const char *name, *value;
    } wrong[] = {
        {"NOTIFY_SOCKET", "vsock:2:1234"},
        {"NOTIFY_SOCKET", "/"},
        {"WATCHDOG_USEC", "soon"},
        {"WATCHDOG_USEC", "-5"},
        {"WATCHDOG_USEC", "10s"},
        {"WATCHDOG_USEC", ""},
        {"WATCHDOG_USEC", "1"},
    };
    struct manager *manager = *state;
    struct mc_loop *loop = open_loop(0);
    struct mc_service *service = NULL;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(setenv("NOTIFY_SOCKET", manager->name, 1), 0);
        assert_int_equal(setenv(wrong[i].name, wrong[i].value, 1), 0);
        assert_int_equal(mc_service_create(loop, &service), MOONCAKE_EINVAL);
        assert_non_null(strstr(mooncake_last_error(), wrong[i].name));
        assert_null(service);
    }
    close_loop(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(service__says_how_the_daemon_stands, setup, teardown),
        cmocka_unit_test_setup_teardown(service__is_silent_when_nobody_listens, setup, teardown),
        cmocka_unit_test_setup_teardown(service__signs_of_life_come_from_the_loop_and_stop_with_it,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(service__leaves_a_watchdog_of_another_process_alone, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(service__does_not_wait_for_a_manager_that_does_not_read,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(service__names_a_variable_that_cannot_be_meant, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
