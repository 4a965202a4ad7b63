/*
 * A client's inside, for rpc_client.c (calls) and rpc_link.c (the connection).
 */
#ifndef MC_RPC_RPC_CLIENT_IMPL_H
#define MC_RPC_RPC_CLIENT_IMPL_H

#include "io/stream.h"
#include "rpc/calls.h"
#include "rpc/input.h"
#include "rpc/rpc_client.h"
#include "rpc/rpc_who.h"

#define MC_RPC_TEXT_LEN_MAX 640u

enum mc_rpc_client_state {
    MC_RPC_DOWN,        /* no connection, none wanted */
    MC_RPC_BACKING_OFF, /* the timer runs */
    MC_RPC_CONNECTING,  /* until Hello is answered */
    MC_RPC_UP,
};

/* One connection or attempt. Outlives its client, until the stream has closed. */
struct mc_rpc_link {
    struct mc_rpc_client *client; /* borrowed; NULL: nobody cares any more */
    struct mc_stream *stream;
    struct mc_rpc_input input;
    uint8_t *scratch; /* owned */
    bool hello_sent, answered;
    bool strange; /* what was answered is not of our protocol, and of none that we know */
    uint64_t quiet_since_ns; /* when bytes last came, or the first call after a pause was sent */
    char why[MC_RPC_TEXT_LEN_MAX]; /* sentence, if it was we who closed it */
};

struct mc_rpc_client {
    struct mc_loop *loop; /* borrowed */
    struct mc_rpc_client_options options;
    char address[MC_ADDR_LEN_MAX];
    enum mc_rpc_client_state state;
    struct mc_rpc_link *link; /* NULL: none */

    struct mc_rpc_calls calls;
    struct mc_list held; /* calls that wait for a connection */
    struct mc_list sent; /* calls whose request was given to the stream */
    size_t held_len;     /* bytes of requests in `held` */

    struct mc_timer *deadline_timer;
    uint64_t armed_ns; /* when it fires; UINT64_MAX: it does not */
    struct mc_timer *attempt_timer;
    uint64_t attempt_deadline_ns;
    unsigned failures; /* attempts since the last connection */
    bool reconnect;    /* a connection was lost: try once without being asked */

    /* Who is at this address, if not a master: asked once, before the first connection. */
    struct mc_rpc_who *who; /* NULL: not being asked */
    bool who_asked;
    char who_found[MC_RPC_WHO_CAP];    /* part of a sentence; "": not known */
    char who_why[MC_RPC_TEXT_LEN_MAX]; /* sentence if it is not found out */

    uint64_t jitter; /* state of the random numbers for it */

    /* What set_address() left to be told from the loop. */
    struct mc_post lost_post;
    struct mc_list lost;
    bool lost_posted, lost_was_up;

    unsigned busy; /* functions on the stack that still need the client */
    bool destroyed;
};

/* Around every callback to the user: it may destroy the client. */
void mc_rpc_client_enter(struct mc_rpc_client *client);
/** False: the client is gone now. */
bool mc_rpc_client_leave(struct mc_rpc_client *client);

/** Take @p call off the books and tell its owner. The sentence is set unless @p err is OK. */
void mc_rpc_call_finish(struct mc_rpc_client *client, struct mc_rpc_call *call, mooncake_err err,
                        const char *sentence);
/** End all calls of @p list. */
void mc_rpc_calls_fail(struct mc_rpc_client *client, struct mc_list *list, mooncake_err err,
                       const char *sentence);
/** Hand held requests to the stream. */
void mc_rpc_client_send_held(struct mc_rpc_client *client);

/** Begin to connect. ENOMEM, EINVAL. */
mooncake_err mc_rpc_link_start(struct mc_rpc_client *client) MC_MUST_CHECK;
/** The back-off is over, or Hello was not answered in time. */
void mc_rpc_link_timer(void *arg);
/** Close the connection; the client will hear of it from the loop. */
void mc_rpc_link_fail(struct mc_rpc_link *link, const char *fmt, ...) MC_PRINTF(2, 3);
/** Close the connection; the client will not hear of it. */
void mc_rpc_link_retire(struct mc_rpc_client *client);

#endif
