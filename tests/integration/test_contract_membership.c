/* The contract of membership: who hangs is not taken for dead too soon, who died is not read, and
 * who comes back is used again without anybody's help. */
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

#include "held_port.h"

#define KEYS 60u
#define LEN ((size_t)50000)

static int setup(void **state)
{
    struct contract *c;

    if (contract_setup(state) != 0) {
        return -1;
    }
    c = *state;
    c->pool.transport = "tcp"; /* as from another host */
    return 0;
}

static void name_key(char key[32], unsigned i)
{
    (void)snprintf(key, 32, "key-%u", i);
}

static void put_keys(struct contract *c)
{
    char key[32];

    for (unsigned i = 0; i < KEYS; i++) {
        name_key(key, i);
        assert_int_equal(value_put(c->client, key, LEN, i, NULL, 5000), MOONCAKE_OK);
    }
}

/* How many of the keys answer with this result. */
static unsigned count_keys(struct contract *c, mooncake_err want)
{
    unsigned count = 0;
    char key[32];

    for (unsigned i = 0; i < KEYS; i++) {
        name_key(key, i);
        count += value_get(c->client, key, LEN, i, 5000) == want ? 1 : 0;
    }
    return count;
}

struct mounts {
    unsigned count, draining;
    uint64_t ids, draining_used;
};

static void see_mount(void *arg, const mooncake_segment_status *segment)
{
    struct mounts *mounts = arg;

    mounts->count++;
    mounts->ids ^= segment->mount_id;
    if (strcmp(segment->state, "draining") == 0) {
        mounts->draining++;
        mounts->draining_used += segment->used;
    }
}

static struct mounts look(struct contract *c)
{
    struct mounts mounts = {0};

    assert_int_equal(mooncake_admin_segments(c->client, 5000, see_mount, &mounts), MOONCAKE_OK);
    return mounts;
}

/* ---- the master -------------------------------------------------------------------------- */

static void master__that_was_frozen_for_twice_the_ttl_expires_nobody_and_loses_no_key(void **state)
{
    struct contract *c = *state;
    struct mounts before, after;
    uint64_t start_ms;

    pool_start_store(&c->pool, 0, "32MiB");
    pool_start_store(&c->pool, 1, "32MiB");
    contract_begin(c);
    put_keys(c);
    before = look(c);
    daemon_freeze(&c->pool.master);
    start_ms = now_ms();
    while (now_ms() - start_ms < 2 * TTL_MS) { /* each call takes its time */
        assert_int_equal(value_get(c->client, "key-0", LEN, 0, 500), MOONCAKE_ETIMEDOUT);
    }
    daemon_wake(&c->pool.master);
    start_ms = now_ms();
    do { /* time enough to judge everybody by */
        assert_int_equal(count_keys(c, MOONCAKE_OK), KEYS);
    } while (now_ms() - start_ms < 1500);
    after = look(c);
    assert_int_equal(after.count, 2);
    assert_true(after.ids == before.ids);
    contract_check(c);
}

static bool has_two_segments(void *arg)
{
    struct contract *c = arg;
    mooncake_pool_status status = {.struct_size = sizeof(status)};

    return mooncake_admin_status(c->client, 500, &status) == MOONCAKE_OK && status.segments == 2;
}

struct listing {
    struct contract *c;
    unsigned count, unreadable;
};

static bool read_listed(void *arg, const char *key, size_t key_len)
{
    struct listing *listing = arg;
    char name[64];
    void *data = NULL;
    uint64_t len = 0;

    (void)snprintf(name, sizeof(name), "%.*s", (int)key_len, key);
    listing->count++;
    if (mooncake_get(listing->c->client, name, 5000, &data, &len) != MOONCAKE_OK ||
        value_judge(data, len, name, value_version(data)) != VALUE_RIGHT) {
        listing->unreadable++;
    }
    mooncake_free(data);
    return true;
}

