/* What operators want to know of one key or one store: WhyMiss, Drain, SoleKeys. */
#include "base/err.h"
#include "wire/codec.h"

#define MOUNTS ((struct mc_codec_bounds){MC_SEGMENTS_PER_STORE_MAX, 0})

/* ---- WhyMiss --------------------------------------------------------------------------------- */

mooncake_err mc_why_miss_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_keys_request *request = message;
    Mc__Pb__WhyMissRequest pb = MC__PB__WHY_MISS_REQUEST__INIT;
    Mc__Pb__KeySet keys;
    struct mc_arena scratch;
    mooncake_err err;

    MC_TRY(mc_codec_check_same("key", request->count, 1));
    mc_arena_init(&scratch, 0);
    err = mc_codec_keys_fill(&scratch, request->keys, request->count, &keys);
    if (err == MOONCAKE_OK) {
        pb.key = &keys;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_why_miss_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                        void *message)
{
    struct mc_keys_request *request = message;
    const Mc__Pb__WhyMissRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__why_miss_request__descriptor, body, len, MC_CODEC_KEYS, arena,
                           &pb));
    *request = (struct mc_keys_request){.client_id = 0};
    MC_TRY(mc_codec_keys_read(pb->key, arena, &request->keys, &request->count));
    return mc_codec_check_same("key", request->count, 1);
}

/* X(field): numbers named alike on both sides. */
#define WHY_MISS_NUMBERS(X)                                                                        \
    X(fate)                                                                                        \
    X(entries)                                                                                     \
    X(ago_ms)                                                                                      \
    X(age_ms)                                                                                      \
    X(idle_ms)                                                                                     \
    X(uptime_ms)                                                                                   \
    X(reach_ms)                                                                                    \
    X(owner_client_id)

mooncake_err mc_why_miss_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_why_miss_reply *reply = message;
    Mc__Pb__WhyMissReply pb;

    mc__pb__why_miss_reply__init(&pb);
    MC_TRY(mc_codec_check_text("store", reply->store, MC_SEGMENT_NAME_LEN_MAX));
#define TO_PB(name) pb.name = reply->name;
    WHY_MISS_NUMBERS(TO_PB)
#undef TO_PB
    pb.store = mc_codec_unconst(reply->store);
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_why_miss_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                      void *message)
{
    struct mc_why_miss_reply *reply = message;
    const Mc__Pb__WhyMissReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__why_miss_reply__descriptor, body, len, MC_CODEC_NO_ARRAYS,
                           arena, &pb));
#define FROM_PB(name) reply->name = pb->name;
    WHY_MISS_NUMBERS(FROM_PB)
#undef FROM_PB
    reply->store = pb->store;
    return mc_codec_check_text("store", reply->store, MC_SEGMENT_NAME_LEN_MAX);
}

/* ---- Drain ----------------------------------------------------------------------------------- */

static mooncake_err check_action(uint32_t action)
{
    if (action > MC_DRAIN_CANCEL) {
        return mc_err_set(MOONCAKE_EINVAL, "action: %u is none of drain's", action);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_drain_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_drain_request *request = message;
    Mc__Pb__DrainRequest pb = MC__PB__DRAIN_REQUEST__INIT;

    MC_TRY(mc_codec_check_count("mount_id", request->count, MC_SEGMENTS_PER_STORE_MAX));
    MC_TRY(check_action(request->action));
    pb.mount_id = mc_codec_unconst(request->mount_ids);
    pb.n_mount_id = request->count;
    pb.action = request->action;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_drain_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                     void *message)
{
    struct mc_drain_request *request = message;
    const Mc__Pb__DrainRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__drain_request__descriptor, body, len, MOUNTS, arena, &pb));
    *request = (struct mc_drain_request){
        .mount_ids = pb->mount_id, .count = pb->n_mount_id, .action = pb->action};
    return check_action(request->action);
}

