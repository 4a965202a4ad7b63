/*
 * The mounted segments: their tables, states and allocators, and the lists of what each holds.
 * Each mount has its own struct mc_segment; a lost one leaves the tables at once and lives on in
 * the list of gone ones until its extents are swept, so that nothing done to it late can touch a
 * newer mount of the same name.
 */
#ifndef MC_MASTER_SEGMENTS_H
#define MC_MASTER_SEGMENTS_H

#include "base/htab.h"
#include "master/env.h"
#include "master/object.h"
#include "master/placement.h"
#include "master/roster.h"

/* Bytes under lease by the time the lease ends, in buckets of 1/8 of the lease time, so that the
 * sum of what is leased now is O(1) and at most 1/8 of a lease too careful. A lease reaches at
 * most 9 buckets ahead, so 16 never meet. */
#define MC_LEASE_BUCKETS 16u

struct mc_lease_ring {
    uint64_t number[MC_LEASE_BUCKETS]; /* which bucket of all time is in this place */
    uint64_t bytes[MC_LEASE_BUCKETS];
};

/* What a recount has found in a segment so far (tally.h). */
struct mc_segment_sums {
    uint64_t pass; /* of which pass these are; another's are 0 */
    uint64_t extents, used;
    uint64_t bytes[MC_CLASSES];
    struct mc_lease_ring leased[2];
};

struct mc_segment {
    uint64_t mount_id, client_id;
    uint64_t secret[2];
    char *name, *host, *addresses; /* owned */
    uint64_t host_hash;
    struct mc_extalloc *alloc;
    enum mc_segment_state state;
    uint64_t extents;
    struct mc_list queues[MC_QUEUES];
    uint64_t bytes[MC_CLASSES];
    struct mc_lease_ring leased[2]; /* MC_CLASS_PLAIN, MC_CLASS_SOFT */
    struct mc_segment_sums sums;

    struct mc_list node;        /* in mounted or gone */
    struct mc_list member_node; /* in its member's list; unlinked when gone */
    struct mc_list leave_node;  /* in leaving */
    struct mc_list report_node; /* in reported */
    struct mc_list over_node;   /* in over */

    uint64_t seq;            /* in the roster, until it is destroyed */
    uint32_t place_index;    /* in the placeable array, or MC_NOT_PLACEABLE */
    uint32_t recent;         /* recent placements that came here */
    uint64_t place_seq;      /* the allocation whose replica is here */
    uint64_t leave_ns;       /* DRAINING: gone at this time */
    uint64_t gone_ns;        /* GONE: since then */
    uint64_t reporter;       /* client that reported it first */
    uint64_t reported_ns;    /* last report; 0: none */
    uint64_t evict_after_ns; /* nothing was evictable: do not look before */
    uint64_t demand_bytes;   /* free bytes that a deferred put waits for */
    uint64_t demand_end_ns;
    bool demand_soft;   /* soft pins may go for it */
    uint64_t reply_seq; /* the reply in whose table this is, at reply_index */
    uint32_t reply_index;

    uint64_t freed_offset, freed_len; /* planted fault only */
};

#define MC_NOT_PLACEABLE UINT32_MAX

struct mc_segments {
    struct mc_core_env *env;
    struct mc_htab *by_mount, *by_name;
    struct mc_list mounted, gone;
    struct mc_roster roster; /* of both, in the order of mounting */
    struct mc_list leaving;  /* DRAINING, by no order */
    struct mc_list reported; /* with a report that still counts */
    struct mc_list over;     /* above the watermark, or with a demand */
    struct mc_segment **placeable;
    uint32_t placeable_count, placeable_max;
    uint64_t placeable_len, placeable_used; /* bytes */
    uint32_t recent_total;
};

struct mc_segment_spec {
    uint64_t client_id;
    const char *host;
    const struct mc_mount_item *item;
};

/* An extent that has been taken and is not yet in an object. */
struct mc_slot {
    struct mc_segment *segment;
    uint64_t offset, payload_len;
    mc_extent_id id;
    uint8_t replica_slice;
};

