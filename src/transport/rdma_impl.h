/*
 * The inside of the client side of `rdma`: rdma.c has the table's functions, rdma_peer.c decides
 * which work goes over which path, rdma_conn.c makes connections, rdma_req.c cuts an op into work
 * and puts it together again. Thread: the loop's owner.
 *
 * An op is a request. A request is cut into works, each one work request on one connection. A
 * connection that fails is destroyed at once, which makes memory quiet; its works go to the peer's
 * list of work to be done again, over any path. A peer is one mount in one direction: a queue pair
 * for reading cannot write.
 */
#ifndef MC_TRANSPORT_RDMA_IMPL_H
#define MC_TRANSPORT_RDMA_IMPL_H

#include "transport/rdma_cm.h"
#include "transport/rdma_events.h"
#include "transport/rdma_qp.h"
#include "transport/rdma_staging.h"
#include "transport/rdma_wire.h"
#include "transport/transport.h"

#define MC_RDMA_BUCKETS 64u
#define MC_RDMA_PATHS_MAX MC_RDMA_PORTS_MAX
#define MC_RDMA_PATH_NAME_LEN 112u

struct mc_rdma {
    struct mc_transport transport; /* first */
    struct mc_transport_stats stats;
    struct mc_transport_options options;
    const struct mc_verbs *verbs;
    struct mc_rdma_devices *devices; /* held */
    struct mc_rdma_port ports[MC_RDMA_PORTS_MAX];
    unsigned ports_count;
    unsigned sge_max;                /* what every device takes */
    struct mc_rdma_cm *cm;           /* owned; NULL until the first connection */
    struct mc_rdma_watcher *watcher; /* owned */
    struct mc_rdma_staging staging;
    struct mc_list buckets[MC_RDMA_BUCKETS]; /* of peers */
    struct mc_list dirty;                    /* peers to be pumped */
    struct mc_list starved; /* peers that wait for staging; only the first may take some */
    struct mc_timer *timer; /* owned */
    bool ticking;
    struct mc_post post; /* pumps dirty peers */
    bool posted;
    bool closing;
    unsigned conns; /* on all paths */
    uint64_t moved; /* payload bytes */
};

enum mc_rdma_conn_state {
    MC_RDMA_CONN_ADDRESS, /* the address is being resolved */
    MC_RDMA_CONN_ROUTE,
    MC_RDMA_CONN_ASKED, /* the store has our request */
    MC_RDMA_CONN_UP,
};

struct mc_rdma_conn {
    struct mc_rdma_path *path;
    struct rdma_cm_id *id;
    struct mc_rdma_qp *qp; /* NULL until the route is known */
    enum mc_rdma_conn_state state;
    struct mc_rdma_answer remote;
    uint32_t mtu;
    uint64_t deadline_ns; /* of connecting */
    uint64_t used_ns;
    uint64_t under_way; /* bytes of works */
    uint64_t serial;
    struct mc_extent_ref ticket; /* by which it asked to be let in */
    uint64_t asked_for;          /* number of the last request that there was by then */
    bool proved;                 /* something has finished on it */
};

struct mc_rdma_path {
    struct mc_rdma_peer *peer;
    const struct mc_rdma_port *port;
    struct mc_rdma_place place;
    struct mc_rdma_conn *conn; /* owned; NULL: not connected */
    unsigned failures;         /* in a row */
    uint64_t tried_ns;         /* when the last try to connect began */
    uint64_t down_ns;          /* the last try failed, and told how it was then; 0: it did not */
    bool worked;               /* something has finished over it at some time */
    bool troubled;             /* it was said that it does not work */
    uint64_t troubled_ns;      /* since when */
    uint64_t paused_ns;        /* when its pause began; 0: it has none */
    uint64_t looked_ns;        /* when its port was asked last whether it is up */
    uint32_t mtu;              /* of its last connection; 0: none yet */
    char why[200];             /* what the last failure was */
    char name[MC_RDMA_PATH_NAME_LEN]; /* "mlx5_0>10.0.0.7", for messages */
};

struct mc_rdma_peer {
    struct mc_rdma *rdma;
    struct mc_list bucket_node, dirty_node, starved_node;
    uint64_t mount_id;
    enum mc_rights right;
    char name[MC_SEGMENT_NAME_LEN_MAX + 1]; /* of the segment */
    struct mc_rdma_path paths[MC_RDMA_PATHS_MAX];
    unsigned paths_count;
    struct mc_list waiting;        /* requests that are not cut up yet */
    struct mc_list waiting_staged; /* the same, of those that need staging */
    bool staged_next;              /* whose turn it is, if there are both */
    struct mc_list sent;           /* requests that are */
    struct mc_list redo;           /* works whose connection was lost */
    unsigned reqs;
    uint64_t reqs_made;             /* so far; the number of the last */
    uint64_t segment_len, part_len; /* as the store has told; 0: not yet */
    struct mc_extent_ref ticket;    /* of the last request: lets us in again while nobody asks */
    uint64_t used_ns;               /* when it was last asked for */
    uint64_t worked_ns;             /* when a connection that worked has ended last; 0: none has */
    uint64_t starved_since_ns;
    bool pumping, again;
};

/* A piece of the op and where it is registered. */
struct mc_rdma_piece {
    struct mc_memreg_range *range; /* borrowed by this piece; NULL: by an earlier one */
    struct mc_rdma_region *region; /* NULL: the piece is empty */
};

#define MC_RDMA_PIECES_INLINE 4u

