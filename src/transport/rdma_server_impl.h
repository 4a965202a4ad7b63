/*
 * The inside of the store's side of `rdma`: rdma_server.c has ports, events and segments,
 * rdma_session.c the peers. Thread: the server's own, where nothing else is said.
 */
#ifndef MC_TRANSPORT_RDMA_SERVER_IMPL_H
#define MC_TRANSPORT_RDMA_SERVER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "transport/mount_table.h"
#include "transport/rdma_cm.h"
#include "transport/rdma_events.h"
#include "transport/rdma_memory.h"
#include "transport/rdma_qp.h"
#include "transport/rdma_server.h"

#define MC_RDMA_SEGMENTS_MAX (4u * MC_SEGMENTS_PER_STORE_MAX)

struct mc_rdma_listener {
    struct mc_rdma_server *server;
    const struct mc_rdma_port *port;
    struct rdma_cm_id *id; /* owned; NULL: the device was removed */
    bool up;               /* the port, when we looked last */
    char address[MC_RDMA_ADDRESS_LEN_MAX];
};

struct mc_rdma_server {
    struct mc_loop *loop;
    struct mc_rdma_devices *devices; /* held */
    const struct mc_verbs *verbs;
    struct mc_rdma_port ports[MC_RDMA_PORTS_MAX];
    struct mc_rdma_listener listeners[MC_RDMA_PORTS_MAX];
    unsigned ports_count;
    struct mc_rdma_cm *cm;
    struct mc_rdma_watcher *watcher_of_events; /* owned */
    struct mc_list sessions;
    unsigned sessions_count;
    struct mc_timer *tick;
    uint64_t probe_ns;
    struct mc_rdma_segment_options parts;
    struct mc_mount_watcher watcher;
    struct mc_post drop_post;
    atomic_bool drop_posted;
    pthread_mutex_t mutex; /* guards the next two */
    struct mc_rdma_segment *segments[MC_RDMA_SEGMENTS_MAX];
    unsigned segments_count;
    struct mc_rdma_server_stats stats;
};

/* A peer. Its id's context points here; a listener's id points to its listener. */
struct mc_rdma_session {
    struct mc_rdma_server *server;
    struct mc_list node;
    const struct mc_rdma_port *port;
    struct rdma_cm_id *id;        /* owned */
    struct mc_rdma_qp *qp;        /* owned */
    const struct mc_mount *mount; /* held */
    uint64_t heard_ns, probed_ns;
    bool established;
};

/* ---- rdma_session.c -------------------------------------------------------------------------- */

/** Let a peer in, or refuse it with a reason. */
void mc_rdma_session_ask(struct mc_rdma_server *server, const struct mc_rdma_cm_event *event);
/** The peer's device can reach nothing after this; the mount is given back. */
void mc_rdma_session_close(struct mc_rdma_session *session);
/** Ask those whose time it is whether they are there, end those that do not answer. */
void mc_rdma_sessions_look_after(struct mc_rdma_server *server);
/** Ask all of @p port at once. */
void mc_rdma_sessions_probe(struct mc_rdma_server *server, const struct mc_rdma_port *port);
/** End all of @p device. */
void mc_rdma_sessions_lose(struct mc_rdma_server *server, const struct mc_rdma_device *device);
/** End the one whose queue has failed. */
void mc_rdma_sessions_hear(struct mc_rdma_server *server, const struct mc_rdma_event *event);
/** End those of mounts that are being dropped. */
void mc_rdma_sessions_sweep(struct mc_rdma_server *server);

/* ---- rdma_server.c --------------------------------------------------------------------------- */

/** What a peer that comes over @p port is told of the mount's segment. ENOSEGMENT. Any thread. */
mooncake_err mc_rdma_server_keys(struct mc_rdma_server *server, const struct mc_mount *mount,
                                 const struct mc_rdma_port *port,
                                 struct mc_rdma_answer *out) MC_MUST_CHECK;

#endif
