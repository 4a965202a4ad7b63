/* mooncake_master: options, then the parts bottom-up, run until SIGTERM or SIGINT, tear down. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/close_stdout.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/option.h"
#include "io/loop.h"
#include "io/port_file.h"
#include "io/service.h"
#include "master/http_metadata.h"
#include "master/master.h"

#define EXIT_FAILED 1
#define EXIT_USAGE 2

#define PORTS_LEN_MAX 128

/* Requests under way at SIGTERM may take so long; a second signal ends at once. */
#define DRAIN_GRACE_MS 2000u

struct conf {
    uint16_t rpc_port, metrics_port, http_metadata_server_port;
    char *rpc_address, *port_file, *log_level, *http_metadata_server_host;
    char *allocation_strategy, *cluster_id, *placement;
    uint64_t default_kv_lease_ttl, descriptor_reuse_ttl, default_kv_soft_pin_ttl, client_ttl;
    uint64_t put_start_discard_timeout_sec, put_start_release_timeout_sec;
    uint64_t metric_report_interval;
    double eviction_high_watermark_ratio, eviction_ratio;
    bool allow_evict_soft_pinned_objects, enable_metric_reporting, enable_http_metadata_server;
    uint32_t poll_us, miss_history, rpc_thread_num, io_threads;
};

#define OPTION(field, kind, ...) MC_OPTION(struct conf, field, kind, __VA_ARGS__)

static const struct mc_option option_table[] = {
    OPTION(rpc_port, PORT, "50051", "port for clients and stores; 0 lets the kernel pick",
           .alias = "port"),
    OPTION(rpc_address, TEXT, "0.0.0.0", "address to listen on, for both ports"),
    OPTION(metrics_port, PORT, "9003", "port of the admin HTTP pages; 0 lets the kernel pick"),
    OPTION(port_file, TEXT, "", "file to write the ports in use to, once serving"),
    OPTION(default_kv_lease_ttl, MS, "10s", "time that a read protects an object, in ms",
           .max = UINT32_MAX),
    OPTION(descriptor_reuse_ttl, MS, "500ms",
           "time that a client may get what it has just asked for without asking again, in ms; at "
           "most half a lease; who removes by force or replaces waits for it; 0: never",
           .max = UINT32_MAX),
    OPTION(default_kv_soft_pin_ttl, MS, "30m", "time of a soft pin that names none, in ms",
           .max = UINT32_MAX),
    OPTION(client_ttl, SECONDS, "10", "silence after which a client or store is gone, in seconds",
           .min = 100, .max = UINT32_MAX),
    OPTION(put_start_discard_timeout_sec, SECONDS, "30",
           "time after which another put may take the key of an unfinished one, in seconds",
           .min = 1, .max = UINT32_MAX),
    OPTION(put_start_release_timeout_sec, SECONDS, "600",
           "time after which the space of an unfinished put is freed, in seconds", .min = 1,
           .max = UINT32_MAX),
    OPTION(eviction_high_watermark_ratio, RATIO, "0.90", "used space at which eviction starts"),
    OPTION(eviction_ratio, RATIO, "0.05", "how far below the watermark eviction ends"),
    OPTION(allow_evict_soft_pinned_objects, BOOL, "true",
           "evict soft-pinned objects when nothing else can be"),
    OPTION(enable_metric_reporting, BOOL, "true", "log the pool in one line when it changes"),
    OPTION(metric_report_interval, SECONDS, "10",
           "time between summary lines in the log, written when something changed, in seconds; "
           "0: none",
           .max = UINT32_MAX),
    OPTION(enable_http_metadata_server, BOOL, "false",
           "also serve /metadata and /health, for programs that want a metadata service"),
    OPTION(http_metadata_server_host, TEXT, "0.0.0.0", "address of that service"),
    OPTION(http_metadata_server_port, PORT, "8080", "port of that service; 0 lets the kernel pick"),
    OPTION(
        io_threads, U32, "0",
        "threads for connections: they read requests and write answers, so that the core loop only "
        "does what is asked; worth it from about 4 processors on; 0: the core loop does all",
        .max = MC_IO_THREADS_MAX),
    OPTION(rpc_thread_num, U32, "4", "accepted and without effect: io_threads is what it is here",
           .alias = "max_threads", .min = 1, .max = 1024),
    OPTION(allocation_strategy, TEXT, "free_ratio_first",
           "free_ratio_first or random: the freest of a few random segments, in both cases"),
    OPTION(placement, TEXT, "any",
           "any, or local_first: on the writer's own host while a segment there has room"),
    OPTION(miss_history, U32, "65536",
           "keys that went, remembered for mooncakectl why-miss, 32 bytes each; 0: none",
           .max = 1u << 24, .unit = "keys"),
    OPTION(cluster_id, TEXT, "mooncake_cluster", "name of the pool, shown where its options are"),
    OPTION(log_level, TEXT, "info", "error, warn, info, debug or off"),
    OPTION(poll_us, U32, "0", "time to poll for work before sleeping, in microseconds",
           .max = 1000000, .unit = "us"),
};

