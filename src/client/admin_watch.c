/* Why a key is a miss, draining a store, and what would be lost with one. */
#include <string.h>

#include "client/admin_impl.h"
#include "mooncake/admin.h"

/* Keys in one answer. */
#define KEYS_PAGE 2048u

static const char *fate_name(uint32_t fate)
{
    static const char *const names[] = {
        [MC_FATE_UNKNOWN] = "unknown", [MC_FATE_READABLE] = "readable",
        [MC_FATE_WRITING] = "writing", [MC_FATE_EVICTED] = "evicted",
        [MC_FATE_REMOVED] = "removed", [MC_FATE_LOST] = "lost",
        [MC_FATE_DAMAGED] = "damaged", [MC_FATE_ABANDONED] = "abandoned",
    };

    return fate < MC_ARRAY_LEN(names) ? names[fate] : "unknown"; /* a newer master's */
}

mooncake_err mooncake_admin_why_miss(mooncake_client *client, const char *key, uint32_t timeout_ms,
                                     void (*each)(void *arg, const mooncake_miss *miss), void *arg)
{
    struct mc_keys_request request = {0};
    struct mc_why_miss_reply reply;
    struct mc_question question = {
        .method = MC_METHOD_WHY_MISS, .request = &request, .reply = &reply};
    struct mc_arena arena;
    uint64_t deadline_ns;
    struct mc_key one;
    mooncake_err err;

    MC_TRY(mc_admin_begin(client, timeout_ms, each != NULL, &deadline_ns));
    MC_TRY(mc_key_from_text(key, &one));
    request = (struct mc_keys_request){.keys = &one, .count = 1};
    mc_arena_init(&arena, MC_ADMIN_ARENA_MAX);
    err = mc_admin_ask(client, deadline_ns, &question, &arena, "why-miss");
    if (err == MOONCAKE_OK) {
        mooncake_miss miss = {
            .fate = fate_name(reply.fate),
            .store = reply.store,
            .ago_ms = reply.ago_ms,
            .age_ms = reply.age_ms,
            .idle_ms = reply.idle_ms,
            .uptime_ms = reply.uptime_ms,
            .reach_ms = reply.reach_ms,
            .entries = reply.entries,
            .owner_client_id = reply.owner_client_id,
        };

        each(arg, &miss);
    }
    mc_arena_fini(&arena);
    return err;
}

/* ---- drain ------------------------------------------------------------------------------- */

static mooncake_err check_mounts(const uint64_t *mount_ids, size_t count)
{
    MC_TRY(mc_api_need(mount_ids, "mount_ids"));
    if (count == 0 || count > MC_SEGMENTS_PER_STORE_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "count: %zu segments; 1 to %u can be named at once",
                          count, MC_SEGMENTS_PER_STORE_MAX);
    }
    return MOONCAKE_OK;
}

static mooncake_err drain_verdict(const struct mc_drain_reply *reply, const uint64_t *mount_ids)
{
    for (size_t i = 0; i < reply->count; i++) {
        if (reply->statuses[i] == MOONCAKE_ESTATE) {
            return mc_err_set(MOONCAKE_ESTATE,
                              "segment %016llx: its store is leaving by itself; that cannot be "
                              "cancelled here",
                              (unsigned long long)mount_ids[i]);
        }
        if (reply->statuses[i] != MOONCAKE_OK) {
            return mc_err_set(reply->statuses[i], "segment %016llx: %s",
                              (unsigned long long)mount_ids[i],
                              mooncake_err_text(reply->statuses[i]));
        }
    }
    return MOONCAKE_OK;
}

