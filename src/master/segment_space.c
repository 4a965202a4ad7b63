/*
 * Space of a segment: taking and giving extents, the queues in which eviction looks, and the books
 * by class and by lease. Every byte taken is in exactly one class of its segment.
 */
#include "master/segments.h"

#include <string.h>

/* What a lease's bucket is worth of the lease time. */
#define BUCKETS_PER_LEASE 8u

/* ---- leased bytes -------------------------------------------------------------------------- */

static uint64_t bucket_width_ns(const struct mc_segments *segments)
{
    uint64_t const width = segments->env->options.lease_ms * (MC_NS_PER_MS / BUCKETS_PER_LEASE);

    return width == 0 ? 1 : width;
}

uint64_t mc_lease_bucket(const struct mc_segments *segments, uint64_t end_ns)
{
    return end_ns / bucket_width_ns(segments);
}

/* An object with a lease is in the bucket of its lease's end exactly as long as that bucket keeps
 * its place in the ring. */
void mc_lease_ring_add(struct mc_lease_ring *ring, uint64_t number, uint64_t bytes)
{
    unsigned const at = number % MC_LEASE_BUCKETS;

    if (ring->number[at] > number) {
        return; /* the lease ended so long ago that its bucket is in use again */
    }
    if (ring->number[at] < number) { /* what was there has expired */
        ring->number[at] = number;
        ring->bytes[at] = 0;
    }
    ring->bytes[at] += bytes;
}

void mc_lease_ring_drop(struct mc_lease_ring *ring, uint64_t number, uint64_t bytes)
{
    unsigned const at = number % MC_LEASE_BUCKETS;

    if (ring->number[at] == number) {
        MC_ASSERT(ring->bytes[at] >= bytes);
        ring->bytes[at] -= bytes;
    }
}

uint64_t mc_segment_leased(const struct mc_segments *segments, const struct mc_segment *segment,
                           enum mc_class klass)
{
    const struct mc_lease_ring *ring = &segment->leased[klass];
    uint64_t const now = mc_lease_bucket(segments, segments->env->now_ns);
    uint64_t sum = 0;

    MC_ASSERT(klass == MC_CLASS_PLAIN || klass == MC_CLASS_SOFT);
    for (unsigned i = 0; i < MC_LEASE_BUCKETS; i++) {
        if (ring->number[i] >= now) {
            sum += ring->bytes[i];
        }
    }
    return sum;
}

void mc_segment_next_lease(const struct mc_segments *segments, const struct mc_segment *segment,
                           uint64_t *out_end_ns, uint64_t *out_bytes)
{
    uint64_t const now = mc_lease_bucket(segments, segments->env->now_ns);
    uint64_t first = UINT64_MAX, bytes = 0;

    for (unsigned klass = 0; klass < MC_ARRAY_LEN(segment->leased); klass++) {
        const struct mc_lease_ring *ring = &segment->leased[klass];

        for (unsigned i = 0; i < MC_LEASE_BUCKETS; i++) {
            if (ring->bytes[i] == 0 || ring->number[i] < now || ring->number[i] > first) {
                continue;
            }
            bytes = ring->number[i] < first ? ring->bytes[i] : bytes + ring->bytes[i];
            first = ring->number[i];
        }
    }
    *out_bytes = bytes;
    *out_end_ns = bytes == 0 ? UINT64_MAX : (first + 1) * bucket_width_ns(segments);
}

void mc_segments_lease_move(struct mc_segments *segments, struct mc_extent *extent,
                            uint64_t old_end_ns, uint64_t new_end_ns)
{
    struct mc_lease_ring *ring;
    uint64_t const bytes = mc_extent_bytes(extent->payload_len);

    if (extent->klass != MC_CLASS_PLAIN && extent->klass != MC_CLASS_SOFT) {
        return;
    }
    ring = &extent->segment->leased[extent->klass];
    if (old_end_ns != 0) {
        mc_lease_ring_drop(ring, mc_lease_bucket(segments, old_end_ns), bytes);
    }
    if (new_end_ns != 0) { /* also when it has ended: what is in the books can be taken out */
        mc_lease_ring_add(ring, mc_lease_bucket(segments, new_end_ns), bytes);
    }
}

/* ---- what placement and eviction ask ------------------------------------------------------- */

