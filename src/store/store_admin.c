/* Pages of a store's admin HTTP. They read the store on its control loop; the data threads'
 * counters are atomic. */
#include "store/store_admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/option.h"
#include "io/admin_process.h"
#include "store/store_impl.h"

/* The control loop has so long to answer. */
#define ADMIN_TIMEOUT_MS 2000u

struct mc_store_admin {
    struct mc_store *store;         /* borrowed */
    const struct mc_attach *attach; /* borrowed; NULL: no thin clients are served */
    struct mc_admin_http *http;
    uint64_t started_ns;
};

static void append(struct mc_admin_reply *reply, const char *text)
{
    if (mc_buf_append(&reply->body, text, strlen(text)) != MOONCAKE_OK) {
        mc_admin_reply_error(reply, MOONCAKE_ENOMEM, NULL);
    }
}

/* ---- how it stands --------------------------------------------------------------------------- */

static const char *state_name(enum mc_store_state state)
{
    switch (state) {
    case MC_STORE_JOINING:
        return "joining";
    case MC_STORE_JOINED:
        return "ok";
    case MC_STORE_LEAVING:
        return "leaving";
    case MC_STORE_LEFT:
        return "left";
    }
    return "";
}

/* On the HTTP thread. */
static void get_live(void *arg, const struct mc_admin_request *request,
                     struct mc_admin_reply *reply)
{
    (void)arg;
    (void)request;
    reply->content_type = "application/json; charset=utf-8";
    append(reply, "{\"live\":true}\n");
}

static void get_ready(void *arg, const struct mc_admin_request *request,
                      struct mc_admin_reply *reply)
{
    const struct mc_store_admin *admin = arg;
    bool ready = admin->store->state == MC_STORE_JOINED;

    (void)request;
    reply->content_type = "application/json; charset=utf-8";
    reply->status = ready ? 200 : 503;
    append(reply, ready ? "{\"ready\":true}\n" : "{\"ready\":false}\n");
}

static void get_health(void *arg, const struct mc_admin_request *request,
                       struct mc_admin_reply *reply)
{
    const struct mc_store_admin *admin = arg;
    enum mc_store_state state = admin->store->state;
    mooncake_err code = state == MC_STORE_JOINED ? MOONCAKE_OK : MOONCAKE_EUNAVAILABLE;
    char text[96];

    (void)request;
    if (state == MC_STORE_JOINING && admin->store->join_err != MOONCAKE_OK) {
        code = admin->store->join_err; /* why it does not get in */
    }
    (void)snprintf(text, sizeof(text), "{\"status\":\"%s\",\"code\":%d}\n", state_name(state),
                   (int)code);
    reply->content_type = "application/json; charset=utf-8";
    reply->status = code == MOONCAKE_OK ? 200 : 503;
    append(reply, text);
}

/* ---- metrics: the table to add to ------------------------------------------------------------ */

/* All zero for one that lends nothing. */
static const struct mc_tcp_server_stats *tcp_stats(const struct mc_store *store)
{
    static const struct mc_tcp_server_stats none;

    return store->server == NULL ? &none : mc_tcp_server_stats(store->server);
}

static double tcp_value(const struct mc_store *store, size_t offset)
{
    const char *stats = (const char *)tcp_stats(store);

    return (double)mc_counter_get((const struct mc_counter *)(const void *)(stats + offset));
}

#define TCP_VALUE(field)                                                                           \
    static double field(const struct mc_store_admin *admin)                                        \
    {                                                                                              \
        return tcp_value(admin->store, offsetof(struct mc_tcp_server_stats, field));               \
    }
TCP_VALUE(accepted)
TCP_VALUE(refused_requests)
TCP_VALUE(reads)
TCP_VALUE(writes)
TCP_VALUE(bytes_read)
TCP_VALUE(bytes_written)
TCP_VALUE(bad_frames)
#undef TCP_VALUE

