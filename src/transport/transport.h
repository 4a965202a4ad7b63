/*
 * Bulk bytes between a caller's memory and extents in segments: one table of operations per kind
 * of transport (`local`, `shm`, `rdma`, `tcp`). transport.c holds the list of kinds.
 *
 * General promises, for every slot:
 *   Thread    the owner of the loop the instance was opened on.
 *   Blocking  never waits for a peer. `local` and `shm` may copy inside submit.
 *   Once      if submit returns OK, op->done runs exactly once, from submit itself (after it has
 *             taken everything it needs), from flush or from the loop. If it returns an error, done
 *             never runs.
 *   Quiet     after done or cancel, no byte of the op's pieces is read or written again.
 *   Proof     a read is OK only after mc_extent_header_check() (but with MC_VERIFY_NONE) and, with
 *             MC_VERIFY_FULL, the payload's checksum. A write sends the header with the payload.
 *             After any other result the op's pieces hold no particular bytes.
 *   Order     between ops: none.
 */
#ifndef MC_TRANSPORT_TRANSPORT_H
#define MC_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/ids.h"
#include "base/list.h"
#include "base/metric.h"
#include "io/loop.h"
#include "transport/extent.h"
#include "transport/lend.h"

struct mc_transport;

/* Where a segment can be reached. Owned by the client's segment cache; outlives the ops on it. */
struct mc_target {
    uint64_t mount_id;
    const char *name;      /* segment name, for messages */
    const char *addresses; /* space-separated: "tcp://10.0.0.7:18515 shm:///run/x.sock" */
};

/* One extent to read or write. The caller's memory, until done. */
struct mc_xfer_op {
    enum mc_rights right; /* READ: extent -> pieces; WRITE: pieces -> extent */
    struct mc_extent_ref extent;
    const struct mc_target *target; /* borrowed */
    struct iovec *pieces;           /* payload memory, in order; sums to extent.payload_len */
    unsigned pieces_count;
    /* READ only, and only for kinds that lend; NULL: copy. With it the payload is proven where it
     * lies and lent from there: *lend is set with OK, the submitter's to return; no pieces. */
    struct mc_lend *lend;
    enum mc_verify verify;
    void (*done)(struct mc_xfer_op *op);
    void *arg;        /* the submitter's */
    mooncake_err err; /* result, set before done */
    unsigned kind;    /* index of the transport that did it; set by xfer.c */

    /* Private to the transport between submit and done. */
    struct mc_list node;
    void *peer, *stripe;
    uint64_t id, mark;
    unsigned retries;

    /* Private to xfer.c between mc_xfer_add() and on_op. */
    struct mc_list xfer_node;
    unsigned tried_mask; /* kinds that lost this op */
    bool submitted;      /* with a transport, not waiting */
};

/** Bytes of all pieces together. */
uint64_t mc_xfer_op_len(const struct mc_xfer_op *op);

enum mc_transport_caps {
    MC_TRANSPORT_COPIES_INLINE = 1,    /* submit does the work before it returns */
    MC_TRANSPORT_NEEDS_REGISTERED = 2, /* caller memory must be registered or is staged */
    MC_TRANSPORT_LENDS = 4,            /* can lend payloads in place */
};

struct mc_direct_pool;
struct mc_memreg;
struct mc_peers;

struct mc_transport_options {
    uint32_t connect_timeout_ms;
    uint32_t idle_close_ms;   /* close a connection unused for so long; 0: never */
    uint32_t connections_max; /* to one peer, of one instance */
    uint32_t tcp_part_len;    /* of tcp: bytes that a large op is cut into; 0: the default */

    struct mc_memreg *memreg;       /* ranges the caller has registered; NULL: none */
    struct mc_peers *peers;         /* what is told about peers goes here; NULL: nowhere */
    struct mc_direct_pool *copiers; /* of shm: threads that help; NULL: none */

    /* Of rdma; 0 or NULL is the default. Texts are borrowed until the instance is closed. */
    const char *rdma_devices;      /* "mlx5_0,mlx5_1:2"; all that have a routable GID */
    const char *rdma_gid_index;    /* "auto" or a number */
    bool rdma_poll;                /* look for completions at each turn; else wait to be told */
    uint64_t rdma_staging;         /* bytes of registered memory that unregistered pieces go by */
    uint32_t rdma_stall_ms;        /* a connection on which nothing ends for so long is lost */
    uint32_t rdma_staging_wait_ms; /* an op that gets no staging for so long ends with ENOSPACE */
};

