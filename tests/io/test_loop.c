/* Loops, posts and signals. */
#include "loop_fixture.h"

#include <stdio.h>
#include <string.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- running ------------------------------------------------------------------------------- */

static void loop__run_until_ends_at_its_deadline_and_not_before(void **state)
{
    struct mc_loop *loop = open_loop(0);
    const bool never = false;

    (void)state;
    /* Also less than libuv's millisecond, when its timer is due before it begins to wait. */
    for (uint64_t us = 0; us < 4000; us += us < 200 ? 1 : 500) {
        uint64_t deadline_ns = mc_monotonic_ns() + us * MC_NS_PER_US;

        assert_int_equal(mc_loop_run_until(loop, &never, deadline_ns), MOONCAKE_ETIMEDOUT);
        assert_true(mc_monotonic_ns() >= deadline_ns);
        assert_true(mc_monotonic_ns() < deadline_ns + 10 * MC_NS_PER_S);
    }
    close_loop(loop);
}

static void loop__run_until_returns_at_once_when_all_is_done(void **state)
{
    struct mc_loop *loop = open_loop(0);
    const bool done = true;

    (void)state;
    assert_int_equal(mc_loop_run_until(loop, &done, 1), MOONCAKE_OK);
    assert_int_equal(mc_loop_stats(loop).turns, 0);
    close_loop(loop);
}

static void loop__stop_soon_before_run_is_not_forgotten(void **state)
{
    struct mc_loop *loop = open_loop(0);

    (void)state;
    mc_loop_stop_soon(loop);
    mc_loop_run(loop); /* the test's time limit bites if this does not return */
    close_loop(loop);
}

static void loop__polls_for_its_time_before_it_sleeps(void **state)
{
    const bool never = false;
    struct mc_loop *loop = open_loop(10000000);
    struct mc_loop_stats stats;

    (void)state;
    /* Bounds are wide: other processes may hold the core for a long time. */
    assert_int_equal(mc_loop_run_until(loop, &never, in_ms(100)), MOONCAKE_ETIMEDOUT);
    stats = mc_loop_stats(loop);
    assert_in_range(stats.sleeps, 0, stats.rests * 5);
    if (stats.rests == 0) {
        assert_true(stats.turns >= 3);
        assert_true(stats.idle_poll_ns > 90 * MC_NS_PER_MS);
    }
    close_loop(loop);

    loop = open_loop(1000);
    assert_int_equal(mc_loop_run_until(loop, &never, in_ms(300)), MOONCAKE_ETIMEDOUT);
    stats = mc_loop_stats(loop);
    assert_in_range(stats.sleeps, 1, 5);
    assert_true(stats.idle_poll_ns < 250 * MC_NS_PER_MS);
    close_loop(loop);

    loop = open_loop(0);
    assert_int_equal(mc_loop_run_until(loop, &never, in_ms(5)), MOONCAKE_ETIMEDOUT);
    stats = mc_loop_stats(loop);
    assert_int_equal(stats.idle_poll_ns, 0);
    assert_in_range(stats.turns, 1, 5);
    close_loop(loop);
}

/* A process that never rests, on one core with us. */
static pid_t crowd_this_core(void)
{
    cpu_set_t all, one;
    pid_t pid;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)alarm(60);
        for (;;) {
        }
    }
    return pid;
}

static void loop__does_not_poll_on_a_core_that_others_want(void **state)
{
    const bool never = false;
    struct mc_loop *loop = open_loop(10000000);
    struct mc_loop_stats stats;
    cpu_set_t before;
    pid_t crowd;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    crowd = crowd_this_core();
    assert_int_equal(mc_loop_run_until(loop, &never, in_ms(500)), MOONCAKE_ETIMEDOUT);
    stats = mc_loop_stats(loop);
    (void)kill(crowd, SIGKILL);
    assert_int_equal(waitpid(crowd, NULL, 0), crowd);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_in_range(stats.rests, 1, 3); /* 100, 200, 400 ms */
    assert_in_range(stats.sleeps, 1, 10);
    close_loop(loop);
}

static void *adopt(void *arg)
{
    mc_loop_adopt(arg);
    return mc_loop_is_owner(arg) ? arg : NULL;
}

static void loop__is_owned_by_the_thread_that_adopted_it_last(void **state)
{
    struct mc_loop *loop = open_loop(0);
    pthread_t thread;
    void *result = NULL;

    (void)state;
    assert_true(mc_loop_is_owner(loop));
    assert_int_equal(pthread_create(&thread, NULL, adopt, loop), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, loop);
    assert_false(mc_loop_is_owner(loop));
    mc_loop_adopt(loop);
    close_loop(loop);
}

