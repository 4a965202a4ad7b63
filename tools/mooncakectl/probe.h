/* A probe of one segment: put, get, compare, remove, each with its time. */
#ifndef MC_CTL_PROBE_H
#define MC_CTL_PROBE_H

#include "ctl.h"

#define MC_PROBE_WHY_CAP 400

struct mc_probe {
    char *name, *state; /* of the segment; owned */
    uint64_t mount_id;
    bool tried, ok;
    uint64_t put_us, get_us, remove_us; /* of the steps that went well */
    char why[MC_PROBE_WHY_CAP];         /* what went wrong; "" if nothing has */
};

struct mc_probes {
    struct mc_probe *items; /* owned */
    size_t count;
};

/**
 * List the segments and probe those that take new data, one after the other.
 *
 * @param len         bytes of each probe
 * @param timeout_ms  for each step
 * @return MC_EXIT_OK when every one was looked at, whatever came of it; else the fault has been
 * told
 */
enum mc_exit mc_probe_all(const struct mc_ctl *ctl, size_t len, uint32_t timeout_ms,
                          struct mc_probes *out);
void mc_probes_free(struct mc_probes *probes);

#endif
