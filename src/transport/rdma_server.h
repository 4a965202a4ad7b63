/*
 * The store's side of `rdma`: registers segments, listens on each chosen port, lets in peers that
 * show a genuine capability, and forgets those that are gone. Once a peer is in, this side does
 * nothing: the devices move the bytes.
 *
 * The server has a thread of its own. Any thread may call these; open and close one at a time. A
 * mount that is dropped (mount_table.h) is taken back from every peer before mc_mount_drop()
 * returns, which must not be called from a thread that closes the server meanwhile.
 */
#ifndef MC_TRANSPORT_RDMA_SERVER_H
#define MC_TRANSPORT_RDMA_SERVER_H

#include <stdint.h>

#include "base/err.h"
#include "base/metric.h"

struct mc_rdma_server;

enum mc_rdma_policy {
    MC_RDMA_OFF,  /* no device is looked at */
    MC_RDMA_AUTO, /* if it works */
    MC_RDMA_ON,   /* or it is an error */
};

/** "auto", "on" or "off". EINVAL: the sentence lists them. */
mooncake_err mc_rdma_policy_parse(const char *text, enum mc_rdma_policy *out) MC_MUST_CHECK;

struct mc_rdma_server_options {
    const char *devices;   /* "mlx5_0,mlx5_1:2"; NULL or "": all with a routable GID */
    const char *gid_index; /* "auto", NULL or a number */
    uint32_t probe_ms;     /* how often a peer is asked whether it is there; 0: 10000 */
    uint64_t part_len_min; /* of a segment, registered in one piece, 0: 1 GiB; tests lower it */
    uint32_t progress_ms;  /* how often it is said how far registering is; 0: 2000 */
};

struct mc_rdma_server_stats {
    struct mc_counter accepted, refused, lost;
    struct mc_counter port_losses; /* times that a port lost its link or its device went */
    struct mc_gauge connections, ports_up;
};

/**
 * @retval ENOTSUP  this machine has no RDMA: the sentence says what is missing
 * @retval EINVAL   a device or GID index is wrong
 * @retval ENOMEM, ERPC
 */
mooncake_err mc_rdma_server_open(const struct mc_rdma_server_options *options,
                                 struct mc_rdma_server **out) MC_MUST_CHECK;
/** Addresses for the mounts' lists, with spaces between; at most @p cap bytes with the NUL. Those
 * that do not fit are left out. */
void mc_rdma_server_addresses(const struct mc_rdma_server *server, char *out, size_t cap);

/**
 * Register memory; mounts with this base can be reached from then on. May take seconds a gigabyte
 * and says how far it is.
 *
 * @retval ENOMEM  RLIMIT_MEMLOCK: the sentence has what is needed and what there is
 */
mooncake_err mc_rdma_server_add_segment(struct mc_rdma_server *server, uint8_t *base,
                                        uint64_t len) MC_MUST_CHECK;
/** Its mounts must have been dropped. Unknown ones are ignored. */
void mc_rdma_server_drop_segment(struct mc_rdma_server *server, const uint8_t *base);

const struct mc_rdma_server_stats *mc_rdma_server_stats(const struct mc_rdma_server *server);
/** Ends all connections, deregisters what is left. Nulls *server; accepts NULL in it. */
void mc_rdma_server_close(struct mc_rdma_server **server);

#endif
