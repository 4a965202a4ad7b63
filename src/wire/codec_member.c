/* Who is there: Hello, Mount, Unmount, Ping, Report. */
#include "base/err.h"
#include "wire/codec.h"

#define STORE_SEGMENTS                                                                             \
    ((struct mc_codec_bounds){MC_SEGMENTS_PER_STORE_MAX, MC_SEGMENTS_PER_STORE_MAX})

/* ---- Hello ----------------------------------------------------------------------------------- */

mooncake_err mc_hello_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_hello *hello = message;
    Mc__Pb__Hello pb;

    mc__pb__hello__init(&pb);
    MC_TRY(mc_codec_check_text("program", hello->program, MC_PROGRAM_LEN_MAX));
    pb.protocol_min = hello->protocol_min;
    pb.protocol_max = hello->protocol_max;
    pb.program = mc_codec_unconst(hello->program);
    pb.client_id = hello->client_id;
    pb.features = hello->features;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_hello_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                     void *message)
{
    struct mc_hello *hello = message;
    const Mc__Pb__Hello *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__hello__descriptor, body, len, MC_CODEC_NO_ARRAYS, arena, &pb));
    *hello = (struct mc_hello){.protocol_min = pb->protocol_min,
                               .protocol_max = pb->protocol_max,
                               .program = pb->program,
                               .client_id = pb->client_id,
                               .features = pb->features};
    return mc_codec_check_text("program", hello->program, MC_PROGRAM_LEN_MAX);
}

mooncake_err mc_hello_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_hello_reply *reply = message;
    Mc__Pb__HelloReply pb;

    mc__pb__hello_reply__init(&pb);
    MC_TRY(mc_codec_check_text("program", reply->program, MC_PROGRAM_LEN_MAX));
    pb.protocol = reply->protocol;
    pb.program = mc_codec_unconst(reply->program);
    pb.master_epoch = reply->master_epoch;
    pb.features = reply->features;
    pb.body_len_max = reply->body_len_max;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_hello_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                   void *message)
{
    struct mc_hello_reply *reply = message;
    const Mc__Pb__HelloReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__hello_reply__descriptor, body, len, MC_CODEC_NO_ARRAYS, arena,
                           &pb));
    *reply = (struct mc_hello_reply){.protocol = pb->protocol,
                                     .program = pb->program,
                                     .master_epoch = pb->master_epoch,
                                     .features = pb->features,
                                     .body_len_max = pb->body_len_max};
    return mc_codec_check_text("program", reply->program, MC_PROGRAM_LEN_MAX);
}

/* ---- Mount ----------------------------------------------------------------------------------- */

static mooncake_err check_mount(const struct mc_mount_request *request)
{
    const struct mc_codec_text texts[] = {
        {"host", request->host, MC_ADDR_LEN_MAX},
        {"program", request->program, MC_PROGRAM_LEN_MAX},
    };
    size_t i;

    MC_TRY(mc_codec_check_count("mount_id", request->count, MC_SEGMENTS_PER_STORE_MAX));
    MC_TRY(mc_codec_check_texts(texts, MC_ARRAY_LEN(texts)));
    for (i = 0; i < request->count; i++) {
        const struct mc_mount_item *item = &request->items[i];
        const struct mc_codec_text item_texts[] = {
            {"segment_name", item->name, MC_SEGMENT_NAME_LEN_MAX},
            {"addresses", item->addresses, MC_ADDRESSES_LEN_MAX},
        };

        MC_TRY(mc_codec_check_texts(item_texts, MC_ARRAY_LEN(item_texts)));
    }
    return MOONCAKE_OK;
}

