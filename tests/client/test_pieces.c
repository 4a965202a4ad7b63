/* Cutting ranges out of ranges, against a plain copy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "client/pieces.h"

#define LEN 1000u

static uint8_t memory[LEN];

/* Cut [0, LEN) of the pieces at @p cuts, lay the results end to end, compare. */
static void check(const struct iovec *pieces, size_t count, const uint64_t *cuts, size_t cuts_count)
{
    struct mc_piece_cursor cursor = mc_piece_cursor(pieces, count);
    uint8_t joined[LEN];
    struct mc_arena arena;
    size_t at = 0;

    mc_arena_init(&arena, 0);
    for (size_t i = 0; i < cuts_count; i++) {
        struct iovec *out = NULL;
        unsigned n = 99;
        size_t before = at;

        assert_int_equal(mc_piece_cursor_cut(&cursor, cuts[i], &arena, &out, &n), MOONCAKE_OK);
        for (unsigned p = 0; p < n; p++) {
            assert_true(out[p].iov_len > 0);
            assert_true(out[p].iov_len <= LEN - at);
            memcpy(joined + at, out[p].iov_base, out[p].iov_len);
            at += out[p].iov_len;
        }
        assert_int_equal(at - before, cuts[i]);
    }
    assert_memory_equal(joined, memory, at);
    mc_arena_fini(&arena);
}

static void cut__of_nothing_is_nothing(void **state)
{
    struct iovec piece = {.iov_base = memory, .iov_len = LEN};
    uint64_t cuts[] = {0, 0, LEN, 0};

    (void)state;
    check(&piece, 1, cuts, 4);
    check(NULL, 0, cuts, 2);
}

static void cut__follows_pieces_of_every_length(void **state)
{
    (void)state;
    for (size_t step = 1; step < 40; step++) {
        struct iovec pieces[LEN];
        size_t count = 0;

        for (size_t at = 0; at < LEN; at += step) {
            pieces[count].iov_base = memory + at;
            pieces[count++].iov_len = LEN - at < step ? LEN - at : step;
        }
        for (uint64_t cut = 1; cut < 40; cut += 3) {
            uint64_t cuts[LEN];
            size_t cuts_count = 0;
            uint64_t left = LEN;

            while (left > 0) {
                cuts[cuts_count] = left < cut ? left : cut;
                left -= cuts[cuts_count++];
            }
            check(pieces, count, cuts, cuts_count);
        }
    }
}

static void cut__passes_empty_pieces_by(void **state)
{
    struct iovec pieces[] = {
        {.iov_base = NULL, .iov_len = 0},
        {.iov_base = memory, .iov_len = 10},
        {.iov_base = NULL, .iov_len = 0},
        {.iov_base = memory + 10, .iov_len = LEN - 10},
    };
    uint64_t cuts[] = {10, 5, LEN - 15};

    (void)state;
    check(pieces, 4, cuts, 3);
}

static void cut__out_of_memory_leaves_the_cursor_where_it_was(void **state)
{
    struct iovec piece = {.iov_base = memory, .iov_len = LEN}, *out = NULL;
    struct mc_piece_cursor cursor = mc_piece_cursor(&piece, 1);
    struct mc_arena arena;
    unsigned n;

    (void)state;
    mc_arena_init(&arena, 0);
    mc_mem_fail_after(0);
    assert_int_equal(mc_piece_cursor_cut(&cursor, 10, &arena, &out, &n), MOONCAKE_ENOMEM);
    mc_mem_fail_after(-1);
    assert_int_equal(mc_piece_cursor_cut(&cursor, 10, &arena, &out, &n), MOONCAKE_OK);
    assert_ptr_equal(out[0].iov_base, memory);
    mc_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut__of_nothing_is_nothing),
        cmocka_unit_test(cut__follows_pieces_of_every_length),
        cmocka_unit_test(cut__passes_empty_pieces_by),
        cmocka_unit_test(cut__out_of_memory_leaves_the_cursor_where_it_was),
    };

    for (size_t i = 0; i < LEN; i++) {
        memory[i] = (uint8_t)(i * 7 + i / 251);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
