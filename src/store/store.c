/* The daemon: options into a serving core, signals into a graceful leave. */
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/port_file.h"
#include "io/service.h"
#include "store/attach.h"
#include "store/memory_limit.h"
#include "store/store_admin.h"
#include "store/store_serve.h"

/* A store that was killed and started again finds its old mount alive until the master's client
 * TTL (10 s by default) has ended it. A name that is taken for longer belongs to somebody else. */
#define NAME_TAKEN_MS_MAX 60000u
/* Data threads when nobody says how many: half of the cores, within these. The kernel's part of
 * moving bytes takes as long as ours and runs on the others. */
#define LOOPS_CHOSEN_MIN 1u
#define LOOPS_CHOSEN_MAX 4u

static const struct mc_option options[] = {
    MC_OPTION(struct mc_store_config, master, TEXT, "127.0.0.1:50051",
              "address of the master, host:port"),
    MC_OPTION(struct mc_store_config, segment, TEXTS, NULL,
              "bytes to lend as a segment, such as 4GiB"),
    MC_OPTION(struct mc_store_config, name, TEXT, "",
              "name of the segments, host or host:port; empty: this machine's name and the port"),
    MC_OPTION(struct mc_store_config, data_address, TEXT, "0.0.0.0:0",
              "address to serve the segments on; port 0 lets the kernel pick"),
    MC_OPTION(struct mc_store_config, advertise_host, TEXT, "",
              "host that peers connect to; empty: our address on the way to the master"),
    MC_OPTION(struct mc_store_config, port_file, TEXT, "",
              "file that gets data_port=N once the segments are mounted"),
    MC_OPTION(struct mc_store_config, admin_port, TEXT, "",
              "port of the admin HTTP pages; 0 lets the kernel pick; empty: none"),
    MC_OPTION(struct mc_store_config, admin_address, TEXT, "0.0.0.0",
              "numeric address that they listen on"),
    MC_OPTION(struct mc_store_config, log_level, TEXT, "info", "error, warn, info, debug or off"),
    MC_OPTION(struct mc_store_config, loops, U32, "0",
              "data threads; 0: one for two cores, at most 4", .min = 0, .max = 16),
    MC_OPTION(struct mc_store_config, poll_us, U32, "50",
              "microseconds a data thread polls before it sleeps", .min = 0, .max = 1000000),
    MC_OPTION(struct mc_store_config, grace, SECONDS, "3",
              "seconds that reads are served after SIGTERM", .min = 0, .max = 3600000),
    MC_OPTION(struct mc_store_config, connect_timeout, MS, "3s",
              "longest time for one attempt to reach the master", .min = 1, .max = 600000),
    MC_OPTION(struct mc_store_config, shm, TEXT, "uid",
              "who on this host may map the segments: uid (the same user), any or off"),
    MC_OPTION(struct mc_store_config, shm_dir, TEXT, "",
              "directory of the socket for that; empty: /run/mooncake, or the user's own"),
    MC_OPTION(struct mc_store_config, rdma, TEXT, "auto",
              "serve the segments by RDMA: auto (where it works), on (or fail) or off"),
    MC_OPTION(struct mc_store_config, rdma_devices, TEXT, "",
              "RDMA devices to use, such as mlx5_0,mlx5_1:2; empty: all with a routable GID"),
    MC_OPTION(struct mc_store_config, rdma_gid_index, TEXT, "auto",
              "index of the GID to use on each of them; auto: RoCE v2 with an IPv4 address first"),
    MC_OPTION(struct mc_store_config, huge_pages, BOOL, "false",
              "take the segments from the kernel's pool of huge pages"),
    MC_OPTION(struct mc_store_config, serve_clients, BOOL, "false",
              "also serve thin clients of this host (setup_dummy); a segment is not needed then"),
    MC_OPTION(struct mc_store_config, serve_address, TEXT, "0.0.0.0",
              "numeric address to serve them on"),
    MC_OPTION(struct mc_store_config, serve_port, PORT, "50052",
              "port to serve them on; 0 lets the kernel pick"),
    MC_OPTION(struct mc_store_config, pools_max, TEXT, "",
              "bytes of memory to share with them in all; empty: as much as the machine has"),
};

