/* The half of the fake that is librdmacm. */
#include "fake_impl.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define REQUEST_DATA_LEN 56
#define ANSWER_DATA_LEN 196
#define REFUSAL_DATA_LEN 148

struct channel {
    struct rdma_event_channel channel;
    struct mc_list events;
};

struct event {
    struct rdma_cm_event event;
    struct mc_list node;
    bool held; /* nobody hears of it yet */
    uint8_t data[256];
};

struct id {
    struct rdma_cm_id id;
    struct mc_list node;
    struct id *peer; /* the other end */
    bool listening, connected;
    struct sockaddr_in local, remote;
    uint32_t qp_number;
    uint8_t initiator_depth, responder_resources; /* as RTR and RTS will have them */
};

static struct id *own(struct rdma_cm_id *id)
{
    return MC_CONTAINER_OF(id, struct id, id);
}

static void lock(void)
{
    (void)pthread_mutex_lock(&fake.mutex);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&fake.mutex);
}

static struct event *push(struct id *to, enum rdma_cm_event_type type, int status, const void *data,
                          size_t len, size_t padded)
{
    struct channel *channel = MC_CONTAINER_OF(to->id.channel, struct channel, channel);
    struct event *event = calloc(1, sizeof(*event));

    event->event.id = &to->id;
    event->event.event = type;
    event->event.status = status;
    if (data != NULL) {
        memcpy(event->data, data, len);
        event->event.param.conn.private_data = event->data;
        event->event.param.conn.private_data_len = (uint8_t)padded;
    }
    mc_list_init(&event->node);
    mc_list_add_tail(&channel->events, &event->node);
    event->held = (type == RDMA_CM_EVENT_REJECTED || type == RDMA_CM_EVENT_CONNECT_RESPONSE) &&
                  fake_device_of(to->id.verbs)->hold_answers;
    if (!event->held) {
        fake_signal(channel->channel.fd);
    }
    return event;
}

static struct rdma_event_channel *create_event_channel(void)
{
    struct channel *channel = calloc(1, sizeof(*channel));

    channel->channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    mc_list_init(&channel->events);
    lock();
    fake.counts.event_channels++;
    unlock();
    return &channel->channel;
}

/* Drop the events of @p id (NULL: all). */
static void drop_events(struct channel *channel, const struct rdma_cm_id *id)
{
    mc_list_for_each_safe (node, next, &channel->events) {
        struct event *event = MC_CONTAINER_OF(node, struct event, node);

        if (id == NULL || event->event.id == id) {
            if (!event->held) {
                (void)fake_unsignal(channel->channel.fd);
            }
            mc_list_drop(&event->node);
            free(event);
        }
    }
}

static void destroy_event_channel(struct rdma_event_channel *channel)
{
    struct channel *c = MC_CONTAINER_OF(channel, struct channel, channel);

    lock();
    drop_events(c, NULL);
    fake.counts.event_channels--;
    unlock();
    (void)close(channel->fd);
    free(c);
}

static struct id *make_id(struct rdma_event_channel *channel, void *context)
{
    struct id *id = calloc(1, sizeof(*id));

    id->id.channel = channel;
    id->id.context = context;
    mc_list_add_tail(&fake.ids, &id->node);
    fake.counts.ids++;
    return id;
}

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *arg,
                     enum rdma_port_space space)
{
    (void)space;
    lock();
    *out = &make_id(channel, arg)->id;
    unlock();
    return 0;
}

static bool path_up(const struct id *a, const struct id *b)
{
    return fake_device_of(a->id.verbs)->up && fake_device_of(b->id.verbs)->up;
}

static int destroy_id(struct rdma_cm_id *id)
{
    struct id *me = own(id);

    lock();
    drop_events(MC_CONTAINER_OF(id->channel, struct channel, channel), id);
    if (me->peer != NULL) {
        me->peer->peer = NULL;
        if (path_up(me, me->peer)) {
            (void)push(me->peer,
                       me->connected ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_CONNECT_ERROR, 0,
                       NULL, 0, 0);
        }
    }
    mc_list_drop(&me->node);
    fake.counts.ids--;
    unlock();
    free(me);
    return 0;
}

