/* One thread that reads, and a bounded queue for each who watches. */
#include "transport/rdma_events.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <uv.h>

#include "base/log.h"
#include "base/mem.h"

#define EVENTS_PER_TURN 64u
#define WAITING_MAX 64u

struct source {
    struct mc_rdma_events *events;
    struct mc_rdma_device *device;
    uv_poll_t poll;
};

struct mc_rdma_events {
    const struct mc_verbs *verbs;
    struct mc_loop *loop; /* its thread reads */
    struct source sources[MC_RDMA_DEVICES_MAX];
    unsigned sources_count;
    pthread_mutex_t mutex; /* guards watchers, and what waits in each */
    struct mc_list watchers;
};

struct mc_rdma_watcher {
    struct mc_rdma_events *events;
    struct mc_list node;
    struct mc_loop *loop;
    void (*on_event)(void *arg, const struct mc_rdma_event *event);
    void *arg;
    struct mc_post post;
    bool posted, closed;
    bool overflowed; /* events were left out: one that tells to look at all ports stands for them */
    struct mc_rdma_event waiting[WAITING_MAX];
    unsigned count;
};

/* ---- handing over ---------------------------------------------------------------------------- */

static void run_watcher(struct mc_post *post)
{
    struct mc_rdma_watcher *watcher = MC_CONTAINER_OF(post, struct mc_rdma_watcher, post);
    struct mc_rdma_event events[WAITING_MAX + 1];
    unsigned count;

    if (watcher->closed) { /* unwatch has left it to us; its events may be closed */
        mc_free(watcher);
        return;
    }
    (void)pthread_mutex_lock(&watcher->events->mutex);
    watcher->posted = false;
    count = watcher->count;
    memcpy(events, watcher->waiting, count * sizeof(*events));
    if (watcher->overflowed) {
        events[count++] = (struct mc_rdma_event){.kind = MC_RDMA_EVENT_PORT};
    }
    watcher->overflowed = false;
    watcher->count = 0;
    (void)pthread_mutex_unlock(&watcher->events->mutex);
    for (unsigned i = 0; i < count; i++) {
        watcher->on_event(watcher->arg, &events[i]);
    }
}

static void tell(struct mc_rdma_events *events, const struct mc_rdma_event *event)
{
    (void)pthread_mutex_lock(&events->mutex);
    mc_list_for_each (node, &events->watchers) {
        struct mc_rdma_watcher *watcher = MC_CONTAINER_OF(node, struct mc_rdma_watcher, node);

        if (watcher->count < WAITING_MAX) {
            watcher->waiting[watcher->count++] = *event;
        } else {
            watcher->overflowed = true;
        }
        if (!watcher->posted) {
            watcher->posted = true;
            mc_loop_post(watcher->loop, &watcher->post);
        }
    }
    (void)pthread_mutex_unlock(&events->mutex);
}

/* ---- reading --------------------------------------------------------------------------------- */

const char *mc_rdma_event_text(int type)
{
    switch ((unsigned)type) {
    case IBV_EVENT_CQ_ERR:
        return "the completion queue has failed";
    case IBV_EVENT_QP_FATAL:
        return "the queue pair has failed";
    case IBV_EVENT_QP_REQ_ERR:
        return "the queue pair got a request that makes no sense";
    case IBV_EVENT_QP_ACCESS_ERR:
        return "the peer tried what it may not";
    case IBV_EVENT_PATH_MIG_ERR:
        return "the path could not be changed";
    case IBV_EVENT_DEVICE_FATAL:
        return "the device is broken or was removed";
    case IBV_EVENT_PORT_ACTIVE:
        return "the port is up";
    case IBV_EVENT_PORT_ERR:
        return "the port is down";
    case IBV_EVENT_GID_CHANGE:
        return "the port's GIDs have changed";
    default:
        return "it is for information";
    }
}

static void on_port(struct source *source, const struct ibv_async_event *event, bool active)
{
    uint8_t port = (uint8_t)event->element.port_num;

    mc_rdma_device_note_port(source->device, port, active);
    if (active) {
        mc_log_info("rdma.port_up", "device=%s port=%u", source->device->name, (unsigned)port);
    } else {
        mc_log_warn("rdma.port_down", "device=%s port=%u", source->device->name, (unsigned)port);
    }
}

/* False: it concerns nobody. Names the queue, so before the event is acknowledged. */
static bool translate(struct source *source, const struct ibv_async_event *event,
                      struct mc_rdma_event *out)
{
    *out = (struct mc_rdma_event){
        .kind = MC_RDMA_EVENT_PORT, .device = source->device, .type = (int)event->event_type};
    switch ((unsigned)event->event_type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
        on_port(source, event, event->event_type == IBV_EVENT_PORT_ACTIVE);
        return true;
    case IBV_EVENT_DEVICE_FATAL:
        mc_rdma_device_note_gone(source->device);
        return true;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
        out->kind = MC_RDMA_EVENT_QUEUE;
        out->queue = event->element.qp;
        return true;
    case IBV_EVENT_CQ_ERR:
        out->kind = MC_RDMA_EVENT_QUEUE;
        out->queue = event->element.cq;
        return true;
    default:
        mc_log_debug("rdma.event", "device=%s type=%d detail=\"%s\"", source->device->name,
                     (int)event->event_type, mc_rdma_event_text((int)event->event_type));
        return false;
    }
}

