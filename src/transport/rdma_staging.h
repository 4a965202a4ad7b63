/*
 * Registered memory of one instance: a place for each op's header, and chunks through which the
 * bytes of unregistered caller memory go. Bounded; nothing here waits.
 *
 * Thread: the loop's owner.
 */
#ifndef MC_TRANSPORT_RDMA_STAGING_H
#define MC_TRANSPORT_RDMA_STAGING_H

#include "transport/rdma_memory.h"

#define MC_RDMA_CHUNK_LEN ((uint64_t)128 << 10)
#define MC_RDMA_STAGING_DEFAULT ((uint64_t)16 << 20)
/* Ops of one instance that may be under way; each has a header here. */
#define MC_RDMA_OPS_MAX 4096u

struct mc_rdma_staging {
    const struct mc_verbs *verbs;
    const struct mc_rdma_port *ports; /* borrowed */
    unsigned ports_count;
    uint64_t len; /* of all chunks, as wished */

    uint8_t *headers; /* owned; NULL until first needed */
    struct mc_rdma_region headers_region;
    uint32_t *headers_free; /* owned; a stack */
    unsigned headers_free_count;

    uint8_t *chunks; /* owned; NULL until first needed */
    struct mc_rdma_region chunks_region;
    uint32_t *chunks_free; /* owned; a stack */
    unsigned chunks_free_count, chunks_count;
    uint64_t failed_ns; /* when there was no memory for even one chunk; 0: there is */
};

void mc_rdma_staging_init(struct mc_rdma_staging *staging, const struct mc_verbs *verbs,
                          const struct mc_rdma_port *ports, unsigned ports_count, uint64_t len);
void mc_rdma_staging_fini(struct mc_rdma_staging *staging);

/** 64 bytes for a header. EREPLICABUSY: MC_RDMA_OPS_MAX are taken; ENOMEM, ERPC: not registered. */
mooncake_err mc_rdma_staging_take_header(struct mc_rdma_staging *staging,
                                         uint8_t **out) MC_MUST_CHECK;
void mc_rdma_staging_return_header(struct mc_rdma_staging *staging, uint8_t *header);

/** MC_RDMA_CHUNK_LEN bytes. EREPLICABUSY: all are in use; ENOMEM, ERPC: not registered. */
mooncake_err mc_rdma_staging_take_chunk(struct mc_rdma_staging *staging,
                                        uint8_t **out) MC_MUST_CHECK;
void mc_rdma_staging_return_chunk(struct mc_rdma_staging *staging, uint8_t *chunk);

#endif