static void master__that_was_killed_finds_everybody_again_and_lists_what_is_readable(void **state)
{
    struct contract *c = *state;
    struct listing listing = {.c = c};

    pool_start_store(&c->pool, 0, "32MiB");
    pool_start_store(&c->pool, 1, "32MiB");
    contract_begin(c);
    put_keys(c);
    daemon_kill(&c->pool.master);
    pool_start_master(&c->pool, c->pool.master.port);
    assert_true(wait_until(has_two_segments, c, (TTL_MS + SLACK_MS) / 1000));
    assert_int_equal(value_put(c->client, "after", LEN, 1, NULL, 5000), MOONCAKE_OK);
    assert_int_equal(value_get(c->client, "after", LEN, 1, 5000), MOONCAKE_OK);
    assert_int_equal(mooncake_admin_keys(c->client, NULL, 0, 10000, read_listed, &listing),
                     MOONCAKE_OK);
    assert_in_range(listing.count, 1, KEYS + 1);
    assert_int_equal(listing.unreadable, 0);
    assert_int_equal(count_keys(c, MOONCAKE_OK) + count_keys(c, MOONCAKE_ENOENT), KEYS);
    contract_check(c);
}

/* ---- stores that come back --------------------------------------------------------------- */

static void start_named_store(struct contract *c, const char *address)
{
    char flag[64];
    const char *flags[] = {"--segment=32MiB", "--name=box:1", "--grace=0", flag, NULL};

    (void)snprintf(flag, sizeof(flag), "--data_address=%s", address);
    pool_launch_store(&c->pool, 0, flags);
    daemon_await(&c->pool.stores[0], "data_port");
}

static void store__that_was_killed_is_back_at_its_place_with_misses(void **state)
{
    struct contract *c = *state;
    char address[32], key[32];
    uint16_t port;
    int holder = held_port_open(&port);

    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)port);
    start_named_store(c, address);
    contract_begin(c);
    put_keys(c);
    daemon_kill(&c->pool.stores[0]);
    start_named_store(c, address);
    /* The client that was open before may meet its old connection once. */
    if (value_put(c->client, "first", LEN, 1, NULL, 5000) != MOONCAKE_OK) {
        assert_int_equal(value_put(c->client, "second", LEN, 1, NULL, 5000), MOONCAKE_OK);
    }
    assert_int_equal(count_keys(c, MOONCAKE_ENOENT), KEYS);
    for (unsigned i = 0; i < KEYS; i++) { /* into the same places; none is taken for an old key */
        (void)snprintf(key, sizeof(key), "new-%u", i);
        assert_int_equal(value_put(c->client, key, LEN, 500 + i, NULL, 5000), MOONCAKE_OK);
    }
    assert_int_equal(count_keys(c, MOONCAKE_ENOENT), KEYS);
    contract_check(c);
    (void)close(holder);
}

/* ---- stores that leave ------------------------------------------------------------------- */

struct reader {
    pthread_t thread;
    mooncake_client *client;
    atomic_bool stop;
    const char *wrong;
    unsigned hits, misses;
};

static void *read_on(void *arg)
{
    struct reader *r = arg;
    static _Thread_local uint8_t out[LEN];

    for (unsigned i = 0; r->wrong == NULL && !atomic_load(&r->stop); i = (i + 1) % KEYS) {
        uint64_t got = 0;
        mooncake_err err;
        char key[32];

        name_key(key, i);
        err = mooncake_get_into(r->client, key, out, LEN, 5000, &got);
        if (err == MOONCAKE_OK) {
            r->hits++;
            r->wrong = value_judge(out, LEN, key, i) == VALUE_RIGHT ? NULL : "wrong bytes";
        } else if (err == MOONCAKE_ENOENT) {
            r->misses++;
        } else {
            r->wrong = mooncake_err_name(err);
        }
    }
    return NULL;
}

static bool is_draining(void *arg)
{
    return look(arg).draining == 1;
}

struct leaving {
    struct contract *c;
    unsigned puts;
    uint64_t used_most;
    int status;
};

