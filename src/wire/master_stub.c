/* Encode, send, decode: one path for all methods. Also the Hello of a master's client. */
#include "wire/master_stub.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/option.h"
#include "rpc/frame.h"

/* Of an address that names none. */
#define MASTER_PORT 50051u
#define BACKOFF_MIN_MS 50u
#define BACKOFF_MAX_MS 2000u

/* ---- items of a batch ------------------------------------------------------------------------ */

/* Items of the request, or NOT_A_BATCH if its reply has no element an item. */
#define NOT_A_BATCH SIZE_MAX

static size_t request_items(enum mc_method method, const void *request)
{
    switch (method) {
    case MC_METHOD_PUT_START:
        return ((const struct mc_put_start_request *)request)->count;
    case MC_METHOD_PUT_END:
    case MC_METHOD_PUT_REVOKE:
        return ((const struct mc_put_end_request *)request)->count;
    case MC_METHOD_QUERY:
    case MC_METHOD_EXIST:
    case MC_METHOD_REMOVE:
        return ((const struct mc_keys_request *)request)->count;
    case MC_METHOD_REPORT:
        return ((const struct mc_report_request *)request)->count;
    case MC_METHOD_RENEW:
        return ((const struct mc_renew_request *)request)->count;
    case MC_METHOD_MOUNT:
        return ((const struct mc_mount_request *)request)->count;
    case MC_METHOD_UNMOUNT:
        return ((const struct mc_unmount_request *)request)->count;
    case MC_METHOD_DRAIN:
        return ((const struct mc_drain_request *)request)->count;
    case MC_METHOD_HELLO:
    case MC_METHOD_REMOVE_ALL:
    case MC_METHOD_PING:
    case MC_METHOD_LIST_KEYS:
    case MC_METHOD_LIST_SEGMENTS:
    case MC_METHOD_LIST_CLIENTS:
    case MC_METHOD_POOL_STATUS:
    case MC_METHOD_DESCRIBE_KEY:
    case MC_METHOD_CONFIG:
    case MC_METHOD_SPACE:
    case MC_METHOD_WHY_MISS:
    case MC_METHOD_SOLE_KEYS:
    case MC_METHOD_ATTACH:
        return NOT_A_BATCH;
    }
    return NOT_A_BATCH;
}

/* Asked only for methods whose request is a batch. */
static size_t reply_items(enum mc_method method, const void *reply)
{
    switch (method) {
    case MC_METHOD_PUT_START:
        return ((const struct mc_put_start_reply *)reply)->table.count;
    case MC_METHOD_QUERY:
        return ((const struct mc_query_reply *)reply)->table.count;
    case MC_METHOD_EXIST:
        return ((const struct mc_exist_reply *)reply)->count;
    case MC_METHOD_DRAIN:
        return ((const struct mc_drain_reply *)reply)->count;
    case MC_METHOD_RENEW:
        return ((const struct mc_renew_reply *)reply)->count;
    case MC_METHOD_PUT_END:
    case MC_METHOD_PUT_REVOKE:
    case MC_METHOD_REMOVE:
    case MC_METHOD_REPORT:
    case MC_METHOD_MOUNT:
    case MC_METHOD_UNMOUNT:
        return ((const struct mc_status_reply *)reply)->count;
    case MC_METHOD_HELLO:
    case MC_METHOD_REMOVE_ALL:
    case MC_METHOD_PING:
    case MC_METHOD_LIST_KEYS:
    case MC_METHOD_LIST_SEGMENTS:
    case MC_METHOD_LIST_CLIENTS:
    case MC_METHOD_POOL_STATUS:
    case MC_METHOD_DESCRIBE_KEY:
    case MC_METHOD_CONFIG:
    case MC_METHOD_SPACE:
    case MC_METHOD_WHY_MISS:
    case MC_METHOD_SOLE_KEYS:
    case MC_METHOD_ATTACH:
        return NOT_A_BATCH;
    }
    return NOT_A_BATCH;
}

/* ---- one call -------------------------------------------------------------------------------- */

static mooncake_err read_reply(const struct mc_master_call *call, const uint8_t *body,
                               size_t body_len)
{
    const struct mc_method_codec *codec = call->codec;
    mooncake_err err = codec->decode_reply(body, body_len, call->arena, call->reply);

    if (err == MOONCAKE_ENOMEM) {
        return err;
    }
    if (err != MOONCAKE_OK) {
        return mc_err_set(MOONCAKE_ERPC, "the master's answer to %s cannot be read: %s",
                          codec->name, mooncake_last_error());
    }
    if (call->items_count != NOT_A_BATCH) {
        size_t count = reply_items((enum mc_method)codec->method, call->reply);

        if (count != call->items_count) {
            return mc_err_set(MOONCAKE_ERPC, "the master answered %zu of %zu items of %s", count,
                              call->items_count, codec->name);
        }
    }
    return MOONCAKE_OK;
}

static void on_answer(struct mc_rpc_call *rpc, mooncake_err err, const uint8_t *body,
                      size_t body_len)
{
    struct mc_master_call *call = MC_CONTAINER_OF(rpc, struct mc_master_call, rpc);

    if (err == MOONCAKE_OK) {
        err = read_reply(call, body, body_len);
    }
    call->done(call, err);
}

