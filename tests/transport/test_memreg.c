/* Registered ranges of caller memory. Only addresses matter; nothing is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "transport/memreg.h"

static const void *at(uintptr_t address)
{
    return (const void *)address;
}

static int open_memreg(void **state)
{
    struct mc_memreg *reg = NULL;

    assert_int_equal(mc_memreg_create(&reg), MOONCAKE_OK);
    *state = reg;
    return 0;
}

static int close_memreg(void **state)
{
    struct mc_memreg *reg = *state;

    mc_memreg_destroy(&reg);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

static bool covers(struct mc_memreg *reg, uintptr_t base, uint64_t len)
{
    struct mc_memreg_range *range = mc_memreg_borrow(reg, at(base), len);

    if (range == NULL) {
        return false;
    }
    assert_true(range->base <= base && base + len <= range->base + range->len);
    mc_memreg_return(reg, range);
    return true;
}

static void add__refuses_what_is_no_range(void **state)
{
    assert_int_equal(mc_memreg_add(*state, at(4096), 0), MOONCAKE_EINVAL);
    assert_int_equal(mc_memreg_add(*state, NULL, 10), MOONCAKE_EINVAL);
    assert_int_equal(mc_memreg_add(*state, at(4096), UINT64_MAX - 4000), MOONCAKE_EINVAL);
    assert_int_equal(mc_memreg_count(*state), 0);
}

static void add__twice_wants_two_drops(void **state)
{
    assert_int_equal(mc_memreg_add(*state, at(4096), 100), MOONCAKE_OK);
    assert_int_equal(mc_memreg_add(*state, at(4096), 100), MOONCAKE_OK);
    assert_int_equal(mc_memreg_count(*state), 1);
    assert_int_equal(mc_memreg_drop(*state, at(4096)), MOONCAKE_OK);
    assert_true(covers(*state, 4096, 100));
    assert_int_equal(mc_memreg_drop(*state, at(4096)), MOONCAKE_OK);
    assert_false(covers(*state, 4096, 100));
    assert_int_equal(mc_memreg_drop(*state, at(4096)), MOONCAKE_EINVAL);
}

static void drop__takes_the_newest_that_began_there(void **state)
{
    assert_int_equal(mc_memreg_add(*state, at(4096), 100), MOONCAKE_OK);
    assert_int_equal(mc_memreg_add(*state, at(4096), 200), MOONCAKE_OK);
    assert_int_equal(mc_memreg_add(*state, at(4096), 50), MOONCAKE_OK);
    assert_int_equal(mc_memreg_drop(*state, at(4096)), MOONCAKE_OK);
    assert_true(covers(*state, 4096, 200));
    assert_int_equal(mc_memreg_drop(*state, at(4096)), MOONCAKE_OK);
    assert_false(covers(*state, 4096, 200));
    assert_true(covers(*state, 4096, 100));
    assert_int_equal(mc_memreg_drop(*state, at(4097)), MOONCAKE_EINVAL);
}

static void borrow__wants_the_whole_range_inside_one_registration(void **state)
{
    assert_int_equal(mc_memreg_add(*state, at(10000), 100), MOONCAKE_OK);
    assert_int_equal(mc_memreg_add(*state, at(10100), 100), MOONCAKE_OK);
    assert_true(covers(*state, 10000, 100));
    assert_true(covers(*state, 10099, 1));
    assert_true(covers(*state, 10100, 100));
    assert_false(covers(*state, 9999, 1));
    assert_false(covers(*state, 10200, 1));
    assert_false(covers(*state, 10050, 100));
    assert_false(covers(*state, 10050, UINT64_MAX - 5));
}

/* Against a plain search, with ranges that overlap and nest in every way. */
static void borrow__finds_a_range_exactly_when_there_is_one(void **state)
{
    struct {
        uintptr_t base;
        uint64_t len;
    } ranges[60];
    uint64_t random = 12345;

    for (size_t i = 0; i < MC_ARRAY_LEN(ranges); i++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        ranges[i].base = 1000 + (random >> 33) % 300;
        ranges[i].len = 1 + (random >> 45) % 60;
        assert_int_equal(mc_memreg_add(*state, at(ranges[i].base), ranges[i].len), MOONCAKE_OK);
    }
    for (uintptr_t base = 990; base < 1370; base++) {
        for (uint64_t len = 0; len < 70; len += 3) {
            bool wanted = false;

            for (size_t i = 0; i < MC_ARRAY_LEN(ranges); i++) {
                wanted = wanted ||
                         (ranges[i].base <= base && base + len <= ranges[i].base + ranges[i].len);
            }
            assert_int_equal(covers(*state, base, len), wanted);
        }
    }
}

static unsigned released;

static void count_release(void *data)
{
    assert_ptr_equal(data, &released);
    released++;
}

static void drop__of_a_borrowed_range_waits_for_its_return(void **state)
{
    struct mc_memreg_range *range;

    released = 0;
    assert_int_equal(mc_memreg_add(*state, at(4096), 100), MOONCAKE_OK);
    range = mc_memreg_borrow(*state, at(4100), 10);
    assert_non_null(range);
    range->keys[1].data = &released;
    range->keys[1].release = count_release;
    assert_int_equal(mc_memreg_drop(*state, at(4096)), MOONCAKE_OK);
    assert_false(covers(*state, 4096, 1));
    assert_int_equal(released, 0);
    mc_memreg_return(*state, range);
    assert_int_equal(released, 1);
}

static void add__out_of_memory_changes_nothing(void **state)
{
    for (int64_t n = 0; n < 3; n++) {
        mc_mem_fail_after(n);
        assert_int_equal(mc_memreg_add(*state, at(4096), 100), MOONCAKE_ENOMEM);
        mc_mem_fail_after(-1);
        assert_int_equal(mc_memreg_count(*state), 0);
        assert_false(covers(*state, 4096, 1));
    }
    assert_int_equal(mc_memreg_add(*state, at(4096), 100), MOONCAKE_OK);
    assert_true(covers(*state, 4096, 100));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_memreg, close_memreg)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(add__refuses_what_is_no_range),
        TEST(add__twice_wants_two_drops),
        TEST(drop__takes_the_newest_that_began_there),
        TEST(borrow__wants_the_whole_range_inside_one_registration),
        TEST(borrow__finds_a_range_exactly_when_there_is_one),
        TEST(drop__of_a_borrowed_range_waits_for_its_return),
        TEST(add__out_of_memory_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