/* Puts go on, to the other store, until this one has ended. */
static bool has_left(void *arg)
{
    struct leaving *leaving = arg;
    uint64_t used;
    char key[32];

    (void)snprintf(key, sizeof(key), "more-%u", leaving->puts++);
    assert_int_equal(value_put(leaving->c->client, key, 1000, 1, NULL, 5000), MOONCAKE_OK);
    used = look(leaving->c).draining_used;
    assert_true(used <= leaving->used_most);
    return !daemon_runs(&leaving->c->pool.stores[0], &leaving->status);
}

static void store__that_is_told_to_leave_finishes_reads_and_takes_nothing_new(void **state)
{
    const char *flags[] = {"--segment=32MiB", "--grace=5", NULL};
    struct contract *c = *state;
    struct leaving leaving = {.c = c, .status = -1};
    static struct reader readers[3];
    uint64_t start_ms;
    unsigned misses = 0;
    bool left;

    pool_launch_store(&c->pool, 0, flags);
    daemon_await(&c->pool.stores[0], "data_port");
    pool_start_store(&c->pool, 1, "32MiB");
    contract_begin(c);
    put_keys(c);
    memset(readers, 0, sizeof(readers));
    for (unsigned i = 0; i < 3; i++) {
        readers[i].client = contract_open(c, NULL, 5000);
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
    }
    start_ms = now_ms();
    assert_int_equal(kill(c->pool.stores[0].pid, SIGTERM), 0);
    assert_true(wait_until(is_draining, c, 5));
    leaving.used_most = look(c).draining_used;
    left = wait_until(has_left, &leaving, 5 + SLACK_MS / 1000);
    assert_int_equal(count_keys(c, MOONCAKE_OK) + count_keys(c, MOONCAKE_ENOENT), KEYS);
    for (unsigned i = 0; i < 3; i++) {
        atomic_store(&readers[i].stop, true);
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        mooncake_client_close(readers[i].client);
        misses += readers[i].misses;
    }
    assert_true(left);
    assert_int_equal(leaving.status, 0);
    assert_true(now_ms() - start_ms >= 4900); /* the grace, and so the reads, were not cut */
    for (unsigned i = 0; i < 3; i++) {
        if (readers[i].wrong != NULL) {
            fail_msg("a reader met %s after %u hits and %u misses", readers[i].wrong,
                     readers[i].hits, readers[i].misses);
        }
    }
    assert_true(misses > 0); /* its keys went along */
    contract_check(c);
}

/* ---- many at once ------------------------------------------------------------------------ */

#define LENDERS 24u
#define CROWD_BATCH 2000u

#ifdef MC_TEST_SANITIZED
#define CROWD_KEYS 20000u
#else
#define CROWD_KEYS 200000u
#endif

/* This program, as another process: lends 8 MiB until it is killed. */
static int lend(const char *master)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;

    mooncake_client_options_init(&options);
    options.master = master;
    options.segment_size = 8 * MIB;
    if (mooncake_client_open(&options, &client) != MOONCAKE_OK) {
        return 1;
    }
    (void)pause();
    return 0;
}

static pid_t start_lender(struct contract *c)
{
    char program[] = "/proc/self/exe", verb[] = "lend";
    char *argv[] = {program, verb, c->pool.master_address, NULL};
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execv(program, argv);
        _exit(127);
    }
    return pid;
}

static bool have_all_joined(void *arg)
{
    return look(arg).count == 1 + LENDERS;
}

/* Each batch goes to whatever store has room: nearly all of it to the lenders. */
static void put_crowd(struct contract *c)
{
    static char names[CROWD_BATCH][32];
    const char *keys[CROWD_BATCH];
    const void *data[CROWD_BATCH];
    uint64_t lens[CROWD_BATCH];
    mooncake_err results[CROWD_BATCH];

    for (unsigned from = 0; from < CROWD_KEYS; from += CROWD_BATCH) {
        for (unsigned i = 0; i < CROWD_BATCH; i++) {
            (void)snprintf(names[i], sizeof(names[i]), "crowd-%u", from + i);
            keys[i] = names[i];
            data[i] = names[i];
            lens[i] = sizeof(names[i]);
        }
        assert_int_equal(
            mooncake_batch_put(c->client, keys, data, lens, CROWD_BATCH, NULL, 20000, results),
            MOONCAKE_OK);
        for (unsigned i = 0; i < CROWD_BATCH; i++) {
            assert_int_equal(results[i], MOONCAKE_OK);
        }
    }
}

