/* Choosing and dropping victims, and sweeping what a lost segment held. */
#include "master/evict.h"

#include "master/fates.h"

/* Nothing was evictable here: look again after so long. */
#define RETRY_NS (50u * MC_NS_PER_MS)
/* Victims of one segment before the next gets its turn. */
#define TURN_STEPS 64u

static struct mc_extent *first_in(struct mc_segment *segment, enum mc_queue queue)
{
    struct mc_list *const head = &segment->queues[queue];

    return mc_list_empty(head) ? NULL : mc_list_first(head, struct mc_extent, node);
}

/* Bring back what waited at the heads of the held and soft queues and need not wait any more. */
static bool refresh(struct mc_objects *objects, struct mc_segment *segment,
                    struct mc_budget *budget)
{
    uint64_t const now_ns = objects->env->now_ns;
    struct mc_extent *extent;

    for (;;) {
        struct mc_object *object;

        extent = first_in(segment, MC_QUEUE_HELD);
        if (extent == NULL || mc_object_leased(mc_extent_object(extent), now_ns)) {
            break;
        }
        if (!mc_budget_step(budget)) {
            return false;
        }
        object = mc_extent_object(extent);
        if (object->pin == MC_PIN_SOFT && object->pin_ns > now_ns) {
            mc_segments_requeue(extent, MC_QUEUE_SOFT, true);
        } else if (object->pin == MC_PIN_SOFT) {
            mc_objects_unpin(objects, object);
        } else {
            mc_segments_requeue(extent, MC_QUEUE_LRU, true);
        }
    }
    for (;;) {
        extent = first_in(segment, MC_QUEUE_SOFT);
        if (extent == NULL || mc_extent_object(extent)->pin_ns > now_ns) {
            return true;
        }
        if (!mc_budget_step(budget)) {
            return false;
        }
        mc_objects_unpin(objects, mc_extent_object(extent));
    }
}

void mc_evict_refresh(struct mc_objects *objects, struct mc_segment *segment,
                      struct mc_budget *budget)
{
    (void)refresh(objects, segment, budget);
}

/* The extent whose replica goes first, or NULL. Leased ones in front of it are put aside. */
static struct mc_extent *victim(struct mc_objects *objects, struct mc_segment *segment,
                                bool soft_too, struct mc_budget *budget)
{
    enum mc_queue queue = MC_QUEUE_LRU;

    if (!refresh(objects, segment, budget)) {
        return NULL;
    }
    for (;;) {
        struct mc_extent *const extent = first_in(segment, queue);

        if (extent == NULL && queue == MC_QUEUE_LRU && soft_too) {
            queue = MC_QUEUE_SOFT;
            continue;
        }
        if (extent == NULL || !mc_object_leased(mc_extent_object(extent), objects->env->now_ns)) {
            return extent;
        }
        if (!mc_budget_step(budget)) {
            return NULL;
        }
        mc_segments_requeue(extent, MC_QUEUE_HELD, false);
    }
}

uint64_t mc_evict_oldest_ns(struct mc_objects *objects, struct mc_segment *segment, bool soft_too,
                            struct mc_budget *budget)
{
    struct mc_extent *const extent = victim(objects, segment, soft_too, budget);

    return extent == NULL ? UINT64_MAX : mc_extent_object(extent)->touched_ns;
}

static uint64_t object_bytes(const struct mc_object *object)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < object->extents_count; i++) {
        if (object->extents[i].segment != NULL) {
            bytes += mc_extent_bytes(object->extents[i].payload_len);
        }
    }
    return bytes;
}

static bool other_complete(const struct mc_object *object, unsigned replica)
{
    for (unsigned other = 0; other < object->replicas; other++) {
        if (other != replica && mc_object_replica_complete(object, other)) {
            return true;
        }
    }
    return false;
}

static uint64_t evict_replica(struct mc_objects *objects, struct mc_extent *extent)
{
    struct mc_object *const object = mc_extent_object(extent);
    unsigned const replica = mc_extent_replica(extent);
    uint64_t bytes;

    MC_ASSERT(object->life == MC_LIFE_READABLE);
    MC_ASSERT(object->pin != MC_PIN_HARD);
    MC_COUNT(objects->env, evicted_replicas, 1);
    if (other_complete(object, replica)) {
        bytes = mc_objects_drop_replica(objects, object, replica);
    } else {
        bytes = object_bytes(object);
        MC_COUNT(objects->env, evicted_keys, 1);
        mc_histogram_observe(&objects->env->metrics.key_age_at_eviction_seconds,
                             objects->env->now_ns - object->since_ns);
        MC_COUNT(objects->env, evicted_soft_pinned, object->pin == MC_PIN_SOFT ? 1 : 0);
        mc_fates_note(objects->env->fates, object, MC_FATE_EVICTED, objects->env->now_ns, NULL);
        mc_objects_drop(objects, object);
    }
    MC_COUNT(objects->env, evicted_bytes, bytes);
    return bytes;
}

