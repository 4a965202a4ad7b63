/* The header of a control message, to bytes and back. */
#include "rpc/frame.h"

#include <string.h>

#include "base/bytes.h"
#include "base/limits.h"

void mc_frame_encode(const struct mc_frame *frame, uint8_t out[MC_FRAME_LEN])
{
    MC_ASSERT((frame->flags & ~(unsigned)MC_FRAME_REPLY) == 0);
    MC_ASSERT(frame->body_len <= MC_RPC_BODY_LEN_MAX);
    mc_store_u32(out, MC_FRAME_MAGIC);
    out[4] = frame->version;
    out[5] = frame->flags;
    mc_store_u16(out + 6, frame->method);
    mc_store_u64(out + 8, frame->request_id);
    mc_store_u32(out + 16, (uint32_t)frame->status);
    mc_store_u32(out + 20, frame->body_len);
}

bool mc_frame_may_begin(const uint8_t *bytes, size_t len)
{
    uint8_t magic[4];

    mc_store_u32(magic, MC_FRAME_MAGIC);
    return memcmp(bytes, magic, len < sizeof(magic) ? len : sizeof(magic)) == 0;
}

mooncake_err mc_frame_decode(const uint8_t bytes[MC_FRAME_LEN], struct mc_frame *out)
{
    uint32_t magic = mc_load_u32(bytes);
    uint8_t flags = bytes[5];
    uint32_t body_len = mc_load_u32(bytes + 20);

    if (magic != MC_FRAME_MAGIC) {
        return mc_err_set(MOONCAKE_ERPC,
                          "a control message begins with 0x%08x, not with the magic number 0x%08x",
                          (unsigned)magic, (unsigned)MC_FRAME_MAGIC);
    }
    if ((flags & ~(unsigned)MC_FRAME_REPLY) != 0) {
        return mc_err_set(MOONCAKE_ERPC, "a control message has unknown flags 0x%02x",
                          (unsigned)flags);
    }
    if (body_len > MC_RPC_BODY_LEN_MAX) {
        return mc_err_set(MOONCAKE_ERPC,
                          "a control message announces a body of %u bytes, at most %u are allowed",
                          (unsigned)body_len, MC_RPC_BODY_LEN_MAX);
    }
    out->version = bytes[4];
    out->flags = flags;
    out->method = mc_load_u16(bytes + 6);
    out->request_id = mc_load_u64(bytes + 8);
    out->status = (int32_t)mc_load_u32(bytes + 16);
    out->body_len = body_len;
    return MOONCAKE_OK;
}
