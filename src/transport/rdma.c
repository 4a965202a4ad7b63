/*
 * One-sided reads and writes by RDMA, client side: the table's functions and the life of an
 * instance. rdma_impl.h says which file does what.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "transport/rdma_impl.h"

/* How often time-outs are looked at while there are connections or requests. */
#define LOOK_AFTER_MS 20u

static struct mc_rdma *rdma_of(struct mc_transport *transport)
{
    return MC_CONTAINER_OF(transport, struct mc_rdma, transport);
}

static struct mc_rdma_peer *dirty_peer(struct mc_list *node)
{
    return MC_CONTAINER_OF(node, struct mc_rdma_peer, dirty_node);
}

/* ---- pumping --------------------------------------------------------------------------------- */

static void mark_dirty(struct mc_rdma_peer *peer)
{
    if (!mc_list_linked(&peer->dirty_node)) {
        mc_list_add_tail(&peer->rdma->dirty, &peer->dirty_node);
    }
}

static void pump_dirty(struct mc_rdma *rdma)
{
    mc_list_for_each (node, &rdma->starved) { /* perhaps there is staging now */
        mark_dirty(MC_CONTAINER_OF(node, struct mc_rdma_peer, starved_node));
    }
    while (!mc_list_empty(&rdma->dirty)) {
        struct mc_rdma_peer *peer = dirty_peer(rdma->dirty.next);

        mc_list_drop(&peer->dirty_node);
        mc_rdma_peer_pump(peer);
    }
}

static void run_post(struct mc_post *post)
{
    struct mc_rdma *rdma = MC_CONTAINER_OF(post, struct mc_rdma, post);

    rdma->posted = false;
    if (rdma->closing) {
        mc_free(rdma); /* close has left it to us */
    } else {
        pump_dirty(rdma);
    }
}

void mc_rdma_pump_soon(struct mc_rdma_peer *peer)
{
    struct mc_rdma *rdma = peer->rdma;

    mark_dirty(peer);
    if (!rdma->posted && !rdma->closing) {
        rdma->posted = true;
        mc_loop_post(rdma->transport.loop, &rdma->post);
    }
}

static void look_after(void *arg)
{
    struct mc_rdma *rdma = arg;
    uint64_t now_ns = mc_monotonic_ns();
    bool any = false;

    for (unsigned i = 0; i < MC_RDMA_BUCKETS; i++) {
        mc_list_for_each_safe (node, next, &rdma->buckets[i]) {
            struct mc_rdma_peer *peer = MC_CONTAINER_OF(node, struct mc_rdma_peer, bucket_node);

            if (mc_rdma_peer_look_after(peer, now_ns)) {
                mc_rdma_peer_destroy(peer);
            } else {
                any = true;
            }
        }
    }
    if (!any) {
        rdma->ticking = false;
        mc_timer_clear(rdma->timer);
    }
}

/* ---- events of devices ----------------------------------------------------------------------- */

static void note_mtu(struct mc_rdma *rdma, const struct mc_rdma_event *event)
{
    for (unsigned i = 0; i < rdma->ports_count; i++) {
        struct mc_rdma_port *port = &rdma->ports[i];

        if (event->type == IBV_EVENT_PORT_ACTIVE && port->device == event->device) {
            uint32_t mtu = mc_rdma_port_look(rdma->verbs, port);

            port->mtu = mtu == 0 ? port->mtu : mtu; /* a link may come back as another one */
        }
    }
}

