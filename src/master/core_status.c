/* ListSegments, ListClients, PoolStatus, and why space is not free. */
#include "master/core_parts.h"

#include <string.h>

#include "master/reply.h"

static uint64_t gauge(const struct mc_gauge *gauge)
{
    return (uint64_t)mc_gauge_get(gauge);
}

/* ---- segments ------------------------------------------------------------------------------ */

/* The first lease to end: eviction gets at those bytes when the bucket's time is over. */
static void fill_next_lease(const struct mc_core *core, const struct mc_segment *segment,
                            struct mc_segment_status *out)
{
    uint64_t const now_ns = core->env.now_ns;
    uint64_t end_ns = UINT64_MAX, bytes = 0;

    mc_segment_next_lease(&core->segments, segment, &end_ns, &bytes);
    if (bytes != 0) {
        out->next_lease_ms = (end_ns - now_ns + MC_NS_PER_MS - 1) / MC_NS_PER_MS;
        out->next_lease_bytes = bytes;
    }
}

static void fill_reason(const struct mc_core *core, const struct mc_segment *segment,
                        struct mc_segment_status *out)
{
    const struct mc_member *owner = mc_members_find(&core->members, segment->client_id);
    uint64_t const now_ns = core->env.now_ns;

    out->ping_age_ms = owner == NULL ? 0 : (now_ns - owner->pinged_ns) / MC_NS_PER_MS;
    switch (segment->state) {
    case MC_SEGMENT_OK:
        out->reason = MC_EXCLUDED_NOT;
        return;
    case MC_SEGMENT_DRAINING:
        if (segment->leave_ns == UINT64_MAX) {
            out->reason = MC_EXCLUDED_DRAINED;
            return;
        }
        out->reason = MC_EXCLUDED_LEAVING;
        out->reason_ms = mc_left_ms(now_ns, segment->leave_ns);
        return;
    case MC_SEGMENT_SUSPECT:
        out->reason = MC_EXCLUDED_REPORTED;
        out->reason_ms = (now_ns - segment->reported_ns) / MC_NS_PER_MS;
        return;
    case MC_SEGMENT_GONE:
        out->reason = MC_EXCLUDED_LOST;
        out->reason_ms = (now_ns - segment->gone_ns) / MC_NS_PER_MS;
        return;
    }
}

static mooncake_err fill_segment(const struct mc_core *core, const struct mc_segment *segment,
                                 struct mc_arena *arena, struct mc_segment_status *out)
{
    bool const gone = segment->state == MC_SEGMENT_GONE;
    uint64_t const plain_leased = mc_segment_leased(&core->segments, segment, MC_CLASS_PLAIN);
    uint64_t const soft_leased = mc_segment_leased(&core->segments, segment, MC_CLASS_SOFT);

    *out = (struct mc_segment_status){
        .name = mc_reply_text(arena, segment->name),
        .host = mc_reply_text(arena, segment->host),
        .addresses = mc_reply_text(arena, segment->addresses),
        .mount_id = segment->mount_id,
        .client_id = segment->client_id,
        .len = mc_extalloc_capacity(segment->alloc),
        .used = mc_extalloc_used(segment->alloc),
        .largest_free_extent = gone ? 0 : mc_extalloc_largest(segment->alloc),
        .extents = segment->extents,
        .evictable = segment->bytes[MC_CLASS_PLAIN] - plain_leased,
        .leased = plain_leased + soft_leased,
        .soft_pinned = segment->bytes[MC_CLASS_SOFT] - soft_leased,
        .hard_pinned = segment->bytes[MC_CLASS_HARD],
        .writing = segment->bytes[MC_CLASS_WRITING],
        .parked = segment->bytes[MC_CLASS_PARKED] + segment->bytes[MC_CLASS_READING],
        .state = segment->state,
    };
    if (out->name == NULL || out->host == NULL || out->addresses == NULL) {
        return MOONCAKE_ENOMEM;
    }
    fill_next_lease(core, segment, out);
    fill_reason(core, segment, out);
    return MOONCAKE_OK;
}

static size_t page_max(const struct mc_list_request *request)
{
    return request->items_max == 0 || request->items_max > MC_PAGE_ITEMS_MAX ? MC_PAGE_ITEMS_MAX
                                                                             : request->items_max;
}

mooncake_err mc_core_list_segments(struct mc_core *core, const struct mc_list_request *request,
                                   struct mc_arena *arena, struct mc_list_segments_reply *out_reply)
{
    size_t const max = page_max(request);
    struct mc_list_segments_reply reply = {.cursor = request->cursor};
    const struct mc_segment *segment;

    mc_core_enter(core);
    reply.items = mc_arena_array(arena, max, sizeof(*reply.items));
    if (reply.items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    while (reply.count < max) {
        segment = mc_roster_next(&core->segments.roster, &reply.cursor);
        if (segment == NULL) {
            reply.cursor = 0;
            break;
        }
        MC_TRY(fill_segment(core, segment, arena, &reply.items[reply.count]));
        reply.count++;
    }
    *out_reply = reply;
    return MOONCAKE_OK;
}

mooncake_err mc_core_find_segment(struct mc_core *core, const char *name, struct mc_arena *arena,
                                  struct mc_segment_status *out_status)
{
    const struct mc_segment *segment;

