/* The table of mounts: who may use one, and when it is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "transport/mount_table.h"

static uint8_t memory[4096];

static struct mc_mount mount_of(uint64_t id)
{
    return (struct mc_mount){
        .mount_id = id, .base = memory, .len = sizeof(memory), .secret = {id, 99}, .memfd = -1};
}

static void add(uint64_t id)
{
    struct mc_mount mount = mount_of(id);

    assert_int_equal(mc_mount_add(&mount), MOONCAKE_OK);
}

static struct mc_extent_ref extent_of(uint64_t id, uint64_t offset, uint64_t len, uint32_t rights)
{
    struct mc_extent_ref extent = {
        .mount_id = id, .offset = offset, .payload_len = len, .slice_count = 1, .rights = rights};

    extent.capability = mc_capability((uint64_t[2]){id, 99}, &extent);
    return extent;
}

static void borrow__of_an_unknown_mount_is_null(void **state)
{
    (void)state;
    assert_null(mc_mount_borrow(1));
    assert_null(mc_mount_borrow(0));
    mc_mount_drop(1); /* harmless */
}

static void add__twice_is_refused_until_dropped(void **state)
{
    struct mc_mount mount = mount_of(1);
    const struct mc_mount *held;

    (void)state;
    add(1);
    assert_int_equal(mc_mount_add(&mount), MOONCAKE_ESEGMENTEXISTS);
    held = mc_mount_borrow(1);
    assert_non_null(held);
    assert_int_equal(held->len, sizeof(memory));
    assert_false(mc_mount_is_dropped(held));
    mc_mount_return(held);
    mc_mount_drop(1);
    assert_null(mc_mount_borrow(1));
    add(1);
    mc_mount_drop(1);
}

static void add__fills_the_table_and_then_refuses(void **state)
{
    const uint64_t most = 4u * MC_SEGMENTS_PER_STORE_MAX + MC_CLIENT_POOLS_MAX;
    struct mc_mount mount = mount_of(most + 1);

    (void)state;
    for (uint64_t id = 1; id <= most; id++) {
        add(id);
    }
    assert_int_equal(mc_mount_add(&mount), MOONCAKE_ENOMEM);
    mc_mount_drop(5);
    assert_int_equal(mc_mount_add(&mount), MOONCAKE_OK);
    for (uint64_t id = 1; id <= most + 1; id++) {
        mc_mount_drop(id);
    }
}

static void check__takes_only_the_extent_and_right_that_were_granted(void **state)
{
    const struct mc_mount *mount;
    struct mc_extent_ref good = extent_of(1, 640, 100, MC_RIGHT_READ);
    struct mc_extent_ref bad[8] = {good, good, good, good, good, good, good, good};

    (void)state;
    add(1);
    mount = mc_mount_borrow(1);
    assert_non_null(mount);
    bad[0].offset += 64;
    bad[1].payload_len++;
    bad[2].capability ^= 1;
    bad[3].object_id.hi = 1;
    bad[4].object_id.lo = 1;
    bad[5].slice_index = 1;
    bad[6].rights |= MC_RIGHT_WRITE;
    bad[7].mount_id = 2;
    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        assert_int_equal(mc_mount_check(mount, &bad[i], MC_RIGHT_READ), MOONCAKE_ENOTOWNER);
    }
    assert_int_equal(mc_mount_check(mount, &good, MC_RIGHT_WRITE), MOONCAKE_ENOTOWNER);
    assert_int_equal(mc_mount_check(mount, &good, MC_RIGHT_READ), MOONCAKE_OK);
    mc_mount_return(mount);
    mc_mount_drop(1);
}

static void check__keeps_to_the_segment_whatever_the_numbers(void **state)
{
    static const struct {
        uint64_t offset, len;
        mooncake_err wanted;
    } cases[] = {
        {0, sizeof(memory) - 64, MOONCAKE_OK},     {0, sizeof(memory) - 63, MOONCAKE_EINVAL},
        {sizeof(memory) - 64, 0, MOONCAKE_OK},     {sizeof(memory) - 64, 1, MOONCAKE_EINVAL},
        {sizeof(memory) - 63, 0, MOONCAKE_EINVAL}, {sizeof(memory), 0, MOONCAKE_EINVAL},
        {UINT64_MAX, 0, MOONCAKE_EINVAL},          {UINT64_MAX - 63, 64, MOONCAKE_EINVAL},
        {64, UINT64_MAX - 63, MOONCAKE_EINVAL},    {64, UINT64_MAX - 127, MOONCAKE_EINVAL},
        {64, UINT64_MAX, MOONCAKE_EINVAL},
    };
    const struct mc_mount *mount;

    (void)state;
    add(1);
    mount = mc_mount_borrow(1);
    assert_non_null(mount);
    for (size_t i = 0; i < MC_ARRAY_LEN(cases); i++) {
        struct mc_extent_ref extent =
            extent_of(1, cases[i].offset, cases[i].len, MC_RIGHT_READ | MC_RIGHT_WRITE);

        assert_int_equal(mc_mount_check(mount, &extent, MC_RIGHT_WRITE), cases[i].wanted);
    }
    mc_mount_return(mount);
    mc_mount_drop(1);
}

