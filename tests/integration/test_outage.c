/* Daemons that die, hang and come back: each call ends by its deadline with an error that says
 * what is wrong, and the pool goes on when they are back. */
#include "integration/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scene {
    struct pool pool;
    mooncake_client *client;
};

/* As from another host: memory that is shared with a store can be used while the store hangs. */
static mooncake_client *open_over_tcp(struct pool *pool)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;

    mooncake_client_options_init(&options);
    options.master = pool->master_address;
    options.transport = "tcp";
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_OK);
    return client;
}

/* What a busy machine may need beside a deadline. */
#define SLACK_MS 10000u

static int setup_with(void **state, const char *ttl)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    pool_init(&scene->pool);
    scene->pool.master_args[0] = ttl;
    scene->pool.transport = "tcp"; /* memory that is shared answers even when its store hangs */
    pool_start_master(&scene->pool, 0);
    pool_start_store(&scene->pool, 0, "64MiB");
    scene->client = open_over_tcp(&scene->pool);
    *state = scene;
    return 0;
}

/* Who hangs does so for a shorter time than it takes to be given up. */
static int setup(void **state)
{
    return setup_with(state, "--client_ttl=30");
}

static int setup_short(void **state)
{
    return setup_with(state, "--client_ttl=2");
}

static int teardown(void **state)
{
    struct scene *scene = *state;

    mooncake_client_close(scene->client);
    pool_fini(&scene->pool);
    free(scene);
    return 0;
}

static void put_value(struct scene *scene, const char *key, unsigned replicas)
{
    mooncake_put_options options;

    mooncake_put_options_init(&options);
    options.replicas = replicas;
    options.all_replicas = true;
    assert_int_equal(mooncake_put(scene->client, key, "value", 6, &options, 5000), MOONCAKE_OK);
}

static mooncake_err get_value(struct scene *scene, const char *key, uint32_t timeout_ms)
{
    char out[6] = "";
    mooncake_err err = mooncake_get_into(scene->client, key, out, 6, timeout_ms, NULL);

    if (err == MOONCAKE_OK) {
        assert_string_equal(out, "value");
    }
    return err;
}

/* A put and a get that both work, some time. */
static bool works(void *arg)
{
    struct scene *scene = arg;
    static unsigned tries;
    char key[32];

    (void)snprintf(key, sizeof(key), "works-%u", tries++);
    return mooncake_put(scene->client, key, "value", 6, NULL, 2000) == MOONCAKE_OK &&
           get_value(scene, key, 2000) == MOONCAKE_OK;
}

/* ---- the store --------------------------------------------------------------------------- */

static void store__that_died_is_an_error_and_a_new_one_is_used(void **state)
{
    struct scene *scene = *state;

    put_value(scene, "k", 1);
    daemon_kill(&scene->pool.stores[0]);
    assert_int_equal(get_value(scene, "k", 20000), MOONCAKE_ETRANSFER); /* not its deadline */
    assert_true(strlen(mooncake_last_error()) > 10);
    pool_start_store(&scene->pool, 0, "64MiB");
    assert_true(wait_until(works, scene, 60));
    assert_int_not_equal(get_value(scene, "k", 4000), MOONCAKE_OK);
}

static void store__that_hangs_ends_calls_by_their_deadline(void **state)
{
    struct scene *scene = *state;
    uint64_t start_ms;

    put_value(scene, "k", 1);
    daemon_freeze(&scene->pool.stores[0]);
    start_ms = now_ms();
    assert_int_equal(get_value(scene, "k", 400), MOONCAKE_ETIMEDOUT);
    assert_in_range(now_ms() - start_ms, 390, 400 + SLACK_MS);
    start_ms = now_ms();
    assert_int_equal(mooncake_put(scene->client, "l", "value", 6, NULL, 400), MOONCAKE_ETIMEDOUT);
    assert_in_range(now_ms() - start_ms, 390, 400 + SLACK_MS);
    daemon_wake(&scene->pool.stores[0]);
    assert_true(wait_until(works, scene, 60));
}

static void store__that_hangs_costs_one_read_its_patience_if_there_is_another_copy(void **state)
{
    struct scene *scene = *state;
    unsigned slow = 0;

    pool_start_store(&scene->pool, 1, "64MiB");
    put_value(scene, "k", 2);
    daemon_freeze(&scene->pool.stores[1]);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t start_ms = now_ms();

        assert_int_equal(get_value(scene, "k", 20000), MOONCAKE_OK);
        slow += now_ms() - start_ms > 900 ? 1 : 0; /* patience is a second */
    }
    assert_true(slow <= 4); /* every second one would meet it */
    daemon_wake(&scene->pool.stores[1]);
}

