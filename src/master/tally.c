/* The sums of a pass, and what a version adds to them. */
#include "master/tally.h"

#include <string.h>

void mc_tally_init(struct mc_tally *tally, const struct mc_segments *segments)
{
    memset(tally, 0, sizeof(*tally));
    tally->segments = segments;
}

void mc_tally_begin(struct mc_tally *tally)
{
    MC_ASSERT(tally->pass == 0);
    tally->pass = ++tally->passes;
    /* Each pass renews the mark of every version that there is, so a mark is at most one pass old
     * and 255 values are plenty. */
    tally->mark = tally->mark == UINT8_MAX ? 1 : tally->mark + 1;
    tally->keys = 0;
    tally->soft_pinned_keys = 0;
    tally->unfinished_puts = 0;
    tally->parked_puts = 0;
    tally->wrong = NULL;
    tally->told = 0;
    tally->found = 0;
}

void mc_tally_end(struct mc_tally *tally)
{
    tally->pass = 0;
    tally->cursor = NULL;
}

void mc_tally_expect(struct mc_tally *tally, const char *what, uint64_t told, uint64_t found)
{
    if (told != found && tally->wrong == NULL) {
        tally->wrong = what;
        tally->told = told;
        tally->found = found;
    }
}

/* The sums of a segment, from 0 in each pass. */
static struct mc_segment_sums *sums_of(const struct mc_tally *tally, struct mc_segment *segment)
{
    if (segment->sums.pass != tally->pass) {
        memset(&segment->sums, 0, sizeof(segment->sums));
        segment->sums.pass = tally->pass;
    }
    return &segment->sums;
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

void mc_tally_add_life(struct mc_tally *tally, const struct mc_object *object, int64_t n)
{
    tally->keys += object->life == MC_LIFE_READABLE ? n : 0;
    tally->soft_pinned_keys +=
        object->life == MC_LIFE_READABLE && object->pin == MC_PIN_SOFT ? n : 0;
    tally->unfinished_puts += object->life == MC_LIFE_WRITING ? n : 0;
    tally->parked_puts += object->life == MC_LIFE_PARKED ? n : 0;
}

void mc_tally_check_version(struct mc_tally *tally, struct mc_object *object)
{
    for (unsigned i = 0; i < object->extents_count; i++) {
        struct mc_extent *const extent = &object->extents[i];

        if (extent->segment != NULL) {
            mc_tally_expect(tally, "class of an extent", extent->klass, class_of(object));
            mc_tally_expect(tally, "index of an extent", extent->index, i);
            mc_tally_expect(tally, "links of an extent in its queue", 1,
                            extent->node.next->prev == &extent->node &&
                                extent->node.prev->next == &extent->node);
        }
    }
    if (object->life != MC_LIFE_READABLE) {
        mc_tally_expect(tally, "object of a put's record",
                        (uint64_t)(uintptr_t)object->u.put->object, (uint64_t)(uintptr_t)object);
    }
}

void mc_tally_count(struct mc_tally *tally, struct mc_object *object)
{
    uint64_t const bucket = mc_lease_bucket(tally->segments, object->lease_end_ns);

    MC_ASSERT(tally->pass != 0);
    if (object->counted == tally->mark) {
        return;
    }
    object->counted = tally->mark;
    mc_tally_add_life(tally, object, 1);
    mc_tally_check_version(tally, object);
    for (unsigned i = 0; i < object->extents_count; i++) {
        const struct mc_extent *extent = &object->extents[i];
        uint64_t const bytes = mc_extent_bytes(extent->payload_len);
        struct mc_segment_sums *sums;

        if (extent->segment == NULL) {
            continue;
        }
        sums = sums_of(tally, extent->segment);
        sums->extents++;
        sums->used += bytes;
        sums->bytes[extent->klass] += bytes;
        if (extent->klass <= MC_CLASS_SOFT && object->lease_end_ns != 0) {
            mc_lease_ring_add(&sums->leased[extent->klass], bucket, bytes);
        }
    }
}

void mc_tally_uncount(struct mc_tally *tally, struct mc_object *object)
{
    uint64_t const bucket = mc_lease_bucket(tally->segments, object->lease_end_ns);

    MC_ASSERT(tally->pass != 0 && object->counted == tally->mark);
    object->counted = 0;
    mc_tally_add_life(tally, object, -1);
    for (unsigned i = 0; i < object->extents_count; i++) {
        const struct mc_extent *extent = &object->extents[i];
        uint64_t const bytes = mc_extent_bytes(extent->payload_len);
        struct mc_segment_sums *sums;

        if (extent->segment == NULL) {
            continue;
        }
        sums = sums_of(tally, extent->segment);
        sums->extents--;
        sums->used -= bytes;
        sums->bytes[extent->klass] -= bytes;
        if (extent->klass <= MC_CLASS_SOFT && object->lease_end_ns != 0) {
            mc_lease_ring_drop(&sums->leased[extent->klass], bucket, bytes);
        }
    }
}

/* A place in the ring belongs to the newest bucket that was ever put there. A pass has not seen all
 * of those, but then nothing is left in them. */
static void check_ring(struct mc_tally *tally, const char *what, const struct mc_lease_ring *told,
                       const struct mc_lease_ring *found)
{
    for (unsigned i = 0; i < MC_LEASE_BUCKETS; i++) {
        uint64_t const bytes = told->number[i] == found->number[i] ? found->bytes[i] : 0;

        mc_tally_expect(tally, what, told->bytes[i], bytes);
        if (told->number[i] < found->number[i]) {
            mc_tally_expect(tally, what, 0, found->bytes[i]);
        }
    }
}

void mc_tally_check_segment(struct mc_tally *tally, const struct mc_segment *segment)
{
    static const struct mc_segment_sums none = {.pass = 0};
    const struct mc_segment_sums *sums = segment->sums.pass == tally->pass ? &segment->sums : &none;

    for (unsigned klass = 0; klass < MC_CLASSES; klass++) {
        mc_tally_expect(tally, "bytes of a class", segment->bytes[klass], sums->bytes[klass]);
    }
    check_ring(tally, "leased bytes", &segment->leased[MC_CLASS_PLAIN],
               &sums->leased[MC_CLASS_PLAIN]);
    check_ring(tally, "leased soft-pinned bytes", &segment->leased[MC_CLASS_SOFT],
               &sums->leased[MC_CLASS_SOFT]);
    mc_tally_expect(tally, "extents of a segment", segment->extents, sums->extents);
    mc_tally_expect(tally, "used bytes of a segment", mc_extalloc_used(segment->alloc), sums->used);
}

void mc_tally_drop_put(struct mc_tally *tally, struct mc_put *put)
{
    if (tally->cursor == &put->node) {
        tally->cursor = put->node.next;
    }
    mc_list_drop(&put->node);
}
