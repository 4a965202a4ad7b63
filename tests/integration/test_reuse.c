/* Gets that read what an exist has told: one question less, and nothing that asking would not see.
 */
#include "integration/contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 64u
#define LEN ((size_t)5000)
#define DEADLINE_MS 10000u
#define REUSE_MS 500u /* the master's descriptor_reuse_ttl */

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

struct batch {
    char names[KEYS][32];
    const char *keys[KEYS];
    void *into[KEYS];
    uint64_t caps[KEYS], lens[KEYS];
    mooncake_err results[KEYS];
    uint8_t room[KEYS][LEN];
};

static struct batch *make_batch(struct contract *c)
{
    struct batch *batch = calloc(1, sizeof(*batch));

    assert_non_null(batch);
    for (unsigned i = 0; i < KEYS; i++) {
        (void)snprintf(batch->names[i], sizeof(batch->names[i]), "key-%u", i);
        batch->keys[i] = batch->names[i];
        batch->into[i] = batch->room[i];
        batch->caps[i] = LEN;
        assert_int_equal(value_put(c->client, batch->keys[i], LEN, i, NULL, DEADLINE_MS),
                         MOONCAKE_OK);
    }
    return batch;
}

static void exist(mooncake_client *client, struct batch *batch)
{
    assert_int_equal(mooncake_batch_exist(client, batch->keys, KEYS, DEADLINE_MS, batch->results),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < KEYS; i++) {
        assert_int_equal(batch->results[i], MOONCAKE_OK);
    }
}

static mooncake_err try_get(mooncake_client *client, struct batch *batch, uint32_t timeout_ms)
{
    memset(batch->room, 0, sizeof(batch->room));
    return mooncake_batch_get_into(client, batch->keys, batch->into, batch->caps, KEYS, timeout_ms,
                                   batch->results, batch->lens);
}

static void check_got(const struct batch *batch)
{
    for (unsigned i = 0; i < KEYS; i++) {
        assert_int_equal(batch->results[i], MOONCAKE_OK);
        assert_int_equal(batch->lens[i], LEN);
        assert_int_equal(value_judge(batch->room[i], LEN, batch->keys[i], i), VALUE_RIGHT);
    }
}

static void get(mooncake_client *client, struct batch *batch)
{
    assert_int_equal(try_get(client, batch, DEADLINE_MS), MOONCAKE_OK);
    check_got(batch);
}

static mooncake_client_stats stats_of(mooncake_client *client)
{
    mooncake_client_stats stats = {.struct_size = sizeof(stats)};

    assert_int_equal(mooncake_client_get_stats(client, &stats), MOONCAKE_OK);
    return stats;
}

static void reuse__a_get_after_an_exist_does_not_ask_the_master(void **state)
{
    struct contract *c = *state;
    struct batch *batch = make_batch(c);
    mooncake_client_stats stats;
    unsigned got_alone = 0;

    assert_int_equal(stats_of(c->client).descriptors_reused, 0);
    for (unsigned i = 0; i < 50 && got_alone < 3; i++) {
        uint64_t asked_ms, before;
        mooncake_err err;

        exist(c->client, batch);
        get(c->client, batch);
        asked_ms = now_ms();
        exist(c->client, batch);
        daemon_freeze(&c->pool.master);
        before = stats_of(c->client).descriptors_reused;
        err = try_get(c->client, batch, 2 * REUSE_MS); /* longer, if it asks */
        if (now_ms() - asked_ms < REUSE_MS) {          /* else this machine is too slow to tell */
            assert_int_equal(err, MOONCAKE_OK);
            check_got(batch);
            assert_int_equal(stats_of(c->client).descriptors_reused, before + KEYS);
            got_alone++;
        }
        daemon_wake(&c->pool.master);
    }
    assert_int_equal(got_alone, 3);
    stats = stats_of(c->client);
    assert_true(stats.descriptor_exists > 0 && stats.descriptor_keys >= 3 * KEYS);
    assert_int_equal(stats.descriptors_stale, 0);
    free(batch);
    contract_check(c);
}

static void reuse__is_not_asked_for_by_those_who_only_ask(void **state)
{
    struct contract *c = *state;
    struct batch *batch = make_batch(c);
    uint64_t asked;

    for (unsigned i = 0; i < 4; i++) {
        exist(c->client, batch);
        get(c->client, batch);
    }
    for (unsigned i = 0; i < 40; i++) {
        exist(c->client, batch);
    }
    asked = stats_of(c->client).descriptor_exists;
    assert_in_range(asked, 1, 30);
    for (unsigned i = 0; i < 40; i++) {
        exist(c->client, batch);
    }
    assert_int_equal(stats_of(c->client).descriptor_exists, asked);
    free(batch);
    contract_check(c);
}

static void reuse__can_be_turned_off(void **state)
{
    struct contract *c = *state;
    struct batch *batch = make_batch(c);
    mooncake_client_options options;
    mooncake_client *client = NULL;

    mooncake_client_options_init(&options);
    assert_true(options.reuse_descriptors);
    options.master = c->pool.master_address;
    options.reuse_descriptors = false;
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_OK);
    for (unsigned i = 0; i < 10; i++) {
        exist(client, batch);
        get(client, batch);
    }
    assert_int_equal(stats_of(client).descriptor_exists, 0);
    assert_int_equal(stats_of(client).descriptors_reused, 0);
    mooncake_client_close(client);
    free(batch);
    contract_check(c);
}

