/*
 * The admin HTTP routes: what operators and start-up checks of engines ask by curl. Paths, shapes
 * and status codes are those of the C++ Mooncake; docs/http.md is made from the table at the end.
 */
#include "master/master_admin.h"

#include <string.h>

#include "base/clock.h"
#include "master/master_ui.h"

/* The core loop has so long to answer /ready: an orchestrator that asks with a timeout of 3 s gets
 * a clear no. */
#define READY_MS 2000u
/* Removing a hundred million objects in slices takes so long at most. */
#define REMOVE_ALL_MS 300000u

/* ---- liveness and roles ---------------------------------------------------------------------- */

/* On the HTTP thread: says that the process lives, whatever the core loop does. */
static void get_live(void *arg, const struct mc_admin_request *request,
                     struct mc_admin_reply *reply)
{
    (void)arg;
    (void)request;
    mc_page_json(reply, json_pack("{s:b}", "live", 1));
}

/* Comes through the queue of the core loop, as every request does: late there is late here. Threads
 * for connections are asked too. */
static void get_ready(void *arg, const struct mc_admin_request *request,
                      struct mc_admin_reply *reply)
{
    bool ready = mc_master_is_ready(arg, READY_MS * (uint64_t)MC_NS_PER_MS);

    (void)request;
    reply->status = ready ? 200 : 503;
    mc_page_json(reply, json_pack("{s:b}", "ready", ready ? 1 : 0));
}

static void get_health(void *arg, const struct mc_admin_request *request,
                       struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;

    (void)request;
    mc_page_json(reply,
                 json_pack("{s:s, s:s, s:s, s:b, s:s}", "status", "ok", "role", "leader",
                           "ha_state", "standalone", "service_ready", master->draining ? 0 : 1,
                           "leader_address", master->leader_address));
}

static void get_role(void *arg, const struct mc_admin_request *request,
                     struct mc_admin_reply *reply)
{
    (void)arg;
    (void)request;
    mc_page_text(reply, "leader\n");
}

static void get_ha_status(void *arg, const struct mc_admin_request *request,
                          struct mc_admin_reply *reply)
{
    (void)arg;
    (void)request;
    mc_page_text(reply, "standalone\n");
}

/* A master alone leads without an election, so there is no view. */
static void get_leader(void *arg, const struct mc_admin_request *request,
                       struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;

    (void)request;
    mc_page_json(reply,
                 json_pack("{s:b, s:s}", "present", 1, "leader_address", master->leader_address));
}

static void get_kv_events(void *arg, const struct mc_admin_request *request,
                          struct mc_admin_reply *reply)
{
    (void)arg;
    (void)request;
    mc_page_json(reply, json_pack("{s:b, s:i}", "enabled", 0, "published_batches", 0));
}

/* ---- what does not exist yet ----------------------------------------------------------------- */

static void no_tenant_quotas(void *arg, const struct mc_admin_request *request,
                             struct mc_admin_reply *reply)
{
    (void)arg;
    (void)request;
    mc_page_error(reply, mc_err_set(MOONCAKE_ENOTSUP,
                                    "tenants do not exist in this version: all keys share the "
                                    "pool without quotas"));
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void get_metrics(void *arg, const struct mc_admin_request *request,
                        struct mc_admin_reply *reply)
{
    mooncake_err err;

    (void)request;
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    err = mc_master_metrics_begin(arg, reply);
    if (err != MOONCAKE_OK) {
        mc_page_error(reply, err);
    }
}

static void get_summary(void *arg, const struct mc_admin_request *request,
                        struct mc_admin_reply *reply)
{
    char line[MC_SUMMARY_LEN_MAX];
    struct mc_master_busy busy;

