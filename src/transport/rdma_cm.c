/* Events of the connection manager. */
#include "transport/rdma_cm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <uv.h>

#include "base/log.h"
#include "base/mem.h"

#define EVENTS_PER_TURN 64u

struct mc_rdma_cm {
    const struct mc_verbs *verbs;
    struct rdma_event_channel *channel; /* owned; NULL once closed */
    void (*on_event)(void *arg, const struct mc_rdma_cm_event *event);
    void *arg;
    uv_poll_t poll; /* its close callback frees all */
};

static void copy_event(const struct rdma_cm_event *from, struct mc_rdma_cm_event *to)
{
    const struct rdma_conn_param *conn = &from->param.conn;

    *to = (struct mc_rdma_cm_event){.type = from->event,
                                    .id = from->id,
                                    .listen_id = from->listen_id,
                                    .status = from->status,
                                    .initiator_depth = conn->initiator_depth,
                                    .responder_resources = conn->responder_resources};
    if (conn->private_data != NULL) {
        to->data_len = conn->private_data_len;
        memcpy(to->data, conn->private_data, conn->private_data_len);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct mc_rdma_cm *cm = poll->data;
    struct mc_rdma_cm_event copy;

    (void)status;
    (void)events;
    for (unsigned i = 0; i < EVENTS_PER_TURN && cm->channel != NULL; i++) {
        struct rdma_cm_event *event = NULL;

        if (cm->verbs->get_event(cm->channel, &event) != 0) {
            if (errno != EAGAIN && errno != EINTR) {
                mc_log_warn("rdma.event", "detail=\"%s\"", strerror(errno));
            }
            return;
        }
        copy_event(event, &copy);
        (void)cm->verbs->ack_event(event);
        cm->on_event(cm->arg, &copy);
    }
}

static void free_cm(uv_handle_t *handle)
{
    mc_free(handle->data);
}

mooncake_err mc_rdma_cm_open(struct mc_loop *loop, const struct mc_verbs *verbs,
                             void (*on_event)(void *arg, const struct mc_rdma_cm_event *event),
                             void *arg, struct mc_rdma_cm **out)
{
    struct mc_rdma_cm *cm = mc_calloc(1, sizeof(*cm));
    mooncake_err err = MOONCAKE_ERPC;

    if (cm == NULL) {
        return MOONCAKE_ENOMEM;
    }
    cm->verbs = verbs;
    cm->on_event = on_event;
    cm->arg = arg;
    cm->channel = verbs->create_event_channel();
    if (cm->channel == NULL) {
        err = mc_verbs_err(errno, "/dev/infiniband/rdma_cm");
        goto free_cm;
    }
    if (fcntl(cm->channel->fd, F_SETFL, O_NONBLOCK) != 0 ||
        uv_poll_init(mc_loop_uv(loop), &cm->poll, cm->channel->fd) != 0) {
        err = mc_err_set(MOONCAKE_ERPC, "rdma: the connection manager's events cannot be watched");
        goto destroy_channel;
    }
    cm->poll.data = cm;
    (void)uv_poll_start(&cm->poll, UV_READABLE, on_readable); /* fails on bad events only */
    *out = cm;
    return MOONCAKE_OK;

destroy_channel:
    verbs->destroy_event_channel(cm->channel);
free_cm:
    mc_free(cm);
    return err;
}

void mc_rdma_cm_close(struct mc_rdma_cm **cm_ptr)
{
    struct mc_rdma_cm *cm = *cm_ptr;

    if (cm == NULL) {
        return;
    }
    uv_close((uv_handle_t *)&cm->poll, free_cm); /* before its descriptor goes */
    cm->verbs->destroy_event_channel(cm->channel);
    cm->channel = NULL;
    *cm_ptr = NULL;
}

mooncake_err mc_rdma_cm_create_id(struct mc_rdma_cm *cm, void *arg, struct rdma_cm_id **out)
{
    struct rdma_cm_id *id = NULL;

    if (cm->verbs->create_id(cm->channel, &id, arg, RDMA_PS_TCP) != 0) {
        return mc_verbs_err(errno, "making a connection id");
    }
    *out = id;
    return MOONCAKE_OK;
}
