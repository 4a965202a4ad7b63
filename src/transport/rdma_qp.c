/*
 * Design notes
 * - Work requests of one queue pair finish in order, so one completion stands for all before it.
 *   A completion is asked for at the end of each chain, and inside one after SIGNAL_REQUESTS
 *   requests or SIGNAL_LEN bytes, so that checking what has come overlaps with what comes.
 * - The completion queue is this queue pair's alone and holds as many as can be asked for: it
 *   cannot overflow, and no completion of a queue pair that is gone can be taken for another's.
 * - wr_id is the running number of the request. A completion whose number is not under way is a
 *   broken device or driver; it ends the queue pair, because what it says cannot be trusted.
 * - A struct outlives its queue pair until libuv has closed the poll handle, so that a callback
 *   that closes it can return through the loop over completions.
 */
#include "transport/rdma_qp.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"

#define CHAIN_MAX 32u
#define SIGNAL_REQUESTS 16u
#define SIGNAL_LEN ((uint64_t)1 << 20)
#define COMPLETIONS_PER_POLL 16
#define COMPLETIONS_PER_TURN 256u

/* 4.096 us x 2^16 = 268 ms for each try, seven tries: a blip of a second is survived, a dead path
 * is known within 2 to 8 s. Seven retries would mean for ever to some devices. */
#define ACK_TIMEOUT 16u
#define RETRIES 6u

struct mc_rdma_qp {
    const struct mc_verbs *verbs;
    struct mc_rdma_qp_users users;
    struct ibv_comp_channel *channel; /* owned, as are the next two; NULL once closed */
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    int access;
    unsigned reads_max, sge_max;
    uint32_t send_max;

    void **works;                     /* owned; ring of send_max, by running number */
    uint64_t added, posted, finished; /* running numbers */

    struct ibv_send_wr chain[CHAIN_MAX];
    struct ibv_sge *sges; /* owned; sge_max for each place of the chain */
    unsigned chain_len;
    unsigned unsignaled;
    uint64_t unsignaled_len;

    uint64_t progress_ns;
    struct mc_rdma_qp_counts counts;
    struct mc_loop *loop;
    bool polling;
    bool idle_active;
    uv_idle_t idle; /* polling: keeps the loop turning while work is under way */
    uv_poll_t poll;
    unsigned handles; /* that libuv has not closed yet */
};

static void free_qp(uv_handle_t *handle)
{
    struct mc_rdma_qp *qp = handle->data;

    if (--qp->handles == 0) {
        mc_free(qp->works);
        mc_free(qp->sges);
        mc_free(qp);
    }
}

/* ---- completions ----------------------------------------------------------------------------- */

static void fail(struct mc_rdma_qp *qp, mooncake_err err)
{
    qp->users.on_failed(qp->users.arg, err); /* closes it */
}

static void on_idle(uv_idle_t *idle)
{
    mc_rdma_qp_look(idle->data);
}

/* Polling goes on exactly while something is under way. */
static void set_polling(struct mc_rdma_qp *qp)
{
    bool want = qp->polling && qp->qp != NULL && qp->posted > qp->finished;

    if (want != qp->idle_active) {
        qp->idle_active = want;
        if (want) {
            (void)uv_idle_start(&qp->idle, on_idle);
        } else {
            (void)uv_idle_stop(&qp->idle);
        }
    }
}

/* Everything up to running number @p last is finished. False: closed meanwhile. */
static bool finish_to(struct mc_rdma_qp *qp, uint64_t last)
{
    while (qp->finished < last) {
        void *work = qp->works[qp->finished % qp->send_max];

        qp->finished++;
        qp->users.on_done(qp->users.arg, work);
        if (qp->qp == NULL) {
            return false;
        }
    }
    return true;
}

/* The text is libibverbs', which we do not link. */
static const char *status_text(enum ibv_wc_status status)
{
    switch ((unsigned)status) {
    case IBV_WC_LOC_LEN_ERR:
        return "local length error";
    case IBV_WC_LOC_QP_OP_ERR:
        return "local queue pair operation error";
    case IBV_WC_LOC_PROT_ERR:
        return "local protection error";
    case IBV_WC_WR_FLUSH_ERR:
        return "flushed: the queue pair is in error";
    case IBV_WC_REM_INV_REQ_ERR:
        return "the peer calls the request invalid";
    case IBV_WC_REM_ACCESS_ERR:
        return "the peer refuses access to its memory";
    case IBV_WC_REM_OP_ERR:
        return "the peer could not do it";
    case IBV_WC_RETRY_EXC_ERR:
        return "no answer after all retries";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer is not ready";
    case IBV_WC_FATAL_ERR:
        return "fatal device error";
    default:
        return "error";
    }
}

