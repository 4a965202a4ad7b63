/* What a client has met, told to whoever asks. */
#include "mooncake/observe.h"

#include <stdio.h>
#include <string.h>

#include "client/call.h"

/* ---- numbers --------------------------------------------------------------------------------- */

mooncake_err mooncake_client_get_stats(mooncake_client *client, mooncake_client_stats *out_stats)
{
    const struct mc_client_counters *counters;
    mooncake_client_stats stats;
    struct mc_known_totals known;
    struct mc_loop_stats loops;

    MC_TRY(mc_client_enter(client));
    if (out_stats == NULL || out_stats->struct_size < sizeof(out_stats->struct_size)) {
        mc_client_leave(client);
        return mc_err_set(MOONCAKE_EINVAL,
                          "stats: out_stats is NULL, or struct_size is less than %zu",
                          sizeof(out_stats->struct_size));
    }
    counters = &client->counters;
    known = mc_known_totals(&client->known);
    loops = mc_engine_pool_stats(&client->engines);
    stats = (mooncake_client_stats){
        .struct_size = out_stats->struct_size,
        .puts_again = atomic_load_explicit(&counters->puts_again, memory_order_relaxed),
        .puts_degraded = atomic_load_explicit(&counters->puts_degraded, memory_order_relaxed),
        .damaged_extents = atomic_load_explicit(&counters->damaged_extents, memory_order_relaxed),
        .descriptor_exists = known.asked,
        .descriptor_keys = known.kept,
        .descriptors_reused = known.reused,
        .descriptors_stale = known.stale,
        .poll_ns = loops.idle_poll_ns,
        .polls_found = loops.polls_found,
        .polls_missed = loops.polls_missed,
        .sleeps = loops.sleeps,
        .poll_rests = loops.rests,
        .reads_disturbed = atomic_load_explicit(&counters->reads_disturbed, memory_order_relaxed),
    };
    /* As far as the caller's version of the struct reaches. */
    memcpy(out_stats, &stats,
           stats.struct_size < sizeof(stats) ? stats.struct_size : sizeof(stats));
    mc_client_leave(client);
    return MOONCAKE_OK;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void copy_path(const struct mc_peer_path *from, mooncake_peer_path *to)
{
    (void)snprintf(to->device, sizeof(to->device), "%s", from->device);
    (void)snprintf(to->gid, sizeof(to->gid), "%s", from->gid);
    (void)snprintf(to->gid_kind, sizeof(to->gid_kind), "%s", from->gid_kind);
    (void)snprintf(to->state, sizeof(to->state), "%s", from->state);
    to->gid_index = from->gid_index;
    to->mtu = from->mtu;
}

static void copy_peer(const struct mc_peer_info *from, mooncake_peer *to)
{
    memset(to, 0, sizeof(*to));
    (void)snprintf(to->segment, sizeof(to->segment), "%s", from->name);
    (void)snprintf(to->transport, sizeof(to->transport), "%s", from->transport);
    (void)snprintf(to->fallback_from, sizeof(to->fallback_from), "%s", from->fallback_from);
    (void)snprintf(to->fallback_reason, sizeof(to->fallback_reason), "%s", from->fallback_reason);
    to->ops = from->ops;
    to->failures = from->failures;
    to->bytes_read = from->bytes_read;
    to->bytes_written = from->bytes_written;
    to->retries = from->retries;
    to->fallbacks = from->fallbacks;
    to->queue_pairs = from->queue_pairs < 0 ? 0 : (uint32_t)from->queue_pairs;
    for (unsigned i = 0; i < from->paths_count && i < MOONCAKE_PEER_PATHS_MAX; i++) {
        copy_path(&from->paths[i], &to->paths[to->paths_count++]);
    }
}

mooncake_err mooncake_client_peers(mooncake_client *client, mooncake_peer *out, size_t cap,
                                   size_t *out_count)
{
    struct mc_peer_info *infos;
    size_t count;

    MC_TRY(mc_client_enter(client));
    if (out_count == NULL || (out == NULL && cap > 0)) {
        mc_client_leave(client);
        return mc_err_set(MOONCAKE_EINVAL, "client_peers: out or out_count is NULL");
    }
    cap = cap < MC_PEERS_MAX ? cap : MC_PEERS_MAX;
    infos = mc_calloc(cap + 1, sizeof(*infos));
    if (infos == NULL) {
        mc_client_leave(client);
        return MOONCAKE_ENOMEM;
    }
    count = mc_peers_list(client->peers, infos, cap);
    for (size_t i = 0; i < count && i < cap; i++) {
        copy_peer(&infos[i], &out[i]);
    }
    mc_free(infos);
    mc_client_leave(client);
    *out_count = count;
    return MOONCAKE_OK;
}
