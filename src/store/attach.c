/* Thin clients: what they are told, and the pools of memory shared with them. */
#include "store/attach.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "rpc/frame.h"
#include "rpc/rpc_server.h"
#include "store/memory_limit.h"
#include "store/store_impl.h"
#include "transport/mount_table.h"
#include "wire/methods.h"

/* Pools of clients that are gone are noticed so often. */
#define SWEEP_MS 250u
/* A client that has been promised a pool fetches it within this time, or does not get it. */
#define FETCH_NS_MAX (5u * MC_NS_PER_S)

struct mc_attach {
    struct mc_loop *loop; /* borrowed */
    struct mc_attach_options options;
    struct mc_rpc_server *rpc;
    struct mc_shm_server *shm; /* NULL: no pools */
    struct mc_timer *sweep;    /* runs while there are pools */
    struct mc_list pools;
    uint64_t pools_count, pools_len;
    bool ready;
};

struct pool {
    struct mc_list node;
    struct mc_segment segment;
    uint64_t mount_id;
    struct mc_rpc_conn *conn; /* over which it was asked for; NULL: that has ended */
    uint64_t made_ns;
    bool fetched; /* its client had it at some time */
};

/* ---- pools --------------------------------------------------------------------------------- */

static void free_pool(struct mc_attach *attach, struct pool *pool)
{
    if (pool->conn != NULL) {
        mc_rpc_conn_set_data(pool->conn, NULL);
    }
    mc_mount_drop(pool->mount_id);
    attach->pools_len -= pool->segment.len;
    attach->pools_count--;
    mc_log_info("attach.pool_freed", "pool=%016" PRIx64 " bytes=%" PRIu64 " pools=%" PRIu64,
                pool->mount_id, pool->segment.len, attach->pools_count);
    mc_segment_close(&pool->segment);
    mc_list_drop(&pool->node);
    mc_free(pool);
}

static void on_sweep(void *arg)
{
    struct mc_attach *attach = arg;
    uint64_t now = mc_loop_now_ns(attach->loop);

    mc_list_for_each_safe (node, tmp, &attach->pools) {
        struct pool *pool = MC_CONTAINER_OF(node, struct pool, node);

        if (mc_mount_is_held(pool->mount_id)) {
            pool->fetched = true;
        } else if (pool->fetched || now - pool->made_ns > FETCH_NS_MAX) {
            free_pool(attach, pool);
        }
    }
    if (mc_list_empty(&attach->pools)) {
        mc_timer_clear(attach->sweep);
    }
}

/* A client ends it once it has fetched its pool, or has given up. */
static void on_conn_closed(void *arg, struct mc_rpc_conn *conn)
{
    struct pool *pool = mc_rpc_conn_data(conn);

    if (pool != NULL) {
        pool->conn = NULL;
        pool->fetched = true;
        if (!mc_mount_is_held(pool->mount_id)) {
            free_pool(arg, pool);
        }
    }
}

static mooncake_err check_room(const struct mc_attach *attach, uint64_t len)
{
    uint64_t most = attach->options.pools_len_max;

    if (attach->shm == NULL) {
        return mc_err_set(MOONCAKE_ENOTSUP, "this process shares no memory (--shm=off, or its "
                                            "--shm_dir cannot be used): ask for a pool of 0 bytes");
    }
    if (len < MC_SEGMENT_LEN_MIN) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "pool: %" PRIu64 " bytes; allowed are 0 (none), or %u "
                          "and more",
                          len, MC_SEGMENT_LEN_MIN);
    }
    if (attach->pools_count >= MC_CLIENT_POOLS_MAX) {
        return mc_err_set(MOONCAKE_ENOSPACE, "pool: %u clients have one already, which is the most",
                          MC_CLIENT_POOLS_MAX);
    }
    if (attach->pools_len > most || len > most - attach->pools_len) {
        return mc_err_set(MOONCAKE_ENOSPACE,
                          "pool: %" PRIu64 " bytes are too many: clients have %" PRIu64
                          " of at most %" PRIu64 " bytes (--pools_max)",
                          len, attach->pools_len, most);
    }
    return MOONCAKE_OK;
}

