/* The extent allocator against a naive model: one byte per unit that says who has it. */
#include "base/extalloc.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/mem.h"

#define UNIT ((uint64_t)MC_EXTENT_ALIGN)
#define SEEDS 40
#define UNITS_MAX 3000
#define HELD_MAX 700

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static struct mc_extalloc *created(uint64_t len)
{
    struct mc_extalloc *alloc = NULL;

    assert_int_equal(mc_extalloc_create(len, &alloc), MOONCAKE_OK);
    mc_extalloc_check(alloc);
    return alloc;
}

static mc_extent_id taken(struct mc_extalloc *alloc, uint64_t len, uint64_t offset)
{
    mc_extent_id id = 0;
    uint64_t got = UINT64_MAX;

    assert_int_equal(mc_extalloc_take(alloc, len, &id, &got), MOONCAKE_OK);
    assert_true(id != 0);
    assert_true(got == offset);
    assert_true(mc_extalloc_offset(alloc, id) == offset);
    mc_extalloc_check(alloc);
    return id;
}

static void assert_no_space(struct mc_extalloc *alloc, uint64_t len)
{
    mc_extent_id id = 77;
    uint64_t offset = 78;
    uint64_t used = mc_extalloc_used(alloc);

    assert_int_equal(mc_extalloc_take(alloc, len, &id, &offset), MOONCAKE_ENOSPACE);
    assert_int_equal(id, 77);
    assert_true(offset == 78);
    assert_true(mc_extalloc_used(alloc) == used);
    mc_extalloc_check(alloc);
}

/* ---- bad input and edges ----------------------------------------------------------------- */

static void extalloc__length_out_of_range_is_refused(void **state)
{
    const uint64_t bad[] = {0, 1, UNIT - 1, ((uint64_t)1 << 47) + 1, UINT64_MAX};
    struct mc_extalloc *const before = (struct mc_extalloc *)(void *)state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct mc_extalloc *alloc = before;

        assert_int_equal(mc_extalloc_create(bad[i], &alloc), MOONCAKE_EINVAL);
        assert_ptr_equal(alloc, before);
        assert_non_null(strstr(mooncake_last_error(), "length"));
    }
}

static void extalloc__create_out_of_memory_leaves_nothing_behind(void **state)
{
    struct mc_extalloc *const before = (struct mc_extalloc *)(void *)state;
    struct mc_extalloc *alloc = before;
    int64_t live = mc_mem_live_count();
    int64_t n = 0;

    for (;; n++) {
        mc_mem_fail_after(n);
        if (mc_extalloc_create(UNIT, &alloc) == MOONCAKE_OK) {
            break;
        }
        assert_ptr_equal(alloc, before);
        assert_int_equal(mc_mem_live_count(), live);
    }
    mc_mem_fail_after(-1);
    assert_true(n >= 2);
    mc_extalloc_destroy(&alloc);
    assert_null(alloc);
    mc_extalloc_destroy(&alloc);
    assert_int_equal(mc_mem_live_count(), live);
}

static void extalloc__more_than_the_space_is_refused(void **state)
{
    struct mc_extalloc *alloc = created(10 * UNIT);

    (void)state;
    assert_no_space(alloc, 10 * UNIT + 1);
    assert_no_space(alloc, UINT64_MAX);
    assert_no_space(alloc, UINT64_MAX - UNIT + 2);
    mc_extalloc_destroy(&alloc);
}

static void extalloc__rest_below_a_unit_is_not_used(void **state)
{
    struct mc_extalloc *alloc = created(3 * UNIT + UNIT - 1);

    (void)state;
    assert_true(mc_extalloc_capacity(alloc) == 3 * UNIT);
    (void)taken(alloc, 3 * UNIT, 0);
    assert_no_space(alloc, 1);
    assert_true(mc_extalloc_largest(alloc) == 0);
    mc_extalloc_destroy(&alloc);
}

static void extalloc__lengths_are_rounded_up_to_the_unit(void **state)
{
    const uint64_t lens[] = {0, 1, UNIT - 1, UNIT, UNIT + 1};
    const uint64_t rounded[] = {UNIT, UNIT, UNIT, UNIT, 2 * UNIT};
    struct mc_extalloc *alloc = created(100 * UNIT);
    uint64_t used = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        mc_extent_id id = taken(alloc, lens[i], used);

        used += rounded[i];
        assert_true(mc_extalloc_len(alloc, id) == rounded[i]);
        assert_true(mc_extalloc_used(alloc) == used);
    }
    mc_extalloc_destroy(&alloc);
}

static void extalloc__whole_space_of_any_size_can_be_taken_again_and_again(void **state)
{
    (void)state;
    for (uint64_t units = 1; units < 5000; units = units * 9 / 8 + 1) {
        struct mc_extalloc *alloc = created(units * UNIT);

        for (int i = 0; i < 3; i++) {
            mc_extent_id id;

            assert_true(mc_extalloc_largest(alloc) == units * UNIT);
            id = taken(alloc, units * UNIT, 0);
            assert_true(mc_extalloc_largest(alloc) == 0);
            assert_no_space(alloc, 1);
            mc_extalloc_give(alloc, id);
            assert_true(mc_extalloc_used(alloc) == 0);
        }
        mc_extalloc_destroy(&alloc);
    }
}

