/* Filling object tables. */
#include "master/reply.h"

#include <string.h>

struct table {
    struct mc_core *core;
    struct mc_arena *arena;
    uint32_t rights;
    uint32_t segments_max;
    struct mc_object_table out;
};

char *mc_reply_text(struct mc_arena *arena, const char *text)
{
    size_t const len = strlen(text);
    char *copy = mc_arena_alloc(arena, len + 1);

    if (copy != NULL) {
        memcpy(copy, text, len + 1);
    }
    return copy;
}

static mooncake_err table_grow(struct table *table)
{
    uint32_t const max = table->segments_max == 0 ? 8 : table->segments_max * 2;
    struct mc_segment_info *grown = mc_arena_array(table->arena, max, sizeof(*grown));

    if (grown == NULL) {
        return MOONCAKE_ENOMEM;
    }
    if (table->out.segments_count > 0) {
        memcpy(grown, table->out.segments, table->out.segments_count * sizeof(*grown));
    }
    table->out.segments = grown;
    table->segments_max = max;
    return MOONCAKE_OK;
}

/* The segment's place in the table; adds it when it is named for the first time. */
static mooncake_err table_segment(struct table *table, struct mc_segment *segment,
                                  uint32_t *out_index)
{
    struct mc_segment_info *info;

    if (segment->reply_seq == table->core->reply_seq) {
        *out_index = segment->reply_index;
        return MOONCAKE_OK;
    }
    if (table->out.segments_count == table->segments_max) {
        MC_TRY(table_grow(table));
    }
    info = &table->out.segments[table->out.segments_count];
    info->mount_id = segment->mount_id;
    info->name = mc_reply_text(table->arena, segment->name);
    info->addresses = mc_reply_text(table->arena, segment->addresses);
    info->host = mc_reply_text(table->arena, segment->host);
    if (info->name == NULL || info->addresses == NULL || info->host == NULL) {
        return MOONCAKE_ENOMEM;
    }
    segment->reply_seq = table->core->reply_seq;
    segment->reply_index = table->out.segments_count++;
    *out_index = segment->reply_index;
    return MOONCAKE_OK;
}

static unsigned replica_extents(const struct mc_object *object, unsigned replica)
{
    unsigned count = 0;

    for (unsigned i = 0; i < object->extents_count; i++) {
        count += mc_extent_replica(&object->extents[i]) == replica ? 1 : 0;
    }
    return count;
}

static mooncake_err table_replica(struct table *table, struct mc_object *object, unsigned replica,
                                  struct mc_replica_info *out)
{
    unsigned const count = replica_extents(object, replica);

    out->extents = mc_arena_array(table->arena, count, sizeof(*out->extents));
    out->segment = mc_arena_array(table->arena, count, sizeof(*out->segment));
    out->extents_count = 0;
    if (out->extents == NULL || out->segment == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (unsigned i = 0; i < object->extents_count; i++) {
        struct mc_extent *const extent = &object->extents[i];
        struct mc_extent_ref *const ref = &out->extents[out->extents_count];

        if (mc_extent_replica(extent) != replica) {
            continue;
        }
        MC_ASSERT(mc_extent_slice(extent) == out->extents_count);
        *ref = (struct mc_extent_ref){
            .mount_id = extent->segment->mount_id,
            .offset = extent->offset,
            .payload_len = extent->payload_len,
            .object_id = {.hi = table->core->env.options.epoch, .lo = object->attempt},
            .slice_index = mc_extent_slice(extent),
            .slice_count = count,
            .rights = table->rights,
        };
        ref->capability = table->rights == 0 ? 0 : mc_capability(extent->segment->secret, ref);
        MC_TRY(table_segment(table, extent->segment, &out->segment[out->extents_count]));
        out->extents_count++;
    }
    return MOONCAKE_OK;
}

static mooncake_err table_object(struct table *table, struct mc_object *object,
                                 struct mc_object_info *out)
{
    out->id = (struct mc_object_id){.hi = table->core->env.options.epoch, .lo = object->attempt};
    out->value_len = object->value_len;
    out->replicas = mc_arena_array(table->arena, object->replicas, sizeof(*out->replicas));
    out->replicas_count = 0;
    if (out->replicas == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (unsigned replica = 0; replica < object->replicas; replica++) {
        if (mc_object_replica_complete(object, replica)) {
            MC_TRY(table_replica(table, object, replica, &out->replicas[out->replicas_count]));
            out->replicas_count++;
        }
    }
    return MOONCAKE_OK;
}

mooncake_err mc_reply_table(struct mc_core *core, struct mc_object *const *objects, size_t count,
                            uint32_t rights, struct mc_arena *arena,
                            struct mc_object_table *out_table)
{
    struct table table = {.core = core, .arena = arena, .rights = rights};

    core->reply_seq++;
    table.out.count = count;
    table.out.objects = mc_arena_array(arena, count, sizeof(*table.out.objects));
    if (table.out.objects == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        table.out.objects[i] = (struct mc_object_info){0};
        if (objects[i] != NULL) {
            MC_TRY(table_object(&table, objects[i], &table.out.objects[i]));
        }
    }
    *out_table = table.out;
    return MOONCAKE_OK;
}
