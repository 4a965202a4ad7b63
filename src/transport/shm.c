/*
 * Segments of other processes on this host: the store hands out the segment's memory over a Unix
 * socket, this process maps it, and an op is one copy.
 *
 * Design notes
 * - A mount without a mapping gets a link: a handshake on this engine's loop, with the ops that
 *   wait for it. When it succeeds the mapping goes into the process-wide table (shm_map.h) and the
 *   link is gone; when it fails the ops end with ERPC, so that another transport takes them, and
 * the link stays for a while as the memory of the failure.
 * - Ops with a mapping are queued by submit and done by flush, in slices of SLICE_LEN bytes, so
 *   that deadlines are looked at during a batch of gigabytes. Threads may help with a slice
 *   (direct_pool.h), which is then longer by as much; an op is one thread's, as its checksum goes
 *   from the first byte to the last.
 * - Bytes written into the memory of a store that has died are nobody's. So a slice counts only if
 *   the store was alive after its last byte: writes of a slice that was not are ERPC.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/direct.h"
#include "transport/direct_pool.h"
#include "transport/shm_ask.h"
#include "transport/shm_map.h"
#include "transport/shm_wire.h"
#include "transport/transport.h"

#define SLICE_LEN ((uint64_t)8 << 20)
#define SLICE_OPS_MAX 256u
/* A store on the same host answers in microseconds; one that does not is frozen. */
#define HANDSHAKE_MS_MAX 1000u
#define FORGET_FAILURE_NS (5u * MC_NS_PER_S)
#define LINKS_MAX 1024u

struct shm {
    struct mc_transport transport; /* first */
    struct mc_transport_stats stats;
    struct mc_list links;           /* of struct link */
    struct mc_list queued;          /* of struct mc_xfer_op: their mount is mapped */
    struct mc_direct_pool *copiers; /* borrowed; NULL: none */
    unsigned links_count;
    uint32_t handshake_ms;
    struct mc_post more; /* runs the next slice */
    bool more_posted;
    bool closing;
};

enum link_state {
    LINK_SHAKING, /* waiting for the store's answer */
    LINK_FAILED,  /* remembered until failed_until_ns */
};

struct link {
    struct shm *shm;
    struct mc_list node;
    struct mc_list ops; /* waiting */
    uint64_t mount_id;
    enum link_state state;
    uint64_t failed_until_ns;
    const char *step; /* that failed, and how */
    int error;
    int fd; /* owned while SHAKING */
    struct mc_timer *timer;
    uv_poll_t *poll; /* own allocation: libuv closes it after the link may be gone */
};

static mooncake_err queue(struct shm *shm, struct mc_xfer_op *op);

static struct shm *shm_of(struct mc_transport *transport)
{
    return MC_CONTAINER_OF(transport, struct shm, transport);
}

/* ---- ops ----------------------------------------------------------------------------------- */

static void finish(struct shm *shm, struct mc_xfer_op *op, mooncake_err err)
{
    mc_list_drop(&op->node);
    op->err = err;
    mc_counter_add_owner(&shm->stats.ops, 1);
    if (err != MOONCAKE_OK) {
        mc_counter_add_owner(&shm->stats.failures, 1);
    } else if (op->right == MC_RIGHT_READ) {
        mc_counter_add_owner(&shm->stats.bytes_read, op->extent.payload_len);
    } else {
        mc_counter_add_owner(&shm->stats.bytes_written, op->extent.payload_len);
    }
    op->done(op);
}

static mooncake_err copy(const struct mc_shm_map *map, const struct mc_xfer_op *op)
{
    const struct mc_extent_ref *extent = &op->extent;

    if ((extent->rights & (uint32_t)op->right) == 0) {
        return MOONCAKE_ENOTOWNER;
    }
    if (extent->offset > map->len || map->len - extent->offset < MC_EXTENT_HEADER_LEN ||
        extent->payload_len > map->len - extent->offset - MC_EXTENT_HEADER_LEN) {
        return MOONCAKE_EINVAL;
    }
    mc_touched_range(map->touched, extent->offset, MC_EXTENT_HEADER_LEN + extent->payload_len);
    if (op->lend != NULL) {
        return mc_direct_prove(map->base, op);
    }
    if (op->right == MC_RIGHT_READ) {
        return mc_direct_read(map->base, op);
    }
    mc_direct_write(map->base, op);
    return MOONCAKE_OK;
}

