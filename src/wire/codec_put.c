/* PutStart, PutEnd, PutRevoke; and the reply that is nothing but statuses. */
#include "base/err.h"
#include "wire/codec.h"

/* ---- replies that are one status an item ----------------------------------------------------- */

mooncake_err mc_codec_status_reply_encode(const void *message, struct mc_buf *out)
{
    const struct mc_status_reply *reply = message;
    Mc__Pb__StatusReply pb = MC__PB__STATUS_REPLY__INIT;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_statuses_fill(&scratch, reply->statuses, reply->count, &pb.status);
    if (err == MOONCAKE_OK) {
        pb.n_status = reply->count;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_codec_status_reply_decode(const uint8_t *body, size_t len, struct mc_arena *arena,
                                          void *message)
{
    struct mc_status_reply *reply = message;
    const Mc__Pb__StatusReply *pb;

    MC_TRY(
        mc_codec_unpack(&mc__pb__status_reply__descriptor, body, len, MC_CODEC_KEYS, arena, &pb));
    reply->count = pb->n_status;
    return mc_codec_statuses_read(pb->status, pb->n_status, arena, &reply->statuses);
}

/* ---- PutStart -------------------------------------------------------------------------------- */

/* PutStartRequest.flags */
#define FLAG_UPSERT 1u

static mooncake_err check_preferred(const char *const *names, size_t count)
{
    size_t i;

    MC_TRY(mc_codec_check_count("preferred_segment", count, MC_PREFERRED_SEGMENTS_MAX));
    for (i = 0; i < count; i++) {
        if (names[i] == NULL) { /* an element may not be absent; protobuf-c would read it */
            return mc_err_set(MOONCAKE_EINVAL, "preferred_segment: element %zu is NULL", i);
        }
        MC_TRY(mc_codec_check_text("preferred_segment", names[i], MC_SEGMENT_NAME_LEN_MAX));
    }
    return MOONCAKE_OK;
}

static mooncake_err check_replicas(uint32_t replicas)
{
    if (replicas < 1 || replicas > MC_REPLICAS_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "replicas: %u is not within 1 to %u", replicas,
                          MC_REPLICAS_MAX);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_put_start_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_put_start_request *request = message;
    Mc__Pb__PutStartRequest pb = MC__PB__PUT_START_REQUEST__INIT;
    Mc__Pb__KeySet keys;
    struct mc_arena scratch;
    mooncake_err err;

    MC_TRY(check_preferred(request->preferred_segments, request->preferred_count));
    MC_TRY(check_replicas(request->replicas));
    MC_TRY(mc_codec_check_count("excluded_mount", request->excluded_count, MC_EXCLUDED_MOUNTS_MAX));
    mc_arena_init(&scratch, 0);
    err = mc_codec_keys_fill(&scratch, request->keys, request->count, &keys);
    if (err == MOONCAKE_OK) {
        pb.client_id = request->client_id;
        pb.nonce = request->nonce;
        pb.keys = &keys;
        pb.value_len = mc_codec_unconst(request->value_lens);
        pb.n_value_len = request->count;
        pb.replicas = request->replicas;
        pb.all_replicas = request->all_replicas;
        pb.soft_pin = request->soft_pin;
        pb.soft_pin_ms = request->soft_pin_ms;
        pb.hard_pin = request->hard_pin;
        pb.flags = request->upsert ? FLAG_UPSERT : 0;
        pb.preferred_segment = mc_codec_unconst(request->preferred_segments);
        pb.n_preferred_segment = request->preferred_count;
        pb.excluded_mount = mc_codec_unconst(request->excluded_mounts);
        pb.n_excluded_mount = request->excluded_count;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_put_start_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                         void *message)
{
    struct mc_put_start_request *request = message;
    const Mc__Pb__PutStartRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__put_start_request__descriptor, body, len, MC_CODEC_KEYS, arena,
                           &pb));
    *request = (struct mc_put_start_request){
        .client_id = pb->client_id,
        .nonce = pb->nonce,
        .value_lens = pb->value_len,
        .replicas = pb->replicas,
        .all_replicas = pb->all_replicas,
        .soft_pin = pb->soft_pin,
        .hard_pin = pb->hard_pin,
        .upsert = (pb->flags & FLAG_UPSERT) != 0,
        .soft_pin_ms = pb->soft_pin_ms,
        .preferred_segments = (const char *const *)pb->preferred_segment,
        .preferred_count = pb->n_preferred_segment,
        .excluded_mounts = pb->excluded_mount,
        .excluded_count = pb->n_excluded_mount,
    };
    MC_TRY(mc_codec_keys_read(pb->keys, arena, &request->keys, &request->count));
    MC_TRY(mc_codec_check_same("value_len", pb->n_value_len, request->count));
    if ((pb->flags & ~FLAG_UPSERT) != 0) {
        return mc_err_set(MOONCAKE_EINVAL, "flags: 0x%x has bits that this program does not know",
                          pb->flags);
    }
    MC_TRY(check_replicas(request->replicas));
    MC_TRY(mc_codec_check_count("excluded_mount", request->excluded_count, MC_EXCLUDED_MOUNTS_MAX));
    return check_preferred(request->preferred_segments, request->preferred_count);
}

mooncake_err mc_put_start_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_put_start_reply *reply = message;
    Mc__Pb__PutStartReply pb = MC__PB__PUT_START_REPLY__INIT;
    Mc__Pb__ObjectTable table;
    struct mc_arena scratch;
    size_t count = reply->table.count;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_table_fill(&scratch, &reply->table, &table);
    if (err == MOONCAKE_OK) {
        err = mc_codec_statuses_fill(&scratch, reply->statuses, count, &pb.status);
    }
    if (err == MOONCAKE_OK) {
        pb.n_status = count;
        pb.attempt = reply->attempts;
        pb.n_attempt = count;
        pb.objects = &table;
        pb.retry_after_ms = reply->retry_after_ms;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_put_start_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                       void *message)
{
    struct mc_put_start_reply *reply = message;
    const Mc__Pb__PutStartReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__put_start_reply__descriptor, body, len, MC_CODEC_TABLE, arena,
                           &pb));
    MC_TRY(mc_codec_table_read(pb->objects, MC_RIGHT_WRITE, arena, &reply->table));
    MC_TRY(mc_codec_check_same("status", pb->n_status, reply->table.count));
    MC_TRY(mc_codec_check_same("attempt", pb->n_attempt, reply->table.count));
    reply->attempts = pb->attempt;
    reply->retry_after_ms = pb->retry_after_ms;
    return mc_codec_statuses_read(pb->status, pb->n_status, arena, &reply->statuses);
}

