/*
 * The store's side of `shm`: hands the memory of its mounts to processes of the same host over a
 * Unix socket, to those that the policy trusts. Who holds a segment's memory can read and write all
 * of it, so the policy is the whole protection: capabilities guard the network paths only.
 *
 * The server has a thread of its own. Any thread may call these; open and close one at a time. A
 * mount that is dropped (mount_table.h) is taken back from every peer before mc_mount_drop()
 * returns, which must not be called from a thread that closes the server meanwhile.
 */
#ifndef MC_TRANSPORT_SHM_SERVER_H
#define MC_TRANSPORT_SHM_SERVER_H

#include <stdint.h>

#include "base/err.h"
#include "base/metric.h"

struct mc_shm_server;

enum mc_shm_policy {
    MC_SHM_OFF, /* nobody */
    MC_SHM_UID, /* processes of the same user, and root */
    MC_SHM_ANY, /* every process that can reach the socket */
};

/** "uid", "any" or "off". EINVAL: the sentence lists them. */
mooncake_err mc_shm_policy_parse(const char *text, enum mc_shm_policy *out) MC_MUST_CHECK;

struct mc_shm_server_stats {
    struct mc_counter granted, refused;
    struct mc_gauge connections;
};

/**
 * Listen on a socket of its own in @p dir, which is made if it is missing; sockets there that
 * belong to nobody any more are removed.
 *
 * @param dir  NULL or "": /run/mooncake for root, else $XDG_RUNTIME_DIR/mooncake, else
 *             /tmp/mooncake-<uid>
 * @retval EINVAL  the directory cannot be used: the sentence says why; policy OFF
 * @retval ENOMEM
 */
mooncake_err mc_shm_server_open(const char *dir, enum mc_shm_policy policy,
                                struct mc_shm_server **out) MC_MUST_CHECK;
/** "shm://..." for the mount's list of addresses. Valid as long as the server. */
const char *mc_shm_server_address(const struct mc_shm_server *server);
const struct mc_shm_server_stats *mc_shm_server_stats(const struct mc_shm_server *server);
/** Ends all connections and removes the socket. Nulls *server; accepts NULL in it. */
void mc_shm_server_close(struct mc_shm_server **server);

#endif
