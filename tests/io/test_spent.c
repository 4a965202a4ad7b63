/* What a thread's time goes into. The turns are the test's own; the clock is the thread's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "io/spent.h"

static uint64_t cpu_ns(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * MC_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Use the processor for so long; returns how long it was. */
static uint64_t burn(uint64_t ns)
{
    uint64_t start_ns = cpu_ns(), now_ns = start_ns;

    while (now_ns - start_ns < ns) {
        now_ns = cpu_ns();
    }
    return now_ns - start_ns;
}

static uint64_t of(const struct mc_spent *spent, enum mc_spent_kind kind)
{
    return mc_counter_get(&spent->ns[kind]);
}

static void spent__time_goes_to_the_kind_that_was_said(void **state)
{
    uint64_t begin_ns, middle_ns, end_ns, frames_ns, table_ns;
    struct mc_spent spent;
    enum mc_spent_kind was;

    (void)state;
    mc_spent_init(&spent, 1);
    mc_spent_turn_begin(&spent);
    assert_true(spent.timing);
    begin_ns = cpu_ns();
    was = mc_spend(&spent, MC_SPENT_FRAMES);
    assert_int_equal(was, MC_SPENT_LOOP);
    frames_ns = burn(2 * MC_NS_PER_MS);
    middle_ns = cpu_ns();
    was = mc_spend(&spent, MC_SPENT_TABLE);
    assert_int_equal(was, MC_SPENT_FRAMES);
    table_ns = burn(8 * MC_NS_PER_MS);
    (void)mc_spend(&spent, was);
    end_ns = cpu_ns();
    (void)mc_spend(&spent, MC_SPENT_LOOP);
    mc_spent_turn_end(&spent);
    assert_false(spent.timing);
    /* Not by 2 and 8 ms: where a machine is shared, the clock of a thread jumps. */
    assert_in_range(of(&spent, MC_SPENT_FRAMES), frames_ns / 2, cpu_ns() - begin_ns - table_ns);
    assert_in_range(of(&spent, MC_SPENT_TABLE), table_ns / 2, end_ns - middle_ns);
    assert_int_equal(of(&spent, MC_SPENT_CODEC), 0);
}

static void spent__nothing_is_counted_when_it_is_off(void **state)
{
    struct mc_spent spent;

    (void)state;
    mc_spent_init(&spent, 0);
    mc_spent_turn_begin(&spent);
    (void)mc_spend(&spent, MC_SPENT_TABLE);
    (void)burn(MC_NS_PER_MS);
    mc_spent_turn_end(&spent);
    assert_int_equal(of(&spent, MC_SPENT_TABLE), 0);
}

static void spent__samples_stand_for_all_turns(void **state)
{
    struct mc_spent spent;
    uint64_t least_ns = 0, most_ns = 0; /* of the turns that are timed */
    unsigned timed = 0;

    (void)state;
    mc_spent_init(&spent, 8);
    for (unsigned i = 0; i < 1600; i++) {
        uint64_t begin_ns = cpu_ns(), burnt_ns;
        bool timing;

        mc_spent_turn_begin(&spent);
        timing = spent.timing;
        (void)mc_spend(&spent, MC_SPENT_TABLE);
        burnt_ns = burn(30 * MC_NS_PER_US);
        (void)mc_spend(&spent, MC_SPENT_LOOP);
        mc_spent_turn_end(&spent);
        if (timing) {
            timed++;
            least_ns += burnt_ns;
            most_ns += cpu_ns() - begin_ns;
        }
    }
    assert_in_range(timed, 100, 400);
    assert_in_range(of(&spent, MC_SPENT_TABLE), 8 * least_ns / 2, 8 * most_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spent__time_goes_to_the_kind_that_was_said),
        cmocka_unit_test(spent__nothing_is_counted_when_it_is_off),
        cmocka_unit_test(spent__samples_stand_for_all_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
