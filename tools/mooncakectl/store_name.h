/* From what people call a store to its segments. */
#ifndef MC_CTL_STORE_NAME_H
#define MC_CTL_STORE_NAME_H

#include "ctl.h"

/* As many as one store may have. */
#define MC_STORE_SEGMENTS_MAX 64u

struct mc_store_segments {
    uint64_t client_id;
    uint64_t mount_ids[MC_STORE_SEGMENTS_MAX];
    size_t count;
};

/**
 * The segments of the one store that is called so: by the name of a segment, its address
 * ("10.0.0.1:7000"), the store's id as `stores` shows it, or its host if only one store runs there.
 *
 * @return MC_EXIT_OK; else the fault has been told
 */
enum mc_exit mc_store_find(const struct mc_ctl *ctl, const char *name,
                           struct mc_store_segments *out);

#endif
