/* The contract of writers that race: two puts, or two upserts, of one key at one instant. */
#include "integration/contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MC_TEST_SANITIZED
#define ROUNDS(n) ((n) / 20u)
#else
#define ROUNDS(n) (n)
#endif

/* Values are made before the race; names come round after so many rounds. */
#define NAMES 4u

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

struct race;

struct writer {
    pthread_t thread;
    struct race *race;
    mooncake_client *client;
    unsigned number;
    uint8_t *values[NAMES];
    mooncake_err err;
};

struct plan {
    size_t len;
    unsigned rounds;
    const char *transports[2]; /* of the writers */
    bool upsert;
};

struct race {
    struct plan plan;
    pthread_barrier_t start, end; /* two writers, and the reader: the test itself */
    struct writer writers[2];
    mooncake_client *reader;
    uint8_t *out;
    unsigned name; /* which of NAMES this round is about */
    bool over;     /* there is no further round; set before the start that ends the writers */
    atomic_uint done;
    char key[32];
};

/* In a race of upserts all rounds are about one key, and its versions come round. */
static void name_round(const struct race *race, unsigned round, char key[32])
{
    if (race->plan.upsert) {
        (void)snprintf(key, 32, "upsert-%zu", race->plan.len);
    } else {
        (void)snprintf(key, 32, "race-%zu-%u", race->plan.len, round % NAMES);
    }
}

static uint64_t version_of(const struct race *race, unsigned writer, unsigned name)
{
    return race->plan.upsert ? 10 + 2 * name + writer : 10 + writer;
}

/* Each route that a put can take. */
static mooncake_err put_by_route(struct writer *w, unsigned route)
{
    struct race *race = w->race;
    const char *keys[1] = {race->key};
    uint8_t *value = w->values[race->name];
    const void *data[1] = {value};
    uint64_t lens[1] = {race->plan.len};
    mooncake_piece pieces[2] = {{.data = value, .len = 1000},
                                {.data = value + 1000, .len = race->plan.len - 1000}};
    mooncake_err result = MOONCAKE_EINTERNAL, err;
    mooncake_put_options how;

    mooncake_put_options_init(&how);
    how.upsert = race->plan.upsert;
    switch (route % 3) {
    case 0:
        return mooncake_put(w->client, race->key, value, race->plan.len, &how, 10000);
    case 1:
        return mooncake_put_pieces(w->client, race->key, pieces, 2, &how, 10000);
    default:
        err = mooncake_batch_put(w->client, keys, data, lens, 1, &how, 10000, &result);
        return err == MOONCAKE_OK ? result : err;
    }
}

static void *write_in_rounds(void *arg)
{
    struct writer *w = arg;

    for (unsigned i = 0;; i++) {
        (void)pthread_barrier_wait(&w->race->start);
        if (w->race->over) {
            return NULL;
        }
        w->err = put_by_route(w, i + w->number);
        (void)atomic_fetch_add(&w->race->done, 1);
        (void)pthread_barrier_wait(&w->race->end);
    }
}

/* What a reader meets at any moment: one writer's whole value, or nothing where nothing was; what
 * exists is there. */
static const char *read_once(struct race *race)
{
    size_t len = race->plan.len;
    bool exists = false;
    uint64_t got = 0;
    mooncake_err err = mooncake_exist(race->reader, race->key, 10000, &exists);
    enum verdict verdict;

    if (err != MOONCAKE_OK) {
        return "exist failed";
    }
    memset(race->out, 0, len);
    err = mooncake_get_into(race->reader, race->key, race->out, len, 10000, &got);
    if (err != MOONCAKE_OK) {
        if (exists || race->plan.upsert) {
            return "what existed could not be read";
        }
        return err == MOONCAKE_ENOENT || err == MOONCAKE_ENOTREADY ? NULL : "get failed";
    }
    for (unsigned i = 0; i < 2; i++) { /* mostly it is one of these, and comparing is quick */
        if (got == len && memcmp(race->out, race->writers[i].values[race->name], len) == 0) {
            return NULL;
        }
    }
    if (!race->plan.upsert) {
        return "neither writer's value";
    }
    verdict = value_judge(race->out, len, race->key, value_version(race->out));
    return got == len && verdict == VALUE_RIGHT ? NULL : verdict_name(verdict);
}

static const char *judge_writers(const struct race *race)
{
    const struct writer *a = &race->writers[0], *b = &race->writers[1];

    if (a->err != MOONCAKE_OK && b->err != MOONCAKE_OK) {
        return "there is no winner";
    }
    if (a->err == MOONCAKE_OK && b->err == MOONCAKE_OK) { /* upserts may come one after another */
        return race->plan.upsert ? NULL : "there are two winners";
    }
    return a->err == MOONCAKE_EEXIST || b->err == MOONCAKE_EEXIST
               ? NULL
               : "the loser got another answer than EEXIST";
}

