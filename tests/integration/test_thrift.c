/* What a pool does not use: cores while it is at rest, and ports of the kernel's range. */
#include "integration/harness.h"

#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define VALUE_LEN 4096u
#define REST_S 3
#define THREADS 4u
#define OPERATIONS 50000u
#define PORTS "20000 20299"
#define SOCKETS_MAX 120u

struct scene {
    struct pool pool;
    mooncake_client *client;
};

static int setup(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    *state = scene;
    pool_init(&scene->pool);
    scene->pool.transport = "tcp";
    pool_start_master(&scene->pool, 0);
    pool_start_store(&scene->pool, 0, "64MiB");
    scene->client = pool_open(&scene->pool, true);
    return 0;
}

static int teardown(void **state)
{
    struct scene *scene = *state;

    mooncake_client_close(scene->client);
    pool_fini(&scene->pool);
    free(scene);
    return 0;
}

/* Returns how many of @p count were done, one after another, before one went wrong. */
static unsigned do_operations(mooncake_client *client, unsigned first, unsigned count)
{
    unsigned char out[VALUE_LEN], in[VALUE_LEN];
    char key[32];
    uint64_t len = 0;
    unsigned i = 0;
    bool fine = true;

    (void)snprintf(key, sizeof(key), "thrift/%u", first);
    for (; fine && i < count; i++) {
        if (i % 10 == 0) { /* put, eight gets, remove */
            fill(out, sizeof(out), first + i);
            fine = mooncake_put(client, key, out, sizeof(out), NULL, 0) == MOONCAKE_OK;
        } else if (i % 10 == 9) {
            fine = mooncake_remove(client, key, true, 0) == MOONCAKE_OK;
        } else {
            fine = mooncake_get_into(client, key, in, sizeof(in), 0, &len) == MOONCAKE_OK &&
                   len == VALUE_LEN && memcmp(in, out, VALUE_LEN) == 0;
        }
    }
    if (!fine) {
        print_message("operation %u: %s\n", i, mooncake_last_error());
    }
    return fine ? count : i - 1;
}

/* ---- cores -------------------------------------------------------------------------------------
 */

static double cpu_seconds(pid_t pid)
{
    struct timespec time = {0};
    clockid_t clock;

    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &time), 0);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void pool__at_rest_uses_less_than_a_hundredth_of_a_core(void **state)
{
    const struct timespec rest = {.tv_sec = REST_S};
    struct scene *scene = *state;
    const pid_t pids[] = {scene->pool.master.pid, scene->pool.stores[0].pid, getpid()};
    double before[3];

    /* So that all have polled, and could go on. */
    assert_int_equal(do_operations(scene->client, 1, 2000), 2000);
    for (unsigned i = 0; i < 3; i++) {
        before[i] = cpu_seconds(pids[i]);
    }
    (void)nanosleep(&rest, NULL); /* it is the rest that is measured */
    for (unsigned i = 0; i < 3; i++) {
        static const char *const names[3] = {"master", "store", "client"};
        const double used = (cpu_seconds(pids[i]) - before[i]) / REST_S;

        print_message("%s uses %.3f %% of a core\n", names[i], used * 100);
        assert_true(used < 0.01);
    }
}

/* ---- ports -------------------------------------------------------------------------------------
 */

static bool write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    bool fine;

    if (file == NULL) {
        return false;
    }
    fine = fputs(text, file) >= 0;
    return fclose(file) == 0 && fine;
}

/* This thread, and what it starts, in a network of their own with few ports. */
static bool enter_network(void)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd;
    bool fine;

    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return false;
    }
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    fine = ioctl(fd, SIOCSIFFLAGS, &loopback) == 0;
    (void)close(fd);
    return fine && write_file("/proc/sys/net/ipv4/ip_local_port_range", PORTS);
}

/* Sockets of this network, those that only wait for their time to pass among them. */
static unsigned count_sockets(void)
{
    FILE *file = fopen("/proc/thread-self/net/tcp", "re");
    char line[512];
    unsigned count = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        count++;
    }
    (void)fclose(file);
    return count - 1; /* the head */
}

static int setup_ports(void **state)
{
    if (!enter_network()) {
        *state = NULL;
        return 0;
    }
    return setup(state);
}

static int teardown_ports(void **state)
{
    return *state == NULL ? 0 : teardown(state);
}

struct worker {
    pthread_t thread;
    mooncake_client *client;
    unsigned index, done;
};

static void *work(void *arg)
{
    struct worker *worker = arg;

    worker->done = do_operations(worker->client, 1000 * (worker->index + 1), OPERATIONS / THREADS);
    return NULL;
}

static void pool__serves_fifty_thousand_operations_with_three_hundred_ports(void **state)
{
    struct scene *scene = *state;
    struct worker workers[THREADS];

    if (scene == NULL) {
        print_message("no network namespace may be made here\n");
        skip();
        return;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.client = scene->client, .index = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(workers[i].done, OPERATIONS / THREADS);
    }
    assert_in_range(count_sockets(), 1, SOCKETS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pool__at_rest_uses_less_than_a_hundredth_of_a_core, setup,
                                        teardown),
        /* The last: there is no way back from its network. */
        cmocka_unit_test_setup_teardown(
            pool__serves_fifty_thousand_operations_with_three_hundred_ports, setup_ports,
            teardown_ports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
