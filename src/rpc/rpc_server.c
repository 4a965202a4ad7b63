/*
 * The server as a whole: accepting, deadlines that peers owe us, deferred work, drain, end.
 */
#include "rpc/rpc_server.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "rpc/rpc_server_impl.h"

#define TICK_MS 1000u
#define HELLO_NS_MAX (10 * MC_NS_PER_S)
#define FRAME_NS_MAX (30 * MC_NS_PER_S)
#define REPLY_BUF_KEEP_LEN_MAX ((size_t)1 << 20)

/* ---- peers that owe us something ---------------------------------------------------------------
 */

/* Close those of @p list who have been owing for longer than @p ns_max. */
static void close_late(struct mc_rpc_server *server, struct mc_list *list, uint64_t ns_max,
                       const char *what)
{
    uint64_t now_ns = mc_loop_now_ns(server->loop);

    while (!mc_list_empty(list)) {
        struct mc_rpc_conn *conn = mc_list_first(list, struct mc_rpc_conn, owing);

        if (now_ns - conn->owing_since_ns < ns_max) {
            break;
        }
        mc_log_warn("rpc.late", "peer=%s missing=\"%s\"", mc_stream_peer(conn->stream), what);
        mc_counter_add_owner(&server->stats.bad_frames, 1);
        mc_list_drop(&conn->owing);
        conn->ended = true;
        mc_stream_close(conn->stream, MOONCAKE_ETIMEDOUT);
    }
}

static void tick_fired(void *arg)
{
    struct mc_rpc_server *server = arg;

    close_late(server, &server->newcomers, server->hello_ns_max, "Hello");
    close_late(server, &server->unfinished, server->frame_ns_max, "the rest of a request");
    if (mc_list_empty(&server->newcomers) && mc_list_empty(&server->unfinished)) {
        mc_timer_clear(server->tick);
        server->ticking = false;
    }
}

void mc_rpc_server_tick(struct mc_rpc_server *server)
{
    if (!server->ticking) {
        server->ticking = true;
        mc_timer_set(server->tick, TICK_MS, TICK_MS);
    }
}

/* ---- deferred work ----------------------------------------------------------------------------
 */

static void work_cb(struct mc_post *post)
{
    struct mc_rpc_server *server = MC_CONTAINER_OF(post, struct mc_rpc_server, work_post);
    struct mc_list ready;

    server->work_posted = false;
    mc_list_init(&ready);
    mc_list_splice_tail(&ready, &server->work);
    while (!mc_list_empty(&ready)) {
        struct mc_rpc_conn *conn = mc_list_first(&ready, struct mc_rpc_conn, work);

        mc_list_drop(&conn->work);
        mc_rpc_conn_work(conn);
    }
    mc_rpc_server_settle(server);
}

void mc_rpc_server_unstall(struct mc_rpc_server *server)
{
    while (!mc_list_empty(&server->stalled)) {
        struct mc_rpc_conn *conn = mc_list_first(&server->stalled, struct mc_rpc_conn, stalled);

        mc_list_drop(&conn->stalled);
        mc_rpc_server_work(server, conn);
    }
}

void mc_rpc_server_work(struct mc_rpc_server *server, struct mc_rpc_conn *conn)
{
    if (!mc_list_linked(&conn->work)) {
        mc_list_add_tail(&server->work, &conn->work);
    }
    if (!server->work_posted) {
        server->work_posted = true;
        mc_loop_post(server->loop, &server->work_post);
    }
}

/* ---- the end ----------------------------------------------------------------------------------
 */

static void free_server(struct mc_rpc_server *server)
{
    mc_free(server->scratch);
    mc_buf_fini(&server->reply_buf);
    mc_free(server);
}

void mc_rpc_server_settle(struct mc_rpc_server *server)
{
    if (server->closed) {
        if (mc_list_empty(&server->conns) && server->requests_count == 0 && !server->work_posted) {
            free_server(server);
        }
        return;
    }
    if (server->draining && !server->drained && mc_list_empty(&server->conns)) {
        server->drained = true;
        mc_timer_set(server->drain_timer, 0, 0); /* done is called from the loop */
    }
}

static void drain_fired(void *arg)
{
    struct mc_rpc_server *server = arg;

    if (server->drained) {
        server->drain_done(server->drain_arg);
        return;
    }
    mc_list_for_each (node, &server->conns) {
        struct mc_rpc_conn *conn = MC_CONTAINER_OF(node, struct mc_rpc_conn, node);

        conn->ended = true;
        mc_stream_close(conn->stream, MOONCAKE_ERPC);
    }
}

void mc_rpc_server_drain(struct mc_rpc_server *server, uint32_t grace_ms, void (*done)(void *arg),
                         void *done_arg)
{
    MC_ASSERT_ON_LOOP(server->loop);
    MC_ASSERT(!server->draining);
    server->draining = true;
    server->drain_done = done;
    server->drain_arg = done_arg;
    mc_listener_close(&server->listener);
    mc_timer_set(server->drain_timer, grace_ms, 0);
    mc_list_for_each (node, &server->conns) {
        struct mc_rpc_conn *conn = MC_CONTAINER_OF(node, struct mc_rpc_conn, node);

        if (conn->requests_count == 0) {
            mc_rpc_conn_finish(conn);
        }
    }
    mc_rpc_server_settle(server);
}

