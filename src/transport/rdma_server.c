/*
 * Design notes: a connection holds its mount from acceptance to its end. A peer whose machine has
 * died says nothing, so each connection is probed now and then by an RDMA write of no bytes, which
 * the peer's device answers without its program (one that is stopped stays connected). The queue
 * pair gives the right that was asked for and proven, and no other.
 */
#include "transport/rdma_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/mount_table.h"
#include "transport/rdma_cm.h"
#include "transport/rdma_memory.h"
#include "transport/rdma_qp.h"

#define BACKLOG 128
#define CONNECTIONS_MAX 16384
#define SEGMENTS_MAX (4u * MC_SEGMENTS_PER_STORE_MAX)
#define PROBE_MS_DEFAULT 10000u
#define TICK_MS_MAX 1000u
/* A peer that was accepted and does not confirm, or does not answer a probe, for so long is gone.
 */
#define SILENT_NS_MAX (15u * MC_NS_PER_S)
#define PROBE_SEND_MAX 4u

struct listener {
    struct mc_rdma_server *server;
    const struct mc_rdma_port *port;
    struct rdma_cm_id *id; /* owned; NULL: the device was removed */
    char address[MC_RDMA_ADDRESS_LEN_MAX];
};

struct mc_rdma_server {
    struct mc_loop *loop;
    struct mc_rdma_devices *devices; /* held */
    const struct mc_verbs *verbs;
    struct mc_rdma_port ports[MC_RDMA_PORTS_MAX];
    struct listener listeners[MC_RDMA_PORTS_MAX];
    unsigned ports_count;
    struct mc_rdma_cm *cm;
    struct mc_list conns;
    unsigned conns_count;
    struct mc_timer *tick;
    uint64_t probe_ns;
    struct mc_mount_watcher watcher;
    struct mc_post drop_post;
    atomic_bool drop_posted;
    pthread_mutex_t mutex; /* guards the next two */
    struct mc_rdma_segment *segments[SEGMENTS_MAX];
    unsigned segments_count;
    struct mc_rdma_server_stats stats;
};

/* A peer. Its id's context points here; a listener's id points to its listener. */
struct conn {
    struct mc_rdma_server *server;
    struct mc_list node;
    struct rdma_cm_id *id;        /* owned */
    struct mc_rdma_qp *qp;        /* owned */
    const struct mc_mount *mount; /* held */
    uint64_t heard_ns, probed_ns;
    bool established;
};

mooncake_err mc_rdma_policy_parse(const char *text, enum mc_rdma_policy *out)
{
    static const char *const names[] = {"off", "auto", "on"};

    for (unsigned i = 0; i < MC_ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum mc_rdma_policy)i;
            return MOONCAKE_OK;
        }
    }
    return mc_err_set(MOONCAKE_EINVAL, "rdma: \"%.40s\" is unknown; allowed are auto, on and off",
                      text);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void close_conn(struct conn *conn)
{
    struct mc_rdma_server *server = conn->server;
    const struct mc_mount *mount = conn->mount;

    mc_list_drop(&conn->node);
    server->conns_count--;
    mc_gauge_add(&server->stats.connections, -1);
    mc_rdma_qp_close(&conn->qp, NULL, NULL); /* the peer's device can reach nothing after this */
    (void)server->verbs->destroy_id(conn->id);
    mc_free(conn);
    mc_mount_return(mount); /* last: the memory may go now */
}

static void lose_conn(struct conn *conn)
{
    mc_counter_add(&conn->server->stats.lost, 1);
    mc_log_info("rdma.peer_lost", "mount_id=%016llx detail=\"%s\"",
                (unsigned long long)conn->mount->mount_id, mooncake_last_error());
    close_conn(conn);
}

static void on_probe_done(void *arg, void *work)
{
    struct conn *conn = arg;

    (void)work;
    conn->heard_ns = mc_loop_now_ns(conn->server->loop);
}

static void on_qp_failed(void *arg, mooncake_err err)
{
    (void)err;
    lose_conn(arg);
}