    mc_core_enter(core);
    segment = mc_segments_find_name(&core->segments, name, strlen(name));
    return segment == NULL ? MOONCAKE_ENOSEGMENT : fill_segment(core, segment, arena, out_status);
}

bool mc_core_is_mounted(const struct mc_core *core, uint64_t mount_id)
{
    return mc_segments_find(&core->segments, mount_id) != NULL;
}

/* ---- members ------------------------------------------------------------------------------- */

static mooncake_err fill_member(const struct mc_core *core, const struct mc_member *member,
                                struct mc_arena *arena, struct mc_client_status *out)
{
    *out = (struct mc_client_status){
        .host = mc_reply_text(arena, member->host),
        .program = mc_reply_text(arena, member->program),
        .client_id = member->client_id,
        .ping_age_ms = (core->env.now_ns - member->pinged_ns) / MC_NS_PER_MS,
        .role = member->role,
        .segments = member->segments_count,
    };
    return out->host == NULL || out->program == NULL ? MOONCAKE_ENOMEM : MOONCAKE_OK;
}

mooncake_err mc_core_list_clients(struct mc_core *core, const struct mc_list_request *request,
                                  struct mc_arena *arena, struct mc_list_clients_reply *out_reply)
{
    size_t const max = page_max(request);
    struct mc_list_clients_reply reply = {.cursor = request->cursor};
    const struct mc_member *member;

    mc_core_enter(core);
    reply.items = mc_arena_array(arena, max, sizeof(*reply.items));
    if (reply.items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    while (reply.count < max) {
        member = mc_roster_next(&core->members.roster, &reply.cursor);
        if (member == NULL) {
            reply.cursor = 0;
            break;
        }
        MC_TRY(fill_member(core, member, arena, &reply.items[reply.count]));
        reply.count++;
    }
    *out_reply = reply;
    return MOONCAKE_OK;
}

/* ---- the pool ------------------------------------------------------------------------------ */

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
        .removed = mc_counter_get(&metrics->removed),
        .program = "",
    };
}

static void add_space(const struct mc_core *core, const struct mc_segment *segment,
                      struct mc_core_space *sums)
{
    bool const placeable = segment->place_index != MC_NOT_PLACEABLE;
    uint64_t const largest = placeable ? mc_extalloc_largest(segment->alloc) : 0;
    uint64_t const plain_leased = mc_segment_leased(&core->segments, segment, MC_CLASS_PLAIN);
    uint64_t const soft_leased = mc_segment_leased(&core->segments, segment, MC_CLASS_SOFT);

    sums->capacity += mc_extalloc_capacity(segment->alloc);
    sums->free += placeable ? mc_segment_free(segment) : 0;
    sums->unplaceable += placeable ? 0 : mc_segment_free(segment);
    sums->leased += plain_leased + soft_leased;
    sums->evictable += segment->bytes[MC_CLASS_PLAIN] - plain_leased;
    sums->soft_pinned += segment->bytes[MC_CLASS_SOFT] - soft_leased;
    sums->hard_pinned += segment->bytes[MC_CLASS_HARD];
    sums->writing += segment->bytes[MC_CLASS_WRITING];
    sums->parked += segment->bytes[MC_CLASS_PARKED];
    sums->reading += segment->bytes[MC_CLASS_READING];
    sums->books += sizeof(*segment) + mc_extalloc_bytes(segment->alloc);
    sums->largest_free = largest > sums->largest_free ? largest : sums->largest_free;
}

void mc_core_space_page(struct mc_core *core, uint64_t *cursor, struct mc_core_space *sums)
{
    mc_core_enter(core);
    for (unsigned i = 0; i < MC_PAGE_ITEMS_MAX; i++) {
        const struct mc_segment *segment = mc_roster_next(&core->segments.roster, cursor);

        if (segment == NULL) {
            *cursor = 0;
            return;
        }
        if (segment->state != MC_SEGMENT_GONE) {
            add_space(core, segment, sums);
        }
    }
}

void mc_core_space(struct mc_core *core, struct mc_core_space *out_space)
{
    uint64_t cursor = 0;

    *out_space = (struct mc_core_space){0};
    do {
        mc_core_space_page(core, &cursor, out_space);
    } while (cursor != 0);
}

uint64_t mc_core_oldest_put_ms(struct mc_core *core)
{
    uint64_t oldest_ns;

    mc_core_enter(core);
    oldest_ns = mc_lifetime_oldest_ns(&core->lifetime);
    return oldest_ns >= core->env.now_ns ? 0 : (core->env.now_ns - oldest_ns) / MC_NS_PER_MS;
}
