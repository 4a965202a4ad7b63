/* What devices tell of themselves, and what makes them. */
#include "fake_impl.h"

#include <errno.h>
#include <stdlib.h>

static void lock(void)
{
    (void)pthread_mutex_lock(&fake.mutex);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&fake.mutex);
}

void fake_push_async(struct fake_device *device, const struct ibv_async_event *event)
{
    struct fake_async *async = calloc(1, sizeof(*async));

    async->event = *event;
    mc_list_init(&async->node);
    mc_list_add_tail(&device->events, &async->node);
    fake_signal(device->context.async_fd);
}

static struct fake_qp *qp_of(const struct ibv_async_event *event)
{
    switch ((unsigned)event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
        return MC_CONTAINER_OF(event->element.qp, struct fake_qp, qp);
    default:
        return NULL;
    }
}

static int get_async_event(struct ibv_context *context, struct ibv_async_event *out)
{
    struct fake_device *device = fake_device_of(context);
    struct fake_async *async = NULL;
    struct fake_qp *qp;
    int error = EAGAIN;

    lock();
    if (!mc_list_empty(&device->events)) {
        async = mc_list_first(&device->events, struct fake_async, node);
        *out = async->event;
        qp = qp_of(out);
        if (qp != NULL) {
            qp->events_unacked++;
        }
        mc_list_drop(&async->node);
        (void)fake_unsignal(context->async_fd);
        fake.counts.events_told++;
        error = 0;
    } else if (device->events_ended) {
        error = EIO;
    }
    unlock();
    free(async);
    errno = error;
    return error == 0 ? 0 : -1;
}

static void ack_async_event(struct ibv_async_event *event)
{
    struct fake_qp *qp = qp_of(event);

    lock();
    fake.counts.events_acked++;
    if (qp != NULL) {
        qp->events_unacked--;
    }
    unlock();
}

void fake_drop_events(const struct fake_qp *qp)
{
    struct fake_device *device = fake_device_of(qp->qp.context);

    mc_list_for_each_safe (node, next, &device->events) {
        struct fake_async *async = MC_CONTAINER_OF(node, struct fake_async, node);

        if (qp_of(&async->event) == qp || (async->event.event_type == IBV_EVENT_CQ_ERR &&
                                           async->event.element.cq == qp->qp.send_cq)) {
            mc_list_drop(&async->node);
            (void)fake_unsignal(device->context.async_fd);
            free(async);
        }
    }
}

void fake_tell(unsigned device, enum ibv_event_type type)
{
    const struct ibv_async_event event = {.event_type = type, .element.port_num = 1};

    lock();
    fake_push_async(&fake.devices[device], &event);
    unlock();
}

void fake_set_port(unsigned device, bool up)
{
    fake_set_link(device, up);
    fake_tell(device, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void fake_tell_queues(unsigned device, enum ibv_event_type type)
{
    lock();
    mc_list_for_each (node, &fake.qps) {
        struct fake_qp *qp = MC_CONTAINER_OF(node, struct fake_qp, node);
        struct ibv_async_event event = {.event_type = type};

        if (fake_device_of(qp->qp.context) == &fake.devices[device]) {
            if (type == IBV_EVENT_CQ_ERR) {
                event.element.cq = qp->qp.send_cq;
            } else {
                event.element.qp = &qp->qp;
            }
            qp->dead = true;
            fake_push_async(&fake.devices[device], &event);
        }
    }
    unlock();
}

void fake_end_events(unsigned device)
{
    lock();
    fake.devices[device].events_ended = true;
    fake_signal(fake.devices[device].context.async_fd);
    unlock();
}

void fake_set_events(struct mc_verbs *table)
{
    table->get_async_event = get_async_event;
    table->ack_async_event = ack_async_event;
}
