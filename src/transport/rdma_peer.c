/*
 * One mount in one direction: its paths, and which work goes over which.
 *
 * Design notes
 * - A path is one of our ports and one of the store's addresses. Each of our ports is paired with
 *   the address that has the longest prefix in common with its own, and so is each address that is
 *   left over: with a subnet per rail this finds the rails, elsewhere every pair is as good.
 * - A path that has failed is paused (rdma_path.c) and tried again after that, while the peer is in
 *   use. While all paths are down that request does not wait for it: it is refused, so that another
 *   transport does it at once, and the path comes back beside it.
 * - Works are given out one by one, each to the nearest path (by NUMA distance to the memory) with
 *   the fewest bytes under way: so large ops are striped and small ones spread.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/peers.h"
#include "transport/rdma_impl.h"
#include "transport/rdma_numa.h"

/* A request that has lost so many connections goes to another transport. */
#define LOSSES_MAX 4u
#define STALL_MS_DEFAULT 6000u
#define STAGING_WAIT_MS_DEFAULT 2000u
/* How long it is remembered that paths fail when nobody asks for them. */
#define REMEMBER_NS (60 * MC_NS_PER_S)

/* ---- paths ----------------------------------------------------------------------------------- */

static const uint8_t *address_bytes(const union mc_rdma_address *address, unsigned *out_bits)
{
    bool v4 = address->any.sa_family == AF_INET;

    *out_bits = v4 ? 32 : 128;
    return v4 ? (const uint8_t *)&address->v4.sin_addr : (const uint8_t *)&address->v6.sin6_addr;
}

/* Bits that two addresses have in common at their beginning, plus one; 0: of different families. */
static unsigned common_bits(const union mc_rdma_address *a, const union mc_rdma_address *b)
{
    unsigned bits_a, bits_b;
    const uint8_t *at_a = address_bytes(a, &bits_a);
    const uint8_t *at_b = address_bytes(b, &bits_b);
    unsigned n = 0;

    if (bits_a != bits_b) {
        return 0;
    }
    while (n < bits_a && ((at_a[n / 8] ^ at_b[n / 8]) & 0x80u >> n % 8) == 0) {
        n++;
    }
    return n + 1;
}

static void add_path(struct mc_rdma_peer *peer, const struct mc_rdma_port *port,
                     const struct mc_rdma_place *place)
{
    struct mc_rdma_path *path = &peer->paths[peer->paths_count];
    char host[INET6_ADDRSTRLEN];

    if (peer->paths_count == MC_RDMA_PATHS_MAX) {
        return;
    }
    peer->paths_count++;
    path->peer = peer;
    path->port = port;
    path->place = *place;
    (void)snprintf(path->name, sizeof(path->name), "%s>%s", port->device->name,
                   mc_rdma_address_print(&place->address, host, sizeof(host)));
}

static void pair_paths(struct mc_rdma_peer *peer, const struct mc_rdma_place *places,
                       unsigned places_count)
{
    const struct mc_rdma *rdma = peer->rdma;
    bool used[MC_RDMA_PATHS_MAX] = {false};

    for (unsigned i = 0; i < rdma->ports_count; i++) {
        unsigned best = 0, best_bits = 0;

        for (unsigned k = 0; k < places_count; k++) {
            unsigned bits = common_bits(&rdma->ports[i].address, &places[k].address);

            if (bits > best_bits || (bits == best_bits && bits > 0 && used[best] && !used[k])) {
                best = k;
                best_bits = bits;
            }
        }
        if (best_bits > 0) {
            used[best] = true;
            add_path(peer, &rdma->ports[i], &places[best]);
        }
    }
    for (unsigned k = 0; k < places_count; k++) {
        unsigned best = 0, best_bits = 0;

        for (unsigned i = 0; i < rdma->ports_count && !used[k]; i++) {
            unsigned bits = common_bits(&rdma->ports[i].address, &places[k].address);

            if (bits > best_bits) {
                best = i;
                best_bits = bits;
            }
        }
        if (best_bits > 0) {
            add_path(peer, &rdma->ports[best], &places[k]);
        }
    }
}

static struct mc_rdma_peer *create_peer(struct mc_rdma *rdma, const struct mc_target *target,
                                        enum mc_rights right)
{
    struct mc_rdma_peer *peer = mc_calloc(1, sizeof(*peer));

