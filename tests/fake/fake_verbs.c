/* The half of the fake that is libibverbs. */
#include "fake_impl.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void lock(void)
{
    (void)pthread_mutex_lock(&fake.mutex);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&fake.mutex);
}

void fake_signal(int fd)
{
    uint64_t one = 1;

    (void)!write(fd, &one, sizeof(one));
}

bool fake_unsignal(int fd)
{
    uint64_t one;

    return read(fd, &one, sizeof(one)) == (ssize_t)sizeof(one);
}

struct fake_device *fake_device_of(const struct ibv_context *context)
{
    for (unsigned i = 0; i < FAKE_DEVICES; i++) {
        if (&fake.devices[i].context == context) {
            return &fake.devices[i];
        }
    }
    abort();
}

/* ---- devices --------------------------------------------------------------------------------- */

static int init_fork(void)
{
    return 0;
}

static struct ibv_context **get_devices(int *out_count)
{
    struct ibv_context **list = calloc(FAKE_DEVICES + 1, sizeof(struct ibv_context *));

    for (unsigned i = 0; i < FAKE_DEVICES; i++) {
        list[i] = &fake.devices[i].context;
    }
    *out_count = (int)FAKE_DEVICES;
    return list;
}

static void free_devices(struct ibv_context **list)
{
    free(list);
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *out)
{
    (void)context;
    out->max_qp_wr = fake.send_max;
    out->max_sge = 16;
    out->max_sge_rd = 16;
    out->max_qp_rd_atom = 16;
    out->max_qp_init_rd_atom = 16;
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *out)
{
    const struct fake_device *device = fake_device_of(context);

    if (port != 1) {
        return EINVAL;
    }
    out->state = device->up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    out->active_mtu = device->mtu;
    out->gid_tbl_len = 8;
    return 0;
}

/* 0: link-local v2, 1: IPv4 v1, 2: IPv4 v2, 3: IPv6 v2. */
static int query_gid(struct ibv_context *context, uint32_t port, uint32_t index,
                     struct ibv_gid_entry *out, uint32_t flags, size_t entry_len)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    uint8_t number = (uint8_t)(fake_device_of(context) - fake.devices);
    uint8_t ip[4] = {10, 99, number % 2, (uint8_t)(1 + number / 2)};

    (void)port;
    (void)flags;
    (void)entry_len;
    if (index > 3) {
        return ENODATA;
    }
    memset(out, 0, sizeof(*out));
    out->gid_index = index;
    out->gid_type = index == 1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
    out->ndev_ifindex = 1;
    if (index == 0) {
        out->gid.raw[0] = 0xfe;
        out->gid.raw[1] = 0x80;
        out->gid.raw[15] = (uint8_t)(number + 1);
    } else if (index == 3) {
        out->gid.raw[0] = 0x20;
        out->gid.raw[15] = (uint8_t)(number + 1);
    } else {
        memcpy(out->gid.raw, mapped, sizeof(mapped));
        memcpy(out->gid.raw + 12, ip, sizeof(ip));
    }
    return 0;
}

/* ---- completion queues ----------------------------------------------------------------------- */

static struct ibv_comp_channel *create_channel(struct ibv_context *context)
{
    struct fake_channel *channel = calloc(1, sizeof(*channel));

    channel->channel.context = context;
    channel->channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    mc_list_init(&channel->events);
    lock();
    fake.counts.channels++;
    unlock();
    return &channel->channel;
}

static int destroy_channel(struct ibv_comp_channel *channel)
{
    lock();
    fake.counts.channels--;
    unlock();
    (void)close(channel->fd);
    free(MC_CONTAINER_OF(channel, struct fake_channel, channel));
    return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *arg,
                                struct ibv_comp_channel *channel, int vector)
{
    struct fake_cq *cq = calloc(1, sizeof(*cq));

    (void)vector;
    cq->cq.context = context;
    cq->cq.cqe = entries;
    cq->cq.cq_context = arg;
    cq->cq.channel = channel;
    cq->wcs = calloc((size_t)entries, sizeof(*cq->wcs));
    mc_list_init(&cq->node);
    lock();
    fake.counts.cqs++;
    unlock();
    return &cq->cq;
}

static int destroy_cq(struct ibv_cq *cq)
{
    struct fake_cq *own = MC_CONTAINER_OF(cq, struct fake_cq, cq);

    lock();
    if (mc_list_linked(&own->node)) {
        mc_list_drop(&own->node);
        (void)fake_unsignal(cq->channel->fd);
    }
    fake.counts.cqs--;
    unlock();
    free(own->wcs);
    free(own);
    return 0;
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out, void **out_arg)
{
    struct fake_channel *own = MC_CONTAINER_OF(channel, struct fake_channel, channel);
    struct fake_cq *cq = NULL;

    lock();
    if (!mc_list_empty(&own->events)) {
        cq = mc_list_first(&own->events, struct fake_cq, node);
        mc_list_drop(&cq->node);
        (void)fake_unsignal(channel->fd);
        *out = &cq->cq;
        *out_arg = cq->cq.cq_context;
    }
    unlock();
    errno = EAGAIN;
    return cq == NULL ? -1 : 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    (void)cq;
    (void)count;
}

