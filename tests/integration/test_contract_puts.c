/* The contract of puts: batches of all kinds, what cannot fit, nothing at all, and stores that die
 * or hang under a put. */
#include "integration/contract.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int begin(struct contract *c)
{
    pool_start_store(&c->pool, 0, "64MiB");
    contract_begin(c);
    return 0;
}

static int setup(void **state)
{
    return contract_setup(state) == 0 ? begin(*state) : -1;
}

/* A store that hangs for some seconds is not given up, and pings soon when it is back. */
static int setup_patient(void **state)
{
    return contract_setup_ttl(state, "--client_ttl=12") == 0 ? begin(*state) : -1;
}

/* ---- batches and refusals ---------------------------------------------------------------- */

static void batch__of_all_kinds_gives_one_code_per_item_and_harms_no_neighbour(void **state)
{
    struct contract *c = *state;
    static uint8_t good[3][5000];
    const char *keys[] = {"good", "good", "", "too-large", "stored", "empty", "last"};
    const void *data[] = {good[0], good[1], good[0], good[0], good[1], NULL, good[2]};
    const uint64_t lens[] = {5000, 5000, 5000, (uint64_t)1 << 40, 5000, 0, 5000};
    const mooncake_err want[] = {MOONCAKE_OK,       MOONCAKE_EEXIST, MOONCAKE_EBADKEY,
                                 MOONCAKE_ENOSPACE, MOONCAKE_EEXIST, MOONCAKE_OK,
                                 MOONCAKE_OK};
    mooncake_err results[7];
    uint64_t len = 99;
    bool exists = true;

    assert_int_equal(value_put(c->client, "stored", 5000, 1, NULL, 5000), MOONCAKE_OK);
    value_make(good[0], 5000, "good", 1);
    value_make(good[1], 5000, "nobody", 1);
    value_make(good[2], 5000, "last", 1);
    assert_int_equal(mooncake_batch_put(c->client, keys, data, lens, 7, NULL, 5000, results),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < 7; i++) {
        if (results[i] != want[i]) {
            fail_msg("item %u: %s", i, mooncake_err_name(results[i]));
        }
    }
    assert_int_equal(value_get(c->client, "good", 5000, 1, 5000), MOONCAKE_OK);
    assert_int_equal(value_get(c->client, "stored", 5000, 1, 5000), MOONCAKE_OK);
    assert_int_equal(value_get(c->client, "last", 5000, 1, 5000), MOONCAKE_OK);
    assert_int_equal(mooncake_size(c->client, "empty", 5000, &len), MOONCAKE_OK);
    assert_int_equal(len, 0);
    assert_int_equal(mooncake_exist(c->client, "too-large", 5000, &exists), MOONCAKE_OK);
    assert_false(exists);
    contract_check(c);
}

static void put__that_can_never_fit_is_refused_at_once_and_evicts_nothing(void **state)
{
    struct contract *c = *state;
    const uint64_t lens[] = {64 * MIB, 64 * MIB + 1, (uint64_t)1 << 33, (uint64_t)1 << 62};
    mooncake_pool_status before, after;
    char key[32];

    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(key, sizeof(key), "old-%u", i);
        assert_int_equal(value_put(c->client, key, MIB, 1, NULL, 5000), MOONCAKE_OK);
    }
    contract_status(c, &before);
    for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        uint64_t start_ms = now_ms();

        /* Refused before a byte is looked at. */
        assert_int_equal(mooncake_put(c->client, "never", key, lens[i], NULL, 60000),
                         MOONCAKE_ENOSPACE);
        assert_true(now_ms() - start_ms < 30000);
    }
    contract_status(c, &after);
    assert_int_equal(after.evicted_keys, before.evicted_keys);
    assert_int_equal(after.used, before.used);
    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(key, sizeof(key), "old-%u", i);
        assert_int_equal(value_get(c->client, key, MIB, 1, 5000), MOONCAKE_OK);
    }
    contract_check(c);
}

