/*
 * One connection on its way up: address, route, request, answer; each step is an event of the
 * connection manager. The queue pair is ours and not the connection manager's, so that its states,
 * MTU and rights are, too.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/peers.h"
#include "transport/rdma_impl.h"

/* The reason in a rejection that carries private data of the other program. */
#define REJECTED_BY_PROGRAM 28
/* ... and in one by a host where no program has the port. */
#define REJECTED_NOBODY_LISTENS 8
#define DETAIL_LEN 400u

static void on_done(void *arg, void *work)
{
    (void)arg;
    mc_rdma_work_done(work);
}

static void on_failed(void *arg, mooncake_err err)
{
    struct mc_rdma_conn *conn = arg;
    struct mc_rdma_path *path = conn->path;
    struct mc_rdma_peer *peer = path->peer;

    mc_rdma_path_drop(path, err);
    mc_rdma_peer_pump(peer);
}

static void on_room(void *arg)
{
    struct mc_rdma_conn *conn = arg;
    struct mc_rdma_peer *peer = conn->path->peer;

    if (!mc_list_empty(&peer->rdma->starved)) {
        mc_rdma_pump_soon(peer); /* staging may have come back */
    }
    mc_rdma_peer_pump(peer);
}

static void on_lost(void *arg, void *work)
{
    (void)arg;
    mc_rdma_work_lost(work);
}

void mc_rdma_conn_destroy(struct mc_rdma_conn *conn)
{
    struct mc_rdma *rdma = conn->path->peer->rdma;

    mc_rdma_qp_close(&conn->qp, on_lost, NULL);
    MC_ASSERT(conn->under_way == 0);
    if (conn->id != NULL) {
        (void)rdma->verbs->destroy_id(conn->id); /* the peer is told; nobody waits for its answer */
    }
    if (conn->state == MC_RDMA_CONN_UP) {
        mc_gauge_add(&rdma->stats.connections, -1);
        mc_peers_note_connections(rdma->options.peers, conn->path->peer->name, -1);
    }
    conn->path->conn = NULL;
    MC_ASSERT(rdma->conns > 0);
    rdma->conns--;
    mc_free(conn);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* An extent whose capability lets us in: of a request or, where a path that is down is tried beside
 * the work, of the last. NULL: nobody needs the connection. */
static const struct mc_extent_ref *find_ticket(const struct mc_rdma_path *path)
{
    const struct mc_rdma_peer *peer = path->peer;

    if (!mc_list_empty(&peer->waiting)) {
        return &mc_list_first(&peer->waiting, struct mc_rdma_req, node)->op->extent;
    }
    if (!mc_list_empty(&peer->waiting_staged)) {
        return &mc_list_first(&peer->waiting_staged, struct mc_rdma_req, node)->op->extent;
    }
    if (!mc_list_empty(&peer->sent)) {
        return &mc_list_first(&peer->sent, struct mc_rdma_req, node)->op->extent;
    }
    return path->down_ns != 0 && peer->ticket.mount_id != 0 ? &peer->ticket : NULL;
}

mooncake_err mc_rdma_conn_open(struct mc_rdma_path *path)
{
    struct mc_rdma *rdma = path->peer->rdma;
    static uint64_t serials; /* only to tell connections of one instance apart */
    struct mc_rdma_conn *conn;
    union mc_rdma_address from = path->port->address;
    union mc_rdma_address to = path->place.address;
    uint32_t timeout_ms = rdma->options.connect_timeout_ms;
    mooncake_err err;

    if (rdma->cm == NULL) {
        MC_TRY(mc_rdma_cm_open(rdma->transport.loop, rdma->verbs, mc_rdma_conn_on_event, rdma,
                               &rdma->cm));
    }
    conn = mc_calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return MOONCAKE_ENOMEM;
    }
    conn->path = path;
    conn->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
    conn->deadline_ns = mc_deadline_ns(mc_monotonic_ns(), timeout_ms);
    err = mc_rdma_cm_create_id(rdma->cm, conn, &conn->id);
    if (err != MOONCAKE_OK) {
        mc_free(conn);
        return err;
    }
    path->conn = conn;
    rdma->conns++;
    if (rdma->verbs->resolve_addr(conn->id, &from.any, &to.any, (int)timeout_ms) != 0) {
        err = mc_verbs_err(errno, path->name);
        mc_rdma_conn_destroy(conn);
        return err;
    }
    return MOONCAKE_OK;
}