/* The reader's and judge's part of one round. NULL: all was well. */
static const char *judge_round(struct race *race)
{
    const char *wrong = NULL;
    bool survived = false;

    while (wrong == NULL && atomic_load(&race->done) < 2) {
        wrong = read_once(race);
    }
    (void)pthread_barrier_wait(&race->end);
    wrong = wrong != NULL ? wrong : judge_writers(race);
    wrong = wrong != NULL ? wrong : read_once(race);
    if (wrong != NULL) {
        return wrong;
    }
    for (unsigned i = 0; i < 2; i++) {
        survived = survived || (race->writers[i].err == MOONCAKE_OK &&
                                value_version(race->out) == version_of(race, i, race->name));
    }
    if (!survived) {
        return "no winner's value survived";
    }
    return race->plan.upsert || mooncake_remove(race->reader, race->key, true, 10000) == MOONCAKE_OK
               ? NULL
               : "the key could not be removed";
}

/* One that asks the master for each read: what it was told with an exist would make each removal
 * wait for the end of that promise. */
static mooncake_client *open_reader(struct contract *c)
{
    mooncake_client_options options;
    mooncake_client *reader = NULL;

    mooncake_client_options_init(&options);
    options.master = c->pool.master_address;
    options.transport = c->pool.transport;
    options.timeout_ms = 10000;
    options.reuse_descriptors = false;
    assert_int_equal(mooncake_client_open(&options, &reader), MOONCAKE_OK);
    return reader;
}

static void open_race(struct contract *c, struct race *race)
{
    race->out = malloc(race->plan.len);
    assert_non_null(race->out);
    assert_int_equal(pthread_barrier_init(&race->start, NULL, 3), 0);
    assert_int_equal(pthread_barrier_init(&race->end, NULL, 3), 0);
    race->reader = open_reader(c);
    for (unsigned i = 0; i < 2; i++) {
        struct writer *w = &race->writers[i];

        *w = (struct writer){.race = race, .number = i};
        for (unsigned name = 0; name < NAMES; name++) {
            char key[32];

            w->values[name] = malloc(race->plan.len);
            assert_non_null(w->values[name]);
            name_round(race, name, key);
            value_make(w->values[name], race->plan.len, key, version_of(race, i, name));
        }
        w->client = contract_open(c, race->plan.transports[i], 10000);
    }
    if (race->plan.upsert) {
        name_round(race, 0, race->key);
        assert_int_equal(put_by_route(&race->writers[0], 0), MOONCAKE_OK);
    }
}

static void close_race(struct race *race)
{
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(race->writers[i].thread, NULL), 0);
        mooncake_client_close(race->writers[i].client);
        for (unsigned name = 0; name < NAMES; name++) {
            free(race->writers[i].values[name]);
        }
    }
    mooncake_client_close(race->reader);
    (void)pthread_barrier_destroy(&race->start);
    (void)pthread_barrier_destroy(&race->end);
    free(race->out);
}

static void run_race(struct contract *c, struct plan plan)
{
    struct race race = {.plan = plan};
    const char *wrong = NULL;

    open_race(c, &race);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(
            pthread_create(&race.writers[i].thread, NULL, write_in_rounds, &race.writers[i]), 0);
    }
    for (unsigned i = 0; i < plan.rounds && wrong == NULL; i++) {
        race.name = i % NAMES;
        name_round(&race, i, race.key);
        atomic_store(&race.done, 0);
        (void)pthread_barrier_wait(&race.start);
        wrong = judge_round(&race);
    }
    race.over = true;
    (void)pthread_barrier_wait(&race.start);
    close_race(&race);
    if (plan.upsert) {
        assert_int_equal(mooncake_remove(c->client, race.key, true, 5000), MOONCAKE_OK);
    }
    if (wrong != NULL) {
        fail_msg("%zu bytes: %s", plan.len, wrong);
    }
}

static void put__of_one_key_by_two_at_once_leaves_one_whole_value(void **state)
{
    static const struct plan plans[] = {
        {.len = 4096, .rounds = ROUNDS(1000), .transports = {"tcp", "shm,tcp"}},
        {.len = 3 * MIB, .rounds = ROUNDS(100), .transports = {"tcp", "shm,tcp"}},
        {.len = 3 * MIB, .rounds = ROUNDS(900), .transports = {"shm,tcp", "shm,tcp"}},
    };
    struct contract *c = *state;

    for (unsigned i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        run_race(c, plans[i]);
    }
    contract_check(c);
}

static void upsert__of_one_key_by_two_at_once_leaves_one_whole_value(void **state)
{
    static const struct plan plans[] = {
        {.len = 4096, .rounds = ROUNDS(1000), .transports = {"tcp", "shm,tcp"}, .upsert = true},
        {.len = 64 << 10, .rounds = ROUNDS(200), .transports = {"tcp", "shm,tcp"}, .upsert = true},
        /* Few, because versions that were read keep their space for a lease. */
        {.len = 3 * MIB, .rounds = 8, .transports = {"tcp", "shm,tcp"}, .upsert = true},
    };
    struct contract *c = *state;

    for (unsigned i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        run_race(c, plans[i]);
    }
    contract_check(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, contract_teardown)
    const struct CMUnitTest tests[] = {
        TEST(put__of_one_key_by_two_at_once_leaves_one_whole_value),
        TEST(upsert__of_one_key_by_two_at_once_leaves_one_whole_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