/* False: the queue pair is closed. */
static bool handle_completion(struct mc_rdma_qp *qp, const struct ibv_wc *wc)
{
    qp->counts.completions++;
    if (wc->status != IBV_WC_SUCCESS) {
        fail(qp, mc_err_set(MOONCAKE_ERPC, "rdma: %s (status %d, vendor %x)",
                            status_text(wc->status), (int)wc->status, wc->vendor_err));
        return false;
    }
    if (wc->wr_id <= qp->finished || wc->wr_id > qp->posted) {
        fail(qp, mc_err_set(MOONCAKE_ERPC,
                            "rdma: the device completed request %llu while %llu to %llu were "
                            "under way",
                            (unsigned long long)wc->wr_id, (unsigned long long)qp->finished + 1,
                            (unsigned long long)qp->posted));
        return false;
    }
    qp->progress_ns = mc_loop_now_ns(qp->loop);
    return finish_to(qp, wc->wr_id);
}

void mc_rdma_qp_look(struct mc_rdma_qp *qp)
{
    struct ibv_wc wcs[COMPLETIONS_PER_POLL];
    unsigned seen = 0;
    int count;

    do {
        count = qp->verbs->poll_cq(qp->cq, COMPLETIONS_PER_POLL, wcs);
        if (count < 0) {
            fail(qp, mc_err_set(MOONCAKE_ERPC, "rdma: the completion queue cannot be read"));
            return;
        }
        for (int i = 0; i < count; i++) {
            if (!handle_completion(qp, &wcs[i])) {
                return;
            }
        }
        seen += (unsigned)count;
    } while (count == COMPLETIONS_PER_POLL && seen < COMPLETIONS_PER_TURN);
    set_polling(qp);
    if (seen > 0 && qp->users.on_room != NULL) {
        qp->users.on_room(qp->users.arg); /* may close it */
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct mc_rdma_qp *qp = poll->data;
    struct ibv_cq *cq = NULL;
    void *arg = NULL;

    (void)status;
    (void)events;
    /* What was asked for once is told once: looking for a second would be a system call in vain. */
    if (qp->verbs->get_cq_event(qp->channel, &cq, &arg) == 0) {
        qp->verbs->ack_cq_events(qp->cq, 1);
        /* Asked for again before looking: what comes in between is seen or told of. */
        if (qp->verbs->request_notify(qp->cq, 0) != 0) {
            fail(qp, mc_err_set(MOONCAKE_ERPC, "rdma: completions cannot be asked for"));
            return;
        }
    }
    mc_rdma_qp_look(qp);
}

/* ---- life ------------------------------------------------------------------------------------ */

static mooncake_err create_objects(struct mc_rdma_qp *qp, struct mc_rdma_device *device)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .sq_sig_all = 0};

    qp->channel = qp->verbs->create_channel(device->context);
    if (qp->channel == NULL || fcntl(qp->channel->fd, F_SETFL, O_NONBLOCK) != 0) {
        return mc_verbs_err(errno, "making a completion channel");
    }
    qp->cq = qp->verbs->create_cq(device->context, (int)qp->send_max + 1, qp, qp->channel, 0);
    if (qp->cq == NULL) {
        return mc_verbs_err(errno, "making a completion queue");
    }
    attr.send_cq = qp->cq;
    attr.recv_cq = qp->cq;
    attr.cap.max_send_wr = qp->send_max;
    attr.cap.max_recv_wr = 1;
    attr.cap.max_send_sge = qp->sge_max;
    attr.cap.max_recv_sge = 1;
    qp->qp = qp->verbs->create_qp(device->pd, &attr);
    if (qp->qp == NULL) {
        return mc_verbs_err(errno, "making a queue pair");
    }
    /* Who polls need not be told: that would cost an event a completion. */
    if (!qp->polling && qp->verbs->request_notify(qp->cq, 0) != 0) {
        return mc_verbs_err(errno, "asking for completions");
    }
    return MOONCAKE_OK;
}

static void destroy_objects(struct mc_rdma_qp *qp)
{
    if (qp->qp != NULL) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

        /* Both stop the device; the first also when the second should fail. */
        (void)qp->verbs->modify_qp(qp->qp, &attr, IBV_QP_STATE);
        (void)qp->verbs->destroy_qp(qp->qp);
        qp->qp = NULL;
    }
    if (qp->cq != NULL) {
        (void)qp->verbs->destroy_cq(qp->cq);
        qp->cq = NULL;
    }
    if (qp->channel != NULL) {
        (void)qp->verbs->destroy_channel(qp->channel);
        qp->channel = NULL;
    }
}

static void destroy_now(struct mc_rdma_qp *qp)
{
    destroy_objects(qp);
    mc_free(qp->works);
    mc_free(qp->sges);
    mc_free(qp);
}

