/*
 * When a path may be tried, and what is said of it.
 *
 * Design notes
 * - The first loss of a connection is answered by connecting again at once: a store that restarts
 *   loses all of them. A path that fails again is paused, 100 ms at first and doubled each time.
 * The most is 3 s for one that has worked, and while no path works; one that has never worked
 * beside others that do (a rail that is cabled to another network) is tried once a minute in the
 * end.
 * - What is known of a path may be old. A path that is down is tried beside the work as long as the
 *   peer is in use, so that it comes back before it is needed. And when a connection that worked
 *   ends, the pauses of the others end too, and their failures from before count no more: they are
 *   tried before an op is refused.
 * - A path says once that it does not work, and once, when something has finished over it, that it
 *   does again and how many tries that took. Connections that come up and fail at once say nothing.
 * - The link of our own port is told by the device: when it is down the connection ends at once and
 *   is not tried again before the link is back. Should that be missed, the device is asked now and
 *   then. A device that is gone does not come back for this process.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/peers.h"
#include "transport/rdma_impl.h"

#define PAUSE_MS_MIN 100u
#define PAUSE_MS_MAX 3000u
#define PAUSE_MS_MAX_USELESS 60000u
#define PAUSE_DOUBLINGS_MAX 10u
#define LOOK_NS (3 * MC_NS_PER_S)

/* Does another path of the peer work over the same port? */
static bool has_better(const struct mc_rdma_path *path)
{
    const struct mc_rdma_peer *peer = path->peer;

    for (unsigned i = 0; i < peer->paths_count; i++) {
        const struct mc_rdma_conn *conn = peer->paths[i].conn;

        if (&peer->paths[i] != path && peer->paths[i].port == path->port && conn != NULL &&
            conn->state == MC_RDMA_CONN_UP) {
            return true;
        }
    }
    return false;
}

/* Tell who looks at peers what the path has become. There is one entry a port. */
static void publish(const struct mc_rdma_path *path, const char *state)
{
    const struct mc_rdma_port *port = path->port;
    struct mc_peer_path seen = {.gid_index = port->gid_index, .mtu = path->mtu};

    if (path->conn == NULL && has_better(path)) {
        return;
    }
    (void)snprintf(seen.device, sizeof(seen.device), "%s", port->device->name);
    (void)snprintf(seen.gid_kind, sizeof(seen.gid_kind), "%s", port->gid_kind);
    (void)snprintf(seen.state, sizeof(seen.state), "%s", state);
    (void)mc_rdma_address_print(&port->address, seen.gid, sizeof(seen.gid));
    mc_peers_note_path(path->peer->rdma->options.peers, path->peer->name, &seen);
}

/* ---- pauses ---------------------------------------------------------------------------------- */

static uint64_t pause_ms(const struct mc_rdma_path *path)
{
    const uint64_t most =
        path->worked || !mc_rdma_peer_is_up(path->peer) ? PAUSE_MS_MAX : PAUSE_MS_MAX_USELESS;
    unsigned doublings = path->failures == 0 ? 0 : path->failures - 1;
    uint64_t ms;

    doublings = doublings < PAUSE_DOUBLINGS_MAX ? doublings : PAUSE_DOUBLINGS_MAX;
    ms = (uint64_t)PAUSE_MS_MIN << doublings;
    return ms < most ? ms : most;
}

uint64_t mc_rdma_path_paused_until(const struct mc_rdma_path *path)
{
    switch (mc_rdma_port_state(path->port)) {
    case MC_RDMA_PORT_GONE:
        return UINT64_MAX;
    case MC_RDMA_PORT_DOWN:
        return path->looked_ns == 0 ? 0 : path->looked_ns + LOOK_NS;
    case MC_RDMA_PORT_UP:
        break;
    }
    return path->paused_ns == 0 ? 0 : path->paused_ns + pause_ms(path) * MC_NS_PER_MS;
}

