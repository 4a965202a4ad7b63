/* Where the pool's bytes are, and whether the books agree with what is there. */
#include "wire/codec.h"

/* X(field): the numbers of a reply, named alike on both sides. */
#define SPACE_NUMBERS(X)                                                                           \
    X(capacity)                                                                                    \
    X(free)                                                                                        \
    X(evictable)                                                                                   \
    X(leased)                                                                                      \
    X(soft_pinned)                                                                                 \
    X(hard_pinned)                                                                                 \
    X(writing)                                                                                     \
    X(parked)                                                                                      \
    X(unplaceable)                                                                                 \
    X(largest_free)                                                                                \
    X(cursor)

mooncake_err mc_space_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_space_request *request = message;
    Mc__Pb__SpaceRequest pb;

    mc__pb__space_request__init(&pb);
    pb.recount = request->recount;
    pb.cursor = request->cursor;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_space_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                     void *message)
{
    struct mc_space_request *request = message;
    const Mc__Pb__SpaceRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__space_request__descriptor, body, len, MC_CODEC_NO_ARRAYS, arena,
                           &pb));
    request->recount = pb->recount != 0;
    request->cursor = pb->cursor;
    return MOONCAKE_OK;
}

mooncake_err mc_space_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_space_reply *reply = message;
    Mc__Pb__SpaceReply pb;

    mc__pb__space_reply__init(&pb);
    MC_TRY(mc_codec_check_text("mismatch", reply->mismatch, MC_MISMATCH_LEN_MAX));
#define TO_PB(name) pb.name = reply->name;
    SPACE_NUMBERS(TO_PB)
#undef TO_PB
    pb.mismatch = mc_codec_unconst(reply->mismatch);
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_space_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                   void *message)
{
    struct mc_space_reply *reply = message;
    const Mc__Pb__SpaceReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__space_reply__descriptor, body, len, MC_CODEC_NO_ARRAYS, arena,
                           &pb));
#define FROM_PB(name) reply->name = pb->name;
    SPACE_NUMBERS(FROM_PB)
#undef FROM_PB
    reply->mismatch = pb->mismatch;
    return mc_codec_check_text("mismatch", reply->mismatch, MC_MISMATCH_LEN_MAX);
}