/* Three lines. */
#define PORTS_LEN_MAX 64

struct daemon {
    const struct mc_store_config *config;
    struct mc_loop *loop;
    struct mc_store *store;
    struct mc_store_admin *admin;
    struct mc_attach *attach; /* NULL: no thin clients are served */
    struct mc_service *service;
    uint64_t lent; /* bytes */
    uint64_t started_ns;
    bool joined_once;
    mooncake_err err; /* why it ends; OK: it was told to */
    char detail[512];
    char version[MC_PROGRAM_LEN_MAX + 1]; /* "mooncake_store 0.1.0" */
};

const struct mc_option *mc_store_option_table(size_t *out_count)
{
    *out_count = MC_ARRAY_LEN(options);
    return options;
}

static mooncake_err write_port_file(const char *path, uint16_t port, uint16_t admin_port,
                                    uint16_t serve_port)
{
    const struct {
        const char *name;
        uint16_t port;
    } ports[] = {{"data_port", port}, {"admin_port", admin_port}, {"serve_port", serve_port}};
    char lines[PORTS_LEN_MAX];
    int len = 0;

    for (size_t i = 0; i < MC_ARRAY_LEN(ports); i++) {
        if (i == 0 || ports[i].port != 0) {
            len += snprintf(lines + len, sizeof(lines) - (size_t)len, "%s=%u\n", ports[i].name,
                            (unsigned)ports[i].port);
        }
    }
    return mc_port_file_write(path, lines);
}

static void end(struct daemon *daemon, mooncake_err err)
{
    daemon->err = err;
    (void)snprintf(daemon->detail, sizeof(daemon->detail), "%s", mooncake_last_error());
    mc_loop_stop_soon(daemon->loop);
}

static void on_joined(struct daemon *daemon)
{
    const char *port_file = daemon->config->port_file;
    uint16_t serve_port = mc_attach_port(daemon->attach);
    char size[32];

    if (daemon->joined_once) {
        return;
    }
    daemon->joined_once = true;
    if (daemon->attach != NULL) {
        mc_attach_set_ready(daemon->attach);
    }
    if (port_file[0] != '\0') {
        mooncake_err err = write_port_file(port_file, mc_store_data_port(daemon->store),
                                           mc_store_admin_port(daemon->admin), serve_port);

        if (err != MOONCAKE_OK) {
            end(daemon, err);
            return;
        }
    }
    (void)printf("%s: lends %s as %s, data port %u, master %s\n", daemon->config->program,
                 mc_format_size(daemon->lent, size, sizeof(size)), mc_store_name(daemon->store),
                 (unsigned)mc_store_data_port(daemon->store), daemon->config->master);
    if (serve_port != 0) {
        (void)printf("%s: serves thin clients of this host on port %u\n", daemon->config->program,
                     (unsigned)serve_port);
    }
    (void)fflush(stdout);
}

static void on_join_failed(struct daemon *daemon, mooncake_err err)
{
    uint64_t tried_ns = mc_monotonic_ns() - daemon->started_ns;

    if (err == MOONCAKE_EINVAL && !daemon->joined_once) {
        end(daemon, err);
    } else if (err == MOONCAKE_ESEGMENTEXISTS && !daemon->joined_once &&
               tried_ns > NAME_TAKEN_MS_MAX * MC_NS_PER_MS) {
        end(daemon, err);
    }
}

static void say(struct daemon *daemon, const char *what)
{
    char status[256];

    (void)snprintf(status, sizeof(status), "%s; master %s", what, daemon->config->master);
    mc_service_status(daemon->service, status);
}

