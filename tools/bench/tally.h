/* What a worker counts while it works; lies in memory that processes share, so no pointers. */
#ifndef MC_BENCH_TALLY_H
#define MC_BENCH_TALLY_H

#include "histogram.h"
#include "limits.h"
#include "mooncake/error.h"

#define MC_SENTENCE_LEN 320

/* Figures over limits of the machine; 0: not known. */
struct mc_ratios {
    double copy, stream, stream2; /* rate of bytes over those limits */
    double trip;                  /* median of calls over a round trip */
    double ask; /* the same over a raw request for 1 MiB and one round trip, to the master */
};

struct mc_tally {
    struct mc_histogram latency;   /* of calls */
    uint64_t items, bytes;         /* keys that were served, and bytes of their values */
    uint64_t verified;             /* bytes that were compared */
    uint64_t errors;               /* items that failed */
    uint64_t wrong;                /* values with a wrong byte or length */
    uint64_t cpu_ns;               /* of the workers' threads, inside calls that move much */
    uint64_t daemons_cpu_ns;       /* of the processes in --pids, meanwhile; the same for all */
    double items_rate, bytes_rate; /* per second of time inside calls; added up over workers */
    struct mc_limits beside;       /* what x was made with */
    struct mc_ratios x;
    char sentence[MC_SENTENCE_LEN]; /* about the first error or wrong value */
};

/** One call has ended. */
void mc_tally_call(struct mc_tally *tally, uint64_t ns, uint64_t items, uint64_t bytes);
/** An item has failed. The thread's last error is still there. */
void mc_tally_error(struct mc_tally *tally, const char *what, const char *key, mooncake_err err);
/** A value is not what was put. */
void mc_tally_wrong(struct mc_tally *tally, const char *key, const char *how);
/** The worker has ended: make rates of the sums. */
void mc_tally_finish(struct mc_tally *tally);
/** Set the ratios, to the means of limits before and after. A worker's sums, so not to be merged.
 */
void mc_tally_compare(struct mc_tally *tally, const struct mc_limits *before,
                      const struct mc_limits *after);
/** Add what another worker has counted. */
void mc_tally_merge(struct mc_tally *tally, const struct mc_tally *from);

#define MC_REPEAT_MAX 99u /* runs of one case, as the option's */
/** The one with the median rate, and the medians of all ratios; sorts them. @p count is at least
 * 1. */
const struct mc_tally *mc_tally_median(struct mc_tally *tallies, uint64_t count);

/** Check a value that was read; counts it as verified or wrong. */
void mc_tally_verify(struct mc_tally *tally, const char *key, const void *data, uint64_t len,
                     uint64_t expected_len);

/** Spoil a buffer before a read, so that what was in it before cannot pass for what was read. */
void mc_spoil(void *data, uint64_t len);

#endif
