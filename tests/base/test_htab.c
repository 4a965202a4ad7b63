/* The hash table against a naive model: an array of elements that know whether they are in it. */
#include "base/htab.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"

#define SEEDS 24
#define ELEMENTS 3000

struct element {
    uint64_t hash;
    uint32_t key;
    bool present;
    uint32_t visits;
};

static bool match(const void *element, const void *key, size_t key_len)
{
    const struct element *e = element;

    return key_len == sizeof(e->key) && memcmp(&e->key, key, key_len) == 0;
}

static uint64_t rehash(const void *element)
{
    return ((const struct element *)element)->hash;
}

/* splitmix64: the test's own, so that a seed means the same everywhere. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static struct mc_htab *created(size_t hint)
{
    struct mc_htab *htab = NULL;

    assert_int_equal(mc_htab_create(hint, match, rehash, &htab), MOONCAKE_OK);
    return htab;
}

static struct element *elements_create(size_t count)
{
    struct element *e = mc_calloc(count, sizeof(*e));

    assert_non_null(e);
    for (size_t i = 0; i < count; i++) {
        e[i].key = (uint32_t)i;
        e[i].hash = mc_htab_hash(&e[i].key, sizeof(e[i].key));
    }
    return e;
}

static void add(struct mc_htab *htab, struct element *e)
{
    assert_int_equal(mc_htab_add(htab, e->hash, e), MOONCAKE_OK);
    e->present = true;
}

static void drop(struct mc_htab *htab, struct element *e)
{
    mc_htab_drop(htab, e->hash, e);
    e->present = false;
}

static void *find(const struct mc_htab *htab, const struct element *e)
{
    mc_htab_prefetch(htab, e->hash);
    mc_htab_prefetch_element(htab, e->hash);
    return mc_htab_find(htab, e->hash, &e->key, sizeof(e->key));
}

static void assert_is_model(const struct mc_htab *htab, const struct element *e, size_t count)
{
    size_t present = 0;

    mc_htab_check(htab);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(find(htab, &e[i]), e[i].present ? &e[i] : NULL);
        present += e[i].present;
    }
    assert_int_equal(mc_htab_count(htab), present);
}

/* ---- bad input and edges ----------------------------------------------------------------- */

static void htab__create_beyond_the_limit_is_refused(void **state)
{
    struct mc_htab *const before = (struct mc_htab *)(void *)state;
    struct mc_htab *htab = before;

    assert_int_equal(mc_htab_create(SIZE_MAX, match, rehash, &htab), MOONCAKE_ENOMEM);
    assert_ptr_equal(htab, before);
}

static void htab__create_out_of_memory_leaves_nothing_behind(void **state)
{
    struct mc_htab *const before = (struct mc_htab *)(void *)state;
    struct mc_htab *htab = before;
    int64_t live = mc_mem_live_count();
    int64_t n = 0;

    for (;; n++) {
        mc_mem_fail_after(n);
        if (mc_htab_create(200000, match, rehash, &htab) == MOONCAKE_OK) {
            break;
        }
        assert_ptr_equal(htab, before);
        assert_int_equal(mc_mem_live_count(), live);
    }
    mc_mem_fail_after(-1);
    assert_true(n >= 5); /* the table, two directories, two first chunks, further chunks */
    mc_htab_destroy(&htab);
    assert_int_equal(mc_mem_live_count(), live);
}

static void htab__destroy_nulls_and_accepts_null(void **state)
{
    struct mc_htab *htab = created(0);

    (void)state;
    mc_htab_destroy(&htab);
    assert_null(htab);
    mc_htab_destroy(&htab);
}

static void htab__empty_finds_nothing(void **state)
{
    struct element e = {.hash = 7, .key = 1, .present = false, .visits = 0};
    struct mc_htab *htab = created(0);

    (void)state;
    assert_null(find(htab, &e));
    e.hash = 0; /* the tag of an empty slot */
    assert_null(find(htab, &e));
    assert_int_equal(mc_htab_count(htab), 0);
    mc_htab_check(htab);
    mc_htab_destroy(&htab);
}