static void values__that_are_empty_and_keys_that_are_missing_differ_on_every_route(void **state)
{
    struct contract *c = *state;
    const char *keys[] = {"empty", "missing"};
    const mooncake_err want[] = {MOONCAKE_OK, MOONCAKE_ENOENT};
    uint8_t room[2][8] = {{0}};
    void *into[] = {room[0], room[1]}, *fresh[2];
    const uint64_t caps[] = {8, 8};
    mooncake_err got[3][2], exist[2];
    uint64_t lens[3][2];

    assert_int_equal(mooncake_put(c->client, "empty", NULL, 0, NULL, 5000), MOONCAKE_OK);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t len = 99;
        bool exists;

        assert_int_equal(mooncake_exist(c->client, keys[i], 5000, &exists), MOONCAKE_OK);
        assert_int_equal(exists, want[i] == MOONCAKE_OK);
        assert_int_equal(mooncake_size(c->client, keys[i], 5000, &len), want[i]);
        assert_int_equal(mooncake_get_into(c->client, keys[i], room[i], 8, 5000, &len), want[i]);
        assert_int_equal(mooncake_get(c->client, keys[i], 5000, &fresh[i], &len), want[i]);
        if (want[i] == MOONCAKE_OK) {
            assert_int_equal(len, 0);
            assert_non_null(fresh[i]);
            mooncake_free(fresh[i]);
        }
    }
    assert_int_equal(mooncake_batch_exist(c->client, keys, 2, 5000, exist), MOONCAKE_OK);
    assert_int_equal(mooncake_batch_size(c->client, keys, 2, 5000, got[0], lens[0]), MOONCAKE_OK);
    assert_int_equal(mooncake_batch_get_into(c->client, keys, into, caps, 2, 5000, got[1], lens[1]),
                     MOONCAKE_OK);
    assert_int_equal(mooncake_batch_get(c->client, keys, 2, 5000, got[2], fresh, lens[2]),
                     MOONCAKE_OK);
    assert_memory_equal(exist, want, sizeof(want));
    for (unsigned route = 0; route < 3; route++) {
        assert_memory_equal(got[route], want, sizeof(want));
        assert_int_equal(lens[route][0], 0);
    }
    assert_non_null(fresh[0]);
    assert_null(fresh[1]);
    mooncake_free(fresh[0]);
    contract_check(c);
}

/* ---- stores that die ----------------------------------------------------------------------- */

#define DEAD_KEYS 40u
#define DEAD_LEN ((size_t)200000)

static mooncake_client_stats stats_of(mooncake_client *client)
{
    mooncake_client_stats stats = {.struct_size = sizeof(stats)};

    assert_int_equal(mooncake_client_get_stats(client, &stats), MOONCAKE_OK);
    return stats;
}

/* Puts of which half would go to store 1, which the master takes for alive. */
static void put_beside_a_dead_store(struct contract *c, mooncake_client *client, const char *prefix)
{
    mooncake_put_options options;
    uint32_t copies;
    char key[32];

    mooncake_put_options_init(&options);
    options.copies = &copies;
    for (unsigned i = 0; i < DEAD_KEYS; i++) {
        (void)snprintf(key, sizeof(key), "%s-%u", prefix, i);
        options.replicas = 1 + i % 2;
        copies = 9;
        assert_int_equal(value_put(client, key, DEAD_LEN, i, &options, 5000), MOONCAKE_OK);
        assert_int_equal(copies, 1); /* of two: a success that says how many */
    }
    for (unsigned i = 0; i < DEAD_KEYS; i++) {
        (void)snprintf(key, sizeof(key), "%s-%u", prefix, i);
        assert_int_equal(value_get(c->client, key, DEAD_LEN, i, 5000), MOONCAKE_OK);
    }
    assert_true(stats_of(client).puts_again > 0);
    assert_int_equal(stats_of(client).puts_degraded, DEAD_KEYS / 2);
}

static void put_batch_beside_a_lost_store(struct contract *c, mooncake_client *client,
                                          uint32_t timeout_ms)
{
    char names[DEAD_KEYS][32];
    const char *keys[DEAD_KEYS];
    const void *data[DEAD_KEYS];
    uint64_t lens[DEAD_KEYS];
    mooncake_err results[DEAD_KEYS];
    uint8_t *values = malloc(DEAD_KEYS * DEAD_LEN);

    assert_non_null(values);
    for (unsigned i = 0; i < DEAD_KEYS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "batch-%u", i);
        keys[i] = names[i];
        data[i] = values + i * DEAD_LEN;
        lens[i] = DEAD_LEN;
        value_make(values + i * DEAD_LEN, DEAD_LEN, names[i], i);
    }
    assert_int_equal(
        mooncake_batch_put(client, keys, data, lens, DEAD_KEYS, NULL, timeout_ms, results),
        MOONCAKE_OK);
    for (unsigned i = 0; i < DEAD_KEYS; i++) {
        assert_int_equal(results[i], MOONCAKE_OK);
        assert_int_equal(value_get(c->client, keys[i], DEAD_LEN, i, 5000), MOONCAKE_OK);
    }
    free(values);
}

