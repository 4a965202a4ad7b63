/* Promises about descriptors: nobody takes away what is promised, and nobody waits for nothing. */
#include "master/pool.h"

#define LEN 1000u
#define WINDOW_MS 400u

static void opened_with(struct pool *pool, uint64_t reuse_ms)
{
    pool_options(pool);
    pool->options.reuse_ms = reuse_ms;
    pool_open(pool);
    (void)pool_mount(pool, "a:1", "host-a", 1, MIB);
    assert_int_equal(pool_put(pool, "k", LEN), MOONCAKE_OK);
    pool_advance(pool, 2 * WINDOW_MS); /* past what the start keeps waiting */
}

static void opened(struct pool *pool)
{
    opened_with(pool, WINDOW_MS);
}

/* Exist with descriptors; how long they may be used, 0 if the key's are not told. */
static uint64_t ask(struct pool *pool, const char *key)
{
    struct mc_key const keys[1] = {pool_key(key)};
    struct mc_keys_request const request = {.keys = keys, .count = 1, .descriptors = true};
    struct mc_exist_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_exist(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    assert_true(reply.table.count == 0 || reply.table.count == 1);
    assert_int_equal(reply.table.count > 0, reply.reuse_ms > 0);
    if (reply.table.count == 0 || reply.table.objects[0].replicas_count == 0) {
        return 0;
    }
    assert_int_equal(reply.statuses[0], MOONCAKE_OK);
    assert_int_equal(reply.table.objects[0].value_len, LEN);
    return reply.reuse_ms;
}

static uint64_t remove_wait(struct pool *pool, const char *key, bool force)
{
    struct mc_key const keys[2] = {pool_key("none"), pool_key(key)};
    struct mc_keys_request const request = {.keys = keys, .count = 2, .force = force};

    return mc_core_remove_wait_ms(pool->core, &request);
}

static uint64_t end_wait(struct pool *pool, const char *key, uint64_t attempt)
{
    struct mc_key const keys[1] = {pool_key(key)};
    struct mc_put_end_request const request = {
        .client_id = WRITER, .keys = keys, .attempts = &attempt, .count = 1};

    return mc_core_put_end_wait_ms(pool->core, &request);
}

static void reuse__a_forced_removal_waits_for_the_promise_and_no_longer(void **state)
{
    struct pool pool;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_query(&pool, "k").status, MOONCAKE_OK);
    assert_int_equal(pool_exist(&pool, "k", NULL), MOONCAKE_OK);
    assert_int_equal(remove_wait(&pool, "k", true), 0); /* nothing was promised */
    assert_int_equal(ask(&pool, "k"), WINDOW_MS);
    assert_int_equal(remove_wait(&pool, "k", false), 0); /* refused at once, by the lease */
    assert_int_equal(remove_wait(&pool, "none", true), 0);
    pool_advance(&pool, 100);
    assert_in_range(remove_wait(&pool, "k", true), WINDOW_MS - 100, WINDOW_MS);
    assert_int_equal(ask(&pool, "k"), 0); /* somebody waits */
    assert_int_equal(pool_exist(&pool, "k", NULL), MOONCAKE_OK);
    pool_advance(&pool, WINDOW_MS);
    assert_int_equal(remove_wait(&pool, "k", true), 0);
    assert_int_equal(pool_remove(&pool, "k", true), MOONCAKE_OK);
    pool_close(&pool);
}

static void reuse__the_end_of_a_replacement_waits_and_others_do_not(void **state)
{
    struct pool pool;
    struct wish const upsert = {.upsert = true};
    struct started put, other;

    (void)state;
    opened(&pool);
    put = pool_start(&pool, "k", LEN, &upsert);
    assert_int_equal(put.status, MOONCAKE_OK);
    assert_int_equal(end_wait(&pool, "k", put.attempt), 0);
    assert_int_equal(ask(&pool, "k"), WINDOW_MS);
    assert_int_equal(end_wait(&pool, "k", put.attempt + 1), 0); /* will be refused */
    assert_in_range(end_wait(&pool, "k", put.attempt), WINDOW_MS - 1, WINDOW_MS);
    other = pool_start(&pool, "new", LEN, NULL);
    assert_int_equal(end_wait(&pool, "new", other.attempt), 0);
    pool_advance(&pool, WINDOW_MS);
    assert_int_equal(end_wait(&pool, "k", put.attempt), 0);
    assert_int_equal(pool_end(&pool, "k", put.attempt, 0), MOONCAKE_OK);
    assert_int_equal(ask(&pool, "k"), WINDOW_MS); /* the new version is another */
    pool_close(&pool);
}

static void reuse__a_promise_is_at_most_half_a_lease_and_may_be_off(void **state)
{
    struct pool pool;

    (void)state;
    opened_with(&pool, 60000);
    assert_int_equal(ask(&pool, "k"), pool.options.lease_ms / 2);
    pool_close(&pool);
    opened_with(&pool, 0);
    assert_int_equal(ask(&pool, "k"), 0);
    assert_int_equal(pool_exist(&pool, "k", NULL), MOONCAKE_OK);
    assert_int_equal(remove_wait(&pool, "k", true), 0);
    pool_close(&pool);
}

static void reuse__asking_so_is_a_read(void **state)
{
    struct pool pool;

    (void)state;
    opened(&pool);
    for (unsigned i = 0; i < 10; i++) { /* far beyond what asking alone may prolong */
        assert_int_equal(ask(&pool, "k"), WINDOW_MS);
        assert_int_equal(pool_remove(&pool, "k", false), MOONCAKE_ELEASED);
        pool_advance(&pool, 1500);
    }
    pool_close(&pool);
}