void mc_master_call_init(struct mc_master_call *call, struct mc_arena *arena, uint64_t deadline_ns,
                         void (*done)(struct mc_master_call *call, mooncake_err err), void *arg)
{
    MC_ASSERT(arena != NULL);
    MC_ASSERT(done != NULL);
    memset(call, 0, sizeof(*call));
    call->rpc.done = on_answer;
    call->rpc.deadline_ns = deadline_ns;
    call->arena = arena;
    call->done = done;
    call->arg = arg;
}

mooncake_err mc_master_call_start(struct mc_rpc_client *rpc, struct mc_master_call *call,
                                  enum mc_method method, const void *request, void *reply)
{
    const struct mc_method_codec *codec = mc_method_codec((unsigned)method);
    struct mc_buf body;
    mooncake_err err;

    MC_ASSERT(codec != NULL);
    MC_ASSERT(call->done != NULL);
    call->codec = codec;
    call->reply = reply;
    call->items_count = request_items(method, request);
    mc_buf_init(&body);
    err = codec->encode_request(request, &body);
    if (err == MOONCAKE_OK) {
        err = mc_rpc_call_start(rpc, &call->rpc, codec->method, mc_buf_bytes(&body),
                                mc_buf_len(&body));
    }
    mc_buf_fini(&body);
    return err;
}

void mc_master_call_cancel(struct mc_rpc_client *rpc, struct mc_master_call *call)
{
    mc_rpc_call_cancel(rpc, &call->rpc);
}

/* ---- the connection -------------------------------------------------------------------------- */

static mooncake_err on_hello(void *arg, const uint8_t *body, size_t body_len)
{
    struct mc_master_stub *stub = arg;
    const struct mc_method_codec *codec = mc_method_codec(MC_METHOD_HELLO);
    struct mc_hello_reply reply;
    struct mc_arena arena;
    mooncake_err err;

    mc_arena_init(&arena, 0);
    err = codec->decode_reply(body, body_len, &arena, &reply);
    if (err == MOONCAKE_OK &&
        (reply.protocol < MC_PROTOCOL_MIN || reply.protocol > MC_PROTOCOL_MAX)) {
        err = mc_err_set(MOONCAKE_ERPC, "%s at %s speaks protocol %u; this program speaks %u to %u",
                         reply.program, mc_rpc_client_address(stub->rpc), reply.protocol,
                         MC_PROTOCOL_MIN, MC_PROTOCOL_MAX);
    }
    if (err == MOONCAKE_OK) {
        stub->master_epoch = reply.master_epoch;
        (void)snprintf(stub->master_program, sizeof(stub->master_program), "%s", reply.program);
    }
    mc_arena_fini(&arena);
    return err;
}

static void on_state(void *arg, bool up)
{
    struct mc_master_stub *stub = arg;

    if (stub->on_state != NULL) {
        stub->on_state(stub->arg, up);
    }
}

mooncake_err mc_master_stub_open(struct mc_loop *loop, const struct mc_master_stub_options *options,
                                 struct mc_master_stub *out)
{
    const struct mc_hello hello = {
        .protocol_min = MC_PROTOCOL_MIN,
        .protocol_max = MC_PROTOCOL_MAX,
        .program = options->program,
        .client_id = options->client_id,
    };
    struct mc_rpc_client_options rpc_options = {
        .connect_timeout_ms = options->connect_timeout_ms,
        .backoff_min_ms = BACKOFF_MIN_MS,
        .backoff_max_ms = BACKOFF_MAX_MS,
        .hello_method = MC_METHOD_HELLO,
        .on_hello = on_hello,
        .on_state = on_state,
        .arg = out, /* the callbacks come from the loop, so never before we return */
    };
    struct mc_buf bytes;
    struct mc_rpc_client *rpc;
    mooncake_err err;

    mc_buf_init(&bytes);
    err = mc_method_codec(MC_METHOD_HELLO)->encode_request(&hello, &bytes);
    if (err != MOONCAKE_OK) {
        goto free_hello;
    }
    rpc_options.hello_body = mc_buf_bytes(&bytes);
    rpc_options.hello_body_len = mc_buf_len(&bytes);
    err = mc_rpc_client_create(loop, options->address, &rpc_options, &rpc);
    if (err != MOONCAKE_OK) {
        goto free_hello;
    }
    *out = (struct mc_master_stub){
        .rpc = rpc, .hello = bytes, .on_state = options->on_state, .arg = options->arg};
    return MOONCAKE_OK;

free_hello:
    mc_buf_fini(&bytes);
    return err;
}

mooncake_err mc_master_address(const char *text, char out[MC_MASTER_ADDRESS_CAP])
{
    char host[MC_ADDR_LEN_MAX + 1], why[400];
    uint16_t port;

    if (mc_parse_address(text, MASTER_PORT, host, sizeof(host), &port) != MOONCAKE_OK) {
        (void)snprintf(why, sizeof(why), "%s", mooncake_last_error());
        return mc_err_set(MOONCAKE_EINVAL, "master: %s", why); /* names the text */
    }
    (void)snprintf(out, MC_MASTER_ADDRESS_CAP, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u",
                   host, (unsigned)port);
    return MOONCAKE_OK;
}

void mc_master_stub_close(struct mc_master_stub *stub)
{
    mc_rpc_client_destroy(&stub->rpc);
    mc_buf_fini(&stub->hello);
}
