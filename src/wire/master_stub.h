/*
 * Typed calls to the master: encode the request, send it, decode the reply. One function for all
 * methods; the structs are in messages.h.
 *
 *     struct mc_master_call call;
 *     struct mc_exist_reply reply;
 *     mc_master_call_init(&call, arena, deadline_ns, on_exist, self);
 *     err = mc_master_call_start(rpc, &call, MC_METHOD_EXIST, &request, &reply);
 *
 * Thread: the loop's owner. As in rpc_client: an error returned means no callback; otherwise done
 * runs exactly once, from the loop, and the reply is filled only if err is OK.
 */
#ifndef MC_WIRE_MASTER_STUB_H
#define MC_WIRE_MASTER_STUB_H

#include "base/limits.h"
#include "rpc/rpc_client.h"
#include "wire/methods.h"

#define MC_MASTER_ADDRESS_CAP (MC_ADDR_LEN_MAX + 16u)

struct mc_master_call {
    struct mc_rpc_call rpc;
    struct mc_arena *arena; /* borrowed until done: the reply lives in it */
    void *reply;            /* borrowed until done */
    void (*done)(struct mc_master_call *call, mooncake_err err);
    void *arg; /* the caller's */
    const struct mc_method_codec *codec;
    size_t items_count; /* of the request: a batch reply with another count is ERPC */
};

void mc_master_call_init(struct mc_master_call *call, struct mc_arena *arena, uint64_t deadline_ns,
                         void (*done)(struct mc_master_call *call, mooncake_err err), void *arg);
/** The request is encoded before return and not needed afterwards. Errors as mc_rpc_call_start(),
 * and EINVAL from the encoder. */
mooncake_err mc_master_call_start(struct mc_rpc_client *rpc, struct mc_master_call *call,
                                  enum mc_method method, const void *request,
                                  void *reply) MC_MUST_CHECK;
void mc_master_call_cancel(struct mc_rpc_client *rpc, struct mc_master_call *call);

/**
 * An rpc_client for a master with Hello filled in.
 *
 * @param program  "mooncake_store 0.1.0"; copied
 */
struct mc_master_stub_options {
    const char *address;
    const char *program;
    uint64_t client_id;
    uint32_t connect_timeout_ms;
    void (*on_state)(void *arg, bool up);
    void *arg;
};

/** What a person wrote, "host:port" or "host" with the usual port, as "host:port". EINVAL, and the
 * sentence names the text. */
mooncake_err mc_master_address(const char *text, char out[MC_MASTER_ADDRESS_CAP]) MC_MUST_CHECK;

struct mc_master_stub {
    struct mc_rpc_client *rpc;
    struct mc_buf hello;
    uint64_t master_epoch; /* of the last Hello answer; 0 before */
    char master_program[64];
    void (*on_state)(void *arg, bool up);
    void *arg;
};
mooncake_err mc_master_stub_open(struct mc_loop *loop, const struct mc_master_stub_options *options,
                                 struct mc_master_stub *out) MC_MUST_CHECK;
void mc_master_stub_close(struct mc_master_stub *stub);

#endif