mooncake_err mc_mount_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_mount_request *request = message;
    Mc__Pb__MountRequest pb;
    uint64_t numbers[4][MC_SEGMENTS_PER_STORE_MAX];
    char *names[MC_SEGMENTS_PER_STORE_MAX], *addresses[MC_SEGMENTS_PER_STORE_MAX];
    size_t i;

    mc__pb__mount_request__init(&pb);
    MC_TRY(check_mount(request));
    for (i = 0; i < request->count; i++) {
        const struct mc_mount_item *item = &request->items[i];

        names[i] = mc_codec_text_element(item->name);
        addresses[i] = mc_codec_text_element(item->addresses);
        numbers[0][i] = item->mount_id;
        numbers[1][i] = item->len;
        numbers[2][i] = item->secret[0];
        numbers[3][i] = item->secret[1];
    }
    pb.client_id = request->client_id;
    pb.host = mc_codec_unconst(request->host);
    pb.program = mc_codec_unconst(request->program);
    pb.again = request->again;
    pb.segment_name = names;
    pb.mount_id = numbers[0];
    pb.len = numbers[1];
    pb.secret_0 = numbers[2];
    pb.secret_1 = numbers[3];
    pb.addresses = addresses;
    pb.n_segment_name = pb.n_mount_id = pb.n_len = request->count;
    pb.n_secret_0 = pb.n_secret_1 = pb.n_addresses = request->count;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_mount_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                     void *message)
{
    struct mc_mount_request *request = message;
    const Mc__Pb__MountRequest *pb;
    struct mc_mount_item *items;
    size_t count, i;

    MC_TRY(
        mc_codec_unpack(&mc__pb__mount_request__descriptor, body, len, STORE_SEGMENTS, arena, &pb));
    count = pb->n_mount_id;
    MC_TRY(mc_codec_check_same("segment_name", pb->n_segment_name, count));
    MC_TRY(mc_codec_check_same("len", pb->n_len, count));
    MC_TRY(mc_codec_check_same("secret_0", pb->n_secret_0, count));
    MC_TRY(mc_codec_check_same("secret_1", pb->n_secret_1, count));
    MC_TRY(mc_codec_check_same("addresses", pb->n_addresses, count));
    items = mc_arena_array(arena, count, sizeof(*items));
    if (items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (i = 0; i < count; i++) {
        items[i] = (struct mc_mount_item){.name = pb->segment_name[i],
                                          .addresses = pb->addresses[i],
                                          .mount_id = pb->mount_id[i],
                                          .len = pb->len[i],
                                          .secret = {pb->secret_0[i], pb->secret_1[i]}};
    }
    *request = (struct mc_mount_request){.client_id = pb->client_id,
                                         .host = pb->host,
                                         .program = pb->program,
                                         .again = pb->again,
                                         .items = items,
                                         .count = count};
    return check_mount(request);
}

mooncake_err mc_mount_encode_reply(const void *message, struct mc_buf *out)
{
    return mc_codec_status_reply_encode(message, out);
}

mooncake_err mc_mount_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                   void *message)
{
    return mc_codec_status_reply_decode(body, len, arena, message);
}

/* ---- Unmount --------------------------------------------------------------------------------- */

mooncake_err mc_unmount_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_unmount_request *request = message;
    Mc__Pb__UnmountRequest pb = MC__PB__UNMOUNT_REQUEST__INIT;

    MC_TRY(mc_codec_check_count("mount_id", request->count, MC_SEGMENTS_PER_STORE_MAX));
    pb.client_id = request->client_id;
    pb.mount_id = mc_codec_unconst(request->mount_ids);
    pb.n_mount_id = request->count;
    pb.grace_ms = request->grace_ms;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_unmount_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                       void *message)
{
    struct mc_unmount_request *request = message;
    const Mc__Pb__UnmountRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__unmount_request__descriptor, body, len, STORE_SEGMENTS, arena,
                           &pb));
    *request = (struct mc_unmount_request){.client_id = pb->client_id,
                                           .mount_ids = pb->mount_id,
                                           .count = pb->n_mount_id,
                                           .grace_ms = pb->grace_ms};
    return MOONCAKE_OK;
}

mooncake_err mc_unmount_encode_reply(const void *message, struct mc_buf *out)
{
    return mc_codec_status_reply_encode(message, out);
}

mooncake_err mc_unmount_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                     void *message)
{
    return mc_codec_status_reply_decode(body, len, arena, message);
}

/* ---- Ping ------------------------------------------------------------------------------------ */

static mooncake_err check_ping(const struct mc_ping_request *request)
{
    const struct mc_codec_text texts[] = {
        {"host", request->host, MC_ADDR_LEN_MAX},
        {"program", request->program, MC_PROGRAM_LEN_MAX},
    };

    if (request->role < MC_ROLE_CLIENT || request->role > MC_ROLE_TOOL) {
        return mc_err_set(MOONCAKE_EINVAL, "role: %u is not a role", request->role);
    }
    MC_TRY(mc_codec_check_count("mount_id", request->count, MC_SEGMENTS_PER_STORE_MAX));
    return mc_codec_check_texts(texts, MC_ARRAY_LEN(texts));
}

mooncake_err mc_ping_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_ping_request *request = message;
    Mc__Pb__PingRequest pb;

    mc__pb__ping_request__init(&pb);
    MC_TRY(check_ping(request));
    pb.client_id = request->client_id;
    pb.role = request->role;
    pb.host = mc_codec_unconst(request->host);
    pb.program = mc_codec_unconst(request->program);
    pb.mount_id = mc_codec_unconst(request->mount_ids);
    pb.n_mount_id = request->count;
    pb.leaving = request->leaving;
    pb.read_failovers = request->counts.read_failovers;
    pb.rdma_fallbacks = request->counts.rdma_fallbacks;
    pb.shm_fallbacks = request->counts.shm_fallbacks;
    pb.other_fallbacks = request->counts.other_fallbacks;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_ping_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                    void *message)
{
    struct mc_ping_request *request = message;
    const Mc__Pb__PingRequest *pb;

    MC_TRY(
        mc_codec_unpack(&mc__pb__ping_request__descriptor, body, len, STORE_SEGMENTS, arena, &pb));
    *request = (struct mc_ping_request){.client_id = pb->client_id,
                                        .role = pb->role,
                                        .host = pb->host,
                                        .program = pb->program,
                                        .mount_ids = pb->mount_id,
                                        .count = pb->n_mount_id,
                                        .leaving = pb->leaving,
                                        .counts = {.read_failovers = pb->read_failovers,
                                                   .rdma_fallbacks = pb->rdma_fallbacks,
                                                   .shm_fallbacks = pb->shm_fallbacks,
                                                   .other_fallbacks = pb->other_fallbacks}};
    return check_ping(request);
}