static void on_removed(void *arg, mooncake_err err, const struct mc_remove_all_reply *reply)
{
    int64_t *removed = arg;

    assert_int_equal(err, MOONCAKE_OK);
    *removed = (int64_t)reply->removed;
}

static void reuse__removal_of_everything_waits_and_keeps_promises_away(void **state)
{
    struct mc_remove_all_request const gentle = {.force = false}, force = {.force = true};
    int64_t removed = -1;
    struct pool pool;

    (void)state;
    opened(&pool);
    assert_int_equal(ask(&pool, "k"), WINDOW_MS);
    assert_int_equal(mc_core_remove_all(pool.core, &gentle, on_removed, &removed), MOONCAKE_OK);
    assert_int_equal(removed, 0); /* leased */
    removed = -1;
    assert_int_equal(mc_core_remove_all(pool.core, &force, on_removed, &removed), MOONCAKE_OK);
    for (unsigned ms = 0; ms < WINDOW_MS; ms += 50) {
        assert_int_equal(removed, -1);
        assert_true(pool_has(&pool, "k"));
        assert_int_equal(ask(&pool, "k"), 0);
        pool_advance(&pool, 50);
    }
    assert_int_equal(removed, 1);
    assert_false(pool_has(&pool, "k"));
    assert_int_equal(pool_put(&pool, "k", LEN), MOONCAKE_OK);
    assert_int_equal(ask(&pool, "k"), WINDOW_MS);
    pool_advance(&pool, WINDOW_MS);
    assert_int_equal(mc_core_remove_all(pool.core, &force, on_removed, &removed), MOONCAKE_OK);
    assert_int_equal(removed, 1); /* nothing to wait for */
    pool_close(&pool);
}

static void reuse__keys_that_were_lost_get_no_value_while_they_are_promised(void **state)
{
    struct pool pool;
    struct started put;
    uint64_t mount;

    (void)state;
    opened(&pool);
    mount = pool_mount(&pool, "b:1", "host-b", 2, MIB);
    put = pool_start(&pool, "new", LEN, NULL);
    assert_int_equal(ask(&pool, "k"), WINDOW_MS);
    assert_int_equal(end_wait(&pool, "new", put.attempt), 0);
    pool_advance(&pool, 100);
    assert_int_equal(pool_unmount(&pool, 2, mount, 0), MOONCAKE_OK);
    assert_in_range(end_wait(&pool, "new", put.attempt), 1, WINDOW_MS - 100);
    pool_advance(&pool, WINDOW_MS - 100);
    assert_int_equal(end_wait(&pool, "new", put.attempt), 0);
    pool_close(&pool);
    pool_options(&pool); /* a new life may follow one that has promised */
    pool.options.reuse_ms = WINDOW_MS;
    pool_open(&pool);
    (void)pool_mount(&pool, "a:1", "host-a", 1, MIB);
    put = pool_start(&pool, "k", LEN, NULL);
    assert_in_range(end_wait(&pool, "k", put.attempt), WINDOW_MS - 1, WINDOW_MS);
    pool_advance(&pool, WINDOW_MS);
    assert_int_equal(end_wait(&pool, "k", put.attempt), 0);
    pool_close(&pool);
}

/* Whatever the times: the wait reaches the promise's end, and not a quarter of a window beyond. */
static void reuse__waits_cover_every_promise(void **state)
{
    uint64_t random = 12345;
    struct pool pool;

    (void)state;
    opened(&pool);
    assert_int_equal(pool_put(&pool, "other", LEN), MOONCAKE_OK);
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t promised_ns = pool.clock.now_ns, pause_ns, wait_ms, waited_ns;

        assert_int_equal(ask(&pool, "k"), WINDOW_MS);
        random = random * 6364136223846793005u + 1442695040888963407u;
        pause_ns = (random >> 33) % (2 * WINDOW_MS * MC_NS_PER_MS);
        pool.clock.now_ns += pause_ns / 2;
        (void)ask(&pool, "other"); /* so that something is always promised */
        pool.clock.now_ns += pause_ns - pause_ns / 2;
        wait_ms = remove_wait(&pool, "k", true);
        waited_ns = pool.clock.now_ns - promised_ns + wait_ms * MC_NS_PER_MS;
        assert_true(waited_ns >= WINDOW_MS * MC_NS_PER_MS);
        assert_true(wait_ms == 0 || waited_ns < (WINDOW_MS + WINDOW_MS / 4) * MC_NS_PER_MS);
        pool.clock.now_ns += wait_ms * MC_NS_PER_MS;
        assert_int_equal(pool_remove(&pool, "k", true), MOONCAKE_OK);
        assert_int_equal(pool_put(&pool, "k", LEN), MOONCAKE_OK);
    }
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reuse__a_forced_removal_waits_for_the_promise_and_no_longer),
        cmocka_unit_test(reuse__the_end_of_a_replacement_waits_and_others_do_not),
        cmocka_unit_test(reuse__a_promise_is_at_most_half_a_lease_and_may_be_off),
        cmocka_unit_test(reuse__asking_so_is_a_read),
        cmocka_unit_test(reuse__removal_of_everything_waits_and_keeps_promises_away),
        cmocka_unit_test(reuse__keys_that_were_lost_get_no_value_while_they_are_promised),
        cmocka_unit_test(reuse__waits_cover_every_promise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
