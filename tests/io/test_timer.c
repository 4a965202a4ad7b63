/* Timers of a loop. */
#include "loop_fixture.h"

#include <unistd.h>

struct ticks {
    struct mc_loop *loop;
    struct mc_timer *timer;
    uint64_t fired_ns; /* loop's time at the last */
    unsigned count, destroy_at, done_at;
    bool done;
};

static void on_tick(void *arg)
{
    struct ticks *ticks = arg;

    ticks->fired_ns = mc_loop_now_ns(ticks->loop);
    ticks->count++;
    ticks->done = ticks->count >= ticks->done_at;
    if (ticks->count == ticks->destroy_at) {
        mc_timer_destroy(&ticks->timer);
    }
}

static struct ticks open_timer(struct mc_loop *loop)
{
    return (struct ticks){.loop = loop, .done_at = 1};
}

/* @p poll_us above 0: the loop looks all the time, so that it would see a timer that is due early.
 */
static void expect_no_early_timer(uint32_t poll_us)
{
    struct mc_loop *loop = open_loop(poll_us);
    struct ticks ticks = open_timer(loop);
    uint64_t start_ns;

    assert_int_equal(mc_timer_create(loop, on_tick, &ticks, &ticks.timer), MOONCAKE_OK);
    mc_loop_run_ready(loop);
    stand_still(30); /* the loop's own time is old now */
    for (uint64_t ms = 1; ms < 10; ms++) {
        ticks.done = false;
        start_ns = mc_monotonic_ns();
        mc_timer_set(ticks.timer, ms, 0);
        run_until(loop, &ticks.done);
        assert_true(mc_monotonic_ns() - start_ns >= ms * MC_NS_PER_MS);
        assert_true(ticks.fired_ns - start_ns >= ms * MC_NS_PER_MS); /* time is fresh in fire */
    }
    mc_timer_destroy(&ticks.timer);
    close_loop(loop);
}

static void timer__does_not_fire_early_even_if_the_loop_stood_still(void **state)
{
    (void)state;
    expect_no_early_timer(0);
    expect_no_early_timer(1000000);
}

static void timer__that_ends_the_wait_is_not_followed_by_a_sleep(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct ticks ticks = open_timer(loop);
    uint64_t start_ns;

    (void)state;
    assert_int_equal(mc_timer_create(loop, on_tick, &ticks, &ticks.timer), MOONCAKE_OK);
    mc_timer_set(ticks.timer, 1, 0);
    stand_still(5); /* due before libuv is entered: it fires before the wait, not in it */
    start_ns = mc_monotonic_ns();
    assert_int_equal(mc_loop_run_until(loop, &ticks.done, start_ns + WAIT_NS), MOONCAKE_OK);
    assert_true(mc_monotonic_ns() - start_ns < WAIT_NS / 2);
    mc_timer_destroy(&ticks.timer);
    close_loop(loop);
}

static void timer__repeats_until_cleared(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct ticks ticks = open_timer(loop);
    const bool never = false;

    (void)state;
    ticks.done_at = 3;
    assert_int_equal(mc_timer_create(loop, on_tick, &ticks, &ticks.timer), MOONCAKE_OK);
    mc_timer_set(ticks.timer, 0, 1);
    run_until(loop, &ticks.done);
    mc_timer_clear(ticks.timer);
    assert_int_equal(mc_loop_run_until(loop, &never, in_ms(5)), MOONCAKE_ETIMEDOUT);
    assert_int_equal(ticks.count, 3);
    mc_timer_destroy(&ticks.timer);
    close_loop(loop);
}

static void timer__setting_again_replaces_the_earlier_setting(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct ticks ticks = open_timer(loop);

    (void)state;
    assert_int_equal(mc_timer_create(loop, on_tick, &ticks, &ticks.timer), MOONCAKE_OK);
    mc_timer_set(ticks.timer, 3600000, 0);
    mc_timer_set(ticks.timer, 1, 0);
    run_until(loop, &ticks.done);
    assert_int_equal(ticks.count, 1);
    mc_timer_destroy(&ticks.timer);
    close_loop(loop);
}

static void timer__may_be_destroyed_while_it_fires(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct ticks ticks = open_timer(loop);
    const bool never = false;

    (void)state;
    ticks.destroy_at = 2;
    ticks.done_at = 2;
    assert_int_equal(mc_timer_create(loop, on_tick, &ticks, &ticks.timer), MOONCAKE_OK);
    mc_timer_set(ticks.timer, 1, 1);
    run_until(loop, &ticks.done); /* however long that takes on a busy machine */
    assert_int_equal(mc_loop_run_until(loop, &never, in_ms(10)), MOONCAKE_ETIMEDOUT);
    assert_int_equal(ticks.count, 2);
    assert_null(ticks.timer);
    close_loop(loop);
}

static void on_tick_again(void *arg)
{
    struct ticks *ticks = arg;

    on_tick(arg);
    if (!ticks->done) {
        mc_timer_set(ticks->timer, 0, 0);
    }
}

static void timer__that_sets_itself_to_0_gives_everybody_a_turn_in_between(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct ticks ticks = open_timer(loop);
    uint64_t turns;

    (void)state;
    ticks.done_at = 20;
    assert_int_equal(mc_timer_create(loop, on_tick_again, &ticks, &ticks.timer), MOONCAKE_OK);
    mc_timer_set(ticks.timer, 0, 0);
    turns = mc_loop_stats(loop).turns;
    run_until(loop, &ticks.done);
    assert_int_equal(ticks.count, 20);
    assert_true(mc_loop_stats(loop).turns - turns >= 20);
    ticks.done = false;
    mc_timer_set(ticks.timer, 0, 0); /* cleared, replaced and destroyed before it fires */
    mc_timer_clear(ticks.timer);
    mc_loop_run_ready(loop);
    mc_timer_set(ticks.timer, 0, 0);
    mc_timer_set(ticks.timer, 3600000, 0);
    mc_loop_run_ready(loop);
    mc_timer_set(ticks.timer, 0, 0);
    mc_timer_destroy(&ticks.timer);
    mc_loop_run_ready(loop);
    assert_int_equal(ticks.count, 20);
    close_loop(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timer__does_not_fire_early_even_if_the_loop_stood_still),
        cmocka_unit_test(timer__that_ends_the_wait_is_not_followed_by_a_sleep),
        cmocka_unit_test(timer__repeats_until_cleared),
        cmocka_unit_test(timer__setting_again_replaces_the_earlier_setting),
        cmocka_unit_test(timer__may_be_destroyed_while_it_fires),
        cmocka_unit_test(timer__that_sets_itself_to_0_gives_everybody_a_turn_in_between),
    };

    return cmocka_run_group_tests_name("io/timer", tests, NULL, NULL);
}
