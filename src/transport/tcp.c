/*
 * One-sided reads and writes over pipelined TCP streams, client side: the table's functions. Which
 * connection is tcp_peer.c's business, bytes are tcp_conn.c's.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "transport/tcp_impl.h"

#define LOOK_AFTER_MS_MIN 20u

static struct mc_tcp *tcp_of(struct mc_transport *transport)
{
    return MC_CONTAINER_OF(transport, struct mc_tcp, transport);
}

static void look_after(void *arg);

/* How often idle and mute connections are looked for. */
static uint64_t look_after_ms(const struct mc_transport_options *options)
{
    uint64_t ms = options->connect_timeout_ms / 2;

    if (options->idle_close_ms > 0 && options->idle_close_ms / 2 < ms) {
        ms = options->idle_close_ms / 2;
    }
    return ms < LOOK_AFTER_MS_MIN ? LOOK_AFTER_MS_MIN : ms;
}

static mooncake_err tcp_open(struct mc_loop *loop, const struct mc_transport_options *options,
                             struct mc_transport **out)
{
    struct mc_tcp *tcp = mc_calloc(1, sizeof(*tcp));
    mooncake_err err;

    MC_ASSERT_ON_LOOP(loop);
    if (tcp == NULL) {
        return MOONCAKE_ENOMEM;
    }
    tcp->transport.ops = &mc_transport_tcp;
    tcp->transport.loop = loop;
    tcp->options = *options;
    if (options->tcp_part_len == 0) {
        tcp->options.tcp_part_len = MC_TCP_PART_LEN;
    }
    mc_list_init(&tcp->dirty);
    for (unsigned i = 0; i < MC_TCP_BUCKETS; i++) {
        mc_list_init(&tcp->buckets[i]);
    }
    err = mc_timer_create(loop, look_after, tcp, &tcp->timer);
    if (err != MOONCAKE_OK) {
        mc_free(tcp);
        return err;
    }
    *out = &tcp->transport;
    return MOONCAKE_OK;
}

/* Call @p visit for each peer; it may free it. */
static void for_each_peer(struct mc_tcp *tcp, void (*visit)(struct mc_tcp_peer *peer))
{
    for (unsigned i = 0; i < MC_TCP_BUCKETS; i++) {
        mc_list_for_each_safe (node, next, &tcp->buckets[i]) {
            visit(MC_CONTAINER_OF(node, struct mc_tcp_peer, bucket_node));
        }
    }
}

static void look_after_peer(struct mc_tcp_peer *peer)
{
    mc_tcp_peer_look_after(peer, mc_monotonic_ns());
    mc_tcp_peer_sweep(peer);
}

static void look_after(void *arg)
{
    struct mc_tcp *tcp = arg;

    for_each_peer(tcp, look_after_peer);
    if (tcp->conns == 0) {
        tcp->looking_after = false;
        mc_timer_clear(tcp->timer);
    }
}

static void free_if_unused(struct mc_tcp *tcp)
{
    if (tcp->closing && tcp->conns == 0) {
        for_each_peer(tcp, mc_tcp_peer_sweep);
        mc_free(tcp);
    }
}

void mc_tcp_conn_gone(struct mc_tcp *tcp)
{
    MC_ASSERT(tcp->conns > 0);
    tcp->conns--;
    free_if_unused(tcp);
}

/* End everything of a peer; `closing` is set, so nothing is tried again. */
static void close_peer(struct mc_tcp_peer *peer)
{
    while (!mc_list_empty(&peer->conns)) { /* losing one may close others */
        mc_tcp_conn_fail(mc_list_first(&peer->conns, struct mc_tcp_conn, node), MOONCAKE_ERPC);
    }
    mc_tcp_peer_end_waiting(peer, MOONCAKE_ERPC);
}

static void tcp_close(struct mc_transport *transport)
{
    struct mc_tcp *tcp = tcp_of(transport);

    MC_ASSERT_ON_LOOP(transport->loop);
    MC_ASSERT(!tcp->closing);
    tcp->closing = true;
    mc_timer_destroy(&tcp->timer);
    for_each_peer(tcp, close_peer);
    free_if_unused(tcp);
}

