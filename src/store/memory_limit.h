/* How much memory this process may fill before the kernel kills it. */
#ifndef MC_STORE_MEMORY_LIMIT_H
#define MC_STORE_MEMORY_LIMIT_H

#include <limits.h>
#include <stdint.h>

struct mc_memory_limit {
    uint64_t bytes;      /* INT64_MAX if nothing is known */
    char file[PATH_MAX]; /* of the control group that says so; "": the machine has no more */
};

/**
 * The least of the machine's memory and the limits of the process's control group and its parents
 * (memory.max of cgroup v2, memory.limit_in_bytes of v1), as far as they can be read. Without the
 * groups' limits if @p groups is NULL. Blocks for as long as a few small files take.
 *
 * @param groups  where /proc and the groups' file systems are looked for: "" but in tests
 */
void mc_memory_limit_find(const char *groups, struct mc_memory_limit *out);

#endif
