/* Counting everything again, to compare with the gauges and the segments' books. */
#include "master/core_parts.h"

/* What is truly there. */
struct recount {
    struct mc_core *core;
    int64_t keys, soft_pinned_keys, unfinished_puts, parked_puts;
    int64_t capacity_bytes, used_bytes, segments, gone_segments, members, stores;
    const char *wrong; /* the first thing that does not fit; NULL: none */
    uint64_t told, found;
};

static void expect(struct recount *recount, const char *what, uint64_t told, uint64_t found)
{
    if (told != found && recount->wrong == NULL) {
        recount->wrong = what;
        recount->told = told;
        recount->found = found;
    }
}

static enum mc_class class_of(const struct mc_object *object)
{
    if (object->life == MC_LIFE_WRITING) {
        return MC_CLASS_WRITING;
    }
    if (object->life == MC_LIFE_PARKED) {
        return (enum mc_class)object->parked_class;
    }
    return object->pin == MC_PIN_NONE   ? MC_CLASS_PLAIN
           : object->pin == MC_PIN_SOFT ? MC_CLASS_SOFT
                                        : MC_CLASS_HARD;
}

/* Version by version: does it fit its life, its class and its times? */
static void check_version(struct recount *recount, struct mc_object *object)
{
    recount->keys += object->life == MC_LIFE_READABLE ? 1 : 0;
    recount->soft_pinned_keys +=
        object->life == MC_LIFE_READABLE && object->pin == MC_PIN_SOFT ? 1 : 0;
    recount->unfinished_puts += object->life == MC_LIFE_WRITING ? 1 : 0;
    recount->parked_puts += object->life == MC_LIFE_PARKED ? 1 : 0;
    for (unsigned i = 0; i < object->extents_count; i++) {
        const struct mc_extent *extent = &object->extents[i];

        if (extent->segment != NULL) {
            expect(recount, "class of an extent", extent->klass, (uint64_t)class_of(object));
            expect(recount, "index of an extent", extent->index, i);
        }
    }
    if (object->life != MC_LIFE_READABLE) {
        expect(recount, "object of a put's record", (uint64_t)(uintptr_t)object->u.put->object,
               (uint64_t)(uintptr_t)object);
    }
}

static void check_head(void *arg, void *element)
{
    struct recount *const recount = arg;
    struct mc_object *const head = element;

    check_version(recount, head);
    if (head->life == MC_LIFE_READABLE && head->u.pending != NULL) {
        expect(recount, "life of a pending version", head->u.pending->life, MC_LIFE_WRITING);
        check_version(recount, head->u.pending);
    }
}

static void check_puts(struct recount *recount, const struct mc_list *list)
{
    mc_list_for_each (node, list) {
        struct mc_object *const object = MC_CONTAINER_OF(node, struct mc_put, node)->object;

        if (object->life == MC_LIFE_PARKED) {
            check_version(recount, object);
        }
    }
}

static void check_segment(struct recount *recount, struct mc_segment *segment)
{
    uint64_t bytes[MC_CLASSES] = {0};
    uint64_t leased[2][MC_LEASE_BUCKETS] = {{0}};
    uint64_t extents = 0;
    uint64_t sum = 0;

    for (unsigned queue = 0; queue < MC_QUEUES; queue++) {
        mc_list_for_each (node, &segment->queues[queue]) {
            struct mc_extent *const extent = MC_CONTAINER_OF(node, struct mc_extent, node);
            uint64_t const end_ns = mc_extent_object(extent)->lease_end_ns;
            uint64_t const bucket = mc_lease_bucket(&recount->core->segments, end_ns);
            uint64_t const len = mc_extent_bytes(extent->payload_len);

            extents++;
            sum += len;
            bytes[extent->klass] += len;
            expect(recount, "queue of an extent", extent->queue, queue);
            if (extent->klass <= MC_CLASS_SOFT && end_ns != 0 &&
                segment->leased[extent->klass].number[bucket % MC_LEASE_BUCKETS] == bucket) {
                leased[extent->klass][bucket % MC_LEASE_BUCKETS] += len;
            }
        }
    }
    for (unsigned klass = 0; klass < MC_CLASSES; klass++) {
        expect(recount, "bytes of a class", segment->bytes[klass], bytes[klass]);
    }
    for (unsigned i = 0; i < MC_LEASE_BUCKETS; i++) {
        expect(recount, "leased bytes", segment->leased[MC_CLASS_PLAIN].bytes[i],
               leased[MC_CLASS_PLAIN][i]);
        expect(recount, "leased soft-pinned bytes", segment->leased[MC_CLASS_SOFT].bytes[i],
               leased[MC_CLASS_SOFT][i]);
    }
    expect(recount, "extents of a segment", segment->extents, extents);
    expect(recount, "used bytes of a segment", mc_extalloc_used(segment->alloc), sum);
}

