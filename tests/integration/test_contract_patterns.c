/* The contract of patterns: a hostile one ends soon and holds nobody up, an honest one counts. */
#include "integration/contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 2000u
#define CALLS_MAX 1000000u

#ifdef MC_TEST_SANITIZED
#define KEYS 20000u
#define ENDING_IN_1 11111u
#else
#define KEYS 200000u
#define ENDING_IN_1 111111u
#endif

static int setup(void **state)
{
    struct contract *c;

    if (contract_setup(state) != 0) {
        return -1;
    }
    c = *state;
    pool_start_store(&c->pool, 0, "64MiB");
    contract_begin(c);
    return 0;
}

/* Keys "aaaaaaaaaaaaaaaaaaaaaaaa!<n>". */
static void put_keys(mooncake_client *client, unsigned first, unsigned end)
{
    static char names[BATCH][48];
    static const char *keys[BATCH];
    static const void *data[BATCH];
    static uint64_t lens[BATCH];
    static mooncake_err results[BATCH];

    for (unsigned from = first; from < end; from += BATCH) {
        for (unsigned i = 0; i < BATCH; i++) {
            (void)snprintf(names[i], sizeof(names[i]), "aaaaaaaaaaaaaaaaaaaaaaaa!%u", from + i);
            keys[i] = names[i];
            data[i] = names[i];
            lens[i] = 8;
        }
        assert_int_equal(mooncake_batch_put(client, keys, data, lens, BATCH, NULL, 20000, results),
                         MOONCAKE_OK);
        for (unsigned i = 0; i < BATCH; i++) {
            assert_int_equal(results[i], MOONCAKE_OK);
        }
    }
}

/* Somebody else, who asks for small things all the time. */
struct asker {
    pthread_t thread;
    mooncake_client *client;
    atomic_bool stop;
    mooncake_err err;
    uint32_t *times_us;
    unsigned count;
};

static void *ask_on(void *arg)
{
    struct asker *a = arg;

    while (a->err == MOONCAKE_OK && a->count < CALLS_MAX && !atomic_load(&a->stop)) {
        uint64_t start_us = now_us();
        bool exists;

        a->err = mooncake_exist(a->client, "none", 5000, &exists);
        a->times_us[a->count++] = (uint32_t)(now_us() - start_us);
    }
    return NULL;
}

static void begin_asking(struct contract *c, struct asker *asker)
{
    *asker = (struct asker){.client = contract_open(c, NULL, 10000)};
    asker->times_us = calloc(CALLS_MAX, sizeof(*asker->times_us));
    assert_non_null(asker->times_us);
    assert_int_equal(pthread_create(&asker->thread, NULL, ask_on, asker), 0);
}

static void end_asking(struct asker *asker, const char *when)
{
    atomic_store(&asker->stop, true);
    assert_int_equal(pthread_join(asker->thread, NULL), 0);
    mooncake_client_close(asker->client);
    assert_int_equal(asker->err, MOONCAKE_OK);
    assert_calls_are_short(when, asker->times_us, asker->count);
    free(asker->times_us);
}

static bool count_key(void *arg, const char *key, size_t key_len)
{
    (void)key;
    (void)key_len;
    *(unsigned *)arg += 1;
    return true;
}

static const char *const hostile[] = {
    "(a+)+$",
    "(a|aa)+$",
    "^(.*a){12}c$",
    "(.*)*\\1c",
    /* each key a few thousand steps: below the limit of one match */
    "^a*a*a*[bc]",
};

#define HOSTILE (sizeof(hostile) / sizeof(hostile[0]))

/* Times of one call: on the clock, and of the master's CPU, which others do not take away. */
struct watch {
    uint64_t start_us, start_cpu_us;
};

static uint64_t cpu_us_of(const struct daemon *daemon)
{
    char path[64], line[600] = "";
    unsigned long user = 0, kernel = 0;
    const char *at;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)daemon->pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    (void)fclose(file);
    at = strrchr(line, ')');
    assert_non_null(at);
    assert_int_equal(
        sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel), 2);
    return (user + kernel) * 1000000 / (unsigned long)sysconf(_SC_CLK_TCK);
}

