/*
 * Recounting in slices: it is exact while the pool works, and it finds what is wrong with the
 * books. The faults are made in the core's inside; the storm of all kinds of changes is the
 * simulation's (sim.c).
 */
#include <stdio.h>
#include <string.h>

#include "master/core_parts.h"
#include "master/pool.h"

#define KEYS 300u

struct answer {
    bool done;
    mooncake_err err;
    char sentence[256];
};

static void on_recounted(void *arg, mooncake_err err)
{
    struct answer *answer = arg;

    assert_false(answer->done);
    answer->done = true;
    answer->err = err;
    (void)snprintf(answer->sentence, sizeof(answer->sentence), "%s",
                   err == MOONCAKE_OK ? "" : mooncake_last_error());
}

static void open_filled(struct pool *pool)
{
    pool_options(pool);
    pool_open(pool);
    (void)pool_mount(pool, "a:1", "host-a", 1, 4 * MIB);
    (void)pool_mount(pool, "b:1", "host-b", 2, 4 * MIB);
    pool_put_many(pool, "k", KEYS, 1000);
    (void)pool_start(pool, "unfinished", 5000, NULL);
}

static void start(struct pool *pool, struct answer *answer)
{
    *answer = (struct answer){.done = false};
    assert_int_equal(mc_core_recount_start(pool->core, on_recounted, answer), MOONCAKE_OK);
}

/* Ticks until it is done; not for ever. */
static void finish(struct pool *pool, struct answer *answer)
{
    for (unsigned i = 0; i < 10000 && !answer->done; i++) {
        (void)mc_core_tick(pool->core);
    }
    assert_true(answer->done);
}

/* A recount that is half way when @p break_it does its work. */
static struct answer recount_with(void (*break_it)(struct mc_core *core),
                                  void (*mend)(struct mc_core *core))
{
    struct answer answer;
    struct pool pool;

    open_filled(&pool);
    mc_core_recount_pace(pool.core, 10);
    start(&pool, &answer);
    for (unsigned i = 0; i < 10; i++) {
        (void)mc_core_tick(pool.core);
    }
    assert_false(answer.done);
    break_it(pool.core);
    finish(&pool, &answer);
    mend(pool.core);
    pool_close(&pool);
    return answer;
}

static void recount__of_a_small_pool_ends_at_once(void **state)
{
    struct answer answer;
    struct pool pool;

    (void)state;
    open_filled(&pool);
    start(&pool, &answer);
    assert_true(answer.done);
    assert_int_equal(answer.err, MOONCAKE_OK);
    assert_false(mc_core_wants_tick(pool.core));
    pool_close(&pool);
}

static void recount__goes_on_at_ticks_and_is_right_about_what_came_and_went(void **state)
{
    struct answer answer, joined;
    struct pool pool;

    (void)state;
    open_filled(&pool);
    mc_core_recount_pace(pool.core, 10);
    start(&pool, &answer);
    for (unsigned i = 0; i < KEYS / 10; i++) {
        char key[16];

        (void)mc_core_tick(pool.core);
        (void)snprintf(key, sizeof(key), "k%u", i);
        assert_int_equal(pool_remove(&pool, key, true), MOONCAKE_OK);
        (void)snprintf(key, sizeof(key), "k%u", KEYS - 1 - i);
        assert_int_equal(pool_query(&pool, key).status, MOONCAKE_OK);
        (void)snprintf(key, sizeof(key), "new%u", i);
        assert_int_equal(pool_put(&pool, key, 3000), MOONCAKE_OK);
    }
    assert_false(answer.done);
    start(&pool, &joined);
    finish(&pool, &answer);
    assert_int_equal(answer.err, MOONCAKE_OK);
    assert_true(joined.done);
    assert_int_equal(joined.err, MOONCAKE_OK);
    pool_close(&pool);
}

static void add_key(struct mc_core *core)
{
    MC_GAUGE(&core->env, keys, 1);
}

static void drop_key(struct mc_core *core)
{
    MC_GAUGE(&core->env, keys, -1);
}

