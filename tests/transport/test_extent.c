/* Extent headers and copy-with-checksum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/bytes.h"
#include "transport/extent.h"

#define BUFFER_LEN ((size_t)300000)

static const struct mc_extent_ref ref = {
    .mount_id = 7,
    .offset = 640,
    .payload_len = 1000,
    .object_id = {.hi = 0x1122334455667788ull, .lo = 0x99aabbccddeeff00ull},
    .slice_index = 2,
    .slice_count = 5,
    .rights = MC_RIGHT_READ,
};

static void fill(uint8_t *bytes, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        bytes[i] = (uint8_t)(seed >> 56);
    }
}

static void header__has_the_layout_that_is_written_down(void **state)
{
    static const uint8_t wanted[56] = {
        'M',  'C',  'X',  '1',  1,    0,    0,    0,    0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
        0x22, 0x11, 0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 2,    0,    0,    0,
        5,    0,    0,    0,    0xe8, 0x03, 0,    0,    0,    0,    0,    0,    0xef, 0xcd,
        0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 0,    0,    0,    0,    0,    0,    0,    0,
    };
    uint8_t header[MC_EXTENT_HEADER_LEN];

    (void)state;
    mc_extent_header_build(&ref, 0x0123456789abcdefull, header);
    assert_memory_equal(header, wanted, sizeof(wanted));
    assert_int_equal(mc_load_u64(header + 56), XXH3_64bits(header, 56));
}

static void header__is_accepted_with_its_checksum(void **state)
{
    uint8_t header[MC_EXTENT_HEADER_LEN];
    uint64_t checksum = 0;

    (void)state;
    mc_extent_header_build(&ref, 42, header);
    assert_int_equal(mc_extent_header_check(&ref, header, &checksum), MOONCAKE_OK);
    assert_int_equal(checksum, 42);
}

static void header__with_any_bit_flipped_is_damaged(void **state)
{
    uint8_t header[MC_EXTENT_HEADER_LEN];
    uint64_t checksum = 77;

    (void)state;
    mc_extent_header_build(&ref, 42, header);
    for (size_t bit = 0; bit < 8 * sizeof(header); bit++) {
        header[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(mc_extent_header_check(&ref, header, &checksum), MOONCAKE_ECHECKSUM);
        assert_int_equal(checksum, 77);
        header[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void header__of_another_object_slice_or_length_is_stale(void **state)
{
    struct mc_extent_ref others[5] = {ref, ref, ref, ref, ref};
    uint8_t header[MC_EXTENT_HEADER_LEN];
    uint64_t checksum = 77;

    (void)state;
    others[0].object_id.hi++;
    others[1].object_id.lo++;
    others[2].slice_index++;
    others[3].slice_count++;
    others[4].payload_len++;
    for (size_t i = 0; i < MC_ARRAY_LEN(others); i++) {
        mc_extent_header_build(&others[i], 42, header);
        assert_int_equal(mc_extent_header_check(&ref, header, &checksum), MOONCAKE_ENOENT);
    }
    assert_int_equal(checksum, 77);
}

static void header__of_zeroes_is_damaged(void **state)
{
    const uint8_t header[MC_EXTENT_HEADER_LEN] = {0};
    uint64_t checksum = 77;

    (void)state;
    assert_int_equal(mc_extent_header_check(&ref, header, &checksum), MOONCAKE_ECHECKSUM);
}

/* The machine's vectors must not change a single value: compare with the portable function. */
static void hash__is_xxh3_for_every_short_length_and_around_each_block(void **state)
{
    static const size_t around[] = {4096, 16384, 32768, 65536, 262144};
    uint8_t *bytes = malloc(BUFFER_LEN);

    (void)state;
    assert_non_null(bytes);
    fill(bytes, BUFFER_LEN, 1);
    for (size_t len = 0; len < 2100; len++) {
        struct iovec iov = {.iov_base = bytes + len % 61, .iov_len = len};

        assert_int_equal(mc_extent_hash_iov(&iov, 1), XXH3_64bits(iov.iov_base, len));
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(around); i++) {
        for (size_t len = around[i] - 2; len <= around[i] + 2; len++) {
            struct iovec iov = {.iov_base = bytes + 1, .iov_len = len};

            assert_int_equal(mc_extent_hash_iov(&iov, 1), XXH3_64bits(iov.iov_base, len));
        }
    }
    free(bytes);
}

