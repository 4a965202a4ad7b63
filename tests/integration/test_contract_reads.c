/* The contract of reads: right bytes or none, by the deadline, whatever happens to the stores. */
#include "integration/contract.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEYS 40u
#define LEN ((size_t)200000)
#define READERS 3u
#define DEADLINE_MS 15000u

static int setup(void **state)
{
    struct contract *c;

    if (contract_setup(state) != 0) {
        return -1;
    }
    c = *state;
    c->pool.transport = "tcp"; /* memory that is shared answers even when its store hangs */
    pool_start_store(&c->pool, 0, "64MiB");
    pool_start_store(&c->pool, 1, "64MiB");
    contract_begin(c);
    return 0;
}

static void name_key(char key[32], unsigned i)
{
    (void)snprintf(key, 32, "key-%u", i);
}

static void put_keys(struct contract *c, unsigned replicas)
{
    mooncake_put_options options;
    char key[32];

    mooncake_put_options_init(&options);
    options.replicas = replicas;
    options.all_replicas = true;
    for (unsigned i = 0; i < KEYS; i++) {
        name_key(key, i);
        assert_int_equal(value_put(c->client, key, LEN, i, &options, DEADLINE_MS), MOONCAKE_OK);
    }
}

static bool has_one_segment(void *arg)
{
    mooncake_pool_status status;

    contract_status(arg, &status);
    return status.segments == 1;
}

static bool has_two_segments(void *arg)
{
    mooncake_pool_status status;

    contract_status(arg, &status);
    return status.segments == 2;
}

/* ---- stores that are lost under readers -------------------------------------------------- */

struct reader {
    pthread_t thread;
    mooncake_client *client;
    atomic_bool *stop;
    const char *wrong; /* NULL: all was well */
    mooncake_err err;
    unsigned reads;
};

/* Reads all keys in turn; each must be there. */
static void *read_on(void *arg)
{
    struct reader *r = arg;
    uint8_t *out = malloc(LEN);

    while (out != NULL && r->wrong == NULL && !atomic_load(r->stop)) {
        unsigned i = r->reads++ % KEYS;
        uint64_t start_ms = now_ms(), got = 0;
        enum verdict verdict;
        char key[32];

        name_key(key, i);
        r->err = mooncake_get_into(r->client, key, out, LEN, DEADLINE_MS, &got);
        if (now_ms() - start_ms > DEADLINE_MS + HANG_MS) {
            r->wrong = "a call hung";
        } else if (r->err != MOONCAKE_OK) {
            r->wrong = "a read failed";
        } else {
            verdict = value_judge(out, LEN, key, i);
            r->wrong = verdict == VALUE_RIGHT && got == LEN ? NULL : verdict_name(verdict);
        }
    }
    free(out);
    return NULL;
}

/* Loses store 1 while several read what is in both stores, until the master has noticed. */
static void lose_a_store_under_readers(struct contract *c, void (*lose)(struct daemon *daemon))
{
    struct reader readers[READERS];
    atomic_bool stop;
    bool noticed;

    put_keys(c, 2);
    atomic_init(&stop, false);
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.stop = &stop, .client = contract_open(c, NULL, DEADLINE_MS)};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
    }
    lose(&c->pool.stores[1]);
    noticed = wait_until(has_one_segment, c, (TTL_MS + 2 * SLACK_MS) / 1000);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        mooncake_client_close(readers[i].client);
    }
    assert_true(noticed);
    for (unsigned i = 0; i < READERS; i++) {
        if (readers[i].wrong != NULL) {
            fail_msg("%s after %u: %s", readers[i].wrong, readers[i].reads,
                     mooncake_err_name(readers[i].err));
        }
        assert_true(readers[i].reads > KEYS);
    }
}

static void readers__of_two_copies_see_no_error_when_a_store_is_killed(void **state)
{
    struct contract *c = *state;

    lose_a_store_under_readers(c, daemon_kill);
    contract_check(c);
}

static void readers__of_two_copies_see_no_error_when_a_store_is_frozen(void **state)
{
    struct contract *c = *state;

    lose_a_store_under_readers(c, daemon_freeze);
    daemon_wake(&c->pool.stores[1]);
    assert_true(wait_until(has_two_segments, c, (TTL_MS + SLACK_MS) / 1000));
    contract_check(c);
}

static unsigned count_misses(struct contract *c, uint32_t timeout_ms)
{
    unsigned misses = 0;
    char key[32];

    for (unsigned i = 0; i < KEYS; i++) {
        name_key(key, i);
        misses += value_get(c->client, key, LEN, i, timeout_ms) == MOONCAKE_ENOENT ? 1 : 0;
    }
    return misses;
}

static bool are_misses(void *arg)
{
    return count_misses(arg, 500) == KEYS;
}

