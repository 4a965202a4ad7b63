/*
 * A group of extent transfers under one deadline: submits each op over the best transport, retries
 * what a lost connection spoilt over the next one, counts completions, and stops everything at the
 * deadline so that the caller's memory is quiet afterwards.
 *
 * Thread: the loop's owner. done runs from the loop or from start, exactly once.
 */
#ifndef MC_TRANSPORT_XFER_H
#define MC_TRANSPORT_XFER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

struct mc_xfer {
    struct mc_transport_set *set;       /* borrowed */
    void (*done)(struct mc_xfer *xfer); /* every op's err is set */
    void *arg;

    /* Private. */
    struct mc_list under_way; /* submitted */
    struct mc_list waiting;   /* added, or refused as busy */
    unsigned left;            /* ops that have not ended */
    unsigned touched_mask;    /* kinds to flush */
    bool pumping;             /* a pump runs further up the stack */
    bool again;               /* it must look at the waiting ops once more */
    bool stopped;
    void (*on_op)(struct mc_xfer *xfer, struct mc_xfer_op *op);
    struct mc_timer *timer;
    uint64_t deadline_ns;
};

/** Prepare; ops are added one by one and started together. */
void mc_xfer_init(struct mc_xfer *xfer, struct mc_transport_set *set,
                  void (*done)(struct mc_xfer *xfer), void *arg);
/** Add one op (caller's memory until done); op->done and op->arg are xfer's from here. Before
 * start, or from on_op: a reader adds the next replica's op there, and may use the same op again.
 */
void mc_xfer_add(struct mc_xfer *xfer, struct mc_xfer_op *op);
/** Called for each op that has ended, before done; may add further ops. NULL allowed. */
void mc_xfer_set_on_op(struct mc_xfer *xfer,
                       void (*on_op)(struct mc_xfer *xfer, struct mc_xfer_op *op));
/**
 * Submit what was added and flush. With no ops, or when all end at once, done runs from here.
 *
 * Results in op->err: as in transport.h; ERPC when every way to the target has failed or there is
 * none; ETIMEDOUT at the deadline.
 *
 * @retval ENOMEM  done does not run; the ops' memory is quiet
 */
mooncake_err mc_xfer_start(struct mc_xfer *xfer, uint64_t deadline_ns) MC_MUST_CHECK;
/** Stop all; their err is ETIMEDOUT; done runs from here (or, if called from on_op, soon after).
 * Ops that on_op adds from now on end with ETIMEDOUT too. */
void mc_xfer_cancel(struct mc_xfer *xfer);
/** Stop one op that has not ended: its memory is quiet and its err ETIMEDOUT; on_op runs from here,
 * and done too if it was the last one. Others go on. */
void mc_xfer_cancel_op(struct mc_xfer *xfer, struct mc_xfer_op *op);

#endif