static void on_state(void *arg, enum mc_store_state state, mooncake_err err)
{
    struct daemon *daemon = arg;

    switch (state) {
    case MC_STORE_JOINING:
        say(daemon, "tries to join");
        on_join_failed(daemon, err);
        break;
    case MC_STORE_JOINED:
        say(daemon, "lends memory");
        on_joined(daemon);
        break;
    case MC_STORE_LEAVING:
        mc_service_stopping(daemon->service);
        break;
    case MC_STORE_LEFT:
        mc_loop_stop_soon(daemon->loop);
        break;
    }
}

static void on_signal(void *arg, int signum)
{
    struct daemon *daemon = arg;
    bool again;

    if (daemon->store == NULL) { /* closed: one more signal came with the loop's last turns */
        return;
    }
    again = mc_store_state(daemon->store) == MC_STORE_LEAVING;
    mc_log_info("store.signal", "signal=%d again=%s", signum, again ? "yes" : "no");
    /* Nobody can be reading from a store that was never mounted. */
    mc_store_leave(daemon->store, again || !daemon->joined_once ? 0 : daemon->config->grace);
}

/* With more than there is the store would be killed when it is in use. */
static mooncake_err check_memory(const struct daemon *daemon)
{
    struct mc_memory_limit limit;
    char sum[32], all[32];

    /* Huge pages are not counted by control groups' limits on memory. */
    mc_memory_limit_find(daemon->config->huge_pages ? NULL : "", &limit);
    (void)mc_format_size(daemon->lent, sum, sizeof(sum));
    (void)mc_format_size(limit.bytes, all, sizeof(all));
    if (daemon->lent <= limit.bytes) {
        return MOONCAKE_OK;
    }
    if (limit.file[0] == '\0') {
        return mc_err_set(MOONCAKE_EINVAL,
                          "segment: %s in all are more than this machine's memory, %s", sum, all);
    }
    return mc_err_set(
        MOONCAKE_EINVAL,
        "segment: %s in all are more than this container or service may use, %s (%.300s "
        "says %" PRIu64 "): lend less, or raise that limit",
        sum, all, limit.file, limit.bytes);
}

static mooncake_err parse_segments(struct daemon *daemon, uint64_t *lens)
{
    const struct mc_option_texts *texts = &daemon->config->segment;

    bool needed = !daemon->config->serve_clients;

    if ((needed && texts->count == 0) || texts->count > MC_SEGMENTS_PER_STORE_MAX) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "segment: %zu given; say what to lend with 1 to %u of them, such as "
                          "--segment=4GiB",
                          texts->count, MC_SEGMENTS_PER_STORE_MAX);
    }
    for (size_t i = 0; i < texts->count; i++) {
        if (mc_parse_size(texts->items[i], &lens[i]) != MOONCAKE_OK ||
            lens[i] > UINT64_MAX - daemon->lent) {
            return mc_err_set(MOONCAKE_EINVAL, "segment: \"%s\" is not a size; write e.g. 4GiB",
                              texts->items[i]);
        }
        daemon->lent += lens[i];
    }
    return check_memory(daemon);
}

static unsigned choose_loops(uint32_t wished)
{
    uint32_t half = mc_cores_allowed() / 2;

    if (wished > 0) {
        return wished;
    }
    return half < LOOPS_CHOSEN_MIN   ? LOOPS_CHOSEN_MIN
           : half > LOOPS_CHOSEN_MAX ? LOOPS_CHOSEN_MAX
                                     : half;
}

static const char *text_or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