static void lose_the_only_copies(struct contract *c, void (*lose)(struct daemon *daemon))
{
    char key[32];

    lose(&c->pool.stores[0]);
    lose(&c->pool.stores[1]);
    for (unsigned i = 0; i < 4; i++) {
        mooncake_err err;

        name_key(key, i);
        err = value_get(c->client, key, LEN, i, 400);
        assert_true(err == MOONCAKE_ETRANSFER || err == MOONCAKE_ETIMEDOUT ||
                    err == MOONCAKE_ENOENT);
    }
    assert_true(wait_until(are_misses, c, (TTL_MS + 2 * SLACK_MS) / 1000));
}

static void reads__of_a_lost_only_copy_are_an_error_by_the_deadline_and_then_a_miss(void **state)
{
    struct contract *c = *state;

    put_keys(c, 1);
    lose_the_only_copies(c, daemon_freeze);
    daemon_wake(&c->pool.stores[0]);
    daemon_wake(&c->pool.stores[1]);
    assert_true(wait_until(has_two_segments, c, (TTL_MS + SLACK_MS) / 1000));
    assert_int_equal(count_misses(c, DEADLINE_MS), KEYS);
    put_keys(c, 1);
    lose_the_only_copies(c, daemon_kill);
    pool_start_store(&c->pool, 0, "64MiB");
    contract_check(c);
}

static void batch__judges_each_item_alone_when_a_store_is_killed(void **state)
{
    struct contract *c = *state;
    uint8_t *room = calloc(2 * KEYS, LEN);
    char names[KEYS][32];
    const char *keys[2 * KEYS]; /* each twice */
    void *into[2 * KEYS];
    uint64_t caps[2 * KEYS], lens[2 * KEYS];
    mooncake_err results[2 * KEYS];
    unsigned there = 0;

    assert_non_null(room);
    put_keys(c, 1);
    for (unsigned i = 0; i < 2 * KEYS; i++) {
        name_key(names[i % KEYS], i % KEYS);
        keys[i] = names[i % KEYS];
        into[i] = room + i * LEN;
        caps[i] = LEN;
    }
    daemon_kill(&c->pool.stores[1]);
    assert_int_equal(
        mooncake_batch_get_into(c->client, keys, into, caps, 2 * KEYS, DEADLINE_MS, results, lens),
        MOONCAKE_OK);
    for (unsigned i = 0; i < 2 * KEYS; i++) {
        assert_int_equal(results[i], results[i % KEYS]);
        if (results[i] == MOONCAKE_OK) {
            there++;
            assert_int_equal(lens[i], LEN);
            assert_int_equal(value_judge(into[i], LEN, keys[i], i % KEYS), VALUE_RIGHT);
        } else {
            assert_int_equal(results[i], MOONCAKE_ETRANSFER);
        }
    }
    assert_in_range(there, 1, 2 * KEYS - 1); /* some in either store */
    free(room);
    contract_check(c);
}

/* ---- removal ----------------------------------------------------------------------------- */

struct watch {
    pthread_t thread;
    mooncake_client *client;
    atomic_uint_fast64_t removed; /* versions up to this one were removed, acknowledged */
    atomic_bool stop;
    const char *wrong;
    atomic_uint reads;
};

static void *watch_for_removed(void *arg)
{
    struct watch *w = arg;
    uint8_t out[3000];

    while (w->wrong == NULL && !atomic_load(&w->stop)) {
        uint64_t removed = atomic_load(&w->removed), got = 0;
        mooncake_err err = mooncake_get_into(w->client, "k", out, sizeof(out), 5000, &got);

        if (err == MOONCAKE_OK) {
            (void)atomic_fetch_add(&w->reads, 1);
            if (value_judge(out, sizeof(out), "k", value_version(out)) != VALUE_RIGHT) {
                w->wrong = "wrong bytes";
            } else if (value_version(out) <= removed) {
                w->wrong = "a value was read after its removal was acknowledged";
            }
        } else if (err != MOONCAKE_ENOENT && err != MOONCAKE_ENOTREADY) {
            w->wrong = mooncake_err_name(err);
        }
    }
    return NULL;
}

static bool have_both_read(struct watch watches[2])
{
    return atomic_load(&watches[0].reads) > 0 && atomic_load(&watches[1].reads) > 0;
}

static void reads__after_an_acknowledged_removal_are_misses(void **state)
{
    static const char *const transports[2] = {"tcp", "shm,tcp"};
    struct contract *c = *state;
    static struct watch watches[2];

    memset(watches, 0, sizeof(watches));
    for (unsigned i = 0; i < 2; i++) {
        watches[i].client = contract_open(c, transports[i], 5000);
        assert_int_equal(pthread_create(&watches[i].thread, NULL, watch_for_removed, &watches[i]),
                         0);
    }
    /* Longer if a watcher had no luck: what it meets must be there for a moment only. */
    for (uint64_t version = 1; version <= 600 || (version <= 20000 && !have_both_read(watches));
         version++) {
        assert_int_equal(value_put(c->client, "k", 3000, version, NULL, 5000), MOONCAKE_OK);
        assert_int_equal(value_get(c->client, "k", 3000, version, 5000), MOONCAKE_OK);
        assert_int_equal(mooncake_remove(c->client, "k", true, 5000), MOONCAKE_OK);
        for (unsigned i = 0; i < 2; i++) {
            atomic_store(&watches[i].removed, version);
        }
        assert_int_equal(value_get(c->client, "k", 3000, version, 5000), MOONCAKE_ENOENT);
    }
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&watches[i].stop, true);
        assert_int_equal(pthread_join(watches[i].thread, NULL), 0);
        mooncake_client_close(watches[i].client);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (watches[i].wrong != NULL) {
            fail_msg("%s: %s", transports[i], watches[i].wrong);
        }
        assert_true(atomic_load(&watches[i].reads) > 0);
    }
    contract_check(c);
}

