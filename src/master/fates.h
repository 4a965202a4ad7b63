/*
 * Why is a key not there? What became of the keys that went last: a ring of fixed memory, found by
 * the 64-bit hash of the key. Written where a key goes, read only when somebody asks.
 *
 * Design notes
 * - 28 bytes an entry and 4 for its place in the index: 2 MiB for 65,536. Texts of keys are not
 *   kept, so two keys of one hash answer for each other: one in 2^64 / entries.
 * - An entry links to the one before it in its bucket, which is older. Nothing is unlinked when the
 *   ring comes round: an overwritten entry is newer than the one that links to it, which ends the
 *   walk.
 */
#ifndef MC_MASTER_FATES_H
#define MC_MASTER_FATES_H

#include "base/limits.h"
#include "master/object.h"
#include "wire/messages.h"

/** More than this many entries (512 MiB) are a mistake. */
#define MC_FATES_ENTRIES_MAX (1u << 24)
/* Stores that were lost, remembered by name; an older one's keys say "lost" without it. */
#define MC_FATES_STORES 64u

struct mc_fates_entry;

struct mc_fates {
    struct mc_fates_entry *entries; /* owned; NULL: off */
    uint32_t *buckets;              /* owned; the newest entry of each */
    uint32_t count;                 /* of entries, and of buckets; a power of two */
    uint64_t written;               /* of all time */
    uint64_t began_ns;
    uint64_t stores_written;
    char stores[MC_FATES_STORES][MC_SEGMENT_NAME_LEN_MAX + 1];
};

struct mc_fates_answer {
    enum mc_fate fate;                       /* MC_FATE_UNKNOWN: nothing is known */
    uint64_t ago_ms;                         /* since it went */
    uint64_t age_ms;                         /* how old it was then */
    uint64_t idle_ms;                        /* for how long it had not been read then */
    char store[MC_SEGMENT_NAME_LEN_MAX + 1]; /* which it was lost with; "": not known */
};

/** @p entries is rounded up to a power of two; 0: off. @retval ENOMEM */
mooncake_err mc_fates_init(struct mc_fates *fates, uint32_t entries, uint64_t now_ns) MC_MUST_CHECK;
void mc_fates_fini(struct mc_fates *fates);

/** The key of @p object goes now. @p store is NULL where it has nothing to do with it. */
void mc_fates_note(struct mc_fates *fates, const struct mc_object *object, enum mc_fate fate,
                   uint64_t now_ns, const char *store);
/** What became of the key of this hash last? */
void mc_fates_find(const struct mc_fates *fates, uint64_t hash, uint64_t now_ns,
                   struct mc_fates_answer *out);
/** How far back it reaches, in milliseconds: whatever went before may be forgotten. 0: off. */
uint64_t mc_fates_reach_ms(const struct mc_fates *fates, uint64_t now_ns);

#endif
