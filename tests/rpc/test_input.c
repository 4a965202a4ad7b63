/* Bytes to frames: any cutting of a flow gives the same frames, and memory follows the bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/mem.h"
#include "rpc/input.h"

static uint8_t scratch[MC_RPC_SCRATCH_LEN];

/* Copy @p len bytes into the ranges, as readv() would. */
static void land(const struct iovec *iov, unsigned count, const uint8_t *bytes, size_t len)
{
    for (unsigned i = 0; i < count && len > 0; i++) {
        size_t part = len < iov[i].iov_len ? len : iov[i].iov_len;

        memcpy(iov[i].iov_base, bytes, part);
        bytes += part;
        len -= part;
    }
    assert_int_equal(len, 0);
}

static size_t room_of(const struct iovec *iov, unsigned count)
{
    size_t room = 0;

    for (unsigned i = 0; i < count; i++) {
        room += iov[i].iov_len;
    }
    return room;
}

/* Body of frame @p n: its length and bytes depend on n alone. */
static uint32_t body_len_of(uint32_t n)
{
    return n % 7 == 0 ? 0 : n % 11 == 0 ? 70000 + n * 131 : n * 37 % 500;
}

static size_t build_flow(uint8_t *out, uint32_t frames)
{
    size_t len = 0;

    for (uint32_t n = 0; n < frames; n++) {
        const struct mc_frame frame = {.request_id = n, .body_len = body_len_of(n)};

        mc_frame_encode(&frame, out + len);
        len += MC_FRAME_LEN;
        memset(out + len, (int)(n & 0xff), frame.body_len);
        len += frame.body_len;
    }
    return len;
}

static void take_all(struct mc_rpc_input *input, uint32_t *next)
{
    struct mc_frame frame;
    const uint8_t *body;
    bool got;

    for (;;) {
        assert_int_equal(mc_rpc_input_next(input, &frame, &body, &got), MOONCAKE_OK);
        if (!got) {
            break;
        }
        assert_int_equal(frame.request_id, *next);
        assert_int_equal(frame.body_len, body_len_of(*next));
        for (uint32_t i = 0; i < frame.body_len; i++) {
            assert_int_equal(body[i], *next & 0xff);
        }
        ++*next;
    }
}

/* Feed the flow in pieces of 1 to @p piece_max bytes. */
static void feed_in_pieces(const uint8_t *flow, size_t len, uint32_t frames, size_t piece_max)
{
    struct mc_rpc_input input;
    uint32_t random = (uint32_t)piece_max;
    uint32_t next = 0;
    size_t at = 0;

    mc_rpc_input_init(&input);
    while (at < len) {
        struct iovec iov[2];
        unsigned count = 0;
        size_t piece;

        assert_int_equal(mc_rpc_input_space(&input, scratch, iov, &count), MOONCAKE_OK);
        random = random * 1664525u + 1013904223u;
        piece = random % piece_max + 1;
        piece = piece < len - at ? piece : len - at;
        piece = piece < room_of(iov, count) ? piece : room_of(iov, count);
        land(iov, count, flow + at, piece);
        at += piece;
        mc_rpc_input_feed(&input, scratch, piece);
        take_all(&input, &next);
        assert_int_equal(mc_rpc_input_settle(&input), MOONCAKE_OK);
        memset(scratch, 0xee, sizeof(scratch)); /* others use it */
    }
    assert_int_equal(next, frames);
    mc_rpc_input_fini(&input);
}

static void input__every_cutting_gives_the_same_frames(void **state)
{
    enum { FRAMES = 120 };
    static uint8_t flow[2 << 20];
    static const size_t pieces[] = {1, 2, 23, 24, 25, 100, 1000, 65535, 65536, 131072};
    size_t len = build_flow(flow, FRAMES);

    (void)state;
    assert_true(len < sizeof(flow));
    for (size_t i = 0; i < MC_ARRAY_LEN(pieces); i++) {
        feed_in_pieces(flow, len, FRAMES, pieces[i]);
    }
    assert_int_equal(mc_mem_live_count(), 0);
}

static void input__announced_length_takes_no_memory_before_the_bytes_come(void **state)
{
    const struct mc_frame frame = {.body_len = MC_RPC_BODY_LEN_MAX};
    struct mc_rpc_input input;
    size_t come = 0;

    (void)state;
    mc_rpc_input_init(&input);
    for (int i = 0; i < 40; i++) {
        struct iovec iov[2];
        struct mc_frame got_frame;
        const uint8_t *body;
        unsigned count = 0;
        size_t piece;
        bool got;

        assert_int_equal(mc_rpc_input_space(&input, scratch, iov, &count), MOONCAKE_OK);
        assert_true(input.held.cap <= 4 * come + 4 * MC_RPC_SCRATCH_LEN);
        piece = come == 0 ? MC_FRAME_LEN : 5000;
        if (come == 0) {
            mc_frame_encode(&frame, iov[0].iov_base);
        }
        mc_rpc_input_feed(&input, scratch, piece);
        come += piece;
        assert_int_equal(mc_rpc_input_next(&input, &got_frame, &body, &got), MOONCAKE_OK);
        assert_false(got);
        assert_int_equal(mc_rpc_input_settle(&input), MOONCAKE_OK);
    }
    mc_rpc_input_fini(&input);
}

static void input__nonsense_is_found_in_every_place_it_can_begin(void **state)
{
    (void)state;
    for (size_t good = 0; good < 3; good++) {
        for (size_t piece = 1; piece <= MC_FRAME_LEN; piece++) {
            struct mc_rpc_input input;
            uint8_t flow[4 * MC_FRAME_LEN];
            mooncake_err err = MOONCAKE_OK;
            size_t at = 0;

            for (size_t i = 0; i < 4; i++) {
                const struct mc_frame frame = {.request_id = i};

                mc_frame_encode(&frame, flow + i * MC_FRAME_LEN);
            }
            flow[good * MC_FRAME_LEN] ^= 1;
            mc_rpc_input_init(&input);
            while (err == MOONCAKE_OK && at < sizeof(flow)) {
                struct iovec iov[2];
                struct mc_frame frame;
                const uint8_t *body;
                unsigned count = 0;
                size_t len = piece < sizeof(flow) - at ? piece : sizeof(flow) - at;
                bool got = true;

                err = mc_rpc_input_space(&input, scratch, iov, &count);
                assert_int_equal(err, MOONCAKE_OK);
                land(iov, count, flow + at, len);
                at += len;
                mc_rpc_input_feed(&input, scratch, len);
                while (err == MOONCAKE_OK && got) {
                    err = mc_rpc_input_next(&input, &frame, &body, &got);
                }
                if (err == MOONCAKE_OK) {
                    assert_int_equal(mc_rpc_input_settle(&input), MOONCAKE_OK);
                }
            }
            assert_int_equal(err, MOONCAKE_ERPC);
            mc_rpc_input_fini(&input);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(input__every_cutting_gives_the_same_frames),
        cmocka_unit_test(input__announced_length_takes_no_memory_before_the_bytes_come),
        cmocka_unit_test(input__nonsense_is_found_in_every_place_it_can_begin),
    };

    return cmocka_run_group_tests_name("rpc/input", tests, NULL, NULL);
}
