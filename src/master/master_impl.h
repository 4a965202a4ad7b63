/* What the files of the program around the core share. Private to master/. */
#ifndef MC_MASTER_MASTER_IMPL_H
#define MC_MASTER_MASTER_IMPL_H

#include <stdbool.h>

#include "io/admin_http.h"
#include "io/loop.h"
#include "master/master.h"
#include "master/master_rpc.h"
#include "rpc/rpc_server.h"

struct mc_master {
    struct mc_loop *loop; /* borrowed */
    struct mc_core *core;
    struct mc_rpc_server *server;
    struct mc_admin_http *http;
    struct mc_timer *tick;
    bool tick_is_due; /* the timer is set to fire in this turn or the next */
    uint64_t epoch, started_ns;
    const struct mc_config_reply *config; /* borrowed; NULL: empty */
    struct mc_master_rpc_metrics metrics;
};

/** Let the core do what a request has made due, soon. After each request. */
void mc_master_tick_soon(struct mc_master *master);

/** The admin routes; the argument of each is the struct mc_master. */
const struct mc_admin_route *mc_master_admin_routes(size_t *out_count);

/** The /metrics page and its one-line summary. */
mooncake_err mc_master_metrics_print(struct mc_master *master, struct mc_buf *out) MC_MUST_CHECK;
mooncake_err mc_master_summary_print(struct mc_master *master, struct mc_buf *out) MC_MUST_CHECK;

#endif