static int request_notify(struct ibv_cq *cq, int solicited_only)
{
    (void)solicited_only;
    lock();
    MC_CONTAINER_OF(cq, struct fake_cq, cq)->armed = true;
    fake.counts.notices++;
    unlock();
    return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *out)
{
    struct fake_cq *own = MC_CONTAINER_OF(cq, struct fake_cq, cq);
    int n = 0;

    lock();
    fake.counts.polls++;
    while (n < count && own->count > 0) {
        out[n++] = own->wcs[own->begin];
        own->begin = (own->begin + 1) % cq->cqe;
        own->count--;
    }
    unlock();
    return n;
}

static void complete(struct fake_qp *qp, uint64_t wr_id, enum ibv_wc_status status)
{
    struct fake_cq *cq = MC_CONTAINER_OF(qp->qp.send_cq, struct fake_cq, cq);
    struct fake_device *device = fake_device_of(qp->qp.context);

    if (device->lie && status == IBV_WC_SUCCESS) {
        device->lie = false;
        wr_id += 1000;
    }
    if (cq->count == cq->cq.cqe) {
        fake.counts.overflows++;
        return;
    }
    cq->wcs[(cq->begin + cq->count++) % cq->cq.cqe] =
        (struct ibv_wc){.wr_id = wr_id, .status = status, .qp_num = qp->qp.qp_num};
    if (cq->armed && !fake.silent) {
        cq->armed = false;
        mc_list_add_tail(&MC_CONTAINER_OF(cq->cq.channel, struct fake_channel, channel)->events,
                         &cq->node);
        fake_signal(cq->cq.channel->fd);
    }
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct fake_qp *qp = calloc(1, sizeof(*qp));

    lock();
    qp->qp = (struct ibv_qp){.context = pd->context,
                             .pd = pd,
                             .send_cq = attr->send_cq,
                             .recv_cq = attr->recv_cq,
                             .qp_num = ++fake.next_number,
                             .state = IBV_QPS_RESET};
    qp->cap = attr->cap;
    mc_list_init(&qp->requests);
    mc_list_add_tail(&fake.qps, &qp->node);
    fake.counts.qps++;
    unlock();
    return &qp->qp;
}

struct fake_qp *fake_find_qp(uint32_t number)
{
    mc_list_for_each (node, &fake.qps) {
        struct fake_qp *qp = MC_CONTAINER_OF(node, struct fake_qp, node);

        if (qp->qp.qp_num == number) {
            return qp;
        }
    }
    return NULL;
}

static bool may_follow(enum ibv_qp_state from, enum ibv_qp_state to)
{
    return to == IBV_QPS_ERR || (from == IBV_QPS_RESET && to == IBV_QPS_INIT) ||
           (from == IBV_QPS_INIT && to == IBV_QPS_RTR) ||
           (from == IBV_QPS_RTR && to == IBV_QPS_RTS);
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct fake_qp *own = MC_CONTAINER_OF(qp, struct fake_qp, qp);
    int error = 0;

    lock();
    if ((mask & IBV_QP_STATE) == 0 || !may_follow(qp->state, attr->qp_state)) {
        error = EINVAL;
    } else {
        qp->state = attr->qp_state;
    }
    if (error == 0 && (mask & IBV_QP_ACCESS_FLAGS) != 0) {
        own->access = attr->qp_access_flags;
    }
    if (error == 0 && (mask & IBV_QP_DEST_QPN) != 0) {
        own->peer = attr->dest_qp_num;
    }
    if (error == 0 && attr->qp_state == IBV_QPS_ERR) {
        fake_break_qp(own, IBV_WC_WR_FLUSH_ERR);
    }
    unlock();
    return error;
}

static void drop_request(struct fake_request *request)
{
    mc_list_drop(&request->node);
    free(request);
}

static int destroy_qp(struct ibv_qp *qp)
{
    struct fake_qp *own = MC_CONTAINER_OF(qp, struct fake_qp, qp);

    lock();
    while (own->events_unacked > 0) { /* as libibverbs does */
        unlock();
        (void)sched_yield();
        lock();
    }
    fake_drop_events(own);
    while (!mc_list_empty(&own->requests)) {
        drop_request(mc_list_first(&own->requests, struct fake_request, node));
    }
    mc_list_drop(&own->node);
    fake.counts.qps--;
    unlock();
    free(own);
    return 0;
}

void fake_break_qp(struct fake_qp *qp, enum ibv_wc_status status)
{
    qp->qp.state = IBV_QPS_ERR;
    while (!mc_list_empty(&qp->requests)) {
        struct fake_request *request = mc_list_first(&qp->requests, struct fake_request, node);

        complete(qp, request->wr_id, status);
        status = IBV_WC_WR_FLUSH_ERR;
        drop_request(request);
    }
}