/* ---- PutEnd ---------------------------------------------------------------------------------- */

mooncake_err mc_put_end_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_put_end_request *request = message;
    Mc__Pb__PutEndRequest pb = MC__PB__PUT_END_REQUEST__INIT;
    Mc__Pb__KeySet keys;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_keys_fill(&scratch, request->keys, request->count, &keys);
    if (err == MOONCAKE_OK) {
        pb.client_id = request->client_id;
        pb.keys = &keys;
        pb.attempt = mc_codec_unconst(request->attempts);
        pb.n_attempt = request->count;
        pb.failed_replicas = mc_codec_unconst(request->failed_replicas);
        pb.n_failed_replicas = request->failed_replicas == NULL ? 0 : request->count;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_put_end_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                       void *message)
{
    struct mc_put_end_request *request = message;
    const Mc__Pb__PutEndRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__put_end_request__descriptor, body, len, MC_CODEC_KEYS, arena,
                           &pb));
    *request = (struct mc_put_end_request){
        .client_id = pb->client_id,
        .attempts = pb->attempt,
        .failed_replicas = pb->n_failed_replicas == 0 ? NULL : pb->failed_replicas,
    };
    MC_TRY(mc_codec_keys_read(pb->keys, arena, &request->keys, &request->count));
    MC_TRY(mc_codec_check_same("attempt", pb->n_attempt, request->count));
    if (pb->n_failed_replicas > 0) {
        MC_TRY(mc_codec_check_same("failed_replicas", pb->n_failed_replicas, request->count));
    }
    return MOONCAKE_OK;
}

mooncake_err mc_put_end_encode_reply(const void *message, struct mc_buf *out)
{
    return mc_codec_status_reply_encode(message, out);
}

mooncake_err mc_put_end_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                     void *message)
{
    return mc_codec_status_reply_decode(body, len, arena, message);
}

/* ---- PutRevoke ------------------------------------------------------------------------------- */

mooncake_err mc_put_revoke_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_put_end_request *request = message;
    Mc__Pb__PutRevokeRequest pb = MC__PB__PUT_REVOKE_REQUEST__INIT;
    Mc__Pb__KeySet keys;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_keys_fill(&scratch, request->keys, request->count, &keys);
    if (err == MOONCAKE_OK) {
        pb.client_id = request->client_id;
        pb.keys = &keys;
        pb.attempt = mc_codec_unconst(request->attempts);
        pb.n_attempt = request->count;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_put_revoke_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                          void *message)
{
    struct mc_put_end_request *request = message;
    const Mc__Pb__PutRevokeRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__put_revoke_request__descriptor, body, len, MC_CODEC_KEYS, arena,
                           &pb));
    *request = (struct mc_put_end_request){.client_id = pb->client_id, .attempts = pb->attempt};
    MC_TRY(mc_codec_keys_read(pb->keys, arena, &request->keys, &request->count));
    return mc_codec_check_same("attempt", pb->n_attempt, request->count);
}

mooncake_err mc_put_revoke_encode_reply(const void *message, struct mc_buf *out)
{
    return mc_codec_status_reply_encode(message, out);
}

mooncake_err mc_put_revoke_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                        void *message)
{
    return mc_codec_status_reply_decode(body, len, arena, message);
}