static void on_event(void *arg, const struct mc_rdma_event *event)
{
    struct mc_rdma *rdma = arg;

    if (event->kind == MC_RDMA_EVENT_PORT) {
        note_mtu(rdma, event);
    }
    for (unsigned i = 0; i < MC_RDMA_BUCKETS && !rdma->closing; i++) {
        mc_list_for_each_safe (node, next, &rdma->buckets[i]) {
            mc_rdma_peer_hear(MC_CONTAINER_OF(node, struct mc_rdma_peer, bucket_node), event);
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static mooncake_err choose_ports(struct mc_rdma *rdma)
{
    const struct mc_rdma_choice choice = {.names = rdma->options.rdma_devices,
                                          .gid_index = rdma->options.rdma_gid_index};

    MC_TRY(mc_rdma_devices_open(&rdma->devices));
    rdma->verbs = rdma->devices->verbs;
    MC_TRY(mc_rdma_ports_choose(rdma->devices, &choice, rdma->ports, &rdma->ports_count));
    rdma->sge_max = UINT32_MAX;
    for (unsigned i = 0; i < rdma->ports_count; i++) {
        unsigned sge_max = rdma->ports[i].device->sge_max;

        rdma->sge_max = sge_max < rdma->sge_max ? sge_max : rdma->sge_max;
    }
    if (rdma->sge_max < 2) {
        return mc_err_set(MOONCAKE_ENOTSUP, "rdma: a device takes fewer than 2 scatter entries");
    }
    return MOONCAKE_OK;
}

static mooncake_err rdma_open(struct mc_loop *loop, const struct mc_transport_options *options,
                              struct mc_transport **out)
{
    struct mc_rdma *rdma = mc_calloc(1, sizeof(*rdma));
    mooncake_err err;

    MC_ASSERT_ON_LOOP(loop);
    if (rdma == NULL) {
        return MOONCAKE_ENOMEM;
    }
    rdma->transport.ops = &mc_transport_rdma;
    rdma->transport.loop = loop;
    rdma->options = *options;
    rdma->post.run = run_post;
    mc_list_init(&rdma->dirty);
    mc_list_init(&rdma->starved);
    for (unsigned i = 0; i < MC_RDMA_BUCKETS; i++) {
        mc_list_init(&rdma->buckets[i]);
    }
    err = choose_ports(rdma);
    if (err == MOONCAKE_OK) {
        err = mc_timer_create(loop, look_after, rdma, &rdma->timer);
    }
    if (err == MOONCAKE_OK) {
        err = mc_rdma_watch(rdma->devices->events, loop, on_event, rdma, &rdma->watcher);
    }
    if (err != MOONCAKE_OK) {
        mc_timer_destroy(&rdma->timer);
        mc_rdma_devices_close(&rdma->devices);
        mc_free(rdma);
        return err;
    }
    mc_rdma_staging_init(&rdma->staging, rdma->verbs, rdma->ports, rdma->ports_count,
                         options->rdma_staging);
    *out = &rdma->transport;
    return MOONCAKE_OK;
}

static void rdma_close(struct mc_transport *transport)
{
    struct mc_rdma *rdma = rdma_of(transport);

    MC_ASSERT_ON_LOOP(transport->loop);
    MC_ASSERT(!rdma->closing);
    rdma->closing = true;
    mc_rdma_unwatch(&rdma->watcher);
    mc_timer_destroy(&rdma->timer);
    for (unsigned i = 0; i < MC_RDMA_BUCKETS; i++) {
        while (!mc_list_empty(&rdma->buckets[i])) {
            struct mc_rdma_peer *peer =
                mc_list_first(&rdma->buckets[i], struct mc_rdma_peer, bucket_node);

            (void)mc_err_set(MOONCAKE_ERPC, "rdma: the client is closing");
            mc_rdma_peer_end_all(peer, MOONCAKE_ERPC);
            mc_rdma_peer_destroy(peer);
        }
    }
    MC_ASSERT(rdma->conns == 0);
    mc_rdma_cm_close(&rdma->cm);
    mc_rdma_staging_fini(&rdma->staging);
    mc_rdma_devices_close(&rdma->devices);
    if (!rdma->posted) {
        mc_free(rdma);
    }
}

static bool rdma_reaches(struct mc_transport *transport, const struct mc_target *target)
{
    (void)transport;
    return strncmp(target->addresses, MC_RDMA_SCHEME, strlen(MC_RDMA_SCHEME)) == 0 ||
           strstr(target->addresses, " " MC_RDMA_SCHEME) != NULL;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static mooncake_err rdma_submit(struct mc_transport *transport, struct mc_xfer_op *op)
{
    struct mc_rdma *rdma = rdma_of(transport);
    struct mc_rdma_peer *peer;
    struct mc_rdma_req *req;
    mooncake_err err;

    MC_ASSERT_ON_LOOP(transport->loop);
    MC_ASSERT(op->done != NULL);
    MC_ASSERT(mc_xfer_op_len(op) == op->extent.payload_len);
    if (rdma->closing) {
        return MOONCAKE_ERPC;
    }
    MC_TRY(mc_rdma_peer_get(rdma, op->target, op->right, &peer));
    MC_TRY(mc_rdma_peer_ready(peer));
    if ((op->extent.rights & (uint32_t)op->right) == 0) {
        op->err = MOONCAKE_ENOTOWNER; /* the store would say so */
        mc_counter_add_owner(&rdma->stats.ops, 1);
        mc_counter_add_owner(&rdma->stats.failures, 1);
        op->done(op);
        return MOONCAKE_OK;
    }
    err = mc_rdma_req_create(peer, op, &req);
    if (err != MOONCAKE_OK) { /* what cannot be registered may go by another transport */
        return err == MOONCAKE_ENOMEM ? MOONCAKE_ERPC : err;
    }
    op->peer = req;
    mark_dirty(peer);
    return MOONCAKE_OK;
}

static void rdma_flush(struct mc_transport *transport)
{
    struct mc_rdma *rdma = rdma_of(transport);

    MC_ASSERT_ON_LOOP(transport->loop);
    pump_dirty(rdma);
    if (!rdma->ticking) {
        rdma->ticking = true;
        mc_timer_set(rdma->timer, LOOK_AFTER_MS, LOOK_AFTER_MS);
    }
}

static void rdma_cancel(struct mc_transport *transport, struct mc_xfer_op *op)
{
    struct mc_rdma_req *req = op->peer;

    MC_ASSERT_ON_LOOP(transport->loop);
    MC_ASSERT(req != NULL && req->op == op);
    mc_rdma_req_destroy(req);
    op->peer = NULL;
}

static const struct mc_transport_stats *rdma_stats(const struct mc_transport *transport)
{
    return &((const struct mc_rdma *)(const void *)transport)->stats;
}

static uint64_t rdma_moved(const struct mc_transport *transport)
{
    return ((const struct mc_rdma *)(const void *)transport)->moved;
}

const struct mc_transport_ops mc_transport_rdma = {
    .kind = "rdma",
    .caps = MC_TRANSPORT_NEEDS_REGISTERED,
    .open = rdma_open,
    .close = rdma_close,
    .reaches = rdma_reaches,
    .submit = rdma_submit,
    .flush = rdma_flush,
    .cancel = rdma_cancel,
    .stats = rdma_stats,
    .moved = rdma_moved,
};