mooncake_err mc_ping_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_ping_reply *reply = message;
    Mc__Pb__PingReply pb = MC__PB__PING_REPLY__INIT;

    MC_TRY(
        mc_codec_check_count("unknown_mount_id", reply->unknown_count, MC_SEGMENTS_PER_STORE_MAX));
    pb.master_epoch = reply->master_epoch;
    pb.unknown_mount_id = reply->unknown_mount_ids;
    pb.n_unknown_mount_id = reply->unknown_count;
    pb.client_ttl_ms = reply->client_ttl_ms;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_ping_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                  void *message)
{
    struct mc_ping_reply *reply = message;
    const Mc__Pb__PingReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__ping_reply__descriptor, body, len, STORE_SEGMENTS, arena, &pb));
    *reply = (struct mc_ping_reply){.master_epoch = pb->master_epoch,
                                    .unknown_mount_ids = pb->unknown_mount_id,
                                    .unknown_count = pb->n_unknown_mount_id,
                                    .client_ttl_ms = pb->client_ttl_ms};
    return MOONCAKE_OK;
}

/* ---- Report ---------------------------------------------------------------------------------- */

/* The items of a report turned into parallel arrays. */
struct report_arrays {
    struct mc_key *keys;
    uint64_t *mount_ids, *object_ids_lo;
    int32_t *reasons;
};

static mooncake_err split_report(struct mc_arena *scratch, const struct mc_report_request *request,
                                 struct report_arrays *out)
{
    size_t count = request->count, i;

    MC_TRY(mc_codec_check_count("mount_id", count, MC_BATCH_KEYS_MAX));
    out->keys = mc_arena_array(scratch, count, sizeof(*out->keys));
    out->mount_ids = mc_arena_array(scratch, count, sizeof(*out->mount_ids));
    out->object_ids_lo = mc_arena_array(scratch, count, sizeof(*out->object_ids_lo));
    out->reasons = mc_arena_array(scratch, count, sizeof(*out->reasons));
    if (out->keys == NULL || out->mount_ids == NULL || out->object_ids_lo == NULL ||
        out->reasons == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (i = 0; i < count; i++) {
        out->keys[i] = request->items[i].key;
        out->mount_ids[i] = request->items[i].mount_id;
        out->object_ids_lo[i] = request->items[i].object_id_lo;
        out->reasons[i] = (int32_t)request->items[i].reason;
    }
    return MOONCAKE_OK;
}

mooncake_err mc_report_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_report_request *request = message;
    Mc__Pb__ReportRequest pb = MC__PB__REPORT_REQUEST__INIT;
    Mc__Pb__KeySet keys;
    struct report_arrays arrays;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = split_report(&scratch, request, &arrays);
    if (err == MOONCAKE_OK) {
        err = mc_codec_keys_fill(&scratch, arrays.keys, request->count, &keys);
    }
    if (err == MOONCAKE_OK) {
        pb.client_id = request->client_id;
        pb.mount_id = arrays.mount_ids;
        pb.reason = arrays.reasons;
        pb.keys = &keys;
        pb.object_id_lo = arrays.object_ids_lo;
        pb.n_mount_id = pb.n_reason = pb.n_object_id_lo = request->count;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_report_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                      void *message)
{
    struct mc_report_request *request = message;
    const Mc__Pb__ReportRequest *pb;
    const struct mc_key *keys;
    struct mc_report_item *items;
    size_t count, i;

    MC_TRY(
        mc_codec_unpack(&mc__pb__report_request__descriptor, body, len, MC_CODEC_KEYS, arena, &pb));
    MC_TRY(mc_codec_keys_read(pb->keys, arena, &keys, &count));
    MC_TRY(mc_codec_check_same("mount_id", pb->n_mount_id, count));
    MC_TRY(mc_codec_check_same("reason", pb->n_reason, count));
    MC_TRY(mc_codec_check_same("object_id_lo", pb->n_object_id_lo, count));
    items = mc_arena_array(arena, count, sizeof(*items));
    if (items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (i = 0; i < count; i++) {
        items[i] = (struct mc_report_item){.mount_id = pb->mount_id[i],
                                           .reason = mc_err_from_wire(pb->reason[i]),
                                           .key = keys[i],
                                           .object_id_lo = pb->object_id_lo[i]};
    }
    *request =
        (struct mc_report_request){.client_id = pb->client_id, .items = items, .count = count};
    return MOONCAKE_OK;
}

mooncake_err mc_report_encode_reply(const void *message, struct mc_buf *out)
{
    return mc_codec_status_reply_encode(message, out);
}

mooncake_err mc_report_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                    void *message)
{
    return mc_codec_status_reply_decode(body, len, arena, message);
}