static mooncake_err on_address(struct mc_rdma_conn *conn)
{
    struct mc_rdma *rdma = conn->path->peer->rdma;

    if (mc_rdma_device_find(rdma->devices, conn->id->verbs) != conn->path->port->device) {
        return mc_err_set(MOONCAKE_ERPC, "rdma: %s: the route does not go over this device",
                          conn->path->name);
    }
    conn->state = MC_RDMA_CONN_ROUTE;
    if (rdma->verbs->resolve_route(conn->id, (int)rdma->options.connect_timeout_ms) != 0) {
        return mc_verbs_err(errno, conn->path->name);
    }
    return MOONCAKE_OK;
}

static mooncake_err ask(struct mc_rdma_conn *conn)
{
    struct mc_rdma_peer *peer = conn->path->peer;
    struct mc_rdma_request request = {.extent = conn->ticket, .right = peer->right};
    uint8_t bytes[MC_RDMA_REQUEST_LEN];
    const uint8_t reads_max = conn->path->port->device->reads_max;
    struct rdma_conn_param param = {.private_data = bytes,
                                    .private_data_len = sizeof(bytes),
                                    .responder_resources = 1, /* the store's probes */
                                    .initiator_depth = reads_max,
                                    .retry_count = 6, /* 7 would mean for ever */
                                    .qp_num = mc_rdma_qp_number(conn->qp)};

    MC_TRY(mc_rdma_request_encode(&request, bytes));
    if (peer->rdma->verbs->connect(conn->id, &param) != 0) {
        return mc_verbs_err(errno, conn->path->name);
    }
    conn->state = MC_RDMA_CONN_ASKED;
    return MOONCAKE_OK;
}

static mooncake_err on_route(struct mc_rdma_conn *conn)
{
    struct mc_rdma *rdma = conn->path->peer->rdma;
    const struct mc_rdma_qp_options options = {
        .device = conn->path->port->device,
        .poll = rdma->options.rdma_poll,
        /* For the store's probes, which are writes of no bytes: no memory of ours can be reached.
         */
        .access = IBV_ACCESS_REMOTE_WRITE,
    };
    const struct mc_rdma_qp_users users = {
        .on_done = on_done, .on_failed = on_failed, .on_room = on_room, .arg = conn};

    MC_TRY(mc_rdma_qp_open(rdma->transport.loop, rdma->verbs, &options, &users, &conn->qp));
    MC_TRY(mc_rdma_qp_to_init(conn->qp, conn->id));
    return ask(conn);
}

/* Work that is cut to fit the parts of one answer must fit those of every other. */
static mooncake_err check_layout(struct mc_rdma_peer *peer, const struct mc_rdma_answer *answer)
{
    if (peer->segment_len == 0) {
        peer->segment_len = answer->len;
        peer->part_len = answer->part_len;
    }
    if (peer->segment_len != answer->len || peer->part_len != answer->part_len) {
        return mc_err_set(
            MOONCAKE_ERPC,
            "segment %s: the store says it has %llu bytes in parts of %llu, and said "
            "%llu in parts of %llu before",
            peer->name, (unsigned long long)answer->len, (unsigned long long)answer->part_len,
            (unsigned long long)peer->segment_len, (unsigned long long)peer->part_len);
    }
    return MOONCAKE_OK;
}

