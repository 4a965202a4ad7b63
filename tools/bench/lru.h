/*
 * The model that a replay is compared with: an exact LRU cache of so many blocks, requests one
 * after another, one hit for each block found in the unbroken prefix of a prompt.
 */
#ifndef MC_BENCH_LRU_H
#define MC_BENCH_LRU_H

#include "requests.h"

/**
 * @param capacity  in blocks; 0: unlimited
 * @param out_hits  of all requests
 * @return false: no memory
 */
bool mc_lru_run(const struct mc_requests *requests, uint64_t capacity, uint64_t *out_hits);

/** How many different ids there are. False: no memory. */
bool mc_lru_distinct(const struct mc_requests *requests, uint64_t *out_distinct);

#endif
