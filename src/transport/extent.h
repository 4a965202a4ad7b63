/*
 * The 64-byte header in front of each extent's payload, by which bytes prove that they are the
 * ones asked for; and copying with the checksum taken on the way, block by block while the block
 * is in the cache. Pure.
 *
 *    0  u32 magic "MCX1"    4  u16 format version (1)   6  u16 zero
 *    8  u64 object id hi   16  u64 object id lo
 *   24  u32 slice index    28  u32 slice count
 *   32  u64 payload length 40  u64 payload checksum (xxh3-64, seed 0)
 *   48  u64 zero           56  u64 xxh3-64 of the 56 bytes before
 */
#ifndef MC_TRANSPORT_EXTENT_H
#define MC_TRANSPORT_EXTENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/ids.h"
#include "base/limits.h"

enum mc_verify {
    MC_VERIFY_FULL,   /* header and payload */
    MC_VERIFY_HEADER, /* header only: the right object, maybe damaged */
    MC_VERIFY_NONE,
};

/** Header for the extent @p ref with this payload checksum. */
void mc_extent_header_build(const struct mc_extent_ref *ref, uint64_t checksum,
                            uint8_t out[MC_EXTENT_HEADER_LEN]);
/**
 * Does this header belong to @p ref?
 *
 * @param out_checksum  the payload checksum it promises
 * @retval ECHECKSUM  the header is damaged (its own checksum, magic or version is wrong)
 * @retval ENOENT     it is intact but of another object or slice: the descriptor is stale
 */
mooncake_err mc_extent_header_check(const struct mc_extent_ref *ref,
                                    const uint8_t header[MC_EXTENT_HEADER_LEN],
                                    uint64_t *out_checksum) MC_MUST_CHECK;

/* A running xxh3-64. 576 bytes or so; 64-byte aligned. Opaque outside extent.c. */
struct mc_extent_hash {
    _Alignas(64) uint8_t state[640];
};
void mc_extent_hash_init(struct mc_extent_hash *hash);
void mc_extent_hash_update(struct mc_extent_hash *hash, const void *bytes, size_t len);
uint64_t mc_extent_hash_digest(const struct mc_extent_hash *hash);
/** Copy and hash in one pass. */
void mc_extent_copy_hash(struct mc_extent_hash *hash, void *to, const void *from, size_t len);
/** xxh3-64 of ranges laid end to end. */
uint64_t mc_extent_hash_iov(const struct iovec *iov, size_t count);

#endif
