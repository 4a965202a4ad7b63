/* What is asked and done by key: Query, Exist, Remove, RemoveAll. */
#include "base/err.h"
#include "wire/codec.h"

/* ---- Query ----------------------------------------------------------------------------------- */

mooncake_err mc_query_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_keys_request *request = message;
    Mc__Pb__QueryRequest pb = MC__PB__QUERY_REQUEST__INIT;
    Mc__Pb__KeySet keys;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_keys_fill(&scratch, request->keys, request->count, &keys);
    if (err == MOONCAKE_OK) {
        pb.client_id = request->client_id;
        pb.keys = &keys;
        pb.sizes_only = request->sizes_only;
        pb.view = request->view;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_query_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                     void *message)
{
    struct mc_keys_request *request = message;
    const Mc__Pb__QueryRequest *pb;

    MC_TRY(
        mc_codec_unpack(&mc__pb__query_request__descriptor, body, len, MC_CODEC_KEYS, arena, &pb));
    *request = (struct mc_keys_request){
        .client_id = pb->client_id, .sizes_only = pb->sizes_only, .view = pb->view};
    return mc_codec_keys_read(pb->keys, arena, &request->keys, &request->count);
}

mooncake_err mc_query_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_query_reply *reply = message;
    Mc__Pb__QueryReply pb = MC__PB__QUERY_REPLY__INIT;
    Mc__Pb__ObjectTable table;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_table_fill(&scratch, &reply->table, &table);
    if (err == MOONCAKE_OK) {
        err = mc_codec_statuses_fill(&scratch, reply->statuses, reply->table.count, &pb.status);
    }
    if (err == MOONCAKE_OK) {
        pb.n_status = reply->table.count;
        pb.objects = &table;
        pb.lease_ms = reply->lease_ms;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_query_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                   void *message)
{
    struct mc_query_reply *reply = message;
    const Mc__Pb__QueryReply *pb;

    MC_TRY(
        mc_codec_unpack(&mc__pb__query_reply__descriptor, body, len, MC_CODEC_TABLE, arena, &pb));
    reply->lease_ms = pb->lease_ms;
    MC_TRY(mc_codec_table_read(pb->objects, MC_RIGHT_READ, arena, &reply->table));
    MC_TRY(mc_codec_check_same("status", pb->n_status, reply->table.count));
    return mc_codec_statuses_read(pb->status, pb->n_status, arena, &reply->statuses);
}

/* ---- Exist ----------------------------------------------------------------------------------- */

mooncake_err mc_exist_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_keys_request *request = message;
    Mc__Pb__ExistRequest pb = MC__PB__EXIST_REQUEST__INIT;
    Mc__Pb__KeySet keys;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_keys_fill(&scratch, request->keys, request->count, &keys);
    if (err == MOONCAKE_OK) {
        pb.client_id = request->client_id;
        pb.keys = &keys;
        pb.descriptors = request->descriptors;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_exist_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                     void *message)
{
    struct mc_keys_request *request = message;
    const Mc__Pb__ExistRequest *pb;

    MC_TRY(
        mc_codec_unpack(&mc__pb__exist_request__descriptor, body, len, MC_CODEC_KEYS, arena, &pb));
    *request = (struct mc_keys_request){.client_id = pb->client_id, .descriptors = pb->descriptors};
    return mc_codec_keys_read(pb->keys, arena, &request->keys, &request->count);
}

mooncake_err mc_exist_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_exist_reply *reply = message;
    Mc__Pb__ExistReply pb = MC__PB__EXIST_REPLY__INIT;
    Mc__Pb__ObjectTable table;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_statuses_fill(&scratch, reply->statuses, reply->count, &pb.status);
    if (err == MOONCAKE_OK && reply->table.count > 0) {
        err = mc_codec_table_fill(&scratch, &reply->table, &table);
        pb.objects = &table;
        pb.reuse_ms = reply->reuse_ms;
    }
    if (err == MOONCAKE_OK) {
        pb.n_status = reply->count;
        pb.lease_ms = reply->lease_ms;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_exist_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                   void *message)
{
    struct mc_exist_reply *reply = message;
    const Mc__Pb__ExistReply *pb;

    MC_TRY(
        mc_codec_unpack(&mc__pb__exist_reply__descriptor, body, len, MC_CODEC_TABLE, arena, &pb));
    MC_TRY(mc_codec_check_count("status", pb->n_status, MC_BATCH_KEYS_MAX));
    *reply = (struct mc_exist_reply){.count = pb->n_status, .lease_ms = pb->lease_ms};
    if (pb->objects != NULL) {
        MC_TRY(mc_codec_table_read(pb->objects, MC_RIGHT_READ, arena, &reply->table));
        MC_TRY(mc_codec_check_same("objects", reply->table.count, reply->count));
        reply->reuse_ms = pb->reuse_ms;
    }
    return mc_codec_statuses_read(pb->status, pb->n_status, arena, &reply->statuses);
}

