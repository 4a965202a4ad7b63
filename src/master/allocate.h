/*
 * Space for all replicas of one new object: placement's rules applied to the mounted segments,
 * with eviction when nothing is free. All or nothing for each replica.
 */
#ifndef MC_MASTER_ALLOCATE_H
#define MC_MASTER_ALLOCATE_H

#include "master/evict.h"

/* A value longer than any pool can be: refused before any arithmetic with it. */
#define MC_VALUE_LEN_MAX (1ull << 47)

struct mc_allocator {
    struct mc_core_env *env;
    struct mc_objects *objects;
    struct mc_segments *segments;
    struct mc_place_random random;
    uint64_t seq; /* of the replica being placed; segments remember it */
};

struct mc_allocate_ask {
    uint64_t value_len;
    unsigned replicas; /* 1 to MC_REPLICAS_MAX */
    bool all_replicas;
    const char *const *preferred; /* segment names, the best first */
    size_t preferred_count;
    const uint64_t *excluded; /* mounts */
    size_t excluded_count;
    uint64_t near_host;             /* mc_htab_hash() of the host to place on next; 0: none */
    struct mc_budget *evict_budget; /* shared by all items of a request */
};

/**
 * @param out_later  set to true if it failed because the budget ended: eviction goes on in the
 *                   background, ask again soon. Else untouched.
 * @retval ENOSPACE  too few bytes, also counting what could be evicted now; nothing was evicted
 *                   for a value that could not have fitted
 */
mooncake_err mc_allocate(struct mc_allocator *allocator, const struct mc_allocate_ask *ask,
                         struct mc_slots *out_slots, bool *out_later) MC_MUST_CHECK;
/** Give everything back. */
void mc_allocate_undo(struct mc_allocator *allocator, struct mc_slots *slots);

#endif
