/* Jobs over the core's drain: made, looked at when somebody asks, cancelled. */
#include "master/master_drain.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"

const char *mc_drain_status_name(enum mc_drain_status status)
{
    switch (status) {
#define NAME(name, number)                                                                         \
    case MC_DRAIN_##name:                                                                          \
        return #name;
        MC_DRAIN_STATUS_LIST(NAME)
#undef NAME
    }
    return "";
}

void mc_drain_jobs_init(struct mc_drain_jobs *jobs)
{
    mc_list_init(&jobs->jobs);
    jobs->count = 0;
}

static void job_free(struct mc_drain_job *job)
{
    for (size_t i = 0; job->units != NULL && i < job->count; i++) {
        mc_free(job->units[i].name);
    }
    mc_free(job->units);
    mc_free(job);
}

static void forget(struct mc_drain_jobs *jobs, struct mc_drain_job *job)
{
    mc_list_drop(&job->node);
    jobs->count--;
    job_free(job);
}

void mc_drain_jobs_fini(struct mc_drain_jobs *jobs)
{
    while (!mc_list_empty(&jobs->jobs)) {
        forget(jobs, mc_list_first(&jobs->jobs, struct mc_drain_job, node));
    }
}

static uint64_t wall_ms(void)
{
    return mc_wall_us() / 1000;
}

/* Room for one more: the oldest that has ended goes. */
static mooncake_err make_room(struct mc_drain_jobs *jobs)
{
    if (jobs->count < MC_DRAIN_JOBS_MAX) {
        return MOONCAKE_OK;
    }
    mc_list_for_each (node, &jobs->jobs) {
        struct mc_drain_job *job = MC_CONTAINER_OF(node, struct mc_drain_job, node);

        if (job->status != MC_DRAIN_RUNNING) {
            forget(jobs, job);
            return MOONCAKE_OK;
        }
    }
    return mc_err_set(MOONCAKE_ETASKQUEUE, "%u drain jobs are running; cancel some first",
                      MC_DRAIN_JOBS_MAX);
}

/* ---- asking the core ------------------------------------------------------------------------ */

/* One segment; OK, ENOSEGMENT, ESTATE, ENOMEM. */
static mooncake_err ask(struct mc_core *core, uint64_t mount_id, enum mc_drain_action action,
                        struct mc_drain_reply *out_reply)
{
    struct mc_drain_request const request = {
        .mount_ids = &mount_id, .count = 1, .action = (uint32_t)action};
    struct mc_arena arena;
    mooncake_err err;

    mc_arena_init(&arena, 0);
    err = mc_core_drain(core, &request, &arena, out_reply);
    if (err == MOONCAKE_OK) {
        err = out_reply->statuses[0];
    }
    out_reply->statuses = NULL; /* the arena's */
    mc_arena_fini(&arena);
    return err;
}

/* What has ended stays as it is, also when somebody reads there again. */
static void look_at_unit(struct mc_core *core, struct mc_drain_job *job, struct mc_drain_unit *unit)
{
    struct mc_drain_reply reply;
    uint64_t in_use;

    if (unit->status != MC_DRAIN_RUNNING) {
        return;
    }
    if (ask(core, unit->mount_id, MC_DRAIN_LOOK, &reply) != MOONCAKE_OK) {
        unit->status = MC_DRAIN_FAILED; /* the store went while it was in use */
        return;
    }
    in_use = reply.leased + reply.reading + reply.writing;
    job->bytes_in_use += in_use;
    if (in_use == 0) {
        unit->status = MC_DRAIN_SUCCEEDED;
    }
}

static void look_at_job(struct mc_core *core, struct mc_drain_job *job)
{
    bool failed = false, running = false;

    if (job->status != MC_DRAIN_RUNNING) {
        return;
    }
    job->bytes_in_use = 0;
    for (size_t i = 0; i < job->count; i++) {
        look_at_unit(core, job, &job->units[i]);
        failed = failed || job->units[i].status == MC_DRAIN_FAILED;
        running = running || job->units[i].status == MC_DRAIN_RUNNING;
    }
    if (!running) {
        job->status = failed ? MC_DRAIN_FAILED : MC_DRAIN_SUCCEEDED;
        mc_log_info("drain.ended", "job=%s status=%s", job->id, mc_drain_status_name(job->status));
    }
    job->updated_ms = wall_ms();
}

/* ---- jobs ----------------------------------------------------------------------------------- */

/* The mounts behind the names. ENOSEGMENT, ENOMEM. */
static mooncake_err find_units(struct mc_core *core, const char *const *names,
                               struct mc_drain_job *job)
{
    struct mc_arena arena;
    mooncake_err err = MOONCAKE_OK;

