/* The command `replay`: a workload of prompts against a pool, as an inference engine would. */
#ifndef MC_BENCH_REPLAY_H
#define MC_BENCH_REPLAY_H

#include "options.h"

enum mc_exit mc_replay_run(const struct mc_bench_options *options);

#endif