mooncake_err mc_segments_init(struct mc_segments *segments, struct mc_core_env *env) MC_MUST_CHECK;
/** All extents must have been dropped. */
void mc_segments_fini(struct mc_segments *segments);

struct mc_segment *mc_segments_find(const struct mc_segments *segments, uint64_t mount_id);
struct mc_segment *mc_segments_find_name(const struct mc_segments *segments, const char *name,
                                         size_t len);
/** A segment of a new id and name. @retval ENOMEM, EINVAL (length) */
mooncake_err mc_segments_add(struct mc_segments *segments, const struct mc_segment_spec *spec,
                             struct mc_segment **out) MC_MUST_CHECK;
/** OK, DRAINING or SUSPECT. */
void mc_segments_set_state(struct mc_segments *segments, struct mc_segment *segment,
                           enum mc_segment_state state);
/** Lost or given back: out of the tables, into gone. */
void mc_segments_set_gone(struct mc_segments *segments, struct mc_segment *segment);
/** A gone segment without extents. */
void mc_segments_destroy(struct mc_segments *segments, struct mc_segment *segment);

/* ---- space (segment_space.c) --------------------------------------------------------------- */

uint64_t mc_segment_free(const struct mc_segment *segment);
/** Bytes of this class (PLAIN or SOFT) that are leased now; up to 1/8 lease too careful. */
uint64_t mc_segment_leased(const struct mc_segments *segments, const struct mc_segment *segment,
                           enum mc_class klass);
/** The first of its leases to end, and how many bytes eviction gets then; up to 1/8 lease too
 * careful. Bytes 0: none is leased. */
void mc_segment_next_lease(const struct mc_segments *segments, const struct mc_segment *segment,
                           uint64_t *out_end_ns, uint64_t *out_bytes);
/** Bytes that eviction could free now. */
uint64_t mc_segment_evictable(const struct mc_segments *segments, const struct mc_segment *segment,
                              bool soft_too);
struct mc_place_view mc_segment_view(const struct mc_segments *segments,
                                     const struct mc_segment *segment);
/** Take one extent. @retval ENOSPACE, ENOMEM */
mooncake_err mc_segments_take(struct mc_segments *segments, struct mc_segment *segment,
                              uint64_t payload_len, struct mc_slot *out) MC_MUST_CHECK;
/** Give back a slot that never came into an object. */
void mc_segments_give(struct mc_segments *segments, const struct mc_slot *slot);
/** Count one placement here, for the newcomer's bound. */
void mc_segments_count_placement(struct mc_segments *segments, struct mc_segment *segment);

/** A slot becomes an extent of an object being written. */
void mc_segments_link(struct mc_extent *extent, const struct mc_slot *slot, unsigned index);
/** Free the extent's space; the place in the object stays, unused. */
void mc_segments_drop(struct mc_segments *segments, struct mc_extent *extent);
/** Move an extent to another struct (its object is being split). */
void mc_segments_move(struct mc_extent *to, struct mc_extent *from, unsigned index);
/** Change class and queue. The lease of the object is in the books of the old class. */
void mc_segments_reclass(struct mc_segments *segments, struct mc_extent *extent,
                         enum mc_class klass, enum mc_queue queue, bool at_head);
/** Change the queue only. */
void mc_segments_requeue(struct mc_extent *extent, enum mc_queue queue, bool at_head);
/** The lease of the extent's object moves from @p old_end_ns to @p new_end_ns (0: none). */
void mc_segments_lease_move(struct mc_segments *segments, struct mc_extent *extent,
                            uint64_t old_end_ns, uint64_t new_end_ns);
/** Bytes into and out of a bucket; one that has lost its place to a newer one is left alone. */
void mc_lease_ring_add(struct mc_lease_ring *ring, uint64_t number, uint64_t bytes);
void mc_lease_ring_drop(struct mc_lease_ring *ring, uint64_t number, uint64_t bytes);
/** Number of the bucket that a lease end falls into. */
uint64_t mc_lease_bucket(const struct mc_segments *segments, uint64_t end_ns);

/** Is the segment above the watermark or under a demand? Sees to it that eviction looks at it. */
void mc_segments_note_pressure(struct mc_segments *segments, struct mc_segment *segment);

#endif