/* Move the bytes of one request. */
static enum ibv_wc_status move(struct fake_qp *qp, const struct fake_request *request)
{
    struct fake_device *device = fake_device_of(qp->qp.context);
    bool is_read = request->opcode == IBV_WR_RDMA_READ;
    const struct fake_qp *peer = fake_find_qp(qp->peer);
    unsigned right = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    uint8_t *remote = (uint8_t *)(uintptr_t)request->remote_at;
    uint64_t len = 0;

    for (int i = 0; i < request->count; i++) {
        const struct ibv_sge *sge = &request->sges[i];

        if (!fake_may_access(sge->lkey, sge->addr, sge->length,
                             is_read ? IBV_ACCESS_LOCAL_WRITE : 0, qp->qp.context)) {
            return IBV_WC_LOC_PROT_ERR;
        }
        len += sge->length;
    }
    if (peer == NULL || peer->qp.state < IBV_QPS_RTR || peer->qp.state == IBV_QPS_ERR ||
        !device->up || !fake_device_of(peer->qp.context)->up) {
        return IBV_WC_RETRY_EXC_ERR;
    }
    if ((peer->access & right) == 0 ||
        (len > 0 && (fake_device_of(peer->qp.context)->keys_broken ||
                     !fake_may_access(request->remote_key, request->remote_at, len, (int)right,
                                      peer->qp.context)))) {
        return IBV_WC_REM_ACCESS_ERR;
    }
    for (int i = 0; i < request->count; i++) {
        void *local = (void *)(uintptr_t)request->sges[i].addr;

        if (is_read) {
            memcpy(local, remote, request->sges[i].length);
        } else {
            memcpy(remote, local, request->sges[i].length);
        }
        remote += request->sges[i].length;
    }
    device->moved += len;
    return IBV_WC_SUCCESS;
}

void fake_run(struct fake_qp *qp, unsigned max)
{
    struct fake_device *device = fake_device_of(qp->qp.context);

    for (unsigned i = 0; i < max && !mc_list_empty(&qp->requests) && !qp->dead; i++) {
        struct fake_request *request = mc_list_first(&qp->requests, struct fake_request, node);
        enum ibv_wc_status status = IBV_WC_SUCCESS;

        if (device->fail_in >= 0 && request->count > 0 && device->fail_in-- == 0) {
            status = device->fail_status;
        } else {
            status = move(qp, request);
        }
        if (status != IBV_WC_SUCCESS) {
            fake_break_qp(qp, status);
            return;
        }
        qp->unsignaled++;
        if (request->signaled) {
            qp->under_way -= qp->unsignaled; /* seen by the program with the completion */
            qp->unsignaled = 0;
            complete(qp, request->wr_id, status);
        }
        drop_request(request);
    }
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **out_bad)
{
    struct fake_qp *own = MC_CONTAINER_OF(qp, struct fake_qp, qp);
    int error = 0;

    lock();
    fake.counts.posts++;
    for (; wr != NULL && error == 0; wr = wr->next) {
        struct fake_request *request = calloc(1, sizeof(*request));

        fake.counts.requests++;
        fake.counts.signaled += (wr->send_flags & IBV_SEND_SIGNALED) != 0 ? 1 : 0;
        own->under_way++;
        if (own->under_way > own->cap.max_send_wr || wr->num_sge > (int)own->cap.max_send_sge) {
            fake.counts.overflows++;
            *out_bad = wr;
            error = ENOMEM;
        }
        if (own->under_way > fake.counts.under_way_max) {
            fake.counts.under_way_max = own->under_way;
        }
        request->wr_id = wr->wr_id;
        request->opcode = wr->opcode;
        request->remote_at = wr->wr.rdma.remote_addr;
        request->remote_key = wr->wr.rdma.rkey;
        request->signaled = (wr->send_flags & IBV_SEND_SIGNALED) != 0;
        request->count = wr->num_sge;
        if (wr->num_sge > 0) {
            memcpy(request->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
        }
        mc_list_init(&request->node);
        mc_list_add_tail(&own->requests, &request->node);
    }
    if (qp->state == IBV_QPS_ERR) {
        fake_break_qp(own, IBV_WC_WR_FLUSH_ERR);
    } else if (!fake_device_of(qp->context)->hold) {
        fake_run(own, UINT32_MAX);
    }
    unlock();
    return error;
}

void fake_set_verbs(struct mc_verbs *table)
{
    *table = (struct mc_verbs){.init_fork = init_fork,
                               .query_device = query_device,
                               .query_port_attr = query_port,
                               .query_gid_entry = query_gid,
                               .create_channel = create_channel,
                               .destroy_channel = destroy_channel,
                               .create_cq = create_cq,
                               .destroy_cq = destroy_cq,
                               .get_cq_event = get_cq_event,
                               .ack_cq_events = ack_cq_events,
                               .create_qp = create_qp,
                               .modify_qp = modify_qp,
                               .destroy_qp = destroy_qp,
                               .get_devices = get_devices,
                               .free_devices = free_devices,
                               .post_send = post_send,
                               .poll_cq = poll_cq,
                               .request_notify = request_notify};
}
