/*
 * Extent allocator of one segment: hands out ranges of a space that this process may not be able
 * to touch, so all its books are outside the space. Take and give back in constant time (two-level
 * segregated fit); neighbours merge at once, so freed space fits any size again. One owner thread.
 */
#ifndef MC_BASE_EXTALLOC_H
#define MC_BASE_EXTALLOC_H

#include <stdint.h>

#include "base/err.h"

struct mc_extalloc;

/** Names one extent that is taken. Never 0 for a valid one. */
typedef uint32_t mc_extent_id;

/**
 * A space of @p len bytes, in units of MC_EXTENT_ALIGN (a rest is left unused). ENOMEM; EINVAL if
 * len is below one unit or above 2^47.
 */
mooncake_err mc_extalloc_create(uint64_t len, struct mc_extalloc **out) MC_MUST_CHECK;
/** Nulls *alloc; accepts NULL in it. */
void mc_extalloc_destroy(struct mc_extalloc **alloc);

/**
 * Take @p len bytes in one piece (rounded up to the unit; 0 takes one unit).
 *
 * @retval ENOSPACE  no free extent is long enough; nothing changed. Constant time has a price: one
 *                   that is less than 1/32 longer than len may be overlooked among shorter ones.
 * @retval ENOMEM    the books could not grow; nothing changed
 */
mooncake_err mc_extalloc_take(struct mc_extalloc *alloc, uint64_t len, mc_extent_id *out_id,
                              uint64_t *out_offset) MC_MUST_CHECK;
/** Give an extent back. One that is not taken is a bug and stops the program. */
void mc_extalloc_give(struct mc_extalloc *alloc, mc_extent_id id);

uint64_t mc_extalloc_offset(const struct mc_extalloc *alloc, mc_extent_id id);
/** Bytes taken by this extent, rounded up to the unit. */
uint64_t mc_extalloc_len(const struct mc_extalloc *alloc, mc_extent_id id);

uint64_t mc_extalloc_capacity(const struct mc_extalloc *alloc);
uint64_t mc_extalloc_used(const struct mc_extalloc *alloc);
/**
 * A length that take would grant in one piece right now. Constant time, so it may be up to one
 * size class (1/32) below the true largest free extent, and is never above it; 0 when full.
 */
uint64_t mc_extalloc_largest(const struct mc_extalloc *alloc);
/** Bytes of the books themselves. */
uint64_t mc_extalloc_bytes(const struct mc_extalloc *alloc);

/** Walk all invariants; asserts on the first that does not hold. For tests. */
void mc_extalloc_check(const struct mc_extalloc *alloc);

#endif