/* A user on a thread of its own that gives back only when the watcher asks. */
struct holder {
    struct mc_mount_watcher watcher;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool asked;
    _Atomic bool returned;
    const struct mc_mount *held;
};

static void ask_holder(struct mc_mount_watcher *watcher)
{
    struct holder *holder = MC_CONTAINER_OF(watcher, struct holder, watcher);

    (void)pthread_mutex_lock(&holder->mutex);
    holder->asked = true;
    (void)pthread_cond_signal(&holder->changed);
    (void)pthread_mutex_unlock(&holder->mutex);
}

static void *hold_until_asked(void *arg)
{
    struct holder *holder = arg;

    (void)pthread_mutex_lock(&holder->mutex);
    while (!holder->asked) {
        (void)pthread_cond_wait(&holder->changed, &holder->mutex);
    }
    (void)pthread_mutex_unlock(&holder->mutex);
    if (mc_mount_is_dropped(holder->held) && mc_mount_borrow(1) == NULL) {
        atomic_store(&holder->returned, true);
    }
    mc_mount_return(holder->held);
    return NULL;
}

static void drop__asks_watchers_and_waits_for_the_last_user(void **state)
{
    struct holder holder = {.watcher = {.on_drop = ask_holder},
                            .mutex = PTHREAD_MUTEX_INITIALIZER,
                            .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;

    (void)state;
    add(1);
    mc_mount_watch(&holder.watcher);
    holder.held = mc_mount_borrow(1);
    assert_non_null(holder.held);
    assert_int_equal(pthread_create(&thread, NULL, hold_until_asked, &holder), 0);
    mc_mount_drop(1);
    assert_true(atomic_load(&holder.returned));
    assert_int_equal(pthread_join(thread, NULL), 0);
    mc_mount_unwatch(&holder.watcher);
    holder.asked = false;
    add(1);
    mc_mount_drop(1);
    assert_false(holder.asked);
}

/* Users come and go on two threads while a third mounts and unmounts; the memory of a mount is
 * marked while it is served, so a user that outlives its mount is seen. */
static _Atomic bool served[2];
static _Atomic bool stop;

static void *use_mounts(void *arg)
{
    _Atomic uint64_t *hits = arg;

    for (uint64_t i = 0; !atomic_load(&stop); i++) {
        uint64_t id = 1 + i % 2;
        const struct mc_mount *mount = mc_mount_borrow(id);

        if (mount != NULL) {
            MC_ASSERT(mount->mount_id == id);
            MC_ASSERT(atomic_load(&served[id - 1]));
            mc_mount_return(mount);
            (void)atomic_fetch_add(hits, 1);
        }
    }
    return NULL;
}

static void borrow__never_outlives_a_drop_on_another_thread(void **state)
{
    static _Atomic uint64_t hits[2];
    pthread_t threads[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_mounts, &hits[i]), 0);
    }
    for (uint64_t round = 0;
         round < 5000 || atomic_load(&hits[0]) < 100 || atomic_load(&hits[1]) < 100; round++) {
        uint64_t id = 1 + round % 2;

        atomic_store(&served[id - 1], true);
        add(id);
        mc_mount_drop(id);
        atomic_store(&served[id - 1], false);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* A child that found its parent's mount would read and write what has come to lie there. */
static void fork__leaves_the_child_an_empty_table(void **state)
{
    struct mc_mount mount = mount_of(1);
    const struct mc_mount *held;
    int status = -1;
    pid_t child;

    (void)state;
    add(1);
    held = mc_mount_borrow(1);
    assert_non_null(held);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool empty = mc_mount_borrow(1) == NULL;
        bool usable = mc_mount_add(&mount) == MOONCAKE_OK && mc_mount_borrow(1) != NULL;

        _exit(empty && usable ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    mc_mount_return(held);
    held = mc_mount_borrow(1);
    assert_non_null(held); /* the parent's is untouched */
    mc_mount_return(held);
    mc_mount_drop(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(borrow__of_an_unknown_mount_is_null),
        cmocka_unit_test(add__twice_is_refused_until_dropped),
        cmocka_unit_test(add__fills_the_table_and_then_refuses),
        cmocka_unit_test(check__takes_only_the_extent_and_right_that_were_granted),
        cmocka_unit_test(check__keeps_to_the_segment_whatever_the_numbers),
        cmocka_unit_test(drop__asks_watchers_and_waits_for_the_last_user),
        cmocka_unit_test(borrow__never_outlives_a_drop_on_another_thread),
        cmocka_unit_test(fork__leaves_the_child_an_empty_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
