/* What operators want to know of one key or one store: WhyMiss, Drain, SoleKeys. */
#include "master/core_parts.h"

#include <string.h>

#include "master/reply.h"

mooncake_err mc_core_why_miss(struct mc_core *core, const struct mc_keys_request *request,
                              struct mc_arena *arena, struct mc_why_miss_reply *out_reply)
{
    struct mc_why_miss_reply reply = {.fate = MC_FATE_UNKNOWN, .store = ""};
    struct mc_fates_answer answer;
    const struct mc_object *head;
    uint64_t hash;

    if (request->count != 1) {
        return mc_err_set(MOONCAKE_EINVAL, "keys: %zu were given; this call is about one",
                          request->count);
    }
    if (!mc_core_key_ok(&request->keys[0])) {
        return MOONCAKE_EBADKEY;
    }
    hash = mc_htab_hash(request->keys[0].bytes, request->keys[0].len);
    mc_core_enter(core);
    head = mc_objects_find_live(&core->objects, &request->keys[0], hash);
    reply.uptime_ms = (core->seen_ns - core->started_ns) / MC_NS_PER_MS;
    reply.reach_ms = mc_fates_reach_ms(&core->fates, core->env.now_ns);
    reply.entries = core->fates.count;
    if (head != NULL) {
        bool const readable = head->life == MC_LIFE_READABLE;

        reply.fate = readable ? MC_FATE_READABLE : MC_FATE_WRITING;
        reply.age_ms = (core->env.now_ns - head->since_ns) / MC_NS_PER_MS;
        reply.owner_client_id = readable ? 0 : head->u.put->client_id;
        *out_reply = reply;
        return MOONCAKE_OK;
    }
    mc_fates_find(&core->fates, hash, core->env.now_ns, &answer);
    reply.fate = answer.fate;
    reply.ago_ms = answer.ago_ms;
    reply.age_ms = answer.age_ms;
    reply.idle_ms = answer.idle_ms;
    reply.store = mc_reply_text(arena, answer.store);
    if (reply.store == NULL) {
        return MOONCAKE_ENOMEM;
    }
    *out_reply = reply;
    return MOONCAKE_OK;
}

/* ---- drain --------------------------------------------------------------------------------- */

static mooncake_err drain_item(struct mc_core *core, struct mc_segment *segment,
                               enum mc_drain_action action)
{
    bool const draining = segment->state == MC_SEGMENT_DRAINING;
    /* A store that leaves by itself has a time for it. */
    bool const ours = draining && segment->leave_ns == UINT64_MAX;

    switch (action) {
    case MC_DRAIN_LOOK:
        return MOONCAKE_OK;
    case MC_DRAIN_BEGIN:
        if (!draining) {
            segment->leave_ns = UINT64_MAX;
            mc_segments_set_state(&core->segments, segment, MC_SEGMENT_DRAINING);
        }
        return MOONCAKE_OK;
    case MC_DRAIN_CANCEL:
        if (draining && !ours) {
            return MOONCAKE_ESTATE;
        }
        if (draining) {
            mc_segments_set_state(&core->segments, segment, MC_SEGMENT_OK);
        }
        return MOONCAKE_OK;
    }
    return MOONCAKE_EINVAL;
}

static void add_sums(struct mc_core *core, const struct mc_segment *segment,
                     struct mc_drain_reply *reply)
{
    reply->capacity += mc_extalloc_capacity(segment->alloc);
    reply->used += mc_extalloc_used(segment->alloc);
    reply->extents += segment->extents;
    reply->leased += mc_segment_leased(&core->segments, segment, MC_CLASS_PLAIN) +
                     mc_segment_leased(&core->segments, segment, MC_CLASS_SOFT);
    reply->reading += segment->bytes[MC_CLASS_READING];
    reply->writing += segment->bytes[MC_CLASS_WRITING];
    reply->hard_pinned += segment->bytes[MC_CLASS_HARD];
    reply->draining += segment->state == MC_SEGMENT_DRAINING ? 1 : 0;
}

mooncake_err mc_core_drain(struct mc_core *core, const struct mc_drain_request *request,
                           struct mc_arena *arena, struct mc_drain_reply *out_reply)
{
    struct mc_drain_reply reply = {.count = request->count};