uint64_t mc_evict_from(struct mc_objects *objects, struct mc_segment *segment, bool soft_too,
                       uint64_t bytes, struct mc_budget *budget)
{
    uint64_t const free_before = mc_segment_free(segment);
    uint64_t freed = 0;

    while (mc_segment_free(segment) - free_before < bytes && mc_budget_step(budget)) {
        struct mc_extent *const extent = victim(objects, segment, soft_too, budget);

        if (extent == NULL) {
            break;
        }
        freed += evict_replica(objects, extent);
    }
    MC_COUNT(objects->env, evictions_attempted, 1);
    MC_COUNT(objects->env, evictions_successful, freed > 0 ? 1 : 0);
    return freed;
}

void mc_evict_demand(struct mc_objects *objects, struct mc_segment *segment, uint64_t bytes,
                     bool soft_too)
{
    struct mc_core_env *const env = objects->env;

    if (segment->demand_bytes < bytes) {
        segment->demand_bytes = bytes;
    }
    segment->demand_soft = segment->demand_soft || soft_too;
    segment->demand_end_ns = mc_deadline_ns(env->now_ns, MC_DEMAND_MS);
    segment->evict_after_ns = 0;
    mc_segments_note_pressure(objects->segments, segment);
}

/* ---- background ---------------------------------------------------------------------------- */

/* Bytes that should be freed of this segment now. */
static uint64_t wanted(const struct mc_core_env *env, struct mc_segment *segment)
{
    const struct mc_core_options *options = &env->options;
    uint64_t const capacity = mc_extalloc_capacity(segment->alloc);
    uint64_t const used = mc_extalloc_used(segment->alloc);
    uint64_t const low =
        (uint64_t)((double)capacity * (options->high_watermark - options->eviction_ratio));
    uint64_t want = used > low ? used - low : 0;

    if (segment->demand_bytes != 0) {
        if (env->now_ns >= segment->demand_end_ns || capacity - used >= segment->demand_bytes) {
            segment->demand_bytes = 0;
            segment->demand_soft = false;
        } else if (segment->demand_bytes - (capacity - used) > want) {
            want = segment->demand_bytes - (capacity - used);
        }
    }
    return want;
}

static void evict_turn(struct mc_objects *objects, struct mc_segment *segment,
                       struct mc_budget *budget)
{
    struct mc_budget turn = *budget;
    uint64_t const want = wanted(objects->env, segment);
    uint64_t freed;

    if (want == 0) {
        mc_list_drop(&segment->over_node);
        segment->evict_after_ns = 0;
        return;
    }
    if (turn.steps_left > TURN_STEPS) {
        turn.steps_left = TURN_STEPS;
    }
    budget->steps_left -= turn.steps_left;
    freed = mc_evict_from(objects, segment, segment->demand_soft, want, &turn);
    MC_COUNT(objects->env, evicted_for_puts_bytes, segment->demand_bytes != 0 ? freed : 0);
    budget->steps_left += turn.steps_left;
    if (freed == 0 && turn.steps_left > 0) {
        segment->evict_after_ns = objects->env->now_ns + RETRY_NS;
    }
    mc_list_move_tail(&objects->segments->over, &segment->over_node);
}

bool mc_evict_step(struct mc_objects *objects, struct mc_budget *budget)
{
    struct mc_list *const over = &objects->segments->over;

    for (;;) {
        struct mc_segment *due = NULL;

        mc_list_for_each (node, over) {
            struct mc_segment *const segment = MC_CONTAINER_OF(node, struct mc_segment, over_node);

            if (segment->evict_after_ns <= objects->env->now_ns) {
                due = segment;
                break;
            }
        }
        if (due == NULL) {
            return true;
        }
        if (!mc_budget_step(budget)) {
            return false;
        }
        evict_turn(objects, due, budget);
        if (mc_now_ns(budget->clock) >= budget->end_ns) {
            budget->steps_left = 0;
        }
    }
}

/* ---- lost segments ------------------------------------------------------------------------- */

bool mc_evict_sweep_one(struct mc_objects *objects, struct mc_segment *segment)
{
    struct mc_extent *extent = NULL;
    struct mc_object *object;

    MC_ASSERT(segment->state == MC_SEGMENT_GONE);
    for (unsigned queue = 0; queue < MC_QUEUES && extent == NULL; queue++) {
        extent = first_in(segment, (enum mc_queue)queue);
    }
    if (extent == NULL) {
        return false;
    }
    object = mc_extent_object(extent);
    if (object->life != MC_LIFE_READABLE) {
        /* The other extents of the replica are its writer's until the end of the put. */
        mc_objects_lose_extent(objects, extent);
        return true;
    }
    MC_COUNT(objects->env, lost_replicas, 1);
    if (mc_object_any_complete(object)) {
        (void)mc_objects_drop_replica(objects, object, mc_extent_replica(extent));
    } else {
        MC_COUNT(objects->env, lost_keys, 1);
        mc_fates_note(objects->env->fates, object, MC_FATE_LOST, objects->env->now_ns,
                      segment->name);
        mc_objects_drop(objects, object);
    }
    return true;
}
