/*
 * A server's inside, for rpc_server.c (accepting, end) and rpc_conn.c (one connection).
 */
#ifndef MC_RPC_RPC_SERVER_IMPL_H
#define MC_RPC_RPC_SERVER_IMPL_H

#include "io/stream.h"
#include "rpc/input.h"
#include "rpc/rpc_server.h"

/* A peer whose connection we end has this long to take our last words. */
#define MC_RPC_LINGER_MS 1000u

struct mc_rpc_front;

struct mc_rpc_server {
    struct mc_loop *loop;       /* borrowed */
    struct mc_spent *spent;     /* the loop's */
    struct mc_rpc_front *front; /* another loop does what requests ask; NULL: this one does */
    struct mc_rpc_server_ops ops;
    void *arg;
    struct mc_listener *listener; /* NULL once draining */
    uint16_t port;
    struct mc_rpc_server_stats stats;

    struct mc_list conns;      /* all, of mc_rpc_conn.node */
    struct mc_list newcomers;  /* no Hello yet, oldest first, of .owing */
    struct mc_list unfinished; /* part of a frame is missing, oldest first, of .owing */
    uint64_t hello_ns_max;     /* from accepting to Hello */
    uint64_t frame_ns_max;     /* from the first byte of a frame to its last */
    struct mc_timer *tick;     /* runs while one of these two is not empty */
    bool ticking;

    struct mc_list free_requests; /* last used first */
    unsigned free_requests_count;
    unsigned requests_count; /* given to handle and not answered */
    uint8_t *scratch;        /* owned: where bytes land */
    struct mc_buf reply_buf;
    unsigned connections_max; /* our part of what all servers of the port may have: this, */
    uint64_t input_total_max, output_total_max; /* and these */
    uint64_t input_total;                       /* bytes of unfinished frames */
    uint64_t output_total;                      /* bytes queued to peers, as of their last look */

    struct mc_rpc_conn *current; /* whose bytes are being handled; its replies are flushed then */
    struct mc_list work;         /* connections to flush or to go on with, of .work */
    struct mc_list stalled;      /* connections that wait for room at the front, of .stalled */
    struct mc_post work_post;
    bool work_posted;

    struct mc_timer *drain_timer;
    void (*drain_done)(void *arg);
    void *drain_arg;
    bool draining, drained;
    bool closed; /* by mc_rpc_server_close(): lives on for its connections and requests */
};

struct mc_rpc_conn {
    struct mc_rpc_server *server;
    struct mc_stream *stream;
    struct mc_list node, owing, work, stalled;
    struct mc_rpc_input input;
    struct mc_list requests; /* not answered */
    unsigned requests_count;
    size_t requests_len;           /* bytes of their bodies */
    size_t held_seen, queued_seen; /* our part of the server's totals */
    uint64_t owing_since_ns;
    bool hello_done;
    bool paused; /* not read from: too much is unanswered or not taken */
    bool ended;  /* no frame is taken any more */
    bool told;   /* on_conn_closed was called */
    void *data;  /* the owner's */
};

/* mc_rpc_request with what belongs to it. */
struct mc_rpc_request_slot {
    struct mc_rpc_request request;
    struct mc_rpc_server *server;
    struct mc_list node; /* in the connection's requests or in free_requests */
    struct mc_arena arena;
};

/** Make a connection of @p fd, which is taken in every case. False: it was closed. */
bool mc_rpc_conn_accept(struct mc_rpc_server *server, int fd);
/** Handle what has come and what waits to go out. Called through mc_rpc_server_work(). */
void mc_rpc_conn_work(struct mc_rpc_conn *conn);
/** Say no more than what is queued, then close. */
void mc_rpc_conn_finish(struct mc_rpc_conn *conn);
/** Tell the owner that it is gone, once. */
void mc_rpc_conn_tell_closed(struct mc_rpc_conn *conn);

/** There is room at the front again. */
void mc_rpc_server_unstall(struct mc_rpc_server *server);

/** Have mc_rpc_conn_work() called for @p conn from the loop. */
void mc_rpc_server_work(struct mc_rpc_server *server, struct mc_rpc_conn *conn);
/** See to it that the tick runs. */
void mc_rpc_server_tick(struct mc_rpc_server *server);
/* ---- of a server with a front (rpc_fronts.c) ------------------------------------------------- */

/** Must no more requests be made for now? Then mc_rpc_server_unstall() will come. */
bool mc_rpc_front_is_full(const struct mc_rpc_front *front);
/** Frames that came together have been handled. */
void mc_rpc_front_flush(struct mc_rpc_front *front);

/** A connection or a request is gone: free the server if it was the last of a closed one. */
void mc_rpc_server_settle(struct mc_rpc_server *server);

#endif
