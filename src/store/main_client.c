/*
 * mooncake_client: the same daemon under the name and with the flags of the C++ Mooncake's real
 * client. It lends a segment, and serves the thin clients of its host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option.h"
#include "store/program.h"

#define GRACE_MS 3000u
#define CONNECT_TIMEOUT_MS 3000u
#define POLL_US 50u

struct conf {
    char *host, *metadata_server, *master_server_address, *protocol, *device_names;
    char *global_segment_size, *local_buffer_size, *tenant_id;
    char *port_file, *log_level, *shm, *shm_dir, *pools_max, *admin_port, *admin_address;
    uint16_t port;
    uint32_t threads;
};

#define OPTION(field, kind, ...) MC_OPTION(struct conf, field, kind, __VA_ARGS__)

static const struct mc_option option_table[] = {
    OPTION(host, TEXT, "0.0.0.0",
           "name of this host, which peers connect to; 0.0.0.0: found on the way to the master"),
    OPTION(port, PORT, "50052", "port for thin clients of this host; 0 lets the kernel pick"),
    OPTION(metadata_server, TEXT, "", "accepted and not needed"),
    OPTION(master_server_address, TEXT, "127.0.0.1:50051", "address of the master, host:port"),
    OPTION(protocol, TEXT, "tcp",
           "tcp, or rdma: also RDMA where it works, or fail if MOONCAKE_FORBID_FALLBACK=1"),
    OPTION(device_names, TEXT, "", "RDMA devices to use; empty: all; ignored under tcp"),
    OPTION(global_segment_size, TEXT, "4GiB", "bytes to lend to the pool; 0: none"),
    OPTION(local_buffer_size, TEXT, "",
           "accepted and not needed: thin clients move their bytes themselves"),
    OPTION(threads, U32, "0", "data threads; 0: one for two cores, at most 4", .min = 0, .max = 16),
    OPTION(tenant_id, TEXT, "default", "only default: there are no tenants yet"),
    OPTION(port_file, TEXT, "", "file that gets data_port=N and serve_port=N once it serves"),
    OPTION(pools_max, TEXT, "",
           "bytes of memory to share with thin clients in all; empty: as much as the machine has"),
    OPTION(shm, TEXT, "uid", "who on this host may share memory: uid (the same user), any or off"),
    OPTION(shm_dir, TEXT, "",
           "directory of the sockets for that; empty: /run/mooncake, or the user's own"),
    OPTION(admin_port, TEXT, "",
           "port of the admin HTTP pages; 0 lets the kernel pick; empty: none"),
    OPTION(admin_address, TEXT, "0.0.0.0", "numeric address that they listen on"),
    OPTION(log_level, TEXT, "info", "error, warn, info, debug or off"),
};

/* A path in what is not to be modified: the daemon frees no text of ours. */
static char *unchanged(const char *text)
{
    return (char *)(uintptr_t)text;
}

static bool forbids_fallback(void)
{
    const char *text = getenv("MOONCAKE_FORBID_FALLBACK");

    return text != NULL && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0 ||
                            strcmp(text, "yes") == 0 || strcmp(text, "on") == 0);
}

static mooncake_err choose_rdma(const char *protocol, const char **out)
{
    if (strcmp(protocol, "tcp") == 0) {
        *out = "off";
    } else if (strcmp(protocol, "rdma") == 0) {
        *out = forbids_fallback() ? "on" : "auto";
    } else {
        return mc_err_set(MOONCAKE_EINVAL, "protocol: \"%.40s\" is not there; write tcp or rdma",
                          protocol);
    }
    return MOONCAKE_OK;
}

/* Is this an address that other hosts can use? */
static bool is_reachable(const char *host)
{
    static const char *const others[] = {"", "0.0.0.0", "::", "localhost", "127.0.0.1", "::1"};

    for (size_t i = 0; i < MC_ARRAY_LEN(others); i++) {
        if (strcmp(host, others[i]) == 0) {
            return false;
        }
    }
    return true;
}

static mooncake_err check_buffer_size(const char *text)
{
    uint64_t ignored;

    if (text[0] != '\0' && strcmp(text, "0") != 0 && mc_parse_size(text, &ignored) != MOONCAKE_OK) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "local_buffer_size: \"%.40s\" is not a size; write e.g. 512MiB", text);
    }
    return MOONCAKE_OK;
}

static mooncake_err configure(const void *target, struct mc_store_config *out)
{
    static char *segments[1];
    const struct conf *conf = target;
    const char *rdma = "off";
    bool lends = strcmp(conf->global_segment_size, "0") != 0;
    bool unspecific = strcmp(conf->host, "0.0.0.0") == 0 || strcmp(conf->host, "::") == 0;

    MC_TRY(choose_rdma(conf->protocol, &rdma));
    MC_TRY(check_buffer_size(conf->local_buffer_size));
    if (strcmp(conf->tenant_id, "default") != 0) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "tenant_id: \"%.40s\": there are no tenants yet; leave it out",
                          conf->tenant_id);
    }
    segments[0] = conf->global_segment_size;
    *out = (struct mc_store_config){
        .master = conf->master_server_address,
        .segment = {.items = segments, .count = lends ? 1 : 0},
        .name = unspecific ? unchanged("") : conf->host,
        .data_address = unchanged("0.0.0.0:0"),
        .advertise_host = is_reachable(conf->host) ? conf->host : unchanged(""),
        .port_file = conf->port_file,
        .admin_port = conf->admin_port,
        .admin_address = conf->admin_address,
        .log_level = conf->log_level,
        .shm = conf->shm,
        .shm_dir = conf->shm_dir,
        .rdma = unchanged(rdma),
        .rdma_devices = strcmp(rdma, "off") == 0 ? unchanged("") : conf->device_names,
        .rdma_gid_index = unchanged("auto"),
        .loops = conf->threads,
        .poll_us = POLL_US,
        .grace = GRACE_MS,
        .connect_timeout = CONNECT_TIMEOUT_MS,
        .serve_clients = true,
        .serve_address = unchanged("0.0.0.0"),
        .serve_port = conf->port,
        .pools_max = conf->pools_max,
    };
    return MOONCAKE_OK;
}

int main(int argc, char **argv)
{
    struct conf conf = {0};
    const struct mc_store_program program = {
        .name = "mooncake_client",
        .synopsis = "mooncake_client --master_server_address=HOST:PORT [...]",
        .options = option_table,
        .options_count = MC_ARRAY_LEN(option_table),
        .target = &conf,
        .configure = configure,
    };

    return mc_store_program_main(&program, argc, argv);
}