static void hash__does_not_depend_on_how_bytes_are_cut(void **state)
{
    uint8_t *bytes = malloc(BUFFER_LEN);
    struct iovec iov[5];

    (void)state;
    assert_non_null(bytes);
    fill(bytes, BUFFER_LEN, 2);
    for (size_t step = 0; step < 200; step++) {
        size_t cuts[6] = {0, step % 3, 700 + step, 66000 + step, 66000 + step, BUFFER_LEN - step};

        for (size_t i = 0; i < MC_ARRAY_LEN(iov); i++) {
            iov[i].iov_base = bytes + cuts[i];
            iov[i].iov_len = cuts[i + 1] - cuts[i];
        }
        assert_int_equal(mc_extent_hash_iov(iov, 5), XXH3_64bits(bytes, BUFFER_LEN - step));
    }
    assert_int_equal(mc_extent_hash_iov(iov, 0), XXH3_64bits(bytes, 0));
    free(bytes);
}

static void copy_hash__copies_every_byte_and_none_beyond(void **state)
{
    static const size_t lens[] = {0, 1, 63, 64, 65, 4096, 16383, 16384, 16385, 65536, 200001};
    uint8_t *from = malloc(BUFFER_LEN);
    uint8_t *to = malloc(BUFFER_LEN);

    (void)state;
    assert_non_null(from);
    assert_non_null(to);
    fill(from, BUFFER_LEN, 3);
    for (size_t i = 0; i < MC_ARRAY_LEN(lens); i++) {
        struct mc_extent_hash hash;
        size_t cut = lens[i] / 3;

        memset(to, 0xee, BUFFER_LEN);
        mc_extent_hash_init(&hash);
        mc_extent_copy_hash(&hash, to + 5, from + 3, cut);
        mc_extent_copy_hash(&hash, to + 5 + cut, from + 3 + cut, lens[i] - cut);
        assert_int_equal(mc_extent_hash_digest(&hash), XXH3_64bits(from + 3, lens[i]));
        assert_memory_equal(to + 5, from + 3, lens[i]);
        assert_int_equal(to[4], 0xee);
        assert_int_equal(to[5 + lens[i]], 0xee);
    }
    free(to);
    free(from);
}

/* A source that changes while it is copied, brought about without a race: source and destination
 * are the same memory at two addresses, eight bytes apart. */
static void copy_hash__is_of_what_arrived_not_of_what_was_to_be_sent(void **state)
{
    int fd = memfd_create("twice", MFD_CLOEXEC);
    struct mc_extent_hash hash;
    uint8_t *from;
    uint8_t *to;

    (void)state;
    assert_int_equal(ftruncate(fd, 65536), 0);
    from = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    to = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(from, MAP_FAILED);
    assert_ptr_not_equal(to, MAP_FAILED);
    fill(from, 65536, 4);
    mc_extent_hash_init(&hash);
    mc_extent_copy_hash(&hash, to + 8, from, 16000); /* within a block: no later one spoils it */
    assert_int_equal(mc_extent_hash_digest(&hash), XXH3_64bits(to + 8, 16000));
    assert_int_not_equal(mc_extent_hash_digest(&hash), XXH3_64bits(from, 16000));
    (void)munmap(from, 65536);
    (void)munmap(to, 65536);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header__has_the_layout_that_is_written_down),
        cmocka_unit_test(header__is_accepted_with_its_checksum),
        cmocka_unit_test(header__with_any_bit_flipped_is_damaged),
        cmocka_unit_test(header__of_another_object_slice_or_length_is_stale),
        cmocka_unit_test(header__of_zeroes_is_damaged),
        cmocka_unit_test(hash__is_xxh3_for_every_short_length_and_around_each_block),
        cmocka_unit_test(hash__does_not_depend_on_how_bytes_are_cut),
        cmocka_unit_test(copy_hash__copies_every_byte_and_none_beyond),
        cmocka_unit_test(copy_hash__is_of_what_arrived_not_of_what_was_to_be_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
