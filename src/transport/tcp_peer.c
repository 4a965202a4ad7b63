/*
 * One store's address, client side: which connection an op takes, when another is opened, and what
 * becomes of ops whose connection is lost.
 *
 * Design notes: reads and writes may be repeated, so an op whose connection is lost is sent once
 * more before the loss is reported. The second time it goes over a connection that was made after
 * the loss: the others to this peer may be dead, too, and not know it (a store that was restarted
 * while nobody ran this loop).
 *
 * Only WRITEs and parts of large READs make further connections, and are spread over all. WRITEs,
 * because we hash and copy into one socket while the store's core carries another's data. Large
 * READs, because networks limit what one connection carries. Smaller READs go to the connection
 * with the least to do, the oldest of several: many of them come in one read of its socket.
 *
 * Small ops go first, then parts, and those of no op for too long (mc_tcp_stripe_hand_out()): a
 * huge value keeps nobody waiting for long.
 */
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/tcp_impl.h"

#define BACKOFF_MS_MIN 100u
#define BACKOFF_MS_MAX 3000u
/* Queued bytes that are given to the kernel before the next op is prepared. */
#define FLUSH_LEN ((size_t)128 << 10)
/* The hellos have to have met within this many connect time-outs. */
#define HELLO_TIMEOUTS 2u

#define SCHEME "tcp://"

/* ---- finding the peer ------------------------------------------------------------------------ */

/* The first address of our scheme among space-separated ones; NULL: none. */
static const char *find_address(const char *addresses, size_t *out_len)
{
    const char *at = addresses + strspn(addresses, " ");

    while (*at != '\0') {
        size_t len = strcspn(at, " ");

        if (len > strlen(SCHEME) && strncmp(at, SCHEME, strlen(SCHEME)) == 0) {
            *out_len = len - strlen(SCHEME);
            return at + strlen(SCHEME);
        }
        at += len;
        at += strspn(at, " ");
    }
    return NULL;
}

static struct mc_list *bucket_of(struct mc_tcp *tcp, const char *address, size_t len)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)address, .iov_len = len};

    return &tcp->buckets[mc_extent_hash_iov(&iov, 1) % MC_TCP_BUCKETS];
}

static struct mc_tcp_peer *peer_create(struct mc_tcp *tcp, const char *address, size_t len)
{
    struct mc_tcp_peer *peer = mc_calloc(1, sizeof(*peer) + len + 1);

    if (peer == NULL) {
        return NULL;
    }
    peer->place.peer = peer;
    peer->tcp = tcp;
    memcpy(peer->address, address, len);
    mc_list_init(&peer->bucket_node);
    mc_list_init(&peer->dirty_node);
    mc_list_init(&peer->conns);
    mc_list_init(&peer->waiting);
    mc_list_init(&peer->striped);
    return peer;
}

mooncake_err mc_tcp_peer_get(struct mc_tcp *tcp, const struct mc_target *target,
                             struct mc_tcp_peer **out)
{
    size_t len = 0;
    const char *address = find_address(target->addresses, &len);
    struct mc_list *bucket;
    struct mc_tcp_peer *peer;

    if (address == NULL || len >= MC_ADDR_LEN_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "segment %s: no usable tcp address in \"%s\"",
                          target->name, target->addresses);
    }
    bucket = bucket_of(tcp, address, len);
    mc_list_for_each (node, bucket) {
        peer = MC_CONTAINER_OF(node, struct mc_tcp_peer, bucket_node);
        if (strncmp(peer->address, address, len) == 0 && peer->address[len] == '\0') {
            *out = peer;
            return MOONCAKE_OK;
        }
    }
    peer = peer_create(tcp, address, len);
    if (peer == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_list_add_head(bucket, &peer->bucket_node);
    *out = peer;
    return MOONCAKE_OK;
}

void mc_tcp_peer_sweep(struct mc_tcp_peer *peer)
{
    if (peer->conns_alive == 0 && peer->ops == 0 && !peer->pumping &&
        (peer->tcp->closing || peer->backoff_until_ns <= mc_monotonic_ns())) {
        mc_list_drop(&peer->bucket_node);
        mc_list_drop(&peer->dirty_node);
        mc_free(peer);
    }
}

/* ---- choosing a connection ------------------------------------------------------------------- */

static struct mc_tcp_conn *conn_at(struct mc_list *node)
{
    return MC_CONTAINER_OF(node, struct mc_tcp_conn, node);
}

