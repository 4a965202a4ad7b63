/* What the programs of this room share: they differ in their options only. */
#ifndef MC_STORE_PROGRAM_H
#define MC_STORE_PROGRAM_H

#include "store/store.h"

struct mc_store_program {
    const char *name, *synopsis;
    const struct mc_option *options;
    size_t options_count;
    void *target; /* what they are read into; zeroed */
    /* What was read, as the daemon wants it; texts are borrowed. EINVAL with a sentence. */
    mooncake_err (*configure)(const void *target, struct mc_store_config *out);
};

/** Read the options, answer --help and the like, else run. Returns the exit status. */
int mc_store_program_main(const struct mc_store_program *program, int argc, char **argv);

#endif
