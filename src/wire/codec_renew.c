/* Renew: leases of versions that are looked at in place. */
#include "base/err.h"
#include "wire/codec.h"

mooncake_err mc_renew_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_renew_request *request = message;
    Mc__Pb__RenewRequest pb = MC__PB__RENEW_REQUEST__INIT;
    Mc__Pb__KeySet keys;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_keys_fill(&scratch, request->keys, request->count, &keys);
    if (err == MOONCAKE_OK) {
        pb.client_id = request->client_id;
        pb.keys = &keys;
        pb.epoch = request->epoch;
        pb.attempt = mc_codec_unconst(request->attempts);
        pb.n_attempt = request->count;
        pb.mount_id = mc_codec_unconst(request->mount_ids);
        pb.n_mount_id = request->count;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_renew_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                     void *message)
{
    struct mc_renew_request *request = message;
    const Mc__Pb__RenewRequest *pb;

    MC_TRY(
        mc_codec_unpack(&mc__pb__renew_request__descriptor, body, len, MC_CODEC_KEYS, arena, &pb));
    *request = (struct mc_renew_request){.client_id = pb->client_id,
                                         .epoch = pb->epoch,
                                         .attempts = pb->attempt,
                                         .mount_ids = pb->mount_id};
    MC_TRY(mc_codec_keys_read(pb->keys, arena, &request->keys, &request->count));
    MC_TRY(mc_codec_check_same("mount_id", pb->n_mount_id, request->count));
    return mc_codec_check_same("attempt", pb->n_attempt, request->count);
}

mooncake_err mc_renew_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_renew_reply *reply = message;
    Mc__Pb__RenewReply pb = MC__PB__RENEW_REPLY__INIT;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_statuses_fill(&scratch, reply->statuses, reply->count, &pb.status);
    if (err == MOONCAKE_OK) {
        pb.n_status = reply->count;
        pb.lease_ms = reply->lease_ms;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_renew_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                   void *message)
{
    struct mc_renew_reply *reply = message;
    const Mc__Pb__RenewReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__renew_reply__descriptor, body, len, MC_CODEC_KEYS, arena, &pb));
    *reply = (struct mc_renew_reply){.count = pb->n_status, .lease_ms = pb->lease_ms};
    return mc_codec_statuses_read(pb->status, pb->n_status, arena, &reply->statuses);
}
