/*
 * The serving core of a store: lends segments of this process to the pool, serves them over TCP,
 * and keeps this process a member of the pool (ping, mount, mount again when the master has
 * forgotten, leave). The daemon runs it on its main loop, a client embeds it on a loop of its own;
 * a client that lends nothing uses it with no segments, as its membership.
 *
 * Thread: the owner of the loop given to mc_store_open(). Nothing here waits for the master.
 */
#ifndef MC_STORE_STORE_SERVE_H
#define MC_STORE_STORE_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/loop.h"
#include "transport/rdma_server.h"
#include "transport/shm_server.h"
#include "wire/messages.h"

/* Smallest segment that can be lent, in bytes: little of use would fit into less. */
#define MC_SEGMENT_LEN_MIN (64u << 10)

struct mc_store;

/* How the membership stands. */
enum mc_store_state {
    MC_STORE_JOINING, /* trying to reach the master, or to get everything mounted */
    MC_STORE_JOINED,  /* the master knows us, and every segment is mounted */
    MC_STORE_LEAVING,
    MC_STORE_LEFT,
};

struct mc_store_options {
    const char *master;  /* "host:port" */
    const char *program; /* what the pool's lists show: "mooncake_store 0.1.0" */
    enum mc_role role;
    uint64_t client_id;

    /* Segments to lend; 0 lends nothing, and then the fields up to loops are not read. Their names
     * are NAME, NAME/1, NAME/2 and so on. */
    const uint64_t *segment_lens;
    size_t segments_count;
    bool huge_pages;
    /* "host:port" is taken as it is; "host" gets the data port; NULL: this machine's name. */
    const char *name;
    const char *data_address;   /* "0.0.0.0:0": the kernel picks the port */
    const char *advertise_host; /* NULL: the address that reaches the master, see advertise.h */
    unsigned loops;             /* data threads, 1 to 16 */
    /* Which processes of this host may map the segments, and where the socket for it is (NULL or
     * "": see shm_server.h). Without a directory of the caller's choice the store goes on over TCP
     * alone when none can be used. */
    enum mc_shm_policy shm;
    const char *shm_dir;
    /* RDMA: the segments are registered before they are mounted. AUTO goes on without it where it
     * does not work and says why once. Which devices and GIDs: see rdma_server.h. */
    enum mc_rdma_policy rdma;
    const char *rdma_devices, *rdma_gid_index;

    /* Optional: what a client around this core has counted, told with each ping. On the loop's
     * thread. */
    void (*counts)(void *arg, struct mc_ping_counts *out);
    void *counts_arg; /* lives as long as the store */

    uint32_t poll_us;
    uint32_t connect_timeout_ms;

    /* After each change, and after each attempt to join that failed (then @p err says why, and
     * mooncake_last_error() more; trying goes on by itself). Called from the loop. NULL allowed. */
    void (*on_state)(void *arg, enum mc_store_state state, mooncake_err err);
    void *arg;
};

/**
 * Make the segments, serve them, and begin to join the pool. Everything in @p options is copied.
 *
 * @retval EINVAL   an option is out of range or shm_dir cannot be used: the sentence says which
 * @retval ENOMEM   the segments cannot be mapped, or not registered although rdma is ON
 * @retval ENOTSUP  rdma is ON and this machine has none
 * @retval ERPC    data_address is in use
 */
mooncake_err mc_store_open(struct mc_loop *loop, const struct mc_store_options *options,
                           struct mc_store **out) MC_MUST_CHECK;
enum mc_store_state mc_store_state(const struct mc_store *store);
/** Name of the first segment, or of this process if it lends none. As long as the store. */
const char *mc_store_name(const struct mc_store *store);
/** Port on which the segments are served; 0 if there are none. */
uint16_t mc_store_data_port(const struct mc_store *store);

/**
 * Leave the pool: nothing new is placed here from now on, reads are served for @p grace_ms, then
 * goodbye. State LEFT ends it, within grace_ms plus a few seconds also when the master is silent.
 * A second call can only shorten the grace.
 */
void mc_store_leave(struct mc_store *store, uint64_t grace_ms);
/** Stop serving, free everything. Without mc_store_leave() the master finds out by silence. The
 * loop's remaining turns (mc_loop_destroy) let go of the rest. Nulls *store. */
void mc_store_close(struct mc_store **store);

#endif