static void say_trouble(struct mc_rdma_path *path)
{
    if (!path->troubled) {
        path->troubled = true;
        path->troubled_ns = mc_monotonic_ns();
        mc_log_warn("rdma.paused", "path=%s segment=%s ms=%llu detail=\"%s\"", path->name,
                    path->peer->name, (unsigned long long)pause_ms(path), path->why);
        return;
    }
    mc_log_debug("rdma.still_paused", "path=%s segment=%s failures=%u ms=%llu detail=\"%s\"",
                 path->name, path->peer->name, path->failures, (unsigned long long)pause_ms(path),
                 path->why);
}

bool mc_rdma_path_is_down(const struct mc_rdma_path *path)
{
    if (path->conn != NULL && path->conn->state == MC_RDMA_CONN_UP) {
        return false;
    }
    return mc_rdma_port_state(path->port) != MC_RDMA_PORT_UP ||
           (path->down_ns != 0 && path->down_ns >= path->peer->worked_ns);
}

/* A connection on which something has finished ends: that the others did not work beside it may
 * have become untrue unnoticed. */
static void forgive_others(const struct mc_rdma_path *path)
{
    struct mc_rdma_peer *peer = path->peer;

    peer->worked_ns = mc_monotonic_ns();
    for (unsigned i = 0; i < peer->paths_count; i++) {
        if (&peer->paths[i] != path) {
            peer->paths[i].paused_ns = 0;
        }
    }
}

/* A try has failed. What a further one of a path that was down already tells is how things were
 * when it began. */
static void note_down(struct mc_rdma_path *path)
{
    path->down_ns = path->down_ns == 0 ? mc_monotonic_ns() : path->tried_ns;
    path->paused_ns = path->down_ns < path->peer->worked_ns ? 0 : mc_monotonic_ns();
}

/* Its connection has gone with an error, or did not come about. */
static void note_failure(struct mc_rdma_path *path, bool was_up, bool was_idle)
{
    struct mc_rdma *rdma = path->peer->rdma;

    (void)snprintf(path->why, sizeof(path->why), "%s", mooncake_last_error());
    path->failures += was_idle ? 0 : 1; /* the end of an idle connection is no failure */
    if (was_up) {
        path->down_ns = 0;
        mc_counter_add_owner(&rdma->stats.reconnects, 1);
    }
    mc_peers_note_retry(rdma->options.peers, path->peer->name);
    if (was_up && path->failures <= 1) {
        mc_log_info("rdma.lost", "path=%s segment=%s detail=\"%s\"", path->name, path->peer->name,
                    path->why);
        publish(path, "lost");
        return;
    }
    path->failures = path->failures == 0 ? 1 : path->failures;
    path->paused_ns = mc_monotonic_ns();
    if (!was_up) {
        note_down(path);
    }
    say_trouble(path);
    publish(path, "paused");
}

void mc_rdma_path_drop(struct mc_rdma_path *path, mooncake_err err)
{
    struct mc_rdma_conn *conn = path->conn;
    bool was_up = conn != NULL && conn->state == MC_RDMA_CONN_UP;
    bool was_idle = was_up && mc_rdma_qp_pending(conn->qp) == 0;

    if (conn != NULL) {
        if (conn->proved) {
            forgive_others(path);
        }
        mc_rdma_conn_destroy(conn);
    }
    if (err != MOONCAKE_OK) {
        note_failure(path, was_up, was_idle);
    } else if (was_up) {
        publish(path, "idle");
    }
    mc_rdma_pump_soon(path->peer);
}

void mc_rdma_path_up(struct mc_rdma_path *path)
{
    path->down_ns = 0;
    path->mtu = path->conn->mtu;
    publish(path, "up");
    if (path->troubled) {
        return; /* that it works is said when it has been seen to */
    }
    mc_log_info("rdma.connected",
                "path=%s segment=%s right=%s gid_index=%u gid_kind=%s mtu=%u parts=%u", path->name,
                path->peer->name, path->peer->right == MC_RIGHT_READ ? "read" : "write",
                path->port->gid_index, path->port->gid_kind, path->mtu, path->conn->remote.parts);
}

