/* The tables of mounted segments and the states a segment goes through. */
#include "master/segments.h"

#include <string.h>

#include "base/log.h"
#include "wire/names.h"

/* Segments are few; the tables start small. */
#define TABLE_HINT 64u

static bool match_mount(const void *element, const void *key, size_t key_len)
{
    const struct mc_segment *segment = element;

    return key_len == sizeof(segment->mount_id) && memcmp(&segment->mount_id, key, key_len) == 0;
}

static uint64_t hash_mount(const void *element)
{
    const struct mc_segment *segment = element;

    return mc_htab_hash(&segment->mount_id, sizeof(segment->mount_id));
}

static bool match_name(const void *element, const void *key, size_t key_len)
{
    const struct mc_segment *segment = element;

    return strlen(segment->name) == key_len && memcmp(segment->name, key, key_len) == 0;
}

static uint64_t hash_name(const void *element)
{
    const struct mc_segment *segment = element;

    return mc_htab_hash(segment->name, strlen(segment->name));
}

mooncake_err mc_segments_init(struct mc_segments *segments, struct mc_core_env *env)
{
    mooncake_err err;

    memset(segments, 0, sizeof(*segments));
    segments->env = env;
    mc_list_init(&segments->mounted);
    mc_list_init(&segments->gone);
    mc_list_init(&segments->leaving);
    mc_list_init(&segments->reported);
    mc_list_init(&segments->over);
    MC_TRY(mc_htab_create(TABLE_HINT, match_mount, hash_mount, &segments->by_mount));
    err = mc_htab_create(TABLE_HINT, match_name, hash_name, &segments->by_name);
    if (err != MOONCAKE_OK) {
        mc_htab_destroy(&segments->by_mount);
    }
    return err;
}

void mc_segments_fini(struct mc_segments *segments)
{
    mc_list_for_each_safe (node, next, &segments->mounted) {
        mc_segments_set_gone(segments, MC_CONTAINER_OF(node, struct mc_segment, node));
    }
    mc_list_for_each_safe (node, next, &segments->gone) {
        mc_segments_destroy(segments, MC_CONTAINER_OF(node, struct mc_segment, node));
    }
    mc_htab_destroy(&segments->by_mount);
    mc_htab_destroy(&segments->by_name);
    mc_roster_fini(&segments->roster);
    mc_free(segments->placeable);
    segments->placeable = NULL;
}

struct mc_segment *mc_segments_find(const struct mc_segments *segments, uint64_t mount_id)
{
    return mc_htab_find(segments->by_mount, mc_htab_hash(&mount_id, sizeof(mount_id)), &mount_id,
                        sizeof(mount_id));
}

struct mc_segment *mc_segments_find_name(const struct mc_segments *segments, const char *name,
                                         size_t len)
{
    return mc_htab_find(segments->by_name, mc_htab_hash(name, len), name, len);
}

/* ---- the array of segments that take new data ---------------------------------------------- */

static mooncake_err placeable_reserve(struct mc_segments *segments)
{
    uint32_t const max = segments->placeable_max == 0 ? TABLE_HINT : segments->placeable_max * 2;
    struct mc_segment **grown;

    /* One place for each mounted segment, so that a change of state never needs memory. */
    if (mc_htab_count(segments->by_mount) < segments->placeable_max) {
        return MOONCAKE_OK;
    }
    grown = mc_realloc(segments->placeable, max * sizeof(struct mc_segment *));
    if (grown == NULL) {
        return MOONCAKE_ENOMEM;
    }
    segments->placeable = grown;
    segments->placeable_max = max;
    return MOONCAKE_OK;
}

static void placeable_add(struct mc_segments *segments, struct mc_segment *segment)
{
    MC_ASSERT(segment->place_index == MC_NOT_PLACEABLE);
    MC_ASSERT(segments->placeable_count < segments->placeable_max);
    segment->place_index = segments->placeable_count;
    segments->placeable[segments->placeable_count++] = segment;
    segments->placeable_len += mc_extalloc_capacity(segment->alloc);
    segments->placeable_used += mc_extalloc_used(segment->alloc);
    for (uint32_t i = 0; i < segments->placeable_count; i++) {
        segments->placeable[i]->recent = 0;
    }
    segments->recent_total = 0;
    mc_segments_note_pressure(segments, segment);
}

static void placeable_drop(struct mc_segments *segments, struct mc_segment *segment)
{
    struct mc_segment *last;

    if (segment->place_index == MC_NOT_PLACEABLE) {
        return;
    }
    MC_ASSERT(segments->placeable[segment->place_index] == segment);
    last = segments->placeable[segments->placeable_count - 1];
    segments->placeable[segment->place_index] = last;
    last->place_index = segment->place_index;
    segments->placeable_count--;
    segment->place_index = MC_NOT_PLACEABLE;
    segments->placeable_len -= mc_extalloc_capacity(segment->alloc);
    segments->placeable_used -= mc_extalloc_used(segment->alloc);
    segments->recent_total -= segment->recent;
    segment->recent = 0;
    segment->demand_bytes = 0;
    mc_list_drop(&segment->over_node);
}

/* ---- coming and going ---------------------------------------------------------------------- */

static void segment_free(struct mc_segment *segment)
{
    mc_extalloc_destroy(&segment->alloc);
    mc_free(segment->name);
    mc_free(segment->host);
    mc_free(segment->addresses);
    mc_free(segment);
}

static char *copy_text(const char *text)
{
    return text == NULL ? mc_strndup("", 0) : mc_strndup(text, strlen(text));
}

