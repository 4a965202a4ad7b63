/* Admin pages about drain jobs: begun, asked for, cancelled. */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "master/master_admin.h"

/* Only this kind of job exists here. */
#define TYPE_DRAIN 1

/* ---- what is asked for ----------------------------------------------------------------------- */

/* The names in "segments", borrowed from @p body. EINVAL, ENOTSUP. */
static mooncake_err read_wish(json_t *body, const char **out_names, size_t *out_count)
{
    json_t *segments = json_object_get(body, "segments");
    json_t *targets = json_object_get(body, "target_segments");
    json_t *concurrency = json_object_get(body, "max_concurrency");
    size_t const count = json_array_size(segments);

    if (!json_is_array(segments) || count == 0 || count > MC_SEGMENTS_PER_STORE_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "segments: must be a list of 1 to %u names of segments",
                          MC_SEGMENTS_PER_STORE_MAX);
    }
    if (targets != NULL && (!json_is_array(targets) || json_array_size(targets) != 0)) {
        return mc_err_set(MOONCAKE_ENOTSUP,
                          "target_segments: objects are not moved in this version, they stay "
                          "readable until their store leaves: leave it out");
    }
    if (concurrency != NULL &&
        (!json_is_integer(concurrency) || json_integer_value(concurrency) < 1)) {
        return mc_err_set(MOONCAKE_EINVAL, "max_concurrency: must be a number from 1");
    }
    for (size_t i = 0; i < count; i++) {
        out_names[i] = json_string_value(json_array_get(segments, i));
        if (out_names[i] == NULL) {
            return mc_err_set(MOONCAKE_EINVAL, "segments: must be a list of texts");
        }
    }
    *out_count = count;
    return MOONCAKE_OK;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void print_short(struct mc_admin_reply *reply, const struct mc_drain_job *job)
{
    mc_page_json(reply, json_pack("{s:b, s:s, s:i, s:s, s:i, s:s}", "success", 1, "job_id", job->id,
                                  "status", (int)job->status, "status_name",
                                  mc_drain_status_name(job->status), "error_code", 0,
                                  "error_message", ""));
}

static const char *message_of(const struct mc_drain_job *job)
{
    switch (job->status) {
    case MC_DRAIN_RUNNING:
        return "nothing new is placed there; it waits until nobody uses what is there";
    case MC_DRAIN_SUCCEEDED:
        return "nobody uses what is there; it stays readable until the store leaves, and keys "
               "without another copy are lost with it";
    case MC_DRAIN_FAILED:
        return "a store went while what it held was in use";
    case MC_DRAIN_CANCELED:
        return "new data is placed there again";
    }
    return "";
}

static void print_long(struct mc_admin_reply *reply, const struct mc_drain_job *job)
{
    json_t *names = json_array();
    int succeeded = 0, failed = 0, active = 0;

    for (size_t i = 0; i < job->count; i++) {
        enum mc_drain_status const status = job->units[i].status;

        succeeded += status == MC_DRAIN_SUCCEEDED ? 1 : 0;
        failed += status == MC_DRAIN_FAILED ? 1 : 0;
        active += status == MC_DRAIN_RUNNING && job->status == MC_DRAIN_RUNNING ? 1 : 0;
        if (json_array_append_new(names, json_string(job->units[i].name)) != 0) {
            json_decref(names);
            mc_page_error(reply, MOONCAKE_ENOMEM);
            return;
        }
    }
    mc_page_json(
        reply,
        json_pack("{s:b, s:s, s:i, s:s, s:i, s:s, s:I, s:I, s:o, s:i, s:i, s:i, s:i, s:i, s:I, s:s,"
                  " s:i, s:s}",
                  "success", 1, "job_id", job->id, "type", TYPE_DRAIN, "type_name", "DRAIN",
                  "status", (int)job->status, "status_name", mc_drain_status_name(job->status),
                  "created_at_ms_epoch", (json_int_t)job->created_ms, "last_updated_at_ms_epoch",
                  (json_int_t)job->updated_ms, "segments", names, "succeeded_units", succeeded,
                  "failed_units", failed, "blocked_units", 0, "active_units", active,
                  "migrated_bytes", 0, "bytes_in_use", (json_int_t)job->bytes_in_use, "message",
                  message_of(job), "error_code", 0, "error_message", ""));
}

/* The C++ Mooncake's number for a job that is not known, which its clients look for: 404. */
#define NO_SUCH_JOB (-1402)

static void print_error(struct mc_admin_reply *reply, mooncake_err err)
{
    if (err == MOONCAKE_ENOTASK) {
        mc_admin_reply_error(reply, (mooncake_err)NO_SUCH_JOB, mooncake_last_error());
    } else {
        mc_page_error(reply, err);
    }
}

/* ---- handlers -------------------------------------------------------------------------------- */

void mc_page_drain_create(void *arg, const struct mc_admin_request *request,
                          struct mc_admin_reply *reply)
{
    const struct mc_buf *bytes = mc_admin_body(request);
    const char *names[MC_SEGMENTS_PER_STORE_MAX];
    struct mc_master *master = arg;
    const struct mc_drain_job *job = NULL;
    json_error_t error;
    json_t *body = json_loadb((const char *)mc_buf_bytes(bytes), mc_buf_len(bytes),
                              JSON_REJECT_DUPLICATES, &error);
    size_t count = 0;
    mooncake_err err;

    if (body == NULL) {
        err = mc_err_set(MOONCAKE_EINVAL,
                         "the body is no JSON object, such as {\"segments\": [\"NAME\"]}: line %d: "
                         "%.100s",
                         error.line, error.text);
    } else {
        err = read_wish(body, names, &count);
    }
    if (err == MOONCAKE_OK) {
        err = mc_drain_job_create(&master->drain_jobs, master->core, names, count, &job);
    }
    json_decref(body);
    if (err != MOONCAKE_OK) {
        mc_page_error(reply, err);
        return;
    }
    print_short(reply, job);
}

void mc_page_drain_query(void *arg, const struct mc_admin_request *request,
                         struct mc_admin_reply *reply)
{
    const char *id = mc_page_param(request, reply, "job_id", "/api/v1/drain_jobs/query?job_id=ID");
    struct mc_master *master = arg;
    const struct mc_drain_job *job = NULL;
    mooncake_err err;

    if (id == NULL) {
        return;
    }
    err = mc_drain_job_look(&master->drain_jobs, master->core, id, &job);
    if (err != MOONCAKE_OK) {
        print_error(reply, err);
        return;
    }
    print_long(reply, job);
}

void mc_page_drain_cancel(void *arg, const struct mc_admin_request *request,
                          struct mc_admin_reply *reply)
{
    const char *id = mc_page_param(request, reply, "job_id", "/api/v1/drain_jobs/cancel?job_id=ID");
    struct mc_master *master = arg;
    const struct mc_drain_job *job = NULL;
    mooncake_err err;

    if (id == NULL) {
        return;
    }
    err = mc_drain_job_cancel(&master->drain_jobs, master->core, id, &job);
    if (err != MOONCAKE_OK) {
        print_error(reply, err);
        return;
    }
    print_short(reply, job);
}
