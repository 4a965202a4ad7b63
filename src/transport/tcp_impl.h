/*
 * The inside of the `tcp` transport's client side, for tcp.c (the table's functions), tcp_peer.c
 * (which connection, when, and what if it fails), tcp_conn.c (one connection, and answers in),
 * tcp_send.c (requests out) and tcp_stripe.c (an op that is moved in parts).
 *
 * Where an op is, between submit and done: in its peer's `waiting` (not sent), in its connection's
 * `asked` (sent, or on its way; answers come in this order), or in its connection's `answered` (the
 * answer has come, but bytes of the caller are still on their way out). A large op has a stripe
 * (op->stripe) and is in its peer's `striped` while parts of it can be handed out; each part is an
 * op for itself as far as connections are concerned.
 */
#ifndef MC_TRANSPORT_TCP_IMPL_H
#define MC_TRANSPORT_TCP_IMPL_H

#include "io/stream.h"
#include "transport/tcp_frame.h"
#include "transport/transport.h"

/* Ops on one connection: as many answers as the server holds ready. */
#define MC_TCP_CONN_OPS_MAX 256u
/* Ops of one peer, sent and waiting; more are refused as busy. */
#define MC_TCP_PEER_OPS_MAX 8192u
/* A payload up to here is received through the connection's buffer, many by one system call, and
 * sent by way of the stream's buffer; a longer one moves between the socket and its place. */
#define MC_TCP_SMALL_LEN (16u << 10)
#define MC_TCP_IN_LEN (64u << 10)
#define MC_TCP_ANSWER_FRAMES_LEN (MC_TCP_ANSWER_LEN + MC_EXTENT_HEADER_LEN)
#define MC_TCP_BUCKETS 64u
/* A longer WRITE is moved in parts of so much: a part is hashed and then sent, so it should be in
 * the second-level cache still. Shorter ones leave the socket idle between them: 128 KiB cost a
 * third of the rate on loopback. */
#define MC_TCP_PART_LEN (512u << 10)
/* A READ of fewer parts (less than 1 MiB) is asked for whole: it is over in a round trip or two. */
#define MC_TCP_READ_PARTS_MIN 2u
/* So many parts of READs are asked for ahead on each connection. More (or all, as it once was) fill
 * sockets with bytes that have left the caches before they are taken out: 2 MiB beat everything
 * asked at once by a third on loopback, and 1 MiB by a sixth. Whoever comes next does not stand
 * behind a huge value, either. Where each connection has so much to carry, one more is worth it. */
#define MC_TCP_PARTS_AHEAD 4u
/* Parts of one op at a time. */
#define MC_TCP_PARTS_MAX 16u

/* What op->peer points at: the first member of a peer or a connection. */
struct mc_tcp_place {
    struct mc_tcp_peer *peer;
    struct mc_tcp_conn *conn; /* NULL: the op waits */
};

struct mc_tcp {
    struct mc_transport transport; /* first */
    struct mc_transport_options options;
    struct mc_transport_stats stats;
    struct mc_list buckets[MC_TCP_BUCKETS]; /* of peers, by hash of the address */
    struct mc_list dirty;                   /* peers with ops submitted since the last flush */
    struct mc_timer *timer;                 /* looks after idle and mute connections; owned */
    uint64_t op_id;                         /* the last given */
    uint64_t moved;                         /* bytes received in place, and queued to be sent */
    unsigned conns;                         /* alive, closing ones included */
    bool looking_after;                     /* timer is set */
    bool closing;                           /* goes with its last connection */
};

/* One store's address. */
struct mc_tcp_peer {
    struct mc_tcp_place place; /* first */
    struct mc_tcp *tcp;        /* borrowed */
    struct mc_list bucket_node, dirty_node;
    struct mc_list conns;   /* usable and connecting; old ones too, as long as ops are on them */
    struct mc_list waiting; /* ops, and parts for another try */
    struct mc_list striped; /* ops with parts to hand out now */
    unsigned conns_alive;   /* closing ones included; they point here */
    unsigned ops;           /* waiting and on connections */
    uint64_t backoff_until_ns, backoff_ms;
    bool pumping, pump_again;
    char address[]; /* "10.0.0.7:18515" */
};