/* ---- buffers ----------------------------------------------------------------------------- */

static bool is_all(const uint8_t *bytes, size_t len, uint8_t byte)
{
    return bytes[0] == byte && memcmp(bytes, bytes + 1, len - 1) == 0;
}

static void buffer__is_quiet_after_an_error(void **state)
{
    const size_t len = 24 * MIB;
    struct contract *c = *state;
    uint8_t *out = malloc(len);
    unsigned errors = 0;

    assert_non_null(out);
    assert_int_equal(value_put(c->client, "large", len, 1, NULL, 10000), MOONCAKE_OK);
    assert_int_equal(value_put(c->client, "small", 1000, 1, NULL, 5000), MOONCAKE_OK);
    /* Deadlines that pass before, in, and after the transfer. */
    for (unsigned i = 0; i < 48; i++) {
        uint64_t got = 0;
        mooncake_err err = mooncake_get_into(c->client, "large", out, len, 1 + i % 16, &got);

        if (err == MOONCAKE_OK) {
            assert_int_equal(value_judge(out, len, "large", 1), VALUE_RIGHT);
            continue;
        }
        assert_int_equal(err, MOONCAKE_ETIMEDOUT);
        errors++;
        memset(out, 0xa5, len);
        for (unsigned k = 0; k < 8; k++) {
            assert_int_equal(value_get(c->client, "small", 1000, 1, 5000), MOONCAKE_OK);
        }
        assert_true(is_all(out, len, 0xa5));
    }
    assert_true(errors > 0);
    daemon_freeze(&c->pool.stores[0]);
    daemon_freeze(&c->pool.stores[1]);
    assert_int_equal(mooncake_get_into(c->client, "large", out, len, 100, NULL),
                     MOONCAKE_ETIMEDOUT);
    memset(out, 0x5a, len);
    daemon_wake(&c->pool.stores[0]);
    daemon_wake(&c->pool.stores[1]);
    for (unsigned k = 0; k < 100; k++) {
        assert_int_equal(value_get(c->client, "small", 1000, 1, 5000), MOONCAKE_OK);
    }
    assert_true(is_all(out, len, 0x5a));
    free(out);
    contract_check(c);
}

/* ---- leases ------------------------------------------------------------------------------ */

static void key__that_exists_stays_readable_for_the_lease_under_pressure(void **state)
{
    struct contract *c = *state;
    unsigned pressure = 0;
    uint64_t start_ms;
    char key[32];

    put_keys(c, 1);
    start_ms = now_ms();
    for (unsigned i = 0; i < KEYS; i++) {
        bool exists = false;

        name_key(key, i);
        assert_int_equal(mooncake_exist(c->client, key, 5000, &exists), MOONCAKE_OK);
        assert_true(exists);
    }
    while (now_ms() - start_ms < LEASE_MS / 2) {
        (void)snprintf(key, sizeof(key), "pressure-%u", pressure++);
        assert_int_equal(value_put(c->client, key, MIB, 1, NULL, 5000), MOONCAKE_OK);
    }
    for (unsigned i = 0; i < KEYS; i++) {
        name_key(key, i);
        if (now_ms() - start_ms < LEASE_MS - 100) { /* else this machine is too slow to tell */
            mooncake_err err = mooncake_remove(c->client, key, false, 5000);

            assert_true(err == MOONCAKE_ELEASED || now_ms() - start_ms >= LEASE_MS);
            err = value_get(c->client, key, LEN, i, 5000);
            assert_true(err == MOONCAKE_OK || now_ms() - start_ms >= LEASE_MS);
        }
    }
    contract_check(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, contract_teardown)
    const struct CMUnitTest tests[] = {
        TEST(readers__of_two_copies_see_no_error_when_a_store_is_killed),
        TEST(readers__of_two_copies_see_no_error_when_a_store_is_frozen),
        TEST(reads__of_a_lost_only_copy_are_an_error_by_the_deadline_and_then_a_miss),
        TEST(batch__judges_each_item_alone_when_a_store_is_killed),
        TEST(reads__after_an_acknowledged_removal_are_misses),
        TEST(buffer__is_quiet_after_an_error),
        TEST(key__that_exists_stays_readable_for_the_lease_under_pressure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