mooncake_err mooncake_admin_drain(mooncake_client *client, const uint64_t *mount_ids, size_t count,
                                  mooncake_drain_action action, uint32_t timeout_ms,
                                  mooncake_drain_status *out_status)
{
    struct mc_drain_request request = {
        .mount_ids = mount_ids, .count = count, .action = (uint32_t)action};
    struct mc_drain_reply reply;
    struct mc_question question = {.method = MC_METHOD_DRAIN, .request = &request, .reply = &reply};
    struct mc_arena arena;
    uint64_t deadline_ns;
    mooncake_err err;

    MC_TRY(mc_admin_begin(client, timeout_ms, true, &deadline_ns));
    MC_TRY(check_mounts(mount_ids, count));
    MC_TRY(mc_api_need(out_status, "out_status"));
    if (out_status->struct_size < sizeof(*out_status)) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "out_status: struct_size is %zu; set it to sizeof(mooncake_drain_status)",
                          out_status->struct_size);
    }
    mc_arena_init(&arena, MC_ADMIN_ARENA_MAX);
    err = mc_admin_ask(client, deadline_ns, &question, &arena, "drain");
    if (err == MOONCAKE_OK) {
        err = drain_verdict(&reply, mount_ids);
    }
    if (err == MOONCAKE_OK) {
        *out_status = (mooncake_drain_status){
            .struct_size = out_status->struct_size,
            .capacity = reply.capacity,
            .used = reply.used,
            .extents = reply.extents,
            .leased = reply.leased,
            .reading = reply.reading,
            .writing = reply.writing,
            .hard_pinned = reply.hard_pinned,
            .draining = reply.draining,
        };
    }
    mc_arena_fini(&arena);
    return err;
}

/* ---- sole keys --------------------------------------------------------------------------- */

struct sole {
    bool (*each)(void *arg, const char *key, size_t key_len);
    void *arg;
    uint64_t left; /* keys that the caller still wants */
    mooncake_sole_keys sums;
};

static mooncake_err sole_page(mooncake_client *client, uint64_t deadline_ns,
                              struct mc_sole_keys_request *request, struct sole *sole)
{
    struct mc_sole_keys_reply reply;
    struct mc_question question = {
        .method = MC_METHOD_SOLE_KEYS, .request = request, .reply = &reply};
    struct mc_arena arena;
    mooncake_err err;

    request->keys_max = sole->left < KEYS_PAGE ? (uint32_t)sole->left : KEYS_PAGE;
    mc_arena_init(&arena, MC_ADMIN_ARENA_MAX);
    err = mc_admin_ask(client, deadline_ns, &question, &arena, "sole keys");
    if (err == MOONCAKE_OK) {
        request->cursor = reply.cursor;
        sole->sums.keys += reply.keys_there;
        sole->sums.bytes += reply.bytes_there;
        sole->sums.sole_keys += reply.keys_sole;
        sole->sums.sole_bytes += reply.bytes_sole;
        for (size_t i = 0; i < reply.count && sole->left > 0; i++) {
            sole->left--;
            if (!sole->each(sole->arg, reply.keys[i].bytes, reply.keys[i].len)) {
                sole->left = 0;
            }
        }
    }
    mc_arena_fini(&arena);
    return err;
}

mooncake_err mooncake_admin_sole_keys(mooncake_client *client, const uint64_t *mount_ids,
                                      size_t count, uint64_t keys_max, uint32_t timeout_ms,
                                      bool (*each)(void *arg, const char *key, size_t key_len),
                                      void *arg, mooncake_sole_keys *out_sums)
{
    struct mc_sole_keys_request request = {.mount_ids = mount_ids, .count = count};
    struct sole sole = {.each = each, .arg = arg, .left = each == NULL ? 0 : keys_max};
    uint64_t deadline_ns;

    MC_TRY(mc_admin_begin(client, timeout_ms, true, &deadline_ns));
    MC_TRY(check_mounts(mount_ids, count));
    MC_TRY(mc_api_need(out_sums, "out_sums"));
    if (out_sums->struct_size < sizeof(*out_sums)) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "out_sums: struct_size is %zu; set it to sizeof(mooncake_sole_keys)",
                          out_sums->struct_size);
    }
    sole.sums.struct_size = out_sums->struct_size;
    do {
        if (mc_monotonic_ns() >= deadline_ns) {
            return mc_err_set(MOONCAKE_ETIMEDOUT,
                              "sole keys: not all were looked at before the deadline");
        }
        MC_TRY(sole_page(client, deadline_ns, &request, &sole));
    } while (request.cursor != 0);
    *out_sums = sole.sums;
    return MOONCAKE_OK;
}
