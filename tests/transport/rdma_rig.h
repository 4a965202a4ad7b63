/*
 * A store and a client over the fake verbs, for the tests of what goes wrong: the store listens on
 * fake2 and fake3, the client has fake0 and fake1. Time-outs are short, but long enough for a
 * machine that is busy: a test of one makes it shorter.
 */
#ifndef MC_TESTS_TRANSPORT_RDMA_RIG_H
#define MC_TESTS_TRANSPORT_RDMA_RIG_H

#include "rig.h"

#include "fake/fake_verbs.h"
#include "transport/memreg.h"
#include "transport/peers.h"

#define RDMA_RIG_SEGMENT_LEN ((uint64_t)48 << 20)
#define RDMA_RIG_BUFFER_LEN ((size_t)40 << 20)

struct rdma_rig {
    struct rig_segment segment;
    struct mc_rdma_server *server;
    struct mc_memreg *memreg;
    struct mc_peers *peers;
    struct mc_transport_options options;
    struct mc_rdma_server_options store; /* for the next restart */
    struct rig_engine engine;
    uint8_t *out, *in; /* RDMA_RIG_BUFFER_LEN each, registered */
    uint8_t *loose;    /* as long, not registered */
};

int rdma_rig_open(void **state);
int rdma_rig_close(void **state); /* fails if anything is left of the fake or of memory */
/* Open the engine anew after options were changed. */
void rdma_rig_reopen(struct rdma_rig *rig);

/* Store and engine anew, after the devices' limits were changed: they are asked for at the start.
 */
void rdma_rig_restart(struct rdma_rig *rig);

/* Write and read back @p len bytes at @p offset by registered memory; both must go well. */
void rdma_rig_put(struct rdma_rig *rig, uint64_t offset, size_t len, uint64_t seed);
void rdma_rig_get(struct rdma_rig *rig, uint64_t offset, size_t len, uint64_t seed);
mooncake_err rdma_rig_read(struct rdma_rig *rig, uint64_t offset, size_t len, void *to);
struct mc_peer_info rdma_rig_peer(struct rdma_rig *rig);
/* What peers tell of the path over @p device ("up", "paused"); "": nothing. Valid until the next.
 */
const char *rdma_rig_path_state(struct rdma_rig *rig, const char *device);
/* Connections of the client that are up. */
int64_t rdma_rig_connections(const struct rdma_rig *rig);
/* Put and get @p len bytes at 0 until all paths are up in both directions, and the store has no
 * other connections: a path that is late finds nothing to do, and gives up. */
void rdma_rig_connect_all(struct rdma_rig *rig, size_t len);

#define RDMA_RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rdma_rig_open, rdma_rig_close)

#endif