static mooncake_err make_pool(struct mc_attach *attach, struct mc_rpc_conn *conn, uint64_t len,
                              uint64_t *out_mount_id)
{
    struct mc_mount mount = {0};
    struct pool *pool;
    mooncake_err err;

    if (mc_rpc_conn_data(conn) != NULL) {
        return mc_err_set(MOONCAKE_EUNAVAILABLE, "pool: this connection has one already");
    }
    MC_TRY(check_room(attach, len));
    pool = mc_calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return MOONCAKE_ENOMEM;
    }
    pool->segment.memfd = -1;
    err = mc_segment_open("pool", len, false, &pool->segment);
    if (err != MOONCAKE_OK) {
        goto free_pool;
    }
    mount.mount_id = mc_random_u64();
    mount.base = pool->segment.base;
    mount.len = pool->segment.len;
    mount.memfd = pool->segment.memfd;
    mc_random_bytes(mount.secret, sizeof(mount.secret)); /* nobody is told: no way but shm */
    err = mc_mount_add(&mount);
    if (err != MOONCAKE_OK) {
        goto close_segment;
    }
    pool->mount_id = mount.mount_id;
    pool->made_ns = mc_loop_now_ns(attach->loop);
    pool->conn = conn;
    mc_rpc_conn_set_data(conn, pool);
    mc_list_add_tail(&attach->pools, &pool->node);
    attach->pools_count++;
    attach->pools_len += pool->segment.len;
    mc_timer_set(attach->sweep, SWEEP_MS, SWEEP_MS);
    *out_mount_id = pool->mount_id;
    return MOONCAKE_OK;

close_segment:
    mc_segment_close(&pool->segment);
free_pool:
    mc_free(pool);
    return err;
}

/* ---- requests ------------------------------------------------------------------------------ */

static mooncake_err attach_client(struct mc_attach *attach, struct mc_rpc_request *request)
{
    const struct mc_method_codec *codec = mc_method_codec(request->method);
    struct mc_attach_request message;
    struct mc_attach_reply reply = {.master = attach->options.master,
                                    .transport = attach->options.transport,
                                    .rdma_devices = attach->options.rdma_devices,
                                    .rdma_gid_index = attach->options.rdma_gid_index};
    struct mc_buf *out = mc_rpc_reply_buf(attach->rpc);

    if (request->method != MC_METHOD_ATTACH) {
        return mc_err_set(MOONCAKE_ENOTSUP,
                          "%s serves thin clients (setup_dummy) on this port and does not know %s: "
                          "the master is at %s",
                          attach->options.program, mc_method_name(request->method),
                          attach->options.master);
    }
    MC_TRY(codec->decode_request(request->body, request->body_len, request->arena, &message));
    if (!attach->ready) {
        return mc_err_set(MOONCAKE_EUNAVAILABLE, "%s has not joined the pool yet: try again",
                          attach->options.program);
    }
    if (message.pool_len > 0) {
        MC_TRY(make_pool(attach, request->conn, message.pool_len, &reply.pool_mount_id));
        reply.pool_addresses = mc_shm_server_address(attach->shm);
    }
    MC_TRY(codec->encode_reply(&reply, out)); /* else the pool is not fetched, and freed for that */
    mc_log_info("attach.client", "peer=%s pool=%016" PRIx64 " bytes=%" PRIu64 " pools=%" PRIu64,
                mc_rpc_conn_peer(request->conn), reply.pool_mount_id, message.pool_len,
                attach->pools_count);
    mc_rpc_reply(request, MOONCAKE_OK, mc_buf_bytes(out), mc_buf_len(out));
    return MOONCAKE_OK;
}

static void handle(void *arg, struct mc_rpc_request *request)
{
    struct mc_attach *attach = arg;
    mooncake_err err;

    MC_ASSERT_ON_LOOP(attach->loop);
    err = attach_client(attach, request);
    if (err != MOONCAKE_OK) {
        mc_log_warn("attach.refused", "peer=%s err=%s why=\"%s\"", mc_rpc_conn_peer(request->conn),
                    mooncake_err_name(err), mooncake_last_error());
        mc_rpc_reply(request, err, NULL, 0);
    }
}

