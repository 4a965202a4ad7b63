/* Values of every kind through a real pool. */
#include "integration/harness.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mooncake/admin.h"

/* A sanitized run moves less: it looks for other things than lengths beyond 32 bits. */
#ifdef MC_TEST_SANITIZED
#define HUGE_PIECE ((size_t)100 << 10)
#else
#define HUGE_PIECE ((size_t)520 << 10)
#endif
#define HUGE_PIECES 4096u

struct scene {
    struct pool pool;
    mooncake_client *client;
};

static struct scene scene;

static int setup(void **state)
{
    (void)state;
    pool_init(&scene.pool);
    pool_start_master(&scene.pool, 0);
    pool_start_store(&scene.pool, 0, "3GiB");
    pool_start_store(&scene.pool, 1, "256MiB");
    scene.client = pool_open(&scene.pool, true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mooncake_client_close(scene.client);
    pool_fini(&scene.pool);
    return 0;
}

static void value__of_every_size_comes_back(void **state)
{
    const size_t sizes[] = {0, 1, 4096, 4097, (size_t)3 << 20};

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t len = sizes[i];
        uint8_t *in = malloc(len + 1), *out = malloc(len + 1);
        uint64_t got = 99;
        char key[32];
        void *fresh = NULL;

        (void)snprintf(key, sizeof(key), "size-%zu", len);
        fill(in, len, i);
        assert_int_equal(mooncake_put(scene.client, key, in, len, NULL, 0), MOONCAKE_OK);
        assert_int_equal(mooncake_get_into(scene.client, key, out, len, 0, &got), MOONCAKE_OK);
        assert_int_equal(got, len);
        assert_true(is_filled(out, len, i));
        assert_int_equal(mooncake_get(scene.client, key, 0, &fresh, &got), MOONCAKE_OK);
        assert_true(is_filled(fresh, len, i));
        assert_int_equal(mooncake_size(scene.client, key, 0, &got), MOONCAKE_OK);
        assert_int_equal(got, len);
        mooncake_free(fresh);
        free(in);
        free(out);
    }
}

/* Pieces of one buffer again and again, so that the test needs little memory; the bytes are proven
 * by the checksum of the whole, which a value beyond 32 bits must get right, and by the last. */
static void value__beyond_31_bits_comes_back(void **state)
{
    mooncake_piece *from = calloc(HUGE_PIECES, sizeof(*from));
    mooncake_space *to = calloc(HUGE_PIECES, sizeof(*to));
    uint8_t *in = malloc(HUGE_PIECE), *out = malloc(HUGE_PIECE);
    uint64_t len = (uint64_t)HUGE_PIECES * HUGE_PIECE, got = 0;

    (void)state;
    fill(in, HUGE_PIECE, 7);
    for (unsigned i = 0; i < HUGE_PIECES; i++) {
        from[i] = (mooncake_piece){.data = in, .len = HUGE_PIECE};
        to[i] = (mooncake_space){.data = out, .len = HUGE_PIECE};
    }
    assert_int_equal(mooncake_put_pieces(scene.client, "huge", from, HUGE_PIECES, NULL, 90000),
                     MOONCAKE_OK);
    assert_int_equal(mooncake_size(scene.client, "huge", 0, &got), MOONCAKE_OK);
    assert_int_equal(got, len);
    got = 0;
    assert_int_equal(mooncake_get_into_pieces(scene.client, "huge", to, HUGE_PIECES, 90000, &got),
                     MOONCAKE_OK);
    assert_int_equal(got, len);
    assert_true(is_filled(out, HUGE_PIECE, 7));
    assert_int_equal(mooncake_remove(scene.client, "huge", true, 0), MOONCAKE_OK);
    free(from);
    free(to);
    free(in);
    free(out);
}

#define MANY 12u
#define MANY_LEN ((size_t)1 << 20)

/* Threads of this process that help to copy. */
static unsigned count_copiers(void)
{
    DIR *dir = opendir("/proc/self/task");
    unsigned count = 0;

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[300], name[16] = "";
        FILE *file;

        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (file != NULL) {
            (void)!fgets(name, sizeof(name), file);
            (void)fclose(file);
            count += strncmp(name, "mc-copy-", 8) == 0 ? 1 : 0;
        }
    }
    (void)closedir(dir);
    return count;
}

static bool no_copiers(void *arg)
{
    (void)arg;
    return count_copiers() == 0;
}