static double uptime(const struct mc_store_admin *admin)
{
    return (double)(mc_monotonic_ns() - admin->started_ns) / 1e9;
}

static double joined(const struct mc_store_admin *admin)
{
    return admin->store->state == MC_STORE_JOINED ? 1 : 0;
}

static double lent(const struct mc_store_admin *admin)
{
    double sum = 0;

    for (size_t i = 0; i < admin->store->mounts_count; i++) {
        sum += (double)admin->store->mounts[i].segment.len;
    }
    return sum;
}

static double granted(const struct mc_store_admin *admin)
{
    const struct mc_shm_server *shm = admin->store->shm_server;

    return shm == NULL ? 0 : (double)mc_counter_get(&mc_shm_server_stats(shm)->granted);
}

static double ping_failures(const struct mc_store_admin *admin)
{
    return (double)mc_counter_get(&admin->store->ping_failures);
}

static double forgotten(const struct mc_store_admin *admin)
{
    return (double)mc_counter_get(&admin->store->forgotten);
}

static double client_pools(const struct mc_store_admin *admin)
{
    uint64_t pools, bytes;

    mc_attach_totals(admin->attach, &pools, &bytes);
    return (double)pools;
}

static double client_pool_bytes(const struct mc_store_admin *admin)
{
    uint64_t pools, bytes;

    mc_attach_totals(admin->attach, &pools, &bytes);
    return (double)bytes;
}

static const struct row {
    const char *name, *type, *help;
    double (*value)(const struct mc_store_admin *admin);
} rows[] = {
    {"mooncake_store_uptime_seconds", "gauge", "Seconds since the start", uptime},
    {"mooncake_store_joined", "gauge", "1: the master knows this store and all its segments",
     joined},
    {"mooncake_store_lent_bytes", "gauge", "Bytes of all segments", lent},
    {"mooncake_store_connections_accepted_total", "counter", "Data connections that were accepted",
     accepted},
    {"mooncake_store_reads_total", "counter", "Extents read over TCP", reads},
    {"mooncake_store_writes_total", "counter", "Extents written over TCP", writes},
    {"mooncake_store_read_bytes_total", "counter", "Bytes read over TCP", bytes_read},
    {"mooncake_store_written_bytes_total", "counter", "Bytes written over TCP", bytes_written},
    {"mooncake_store_refused_requests_total", "counter",
     "Reads and writes refused: a stale or forged descriptor", refused_requests},
    {"mooncake_store_bad_frames_total", "counter", "Data connections closed for nonsense",
     bad_frames},
    {"mooncake_store_shm_granted_total", "counter",
     "Times that a process of this host was given a segment's memory", granted},
    {"mooncake_store_ping_failures_total", "counter", "Pings that the master did not answer",
     ping_failures},
    {"mooncake_store_forgotten_segments_total", "counter",
     "Segments that the master had forgotten, mounted anew and empty", forgotten},
    {"mooncake_store_client_pools", "gauge", "Thin clients that share a pool of memory with it",
     client_pools},
    {"mooncake_store_client_pool_bytes", "gauge", "Bytes of those pools", client_pool_bytes},
};

/* One sample with a label. */
static mooncake_err labelled(struct mc_buf *out, const char *name, const char *label,
                             const char *value, double number)
{
    const char *const labels[] = {label, value, NULL};

    return mc_metric_print_double(out, name, labels, number);
}

