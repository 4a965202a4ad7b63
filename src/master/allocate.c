/*
 * For each replica, the first of these that works:
 *   1. one piece: a preferred segment, then the best of the near host if one is named, then the
 *      best of a few drawn at random, then the best of all
 *   2. up to 16 pieces over fragments and segments, longest first, which fails only if the free
 *      bytes are too few or lie in more than 16 fragments
 *   3. the same after evicting, if the bytes that are free or evictable are enough
 * first on hosts without a replica of this object, then on any. Segments that hold another replica
 * of the object, and those that the put excludes, do not count in any step.
 */
#include "master/allocate.h"

#include <string.h>

/* Victims evicted in one go before the pieces are tried again. */
#define EVICT_CHUNK_MIN ((uint64_t)64 << 10)

/* One replica being placed. */
struct replica {
    struct mc_allocator *allocator;
    const struct mc_allocate_ask *ask;
    struct mc_slots *slots;
    uint64_t first_seq;  /* segments with place_seq from here to seq - 1 hold another replica, or
                          * are excluded */
    unsigned number;     /* of the replica */
    unsigned first_slot; /* slots before it are those of other replicas */
    bool any_host;       /* false: only hosts without a replica */
};

static bool host_used(const struct replica *replica, const struct mc_segment *segment)
{
    for (unsigned i = 0; i < replica->first_slot; i++) {
        if (replica->slots->slots[i].segment->host_hash == segment->host_hash) {
            return true;
        }
    }
    return false;
}

static bool allowed(const struct replica *replica, const struct mc_segment *segment)
{
    if (segment->place_index == MC_NOT_PLACEABLE) {
        return false;
    }
    if (segment->place_seq >= replica->first_seq && segment->place_seq < replica->allocator->seq) {
        return false;
    }
    return replica->any_host || replica->number == 0 || !host_used(replica, segment);
}

static bool take(struct replica *replica, struct mc_segment *segment, uint64_t payload_len)
{
    struct mc_allocator *const allocator = replica->allocator;
    struct mc_slots *const slots = replica->slots;
    unsigned const slice = slots->count - replica->first_slot;
    struct mc_slot *slot = &slots->slots[slots->count];

    MC_ASSERT(slice < MC_EXTENTS_MAX);
    if (mc_segments_take(allocator->segments, segment, payload_len, slot) != MOONCAKE_OK) {
        return false;
    }
    slot->replica_slice = (uint8_t)(replica->number << 4 | slice);
    segment->place_seq = allocator->seq;
    slots->count++;
    return true;
}

static void give_from(struct mc_allocator *allocator, struct mc_slots *slots, unsigned first)
{
    while (slots->count > first) {
        slots->count--;
        mc_segments_give(allocator->segments, &slots->slots[slots->count]);
    }
}

/* ---- one piece ----------------------------------------------------------------------------- */

/* The better of @p best (may be NULL) and @p segment for one piece. */
static struct mc_segment *better(const struct replica *replica, struct mc_segment *best,
                                 struct mc_segment *segment)
{
    const struct mc_segments *segments = replica->allocator->segments;
    uint64_t const bytes = mc_extent_bytes(replica->ask->value_len);
    struct mc_place_view here;
    struct mc_place_view there;

    if (!allowed(replica, segment)) {
        return best;
    }
    here = mc_segment_view(segments, segment);
    if (!mc_place_fits(&here, bytes)) {
        return best;
    }
    if (best == NULL) {
        return segment;
    }
    here.host_used = replica->any_host && host_used(replica, segment);
    there = mc_segment_view(segments, best);
    there.host_used = replica->any_host && host_used(replica, best);
    return mc_place_better(&here, &there, bytes) ? segment : best;
}

static struct mc_segment *choose_preferred(const struct replica *replica)
{
    for (size_t i = 0; i < replica->ask->preferred_count; i++) {
        const char *const name = replica->ask->preferred[i];
        struct mc_segment *const segment =
            mc_segments_find_name(replica->allocator->segments, name, strlen(name));

        if (segment != NULL && better(replica, NULL, segment) != NULL) {
            return segment;
        }
    }
    return NULL;
}

/* Also a newcomer that has had its share: the writer's own host is what was asked for. */
static struct mc_segment *choose_near(const struct replica *replica)
{
    const struct mc_segments *segments = replica->allocator->segments;
    struct mc_segment *best = NULL;