/* What a connection should have to do, before there is another one. */
static uint64_t fair_load(const struct mc_tcp_peer *peer)
{
    return (uint64_t)MC_TCP_PARTS_AHEAD * peer->tcp->options.tcp_part_len;
}

/* The one with room and the least to do, the oldest of several; NULL: none. */
static struct mc_tcp_conn *best_conn(struct mc_tcp_peer *peer)
{
    struct mc_tcp_conn *best = NULL;

    mc_list_for_each (node, &peer->conns) {
        struct mc_tcp_conn *conn = conn_at(node);

        if (mc_tcp_conn_has_room(conn) && (best == NULL || conn->load < best->load)) {
            best = conn;
        }
    }
    return best;
}

/* Should there be one more connection, seen from what is under way and what waits? */
static bool wants_conn(const struct mc_tcp_peer *peer)
{
    unsigned usable = 0, all = 0;
    bool all_loaded = true;

    mc_list_for_each (node, &peer->conns) {
        const struct mc_tcp_conn *conn = conn_at(node);

        if (conn->state == MC_TCP_CONN_CONNECTING) {
            return false;
        }
        all++;
        if (!conn->old) {
            usable++;
            all_loaded = all_loaded && conn->load >= fair_load(peer);
        }
    }
    if (usable == 0) {
        return !mc_list_empty(&peer->waiting) || !mc_list_empty(&peer->striped);
    }
    return all_loaded && all < peer->tcp->options.connections_max &&
           peer->backoff_until_ns <= mc_monotonic_ns();
}

static bool any_usable(const struct mc_tcp_peer *peer)
{
    mc_list_for_each (node, &peer->conns) {
        if (!conn_at(node)->old) {
            return true;
        }
    }
    return false;
}