struct mc_rdma_req {
    struct mc_list node; /* of peer->waiting, waiting_staged or sent */
    struct mc_rdma_peer *peer;
    struct mc_xfer_op *op;
    uint64_t number; /* of its peer's requests, from 1 */
    uint64_t total;  /* header and payload */
    uint64_t at;     /* of which so much is cut into works */
    struct mc_list works;
    uint8_t *header; /* in staging */
    bool staged;     /* payload goes by chunks */
    int numa_node;   /* of the memory; -1: unknown */
    unsigned losses;
    uint64_t lost_serial; /* of the connection that was lost last */

    /* Where in the pieces payload byte cursor_at is; only to find the next one faster. */
    unsigned cursor;
    uint64_t cursor_at;

    struct mc_rdma_piece *pieces; /* owned if more than fit inline; by index of op->pieces */
    struct mc_rdma_piece pieces_inline[MC_RDMA_PIECES_INLINE];
};

struct mc_rdma_work {
    struct mc_list node;     /* of peer->redo, if no connection has it */
    struct mc_list req_node; /* of req->works */
    struct mc_rdma_req *req;
    struct mc_rdma_conn *conn; /* NULL: in peer->redo */
    uint64_t at, len;          /* of the extent, from its header */
    uint8_t *chunk;            /* NULL: registered memory, or only a header */
};

/* ---- rdma.c ---------------------------------------------------------------------------------- */

/** Pump @p peer at the loop's next turn. */
void mc_rdma_pump_soon(struct mc_rdma_peer *peer);

/* ---- rdma_peer.c ----------------------------------------------------------------------------- */

/** The peer for this target. ERPC: it has no usable address; ENOMEM. */
mooncake_err mc_rdma_peer_get(struct mc_rdma *rdma, const struct mc_target *target,
                              enum mc_rights right, struct mc_rdma_peer **out) MC_MUST_CHECK;
void mc_rdma_peer_destroy(struct mc_rdma_peer *peer);
/** Has every path failed since one worked? Then a further try may take until its time-out. */
bool mc_rdma_peer_is_down(const struct mc_rdma_peer *peer);
/** May work be given to it? ERPC: all paths have failed a moment ago; they are tried again. */
mooncake_err mc_rdma_peer_ready(struct mc_rdma_peer *peer) MC_MUST_CHECK;
/** Connect, post, and end what cannot be done. */
void mc_rdma_peer_pump(struct mc_rdma_peer *peer);
/** Time-outs, stalls, idle connections. True: nothing is left of it, it may be destroyed. */
bool mc_rdma_peer_look_after(struct mc_rdma_peer *peer, uint64_t now_ns);
/** End every request with @p err. */
void mc_rdma_peer_end_all(struct mc_rdma_peer *peer, mooncake_err err);
/** Is any path connected? */
bool mc_rdma_peer_is_up(const struct mc_rdma_peer *peer);

/* ---- rdma_path.c ----------------------------------------------------------------------------- */

/** Close the path's connection; its works are to be done again. With @p err the path has failed
 * (the sentence says why) and is paused if that was not the first time. */
void mc_rdma_path_drop(struct mc_rdma_path *path, mooncake_err err);
/** Until when it is left alone; UINT64_MAX: for good. */
uint64_t mc_rdma_path_paused_until(const struct mc_rdma_path *path);
/** Begin to connect, if it is not connected, not paused, and its port is up. */
void mc_rdma_path_open(struct mc_rdma_path *path, uint64_t now_ns);
/** Its port cannot be used, or its last try has failed since a path of the peer worked. */
bool mc_rdma_path_is_down(const struct mc_rdma_path *path);
/** It is connected. */
void mc_rdma_path_up(struct mc_rdma_path *path);
/** Something has finished over it: all is well. */
void mc_rdma_path_proved(struct mc_rdma_path *path);
/** A device has told something: end the connections that are of no use now, try those again that
 * may be. */
void mc_rdma_peer_hear(struct mc_rdma_peer *peer, const struct mc_rdma_event *event);

/* ---- rdma_conn.c ----------------------------------------------------------------------------- */

/** Begin to connect; path->conn is set on success. */
mooncake_err mc_rdma_conn_open(struct mc_rdma_path *path) MC_MUST_CHECK;
/** Destroy it at once: memory is quiet. Works go to the peer's redo list. */
void mc_rdma_conn_destroy(struct mc_rdma_conn *conn);
void mc_rdma_conn_on_event(void *arg, const struct mc_rdma_cm_event *event);

/* ---- rdma_req.c ------------------------------------------------------------------------------ */

/** A request for @p op, among those that wait. EREPLICABUSY, ENOMEM, ERPC. */
mooncake_err mc_rdma_req_create(struct mc_rdma_peer *peer, struct mc_xfer_op *op,
                                struct mc_rdma_req **out) MC_MUST_CHECK;
/** Give back all it holds, connections that have work of it included; the op is not touched. */
void mc_rdma_req_destroy(struct mc_rdma_req *req);
/** The same, then the op ends with @p err. */
void mc_rdma_req_end(struct mc_rdma_req *req, mooncake_err err);
/** Cut the next work off and add it to @p conn. EREPLICABUSY: no staging; ERPC: @p conn has failed;
 * ENOMEM, EINVAL (outside the segment): the request is to end. */
mooncake_err mc_rdma_req_send_next(struct mc_rdma_req *req,
                                   struct mc_rdma_conn *conn) MC_MUST_CHECK;
/** Add @p work, which is in redo, to @p conn. */
mooncake_err mc_rdma_work_send_again(struct mc_rdma_work *work,
                                     struct mc_rdma_conn *conn) MC_MUST_CHECK;
/** The work's connection says it is finished. */
void mc_rdma_work_done(struct mc_rdma_work *work);
/** The work's connection is gone. */
void mc_rdma_work_lost(struct mc_rdma_work *work);

#endif