static bool tcp_reaches(struct mc_transport *transport, const struct mc_target *target)
{
    (void)transport;
    return strncmp(target->addresses, "tcp://", 6) == 0 ||
           strstr(target->addresses, " tcp://") != NULL;
}

static mooncake_err tcp_submit(struct mc_transport *transport, struct mc_xfer_op *op)
{
    struct mc_tcp *tcp = tcp_of(transport);
    struct mc_tcp_peer *peer;
    mooncake_err err;

    MC_ASSERT_ON_LOOP(transport->loop);
    MC_ASSERT(op->done != NULL);
    MC_ASSERT(mc_xfer_op_len(op) == op->extent.payload_len);
    err = mc_tcp_peer_get(tcp, op->target, &peer);
    if (err == MOONCAKE_EINVAL) {
        return MOONCAKE_ERPC; /* an address that cannot be used is a peer that cannot be reached */
    }
    MC_TRY(err);
    MC_TRY(mc_tcp_peer_ready(peer));
    op->peer = &peer->place;
    op->stripe = NULL;
    op->retries = 0;
    op->mark = 0;
    mc_list_init(&op->node);
    if (mc_tcp_stripe_suits(tcp, op)) {
        MC_TRY(mc_tcp_stripe_create(peer, op));
        mc_list_add_tail(&peer->striped, &op->node);
    } else {
        mc_list_add_tail(&peer->waiting, &op->node);
    }
    peer->ops++;
    if (!mc_list_linked(&peer->dirty_node)) {
        mc_list_add_tail(&tcp->dirty, &peer->dirty_node);
    }
    return MOONCAKE_OK;
}

static void tcp_flush(struct mc_transport *transport)
{
    struct mc_tcp *tcp = tcp_of(transport);

    MC_ASSERT_ON_LOOP(transport->loop);
    while (!mc_list_empty(&tcp->dirty)) {
        struct mc_tcp_peer *peer = mc_list_first(&tcp->dirty, struct mc_tcp_peer, dirty_node);

        mc_list_drop(&peer->dirty_node);
        mc_tcp_peer_pump(peer);
    }
    if (tcp->conns > 0 && !tcp->looking_after) {
        tcp->looking_after = true;
        mc_timer_set(tcp->timer, look_after_ms(&tcp->options), look_after_ms(&tcp->options));
    }
}

static void tcp_cancel(struct mc_transport *transport, struct mc_xfer_op *op)
{
    const struct mc_tcp_place *place = op->peer;
    struct mc_tcp_peer *peer = place->peer;

    MC_ASSERT_ON_LOOP(transport->loop);
    MC_ASSERT(peer->ops > 0);
    peer->ops--;
    if (op->stripe != NULL) {
        mc_tcp_stripe_destroy(op);
    }
    mc_tcp_peer_quiet_op(op);
}

static const struct mc_transport_stats *tcp_stats(const struct mc_transport *transport)
{
    return &((const struct mc_tcp *)(const void *)transport)->stats;
}

static uint64_t tcp_moved(const struct mc_transport *transport)
{
    const struct mc_tcp *tcp = (const struct mc_tcp *)(const void *)transport;
    uint64_t queued = 0;

    for (unsigned i = 0; i < MC_TCP_BUCKETS; i++) {
        mc_list_for_each (peer_node, &tcp->buckets[i]) {
            const struct mc_tcp_peer *peer =
                MC_CONTAINER_OF(peer_node, struct mc_tcp_peer, bucket_node);

            mc_list_for_each (node, &peer->conns) {
                queued += mc_stream_queued(MC_CONTAINER_OF(node, struct mc_tcp_conn, node)->stream);
            }
        }
    }
    return tcp->moved - queued; /* what is queued was counted, and has not gone yet */
}

const struct mc_transport_ops mc_transport_tcp = {
    .kind = "tcp",
    .caps = 0,
    .open = tcp_open,
    .close = tcp_close,
    .reaches = tcp_reaches,
    .submit = tcp_submit,
    .flush = tcp_flush,
    .cancel = tcp_cancel,
    .stats = tcp_stats,
    .moved = tcp_moved,
};
