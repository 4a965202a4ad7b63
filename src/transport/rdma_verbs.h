/*
 * The RDMA libraries as one table of functions. The real one comes from libibverbs and librdmacm,
 * loaded when somebody first wants RDMA, so that machines without them need neither library; a test
 * puts a table of its own in. Everything in rdma* calls verbs through this table only.
 */
#ifndef MC_TRANSPORT_RDMA_VERBS_H
#define MC_TRANSPORT_RDMA_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "base/err.h"

/* X(result, field, symbol, parameters): functions that the libraries export. */
#define MC_VERBS_LIBIBVERBS(X)                                                                     \
    X(int, init_fork, "ibv_fork_init", (void))                                                     \
    X(int, query_device, "ibv_query_device",                                                       \
      (struct ibv_context * context, struct ibv_device_attr * out))                                \
    X(int, query_port_attr, "ibv_query_port",                                                      \
      (struct ibv_context * context, uint8_t port, struct ibv_port_attr * out))                    \
    X(int, query_gid_entry, "_ibv_query_gid_ex",                                                   \
      (struct ibv_context * context, uint32_t port, uint32_t index, struct ibv_gid_entry * out,    \
       uint32_t flags, size_t entry_len))                                                          \
    X(struct ibv_pd *, alloc_pd, "ibv_alloc_pd", (struct ibv_context * context))                   \
    X(int, dealloc_pd, "ibv_dealloc_pd", (struct ibv_pd * pd))                                     \
    X(struct ibv_mr *, register_mr, "ibv_reg_mr",                                                  \
      (struct ibv_pd * pd, void *at, size_t len, int access))                                      \
    X(int, deregister_mr, "ibv_dereg_mr", (struct ibv_mr * mr))                                    \
    X(struct ibv_comp_channel *, create_channel, "ibv_create_comp_channel",                        \
      (struct ibv_context * context))                                                              \
    X(int, destroy_channel, "ibv_destroy_comp_channel", (struct ibv_comp_channel * channel))       \
    X(struct ibv_cq *, create_cq, "ibv_create_cq",                                                 \
      (struct ibv_context * context, int entries, void *arg, struct ibv_comp_channel *channel,     \
       int vector))                                                                                \
    X(int, destroy_cq, "ibv_destroy_cq", (struct ibv_cq * cq))                                     \
    X(int, get_cq_event, "ibv_get_cq_event",                                                       \
      (struct ibv_comp_channel * channel, struct ibv_cq * *out, void **out_arg))                   \
    X(void, ack_cq_events, "ibv_ack_cq_events", (struct ibv_cq * cq, unsigned count))              \
    X(struct ibv_qp *, create_qp, "ibv_create_qp",                                                 \
      (struct ibv_pd * pd, struct ibv_qp_init_attr * attr))                                        \
    X(int, modify_qp, "ibv_modify_qp", (struct ibv_qp * qp, struct ibv_qp_attr * attr, int mask))  \
    X(int, destroy_qp, "ibv_destroy_qp", (struct ibv_qp * qp))                                     \
    X(int, get_async_event, "ibv_get_async_event",                                                 \
      (struct ibv_context * context, struct ibv_async_event * out))                                \
    X(void, ack_async_event, "ibv_ack_async_event", (struct ibv_async_event * event))

#define MC_VERBS_LIBRDMACM(X)                                                                      \
    X(struct ibv_context **, get_devices, "rdma_get_devices", (int *out_count))                    \
    X(void, free_devices, "rdma_free_devices", (struct ibv_context * *list))                       \
    X(struct rdma_event_channel *, create_event_channel, "rdma_create_event_channel", (void))      \
    X(void, destroy_event_channel, "rdma_destroy_event_channel",                                   \
      (struct rdma_event_channel * channel))                                                       \
    X(int, create_id, "rdma_create_id",                                                            \
      (struct rdma_event_channel * channel, struct rdma_cm_id * *out, void *arg,                   \
       enum rdma_port_space space))                                                                \
    X(int, destroy_id, "rdma_destroy_id", (struct rdma_cm_id * id))                                \
    X(int, bind_addr, "rdma_bind_addr", (struct rdma_cm_id * id, struct sockaddr * address))       \
    X(int, listen, "rdma_listen", (struct rdma_cm_id * id, int backlog))                           \
    X(__be16, get_src_port, "rdma_get_src_port", (struct rdma_cm_id * id))                         \
    X(int, resolve_addr, "rdma_resolve_addr",                                                      \
      (struct rdma_cm_id * id, struct sockaddr * from, struct sockaddr * to, int timeout_ms))      \
    X(int, resolve_route, "rdma_resolve_route", (struct rdma_cm_id * id, int timeout_ms))          \
    X(int, init_qp_attr, "rdma_init_qp_attr",                                                      \
      (struct rdma_cm_id * id, struct ibv_qp_attr * attr, int *out_mask))                          \
    X(int, connect, "rdma_connect", (struct rdma_cm_id * id, struct rdma_conn_param * param))      \
    X(int, establish, "rdma_establish", (struct rdma_cm_id * id))                                  \
    X(int, accept, "rdma_accept", (struct rdma_cm_id * id, struct rdma_conn_param * param))        \
    X(int, reject, "rdma_reject", (struct rdma_cm_id * id, const void *data, uint8_t len))         \
    X(int, get_event, "rdma_get_cm_event",                                                         \
      (struct rdma_event_channel * channel, struct rdma_cm_event * *out))                          \
    X(int, ack_event, "rdma_ack_cm_event", (struct rdma_cm_event * event))

#define MC_VERBS_FIELD(result, field, symbol, parameters) result(*field) parameters;

struct mc_verbs {
    MC_VERBS_LIBIBVERBS(MC_VERBS_FIELD)
    MC_VERBS_LIBRDMACM(MC_VERBS_FIELD)

    /* What libibverbs has as inline functions. */
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **out_bad);
    int (*poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *out);
    int (*request_notify)(struct ibv_cq *cq, int solicited_only);
};

/**
 * The table. Opens no device; nothing below /dev/infiniband is touched when this fails.
 *
 * @retval ENOTSUP  this machine has no RDMA device, or a library is missing: the sentence says
 * which
 */
mooncake_err mc_verbs_load(const struct mc_verbs **out) MC_MUST_CHECK;

/** Tests: use @p table from now on; NULL: the real one again. Nothing of RDMA may be open. */
void mc_verbs_replace(const struct mc_verbs *table);

/** Our error for an errno of the RDMA libraries; remembers "WHAT: reason". */
mooncake_err mc_verbs_err(int error, const char *what);

#endif
