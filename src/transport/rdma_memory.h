/*
 * Memory that devices may touch: segments of a store (in parts, for peers) and ranges of a client
 * (for ourselves). Registering pins every page, which may take a while and may not be allowed: the
 * error names RLIMIT_MEMLOCK, what is needed and what there is. Thread-safe where it says so.
 */
#ifndef MC_TRANSPORT_RDMA_MEMORY_H
#define MC_TRANSPORT_RDMA_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "transport/memreg.h"
#include "transport/rdma_device.h"
#include "transport/rdma_wire.h"

#define MC_RDMA_REGISTER_AGAIN_NS (10ull * 1000000000ull)

/* A range, registered with each of some devices. */
struct mc_rdma_region {
    const struct mc_verbs *verbs;
    struct mc_rdma_devices *devices;         /* held; NULL: the user's care */
    struct ibv_mr *mrs[MC_RDMA_DEVICES_MAX]; /* by device index; NULL: not with this one */
    _Atomic int numa_node;                   /* of its first page; -1: unknown */
    bool placed;        /* the node was asked for, known or not. Under the ranges' lock, as is: */
    uint64_t failed_ns; /* when registering failed last; 0: it has not */
};

/**
 * Register [at, at + len) with @p device, for our own use as source and destination.
 * ENOMEM: RLIMIT_MEMLOCK or memory; ERPC: the device refuses. Not twice with one device.
 */
mooncake_err mc_rdma_region_add(struct mc_rdma_region *region, const struct mc_verbs *verbs,
                                struct mc_rdma_device *device, void *at, size_t len) MC_MUST_CHECK;
void mc_rdma_region_fini(struct mc_rdma_region *region);

/**
 * The region of a registered caller range, pinned with all of @p ports: made when it is first asked
 * for, shared by all engines, released with the range. Any thread; may take as long as pinning
 * takes. ENOMEM, ERPC as above (what was pinned stays for the next try).
 */
mooncake_err mc_rdma_range_region(struct mc_memreg_range *range, const struct mc_verbs *verbs,
                                  const struct mc_rdma_port *ports, unsigned ports_count,
                                  struct mc_rdma_region **out) MC_MUST_CHECK;
/** The same, for one who can do without: EUNAVAILABLE at once if it has failed less than
 * MC_RDMA_REGISTER_AGAIN_NS ago, since pinning what does not fit takes long each time. */
mooncake_err mc_rdma_range_region_soon(struct mc_memreg_range *range, const struct mc_verbs *verbs,
                                       const struct mc_rdma_port *ports, unsigned ports_count,
                                       struct mc_rdma_region **out) MC_MUST_CHECK;

/* A segment in parts, registered for peers with several devices. */
struct mc_rdma_segment;

/* How a segment is cut and what is said meanwhile; 0 is the default. */
struct mc_rdma_segment_options {
    uint64_t part_len_min; /* bytes of a part, a multiple of 4096; 1 GiB */
    uint32_t progress_ms;  /* how often it is said how far it is; 2000 */
};

/** Registers parts in parallel and logs how far it is. ENOMEM, ERPC as above, and then nothing is
 * registered: the sentence has what the whole segment needs. */
mooncake_err mc_rdma_segment_create(const struct mc_verbs *verbs, const struct mc_rdma_port *ports,
                                    unsigned ports_count, uint8_t *base, uint64_t len,
                                    const struct mc_rdma_segment_options *options,
                                    struct mc_rdma_segment **out) MC_MUST_CHECK;
void mc_rdma_segment_destroy(struct mc_rdma_segment **segment);
const uint8_t *mc_rdma_segment_base(const struct mc_rdma_segment *segment);
/** What a peer that comes over @p device is told; mtu is the caller's to fill. */
void mc_rdma_segment_answer(const struct mc_rdma_segment *segment,
                            const struct mc_rdma_device *device, struct mc_rdma_answer *out);

#endif
