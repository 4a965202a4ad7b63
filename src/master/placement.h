/*
 * Which of two segments is the better place for a new replica. Pure: no state, no clock; random
 * choices come from a generator that the caller seeds.
 *
 * Rules, the first that tells two candidates apart decides: it has room in one piece; no replica
 * of the object is on its host; it is not a newcomer that has had its share; its free ratio.
 */
#ifndef MC_MASTER_PLACEMENT_H
#define MC_MASTER_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

/* Candidates drawn at random. Few, so that one emptied segment does not draw every writer. */
#define MC_PLACE_CANDIDATES 4u

/* A segment that is emptier than the rest by this much (in 1/100 of its size) is a newcomer ... */
#define MC_PLACE_AHEAD_PERCENT 10u
/* ... and gets at most this share of recent placements while others have room: more than a plain
 * share of a pool of two and more, and less than nine tenths. */
#define MC_PLACE_NEWCOMER_PERCENT 80u
/* Recent placements: halved when they reach this, and forgotten when a segment joins, so that
 * what went elsewhere before is no credit for the newcomer. */
#define MC_PLACE_RECENT_MAX 64u
/* Too few to judge a share by. */
#define MC_PLACE_RECENT_MIN 8u

/* What placement sees of one segment. Bytes. */
struct mc_place_view {
    uint64_t capacity, free, largest;
    uint64_t others_capacity, others_free; /* all other placeable segments together */
    uint32_t recent, recent_total;
    bool host_used; /* a replica of this object is on the same host */
};

/** Has it room for an extent of @p bytes, header included, in one piece? */
bool mc_place_fits(const struct mc_place_view *view, uint64_t bytes);
/** A newcomer that has had its share? */
bool mc_place_capped(const struct mc_place_view *view);
/** Is @p a a better place for @p bytes than @p b? False if they are equal. */
bool mc_place_better(const struct mc_place_view *a, const struct mc_place_view *b, uint64_t bytes);

/* splitmix64: small, good enough to choose places, and the same on every machine. */
struct mc_place_random {
    uint64_t state;
};
uint64_t mc_place_random_next(struct mc_place_random *random);
/** 0 to @p count - 1. */
uint32_t mc_place_random_below(struct mc_place_random *random, uint32_t count);

#endif