static void extalloc__largest_space_there_is_works(void **state)
{
    uint64_t len = (uint64_t)1 << 47;
    struct mc_extalloc *alloc = created(len);
    mc_extent_id low = taken(alloc, len / 2 + UNIT, 0);
    mc_extent_id high = taken(alloc, len / 2 - UNIT, len / 2 + UNIT);

    (void)state;
    assert_true(mc_extalloc_used(alloc) == len);
    assert_no_space(alloc, 1);
    mc_extalloc_give(alloc, low);
    mc_extalloc_give(alloc, high);
    mc_extalloc_check(alloc);
    assert_true(mc_extalloc_largest(alloc) == len);
    mc_extalloc_destroy(&alloc);
}

/* All orders in which three neighbours can be given back end in one free extent. */
static void extalloc__neighbours_merge_in_any_order(void **state)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    (void)state;
    for (int o = 0; o < 6; o++) {
        struct mc_extalloc *alloc = created(33 * UNIT);
        mc_extent_id ids[3];

        for (uint64_t i = 0; i < 3; i++) {
            ids[i] = taken(alloc, 11 * UNIT, i * 11 * UNIT);
        }
        for (int i = 0; i < 3; i++) {
            mc_extalloc_give(alloc, ids[orders[o][i]]);
            mc_extalloc_check(alloc); /* no two free neighbours */
        }
        assert_true(mc_extalloc_largest(alloc) == 33 * UNIT);
        mc_extalloc_destroy(&alloc);
    }
}

static void extalloc__the_best_fitting_hole_is_taken(void **state)
{
    struct mc_extalloc *alloc = created(100 * UNIT);
    mc_extent_id wide = taken(alloc, 20 * UNIT, 0);
    mc_extent_id tight;

    (void)state;
    (void)taken(alloc, UNIT, 20 * UNIT);
    tight = taken(alloc, 7 * UNIT, 21 * UNIT);
    (void)taken(alloc, UNIT, 28 * UNIT);
    mc_extalloc_give(alloc, wide);
    mc_extalloc_give(alloc, tight);
    (void)taken(alloc, 6 * UNIT, 21 * UNIT);
    (void)taken(alloc, 8 * UNIT, 0);
    mc_extalloc_destroy(&alloc);
}

/* 1000 and 1001 units are of one class: a shorter one in front must not hide the longer. */
static void extalloc__longer_hole_of_the_same_class_is_found(void **state)
{
    struct mc_extalloc *alloc = created(2003 * UNIT);
    mc_extent_id longer = taken(alloc, 1001 * UNIT, 0);
    mc_extent_id shorter;

    (void)state;
    (void)taken(alloc, UNIT, 1001 * UNIT);
    shorter = taken(alloc, 1000 * UNIT, 1002 * UNIT);
    (void)taken(alloc, UNIT, 2002 * UNIT);
    mc_extalloc_give(alloc, longer);
    mc_extalloc_give(alloc, shorter);
    assert_true(mc_extalloc_largest(alloc) == 1001 * UNIT);
    shorter = taken(alloc, 1000 * UNIT, 1002 * UNIT); /* though the longer stands in front */
    mc_extalloc_give(alloc, shorter);
    (void)taken(alloc, 1001 * UNIT, 0);
    assert_true(mc_extalloc_largest(alloc) == 1000 * UNIT);
    assert_no_space(alloc, 1001 * UNIT);
    mc_extalloc_destroy(&alloc);
}

static void extalloc__take_out_of_memory_changes_nothing(void **state)
{
    enum { N = 10000 }; /* five chunks of records */
    int64_t live = mc_mem_live_count();
    int failed = 0;

    (void)state;
    for (int64_t n = 0; n < 8; n++) {
        struct mc_extalloc *alloc = created((N + 1) * UNIT);
        mc_extent_id id = 0;
        uint64_t offset = 0;

        mc_mem_fail_after(n);
        for (uint64_t i = 0; i < N; i++) {
            if (mc_extalloc_take(alloc, UNIT, &id, &offset) != MOONCAKE_OK) {
                failed++;
                mc_extalloc_check(alloc);
                assert_true(mc_extalloc_used(alloc) == i * UNIT);
                assert_int_equal(mc_extalloc_take(alloc, UNIT, &id, &offset), MOONCAKE_OK);
            }
            assert_true(offset == i * UNIT);
        }
        mc_mem_fail_after(0);
        mc_extalloc_give(alloc, id); /* needs no memory */
        assert_int_equal(mc_extalloc_take(alloc, 2 * UNIT, &id, &offset), MOONCAKE_OK);
        mc_mem_fail_after(-1);
        mc_extalloc_check(alloc);
        assert_true(mc_extalloc_used(alloc) == (N + 1) * UNIT);
        assert_true(mc_extalloc_bytes(alloc) < (uint64_t)N * 40 + ((uint64_t)128 << 10));
        mc_extalloc_destroy(&alloc);
        assert_int_equal(mc_mem_live_count(), live);
    }
    assert_int_equal(failed, 5); /* the directory once, four chunks */
}