void mc_rpc_server_close(struct mc_rpc_server **server_ptr)
{
    struct mc_rpc_server *server = *server_ptr;

    if (server == NULL) {
        return;
    }
    MC_ASSERT_ON_LOOP(server->loop);
    *server_ptr = NULL;
    mc_listener_close(&server->listener);
    mc_timer_destroy(&server->tick);
    mc_timer_destroy(&server->drain_timer);
    mc_list_for_each (node, &server->conns) {
        struct mc_rpc_conn *conn = MC_CONTAINER_OF(node, struct mc_rpc_conn, node);

        conn->ended = true;
        mc_stream_close(conn->stream, MOONCAKE_OK);
        mc_rpc_conn_tell_closed(conn);
    }
    while (!mc_list_empty(&server->free_requests)) {
        struct mc_rpc_request_slot *slot =
            mc_list_first(&server->free_requests, struct mc_rpc_request_slot, node);

        mc_list_drop(&slot->node);
        mc_arena_fini(&slot->arena);
        mc_free(slot);
    }
    server->closed = true;
    mc_rpc_server_settle(server);
}

/* ---- the beginning ----------------------------------------------------------------------------
 */

static void on_accept(void *arg, int fd)
{
    (void)mc_rpc_conn_accept(arg, fd);
}

static void init_lists(struct mc_rpc_server *server)
{
    mc_list_init(&server->conns);
    mc_list_init(&server->newcomers);
    mc_list_init(&server->unfinished);
    mc_list_init(&server->free_requests);
    mc_list_init(&server->work);
    mc_list_init(&server->stalled);
}

mooncake_err mc_rpc_server_open_part(struct mc_loop *loop, unsigned parts,
                                     const struct mc_rpc_server_ops *ops, void *arg,
                                     struct mc_rpc_server **out)
{
    struct mc_rpc_server *server;
    mooncake_err err = MOONCAKE_ENOMEM;

    MC_ASSERT_ON_LOOP(loop);
    MC_ASSERT(parts > 0);
    MC_ASSERT(ops->on_hello != NULL && ops->handle != NULL);
    server = mc_calloc(1, sizeof(*server));
    if (server == NULL) {
        return MOONCAKE_ENOMEM;
    }
    server->loop = loop;
    server->spent = mc_loop_spent(loop);
    server->connections_max = MC_CONNECTIONS_MAX / parts;
    server->input_total_max = MC_RPC_INPUT_TOTAL_MAX / parts;
    server->output_total_max = MC_RPC_OUTPUT_TOTAL_MAX / parts;
    server->ops = *ops;
    server->arg = arg;
    server->work_post.run = work_cb;
    server->hello_ns_max = HELLO_NS_MAX;
    server->frame_ns_max = FRAME_NS_MAX;
    init_lists(server);
    server->scratch = mc_malloc(MC_RPC_SCRATCH_LEN);
    if (server->scratch == NULL) {
        goto free_server;
    }
    err = mc_timer_create(loop, tick_fired, server, &server->tick);
    if (err != MOONCAKE_OK) {
        goto free_scratch;
    }
    err = mc_timer_create(loop, drain_fired, server, &server->drain_timer);
    if (err != MOONCAKE_OK) {
        goto destroy_tick;
    }
    *out = server;
    return MOONCAKE_OK;

destroy_tick:
    mc_timer_destroy(&server->tick);
free_scratch:
    mc_free(server->scratch);
free_server:
    mc_free(server);
    return err;
}

mooncake_err mc_rpc_server_open(struct mc_loop *loop, const char *address,
                                const struct mc_rpc_server_ops *ops, void *arg,
                                struct mc_rpc_server **out)
{
    struct mc_rpc_server *server = NULL;
    mooncake_err err;

    MC_TRY(mc_rpc_server_open_part(loop, 1, ops, arg, &server));
    err = mc_listener_open(loop, address, false, on_accept, server, &server->listener);
    if (err != MOONCAKE_OK) {
        mc_rpc_server_close(&server);
        return err;
    }
    server->port = mc_listener_port(server->listener);
    *out = server;
    return MOONCAKE_OK;
}

uint16_t mc_rpc_server_port(const struct mc_rpc_server *server)
{
    return server->port;
}

struct mc_buf *mc_rpc_reply_buf(struct mc_rpc_server *server)
{
    mc_buf_clear(&server->reply_buf, REPLY_BUF_KEEP_LEN_MAX);
    return &server->reply_buf;
}

struct mc_buf *mc_rpc_request_reply_buf(struct mc_rpc_request *request)
{
    struct mc_rpc_server *server =
        MC_CONTAINER_OF(request, struct mc_rpc_request_slot, request)->server;

    mc_buf_clear(&server->reply_buf, REPLY_BUF_KEEP_LEN_MAX);
    return &server->reply_buf;
}

bool mc_rpc_server_take(struct mc_rpc_server *server, int fd)
{
    if (server->draining) {
        (void)close(fd);
        return false;
    }
    return mc_rpc_conn_accept(server, fd);
}

const struct mc_rpc_server_stats *mc_rpc_server_stats(const struct mc_rpc_server *server)
{
    return &server->stats;
}

void mc_rpc_server_stats_add(struct mc_rpc_server_stats *to, const struct mc_rpc_server_stats *from)
{
    mc_counter_add_owner(&to->accepted, mc_counter_get(&from->accepted));
    mc_counter_add_owner(&to->refused, mc_counter_get(&from->refused));
    mc_counter_add_owner(&to->bad_frames, mc_counter_get(&from->bad_frames));
    mc_counter_add_owner(&to->requests, mc_counter_get(&from->requests));
    mc_counter_add_owner(&to->replies, mc_counter_get(&from->replies));
    mc_gauge_add(&to->connections, mc_gauge_get(&from->connections));
}