static void see_name(void *arg, const mooncake_segment_status *segment)
{
    (void)snprintf(arg, 80, "%s", segment->name);
}

#define CALLS_MAX 400000u

/* The survivor's calls, until the dead have gone from the list and their keys from the table. */
struct survivor {
    struct contract *c;
    mooncake_put_options options;
    uint32_t *times_us; /* of each call */
    unsigned count;
};

static uint64_t note_call(struct survivor *s, uint64_t start_us)
{
    uint64_t end_us = now_us();

    s->times_us[s->count++] = (uint32_t)(end_us - start_us);
    return end_us;
}

static bool are_swept(void *arg)
{
    struct survivor *s = arg;
    mooncake_pool_status status;

    for (unsigned i = 0; i < 100 && s->count + 3 <= CALLS_MAX; i++) {
        uint64_t start_us = now_us();
        char key[32];

        (void)snprintf(key, sizeof(key), "own-%u", s->count);
        assert_int_equal(value_put(s->c->client, key, 100, 1, &s->options, 5000), MOONCAKE_OK);
        start_us = note_call(s, start_us);
        assert_int_equal(value_get(s->c->client, key, 100, 1, 5000), MOONCAKE_OK);
        start_us = note_call(s, start_us);
        assert_int_equal(mooncake_remove(s->c->client, key, true, 5000), MOONCAKE_OK);
        (void)note_call(s, start_us);
    }
    contract_status(s->c, &status);
    return status.segments == 1 && status.keys < CROWD_KEYS / 2;
}

static void crowd__joins_at_one_instant_and_its_death_holds_nobody_up(void **state)
{
    struct contract *c = *state;
    struct survivor survivor = {.c = c};
    pid_t lenders[LENDERS];
    char name[80] = "";
    const char *preferred[1] = {name};
    bool swept;

    pool_start_store(&c->pool, 0, "32MiB");
    contract_begin(c);
    assert_int_equal(mooncake_admin_segments(c->client, 5000, see_name, name), MOONCAKE_OK);
    for (unsigned i = 0; i < LENDERS; i++) {
        lenders[i] = start_lender(c);
    }
    assert_true(wait_until(have_all_joined, c, 60));
    put_crowd(c);
    contract_check_books(c);
    mooncake_put_options_init(&survivor.options);
    survivor.options.preferred_segments = preferred;
    survivor.options.preferred_segments_count = 1;
    survivor.times_us = calloc(CALLS_MAX, sizeof(*survivor.times_us));
    assert_non_null(survivor.times_us);
    for (unsigned i = 0; i < LENDERS; i++) {
        assert_int_equal(kill(lenders[i], SIGKILL), 0);
    }
    for (unsigned i = 0; i < LENDERS; i++) {
        assert_int_equal(waitpid(lenders[i], NULL, 0), lenders[i]);
    }
    swept = wait_until(are_swept, &survivor, (TTL_MS + 2 * SLACK_MS) / 1000);
    assert_true(swept);
    assert_calls_are_short("while the crowd was swept", survivor.times_us, survivor.count);
    free(survivor.times_us);
    contract_check(c);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, contract_teardown)
    const struct CMUnitTest tests[] = {
        TEST(master__that_was_frozen_for_twice_the_ttl_expires_nobody_and_loses_no_key),
        TEST(master__that_was_killed_finds_everybody_again_and_lists_what_is_readable),
        TEST(store__that_was_killed_is_back_at_its_place_with_misses),
        TEST(store__that_is_told_to_leave_finishes_reads_and_takes_nothing_new),
        TEST(crowd__joins_at_one_instant_and_its_death_holds_nobody_up),
    };

    if (argc == 3 && strcmp(argv[1], "lend") == 0) {
        return lend(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