/* With the server's mutex held. */
static struct mc_rdma_segment *find_segment(struct mc_rdma_server *server, const uint8_t *base)
{
    for (unsigned i = 0; i < server->segments_count; i++) {
        if (mc_rdma_segment_base(server->segments[i]) == base) {
            return server->segments[i];
        }
    }
    return NULL;
}

static mooncake_err find_keys(struct mc_rdma_server *server, const struct mc_mount *mount,
                              const struct mc_rdma_port *port, struct mc_rdma_answer *out)
{
    const struct mc_rdma_segment *segment;

    (void)pthread_mutex_lock(&server->mutex);
    segment = find_segment(server, mount->base);
    if (segment != NULL) {
        mc_rdma_segment_answer(segment, port->device, out);
    }
    (void)pthread_mutex_unlock(&server->mutex);
    return segment == NULL ? MOONCAKE_ENOSEGMENT : MOONCAKE_OK;
}

static mooncake_err admit(struct conn *conn, const struct mc_rdma_port *port,
                          const struct mc_rdma_request *request,
                          const struct mc_rdma_cm_event *event)
{
    struct mc_rdma_server *server = conn->server;
    const struct mc_rdma_qp_options options = {.device = port->device,
                                               .access = request->right == MC_RIGHT_READ
                                                             ? IBV_ACCESS_REMOTE_READ
                                                             : IBV_ACCESS_REMOTE_WRITE,
                                               .send_max = PROBE_SEND_MAX};
    const struct mc_rdma_qp_users users = {
        .on_done = on_probe_done, .on_failed = on_qp_failed, .arg = conn};
    uint8_t bytes[MC_RDMA_ANSWER_LEN_MAX];
    struct rdma_conn_param param = {.private_data = bytes, .initiator_depth = 1};
    struct mc_rdma_answer answer;
    uint8_t reads = event->responder_resources; /* as the peer asks of us */

    MC_TRY(find_keys(server, conn->mount, port, &answer));
    MC_TRY(mc_rdma_qp_open(server->loop, server->verbs, &options, &users, &conn->qp));
    MC_TRY(mc_rdma_qp_to_init(conn->qp, conn->id));
    MC_TRY(mc_rdma_qp_to_send(conn->qp, conn->id, port->mtu, &answer.mtu));
    param.private_data_len = (uint8_t)mc_rdma_answer_encode(&answer, bytes);
    param.responder_resources = reads < port->device->reads_max ? reads : port->device->reads_max;
    param.qp_num = mc_rdma_qp_number(conn->qp);
    if (server->verbs->accept(conn->id, &param) != 0) {
        return mc_verbs_err(errno, "accepting a connection");
    }
    return MOONCAKE_OK;
}

/* Check the ticket; on OK the mount is held. */
static mooncake_err check_ticket(struct mc_rdma_server *server,
                                 const struct mc_rdma_cm_event *event,
                                 struct mc_rdma_request *out_request,
                                 const struct mc_mount **out_mount)
{
    const struct mc_mount *mount;
    mooncake_err err;

    MC_TRY(mc_rdma_request_decode(event->data, event->data_len, out_request));
    if (server->conns_count >= CONNECTIONS_MAX) {
        return MOONCAKE_EUNAVAILABLE;
    }
    mount = mc_mount_borrow(out_request->extent.mount_id);
    if (mount == NULL) {
        return MOONCAKE_ENOSEGMENT;
    }
    err = mc_mount_check(mount, &out_request->extent, out_request->right);
    if (err != MOONCAKE_OK) {
        mc_mount_return(mount);
        return err;
    }
    *out_mount = mount;
    return MOONCAKE_OK;
}

