/* Processors: what a cpuset takes away is not counted. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cores.h"

static void cores__without_a_cpuset_all_are_counted(void **state)
{
    cpu_set_t all;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(mc_cores_allowed(), CPU_COUNT(&all));
}

static void cores__what_a_cpuset_takes_away_is_not_counted(void **state)
{
    cpu_set_t before, one;
    size_t first = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    while (!CPU_ISSET(first, &before)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(mc_cores_allowed(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores__without_a_cpuset_all_are_counted),
        cmocka_unit_test(cores__what_a_cpuset_takes_away_is_not_counted),
    };

    return cmocka_run_group_tests_name("cores", tests, NULL, NULL);
}
