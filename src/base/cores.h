/* How many processors there are for us. */
#ifndef MC_BASE_CORES_H
#define MC_BASE_CORES_H

#include <stdint.h>

/**
 * Processors that the calling thread may run on, at least 1: less than the machine has under a
 * cpuset (taskset, a container's `cpus`) on it. A quota of time (CFS) is not looked at.
 */
uint32_t mc_cores_allowed(void);

#endif
