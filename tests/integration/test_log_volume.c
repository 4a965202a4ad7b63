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
/* A minute on a smaller scale: a dead store is given up after 3 s instead of 10. What is written
 * until then is counted as often as it fits into those 10 s, what is written afterwards as often as
 * it fits into the rest of the minute. */
#define GONE_MS 4000u
#define TTL_USUAL_MS 10000u
#define MINUTE_MS 60000u
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
    scene->pool.master_args[1] = "--metric_report_interval=2";
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

/* Everybody goes on asking for what the lost store had, and putting more. */
static void go_on(struct scene *scene, struct keys *keys)
{
    static unsigned round;
    char key[64], value[8];
    uint64_t len;

    (void)mooncake_get_into(scene->client, keys->list[round % BATCH], value, sizeof(value), 500,
                            &len);
    (void)snprintf(key, sizeof(key), SECRET "/later/%u", round++);
    (void)mooncake_put(scene->client, key, "v", 1, NULL, 500);
}

struct count {
    unsigned lines, warnings, errors, keys;
    unsigned expired; /* members, by the master's words */
    unsigned summaries;
    unsigned long long hits, lookups, rejected, existing; /* of the last summary */
    unsigned long long failures;                          /* told by client.transfer */
    unsigned transfers;
};

/* The number behind @p name, if it is there. */
static void read_number(const char *line, const char *name, unsigned long long *out)
{
    const char *at = strstr(line, name);

    if (at != NULL) {
        *out = strtoull(at + strlen(name), NULL, 10);
    }
}

static void count_classes(const char *line, struct count *count)
{
    const char *hits = strstr(line, " | Hits: ");
    unsigned long long failures = 0;

    if (strstr(line, " client.transfer ") != NULL) {
        count->transfers++;
        read_number(line, " failures=", &failures);
        count->failures += failures;
    }
    if (hits != NULL) {
        count->summaries++;
        read_number(line, " | Hits: ", &count->hits);
        read_number(hits + 9, " / ", &count->lookups);
        read_number(line, " | Puts rejected: ", &count->rejected);
        read_number(line, " | Puts of existing keys: ", &count->existing);
    }
}

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
            if (strstr(line, " core.stalled ") != NULL) {
                continue; /* the machine stood still, and that is nothing usual */
            }
            count.lines++;
            count.expired += strstr(line, " member.expired ") != NULL ? 1u : 0u;
            count.warnings += strstr(line, "Z W ") != NULL ? 1u : 0u;
            count.errors += strstr(line, "Z E ") != NULL ? 1u : 0u;
            count.keys += strstr(line, SECRET) != NULL ? 1u : 0u;
            count_classes(line, &count);
        }
        (void)fclose(file);
    }
    return count;
}

static bool is_told(void *arg)
{
    return count_lines(arg).rejected >= REFUSED;
}

/* The summaries, once they tell of all this: each class with its count. */
static struct count wait_for_summary(struct scene *scene)
{
    assert_true(wait_until(is_told, scene, 60));
    return count_lines(scene);
}

struct death {
    struct scene *scene;
    struct keys *keys;
    struct count seen;
};

static bool is_given_up(void *arg)
{
    struct death *death = arg;

    for (unsigned i = 0; i < 20; i++) {
        go_on(death->scene, death->keys);
    }
    death->seen = count_lines(death->scene);
    return death->seen.expired > 0;
}

static void logs__stay_short_without_keys_and_calm_when_nothing_is_wrong(void **state)
{
    struct scene *scene = *state;
    struct keys *keys = calloc(1, sizeof(*keys));
    struct death death = {.scene = scene, .keys = keys};
    struct count normal, dying, gone;
    uint64_t dead_ms, given_up_ms, end_ms;
    unsigned long long lines;

    assert_non_null(keys);
    miss(scene, keys);
    put_twice(scene, keys);
    put_refused(scene);
    normal = wait_for_summary(scene);
    assert_int_equal(normal.warnings + normal.errors, 0); /* all of it was normal */
    assert_true(normal.lines - normal.summaries < 10);
    assert_int_equal(normal.lookups - normal.hits, MISSES);
    assert_int_equal(normal.existing, DUPLICATES);
    assert_int_equal(normal.rejected, REFUSED);
    name_keys(keys, "kept", 0);
    daemon_kill(&scene->pool.stores[1]);
    dead_ms = now_ms();
    assert_true(wait_until(is_given_up, &death, 60));
    dying = death.seen;
    given_up_ms = now_ms();
    do {
        go_on(scene, keys);
        end_ms = now_ms();
    } while (end_ms - given_up_ms < GONE_MS);
    gone = count_lines(scene);
    free(keys);
    assert_true(dying.lines > normal.lines); /* somebody has told of the dead store */
    assert_int_equal(gone.errors, 0);
    assert_int_equal(gone.keys, 0);
    assert_true(gone.transfers > 0 && gone.failures >= gone.transfers);
    lines = normal.lines - normal.summaries;
    lines += (dying.lines - dying.summaries - lines) * TTL_USUAL_MS / (given_up_ms - dead_ms);
    lines += (gone.lines - gone.summaries - (dying.lines - dying.summaries)) *
             (MINUTE_MS - TTL_USUAL_MS) / (end_ms - given_up_ms);
    lines += MINUTE_MS / 10000; /* the usual time between two summaries */
    (void)printf("lines: %u normal, %u with a dead store, %u when it was given up: %llu a minute; "
                 "%llu failed reads in %u lines\n",
                 normal.lines, dying.lines, gone.lines, lines, gone.failures, gone.transfers);
    assert_true(lines < LINES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            logs__stay_short_without_keys_and_calm_when_nothing_is_wrong, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
