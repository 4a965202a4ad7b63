/*
 * The pool's last hour, for who opens the page at /ui just now: one sample each 10 s in a ring.
 * Counters are kept as they are; who draws takes differences.
 */
#ifndef MC_MASTER_HISTORY_H
#define MC_MASTER_HISTORY_H

#include "base/buf.h"
#include "base/err.h"

#define MC_HISTORY_STEP_MS 10000u
/* One hour. */
#define MC_HISTORY_SAMPLES_MAX 360u

/* X(name): what a sample holds, under the names that /ui/history shows. */
#define MC_HISTORY_LIST(X)                                                                         \
    X(used)                                                                                        \
    X(capacity)                                                                                    \
    X(keys)                                                                                        \
    X(hits)                                                                                        \
    X(misses)                                                                                      \
    X(read_bytes)                                                                                  \
    X(written_bytes)                                                                               \
    X(evicted_bytes)                                                                               \
    X(evicted_for_puts_bytes)                                                                      \
    X(put_rejected)

struct mc_history_sample {
    uint64_t at_ns; /* monotonic */
#define MC_HISTORY_FIELD_(name) uint64_t name;
    MC_HISTORY_LIST(MC_HISTORY_FIELD_)
#undef MC_HISTORY_FIELD_
};

struct mc_history {
    struct mc_history_sample samples[MC_HISTORY_SAMPLES_MAX];
    unsigned next, count;
};

/** Keep a sample; of more than an hour's, the oldest goes. */
void mc_history_add(struct mc_history *history, const struct mc_history_sample *sample);
/** {"step_seconds":10,"fields":["age_seconds",..],"samples":[[..],..]}, oldest first. ENOMEM. */
mooncake_err mc_history_print(const struct mc_history *history, uint64_t now_ns,
                              struct mc_buf *out) MC_MUST_CHECK;

#endif