/* ---- Remove ---------------------------------------------------------------------------------- */

mooncake_err mc_remove_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_keys_request *request = message;
    Mc__Pb__RemoveRequest pb = MC__PB__REMOVE_REQUEST__INIT;
    Mc__Pb__KeySet keys;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_keys_fill(&scratch, request->keys, request->count, &keys);
    if (err == MOONCAKE_OK) {
        pb.client_id = request->client_id;
        pb.keys = &keys;
        pb.force = request->force;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_remove_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                      void *message)
{
    struct mc_keys_request *request = message;
    const Mc__Pb__RemoveRequest *pb;

    MC_TRY(
        mc_codec_unpack(&mc__pb__remove_request__descriptor, body, len, MC_CODEC_KEYS, arena, &pb));
    *request = (struct mc_keys_request){.client_id = pb->client_id, .force = pb->force};
    return mc_codec_keys_read(pb->keys, arena, &request->keys, &request->count);
}

mooncake_err mc_remove_encode_reply(const void *message, struct mc_buf *out)
{
    return mc_codec_status_reply_encode(message, out);
}

mooncake_err mc_remove_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                    void *message)
{
    return mc_codec_status_reply_decode(body, len, arena, message);
}

/* ---- RemoveAll ------------------------------------------------------------------------------- */

mooncake_err mc_remove_all_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_remove_all_request *request = message;
    Mc__Pb__RemoveAllRequest pb;

    mc__pb__remove_all_request__init(&pb);
    MC_TRY(mc_codec_check_text("pattern", request->pattern, MC_PATTERN_LEN_MAX));
    pb.client_id = request->client_id;
    pb.force = request->force;
    pb.has_pattern = request->pattern != NULL;
    if (request->pattern != NULL) {
        pb.pattern = mc_codec_unconst(request->pattern);
    }
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_remove_all_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                          void *message)
{
    struct mc_remove_all_request *request = message;
    const Mc__Pb__RemoveAllRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__remove_all_request__descriptor, body, len, MC_CODEC_NO_ARRAYS,
                           arena, &pb));
    request->client_id = pb->client_id;
    request->force = pb->force;
    /* A pattern without its flag must not turn into "all". */
    if (!pb->has_pattern && pb->pattern[0] != '\0') {
        return mc_err_set(MOONCAKE_EINVAL, "pattern: given, but has_pattern is not set");
    }
    request->pattern = pb->has_pattern ? pb->pattern : NULL;
    return mc_codec_check_text("pattern", request->pattern, MC_PATTERN_LEN_MAX);
}

mooncake_err mc_remove_all_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_remove_all_reply *reply = message;
    Mc__Pb__RemoveAllReply pb = MC__PB__REMOVE_ALL_REPLY__INIT;

    pb.removed = reply->removed;
    pb.left_leased = reply->left_leased;
    pb.left_writing = reply->left_writing;
    pb.left_pinned = reply->left_pinned;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_remove_all_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                        void *message)
{
    struct mc_remove_all_reply *reply = message;
    const Mc__Pb__RemoveAllReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__remove_all_reply__descriptor, body, len, MC_CODEC_NO_ARRAYS,
                           arena, &pb));
    *reply = (struct mc_remove_all_reply){.removed = pb->removed,
                                          .left_leased = pb->left_leased,
                                          .left_writing = pb->left_writing,
                                          .left_pinned = pb->left_pinned};
    return MOONCAKE_OK;
}
