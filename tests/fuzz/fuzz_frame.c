/*
 * A flow of control messages, cut in two ways. Laws: a header that decodes encodes to the same
 * bytes; the frames do not depend on how the flow is cut, nor does the verdict that it is nonsense;
 * memory stays within a multiple of the bytes that came.
 *
 * The first four bytes seed the cutting, the rest is the flow.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "rpc/input.h"

#include "law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What a reader of the flow learns, boiled down. */
struct digest {
    uint64_t hash;
    unsigned frames;
    bool nonsense;
};

static void mix(struct digest *digest, const void *bytes, size_t len)
{
    static const uint64_t key[2] = {1, 2};

    digest->hash = digest->hash * 0x9e3779b97f4a7c15ull + mc_siphash(key, bytes, len);
}

static void take(struct digest *digest, const struct mc_frame *frame, const uint8_t *body)
{
    uint8_t header[MC_FRAME_LEN];
    struct mc_frame again;

    mc_frame_encode(frame, header);
    law(mc_frame_decode(header, &again) == MOONCAKE_OK);
    law(again.version == frame->version && again.flags == frame->flags &&
        again.method == frame->method && again.request_id == frame->request_id &&
        again.status == frame->status && again.body_len == frame->body_len);
    mix(digest, header, sizeof(header));
    mix(digest, body, frame->body_len);
    digest->frames++;
}

static void land(const struct iovec *iov, unsigned count, const uint8_t *bytes, size_t len)
{
    for (unsigned i = 0; i < count && len > 0; i++) {
        size_t part = len < iov[i].iov_len ? len : iov[i].iov_len;

        memcpy(iov[i].iov_base, bytes, part);
        bytes += part;
        len -= part;
    }
}

static size_t room_of(const struct iovec *iov, unsigned count)
{
    size_t room = 0;

    for (unsigned i = 0; i < count; i++) {
        room += iov[i].iov_len;
    }
    return room;
}

/* Read the flow in pieces of at most @p piece_max bytes. */
static struct digest read_flow(const uint8_t *flow, size_t len, uint32_t seed, size_t piece_max)
{
    static uint8_t scratch[MC_RPC_SCRATCH_LEN];
    struct digest digest = {0};
    struct mc_rpc_input input;
    size_t at = 0;

    mc_rpc_input_init(&input);
    while (at < len && !digest.nonsense) {
        struct iovec iov[2];
        struct mc_frame frame;
        const uint8_t *body;
        unsigned count = 0;
        size_t piece;
        bool got = true;

        law(mc_rpc_input_space(&input, scratch, iov, &count) == MOONCAKE_OK);
        seed = seed * 1664525u + 1013904223u;
        piece = (seed >> 8) % piece_max + 1;
        piece = piece < len - at ? piece : len - at;
        piece = piece < room_of(iov, count) ? piece : room_of(iov, count);
        land(iov, count, flow + at, piece);
        at += piece;
        mc_rpc_input_feed(&input, scratch, piece);
        while (got && !digest.nonsense) {
            digest.nonsense = mc_rpc_input_next(&input, &frame, &body, &got) != MOONCAKE_OK;
            if (!digest.nonsense && got) {
                take(&digest, &frame, body);
            }
        }
        if (!digest.nonsense) {
            law(mc_rpc_input_settle(&input) == MOONCAKE_OK);
            memset(scratch, 0xee, piece < sizeof(scratch) ? piece : sizeof(scratch));
        }
        law(input.held.cap <= 4 * at + 4 * MC_RPC_SCRATCH_LEN);
    }
    mc_rpc_input_fini(&input);
    return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct digest whole, cut;
    uint32_t seed;

    if (len < 4) {
        return 0;
    }
    seed = mc_load_u32(data);
    whole = read_flow(data + 4, len - 4, 0, SIZE_MAX);
    cut = read_flow(data + 4, len - 4, seed, seed % 100 + 1);
    law(whole.frames == cut.frames);
    law(whole.hash == cut.hash);
    law(whole.nonsense == cut.nonsense);
    law(mc_mem_live_count() == 0);
    return 0;
}
