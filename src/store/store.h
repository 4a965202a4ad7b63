/* The daemon mooncake_store: its options, and running it until it is told to end. */
#ifndef MC_STORE_STORE_H
#define MC_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/option.h"

struct mc_store_config {
    char *master;
    struct mc_option_texts segment;
    char *name;
    char *data_address;
    char *advertise_host;
    char *port_file;
    char *admin_port, *admin_address;
    char *log_level;
    char *shm, *shm_dir;
    char *rdma, *rdma_devices, *rdma_gid_index;
    uint32_t loops;
    uint32_t poll_us;
    uint64_t grace;           /* milliseconds */
    uint64_t connect_timeout; /* milliseconds */
    bool huge_pages;
    bool serve_clients;
    char *serve_address;
    uint16_t serve_port;
    char *pools_max;
    const char *program; /* what messages call this program; no option */
};

/** The options of mooncake_store; *out_count of them. */
const struct mc_option *mc_store_option_table(size_t *out_count);

/**
 * Serve until SIGTERM or SIGINT, then leave the pool and return.
 *
 * @retval EINVAL          an option is out of range: the sentence names it
 * @retval ESEGMENTEXISTS  another live store kept a segment of our name
 * @retval ENOMEM, ERPC    memory or the data port could not be had
 */
mooncake_err mc_store_run(const struct mc_store_config *config) MC_MUST_CHECK;

#endif
