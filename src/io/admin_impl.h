/*
 * What the files of admin_http share. Nobody else includes this.
 *
 * A request is used by two threads: the HTTP thread that reads and answers it, and the loop that
 * runs its handler. It is counted, because either may be done with it first: the HTTP thread gives
 * up at the deadline, and then the loop still has the request in its queue or in its hands. The
 * gate, also counted, holds the lock, so that a request that outlives the server can still be let
 * go.
 */
#ifndef MC_IO_ADMIN_IMPL_H
#define MC_IO_ADMIN_IMPL_H

#include <pthread.h>

#include "base/list.h"
#include "base/mem.h"
#include "io/admin_http.h"

struct mc_admin_gate {
    pthread_mutex_t lock;    /* guards what follows and what requests say it guards */
    pthread_cond_t changed;  /* on CLOCK_MONOTONIC: an answer, an end, the closing */
    unsigned refs;           /* the server's and one of each request */
    unsigned requests_count; /* that the HTTP library knows of */
    bool closing;            /* nobody waits for the loop any more */
    struct mc_list requests; /* every struct mc_admin_request there is */
    struct mc_list conns;    /* open connections, see admin_conn.c */
    unsigned conns_count;    /* without those that were told to go */
};

enum mc_admin_work {
    MC_ADMIN_HANDLE,  /* run the route's handler */
    MC_ADMIN_PART,    /* make the next part of the answer */
    MC_ADMIN_RELEASE, /* free the state of the parts: the client does not want them */
};

enum mc_admin_state {
    MC_ADMIN_IDLE,     /* the HTTP thread's */
    MC_ADMIN_ASKED,    /* posted to the loop; the HTTP thread waits */
    MC_ADMIN_RUNNING,  /* the loop's; the HTTP thread waits */
    MC_ADMIN_ANSWERED, /* the HTTP thread's again */
};

/* Query parameter, in the request's arena. */
struct mc_admin_param {
    struct mc_admin_param *next;
    const char *name;
    const char *value;
};

struct mc_admin_request {
    struct mc_post post;
    struct mc_admin_gate *gate; /* counted */
    struct mc_loop *loop;       /* borrowed; alive while somebody may ask */
    void *arg;                  /* of the handler */
    uint32_t timeout_ms;

    /* Guarded by the gate's lock. */
    struct mc_list node; /* in gate->requests */
    unsigned refs;
    enum mc_admin_state state;
    bool abandoned; /* the HTTP thread has given up: the reply is the loop's alone */
    bool orphan;    /* kept for mc_admin_release_all() only */

    /* Whose they are, the state says. */
    const struct mc_admin_route *route; /* NULL: none fits */
    enum mc_admin_work work;
    struct mc_arena arena;
    struct mc_admin_param *params;
    bool params_bad; /* a NUL byte in one, or too many */
    struct mc_buf body;
    uint64_t body_len; /* also of what was dropped */
    struct mc_admin_reply reply;
    bool more;       /* parts follow */
    bool in_handler; /* the loop's: an answer now is not a late one */
    mooncake_err part_err;
};

mooncake_err mc_admin_gate_create(struct mc_admin_gate **out) MC_MUST_CHECK;
void mc_admin_gate_unref(struct mc_admin_gate *gate);

/** A request in the hands of the HTTP thread, with one reference. ENOMEM. */
mooncake_err mc_admin_request_create(struct mc_admin_gate *gate, struct mc_loop *loop, void *arg,
                                     uint32_t timeout_ms,
                                     struct mc_admin_request **out) MC_MUST_CHECK;
void mc_admin_request_ref(struct mc_admin_request *request);
void mc_admin_request_unref(struct mc_admin_request *request);

/** Let the loop do @p work and wait for it until @p deadline_ns. False: given up; then the request
 * may only be let go. HTTP thread. */
bool mc_admin_request_ask(struct mc_admin_request *request, enum mc_admin_work work,
                          uint64_t deadline_ns) MC_MUST_CHECK;
/** As ask, on the calling thread: for routes that run anywhere. */
void mc_admin_request_run_here(struct mc_admin_request *request, enum mc_admin_work work);
/** The HTTP thread needs no more parts: have their state freed, where handlers run. */
void mc_admin_request_release(struct mc_admin_request *request);
/** Free the state of every unfinished answer. On the loop, when no HTTP thread is left. */
void mc_admin_release_all(struct mc_admin_gate *gate);

/* ---- connections --------------------------------------------------------------------------- */

/** A connection has come; an idle one is shut down if there are too many, or this one if none is
 * idle. Returns what mc_admin_conn_end() takes, or NULL. */
void *mc_admin_conn_begin(struct mc_admin_gate *gate, int fd);
void mc_admin_conn_end(struct mc_admin_gate *gate, void *conn);
/** It has sent a whole request, which is being answered (@p busy), or its answer is out. */
void mc_admin_conn_mark(struct mc_admin_gate *gate, void *conn, bool busy);

#endif