/* The ops of a slice, for whoever copies. */
struct copy_job {
    const struct mc_shm_map *map;
    struct mc_xfer_op *ops[SLICE_OPS_MAX];
};

static void copy_piece(void *arg, size_t piece)
{
    struct copy_job *job = arg;

    job->ops[piece]->err = copy(job->map, job->ops[piece]);
}

static void copy_slice(struct shm *shm, const struct mc_shm_map *map, struct mc_list *slice)
{
    struct copy_job job = {.map = map};
    size_t count = 0;
    uint64_t len = 0;

    mc_list_for_each (node, slice) {
        struct mc_xfer_op *op = MC_CONTAINER_OF(node, struct mc_xfer_op, node);

        MC_ASSERT(count < SLICE_OPS_MAX);
        job.ops[count++] = op;
        len += op->extent.payload_len;
    }
    mc_direct_pool_run(shm->copiers, copy_piece, &job, count, len);
}

/* Take the next ops of one mount, up to a slice's worth, from the queue into @p slice. */
static void cut_slice(struct shm *shm, struct mc_list *slice)
{
    uint64_t mount_id = mc_list_first(&shm->queued, struct mc_xfer_op, node)->extent.mount_id;
    const uint64_t enough = SLICE_LEN * mc_direct_pool_width(shm->copiers);
    uint64_t bytes = 0;

    for (unsigned n = 0; n < SLICE_OPS_MAX && bytes < enough; n++) {
        struct mc_xfer_op *op = mc_list_first(&shm->queued, struct mc_xfer_op, node);

        if (mc_list_empty(&shm->queued) || op->extent.mount_id != mount_id) {
            break;
        }
        bytes += op->extent.payload_len;
        mc_list_move_tail(slice, &op->node);
    }
}

/* The mapping of a slice's mount if its store still owns it; a dead one is dropped. */
static struct mc_shm_map *borrow_alive(uint64_t mount_id)
{
    struct mc_shm_map *map = mc_shm_map_borrow(mount_id);

    if (map != NULL && !mc_shm_map_is_alive(map)) {
        mc_shm_map_drop(map);
        mc_shm_map_return(map);
        map = NULL;
    }
    return map;
}

/* The mapping went away since submit: once, ask the store for the memory again. */
static void requeue(struct shm *shm, struct mc_xfer_op *op)
{
    mooncake_err err = MOONCAKE_ERPC;

    if (op->retries == 0) {
        op->retries = 1;
        mc_list_drop(&op->node);
        err = queue(shm, op);
    }
    if (err != MOONCAKE_OK) {
        finish(shm, op, MOONCAKE_ERPC);
    }
}

static void run_slice(struct shm *shm)
{
    struct mc_list slice;
    struct mc_shm_map *map;

    mc_list_init(&slice);
    cut_slice(shm, &slice);
    map = borrow_alive(mc_list_first(&slice, struct mc_xfer_op, node)->extent.mount_id);
    if (map == NULL) {
        while (!mc_list_empty(&slice)) {
            requeue(shm, mc_list_first(&slice, struct mc_xfer_op, node));
        }
        return;
    }
    copy_slice(shm, map, &slice);
    if (!mc_shm_map_is_alive(map)) {
        mc_shm_map_drop(map);
        mc_list_for_each (node, &slice) {
            struct mc_xfer_op *op = MC_CONTAINER_OF(node, struct mc_xfer_op, node);

            op->err = op->right == MC_RIGHT_WRITE || op->lend != NULL ? MOONCAKE_ERPC : op->err;
        }
    }
    while (!mc_list_empty(&slice)) {
        struct mc_xfer_op *op = mc_list_first(&slice, struct mc_xfer_op, node);

        if (op->lend != NULL && op->err == MOONCAKE_OK) {
            mc_lend_init(op->lend, map, op->extent.offset + MC_EXTENT_HEADER_LEN,
                         op->extent.payload_len);
        }
        finish(shm, op, op->err); /* may submit others, and cancel those still in the slice */
    }
    mc_shm_map_return(map);
}

