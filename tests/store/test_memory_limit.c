/* What may be lent: control groups of both versions, planted below a root of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/memory_limit.h"

#define V2_MOUNT "31 24 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT "34 30 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
#define OTHER_MOUNTS                                                                               \
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"                                                        \
    "32 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"

struct fixture {
    char root[64];
    struct mc_memory_limit limit;
};

/* Its folders are made. */
static void plant(const struct fixture *f, const char *path, const char *text)
{
    char full[PATH_MAX];
    FILE *file;

    (void)snprintf(full, sizeof(full), "%s%s", f->root, path);
    for (char *at = strchr(full + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(full, 0700);
        *at = '/';
    }
    file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void plant_proc(const struct fixture *f, const char *groups, const char *mounts)
{
    plant(f, "/proc/self/cgroup", groups);
    plant(f, "/proc/self/mountinfo", mounts);
}

static void expect(struct fixture *f, uint64_t bytes, const char *file)
{
    mc_memory_limit_find(f->root, &f->limit);
    assert_string_equal(f->limit.file, file);
    assert_int_equal(f->limit.bytes, bytes);
}

static void expect_machine(struct fixture *f)
{
    struct mc_memory_limit machine;

    mc_memory_limit_find(NULL, &machine);
    assert_string_equal(machine.file, "");
    assert_true(machine.bytes > 1 << 20);
    expect(f, machine.bytes, "");
}

static int set_up(void **state)
{
    static struct fixture fixture;

    memset(&fixture, 0, sizeof(fixture));
    (void)snprintf(fixture.root, sizeof(fixture.root), "/tmp/mc_limit_XXXXXX");
    *state = &fixture;
    return mkdtemp(fixture.root) == NULL ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    return nftw(f->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void limit__without_groups_is_the_machine(void **state)
{
    struct fixture *f = *state;

    expect_machine(f);
    plant_proc(f, "0::/pool\n", OTHER_MOUNTS); /* and no file system of theirs */
    expect_machine(f);
    plant_proc(f, "", OTHER_MOUNTS V2_MOUNT);
    expect_machine(f);
}

static void limit__words_that_are_no_numbers_limit_nothing(void **state)
{
    static const char *const texts[] = {"max\n", "", "-1\n", "12 of\n", "999999999999999999999\n"};
    struct fixture *f = *state;

    plant_proc(f, "0::/pool\n", OTHER_MOUNTS V2_MOUNT);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        plant(f, "/sys/fs/cgroup/pool/memory.max", texts[i]);
        expect_machine(f);
    }
    plant_proc(f, "0\n::\n0:/pool\n\n", "\n - \n1 2 - cgroup2\n31 24 0:28 / - cgroup2 x rw\n");
    expect_machine(f);
}

static void limit__v2_takes_the_least_of_the_group_and_its_parents(void **state)
{
    struct fixture *f = *state;

    plant_proc(f, "4:cpu:/other\n0::/pod/box\n", OTHER_MOUNTS V2_MOUNT);
    plant(f, "/sys/fs/cgroup/pod/box/memory.max", "1048576\n");
    plant(f, "/sys/fs/cgroup/other/memory.max", "4096\n");
    expect(f, 1048576, "/sys/fs/cgroup/pod/box/memory.max");
    plant(f, "/sys/fs/cgroup/pod/memory.max", "1048575\n");
    expect(f, 1048575, "/sys/fs/cgroup/pod/memory.max");
    plant(f, "/sys/fs/cgroup/pod/memory.max", "max\n");
    expect(f, 1048576, "/sys/fs/cgroup/pod/box/memory.max");
}

static void limit__v2_in_a_container_is_that_of_the_mounts_top(void **state)
{
    struct fixture *f = *state;

    plant_proc(f, "0::/\n", OTHER_MOUNTS V2_MOUNT);
    plant(f, "/sys/fs/cgroup/memory.max", "65536"); /* no end of line */
    plant(f, "/sys/fs/memory.max", "1\n");          /* above the mount: not a group */
    expect(f, 65536, "/sys/fs/cgroup/memory.max");
}

static void limit__v1_takes_the_least_of_the_group_and_its_parents(void **state)
{
    struct fixture *f = *state;

    plant_proc(f, "8:pids:/p\n4:hugetlb,memory:/pod/box\n0::/\n", OTHER_MOUNTS V1_MOUNT);
    plant(f, "/sys/fs/cgroup/memory/pod/box/memory.limit_in_bytes", "9223372036854771712\n");
    plant(f, "/sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "1048576\n");
    plant(f, "/sys/fs/cgroup/memory/p/memory.limit_in_bytes", "4096\n");
    plant(f, "/sys/fs/cgroup/memory/pod/box/memory.max", "4096\n");
    expect(f, 1048576, "/sys/fs/cgroup/memory/pod/memory.limit_in_bytes");
}

/* As Docker shows it: the container's part is mounted, the group's path is the host's. */
static void limit__v1_in_a_container_is_found_through_the_part_that_is_mounted(void **state)
{
    struct fixture *f = *state;

    plant_proc(f, "4:memory:/docker/a\n",
               "34 30 0:31 /docker/a /sys/fs/my\\040group ro - cgroup cgroup rw,memory\n");
    plant(f, "/sys/fs/my group/memory.limit_in_bytes", "1048576\n");
    expect(f, 1048576, "/sys/fs/my group/memory.limit_in_bytes");
    plant(f, "/proc/self/cgroup", "4:memory:/docker/a/b\n");
    plant(f, "/sys/fs/my group/b/memory.limit_in_bytes", "4096\n");
    expect(f, 4096, "/sys/fs/my group/b/memory.limit_in_bytes");
    plant(f, "/proc/self/cgroup", "4:memory:/docker/ab\n"); /* another one's part */
    expect(f, 1048576, "/sys/fs/my group/memory.limit_in_bytes");
}

static void limit__of_both_versions_the_least_counts(void **state)
{
    struct fixture *f = *state;

    plant_proc(f, "4:memory:/a\n0::/b\n",
               OTHER_MOUNTS V1_MOUNT "37 30 0:37 / /sys/fs/unified rw - cgroup2 cgroup2 rw\n");
    plant(f, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1048576\n");
    plant(f, "/sys/fs/unified/b/memory.max", "2097152\n");
    expect(f, 1048576, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
    plant(f, "/sys/fs/unified/b/memory.max", "65536\n");
    expect(f, 65536, "/sys/fs/unified/b/memory.max");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(limit__without_groups_is_the_machine),
        T(limit__words_that_are_no_numbers_limit_nothing),
        T(limit__v2_takes_the_least_of_the_group_and_its_parents),
        T(limit__v2_in_a_container_is_that_of_the_mounts_top),
        T(limit__v1_takes_the_least_of_the_group_and_its_parents),
        T(limit__v1_in_a_container_is_found_through_the_part_that_is_mounted),
        T(limit__of_both_versions_the_least_counts),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