/* ---- the configuration as an answer ---------------------------------------------------------- */

struct config_listing {
    struct mc_arena arena;
    struct mc_config_item items[MC_ARRAY_LEN(option_table)];
    struct mc_config_reply reply;
    bool out_of_memory;
};

static const char *keep(struct config_listing *listing, const char *text)
{
    size_t len = strnlen(text, MC_CONFIG_TEXT_LEN_MAX);
    char *copy = mc_arena_alloc(&listing->arena, len + 1);

    if (copy == NULL) {
        listing->out_of_memory = true;
        return "";
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

static void list_option(void *arg, const struct mc_option_view *view)
{
    struct config_listing *listing = arg;

    MC_ASSERT(listing->reply.count < MC_ARRAY_LEN(listing->items));
    listing->items[listing->reply.count++] = (struct mc_config_item){
        .name = keep(listing, view->name),
        .value = keep(listing, view->value),
        .source = keep(listing, view->source),
        .help = keep(listing, view->help),
        .default_value = keep(listing, view->default_value),
        .unit = keep(listing, view->unit),
    };
}

static mooncake_err config_listing_init(struct config_listing *listing,
                                        const struct mc_options *options)
{
    memset(listing, 0, sizeof(*listing));
    mc_arena_init(&listing->arena, 0);
    listing->reply.items = listing->items;
    mc_options_visit(options, list_option, listing);
    return listing->out_of_memory ? MOONCAKE_ENOMEM : MOONCAKE_OK;
}

/* What is running. */
struct run {
    struct mc_loop *loop;
    struct mc_master *master;
    struct mc_service *service;
    struct mc_http_metadata *metadata; /* NULL: not asked for */
    unsigned signals;
};

/* ---- ports ----------------------------------------------------------------------------------- */

/* "rpc_port=N metrics_port=N", and the metadata service's if there is one, with @p separator in
 * between and, if that ends a line, after the last. Returns the length. */
static int print_ports(const struct run *run, char separator, char *out, size_t cap)
{
    int len = snprintf(out, cap, "rpc_port=%u%cmetrics_port=%u", mc_master_rpc_port(run->master),
                       separator, mc_master_metrics_port(run->master));

    if (run->metadata != NULL) {
        len += snprintf(out + len, cap - (size_t)len, "%chttp_metadata_server_port=%u", separator,
                        mc_http_metadata_port(run->metadata));
    }
    if (separator == '\n') {
        len += snprintf(out + len, cap - (size_t)len, "\n");
    }
    return len;
}

/* ---- running --------------------------------------------------------------------------------- */

static void on_drained(void *arg)
{
    struct run *run = arg;

    mc_loop_stop_soon(run->loop);
}

static void on_signal(void *arg, int signum)
{
    struct run *run = arg;

    mc_log_info("master.stopping", "signal=%d", signum);
    if (run->signals++ == 0) {
        mc_service_stopping(run->service);
        mc_master_drain(run->master, DRAIN_GRACE_MS, on_drained, run);
    } else {
        mc_loop_stop_soon(run->loop);
    }
}

static void say_serving(struct run *run)
{
    char ports[PORTS_LEN_MAX], line[PORTS_LEN_MAX + 16];

    (void)print_ports(run, ' ', ports, sizeof(ports));
    (void)snprintf(line, sizeof(line), "serving %s", ports);
    (void)printf("%s %s pid=%ld\n", MC_MASTER_PROGRAM, line, (long)getpid());
    (void)fflush(stdout);
    mc_service_status(run->service, line);
    mc_service_ready(run->service);
}

/* What is served beside the pool, if it was asked for. */
static mooncake_err open_extras(struct run *run, const struct conf *conf)
{
    if (conf->enable_http_metadata_server) {
        MC_TRY(mc_http_metadata_open(run->loop, conf->http_metadata_server_host,
                                     conf->http_metadata_server_port, &run->metadata));
    }
    return MOONCAKE_OK;
}

static void close_extras(struct run *run)
{
    mc_http_metadata_close(&run->metadata);
}

static mooncake_err serve(struct run *run, const struct conf *conf)
{
    char lines[PORTS_LEN_MAX];

    MC_TRY(mc_loop_on_signal(run->loop, on_signal, run));
    if (conf->port_file[0] != '\0') {
        (void)print_ports(run, '\n', lines, sizeof(lines));
        MC_TRY(mc_port_file_write(conf->port_file, lines));
    }
    say_serving(run);
    mc_loop_run(run->loop);
    return MOONCAKE_OK;
}

static void master_options_from(const struct conf *conf, struct mc_master_options *out)
{
    memset(out, 0, sizeof(*out));
    out->host = conf->rpc_address;
    out->rpc_port = conf->rpc_port;
    out->metrics_port = conf->metrics_port;
    out->io_threads = conf->io_threads;
    out->poll_us = conf->poll_us;
    out->summary_ms = conf->enable_metric_reporting ? conf->metric_report_interval : 0;
    mc_core_options_init(&out->core);
    out->core.miss_history = conf->miss_history;
    out->core.lease_ms = conf->default_kv_lease_ttl;
    out->core.reuse_ms = conf->descriptor_reuse_ttl;
    out->core.local_first = strcmp(conf->placement, "local_first") == 0;
    out->core.soft_pin_ms = conf->default_kv_soft_pin_ttl;
    out->core.client_ttl_ms = conf->client_ttl;
    out->core.put_discard_ms = conf->put_start_discard_timeout_sec;
    out->core.put_release_ms = conf->put_start_release_timeout_sec;
    out->core.high_watermark = conf->eviction_high_watermark_ratio;
    out->core.eviction_ratio = conf->eviction_ratio;
    out->core.allow_evict_soft_pinned = conf->allow_evict_soft_pinned_objects;
    out->core.epoch = mc_random_u64();
    out->core.seed = mc_random_u64();
}

static mooncake_err run_master(const struct conf *conf, const struct mc_config_reply *config)
{
    int level = mc_log_level_from_text(conf->log_level);
    struct mc_master_options options;
    struct run run = {0};
    mooncake_err err;

    if (level == -2) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "log_level: \"%s\" is unknown; allowed are error, warn, info, debug, off",
                          conf->log_level);
    }
    if (strcmp(conf->allocation_strategy, "free_ratio_first") != 0 &&
        strcmp(conf->allocation_strategy, "random") != 0) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "allocation_strategy: \"%s\" is not there; allowed are "
                          "free_ratio_first and random",
                          conf->allocation_strategy);
    }
    if (strcmp(conf->placement, "any") != 0 && strcmp(conf->placement, "local_first") != 0) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "placement: \"%s\" is not there; allowed are any and local_first",
                          conf->placement);
    }
    mc_log_set_level((enum mc_log_level)level);
    master_options_from(conf, &options);
    options.config = config;
    MC_TRY(mc_loop_create(conf->poll_us, &run.loop));
    err = mc_service_create(run.loop, &run.service);
    if (err == MOONCAKE_OK) {
        err = mc_master_create(run.loop, &options, &run.master);
    }
    if (err == MOONCAKE_OK) {
        err = open_extras(&run, conf);
    }
    if (err == MOONCAKE_OK) {
        err = serve(&run, conf);
    }
    close_extras(&run);
    mc_master_destroy(&run.master);
    mc_service_destroy(&run.service);
    mc_loop_destroy(&run.loop);
    return err;
}

