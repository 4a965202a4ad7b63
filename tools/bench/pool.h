/* Opening the pool that the options name. */
#ifndef MC_BENCH_POOL_H
#define MC_BENCH_POOL_H

#include "mooncake/client.h"
#include "options.h"

/** False: @p why says what is wrong and with which master. */
bool mc_pool_open(const struct mc_bench_options *options, mooncake_client **out_client, char *why,
                  size_t why_len);
/** Is the pool there? To be asked before a head of a table is printed; complains on stderr. */
bool mc_pool_try(const struct mc_bench_options *options, const char *command);
/** Is what --verify says a word that it may say? Complains on stderr. */
bool mc_pool_options_check(const struct mc_bench_options *options);
/** A number that no other run has, for keys. */
uint64_t mc_pool_run_id(void);

#endif