    for (uint32_t i = 0; replica->ask->near_host != 0 && i < segments->placeable_count; i++) {
        if (segments->placeable[i]->host_hash == replica->ask->near_host) {
            best = better(replica, best, segments->placeable[i]);
        }
    }
    return best;
}

static struct mc_segment *choose_drawn(const struct replica *replica)
{
    struct mc_allocator *const allocator = replica->allocator;
    const struct mc_segments *segments = allocator->segments;
    uint32_t const count = segments->placeable_count;
    uint32_t const draws = count < MC_PLACE_CANDIDATES ? count : MC_PLACE_CANDIDATES;
    struct mc_segment *best = NULL;
    uint32_t at = count == 0 ? 0 : mc_place_random_below(&allocator->random, count);

    for (uint32_t i = 0; i < draws; i++) {
        best = better(replica, best, segments->placeable[at]);
        /* A few: each once. Many: anywhere, a repetition does no harm. */
        at = count <= MC_PLACE_CANDIDATES ? (at + 1) % count
                                          : mc_place_random_below(&allocator->random, count);
    }
    return best;
}

/* A capped newcomer is not taken while any other has room, so all are asked then too. */
static bool is_capped(const struct replica *replica, const struct mc_segment *segment)
{
    struct mc_place_view const view = mc_segment_view(replica->allocator->segments, segment);

    return mc_place_capped(&view);
}

static bool place_one_piece(struct replica *replica)
{
    const struct mc_segments *segments = replica->allocator->segments;
    struct mc_segment *best = choose_preferred(replica);

    if (best == NULL) {
        best = choose_near(replica);
    }
    if (best == NULL) {
        best = choose_drawn(replica);
        if (best == NULL || is_capped(replica, best)) {
            for (uint32_t i = 0; i < segments->placeable_count; i++) {
                best = better(replica, best, segments->placeable[i]);
            }
        }
    }
    return best != NULL && take(replica, best, replica->ask->value_len);
}

/* ---- many pieces --------------------------------------------------------------------------- */

/* Bytes that this segment can take before eviction begins in it. */
static uint64_t below_watermark(const struct replica *replica, const struct mc_segment *segment)
{
    double const high = replica->allocator->env->options.high_watermark *
                        (double)mc_extalloc_capacity(segment->alloc);
    uint64_t const used = mc_extalloc_used(segment->alloc);

    return high > (double)used ? (uint64_t)high - used : 0;
}

/* Where the longest piece can be had now, and how long it can be. */
static struct mc_segment *longest(const struct replica *replica, bool keep_below_watermark,
                                  uint64_t *out_bytes)
{
    const struct mc_segments *segments = replica->allocator->segments;
    struct mc_segment *best = NULL;

    *out_bytes = 0;
    for (uint32_t i = 0; i < segments->placeable_count; i++) {
        struct mc_segment *const segment = segments->placeable[i];
        uint64_t largest = mc_extalloc_largest(segment->alloc);

        if (keep_below_watermark && largest > below_watermark(replica, segment)) {
            largest = below_watermark(replica, segment);
        }
        if (largest > *out_bytes && allowed(replica, segment)) {
            *out_bytes = largest / MC_EXTENT_ALIGN * MC_EXTENT_ALIGN;
            best = segment;
        }
    }
    return best;
}

static bool place_pieces_within(struct replica *replica, bool keep_below_watermark)
{
    const struct mc_segments *segments = replica->allocator->segments;
    uint64_t left = replica->ask->value_len;

    if (segments->placeable_len - segments->placeable_used < mc_extent_bytes(left)) {
        return false;
    }
    for (unsigned i = 0; i < MC_EXTENTS_MAX; i++) {
        uint64_t bytes;
        struct mc_segment *const segment = longest(replica, keep_below_watermark, &bytes);
        uint64_t piece;

        if (segment == NULL || bytes <= MC_EXTENT_HEADER_LEN) {
            break;
        }
        piece = bytes - MC_EXTENT_HEADER_LEN < left ? bytes - MC_EXTENT_HEADER_LEN : left;
        if (!take(replica, segment, piece)) {
            break;
        }
        left -= piece;
        if (left == 0) {
            return true;
        }
    }
    give_from(replica->allocator, replica->slots, replica->first_slot);
    return false;
}