static void htab__hash_of_a_key_is_xxh3(void **state)
{
    (void)state;
    assert_true(mc_htab_hash("", 0) == 0x2d06800538d394c2u);
}

static void htab__same_hash_different_keys_are_told_apart(void **state)
{
    enum { N = 200 };
    struct mc_htab *htab = created(0);
    struct element *e = elements_create(N + 1);

    (void)state;
    for (size_t i = 0; i <= N; i++) {
        e[i].hash = 0x123456789abcdef0u;
    }
    for (size_t i = 0; i < N; i++) {
        add(htab, &e[i]);
    }
    assert_is_model(htab, e, N + 1);
    for (size_t i = 0; i < N; i += 3) {
        drop(htab, &e[i]);
        assert_is_model(htab, e, N + 1);
    }
    for (size_t i = N; i > 0; i--) {
        if (e[i - 1].present) {
            drop(htab, &e[i - 1]);
        }
    }
    assert_is_model(htab, e, N + 1);
    mc_htab_destroy(&htab);
    mc_free(e);
}

static void htab__replaced_element_is_found_in_the_place_of_the_old(void **state)
{
    enum { N = 100 };
    struct mc_htab *htab = created(0);
    struct element *old = elements_create(N);
    struct element *fresh = elements_create(N);

    (void)state;
    for (size_t i = 0; i < N; i++) {
        old[i].hash &= fresh[i].hash &= ~(uint64_t)0xff; /* one bucket of many lines */
        add(htab, &old[i]);
    }
    for (size_t i = 0; i < N; i++) {
        mc_htab_replace(htab, old[i].hash, &old[i], &fresh[i]);
        fresh[i].present = true;
        assert_ptr_equal(find(htab, &old[i]), &fresh[i]);
    }
    assert_is_model(htab, fresh, N);
    for (size_t i = 0; i < N; i++) {
        drop(htab, &fresh[i]);
    }
    assert_is_model(htab, fresh, N);
    mc_htab_destroy(&htab);
    mc_free(fresh);
    mc_free(old);
}

static void htab__hint_makes_room_for_so_many(void **state)
{
    enum { N = 50000 };
    struct mc_htab *htab = created(N);
    struct mc_htab *small = created(0);
    struct element *e = elements_create(N);
    size_t bytes = mc_htab_bytes(htab);

    (void)state;
    assert_true(bytes >= N * 12u);
    assert_true(mc_htab_bytes(small) < 4096);
    for (size_t i = 0; i < N; i++) {
        add(htab, &e[i]);
    }
    /* Further lines of full buckets are the only growth. */
    assert_true(mc_htab_bytes(htab) - bytes < bytes / 2);
    assert_is_model(htab, e, N);
    mc_htab_destroy(&small);
    mc_htab_destroy(&htab);
    mc_free(e);
}

static void htab__add_out_of_memory_changes_nothing(void **state)
{
    struct element *e = elements_create(ELEMENTS);
    int64_t live = mc_mem_live_count();
    int64_t failed = 0;

    (void)state;
    for (int64_t n = 0; n < 40; n++) {
        struct mc_htab *htab = created(0);

        for (size_t i = 0; i < ELEMENTS; i++) {
            e[i].present = false;
            e[i].hash &= ~(uint64_t)0xf8; /* few buckets: many further lines */
        }
        mc_mem_fail_after(n);
        for (size_t i = 0; i < ELEMENTS; i++) {
            mooncake_err err = mc_htab_add(htab, e[i].hash, &e[i]);

            e[i].present = err == MOONCAKE_OK;
            if (err != MOONCAKE_OK) {
                assert_int_equal(err, MOONCAKE_ENOMEM);
                assert_is_model(htab, e, i + 1);
                failed++;
                add(htab, &e[i]); /* it failed once: now there is memory */
            }
        }
        mc_mem_fail_after(-1);
        assert_is_model(htab, e, ELEMENTS);
        mc_htab_destroy(&htab);
        assert_int_equal(mc_mem_live_count(), live);
    }
    assert_true(failed > 2); /* a failed split is no failed add */
    mc_free(e);
}

