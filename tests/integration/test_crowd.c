/* Much at once: large batches, more writes than the pool holds, lent segments, many threads. */
#include "integration/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mooncake/admin.h"

#define ITEM_LEN ((size_t)64 << 10)
#define ITEMS 1200u /* 75 MiB */
#define THREADS 16u

#ifdef MC_TEST_SANITIZED
#define ROUNDS 15u
#else
#define ROUNDS 60u
#endif

struct scene {
    struct pool pool;
    mooncake_client *client;
};

/* One store of 24 MiB: ITEMS are three times as much. */
static int setup(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    pool_init(&scene->pool);
    pool_start_master(&scene->pool, 0);
    pool_start_store(&scene->pool, 0, "24MiB");
    scene->client = pool_open(&scene->pool, true);
    *state = scene;
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

/* ---- batches ----------------------------------------------------------------------------- */

struct batch {
    char names[ITEMS][16];
    const char *keys[ITEMS];
    const void *in[ITEMS];
    void *out[ITEMS];
    uint64_t lens[ITEMS], got[ITEMS];
    mooncake_err results[ITEMS];
    uint8_t *memory;
};

static struct batch *make_batch(size_t len)
{
    struct batch *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->memory = malloc(2 * ITEMS * len);
    assert_non_null(b->memory);
    for (unsigned i = 0; i < ITEMS; i++) {
        (void)snprintf(b->names[i], sizeof(b->names[i]), "item-%u", i);
        b->keys[i] = b->names[i];
        b->lens[i] = len;
        b->in[i] = b->memory + i * len;
        b->out[i] = b->memory + (ITEMS + i) * len;
        fill(b->memory + i * len, len, i);
    }
    return b;
}

static void free_batch(struct batch *b)
{
    free(b->memory);
    free(b);
}

static void batch__of_all_kinds_at_once_answers_item_by_item(void **state)
{
    struct scene *scene = *state;
    struct batch *b = make_batch(1000);

    /* Every third key is stored before; every seventh stands for the one before it. */
    for (unsigned i = 0; i < ITEMS; i += 3) {
        assert_int_equal(mooncake_put(scene->client, b->keys[i], b->in[i], 1000, NULL, 0),
                         MOONCAKE_OK);
    }
    for (unsigned i = 7; i < ITEMS; i += 7) {
        b->keys[i] = b->names[i - 1];
    }
    assert_int_equal(
        mooncake_batch_put(scene->client, b->keys, b->in, b->lens, ITEMS, NULL, 0, b->results),
        MOONCAKE_OK);
    for (unsigned i = 0; i < ITEMS; i++) {
        bool before = b->keys[i] == b->names[i] ? i % 3 == 0 : true;

        assert_int_equal(b->results[i], before ? MOONCAKE_EEXIST : MOONCAKE_OK);
    }
    assert_int_equal(mooncake_batch_exist(scene->client, b->keys, ITEMS, 0, b->results),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < ITEMS; i++) {
        assert_int_equal(b->results[i], MOONCAKE_OK);
    }
    assert_int_equal(mooncake_batch_get_into(scene->client, b->keys, b->out, b->lens, ITEMS, 0,
                                             b->results, b->got),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < ITEMS; i++) {
        unsigned seed = b->keys[i] == b->names[i] ? i : i - 1;

        assert_int_equal(b->results[i], MOONCAKE_OK);
        assert_int_equal(b->got[i], 1000);
        assert_true(is_filled(b->out[i], 1000, seed));
    }
    free_batch(b);
}

/* ---- a full pool ------------------------------------------------------------------------- */

static void writes__of_three_times_the_pool_push_out_the_oldest_and_damage_nothing(void **state)
{
    struct scene *scene = *state;
    struct batch *b = make_batch(ITEM_LEN);
    mooncake_pool_status status = {.struct_size = sizeof(status)};
    unsigned there = 0;

    for (unsigned i = 0; i < ITEMS; i += 40) {
        assert_int_equal(mooncake_batch_put(scene->client, b->keys + i, b->in + i, b->lens + i, 40,
                                            NULL, 0, b->results + i),
                         MOONCAKE_OK);
    }
    for (unsigned i = 0; i < ITEMS; i++) {
        assert_int_equal(b->results[i], MOONCAKE_OK);
    }
    assert_int_equal(mooncake_batch_get_into(scene->client, b->keys, b->out, b->lens, ITEMS, 0,
                                             b->results, b->got),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < ITEMS; i++) {
        if (b->results[i] == MOONCAKE_OK) {
            assert_true(is_filled(b->out[i], ITEM_LEN, i));
            there++;
        } else {
            assert_int_equal(b->results[i], MOONCAKE_ENOENT);
        }
    }
    /* What fits stayed, less the eviction's headroom; the newest are among it. */
    assert_in_range(there, 250, 384);
    assert_int_equal(b->results[ITEMS - 1], MOONCAKE_OK);
    assert_int_equal(b->results[0], MOONCAKE_ENOENT);
    assert_int_equal(mooncake_admin_status(scene->client, 0, &status), MOONCAKE_OK);
    assert_true(status.evicted_keys >= ITEMS - 384);
    assert_true(status.used <= status.capacity);
    free_batch(b);
}

/* ---- lent segments ----------------------------------------------------------------------- */

static mooncake_client *open_lender(struct scene *scene, const char *transport)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;

    mooncake_client_options_init(&options);
    options.master = scene->pool.master_address;
    options.segment_size = (uint64_t)32 << 20;
    options.transport = transport;
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_OK);
    return client;
}