static mooncake_err on_answer(struct mc_rdma_conn *conn, const struct mc_rdma_cm_event *event)
{
    struct mc_rdma_path *path = conn->path;
    struct mc_rdma *rdma = path->peer->rdma;
    uint32_t mtu = path->port->mtu;

    MC_TRY(mc_rdma_answer_decode(event->data, event->data_len, &conn->remote));
    MC_TRY(check_layout(path->peer, &conn->remote));
    if (conn->remote.mtu > 0 && conn->remote.mtu < mtu) {
        mtu = conn->remote.mtu;
    }
    MC_TRY(mc_rdma_qp_to_send(conn->qp, conn->id, mtu, &conn->mtu));
    if (rdma->verbs->establish(conn->id) != 0) {
        return mc_verbs_err(errno, path->name);
    }
    conn->state = MC_RDMA_CONN_UP;
    conn->used_ns = mc_monotonic_ns();
    mc_gauge_add(&rdma->stats.connections, 1);
    mc_peers_note_connections(rdma->options.peers, path->peer->name, 1);
    mc_rdma_path_up(path);
    return MOONCAKE_OK;
}

/* ---- refusals and losses --------------------------------------------------------------------- */

/* What the store has said to one ask. */
struct refusal {
    struct mc_extent_ref ticket;
    uint64_t asked_for; /* requests up to this number were there when it was asked */
    mooncake_err err;
    char detail[DETAIL_LEN];
};

/* Without a segment none of those that were there can be served, else only those with this ticket.
 * What came later may ask by itself: things may have changed while the answer was on its way. */
static bool is_refused(const struct mc_rdma_req *req, const struct refusal *refusal)
{
    const struct mc_extent_ref *extent = &req->op->extent;

    return req->number <= refusal->asked_for &&
           (refusal->err == MOONCAKE_ENOSEGMENT ||
            (extent->capability == refusal->ticket.capability &&
             extent->offset == refusal->ticket.offset));
}

static void end_refused(struct mc_rdma_peer *peer, const struct refusal *refusal)
{
    struct mc_list *const lists[] = {&peer->waiting, &peer->waiting_staged, &peer->sent};
    struct mc_list mine;

    mc_list_init(&mine);
    for (unsigned i = 0; i < MC_ARRAY_LEN(lists); i++) {
        mc_list_for_each_safe (node, next, lists[i]) {
            if (is_refused(MC_CONTAINER_OF(node, struct mc_rdma_req, node), refusal)) {
                mc_list_move_tail(&mine, node);
            }
        }
    }
    while (!mc_list_empty(&mine)) { /* whoever hears of one may cancel another */
        (void)mc_err_set(refusal->err, "%s", refusal->detail);
        mc_rdma_req_end(mc_list_first(&mine, struct mc_rdma_req, node), refusal->err);
    }
}

/* The segment is gone: what other paths ask on behalf of the same requests has no sense. */
static void stop_asking(struct mc_rdma_peer *peer, uint64_t asked_for)
{
    for (unsigned i = 0; i < peer->paths_count; i++) {
        const struct mc_rdma_conn *conn = peer->paths[i].conn;

        if (conn != NULL && conn->state == MC_RDMA_CONN_ASKED && conn->asked_for <= asked_for) {
            mc_rdma_path_drop(&peer->paths[i], MOONCAKE_OK);
        }
    }
}

/* The store's reason, as a sentence of ours. */
static mooncake_err read_refusal(const struct mc_rdma_conn *conn,
                                 const struct mc_rdma_cm_event *event)
{
    char reason[MC_RDMA_REFUSAL_TEXT_MAX + 1] = "";
    const char *name = conn->path->name;
    mooncake_err err = MOONCAKE_ERPC;

    if (event->status == REJECTED_NOBODY_LISTENS) {
        return mc_err_set(err, "rdma: %s: nobody listens there", name);
    }
    if (event->status != REJECTED_BY_PROGRAM) {
        return mc_err_set(err, "rdma: %s: the connection is refused (status %d)", name,
                          event->status);
    }
    err = mc_rdma_refusal_decode(event->data, event->data_len, reason);
    return mc_err_set(err, "rdma: %s: the store refuses the connection: %s (%s)", name,
                      reason[0] == '\0' ? "it gives no reason" : reason, mooncake_err_name(err));
}

