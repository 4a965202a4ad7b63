/*
 * A queue pair with a completion queue of its own: posts chains of one-sided work requests, asks
 * for few completions, and gives finished work back in order. It never waits: what does not fit is
 * refused, and an error is the end of the queue pair, which its user then closes.
 *
 * Quiet: after mc_rdma_qp_close() the device touches no memory for it any more, whatever was under
 * way; the work is handed back as unfinished.
 *
 * Thread: the loop's owner.
 */
#ifndef MC_TRANSPORT_RDMA_QP_H
#define MC_TRANSPORT_RDMA_QP_H

#include "io/loop.h"
#include "transport/rdma_device.h"

struct mc_rdma_qp;

struct mc_rdma_qp_users {
    /* @p work is finished. May close the queue pair. */
    void (*on_done)(void *arg, void *work);
    /* A completion says it has failed, or makes no sense: the queue pair is of no use. The user
     * closes it from here; the sentence says why. */
    void (*on_failed)(void *arg, mooncake_err err);
    /* All completions that were there have been handled: there may be room. NULL allowed. */
    void (*on_room)(void *arg);
    void *arg;
};

struct mc_rdma_qp_options {
    struct mc_rdma_device *device;
    bool poll;          /* look for completions at each turn of the loop, not only when told */
    int access;         /* what the peer may do with it: IBV_ACCESS_REMOTE_... */
    uint32_t send_max;  /* work requests under way; 0: the device's */
    unsigned reads_max; /* READs under way at once, 0: the device's */
};

/** Its state is RESET. ENOMEM; ERPC: the device refuses. */
mooncake_err mc_rdma_qp_open(struct mc_loop *loop, const struct mc_verbs *verbs,
                             const struct mc_rdma_qp_options *options,
                             const struct mc_rdma_qp_users *users,
                             struct mc_rdma_qp **out) MC_MUST_CHECK;
/**
 * Destroy it: no memory is touched for it after this. @p on_lost is called for each work that had
 * been added and not finished, in order; NULL: nobody asks. Nulls *qp.
 */
void mc_rdma_qp_close(struct mc_rdma_qp **qp, void (*on_lost)(void *arg, void *work), void *arg);

uint32_t mc_rdma_qp_number(const struct mc_rdma_qp *qp);
/** Is @p queue, of an event, the verbs' queue pair or completion queue of it? */
bool mc_rdma_qp_is(const struct mc_rdma_qp *qp, const void *queue);
/** The states on the way to a connection, as the connection manager has them for @p id. */
mooncake_err mc_rdma_qp_to_init(struct mc_rdma_qp *qp, struct rdma_cm_id *id) MC_MUST_CHECK;
/** @p mtu: bytes, the most that both ends take; *out_mtu is what it became. */
mooncake_err mc_rdma_qp_to_send(struct mc_rdma_qp *qp, struct rdma_cm_id *id, uint32_t mtu,
                                uint32_t *out_mtu) MC_MUST_CHECK;

/* One work request. */
struct mc_rdma_work_request {
    bool is_write;
    uint64_t remote_at;
    uint32_t remote_key;
    struct ibv_sge *pieces; /* local memory; copied */
    unsigned pieces_count;  /* at most mc_rdma_qp_sge_max(); 0: of no bytes */
    uint64_t len;           /* of all pieces */
};

unsigned mc_rdma_qp_sge_max(const struct mc_rdma_qp *qp);
/** How many more mc_rdma_qp_add() takes now. */
unsigned mc_rdma_qp_room(const struct mc_rdma_qp *qp);
/** Under way, with those that are not posted yet. */
unsigned mc_rdma_qp_pending(const struct mc_rdma_qp *qp);
/** Add to the chain; goes out with the next ring at the latest. There must be room. EPEER-like
 * ERPC: posting has failed, close it (@p work was taken and comes back as lost). */
mooncake_err mc_rdma_qp_add(struct mc_rdma_qp *qp, const struct mc_rdma_work_request *request,
                            void *work) MC_MUST_CHECK;
/** Post what was added, with one doorbell. */
mooncake_err mc_rdma_qp_ring(struct mc_rdma_qp *qp) MC_MUST_CHECK;
/** Look for completions now. */
void mc_rdma_qp_look(struct mc_rdma_qp *qp);

/** Since when nothing has finished while work was under way; 0: none is. */
uint64_t mc_rdma_qp_waiting_since_ns(const struct mc_rdma_qp *qp);

struct mc_rdma_qp_counts {
    uint64_t posted, doorbells, signaled, completions;
};
struct mc_rdma_qp_counts mc_rdma_qp_counts(const struct mc_rdma_qp *qp);

#endif