/* Filling one segment to the brim would have eviction come for this very object. */
static bool place_pieces(struct replica *replica)
{
    return place_pieces_within(replica, true) || place_pieces_within(replica, false);
}

/* ---- with eviction ------------------------------------------------------------------------- */

struct supply {
    struct mc_segment *target; /* could hold the replica alone; NULL: none, take from all */
    uint64_t bytes;            /* free or evictable, together */
};

/* What eviction could make of the allowed segments. The target is the one whose next victim has
 * been unread for longest, so that eviction is near-LRU over the pool too. */
static struct supply supply_of(struct replica *replica, bool soft_too)
{
    struct mc_allocator *const allocator = replica->allocator;
    const struct mc_segments *segments = allocator->segments;
    uint64_t const need = mc_extent_bytes(replica->ask->value_len);
    struct supply supply = {0};
    uint64_t oldest_ns = 0;

    for (uint32_t i = 0; i < segments->placeable_count; i++) {
        struct mc_segment *const segment = segments->placeable[i];
        uint64_t bytes;
        uint64_t touched_ns;

        if (!allowed(replica, segment)) {
            continue;
        }
        bytes = mc_segment_free(segment) + mc_segment_evictable(segments, segment, soft_too);
        supply.bytes += bytes;
        if (bytes < need) {
            continue;
        }
        touched_ns =
            mc_evict_oldest_ns(allocator->objects, segment, soft_too, replica->ask->evict_budget);
        if (supply.target == NULL || touched_ns < oldest_ns) {
            supply.target = segment;
            oldest_ns = touched_ns;
        }
    }
    return supply;
}

static struct mc_segment *oldest_allowed(struct replica *replica, bool soft_too)
{
    struct mc_allocator *const allocator = replica->allocator;
    const struct mc_segments *segments = allocator->segments;
    struct mc_segment *best = NULL;
    uint64_t oldest_ns = UINT64_MAX;

    for (uint32_t i = 0; i < segments->placeable_count; i++) {
        struct mc_segment *const segment = segments->placeable[i];
        uint64_t touched_ns;

        if (!allowed(replica, segment)) {
            continue;
        }
        touched_ns =
            mc_evict_oldest_ns(allocator->objects, segment, soft_too, replica->ask->evict_budget);
        if (touched_ns < oldest_ns) {
            best = segment;
            oldest_ns = touched_ns;
        }
    }
    return best;
}

static bool try_after_eviction(struct replica *replica, struct mc_segment *target)
{
    uint64_t const need = mc_extent_bytes(replica->ask->value_len);

    if (target != NULL && mc_extalloc_largest(target->alloc) >= need) {
        return take(replica, target, replica->ask->value_len);
    }
    return place_pieces(replica);
}

/* Put what is still missing in demand, so that the background frees it. */
static void defer(struct replica *replica, const struct supply *supply, bool soft_too)
{
    struct mc_allocator *const allocator = replica->allocator;
    const struct mc_segments *segments = allocator->segments;
    uint64_t const need = mc_extent_bytes(replica->ask->value_len);

    if (supply->target != NULL) {
        mc_evict_demand(allocator->objects, supply->target, need, soft_too);
        return;
    }
    for (uint32_t i = 0; i < segments->placeable_count; i++) {
        if (allowed(replica, segments->placeable[i])) {
            mc_evict_demand(allocator->objects, segments->placeable[i], need, soft_too);
        }
    }
}

static bool evict_and_place(struct replica *replica, bool soft_too, bool *out_later)
{
    struct mc_allocator *const allocator = replica->allocator;
    struct mc_budget *const budget = replica->ask->evict_budget;
    uint64_t const need = mc_extent_bytes(replica->ask->value_len);
    uint64_t const chunk = need / 8 > EVICT_CHUNK_MIN ? need / 8 : EVICT_CHUNK_MIN;
    struct supply const supply = supply_of(replica, soft_too);

    if (supply.bytes < need) {
        return false;
    }
    while (!mc_budget_spent(budget)) {
        struct mc_segment *const from =
            supply.target != NULL ? supply.target : oldest_allowed(replica, soft_too);
        uint64_t free;
        uint64_t freed;

        if (from == NULL) {
            break; /* none left, or no budget to look */
        }
        /* As little as can be enough; more only if what is free lies in too many fragments. */
        free = mc_segment_free(from);
        freed = mc_evict_from(allocator->objects, from, soft_too,
                              supply.target != NULL && free < need ? need - free : chunk, budget);
        MC_COUNT(allocator->objects->env, evicted_for_puts_bytes, freed);
        if (try_after_eviction(replica, supply.target)) {
            return true;
        }
        if (freed == 0) {
            break;
        }
    }
    if (!mc_budget_spent(budget)) {
        return false;
    }
    defer(replica, &supply, soft_too);
    *out_later = true;
    return false;
}