mooncake_err mc_tcp_peer_ready(struct mc_tcp_peer *peer)
{
    if (peer->tcp->closing) {
        return MOONCAKE_ERPC;
    }
    if (peer->backoff_until_ns > mc_monotonic_ns() && !any_usable(peer)) {
        return mc_err_set(
            MOONCAKE_ERPC, "%s could not be reached a moment ago; next try in %llu ms",
            peer->address,
            (unsigned long long)mc_left_ms(mc_monotonic_ns(), peer->backoff_until_ns));
    }
    return peer->ops >= MC_TCP_PEER_OPS_MAX ? MOONCAKE_EREPLICABUSY : MOONCAKE_OK;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* End all ops of @p list, which is the caller's own. An op that ends may cancel others of it. */
static void end_all(struct mc_tcp_peer *peer, struct mc_list *list, mooncake_err err)
{
    while (!mc_list_empty(list)) {
        struct mc_xfer_op *op = mc_list_first(list, struct mc_xfer_op, node);

        mc_list_drop(&op->node);
        mc_tcp_peer_end_op(peer, op, err);
    }
}

void mc_tcp_peer_end_waiting(struct mc_tcp_peer *peer, mooncake_err err)
{
    struct mc_list all;

    mc_list_init(&all);
    mc_list_splice_tail(&all, &peer->waiting);
    mc_list_splice_tail(&all, &peer->striped);
    end_all(peer, &all, err);
}

/* A flush may end ops, and whoever hears of that may close connections: look anew after each. */
static struct mc_tcp_conn *unflushed_conn(struct mc_tcp_peer *peer)
{
    mc_list_for_each (node, &peer->conns) {
        if (conn_at(node)->unflushed) {
            return conn_at(node);
        }
    }
    return NULL;
}

static void flush_conns(struct mc_tcp_peer *peer)
{
    struct mc_tcp_conn *conn;

    while ((conn = unflushed_conn(peer)) != NULL) {
        conn->unflushed = false;
        mc_stream_flush(conn->stream);
    }
}

/* What is to be sent next over @p conn, taken out of its list; NULL: nothing. */
static struct mc_xfer_op *next_op(struct mc_tcp_peer *peer, const struct mc_tcp_conn *conn)
{
    struct mc_xfer_op *op;

    if (!mc_list_empty(&peer->waiting)) {
        op = mc_list_first(&peer->waiting, struct mc_xfer_op, node);
        mc_list_drop(&op->node);
        return op;
    }
    if (!mc_list_empty(&peer->striped) && conn->load < fair_load(peer)) {
        return mc_tcp_stripe_hand_out(mc_list_first(&peer->striped, struct mc_xfer_op, node));
    }
    return NULL;
}

static void pump_once(struct mc_tcp_peer *peer)
{
    struct mc_tcp_conn *conn;
    struct mc_xfer_op *op;

    while ((conn = best_conn(peer)) != NULL && (op = next_op(peer, conn)) != NULL) {
        mooncake_err err = mc_tcp_conn_send(conn, op);

        if (err != MOONCAKE_OK) {
            mc_tcp_conn_fail(conn, err);
        } else if (mc_stream_queued(conn->stream) >= FLUSH_LEN) {
            mc_stream_flush(conn->stream);
        }
    }
    if (!peer->tcp->closing && wants_conn(peer)) {
        mooncake_err err = mc_tcp_conn_open(peer);

        if (err != MOONCAKE_OK && !any_usable(peer)) {
            mc_log_warn("tcp.connect", "peer=%s err=%s detail=\"%s\"", peer->address,
                        mooncake_err_name(err), mooncake_last_error());
            mc_tcp_peer_end_waiting(peer, err == MOONCAKE_ENOMEM ? err : MOONCAKE_ERPC);
        }
    }
    flush_conns(peer);
}

void mc_tcp_peer_pump(struct mc_tcp_peer *peer)
{
    peer->pump_again = true;
    if (peer->pumping) {
        return;
    }
    peer->pumping = true;
    while (peer->pump_again) {
        peer->pump_again = false;
        pump_once(peer);
    }
    peer->pumping = false;
}

void mc_tcp_peer_end_op(struct mc_tcp_peer *peer, struct mc_xfer_op *op, mooncake_err err)
{
    struct mc_transport_stats *stats = &peer->tcp->stats;

    if (op->stripe != NULL) {
        mc_tcp_stripe_end(op, err);
        return;
    }
    MC_ASSERT(peer->ops > 0);
    peer->ops--;
    mc_counter_add_owner(&stats->ops, 1);
    if (err != MOONCAKE_OK) {
        mc_counter_add_owner(&stats->failures, 1);
    } else if (op->right == MC_RIGHT_READ) {
        mc_counter_add_owner(&stats->bytes_read, op->extent.payload_len);
    } else {
        mc_counter_add_owner(&stats->bytes_written, op->extent.payload_len);
    }
    op->err = err;
    op->done(op);
}

/* ---- losing a connection --------------------------------------------------------------------- */

/* The next op of a closed connection, taken off it; NULL: none is left. Oldest first. */
static struct mc_xfer_op *take_op(struct mc_tcp_peer *peer, struct mc_tcp_conn *conn)
{
    struct mc_list *from = mc_list_empty(&conn->answered) ? &conn->asked : &conn->answered;
    struct mc_xfer_op *op;

    if (mc_list_empty(from)) {
        return NULL;
    }
    op = mc_list_first(from, struct mc_xfer_op, node);
    mc_list_drop(&op->node);
    op->peer = &peer->place;
    conn->ops--;
    return op;
}

void mc_tcp_peer_requeue(struct mc_tcp_peer *peer, struct mc_tcp_conn *conn)
{
    struct mc_list again;
    struct mc_xfer_op *op;

    mc_list_init(&again);
    while ((op = take_op(peer, conn)) != NULL) {
        mc_list_add_tail(&again, &op->node);
    }
    mc_list_splice_tail(&again, &peer->waiting); /* those behind the ones that were sent once */
    mc_list_splice_tail(&peer->waiting, &again);
}

void mc_tcp_peer_quiet_op(struct mc_xfer_op *op)
{
    const struct mc_tcp_place *place = op->peer;
    struct mc_tcp_peer *peer = place->peer;
    struct mc_tcp_conn *conn = place->conn;

    mc_list_drop(&op->node);
    if (conn != NULL) {
        /* Its answer may be on the way into the op's memory, or its pieces on the way out. The
         * other ops go on when the loop runs: on_closed pumps the peer. */
        conn->ops--;
        mc_tcp_conn_close(conn);
        mc_tcp_peer_requeue(peer, conn);
    }
}

/* A connection that had been up is gone. Others to this peer may be dead too: none of them gets a
 * further op. */
static void retire_conns(struct mc_tcp_peer *peer)
{
    mc_list_for_each_safe (node, next, &peer->conns) {
        struct mc_tcp_conn *conn = conn_at(node);

        if (conn->state == MC_TCP_CONN_UP) {
            conn->old = true;
            if (conn->ops == 0) {
                mc_tcp_conn_close(conn);
            }
        }
    }
}

static void back_off(struct mc_tcp_peer *peer)
{
    peer->backoff_ms = peer->backoff_ms == 0 ? BACKOFF_MS_MIN : peer->backoff_ms * 2;
    if (peer->backoff_ms > BACKOFF_MS_MAX) {
        peer->backoff_ms = BACKOFF_MS_MAX;
    }
    peer->backoff_until_ns = mc_deadline_ns(mc_monotonic_ns(), peer->backoff_ms);
}

/* The thread's sentence, if it is about this peer: an older one may be about anything, keys too. */
static const char *detail_about(const struct mc_tcp_peer *peer)
{
    const char *sentence = mooncake_last_error();

    return strstr(sentence, peer->address) != NULL ? sentence : "";
}

void mc_tcp_peer_lost(struct mc_tcp_peer *peer, struct mc_tcp_conn *conn, mooncake_err why)
{
    struct mc_list lost;
    struct mc_list again;
    struct mc_xfer_op *op;

    mc_list_init(&lost);
    mc_list_init(&again);
    mc_log_debug("tcp.lost", "peer=%s ops=%u up=%d err=%s detail=\"%s\"", peer->address, conn->ops,
                 conn->was_up, mooncake_err_name(why), mooncake_last_error());
    while ((op = take_op(peer, conn)) != NULL) {
        mc_list_add_tail(op->retries++ == 0 && !peer->tcp->closing ? &again : &lost, &op->node);
    }
    if (!mc_list_empty(&again)) {
        mc_counter_add_owner(&peer->tcp->stats.reconnects, 1);
        mc_list_splice_tail(&again, &peer->waiting);
        mc_list_splice_tail(&peer->waiting, &again);
    }
    if (conn->was_up) {
        retire_conns(peer);
    } else {
        back_off(peer);
        if (!any_usable(peer)) {
            if (!peer->tcp->closing) { /* else it is we who gave it up */
                mc_log_warn("tcp.connect", "peer=%s err=%s detail=\"%s\" next_try_ms=%llu",
                            peer->address, mooncake_err_name(why), detail_about(peer),
                            (unsigned long long)peer->backoff_ms);
            }
            mc_list_splice_tail(&lost, &peer->waiting);
            mc_list_splice_tail(&lost, &peer->striped);
        }
    }
    if (peer->tcp->closing) {
        mc_list_splice_tail(&lost, &peer->waiting);
        mc_list_splice_tail(&lost, &peer->striped);
    }
    /* Our own lack of memory must not look like a fault of the store's. */
    end_all(peer, &lost, why == MOONCAKE_ENOMEM ? why : MOONCAKE_ERPC);
    mc_tcp_peer_pump(peer);
}

/* A connection that has been idle or mute for too long; NULL: none. */
static struct mc_tcp_conn *overdue_conn(struct mc_tcp_peer *peer, uint64_t now_ns)
{
    const struct mc_transport_options *options = &peer->tcp->options;
    const uint64_t mute_ns = options->connect_timeout_ms * HELLO_TIMEOUTS * MC_NS_PER_MS;
    const uint64_t idle_ns = options->idle_close_ms * MC_NS_PER_MS;

    mc_list_for_each (node, &peer->conns) {
        struct mc_tcp_conn *conn = conn_at(node);
        const uint64_t age_ns = now_ns > conn->since_ns ? now_ns - conn->since_ns : 0;

        if (conn->state == MC_TCP_CONN_CONNECTING
                ? age_ns > mute_ns
                : conn->ops == 0 && idle_ns > 0 && age_ns > idle_ns) {
            return conn;
        }
    }
    return NULL;
}

void mc_tcp_peer_look_after(struct mc_tcp_peer *peer, uint64_t now_ns)
{
    struct mc_tcp_conn *conn;

    while ((conn = overdue_conn(peer, now_ns)) != NULL) {
        if (conn->state == MC_TCP_CONN_CONNECTING) {
            (void)mc_err_set(MOONCAKE_ETIMEDOUT, "%s takes connections but does not answer",
                             peer->address);
            mc_tcp_conn_fail(conn, MOONCAKE_ETIMEDOUT);
        } else {
            mc_log_debug("tcp.idle", "peer=%s", peer->address);
            mc_tcp_conn_close(conn);
        }
    }
}