/* The device's events cannot be read any more: the kernel has taken it away. */
static void end_source(struct source *source)
{
    const struct mc_rdma_event event = {
        .kind = MC_RDMA_EVENT_PORT, .device = source->device, .type = IBV_EVENT_DEVICE_FATAL};

    (void)uv_poll_stop(&source->poll);
    mc_rdma_device_note_gone(source->device);
    tell(source->events, &event);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct source *source = poll->data;
    const struct mc_verbs *verbs = source->events->verbs;

    (void)events;
    if (status < 0) {
        end_source(source);
        return;
    }
    for (unsigned i = 0; i < EVENTS_PER_TURN; i++) {
        struct ibv_async_event event;
        struct mc_rdma_event told;
        bool matters;

        memset(&event, 0, sizeof(event));
        errno = 0;
        if (verbs->get_async_event(source->device->context, &event) != 0) {
            if (errno != EAGAIN && errno != EINTR) {
                end_source(source);
            }
            return;
        }
        matters = translate(source, &event, &told);
        verbs->ack_async_event(&event);
        if (matters) {
            tell(source->events, &told);
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static mooncake_err add_source(struct mc_rdma_events *events, struct mc_rdma_device *device)
{
    struct source *source = &events->sources[events->sources_count];
    int fd = device->context->async_fd;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        uv_poll_init(mc_loop_uv(events->loop), &source->poll, fd) != 0) {
        return mc_err_set(MOONCAKE_ERPC, "rdma: the events of %s cannot be watched", device->name);
    }
    source->events = events;
    source->device = device;
    source->poll.data = source;
    events->sources_count++;
    (void)uv_poll_start(&source->poll, UV_READABLE, on_readable); /* fails on bad events only */
    return MOONCAKE_OK;
}

static void destroy_events(struct mc_rdma_events *events)
{
    if (events->loop != NULL) {
        for (unsigned i = 0; i < events->sources_count; i++) {
            uv_close((uv_handle_t *)&events->sources[i].poll, NULL);
        }
        mc_loop_destroy(&events->loop);
    }
    MC_ASSERT(mc_list_empty(&events->watchers));
    (void)pthread_mutex_destroy(&events->mutex);
    mc_free(events);
}

mooncake_err mc_rdma_events_open(struct mc_rdma_devices *devices, struct mc_rdma_events **out)
{
    struct mc_rdma_events *events = mc_calloc(1, sizeof(*events));
    mooncake_err err;

    if (events == NULL) {
        return MOONCAKE_ENOMEM;
    }
    events->verbs = devices->verbs;
    mc_list_init(&events->watchers);
    (void)pthread_mutex_init(&events->mutex, NULL);
    err = mc_loop_create(0, &events->loop);
    for (unsigned i = 0; err == MOONCAKE_OK && i < devices->count; i++) {
        err = add_source(events, &devices->devices[i]);
    }
    if (err == MOONCAKE_OK) {
        err = mc_loop_start(events->loop, "mc-rdma-events");
    }
    if (err != MOONCAKE_OK) {
        destroy_events(events);
        return err;
    }
    *out = events;
    return MOONCAKE_OK;
}

void mc_rdma_events_close(struct mc_rdma_events **events)
{
    if (*events == NULL) {
        return;
    }
    mc_loop_stop((*events)->loop);
    destroy_events(*events);
    *events = NULL;
}

mooncake_err mc_rdma_watch(struct mc_rdma_events *events, struct mc_loop *loop,
                           void (*on_event)(void *arg, const struct mc_rdma_event *event),
                           void *arg, struct mc_rdma_watcher **out)
{
    struct mc_rdma_watcher *watcher = mc_calloc(1, sizeof(*watcher));

    if (watcher == NULL) {
        return MOONCAKE_ENOMEM;
    }
    watcher->events = events;
    watcher->loop = loop;
    watcher->on_event = on_event;
    watcher->arg = arg;
    watcher->post.run = run_watcher;
    (void)pthread_mutex_lock(&events->mutex);
    mc_list_add_tail(&events->watchers, &watcher->node);
    (void)pthread_mutex_unlock(&events->mutex);
    *out = watcher;
    return MOONCAKE_OK;
}

void mc_rdma_unwatch(struct mc_rdma_watcher **watcher_ptr)
{
    struct mc_rdma_watcher *watcher = *watcher_ptr;
    pthread_mutex_t *watchers_mutex;
    bool posted;

    if (watcher == NULL) {
        return;
    }
    watchers_mutex = &watcher->events->mutex;
    (void)pthread_mutex_lock(watchers_mutex);
    mc_list_drop(&watcher->node);
    watcher->closed = true;
    posted = watcher->posted;
    (void)pthread_mutex_unlock(watchers_mutex);
    if (!posted) {
        mc_free(watcher); /* else with the loop's remaining turns */
    }
    *watcher_ptr = NULL;
}
