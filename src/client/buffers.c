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
        .copiers = client->copiers,
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