/* ---- all replicas -------------------------------------------------------------------------- */

/* Could eviction make room for this replica and all further ones that must be there? Decided
 * before the first victim, so that a put that cannot fit costs nobody anything. */
static bool feasible(const struct replica *replica, bool soft_too)
{
    struct mc_allocator *const allocator = replica->allocator;
    const struct mc_segments *segments = allocator->segments;
    const struct mc_allocate_ask *ask = replica->ask;
    uint64_t const need = mc_extent_bytes(ask->value_len);
    unsigned const missing = ask->all_replicas ? ask->replicas - replica->number : 1;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < segments->placeable_count; i++) {
        struct mc_segment *const segment = segments->placeable[i];
        uint64_t bytes;

        if (segment->place_seq >= replica->first_seq && segment->place_seq < allocator->seq) {
            continue;
        }
        mc_evict_refresh(allocator->objects, segment, ask->evict_budget);
        bytes = mc_segment_free(segment) + mc_segment_evictable(segments, segment, soft_too);
        /* A segment serves one replica: more than one's worth of it is of no use to the others. */
        sum += missing > 1 && bytes > need ? need : bytes;
    }
    return sum / missing >= need;
}

static bool place_replica(struct replica *replica, bool *out_later)
{
    /* A copy fewer is better than a pinned object fewer. */
    bool const may_soft = replica->allocator->env->options.allow_evict_soft_pinned &&
                          (replica->number == 0 || replica->ask->all_replicas);

    if (place_one_piece(replica) || place_pieces(replica)) {
        return true;
    }
    if (!feasible(replica, may_soft)) {
        return false;
    }
    if (evict_and_place(replica, false, out_later)) {
        return true;
    }
    return may_soft && !*out_later && evict_and_place(replica, true, out_later);
}

void mc_allocate_undo(struct mc_allocator *allocator, struct mc_slots *slots)
{
    give_from(allocator, slots, 0);
}

/* As if a replica of the object were there already. */
static void exclude(struct mc_allocator *allocator, const struct mc_allocate_ask *ask)
{
    allocator->seq++;
    for (size_t i = 0; i < ask->excluded_count; i++) {
        struct mc_segment *segment = mc_segments_find(allocator->segments, ask->excluded[i]);

        if (segment != NULL) {
            segment->place_seq = allocator->seq;
        }
    }
}

mooncake_err mc_allocate(struct mc_allocator *allocator, const struct mc_allocate_ask *ask,
                         struct mc_slots *out_slots, bool *out_later)
{
    unsigned const replicas_min = ask->all_replicas ? ask->replicas : 1;
    bool later = false;
    struct replica replica = {
        .allocator = allocator,
        .ask = ask,
        .slots = out_slots,
        .first_seq = allocator->seq,
    };

    MC_ASSERT(ask->replicas >= 1 && ask->replicas <= MC_REPLICAS_MAX);
    out_slots->count = 0;
    out_slots->replicas = 0;
    if (ask->value_len > MC_VALUE_LEN_MAX) {
        return MOONCAKE_ENOSPACE;
    }
    replica.first_seq = allocator->seq + 1;
    exclude(allocator, ask);
    while (out_slots->replicas < ask->replicas) {
        bool placed;

        allocator->seq++;
        replica.number = out_slots->replicas;
        replica.first_slot = out_slots->count;
        replica.any_host = false;
        placed = place_replica(&replica, &later);
        if (!placed && !later && replica.number > 0) {
            replica.any_host = true;
            placed = place_replica(&replica, &later);
        }
        if (!placed) {
            break;
        }
        out_slots->replicas++;
    }
    if (out_slots->replicas >= replicas_min) {
        for (unsigned i = 0; i < out_slots->count; i++) {
            mc_segments_count_placement(allocator->segments, out_slots->slots[i].segment);
        }
        return MOONCAKE_OK;
    }
    mc_allocate_undo(allocator, out_slots);
    *out_later = *out_later || later;
    return MOONCAKE_ENOSPACE;
}