static mooncake_err on_hello(void *arg, struct mc_rpc_conn *conn, const uint8_t *body,
                             size_t body_len, struct mc_buf *out)
{
    const struct mc_attach *attach = arg;
    const struct mc_method_codec *codec = mc_method_codec(MC_METHOD_HELLO);
    struct mc_hello_reply reply = {.protocol = MC_PROTOCOL_MAX,
                                   .program = attach->options.program,
                                   .body_len_max = MC_RPC_BODY_LEN_MAX};
    struct mc_hello hello;
    struct mc_arena arena;
    mooncake_err err;

    (void)conn;
    mc_arena_init(&arena, 0);
    err = codec->decode_request(body, body_len, &arena, &hello);
    if (err == MOONCAKE_OK &&
        (hello.protocol_max < MC_PROTOCOL_MIN || hello.protocol_min > MC_PROTOCOL_MAX)) {
        err = mc_err_set(MOONCAKE_ENOTSUP, "%s speaks protocol %u to %u, %s speaks %u to %u",
                         hello.program, hello.protocol_min, hello.protocol_max,
                         attach->options.program, MC_PROTOCOL_MIN, MC_PROTOCOL_MAX);
    }
    if (err == MOONCAKE_OK) {
        reply.protocol =
            hello.protocol_max < MC_PROTOCOL_MAX ? hello.protocol_max : MC_PROTOCOL_MAX;
        err = codec->encode_reply(&reply, out);
    }
    mc_arena_fini(&arena);
    return err;
}

/* ---- life ---------------------------------------------------------------------------------- */

mooncake_err mc_attach_open(struct mc_loop *loop, const struct mc_attach_options *options,
                            struct mc_attach **out)
{
    static const struct mc_rpc_server_ops ops = {.hello_method = MC_METHOD_HELLO,
                                                 .on_hello = on_hello,
                                                 .handle = handle,
                                                 .on_conn_closed = on_conn_closed};
    struct mc_attach *attach = mc_calloc(1, sizeof(*attach));
    struct mc_memory_limit limit;
    mooncake_err err;

    MC_ASSERT_ON_LOOP(loop);
    if (attach == NULL) {
        return MOONCAKE_ENOMEM;
    }
    attach->loop = loop;
    attach->options = *options;
    if (attach->options.pools_len_max == 0) {
        mc_memory_limit_find("", &limit);
        attach->options.pools_len_max = limit.bytes;
    }
    mc_list_init(&attach->pools);
    err = mc_store_open_shm(options->shm_dir, options->shm, &attach->shm);
    if (err == MOONCAKE_OK) {
        err = mc_timer_create(loop, on_sweep, attach, &attach->sweep);
    }
    if (err == MOONCAKE_OK) {
        err = mc_rpc_server_open(loop, options->address, &ops, attach, &attach->rpc);
    }
    if (err != MOONCAKE_OK) {
        mc_attach_close(&attach);
        return err;
    }
    *out = attach;
    return MOONCAKE_OK;
}

void mc_attach_set_ready(struct mc_attach *attach)
{
    attach->ready = true;
}

uint16_t mc_attach_port(const struct mc_attach *attach)
{
    return attach == NULL ? 0 : mc_rpc_server_port(attach->rpc);
}

void mc_attach_totals(const struct mc_attach *attach, uint64_t *out_pools, uint64_t *out_bytes)
{
    *out_pools = attach == NULL ? 0 : attach->pools_count;
    *out_bytes = attach == NULL ? 0 : attach->pools_len;
}

void mc_attach_close(struct mc_attach **attach_ptr)
{
    struct mc_attach *attach = *attach_ptr;

    if (attach == NULL) {
        return;
    }
    MC_ASSERT_ON_LOOP(attach->loop);
    if (attach->rpc != NULL) {
        mc_rpc_server_close(&attach->rpc);
    }
    mc_list_for_each_safe (node, tmp, &attach->pools) {
        free_pool(attach, MC_CONTAINER_OF(node, struct pool, node));
    }
    mc_shm_server_close(&attach->shm); /* after the pools: it takes them back */
    mc_timer_destroy(&attach->sweep);
    mc_free(attach);
    *attach_ptr = NULL;
}
