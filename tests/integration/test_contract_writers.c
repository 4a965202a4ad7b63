/* The contract of writers that die or are late: what the key holds, and when its space is back. */
#include "integration/contract.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE (16 * MIB)

static int setup(void **state)
{
    struct contract *c;

    if (contract_setup(state) != 0) {
        return -1;
    }
    c = *state;
    c->pool.transport = "tcp"; /* so that a frozen store holds its writers up */
    pool_start_store(&c->pool, 0, "64MiB");
    contract_begin(c);
    return 0;
}

/* ---- writers that can be killed ---------------------------------------------------------- */

/* This program, as another process: puts version 1 of one value ("write", or "upsert") and ends
 * with 0 if that succeeded, else with the error, positive and cut to a byte. */
static int write_one(char **argv)
{
    size_t len = strtoul(argv[4], NULL, 10);
    mooncake_client_options options;
    mooncake_put_options how;
    mooncake_client *client = NULL;
    uint8_t *data = malloc(len);
    mooncake_err err;

    mooncake_client_options_init(&options);
    options.master = argv[2];
    options.transport = argv[5];
    mooncake_put_options_init(&how);
    how.upsert = strcmp(argv[1], "upsert") == 0;
    if (data == NULL || mooncake_client_open(&options, &client) != MOONCAKE_OK) {
        return 1;
    }
    value_make(data, len, argv[3], 1);
    err = mooncake_put(client, argv[3], data, len, &how, 30000);
    mooncake_client_close(client);
    free(data);
    return -(int)err & 0xff;
}

static pid_t start_writer(struct contract *c, const char *verb, const char *key, size_t len,
                          const char *transport)
{
    char program[] = "/proc/self/exe", texts[4][32];
    char *argv[] = {program, texts[0], c->pool.master_address, texts[1], texts[2], texts[3], NULL};
    pid_t pid;

    (void)snprintf(texts[0], sizeof(texts[0]), "%s", verb);
    (void)snprintf(texts[1], sizeof(texts[1]), "%s", key);
    (void)snprintf(texts[2], sizeof(texts[2]), "%zu", len);
    (void)snprintf(texts[3], sizeof(texts[3]), "%s", transport);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execv(program, argv);
        _exit(127);
    }
    return pid;
}

static void kill_writer(pid_t writer)
{
    assert_int_equal(kill(writer, SIGKILL), 0);
    assert_int_equal(waitpid(writer, NULL, 0), writer);
}

static void see_writing(void *arg, const mooncake_key_status *status)
{
    *(bool *)arg = strcmp(status->state, "writing") == 0;
}

static bool is_being_written(void *arg)
{
    struct contract *c = arg;
    bool writing = false;
    mooncake_err err = mooncake_admin_key(c->client, "k", 1000, see_writing, &writing);

    return err == MOONCAKE_OK && writing;
}

static void assert_reads_as_absent(struct contract *c, const char *key)
{
    mooncake_err err = value_get(c->client, key, LARGE, 1, 15000);
    bool exists = true;

    assert_true(err == MOONCAKE_ENOENT || err == MOONCAKE_ENOTREADY);
    assert_int_equal(mooncake_exist(c->client, key, 15000, &exists), MOONCAKE_OK);
    assert_false(exists);
}

static bool can_be_put(void *arg)
{
    struct contract *c = arg;
    mooncake_err err = value_put(c->client, "k", LARGE, 2, NULL, 15000);

    assert_true(err == MOONCAKE_OK || err == MOONCAKE_EEXIST);
    return err == MOONCAKE_OK;
}

static bool is_one_value(void *arg)
{
    mooncake_pool_status status;

    contract_status(arg, &status);
    assert_true(status.used >= LARGE);
    return status.used < LARGE + MIB && status.keys == 1;
}

static void put__of_a_killed_writer_leaves_no_key_and_its_space_comes_back(void **state)
{
    struct contract *c = *state;
    pid_t writer;

    daemon_freeze(&c->pool.stores[0]);
    writer = start_writer(c, "write", "k", LARGE, "tcp");
    assert_true(wait_until(is_being_written, c, 20));
    kill_writer(writer);
    daemon_wake(&c->pool.stores[0]);
    assert_reads_as_absent(c, "k");
    contract_check_books(c);
    assert_true(wait_until(can_be_put, c, (DISCARD_MS + SLACK_MS) / 1000));
    assert_int_equal(value_get(c->client, "k", LARGE, 2, 5000), MOONCAKE_OK);
    assert_true(wait_until(is_one_value, c, (RELEASE_MS + SLACK_MS) / 1000));
    assert_int_equal(value_get(c->client, "k", LARGE, 2, 5000), MOONCAKE_OK);
    contract_check(c);
}

