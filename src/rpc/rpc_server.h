/*
 * Accepts control connections, checks frames and Hello, hands requests to one handler function and
 * sends the answers back in whatever order they are given. A peer that sends nonsense is closed; a
 * peer that does not read its answers is not read from.
 *
 * Thread: the loop's owner.
 */
#ifndef MC_RPC_SERVER_H
#define MC_RPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/metric.h"
#include "io/loop.h"

struct mc_rpc_server;
struct mc_rpc_conn;

/* One request. Exists from handle() until mc_rpc_reply(); survives the loss of its connection (the
 * reply is dropped then). */
struct mc_rpc_request {
    struct mc_rpc_conn *conn; /* borrowed; NULL once the connection is gone */
    uint64_t request_id;
    uint16_t method;
    const uint8_t *body; /* valid during handle() only: decode there */
    size_t body_len;
    struct mc_arena *arena; /* the request's own; freed as a whole after the reply */
    struct mc_spent *spent; /* of the loop of its connection; borrowed */
    uint64_t started_ns;
    void *data; /* the owner's; NULL at first */
};

struct mc_rpc_server_ops {
    uint16_t hello_method;
    /* Answer Hello: append the reply body to @p out. An error closes the connection after sending
     * the status with the sentence of mooncake_last_error(). */
    mooncake_err (*on_hello)(void *arg, struct mc_rpc_conn *conn, const uint8_t *body,
                             size_t body_len, struct mc_buf *out);
    /* Handle one request: reply now or later, exactly once. */
    void (*handle)(void *arg, struct mc_rpc_request *request);
    /* The connection is gone; from the loop, or from mc_rpc_server_close(). NULL allowed. */
    void (*on_conn_closed)(void *arg, struct mc_rpc_conn *conn);
};

struct mc_rpc_server_stats {
    struct mc_counter accepted; /* connections */
    struct mc_counter refused;  /* connections: too many, or Hello was refused */
    struct mc_counter bad_frames, requests, replies;
    struct mc_gauge connections;
};

/** Listen on @p address ("0.0.0.0:50051", port 0: the kernel picks). ERPC: address in use. */
mooncake_err mc_rpc_server_open(struct mc_loop *loop, const char *address,
                                const struct mc_rpc_server_ops *ops, void *arg,
                                struct mc_rpc_server **out) MC_MUST_CHECK;
/**
 * A server without a port of its own, one of @p parts that share what one may use (connections,
 * bytes): mc_rpc_server_take() gives it connections.
 */
mooncake_err mc_rpc_server_open_part(struct mc_loop *loop, unsigned parts,
                                     const struct mc_rpc_server_ops *ops, void *arg,
                                     struct mc_rpc_server **out) MC_MUST_CHECK;
/** Serve the connection @p fd, which is taken in every case. False: it was closed. */
bool mc_rpc_server_take(struct mc_rpc_server *server, int fd);
uint16_t mc_rpc_server_port(const struct mc_rpc_server *server);
/**
 * Send the answer and free the request. With @p status OK @p body is the reply message; otherwise
 * body is ignored and mooncake_last_error() goes along as the sentence (it is empty when handle is
 * entered). @p body is copied. Replies go out together at the end of the turn.
 */
void mc_rpc_reply(struct mc_rpc_request *request, mooncake_err status, const void *body,
                  size_t body_len);
/** Space to encode a reply into, kept by the server between requests; empty at the return. */
struct mc_buf *mc_rpc_reply_buf(struct mc_rpc_server *server);
/** The same, of the server that @p request came to. */
struct mc_buf *mc_rpc_request_reply_buf(struct mc_rpc_request *request);

/** The peer as "10.0.0.7:41234". */
const char *mc_rpc_conn_peer(const struct mc_rpc_conn *conn);
/** A pointer of the owner's for this connection; NULL at first. */
void mc_rpc_conn_set_data(struct mc_rpc_conn *conn, void *data);
void *mc_rpc_conn_data(const struct mc_rpc_conn *conn);

const struct mc_rpc_server_stats *mc_rpc_server_stats(const struct mc_rpc_server *server);
/** Add what @p from has counted. */
void mc_rpc_server_stats_add(struct mc_rpc_server_stats *to,
                             const struct mc_rpc_server_stats *from);
/** Stop accepting; answered connections are closed when their replies are out, or after
 * @p grace_ms. Then @p done, from the loop; not if the server is closed before that. */
void mc_rpc_server_drain(struct mc_rpc_server *server, uint32_t grace_ms, void (*done)(void *arg),
                         void *done_arg);
/** Close at once. No callback comes any more; requests that are not answered yet may still be
 * (mc_rpc_reply() frees them). Nulls *server. */
void mc_rpc_server_close(struct mc_rpc_server **server);

#endif
