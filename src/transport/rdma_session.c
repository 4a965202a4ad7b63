/*
 * A peer of the store: let in, asked now and then whether it is there, forgotten.
 *
 * Design notes: a session holds its mount from acceptance to its end. A peer whose machine has died
 * says nothing, so each is probed now and then by an RDMA write of no bytes, which the peer's
 * device answers without its program (one that is stopped stays connected). The queue pair gives
 * the right that was asked for and proven, and no other.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/rdma_server_impl.h"

#define CONNECTIONS_MAX 16384
/* A peer that was accepted and does not confirm, or does not answer a probe, for so long is gone.
 */
#define SILENT_NS_MAX (15u * MC_NS_PER_S)
#define PROBE_SEND_MAX 4u

/* ---- letting in ------------------------------------------------------------------------------ */

void mc_rdma_session_close(struct mc_rdma_session *session)
{
    struct mc_rdma_server *server = session->server;
    const struct mc_mount *mount = session->mount;

    mc_list_drop(&session->node);
    server->sessions_count--;
    mc_gauge_add(&server->stats.connections, -1);
    mc_rdma_qp_close(&session->qp, NULL, NULL); /* the peer's device can reach nothing after this */
    (void)server->verbs->destroy_id(session->id);
    mc_free(session);
    mc_mount_return(mount); /* last: the memory may go now */
}

/* End it; the sentence says why. */
static void lose(struct mc_rdma_session *session)
{
    mc_counter_add(&session->server->stats.lost, 1);
    mc_log_info("rdma.peer_lost", "mount_id=%016llx detail=\"%s\"",
                (unsigned long long)session->mount->mount_id, mooncake_last_error());
    mc_rdma_session_close(session);
}

static void on_probe_done(void *arg, void *work)
{
    struct mc_rdma_session *session = arg;

    (void)work;
    session->heard_ns = mc_loop_now_ns(session->server->loop);
}

static void on_qp_failed(void *arg, mooncake_err err)
{
    (void)err;
    lose(arg);
}

static mooncake_err admit(struct mc_rdma_session *session, const struct mc_rdma_port *port,
                          const struct mc_rdma_request *request,
                          const struct mc_rdma_cm_event *event)
{
    struct mc_rdma_server *server = session->server;
    const struct mc_rdma_qp_options options = {.device = port->device,
                                               .access = request->right == MC_RIGHT_READ
                                                             ? IBV_ACCESS_REMOTE_READ
                                                             : IBV_ACCESS_REMOTE_WRITE,
                                               .send_max = PROBE_SEND_MAX};
    const struct mc_rdma_qp_users users = {
        .on_done = on_probe_done, .on_failed = on_qp_failed, .arg = session};
    uint8_t bytes[MC_RDMA_ANSWER_LEN_MAX];
    struct rdma_conn_param param = {.private_data = bytes, .initiator_depth = 1};
    struct mc_rdma_answer answer;
    uint8_t reads = event->responder_resources; /* as the peer asks of us */

    MC_TRY(mc_rdma_server_keys(server, session->mount, port, &answer));
    MC_TRY(mc_rdma_qp_open(server->loop, server->verbs, &options, &users, &session->qp));
    MC_TRY(mc_rdma_qp_to_init(session->qp, session->id));
    MC_TRY(mc_rdma_qp_to_send(session->qp, session->id, port->mtu, &answer.mtu));
    param.private_data_len = (uint8_t)mc_rdma_answer_encode(&answer, bytes);
    param.responder_resources = reads < port->device->reads_max ? reads : port->device->reads_max;
    param.qp_num = mc_rdma_qp_number(session->qp);
    if (server->verbs->accept(session->id, &param) != 0) {
        return mc_verbs_err(errno, "accepting a connection");
    }
    return MOONCAKE_OK;
}

/* mc_mount_check() says only which error it is. */
static mooncake_err explain(mooncake_err err, const struct mc_mount *mount, enum mc_rights right)
{
    if (err == MOONCAKE_ENOTOWNER) {
        return mc_err_set(err, "the capability is not genuine, or gives no right to %s",
                          right == MC_RIGHT_READ ? "read" : "write");
    }
    return mc_err_set(err, "the extent lies outside the segment of %llu bytes",
                      (unsigned long long)mount->len);
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
    if (server->sessions_count >= CONNECTIONS_MAX) {
        return mc_err_set(MOONCAKE_EUNAVAILABLE,
                          "the store has %u RDMA connections, and takes no "
                          "more",
                          server->sessions_count);
    }
    mount = mc_mount_borrow(out_request->extent.mount_id);
    if (mount == NULL) {
        return mc_err_set(MOONCAKE_ENOSEGMENT, "no segment is mounted here as %016llx (any more)",
                          (unsigned long long)out_request->extent.mount_id);
    }
    err = mc_mount_check(mount, &out_request->extent, out_request->right);
    if (err != MOONCAKE_OK) {
        err = explain(err, mount, out_request->right);
        mc_mount_return(mount);
        return err;
    }
    *out_mount = mount;
    return MOONCAKE_OK;
}

