/* Loads, stores, SipHash-2-4, random, and capabilities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/ids.h"

/* The authors' vectors (vectors_sip64): key 00 01 .. 0f, message 00 01 .. of length 0 to 63. */
static const uint64_t official[64] = {
    0x726fdb47dd0e0e31ull, 0x74f839c593dc67fdull, 0x0d6c8009d9a94f5aull, 0x85676696d7fb7e2dull,
    0xcf2794e0277187b7ull, 0x18765564cd99a68dull, 0xcbc9466e58fee3ceull, 0xab0200f58b01d137ull,
    0x93f5f5799a932462ull, 0x9e0082df0ba9e4b0ull, 0x7a5dbbc594ddb9f3ull, 0xf4b32f46226bada7ull,
    0x751e8fbc860ee5fbull, 0x14ea5627c0843d90ull, 0xf723ca908e7af2eeull, 0xa129ca6149be45e5ull,
    0x3f2acc7f57c29bdbull, 0x699ae9f52cbe4794ull, 0x4bc1b3f0968dd39cull, 0xbb6dc91da77961bdull,
    0xbed65cf21aa2ee98ull, 0xd0f2cbb02e3b67c7ull, 0x93536795e3a33e88ull, 0xa80c038ccd5ccec8ull,
    0xb8ad50c6f649af94ull, 0xbce192de8a85b8eaull, 0x17d835b85bbb15f3ull, 0x2f2e6163076bcfadull,
    0xde4daaaca71dc9a5ull, 0xa6a2506687956571ull, 0xad87a3535c49ef28ull, 0x32d892fad841c342ull,
    0x7127512f72f27cceull, 0xa7f32346f95978e3ull, 0x12e0b01abb051238ull, 0x15e034d40fa197aeull,
    0x314dffbe0815a3b4ull, 0x027990f029623981ull, 0xcadcd4e59ef40c4dull, 0x9abfd8766a33735cull,
    0x0e3ea96b5304a7d0ull, 0xad0c42d6fc585992ull, 0x187306c89bc215a9ull, 0xd4a60abcf3792b95ull,
    0xf935451de4f21df2ull, 0xa9538f0419755787ull, 0xdb9acddff56ca510ull, 0xd06c98cd5c0975ebull,
    0xe612a3cb9ecba951ull, 0xc766e62cfcadaf96ull, 0xee64435a9752fe72ull, 0xa192d576b245165aull,
    0x0a8787bf8ecb74b2ull, 0x81b3e73d20b49b6full, 0x7fa8220ba3b2eceaull, 0x245731c13ca42499ull,
    0xb78dbfaf3a8d83bdull, 0xea1ad565322a1a0bull, 0x60e61c23a3795013ull, 0x6606d7e446282b93ull,
    0x6ca4ecb15c5f91e1ull, 0x9f626da15c9625f3ull, 0xe51b38608ef25f57ull, 0x958a324ceb064572ull,
};

static void siphash__gives_the_official_vectors(void **state)
{
    uint8_t message[65];
    const uint64_t key[2] = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};

    (void)state;
    for (size_t i = 0; i < 64; i++) {
        message[i + 1] = (uint8_t)i;
    }
    for (size_t len = 0; len < 64; len++) { /* from an odd address as well */
        assert_true(mc_siphash(key, message + 1, len) == official[len]);
    }
}

static void bytes__store_is_little_endian_at_any_address(void **state)
{
    uint8_t at[16] = {0};

    (void)state;
    mc_store_u16(at + 1, 0x0102);
    assert_memory_equal(at, "\0\x02\x01\0", 4);
    assert_int_equal(mc_load_u16(at + 1), 0x0102);
    mc_store_u32(at + 3, 0x01020304);
    assert_memory_equal(at + 3, "\x04\x03\x02\x01\0", 5);
    assert_int_equal(mc_load_u32(at + 3), 0x01020304);
    mc_store_u64(at + 5, 0x0102030405060708ull);
    assert_memory_equal(at + 5, "\x08\x07\x06\x05\x04\x03\x02\x01\0", 9);
    assert_true(mc_load_u64(at + 5) == 0x0102030405060708ull);
}

static void random__fills_all_bytes_and_does_not_repeat(void **state)
{
    uint8_t seen[64] = {0};
    uint8_t fresh[64];
    uint64_t first = mc_random_u64();

    (void)state;
    for (int round = 0; round < 64; round++) { /* a byte that stays 0: chance 2^-512 */
        mc_random_bytes(fresh, sizeof(fresh));
        for (size_t i = 0; i < sizeof(fresh); i++) {
            seen[i] |= fresh[i];
        }
    }
    for (size_t i = 0; i < sizeof(seen); i++) {
        assert_int_not_equal(seen[i], 0);
    }
    assert_true(first != 0 && mc_random_u64() != first);
}

/* Whoever changes anything that a capability stands for holds another capability. */
static void capability__depends_on_every_field(void **state)
{
    static const uint64_t secret[2] = {1, 2};
    static const uint64_t other_secret[2] = {1, 3};
    const struct mc_extent_ref base = {.mount_id = 10,
                                       .offset = 20,
                                       .payload_len = 30,
                                       .object_id = {.hi = 40, .lo = 50},
                                       .slice_index = 1,
                                       .slice_count = 2,
                                       .rights = MC_RIGHT_READ};
    struct mc_extent_ref changed[8];
    uint64_t capability = mc_capability(secret, &base);

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(changed); i++) {
        changed[i] = base;
    }
    changed[0].mount_id++;
    changed[1].offset++;
    changed[2].payload_len++;
    changed[3].object_id.hi++;
    changed[4].object_id.lo++;
    changed[5].slice_index++;
    changed[6].slice_count++;
    changed[7].rights |= MC_RIGHT_WRITE;
    for (size_t i = 0; i < MC_ARRAY_LEN(changed); i++) {
        assert_true(mc_capability(secret, &changed[i]) != capability);
    }
    assert_true(mc_capability(other_secret, &base) != capability);
    changed[0] = base;
    changed[0].capability = 99; /* what it claims is no part of what it is made of */
    assert_true(mc_capability(secret, &changed[0]) == capability);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siphash__gives_the_official_vectors),
        cmocka_unit_test(bytes__store_is_little_endian_at_any_address),
        cmocka_unit_test(random__fills_all_bytes_and_does_not_repeat),
        cmocka_unit_test(capability__depends_on_every_field),
    };

    return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
