/* The contract of puts: two of one key, batches of all kinds, what cannot fit, and nothing at all.
 */
#include "integration/contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MC_TEST_SANITIZED
#define SMALL_ROUNDS 60u
#define LARGE_ROUNDS 6u
#else
#define SMALL_ROUNDS 1000u
#define LARGE_ROUNDS 100u
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

/* ---- two writers ------------------------------------------------------------------------- */

struct race;

struct writer {
    pthread_t thread;
    struct race *race;
    mooncake_client *client;
    uint64_t version;
    uint8_t *data;
    mooncake_err err;
};

struct race {
    pthread_barrier_t start, end; /* two writers, and the reader: the test itself */
    struct writer writers[2];
    mooncake_client *reader;
    unsigned rounds, round;
    size_t len;
    atomic_uint done;
    char key[32];
};

/* Each route that a put can take. */
static mooncake_err put_by_route(struct writer *w, unsigned route)
{
    struct race *race = w->race;
    const char *keys[1] = {race->key};
    const void *data[1] = {w->data};
    uint64_t lens[1] = {race->len};
    mooncake_piece pieces[2] = {{.data = w->data, .len = 1000},
                                {.data = w->data + 1000, .len = race->len - 1000}};
    mooncake_err result = MOONCAKE_EINTERNAL, err;

    switch (route % 3) {
    case 0:
        return mooncake_put(w->client, race->key, w->data, race->len, NULL, 10000);
    case 1:
        return mooncake_put_pieces(w->client, race->key, pieces, 2, NULL, 10000);
    default:
        err = mooncake_batch_put(w->client, keys, data, lens, 1, NULL, 10000, &result);
        return err == MOONCAKE_OK ? result : err;
    }
}

static void *write_in_rounds(void *arg)
{
    struct writer *w = arg;

    for (unsigned i = 0; i < w->race->rounds; i++) {
        (void)pthread_barrier_wait(&w->race->start);
        value_make(w->data, w->race->len, w->race->key, w->version);
        w->err = put_by_route(w, i + (unsigned)w->version);
        (void)atomic_fetch_add(&w->race->done, 1);
        (void)pthread_barrier_wait(&w->race->end);
    }
    return NULL;
}

/* What a reader meets at any moment: nothing, or one writer's whole value; what exists is there. */
static const char *read_once(struct race *race, uint8_t *out)
{
    bool exists = false;
    uint64_t got = 0;
    mooncake_err err = mooncake_exist(race->reader, race->key, 10000, &exists);
    enum verdict verdict;

    if (err != MOONCAKE_OK) {
        return "exist failed";
    }
    memset(out, 0, race->len);
    err = mooncake_get_into(race->reader, race->key, out, race->len, 10000, &got);
    if (err != MOONCAKE_OK) {
        if (exists) {
            return "what existed could not be read";
        }
        return err == MOONCAKE_ENOENT || err == MOONCAKE_ENOTREADY ? NULL : "get failed";
    }
    verdict = value_judge(out, race->len, race->key, value_version(out));
    return got == race->len && verdict == VALUE_RIGHT ? NULL : verdict_name(verdict);
}

/* The reader's and judge's part of one round. NULL: all was well. */
static const char *judge_round(struct race *race, uint8_t *out)
{
    struct writer *a = &race->writers[0], *b = &race->writers[1];
    const char *wrong = NULL;
    uint64_t winner;

    while (wrong == NULL && atomic_load(&race->done) < 2) {
        wrong = read_once(race, out);
    }
    (void)pthread_barrier_wait(&race->end);
    if (wrong != NULL) {
        return wrong;
    }
    if ((a->err == MOONCAKE_OK) == (b->err == MOONCAKE_OK)) {
        return "there is not exactly one winner";
    }
    if (a->err != MOONCAKE_EEXIST && b->err != MOONCAKE_EEXIST) {
        return "the loser got another answer than EEXIST";
    }
    winner = a->err == MOONCAKE_OK ? a->version : b->version;
    wrong = read_once(race, out);
    if (wrong == NULL && value_version(out) != winner) {
        return "the loser's value survived";
    }
    return wrong != NULL ? wrong
           : mooncake_remove(race->reader, race->key, true, 10000) == MOONCAKE_OK
               ? NULL
               : "the key could not be removed";
}

static void race_rounds(struct contract *c, size_t len, unsigned rounds)
{
    struct race race = {.rounds = rounds, .len = len};
    uint8_t *out = malloc(len);
    const char *wrong = NULL;

    assert_non_null(out);
    assert_int_equal(pthread_barrier_init(&race.start, NULL, 3), 0);
    assert_int_equal(pthread_barrier_init(&race.end, NULL, 3), 0);
    race.reader = contract_open(c, NULL, 10000);
    for (unsigned i = 0; i < 2; i++) {
        struct writer *w = &race.writers[i];

        *w = (struct writer){.race = &race, .version = 10 + i, .data = malloc(len)};
        w->client = contract_open(c, i == 0 ? "tcp" : "shm,tcp", 10000);
        assert_int_equal(pthread_create(&w->thread, NULL, write_in_rounds, w), 0);
    }
    for (unsigned i = 0; i < rounds; i++) {
        const char *found;

        (void)snprintf(race.key, sizeof(race.key), "race-%zu-%u", len, i);
        atomic_store(&race.done, 0);
        (void)pthread_barrier_wait(&race.start);
        found = judge_round(&race, out);
        wrong = wrong != NULL ? wrong : found;
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(race.writers[i].thread, NULL), 0);
        mooncake_client_close(race.writers[i].client);
        free(race.writers[i].data);
    }
    mooncake_client_close(race.reader);
    (void)pthread_barrier_destroy(&race.start);
    (void)pthread_barrier_destroy(&race.end);
    free(out);
    if (wrong != NULL) {
        fail_msg("%zu bytes: %s", len, wrong);
    }
}

static void put__of_one_key_by_two_at_once_leaves_one_whole_value(void **state)
{
    struct contract *c = *state;

    race_rounds(c, 4096, SMALL_ROUNDS);
    race_rounds(c, 3 * MIB, LARGE_ROUNDS);
    contract_check(c);
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
        assert_int_equal(mooncake_put(c->client, "never", key, lens[i], NULL, 5000),
                         MOONCAKE_ENOSPACE);
        assert_true(now_ms() - start_ms < 1000);
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, contract_teardown)
    const struct CMUnitTest tests[] = {
        TEST(put__of_one_key_by_two_at_once_leaves_one_whole_value),
        TEST(batch__of_all_kinds_gives_one_code_per_item_and_harms_no_neighbour),
        TEST(put__that_can_never_fit_is_refused_at_once_and_evicts_nothing),
        TEST(values__that_are_empty_and_keys_that_are_missing_differ_on_every_route),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