    if (peer == NULL) {
        return NULL;
    }
    peer->rdma = rdma;
    peer->mount_id = target->mount_id;
    peer->right = right;
    peer->used_ns = mc_monotonic_ns();
    (void)snprintf(peer->name, sizeof(peer->name), "%s", target->name);
    mc_list_init(&peer->bucket_node);
    mc_list_init(&peer->dirty_node);
    mc_list_init(&peer->starved_node);
    mc_list_init(&peer->waiting);
    mc_list_init(&peer->waiting_staged);
    mc_list_init(&peer->sent);
    mc_list_init(&peer->redo);
    return peer;
}

mooncake_err mc_rdma_peer_get(struct mc_rdma *rdma, const struct mc_target *target,
                              enum mc_rights right, struct mc_rdma_peer **out)
{
    struct mc_list *bucket = &rdma->buckets[target->mount_id % MC_RDMA_BUCKETS];
    struct mc_rdma_place places[MC_RDMA_PATHS_MAX];
    struct mc_rdma_peer *peer;
    unsigned count;

    mc_list_for_each (node, bucket) {
        peer = MC_CONTAINER_OF(node, struct mc_rdma_peer, bucket_node);
        if (peer->mount_id == target->mount_id && peer->right == right) {
            peer->used_ns = mc_loop_now_ns(rdma->transport.loop);
            *out = peer;
            return MOONCAKE_OK;
        }
    }
    count = mc_rdma_places_parse(target->addresses, places, MC_RDMA_PATHS_MAX);
    peer = create_peer(rdma, target, right);
    if (peer == NULL) {
        return MOONCAKE_ENOMEM;
    }
    pair_paths(peer, places, count);
    if (peer->paths_count == 0) {
        mc_free(peer);
        return mc_err_set(MOONCAKE_ERPC,
                          "segment %s: no rdma address in \"%s\" that a device here could reach",
                          target->name, target->addresses);
    }
    mc_list_add_head(bucket, &peer->bucket_node);
    *out = peer;
    return MOONCAKE_OK;
}

