/* The daemon mooncake_store: its options, names, signals. */
#include "integration/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mooncake/admin.h"

struct scene {
    struct pool pool;
    mooncake_client *client; /* NULL: not opened */
};

static int setup_with(void **state, const char *master_arg)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    pool_init(&scene->pool);
    scene->pool.master_args[0] = master_arg;
    pool_start_master(&scene->pool, 0);
    *state = scene;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, "--client_ttl=2");
}

static int setup_local_first(void **state)
{
    return setup_with(state, "--placement=local_first");
}

static int teardown(void **state)
{
    struct scene *scene = *state;

    mooncake_client_close(scene->client);
    pool_fini(&scene->pool);
    free(scene);
    return 0;
}

static bool has_ended(void *arg)
{
    struct daemon *daemon = arg;
    int status = -1;

    if (daemon_runs(daemon, &status)) {
        return false;
    }
    daemon->port = (uint16_t)status; /* told to the caller this way */
    return true;
}

/* The exit status of a daemon that ends by itself. */
static int await_end(struct daemon *daemon)
{
    assert_true(wait_until(has_ended, daemon, 60));
    return (int16_t)daemon->port;
}

static bool log_has(const struct daemon *daemon, const char *text)
{
    FILE *file = fopen(daemon->log, "re");
    char line[1024];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        found = strstr(line, text) != NULL;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

/* ---- bad options ------------------------------------------------------------------------- */

static void store__with_an_option_that_is_wrong_ends_and_names_it(void **state)
{
    struct scene *scene = *state;
    const char *const wrong[][3] = {
        {"--segment=0", "segment"},
        {"--segment=lots", "segment"},
        {"--segment=1KiB", "segment"},
        {"--segment=16MiB", "--data_address=nowhere", "data_address"},
        {"--segment=16MiB", "--log_level=loud", "log_level"},
        {"--segment=16MiB", "--loops=17", "loops"},
        {"--segment=16MiB", "--wings=2", "wings"},
        {"--log_level=info", "segment"},
    };

    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        bool two = wrong[i][2] != NULL;
        const char *flags[] = {wrong[i][0], two ? wrong[i][1] : NULL, NULL};

        pool_launch_store(&scene->pool, 0, flags);
        assert_int_equal(await_end(&scene->pool.stores[0]), 2);
        if (!log_has(&scene->pool.stores[0], two ? wrong[i][2] : wrong[i][1])) {
            fail_msg("%s: the log does not name the option", wrong[i][0]);
        }
        (void)remove(scene->pool.stores[0].log);
    }
}

/* ---- segments and names ------------------------------------------------------------------ */

struct seen {
    unsigned count, numbered;
    uint64_t len;
};

static void see_segment(void *arg, const mooncake_segment_status *segment)
{
    struct seen *seen = arg;

    seen->count++;
    seen->len += segment->len;
    seen->numbered += strcmp(segment->name, "box:1") == 0 ||
                              strcmp(segment->name, "box:1/1") == 0 ||
                              strcmp(segment->name, "box:1/2") == 0
                          ? 1
                          : 0;
    assert_string_equal(segment->host, "box");
    assert_string_equal(segment->state, "ok");
    assert_non_null(strstr(segment->addresses, "tcp://127.0.0.1:"));
}

static bool has_said_where(void *arg)
{
    return log_has(arg, "box:1, data port");
}

static void store__lends_several_segments_under_one_name(void **state)
{
    struct scene *scene = *state;
    const char *flags[] = {"--segment=16MiB", "--segment=32MiB", "--segment=1MiB",   "--name=box:1",
                           "--grace=0",       "--loops=3",       "--log_level=warn", NULL};
    struct seen seen = {0};

    pool_launch_store(&scene->pool, 0, flags);
    daemon_await(&scene->pool.stores[0], "data_port");
    scene->client = pool_open(&scene->pool, false);
    assert_int_equal(mooncake_admin_segments(scene->client, 0, see_segment, &seen), MOONCAKE_OK);
    assert_int_equal(seen.count, 3);
    assert_int_equal(seen.numbered, 3);
    assert_int_equal(seen.len, 49 << 20);
    assert_true(wait_until(has_said_where, &scene->pool.stores[0], 60));
}

static void see_place(void *arg, const mooncake_key_status *key)
{
    assert_int_equal(key->extents_count, 1);
    (void)snprintf(arg, 64, "%s", key->extents[0].segment);
}

