/* A whole master inside the fuzz target's process, with a core of a given epoch. */
#ifndef MC_TESTS_FUZZ_A_MASTER_H
#define MC_TESTS_FUZZ_A_MASTER_H

#include "master/master_impl.h"

/* Who mounts and puts. */
#define A_MASTER_CLIENT 7u

/** Options of the core: attempts are numbered the same in each life. */
void a_master_options(struct mc_core_options *out);
/** The one master of this process; opened by the first call. */
struct mc_master *a_master(void);
/** A new, empty core. */
void a_master_renew(struct mc_master *master);
/** Two segments, and some keys with odd bytes in them. */
void a_master_fill(struct mc_core *core);

#endif
