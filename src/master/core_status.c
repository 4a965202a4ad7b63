/* ListSegments, ListClients, PoolStatus, and why space is not free. */
#include "master/core_parts.h"
#include "master/reply.h"

static uint64_t gauge(const struct mc_gauge *gauge)
{
    return (uint64_t)mc_gauge_get(gauge);
}

static mooncake_err fill_segment(const struct mc_segment *segment, struct mc_arena *arena,
                                 struct mc_segment_status *out)
{
    bool const gone = segment->state == MC_SEGMENT_GONE;

    out->name = mc_reply_text(arena, segment->name);
    out->host = mc_reply_text(arena, segment->host);
    out->addresses = mc_reply_text(arena, segment->addresses);
    if (out->name == NULL || out->host == NULL || out->addresses == NULL) {
        return MOONCAKE_ENOMEM;
    }
    out->mount_id = segment->mount_id;
    out->client_id = segment->client_id;
    out->len = mc_extalloc_capacity(segment->alloc);
    out->used = mc_extalloc_used(segment->alloc);
    out->largest_free_extent = gone ? 0 : mc_extalloc_largest(segment->alloc);
    out->extents = segment->extents;
    out->state = segment->state;
    return MOONCAKE_OK;
}

mooncake_err mc_core_list_segments(struct mc_core *core, struct mc_arena *arena,
                                   struct mc_list_segments_reply *out_reply)
{
    const struct mc_list *const lists[] = {&core->segments.mounted, &core->segments.gone};
    size_t const max = gauge(&core->env.metrics.segments) + gauge(&core->env.metrics.gone_segments);
    struct mc_list_segments_reply reply = {0};

    mc_core_enter(core);
    reply.items = mc_arena_array(arena, max, sizeof(*reply.items));
    if (reply.items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(lists); i++) {
        mc_list_for_each (node, lists[i]) {
            MC_ASSERT(reply.count < max);
            MC_TRY(fill_segment(MC_CONTAINER_OF(node, struct mc_segment, node), arena,
                                &reply.items[reply.count]));
            reply.count++;
        }
    }
    *out_reply = reply;
    return MOONCAKE_OK;
}

mooncake_err mc_core_list_clients(struct mc_core *core, struct mc_arena *arena,
                                  struct mc_list_clients_reply *out_reply)
{
    size_t const max = gauge(&core->env.metrics.members);
    struct mc_list_clients_reply reply = {0};

    mc_core_enter(core);
    reply.items = mc_arena_array(arena, max, sizeof(*reply.items));
    if (reply.items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_list_for_each (node, &core->members.by_ping) {
        const struct mc_member *member = MC_CONTAINER_OF(node, struct mc_member, node);
        struct mc_client_status *const status = &reply.items[reply.count];

        MC_ASSERT(reply.count < max);
        status->host = mc_reply_text(arena, member->host);
        status->program = mc_reply_text(arena, member->program);
        if (status->host == NULL || status->program == NULL) {
            return MOONCAKE_ENOMEM;
        }
        status->client_id = member->client_id;
        status->ping_age_ms = (core->env.now_ns - member->pinged_ns) / MC_NS_PER_MS;
        status->role = member->role;
        status->segments = member->segments_count;
        reply.count++;
    }
    *out_reply = reply;
    return MOONCAKE_OK;
}

void mc_core_pool_status(struct mc_core *core, struct mc_pool_status_reply *out_reply)
{
    const struct mc_core_metrics *metrics = &core->env.metrics;

    mc_core_enter(core);
    *out_reply = (struct mc_pool_status_reply){
        .capacity = gauge(&metrics->capacity_bytes),
        .used = gauge(&metrics->used_bytes),
        .keys = gauge(&metrics->keys),
        .unfinished_puts = gauge(&metrics->unfinished_puts),
        .segments = gauge(&metrics->segments),
        .stores = gauge(&metrics->stores),
        .clients = gauge(&metrics->members),
        .hits = mc_counter_get(&metrics->hits),
        .misses = mc_counter_get(&metrics->misses),
        .evicted_keys = mc_counter_get(&metrics->evicted_keys),
        .evicted_bytes = mc_counter_get(&metrics->evicted_bytes),
        .put_rejected = mc_counter_get(&metrics->put_rejected),
        .uptime_ms = (core->seen_ns - core->started_ns) / MC_NS_PER_MS,
        .master_epoch = core->env.options.epoch,
        .puts = mc_counter_get(&metrics->put_ended),
        .gets = mc_counter_get(&metrics->query_hits) + mc_counter_get(&metrics->query_misses),
        .program = "",
    };
}

void mc_core_space(struct mc_core *core, struct mc_core_space *out_space)
{
    struct mc_core_space space = {0};

    mc_core_enter(core);
    mc_list_for_each (node, &core->segments.mounted) {
        const struct mc_segment *segment = MC_CONTAINER_OF(node, struct mc_segment, node);
        bool const placeable = segment->place_index != MC_NOT_PLACEABLE;
        uint64_t const largest = placeable ? mc_extalloc_largest(segment->alloc) : 0;
        uint64_t const plain_leased = mc_segment_leased(&core->segments, segment, MC_CLASS_PLAIN);
        uint64_t const soft_leased = mc_segment_leased(&core->segments, segment, MC_CLASS_SOFT);

        space.capacity += mc_extalloc_capacity(segment->alloc);
        space.free += placeable ? mc_segment_free(segment) : 0;
        space.unplaceable += placeable ? 0 : mc_segment_free(segment);
        space.leased += plain_leased + soft_leased;
        space.evictable += segment->bytes[MC_CLASS_PLAIN] - plain_leased;
        space.soft_pinned += segment->bytes[MC_CLASS_SOFT] - soft_leased;
        space.hard_pinned += segment->bytes[MC_CLASS_HARD];
        space.writing += segment->bytes[MC_CLASS_WRITING];
        space.parked += segment->bytes[MC_CLASS_PARKED];
        space.reading += segment->bytes[MC_CLASS_READING];
        space.largest_free = largest > space.largest_free ? largest : space.largest_free;
    }
    *out_space = space;
}

uint64_t mc_core_oldest_put_ms(struct mc_core *core)
{
    uint64_t oldest_ns;

    mc_core_enter(core);
    oldest_ns = mc_lifetime_oldest_ns(&core->lifetime);
    return oldest_ns >= core->env.now_ns ? 0 : (core->env.now_ns - oldest_ns) / MC_NS_PER_MS;
}