static void check_segments(struct recount *recount)
{
    const struct mc_segments *segments = &recount->core->segments;
    uint64_t placeable_len = 0;
    uint64_t placeable_used = 0;
    uint32_t recent = 0;

    mc_list_for_each (node, &segments->mounted) {
        struct mc_segment *const segment = MC_CONTAINER_OF(node, struct mc_segment, node);

        check_segment(recount, segment);
        recount->segments++;
        recount->capacity_bytes += (int64_t)mc_extalloc_capacity(segment->alloc);
        recount->used_bytes += (int64_t)mc_extalloc_used(segment->alloc);
    }
    mc_list_for_each (node, &segments->gone) {
        check_segment(recount, MC_CONTAINER_OF(node, struct mc_segment, node));
        recount->gone_segments++;
    }
    for (uint32_t i = 0; i < segments->placeable_count; i++) {
        expect(recount, "place of a segment", segments->placeable[i]->place_index, i);
        placeable_len += mc_extalloc_capacity(segments->placeable[i]->alloc);
        placeable_used += mc_extalloc_used(segments->placeable[i]->alloc);
        recent += segments->placeable[i]->recent;
    }
    expect(recount, "placeable bytes", segments->placeable_len, placeable_len);
    expect(recount, "used placeable bytes", segments->placeable_used, placeable_used);
    expect(recount, "recent placements", segments->recent_total, recent);
    expect(recount, "mounts in the table", mc_htab_count(segments->by_mount),
           (uint64_t)recount->segments);
    expect(recount, "names in the table", mc_htab_count(segments->by_name),
           (uint64_t)recount->segments);
}

static void check_members(struct recount *recount)
{
    const struct mc_members *members = &recount->core->members;

    mc_list_for_each (node, &members->by_ping) {
        const struct mc_member *member = MC_CONTAINER_OF(node, struct mc_member, node);
        uint32_t count = 0;

        mc_list_for_each (segment, &member->segments) {
            count++;
        }
        expect(recount, "segments of a member", member->segments_count, count);
        recount->members++;
        recount->stores += count > 0 ? 1 : 0;
    }
    expect(recount, "members in the table", mc_htab_count(members->by_id),
           (uint64_t)recount->members);
}

mooncake_err mc_core_recount(struct mc_core *core)
{
    struct recount recount = {.core = core};
    const struct mc_core_metrics *metrics = &core->env.metrics;
    uint64_t cursor = 0;

    mc_core_enter(core);
    do {
        mc_htab_walk(core->objects.table, &cursor, SIZE_MAX, check_head, &recount);
    } while (cursor != 0);
    check_puts(&recount, &core->lifetime.unfinished);
    check_puts(&recount, &core->lifetime.failed);
    check_puts(&recount, &core->lifetime.retired);
    check_segments(&recount);
    check_members(&recount);
#define EXPECT_GAUGE_(name, help)                                                                  \
    expect(&recount, "gauge " #name, (uint64_t)mc_gauge_get(&metrics->name),                       \
           (uint64_t)recount.name);
    MC_CORE_GAUGE_LIST(EXPECT_GAUGE_)
#undef EXPECT_GAUGE_
    expect(&recount, "hits and misses", mc_counter_get(&metrics->lookups),
           mc_counter_get(&metrics->hits) + mc_counter_get(&metrics->misses));
    MC_COUNT(&core->env, recounts, 1);
    if (recount.wrong != NULL) {
        MC_COUNT(&core->env, gauge_recount_mismatch, 1);
        return mc_err_set(MOONCAKE_EINTERNAL, "%s: the books say %llu, a recount %llu",
                          recount.wrong, (unsigned long long)recount.told,
                          (unsigned long long)recount.found);
    }
    return MOONCAKE_OK;
}
