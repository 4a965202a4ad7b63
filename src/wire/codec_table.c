/*
 * Where the extents of a batch of objects are: our objects -> replicas -> extents as nested arrays,
 * the wire's as parallel ones. What the wire does not carry follows from the rest: an extent's
 * mount id is that of its segment, its slice index is its place in the replica.
 */
#include "base/err.h"
#include "wire/codec.h"

#define REPLICAS_TOTAL_MAX ((size_t)MC_BATCH_KEYS_MAX * MC_REPLICAS_MAX)
#define EXTENTS_TOTAL_MAX (REPLICAS_TOTAL_MAX * MC_EXTENTS_MAX)

static mooncake_err bad(const char *what)
{
    return mc_err_set(MOONCAKE_EINVAL, "objects: %s", what);
}

static mooncake_err check_segment(const struct mc_segment_info *segment)
{
    const struct mc_codec_text texts[] = {
        {"objects.segment_name", segment->name, MC_SEGMENT_NAME_LEN_MAX},
        {"objects.addresses", segment->addresses, MC_ADDRESSES_LEN_MAX},
        {"objects.host", segment->host, MC_ADDR_LEN_MAX},
    };

    return mc_codec_check_texts(texts, MC_ARRAY_LEN(texts));
}

/* May this replica stand for a value of @p value_len bytes, with @p segments_count segments? */
static mooncake_err check_replica(const struct mc_replica_info *replica, uint64_t value_len,
                                  uint32_t segments_count)
{
    uint64_t left = value_len;
    uint32_t i;

    if (replica->extents_count < 1 || replica->extents_count > MC_EXTENTS_MAX) {
        return bad("extent_count is out of range");
    }
    for (i = 0; i < replica->extents_count; i++) {
        const struct mc_extent_ref *extent = &replica->extents[i];

        if (replica->segment[i] >= segments_count) {
            return bad("segment is not in the table");
        }
        if (extent->payload_len > left) {
            return bad("payload_len is more than the value in all");
        }
        if (extent->offset > UINT64_MAX - MC_EXTENT_HEADER_LEN - extent->payload_len) {
            return bad("offset and payload_len are out of range");
        }
        left -= extent->payload_len;
    }
    return left == 0 ? MOONCAKE_OK : bad("payload_len is less than the value in all");
}

/* ---- ours to the wire's ---------------------------------------------------------------------- */

struct totals {
    size_t replicas, extents;
};

static mooncake_err count_table(const struct mc_object_table *table, struct totals *out)
{
    struct totals totals = {0, 0};
    size_t i;
    uint32_t r;

    MC_TRY(mc_codec_check_count("objects", table->count, MC_BATCH_KEYS_MAX));
    MC_TRY(mc_codec_check_count("objects.mount_id", table->segments_count, MC_SEGMENTS_MAX));
    for (i = 0; i < table->count; i++) {
        const struct mc_object_info *object = &table->objects[i];

        if (object->replicas_count > MC_REPLICAS_MAX) {
            return bad("replica_count is out of range");
        }
        totals.replicas += object->replicas_count;
        for (r = 0; r < object->replicas_count; r++) {
            MC_TRY(check_replica(&object->replicas[r], object->value_len, table->segments_count));
            totals.extents += object->replicas[r].extents_count;
        }
    }
    *out = totals;
    return MOONCAKE_OK;
}