/* The child of a fork has none of the threads: it must be told, and its end must not wait. */
static void expect_harmless_fork(mooncake_client *client, const char *key, void *data)
{
    pid_t child = fork();
    int status = -1;

    assert_true(child >= 0);
    if (child == 0) {
        bool told = mooncake_get_into(client, key, data, MANY_LEN, 0, NULL) != MOONCAKE_OK;

        mooncake_client_close(client);
        _exit(told ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void batch__of_large_values_is_copied_by_threads_that_end_with_the_client(void **state)
{
    uint8_t *in = malloc(MANY * MANY_LEN), *out = malloc(MANY * MANY_LEN);
    char names[MANY][16];
    const char *keys[MANY];
    const void *from[MANY];
    void *to[MANY];
    uint64_t lens[MANY], got[MANY];
    mooncake_err results[MANY];
    mooncake_client_options options;
    mooncake_client *client = NULL;

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "many-%u", i);
        keys[i] = names[i];
        from[i] = in + i * MANY_LEN;
        to[i] = out + i * MANY_LEN;
        lens[i] = MANY_LEN - i;
        fill(in + i * MANY_LEN, lens[i], i);
    }
    mooncake_client_options_init(&options);
    options.master = scene.pool.master_address;
    options.transport = scene.pool.transport;
    options.tool = true;
    options.copy_threads = 2;
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_OK);
    assert_int_equal(count_copiers(), 0);
    assert_int_equal(mooncake_batch_put(client, keys, from, lens, MANY, NULL, 0, results),
                     MOONCAKE_OK);
    assert_int_equal(mooncake_batch_get_into(client, keys, to, lens, MANY, 0, results, got),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(results[i], MOONCAKE_OK);
        assert_int_equal(got[i], lens[i]);
        assert_true(is_filled(to[i], lens[i], i));
    }
    if (scene.pool.transport == NULL) { /* by shared memory */
        assert_int_equal(count_copiers(), 2);
    }
    expect_harmless_fork(client, keys[0], out);
    mooncake_client_close(client);
    assert_true(wait_until(no_copiers, NULL, 60));
    free(in);
    free(out);
}

static void copy_threads__are_off_by_default_on_two_cores(void **state)
{
    mooncake_client_options options;
    cpu_set_t all, two;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&two);
    for (unsigned i = 0; i < CPU_SETSIZE && CPU_COUNT(&two) < 2; i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &two);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof(two), &two), 0);
    mooncake_client_options_init(&options);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(options.copy_threads, 0);
}

static void put__of_more_than_the_pool_holds_is_refused_and_harms_nobody(void **state)
{
    mooncake_piece pieces[2];
    static uint8_t small[4096];
    uint8_t out[4096];
    bool exists;

    (void)state;
    fill(small, sizeof(small), 3);
    assert_int_equal(mooncake_put(scene.client, "small", small, 4096, NULL, 0), MOONCAKE_OK);
    pieces[0] = (mooncake_piece){.data = small, .len = 4096};
    pieces[1] = (mooncake_piece){.data = small, .len = (uint64_t)8 << 30};
    assert_int_equal(mooncake_put_pieces(scene.client, "never", pieces, 2, NULL, 5000),
                     MOONCAKE_ENOSPACE);
    assert_int_equal(mooncake_exist(scene.client, "never", 0, &exists), MOONCAKE_OK);
    assert_false(exists);
    assert_int_equal(mooncake_get_into(scene.client, "small", out, 4096, 0, NULL), MOONCAKE_OK);
    assert_true(is_filled(out, 4096, 3));
}

static void remove__respects_leases_unless_forced(void **state)
{
    char out[8];

    (void)state;
    assert_int_equal(mooncake_put(scene.client, "leased", "value", 6, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_get_into(scene.client, "leased", out, 8, 0, NULL), MOONCAKE_OK);
    assert_int_equal(mooncake_remove(scene.client, "leased", false, 0), MOONCAKE_ELEASED);
    assert_int_equal(mooncake_get_into(scene.client, "leased", out, 8, 0, NULL), MOONCAKE_OK);
    assert_int_equal(mooncake_remove(scene.client, "leased", true, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_get_into(scene.client, "leased", out, 8, 0, NULL), MOONCAKE_ENOENT);
}

/* ---- copies ------------------------------------------------------------------------------ */

static void see_key(void *arg, const mooncake_key_status *status)
{
    char *segments = arg;

    assert_string_equal(status->state, "readable");
    assert_int_equal(status->replicas, 2);
    assert_int_equal(status->extents_count, 2);
    (void)snprintf(segments, 200, "%s|%s", status->extents[0].segment, status->extents[1].segment);
    assert_string_not_equal(status->extents[0].segment, status->extents[1].segment);
}

static void copies__lie_in_different_segments_and_outlive_one_store(void **state)
{
    mooncake_put_options options;
    char segments[200] = "";
    uint8_t in[5000], out[5000];

    (void)state;
    pool_start_store(&scene.pool, 2, "64MiB");
    mooncake_put_options_init(&options);
    options.replicas = 2;
    fill(in, sizeof(in), 11);
    assert_int_equal(mooncake_put(scene.client, "two", in, sizeof(in), &options, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_admin_key(scene.client, "two", 0, see_key, segments), MOONCAKE_OK);
    for (unsigned i = 0; i < 3; i++) { /* whichever store goes, a copy is left */
        char port[16];

        (void)snprintf(port, sizeof(port), ":%u", (unsigned)scene.pool.stores[i].port);
        if (strstr(segments, port) != NULL) {
            daemon_kill(&scene.pool.stores[i]);
            break;
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        memset(out, 0, sizeof(out));
        assert_int_equal(mooncake_get_into(scene.client, "two", out, sizeof(out), 5000, NULL),
                         MOONCAKE_OK);
        assert_true(is_filled(out, sizeof(out), 11));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value__of_every_size_comes_back),
        cmocka_unit_test(batch__of_large_values_is_copied_by_threads_that_end_with_the_client),
        cmocka_unit_test(copy_threads__are_off_by_default_on_two_cores),
        cmocka_unit_test(value__beyond_31_bits_comes_back),
        cmocka_unit_test(put__of_more_than_the_pool_holds_is_refused_and_harms_nobody),
        cmocka_unit_test(remove__respects_leases_unless_forced),
        cmocka_unit_test(copies__lie_in_different_segments_and_outlive_one_store),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