static mooncake_err print_transports(const struct mc_store *store, struct mc_buf *out)
{
    static const char connections[] = "mooncake_store_transport_connections";
    static const char fallback[] = "mooncake_store_transport_fallback_total";
    static const char lost[] = "mooncake_store_rdma_lost_total";
    static const char ports[] = "mooncake_store_rdma_ports_up";
    static const char port_losses[] = "mooncake_store_rdma_port_losses_total";
    const struct mc_shm_server_stats *shm =
        store->shm_server == NULL ? NULL : mc_shm_server_stats(store->shm_server);
    const struct mc_rdma_server_stats *rdma =
        store->rdma_server == NULL ? NULL : mc_rdma_server_stats(store->rdma_server);

    MC_TRY(mc_metric_print_head(out, connections, "gauge", "Open data connections, by transport"));
    MC_TRY(labelled(out, connections, "kind", "tcp",
                    (double)mc_gauge_get(&tcp_stats(store)->connections)));
    MC_TRY(labelled(out, connections, "kind", "shm",
                    shm == NULL ? 0 : (double)mc_gauge_get(&shm->connections)));
    MC_TRY(labelled(out, connections, "kind", "rdma",
                    rdma == NULL ? 0 : (double)mc_gauge_get(&rdma->connections)));
    MC_TRY(mc_metric_print_head(out, lost, "counter", "RDMA connections that broke"));
    MC_TRY(mc_metric_print_double(out, lost, NULL,
                                  rdma == NULL ? 0 : (double)mc_counter_get(&rdma->lost)));
    MC_TRY(mc_metric_print_head(out, ports, "gauge", "RDMA ports served that have a link"));
    MC_TRY(mc_metric_print_double(out, ports, NULL,
                                  rdma == NULL ? 0 : (double)mc_gauge_get(&rdma->ports_up)));
    MC_TRY(mc_metric_print_head(out, port_losses, "counter",
                                "Times that an RDMA port lost its link or its device"));
    MC_TRY(mc_metric_print_double(out, port_losses, NULL,
                                  rdma == NULL ? 0 : (double)mc_counter_get(&rdma->port_losses)));
    MC_TRY(mc_metric_print_head(out, fallback, "counter",
                                "Peers that were refused by a transport and so use TCP, by "
                                "reason"));
    MC_TRY(labelled(out, fallback, "reason", "rdma_refused",
                    rdma == NULL ? 0 : (double)mc_counter_get(&rdma->refused)));
    return labelled(out, fallback, "reason", "shm_refused",
                    shm == NULL ? 0 : (double)mc_counter_get(&shm->refused));
}

static mooncake_err print_segments(const struct mc_store *store, struct mc_buf *out)
{
    static const char bytes[] = "mooncake_store_segment_bytes";
    static const char mounted[] = "mooncake_store_segment_mounted";

    MC_TRY(mc_metric_print_head(out, bytes, "gauge", "Bytes of a segment"));
    for (size_t i = 0; i < store->mounts_count; i++) {
        MC_TRY(labelled(out, bytes, "segment", store->mounts[i].name,
                        (double)store->mounts[i].segment.len));
    }
    MC_TRY(mc_metric_print_head(out, mounted, "gauge", "1: the master has the segment mounted"));
    for (size_t i = 0; i < store->mounts_count; i++) {
        MC_TRY(labelled(out, mounted, "segment", store->mounts[i].name,
                        store->mounts[i].mounted ? 1 : 0));
    }
    return MOONCAKE_OK;
}

static mooncake_err print_metrics(const struct mc_store_admin *admin, struct mc_buf *out)
{
    static const char reattach[] = "mooncake_store_reattach_duration_seconds";

    for (size_t i = 0; i < MC_ARRAY_LEN(rows); i++) {
        MC_TRY(mc_metric_print_head(out, rows[i].name, rows[i].type, rows[i].help));
        MC_TRY(mc_metric_print_double(out, rows[i].name, NULL, rows[i].value(admin)));
    }
    MC_TRY(print_transports(admin->store, out));
    MC_TRY(print_segments(admin->store, out));
    MC_TRY(mc_metric_print_head(out, reattach, "histogram",
                                "Time without the master until all segments were mounted again"));
    MC_TRY(mc_metric_print_histogram(out, reattach, NULL, &admin->store->reattach));
    return mc_admin_process_print(out, "mooncake_store");
}

