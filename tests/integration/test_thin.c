/* A thin client by the C library: the pool's memory, and what is refused. */
#include "harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define THREADS 8u
#define TAKES 64u
#define TAKE_LEN 5000u /* two pages */

static struct pool pool;
static char server[32];

static int set_up(void **state)
{
    const char *const flags[] = {"--segment=64MiB", "--serve_clients", "--serve_port=0",
                                 "--grace=0", NULL};

    (void)state;
    pool_init(&pool);
    pool_start_master(&pool, 0);
    pool_launch_store(&pool, 0, flags);
    daemon_await(&pool.stores[0], "data_port");
    (void)snprintf(server, sizeof(server), "127.0.0.1:%u",
                   (unsigned)daemon_port(&pool.stores[0], "serve_port"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pool_fini(&pool);
    return 0;
}

static mooncake_err open_thin(const char *address, uint64_t pool_size, mooncake_client **out)
{
    mooncake_client_options options;

    mooncake_client_options_init(&options);
    options.server = address;
    options.pool_size = pool_size;
    return mooncake_client_open(&options, out);
}

static void thin__open_with_bad_options_says_why(void **state)
{
    mooncake_client *const before = (mooncake_client *)0x1;
    mooncake_client *client = before;

    (void)state;
    assert_int_equal(open_thin(NULL, MIB, &client), MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "server"));
    assert_int_equal(open_thin("", 0, &client), MOONCAKE_EINVAL);
    assert_int_equal(open_thin(pool.master_address, 0, &client), MOONCAKE_ENOTSUP);
    assert_non_null(strstr(mooncake_last_error(), "does not serve thin clients"));
    assert_int_equal(open_thin("127.0.0.1:1", 0, &client), MOONCAKE_ERPC);
    assert_non_null(strstr(mooncake_last_error(), "127.0.0.1:1"));
    assert_int_equal(open_thin(server, 1, &client), MOONCAKE_EINVAL);
    assert_int_equal(open_thin(server, UINT64_MAX, &client), MOONCAKE_ENOSPACE);
    assert_non_null(strstr(mooncake_last_error(), "pools_max"));
    assert_ptr_equal(client, before);
}

static void thin__pool_alloc_without_a_pool_is_refused(void **state)
{
    void *data = &data;
    mooncake_client *client;

    (void)state;
    assert_int_equal(mooncake_pool_alloc(NULL, 1, &data), MOONCAKE_EINVAL);
    assert_int_equal(open_thin(server, 0, &client), MOONCAKE_OK);
    assert_int_equal(mooncake_pool_alloc(client, 1, &data), MOONCAKE_EMODE);
    mooncake_client_close(client);
    client = pool_open(&pool, true);
    assert_int_equal(mooncake_pool_alloc(client, 1, &data), MOONCAKE_EMODE);
    assert_ptr_equal(data, &data);
    mooncake_client_close(client);
}

struct taker {
    mooncake_client *client;
    unsigned number;
    unsigned char *taken[TAKES];
    unsigned count;
};

/* Takes until nothing is left, marks each piece, and puts the last one. */
static void *take(void *arg)
{
    struct taker *taker = arg;
    char key[32];
    void *data;

    while (taker->count < TAKES &&
           mooncake_pool_alloc(taker->client, TAKE_LEN, &data) == MOONCAKE_OK) {
        memset(data, (int)(taker->number + 1), TAKE_LEN);
        taker->taken[taker->count++] = data;
    }
    if (taker->count > 0) {
        (void)snprintf(key, sizeof(key), "thread %u", taker->number);
        data = taker->taken[taker->count - 1];
        if (mooncake_put(taker->client, key, data, TAKE_LEN, NULL, 0) != MOONCAKE_OK) {
            taker->count = 0; /* the check below fails */
        }
    }
    return NULL;
}

static bool holds(const struct taker *taker)
{
    for (unsigned i = 0; i < taker->count; i++) {
        for (unsigned at = 0; at < TAKE_LEN; at++) {
            if (taker->taken[i][at] != taker->number + 1) {
                return false;
            }
        }
    }
    return true;
}

static void thin__threads_share_a_pool_and_no_piece_of_it(void **state)
{
    const uint64_t pool_len = THREADS * TAKES / 2 * 8192; /* half of what they would take */
    struct taker takers[THREADS];
    pthread_t threads[THREADS];
    unsigned char read[TAKE_LEN];
    mooncake_client *client, *other = pool_open(&pool, true);
    unsigned total = 0;
    uint64_t len;
    void *data;

    (void)state;
    assert_int_equal(open_thin(server, pool_len, &client), MOONCAKE_OK);
    for (unsigned i = 0; i < THREADS; i++) {
        takers[i] = (struct taker){.client = client, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, take, &takers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        char key[32];

        total += takers[i].count;
        assert_true(holds(&takers[i]));
        (void)snprintf(key, sizeof(key), "thread %u", i);
        if (takers[i].count > 0) {
            assert_int_equal(mooncake_get_into(other, key, read, sizeof(read), 0, &len),
                             MOONCAKE_OK);
            assert_int_equal(read[TAKE_LEN - 1], i + 1);
        }
    }
    assert_int_equal(total, pool_len / 8192);
    assert_int_equal(mooncake_pool_alloc(client, 1, &data), MOONCAKE_ENOSPACE);
    assert_int_equal(mooncake_pool_alloc(client, 0, &data), MOONCAKE_EINVAL);
    assert_int_equal(mooncake_pool_alloc(client, UINT64_MAX, &data), MOONCAKE_ENOSPACE);
    mooncake_client_close(client);
    mooncake_client_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thin__open_with_bad_options_says_why),
        cmocka_unit_test(thin__pool_alloc_without_a_pool_is_refused),
        cmocka_unit_test(thin__threads_share_a_pool_and_no_piece_of_it),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