static void put__of_a_writer_that_is_too_slow_fails_and_changes_nothing(void **state)
{
    struct contract *c = *state;
    int status = 0;
    pid_t writer;

    daemon_freeze(&c->pool.stores[0]);
    writer = start_writer(c, "write", "k", LARGE, "tcp");
    assert_true(wait_until(is_being_written, c, 20));
    assert_int_equal(kill(writer, SIGSTOP), 0);
    assert_int_equal(waitpid(writer, NULL, WUNTRACED), writer);
    daemon_wake(&c->pool.stores[0]);
    assert_true(wait_until(can_be_put, c, (DISCARD_MS + SLACK_MS) / 1000));
    assert_int_equal(kill(writer, SIGCONT), 0);
    /* It goes on writing into its own space and ends its own attempt, which is none any more. */
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 0);
    assert_int_equal(value_get(c->client, "k", LARGE, 2, 5000), MOONCAKE_OK);
    contract_check_books(c);
    assert_true(wait_until(is_one_value, c, (RELEASE_MS + SLACK_MS) / 1000));
    assert_int_equal(value_get(c->client, "k", LARGE, 2, 5000), MOONCAKE_OK);
    contract_check(c);
}

#define VICTIMS 8u
#define VICTIM_LEN (2 * MIB)

struct victim {
    struct contract *c;
    char key[32];
};

static bool has_begun(void *arg)
{
    struct victim *victim = arg;
    bool writing = false;

    return mooncake_admin_key(victim->c->client, victim->key, 1000, see_writing, &writing) ==
           MOONCAKE_OK;
}

static bool is_stored(void *arg)
{
    struct victim *v = arg;
    mooncake_err err = value_put(v->c->client, v->key, VICTIM_LEN, 1, NULL, 5000);

    return err == MOONCAKE_OK ||
           (err == MOONCAKE_EEXIST &&
            value_get(v->c->client, v->key, VICTIM_LEN, 1, 5000) == MOONCAKE_OK);
}

/* As they come: some before a byte is written, some in the middle, some after the end. */
static void writers__killed_at_any_moment_leave_a_whole_value_or_none(void **state)
{
    struct contract *c = *state;
    struct victim victim = {.c = c};

    for (unsigned i = 0; i < VICTIMS; i++) {
        mooncake_err err;
        pid_t writer;

        (void)snprintf(victim.key, sizeof(victim.key), "victim-%u", i);
        writer = start_writer(c, "write", victim.key, VICTIM_LEN, i % 2 == 0 ? "tcp" : "shm,tcp");
        assert_true(wait_until(has_begun, &victim, 20));
        kill_writer(writer);
        err = value_get(c->client, victim.key, VICTIM_LEN, 1, 5000);
        assert_true(err == MOONCAKE_OK || err == MOONCAKE_ENOENT || err == MOONCAKE_ENOTREADY);
    }
    for (unsigned i = 0; i < VICTIMS; i++) {
        (void)snprintf(victim.key, sizeof(victim.key), "victim-%u", i);
        assert_true(wait_until(is_stored, &victim, (DISCARD_MS + SLACK_MS) / 1000));
    }
    contract_check(c);
}

/* ---- upserts ----------------------------------------------------------------------------- */

static bool is_one_put_open(void *arg)
{
    mooncake_pool_status status;

    contract_status(arg, &status);
    return status.unfinished_puts == 1;
}

static bool can_be_replaced(void *arg)
{
    struct contract *c = arg;
    mooncake_put_options upsert;
    mooncake_err err;

    mooncake_put_options_init(&upsert);
    upsert.upsert = true;
    err = value_put(c->client, "k", LARGE, 6, &upsert, 15000);
    assert_true(err == MOONCAKE_OK || err == MOONCAKE_EEXIST);
    return err == MOONCAKE_OK;
}