    reply.statuses = mc_arena_array(arena, request->count, sizeof(*reply.statuses));
    if (reply.statuses == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    for (size_t i = 0; i < request->count; i++) {
        struct mc_segment *segment = mc_segments_find(&core->segments, request->mount_ids[i]);

        if (segment == NULL) {
            reply.statuses[i] = MOONCAKE_ENOSEGMENT;
            continue;
        }
        reply.statuses[i] = drain_item(core, segment, (enum mc_drain_action)request->action);
        add_sums(core, segment, &reply);
    }
    *out_reply = reply;
    return MOONCAKE_OK;
}

/* ---- which keys have their only copy there ------------------------------------------------- */

#define WALK_STEPS 32u

struct sole {
    const struct mc_sole_keys_request *request;
    struct mc_arena *arena;
    struct mc_key *keys;
    size_t keys_max;
    mooncake_err err;
    struct mc_sole_keys_reply reply;
};

static bool is_asked_for(const struct mc_sole_keys_request *request,
                         const struct mc_segment *segment)
{
    for (size_t i = 0; i < request->count; i++) {
        if (request->mount_ids[i] == segment->mount_id) {
            return true;
        }
    }
    return false;
}

/* Has it bytes there, and a copy that needs none of them? */
static void judge(const struct sole *sole, const struct mc_object *object, uint64_t *out_bytes,
                  bool *out_elsewhere)
{
    uint32_t touched = 0;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < object->extents_count; i++) {
        const struct mc_extent *extent = &object->extents[i];

        if (extent->segment != NULL && is_asked_for(sole->request, extent->segment)) {
            touched |= 1u << mc_extent_replica(extent);
            bytes += mc_extent_bytes(extent->payload_len);
        }
    }
    *out_bytes = bytes;
    *out_elsewhere = false;
    for (unsigned replica = 0; bytes > 0 && replica < object->replicas; replica++) {
        if ((touched >> replica & 1u) == 0 && mc_object_replica_complete(object, replica)) {
            *out_elsewhere = true;
        }
    }
}

static void keep_key(struct sole *sole, const struct mc_object *object)
{
    char *bytes;

    if (sole->reply.count == sole->keys_max) {
        return;
    }
    bytes = mc_arena_alloc(sole->arena, object->key_len);
    if (bytes == NULL) {
        sole->err = MOONCAKE_ENOMEM;
        return;
    }
    memcpy(bytes, mc_object_key(object), object->key_len);
    sole->keys[sole->reply.count++] = (struct mc_key){.bytes = bytes, .len = object->key_len};
}

static void visit(void *arg, void *element)
{
    struct sole *const sole = arg;
    const struct mc_object *object = element;
    bool elsewhere;
    uint64_t bytes;

    if (sole->err != MOONCAKE_OK || !mc_object_readable(object)) {
        return;
    }
    judge(sole, object, &bytes, &elsewhere);
    if (bytes == 0) {
        return;
    }
    sole->reply.keys_there++;
    sole->reply.bytes_there += bytes;
    if (!elsewhere) {
        sole->reply.keys_sole++;
        sole->reply.bytes_sole += bytes;
        keep_key(sole, object);
    }
}

mooncake_err mc_core_sole_keys(struct mc_core *core, const struct mc_sole_keys_request *request,
                               struct mc_arena *arena, struct mc_sole_keys_reply *out_reply)
{
    size_t const keys_max =
        request->keys_max < MC_BATCH_KEYS_MAX ? request->keys_max : MC_BATCH_KEYS_MAX;
    struct sole sole = {.request = request, .arena = arena, .keys_max = keys_max};
    uint64_t cursor = request->cursor, end_ns;

    sole.keys = mc_arena_array(arena, keys_max, sizeof(*sole.keys));
    if (sole.keys == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    end_ns = mc_now_ns(core->clock) + MC_SLICE_NS_MAX;
    do {
        mc_htab_walk(core->objects.table, &cursor, WALK_STEPS, visit, &sole);
    } while (cursor != 0 && sole.err == MOONCAKE_OK && mc_now_ns(core->clock) < end_ns);
    MC_TRY(sole.err);
    sole.reply.keys = sole.keys;
    sole.reply.cursor = cursor;
    *out_reply = sole.reply;
    return MOONCAKE_OK;
}
