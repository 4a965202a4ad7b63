/* The door to malloc, and the arena. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "mooncake/error.h"

/* The sanitizer's malloc aborts on absurd sizes unless told to answer NULL as malloc does. */
MOONCAKE_API const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void mem__nth_allocation_fails_once(void **state)
{
    int64_t live = mc_mem_live_count();
    void *first;
    void *third;

    (void)state;
    mc_mem_fail_after(1);
    first = mc_malloc(1);
    assert_non_null(first);
    assert_null(mc_malloc(1));
    third = mc_malloc(1);
    assert_non_null(third);
    assert_int_equal(mc_mem_live_count(), live + 2); /* the failed one is not counted */
    mc_free(first);
    mc_free(third);
    assert_int_equal(mc_mem_live_count(), live);
}

static void mem__every_kind_of_allocation_can_fail(void **state)
{
    char *block = mc_malloc(4);

    (void)state;
    assert_non_null(block);
    memcpy(block, "abc", 4);
    mc_mem_fail_after(0);
    assert_null(mc_calloc(1, 1));
    mc_mem_fail_after(0);
    assert_null(mc_aligned_alloc(64, 64));
    mc_mem_fail_after(0);
    assert_null(mc_strndup("x", 1));
    mc_mem_fail_after(0);
    assert_null(mc_realloc(block, 1 << 20));
    assert_string_equal(block, "abc"); /* the old block is untouched */
    mc_free(block);
}

static void mem__size_that_overflows_is_refused(void **state)
{
    (void)state;
    assert_null(mc_calloc(SIZE_MAX / 2, 3));
    assert_null(mc_aligned_alloc(4096, SIZE_MAX - 4000));
    assert_null(mc_strndup("x", SIZE_MAX));
}

static void mem__zero_bytes_are_a_block(void **state)
{
    int64_t live = mc_mem_live_count();
    void *blocks[4];

    (void)state;
    blocks[0] = mc_malloc(0);
    blocks[1] = mc_calloc(0, 5);
    blocks[2] = mc_aligned_alloc(64, 0);
    blocks[3] = mc_realloc(mc_malloc(5), 0);
    for (size_t i = 0; i < MC_ARRAY_LEN(blocks); i++) {
        assert_non_null(blocks[i]);
        mc_free(blocks[i]);
    }
    mc_free(NULL);
    assert_int_equal(mc_mem_live_count(), live);
}

static void mem__aligned_block_is_aligned(void **state)
{
    (void)state;
    for (size_t align = 1; align <= (size_t)2 << 20; align *= 2) {
        char *block = mc_aligned_alloc(align, align / 2 + 1);

        assert_non_null(block);
        assert_int_equal((uintptr_t)block % align, 0);
        memset(block, 1, align / 2 + 1);
        mc_free(block);
    }
}

static void mem__strndup_ends_with_nul(void **state)
{
    char *copy = mc_strndup("abcdef", 3);

    (void)state;
    assert_string_equal(copy, "abc");
    mc_free(copy);
}

static void arena__blocks_are_aligned_and_apart(void **state)
{
    struct mc_arena arena;
    unsigned char *blocks[64];

    (void)state;
    mc_arena_init(&arena, 0);
    for (size_t i = 0; i < MC_ARRAY_LEN(blocks); i++) {
        blocks[i] = mc_arena_alloc(&arena, i * 37);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], (int)i, i * 37);
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(blocks); i++) {
        for (size_t j = 0; j < i * 37; j++) {
            assert_int_equal(blocks[i][j], i);
        }
    }
    mc_arena_fini(&arena);
}

static void arena__zero_bytes_from_a_fresh_arena_are_no_failure(void **state)
{
    struct mc_arena arena;

    (void)state;
    mc_arena_init(&arena, 0);
    assert_non_null(mc_arena_alloc(&arena, 0));
    assert_non_null(mc_arena_array(&arena, 0, 100));
    mc_arena_fini(&arena);
}

static void arena__never_holds_more_than_its_bound(void **state)
{
    const size_t max = 100000;
    struct mc_arena arena;
    size_t taken = 0;

    (void)state;
    mc_arena_init(&arena, max);
    assert_null(mc_arena_alloc(&arena, max + 1));
    assert_int_equal(arena.total, 0);
    while (mc_arena_alloc(&arena, 1000) != NULL) {
        taken += 1008;
        assert_true(arena.total <= max);
        assert_true(taken <= max);
    }
    /* And all of the bound is of use, but for 16 bytes a block under the address sanitizer. */
    assert_true(taken > max - 4 * 1008);
    mc_arena_fini(&arena);
}

static void arena__bound_below_a_chunk_is_of_use(void **state)
{
    struct mc_arena arena;

    (void)state;
    mc_arena_init(&arena, 1024);
    assert_non_null(mc_arena_alloc(&arena, 1000));
    assert_null(mc_arena_alloc(&arena, 100));
    mc_arena_fini(&arena);
}

