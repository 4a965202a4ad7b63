/* One copy between a segment and the caller's memory, with the checksum taken on the way. */
#include "transport/direct.h"

#include <string.h>

mooncake_err mc_direct_read(const uint8_t *base, const struct mc_xfer_op *op)
{
    const uint8_t *at = base + op->extent.offset;
    uint8_t header[MC_EXTENT_HEADER_LEN];
    struct mc_extent_hash hash;
    uint64_t promised = 0;

    memcpy(header, at, sizeof(header)); /* checked and used from here: others may write there */
    if (op->verify != MC_VERIFY_NONE) {
        MC_TRY(mc_extent_header_check(&op->extent, header, &promised));
    }
    at += MC_EXTENT_HEADER_LEN;
    mc_extent_hash_init(&hash);
    for (unsigned i = 0; i < op->pieces_count; i++) {
        const struct iovec *piece = &op->pieces[i];

        if (op->verify == MC_VERIFY_FULL) {
            mc_extent_copy_hash(&hash, piece->iov_base, at, piece->iov_len);
        } else if (piece->iov_len > 0) {
            memcpy(piece->iov_base, at, piece->iov_len);
        }
        at += piece->iov_len;
    }
    if (op->verify == MC_VERIFY_FULL && mc_extent_hash_digest(&hash) != promised) {
        return MOONCAKE_ECHECKSUM;
    }
    return MOONCAKE_OK;
}

mooncake_err mc_direct_prove(const uint8_t *base, const struct mc_xfer_op *op)
{
    const uint8_t *at = base + op->extent.offset;
    uint8_t header[MC_EXTENT_HEADER_LEN];
    struct mc_extent_hash hash;
    uint64_t promised = 0;

    if (op->verify == MC_VERIFY_NONE) {
        return MOONCAKE_OK;
    }
    memcpy(header, at, sizeof(header));
    MC_TRY(mc_extent_header_check(&op->extent, header, &promised));
    if (op->verify == MC_VERIFY_HEADER) {
        return MOONCAKE_OK;
    }
    mc_extent_hash_init(&hash);
    mc_extent_hash_update(&hash, at + MC_EXTENT_HEADER_LEN, op->extent.payload_len);
    return mc_extent_hash_digest(&hash) == promised ? MOONCAKE_OK : MOONCAKE_ECHECKSUM;
}

/* The header goes last, so that a reader never meets a whole header before its payload. */
void mc_direct_write(uint8_t *base, const struct mc_xfer_op *op)
{
    uint8_t *const header = base + op->extent.offset;
    uint8_t *at = header + MC_EXTENT_HEADER_LEN;
    struct mc_extent_hash hash;

    mc_extent_hash_init(&hash);
    for (unsigned i = 0; i < op->pieces_count; i++) {
        mc_extent_copy_hash(&hash, at, op->pieces[i].iov_base, op->pieces[i].iov_len);
        at += op->pieces[i].iov_len;
    }
    mc_extent_header_build(&op->extent, mc_extent_hash_digest(&hash), header);
}
