/* `mooncakectl bench`: another program, started with what follows. */
#ifndef MC_CTL_BENCH_H
#define MC_CTL_BENCH_H

#include "ctl.h"

/**
 * Become mooncake_bench, the one beside this program or else the one in PATH.
 *
 * @param args  its arguments, ended by NULL
 * @return only when that cannot be done, which has been told
 */
enum mc_exit mc_bench_exec(const struct mc_ctl *ctl, char **args);

#endif
