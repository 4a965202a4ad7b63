/* Sets the parts of the master up, bottom first, and gives the core its time. */
#include "master/master.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "master/master_front.h"
#include "master/master_impl.h"
#include "master/master_ui.h"

/* An admin request that the loop has not answered for so long gets 503. */
#define ADMIN_TIMEOUT_MS 5000u

static void run_tick(void *arg)
{
    struct mc_master *master = arg;
    uint64_t now_ns, next_ns;

    MC_ASSERT_ON_LOOP(master->loop);
    master->tick_is_due = false;
    (void)mc_spend(master->spent, MC_SPENT_TABLE);
    next_ns = mc_core_tick(master->core);
    (void)mc_spend(master->spent, MC_SPENT_LOOP);
    now_ns = mc_monotonic_ns();
    if (next_ns <= now_ns) {
        /* Work is left. A delay of 0 lets the loop serve whoever waits before the next slice. */
        master->tick_is_due = true;
        mc_timer_set(master->tick, 0, 0);
        return;
    }
    mc_timer_set(master->tick, mc_left_ms(now_ns, next_ns), 0);
}

void mc_master_tick_soon(struct mc_master *master)
{
    if (!master->tick_is_due && mc_core_wants_tick(master->core)) {
        master->tick_is_due = true;
        mc_timer_set(master->tick, 0, 0);
    }
}

/* ---- connections ----------------------------------------------------------------------------- */

static void close_connections(struct mc_master *master)
{
    mc_rpc_fronts_close(&master->fronts);
    mc_free(master->away);
    mc_rpc_server_close(&master->server);
}

static unsigned threads(const struct mc_master *master)
{
    return master->fronts == NULL ? 0 : mc_rpc_fronts_count(master->fronts);
}

const struct mc_master_rpc_metrics *mc_master_requests(struct mc_master *master)
{
    if (master->fronts == NULL) {
        return &master->front.metrics;
    }
    mc_master_rpc_metrics_init(&master->shown);
    mc_master_rpc_metrics_add(&master->shown, &master->front.metrics);
    for (unsigned i = 0; i < threads(master); i++) {
        mc_master_rpc_metrics_add(&master->shown, &master->away[i].metrics);
    }
    return &master->shown;
}

struct mc_rpc_server_stats mc_master_connections(const struct mc_master *master)
{
    struct mc_rpc_server_stats sum = {0};

    if (master->fronts == NULL) {
        mc_rpc_server_stats_add(&sum, mc_rpc_server_stats(master->server));
    }
    for (unsigned i = 0; i < threads(master); i++) {
        mc_rpc_server_stats_add(&sum, mc_rpc_fronts_server_stats(master->fronts, i));
    }
    return sum;
}

bool mc_master_is_ready(struct mc_master *master, uint64_t late_ns)
{
    return !master->draining &&
           (master->fronts == NULL || mc_rpc_fronts_late_ns(master->fronts) < late_ns);
}

/* "host:port", with brackets around an IPv6 address. */
static mooncake_err rpc_address(const struct mc_master_options *options,
                                char out[MC_ADDR_LEN_MAX + 1])
{
    bool v6 = strchr(options->host, ':') != NULL && options->host[0] != '[';
    int len = snprintf(out, MC_ADDR_LEN_MAX + 1, v6 ? "[%s]:%u" : "%s:%u", options->host,
                       (unsigned)options->rpc_port);

    if (len < 0 || (size_t)len > MC_ADDR_LEN_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "rpc_address: above the limit of %u bytes",
                          MC_ADDR_LEN_MAX - 6);
    }
    return MOONCAKE_OK;
}

/* The address that it listens on, and where that is any, the host's name. */
static void note_leader_address(struct mc_master *master, const char *host)
{
    bool const any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    char name[MC_ADDR_LEN_MAX - 8];

    if (!any || gethostname(name, sizeof(name)) != 0) {
        (void)snprintf(name, sizeof(name), "%s", host);
    }
    name[sizeof(name) - 1] = '\0';
    (void)snprintf(master->leader_address, sizeof(master->leader_address),
                   strchr(name, ':') != NULL && name[0] != '[' ? "[%s]:%u" : "%s:%u", name,
                   mc_master_rpc_port(master));
}

