/*
 * Drain jobs: what the HTTP routes /api/v1/drain_jobs know about segments that are taken out of
 * placement. They stand on the core's drain, as mooncakectl does: what a segment holds stays
 * readable where it is until its store leaves; nothing is moved. A job has succeeded when nobody
 * uses what its segments hold. Kept in memory only. One thread: the core's loop.
 */
#ifndef MC_MASTER_MASTER_DRAIN_H
#define MC_MASTER_MASTER_DRAIN_H

#include "base/list.h"
#include "master/core.h"

/* Jobs that are remembered; of more, the oldest that has ended goes. Bounds memory. */
#define MC_DRAIN_JOBS_MAX 64u
#define MC_DRAIN_JOB_ID_CAP 17u

/* X(NAME, number) */
#define MC_DRAIN_STATUS_LIST(X)                                                                    \
    X(RUNNING, 2)                                                                                  \
    X(SUCCEEDED, 3)                                                                                \
    X(FAILED, 4)                                                                                   \
    X(CANCELED, 5)

enum mc_drain_status {
#define MC_DRAIN_STATUS_ENUM_(name, number) MC_DRAIN_##name = (number),
    MC_DRAIN_STATUS_LIST(MC_DRAIN_STATUS_ENUM_)
#undef MC_DRAIN_STATUS_ENUM_
};

struct mc_drain_job {
    struct mc_list node;
    char id[MC_DRAIN_JOB_ID_CAP];
    enum mc_drain_status status;
    uint64_t created_ms, updated_ms; /* wall clock */
    uint64_t bytes_in_use;           /* leased, being read or written */
    size_t count;                    /* of segments */
    struct mc_drain_unit {
        char *name; /* owned */
        uint64_t mount_id;
        enum mc_drain_status status;
    } * units; /* owned */
};

struct mc_drain_jobs {
    struct mc_list jobs; /* oldest first */
    unsigned count;
};

void mc_drain_jobs_init(struct mc_drain_jobs *jobs);
void mc_drain_jobs_fini(struct mc_drain_jobs *jobs);

/**
 * Begin to drain @p count segments (1 to MC_SEGMENTS_PER_STORE_MAX), all or none of them.
 *
 * @retval ENOSEGMENT  one is not mounted; the sentence names it
 * @retval ETASKQUEUE  so many jobs run that none can be forgotten
 */
mooncake_err mc_drain_job_create(struct mc_drain_jobs *jobs, struct mc_core *core,
                                 const char *const *names, size_t count,
                                 const struct mc_drain_job **out) MC_MUST_CHECK;
/** How it stands now. @retval ENOTASK */
mooncake_err mc_drain_job_look(struct mc_drain_jobs *jobs, struct mc_core *core, const char *id,
                               const struct mc_drain_job **out) MC_MUST_CHECK;
/** Its segments take new data again. @retval ENOTASK; EUNAVAILABLE: it has failed or was cancelled,
 * or a store leaves by itself, which cannot be undone here */
mooncake_err mc_drain_job_cancel(struct mc_drain_jobs *jobs, struct mc_core *core, const char *id,
                                 const struct mc_drain_job **out) MC_MUST_CHECK;

const char *mc_drain_status_name(enum mc_drain_status status);

#endif
