/*
 * The server's end of one data connection: takes requests in, checks them against the mounts, and
 * moves bytes between the stream and the segment. Private to the server.
 *
 * Thread: the owner of the stream's loop.
 */
#ifndef MC_TRANSPORT_TCP_SESSION_H
#define MC_TRANSPORT_TCP_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "io/stream.h"
#include "transport/tcp_server.h"

struct mc_tcp_session;

/* What the sessions of one loop share. */
struct mc_tcp_session_group {
    struct mc_loop *loop;              /* borrowed */
    struct mc_tcp_server_stats *stats; /* borrowed */
    struct mc_list sessions;
    uint64_t requests_now;        /* taken in and not answered whole */
    _Atomic unsigned connections; /* sessions, open or expected; any thread may read it */
    /* requests_now has become 0. */
    void (*on_idle)(struct mc_tcp_session_group *group);
};

void mc_tcp_session_group_init(struct mc_tcp_session_group *group, struct mc_loop *loop,
                               struct mc_tcp_server_stats *stats,
                               void (*on_idle)(struct mc_tcp_session_group *group));
/** A call of mc_tcp_session_open() is on its way: count it already. Any thread. */
void mc_tcp_session_expect(struct mc_tcp_session_group *group);
/** It will not come. */
void mc_tcp_session_unexpect(struct mc_tcp_session_group *group);
/** Serve the peer at @p fd, which is taken in every case. Was expected. */
mooncake_err mc_tcp_session_open(struct mc_tcp_session_group *group, int fd) MC_MUST_CHECK;
/** Begin to close all; no mount is held any more at the return. */
void mc_tcp_session_close_all(struct mc_tcp_session_group *group);
/** Close the sessions that hold a mount whose drop has begun; those mounts are given back. */
void mc_tcp_session_close_dropped(struct mc_tcp_session_group *group);
/** Close the sessions whose peer has neither given nor taken bytes since @p before_ns although it
 * owes some. Call it now and then. */
void mc_tcp_session_close_stalled(struct mc_tcp_session_group *group, uint64_t before_ns);

#endif