    (void)request;
    mc_master_summary_print(arg, line, sizeof(line));
    mc_page_text(reply, line);
    /* Not in the log, whose line is written when it differs from the last one. */
    mc_master_busy(arg, &busy);
    (void)snprintf(line, sizeof(line), " | Threads: core=%.1f%% busy, io=%u (busiest %.1f%%)\n",
                   (double)busy.core_permille / 10, busy.io_threads, (double)busy.io_permille / 10);
    if (reply->status == 200) {
        mc_page_text(reply, line);
    }
}

/* ---- routes ---------------------------------------------------------------------------------- */

#define GET(route_path, route_help, handler, ...)                                                  \
    {                                                                                              \
        .method = "GET", .path = (route_path), .help = (route_help), .handle = (handler),          \
        __VA_ARGS__                                                                                \
    }

static const struct mc_admin_route routes[] = {
    GET("/ui", "The pool on one page, for a browser", mc_page_ui, .anywhere = true),
    GET("/ui/style.css", "Part of that page", mc_page_ui_style, .anywhere = true),
    GET("/ui/app.js", "Part of that page", mc_page_ui_app, .anywhere = true),
    GET("/ui/chart.js", "Part of that page", mc_page_ui_chart, .anywhere = true),
    GET("/ui/history", "The last hour, a sample each 10 s: what that page begins with",
        mc_page_ui_history, .params = NULL),
    GET("/live", "Is the process alive? Answered without the core loop", get_live,
        .anywhere = true),
    GET("/ready", "Is it serving? 503 when the core loop is late by 2 s, or when ending", get_ready,
        .timeout_ms = READY_MS),
    GET("/health", "Who is this, and does it serve?", get_health, .params = NULL),
    GET("/role", "leader or standby", get_role, .params = NULL),
    GET("/ha_status", "State of high availability: standalone", get_ha_status, .params = NULL),
    GET("/leader", "Is there a leader, and at which RPC address?", get_leader, .params = NULL),
    GET("/kv_events/status", "Are changes of keys published? Not in this version", get_kv_events,
        .params = NULL),
    GET("/metrics", "Counters, gauges and histograms in Prometheus text format", get_metrics,
        .params = NULL),
    GET("/metrics/summary", "The pool in one line", get_summary, .params = NULL),
    GET("/query_key", "Where the copies of a key are", mc_page_query_key, .params = "key=KEY"),
    GET("/batch_query_keys", "Where the copies of several keys are", mc_page_batch_query_keys,
        .params = "keys=A,B,C"),
    GET("/get_all_keys", "Readable keys, one a line", mc_page_all_keys, .params = NULL),
    GET("/get_all_segments", "Names of mounted segments, one a line", mc_page_all_segments,
        .params = NULL),
    GET("/get_segments_detail", "Mounted segments with their use", mc_page_segments_detail,
        .params = NULL),
    GET("/get_clients_detail", "Clients and stores, and when each was heard of last",
        mc_page_clients_detail, .params = NULL),
    GET("/query_segment", "Used bytes and capacity of a segment", mc_page_query_segment,
        .params = "segment=NAME"),
    GET("/api/v1/segments/status", "State of a segment", mc_page_segment_status,
        .params = "segment=NAME"),
    {.method = "POST",
     .path = "/api/v1/remove_all",
     .help = "Remove all objects; without force those stay that have a lease",
     .handle = mc_page_remove_all,
     .params = "[force=true][&tenant_id=default]",
     .timeout_ms = REMOVE_ALL_MS},
    {.method = "POST",
     .path = "/api/v1/drain_jobs",
     .help = "Place nothing new on segments: body {\"segments\": [NAME, ..]}; nothing is moved",
     .handle = mc_page_drain_create},
    GET("/api/v1/drain_jobs/query", "How a drain job stands: does anybody use what is there?",
        mc_page_drain_query, .params = "job_id=ID"),
    {.method = "POST",
     .path = "/api/v1/drain_jobs/cancel",
     .help = "End a drain job: place new data there again",
     .handle = mc_page_drain_cancel,
     .params = "job_id=ID"},
    GET("/api/v1/tenant_quotas", "Quotas of tenants: not in this version (501)", no_tenant_quotas,
        .params = "[tenant_id=ID]"),
    {.method = "PUT",
     .path = "/api/v1/tenant_quotas",
     .help = "Set a quota: not in this version (501)",
     .handle = no_tenant_quotas,
     .params = "tenant_id=ID"},
    {.method = "DELETE",
     .path = "/api/v1/tenant_quotas",
     .help = "Drop a quota: not in this version (501)",
     .handle = no_tenant_quotas,
     .params = "tenant_id=ID"},
};

const struct mc_admin_route *mc_master_admin_routes(size_t *out_count)
{
    *out_count = MC_ARRAY_LEN(routes);
    return routes;
}
