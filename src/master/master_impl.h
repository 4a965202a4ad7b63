/* What the files of the program around the core share. Private to master/. */
#ifndef MC_MASTER_MASTER_IMPL_H
#define MC_MASTER_MASTER_IMPL_H

#include <stdbool.h>

#include "io/admin_http.h"
#include "io/loop.h"
#include "master/history.h"
#include "master/master.h"
#include "master/master_busy.h"
#include "master/master_drain.h"
#include "master/master_rpc.h"
#include "rpc/rpc_fronts.h"

/* Fits into one line of the log, with what the log puts before it. */
#define MC_SUMMARY_LEN_MAX 900u

struct mc_master {
    struct mc_loop *loop;   /* borrowed */
    struct mc_spent *spent; /* the loop's */
    struct mc_core *core;
    struct mc_rpc_server *server; /* NULL: fronts has the connections */
    struct mc_rpc_fronts *fronts; /* NULL: server has them */
    struct mc_master_front front; /* of the core loop */
    struct mc_master_front *away; /* of the others, one each; owned */
    struct mc_admin_http *http;
    struct mc_timer *tick;
    struct mc_timer *summary;              /* NULL: no lines in the log */
    char summary_line[MC_SUMMARY_LEN_MAX]; /* the last that was written */
    uint64_t summary_ns;                   /* when */
    struct mc_list waiting;                /* requests, for promises to end (master_rpc.c) */
    struct mc_timer *sampling;             /* into the history */
    struct mc_history history;
    struct mc_busy busy;
    struct mc_drain_jobs drain_jobs;
    char leader_address[MC_ADDR_LEN_MAX + 1]; /* this one's RPC, for others */
    bool draining;
    bool tick_is_due; /* the timer is set to fire in this turn or the next */
    uint64_t epoch, started_ns;
    const struct mc_config_reply *config; /* borrowed; NULL: empty */
    struct mc_master_rpc_metrics shown;   /* the sum, as of the last mc_master_requests() */
};

/* One turn of a loop in so many is timed (io/spent.h). */
#define MC_MASTER_SPENT_TURNS 256u

/** What all threads have counted of requests. Valid until the next call. */
const struct mc_master_rpc_metrics *mc_master_requests(struct mc_master *master);
/** What all servers have counted. */
struct mc_rpc_server_stats mc_master_connections(const struct mc_master *master);
/** Can it answer requests? It is not ending, and each thread has answered within @p late_ns. */
bool mc_master_is_ready(struct mc_master *master, uint64_t late_ns);

/** Let the core do what a request has made due, soon. After each request. */
void mc_master_tick_soon(struct mc_master *master);

/** The admin routes; the argument of each is the struct mc_master. */
const struct mc_admin_route *mc_master_admin_routes(size_t *out_count);

/** Answer with the /metrics page, made in parts. ENOMEM. */
mooncake_err mc_master_metrics_begin(struct mc_master *master,
                                     struct mc_admin_reply *reply) MC_MUST_CHECK;
/** The pool in one line, without an end of the line. @p cap is MC_SUMMARY_LEN_MAX. */
void mc_master_summary_print(struct mc_master *master, char *out, size_t cap);
/** Write that line to the log each @p interval_ms, if it has changed. */
mooncake_err mc_master_summary_start(struct mc_master *master, uint64_t interval_ms) MC_MUST_CHECK;

#endif