/* ---- model ------------------------------------------------------------------------------- */

struct held {
    mc_extent_id id;
    uint64_t first, units;
};

struct model {
    struct mc_extalloc *alloc;
    uint64_t units, used;
    bool taken[UNITS_MAX];
    struct held held[HELD_MAX];
    size_t held_count;
};

static uint64_t longest_hole(const struct model *m)
{
    uint64_t longest = 0;
    uint64_t run = 0;

    for (uint64_t i = 0; i < m->units; i++) {
        run = m->taken[i] ? 0 : run + 1;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static void model_take(struct model *m, uint64_t units)
{
    struct held *h = &m->held[m->held_count];
    uint64_t offset = 0;
    mooncake_err err = mc_extalloc_take(m->alloc, units * UNIT, &h->id, &offset);

    if (err == MOONCAKE_ENOSPACE) {
        uint64_t longest = longest_hole(m);

        assert_true(longest < units + units / 32 + 1);
        return;
    }
    assert_int_equal(err, MOONCAKE_OK);
    assert_true(offset % UNIT == 0);
    h->first = offset / UNIT;
    h->units = units;
    assert_true(h->first + units <= m->units);
    for (uint64_t i = h->first; i < h->first + units; i++) {
        assert_false(m->taken[i]);
        m->taken[i] = true;
    }
    m->used += units;
    m->held_count++;
}

static void model_give(struct model *m, size_t which)
{
    struct held h = m->held[which];

    assert_true(mc_extalloc_offset(m->alloc, h.id) == h.first * UNIT);
    assert_true(mc_extalloc_len(m->alloc, h.id) == h.units * UNIT);
    mc_extalloc_give(m->alloc, h.id);
    memset(&m->taken[h.first], 0, h.units * sizeof(bool));
    m->used -= h.units;
    m->held[which] = m->held[--m->held_count];
}

static void assert_is_model(struct model *m)
{
    uint64_t longest = longest_hole(m);
    uint64_t largest = mc_extalloc_largest(m->alloc) / UNIT;

    mc_extalloc_check(m->alloc);
    assert_true(mc_extalloc_used(m->alloc) == m->used * UNIT);
    assert_true(largest <= longest);
    assert_true(largest * 33 >= longest * 32);
    if (largest != 0 && m->held_count < HELD_MAX) {
        size_t before = m->held_count;

        model_take(m, largest); /* what largest says is granted */
        assert_int_equal(m->held_count, before + 1);
        model_give(m, before);
    }
}

static void model_run(uint64_t seed)
{
    uint64_t rnd = seed;
    struct model m;
    uint64_t len_max;

    memset(&m, 0, sizeof(m));
    m.units = 1 + next(&rnd) % UNITS_MAX;
    len_max = 1 + next(&rnd) % (next(&rnd) % 2 == 0 ? 12 : 200);
    m.alloc = created(m.units * UNIT);
    for (uint32_t step = 0; step < 6000; step++) {
        bool filling = step / 1500 % 2 == 0;

        if (m.held_count < HELD_MAX && next(&rnd) % 100 < (filling ? 70 : 40)) {
            model_take(&m, 1 + next(&rnd) % len_max);
        } else if (m.held_count > 0) {
            model_give(&m, next(&rnd) % m.held_count);
        }
        if (step % 16 == 0) {
            assert_is_model(&m);
        }
    }
    while (m.held_count > 0) {
        model_give(&m, next(&rnd) % m.held_count);
    }
    assert_is_model(&m);
    assert_true(mc_extalloc_largest(m.alloc) == m.units * UNIT);
    mc_extalloc_destroy(&m.alloc);
}

static void extalloc__random_takes_and_gives_equal_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        print_message("seed %" PRIu64 "\n", seed);
        model_run(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extalloc__length_out_of_range_is_refused),
        cmocka_unit_test(extalloc__create_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(extalloc__more_than_the_space_is_refused),
        cmocka_unit_test(extalloc__rest_below_a_unit_is_not_used),
        cmocka_unit_test(extalloc__lengths_are_rounded_up_to_the_unit),
        cmocka_unit_test(extalloc__whole_space_of_any_size_can_be_taken_again_and_again),
        cmocka_unit_test(extalloc__largest_space_there_is_works),
        cmocka_unit_test(extalloc__neighbours_merge_in_any_order),
        cmocka_unit_test(extalloc__the_best_fitting_hole_is_taken),
        cmocka_unit_test(extalloc__longer_hole_of_the_same_class_is_found),
        cmocka_unit_test(extalloc__take_out_of_memory_changes_nothing),
        cmocka_unit_test(extalloc__random_takes_and_gives_equal_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