static mooncake_err create_session(struct mc_rdma_server *server,
                                   const struct mc_rdma_listener *listener,
                                   const struct mc_rdma_cm_event *event)
{
    const struct mc_mount *mount = NULL;
    struct mc_rdma_request request;
    struct mc_rdma_session *session;
    mooncake_err err;

    MC_TRY(check_ticket(server, event, &request, &mount));
    session = mc_calloc(1, sizeof(*session));
    if (session == NULL) {
        mc_mount_return(mount);
        return MOONCAKE_ENOMEM;
    }
    session->server = server;
    session->port = listener->port;
    session->id = event->id;
    session->mount = mount;
    session->heard_ns = mc_monotonic_ns();
    session->probed_ns = session->heard_ns;
    err = admit(session, listener->port, &request, event);
    if (err != MOONCAKE_OK) {
        mc_rdma_qp_close(&session->qp, NULL, NULL);
        mc_mount_return(mount);
        mc_free(session);
        return err;
    }
    event->id->context = session;
    mc_list_add_tail(&server->sessions, &session->node);
    server->sessions_count++;
    mc_gauge_add(&server->stats.connections, 1);
    mc_counter_add(&server->stats.accepted, 1);
    mc_log_debug("rdma.accepted", "device=%s mount_id=%016llx right=%d",
                 listener->port->device->name, (unsigned long long)mount->mount_id,
                 (int)request.right);
    return MOONCAKE_OK;
}

void mc_rdma_session_ask(struct mc_rdma_server *server, const struct mc_rdma_cm_event *event)
{
    const struct mc_rdma_listener *listener = event->listen_id->context;
    uint8_t refusal[MC_RDMA_REFUSAL_LEN_MAX];
    mooncake_err err;
    size_t len;

    mc_err_clear(); /* what is said below goes to the peer: nothing from before */
    err = create_session(server, listener, event);
    if (err == MOONCAKE_OK) {
        return;
    }
    mc_counter_add(&server->stats.refused, 1);
    mc_log_warn("rdma.refuse", "device=%s err=%s detail=\"%s\"", listener->port->device->name,
                mooncake_err_name(err), mooncake_last_error());
    len = mc_rdma_refusal_encode(err, mooncake_last_error(), refusal);
    (void)server->verbs->reject(event->id, refusal, (uint8_t)len);
    (void)server->verbs->destroy_id(event->id);
}

/* ---- looking after --------------------------------------------------------------------------- */

/* Ask @p session's device whether it is there. False: the connection is gone. */
static bool probe(struct mc_rdma_session *session, uint64_t now_ns)
{
    const struct mc_rdma_work_request nothing = {.is_write = true};

    session->probed_ns = now_ns;
    if (mc_rdma_qp_add(session->qp, &nothing, NULL) != MOONCAKE_OK ||
        mc_rdma_qp_ring(session->qp) != MOONCAKE_OK) {
        lose(session);
        return false;
    }
    return true;
}

static void look_after(struct mc_rdma_session *session, uint64_t now_ns)
{
    uint64_t since_ns = mc_rdma_qp_waiting_since_ns(session->qp);
    bool silent = session->established ? since_ns > 0 && now_ns - since_ns > SILENT_NS_MAX
                                       : now_ns - session->heard_ns > SILENT_NS_MAX;

    if (silent) {
        (void)mc_err_set(MOONCAKE_ETIMEDOUT, "rdma: the peer's device does not answer");
        lose(session);
    } else if (session->established && since_ns == 0 &&
               now_ns - session->probed_ns >= session->server->probe_ns) {
        (void)probe(session, now_ns);
    }
}

void mc_rdma_sessions_look_after(struct mc_rdma_server *server)
{
    uint64_t now_ns = mc_monotonic_ns();

    mc_list_for_each_safe (node, next, &server->sessions) {
        look_after(MC_CONTAINER_OF(node, struct mc_rdma_session, node), now_ns);
    }
}

/* ---- what devices and mounts tell -------------------------------------------------------------
 */

void mc_rdma_sessions_lose(struct mc_rdma_server *server, const struct mc_rdma_device *device)
{
    mc_list_for_each_safe (node, next, &server->sessions) {
        struct mc_rdma_session *session = MC_CONTAINER_OF(node, struct mc_rdma_session, node);

        if (session->port->device == device) {
            (void)mc_err_set(MOONCAKE_ERPC, "rdma: %s is gone", device->name);
            lose(session);
        }
    }
}

void mc_rdma_sessions_probe(struct mc_rdma_server *server, const struct mc_rdma_port *port)
{
    uint64_t now_ns = mc_monotonic_ns();

    mc_list_for_each_safe (node, next, &server->sessions) {
        struct mc_rdma_session *session = MC_CONTAINER_OF(node, struct mc_rdma_session, node);

        if (session->port == port && session->established &&
            mc_rdma_qp_waiting_since_ns(session->qp) == 0) {
            (void)probe(session, now_ns);
        }
    }
}

void mc_rdma_sessions_hear(struct mc_rdma_server *server, const struct mc_rdma_event *event)
{
    mc_list_for_each_safe (node, next, &server->sessions) {
        struct mc_rdma_session *session = MC_CONTAINER_OF(node, struct mc_rdma_session, node);

        if (session->port->device == event->device && mc_rdma_qp_is(session->qp, event->queue)) {
            (void)mc_err_set(MOONCAKE_ERPC, "rdma: %s", mc_rdma_event_text(event->type));
            lose(session);
        }
    }
}

void mc_rdma_sessions_sweep(struct mc_rdma_server *server)
{
    mc_list_for_each_safe (node, next, &server->sessions) {
        struct mc_rdma_session *session = MC_CONTAINER_OF(node, struct mc_rdma_session, node);

        if (mc_mount_is_dropped(session->mount)) {
            mc_rdma_session_close(session);
        }
    }
}