static void post_more(struct shm *shm)
{
    if (!mc_list_empty(&shm->queued) && !shm->more_posted) {
        shm->more_posted = true;
        mc_loop_post(shm->transport.loop, &shm->more);
    }
}

static void on_more(struct mc_post *post)
{
    struct shm *shm = MC_CONTAINER_OF(post, struct shm, more);

    shm->more_posted = false;
    if (shm->closing) {
        mc_free(shm);
        return;
    }
    if (!mc_list_empty(&shm->queued)) {
        run_slice(shm);
    }
    post_more(shm);
}

/* ---- links --------------------------------------------------------------------------------- */

static struct link *find_link(struct shm *shm, uint64_t mount_id)
{
    mc_list_for_each (node, &shm->links) {
        struct link *link = MC_CONTAINER_OF(node, struct link, node);

        if (link->mount_id == mount_id) {
            return link;
        }
    }
    return NULL;
}

static void free_poll(uv_handle_t *handle)
{
    mc_free(handle);
}

/* Stop the handshake's timer and watcher. The descriptor stays with the caller. */
static void quiet_link(struct link *link)
{
    mc_timer_destroy(&link->timer);
    if (link->poll != NULL) {
        (void)uv_poll_stop(link->poll);
        uv_close((uv_handle_t *)link->poll, free_poll);
        link->poll = NULL;
    }
}

static void drop_link(struct link *link)
{
    MC_ASSERT(mc_list_empty(&link->ops));
    quiet_link(link);
    if (link->fd >= 0) {
        (void)close(link->fd);
    }
    mc_list_drop(&link->node);
    link->shm->links_count--;
    mc_free(link);
}

/* For whoever notes that another transport is taken instead. */
static mooncake_err tell_failure(const char *step, int error)
{
    return mc_err_set(MOONCAKE_ERPC, "shared memory: %s: %s%s", step, strerror(error),
                      error == EACCES ? ": only its own user and root may (its option --shm)" : "");
}

/* The store cannot be reached this way: say so once, and let others take the ops. */
static void fail_link(struct link *link, const char *what, int error)
{
    struct shm *shm = link->shm;
    struct mc_list ops;

    mc_log_info("shm.unreachable", "mount=%016llx step=%s err=\"%s\"",
                (unsigned long long)link->mount_id, what, strerror(error));
    quiet_link(link);
    if (link->fd >= 0) {
        (void)close(link->fd);
        link->fd = -1;
    }
    link->state = LINK_FAILED;
    link->failed_until_ns = mc_loop_now_ns(shm->transport.loop) + FORGET_FAILURE_NS;
    link->step = what;
    link->error = error;
    mc_list_init(&ops);
    mc_list_splice_tail(&ops, &link->ops); /* the link may go with the first of them */
    while (!mc_list_empty(&ops)) {
        finish(shm, mc_list_first(&ops, struct mc_xfer_op, node), tell_failure(what, error));
    }
}

/* The store has answered that it does not serve the mount (or not this way). */
static void refuse_link(struct link *link, mooncake_err err)
{
    struct shm *shm = link->shm;
    struct mc_list ops;

    mc_list_init(&ops);
    mc_list_splice_tail(&ops, &link->ops);
    drop_link(link);
    while (!mc_list_empty(&ops)) {
        finish(shm, mc_list_first(&ops, struct mc_xfer_op, node), err);
    }
}

