/* A segment's memory: what it is sealed against, and that it costs nothing before it is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/segment.h"
#include "store/store_serve.h"

/* Kilobytes of shared memory that this process has touched. */
static long resident_shared_kb(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[200];
    long kb = -1;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "RssShmem: %ld kB", &kb) == 1) {
            break;
        }
    }
    (void)fclose(file);
    return kb;
}

static void segment__of_a_length_that_is_none_is_refused(void **state)
{
    struct mc_segment segment = {.memfd = -7};

    (void)state;
    assert_int_equal(mc_segment_open("t", 0, false, &segment), MOONCAKE_EINVAL);
    assert_int_equal(mc_segment_open("t", MC_SEGMENT_LEN_MIN - 1, false, &segment),
                     MOONCAKE_EINVAL);
    assert_int_equal(mc_segment_open("t", UINT64_MAX, false, &segment), MOONCAKE_EINVAL);
    assert_int_not_equal(mc_segment_open("t", INT64_MAX / 2, false, &segment), MOONCAKE_OK);
    assert_int_equal(segment.memfd, -7);
}

static void segment__is_whole_pages_of_zeroes(void **state)
{
    struct mc_segment segment;

    (void)state;
    assert_int_equal(mc_segment_open("t", MC_SEGMENT_LEN_MIN + 1, false, &segment), MOONCAKE_OK);
    assert_true(segment.len > MC_SEGMENT_LEN_MIN);
    assert_int_equal(segment.len % (uint64_t)sysconf(_SC_PAGESIZE), 0);
    assert_int_equal(segment.base[0], 0);
    segment.base[segment.len - 1] = 1;
    mc_segment_close(&segment);
}

static void segment__touches_no_memory_before_it_is_used(void **state)
{
    const uint64_t len = (uint64_t)8 << 30;
    struct mc_segment segment;
    long before = resident_shared_kb();

    (void)state;
    assert_int_equal(mc_segment_open("t", len, false, &segment), MOONCAKE_OK);
    assert_true(resident_shared_kb() - before < 1024);
    segment.base[len / 2] = 1;
    assert_true(resident_shared_kb() > before);
    mc_segment_close(&segment);
    assert_true(resident_shared_kb() - before < 1024);
}

static void segment__can_be_neither_shrunk_nor_grown(void **state)
{
    struct mc_segment segment;

    (void)state;
    assert_int_equal(mc_segment_open("t", (uint64_t)1 << 20, false, &segment), MOONCAKE_OK);
    assert_int_equal(ftruncate(segment.memfd, 4096), -1);
    assert_int_equal(ftruncate(segment.memfd, 2 << 20), -1);
    assert_int_equal(fcntl(segment.memfd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    mc_segment_close(&segment);
    assert_int_equal(segment.memfd, -1);
    mc_segment_close(&segment); /* harmless */
}

static void segment__of_huge_pages_is_made_of_them_or_refused_with_the_cure(void **state)
{
    const uint64_t huge = (uint64_t)2 << 20;
    struct mc_segment segment = {.memfd = -7};
    struct statfs info;
    mooncake_err err;

    (void)state;
    if (access("/sys/kernel/mm/hugepages/hugepages-2048kB", F_OK) != 0) {
        skip(); /* this kernel has none */
    }
    err = mc_segment_open("t", huge + 1, true, &segment);
    if (err != MOONCAKE_OK) {
        assert_int_equal(err, MOONCAKE_ENOMEM); /* none are reserved here */
        assert_non_null(strstr(mooncake_last_error(), "vm.nr_hugepages"));
        assert_int_equal(segment.memfd, -7);
        return;
    }
    assert_int_equal(segment.len, 2 * huge);
    assert_int_equal(fstatfs(segment.memfd, &info), 0);
    assert_int_equal(info.f_bsize, huge);
    segment.base[segment.len - 1] = 1;
    mc_segment_close(&segment);
}

static void segment__is_what_another_mapping_of_its_memfd_sees(void **state)
{
    struct mc_segment segment;
    uint8_t *other;

    (void)state;
    assert_int_equal(mc_segment_open("t", (uint64_t)1 << 20, false, &segment), MOONCAKE_OK);
    other = mmap(NULL, segment.len, PROT_READ, MAP_SHARED, segment.memfd, 0);
    assert_true(other != MAP_FAILED);
    segment.base[12345] = 77;
    assert_int_equal(other[12345], 77);
    assert_int_equal(munmap(other, segment.len), 0);
    mc_segment_close(&segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segment__of_a_length_that_is_none_is_refused),
        cmocka_unit_test(segment__is_whole_pages_of_zeroes),
        cmocka_unit_test(segment__touches_no_memory_before_it_is_used),
        cmocka_unit_test(segment__can_be_neither_shrunk_nor_grown),
        cmocka_unit_test(segment__of_huge_pages_is_made_of_them_or_refused_with_the_cure),
        cmocka_unit_test(segment__is_what_another_mapping_of_its_memfd_sees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
