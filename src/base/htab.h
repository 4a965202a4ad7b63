/*
 * Hash table from bytes to element, for 100 M entries. Elements live elsewhere and hold their own
 * key; the table holds a 16-bit piece of the hash and the element's pointer, so that a lookup
 * touches one line of the table and, as a rule, one element. It grows by a bucket now and then and
 * never stops to move everything; it does not shrink. One owner thread.
 */
#ifndef MC_BASE_HTAB_H
#define MC_BASE_HTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/** Does @p element have this key? */
typedef bool (*mc_htab_match)(const void *element, const void *key, size_t key_len);
/** The 64-bit hash of @p element's key, as mc_htab_hash() gave it (used while growing). */
typedef uint64_t (*mc_htab_rehash)(const void *element);

struct mc_htab;

/**
 * Room for about @p count_hint elements without growing; touches all of it. ENOMEM. @p rehash is
 * called with elements of the table only, and so is @p match.
 */
mooncake_err mc_htab_create(size_t count_hint, mc_htab_match match, mc_htab_rehash rehash,
                            struct mc_htab **out) MC_MUST_CHECK;
/** The elements are not touched. Nulls *htab; accepts NULL in it. */
void mc_htab_destroy(struct mc_htab **htab);

/** Hash of a key: xxh3-64. */
uint64_t mc_htab_hash(const void *key, size_t key_len);

/** Ask the CPU to fetch the lines that a find of @p hash will read first. */
void mc_htab_prefetch(const struct mc_htab *htab, uint64_t hash);
/** Second step, when those lines have had time to arrive: fetch the element itself. */
void mc_htab_prefetch_element(const struct mc_htab *htab, uint64_t hash);
/** The element of this key, or NULL. */
void *mc_htab_find(const struct mc_htab *htab, uint64_t hash, const void *key, size_t key_len);
/** Add an element whose key is not there yet. ENOMEM leaves the table unchanged. */
mooncake_err mc_htab_add(struct mc_htab *htab, uint64_t hash, void *element) MC_MUST_CHECK;
/** Drop this very element; it must be there. */
void mc_htab_drop(struct mc_htab *htab, uint64_t hash, const void *element);

/** Put @p fresh, of the same key, in the place of @p old, which must be there. Cannot fail. */
void mc_htab_replace(struct mc_htab *htab, uint64_t hash, const void *old, void *fresh);

size_t mc_htab_count(const struct mc_htab *htab);
/** Bytes the table itself occupies. */
size_t mc_htab_bytes(const struct mc_htab *htab);

/**
 * Walk in slices: visits elements until @p visits_max were seen, starting from *cursor (0 at the
 * start); 0 in *cursor at the return means all were visited. An element that stays in the table
 * during the whole walk is visited at least once, also while the table grows in between, and may
 * be visited twice. @p visit may drop the visited element and no other, and may not add.
 *
 * A call is bounded also where the table is almost empty: it returns with a cursor to go on from
 * after about 4096 empty buckets, perhaps without a visit. visits_max is at least 1.
 */
void mc_htab_walk(struct mc_htab *htab, uint64_t *cursor, size_t visits_max,
                  void (*visit)(void *arg, void *element), void *arg);

/** Walk all invariants; asserts on the first that does not hold. For tests. */
void mc_htab_check(const struct mc_htab *htab);

#endif