static struct fake_device *device_at(const struct sockaddr_in *address)
{
    const uint8_t *ip = (const uint8_t *)&address->sin_addr;
    unsigned number = (unsigned)ip[2] + 2u * (ip[3] - 1u);

    return ip[0] == 10 && ip[1] == 99 && number < FAKE_DEVICES ? &fake.devices[number] : NULL;
}

static int bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    struct id *me = own(id);
    struct fake_device *device;

    memcpy(&me->local, address, sizeof(me->local));
    device = device_at(&me->local);
    if (device == NULL) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    id->verbs = &device->context;
    lock();
    if (me->local.sin_port == 0) {
        me->local.sin_port = htons((uint16_t)(20000 + ++fake.next_number % 20000));
    }
    unlock();
    return 0;
}

static int listen_on(struct rdma_cm_id *id, int backlog)
{
    (void)backlog;
    lock();
    own(id)->listening = true;
    unlock();
    return 0;
}

static __be16 get_src_port(struct rdma_cm_id *id)
{
    return own(id)->local.sin_port;
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
                        int timeout_ms)
{
    struct id *me = own(id);
    struct fake_device *device;

    (void)timeout_ms;
    memcpy(&me->local, from, sizeof(me->local));
    memcpy(&me->remote, to, sizeof(me->remote));
    device = device_at(&me->local);
    lock();
    if (device == NULL || device->removed) {
        (void)push(me, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV, NULL, 0, 0);
    } else {
        id->verbs = &device->context;
        (void)push(me, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0, 0);
    }
    unlock();
    return 0;
}

static int resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    (void)timeout_ms;
    lock();
    (void)push(own(id), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0, 0);
    unlock();
    return 0;
}

static struct id *find_listener(const struct sockaddr_in *address)
{
    mc_list_for_each (node, &fake.ids) {
        struct id *id = MC_CONTAINER_OF(node, struct id, node);

        if (id->listening && id->local.sin_port == address->sin_port &&
            id->local.sin_addr.s_addr == address->sin_addr.s_addr) {
            return id;
        }
    }
    return NULL;
}

static int connect_to(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct id *me = own(id);
    struct id *listener;

    if (param->private_data_len > REQUEST_DATA_LEN || param->retry_count > 6) {
        errno = EINVAL;
        return -1;
    }
    lock();
    me->qp_number = param->qp_num;
    fake_device_of(id->verbs)->connects++;
    listener = find_listener(&me->remote);
    if (listener == NULL) {
        (void)push(me, RDMA_CM_EVENT_REJECTED, 8, NULL, 0, 0);
    } else if (fake.mute > 0) {
        fake.mute--;
    } else if (path_up(me, listener)) {
        struct id *other = make_id(listener->id.channel, listener->id.context);
        struct event *event;

        other->id.verbs = listener->id.verbs;
        other->peer = me;
        other->initiator_depth = param->responder_resources;
        other->responder_resources = param->initiator_depth;
        me->peer = other;
        event = push(other, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param->private_data,
                     param->private_data_len, REQUEST_DATA_LEN);
        event->event.listen_id = &listener->id;
        event->event.param.conn.initiator_depth = param->responder_resources;
        event->event.param.conn.responder_resources = param->initiator_depth;
    }
    unlock();
    return 0;
}

static int accept_it(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct id *me = own(id);
    int result = 0;

    lock();
    me->qp_number = param->qp_num;
    if (me->peer == NULL || param->private_data_len > ANSWER_DATA_LEN) {
        errno = EINVAL;
        result = -1;
    } else {
        me->peer->initiator_depth = param->responder_resources;
        me->peer->responder_resources = param->initiator_depth;
        (void)push(me->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, param->private_data,
                   param->private_data_len, ANSWER_DATA_LEN);
    }
    unlock();
    return result;
}

static int establish(struct rdma_cm_id *id)
{
    struct id *me = own(id);

    lock();
    me->connected = true;
    if (me->peer != NULL) {
        me->peer->connected = true;
        (void)push(me->peer, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0, 0);
    }
    unlock();
    return 0;
}

