/* See rdma_rig.h. */
#include "rdma_rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void open_engine(struct rdma_rig *rig)
{
    rig_engine_open(&rig->engine, "rdma", 11, 1, &rig->options);
    rig_engine_add_rdma(&rig->engine, rig->server);
}

static void open_all(struct rdma_rig *rig)
{
    rig->store.devices = "fake2,fake3";
    assert_int_equal(mc_rdma_server_open(&rig->store, &rig->server), MOONCAKE_OK);
    assert_int_equal(
        mc_rdma_server_add_segment(rig->server, rig->segment.mount.base, RDMA_RIG_SEGMENT_LEN),
        MOONCAKE_OK);
    rig_segment_serve(&rig->segment);
    assert_int_equal(mc_memreg_create(&rig->memreg), MOONCAKE_OK);
    assert_int_equal(mc_memreg_add(rig->memreg, rig->out, RDMA_RIG_BUFFER_LEN), MOONCAKE_OK);
    assert_int_equal(mc_memreg_add(rig->memreg, rig->in, RDMA_RIG_BUFFER_LEN), MOONCAKE_OK);
    rig->options.memreg = rig->memreg;
    open_engine(rig);
}

static void close_all(struct rdma_rig *rig)
{
    rig_engine_close(&rig->engine);
    mc_mount_drop(rig->segment.mount.mount_id);
    mc_rdma_server_close(&rig->server);
    mc_memreg_destroy(&rig->memreg);
}

void rdma_rig_restart(struct rdma_rig *rig)
{
    close_all(rig);
    open_all(rig);
}

int rdma_rig_open(void **state)
{
    struct rdma_rig *rig = calloc(1, sizeof(*rig));

    assert_non_null(rig);
    fake_verbs_install();
    rig->out = malloc(RDMA_RIG_BUFFER_LEN);
    rig->in = malloc(RDMA_RIG_BUFFER_LEN);
    rig->loose = malloc(RDMA_RIG_BUFFER_LEN);
    assert_true(rig->out != NULL && rig->in != NULL && rig->loose != NULL);
    rig_segment_open(&rig->segment, 11, RDMA_RIG_SEGMENT_LEN);
    assert_int_equal(mc_peers_create(&rig->peers), MOONCAKE_OK);
    rig->options = (struct mc_transport_options){.connect_timeout_ms = 2000,
                                                 .peers = rig->peers,
                                                 .rdma_devices = "fake0,fake1",
                                                 .rdma_stall_ms = 4000,
                                                 .rdma_staging_wait_ms = 1000};
    open_all(rig);
    *state = rig;
    return 0;
}

int rdma_rig_close(void **state)
{
    struct rdma_rig *rig = *state;

    close_all(rig);
    mc_peers_destroy(&rig->peers);
    fake_verbs_uninstall();
    rig_segment_close(&rig->segment);
    free(rig->out);
    free(rig->in);
    free(rig->loose);
    free(rig);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

void rdma_rig_reopen(struct rdma_rig *rig)
{
    rig_engine_close(&rig->engine);
    open_engine(rig);
}

void rdma_rig_put(struct rdma_rig *rig, uint64_t offset, size_t len, uint64_t seed)
{
    struct mc_extent_ref extent = rig_extent(&rig->segment, offset, len, offset);

    rig_fill(rig->out, len, seed);
    assert_int_equal(rig_do(&rig->engine, MC_RIGHT_WRITE, &extent, rig->out), MOONCAKE_OK);
}

mooncake_err rdma_rig_read(struct rdma_rig *rig, uint64_t offset, size_t len, void *to)
{
    struct mc_extent_ref extent = rig_extent(&rig->segment, offset, len, offset);

    return rig_do(&rig->engine, MC_RIGHT_READ, &extent, to);
}

void rdma_rig_get(struct rdma_rig *rig, uint64_t offset, size_t len, uint64_t seed)
{
    memset(rig->in, 0xee, len);
    assert_int_equal(rdma_rig_read(rig, offset, len, rig->in), MOONCAKE_OK);
    rig_check(rig->in, len, seed);
}

struct mc_peer_info rdma_rig_peer(struct rdma_rig *rig)
{
    struct mc_peer_info info;

    assert_int_equal(mc_peers_list(rig->peers, &info, 1), 1);
    return info;
}

const char *rdma_rig_path_state(struct rdma_rig *rig, const char *device)
{
    static struct mc_peer_info peer;

    peer = rdma_rig_peer(rig);
    for (unsigned i = 0; i < peer.paths_count; i++) {
        if (strcmp(peer.paths[i].device, device) == 0) {
            return peer.paths[i].state;
        }
    }
    return "";
}

int64_t rdma_rig_connections(const struct rdma_rig *rig)
{
    return mc_gauge_get(&rig->engine.transport->ops->stats(rig->engine.transport)->connections);
}

void rdma_rig_connect_all(struct rdma_rig *rig, size_t len)
{
    const struct mc_gauge *served = &mc_rdma_server_stats(rig->server)->connections;
    uint64_t until_ns = mc_monotonic_ns() + RIG_WAIT_NS;

    do {
        assert_true(mc_monotonic_ns() < until_ns);
        rdma_rig_put(rig, 0, len, 1);
        rdma_rig_get(rig, 0, len, 1);
    } while (rdma_rig_connections(rig) < 4 || mc_gauge_get(served) != 4);
}