static mooncake_err segment_create(const struct mc_segment_spec *spec, struct mc_segment **out)
{
    struct mc_segment *segment = mc_calloc(1, sizeof(*segment));
    mooncake_err err = MOONCAKE_ENOMEM;

    if (segment == NULL) {
        return MOONCAKE_ENOMEM;
    }
    segment->mount_id = spec->item->mount_id;
    segment->client_id = spec->client_id;
    segment->secret[0] = spec->item->secret[0];
    segment->secret[1] = spec->item->secret[1];
    segment->name = copy_text(spec->item->name);
    segment->host = copy_text(spec->host);
    segment->addresses = copy_text(spec->item->addresses);
    segment->state = MC_SEGMENT_OK;
    segment->place_index = MC_NOT_PLACEABLE;
    for (unsigned q = 0; q < MC_QUEUES; q++) {
        mc_list_init(&segment->queues[q]);
    }
    mc_list_init(&segment->node);
    mc_list_init(&segment->member_node);
    mc_list_init(&segment->leave_node);
    mc_list_init(&segment->report_node);
    mc_list_init(&segment->over_node);
    if (segment->name == NULL || segment->host == NULL || segment->addresses == NULL) {
        goto free_segment;
    }
    segment->host_hash = mc_htab_hash(segment->host, strlen(segment->host));
    err = mc_extalloc_create(spec->item->len, &segment->alloc);
    if (err != MOONCAKE_OK) {
        goto free_segment;
    }
    *out = segment;
    return MOONCAKE_OK;

free_segment:
    segment_free(segment);
    return err;
}

mooncake_err mc_segments_add(struct mc_segments *segments, const struct mc_segment_spec *spec,
                             struct mc_segment **out)
{
    struct mc_segment *segment;
    mooncake_err err;

    MC_TRY(placeable_reserve(segments));
    MC_TRY(segment_create(spec, &segment));
    err = mc_htab_add(segments->by_mount, hash_mount(segment), segment);
    if (err != MOONCAKE_OK) {
        goto free_segment;
    }
    err = mc_htab_add(segments->by_name, hash_name(segment), segment);
    if (err != MOONCAKE_OK) {
        goto drop_mount;
    }
    err = mc_roster_add(&segments->roster, segment, &segment->seq);
    if (err != MOONCAKE_OK) {
        goto drop_name;
    }
    mc_list_add_tail(&segments->mounted, &segment->node);
    MC_GAUGE(segments->env, segments, 1);
    MC_GAUGE(segments->env, capacity_bytes, mc_extalloc_capacity(segment->alloc));
    MC_COUNT(segments->env, mounted, 1);
    placeable_add(segments, segment);
    mc_log_info("segment.mounted", "segment=%s mount=%016llx host=%s len_bytes=%llu", segment->name,
                (unsigned long long)segment->mount_id, segment->host,
                (unsigned long long)spec->item->len);
    *out = segment;
    return MOONCAKE_OK;

drop_name:
    mc_htab_drop(segments->by_name, hash_name(segment), segment);
drop_mount:
    mc_htab_drop(segments->by_mount, hash_mount(segment), segment);
free_segment:
    segment_free(segment);
    return err;
}

void mc_segments_set_state(struct mc_segments *segments, struct mc_segment *segment,
                           enum mc_segment_state state)
{
    MC_ASSERT(state != MC_SEGMENT_GONE && segment->state != MC_SEGMENT_GONE);
    if (segment->state == state) {
        return;
    }
    segment->state = state;
    mc_list_drop(&segment->leave_node);
    placeable_drop(segments, segment);
    if (state == MC_SEGMENT_OK) {
        placeable_add(segments, segment);
    } else if (state == MC_SEGMENT_DRAINING) {
        mc_list_add_tail(&segments->leaving, &segment->leave_node);
    } else {
        MC_COUNT(segments->env, suspected, 1);
    }
    mc_log_info("segment.state", "segment=%s mount=%016llx state=%s", segment->name,
                (unsigned long long)segment->mount_id, mc_segment_state_name(state));
}

void mc_segments_set_gone(struct mc_segments *segments, struct mc_segment *segment)
{
    MC_ASSERT(segment->state != MC_SEGMENT_GONE);
    placeable_drop(segments, segment);
    mc_htab_drop(segments->by_mount, hash_mount(segment), segment);
    mc_htab_drop(segments->by_name, hash_name(segment), segment);
    mc_list_drop(&segment->member_node);
    mc_list_drop(&segment->leave_node);
    mc_list_drop(&segment->report_node);
    segment->state = MC_SEGMENT_GONE;
    segment->gone_ns = segments->env->now_ns;
    segments->env->lost_ns = segments->env->now_ns;
    mc_list_move_tail(&segments->gone, &segment->node);
    MC_GAUGE(segments->env, segments, -1);
    MC_GAUGE(segments->env, gone_segments, 1);
    MC_GAUGE(segments->env, capacity_bytes, -(int64_t)mc_extalloc_capacity(segment->alloc));
    MC_GAUGE(segments->env, used_bytes, -(int64_t)mc_extalloc_used(segment->alloc));
    mc_log_info("segment.gone", "segment=%s mount=%016llx extents=%llu", segment->name,
                (unsigned long long)segment->mount_id, (unsigned long long)segment->extents);
}

void mc_segments_destroy(struct mc_segments *segments, struct mc_segment *segment)
{
    MC_ASSERT(segment->state == MC_SEGMENT_GONE);
    MC_ASSERT(segment->extents == 0);
    mc_list_drop(&segment->node);
    mc_roster_drop(&segments->roster, segment->seq);
    MC_GAUGE(segments->env, gone_segments, -1);
    segment_free(segment);
}
