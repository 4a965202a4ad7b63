#include "base/cores.h"

#include <sched.h>
#include <unistd.h>

uint32_t mc_cores_allowed(void)
{
    cpu_set_t cores;
    long online;

    if (sched_getaffinity(0, sizeof(cores), &cores) == 0) {
        return (uint32_t)CPU_COUNT(&cores);
    }
    online = sysconf(_SC_NPROCESSORS_ONLN); /* there are more than a cpu_set_t has room for */
    return online < 1 ? 1 : (uint32_t)online;
}