static void get_metrics(void *arg, const struct mc_admin_request *request,
                        struct mc_admin_reply *reply)
{
    (void)request;
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    if (print_metrics(arg, &reply->body) != MOONCAKE_OK) {
        mc_admin_reply_error(reply, MOONCAKE_ENOMEM, NULL);
    }
}

static void get_summary(void *arg, const struct mc_admin_request *request,
                        struct mc_admin_reply *reply)
{
    const struct mc_store_admin *admin = arg;
    const struct mc_tcp_server_stats *tcp = tcp_stats(admin->store);
    char size[16], in[16], out[16], text[400];

    (void)request;
    (void)snprintf(text, sizeof(text),
                   "Store %s: %s | Lent: %s in %zu segments | Connections: %" PRIi64
                   " | Reads: %" PRIu64 " (%s) | Writes: %" PRIu64 " (%s) | Refused: %" PRIu64 "\n",
                   admin->store->name, state_name(admin->store->state),
                   mc_format_size((uint64_t)lent(admin), size, sizeof(size)),
                   admin->store->mounts_count, mc_gauge_get(&tcp->connections),
                   mc_counter_get(&tcp->reads),
                   mc_format_size(mc_counter_get(&tcp->bytes_read), out, sizeof(out)),
                   mc_counter_get(&tcp->writes),
                   mc_format_size(mc_counter_get(&tcp->bytes_written), in, sizeof(in)),
                   mc_counter_get(&tcp->refused_requests));
    append(reply, text);
}

/* ---- opening --------------------------------------------------------------------------------- */

static const struct mc_admin_route routes[] = {
    {.method = "GET",
     .path = "/live",
     .help = "Is the process alive? Answered without the control loop",
     .handle = get_live,
     .anywhere = true},
    {.method = "GET",
     .path = "/ready",
     .help = "Are its segments in the pool? 503 when not, or when the control loop is late by 2 s",
     .handle = get_ready},
    {.method = "GET",
     .path = "/health",
     .help = "How it stands: ok, joining, leaving or left; 503 unless ok",
     .handle = get_health},
    {.method = "GET",
     .path = "/metrics",
     .help = "Counters, gauges and histograms in Prometheus text format",
     .handle = get_metrics},
    {.method = "GET",
     .path = "/metrics/summary",
     .help = "The store in one line",
     .handle = get_summary},
};

mooncake_err mc_store_admin_open(struct mc_loop *loop, struct mc_store *store,
                                 const struct mc_store_admin_options *options,
                                 struct mc_store_admin **out)
{
    const char *port = options->port;
    struct mc_store_admin *admin;
    uint64_t number;
    mooncake_err err;

    if (port[0] == '\0') {
        *out = NULL;
        return MOONCAKE_OK;
    }
    if (mc_parse_u64(port, 0, UINT16_MAX, &number) != MOONCAKE_OK) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "admin_port: \"%s\" is no port; write 0 to 65535, or nothing", port);
    }
    admin = mc_calloc(1, sizeof(*admin));
    if (admin == NULL) {
        return MOONCAKE_ENOMEM;
    }
    admin->store = store;
    admin->attach = options->attach;
    admin->started_ns = mc_monotonic_ns();
    err = mc_admin_http_open(loop, options->host, (uint16_t)number, routes, MC_ARRAY_LEN(routes),
                             admin, ADMIN_TIMEOUT_MS, &admin->http);
    if (err != MOONCAKE_OK) {
        mc_free(admin);
        return err;
    }
    mc_log_info("store.admin", "port=%u", (unsigned)mc_admin_http_port(admin->http));
    *out = admin;
    return MOONCAKE_OK;
}

uint16_t mc_store_admin_port(const struct mc_store_admin *admin)
{
    return admin == NULL ? 0 : mc_admin_http_port(admin->http);
}

void mc_store_admin_close(struct mc_store_admin **admin)
{
    struct mc_store_admin *a = *admin;

    if (a == NULL) {
        return;
    }
    mc_admin_http_close(&a->http);
    mc_free(a);
    *admin = NULL;
}