static mooncake_err create_conn(struct mc_rdma_server *server, const struct listener *listener,
                                const struct mc_rdma_cm_event *event)
{
    const struct mc_mount *mount = NULL;
    struct mc_rdma_request request;
    struct conn *conn;
    mooncake_err err;

    MC_TRY(check_ticket(server, event, &request, &mount));
    conn = mc_calloc(1, sizeof(*conn));
    if (conn == NULL) {
        mc_mount_return(mount);
        return MOONCAKE_ENOMEM;
    }
    conn->server = server;
    conn->id = event->id;
    conn->mount = mount;
    conn->heard_ns = mc_monotonic_ns();
    conn->probed_ns = conn->heard_ns;
    err = admit(conn, listener->port, &request, event);
    if (err != MOONCAKE_OK) {
        mc_rdma_qp_close(&conn->qp, NULL, NULL);
        mc_mount_return(mount);
        mc_free(conn);
        return err;
    }
    event->id->context = conn;
    mc_list_add_tail(&server->conns, &conn->node);
    server->conns_count++;
    mc_gauge_add(&server->stats.connections, 1);
    mc_counter_add(&server->stats.accepted, 1);
    mc_log_debug("rdma.accepted", "device=%s mount_id=%016llx right=%d",
                 listener->port->device->name, (unsigned long long)mount->mount_id,
                 (int)request.right);
    return MOONCAKE_OK;
}

static void on_request(struct mc_rdma_server *server, const struct mc_rdma_cm_event *event)
{
    const struct listener *listener = event->listen_id->context;
    mooncake_err err = create_conn(server, listener, event);

    if (err != MOONCAKE_OK) {
        uint8_t refusal[MC_RDMA_REFUSAL_LEN];

        mc_counter_add(&server->stats.refused, 1);
        mc_log_warn("rdma.refuse", "device=%s err=%s detail=\"%s\"", listener->port->device->name,
                    mooncake_err_name(err), mooncake_last_error());
        mc_rdma_refusal_encode(err, refusal);
        (void)server->verbs->reject(event->id, refusal, sizeof(refusal));
        (void)server->verbs->destroy_id(event->id);
    }
}

static struct listener *listener_of(struct mc_rdma_server *server, const struct rdma_cm_id *id)
{
    for (unsigned i = 0; i < server->ports_count; i++) {
        if (server->listeners[i].id == id) {
            return &server->listeners[i];
        }
    }
    return NULL;
}

static void on_listener_gone(struct mc_rdma_server *server, struct listener *listener)
{
    mc_log_warn("rdma.removed", "device=%s", listener->port->device->name);
    (void)server->verbs->destroy_id(listener->id);
    listener->id = NULL;
}

static void on_event(void *arg, const struct mc_rdma_cm_event *event)
{
    struct mc_rdma_server *server = arg;
    struct listener *listener = listener_of(server, event->id);
    struct conn *conn = listener != NULL ? NULL : event->id->context;

    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        on_request(server, event);
        return;
    }
    if (listener != NULL) {
        if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            on_listener_gone(server, listener);
        }
        return;
    }
    switch ((unsigned)event->type) {
    case RDMA_CM_EVENT_ESTABLISHED:
        conn->established = true;
        conn->heard_ns = mc_monotonic_ns();
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        close_conn(conn);
        break;
    default:
        break;
    }
}

/* ---- looking after --------------------------------------------------------------------------- */

/* Ask @p conn's device whether it is there. False: the connection is gone. */
static bool probe(struct conn *conn, uint64_t now_ns)
{
    const struct mc_rdma_work_request nothing = {.is_write = true};

    conn->probed_ns = now_ns;
    if (mc_rdma_qp_add(conn->qp, &nothing, NULL) != MOONCAKE_OK ||
        mc_rdma_qp_ring(conn->qp) != MOONCAKE_OK) {
        lose_conn(conn);
        return false;
    }
    return true;
}

static void look_after(struct conn *conn, uint64_t now_ns)
{
    uint64_t since_ns = mc_rdma_qp_waiting_since_ns(conn->qp);
    bool silent = conn->established ? since_ns > 0 && now_ns - since_ns > SILENT_NS_MAX
                                    : now_ns - conn->heard_ns > SILENT_NS_MAX;

    if (silent) {
        (void)mc_err_set(MOONCAKE_ETIMEDOUT, "rdma: the peer's device does not answer");
        lose_conn(conn);
    } else if (conn->established && since_ns == 0 &&
               now_ns - conn->probed_ns >= conn->server->probe_ns) {
        (void)probe(conn, now_ns);
    }
}

