/*
 * The store's side of `tcp`: data loops that accept on one port and serve reads from and writes to
 * the mounts of mount_table.h. Each loop has its own thread and its own connections.
 */
#ifndef MC_TRANSPORT_TCP_SERVER_H
#define MC_TRANSPORT_TCP_SERVER_H

#include <stdint.h>

#include "base/err.h"
#include "base/metric.h"
#include "io/loop.h"

struct mc_tcp_server;

struct mc_tcp_server_options {
    const char *address; /* "0.0.0.0:0" */
    unsigned loops;      /* threads, 1 to 16 */
    uint32_t poll_us;    /* see mc_loop_create() */
    uint32_t stall_ms;   /* a peer that neither takes nor gives bytes inside a request for so long
                            is closed; 0: 30000 */
};

struct mc_tcp_server_stats {
    struct mc_counter accepted, refused_requests, reads, writes, bytes_read, bytes_written,
        bad_frames;
    struct mc_gauge connections;
};

/** Start the loops. ERPC (address in use), ENOMEM, EINVAL. */
mooncake_err mc_tcp_server_open(const struct mc_tcp_server_options *options,
                                struct mc_tcp_server **out) MC_MUST_CHECK;
uint16_t mc_tcp_server_port(const struct mc_tcp_server *server);
/** Wait, at most @p grace_ms, until no request is under way, then close and join. Nulls it. */
void mc_tcp_server_close(struct mc_tcp_server **server, uint32_t grace_ms);
const struct mc_tcp_server_stats *mc_tcp_server_stats(const struct mc_tcp_server *server);
/** Of all data loops together. Any thread. */
struct mc_loop_stats mc_tcp_server_loop_stats(const struct mc_tcp_server *server);

#endif
