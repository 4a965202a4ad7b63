/* What batches have in common. */
#include "client/job.h"

void mc_job_init(struct mc_job *job, struct mc_call *call, size_t count)
{
    uint64_t left_ms = mc_left_ms(mc_monotonic_ns(), call->deadline_ns);

    *job = (struct mc_job){.call = call, .count = count};
    job->stall_ms = left_ms / 2 < MC_STALL_MS_MAX ? left_ms / 2 : MC_STALL_MS_MAX;
    job->anew_ms = left_ms / 2 < MC_ANEW_MS_MAX ? left_ms / 2 : MC_ANEW_MS_MAX;
}

static uint64_t bytes_moved(const struct mc_transport_set *set)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < set->count; i++) {
        const struct mc_transport *transport = set->instances[i];

        if (transport != NULL) {
            bytes += transport->ops->moved(transport);
        }
    }
    return bytes;
}

void mc_job_touch(struct mc_job *job)
{
    job->moved = bytes_moved(&job->call->engine->transports);
    job->moved_ns = mc_monotonic_ns();
}

uint64_t mc_job_idle_ms(struct mc_job *job)
{
    if (bytes_moved(&job->call->engine->transports) != job->moved) {
        mc_job_touch(job);
        return 0;
    }
    return (mc_monotonic_ns() - job->moved_ns) / MC_NS_PER_MS;
}

mooncake_err mc_job_verdict(const struct mc_job *job, mooncake_err err)
{
    return job->judged || job->count == 0 ? MOONCAKE_OK : err;
}

struct mc_target *mc_job_targets(const struct mc_object_table *table, struct mc_arena *arena)
{
    /* One more, because no segments are no lack of memory. */
    struct mc_target *targets =
        mc_arena_array(arena, (size_t)table->segments_count + 1, sizeof(*targets));

    for (uint32_t i = 0; targets != NULL && i < table->segments_count; i++) {
        targets[i] = (struct mc_target){.mount_id = table->segments[i].mount_id,
                                        .name = table->segments[i].name,
                                        .addresses = table->segments[i].addresses};
    }
    return targets;
}
