/* What serve.c (memory, data port, life) and membership.c (talk with the master) share. */
#ifndef MC_STORE_STORE_IMPL_H
#define MC_STORE_STORE_IMPL_H

#include "base/limits.h"
#include "base/mem.h"
#include "base/metric.h"
#include "store/segment.h"
#include "store/store_serve.h"
#include "transport/shm_wire.h"
#include "transport/tcp_server.h"
#include "wire/master_stub.h"

/* Text of all addresses of a segment: tcp://HOST:PORT, shm://... and one rdma://... a port. */
#define MC_STORE_ADDRESS_CAP (MC_ADDRESSES_LEN_MAX + 1u)

/* One segment and the identity under which it is mounted now. */
struct mc_store_mount {
    char name[MC_SEGMENT_NAME_LEN_MAX + 1];
    struct mc_segment segment;
    uint64_t mount_id; /* 0: not served yet */
    uint64_t secret[2];
    bool mounted; /* the master has said so, and has not forgotten since */
    bool again;   /* it was mounted once: the next mount replaces that one */
};

/* One call of a kind that is made again and again; at most one is under way. */
struct mc_store_call {
    struct mc_master_call call;
    struct mc_arena arena;
    bool under_way;
};

struct mc_store {
    struct mc_loop *loop;
    char *master, *program, *host, *data_address, *advertise_host; /* owned */
    char name[MC_SEGMENT_NAME_LEN_MAX + 1];
    enum mc_role role;
    void (*counts)(void *arg, struct mc_ping_counts *out); /* NULL: none */
    void *counts_arg;
    uint64_t client_id;
    void (*on_state)(void *arg, enum mc_store_state state, mooncake_err err);
    void *arg;

    struct mc_store_mount *mounts; /* owned, mounts_count of them */
    size_t mounts_count;
    struct mc_tcp_server *server;       /* owned; NULL without segments */
    struct mc_shm_server *shm_server;   /* owned; NULL: the segments are not shared on this host */
    struct mc_rdma_server *rdma_server; /* owned; NULL: they cannot be reached by RDMA */
    uint16_t port;
    char addresses[MC_STORE_ADDRESS_CAP]; /* "" until the route to the master is known */

    enum mc_store_state state;
    struct mc_master_stub stub;
    bool stub_open;
    struct mc_timer *tick;  /* owned; each second */
    struct mc_timer *grace; /* owned; ends the grace of a leave */
    struct mc_store_call ping, mount, unmount;
    struct mc_ping_reply ping_reply;
    struct mc_status_reply mount_reply, unmount_reply;
    bool pinged;               /* the last ping was answered */
    bool heard;                /* one was, ever */
    bool eager;                /* at the beginning: pings follow each other fast */
    uint64_t patient_until_ns; /* so long the log is spared that no master is there */
    mooncake_err join_err;     /* why joining has last failed */
    uint64_t leave_at_ns;

    uint64_t apart_since_ns;      /* JOINING after having been JOINED: since then; else 0 */
    struct mc_histogram reattach; /* how long that took, each time */
    struct mc_counter ping_failures, forgotten;
};

/** Sharing is a shortcut: it is done without (and *out left alone) if it is off, or if the usual
 * directory cannot be used. A directory of the caller's choice must do. */
mooncake_err mc_store_open_shm(const char *dir, enum mc_shm_policy policy,
                               struct mc_shm_server **out) MC_MUST_CHECK;

/** Open the stub and start the clock. */
mooncake_err mc_membership_begin(struct mc_store *store, uint32_t connect_timeout_ms) MC_MUST_CHECK;
/** Stop all calls and timers; the master is told nothing. */
void mc_membership_end(struct mc_store *store);

/** Serve @p mount under a fresh mount id and secret; what was handed out before is refused from
 * now on. On error it is not served at all. */
mooncake_err mc_store_renew(struct mc_store_mount *mount) MC_MUST_CHECK;

#endif