static void upsert__of_a_killed_writer_leaves_the_old_value(void **state)
{
    struct contract *c = *state;
    pid_t writer;

    assert_int_equal(value_put(c->client, "k", LARGE, 5, NULL, 5000), MOONCAKE_OK);
    daemon_freeze(&c->pool.stores[0]);
    writer = start_writer(c, "upsert", "k", LARGE, "tcp");
    assert_true(wait_until(is_one_put_open, c, 20));
    kill_writer(writer);
    daemon_wake(&c->pool.stores[0]);
    assert_int_equal(value_get(c->client, "k", LARGE, 5, 5000), MOONCAKE_OK);
    contract_check_books(c);
    assert_true(wait_until(can_be_replaced, c, (DISCARD_MS + SLACK_MS) / 1000));
    assert_int_equal(value_get(c->client, "k", LARGE, 6, 5000), MOONCAKE_OK);
    assert_true(wait_until(is_one_value, c, (RELEASE_MS + SLACK_MS) / 1000));
    contract_check(c);
}

struct viewer {
    pthread_t thread;
    mooncake_client *client;
    size_t len;
    atomic_uint_fast64_t ended; /* the newest version whose put has returned */
    atomic_bool stop;
    const char *wrong;
    atomic_uint reads;
};

static void *view(void *arg)
{
    struct viewer *v = arg;
    uint8_t *out = malloc(v->len);
    uint64_t seen = 0;

    while (out != NULL && v->wrong == NULL && !atomic_load(&v->stop)) {
        uint64_t ended = atomic_load(&v->ended), got = 0;
        mooncake_err err = mooncake_get_into(v->client, "k", out, v->len, 5000, &got);

        seen = ended > seen ? ended : seen;
        (void)atomic_fetch_add(&v->reads, 1);
        if (err != MOONCAKE_OK) {
            v->wrong = mooncake_err_name(err);
        } else if (got != v->len ||
                   value_judge(out, v->len, "k", value_version(out)) != VALUE_RIGHT) {
            v->wrong = "no whole value";
        } else if (value_version(out) < seen) {
            v->wrong = "an older version than before";
        }
        seen = v->wrong == NULL ? value_version(out) : seen;
    }
    free(out);
    return NULL;
}

static bool views(void *arg)
{
    struct viewer *v = arg;

    return atomic_load(&v->reads) > 0;
}

static void upsert_under_viewers(struct contract *c, size_t len, uint64_t versions)
{
    struct viewer viewers[2];
    mooncake_put_options upsert;

    mooncake_put_options_init(&upsert);
    upsert.upsert = true;
    assert_int_equal(value_put(c->client, "k", len, 1, &upsert, 5000), MOONCAKE_OK);
    memset(viewers, 0, sizeof(viewers));
    for (unsigned i = 0; i < 2; i++) {
        viewers[i].client = contract_open(c, i == 0 ? "tcp" : "shm,tcp", 5000);
        viewers[i].len = len;
        atomic_init(&viewers[i].ended, 1);
        assert_int_equal(pthread_create(&viewers[i].thread, NULL, view, &viewers[i]), 0);
    }
    assert_true(wait_until(views, &viewers[0], 60));
    assert_true(wait_until(views, &viewers[1], 60));
    for (uint64_t version = 2; version <= versions; version++) {
        assert_int_equal(value_put(c->client, "k", len, version, &upsert, 5000), MOONCAKE_OK);
        atomic_store(&viewers[0].ended, version);
        atomic_store(&viewers[1].ended, version);
    }
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&viewers[i].stop, true);
        assert_int_equal(pthread_join(viewers[i].thread, NULL), 0);
        mooncake_client_close(viewers[i].client);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (viewers[i].wrong != NULL) {
            fail_msg("%zu bytes, after %u reads: %s", len, atomic_load(&viewers[i].reads),
                     viewers[i].wrong);
        }
    }
    assert_int_equal(mooncake_remove(c->client, "k", true, 5000), MOONCAKE_OK);
}

static void upsert__shows_readers_one_whole_version_after_the_other(void **state)
{
    struct contract *c = *state;

    upsert_under_viewers(c, 4096, 400);
    upsert_under_viewers(c, 3 * MIB, 10); /* versions that are read keep their space for a lease */
    contract_check(c);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, contract_teardown)
    const struct CMUnitTest tests[] = {
        TEST(put__of_a_killed_writer_leaves_no_key_and_its_space_comes_back),
        TEST(put__of_a_writer_that_is_too_slow_fails_and_changes_nothing),
        TEST(writers__killed_at_any_moment_leave_a_whole_value_or_none),
        TEST(upsert__of_a_killed_writer_leaves_the_old_value),
        TEST(upsert__shows_readers_one_whole_version_after_the_other),
    };

    if (argc == 6) {
        return write_one(argv);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