    mc_arena_init(&arena, 0);
    for (size_t i = 0; err == MOONCAKE_OK && i < job->count; i++) {
        struct mc_segment_status status;

        err = mc_core_find_segment(core, names[i], &arena, &status);
        if (err == MOONCAKE_ENOSEGMENT) {
            err = mc_err_set(err,
                             "segments: \"%.255s\" is not mounted; /get_all_segments lists those "
                             "that are",
                             names[i]);
        } else if (err == MOONCAKE_OK) {
            job->units[i].mount_id = status.mount_id;
            job->units[i].status = MC_DRAIN_RUNNING;
            job->units[i].name = mc_strndup(names[i], strlen(names[i]));
            err = job->units[i].name == NULL ? MOONCAKE_ENOMEM : MOONCAKE_OK;
        }
    }
    mc_arena_fini(&arena);
    return err;
}

mooncake_err mc_drain_job_create(struct mc_drain_jobs *jobs, struct mc_core *core,
                                 const char *const *names, size_t count,
                                 const struct mc_drain_job **out)
{
    struct mc_drain_job *job;
    mooncake_err err = MOONCAKE_ENOMEM;

    MC_ASSERT(count > 0 && count <= MC_SEGMENTS_PER_STORE_MAX);
    MC_TRY(make_room(jobs));
    job = mc_calloc(1, sizeof(*job));
    if (job == NULL) {
        return MOONCAKE_ENOMEM;
    }
    job->count = count;
    job->units = mc_calloc(count, sizeof(*job->units));
    if (job->units != NULL) {
        err = find_units(core, names, job);
    }
    for (size_t i = 0; err == MOONCAKE_OK && i < count; i++) {
        struct mc_drain_reply reply;

        err = ask(core, job->units[i].mount_id, MC_DRAIN_BEGIN, &reply);
    }
    if (err != MOONCAKE_OK) {
        job_free(job);
        return err;
    }
    (void)snprintf(job->id, sizeof(job->id), "%016llx", (unsigned long long)mc_random_u64());
    job->status = MC_DRAIN_RUNNING;
    job->created_ms = job->updated_ms = wall_ms();
    mc_list_add_tail(&jobs->jobs, &job->node);
    jobs->count++;
    mc_log_info("drain.begun", "job=%s segments=%zu", job->id, count);
    look_at_job(core, job);
    *out = job;
    return MOONCAKE_OK;
}

static mooncake_err find(const struct mc_drain_jobs *jobs, const char *id,
                         struct mc_drain_job **out)
{
    mc_list_for_each (node, &jobs->jobs) {
        struct mc_drain_job *job = MC_CONTAINER_OF(node, struct mc_drain_job, node);

        if (strcmp(job->id, id) == 0) {
            *out = job;
            return MOONCAKE_OK;
        }
    }
    return mc_err_set(
        MOONCAKE_ENOTASK,
        "job_id: \"%.40s\" is not known; the last %u jobs since the master's start are", id,
        MC_DRAIN_JOBS_MAX);
}

mooncake_err mc_drain_job_look(struct mc_drain_jobs *jobs, struct mc_core *core, const char *id,
                               const struct mc_drain_job **out)
{
    struct mc_drain_job *job = NULL;

    MC_TRY(find(jobs, id, &job));
    look_at_job(core, job);
    *out = job;
    return MOONCAKE_OK;
}

mooncake_err mc_drain_job_cancel(struct mc_drain_jobs *jobs, struct mc_core *core, const char *id,
                                 const struct mc_drain_job **out)
{
    struct mc_drain_job *job = NULL;
    mooncake_err verdict = MOONCAKE_OK;

    MC_TRY(find(jobs, id, &job));
    if (job->status == MC_DRAIN_FAILED || job->status == MC_DRAIN_CANCELED) {
        return mc_err_set(MOONCAKE_EUNAVAILABLE, "job %s has ended: %s", job->id,
                          mc_drain_status_name(job->status));
    }
    for (size_t i = 0; i < job->count; i++) {
        struct mc_drain_reply reply;
        mooncake_err err = ask(core, job->units[i].mount_id, MC_DRAIN_CANCEL, &reply);

        if (err == MOONCAKE_ESTATE) {
            verdict = mc_err_set(MOONCAKE_EUNAVAILABLE,
                                 "segment \"%.255s\": its store is leaving by itself; that cannot "
                                 "be cancelled here",
                                 job->units[i].name);
        }
    }
    job->status = MC_DRAIN_CANCELED;
    job->updated_ms = wall_ms();
    mc_log_info("drain.cancelled", "job=%s", job->id);
    *out = job;
    return verdict;
}
