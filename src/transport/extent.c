/*
 * Extent headers, and the copy that takes the checksum on the way.
 *
 * Design notes: the bytes are hashed at their destination, after the copy, so that the checksum is
 * that of what the reader got even if somebody overwrites the source meanwhile. A block of 16 KiB
 * stays in the first-level cache between copy and hash; there the hash costs a tenth of the copy.
 * libxxhash picks the widest vectors of the machine at run time on x86; the values do not depend
 * on it.
 */
#include "transport/extent.h"

#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size; nothing else of the unstable part */
#include <xxhash.h>
#if defined(__x86_64__)
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
#define hash_once XXH3_64bits_dispatch
#define hash_more XXH3_64bits_update_dispatch
#else
#define hash_once XXH3_64bits
#define hash_more XXH3_64bits_update
#endif

#include "base/bytes.h"

#define MAGIC 0x3158434du /* "MCX1" */
#define FORMAT 1u
#define BLOCK_LEN ((size_t)16 << 10)

enum header_at {
    AT_MAGIC = 0,
    AT_FORMAT = 4,
    AT_ZERO16 = 6,
    AT_OBJECT_HI = 8,
    AT_OBJECT_LO = 16,
    AT_SLICE_INDEX = 24,
    AT_SLICE_COUNT = 28,
    AT_PAYLOAD_LEN = 32,
    AT_CHECKSUM = 40,
    AT_ZERO64 = 48,
    AT_HEADER_CHECKSUM = 56,
};

_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct mc_extent_hash), "grow mc_extent_hash");
_Static_assert(_Alignof(XXH3_state_t) <= _Alignof(struct mc_extent_hash), "align mc_extent_hash");

void mc_extent_header_build(const struct mc_extent_ref *ref, uint64_t checksum,
                            uint8_t out[MC_EXTENT_HEADER_LEN])
{
    mc_store_u32(out + AT_MAGIC, MAGIC);
    mc_store_u16(out + AT_FORMAT, FORMAT);
    mc_store_u16(out + AT_ZERO16, 0);
    mc_store_u64(out + AT_OBJECT_HI, ref->object_id.hi);
    mc_store_u64(out + AT_OBJECT_LO, ref->object_id.lo);
    mc_store_u32(out + AT_SLICE_INDEX, ref->slice_index);
    mc_store_u32(out + AT_SLICE_COUNT, ref->slice_count);
    mc_store_u64(out + AT_PAYLOAD_LEN, ref->payload_len);
    mc_store_u64(out + AT_CHECKSUM, checksum);
    mc_store_u64(out + AT_ZERO64, 0);
    mc_store_u64(out + AT_HEADER_CHECKSUM, hash_once(out, AT_HEADER_CHECKSUM));
}

mooncake_err mc_extent_header_check(const struct mc_extent_ref *ref,
                                    const uint8_t header[MC_EXTENT_HEADER_LEN],
                                    uint64_t *out_checksum)
{
    if (mc_load_u64(header + AT_HEADER_CHECKSUM) != hash_once(header, AT_HEADER_CHECKSUM) ||
        mc_load_u32(header + AT_MAGIC) != MAGIC || mc_load_u16(header + AT_FORMAT) != FORMAT) {
        return MOONCAKE_ECHECKSUM;
    }
    if (mc_load_u64(header + AT_OBJECT_HI) != ref->object_id.hi ||
        mc_load_u64(header + AT_OBJECT_LO) != ref->object_id.lo ||
        mc_load_u32(header + AT_SLICE_INDEX) != ref->slice_index ||
        mc_load_u32(header + AT_SLICE_COUNT) != ref->slice_count ||
        mc_load_u64(header + AT_PAYLOAD_LEN) != ref->payload_len) {
        return MOONCAKE_ENOENT;
    }
    *out_checksum = mc_load_u64(header + AT_CHECKSUM);
    return MOONCAKE_OK;
}

static XXH3_state_t *state_of(struct mc_extent_hash *hash)
{
    return (XXH3_state_t *)(void *)hash->state;
}

void mc_extent_hash_init(struct mc_extent_hash *hash)
{
    (void)XXH3_64bits_reset(state_of(hash)); /* fails on NULL only */
}

void mc_extent_hash_update(struct mc_extent_hash *hash, const void *bytes, size_t len)
{
    if (len > 0) {
        (void)hash_more(state_of(hash), bytes, len);
    }
}

uint64_t mc_extent_hash_digest(const struct mc_extent_hash *hash)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)hash->state);
}

void mc_extent_copy_hash(struct mc_extent_hash *hash, void *to, const void *from, size_t len)
{
    uint8_t *to_at = to;
    const uint8_t *from_at = from;

    while (len > 0) {
        size_t n = len < BLOCK_LEN ? len : BLOCK_LEN;

        memcpy(to_at, from_at, n);
        (void)hash_more(state_of(hash), to_at, n);
        to_at += n;
        from_at += n;
        len -= n;
    }
}

uint64_t mc_extent_hash_iov(const struct iovec *iov, size_t count)
{
    struct mc_extent_hash hash;

    if (count == 1) {
        return hash_once(iov[0].iov_base, iov[0].iov_len);
    }
    mc_extent_hash_init(&hash);
    for (size_t i = 0; i < count; i++) {
        mc_extent_hash_update(&hash, iov[i].iov_base, iov[i].iov_len);
    }
    return mc_extent_hash_digest(&hash);
}
