/*
 * The simplest transport: the segment is served by this very process, so an op is one copy with the
 * checksum taken on the way. Everything happens inside submit.
 */
#include "base/mem.h"
#include "transport/direct.h"
#include "transport/mount_table.h"
#include "transport/shm_map.h"
#include "transport/transport.h"

struct local {
    struct mc_transport transport; /* first */
    struct mc_transport_stats stats;
};

static struct local *local_of(struct mc_transport *transport)
{
    return MC_CONTAINER_OF(transport, struct local, transport);
}

static mooncake_err local_open(struct mc_loop *loop, const struct mc_transport_options *options,
                               struct mc_transport **out)
{
    struct local *local = mc_calloc(1, sizeof(*local));

    (void)options;
    if (local == NULL) {
        return MOONCAKE_ENOMEM;
    }
    local->transport.ops = &mc_transport_local;
    local->transport.loop = loop;
    *out = &local->transport;
    return MOONCAKE_OK;
}

static void local_close(struct mc_transport *transport)
{
    mc_free(local_of(transport));
}

static bool local_reaches(struct mc_transport *transport, const struct mc_target *target)
{
    const struct mc_mount *mount = mc_mount_borrow(target->mount_id);

    (void)transport;
    if (mount == NULL) {
        return false;
    }
    mc_mount_return(mount);
    return true;
}

/* Lent from a second mapping, which may outlive the mount. */
static mooncake_err lend(const struct mc_mount *mount, const struct mc_xfer_op *op)
{
    struct mc_shm_map *map = mc_shm_map_borrow(mount->mount_id);
    mooncake_err err;

    if (map == NULL && mount->memfd < 0) {
        return MOONCAKE_ERPC;
    }
    if (map == NULL) {
        MC_TRY(mc_shm_map_own(mount->mount_id, mount->memfd, mount->len, &map));
    }
    mc_touched_range(map->touched, op->extent.offset,
                     MC_EXTENT_HEADER_LEN + op->extent.payload_len);
    err = mc_direct_prove(map->base, op);
    if (err == MOONCAKE_OK) {
        mc_lend_init(op->lend, map, op->extent.offset + MC_EXTENT_HEADER_LEN,
                     op->extent.payload_len);
    }
    mc_shm_map_return(map);
    return err;
}

static mooncake_err run(struct mc_xfer_op *op)
{
    const struct mc_mount *mount = mc_mount_borrow(op->extent.mount_id);
    mooncake_err err;

    if (mount == NULL) {
        return MOONCAKE_ENOSEGMENT;
    }
    err = mc_mount_check(mount, &op->extent, op->right);
    if (err == MOONCAKE_OK) {
        mc_mount_touch(mount, op->extent.offset, MC_EXTENT_HEADER_LEN + op->extent.payload_len);
    }
    if (err == MOONCAKE_OK && op->lend != NULL) {
        err = lend(mount, op);
    } else if (err == MOONCAKE_OK && op->right == MC_RIGHT_READ) {
        err = mc_direct_read(mount->base, op);
    } else if (err == MOONCAKE_OK) {
        mc_direct_write(mount->base, op);
    }
    mc_mount_return(mount);
    return err;
}

static mooncake_err local_submit(struct mc_transport *transport, struct mc_xfer_op *op)
{
    struct local *local = local_of(transport);

    MC_ASSERT_ON_LOOP(transport->loop);
    MC_ASSERT(op->done != NULL);
    MC_ASSERT(op->lend != NULL || mc_xfer_op_len(op) == op->extent.payload_len);
    op->err = run(op);
    mc_counter_add_owner(&local->stats.ops, 1);
    if (op->err != MOONCAKE_OK) {
        mc_counter_add_owner(&local->stats.failures, 1);
    } else if (op->right == MC_RIGHT_READ) {
        mc_counter_add_owner(&local->stats.bytes_read, op->extent.payload_len);
    } else {
        mc_counter_add_owner(&local->stats.bytes_written, op->extent.payload_len);
    }
    op->done(op);
    return MOONCAKE_OK;
}

static void local_flush(struct mc_transport *transport)
{
    (void)transport; /* nothing is ever queued */
}

static void local_cancel(struct mc_transport *transport, struct mc_xfer_op *op)
{
    (void)transport;
    (void)op;
    MC_ASSERT(false); /* an op is never under way between two calls */
}

static const struct mc_transport_stats *local_stats(const struct mc_transport *transport)
{
    return &((const struct local *)(const void *)transport)->stats;
}

static uint64_t local_moved(const struct mc_transport *transport)
{
    const struct mc_transport_stats *stats = local_stats(transport);

    return mc_counter_get(&stats->bytes_read) + mc_counter_get(&stats->bytes_written);
}

const struct mc_transport_ops mc_transport_local = {
    .kind = "local",
    .caps = MC_TRANSPORT_COPIES_INLINE | MC_TRANSPORT_LENDS,
    .open = local_open,
    .close = local_close,
    .reaches = local_reaches,
    .submit = local_submit,
    .flush = local_flush,
    .cancel = local_cancel,
    .stats = local_stats,
    .moved = local_moved,
};
