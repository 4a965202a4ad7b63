/* Page tables filled by the stretch: what the kernel says is entered, and how many faults are left.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/mount_table.h"
#include "transport/touched.h"

#define STRETCH MC_TOUCHED_STRETCH_LEN
#define LEN (8 * STRETCH)
#define PRESENT (1ull << 63) /* in an entry of /proc/self/pagemap: Documentation/admin-guide/mm */

struct fixture {
    uint8_t *base;
    struct mc_touched *touched;
    size_t page;
    int pagemap;
};

static int setup(void **state)
{
    static struct fixture f;
    int fd = memfd_create("touched", MFD_CLOEXEC);

    f.page = (size_t)sysconf(_SC_PAGESIZE);
    f.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || f.pagemap < 0 || ftruncate(fd, (off_t)LEN) != 0) {
        return -1;
    }
    f.base = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (f.base == MAP_FAILED) {
        return -1;
    }
    f.touched = mc_touched_create(f.base, LEN);
    *state = &f;
    return f.touched == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mc_touched_destroy(&f->touched);
    (void)close(f->pagemap);
    return munmap(f->base, LEN);
}

/* How many pages of a stretch this process's page table has. */
static size_t entered(const struct fixture *f, size_t stretch)
{
    uint64_t entries[STRETCH / 4096];
    size_t count = STRETCH / f->page;
    uint64_t at = ((uintptr_t)f->base + stretch * STRETCH) / f->page * sizeof(entries[0]);
    size_t found = 0;

    assert_int_equal(pread(f->pagemap, entries, count * sizeof(entries[0]), (off_t)at),
                     count * sizeof(entries[0]));
    for (size_t i = 0; i < count; i++) {
        found += (entries[i] & PRESENT) != 0;
    }
    return found;
}

static void expect_entered(const struct fixture *f, const char *expected)
{
    for (size_t i = 0; i < LEN / STRETCH; i++) {
        assert_int_equal(entered(f, i), expected[i] == 'x' ? STRETCH / f->page : 0);
    }
}

static void touched__range_enters_its_stretches_whole_and_no_others(void **state)
{
    struct fixture *f = *state;

    expect_entered(f, "--------");
    mc_touched_range(f->touched, STRETCH + 5, 1);
    expect_entered(f, "-x------");
    mc_touched_range(f->touched, 3 * STRETCH - 1, 2);
    expect_entered(f, "-xxx----");
    mc_touched_range(f->touched, 0, STRETCH); /* the one between is there already */
    expect_entered(f, "xxxx----");
    mc_touched_range(f->touched, LEN - 1, 1);
    expect_entered(f, "xxxx---x");
    mc_touched_range(f->touched, 2 * STRETCH, LEN - 2 * STRETCH);
    expect_entered(f, "xxxxxxxx");
}

static void touched__nothing_is_no_range(void **state)
{
    struct fixture *f = *state;

    mc_touched_range(f->touched, LEN, 0);
    mc_touched_range(NULL, 0, LEN);
    expect_entered(f, "--------");
}

static void touched__stretch_is_asked_for_once(void **state)
{
    struct fixture *f = *state;

    mc_touched_range(f->touched, 0, 1);
    assert_int_equal(madvise(f->base, STRETCH, MADV_DONTNEED), 0); /* out of the page table */
    mc_touched_range(f->touched, 0, STRETCH);
    assert_int_equal(entered(f, 0), 0);
}

static void touched__memory_that_begins_within_a_page_stays_in_its_bounds(void **state)
{
    struct fixture *f = *state;
    struct mc_touched *inner = mc_touched_create(f->base + STRETCH + 100, STRETCH);

    assert_non_null(inner);
    mc_touched_range(inner, 0, STRETCH);
    assert_int_equal(entered(f, 0), 0);
    assert_int_equal(entered(f, 1), STRETCH / f->page - 1); /* whole pages only */
    assert_int_equal(entered(f, 2), 0);
    mc_touched_destroy(&inner);
}

static void touched__mount_enters_what_its_users_touch(void **state)
{
    struct fixture *f = *state;
    const struct mc_mount mount = {.mount_id = 77, .base = f->base, .len = LEN, .memfd = -1};
    const struct mc_mount *held;
    struct rusage before, after;

    /* What a sanitizer keeps about these bytes faults too: let that be over. */
    memset(f->base, 0, LEN);
    assert_int_equal(madvise(f->base, LEN, MADV_DONTNEED), 0);
    expect_entered(f, "--------");
    assert_int_equal(mc_mount_add(&mount), MOONCAKE_OK);
    held = mc_mount_borrow(77);
    assert_non_null(held);
    mc_mount_touch(held, STRETCH, 2 * STRETCH);
    expect_entered(f, "-xx-----");
    assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
    memset(f->base + STRETCH, 1, 2 * STRETCH);
    assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
    assert_true(after.ru_minflt - before.ru_minflt < 8); /* else one for each of 128 pages */
    mc_mount_return(held);
    mc_mount_drop(77);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(touched__range_enters_its_stretches_whole_and_no_others),
        T(touched__nothing_is_no_range),
        T(touched__stretch_is_asked_for_once),
        T(touched__memory_that_begins_within_a_page_stays_in_its_bounds),
        T(touched__mount_enters_what_its_users_touch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