static void on_handshake_late(void *arg)
{
    fail_link(arg, "answer", ETIMEDOUT);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct link *link = poll->data;
    struct shm *shm = link->shm;
    uint8_t bytes[MC_SHM_MESSAGE_LEN];
    struct mc_shm_reply reply;
    struct mc_shm_map *map;
    int memfd;
    ssize_t n;

    (void)events;
    MC_ASSERT_ON_LOOP(shm->transport.loop);
    memfd = -1;
    n = status < 0 ? 0 : mc_shm_receive(link->fd, bytes, &memfd);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0 || mc_shm_reply_decode(bytes, (size_t)n, &reply) != MOONCAKE_OK ||
        (reply.status == 0) != (memfd >= 0)) {
        if (memfd >= 0) {
            (void)close(memfd);
        }
        fail_link(link, "answer", n == 0 ? EACCES : n < 0 ? errno : EBADMSG); /* 0: refused */
        return;
    }
    if (reply.status == MOONCAKE_ENOSEGMENT) {
        refuse_link(link, MOONCAKE_ENOSEGMENT);
        return;
    }
    if (reply.status != 0) {
        fail_link(link, "answer", EACCES);
        return;
    }
    quiet_link(link);
    if (mc_shm_map_add(link->mount_id, memfd, reply.len, link->fd, &map) != MOONCAKE_OK) {
        link->fd = -1;
        fail_link(link, "map", EINVAL);
        return;
    }
    link->fd = -1;
    mc_log_info("shm.mapped", "mount=%016llx bytes=%llu", (unsigned long long)link->mount_id,
                (unsigned long long)reply.len);
    mc_shm_map_return(map);
    mc_list_splice_tail(&shm->queued, &link->ops);
    drop_link(link);
    post_more(shm);
}

static mooncake_err ask_for_memory(struct link *link, const struct sockaddr_un *address)
{
    mooncake_err err = mc_shm_ask(address, link->mount_id, &link->fd);

    if (err != MOONCAKE_OK) {
        link->error = errno;
        return err;
    }
    link->poll = mc_calloc(1, sizeof(*link->poll));
    if (link->poll == NULL) {
        return MOONCAKE_ENOMEM;
    }
    if (uv_poll_init(mc_loop_uv(link->shm->transport.loop), link->poll, link->fd) != 0) {
        mc_free(link->poll);
        link->poll = NULL;
        return MOONCAKE_EINTERNAL;
    }
    link->poll->data = link;
    (void)uv_poll_start(link->poll, UV_READABLE | UV_DISCONNECT, on_readable);
    MC_TRY(mc_timer_create(link->shm->transport.loop, on_handshake_late, link, &link->timer));
    mc_timer_set(link->timer, link->shm->handshake_ms, 0);
    return MOONCAKE_OK;
}

/* Room for another link: forget the oldest failure. */
static bool make_room(struct shm *shm)
{
    if (shm->links_count < LINKS_MAX) {
        return true;
    }
    mc_list_for_each (node, &shm->links) {
        struct link *link = MC_CONTAINER_OF(node, struct link, node);

        if (link->state == LINK_FAILED) {
            drop_link(link);
            return true;
        }
    }
    return false;
}

static mooncake_err open_link(struct shm *shm, const struct mc_target *target, struct link **out)
{
    struct sockaddr_un address;
    struct link *link;
    mooncake_err err;

    if (!mc_shm_address_find(target->addresses, &address) || !make_room(shm)) {
        return MOONCAKE_ERPC;
    }
    link = mc_calloc(1, sizeof(*link));
    if (link == NULL) {
        return MOONCAKE_ENOMEM;
    }
    link->shm = shm;
    link->mount_id = target->mount_id;
    link->fd = -1;
    link->state = LINK_SHAKING;
    mc_list_init(&link->ops);
    mc_list_add_tail(&shm->links, &link->node);
    shm->links_count++;
    err = ask_for_memory(link, &address);
    if (err == MOONCAKE_ERPC) {
        fail_link(link, "connect", link->error);
        return tell_failure("connect", link->error);
    }
    if (err != MOONCAKE_OK) {
        drop_link(link);
        return err;
    }
    *out = link;
    return MOONCAKE_OK;
}

/* To the ops that can be done at once, or to those that wait for the memory. */
static mooncake_err queue(struct shm *shm, struct mc_xfer_op *op)
{
    struct mc_shm_map *map = mc_shm_map_borrow(op->extent.mount_id);
    struct link *link;

    if (map != NULL) {
        mc_shm_map_return(map);
        mc_list_add_tail(&shm->queued, &op->node);
        return MOONCAKE_OK;
    }
    link = find_link(shm, op->extent.mount_id);
    if (link == NULL) {
        MC_TRY(open_link(shm, op->target, &link));
    }
    if (link->state == LINK_FAILED) {
        return tell_failure(link->step, link->error);
    }
    mc_list_add_tail(&link->ops, &op->node);
    return MOONCAKE_OK;
}