mooncake_err mc_rdma_qp_open(struct mc_loop *loop, const struct mc_verbs *verbs,
                             const struct mc_rdma_qp_options *options,
                             const struct mc_rdma_qp_users *users, struct mc_rdma_qp **out)
{
    struct mc_rdma_qp *qp = mc_calloc(1, sizeof(*qp));
    struct mc_rdma_device *device = options->device;
    mooncake_err err = MOONCAKE_ENOMEM;

    if (qp == NULL) {
        return MOONCAKE_ENOMEM;
    }
    qp->verbs = verbs;
    qp->users = *users;
    qp->access = options->access;
    qp->polling = options->poll;
    qp->sge_max = device->sge_max;
    qp->reads_max = options->reads_max == 0 ? device->reads_max : options->reads_max;
    qp->send_max = options->send_max == 0 || options->send_max > device->send_max
                       ? device->send_max
                       : options->send_max;
    qp->loop = loop;
    qp->works = mc_calloc(qp->send_max, sizeof(*qp->works));
    qp->sges = mc_calloc((size_t)CHAIN_MAX * qp->sge_max, sizeof(*qp->sges));
    if (qp->works == NULL || qp->sges == NULL) {
        destroy_now(qp);
        return MOONCAKE_ENOMEM;
    }
    err = create_objects(qp, device);
    if (err == MOONCAKE_OK && uv_poll_init(mc_loop_uv(loop), &qp->poll, qp->channel->fd) != 0) {
        err = mc_err_set(MOONCAKE_ERPC, "rdma: a completion channel cannot be watched");
    }
    if (err != MOONCAKE_OK) {
        destroy_now(qp);
        return err;
    }
    (void)uv_idle_init(mc_loop_uv(loop), &qp->idle);
    qp->poll.data = qp;
    qp->idle.data = qp;
    qp->handles = 2;
    (void)uv_poll_start(&qp->poll, UV_READABLE, on_readable);
    *out = qp;
    return MOONCAKE_OK;
}

void mc_rdma_qp_close(struct mc_rdma_qp **qp_ptr, void (*on_lost)(void *arg, void *work), void *arg)
{
    struct mc_rdma_qp *qp = *qp_ptr;

    if (qp == NULL) {
        return;
    }
    *qp_ptr = NULL;
    uv_close((uv_handle_t *)&qp->poll, free_qp); /* before its descriptor goes */
    uv_close((uv_handle_t *)&qp->idle, free_qp);
    qp->idle_active = false;
    destroy_objects(qp);
    while (qp->finished < qp->added) {
        void *work = qp->works[qp->finished % qp->send_max];

        qp->finished++;
        if (on_lost != NULL) {
            on_lost(arg, work);
        }
    }
}

/* ---- states ---------------------------------------------------------------------------------- */

static mooncake_err init_attr(struct mc_rdma_qp *qp, struct rdma_cm_id *id, enum ibv_qp_state state,
                              struct ibv_qp_attr *attr, int *out_mask)
{
    memset(attr, 0, sizeof(*attr));
    attr->qp_state = state;
    if (qp->verbs->init_qp_attr(id, attr, out_mask) != 0) {
        return mc_verbs_err(errno, "asking for a queue pair's attributes");
    }
    return MOONCAKE_OK;
}

static mooncake_err modify(struct mc_rdma_qp *qp, struct ibv_qp_attr *attr, int mask,
                           const char *what)
{
    int error = qp->verbs->modify_qp(qp->qp, attr, mask);

    return error == 0 ? MOONCAKE_OK : mc_verbs_err(error, what);
}

mooncake_err mc_rdma_qp_to_init(struct mc_rdma_qp *qp, struct rdma_cm_id *id)
{
    struct ibv_qp_attr attr;
    int mask = 0;

    MC_TRY(init_attr(qp, id, IBV_QPS_INIT, &attr, &mask));
    attr.qp_access_flags = (unsigned)qp->access;
    return modify(qp, &attr, mask | IBV_QP_ACCESS_FLAGS, "moving a queue pair to INIT");
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
    enum ibv_mtu code = IBV_MTU_4096;

    while (code > IBV_MTU_256 && 128u << code > bytes) {
        code--;
    }
    return code;
}

