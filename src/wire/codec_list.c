/* Long lists, told in pages: segments and clients. */
#include "base/err.h"
#include "wire/codec.h"

/* Processes that may ping one master: as many as it takes connections. */
#define CLIENTS_MAX MC_CONNECTIONS_MAX

#define ROWS(rows_max) ((struct mc_codec_bounds){(rows_max), (rows_max)})

/* ---- requests -------------------------------------------------------------------------------- */

/* The messages of both methods are alike. */
#define LIST_REQUEST(name, Name)                                                                   \
    mooncake_err mc_##name##_encode_request(const void *message, struct mc_buf *out)               \
    {                                                                                              \
        const struct mc_list_request *request = message;                                           \
        Mc__Pb__##Name##Request pb;                                                                \
                                                                                                   \
        mc__pb__##name##_request__init(&pb);                                                       \
        pb.cursor = request->cursor;                                                               \
        pb.items_max = request->items_max;                                                         \
        return mc_codec_pack(&pb.base, out);                                                       \
    }                                                                                              \
    mooncake_err mc_##name##_decode_request(const uint8_t *body, size_t len,                       \
                                            struct mc_arena *arena, void *message)                 \
    {                                                                                              \
        struct mc_list_request *request = message;                                                 \
        const Mc__Pb__##Name##Request *pb;                                                         \
                                                                                                   \
        MC_TRY(mc_codec_unpack(&mc__pb__##name##_request__descriptor, body, len,                   \
                               MC_CODEC_NO_ARRAYS, arena, &pb));                                   \
        *request = (struct mc_list_request){.cursor = pb->cursor, .items_max = pb->items_max};     \
        return MOONCAKE_OK;                                                                        \
    }

LIST_REQUEST(list_segments, ListSegments)
LIST_REQUEST(list_clients, ListClients)

/* ---- ListSegments ---------------------------------------------------------------------------- */

/* X(field): an element a segment, named alike on both sides. The later ones may be absent as a
 * whole, which means 0: older masters do not send them. */
#define SEGMENT_NUMBERS(X)                                                                         \
    X(mount_id)                                                                                    \
    X(client_id)                                                                                   \
    X(len)                                                                                         \
    X(used)                                                                                        \
    X(largest_free_extent)                                                                         \
    X(extents)                                                                                     \
    X(state)
#define SEGMENT_LATER_NUMBERS(X)                                                                   \
    X(evictable)                                                                                   \
    X(leased)                                                                                      \
    X(soft_pinned)                                                                                 \
    X(hard_pinned)                                                                                 \
    X(writing)                                                                                     \
    X(parked)                                                                                      \
    X(next_lease_ms)                                                                               \
    X(next_lease_bytes)                                                                            \
    X(reason)                                                                                      \
    X(reason_ms)                                                                                   \
    X(ping_age_ms)

static mooncake_err check_segment(const struct mc_segment_status *item)
{
    const struct mc_codec_text texts[] = {
        {"segment_name", item->name, MC_SEGMENT_NAME_LEN_MAX},
        {"host", item->host, MC_ADDR_LEN_MAX},
        {"addresses", item->addresses, MC_ADDRESSES_LEN_MAX},
    };

    if (item->state < MC_SEGMENT_OK || item->state > MC_SEGMENT_GONE) {
        return mc_err_set(MOONCAKE_EINVAL, "state: %u is not a segment's state", item->state);
    }
    return mc_codec_check_texts(texts, MC_ARRAY_LEN(texts));
}

static mooncake_err alloc_segments(struct mc_arena *scratch, size_t count,
                                   Mc__Pb__ListSegmentsReply *pb)
{
    bool all = true;

#define ALLOC(field)                                                                               \
    pb->field = mc_arena_array(scratch, count, sizeof(*pb->field));                                \
    pb->n_##field = count;                                                                         \
    all = all && pb->field != NULL;
    ALLOC(segment_name)
    ALLOC(host)
    ALLOC(addresses)
    SEGMENT_NUMBERS(ALLOC)
    SEGMENT_LATER_NUMBERS(ALLOC)
#undef ALLOC
    return all ? MOONCAKE_OK : MOONCAKE_ENOMEM;
}

static mooncake_err fill_segments(struct mc_arena *scratch,
                                  const struct mc_list_segments_reply *reply,
                                  Mc__Pb__ListSegmentsReply *pb)
{
    MC_TRY(mc_codec_check_count("mount_id", reply->count, MC_SEGMENTS_MAX));
    MC_TRY(alloc_segments(scratch, reply->count, pb));
    pb->cursor = reply->cursor;
    for (size_t i = 0; i < reply->count; i++) {
        const struct mc_segment_status *item = &reply->items[i];

        MC_TRY(check_segment(item));
        pb->segment_name[i] = mc_codec_text_element(item->name);
        pb->host[i] = mc_codec_text_element(item->host);
        pb->addresses[i] = mc_codec_text_element(item->addresses);
#define FILL(field) pb->field[i] = item->field;
        SEGMENT_NUMBERS(FILL)
        SEGMENT_LATER_NUMBERS(FILL)
#undef FILL
    }
    return MOONCAKE_OK;
}