mooncake_err mc_master_create(struct mc_loop *loop, const struct mc_master_options *options,
                              struct mc_master **out)
{
    char address[MC_ADDR_LEN_MAX + 1];
    const struct mc_admin_route *routes;
    struct mc_master *master;
    size_t routes_count;
    mooncake_err err;

    MC_TRY(rpc_address(options, address));
    master = mc_calloc(1, sizeof(*master));
    if (master == NULL) {
        return MOONCAKE_ENOMEM;
    }
    master->loop = loop;
    mc_list_init(&master->waiting);
    mc_drain_jobs_init(&master->drain_jobs);
    master->epoch = options->core.epoch;
    master->started_ns = mc_monotonic_ns();
    master->config = options->config;
    mc_master_front_init(&master->front, master);
    master->spent = mc_loop_spent(loop);
    mc_spent_init(master->spent, MC_MASTER_SPENT_TURNS);
    err = mc_core_create(&options->core, mc_clock_system(), &master->core);
    if (err != MOONCAKE_OK) {
        goto free_master;
    }
    err = mc_timer_create(loop, run_tick, master, &master->tick);
    if (err != MOONCAKE_OK) {
        goto destroy_core;
    }
    err = mc_master_summary_start(master, options->summary_ms);
    if (err != MOONCAKE_OK) {
        goto destroy_timer;
    }
    err = mc_master_history_start(master);
    if (err != MOONCAKE_OK) {
        goto destroy_summary;
    }
    err = options->io_threads > 0
              ? mc_master_fronts_open(master, address, options->io_threads, options->poll_us)
              : mc_rpc_server_open(loop, address, &mc_master_rpc_ops, &master->front,
                                   &master->server);
    if (err != MOONCAKE_OK) {
        goto destroy_sampling;
    }
    note_leader_address(master, options->host);
    routes = mc_master_admin_routes(&routes_count);
    err = mc_admin_http_open(loop, options->host, options->metrics_port, routes, routes_count,
                             master, ADMIN_TIMEOUT_MS, &master->http);
    if (err != MOONCAKE_OK) {
        goto close_server;
    }
    mc_timer_set(master->tick, 0, 0);
    master->tick_is_due = true;
    *out = master;
    return MOONCAKE_OK;

close_server:
    close_connections(master);
destroy_sampling:
    mc_timer_destroy(&master->sampling);
destroy_summary:
    mc_timer_destroy(&master->summary);
destroy_timer:
    mc_timer_destroy(&master->tick);
destroy_core:
    mc_core_destroy(&master->core);
free_master:
    mc_free(master);
    return err;
}

uint16_t mc_master_rpc_port(const struct mc_master *master)
{
    return master->fronts != NULL ? mc_rpc_fronts_port(master->fronts)
                                  : mc_rpc_server_port(master->server);
}

uint16_t mc_master_metrics_port(const struct mc_master *master)
{
    return mc_admin_http_port(master->http);
}

void mc_master_drain(struct mc_master *master, uint32_t grace_ms, void (*done)(void *arg),
                     void *arg)
{
    master->draining = true;
    if (master->fronts != NULL) {
        mc_rpc_fronts_drain(master->fronts, grace_ms, done, arg);
    } else {
        mc_rpc_server_drain(master->server, grace_ms, done, arg);
    }
}

void mc_master_destroy(struct mc_master **master)
{
    struct mc_master *m = *master;

    if (m == NULL) {
        return;
    }
    mc_admin_http_close(&m->http); /* first: its handlers read the core */
    mc_timer_destroy(&m->sampling);
    mc_timer_destroy(&m->summary);
    mc_timer_destroy(&m->tick);
    mc_drain_jobs_fini(&m->drain_jobs);
    if (m->fronts != NULL) {
        mc_rpc_fronts_stop(m->fronts);
    }
    mc_master_rpc_end_waiting(m);
    mc_core_destroy(&m->core); /* answers the removals that wait, so before the connections */
    close_connections(m);
    mc_free(m);
    *master = NULL;
}