static void store__that_hangs_is_still_read_by_those_who_share_its_memory(void **state)
{
    struct scene *scene = *state;

    mooncake_client_close(scene->client);
    scene->pool.transport = NULL;
    scene->client = pool_open(&scene->pool, true);
    put_value(scene, "k", 1);
    assert_int_equal(get_value(scene, "k", 2000), MOONCAKE_OK);
    daemon_freeze(&scene->pool.stores[0]);
    assert_int_equal(get_value(scene, "k", 2000), MOONCAKE_OK);
    daemon_wake(&scene->pool.stores[0]);
}

static void store__that_leaves_gracefully_ends_well(void **state)
{
    struct scene *scene = *state;

    put_value(scene, "k", 1);
    assert_int_equal(daemon_stop(&scene->pool.stores[0]), 0);
    assert_int_equal(get_value(scene, "k", 2000), MOONCAKE_ENOENT);
    assert_int_equal(mooncake_put(scene->client, "l", "value", 6, NULL, 2000), MOONCAKE_ENOSPACE);
}

/* ---- the master -------------------------------------------------------------------------- */

static void master__that_died_is_named_and_joined_again_when_it_is_back(void **state)
{
    struct scene *scene = *state;
    bool exists;

    put_value(scene, "k", 1);
    daemon_kill(&scene->pool.master);
    assert_int_equal(get_value(scene, "k", 20000), MOONCAKE_ERPC); /* not its deadline */
    assert_non_null(strstr(mooncake_last_error(), scene->pool.master_address));
    assert_int_equal(mooncake_put(scene->client, "l", "value", 6, NULL, 20000), MOONCAKE_ERPC);
    pool_start_master(&scene->pool, scene->pool.master.port);
    /* The store and the client find it by themselves. */
    assert_true(wait_until(works, scene, 60));
    assert_int_equal(mooncake_exist(scene->client, "k", 0, &exists), MOONCAKE_OK);
    assert_false(exists);
}

static void master__that_hangs_ends_calls_by_their_deadline(void **state)
{
    struct scene *scene = *state;
    const char *keys[] = {"a", "b", "c"};
    mooncake_err results[3];
    uint64_t start_ms;

    put_value(scene, "k", 1);
    daemon_freeze(&scene->pool.master);
    start_ms = now_ms();
    assert_int_equal(get_value(scene, "k", 300), MOONCAKE_ETIMEDOUT);
    assert_int_equal(mooncake_batch_exist(scene->client, keys, 3, 300, results),
                     MOONCAKE_ETIMEDOUT);
    assert_int_equal(results[2], MOONCAKE_ETIMEDOUT);
    assert_in_range(now_ms() - start_ms, 590, 600 + SLACK_MS);
    daemon_wake(&scene->pool.master);
    assert_true(wait_until(works, scene, 60));
}

static void members__outlive_a_master_that_hangs_for_longer_than_their_ttl(void **state)
{
    struct scene *scene = *state;
    uint64_t start_ms = now_ms();

    put_value(scene, "k", 1);
    daemon_freeze(&scene->pool.master);
    while (now_ms() - start_ms < 3000) { /* the TTL is 2 s; each call takes its time */
        assert_int_equal(get_value(scene, "k", 500), MOONCAKE_ETIMEDOUT);
    }
    daemon_wake(&scene->pool.master);
    assert_true(wait_until(works, scene, 60));
    assert_int_equal(get_value(scene, "k", 5000), MOONCAKE_OK);
}

static bool holds_no_more(void *arg)
{
    return count_descriptors() <= *(const unsigned *)arg;
}

/* ---- what outages leave behind ----------------------------------------------------------- */

static void outages__leave_no_descriptors_behind(void **state)
{
    struct scene *scene = *state;
    unsigned before;

    put_value(scene, "k", 1);
    before = count_descriptors() + 4;
    daemon_freeze(&scene->pool.stores[0]);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(get_value(scene, "k", 50), MOONCAKE_ETIMEDOUT);
    }
    daemon_wake(&scene->pool.stores[0]);
    daemon_kill(&scene->pool.master);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_not_equal(get_value(scene, "k", 100), MOONCAKE_OK);
    }
    pool_start_master(&scene->pool, scene->pool.master.port);
    assert_true(wait_until(works, scene, 60));
    assert_true(wait_until(holds_no_more, &before, 60));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(store__that_died_is_an_error_and_a_new_one_is_used),
        TEST(store__that_hangs_ends_calls_by_their_deadline),
        TEST(store__that_hangs_costs_one_read_its_patience_if_there_is_another_copy),
        TEST(store__that_hangs_is_still_read_by_those_who_share_its_memory),
        TEST(store__that_leaves_gracefully_ends_well),
        TEST(master__that_died_is_named_and_joined_again_when_it_is_back),
        TEST(master__that_hangs_ends_calls_by_their_deadline),
        cmocka_unit_test_setup_teardown(
            members__outlive_a_master_that_hangs_for_longer_than_their_ttl, setup_short, teardown),
        TEST(outages__leave_no_descriptors_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
