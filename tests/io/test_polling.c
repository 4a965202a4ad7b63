/* Whether polling pays: what is learnt from gaps, and a loop that acts on it. */
#include "loop_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "io/polling.h"

#define WINDOW_NS (50 * MC_NS_PER_US)

/* What a loop does in a gap that work ends after @p gap_ns. Returns what it polled. */
static uint64_t pass_gap(struct mc_polling *polling, uint64_t gap_ns)
{
    const uint64_t window_ns = mc_polling_window(polling);

    if (window_ns == 0) {
        mc_polling_slept(polling, gap_ns);
        return 0;
    }
    if (gap_ns < window_ns) {
        mc_polling_found(polling, gap_ns);
        return gap_ns;
    }
    mc_polling_missed(polling, window_ns);
    return window_ns;
}

static uint64_t pass_gaps(struct mc_polling *polling, uint64_t gap_ns, unsigned count)
{
    uint64_t polled_ns = 0;

    for (unsigned i = 0; i < count; i++) {
        polled_ns += pass_gap(polling, gap_ns);
    }
    return polled_ns;
}

static void polling__without_a_window_is_never_wanted(void **state)
{
    struct mc_polling polling;

    (void)state;
    mc_polling_init(&polling, 0);
    assert_int_equal(pass_gaps(&polling, 1, 1000), 0);
}

static void polling__goes_on_while_work_comes_inside_the_window(void **state)
{
    struct mc_polling polling;

    (void)state;
    mc_polling_init(&polling, WINDOW_NS);
    assert_int_equal(pass_gaps(&polling, 20000, 1000), 1000 * 20000);
    /* Now and then a late one changes nothing. */
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(pass_gap(&polling, MC_NS_PER_MS), WINDOW_NS);
        assert_int_equal(pass_gaps(&polling, 20000, 10), 10 * 20000);
    }
}

static void polling__that_finds_nothing_is_tried_ever_more_rarely(void **state)
{
    struct mc_polling polling;
    uint64_t windows;

    (void)state;
    mc_polling_init(&polling, WINDOW_NS);
    windows = pass_gaps(&polling, MC_NS_PER_S, 100) / WINDOW_NS;
    assert_in_range(windows, 6, 16); /* at first a few in a row, then after 1, 2, 4, ... gaps */
    windows = pass_gaps(&polling, MC_NS_PER_S, 100 * MC_POLLING_SKIP_MAX) / WINDOW_NS;
    assert_in_range(windows, 90, 110); /* still tried: the load may change */
}

static void polling__that_finds_little_costs_little(void **state)
{
    struct mc_polling polling;
    uint64_t polled_ns = 0;

    (void)state;
    mc_polling_init(&polling, WINDOW_NS);
    for (unsigned i = 0; i < 10000; i++) {
        polled_ns += pass_gap(&polling, i % 10 == 0 ? 45000 : MC_NS_PER_MS);
    }
    /* Always polling would be 9.9 windows for each that is found; an eighth of that is allowed. */
    assert_true(polled_ns < 10000 * WINDOW_NS / 8);
}

static void polling__comes_back_when_work_does(void **state)
{
    struct mc_polling polling;

    (void)state;
    mc_polling_init(&polling, WINDOW_NS);
    (void)pass_gaps(&polling, MC_NS_PER_S, 10000);
    /* Asleep, a gap looks longer than it is: only a trial can find out. */
    for (unsigned i = 0; i < MC_POLLING_SKIP_MAX; i++) {
        (void)pass_gap(&polling, mc_polling_window(&polling) == 0 ? 2 * WINDOW_NS : 10000);
    }
    assert_int_equal(pass_gaps(&polling, 10000, 1000), 1000 * 10000);

    /* A gap that was short in spite of the sleep is news enough. */
    (void)pass_gaps(&polling, MC_NS_PER_S, 10000);
    for (unsigned i = 0; i < MC_POLLING_SKIP_MAX && mc_polling_window(&polling) != 0; i++) {
        (void)pass_gap(&polling, MC_NS_PER_S);
    }
    assert_int_equal(pass_gap(&polling, 10000), 0);
    assert_int_equal(pass_gaps(&polling, 10000, 100), 100 * 10000);
}

/* ---- a loop ------------------------------------------------------------------------------------
 */

#define POSTS 100u
#define POST_EACH_MS 3

struct poster {
    struct mc_loop *loop;
    struct mc_post post;
    unsigned ran;
    bool done; /* the loop's */
};

static void on_post(struct mc_post *post)
{
    struct poster *poster = MC_CONTAINER_OF(post, struct poster, post);

    poster->ran++;
    poster->done = true;
}

/* The sleep is the load: work that comes far apart. */
static void *post_once(void *arg)
{
    const struct timespec pause = {.tv_nsec = POST_EACH_MS * (long)MC_NS_PER_MS};
    struct poster *poster = arg;

    (void)nanosleep(&pause, NULL);
    mc_loop_post(poster->loop, &poster->post);
    return NULL;
}

static void loop__stops_polling_for_work_that_comes_late(void **state)
{
    struct poster poster = {.loop = open_loop(1000), .post = {.run = on_post}};
    struct mc_loop_stats stats;

    (void)state;
    for (unsigned i = 0; i < POSTS; i++) {
        pthread_t thread;

        poster.done = false;
        assert_int_equal(pthread_create(&thread, NULL, post_once, &poster), 0);
        run_until(poster.loop, &poster.done);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    stats = mc_loop_stats(poster.loop);
    assert_int_equal(poster.ran, POSTS);
    assert_true(stats.polls_missed < POSTS / 3); /* 13 or so; with a fixed window 100 */
    close_loop(poster.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(polling__without_a_window_is_never_wanted),
        cmocka_unit_test(polling__goes_on_while_work_comes_inside_the_window),
        cmocka_unit_test(polling__that_finds_nothing_is_tried_ever_more_rarely),
        cmocka_unit_test(polling__that_finds_little_costs_little),
        cmocka_unit_test(polling__comes_back_when_work_does),
        cmocka_unit_test(loop__stops_polling_for_work_that_comes_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
