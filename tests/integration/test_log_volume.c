/* What a bad hour writes into the logs: little, each repeated class with its count, and no keys. */
#include "integration/harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 500u
#define MISSES 10000u
#define DUPLICATES 10000u
#define REFUSED 1000u
#define DEAD_SECONDS 8u /* for a minute; what it writes grows more slowly than time */
#define LINES_MAX 100u
#define SECRET "confidential"

struct scene {
    struct pool pool;
    mooncake_client *client;
    char ours[96]; /* file that has this process' standard error */
    int stderr_before;
    long starts[4]; /* lengths of the logs when the pool had started */
};

static const char *log_of(struct scene *scene, unsigned which)
{
    return which == 0   ? scene->pool.master.log
           : which == 3 ? scene->ours
                        : scene->pool.stores[which - 1].log;
}

static int setup(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    int fd;

    assert_non_null(scene);
    pool_init(&scene->pool);
    scene->pool.master_args[0] = "--client_ttl=3";
    scene->pool.master_args[1] = "--metric_report_interval=60";
    scene->pool.transport = "tcp";
    pool_start_master(&scene->pool, 0);
    pool_start_store(&scene->pool, 0, "16MiB");
    pool_start_store(&scene->pool, 1, "16MiB");
    (void)snprintf(scene->ours, sizeof(scene->ours), "%s/client.log", scene->pool.dir);
    fd = open(scene->ours, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(fd >= 0);
    scene->stderr_before = dup(STDERR_FILENO);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    (void)close(fd);
    for (unsigned i = 0; i < 4; i++) {
        FILE *file = fopen(log_of(scene, i), "r");

        assert_non_null(file);
        assert_int_equal(fseek(file, 0, SEEK_END), 0);
        scene->starts[i] = ftell(file);
        (void)fclose(file);
    }
    scene->client = pool_open(&scene->pool, true);
    *state = scene;
    return 0;
}

static int teardown(void **state)
{
    struct scene *scene = *state;

    mooncake_client_close(scene->client);
    (void)dup2(scene->stderr_before, STDERR_FILENO);
    (void)close(scene->stderr_before);
    (void)unlink(scene->ours);
    pool_fini(&scene->pool);
    free(scene);
    return 0;
}

struct keys {
    char text[BATCH][64];
    const char *list[BATCH];
};

static void name_keys(struct keys *keys, const char *kind, unsigned round)
{
    for (unsigned i = 0; i < BATCH; i++) {
        (void)snprintf(keys->text[i], sizeof(keys->text[i]), SECRET "/%s/%u/%u", kind, round, i);
        keys->list[i] = keys->text[i];
    }
}

static void miss(struct scene *scene, struct keys *keys)
{
    void *data[BATCH];
    uint64_t lens[BATCH];
    mooncake_err results[BATCH];

    for (unsigned round = 0; round < MISSES / BATCH; round++) {
        name_keys(keys, "miss", round);
        assert_int_equal(
            mooncake_batch_get(scene->client, keys->list, BATCH, 0, results, data, lens),
            MOONCAKE_OK);
        for (unsigned i = 0; i < BATCH; i++) {
            assert_int_equal(results[i], MOONCAKE_ENOENT);
        }
    }
}

static void put_twice(struct scene *scene, struct keys *keys)
{
    const void *data[BATCH];
    uint64_t lens[BATCH];
    mooncake_err results[BATCH];

    name_keys(keys, "kept", 0);
    for (unsigned i = 0; i < BATCH; i++) {
        data[i] = "value";
        lens[i] = 5;
    }
    for (unsigned round = 0; round <= DUPLICATES / BATCH; round++) {
        assert_int_equal(
            mooncake_batch_put(scene->client, keys->list, data, lens, BATCH, NULL, 0, results),
            MOONCAKE_OK);
        for (unsigned i = 0; i < BATCH; i++) {
            assert_int_equal(results[i], round == 0 ? MOONCAKE_OK : MOONCAKE_EEXIST);
        }
    }
}

static void put_refused(struct scene *scene)
{
    const uint64_t len = 64u << 20;
    void *data = calloc(1, len);

    assert_non_null(data);
    for (unsigned i = 0; i < REFUSED; i++) {
        char key[64];

        (void)snprintf(key, sizeof(key), SECRET "/huge/%u", i);
        assert_int_equal(mooncake_put(scene->client, key, data, len, NULL, 0), MOONCAKE_ENOSPACE);
    }
    free(data);
}

/* One store is gone, and everybody goes on asking for what it had and putting more. */
static void outlive_a_peer(struct scene *scene, struct keys *keys)
{
    uint64_t end_ms = now_ms() + DEAD_SECONDS * 1000u;
    unsigned round = 0;

    name_keys(keys, "kept", 0);
    daemon_kill(&scene->pool.stores[1]);
    while (now_ms() < end_ms) {
        char key[64], value[8];
        uint64_t len;

        (void)mooncake_get_into(scene->client, keys->list[round % BATCH], value, sizeof(value), 500,
                                &len);
        (void)snprintf(key, sizeof(key), SECRET "/later/%u", round++);
        (void)mooncake_put(scene->client, key, "v", 1, NULL, 500);
    }
}

struct count {
    unsigned lines, warnings, errors, keys;
};

/* Lines that were written since the start, told on the standard output. */
static struct count count_lines(struct scene *scene)
{
    struct count count = {0};
    char line[2048];

    for (unsigned i = 0; i < 4; i++) {
        FILE *file = fopen(log_of(scene, i), "r");

        assert_non_null(file);
        assert_int_equal(fseek(file, scene->starts[i], SEEK_SET), 0);
        while (fgets(line, sizeof(line), file) != NULL) {
            count.lines++;
            count.warnings += strstr(line, "Z W ") != NULL ? 1u : 0u;
            count.errors += strstr(line, "Z E ") != NULL ? 1u : 0u;
            count.keys += strstr(line, SECRET) != NULL ? 1u : 0u;
            (void)printf("%u: %s", i, line);
        }
        (void)fclose(file);
    }
    return count;
}

static void logs__stay_short_without_keys_and_calm_when_nothing_is_wrong(void **state)
{
    struct scene *scene = *state;
    struct keys *keys = calloc(1, sizeof(*keys));
    struct count count;

    assert_non_null(keys);
    miss(scene, keys);
    put_twice(scene, keys);
    put_refused(scene);
    count = count_lines(scene);
    assert_int_equal(count.warnings + count.errors, 0); /* all of it was normal */
    assert_true(count.lines < 20);
    outlive_a_peer(scene, keys);
    count = count_lines(scene);
    free(keys);
    assert_true(count.lines > 0); /* somebody has told of the dead store */
    assert_true(count.lines < LINES_MAX);
    assert_int_equal(count.errors, 0);
    assert_int_equal(count.keys, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            logs__stay_short_without_keys_and_calm_when_nothing_is_wrong, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
