/* Frames of the data protocol: see the header for the layout. */
#include "transport/tcp_frame.h"

#include "base/bytes.h"
#include "base/limits.h"

#define HELLO_MAGIC 0x4844434du   /* "MCDH" */
#define REQUEST_MAGIC 0x5144434du /* "MCDQ" */
#define ANSWER_MAGIC 0x4144434du  /* "MCDA" */

void mc_tcp_hello_encode(const struct mc_tcp_hello *hello, uint8_t out[MC_TCP_HELLO_LEN])
{
    mc_store_u32(out, HELLO_MAGIC);
    mc_store_u16(out + 4, hello->protocol_min);
    mc_store_u16(out + 6, hello->protocol_max);
    mc_store_u32(out + 8, (uint32_t)hello->status);
    mc_store_u32(out + 12, 0);
}

mooncake_err mc_tcp_hello_decode(const uint8_t bytes[MC_TCP_HELLO_LEN], struct mc_tcp_hello *out)
{
    if (mc_load_u32(bytes) != HELLO_MAGIC || mc_load_u32(bytes + 12) != 0 ||
        mc_load_u16(bytes + 4) > mc_load_u16(bytes + 6)) {
        return MOONCAKE_EINVAL;
    }
    out->protocol_min = mc_load_u16(bytes + 4);
    out->protocol_max = mc_load_u16(bytes + 6);
    out->status = (int32_t)mc_load_u32(bytes + 8);
    return MOONCAKE_OK;
}

bool mc_tcp_hello_agrees(const struct mc_tcp_hello *hello)
{
    return hello->protocol_min <= MC_TCP_PROTOCOL && hello->protocol_max >= MC_TCP_PROTOCOL;
}

void mc_tcp_request_encode(const struct mc_tcp_request *request, uint8_t out[MC_TCP_REQUEST_LEN])
{
    const struct mc_extent_ref *extent = &request->extent;

    mc_store_u32(out, REQUEST_MAGIC);
    mc_store_u16(out + 4, (uint16_t)request->op);
    mc_store_u16(out + 6, 0);
    mc_store_u64(out + 8, request->id);
    mc_store_u64(out + 16, extent->mount_id);
    mc_store_u64(out + 24, extent->offset);
    mc_store_u64(out + 32, extent->payload_len);
    mc_store_u64(out + 40, extent->object_id.hi);
    mc_store_u64(out + 48, extent->object_id.lo);
    mc_store_u32(out + 56, extent->slice_index);
    mc_store_u32(out + 60, extent->slice_count);
    mc_store_u64(out + 64, extent->capability);
    mc_store_u32(out + 72, extent->rights);
    mc_store_u32(out + 76, 0);
    mc_store_u64(out + 80, request->part_offset);
    mc_store_u64(out + 88, request->part_len);
}

mooncake_err mc_tcp_request_decode(const uint8_t bytes[MC_TCP_REQUEST_LEN],
                                   struct mc_tcp_request *out)
{
    const uint16_t op = mc_load_u16(bytes + 4);
    const uint64_t payload_len = mc_load_u64(bytes + 32);
    const uint64_t part_offset = mc_load_u64(bytes + 80);
    const uint64_t part_len = mc_load_u64(bytes + 88);

    if (mc_load_u32(bytes) != REQUEST_MAGIC || (op != MC_RIGHT_READ && op != MC_RIGHT_WRITE) ||
        mc_load_u16(bytes + 6) != 0 || mc_load_u32(bytes + 76) != 0 ||
        payload_len > MC_TCP_PAYLOAD_LEN_MAX || part_offset > MC_EXTENT_HEADER_LEN + payload_len ||
        part_len > MC_EXTENT_HEADER_LEN + payload_len - part_offset) {
        return MOONCAKE_EINVAL;
    }
    *out = (struct mc_tcp_request){
        .op = (enum mc_rights)op,
        .id = mc_load_u64(bytes + 8),
        .extent =
            {
                .mount_id = mc_load_u64(bytes + 16),
                .offset = mc_load_u64(bytes + 24),
                .payload_len = payload_len,
                .object_id = {.hi = mc_load_u64(bytes + 40), .lo = mc_load_u64(bytes + 48)},
                .slice_index = mc_load_u32(bytes + 56),
                .slice_count = mc_load_u32(bytes + 60),
                .capability = mc_load_u64(bytes + 64),
                .rights = mc_load_u32(bytes + 72),
            },
        .part_offset = part_offset,
        .part_len = part_len,
    };
    return MOONCAKE_OK;
}

void mc_tcp_answer_encode(const struct mc_tcp_answer *answer, uint8_t out[MC_TCP_ANSWER_LEN])
{
    mc_store_u32(out, ANSWER_MAGIC);
    mc_store_u32(out + 4, (uint32_t)answer->status);
    mc_store_u64(out + 8, answer->id);
    mc_store_u64(out + 16, answer->len);
    mc_store_u64(out + 24, 0);
}

mooncake_err mc_tcp_answer_decode(const uint8_t bytes[MC_TCP_ANSWER_LEN], struct mc_tcp_answer *out)
{
    if (mc_load_u32(bytes) != ANSWER_MAGIC || mc_load_u64(bytes + 24) != 0 ||
        mc_load_u64(bytes + 16) > MC_EXTENT_HEADER_LEN + MC_TCP_PAYLOAD_LEN_MAX) {
        return MOONCAKE_EINVAL;
    }
    out->status = (int32_t)mc_load_u32(bytes + 4);
    out->id = mc_load_u64(bytes + 8);
    out->len = mc_load_u64(bytes + 16);
    return MOONCAKE_OK;
}