static mooncake_err fill_segments(struct mc_arena *scratch, const struct mc_object_table *table,
                                  Mc__Pb__ObjectTable *pb)
{
    size_t count = table->segments_count, i;

    pb->mount_id = mc_arena_array(scratch, count, sizeof(*pb->mount_id));
    pb->segment_name = mc_arena_array(scratch, count, sizeof(*pb->segment_name));
    pb->addresses = mc_arena_array(scratch, count, sizeof(*pb->addresses));
    pb->host = mc_arena_array(scratch, count, sizeof(*pb->host));
    if (pb->mount_id == NULL || pb->segment_name == NULL || pb->addresses == NULL ||
        pb->host == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (i = 0; i < count; i++) {
        const struct mc_segment_info *segment = &table->segments[i];

        MC_TRY(check_segment(segment));
        pb->mount_id[i] = segment->mount_id;
        pb->segment_name[i] = mc_codec_text_element(segment->name);
        pb->addresses[i] = mc_codec_text_element(segment->addresses);
        pb->host[i] = mc_codec_text_element(segment->host);
    }
    pb->n_mount_id = pb->n_segment_name = pb->n_addresses = pb->n_host = count;
    return MOONCAKE_OK;
}

static mooncake_err alloc_arrays(struct mc_arena *scratch, size_t objects, struct totals totals,
                                 Mc__Pb__ObjectTable *pb)
{
    pb->value_len = mc_arena_array(scratch, objects, sizeof(*pb->value_len));
    pb->object_id_hi = mc_arena_array(scratch, objects, sizeof(*pb->object_id_hi));
    pb->object_id_lo = mc_arena_array(scratch, objects, sizeof(*pb->object_id_lo));
    pb->replica_count = mc_arena_array(scratch, objects, sizeof(*pb->replica_count));
    pb->extent_count = mc_arena_array(scratch, totals.replicas, sizeof(*pb->extent_count));
    pb->segment = mc_arena_array(scratch, totals.extents, sizeof(*pb->segment));
    pb->offset = mc_arena_array(scratch, totals.extents, sizeof(*pb->offset));
    pb->payload_len = mc_arena_array(scratch, totals.extents, sizeof(*pb->payload_len));
    pb->capability = mc_arena_array(scratch, totals.extents, sizeof(*pb->capability));
    if (pb->value_len == NULL || pb->object_id_hi == NULL || pb->object_id_lo == NULL ||
        pb->replica_count == NULL || pb->extent_count == NULL || pb->segment == NULL ||
        pb->offset == NULL || pb->payload_len == NULL || pb->capability == NULL) {
        return MOONCAKE_ENOMEM;
    }
    return MOONCAKE_OK;
}

/* Appends to the arrays per replica and per extent; their counts are the write positions. */
static void append_replica(const struct mc_replica_info *replica, Mc__Pb__ObjectTable *pb)
{
    size_t at = pb->n_segment;
    uint32_t i;

    pb->extent_count[pb->n_extent_count++] = replica->extents_count;
    for (i = 0; i < replica->extents_count; i++, at++) {
        pb->segment[at] = replica->segment[i];
        pb->offset[at] = replica->extents[i].offset;
        pb->payload_len[at] = replica->extents[i].payload_len;
        pb->capability[at] = replica->extents[i].capability;
    }
    pb->n_segment = pb->n_offset = pb->n_payload_len = pb->n_capability = at;
}

mooncake_err mc_codec_table_fill(struct mc_arena *scratch, const struct mc_object_table *table,
                                 Mc__Pb__ObjectTable *pb)
{
    struct totals totals = {0, 0};
    size_t i;
    uint32_t r;

    mc__pb__object_table__init(pb);
    MC_TRY(count_table(table, &totals));
    MC_TRY(fill_segments(scratch, table, pb));
    MC_TRY(alloc_arrays(scratch, table->count, totals, pb));
    for (i = 0; i < table->count; i++) {
        const struct mc_object_info *object = &table->objects[i];

        pb->value_len[i] = object->value_len;
        pb->object_id_hi[i] = object->id.hi;
        pb->object_id_lo[i] = object->id.lo;
        pb->replica_count[i] = object->replicas_count;
        for (r = 0; r < object->replicas_count; r++) {
            append_replica(&object->replicas[r], pb);
        }
    }
    pb->n_value_len = pb->n_object_id_hi = pb->n_object_id_lo = pb->n_replica_count = table->count;
    MC_ASSERT(pb->n_extent_count == totals.replicas && pb->n_segment == totals.extents);
    return MOONCAKE_OK;
}

/* ---- the wire's to ours ---------------------------------------------------------------------- */

/* Do the array lengths agree? The sums over replica_count and extent_count are checked while
 * reading. */
static mooncake_err check_shape(const Mc__Pb__ObjectTable *pb)
{
    MC_TRY(mc_codec_check_count("objects.mount_id", pb->n_mount_id, MC_SEGMENTS_MAX));
    MC_TRY(mc_codec_check_same("objects.segment_name", pb->n_segment_name, pb->n_mount_id));
    MC_TRY(mc_codec_check_same("objects.addresses", pb->n_addresses, pb->n_mount_id));
    MC_TRY(mc_codec_check_same("objects.host", pb->n_host, pb->n_mount_id));
    MC_TRY(mc_codec_check_count("objects.value_len", pb->n_value_len, MC_BATCH_KEYS_MAX));
    MC_TRY(mc_codec_check_same("objects.object_id_hi", pb->n_object_id_hi, pb->n_value_len));
    MC_TRY(mc_codec_check_same("objects.object_id_lo", pb->n_object_id_lo, pb->n_value_len));
    MC_TRY(mc_codec_check_same("objects.replica_count", pb->n_replica_count, pb->n_value_len));
    MC_TRY(mc_codec_check_count("objects.extent_count", pb->n_extent_count, REPLICAS_TOTAL_MAX));
    MC_TRY(mc_codec_check_count("objects.segment", pb->n_segment, EXTENTS_TOTAL_MAX));
    MC_TRY(mc_codec_check_same("objects.offset", pb->n_offset, pb->n_segment));
    MC_TRY(mc_codec_check_same("objects.payload_len", pb->n_payload_len, pb->n_segment));
    return mc_codec_check_same("objects.capability", pb->n_capability, pb->n_segment);
}

static mooncake_err read_segments(const Mc__Pb__ObjectTable *pb, struct mc_arena *arena,
                                  struct mc_object_table *out)
{
    size_t i;

    out->segments_count = (uint32_t)pb->n_mount_id;
    out->segments = mc_arena_array(arena, pb->n_mount_id, sizeof(*out->segments));
    if (out->segments == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (i = 0; i < pb->n_mount_id; i++) {
        out->segments[i] = (struct mc_segment_info){.mount_id = pb->mount_id[i],
                                                    .name = pb->segment_name[i],
                                                    .addresses = pb->addresses[i],
                                                    .host = pb->host[i]};
        MC_TRY(check_segment(&out->segments[i]));
    }
    return MOONCAKE_OK;
}

/* Where the next replica and extent are taken from and put. */
struct reader {
    const Mc__Pb__ObjectTable *pb;
    const struct mc_segment_info *segments;
    uint32_t rights;
    size_t replica, extent;           /* next in the wire's arrays and in ours */
    struct mc_replica_info *replicas; /* one an element of extent_count */
    struct mc_extent_ref *extents;    /* one an element of segment */
};

static mooncake_err read_replica(struct reader *in, const struct mc_object_info *object)
{
    const Mc__Pb__ObjectTable *pb = in->pb;
    struct mc_replica_info *replica = &in->replicas[in->replica];
    uint32_t count = pb->extent_count[in->replica], i;

    if (count > pb->n_segment - in->extent) {
        return bad("extent_count adds up to more than the extents");
    }
    replica->extents_count = count;
    replica->extents = in->extents + in->extent;
    replica->segment = pb->segment + in->extent;
    for (i = 0; i < count; i++, in->extent++) {
        uint32_t segment = pb->segment[in->extent];

        in->extents[in->extent] = (struct mc_extent_ref){
            .mount_id = segment < pb->n_mount_id ? in->segments[segment].mount_id : 0,
            .offset = pb->offset[in->extent],
            .payload_len = pb->payload_len[in->extent],
            .capability = pb->capability[in->extent],
            .object_id = object->id,
            .slice_index = i,
            .slice_count = count,
            .rights = in->rights,
        };
    }
    in->replica++;
    return check_replica(replica, object->value_len, (uint32_t)pb->n_mount_id);
}

static mooncake_err read_objects(struct reader *in, struct mc_object_table *out)
{
    const Mc__Pb__ObjectTable *pb = in->pb;
    size_t i;
    uint32_t r;

    for (i = 0; i < out->count; i++) {
        struct mc_object_info *object = &out->objects[i];

        *object = (struct mc_object_info){
            .id = {.hi = pb->object_id_hi[i], .lo = pb->object_id_lo[i]},
            .value_len = pb->value_len[i],
            .replicas = in->replicas + in->replica,
            .replicas_count = pb->replica_count[i],
        };
        if (object->replicas_count > MC_REPLICAS_MAX) {
            return bad("replica_count is out of range");
        }
        if (object->replicas_count > pb->n_extent_count - in->replica) {
            return bad("replica_count adds up to more than the replicas");
        }
        for (r = 0; r < object->replicas_count; r++) {
            MC_TRY(read_replica(in, object));
        }
    }
    if (in->replica != pb->n_extent_count || in->extent != pb->n_segment) {
        return bad("replicas or extents belong to no item");
    }
    return MOONCAKE_OK;
}

mooncake_err mc_codec_table_read(const Mc__Pb__ObjectTable *pb, uint32_t rights,
                                 struct mc_arena *arena, struct mc_object_table *out)
{
    static const Mc__Pb__ObjectTable none = MC__PB__OBJECT_TABLE__INIT;
    struct reader in = {.pb = pb == NULL ? &none : pb, .rights = rights};

    MC_TRY(check_shape(in.pb));
    MC_TRY(read_segments(in.pb, arena, out));
    out->count = in.pb->n_value_len;
    out->objects = mc_arena_array(arena, out->count, sizeof(*out->objects));
    in.segments = out->segments;
    in.replicas = mc_arena_array(arena, in.pb->n_extent_count, sizeof(*in.replicas));
    in.extents = mc_arena_array(arena, in.pb->n_segment, sizeof(*in.extents));
    if (out->objects == NULL || in.replicas == NULL || in.extents == NULL) {
        return MOONCAKE_ENOMEM;
    }
    return read_objects(&in, out);
}