mooncake_err mc_list_segments_encode_reply(const void *message, struct mc_buf *out)
{
    Mc__Pb__ListSegmentsReply pb = MC__PB__LIST_SEGMENTS_REPLY__INIT;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = fill_segments(&scratch, message, &pb);
    if (err == MOONCAKE_OK) {
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

static mooncake_err check_segments_shape(const Mc__Pb__ListSegmentsReply *pb)
{
    size_t count = pb->n_mount_id;

#define SAME(field) MC_TRY(mc_codec_check_same(#field, pb->n_##field, count));
#define SAME_OR_NONE(field)                                                                        \
    MC_TRY(mc_codec_check_same(#field, pb->n_##field, pb->n_##field == 0 ? 0 : count));
    SAME(segment_name)
    SAME(host)
    SAME(addresses)
    SEGMENT_NUMBERS(SAME)
    SEGMENT_LATER_NUMBERS(SAME_OR_NONE)
#undef SAME
#undef SAME_OR_NONE
    return MOONCAKE_OK;
}

static mooncake_err read_segment(const Mc__Pb__ListSegmentsReply *pb, size_t i,
                                 struct mc_segment_status *item)
{
    *item = (struct mc_segment_status){
        .name = pb->segment_name[i], .host = pb->host[i], .addresses = pb->addresses[i]};
#define READ(field) item->field = pb->field[i];
#define READ_IF(field) item->field = pb->n_##field == 0 ? 0 : pb->field[i];
    SEGMENT_NUMBERS(READ)
    SEGMENT_LATER_NUMBERS(READ_IF)
#undef READ
#undef READ_IF
    return check_segment(item);
}

mooncake_err mc_list_segments_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                           void *message)
{
    struct mc_list_segments_reply *reply = message;
    const Mc__Pb__ListSegmentsReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__list_segments_reply__descriptor, body, len,
                           ROWS(MC_SEGMENTS_MAX), arena, &pb));
    MC_TRY(check_segments_shape(pb));
    reply->count = pb->n_mount_id;
    reply->cursor = pb->cursor;
    reply->items = mc_arena_array(arena, reply->count, sizeof(*reply->items));
    if (reply->items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < reply->count; i++) {
        MC_TRY(read_segment(pb, i, &reply->items[i]));
    }
    return MOONCAKE_OK;
}

/* ---- ListClients ----------------------------------------------------------------------------- */

static mooncake_err check_client(const struct mc_client_status *item)
{
    const struct mc_codec_text texts[] = {
        {"host", item->host, MC_ADDR_LEN_MAX},
        {"program", item->program, MC_PROGRAM_LEN_MAX},
    };

    return mc_codec_check_texts(texts, MC_ARRAY_LEN(texts));
}

static mooncake_err fill_clients(struct mc_arena *scratch,
                                 const struct mc_list_clients_reply *reply,
                                 Mc__Pb__ListClientsReply *pb)
{
    size_t count = reply->count, i;

    MC_TRY(mc_codec_check_count("client_id", count, CLIENTS_MAX));
    pb->client_id = mc_arena_array(scratch, count, sizeof(*pb->client_id));
    pb->role = mc_arena_array(scratch, count, sizeof(*pb->role));
    pb->host = mc_arena_array(scratch, count, sizeof(*pb->host));
    pb->program = mc_arena_array(scratch, count, sizeof(*pb->program));
    pb->ping_age_ms = mc_arena_array(scratch, count, sizeof(*pb->ping_age_ms));
    pb->segments = mc_arena_array(scratch, count, sizeof(*pb->segments));
    if (pb->client_id == NULL || pb->role == NULL || pb->host == NULL || pb->program == NULL ||
        pb->ping_age_ms == NULL || pb->segments == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (i = 0; i < count; i++) {
        const struct mc_client_status *item = &reply->items[i];

        MC_TRY(check_client(item));
        pb->client_id[i] = item->client_id;
        pb->role[i] = item->role;
        pb->host[i] = mc_codec_text_element(item->host);
        pb->program[i] = mc_codec_text_element(item->program);
        pb->ping_age_ms[i] = item->ping_age_ms;
        pb->segments[i] = item->segments;
    }
    pb->n_client_id = pb->n_role = pb->n_host = count;
    pb->n_program = pb->n_ping_age_ms = pb->n_segments = count;
    pb->cursor = reply->cursor;
    return MOONCAKE_OK;
}

mooncake_err mc_list_clients_encode_reply(const void *message, struct mc_buf *out)
{
    Mc__Pb__ListClientsReply pb = MC__PB__LIST_CLIENTS_REPLY__INIT;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = fill_clients(&scratch, message, &pb);
    if (err == MOONCAKE_OK) {
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_list_clients_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                          void *message)
{
    struct mc_list_clients_reply *reply = message;
    const Mc__Pb__ListClientsReply *pb;
    size_t count, i;

    MC_TRY(mc_codec_unpack(&mc__pb__list_clients_reply__descriptor, body, len, ROWS(CLIENTS_MAX),
                           arena, &pb));
    count = pb->n_client_id;
    MC_TRY(mc_codec_check_same("role", pb->n_role, count));
    MC_TRY(mc_codec_check_same("host", pb->n_host, count));
    MC_TRY(mc_codec_check_same("program", pb->n_program, count));
    MC_TRY(mc_codec_check_same("ping_age_ms", pb->n_ping_age_ms, count));
    MC_TRY(mc_codec_check_same("segments", pb->n_segments, count));
    reply->count = count;
    reply->cursor = pb->cursor;
    reply->items = mc_arena_array(arena, count, sizeof(*reply->items));
    if (reply->items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (i = 0; i < count; i++) {
        reply->items[i] = (struct mc_client_status){.client_id = pb->client_id[i],
                                                    .ping_age_ms = pb->ping_age_ms[i],
                                                    .host = pb->host[i],
                                                    .program = pb->program[i],
                                                    .role = pb->role[i],
                                                    .segments = pb->segments[i]};
        MC_TRY(check_client(&reply->items[i]));
    }
    return MOONCAKE_OK;
}