static void arena__size_that_overflows_is_refused(void **state)
{
    struct mc_arena arena;

    (void)state;
    mc_arena_init(&arena, 0);
    assert_null(mc_arena_alloc(&arena, SIZE_MAX));
    assert_null(mc_arena_alloc(&arena, SIZE_MAX - 15));
    assert_null(mc_arena_alloc(&arena, SIZE_MAX - 40));
    assert_null(mc_arena_array(&arena, SIZE_MAX / 2, 3));
    assert_non_null(mc_arena_alloc(&arena, 8)); /* still usable */
    assert_null(mc_arena_alloc(&arena, SIZE_MAX - 15));
    mc_arena_fini(&arena);
}

static void arena__reset_keeps_one_small_chunk(void **state)
{
    int64_t live = mc_mem_live_count();
    struct mc_arena arena;
    void *first;

    (void)state;
    mc_arena_init(&arena, 0);
    first = mc_arena_alloc(&arena, 10);
    assert_non_null(first);
    for (int i = 0; i < 100; i++) {
        assert_non_null(mc_arena_alloc(&arena, 50000));
    }
    assert_true(mc_mem_live_count() > live + 1);
    mc_arena_reset(&arena);
    assert_int_equal(mc_mem_live_count(), live + 1);
    assert_true(arena.total <= 65536);
    assert_non_null(mc_arena_alloc(&arena, 60000));
    assert_int_equal(mc_mem_live_count(), live + 1); /* served from what was kept */
    mc_arena_fini(&arena);
    assert_int_equal(mc_mem_live_count(), live);
}

static void take_in_pieces(struct mc_arena *arena, size_t total)
{
    for (size_t taken = 0; taken < total; taken += 1000) {
        assert_non_null(mc_arena_alloc(arena, 1000));
    }
}

static void arena__that_may_keep_allocates_nothing_for_the_like_of_its_last_use(void **state)
{
    int64_t live = mc_mem_live_count();
    struct mc_arena arena;

    (void)state;
    mc_arena_init(&arena, 0);
    mc_arena_keep(&arena, (size_t)1 << 20);
    take_in_pieces(&arena, 400000);
    assert_true(mc_mem_live_count() > live + 1);
    mc_arena_reset(&arena);
    take_in_pieces(&arena, 400000);
    assert_int_equal(mc_mem_live_count(), live + 1); /* one chunk has taken the place of many */
    mc_arena_reset(&arena);
    mc_mem_fail_after(0);
    take_in_pieces(&arena, 400000);
    mc_mem_fail_after(-1);
    mc_arena_fini(&arena);
    assert_int_equal(mc_mem_live_count(), live);
}

static void arena__keeps_no_more_than_it_may(void **state)
{
    struct mc_arena arena;

    (void)state;
    mc_arena_init(&arena, 0);
    mc_arena_keep(&arena, (size_t)1 << 20);
    for (int i = 0; i < 3; i++) {
        take_in_pieces(&arena, (size_t)5 << 20);
        mc_arena_reset(&arena);
        assert_true(arena.total > 0 && arena.total <= (size_t)1 << 20);
        assert_non_null(mc_arena_alloc(&arena, (size_t)2 << 20)); /* one chunk too large to keep */
        mc_arena_reset(&arena);
        assert_true(arena.total <= (size_t)1 << 20);
    }
    mc_arena_fini(&arena);
}

static void arena__out_of_memory_leaves_it_usable(void **state)
{
    struct mc_arena arena;

    (void)state;
    mc_arena_init(&arena, 0);
    mc_mem_fail_after(0);
    assert_null(mc_arena_alloc(&arena, 10));
    assert_int_equal(arena.total, 0);
    assert_non_null(mc_arena_alloc(&arena, 10));
    mc_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mem__nth_allocation_fails_once),
        cmocka_unit_test(mem__every_kind_of_allocation_can_fail),
        cmocka_unit_test(mem__size_that_overflows_is_refused),
        cmocka_unit_test(mem__zero_bytes_are_a_block),
        cmocka_unit_test(mem__aligned_block_is_aligned),
        cmocka_unit_test(mem__strndup_ends_with_nul),
        cmocka_unit_test(arena__blocks_are_aligned_and_apart),
        cmocka_unit_test(arena__zero_bytes_from_a_fresh_arena_are_no_failure),
        cmocka_unit_test(arena__never_holds_more_than_its_bound),
        cmocka_unit_test(arena__bound_below_a_chunk_is_of_use),
        cmocka_unit_test(arena__size_that_overflows_is_refused),
        cmocka_unit_test(arena__reset_keeps_one_small_chunk),
        cmocka_unit_test(arena__that_may_keep_allocates_nothing_for_the_like_of_its_last_use),
        cmocka_unit_test(arena__keeps_no_more_than_it_may),
        cmocka_unit_test(arena__out_of_memory_leaves_it_usable),
    };

    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