struct mc_transport_stats {
    struct mc_counter bytes_read, bytes_written, ops, failures, reconnects;
    struct mc_gauge connections;
};

struct mc_transport_ops {
    const char *kind; /* "tcp"; also the scheme in addresses */
    unsigned caps;    /* mc_transport_caps or-ed together */

    /* Make an instance on @p loop. ENOMEM; ENOTSUP if this machine cannot. */
    mooncake_err (*open)(struct mc_loop *loop, const struct mc_transport_options *options,
                         struct mc_transport **out);
    /* Begin to close: ops under way end with ERPC, connections close; memory goes with the loop's
     * remaining turns (mc_loop_destroy runs them). Not from a done. */
    void (*close)(struct mc_transport *transport);

    /* Can @p target be reached this way at all? Cheap, no I/O. */
    bool (*reaches)(struct mc_transport *transport, const struct mc_target *target);

    /* Accept @p op, or refuse it with
     *   EREPLICABUSY  queue full: try again after any completion
     *   ERPC          the peer cannot be reached now (recent failure, backing off)
     *   ENOMEM
     * Results in op->err: OK; ENOENT (stale descriptor); ECHECKSUM; ENOTOWNER or EINVAL (the store
     * refused); ENOSEGMENT (not mounted there any more); ERPC (connection lost); ENOSPACE (rdma: no
     * staging for unregistered memory within its time) */
    mooncake_err (*submit)(struct mc_transport *transport, struct mc_xfer_op *op);

    /* Send what submits have queued. Called once after a group. */
    void (*flush)(struct mc_transport *transport);

    /* Stop @p op, which is under way: done is not called, its memory is quiet at the return (a
     * connection may have to be closed for that; other ops on it are retried by the transport). */
    void (*cancel)(struct mc_transport *transport, struct mc_xfer_op *op);

    const struct mc_transport_stats *(*stats)(const struct mc_transport *transport);

    /* A number that grows whenever payload moves, also of ops that have not ended: by it a peer
     * that is slow is told from one that hangs. */
    uint64_t (*moved)(const struct mc_transport *transport);
};

/* Every instance starts with this. */
struct mc_transport {
    const struct mc_transport_ops *ops;
    struct mc_loop *loop;
};

extern const struct mc_transport_ops mc_transport_local;
extern const struct mc_transport_ops mc_transport_shm;
extern const struct mc_transport_ops mc_transport_rdma;
extern const struct mc_transport_ops mc_transport_tcp;

#define MC_TRANSPORT_KINDS_MAX 4u

/** All kinds, best reach first; *count of them. */
const struct mc_transport_ops *const *mc_transport_kinds(unsigned *count);

/* The instances of one loop. */
struct mc_transport_set {
    struct mc_transport *instances[MC_TRANSPORT_KINDS_MAX]; /* by kind; NULL: not allowed */
    unsigned count;
    struct mc_peers *peers; /* borrowed; NULL: nobody counts */
};

/**
 * Open all kinds named in @p allowed ("local,tcp"; NULL or "auto": all that this machine can).
 * EINVAL: an unknown name (the sentence lists the known ones); ENOTSUP: none can be opened.
 */
mooncake_err mc_transport_set_open(struct mc_loop *loop, const char *allowed,
                                   const struct mc_transport_options *options,
                                   struct mc_transport_set *out) MC_MUST_CHECK;
void mc_transport_set_close(struct mc_transport_set *set);
/** Does @p allowed (as in mc_transport_set_open) name this kind? */
bool mc_transport_allowed(const char *allowed, const char *kind);
/** Index of the best kind that reaches @p target and is not in @p tried_mask; -1: none. */
int mc_transport_set_choose(struct mc_transport_set *set, const struct mc_target *target,
                            unsigned tried_mask);
/** Mask of the kinds that have none of @p caps. */
unsigned mc_transport_set_without(const struct mc_transport_set *set, unsigned caps);

#endif
