/* Registered memory, and what is known about peers. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "client/call.h"
#include "transport/rdma_pin.h"

void mc_client_transport_options(const struct mooncake_client *client,
                                 struct mc_transport_options *out)
{
    *out = (struct mc_transport_options){
        .memreg = client->memreg,
        .peers = client->peers,
        .rdma_devices = client->rdma_devices,
        .rdma_gid_index = client->rdma_gid_index,
        .rdma_poll = client->rdma_poll,
        .rdma_staging = client->rdma_staging,
    };
}

/* Pin it now and not in the first transfer. A client that has other transports does without. */
static mooncake_err pin(struct mooncake_client *client, const void *data, uint64_t len)
{
    struct mc_transport_options options;
    mooncake_err err;

    if (!mc_transport_allowed(client->transport, "rdma")) {
        return MOONCAKE_OK;
    }
    mc_client_transport_options(client, &options);
    err = mc_rdma_pin(&options, data, len);
    if (err == MOONCAKE_OK || mc_transport_allowed(client->transport, "tcp")) {
        if (err != MOONCAKE_OK && err != MOONCAKE_ENOTSUP) {
            mc_log_warn("client.unpinned", "bytes=%llu detail=\"%s\"", (unsigned long long)len,
                        mooncake_last_error());
        }
        return MOONCAKE_OK;
    }
    return err;
}

static mooncake_err register_range(struct mooncake_client *client, void *data, uint64_t len)
{
    mooncake_err err;

    MC_TRY(mc_memreg_add(client->memreg, data, len));
    err = pin(client, data, len);
    if (err != MOONCAKE_OK) {
        char detail[400];

        (void)snprintf(detail, sizeof(detail), "%s", mooncake_last_error());
        (void)!mc_memreg_drop(client->memreg, data); /* it is there: the newest at this address */
        return mc_err_set(err, "%s", detail);
    }
    return MOONCAKE_OK;
}

mooncake_err mooncake_register_buffer(mooncake_client *client, void *data, uint64_t len)
{
    mooncake_err err;

    MC_TRY(mc_client_enter(client));
    if (data == NULL) {
        err = mc_err_set(MOONCAKE_EINVAL, "register_buffer: data is NULL");
    } else {
        err = register_range(client, data, len);
    }
    mc_client_leave(client);
    return err;
}

mooncake_err mooncake_unregister_buffer(mooncake_client *client, void *data)
{
    mooncake_err err;

    MC_TRY(mc_client_enter(client));
    if (data == NULL) {
        err = mc_err_set(MOONCAKE_EINVAL, "unregister_buffer: data is NULL");
    } else {
        err = mc_memreg_drop(client->memreg, data);
    }
    mc_client_leave(client);
    return err;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void copy_path(const struct mc_peer_path *from, mooncake_peer_path *to)
{
    (void)snprintf(to->device, sizeof(to->device), "%s", from->device);
    (void)snprintf(to->gid, sizeof(to->gid), "%s", from->gid);
    (void)snprintf(to->gid_kind, sizeof(to->gid_kind), "%s", from->gid_kind);
    to->gid_index = from->gid_index;
    to->mtu = from->mtu;
}

static void copy_peer(const struct mc_peer_info *from, mooncake_peer *to)
{
    memset(to, 0, sizeof(*to));
    (void)snprintf(to->segment, sizeof(to->segment), "%s", from->name);
    (void)snprintf(to->transport, sizeof(to->transport), "%s", from->transport);
    (void)snprintf(to->fallback_from, sizeof(to->fallback_from), "%s", from->fallback_from);
    (void)snprintf(to->fallback_reason, sizeof(to->fallback_reason), "%s", from->fallback_reason);
    to->ops = from->ops;
    to->failures = from->failures;
    to->bytes_read = from->bytes_read;
    to->bytes_written = from->bytes_written;
    to->retries = from->retries;
    to->fallbacks = from->fallbacks;
    to->queue_pairs = from->queue_pairs < 0 ? 0 : (uint32_t)from->queue_pairs;
    for (unsigned i = 0; i < from->paths_count && i < MOONCAKE_PEER_PATHS_MAX; i++) {
        copy_path(&from->paths[i], &to->paths[to->paths_count++]);
    }
}

mooncake_err mooncake_client_peers(mooncake_client *client, mooncake_peer *out, size_t cap,
                                   size_t *out_count)
{
    struct mc_peer_info *infos;
    size_t count;

    MC_TRY(mc_client_enter(client));
    if (out_count == NULL || (out == NULL && cap > 0)) {
        mc_client_leave(client);
        return mc_err_set(MOONCAKE_EINVAL, "client_peers: out or out_count is NULL");
    }
    cap = cap < MC_PEERS_MAX ? cap : MC_PEERS_MAX;
    infos = mc_calloc(cap + 1, sizeof(*infos));
    if (infos == NULL) {
        mc_client_leave(client);
        return MOONCAKE_ENOMEM;
    }
    count = mc_peers_list(client->peers, infos, cap);
    for (size_t i = 0; i < count && i < cap; i++) {
        copy_peer(&infos[i], &out[i]);
    }
    mc_free(infos);
    mc_client_leave(client);
    *out_count = count;
    return MOONCAKE_OK;
}