static void recount__finds_a_wrong_gauge(void **state)
{
    struct answer answer = recount_with(add_key, drop_key);

    (void)state;
    assert_int_equal(answer.err, MOONCAKE_EINTERNAL);
    assert_string_equal(answer.sentence, "gauge keys: the books say 301, a recount 300");
}

static struct mc_segment *first_segment(struct mc_core *core)
{
    return mc_list_first(&core->segments.mounted, struct mc_segment, node);
}

static void add_class_bytes(struct mc_core *core)
{
    first_segment(core)->bytes[MC_CLASS_PLAIN] += 64;
}

static void drop_class_bytes(struct mc_core *core)
{
    first_segment(core)->bytes[MC_CLASS_PLAIN] -= 64;
}

static void add_leased_bytes(struct mc_core *core)
{
    first_segment(core)->leased[MC_CLASS_PLAIN].bytes[3] += 64;
}

static void drop_leased_bytes(struct mc_core *core)
{
    first_segment(core)->leased[MC_CLASS_PLAIN].bytes[3] -= 64;
}

static void add_extent(struct mc_core *core)
{
    first_segment(core)->extents++;
}

static void drop_extent(struct mc_core *core)
{
    first_segment(core)->extents--;
}

static void recount__finds_wrong_books_of_a_segment(void **state)
{
    (void)state;
    assert_non_null(
        strstr(recount_with(add_class_bytes, drop_class_bytes).sentence, "bytes of a class"));
    assert_non_null(
        strstr(recount_with(add_leased_bytes, drop_leased_bytes).sentence, "leased bytes"));
    assert_non_null(strstr(recount_with(add_extent, drop_extent).sentence, "extents of a segment"));
}

/* The last in the queue: its key is not counted yet half way, or it is; both are found. */
static struct mc_extent *an_extent(struct mc_core *core)
{
    return mc_list_first(&first_segment(core)->queues[MC_QUEUE_LRU], struct mc_extent, node);
}

static void wrong_class(struct mc_core *core)
{
    struct mc_extent *extent = an_extent(core);

    mc_tally_before(&core->objects.tally, mc_extent_object(extent));
    extent->klass = MC_CLASS_SOFT;
    mc_tally_after(&core->objects.tally, mc_extent_object(extent));
}

static void right_class(struct mc_core *core)
{
    an_extent(core)->klass = MC_CLASS_PLAIN;
}

static void recount__finds_a_version_of_the_wrong_class(void **state)
{
    struct answer answer = recount_with(wrong_class, right_class);

    (void)state;
    assert_int_equal(answer.err, MOONCAKE_EINTERNAL);
    assert_non_null(strstr(answer.sentence, "class of an extent"));
}

static void recount__of_a_core_that_ends_is_answered(void **state)
{
    struct answer answer;
    struct pool pool;

    (void)state;
    open_filled(&pool);
    mc_core_recount_pace(pool.core, 1);
    start(&pool, &answer);
    assert_false(answer.done);
    pool_close(&pool);
    assert_true(answer.done);
    assert_int_equal(answer.err, MOONCAKE_EUNAVAILABLE);
}

static void recount__beyond_64_waiters_is_refused(void **state)
{
    struct answer answers[65];
    struct pool pool;

    (void)state;
    open_filled(&pool);
    mc_core_recount_pace(pool.core, 1);
    for (unsigned i = 0; i < 64; i++) {
        start(&pool, &answers[i]);
    }
    assert_int_equal(mc_core_recount_start(pool.core, on_recounted, &answers[64]),
                     MOONCAKE_ETASKQUEUE);
    finish(&pool, &answers[0]);
    for (unsigned i = 0; i < 64; i++) {
        assert_true(answers[i].done);
        assert_int_equal(answers[i].err, MOONCAKE_OK);
    }
    pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recount__of_a_small_pool_ends_at_once),
        cmocka_unit_test(recount__goes_on_at_ticks_and_is_right_about_what_came_and_went),
        cmocka_unit_test(recount__finds_a_wrong_gauge),
        cmocka_unit_test(recount__finds_wrong_books_of_a_segment),
        cmocka_unit_test(recount__finds_a_version_of_the_wrong_class),
        cmocka_unit_test(recount__of_a_core_that_ends_is_answered),
        cmocka_unit_test(recount__beyond_64_waiters_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
