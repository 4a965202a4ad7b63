/* Two stacks of places in two registered blocks. */
#include "transport/rdma_staging.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define PAGE_LEN 4096u

void mc_rdma_staging_init(struct mc_rdma_staging *staging, const struct mc_verbs *verbs,
                          const struct mc_rdma_port *ports, unsigned ports_count, uint64_t len)
{
    *staging = (struct mc_rdma_staging){.verbs = verbs,
                                        .ports = ports,
                                        .ports_count = ports_count,
                                        .len = len == 0 ? MC_RDMA_STAGING_DEFAULT : len};
}

/* A block of @p count places, registered with every device, and the stack of its places. */
static mooncake_err make_block(struct mc_rdma_staging *staging, unsigned count, size_t place_len,
                               struct mc_rdma_region *region, uint8_t **out_block,
                               uint32_t **out_free)
{
    uint8_t *block = mc_aligned_alloc(PAGE_LEN, count * place_len);
    uint32_t *stack = mc_calloc(count, sizeof(*stack));
    mooncake_err err = block == NULL || stack == NULL ? MOONCAKE_ENOMEM : MOONCAKE_OK;

    for (unsigned i = 0; err == MOONCAKE_OK && i < staging->ports_count; i++) {
        if (region->mrs[staging->ports[i].device->index] == NULL) {
            err = mc_rdma_region_add(region, staging->verbs, staging->ports[i].device, block,
                                     count * place_len);
        }
    }
    if (err != MOONCAKE_OK) {
        mc_rdma_region_fini(region);
        mc_free(block);
        mc_free(stack);
        return err;
    }
    for (unsigned i = 0; i < count; i++) {
        stack[i] = count - 1 - i; /* the first place comes out first */
    }
    *out_block = block;
    *out_free = stack;
    return MOONCAKE_OK;
}

/* Take less if the limit on locked memory allows no more. */
static mooncake_err make_chunks(struct mc_rdma_staging *staging)
{
    unsigned count = staging->len / MC_RDMA_CHUNK_LEN > UINT16_MAX
                         ? UINT16_MAX
                         : (unsigned)(staging->len / MC_RDMA_CHUNK_LEN);
    mooncake_err err;

    if (staging->failed_ns > 0 &&
        mc_monotonic_ns() < staging->failed_ns + MC_RDMA_REGISTER_AGAIN_NS) {
        return mc_err_set(MOONCAKE_ENOMEM, "rdma: no staging memory could be registered a moment "
                                           "ago (RLIMIT_MEMLOCK); it is tried again soon");
    }
    count = count == 0 ? 1 : count;
    do {
        err = make_block(staging, count, MC_RDMA_CHUNK_LEN, &staging->chunks_region,
                         &staging->chunks, &staging->chunks_free);
        if (err == MOONCAKE_ENOMEM) {
            mc_log_warn("rdma.staging", "bytes=%llu detail=\"%s\"",
                        (unsigned long long)(count * MC_RDMA_CHUNK_LEN), mooncake_last_error());
            count /= 2;
        }
    } while (err == MOONCAKE_ENOMEM && count > 0);
    staging->failed_ns = err == MOONCAKE_OK ? 0 : mc_monotonic_ns();
    if (err == MOONCAKE_OK) {
        staging->chunks_count = count;
        staging->chunks_free_count = count;
    }
    return err;
}

void mc_rdma_staging_fini(struct mc_rdma_staging *staging)
{
    MC_ASSERT(staging->headers == NULL || staging->headers_free_count == MC_RDMA_OPS_MAX);
    MC_ASSERT(staging->chunks_free_count == staging->chunks_count);
    mc_rdma_region_fini(&staging->headers_region);
    mc_rdma_region_fini(&staging->chunks_region);
    mc_free(staging->headers);
    mc_free(staging->headers_free);
    mc_free(staging->chunks);
    mc_free(staging->chunks_free);
}

mooncake_err mc_rdma_staging_take_header(struct mc_rdma_staging *staging, uint8_t **out)
{
    if (staging->headers == NULL) {
        MC_TRY(make_block(staging, MC_RDMA_OPS_MAX, MC_EXTENT_HEADER_LEN, &staging->headers_region,
                          &staging->headers, &staging->headers_free));
        staging->headers_free_count = MC_RDMA_OPS_MAX;
    }
    if (staging->headers_free_count == 0) {
        return MOONCAKE_EREPLICABUSY;
    }
    *out = staging->headers +
           (size_t)staging->headers_free[--staging->headers_free_count] * MC_EXTENT_HEADER_LEN;
    return MOONCAKE_OK;
}

void mc_rdma_staging_return_header(struct mc_rdma_staging *staging, uint8_t *header)
{
    MC_ASSERT(staging->headers_free_count < MC_RDMA_OPS_MAX);
    staging->headers_free[staging->headers_free_count++] =
        (uint32_t)((size_t)(header - staging->headers) / MC_EXTENT_HEADER_LEN);
}

mooncake_err mc_rdma_staging_take_chunk(struct mc_rdma_staging *staging, uint8_t **out)
{
    if (staging->chunks == NULL) {
        MC_TRY(make_chunks(staging));
    }
    if (staging->chunks_free_count == 0) {
        return MOONCAKE_EREPLICABUSY;
    }
    *out = staging->chunks +
           (size_t)staging->chunks_free[--staging->chunks_free_count] * MC_RDMA_CHUNK_LEN;
    return MOONCAKE_OK;
}

void mc_rdma_staging_return_chunk(struct mc_rdma_staging *staging, uint8_t *chunk)
{
    MC_ASSERT(staging->chunks_free_count < staging->chunks_count);
    staging->chunks_free[staging->chunks_free_count++] =
        (uint32_t)((size_t)(chunk - staging->chunks) / MC_RDMA_CHUNK_LEN);
}
