/*
 * Things in the order in which they came, so that a long list can be told in pages: a page goes on
 * where the last one ended, whatever came or went in between, and nothing is told twice. Finding
 * the place is a binary search; coming and going are constant time but for a move of 16 bytes each
 * now and then.
 */
#ifndef MC_MASTER_ROSTER_H
#define MC_MASTER_ROSTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct mc_roster_entry {
    uint64_t seq; /* ascending */
    void *item;   /* NULL: it went */
};

struct mc_roster {
    struct mc_roster_entry *entries; /* owned */
    size_t count, max;
    size_t gone;   /* entries without an item */
    uint64_t last; /* the newest number; the first is 1 */
};

/** A zeroed roster is an empty one. */
void mc_roster_fini(struct mc_roster *roster);
/** @p item is borrowed until it is dropped; *out_seq names it then. ENOMEM leaves all as it was. */
mooncake_err mc_roster_add(struct mc_roster *roster, void *item, uint64_t *out_seq) MC_MUST_CHECK;
/** It must be there. */
void mc_roster_drop(struct mc_roster *roster, uint64_t seq);

/**
 * The first item whose number is above *cursor (0 at the start), which becomes its number; NULL
 * after the last.
 */
void *mc_roster_next(const struct mc_roster *roster, uint64_t *cursor);

#endif
