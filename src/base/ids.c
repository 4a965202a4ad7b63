/* Capabilities. */
#include "base/ids.h"

#include "base/bytes.h"

uint64_t mc_capability(const uint64_t secret[2], const struct mc_extent_ref *extent)
{
    const uint64_t words[7] = {
        extent->mount_id,     extent->offset,
        extent->payload_len,  extent->object_id.hi,
        extent->object_id.lo, (uint64_t)extent->slice_index << 32 | extent->slice_count,
        extent->rights,
    };

    return mc_siphash(secret, words, sizeof(words));
}
