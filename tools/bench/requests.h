/*
 * A workload: requests in order, each the ids of its prompt's blocks. Equal ids are equal blocks
 * with an equal prefix. Also the one random generator of this program.
 */
#ifndef MC_BENCH_REQUESTS_H
#define MC_BENCH_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 2 GiB of ids. */
#define MC_REQUEST_IDS_MAX ((size_t)1 << 28)

struct mc_requests {
    uint64_t *ids;
    size_t *ends; /* request i has ids[ends[i - 1] .. ends[i]) */
    size_t count, ids_count;
    size_t cap, ids_cap;
};

/** Add one request. False: no memory or too many; nothing changed. */
bool mc_requests_add(struct mc_requests *requests, const uint64_t *ids, size_t count);
void mc_requests_fini(struct mc_requests *requests);
/** The ids of request @p i. */
const uint64_t *mc_requests_at(const struct mc_requests *requests, size_t i, size_t *out_count);

/** splitmix64: a seed gives the same numbers everywhere. */
uint64_t mc_random(uint64_t *state);
/** 0 to below @p bound, which is at least 1. */
uint64_t mc_random_below(uint64_t *state, uint64_t bound);

#endif