void mc_rdma_peer_destroy(struct mc_rdma_peer *peer)
{
    MC_ASSERT(peer->reqs == 0 && !peer->pumping);
    for (unsigned i = 0; i < peer->paths_count; i++) {
        if (peer->paths[i].conn != NULL) {
            mc_rdma_conn_destroy(peer->paths[i].conn);
        }
    }
    mc_list_drop(&peer->bucket_node);
    mc_list_drop(&peer->dirty_node);
    mc_list_drop(&peer->starved_node);
    mc_free(peer);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* The nearest path that is up and, of those as near, the one with the fewest bytes under way that
 * has room. NULL: none. */
static struct mc_rdma_conn *choose(struct mc_rdma_peer *peer, int numa_node)
{
    struct mc_rdma_conn *best = NULL;
    unsigned nearest = UINT32_MAX;

    for (unsigned i = 0; i < peer->paths_count; i++) {
        struct mc_rdma_path *path = &peer->paths[i];
        unsigned distance;

        if (path->conn == NULL || path->conn->state != MC_RDMA_CONN_UP) {
            continue;
        }
        distance = mc_rdma_numa_distance(path->port->device->numa_node, numa_node);
        if (distance < nearest) {
            nearest = distance;
            best = NULL;
        }
        if (distance == nearest && mc_rdma_qp_room(path->conn->qp) > 0 &&
            (best == NULL || path->conn->under_way < best->under_way)) {
            best = path->conn;
        }
    }
    return best;
}

static bool any_conn(const struct mc_rdma_peer *peer)
{
    for (unsigned i = 0; i < peer->paths_count; i++) {
        if (peer->paths[i].conn != NULL) {
            return true;
        }
    }
    return false;
}

bool mc_rdma_peer_is_up(const struct mc_rdma_peer *peer)
{
    for (unsigned i = 0; i < peer->paths_count; i++) {
        if (peer->paths[i].conn != NULL && peer->paths[i].conn->state == MC_RDMA_CONN_UP) {
            return true;
        }
    }
    return false;
}

/* Until when all paths are paused; 0: one is not. */
static uint64_t paused_until(const struct mc_rdma_peer *peer, uint64_t now_ns)
{
    uint64_t first = UINT64_MAX;

    for (unsigned i = 0; i < peer->paths_count; i++) {
        uint64_t until_ns = mc_rdma_path_paused_until(&peer->paths[i]);

        if (until_ns <= now_ns) {
            return 0;
        }
        first = until_ns < first ? until_ns : first;
    }
    return first;
}

static void open_paths(struct mc_rdma_peer *peer)
{
    uint64_t now_ns = mc_monotonic_ns();

    for (unsigned i = 0; i < peer->paths_count; i++) {
        mc_rdma_path_open(&peer->paths[i], now_ns);
    }
}

bool mc_rdma_peer_is_down(const struct mc_rdma_peer *peer)
{
    for (unsigned i = 0; i < peer->paths_count; i++) {
        if (!mc_rdma_path_is_down(&peer->paths[i])) {
            return false;
        }
    }
    return true;
}

mooncake_err mc_rdma_peer_ready(struct mc_rdma_peer *peer)
{
    uint64_t until_ns;

    if (mc_rdma_peer_is_down(peer)) {
        open_paths(peer);
    }
    if (mc_rdma_peer_is_down(peer)) { /* no port was found to have its link again */
        return mc_err_set(MOONCAKE_ERPC,
                          "segment %s: no RDMA path to it works (last: %s); it is tried again "
                          "meanwhile",
                          peer->name, peer->paths[0].why);
    }
    until_ns = any_conn(peer) ? 0 : paused_until(peer, mc_monotonic_ns());
    if (until_ns > 0) {
        return mc_err_set(MOONCAKE_ERPC, "segment %s: no RDMA path to it works (%s%s)", peer->name,
                          peer->paths[0].why, peer->paths_count > 1 ? "; others failed, too" : "");
    }
    return MOONCAKE_OK;
}

/* ---- pumping --------------------------------------------------------------------------------- */

static bool has_work(const struct mc_rdma_peer *peer)
{
    return !mc_list_empty(&peer->redo) || !mc_list_empty(&peer->waiting) ||
           !mc_list_empty(&peer->waiting_staged);
}

/* The first work to be done again of those that need staging, or of those that need none. */
static struct mc_rdma_work *first_again(const struct mc_rdma_peer *peer, bool staged)
{
    mc_list_for_each (node, &peer->redo) {
        struct mc_rdma_work *work = MC_CONTAINER_OF(node, struct mc_rdma_work, node);

        if (work->req->staged == staged) {
            return work;
        }
    }
    return NULL;
}

/* What is to be sent next of those that need staging, or of those that need none: a work that is to
 * be done again, else the next of a request. NULL: nothing. */
static struct mc_rdma_req *first_of(const struct mc_rdma_peer *peer, bool staged,
                                    struct mc_rdma_work **out_again)
{
    const struct mc_list *waiting = staged ? &peer->waiting_staged : &peer->waiting;

    *out_again = first_again(peer, staged);
    if (*out_again != NULL) {
        return (*out_again)->req;
    }
    return mc_list_empty(waiting) ? NULL : mc_list_first(waiting, struct mc_rdma_req, node);
}

/* ---- staging, which peers share: whoever waits longest takes the next chunk ---------------------
 */

static bool may_stage(const struct mc_rdma_peer *peer)
{
    const struct mc_rdma *rdma = peer->rdma;

    return (mc_list_empty(&rdma->starved) || rdma->starved.next == &peer->starved_node) &&
           (rdma->staging.chunks == NULL || rdma->staging.chunks_free_count > 0);
}

static void note_starved(struct mc_rdma_peer *peer)
{
    if (peer->starved_since_ns == 0) {
        peer->starved_since_ns = mc_monotonic_ns();
    }
    if (!mc_list_linked(&peer->starved_node)) {
        mc_list_add_tail(&peer->rdma->starved, &peer->starved_node);
    }
}

/* It has had its turn, or has no use for it now: the next one may. */
static void pass_turn(struct mc_rdma_peer *peer)
{
    struct mc_rdma *rdma = peer->rdma;

    peer->starved_since_ns = 0;
    mc_list_drop(&peer->starved_node);
    if (!mc_list_empty(&rdma->starved)) {
        mc_rdma_pump_soon(mc_list_first(&rdma->starved, struct mc_rdma_peer, starved_node));
    }
}

/* What is to be sent next. Work that needs staging and gets none holds up no other. */
static struct mc_rdma_req *choose_req(struct mc_rdma_peer *peer, struct mc_rdma_work **out_again)
{
    struct mc_rdma_work *again[2] = {NULL, NULL};
    struct mc_rdma_req *reqs[2] = {first_of(peer, false, &again[0]),
                                   first_of(peer, true, &again[1])};
    unsigned staged = reqs[0] == NULL || (reqs[1] != NULL && peer->staged_next) ? 1 : 0;

    if (reqs[1] != NULL && !may_stage(peer)) {
        note_starved(peer);
        staged = 0;
    }
    peer->staged_next = staged == 0;
    *out_again = again[staged];
    return reqs[staged];
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Send one work. False: nothing more can be sent now. */
static bool send_one(struct mc_rdma_peer *peer)
{
    struct mc_rdma_work *again = NULL;
    struct mc_rdma_req *req = choose_req(peer, &again);
    struct mc_rdma_conn *conn;
    struct mc_rdma_path *path;
    bool staged;
    mooncake_err err;

    if (req == NULL) {
        return false;
    }
    conn = choose(peer, req->numa_node);
    if (conn == NULL) {
        if (mc_list_linked(&peer->starved_node) && may_stage(peer)) {
            pass_turn(peer); /* it waits for a path, not for staging */
        }
        return false;
    }
    path = conn->path;
    staged = req->staged;
    if (req->losses > LOSSES_MAX) {
        mc_rdma_req_end(req, mc_err_set(MOONCAKE_ERPC,
                                        "segment %s: an op has lost %u RDMA connections in a row",
                                        peer->name, req->losses));
        return true;
    }
    err = again != NULL ? mc_rdma_work_send_again(again, conn) : mc_rdma_req_send_next(req, conn);
    if (err == MOONCAKE_EREPLICABUSY) {
        note_starved(peer);
        return false;
    }
    if (err == MOONCAKE_ERPC) {
        mc_rdma_path_drop(path, err);
    } else if (err != MOONCAKE_OK) {
        /* Without memory to register, a transport that needs none may still do it. */
        mc_rdma_req_end(req, err == MOONCAKE_ENOMEM ? MOONCAKE_ERPC : err);
    }
    if (staged) {
        pass_turn(peer);
    }
    return true;
}

static void ring_all(struct mc_rdma_peer *peer)
{
    for (unsigned i = 0; i < peer->paths_count; i++) {
        struct mc_rdma_conn *conn = peer->paths[i].conn;

        if (conn != NULL && conn->state == MC_RDMA_CONN_UP) {
            mooncake_err err = mc_rdma_qp_ring(conn->qp);

            if (err != MOONCAKE_OK) {
                mc_rdma_path_drop(&peer->paths[i], err);
            }
        }
    }
}

void mc_rdma_peer_end_all(struct mc_rdma_peer *peer, mooncake_err err)
{
    struct mc_list *const lists[] = {&peer->waiting, &peer->waiting_staged, &peer->sent};
    char detail[512];

    (void)snprintf(detail, sizeof(detail), "%s", mooncake_last_error());
    for (unsigned i = 0; i < MC_ARRAY_LEN(lists);) {
        if (mc_list_empty(lists[i])) {
            i++;
            continue;
        }
        (void)mc_err_set(err, "%s", detail);
        mc_rdma_req_end(mc_list_first(lists[i], struct mc_rdma_req, node), err);
        i = 0; /* whoever hears of it may have come with another */
    }
}

static void pump_once(struct mc_rdma_peer *peer)
{
    if (has_work(peer) && !peer->rdma->closing) {
        open_paths(peer);
    }
    while (has_work(peer) && send_one(peer)) {
    }
    if (!has_work(peer) && mc_list_linked(&peer->starved_node)) {
        pass_turn(peer); /* what waited has ended */
    }
    ring_all(peer);
    /* Without a connection nothing will ever call us for them. And where each path has failed to
     * connect, those that try again, each at its own time, are not to be waited for. */
    if (has_work(peer) && (!any_conn(peer) || mc_rdma_peer_is_down(peer))) {
        if (peer->rdma->closing || mc_rdma_peer_ready(peer) != MOONCAKE_OK) {
            mc_rdma_peer_end_all(peer, MOONCAKE_ERPC);
        } else {
            peer->again = true; /* a path was dropped without blame: connect anew */
        }
    }
}

void mc_rdma_peer_pump(struct mc_rdma_peer *peer)
{
    peer->again = true;
    if (peer->pumping) {
        return;
    }
    peer->pumping = true;
    while (peer->again) {
        peer->again = false;
        pump_once(peer);
    }
    peer->pumping = false;
}

/* ---- looking after --------------------------------------------------------------------------- */

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value == 0 ? otherwise : value;
}

static void look_after_path(struct mc_rdma_path *path, uint64_t now_ns)
{
    const struct mc_transport_options *options = &path->peer->rdma->options;
    const uint32_t stall_ms = or_default(options->rdma_stall_ms, STALL_MS_DEFAULT);
    struct mc_rdma_conn *conn = path->conn;
    uint64_t since_ns;

    if (conn == NULL) {
        return;
    }
    if (conn->state != MC_RDMA_CONN_UP) {
        if (now_ns >= conn->deadline_ns) {
            mc_rdma_path_drop(path, mc_err_set(MOONCAKE_ERPC, "rdma: %s: no answer within %u ms",
                                               path->name, options->connect_timeout_ms));
        }
        return;
    }
    since_ns = mc_rdma_qp_waiting_since_ns(conn->qp);
    if (since_ns > 0 && now_ns > since_ns && now_ns - since_ns >= stall_ms * MC_NS_PER_MS) {
        mc_rdma_path_drop(path, mc_err_set(MOONCAKE_ERPC, "rdma: %s: no completion for %u ms",
                                           path->name, stall_ms));
    } else if (since_ns == 0 && options->idle_close_ms > 0 && now_ns > conn->used_ns &&
               now_ns - conn->used_ns >= options->idle_close_ms * MC_NS_PER_MS) {
        mc_rdma_path_drop(path, MOONCAKE_OK);
    }
}

/* The first request of those that wait for staging has waited long enough. */
static void end_starved(struct mc_rdma_peer *peer, uint64_t now_ns)
{
    const uint32_t wait_ms =
        or_default(peer->rdma->options.rdma_staging_wait_ms, STAGING_WAIT_MS_DEFAULT);
    struct mc_rdma_work *again = NULL;
    struct mc_rdma_req *req = first_of(peer, true, &again);

    if (peer->starved_since_ns == 0 || req == NULL || now_ns < peer->starved_since_ns ||
        now_ns - peer->starved_since_ns < wait_ms * MC_NS_PER_MS) {
        return;
    }
    mc_rdma_req_end(
        req, mc_err_set(MOONCAKE_ENOSPACE,
                        "rdma: all %llu bytes of staging memory were in use for %u ms; "
                        "register the buffers, or raise rdma_staging",
                        (unsigned long long)(peer->rdma->staging.chunks_count * MC_RDMA_CHUNK_LEN),
                        wait_ms));
}

/* Beside the work, if there is any: what is known of a path that is down is never old, and its
 * return waits for no op. */
static void retry_paths(struct mc_rdma_peer *peer, uint64_t now_ns)
{
    for (unsigned i = 0; i < peer->paths_count && now_ns <= peer->used_ns + REMEMBER_NS; i++) {
        if (peer->paths[i].down_ns != 0) {
            mc_rdma_path_open(&peer->paths[i], now_ns);
        }
    }
}

static bool any_troubled(const struct mc_rdma_peer *peer)
{
    for (unsigned i = 0; i < peer->paths_count; i++) {
        if (peer->paths[i].troubled || peer->paths[i].down_ns != 0) {
            return true;
        }
    }
    return false;
}

bool mc_rdma_peer_look_after(struct mc_rdma_peer *peer, uint64_t now_ns)
{
    for (unsigned i = 0; i < peer->paths_count; i++) {
        look_after_path(&peer->paths[i], now_ns);
    }
    end_starved(peer, now_ns);
    retry_paths(peer, now_ns);
    mc_rdma_peer_pump(peer);
    return peer->reqs == 0 && !any_conn(peer) &&
           (!any_troubled(peer) || now_ns > peer->used_ns + REMEMBER_NS);
}