/* ---- model ------------------------------------------------------------------------------- */

static void model_run(uint64_t seed)
{
    uint64_t rnd = seed;
    struct mc_htab *htab = created(next(&rnd) % 3 == 0 ? next(&rnd) % ELEMENTS : 0);
    struct element *e = elements_create(ELEMENTS);
    uint64_t keep = next(&rnd) % 2 == 0 ? UINT64_MAX : ~(uint64_t)0x7f8; /* or crowded buckets */

    for (size_t i = 0; i < ELEMENTS; i++) {
        e[i].hash &= keep;
    }
    for (uint32_t step = 0; step < 20000; step++) {
        struct element *one = &e[next(&rnd) % ELEMENTS];
        uint32_t adds = step / 4000 % 2 == 0 ? 80 : 30; /* of 100: grow, then thin out */

        if (!one->present && next(&rnd) % 100 < adds) {
            add(htab, one);
        } else if (one->present && next(&rnd) % 100 >= adds) {
            drop(htab, one);
        }
        assert_ptr_equal(find(htab, one), one->present ? one : NULL);
        if (step % 1000 == 0) {
            assert_is_model(htab, e, ELEMENTS);
        }
    }
    assert_is_model(htab, e, ELEMENTS);
    mc_htab_destroy(&htab);
    mc_free(e);
}

static void htab__random_adds_and_drops_equal_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        print_message("seed %" PRIu64 "\n", seed);
        model_run(seed);
    }
}

/* ---- walk -------------------------------------------------------------------------------- */

struct walk {
    struct mc_htab *htab;
    uint64_t rnd;
    size_t visits;
    bool drops; /* the visitor drops some */
};

static void visit(void *arg, void *element)
{
    struct walk *w = arg;
    struct element *e = element;

    assert_true(e->present);
    e->visits++;
    w->visits++;
    if (w->drops && next(&w->rnd) % 3 == 0) {
        drop(w->htab, e);
    }
}

static void htab__walk_of_empty_ends_without_visit(void **state)
{
    struct walk w = {.htab = created(100), .rnd = 1, .visits = 0, .drops = false};
    uint64_t cursor = 0;

    (void)state;
    mc_htab_walk(w.htab, &cursor, 10, visit, &w);
    assert_true(cursor == 0);
    assert_int_equal(w.visits, 0);
    mc_htab_destroy(&w.htab);
}

static void htab__walk_visits_each_once_in_slices(void **state)
{
    struct element *e = elements_create(ELEMENTS);

    (void)state;
    for (size_t slice = 1; slice < 20; slice++) {
        struct walk w = {.htab = created(0), .rnd = 1, .visits = 0, .drops = false};
        uint64_t cursor = 0;
        size_t total = 0;

        for (size_t i = 0; i < ELEMENTS; i++) {
            e[i].visits = 0;
            e[i].hash &= slice % 2 == 0 ? UINT64_MAX : ~(uint64_t)0x3f0;
            add(w.htab, &e[i]);
        }
        do {
            w.visits = 0;
            mc_htab_walk(w.htab, &cursor, slice, visit, &w);
            assert_true(w.visits <= slice);
            total += w.visits;
        } while (cursor != 0);
        assert_int_equal(total, ELEMENTS);
        for (size_t i = 0; i < ELEMENTS; i++) {
            assert_int_equal(e[i].visits, 1);
        }
        mc_htab_destroy(&w.htab);
    }
    mc_free(e);
}

static void htab__walk_of_few_among_many_buckets_is_bounded(void **state)
{
    struct element *e = elements_create(1);
    struct walk w = {.htab = created(400000), .rnd = 1, .visits = 0, .drops = false};
    uint64_t cursor = 0;
    int calls = 0;

    (void)state;
    add(w.htab, &e[0]);
    do {
        mc_htab_walk(w.htab, &cursor, 100, visit, &w);
        calls++;
    } while (cursor != 0);
    assert_int_equal(w.visits, 1);
    assert_in_range(calls, 400000 / 4 / 4096, 40); /* 4096 empty buckets a call */
    mc_htab_destroy(&w.htab);
    mc_free(e);
}

