/* Time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

static void clock__deadline_does_not_wrap(void **state)
{
    (void)state;
    assert_true(mc_deadline_ns(1, UINT64_MAX) == UINT64_MAX);
    assert_true(mc_deadline_ns(UINT64_MAX, 1) == UINT64_MAX);
    assert_true(mc_deadline_ns(UINT64_MAX - 999999, 1) == UINT64_MAX);
    assert_true(mc_deadline_ns(UINT64_MAX - 1000000, 1) == UINT64_MAX);
    assert_true(mc_deadline_ns(5, 0) == 5);
    assert_true(mc_deadline_ns(5, 2) == 2000005);
}

static void clock__time_left_is_rounded_up_and_never_negative(void **state)
{
    (void)state;
    assert_true(mc_left_ms(10, 9) == 0);
    assert_true(mc_left_ms(10, 10) == 0);
    assert_true(mc_left_ms(10, 11) == 1); /* waiting 0 ms would spin */
    assert_true(mc_left_ms(0, 1000000) == 1);
    assert_true(mc_left_ms(0, 1000001) == 2);
    assert_true(mc_left_ms(0, UINT64_MAX) == UINT64_MAX / 1000000 + 1);
}

static void clock__fake_clock_stands_still_until_told(void **state)
{
    struct mc_clock_fake fake;

    (void)state;
    mc_clock_fake_init(&fake, 7);
    assert_true(mc_now_ns(&fake.clock) == 7);
    assert_true(mc_now_ns(&fake.clock) == 7);
    fake.now_ns = 9;
    assert_true(mc_now_ns(&fake.clock) == 9);
}

static void clock__system_clock_never_goes_back_and_is_never_zero(void **state)
{
    uint64_t before = mc_now_ns(mc_clock_system());

    (void)state;
    assert_true(before > 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t now = mc_monotonic_ns();

        assert_true(now >= before);
        before = now;
    }
}

static void clock__wall_time_is_in_microseconds(void **state)
{
    (void)state;
    assert_true(mc_wall_us() > 1700000000ull * 1000000ull); /* after 2023 */
    assert_true(mc_wall_us() < 7000000000ull * 1000000ull);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock__deadline_does_not_wrap),
        cmocka_unit_test(clock__time_left_is_rounded_up_and_never_negative),
        cmocka_unit_test(clock__fake_clock_stands_still_until_told),
        cmocka_unit_test(clock__system_clock_never_goes_back_and_is_never_zero),
        cmocka_unit_test(clock__wall_time_is_in_microseconds),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