void mc_rdma_path_proved(struct mc_rdma_path *path)
{
    if (path->troubled) {
        path->troubled = false;
        mc_log_info("rdma.resumed", "path=%s segment=%s failures=%u ms=%llu", path->name,
                    path->peer->name, path->failures,
                    (unsigned long long)((mc_monotonic_ns() - path->troubled_ns) / MC_NS_PER_MS));
    }
    path->worked = true;
    path->failures = 0;
    path->paused_ns = 0;
}

/* ---- ports ----------------------------------------------------------------------------------- */

/* The port cannot be used: no connection, and nobody is to blame. */
static void stop(struct mc_rdma_path *path, enum mc_rdma_port_state state)
{
    const char *what = state == MC_RDMA_PORT_GONE ? "the device is gone" : "the port is down";

    if (path->conn != NULL) {
        mc_counter_add_owner(&path->peer->rdma->stats.reconnects, 1);
        mc_peers_note_retry(path->peer->rdma->options.peers, path->peer->name);
        mc_rdma_path_drop(path, MOONCAKE_OK);
    }
    (void)snprintf(path->why, sizeof(path->why), "rdma: %s: %s", path->name, what);
    path->looked_ns = mc_monotonic_ns();
    path->down_ns = path->looked_ns;
    publish(path, state == MC_RDMA_PORT_GONE ? "device gone" : "port down");
    mc_log_debug("rdma.stopped", "path=%s segment=%s detail=\"%s\"", path->name, path->peer->name,
                 what);
}

/* The port has its link again, and what failed without it is no reason to wait. */
static void resume(struct mc_rdma_path *path)
{
    if (path->conn == NULL) {
        path->looked_ns = 0;
        path->paused_ns = 0;
        path->down_ns = 0;
        path->failures = 0;
        publish(path, "idle");
    }
}

void mc_rdma_path_open(struct mc_rdma_path *path, uint64_t now_ns)
{
    enum mc_rdma_port_state state;
    mooncake_err err;

    if (path->conn != NULL || mc_rdma_path_paused_until(path) > now_ns) {
        return;
    }
    if (mc_rdma_port_state(path->port) == MC_RDMA_PORT_DOWN) {
        (void)mc_rdma_port_look(path->peer->rdma->verbs, path->port);
        if (mc_rdma_port_state(path->port) == MC_RDMA_PORT_UP) {
            resume(path);
        }
    }
    state = mc_rdma_port_state(path->port);
    if (state != MC_RDMA_PORT_UP) {
        stop(path, state);
        return;
    }
    path->tried_ns = now_ns;
    err = mc_rdma_conn_open(path);
    if (err != MOONCAKE_OK) {
        mc_rdma_path_drop(path, err);
    }
}

static void hear_of_port(struct mc_rdma_path *path)
{
    enum mc_rdma_port_state state = mc_rdma_port_state(path->port);

    if (state == MC_RDMA_PORT_UP) {
        resume(path);
    } else {
        stop(path, state);
    }
}

void mc_rdma_peer_hear(struct mc_rdma_peer *peer, const struct mc_rdma_event *event)
{
    for (unsigned i = 0; i < peer->paths_count; i++) {
        struct mc_rdma_path *path = &peer->paths[i];
        const struct mc_rdma_conn *conn = path->conn;

        if (event->device != NULL && event->device != path->port->device) {
            continue;
        }
        if (event->kind == MC_RDMA_EVENT_PORT) {
            hear_of_port(path);
        } else if (conn != NULL && conn->qp != NULL && mc_rdma_qp_is(conn->qp, event->queue)) {
            mc_rdma_path_drop(path, mc_err_set(MOONCAKE_ERPC, "rdma: %s: %s", path->name,
                                               mc_rdma_event_text(event->type)));
        }
    }
    mc_rdma_peer_pump(peer);
}