/* ---- main ------------------------------------------------------------------------------------ */

static int complain(mooncake_err err)
{
    const char *sentence = mooncake_last_error();

    (void)fprintf(stderr, "mooncake_master: %s\n",
                  sentence[0] == '\0' ? mooncake_err_text(err) : sentence);
    return err == MOONCAKE_EINVAL ? EXIT_USAGE : EXIT_FAILED;
}

/* --help, --version, --print-config: answered instead of serving. */
static bool answer_questions(const struct mc_options *options)
{
    if (mc_options_asked(options, "help")) {
        mc_options_print_help(options, stdout, "mooncake_master [--option=value ...]");
        return true;
    }
    if (mc_options_asked(options, "version")) {
        (void)puts(MC_MASTER_PROGRAM);
        return true;
    }
    if (mc_options_asked(options, "print_config")) {
        mc_options_print(options, stdout);
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    static struct config_listing listing;
    struct conf conf = {0};
    struct mc_options *options = NULL;
    int status = 0;
    mooncake_err err;

    (void)signal(SIGPIPE, SIG_IGN);
    mc_mem_keep_freed(); /* objects go by the hundred thousand when a store dies */
    err = mc_options_create("mooncake_master", option_table, MC_ARRAY_LEN(option_table), &conf,
                            &options);
    if (err != MOONCAKE_OK) {
        return complain(err);
    }
    err = mc_options_read(options, &argc, argv, 0);
    if (err == MOONCAKE_OK && answer_questions(options)) {
        status = mc_close_stdout("mooncake_master", 0, EXIT_FAILED);
    } else if (err == MOONCAKE_OK) {
        mc_options_print(options, stderr);
        err = config_listing_init(&listing, options);
        if (err == MOONCAKE_OK) {
            err = run_master(&conf, &listing.reply);
        }
        mc_arena_fini(&listing.arena);
    }
    mc_options_destroy(&options);
    return err == MOONCAKE_OK ? status : complain(err);
}