static void unused(void *arg)
{
    (void)arg;
}

static void loop__destroy_with_an_open_handle_stops_the_process(void **state)
{
    static const struct rlimit no_core = {0, 0};
    int status = 0;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        struct mc_loop *loop = NULL;
        struct mc_timer *timer = NULL;

        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)!freopen("/dev/null", "w", stderr);
        (void)signal(SIGABRT, SIG_DFL);
        if (mc_loop_create(0, &loop) == MOONCAKE_OK &&
            mc_timer_create(loop, unused, NULL, &timer) == MOONCAKE_OK) {
            mc_loop_destroy(&loop);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* ---- posts --------------------------------------------------------------------------------- */

struct note {
    struct mc_post post;
    struct mc_loop *loop;
    unsigned number;
    unsigned runs;
    bool ran;
    bool on_owner;
};

static void note_run(struct mc_post *post)
{
    struct note *note = MC_CONTAINER_OF(post, struct note, post);

    note->runs++;
    note->ran = true;
    note->on_owner = mc_loop_is_owner(note->loop);
}

static void note_init(struct note *note, struct mc_loop *loop)
{
    memset(note, 0, sizeof(*note));
    note->post.run = note_run;
    note->loop = loop;
}

static void repost_run(struct mc_post *post)
{
    struct note *note = MC_CONTAINER_OF(post, struct note, post);

    if (++note->runs < 3) {
        mc_loop_post(note->loop, post);
    } else {
        note->ran = true;
    }
}

static void loop__post_of_the_own_thread_runs_also_when_made_by_a_post(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct note note;

    (void)state;
    note_init(&note, loop);
    note.post.run = repost_run;
    mc_loop_post(loop, &note.post);
    assert_int_equal(note.runs, 0);
    run_until(loop, &note.ran);
    assert_int_equal(note.runs, 3);
    assert_int_equal(mc_loop_stats(loop).sleeps, 0);
    close_loop(loop);
}

static void loop__destroy_runs_posts_that_wait(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct note note;

    (void)state;
    note_init(&note, loop);
    mc_loop_post(loop, &note.post);
    close_loop(loop);
    assert_int_equal(note.runs, 1);
}

/* Posts once the loop has gone to sleep since @number sleeps. */
static void *post_when_asleep(void *arg)
{
    struct note *note = arg;
    const uint64_t end_ns = mc_monotonic_ns() + WAIT_NS / 4;

    while (mc_loop_stats(note->loop).sleeps == note->number && mc_monotonic_ns() < end_ns) {
        (void)sched_yield();
    }
    mc_loop_post(note->loop, &note->post);
    return NULL;
}

static void loop__post_of_another_thread_wakes_a_sleeping_loop(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct note note;
    pthread_t thread;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        uint64_t start_ns = mc_monotonic_ns();

        note_init(&note, loop);
        note.number = (unsigned)mc_loop_stats(loop).sleeps;
        assert_int_equal(pthread_create(&thread, NULL, post_when_asleep, &note), 0);
        run_until(loop, &note.ran);
        assert_true(note.on_owner);
        assert_true(mc_monotonic_ns() - start_ns < WAIT_NS / 2);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(mc_loop_stats(loop).sleeps > note.number);
    }
    close_loop(loop);
}

#define POSTERS 4u
#define POSTS_EACH 5000u

struct poster {
    struct mc_loop *loop;
    struct note *notes;
    pthread_t thread;
};

static atomic_uint order_errors, runs_total;

static void ordered_run(struct mc_post *post)
{
    struct note *note = MC_CONTAINER_OF(post, struct note, post);
    unsigned index = note->number % POSTS_EACH;

    note->runs++;
    if (!mc_loop_is_owner(note->loop) || (index > 0 && (note - 1)->runs != 1)) {
        (void)atomic_fetch_add(&order_errors, 1);
    }
    (void)atomic_fetch_add(&runs_total, 1);
}

static void *post_many(void *arg)
{
    struct poster *poster = arg;

    for (unsigned i = 0; i < POSTS_EACH; i++) {
        mc_loop_post(poster->loop, &poster->notes[i].post);
    }
    return NULL;
}