/* Between the slices elements come and go and the table doubles several times; the visitor drops.
 * Those that were there all the time must have been seen. */
static void walk_run(uint64_t seed)
{
    struct walk w = {.htab = created(0), .rnd = seed, .visits = 0, .drops = seed % 3 == 0};
    struct element *e = elements_create(ELEMENTS);
    bool *stayed = mc_calloc(ELEMENTS, sizeof(*stayed));
    uint64_t keep = seed % 2 == 0 ? UINT64_MAX : ~(uint64_t)0xff8;
    size_t start = 1 + next(&w.rnd) % 500;
    uint64_t cursor = 0;

    assert_non_null(stayed);
    for (size_t i = 0; i < ELEMENTS; i++) {
        e[i].hash &= keep;
        if (i < start) {
            add(w.htab, &e[i]);
            stayed[i] = true;
        }
    }
    do {
        uint64_t changes = next(&w.rnd) % 40;

        mc_htab_walk(w.htab, &cursor, 1 + next(&w.rnd) % 8, visit, &w);
        for (uint64_t i = 0; i < changes; i++) {
            struct element *one = &e[next(&w.rnd) % ELEMENTS];

            if (!one->present) {
                add(w.htab, one);
            } else if (next(&w.rnd) % 8 == 0) {
                drop(w.htab, one);
                stayed[one->key] = false;
            }
        }
        mc_htab_check(w.htab);
    } while (cursor != 0);
    for (size_t i = 0; i < start; i++) {
        assert_true(!stayed[i] || e[i].visits > 0);
    }
    assert_is_model(w.htab, e, ELEMENTS);
    mc_htab_destroy(&w.htab);
    mc_free(stayed);
    mc_free(e);
}

static void htab__walk_misses_none_that_stays_under_change(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        print_message("seed %" PRIu64 "\n", seed);
        walk_run(seed);
    }
}

/* ---- size and growth --------------------------------------------------------------------- */

static void htab__growth_over_many_chunks_keeps_all(void **state)
{
    enum { N = 600000 }; /* five chunks of 2 MiB */
    struct mc_htab *htab = created(0);
    struct element *e = elements_create(N);
    size_t bytes;

    (void)state;
    for (size_t i = 0; i < N; i++) {
        add(htab, &e[i]);
    }
    bytes = mc_htab_bytes(htab);
    print_message("%.1f bytes an element\n", (double)bytes / N);
    assert_true(bytes <= (size_t)N * 24 + ((size_t)4 << 20));
    assert_is_model(htab, e, N);
    for (size_t i = 0; i < N; i++) {
        if (i % 1000 != 0) {
            drop(htab, &e[i]);
        }
    }
    assert_is_model(htab, e, N);
    mc_htab_destroy(&htab);
    mc_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(htab__create_beyond_the_limit_is_refused),
        cmocka_unit_test(htab__create_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(htab__destroy_nulls_and_accepts_null),
        cmocka_unit_test(htab__empty_finds_nothing),
        cmocka_unit_test(htab__hash_of_a_key_is_xxh3),
        cmocka_unit_test(htab__same_hash_different_keys_are_told_apart),
        cmocka_unit_test(htab__replaced_element_is_found_in_the_place_of_the_old),
        cmocka_unit_test(htab__hint_makes_room_for_so_many),
        cmocka_unit_test(htab__add_out_of_memory_changes_nothing),
        cmocka_unit_test(htab__random_adds_and_drops_equal_the_model),
        cmocka_unit_test(htab__walk_of_empty_ends_without_visit),
        cmocka_unit_test(htab__walk_visits_each_once_in_slices),
        cmocka_unit_test(htab__walk_of_few_among_many_buckets_is_bounded),
        cmocka_unit_test(htab__walk_misses_none_that_stays_under_change),
        cmocka_unit_test(htab__growth_over_many_chunks_keeps_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
