/*
 * The header in front of each extent's payload, which comes from a store's memory. The first byte
 * says what to mend (the header's own checksum, so that what lies behind it is reached) and which
 * descriptor asks; the rest is the header. Laws: a header is good exactly if all that its reader
 * asks for is what the descriptor's writer builds (reserved bytes are nobody's yet); an intact one
 * of somebody else is "no such object" and nothing worse; what is refused leaves the result
 * untouched.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "transport/extent.h"

#include "law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define UNTOUCHED 0x5eed5eed5eed5eedull
/* Where the payload's checksum, and the header's own, are (extent.h). */
#define AT_CHECKSUM 40
#define AT_OBJECT 8
#define AT_HEADER_CHECKSUM 56

enum mend {
    MEND_CHECKSUM = 1,
    MEND_MAGIC = 2,
    ASK_FOR_OWN = 4, /* with a descriptor made of the header's own fields */
};

static struct mc_extent_ref ref_of(const uint8_t *header)
{
    return (struct mc_extent_ref){
        .object_id = {mc_load_u64(header + 8), mc_load_u64(header + 16)},
        .slice_index = mc_load_u32(header + 24),
        .slice_count = mc_load_u32(header + 28),
        .payload_len = mc_load_u64(header + 32),
    };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct mc_extent_ref ref = {.object_id = {1, 2}, .slice_count = 1, .payload_len = 300};
    uint8_t built[MC_EXTENT_HEADER_LEN];
    uint64_t checksum = UNTOUCHED;
    bool intact, same;
    uint8_t *header;
    mooncake_err err;

    if (len != 1 + MC_EXTENT_HEADER_LEN) {
        return 0;
    }
    header = malloc(MC_EXTENT_HEADER_LEN); /* of exactly its length, for the sanitizer */
    law(header != NULL);
    memcpy(header, data + 1, MC_EXTENT_HEADER_LEN);
    if ((data[0] & ASK_FOR_OWN) != 0) {
        ref = ref_of(header);
    }
    mc_extent_header_build(&ref, mc_load_u64(header + AT_CHECKSUM), built);
    if ((data[0] & MEND_MAGIC) != 0) {
        memcpy(header, built, 8);
    }
    if ((data[0] & MEND_CHECKSUM) != 0) {
        mc_store_u64(header + AT_HEADER_CHECKSUM, XXH3_64bits(header, AT_HEADER_CHECKSUM));
    }
    intact = mc_load_u64(header + AT_HEADER_CHECKSUM) == XXH3_64bits(header, AT_HEADER_CHECKSUM);
    same = memcmp(header, built, 6) == 0 &&
           memcmp(header + AT_OBJECT, built + AT_OBJECT, AT_CHECKSUM - AT_OBJECT) == 0;
    err = mc_extent_header_check(&ref, header, &checksum);
    law(err == MOONCAKE_OK || err == MOONCAKE_ENOENT || err == MOONCAKE_ECHECKSUM);
    law(intact || err == MOONCAKE_ECHECKSUM);
    law(err != MOONCAKE_OK || same);
    law(err != MOONCAKE_ENOENT || (memcmp(header, built, 6) == 0 && !same));
    law(memcmp(header, built, sizeof(built)) != 0 || err == MOONCAKE_OK);
    law(checksum == (err == MOONCAKE_OK ? mc_load_u64(header + AT_CHECKSUM) : UNTOUCHED));
    free(header);
    return 0;
}
