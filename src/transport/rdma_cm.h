/*
 * An event channel of the connection manager on a loop. Events are copied and acknowledged before
 * anybody hears of them, so that a handler may destroy the id: destroying waits for
 * acknowledgements, and nothing here may wait.
 *
 * Thread: the loop's owner.
 */
#ifndef MC_TRANSPORT_RDMA_CM_H
#define MC_TRANSPORT_RDMA_CM_H

#include "io/loop.h"
#include "transport/rdma_verbs.h"

struct mc_rdma_cm;

struct mc_rdma_cm_event {
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;        /* of a connection request: a new one, the handler's */
    struct rdma_cm_id *listen_id; /* of a connection request */
    int status;                   /* why, for events that tell of a failure */
    uint8_t initiator_depth, responder_resources;
    uint8_t data_len;
    uint8_t data[UINT8_MAX]; /* what the peer sent along */
};

/** ENOMEM; ERPC: the kernel has no connection manager, or we may not use it. */
mooncake_err mc_rdma_cm_open(struct mc_loop *loop, const struct mc_verbs *verbs,
                             void (*on_event)(void *arg, const struct mc_rdma_cm_event *event),
                             void *arg, struct mc_rdma_cm **out) MC_MUST_CHECK;
/** All ids of it must have been destroyed. From an event too. Nulls *cm. */
void mc_rdma_cm_close(struct mc_rdma_cm **cm);
/** A new id; @p arg is its context. */
mooncake_err mc_rdma_cm_create_id(struct mc_rdma_cm *cm, void *arg,
                                  struct rdma_cm_id **out) MC_MUST_CHECK;

#endif