static void lender__serves_others_and_takes_its_keys_along(void **state)
{
    struct scene *scene = *state;
    mooncake_client *lender = open_lender(scene, NULL);
    mooncake_put_options options;
    const char *preferred[1] = {mooncake_client_hostname(lender)};
    static uint8_t in[200000], out[200000];
    mooncake_client_options tcp_only;
    mooncake_client *reader = NULL;

    mooncake_put_options_init(&options);
    options.preferred_segments = preferred;
    options.preferred_segments_count = 1;
    fill(in, sizeof(in), 5);
    assert_int_equal(mooncake_put(lender, "lent", in, sizeof(in), &options, 0), MOONCAKE_OK);
    mooncake_client_options_init(&tcp_only);
    tcp_only.master = scene->pool.master_address;
    tcp_only.transport = "tcp";
    assert_int_equal(mooncake_client_open(&tcp_only, &reader), MOONCAKE_OK);
    assert_int_equal(mooncake_get_into(reader, "lent", out, sizeof(out), 0, NULL), MOONCAKE_OK);
    assert_true(is_filled(out, sizeof(out), 5));
    mooncake_client_close(lender);
    assert_int_equal(mooncake_get_into(reader, "lent", out, sizeof(out), 5000, NULL),
                     MOONCAKE_ENOENT);
    mooncake_client_close(reader);
}

/* ---- threads ----------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    struct scene *scene;
    unsigned number;
    const char *failed; /* NULL: all went well */
    mooncake_err err;
};

static void *fail_worker(struct worker *worker, const char *what, mooncake_err err)
{
    worker->failed = what;
    worker->err = err;
    return NULL;
}

/* Own keys must come and go as told; shared ones may be anybody's, but never be wrong. */
static void *work(void *arg)
{
    struct worker *worker = arg;
    mooncake_client *client = worker->scene->client;
    uint8_t in[9000], out[9000];

    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned shared_seed = round % 8;
        char own[40], shared[40];
        uint64_t len = 0;
        mooncake_err err;

        (void)snprintf(own, sizeof(own), "own-%u-%u", worker->number, round);
        (void)snprintf(shared, sizeof(shared), "shared-%u", shared_seed);
        fill(in, sizeof(in), worker->number * 1000u + round);
        err = mooncake_put(client, own, in, sizeof(in), NULL, 0);
        if (err != MOONCAKE_OK) {
            return fail_worker(worker, "put", err);
        }
        err = mooncake_get_into(client, own, out, sizeof(out), 0, &len);
        if (err != MOONCAKE_OK || !is_filled(out, len, worker->number * 1000u + round)) {
            return fail_worker(worker, "get", err);
        }
        fill(in, sizeof(in), shared_seed);
        err = mooncake_put(client, shared, in, sizeof(in), NULL, 0);
        if (err != MOONCAKE_OK && err != MOONCAKE_EEXIST) {
            return fail_worker(worker, "shared put", err);
        }
        err = mooncake_get_into(client, shared, out, sizeof(out), 0, &len);
        if ((err == MOONCAKE_OK && !is_filled(out, len, shared_seed)) ||
            (err != MOONCAKE_OK && err != MOONCAKE_ENOENT && err != MOONCAKE_ENOTREADY)) {
            return fail_worker(worker, "shared get", err);
        }
        err = mooncake_remove(client, round % 2 == 0 ? own : shared, true, 0);
        if (err != MOONCAKE_OK &&
            (round % 2 == 0 || (err != MOONCAKE_ENOENT && err != MOONCAKE_ENOTREADY))) {
            return fail_worker(worker, "remove", err);
        }
    }
    return NULL;
}

static void threads__of_one_client_do_not_meet(void **state)
{
    struct scene *scene = *state;
    struct worker workers[THREADS];

    memset(workers, 0, sizeof(workers));
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].scene = scene;
        workers[i].number = i;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        if (workers[i].failed != NULL) {
            fail_msg("thread %u: %s: %s", i, workers[i].failed, mooncake_err_name(workers[i].err));
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(batch__of_all_kinds_at_once_answers_item_by_item),
        TEST(writes__of_three_times_the_pool_push_out_the_oldest_and_damage_nothing),
        TEST(lender__serves_others_and_takes_its_keys_along),
        TEST(threads__of_one_client_do_not_meet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