/* ---- the vtable ---------------------------------------------------------------------------- */

static mooncake_err shm_open_instance(struct mc_loop *loop,
                                      const struct mc_transport_options *options,
                                      struct mc_transport **out)
{
    struct shm *shm = mc_calloc(1, sizeof(*shm));

    if (shm == NULL) {
        return MOONCAKE_ENOMEM;
    }
    shm->transport.ops = &mc_transport_shm;
    shm->transport.loop = loop;
    shm->handshake_ms = options->connect_timeout_ms < HANDSHAKE_MS_MAX ? options->connect_timeout_ms
                                                                       : HANDSHAKE_MS_MAX;
    shm->copiers = options->copiers;
    shm->more.run = on_more;
    mc_list_init(&shm->links);
    mc_list_init(&shm->queued);
    *out = &shm->transport;
    return MOONCAKE_OK;
}

static void shm_close(struct mc_transport *transport)
{
    struct shm *shm = shm_of(transport);

    MC_ASSERT_ON_LOOP(transport->loop);
    while (!mc_list_empty(&shm->queued)) {
        finish(shm, mc_list_first(&shm->queued, struct mc_xfer_op, node), MOONCAKE_ERPC);
    }
    while (!mc_list_empty(&shm->links)) {
        struct link *link = mc_list_first(&shm->links, struct link, node);

        if (link->state == LINK_SHAKING) {
            fail_link(link, "close", ECANCELED);
        }
        drop_link(link);
    }
    shm->closing = true;
    if (!shm->more_posted) {
        mc_free(shm);
    }
}

static bool shm_reaches(struct mc_transport *transport, const struct mc_target *target)
{
    struct shm *shm = shm_of(transport);
    struct sockaddr_un address;
    struct link *link = find_link(shm, target->mount_id);

    if (link != NULL && link->state == LINK_FAILED &&
        mc_loop_now_ns(transport->loop) >= link->failed_until_ns) {
        drop_link(link);
        link = NULL;
    }
    return (link == NULL || link->state == LINK_SHAKING) &&
           mc_shm_address_find(target->addresses, &address);
}

static mooncake_err shm_submit(struct mc_transport *transport, struct mc_xfer_op *op)
{
    MC_ASSERT_ON_LOOP(transport->loop);
    MC_ASSERT(op->done != NULL);
    MC_ASSERT(op->lend != NULL || mc_xfer_op_len(op) == op->extent.payload_len);
    op->retries = 0;
    return queue(shm_of(transport), op);
}

static void shm_flush(struct mc_transport *transport)
{
    struct shm *shm = shm_of(transport);

    if (!mc_list_empty(&shm->queued)) {
        run_slice(shm);
    }
    post_more(shm);
}

/* Between two calls an op is in a list and nothing else: neither thread nor kernel works on it. */
static void shm_cancel(struct mc_transport *transport, struct mc_xfer_op *op)
{
    MC_ASSERT_ON_LOOP(transport->loop);
    MC_ASSERT(mc_list_linked(&op->node));
    mc_list_drop(&op->node);
}

static const struct mc_transport_stats *shm_stats(const struct mc_transport *transport)
{
    return &((const struct shm *)(const void *)transport)->stats;
}

static uint64_t shm_moved(const struct mc_transport *transport)
{
    const struct mc_transport_stats *stats = shm_stats(transport);

    return mc_counter_get(&stats->bytes_read) + mc_counter_get(&stats->bytes_written);
}

const struct mc_transport_ops mc_transport_shm = {
    .kind = "shm",
    .caps = MC_TRANSPORT_LENDS,
    .open = shm_open_instance,
    .close = shm_close,
    .reaches = shm_reaches,
    .submit = shm_submit,
    .flush = shm_flush,
    .cancel = shm_cancel,
    .stats = shm_stats,
    .moved = shm_moved,
};
