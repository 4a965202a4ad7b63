/* The command `peers`: this pool beside Redis and memcached, the same calls in the same run. */
#ifndef MC_BENCH_PEERS_H
#define MC_BENCH_PEERS_H

#include "options.h"

enum mc_exit mc_peers_run(const struct mc_bench_options *options);

#endif