static struct watch start_watch(struct contract *c)
{
    return (struct watch){.start_us = now_us(), .start_cpu_us = cpu_us_of(&c->pool.master)};
}

/* Two seconds are meant of a machine that has nothing else to do. */
static void assert_was_short(struct contract *c, struct watch watch, const char *what,
                             const char *pattern)
{
    uint64_t us = now_us() - watch.start_us;
    uint64_t cpu_us = cpu_us_of(&c->pool.master) - watch.start_cpu_us;

    (void)printf("%s %s: %llu us, %llu us of the master's CPU\n", what, pattern,
                 (unsigned long long)us, (unsigned long long)cpu_us);
    if (us > (2000 + SLACK_MS) * 1000 && cpu_us > 4000000) {
        fail_msg("%s %s took %llu us", what, pattern, (unsigned long long)us);
    }
}

static void pattern__that_is_hostile_ends_soon_and_holds_nobody_up(void **state)
{
    struct contract *c = *state;
    static struct asker asker;
    unsigned listed = 0;

    put_keys(c->client, 0, KEYS);
    begin_asking(c, &asker);
    for (unsigned i = 0; i < HOSTILE; i++) {
        struct watch watch = start_watch(c);
        mooncake_err err = mooncake_remove_matching(c->client, hostile[i], true, 30000, NULL, NULL);

        assert_true(err == MOONCAKE_OK || err == MOONCAKE_EINVAL);
        assert_was_short(c, watch, "remove", hostile[i]);
        watch = start_watch(c);
        err = mooncake_admin_keys(c->client, hostile[i], 0, 30000, count_key, &listed);
        assert_true(err == MOONCAKE_OK || err == MOONCAKE_EINVAL);
        assert_was_short(c, watch, "list", hostile[i]);
    }
    end_asking(&asker, "while hostile patterns ran");
    contract_check(c);
}

static void removal__counts_what_went_and_what_is_left_for_which_reason(void **state)
{
    struct contract *c = *state;
    mooncake_removal removal = {.struct_size = sizeof(removal)};
    static struct asker asker;
    uint8_t out[48];
    unsigned listed = 0;
    uint64_t start_ms;

    put_keys(c->client, 0, BATCH);
    start_ms = now_ms();
    for (unsigned i = 10; i < 20; i++) { /* leases */
        char key[48];

        (void)snprintf(key, sizeof(key), "aaaaaaaaaaaaaaaaaaaaaaaa!%u", i);
        assert_int_equal(mooncake_get_into(c->client, key, out, sizeof(out), 5000, NULL),
                         MOONCAKE_OK);
    }
    assert_int_equal(mooncake_admin_remove(c->client, "!1[0-9]$", false, 10000, &removal),
                     MOONCAKE_OK);
    if (now_ms() - start_ms < LEASE_MS - 100) { /* else this machine is too slow to tell */
        assert_int_equal(removal.removed, 0);
        assert_int_equal(removal.left_leased, 10);
    }
    assert_int_equal(mooncake_admin_remove(c->client, NULL, true, 10000, &removal), MOONCAKE_OK);
    put_keys(c->client, 0, KEYS);
    begin_asking(c, &asker);
    assert_int_equal(mooncake_admin_remove(c->client, "!1[0-9]*$", true, 30000, &removal),
                     MOONCAKE_OK);
    assert_int_equal(removal.removed, ENDING_IN_1);
    assert_int_equal(removal.left_leased + removal.left_writing, 0);
    assert_int_equal(mooncake_admin_keys(c->client, "!1", 0, 30000, count_key, &listed),
                     MOONCAKE_OK);
    assert_int_equal(listed, 0);
    assert_int_equal(mooncake_admin_remove(c->client, NULL, true, 30000, &removal), MOONCAKE_OK);
    assert_int_equal(removal.removed, KEYS - ENDING_IN_1);
    end_asking(&asker, "while keys were removed");
    contract_check(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, contract_teardown)
    const struct CMUnitTest tests[] = {
        TEST(pattern__that_is_hostile_ends_soon_and_holds_nobody_up),
        TEST(removal__counts_what_went_and_what_is_left_for_which_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
