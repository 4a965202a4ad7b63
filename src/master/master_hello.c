/* Hello: does the peer speak our protocol? */
#include "base/log.h"
#include "master/master_impl.h"
#include "rpc/frame.h"
#include "wire/methods.h"

static mooncake_err check_hello(const struct mc_hello *hello)
{
    if (hello->protocol_min > hello->protocol_max) {
        return mc_err_set(MOONCAKE_EINVAL, "hello: protocol_min %u is above protocol_max %u",
                          hello->protocol_min, hello->protocol_max);
    }
    if (hello->protocol_max < MC_PROTOCOL_MIN || hello->protocol_min > MC_PROTOCOL_MAX) {
        return mc_err_set(MOONCAKE_ENOTSUP,
                          "%s speaks protocol %u to %u, " MC_MASTER_PROGRAM
                          " speaks %u to %u: upgrade the older one",
                          hello->program, hello->protocol_min, hello->protocol_max, MC_PROTOCOL_MIN,
                          MC_PROTOCOL_MAX);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_master_on_hello(void *arg, struct mc_rpc_conn *conn, const uint8_t *body,
                                size_t body_len, struct mc_buf *out)
{
    struct mc_master_front *front = arg;
    const struct mc_method_codec *codec = mc_method_codec(MC_METHOD_HELLO);
    struct mc_hello hello;
    struct mc_hello_reply reply = {.program = MC_MASTER_PROGRAM,
                                   .master_epoch = front->master->epoch,
                                   .body_len_max = MC_RPC_BODY_LEN_MAX};
    struct mc_arena arena;
    mooncake_err err;

    mc_arena_init(&arena, 0);
    err = codec->decode_request(body, body_len, &arena, &hello);
    if (err == MOONCAKE_OK) {
        err = check_hello(&hello);
    }
    if (err == MOONCAKE_OK) {
        reply.protocol =
            hello.protocol_max < MC_PROTOCOL_MAX ? hello.protocol_max : MC_PROTOCOL_MAX;
        mc_log_debug("rpc.hello", "peer=%s program=\"%s\" client_id=%016llx",
                     mc_rpc_conn_peer(conn), hello.program, (unsigned long long)hello.client_id);
        err = codec->encode_reply(&reply, out);
    } else {
        mc_counter_add_owner(&front->metrics.hellos_refused, 1);
        mc_log_warn("rpc.hello_refused", "peer=%s err=%s why=\"%s\"", mc_rpc_conn_peer(conn),
                    mooncake_err_name(err), mooncake_last_error());
    }
    mc_arena_fini(&arena);
    return err;
}
