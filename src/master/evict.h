/*
 * What goes next when space is wanted. Near-LRU by segment: the head of a segment's queue is its
 * longest unread object, found leased it is put aside until the lease ends, so the cost is that of
 * what is evicted. What goes is one replica; the object goes with its last one, so that pressure
 * on one segment of two makes one copy of two and not none.
 *
 * Soft pins go only inside an allocation that cannot be had otherwise, never in the background.
 */
#ifndef MC_MASTER_EVICT_H
#define MC_MASTER_EVICT_H

#include "master/objects.h"

/** How long the free space that a deferred put waits for is kept in demand. */
#define MC_DEMAND_MS 1000u

/**
 * Evict from @p segment until @p bytes are freed there.
 *
 * @return bytes freed in all segments; 0: nothing is evictable or the budget is spent
 */
uint64_t mc_evict_from(struct mc_objects *objects, struct mc_segment *segment, bool soft_too,
                       uint64_t bytes, struct mc_budget *budget);
/** Notice leases and pins that ended, so that the books of what is evictable are right. */
void mc_evict_refresh(struct mc_objects *objects, struct mc_segment *segment,
                      struct mc_budget *budget);
/** Let the background free so much of @p segment: a put had to be deferred. */
void mc_evict_demand(struct mc_objects *objects, struct mc_segment *segment, uint64_t bytes,
                     bool soft_too);
/** Background: segments above the watermark or in demand. False if the budget ended first. */
bool mc_evict_step(struct mc_objects *objects, struct mc_budget *budget);
/** When was the object last read or written that would go first from here? UINT64_MAX: none. */
uint64_t mc_evict_oldest_ns(struct mc_objects *objects, struct mc_segment *segment, bool soft_too,
                            struct mc_budget *budget);
/** Drop what one extent of a gone segment stands for. False: nothing is left there. */
bool mc_evict_sweep_one(struct mc_objects *objects, struct mc_segment *segment);

#endif