mooncake_err mc_rdma_qp_to_send(struct mc_rdma_qp *qp, struct rdma_cm_id *id, uint32_t mtu,
                                uint32_t *out_mtu)
{
    struct ibv_qp_attr attr;
    int mask = 0;
    uint32_t path_mtu;

    MC_TRY(init_attr(qp, id, IBV_QPS_RTR, &attr, &mask));
    if (mtu_code(mtu) < attr.path_mtu) {
        attr.path_mtu = mtu_code(mtu);
    }
    if (attr.max_dest_rd_atomic > qp->reads_max) {
        attr.max_dest_rd_atomic = (uint8_t)qp->reads_max;
    }
    path_mtu = 128u << attr.path_mtu;
    MC_TRY(modify(qp, &attr, mask, "moving a queue pair to RTR"));
    MC_TRY(init_attr(qp, id, IBV_QPS_RTS, &attr, &mask));
    attr.timeout = ACK_TIMEOUT;
    attr.retry_cnt = RETRIES;
    attr.rnr_retry = 0;
    if (attr.max_rd_atomic > qp->reads_max) {
        attr.max_rd_atomic = (uint8_t)qp->reads_max;
    }
    MC_TRY(modify(qp, &attr, mask, "moving a queue pair to RTS"));
    *out_mtu = path_mtu;
    return MOONCAKE_OK;
}

/* ---- posting --------------------------------------------------------------------------------- */

uint32_t mc_rdma_qp_number(const struct mc_rdma_qp *qp)
{
    return qp->qp->qp_num;
}

bool mc_rdma_qp_is(const struct mc_rdma_qp *qp, const void *queue)
{
    return queue != NULL && (queue == (const void *)qp->qp || queue == (const void *)qp->cq);
}

unsigned mc_rdma_qp_sge_max(const struct mc_rdma_qp *qp)
{
    return qp->sge_max;
}

unsigned mc_rdma_qp_room(const struct mc_rdma_qp *qp)
{
    return qp->send_max - (unsigned)(qp->added - qp->finished);
}

unsigned mc_rdma_qp_pending(const struct mc_rdma_qp *qp)
{
    return (unsigned)(qp->added - qp->finished);
}

mooncake_err mc_rdma_qp_ring(struct mc_rdma_qp *qp)
{
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr *last;
    int error;

    if (qp->chain_len == 0) {
        return MOONCAKE_OK;
    }
    last = &qp->chain[qp->chain_len - 1];
    last->next = NULL;
    if ((last->send_flags & IBV_SEND_SIGNALED) == 0) {
        last->send_flags |= IBV_SEND_SIGNALED;
        qp->counts.signaled++;
    }
    qp->unsignaled = 0;
    qp->unsignaled_len = 0;
    if (qp->posted == qp->finished) {
        qp->progress_ns = mc_monotonic_ns();
    }
    qp->counts.posted += qp->chain_len;
    qp->counts.doorbells++;
    qp->chain_len = 0;
    qp->posted = qp->added;
    error = qp->verbs->post_send(qp->qp, qp->chain, &bad);
    if (error != 0) {
        return mc_verbs_err(error, "posting work requests");
    }
    set_polling(qp);
    return MOONCAKE_OK;
}

mooncake_err mc_rdma_qp_add(struct mc_rdma_qp *qp, const struct mc_rdma_work_request *request,
                            void *work)
{
    struct ibv_send_wr *wr = &qp->chain[qp->chain_len];
    struct ibv_sge *sges = &qp->sges[(size_t)qp->chain_len * qp->sge_max];

    MC_ASSERT(mc_rdma_qp_room(qp) > 0 && request->pieces_count <= qp->sge_max);
    memset(wr, 0, sizeof(*wr));
    if (request->pieces_count > 0) {
        memcpy(sges, request->pieces, request->pieces_count * sizeof(*sges));
    }
    qp->works[qp->added % qp->send_max] = work;
    qp->added++;
    wr->wr_id = qp->added;
    wr->sg_list = sges;
    wr->num_sge = (int)request->pieces_count;
    wr->opcode = request->is_write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    wr->wr.rdma.remote_addr = request->remote_at;
    wr->wr.rdma.rkey = request->remote_key;
    wr->next = wr + 1; /* the last one's is cut by the ring */
    qp->unsignaled++;
    qp->unsignaled_len += request->len;
    if (qp->unsignaled >= SIGNAL_REQUESTS || qp->unsignaled_len >= SIGNAL_LEN) {
        wr->send_flags = IBV_SEND_SIGNALED;
        qp->counts.signaled++;
        qp->unsignaled = 0;
        qp->unsignaled_len = 0;
    }
    qp->chain_len++;
    return qp->chain_len == CHAIN_MAX ? mc_rdma_qp_ring(qp) : MOONCAKE_OK;
}

uint64_t mc_rdma_qp_waiting_since_ns(const struct mc_rdma_qp *qp)
{
    return qp->posted > qp->finished ? qp->progress_ns : 0;
}

struct mc_rdma_qp_counts mc_rdma_qp_counts(const struct mc_rdma_qp *qp)
{
    return qp->counts;
}