static void loop__posts_of_many_threads_run_once_each_in_their_order(void **state)
{
    static struct note notes[POSTERS * POSTS_EACH];
    struct poster posters[POSTERS];
    struct mc_loop *loop = open_loop(20);

    (void)state;
    atomic_store(&order_errors, 0);
    atomic_store(&runs_total, 0);
    for (unsigned i = 0; i < POSTERS * POSTS_EACH; i++) {
        note_init(&notes[i], loop);
        notes[i].post.run = ordered_run;
        notes[i].number = i;
    }
    assert_int_equal(mc_loop_start(loop, "test"), MOONCAKE_OK);
    for (unsigned i = 0; i < POSTERS; i++) {
        posters[i].loop = loop;
        posters[i].notes = notes + (size_t)i * POSTS_EACH;
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_many, &posters[i]), 0);
    }
    for (unsigned i = 0; i < POSTERS; i++) {
        assert_int_equal(pthread_join(posters[i].thread, NULL), 0);
    }
    mc_loop_stop(loop); /* what was posted before runs before the thread ends */
    assert_int_equal(atomic_load(&runs_total), POSTERS * POSTS_EACH);
    assert_int_equal(atomic_load(&order_errors), 0);
    close_loop(loop);
}

static void look_at_thread(struct mc_post *post)
{
    struct note *note = MC_CONTAINER_OF(post, struct note, post);
    char name[16] = "";
    sigset_t set;

    (void)pthread_getname_np(pthread_self(), name, sizeof(name));
    (void)pthread_sigmask(SIG_SETMASK, NULL, &set);
    note->number = strcmp(name, "fifteen-letters") == 0 && sigismember(&set, SIGTERM) == 1 &&
                   sigismember(&set, SIGUSR1) == 1;
}

static void loop__thread_has_its_name_and_takes_no_signals(void **state)
{
    struct mc_loop *loop = open_loop(0);
    struct note note;

    (void)state;
    note_init(&note, loop);
    note.post.run = look_at_thread;
    assert_int_equal(mc_loop_start(loop, "fifteen-letters-and-more"), MOONCAKE_OK);
    mc_loop_post(loop, &note.post);
    mc_loop_stop(loop);
    assert_true(mc_loop_is_owner(loop));
    assert_int_equal(note.number, 1);
    close_loop(loop);
}

/* ---- signals, errors ------------------------------------------------------------------------ */

static int last_signal;
static bool got_signal;

static void on_signal(void *arg, int signum)
{
    (void)arg;
    last_signal = signum;
    got_signal = true;
}

static void loop__hears_sigterm_and_sigint(void **state)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    struct mc_loop *loop = open_loop(0);

    (void)state;
    assert_int_equal(mc_loop_on_signal(loop, on_signal, NULL), MOONCAKE_OK);
    for (size_t i = 0; i < MC_ARRAY_LEN(numbers); i++) {
        got_signal = false;
        assert_int_equal(kill(getpid(), numbers[i]), 0);
        run_until(loop, &got_signal);
        assert_int_equal(last_signal, numbers[i]);
    }
    close_loop(loop);
}

static void loop__create_out_of_memory_leaves_nothing_behind(void **state)
{
    struct mc_loop *const before = (struct mc_loop *)0x1;
    struct mc_loop *loop = before;

    (void)state;
    for (int n = 0; n < 2; n++) {
        mc_mem_fail_after(n);
        assert_int_equal(mc_loop_create(0, &loop), MOONCAKE_ENOMEM);
        assert_ptr_equal(loop, before);
        assert_int_equal(mc_mem_live_count(), 0);
    }
    mc_mem_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loop__run_until_ends_at_its_deadline_and_not_before),
        cmocka_unit_test(loop__run_until_returns_at_once_when_all_is_done),
        cmocka_unit_test(loop__stop_soon_before_run_is_not_forgotten),
        cmocka_unit_test(loop__polls_for_its_time_before_it_sleeps),
        cmocka_unit_test(loop__does_not_poll_on_a_core_that_others_want),
        cmocka_unit_test(loop__is_owned_by_the_thread_that_adopted_it_last),
        cmocka_unit_test(loop__destroy_with_an_open_handle_stops_the_process),
        cmocka_unit_test(loop__post_of_the_own_thread_runs_also_when_made_by_a_post),
        cmocka_unit_test(loop__destroy_runs_posts_that_wait),
        cmocka_unit_test(loop__post_of_another_thread_wakes_a_sleeping_loop),
        cmocka_unit_test(loop__posts_of_many_threads_run_once_each_in_their_order),
        cmocka_unit_test(loop__thread_has_its_name_and_takes_no_signals),
        cmocka_unit_test(loop__hears_sigterm_and_sigint),
        cmocka_unit_test(loop__create_out_of_memory_leaves_nothing_behind),
    };

    return cmocka_run_group_tests_name("io/loop", tests, NULL, NULL);
}
