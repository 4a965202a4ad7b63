/* Threads that help with copies: every piece once, nobody at it afterwards, none before it is of
 * use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "transport/direct_pool.h"

#define THREADS 3u
#define PIECES 200u
#define CALLERS 4u
#define ROUNDS 300u
#define WAIT_NS (20 * MC_NS_PER_S)

struct work {
    unsigned char memory[PIECES]; /* plain: the pool must order who touches it */
    _Atomic unsigned inside, calls;
    pthread_t caller;
    _Atomic bool helped;
};

static void do_piece(void *arg, size_t piece)
{
    struct work *work = arg;

    (void)atomic_fetch_add(&work->inside, 1);
    work->memory[piece]++;
    (void)atomic_fetch_add(&work->calls, 1);
    if (!pthread_equal(pthread_self(), work->caller)) {
        atomic_store(&work->helped, true);
    }
    (void)atomic_fetch_sub(&work->inside, 1);
}

static unsigned count_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    unsigned count = 0;

    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        count += entry->d_name[0] != '.' ? 1 : 0;
    }
    (void)closedir(dir);
    return count;
}

/* Run over all pieces, and see that each was done once and that nobody is at it any more. */
static bool run_once(struct mc_direct_pool *pool, struct work *work, size_t count, uint64_t len)
{
    memset(work->memory, 0, sizeof(work->memory));
    atomic_store(&work->calls, 0);
    work->caller = pthread_self();
    mc_direct_pool_run(pool, do_piece, work, count, len);
    if (atomic_load(&work->inside) != 0 || atomic_load(&work->calls) != count) {
        return false;
    }
    for (size_t i = 0; i < PIECES; i++) {
        if (work->memory[i] != (i < count ? 1 : 0)) {
            return false;
        }
    }
    return true;
}

static void run__does_each_piece_once_and_leaves_nobody_at_it(void **state)
{
    struct mc_direct_pool *pool = NULL;
    struct work work = {0};

    (void)state;
    assert_int_equal(mc_direct_pool_create(THREADS, 1, &pool), MOONCAKE_OK);
    assert_int_equal(mc_direct_pool_width(pool), THREADS + 1);
    for (size_t round = 0; round < ROUNDS; round++) {
        assert_true(run_once(pool, &work, round % PIECES, 1));
    }
    mc_direct_pool_destroy(&pool);
    assert_null(pool);
    assert_int_equal(mc_mem_live_count(), 0);
}

struct caller {
    struct mc_direct_pool *pool;
    pthread_t thread;
    bool good;
};

static void *call_often(void *arg)
{
    struct caller *caller = arg;
    struct work work = {0};

    caller->good = true;
    for (unsigned round = 0; round < ROUNDS; round++) {
        caller->good = caller->good && run_once(caller->pool, &work, PIECES, 1);
    }
    return NULL;
}

static void run__of_several_callers_at_a_time_keeps_their_pieces_apart(void **state)
{
    struct mc_direct_pool *pool = NULL;
    struct caller callers[CALLERS];

    (void)state;
    assert_int_equal(mc_direct_pool_create(THREADS, 1, &pool), MOONCAKE_OK);
    for (unsigned i = 0; i < CALLERS; i++) {
        callers[i].pool = pool;
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
    }
    for (unsigned i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        assert_true(callers[i].good);
    }
    mc_direct_pool_destroy(&pool);
}

static void wait_for_help(void *arg, size_t piece)
{
    struct work *work = arg;
    uint64_t until_ns = mc_monotonic_ns() + WAIT_NS;

    do_piece(arg, piece);
    while (!atomic_load(&work->helped) && mc_monotonic_ns() < until_ns) {
        (void)sched_yield();
    }
}

static void threads__help_with_large_work_and_end_with_the_pool(void **state)
{
    struct mc_direct_pool *pool = NULL;
    struct work work = {.caller = pthread_self()};
    unsigned before = count_threads();

    (void)state;
    assert_int_equal(mc_direct_pool_create(THREADS, 1000, &pool), MOONCAKE_OK);
    mc_direct_pool_run(pool, do_piece, &work, PIECES, 999); /* small work */
    mc_direct_pool_run(pool, do_piece, &work, 1, 100000);   /* nothing to share */
    assert_int_equal(count_threads(), before);
    assert_false(atomic_load(&work.helped));
    mc_direct_pool_run(pool, wait_for_help, &work, 2, 1000);
    assert_true(atomic_load(&work.helped));
    assert_int_equal(count_threads(), before + THREADS);
    mc_direct_pool_destroy(&pool);
    /* A thread that was joined may be in the list for a moment longer. */
    for (uint64_t until_ns = mc_monotonic_ns() + WAIT_NS; count_threads() > before;) {
        assert_true(mc_monotonic_ns() < until_ns);
        (void)sched_yield();
    }
}

static void run__without_a_pool_is_the_caller_alone(void **state)
{
    struct mc_direct_pool *none = NULL;
    struct work work = {0};

    (void)state;
    assert_int_equal(mc_direct_pool_width(NULL), 1);
    assert_true(run_once(NULL, &work, PIECES, UINT64_MAX));
    assert_false(atomic_load(&work.helped));
    mc_direct_pool_destroy(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run__does_each_piece_once_and_leaves_nobody_at_it),
        cmocka_unit_test(run__of_several_callers_at_a_time_keeps_their_pieces_apart),
        cmocka_unit_test(threads__help_with_large_work_and_end_with_the_pool),
        cmocka_unit_test(run__without_a_pool_is_the_caller_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