#define DRAIN_NUMBERS(X)                                                                           \
    X(capacity)                                                                                    \
    X(used)                                                                                        \
    X(extents)                                                                                     \
    X(leased)                                                                                      \
    X(reading)                                                                                     \
    X(writing)                                                                                     \
    X(hard_pinned)                                                                                 \
    X(draining)

mooncake_err mc_drain_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_drain_reply *reply = message;
    Mc__Pb__DrainReply pb = MC__PB__DRAIN_REPLY__INIT;
    struct mc_arena scratch;
    mooncake_err err;

    MC_TRY(mc_codec_check_count("status", reply->count, MC_SEGMENTS_PER_STORE_MAX));
    mc_arena_init(&scratch, 0);
    err = mc_codec_statuses_fill(&scratch, reply->statuses, reply->count, &pb.status);
    if (err == MOONCAKE_OK) {
        pb.n_status = reply->count;
#define TO_PB(name) pb.name = reply->name;
        DRAIN_NUMBERS(TO_PB)
#undef TO_PB
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_drain_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                   void *message)
{
    struct mc_drain_reply *reply = message;
    const Mc__Pb__DrainReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__drain_reply__descriptor, body, len, MOUNTS, arena, &pb));
    MC_TRY(mc_codec_statuses_read(pb->status, pb->n_status, arena, &reply->statuses));
    reply->count = pb->n_status;
#define FROM_PB(name) reply->name = pb->name;
    DRAIN_NUMBERS(FROM_PB)
#undef FROM_PB
    return MOONCAKE_OK;
}

/* ---- SoleKeys -------------------------------------------------------------------------------- */

mooncake_err mc_sole_keys_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_sole_keys_request *request = message;
    Mc__Pb__SoleKeysRequest pb = MC__PB__SOLE_KEYS_REQUEST__INIT;

    MC_TRY(mc_codec_check_count("mount_id", request->count, MC_SEGMENTS_PER_STORE_MAX));
    pb.mount_id = mc_codec_unconst(request->mount_ids);
    pb.n_mount_id = request->count;
    pb.cursor = request->cursor;
    pb.keys_max = request->keys_max;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_sole_keys_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                         void *message)
{
    struct mc_sole_keys_request *request = message;
    const Mc__Pb__SoleKeysRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__sole_keys_request__descriptor, body, len, MOUNTS, arena, &pb));
    *request = (struct mc_sole_keys_request){.mount_ids = pb->mount_id,
                                             .count = pb->n_mount_id,
                                             .cursor = pb->cursor,
                                             .keys_max = pb->keys_max};
    return MOONCAKE_OK;
}

#define SOLE_KEYS_NUMBERS(X)                                                                       \
    X(cursor)                                                                                      \
    X(keys_there)                                                                                  \
    X(bytes_there)                                                                                 \
    X(keys_sole)                                                                                   \
    X(bytes_sole)

mooncake_err mc_sole_keys_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_sole_keys_reply *reply = message;
    Mc__Pb__SoleKeysReply pb = MC__PB__SOLE_KEYS_REPLY__INIT;
    Mc__Pb__KeySet keys;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_keys_fill(&scratch, reply->keys, reply->count, &keys);
    if (err == MOONCAKE_OK) {
        pb.keys = &keys;
#define TO_PB(name) pb.name = reply->name;
        SOLE_KEYS_NUMBERS(TO_PB)
#undef TO_PB
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_sole_keys_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                       void *message)
{
    struct mc_sole_keys_reply *reply = message;
    const Mc__Pb__SoleKeysReply *pb;
    const struct mc_key *keys;

    MC_TRY(mc_codec_unpack(&mc__pb__sole_keys_reply__descriptor, body, len, MC_CODEC_KEYS, arena,
                           &pb));
    MC_TRY(mc_codec_keys_read(pb->keys, arena, &keys, &reply->count));
    reply->keys = mc_codec_unconst(keys); /* the arena's, just made */
#define FROM_PB(name) reply->name = pb->name;
    SOLE_KEYS_NUMBERS(FROM_PB)
#undef FROM_PB
    return MOONCAKE_OK;
}