static void put__to_a_store_that_has_just_died_is_placed_on_another(void **state)
{
    static const char *const transports[2] = {"tcp", "shm,tcp"};
    struct contract *c = *state;
    mooncake_client *clients[2];

    pool_start_store(&c->pool, 1, "64MiB");
    contract_count(c);
    for (unsigned i = 0; i < 2; i++) {
        clients[i] = contract_open(c, transports[i], 5000);
        assert_int_equal(value_put(clients[i], transports[i], 1000, 1, NULL, 5000), MOONCAKE_OK);
    }
    daemon_kill(&c->pool.stores[1]);
    put_batch_beside_a_lost_store(c, clients[0], 5000); /* the first of all, before any suspicion */
    for (unsigned i = 0; i < 2; i++) {
        put_beside_a_dead_store(c, clients[i], transports[i]);
        mooncake_client_close(clients[i]);
    }
    contract_check(c);
}

static void put__to_the_only_store_which_has_died_is_an_error_at_once(void **state)
{
    struct contract *c = *state;

    daemon_kill(&c->pool.stores[0]);
    /* Not the deadline, which would be another error. */
    assert_int_equal(value_put(c->client, "k", DEAD_LEN, 1, NULL, 20000), MOONCAKE_ETRANSFER);
    assert_int_equal(value_get(c->client, "k", DEAD_LEN, 1, 5000), MOONCAKE_ENOENT);
    pool_start_store(&c->pool, 0, "64MiB");
    contract_count(c);
    contract_check(c);
}

/* ---- stores that hang ---------------------------------------------------------------------- */

static void put__to_a_store_that_hangs_is_placed_on_another(void **state)
{
    struct contract *c = *state;
    mooncake_client *client;
    uint64_t start_ms;
    char key[32];

    pool_start_store(&c->pool, 1, "64MiB");
    contract_count(c);
    client = contract_open(c, "tcp", 20000); /* through shared memory it would succeed anyhow */
    daemon_freeze(&c->pool.stores[1]);
    start_ms = now_ms();
    put_batch_beside_a_lost_store(c, client, 20000);
    for (unsigned i = 0; i < DEAD_KEYS; i++) {
        (void)snprintf(key, sizeof(key), "single-%u", i);
        assert_int_equal(value_put(client, key, DEAD_LEN, i, NULL, 20000), MOONCAKE_OK);
    }
    assert_true(now_ms() - start_ms <
                12000 + SLACK_MS); /* each that is hit alone waits three seconds */
    assert_true(stats_of(client).puts_again > 0);
    mooncake_client_close(client);
    daemon_wake(&c->pool.stores[1]);
    contract_check(c);
}

static pid_t sleeper;

static void wake_it(int number)
{
    (void)number;
    (void)kill(sleeper, SIGCONT);
}

static void put__to_the_only_store_which_hangs_for_a_while_succeeds_when_it_wakes(void **state)
{
    struct contract *c = *state;
    mooncake_client *client = contract_open(c, "tcp", 20000);
    uint64_t start_ms = now_ms();

    sleeper = c->pool.stores[0].pid;
    assert_ptr_not_equal(signal(SIGALRM, wake_it), SIG_ERR);
    daemon_freeze(&c->pool.stores[0]);
    (void)alarm(4); /* beyond the time after which another place is looked for */
    assert_int_equal(value_put(client, "k", DEAD_LEN, 1, NULL, 60000), MOONCAKE_OK);
    assert_true(now_ms() - start_ms >= 3000);
    assert_true(stats_of(client).puts_again > 0);
    (void)signal(SIGALRM, SIG_DFL);
    assert_int_equal(value_get(c->client, "k", DEAD_LEN, 1, 5000), MOONCAKE_OK);
    mooncake_client_close(client);
    contract_check(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, contract_teardown)
    const struct CMUnitTest tests[] = {
        TEST(batch__of_all_kinds_gives_one_code_per_item_and_harms_no_neighbour),
        TEST(put__that_can_never_fit_is_refused_at_once_and_evicts_nothing),
        TEST(values__that_are_empty_and_keys_that_are_missing_differ_on_every_route),
        TEST(put__to_a_store_that_has_just_died_is_placed_on_another),
        TEST(put__to_the_only_store_which_has_died_is_an_error_at_once),
        TEST(put__to_a_store_that_hangs_is_placed_on_another),
        cmocka_unit_test_setup_teardown(
            put__to_the_only_store_which_hangs_for_a_while_succeeds_when_it_wakes, setup_patient,
            contract_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
