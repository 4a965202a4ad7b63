/* See the header. */
#include "integration/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "held_port.h"

#define START_SECONDS 60u

uint64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

bool wait_until(bool (*holds)(void *arg), void *arg, unsigned seconds)
{
    uint64_t deadline_ms = now_ms() + seconds * 1000u;

    while (!holds(arg)) {
        if (now_ms() > deadline_ms) {
            return false;
        }
        (void)poll(NULL, 0, 1); /* on one processor, who is waited for needs it */
    }
    return true;
}

/* ---- processes --------------------------------------------------------------------------- */

/* Runs in the child. */
static void become(const struct daemon *daemon, char *const *argv)
{
    int log = open(daemon->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (log >= 0) {
        (void)dup2(log, STDOUT_FILENO);
        (void)dup2(log, STDERR_FILENO);
    }
    (void)execv(argv[0], argv);
    _exit(127);
}

static void print_log(const struct daemon *daemon)
{
    FILE *file = fopen(daemon->log, "re");
    char line[512];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        (void)fprintf(stderr, "[%s] %s", daemon->name, line);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

static bool has_ports_or_is_dead(void *arg)
{
    struct daemon *daemon = arg;
    struct stat unused;
    int status;

    if (stat(daemon->port_file, &unused) == 0) {
        return true;
    }
    if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid) {
        daemon->pid = 0;
        return true;
    }
    return false;
}

/* argv[last] is free for the port file's flag. */
static void launch(struct daemon *daemon, char **argv, unsigned last)
{
    char flag[100];

    (void)unlink(daemon->port_file);
    (void)snprintf(flag, sizeof(flag), "--port_file=%s", daemon->port_file);
    argv[last] = flag;
    argv[last + 1] = NULL;
    daemon->pid = fork();
    assert_true(daemon->pid >= 0);
    if (daemon->pid == 0) {
        become(daemon, argv);
    }
}

uint16_t daemon_port(const struct daemon *daemon, const char *port_name)
{
    unsigned port = 0;
    char line[100];
    FILE *file = fopen(daemon->port_file, "re");

    if (file == NULL) {
        print_log(daemon);
        fail_msg("%s did not start", daemon->name);
        return 0;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        size_t len = strlen(port_name);

        if (strncmp(line, port_name, len) == 0 && line[len] == '=') {
            port = (unsigned)strtoul(line + len + 1, NULL, 10);
        }
    }
    (void)fclose(file);
    assert_in_range(port, 1, 65535);
    return (uint16_t)port;
}

void daemon_await(struct daemon *daemon, const char *port_name)
{
    assert_true(wait_until(has_ports_or_is_dead, daemon, START_SECONDS));
    daemon->port = daemon_port(daemon, port_name);
}

bool daemon_runs(struct daemon *daemon, int *out_status)
{
    int status;

    if (daemon->pid > 0 && waitpid(daemon->pid, &status, WNOHANG) == daemon->pid) {
        daemon->pid = 0;
        *out_status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }
    return daemon->pid > 0;
}

static unsigned add_args(char **argv, unsigned count, const char *const *more)
{
    for (unsigned i = 0; more[i] != NULL; i++) {
        argv[count++] = (char *)(uintptr_t)more[i]; /* exec does not write to them */
    }
    return count;
}

void pool_start_master(struct pool *pool, uint16_t port)
{
    char rpc[40];
    char program[] = MC_BIN_DIR "/mooncake_master", metrics[] = "--metrics_port=0";
    const char *threads = getenv("MC_TEST_IO_THREADS");
    char io_threads[32];
    char *argv[POOL_ARGS_MAX + 8] = {program, rpc, metrics, io_threads};
    unsigned count = add_args(argv, 4, pool->master_args);

    if (port == 0) {
        assert_true(pool->held_fd < 0);
        pool->held_fd = held_port_open(&port);
    }
    (void)snprintf(io_threads, sizeof(io_threads), "--io_threads=%s",
                   threads == NULL ? "0" : threads);
    (void)snprintf(rpc, sizeof(rpc), "--rpc_port=%u", (unsigned)port);
    launch(&pool->master, argv, count);
    daemon_await(&pool->master, "rpc_port");
    (void)snprintf(pool->master_address, sizeof(pool->master_address), "127.0.0.1:%u",
                   (unsigned)pool->master.port);
}

void pool_launch_store(struct pool *pool, unsigned index, const char *const *flags)
{
    char program[] = MC_BIN_DIR "/mooncake_store", master[60];
    char *argv[2 * POOL_ARGS_MAX + 8] = {program, master};
    unsigned count = add_args(argv, add_args(argv, 2, pool->store_args), flags);

    assert_true(index < POOL_STORES_MAX);
    (void)snprintf(master, sizeof(master), "--master=%s", pool->master_address);
    launch(&pool->stores[index], argv, count);
}

void pool_start_store(struct pool *pool, unsigned index, const char *size)
{
    char segment[60];
    const char *flags[] = {segment, "--grace=0", NULL};

    (void)snprintf(segment, sizeof(segment), "--segment=%s", size);
    pool_launch_store(pool, index, flags);
    daemon_await(&pool->stores[index], "data_port");
}

int daemon_stop(struct daemon *daemon)
{
    int status = -1;

    assert_true(daemon->pid > 0);
    assert_int_equal(kill(daemon->pid, SIGTERM), 0);
    assert_int_equal(waitpid(daemon->pid, &status, 0), daemon->pid);
    daemon->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void daemon_kill(struct daemon *daemon)
{
    int status;

    assert_true(daemon->pid > 0);
    assert_int_equal(kill(daemon->pid, SIGKILL), 0);
    assert_int_equal(waitpid(daemon->pid, &status, 0), daemon->pid);
    daemon->pid = 0;
}

void daemon_freeze(struct daemon *daemon)
{
    int status;

    assert_int_equal(kill(daemon->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(daemon->pid, &status, WUNTRACED), daemon->pid);
    assert_true(WIFSTOPPED(status));
}

void daemon_wake(struct daemon *daemon)
{
    assert_int_equal(kill(daemon->pid, SIGCONT), 0);
}

/* ---- pools ------------------------------------------------------------------------------- */

static void name_daemon(struct pool *pool, struct daemon *daemon, const char *name)
{
    (void)snprintf(daemon->name, sizeof(daemon->name), "%s", name);
    (void)snprintf(daemon->port_file, sizeof(daemon->port_file), "%s/%.8s.p", pool->dir, name);
    (void)snprintf(daemon->log, sizeof(daemon->log), "%s/%.8s.l", pool->dir, name);
}

void pool_init(struct pool *pool)
{
    static const char *const names[POOL_STORES_MAX] = {"store0", "store1", "store2", "store3"};

    *pool = (struct pool){.transport = getenv("MC_TEST_TRANSPORT"), .held_fd = -1};
    (void)snprintf(pool->dir, sizeof(pool->dir), "/tmp/mooncake-test-XXXXXX");
    assert_non_null(mkdtemp(pool->dir));
    name_daemon(pool, &pool->master, "master");
    for (unsigned i = 0; i < POOL_STORES_MAX; i++) {
        name_daemon(pool, &pool->stores[i], names[i]);
    }
}

static unsigned stop_quietly(struct daemon *daemon)
{
    int status;

    if (daemon->pid <= 0) {
        return 0;
    }
    (void)kill(daemon->pid, SIGCONT);
    status = daemon_stop(daemon);
    if (status != 0) {
        print_log(daemon);
        (void)fprintf(stderr, "%s ended with %d\n", daemon->name, status);
    }
    return status == 0 ? 0 : 1;
}

static void forget(const struct daemon *daemon)
{
    (void)unlink(daemon->port_file);
    (void)unlink(daemon->log);
}

void pool_fini(struct pool *pool)
{
    unsigned bad = 0;

    for (unsigned i = 0; i < POOL_STORES_MAX; i++) {
        bad += stop_quietly(&pool->stores[i]);
        forget(&pool->stores[i]);
    }
    bad += stop_quietly(&pool->master);
    forget(&pool->master);
    if (pool->held_fd >= 0) {
        (void)close(pool->held_fd);
    }
    (void)rmdir(pool->dir);
    assert_int_equal(bad, 0);
}

/* What MC_TEST_VERIFY says; the default is that of the library. */
static mooncake_verify verify_asked(void)
{
    const char *text = getenv("MC_TEST_VERIFY");

    if (text == NULL) {
        return MOONCAKE_VERIFY_FULL;
    }
    if (strcmp(text, "header") == 0) {
        return MOONCAKE_VERIFY_HEADER;
    }
    assert_string_equal(text, "none");
    return MOONCAKE_VERIFY_NONE;
}

mooncake_client *pool_open(struct pool *pool, bool member)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;
    mooncake_err err;

    mooncake_client_options_init(&options);
    options.master = pool->master_address;
    options.tool = !member;
    options.transport = pool->transport;
    options.verify = verify_asked();
    err = mooncake_client_open(&options, &client);
    if (err != MOONCAKE_OK) {
        fail_msg("open: %s: %s", mooncake_err_name(err), mooncake_last_error());
    }
    return client;
}

/* ---- odds and ends ----------------------------------------------------------------------- */

unsigned count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    (void)closedir(dir);
    return count - 3; /* ".", ".." and the one that reads */
}

static uint64_t pattern(uint64_t at, uint64_t seed)
{
    uint64_t x = (at + 1) * 0x9e3779b97f4a7c15u ^ (seed + 1) * 0xbf58476d1ce4e5b9u;

    return x ^ x >> 29;
}

void fill(void *data, size_t len, uint64_t seed)
{
    uint8_t *bytes = data;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = pattern(i, seed);

        memcpy(bytes + i, &word, len - i < 8 ? len - i : 8);
    }
}

bool is_filled(const void *data, size_t len, uint64_t seed)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = pattern(i, seed);

        if (memcmp(bytes + i, &word, len - i < 8 ? len - i : 8) != 0) {
            return false;
        }
    }
    return true;
}
