/*
 * What devices tell of themselves: a port loses its link or gets it back, a device is removed or
 * breaks, a queue is of no use any more. A process has one set of devices (rdma_device.h) and each
 * event comes once, so one thread reads them all, acknowledges at once (destroying a queue waits
 * for that), and hands them to those who watch, each on its own loop.
 *
 * The state of a port is in its device before anybody is told: who hears late, or not at all
 * because too many events came at once, reads it there.
 */
#ifndef MC_TRANSPORT_RDMA_EVENTS_H
#define MC_TRANSPORT_RDMA_EVENTS_H

#include "io/loop.h"
#include "transport/rdma_device.h"

struct mc_rdma_events;
struct mc_rdma_watcher;

enum mc_rdma_event_kind {
    MC_RDMA_EVENT_PORT,  /* a port or device has changed its state: ask mc_rdma_port_state() */
    MC_RDMA_EVENT_QUEUE, /* a queue pair or completion queue has failed */
};

struct mc_rdma_event {
    enum mc_rdma_event_kind kind;
    struct mc_rdma_device *device;
    const void *queue; /* of QUEUE: which; it may be gone by now, so it is only compared */
    int type;          /* the verbs' number */
};

/** Begin to read. ENOMEM, ERPC. */
mooncake_err mc_rdma_events_open(struct mc_rdma_devices *devices,
                                 struct mc_rdma_events **out) MC_MUST_CHECK;
/** Ends the thread. Nobody may watch any more. Nulls *events; accepts NULL in it. */
void mc_rdma_events_close(struct mc_rdma_events **events);

/** From now on @p on_event is called on @p loop. Any thread, as is its contrary. ENOMEM. */
mooncake_err mc_rdma_watch(struct mc_rdma_events *events, struct mc_loop *loop,
                           void (*on_event)(void *arg, const struct mc_rdma_event *event),
                           void *arg, struct mc_rdma_watcher **out) MC_MUST_CHECK;
/** By the loop's owner: on_event is not called any more. Before the devices are closed. Nulls
 * *watcher; accepts NULL in it. */
void mc_rdma_unwatch(struct mc_rdma_watcher **watcher);

/** "the port is down", for messages. */
const char *mc_rdma_event_text(int type);

#endif