enum mc_tcp_conn_state {
    MC_TCP_CONN_CONNECTING, /* until the hellos have met */
    MC_TCP_CONN_UP,
    MC_TCP_CONN_CLOSED, /* on_closed is to come */
};

struct mc_tcp_conn {
    struct mc_tcp_place place; /* first */
    struct mc_list node;       /* in peer->conns */
    struct mc_stream *stream;  /* owned */
    enum mc_tcp_conn_state state;
    bool was_up;
    bool unflushed; /* ops were sent since the last flush */
    bool old; /* takes no further op: another connection to this peer was lost after it was made */
    uint64_t since_ns; /* CONNECTING: of the start; UP: of the last op's end */

    struct mc_list asked, answered; /* ops */
    unsigned ops;                   /* in both */
    uint64_t load;                  /* payload bytes of the WRITEs and parts in both */
    uint64_t sends, sends_ended;    /* of callers' memory; an op is sent when its last has ended */

    /* The first op of `asked`, once its answer's frames have been read: where the next byte goes.
     */
    bool receiving;
    mooncake_err verdict; /* on its header */
    uint64_t promised;    /* checksum */
    uint64_t left;        /* payload bytes to come */
    unsigned piece;
    size_t piece_done;
    struct mc_extent_hash hash;

    uint32_t in_start, in_end;
    uint8_t in[MC_TCP_IN_LEN];
};

/* A place in an op's payload. */
struct mc_tcp_cursor {
    unsigned piece;
    size_t done; /* bytes of it that lie before */
};

/* A run of an op's payload that one connection moves. The op in it is the whole's likeness: right,
 * extent, target and pieces are the same. */
struct mc_tcp_part {
    struct mc_xfer_op op; /* first */
    uint64_t offset, len; /* within the payload */
    uint64_t landed;      /* READ: so many bytes are in place */
    struct mc_tcp_cursor start;
    bool header_only; /* the last part of a WRITE */
    bool under_way;   /* it has not ended */
};

/* An op that is moved in parts. Parts are handed out in order and may end in any. */
struct mc_tcp_stripe {
    struct mc_xfer_op *op;    /* the whole */
    struct mc_tcp_peer *peer; /* borrowed */
    mooncake_err err;         /* the first thing that was wrong; nothing is handed out after it */
    uint64_t count;           /* parts */
    uint64_t base, next;      /* the first part that has not ended; the first not handed out */
    uint64_t handed_len;      /* payload bytes of the parts that were handed out */
    struct mc_tcp_cursor handed;
    unsigned under_way; /* parts */

    /* The checksum over all before `base` and over the first bytes of that part. */
    bool hashes;
    uint64_t promised;                       /* READ: by the header */
    uint64_t hashed_len;                     /* bytes of part `base` */
    struct mc_tcp_cursor hashed;             /* where the next byte is */
    struct mc_extent_hash hash, hash_before; /* now; at the beginning of part `base` */

    unsigned slots;
    struct mc_tcp_part parts[]; /* number n in n % slots */
};

/* ---- tcp_peer.c ------------------------------------------------------------------------------ */

/** The peer of @p target, made if there was none. ENOMEM; EINVAL: it has no tcp address. */
mooncake_err mc_tcp_peer_get(struct mc_tcp *tcp, const struct mc_target *target,
                             struct mc_tcp_peer **out) MC_MUST_CHECK;