uint64_t mc_segment_free(const struct mc_segment *segment)
{
    return mc_extalloc_capacity(segment->alloc) - mc_extalloc_used(segment->alloc);
}

uint64_t mc_segment_evictable(const struct mc_segments *segments, const struct mc_segment *segment,
                              bool soft_too)
{
    uint64_t sum =
        segment->bytes[MC_CLASS_PLAIN] - mc_segment_leased(segments, segment, MC_CLASS_PLAIN);

    if (soft_too) {
        sum += segment->bytes[MC_CLASS_SOFT] - mc_segment_leased(segments, segment, MC_CLASS_SOFT);
    }
    return sum;
}

struct mc_place_view mc_segment_view(const struct mc_segments *segments,
                                     const struct mc_segment *segment)
{
    struct mc_place_view view = {
        .capacity = mc_extalloc_capacity(segment->alloc),
        .free = mc_segment_free(segment),
        .largest = mc_extalloc_largest(segment->alloc),
        .recent = segment->recent,
        .recent_total = segments->recent_total,
    };

    MC_ASSERT(segment->place_index != MC_NOT_PLACEABLE);
    view.others_capacity = segments->placeable_len - view.capacity;
    view.others_free = segments->placeable_len - segments->placeable_used - view.free;
    return view;
}

void mc_segments_note_pressure(struct mc_segments *segments, struct mc_segment *segment)
{
    double const high = segments->env->options.high_watermark;
    double const capacity = (double)mc_extalloc_capacity(segment->alloc);
    double const used = (double)mc_extalloc_used(segment->alloc);

    if (segment->place_index == MC_NOT_PLACEABLE || mc_list_linked(&segment->over_node)) {
        return;
    }
    if (used > high * capacity || segment->demand_bytes != 0) {
        mc_list_add_tail(&segments->over, &segment->over_node);
    }
}

/* ---- taking and giving --------------------------------------------------------------------- */

static void count_used(struct mc_segments *segments, struct mc_segment *segment, int64_t bytes)
{
    if (segment->state == MC_SEGMENT_GONE) {
        return; /* its bytes left the gauge when it went */
    }
    MC_GAUGE(segments->env, used_bytes, bytes);
    if (segment->place_index != MC_NOT_PLACEABLE) {
        segments->placeable_used += (uint64_t)bytes;
    }
}

static void give(struct mc_segments *segments, struct mc_segment *segment, mc_extent_id id,
                 uint64_t bytes)
{
    MC_ASSERT(mc_extalloc_len(segment->alloc, id) == bytes);
    if (segments->env->fault == MC_CORE_FAULT_EXTENT_HANDED_OUT_TWICE) {
        segment->freed_offset = mc_extalloc_offset(segment->alloc, id);
        segment->freed_len = bytes;
    }
    mc_extalloc_give(segment->alloc, id);
    segment->extents--;
    count_used(segments, segment, -(int64_t)bytes);
}

mooncake_err mc_segments_take(struct mc_segments *segments, struct mc_segment *segment,
                              uint64_t payload_len, struct mc_slot *out)
{
    uint64_t const bytes = mc_extent_bytes(payload_len);
    mc_extent_id id;
    uint64_t offset;

    MC_TRY(mc_extalloc_take(segment->alloc, bytes, &id, &offset));
    if (segments->env->fault == MC_CORE_FAULT_EXTENT_HANDED_OUT_TWICE &&
        segment->freed_len >= bytes) {
        offset = segment->freed_offset; /* whoever else has it by now */
    }
    segment->extents++;
    count_used(segments, segment, (int64_t)bytes);
    segment->bytes[MC_CLASS_WRITING] += bytes;
    mc_segments_note_pressure(segments, segment);
    *out = (struct mc_slot){
        .segment = segment,
        .offset = offset,
        .payload_len = payload_len,
        .id = id,
    };
    return MOONCAKE_OK;
}

void mc_segments_give(struct mc_segments *segments, const struct mc_slot *slot)
{
    uint64_t const bytes = mc_extent_bytes(slot->payload_len);

    slot->segment->bytes[MC_CLASS_WRITING] -= bytes;
    give(segments, slot->segment, slot->id, bytes);
}