static void on_rejected(struct mc_rdma_conn *conn, const struct mc_rdma_cm_event *event)
{
    struct mc_rdma_path *path = conn->path;
    struct mc_rdma_peer *peer = path->peer;
    mooncake_err err = read_refusal(conn, event);
    struct refusal refusal = {.ticket = conn->ticket, .asked_for = conn->asked_for, .err = err};

    if (peer->reqs == 0 ||
        (err != MOONCAKE_ENOTOWNER && err != MOONCAKE_EINVAL && err != MOONCAKE_ENOSEGMENT)) {
        mc_rdma_path_drop(path, err); /* without a request it is tried again, and not at once */
        return;
    }
    /* The request is to blame, or the segment is gone: the path is as good as before. */
    (void)snprintf(refusal.detail, sizeof(refusal.detail), "%s", mooncake_last_error());
    mc_log_info("rdma.refused", "path=%s segment=%s err=%s detail=\"%s\"", path->name, peer->name,
                mooncake_err_name(err), refusal.detail);
    mc_rdma_path_drop(path, MOONCAKE_OK);
    if (err == MOONCAKE_ENOSEGMENT) {
        stop_asking(peer, refusal.asked_for);
    }
    end_refused(peer, &refusal);
}

static mooncake_err describe_failure(const struct mc_rdma_conn *conn, const char *what, int status)
{
    return mc_err_set(MOONCAKE_ERPC, "rdma: %s: %s%s%s", conn->path->name, what,
                      status < 0 ? ": " : "", status < 0 ? strerror(-status) : "");
}

static mooncake_err step(struct mc_rdma_conn *conn, const struct mc_rdma_cm_event *event)
{
    switch ((unsigned)event->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        return conn->state == MC_RDMA_CONN_ADDRESS ? on_address(conn) : MOONCAKE_OK;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return conn->state == MC_RDMA_CONN_ROUTE ? on_route(conn) : MOONCAKE_OK;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        return conn->state == MC_RDMA_CONN_ASKED ? on_answer(conn, event) : MOONCAKE_OK;
    case RDMA_CM_EVENT_ADDR_ERROR:
        return describe_failure(conn, "no route from this device", event->status);
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return describe_failure(conn, "the route cannot be resolved", event->status);
    case RDMA_CM_EVENT_UNREACHABLE:
        return describe_failure(conn, "the store does not answer", event->status);
    case RDMA_CM_EVENT_CONNECT_ERROR:
        return describe_failure(conn, "connecting failed", event->status);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        mc_rdma_device_note_gone(conn->path->port->device);
        return describe_failure(conn, "our device was removed", 0);
    case RDMA_CM_EVENT_DISCONNECTED:
        return describe_failure(conn, "the store has closed the connection", 0);
    default:
        return MOONCAKE_OK; /* nothing that concerns us, such as the end of a time-wait */
    }
}

void mc_rdma_conn_on_event(void *arg, const struct mc_rdma_cm_event *event)
{
    struct mc_rdma_conn *conn = event->id == NULL ? NULL : event->id->context;
    struct mc_rdma_path *path;
    struct mc_rdma_peer *peer;
    mooncake_err err = MOONCAKE_OK;

    (void)arg;
    if (conn == NULL) {
        return;
    }
    path = conn->path;
    peer = path->peer;
    if (event->type == RDMA_CM_EVENT_REJECTED) {
        on_rejected(conn, event);
    } else if (event->type == RDMA_CM_EVENT_ROUTE_RESOLVED && find_ticket(path) == NULL) {
        mc_rdma_path_drop(path, MOONCAKE_OK); /* nobody needs it any more */
    } else {
        if (event->type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
            conn->ticket = *find_ticket(path);
            conn->asked_for = peer->reqs_made;
        }
        err = step(conn, event);
    }
    if (err != MOONCAKE_OK) {
        mc_rdma_path_drop(path, err);
    }
    mc_rdma_peer_pump(peer);
}
