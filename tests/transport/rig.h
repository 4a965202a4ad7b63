/*
 * What the transport tests share: a segment in memory, an engine (a loop with one transport), ops
 * on extents, and a store in a process of its own that can be stopped and killed.
 */
#ifndef MC_TESTS_TRANSPORT_RIG_H
#define MC_TESTS_TRANSPORT_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/types.h>

#include "base/clock.h"
#include "io/loop.h"
#include "transport/mount_table.h"
#include "transport/rdma_server.h"
#include "transport/shm_server.h"
#include "transport/tcp_server.h"
#include "transport/transport.h"

#define RIG_WAIT_NS (60 * MC_NS_PER_S)

/* Run @p loop until @p condition holds; the test fails if it does not within RIG_WAIT_NS. */
#define RIG_RUN_UNTIL(loop, condition)                                                             \
    do {                                                                                           \
        uint64_t until_ = mc_monotonic_ns() + RIG_WAIT_NS;                                         \
        while (!(condition)) {                                                                     \
            assert_true(mc_monotonic_ns() < until_);                                               \
            rig_run_a_little(loop);                                                                \
        }                                                                                          \
    } while (0)

/* ---- segment --------------------------------------------------------------------------------- */

struct rig_segment {
    struct mc_mount mount; /* memory is shared with a store process, if there is one */
    /* The same memory at another address, for tests to look and meddle: the thread sanitizer does
     * not know that an answer over a socket comes after the store's reads and writes. */
    uint8_t *view;
};

void rig_segment_open(struct rig_segment *segment, uint64_t mount_id, uint64_t len);
void rig_segment_close(struct rig_segment *segment);
void rig_segment_serve(struct rig_segment *segment); /* mc_mount_add() in this process */

/* ---- store process --------------------------------------------------------------------------- */

struct rig_store {
    pid_t pid;
    int to_child; /* closing it ends the child */
    uint16_t port;
};

/* If this process was started as a store, be one and do not return. First thing in main(). */
void rig_store_main(int argc, char **argv);
/* Serve @p segment from another process, on @p port (0: any). */
void rig_store_open(struct rig_store *store, const struct rig_segment *segment, uint16_t port);
void rig_store_close(struct rig_store *store); /* accepts a killed one, and zeroes */
void rig_store_kill(struct rig_store *store);
void rig_store_freeze(struct rig_store *store); /* it stands still at the return */
void rig_store_thaw(struct rig_store *store);

/* ---- engine ---------------------------------------------------------------------------------- */

struct rig_engine {
    struct mc_loop *loop;
    struct mc_transport_set set;
    struct mc_transport *transport; /* the one kind that was asked for */
    struct mc_target target;
    char addresses[1024];
};

extern const struct mc_transport_options rig_options;
extern uint32_t rig_poll_us; /* of engines and store processes opened from now on; 0 at first */

void rig_engine_open(struct rig_engine *engine, const char *kind, uint64_t mount_id, uint16_t port,
                     const struct mc_transport_options *options);
/* The segment can also be reached through this server. */
void rig_engine_add_shm(struct rig_engine *engine, const struct mc_shm_server *server);
void rig_engine_add_rdma(struct rig_engine *engine, const struct mc_rdma_server *server);
void rig_engine_close(struct rig_engine *engine);
void rig_run_a_little(struct mc_loop *loop);

/* ---- ops ------------------------------------------------------------------------------------- */

struct rig_op {
    struct mc_xfer_op op; /* first */
    struct iovec piece;   /* when there is only one */
    bool done;
};

/* An extent with all rights and a genuine capability. */
struct mc_extent_ref rig_extent(const struct rig_segment *segment, uint64_t offset, uint64_t len,
                                uint64_t object);
/** A good extent of @p len bytes at offset 0, put there without a transport. */
struct mc_extent_ref rig_plant(struct rig_segment *segment, size_t len, uint64_t seed);
const struct mc_transport_stats *rig_stats(const struct rig_engine *engine);
void rig_op_init(struct rig_op *op, const struct rig_engine *engine, enum mc_rights right,
                 const struct mc_extent_ref *extent, void *bytes);
void rig_submit(struct rig_engine *engine, struct rig_op *op);
void rig_wait(struct rig_engine *engine, struct rig_op *op);
/* Do one op and return how it ended. */
mooncake_err rig_do(struct rig_engine *engine, enum mc_rights right,
                    const struct mc_extent_ref *extent, void *bytes);

/* Bytes that say where they belong: position and seed decide. */
void rig_fill(void *bytes, size_t len, uint64_t seed);
void rig_check(const void *bytes, size_t len, uint64_t seed);

unsigned rig_count_fds(void);

#endif
