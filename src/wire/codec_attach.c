/* What a thin client asks the store that serves it, and the answer. */
#include "wire/codec.h"

mooncake_err mc_attach_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_attach_request *request = message;
    Mc__Pb__AttachRequest pb;

    mc__pb__attach_request__init(&pb);
    pb.pool_len = request->pool_len;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_attach_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                      void *message)
{
    struct mc_attach_request *request = message;
    const Mc__Pb__AttachRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__attach_request__descriptor, body, len, MC_CODEC_NO_ARRAYS,
                           arena, &pb));
    request->pool_len = pb->pool_len;
    return MOONCAKE_OK;
}

static mooncake_err check_reply(const struct mc_attach_reply *reply)
{
    const struct mc_codec_text texts[] = {
        {"master", reply->master, MC_ADDR_LEN_MAX},
        {"transport", reply->transport, MC_ADDR_LEN_MAX},
        {"rdma_devices", reply->rdma_devices, MC_ADDRESSES_LEN_MAX},
        {"rdma_gid_index", reply->rdma_gid_index, MC_ADDR_LEN_MAX},
        {"pool_addresses", reply->pool_addresses, MC_ADDRESSES_LEN_MAX},
    };

    return mc_codec_check_texts(texts, MC_ARRAY_LEN(texts));
}

mooncake_err mc_attach_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_attach_reply *reply = message;
    Mc__Pb__AttachReply pb;

    MC_TRY(check_reply(reply));
    mc__pb__attach_reply__init(&pb);
    pb.master = mc_codec_unconst(reply->master);
    pb.transport = mc_codec_unconst(reply->transport);
    pb.rdma_devices = mc_codec_unconst(reply->rdma_devices);
    pb.rdma_gid_index = mc_codec_unconst(reply->rdma_gid_index);
    pb.pool_mount_id = reply->pool_mount_id;
    pb.pool_addresses = mc_codec_unconst(reply->pool_addresses);
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_attach_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                    void *message)
{
    struct mc_attach_reply *reply = message;
    const Mc__Pb__AttachReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__attach_reply__descriptor, body, len, MC_CODEC_NO_ARRAYS, arena,
                           &pb));
    *reply = (struct mc_attach_reply){.master = pb->master,
                                      .transport = pb->transport,
                                      .rdma_devices = pb->rdma_devices,
                                      .rdma_gid_index = pb->rdma_gid_index,
                                      .pool_mount_id = pb->pool_mount_id,
                                      .pool_addresses = pb->pool_addresses};
    return check_reply(reply);
}