void mc_segments_count_placement(struct mc_segments *segments, struct mc_segment *segment)
{
    segment->recent++;
    segments->recent_total++;
    if (segments->recent_total < MC_PLACE_RECENT_MAX) {
        return;
    }
    segments->recent_total = 0;
    for (uint32_t i = 0; i < segments->placeable_count; i++) {
        segments->placeable[i]->recent /= 2;
        segments->recent_total += segments->placeable[i]->recent;
    }
}

/* ---- extents of objects -------------------------------------------------------------------- */

void mc_segments_link(struct mc_extent *extent, const struct mc_slot *slot, unsigned index)
{
    *extent = (struct mc_extent){
        .segment = slot->segment,
        .offset = slot->offset,
        .payload_len = slot->payload_len,
        .id = slot->id,
        .index = (uint8_t)index,
        .replica_slice = slot->replica_slice,
        .queue = MC_QUEUE_BUSY,
        .klass = MC_CLASS_WRITING,
    };
    mc_list_add_tail(&slot->segment->queues[MC_QUEUE_BUSY], &extent->node);
}

void mc_segments_drop(struct mc_segments *segments, struct mc_extent *extent)
{
    struct mc_segment *const segment = extent->segment;
    uint64_t const bytes = mc_extent_bytes(extent->payload_len);

    MC_ASSERT(segment != NULL);
    mc_segments_lease_move(segments, extent, mc_extent_object(extent)->lease_end_ns, 0);
    mc_list_drop(&extent->node);
    MC_ASSERT(segment->bytes[extent->klass] >= bytes);
    segment->bytes[extent->klass] -= bytes;
    give(segments, segment, extent->id, bytes);
    extent->segment = NULL;
}

void mc_segments_move(struct mc_extent *to, struct mc_extent *from, unsigned index)
{
    struct mc_list *const before = from->node.prev;

    /* Its lease stays in the books: the new owner has one that ends at the same time. */
    MC_ASSERT(from->klass != MC_CLASS_PARKED);
    mc_list_drop(&from->node);
    *to = *from;
    to->index = (uint8_t)index;
    mc_list_add_head(before, &to->node);
    from->segment = NULL;
}

void mc_segments_reclass(struct mc_segments *segments, struct mc_extent *extent,
                         enum mc_class klass, enum mc_queue queue, bool at_head)
{
    uint64_t const end_ns = mc_extent_object(extent)->lease_end_ns;
    uint64_t const bytes = mc_extent_bytes(extent->payload_len);

    mc_segments_lease_move(segments, extent, end_ns, 0);
    extent->segment->bytes[extent->klass] -= bytes;
    extent->klass = (uint8_t)klass;
    extent->segment->bytes[klass] += bytes;
    mc_segments_lease_move(segments, extent, 0, end_ns);
    mc_segments_requeue(extent, queue, at_head);
}

/* The held and the soft queue are in the order of what their extents wait for. New ones belong
 * near the tail, as lease and pin times are much alike; a few steps back are enough to be nearly
 * in order, and the bound keeps a mixture of pin times from costing a walk. */
#define SORT_STEPS_MAX 16u

static uint64_t waits_until_ns(struct mc_list *node, enum mc_queue queue)
{
    struct mc_object *object = mc_extent_object(MC_CONTAINER_OF(node, struct mc_extent, node));

    return queue == MC_QUEUE_HELD ? object->lease_end_ns : object->pin_ns;
}

static struct mc_list *place_from_tail(struct mc_list *head, struct mc_list *node,
                                       enum mc_queue queue)
{
    uint64_t const until = waits_until_ns(node, queue);
    struct mc_list *after = head->prev;

    for (unsigned i = 0; i < SORT_STEPS_MAX && after != head; i++) {
        if (waits_until_ns(after, queue) <= until) {
            return after;
        }
        after = after->prev;
    }
    return after;
}

void mc_segments_requeue(struct mc_extent *extent, enum mc_queue queue, bool at_head)
{
    struct mc_list *const head = &extent->segment->queues[queue];

    mc_list_drop(&extent->node);
    extent->queue = (uint8_t)queue;
    if (at_head) {
        mc_list_add_head(head, &extent->node);
    } else if (queue == MC_QUEUE_HELD || queue == MC_QUEUE_SOFT) {
        mc_list_add_head(place_from_tail(head, &extent->node, queue), &extent->node);
    } else {
        mc_list_add_tail(head, &extent->node);
    }
}
