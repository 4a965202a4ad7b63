/* A range's regions, made by whoever registers it. */
#include "transport/rdma_pin.h"

#include "transport/rdma_memory.h"

static mooncake_err pin_range(const struct mc_transport_options *options,
                              struct mc_rdma_devices *devices, const void *base, uint64_t len)
{
    const struct mc_rdma_choice choice = {.names = options->rdma_devices,
                                          .gid_index = options->rdma_gid_index};
    struct mc_rdma_port ports[MC_RDMA_PORTS_MAX];
    struct mc_rdma_region *region = NULL;
    struct mc_memreg_range *range;
    unsigned ports_count = 0;
    mooncake_err err;

    MC_TRY(mc_rdma_ports_choose(devices, &choice, ports, &ports_count));
    range = mc_memreg_borrow(options->memreg, base, len);
    if (range == NULL) {
        return MOONCAKE_OK; /* unregistered meanwhile */
    }
    err = mc_rdma_range_region(range, devices->verbs, ports, ports_count, &region);
    mc_memreg_return(options->memreg, range);
    return err;
}

mooncake_err mc_rdma_pin(const struct mc_transport_options *options, const void *base, uint64_t len)
{
    struct mc_rdma_devices *devices = NULL;
    mooncake_err err;

    MC_TRY(mc_rdma_devices_open(&devices));
    err = pin_range(options, devices, base, len);
    mc_rdma_devices_close(&devices);
    return err;
}