static void placement__local_first_takes_the_segment_on_the_writers_host(void **state)
{
    static const char *const names[] = {"--name=near:1", "--name=far:1"};
    struct scene *scene = *state;
    mooncake_client_options options;
    char key[16], place[64];

    for (unsigned i = 0; i < 2; i++) {
        const char *flags[] = {"--segment=16MiB", names[i], "--grace=0", NULL};

        pool_launch_store(&scene->pool, i, flags);
        daemon_await(&scene->pool.stores[i], "data_port");
    }
    mooncake_client_options_init(&options);
    options.master = scene->pool.master_address;
    options.local_hostname = "near";
    assert_int_equal(mooncake_client_open(&options, &scene->client), MOONCAKE_OK);
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(key, sizeof(key), "k-%u", i);
        assert_int_equal(mooncake_put(scene->client, key, key, sizeof(key), NULL, 0), MOONCAKE_OK);
        assert_int_equal(mooncake_admin_key(scene->client, key, 0, see_place, place), MOONCAKE_OK);
        assert_string_equal(place, "near:1");
    }
}

static void store__that_was_killed_takes_its_name_again_when_the_old_mount_has_ended(void **state)
{
    struct scene *scene = *state;
    const char *flags[] = {"--segment=16MiB", "--name=box:1", "--grace=0", NULL};

    pool_launch_store(&scene->pool, 0, flags);
    daemon_await(&scene->pool.stores[0], "data_port");
    daemon_kill(&scene->pool.stores[0]);
    pool_launch_store(&scene->pool, 1, flags);
    daemon_await(&scene->pool.stores[1], "data_port");
    scene->client = pool_open(&scene->pool, false);
    assert_int_equal(mooncake_put(scene->client, "k", "value", 6, NULL, 5000), MOONCAKE_OK);
}

/* ---- signals ----------------------------------------------------------------------------- */

static void store__without_a_master_waits_and_ends_when_told(void **state)
{
    struct scene *scene = *state;
    const char *flags[] = {"--segment=16MiB", NULL};
    struct stat unused;
    uint64_t start_ms;
    int status;

    assert_int_equal(daemon_stop(&scene->pool.master), 0);
    pool_launch_store(&scene->pool, 0, flags);
    start_ms = now_ms();
    while (now_ms() - start_ms < 1500) {
        assert_true(daemon_runs(&scene->pool.stores[0], &status));
    }
    assert_int_not_equal(stat(scene->pool.stores[0].port_file, &unused), 0);
    assert_int_equal(daemon_stop(&scene->pool.stores[0]), 0);
    assert_true(now_ms() - start_ms < 30000);
    /* And one that is not told joins when the master comes. */
    pool_launch_store(&scene->pool, 1, flags);
    pool_start_master(&scene->pool, scene->pool.master.port);
    daemon_await(&scene->pool.stores[1], "data_port");
    start_ms = now_ms();
    assert_int_equal(daemon_stop(&scene->pool.stores[1]), 0);
    assert_in_range(now_ms() - start_ms, 2900, 30000); /* the default grace */
}

static bool is_draining(void *arg)
{
    struct scene *scene = arg;
    static unsigned tries;
    char key[32];

    (void)snprintf(key, sizeof(key), "probe-%u", tries++);
    return mooncake_put(scene->client, key, "v", 1, NULL, 1000) == MOONCAKE_ENOSPACE;
}

static void store__that_leaves_serves_reads_until_its_grace_is_over(void **state)
{
    struct scene *scene = *state;
    const char *flags[] = {"--segment=16MiB", "--grace=60", NULL};
    struct daemon *store = &scene->pool.stores[0];
    char out[6] = "";
    uint64_t start_ms;

    pool_launch_store(&scene->pool, 0, flags);
    daemon_await(store, "data_port");
    scene->client = pool_open(&scene->pool, false);
    assert_int_equal(mooncake_put(scene->client, "k", "value", 6, NULL, 5000), MOONCAKE_OK);
    assert_int_equal(kill(store->pid, SIGTERM), 0);
    assert_true(wait_until(is_draining, scene, 60));
    assert_int_equal(mooncake_get_into(scene->client, "k", out, 6, 5000, NULL), MOONCAKE_OK);
    assert_string_equal(out, "value");
    start_ms = now_ms();
    assert_int_equal(daemon_stop(store), 0); /* the second signal: no more waiting */
    assert_true(now_ms() - start_ms < 30000);
    assert_int_equal(mooncake_get_into(scene->client, "k", out, 6, 5000, NULL), MOONCAKE_ENOENT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(store__with_an_option_that_is_wrong_ends_and_names_it),
        TEST(store__lends_several_segments_under_one_name),
        cmocka_unit_test_setup_teardown(
            placement__local_first_takes_the_segment_on_the_writers_host, setup_local_first,
            teardown),
        TEST(store__that_was_killed_takes_its_name_again_when_the_old_mount_has_ended),
        TEST(store__without_a_master_waits_and_ends_when_told),
        TEST(store__that_leaves_serves_reads_until_its_grace_is_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