static void on_tick(void *arg)
{
    struct mc_rdma_server *server = arg;
    uint64_t now_ns = mc_monotonic_ns();

    mc_list_for_each_safe (node, next, &server->conns) {
        look_after(MC_CONTAINER_OF(node, struct conn, node), now_ns);
    }
}

static void run_drop(struct mc_post *post)
{
    struct mc_rdma_server *server = MC_CONTAINER_OF(post, struct mc_rdma_server, drop_post);

    atomic_store(&server->drop_posted, false); /* before looking: a later drop posts again */
    mc_list_for_each_safe (node, next, &server->conns) {
        struct conn *conn = MC_CONTAINER_OF(node, struct conn, node);

        if (mc_mount_is_dropped(conn->mount)) {
            close_conn(conn);
        }
    }
}

static void on_mount_drop(struct mc_mount_watcher *watcher)
{
    struct mc_rdma_server *server = MC_CONTAINER_OF(watcher, struct mc_rdma_server, watcher);

    if (!atomic_exchange(&server->drop_posted, true)) {
        mc_loop_post(server->loop, &server->drop_post);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static mooncake_err listen_on(struct mc_rdma_server *server, struct listener *listener,
                              const struct mc_rdma_port *port)
{
    struct mc_rdma_place place = {
        .address = port->address, .numa_node = port->device->numa_node, .mtu = port->mtu};
    const struct mc_verbs *verbs = server->verbs;
    uint16_t number;

    listener->server = server;
    listener->port = port;
    MC_TRY(mc_rdma_cm_create_id(server->cm, listener, &listener->id));
    if (verbs->bind_addr(listener->id, &place.address.any) != 0 ||
        verbs->listen(listener->id, BACKLOG) != 0) {
        mooncake_err err = mc_verbs_err(errno, "listening");

        (void)verbs->destroy_id(listener->id);
        listener->id = NULL;
        return err;
    }
    number = verbs->get_src_port(listener->id);
    if (place.address.any.sa_family == AF_INET) {
        place.address.v4.sin_port = number;
    } else {
        place.address.v6.sin6_port = number;
    }
    (void)snprintf(place.device, sizeof(place.device), "%s", port->device->name);
    (void)snprintf(place.gid_kind, sizeof(place.gid_kind), "%s", port->gid_kind);
    MC_TRY(mc_rdma_place_print(&place, listener->address, sizeof(listener->address)));
    mc_log_info("rdma.listening", "address=%s", listener->address);
    return MOONCAKE_OK;
}

/* Listen wherever that works; one port is enough. */
static mooncake_err listen_all(struct mc_rdma_server *server)
{
    mooncake_err err = MOONCAKE_OK;
    unsigned listening = 0;

    for (unsigned i = 0; i < server->ports_count; i++) {
        err = listen_on(server, &server->listeners[i], &server->ports[i]);
        if (err == MOONCAKE_OK) {
            listening++;
        } else {
            mc_log_warn("rdma.listen", "device=%s detail=\"%s\"", server->ports[i].device->name,
                        mooncake_last_error());
        }
    }
    return listening > 0 ? MOONCAKE_OK : err;
}

static void destroy_server(struct mc_rdma_server *server)
{
    if (server->loop != NULL) {
        mc_loop_stop(server->loop);
        while (!mc_list_empty(&server->conns)) {
            close_conn(mc_list_first(&server->conns, struct conn, node));
        }
        for (unsigned i = 0; i < server->ports_count; i++) {
            if (server->listeners[i].id != NULL) {
                (void)server->verbs->destroy_id(server->listeners[i].id);
            }
        }
        mc_rdma_cm_close(&server->cm);
        mc_timer_destroy(&server->tick);
        mc_loop_destroy(&server->loop);
    }
    for (unsigned i = 0; i < server->segments_count; i++) {
        mc_rdma_segment_destroy(&server->segments[i]);
    }
    mc_rdma_devices_close(&server->devices);
    (void)pthread_mutex_destroy(&server->mutex);
    mc_free(server);
}

static mooncake_err build(struct mc_rdma_server *server,
                          const struct mc_rdma_server_options *options)
{
    const struct mc_rdma_choice choice = {.names = options->devices,
                                          .gid_index = options->gid_index};
    const uint32_t probe_ms = options->probe_ms == 0 ? PROBE_MS_DEFAULT : options->probe_ms;
    const uint32_t tick_ms = probe_ms < TICK_MS_MAX ? probe_ms : TICK_MS_MAX;

    server->probe_ns = probe_ms * MC_NS_PER_MS;
    MC_TRY(mc_rdma_devices_open(&server->devices));
    server->verbs = server->devices->verbs;
    MC_TRY(mc_rdma_ports_choose(server->devices, &choice, server->ports, &server->ports_count));
    MC_TRY(mc_loop_create(0, &server->loop));
    MC_TRY(mc_timer_create(server->loop, on_tick, server, &server->tick));
    mc_timer_set(server->tick, tick_ms, tick_ms);
    MC_TRY(mc_rdma_cm_open(server->loop, server->verbs, on_event, server, &server->cm));
    MC_TRY(listen_all(server));
    return mc_loop_start(server->loop, "mc-rdma");
}

mooncake_err mc_rdma_server_open(const struct mc_rdma_server_options *options,
                                 struct mc_rdma_server **out)
{
    struct mc_rdma_server *server = mc_calloc(1, sizeof(*server));
    mooncake_err err;

    if (server == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_list_init(&server->conns);
    (void)pthread_mutex_init(&server->mutex, NULL);
    server->watcher.on_drop = on_mount_drop;
    server->drop_post.run = run_drop;
    err = build(server, options);
    if (err != MOONCAKE_OK) {
        destroy_server(server);
        return err;
    }
    mc_mount_watch(&server->watcher);
    *out = server;
    return MOONCAKE_OK;
}

void mc_rdma_server_close(struct mc_rdma_server **server)
{
    if (*server == NULL) {
        return;
    }
    mc_mount_unwatch(&(*server)->watcher); /* from here on, all mounts are given back below */
    destroy_server(*server);
    *server = NULL;
}

void mc_rdma_server_addresses(const struct mc_rdma_server *server, char *out, size_t cap)
{
    size_t len = 0;

    MC_ASSERT(cap > 0);
    out[0] = '\0';
    for (unsigned i = 0; i < server->ports_count; i++) {
        const char *address = server->listeners[i].address;
        size_t need = strlen(address) + (len > 0 ? 1 : 0);

        if (address[0] != '\0' && need < cap - len) {
            (void)snprintf(out + len, cap - len, "%s%s", len > 0 ? " " : "", address);
            len += need;
        }
    }
}

mooncake_err mc_rdma_server_add_segment(struct mc_rdma_server *server, uint8_t *base, uint64_t len)
{
    struct mc_rdma_segment *segment = NULL;
    mooncake_err err = MOONCAKE_OK;

    MC_TRY(mc_rdma_segment_create(server->verbs, server->ports, server->ports_count, base, len,
                                  &segment));
    (void)pthread_mutex_lock(&server->mutex);
    if (server->segments_count == SEGMENTS_MAX) {
        err = mc_err_set(MOONCAKE_ENOMEM, "rdma: at most %u segments can be registered",
                         SEGMENTS_MAX);
    } else {
        server->segments[server->segments_count++] = segment;
    }
    (void)pthread_mutex_unlock(&server->mutex);
    if (err != MOONCAKE_OK) {
        mc_rdma_segment_destroy(&segment);
    }
    return err;
}

void mc_rdma_server_drop_segment(struct mc_rdma_server *server, const uint8_t *base)
{
    struct mc_rdma_segment *found = NULL;

    (void)pthread_mutex_lock(&server->mutex);
    for (unsigned i = 0; i < server->segments_count && found == NULL; i++) {
        if (mc_rdma_segment_base(server->segments[i]) == base) {
            found = server->segments[i];
            server->segments[i] = server->segments[--server->segments_count];
        }
    }
    (void)pthread_mutex_unlock(&server->mutex);
    mc_rdma_segment_destroy(&found);
}

const struct mc_rdma_server_stats *mc_rdma_server_stats(const struct mc_rdma_server *server)
{
    return &server->stats;
}
