/*
 * Ports, events and segments.
 *
 * Design notes: when a port loses its link, its sessions are asked at once whether they are there,
 * and those that do not answer within their retries end: a peer's work survives a link that comes
 * back soon. When a device goes, or a queue pair fails, sessions end at once.
 */
#include "transport/rdma_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/rdma_server_impl.h"

#define BACKLOG 128
#define PROBE_MS_DEFAULT 10000u
#define TICK_MS_MAX 1000u

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

static struct mc_rdma_listener *listener_of(struct mc_rdma_server *server,
                                            const struct rdma_cm_id *id)
{
    for (unsigned i = 0; i < server->ports_count; i++) {
        if (server->listeners[i].id == id) {
            return &server->listeners[i];
        }
    }
    return NULL;
}

static void on_listener_gone(struct mc_rdma_server *server, struct mc_rdma_listener *listener)
{
    mc_log_warn("rdma.removed", "device=%s", listener->port->device->name);
    mc_rdma_device_note_gone(listener->port->device);
    (void)server->verbs->destroy_id(listener->id);
    listener->id = NULL;
}

static void on_event(void *arg, const struct mc_rdma_cm_event *event)
{
    struct mc_rdma_server *server = arg;
    struct mc_rdma_listener *listener = listener_of(server, event->id);
    struct mc_rdma_session *session = listener != NULL ? NULL : event->id->context;

    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        mc_rdma_session_ask(server, event);
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
        session->established = true;
        session->heard_ns = mc_monotonic_ns();
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        mc_rdma_session_close(session);
        break;
    default:
        break;
    }
}

/* ---- looking after --------------------------------------------------------------------------- */

static void on_tick(void *arg)
{
    mc_rdma_sessions_look_after(arg);
}

/* ---- events of devices ----------------------------------------------------------------------- */

/* Look at what the port has become. */
static void look_at_port(struct mc_rdma_server *server, struct mc_rdma_listener *listener)
{
    enum mc_rdma_port_state state = mc_rdma_port_state(listener->port);
    bool up = state == MC_RDMA_PORT_UP;

    if (up != listener->up) {
        listener->up = up;
        mc_gauge_add(&server->stats.ports_up, up ? 1 : -1);
        mc_counter_add(&server->stats.port_losses, up ? 0 : 1);
        if (state == MC_RDMA_PORT_DOWN) {
            mc_rdma_sessions_probe(server, listener->port);
        }
    }
    if (state == MC_RDMA_PORT_GONE) {
        mc_rdma_sessions_lose(server, listener->port->device);
        if (listener->id != NULL) {
            on_listener_gone(server, listener);
        }
    }
}

static void on_device_event(void *arg, const struct mc_rdma_event *event)
{
    struct mc_rdma_server *server = arg;

    if (event->kind == MC_RDMA_EVENT_QUEUE) {
        mc_rdma_sessions_hear(server, event);
        return;
    }
    for (unsigned i = 0; i < server->ports_count; i++) {
        look_at_port(server, &server->listeners[i]);
    }
}

/* ---- mounts that go -------------------------------------------------------------------------- */

static void run_drop(struct mc_post *post)
{
    struct mc_rdma_server *server = MC_CONTAINER_OF(post, struct mc_rdma_server, drop_post);

    atomic_store(&server->drop_posted, false); /* before looking: a later drop posts again */
    mc_rdma_sessions_sweep(server);
}

static void on_mount_drop(struct mc_mount_watcher *watcher)
{
    struct mc_rdma_server *server = MC_CONTAINER_OF(watcher, struct mc_rdma_server, watcher);

    if (!atomic_exchange(&server->drop_posted, true)) {
        mc_loop_post(server->loop, &server->drop_post);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static mooncake_err listen_on(struct mc_rdma_server *server, struct mc_rdma_listener *listener,
                              const struct mc_rdma_port *port)
{
    struct mc_rdma_place place = {
        .address = port->address, .numa_node = port->device->numa_node, .mtu = port->mtu};
    const struct mc_verbs *verbs = server->verbs;
    uint16_t number;

    listener->server = server;
    listener->port = port;
    listener->up = mc_rdma_port_state(port) == MC_RDMA_PORT_UP;
    mc_gauge_add(&server->stats.ports_up, listener->up ? 1 : 0);
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
        mc_rdma_unwatch(&server->watcher_of_events);
        while (!mc_list_empty(&server->sessions)) {
            mc_rdma_session_close(mc_list_first(&server->sessions, struct mc_rdma_session, node));
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
    server->parts = (struct mc_rdma_segment_options){.part_len_min = options->part_len_min,
                                                     .progress_ms = options->progress_ms};
    MC_TRY(mc_rdma_devices_open(&server->devices));
    server->verbs = server->devices->verbs;
    MC_TRY(mc_rdma_ports_choose(server->devices, &choice, server->ports, &server->ports_count));
    MC_TRY(mc_loop_create(0, &server->loop));
    MC_TRY(mc_timer_create(server->loop, on_tick, server, &server->tick));
    mc_timer_set(server->tick, tick_ms, tick_ms);
    MC_TRY(mc_rdma_cm_open(server->loop, server->verbs, on_event, server, &server->cm));
    MC_TRY(listen_all(server));
    MC_TRY(mc_rdma_watch(server->devices->events, server->loop, on_device_event, server,
                         &server->watcher_of_events));
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
    mc_list_init(&server->sessions);
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
                                  &server->parts, &segment));
    (void)pthread_mutex_lock(&server->mutex);
    if (server->segments_count == MC_RDMA_SEGMENTS_MAX) {
        err = mc_err_set(MOONCAKE_ENOMEM, "rdma: at most %u segments can be registered",
                         MC_RDMA_SEGMENTS_MAX);
    } else {
        server->segments[server->segments_count++] = segment;
    }
    (void)pthread_mutex_unlock(&server->mutex);
    if (err != MOONCAKE_OK) {
        mc_rdma_segment_destroy(&segment);
    }
    return err;
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

mooncake_err mc_rdma_server_keys(struct mc_rdma_server *server, const struct mc_mount *mount,
                                 const struct mc_rdma_port *port, struct mc_rdma_answer *out)
{
    const struct mc_rdma_segment *segment;

    (void)pthread_mutex_lock(&server->mutex);
    segment = find_segment(server, mount->base);
    if (segment != NULL) {
        mc_rdma_segment_answer(segment, port->device, out);
    }
    (void)pthread_mutex_unlock(&server->mutex);
    return segment == NULL ? mc_err_set(MOONCAKE_ENOSEGMENT, "the segment is not registered")
                           : MOONCAKE_OK;
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