/** Is there any use in giving it an op now? ERPC: it could not be reached lately. EREPLICABUSY. */
mooncake_err mc_tcp_peer_ready(struct mc_tcp_peer *peer) MC_MUST_CHECK;
/** Send what waits, over the best connection or over a new one. May end ops. */
void mc_tcp_peer_pump(struct mc_tcp_peer *peer);
/** @p op has left the peer with this result: count and tell. */
void mc_tcp_peer_end_op(struct mc_tcp_peer *peer, struct mc_xfer_op *op, mooncake_err err);
/** End what waits. */
void mc_tcp_peer_end_waiting(struct mc_tcp_peer *peer, mooncake_err err);
/** @p conn, which is closed, was lost: its ops have another try or end. */
void mc_tcp_peer_lost(struct mc_tcp_peer *peer, struct mc_tcp_conn *conn, mooncake_err why);
/** Put the ops of @p conn, which is closed, back into `waiting`, as if never sent. */
void mc_tcp_peer_requeue(struct mc_tcp_peer *peer, struct mc_tcp_conn *conn);
/** Close what has been idle or mute for too long. */
void mc_tcp_peer_look_after(struct mc_tcp_peer *peer, uint64_t now_ns);
/** Free it if nothing needs it any more. */
void mc_tcp_peer_sweep(struct mc_tcp_peer *peer);
/** Take @p op, which waits or is on a connection, out of everything: its memory is quiet. */
void mc_tcp_peer_quiet_op(struct mc_xfer_op *op);

/* ---- tcp_conn.c ------------------------------------------------------------------------------ */

mooncake_err mc_tcp_conn_open(struct mc_tcp_peer *peer) MC_MUST_CHECK;
/** Give up: close, and let the peer see to the ops. Nothing if it is closed already. */
void mc_tcp_conn_fail(struct mc_tcp_conn *conn, mooncake_err why);
/** Close the stream and leave the peer's list; the ops stay on it, their memory is quiet. */
void mc_tcp_conn_close(struct mc_tcp_conn *conn);
/** One send of callers' memory has ended. */
void mc_tcp_conn_send_ended(struct mc_tcp_conn *conn);

/* ---- tcp_send.c ------------------------------------------------------------------------------ */

/** Has it room for one more op? */
bool mc_tcp_conn_has_room(const struct mc_tcp_conn *conn);
/** Queue @p op, which is in no list. An error means that the connection has to be given up; the op
 * is on it then, too. */
mooncake_err mc_tcp_conn_send(struct mc_tcp_conn *conn, struct mc_xfer_op *op) MC_MUST_CHECK;

/* ---- tcp_stripe.c ---------------------------------------------------------------------------- */

/** Is @p op one that is moved in parts? */
bool mc_tcp_stripe_suits(const struct mc_tcp *tcp, const struct mc_xfer_op *op);
/** Give @p op its stripe. ENOMEM. */
mooncake_err mc_tcp_stripe_create(struct mc_tcp_peer *peer, struct mc_xfer_op *op) MC_MUST_CHECK;
/** All parts are quiet; nobody hears of them. Takes op->stripe. */
void mc_tcp_stripe_destroy(struct mc_xfer_op *op);
/** The next part of @p op, which is in `striped` (and leaves it if this was the last that can be
 * handed out now). A WRITE's is hashed. */
struct mc_xfer_op *mc_tcp_stripe_hand_out(struct mc_xfer_op *op);
/** The part or the whole has left the peer with this result. */
void mc_tcp_stripe_end(struct mc_xfer_op *op, mooncake_err err);
/** @p op as a part; NULL: it is moved whole. */
struct mc_tcp_part *mc_tcp_part_of(struct mc_xfer_op *op);
/** READ: the part's bytes are about to come, maybe once more. */
void mc_tcp_part_begin(struct mc_tcp_part *part);
/** READ: the extent's header was in the first part: the payload must have this checksum. */
void mc_tcp_part_promise(struct mc_tcp_part *part, mooncake_err verdict, uint64_t checksum);
/** READ: @p n more bytes are in place. */
void mc_tcp_part_landed(struct mc_tcp_part *part, uint64_t n);
/** Payload bytes that the op, or the part that it is, moves. */
uint64_t mc_tcp_op_len(const struct mc_xfer_op *op);
/** The same if it counts for its connection's load, else 0. */
uint64_t mc_tcp_op_load(const struct mc_xfer_op *op);
/** Does the extent's header go with it? */
bool mc_tcp_op_has_header(const struct mc_xfer_op *op);

/* ---- tcp.c ----------------------------------------------------------------------------------- */

/** A connection's memory is about to go: free the transport too if it was the last of a closing
 * one. */
void mc_tcp_conn_gone(struct mc_tcp *tcp);

#endif