/* What is known of a store that is gone is no reason to report anything without asking. */
static void reuse__a_failure_leads_to_the_master(void **state)
{
    struct contract *c = *state;
    struct batch *batch = make_batch(c);
    mooncake_client *client = contract_open(c, "tcp", DEADLINE_MS);
    unsigned tries = 0;

    do {
        for (unsigned i = 0; i < 3; i++) {
            exist(client, batch);
            get(client, batch);
        }
        exist(client, batch);
        daemon_kill(&c->pool.stores[0]);
        assert_int_equal(mooncake_batch_get_into(client, batch->keys, batch->into, batch->caps,
                                                 KEYS, DEADLINE_MS, batch->results, batch->lens),
                         MOONCAKE_OK);
        for (unsigned i = 0; i < KEYS; i++) {
            assert_int_equal(batch->results[i], MOONCAKE_ETRANSFER); /* the master still has them */
        }
        tries++;
        if (stats_of(client).descriptors_stale == 0) { /* this machine was too slow */
            assert_true(tries < 5);
            pool_start_store(&c->pool, 0, "64MiB");
            free(batch);
            batch = make_batch(c);
        }
    } while (stats_of(client).descriptors_stale == 0);
    mooncake_client_close(client);
    free(batch);
}

/* ---- two clients --------------------------------------------------------------------------- */

struct reader {
    pthread_t thread;
    mooncake_client *client;
    atomic_uint_fast64_t *gone; /* versions up to this one are no more, acknowledged */
    atomic_bool *stop;
    const char *wrong;
    atomic_uint reads;
};

static void *read_after_asking(void *arg)
{
    struct reader *r = arg;
    uint8_t out[3000];

    while (r->wrong == NULL && !atomic_load(r->stop)) {
        bool exists = false;
        mooncake_err err = mooncake_exist(r->client, "k", DEADLINE_MS, &exists);

        for (unsigned i = 0; err == MOONCAKE_OK && exists && i < 50 && r->wrong == NULL; i++) {
            uint64_t gone = atomic_load(r->gone);

            err = mooncake_get_into(r->client, "k", out, sizeof(out), DEADLINE_MS, NULL);
            if (err == MOONCAKE_OK) {
                uint64_t version = value_version(out);

                (void)atomic_fetch_add(&r->reads, 1);
                if (value_judge(out, sizeof(out), "k", version) != VALUE_RIGHT) {
                    r->wrong = "wrong bytes";
                } else if (version <= gone) {
                    r->wrong = "a value was read after its end was acknowledged";
                }
            }
        }
        if (err != MOONCAKE_OK && err != MOONCAKE_ENOENT && err != MOONCAKE_ENOTREADY) {
            r->wrong = mooncake_err_name(err);
        }
    }
    return NULL;
}

static void reuse__never_shows_what_another_client_has_ended(void **state)
{
    static const char *const transports[] = {"tcp", "shm,tcp"};
    struct contract *c = *state;
    struct reader readers[2];
    atomic_uint_fast64_t gone;
    atomic_bool stop;
    uint64_t version = 0, reused = 0;
    mooncake_put_options upsert;

    mooncake_put_options_init(&upsert);
    upsert.upsert = true;
    atomic_init(&gone, 0);
    atomic_init(&stop, false);
    for (unsigned i = 0; i < 2; i++) {
        readers[i] = (struct reader){
            .gone = &gone, .stop = &stop, .client = contract_open(c, transports[i], DEADLINE_MS)};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_after_asking, &readers[i]),
                         0);
    }
    for (unsigned round = 0; round < 10; round++) {
        assert_int_equal(value_put(c->client, "k", 3000, ++version, NULL, DEADLINE_MS),
                         MOONCAKE_OK);
        for (unsigned i = 0; i < 2; i++) { /* they read, and have it promised */
            unsigned before = atomic_load(&readers[i].reads);
            uint64_t end_ms = now_ms() + 200;

            while (atomic_load(&readers[i].reads) < before + 20 && now_ms() < end_ms) {
            }
        }
        assert_int_equal(value_put(c->client, "k", 3000, ++version, &upsert, DEADLINE_MS),
                         MOONCAKE_OK);
        atomic_store(&gone, version - 1);
        assert_int_equal(round % 3 == 0
                             ? mooncake_remove_all(c->client, true, DEADLINE_MS, NULL, NULL)
                             : mooncake_remove(c->client, "k", true, DEADLINE_MS),
                         MOONCAKE_OK);
        atomic_store(&gone, version);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        reused += stats_of(readers[i].client).descriptors_reused;
        mooncake_client_close(readers[i].client);
        if (readers[i].wrong != NULL) {
            fail_msg("%s: %s", transports[i], readers[i].wrong);
        }
        assert_true(atomic_load(&readers[i].reads) > 0);
    }
    assert_true(reused > 0);
    contract_check(c);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, contract_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(reuse__a_get_after_an_exist_does_not_ask_the_master),
        CASE(reuse__is_not_asked_for_by_those_who_only_ask),
        CASE(reuse__can_be_turned_off),
        CASE(reuse__a_failure_leads_to_the_master),
        CASE(reuse__never_shows_what_another_client_has_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