static int reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
    struct id *me = own(id);

    lock();
    if (me->peer != NULL) {
        (void)push(me->peer, RDMA_CM_EVENT_REJECTED, 28, data, len, REFUSAL_DATA_LEN);
        me->peer->peer = NULL;
        me->peer = NULL;
    }
    unlock();
    return 0;
}

static int init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *out_mask)
{
    const struct id *me = own(id);
    enum ibv_qp_state state = attr->qp_state;

    lock();
    *out_mask = IBV_QP_STATE;
    if (state == IBV_QPS_INIT) {
        *out_mask |= IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    } else if (state == IBV_QPS_RTR) {
        *out_mask |= IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_MAX_DEST_RD_ATOMIC;
        attr->path_mtu = IBV_MTU_4096;
        attr->dest_qp_num = me->peer == NULL ? 0 : me->peer->qp_number;
        attr->max_dest_rd_atomic = me->responder_resources;
    } else {
        *out_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_MAX_QP_RD_ATOMIC;
        attr->max_rd_atomic = me->initiator_depth;
    }
    unlock();
    return 0;
}

/* The first that is not kept back. NULL: there is none. */
static struct event *first_event(struct channel *channel)
{
    mc_list_for_each (node, &channel->events) {
        struct event *event = MC_CONTAINER_OF(node, struct event, node);

        if (!event->held) {
            return event;
        }
    }
    return NULL;
}

static int get_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
    struct channel *c = MC_CONTAINER_OF(channel, struct channel, channel);
    struct event *event;

    lock();
    event = first_event(c);
    if (event != NULL) {
        mc_list_drop(&event->node);
        (void)fake_unsignal(channel->fd);
        *out = &event->event;
    }
    unlock();
    errno = EAGAIN;
    return event == NULL ? -1 : 0;
}

static int ack_event(struct rdma_cm_event *event)
{
    free(MC_CONTAINER_OF(event, struct event, event));
    return 0;
}

/* As fake_cm_answers_held(), of one connection. */
static unsigned answers_held_of(const struct id *id, bool release)
{
    struct channel *channel = MC_CONTAINER_OF(id->id.channel, struct channel, channel);
    unsigned count = 0;

    mc_list_for_each (node, &channel->events) {
        struct event *event = MC_CONTAINER_OF(node, struct event, node);

        if (event->event.id == &id->id && event->held) {
            count++;
            event->held = !release;
            if (release) {
                fake_signal(channel->channel.fd);
            }
        }
    }
    return count;
}

unsigned fake_cm_answers_held(const struct fake_device *device, bool release)
{
    unsigned count = 0;

    mc_list_for_each (node, &fake.ids) {
        const struct id *id = MC_CONTAINER_OF(node, struct id, node);

        if (id->id.verbs == &device->context) {
            count += answers_held_of(id, release);
        }
    }
    return count;
}

void fake_cm_remove(struct fake_device *device)
{
    mc_list_for_each (node, &fake.ids) {
        struct id *id = MC_CONTAINER_OF(node, struct id, node);

        if (id->id.verbs == &device->context) {
            (void)push(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0, 0);
        }
    }
    mc_list_for_each (node, &fake.qps) {
        struct fake_qp *qp = MC_CONTAINER_OF(node, struct fake_qp, node);

        if (qp->qp.context == &device->context) {
            fake_break_qp(qp, IBV_WC_RETRY_EXC_ERR);
        }
    }
}

void fake_set_cm(struct mc_verbs *table)
{
    table->create_event_channel = create_event_channel;
    table->destroy_event_channel = destroy_event_channel;
    table->create_id = create_id;
    table->destroy_id = destroy_id;
    table->bind_addr = bind_addr;
    table->listen = listen_on;
    table->get_src_port = get_src_port;
    table->resolve_addr = resolve_addr;
    table->resolve_route = resolve_route;
    table->init_qp_attr = init_qp_attr;
    table->connect = connect_to;
    table->establish = establish;
    table->accept = accept_it;
    table->reject = reject;
    table->get_event = get_event;
    table->ack_event = ack_event;
}
