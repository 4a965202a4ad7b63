/*
 * A count of everything that stays right while objects come and go, so that it can be taken in
 * slices and compared with the gauges and the segments' books at its end.
 *
 * A pass walks over all versions and counts each once; a version that is counted carries the pass's
 * number. Whoever changes a version takes it out of the count before, and puts it in afterwards. So
 * at any time the sums are exactly those of the versions that carry the number, and when the walk
 * is through, all do. Outside a pass each of these calls is one comparison.
 */
#ifndef MC_MASTER_TALLY_H
#define MC_MASTER_TALLY_H

#include "master/segments.h"

struct mc_tally {
    const struct mc_segments *segments;
    uint64_t pass;          /* which pass this is; 0: none is under way */
    uint64_t passes;        /* begun so far */
    uint8_t mark;           /* what counted versions carry; never 0 */
    struct mc_list *cursor; /* of a walk over a list of puts; NULL: none is under way */
    int64_t keys, soft_pinned_keys, unfinished_puts, parked_puts;
    const char *wrong; /* the first thing that does not fit; NULL: none */
    uint64_t told, found;
};

void mc_tally_init(struct mc_tally *tally, const struct mc_segments *segments);
/** No pass is under way. */
void mc_tally_begin(struct mc_tally *tally);
void mc_tally_end(struct mc_tally *tally);
/** Note that the books say @p told where @p found is true. Only the first is kept. */
void mc_tally_expect(struct mc_tally *tally, const char *what, uint64_t told, uint64_t found);
/** One version more or less (@p n) of its life. */
void mc_tally_add_life(struct mc_tally *tally, const struct mc_object *object, int64_t n);
/** Do class, place and record fit the life? */
void mc_tally_check_version(struct mc_tally *tally, struct mc_object *object);
/** Compare the sums of one segment with its books. */
void mc_tally_check_segment(struct mc_tally *tally, const struct mc_segment *segment);

/** Count this version, unless it is; during a pass. */
void mc_tally_count(struct mc_tally *tally, struct mc_object *object);
/** The other way; it is counted. */
void mc_tally_uncount(struct mc_tally *tally, struct mc_object *object);

/* For whoever changes a version: its life, its pin, its lease, or one of its extents. */
static inline void mc_tally_before(struct mc_tally *tally, struct mc_object *object)
{
    if (tally->pass != 0 && object->counted == tally->mark) {
        mc_tally_uncount(tally, object);
    }
}

static inline void mc_tally_after(struct mc_tally *tally, struct mc_object *object)
{
    if (tally->pass != 0) {
        mc_tally_count(tally, object);
    }
}

/** Take a put's record out of its list, but not from under the walk. */
void mc_tally_drop_put(struct mc_tally *tally, struct mc_put *put);

#endif