static mooncake_err open_store(struct daemon *daemon)
{
    const struct mc_store_config *config = daemon->config;
    uint64_t lens[MC_SEGMENTS_PER_STORE_MAX];
    struct mc_store_options store = {
        .master = config->master,
        .program = daemon->version,
        .role = config->segment.count > 0 ? MC_ROLE_STORE : MC_ROLE_CLIENT,
        .client_id = mc_random_u64(),
        .segment_lens = lens,
        .segments_count = config->segment.count,
        .huge_pages = config->huge_pages,
        .name = text_or_null(config->name),
        .data_address = config->data_address,
        .advertise_host = text_or_null(config->advertise_host),
        .loops = choose_loops(config->loops),
        .shm_dir = config->shm_dir,
        .rdma_devices = config->rdma_devices,
        .rdma_gid_index = config->rdma_gid_index,
        .poll_us = config->poll_us,
        .connect_timeout_ms = (uint32_t)config->connect_timeout,
        .on_state = on_state,
        .arg = daemon,
    };

    MC_TRY(parse_segments(daemon, lens));
    MC_TRY(mc_shm_policy_parse(config->shm, &store.shm));
    MC_TRY(mc_rdma_policy_parse(config->rdma, &store.rdma));
    return mc_store_open(daemon->loop, &store, &daemon->store);
}

static mooncake_err open_attach(struct daemon *daemon)
{
    const struct mc_store_config *config = daemon->config;
    char address[MC_ADDR_LEN_MAX];
    struct mc_attach_options attach = {
        .address = address,
        .program = daemon->version,
        .master = config->master,
        .transport = strcmp(config->rdma, "off") == 0 ? "local,shm,tcp" : "auto",
        .rdma_devices = config->rdma_devices,
        .rdma_gid_index = config->rdma_gid_index,
        .shm_dir = config->shm_dir,
    };

    if (!config->serve_clients) {
        return MOONCAKE_OK;
    }
    if (config->pools_max[0] != '\0' &&
        mc_parse_size(config->pools_max, &attach.pools_len_max) != MOONCAKE_OK) {
        return mc_err_set(MOONCAKE_EINVAL, "pools_max: \"%s\" is not a size; write e.g. 64GiB",
                          config->pools_max);
    }
    (void)snprintf(address, sizeof(address),
                   strchr(config->serve_address, ':') != NULL ? "[%s]:%u" : "%s:%u",
                   config->serve_address, (unsigned)config->serve_port);
    MC_TRY(mc_shm_policy_parse(config->shm, &attach.shm));
    return mc_attach_open(daemon->loop, &attach, &daemon->attach);
}

mooncake_err mc_store_run(const struct mc_store_config *config)
{
    struct daemon daemon = {.config = config, .started_ns = mc_monotonic_ns()};
    mooncake_err err = mc_loop_create(0, &daemon.loop);

    (void)snprintf(daemon.version, sizeof(daemon.version), "%s %s", config->program, MC_VERSION);
    if (err != MOONCAKE_OK) {
        return err;
    }
    err = mc_service_create(daemon.loop, &daemon.service);
    if (err == MOONCAKE_OK) {
        err = open_store(&daemon);
    }
    if (err == MOONCAKE_OK) {
        err = open_attach(&daemon);
    }
    if (err == MOONCAKE_OK) {
        const struct mc_store_admin_options admin = {
            .host = config->admin_address, .port = config->admin_port, .attach = daemon.attach};

        err = mc_store_admin_open(daemon.loop, daemon.store, &admin, &daemon.admin);
    }
    if (err == MOONCAKE_OK) {
        err = mc_loop_on_signal(daemon.loop, on_signal, &daemon);
    }
    if (err == MOONCAKE_OK) {
        mc_service_ready(daemon.service); /* a master that is away is no reason to hold up a boot */
        mc_loop_run(daemon.loop);
        err = daemon.err;
    } else {
        (void)snprintf(daemon.detail, sizeof(daemon.detail), "%s", mooncake_last_error());
    }
    mc_store_admin_close(&daemon.admin);
    mc_attach_close(&daemon.attach);
    mc_store_close(&daemon.store);
    mc_service_destroy(&daemon.service);
    mc_loop_destroy(&daemon.loop);
    if (err != MOONCAKE_OK) { /* what was closed had sentences of its own */
        (void)mc_err_set(err, "%s", daemon.detail);
    }
    return err;
}
