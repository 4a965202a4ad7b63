/* The header of a control message: what is refused, what survives the way to bytes and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "rpc/frame.h"

static const struct mc_frame sample = {
    .version = 1,
    .flags = MC_FRAME_REPLY,
    .method = 0x1234,
    .request_id = 0x1122334455667788ull,
    .status = -704,
    .body_len = 0x00a0b0c0,
};

static void expect_refused(const uint8_t bytes[MC_FRAME_LEN], const char *word)
{
    struct mc_frame out;
    struct mc_frame before;

    memset(&out, 0x5a, sizeof(out));
    memcpy(&before, &out, sizeof(out));
    assert_int_equal(mc_frame_decode(bytes, &out), MOONCAKE_ERPC);
    assert_non_null(strstr(mooncake_last_error(), word));
    assert_memory_equal(&out, &before, sizeof(out));
}

static void frame__each_wrong_bit_of_the_magic_is_refused(void **state)
{
    uint8_t bytes[MC_FRAME_LEN];

    (void)state;
    for (unsigned bit = 0; bit < 32; bit++) {
        mc_frame_encode(&sample, bytes);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        expect_refused(bytes, "magic");
    }
}

static void frame__may_begin_with_the_magic_and_nothing_else(void **state)
{
    uint8_t bytes[MC_FRAME_LEN];

    (void)state;
    mc_frame_encode(&sample, bytes);
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        assert_true(mc_frame_may_begin(bytes, len));
    }
    assert_false(mc_frame_may_begin((const uint8_t *)"220 mail", 1));
    assert_false(mc_frame_may_begin((const uint8_t *)"MCK2", 4));
    assert_true(mc_frame_may_begin((const uint8_t *)"MCK2", 3));
}

static void frame__each_unknown_flag_is_refused(void **state)
{
    uint8_t bytes[MC_FRAME_LEN];

    (void)state;
    for (unsigned bit = 1; bit < 8; bit++) {
        mc_frame_encode(&sample, bytes);
        bytes[5] |= (uint8_t)(1u << bit);
        expect_refused(bytes, "flags");
    }
}

static void frame__body_above_the_limit_is_refused_and_at_the_limit_is_not(void **state)
{
    uint8_t bytes[MC_FRAME_LEN];
    struct mc_frame out;

    (void)state;
    mc_frame_encode(&sample, bytes);
    mc_store_u32(bytes + 20, MC_RPC_BODY_LEN_MAX + 1);
    expect_refused(bytes, "body");
    mc_store_u32(bytes + 20, UINT32_MAX);
    expect_refused(bytes, "body");
    mc_store_u32(bytes + 20, MC_RPC_BODY_LEN_MAX);
    assert_int_equal(mc_frame_decode(bytes, &out), MOONCAKE_OK);
    assert_int_equal(out.body_len, MC_RPC_BODY_LEN_MAX);
}

static void frame__bytes_are_where_the_header_says(void **state)
{
    static const uint8_t want[MC_FRAME_LEN] = {
        'M',  'C',  'K',  '1',  1,    1,    0x34, 0x12, 0x88, 0x77, 0x66, 0x55,
        0x44, 0x33, 0x22, 0x11, 0x40, 0xfd, 0xff, 0xff, 0xc0, 0xb0, 0xa0, 0x00,
    };
    uint8_t bytes[MC_FRAME_LEN];

    (void)state;
    mc_frame_encode(&sample, bytes);
    assert_memory_equal(bytes, want, sizeof(want));
}

static void frame__every_field_survives_the_way_to_bytes_and_back(void **state)
{
    uint8_t bytes[MC_FRAME_LEN];
    struct mc_frame out;

    (void)state;
    mc_frame_encode(&sample, bytes);
    assert_int_equal(mc_frame_decode(bytes, &out), MOONCAKE_OK);
    assert_int_equal(out.version, sample.version);
    assert_int_equal(out.flags, sample.flags);
    assert_int_equal(out.method, sample.method);
    assert_true(out.request_id == sample.request_id);
    assert_int_equal(out.status, sample.status);
    assert_int_equal(out.body_len, sample.body_len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame__each_wrong_bit_of_the_magic_is_refused),
        cmocka_unit_test(frame__may_begin_with_the_magic_and_nothing_else),
        cmocka_unit_test(frame__each_unknown_flag_is_refused),
        cmocka_unit_test(frame__body_above_the_limit_is_refused_and_at_the_limit_is_not),
        cmocka_unit_test(frame__bytes_are_where_the_header_says),
        cmocka_unit_test(frame__every_field_survives_the_way_to_bytes_and_back),
    };

    return cmocka_run_group_tests_name("rpc/frame", tests, NULL, NULL);
}
