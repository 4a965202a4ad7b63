/* The public calls about keys: exist, size, remove, and removing everything. */
#include "client/api.h"
#include "client/keys.h"
#include "mooncake/admin.h"

/* ---- batches ----------------------------------------------------------------------------- */

static mooncake_err run_texts(struct mc_call *call, const char *const *texts, size_t count,
                              struct mc_keys_job_options options, mooncake_err *results,
                              uint64_t *lens)
{
    struct mc_key *keys = mc_arena_array(&call->engine->arena, count + 1, sizeof(*keys));

    if (keys == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        mooncake_err err = mc_key_from_text(texts[i], &keys[i]);

        results[i] = err == MOONCAKE_OK ? MOONCAKE_EINTERNAL : err; /* EINTERNAL: ask */
        if (err != MOONCAKE_OK) {
            mc_call_note(call, "item %zu: %s", i, mooncake_last_error());
        }
    }
    return mc_keys_run(call, keys, count, options, results, lens);
}

static mooncake_err ask_batch(mooncake_client *client, const char *const *keys, size_t count,
                              struct mc_keys_job_options options, uint32_t timeout_ms,
                              mooncake_err *results, uint64_t *lens)
{
    struct mc_call call;
    mooncake_err err;

    if (count > 0 && (keys == NULL || results == NULL)) {
        mc_err_clear();
        return mc_api_fail_all(results, count,
                               mc_err_set(MOONCAKE_EINVAL, "batch: keys or results is NULL"));
    }
    err = mc_call_begin(client, timeout_ms, &call);
    if (err != MOONCAKE_OK) {
        return mc_api_fail_all(results, count, err);
    }
    err = run_texts(&call, keys, count, options, results, lens);
    if (err != MOONCAKE_OK) {
        (void)mc_api_fail_all(results, count, err);
    }
    return mc_call_end(&call, "batch", err);
}

mooncake_err mooncake_batch_exist(mooncake_client *client, const char *const *keys, size_t count,
                                  uint32_t timeout_ms, mooncake_err *results)
{
    struct mc_keys_job_options options = {.question = MC_KEYS_EXIST};

    return ask_batch(client, keys, count, options, timeout_ms, results, NULL);
}

mooncake_err mooncake_batch_size(mooncake_client *client, const char *const *keys, size_t count,
                                 uint32_t timeout_ms, mooncake_err *results, uint64_t *out_lens)
{
    struct mc_keys_job_options options = {.question = MC_KEYS_SIZE};

    if (count > 0 && out_lens == NULL) {
        mc_err_clear();
        return mc_api_fail_all(results, count,
                               mc_err_set(MOONCAKE_EINVAL, "batch_size: out_lens is NULL"));
    }
    return ask_batch(client, keys, count, options, timeout_ms, results, out_lens);
}

mooncake_err mooncake_batch_remove(mooncake_client *client, const char *const *keys, size_t count,
                                   bool force, uint32_t timeout_ms, mooncake_err *results)
{
    struct mc_keys_job_options options = {.question = MC_KEYS_REMOVE, .force = force};

    return ask_batch(client, keys, count, options, timeout_ms, results, NULL);
}

/* ---- single keys ------------------------------------------------------------------------- */

static mooncake_err ask_one(mooncake_client *client, const char *what, const char *key,
                            struct mc_keys_job_options options, uint32_t timeout_ms,
                            uint64_t *out_len)
{
    mooncake_err result = MOONCAKE_EINTERNAL, err;
    struct mc_call call;

    MC_TRY(mc_call_begin(client, timeout_ms, &call));
    err = run_texts(&call, &key, 1, options, &result, out_len);
    return mc_call_end(&call, what, err == MOONCAKE_OK ? result : err);
}

mooncake_err mooncake_exist(mooncake_client *client, const char *key, uint32_t timeout_ms,
                            bool *out_exists)
{
    struct mc_keys_job_options options = {.question = MC_KEYS_EXIST};
    mooncake_err err;

    MC_TRY(mc_api_need(out_exists, "out_exists"));
    err = ask_one(client, "exist", key, options, timeout_ms, NULL);
    if (err != MOONCAKE_OK && err != MOONCAKE_ENOENT) {
        return err;
    }
    mc_err_clear(); /* "no" is an answer */
    *out_exists = err == MOONCAKE_OK;
    return MOONCAKE_OK;
}

mooncake_err mooncake_size(mooncake_client *client, const char *key, uint32_t timeout_ms,
                           uint64_t *out_len)
{
    struct mc_keys_job_options options = {.question = MC_KEYS_SIZE};

    MC_TRY(mc_api_need(out_len, "out_len"));
    return ask_one(client, "size", key, options, timeout_ms, out_len);
}

mooncake_err mooncake_remove(mooncake_client *client, const char *key, bool force,
                             uint32_t timeout_ms)
{
    struct mc_keys_job_options options = {.question = MC_KEYS_REMOVE, .force = force};

    return ask_one(client, "remove", key, options, timeout_ms, NULL);
}

/* Everything, or what has the pattern. */
static mooncake_err remove_many(mooncake_client *client, const char *what, const char *pattern,
                                bool force, uint32_t timeout_ms,
                                struct mc_remove_all_reply *out_reply)
{
    struct mc_remove_all_request request = {.force = force, .pattern = pattern};
    struct mc_remove_all_reply reply = {0};
    struct mc_call call;
    mooncake_err err;

    if (pattern != NULL && pattern[0] == '\0') {
        return mc_err_set(MOONCAKE_EINVAL,
                          "pattern: is empty; to remove every key call mooncake_remove_all()");
    }
    MC_TRY(mc_call_begin(client, timeout_ms, &call));
    request.client_id = client->client_id;
    err = mc_ask_wait(&call, MC_METHOD_REMOVE_ALL, &request, &reply);
    err = mc_call_end(&call, what, err);
    if (err == MOONCAKE_OK) {
        *out_reply = reply;
    }
    return err;
}

static mooncake_err remove_and_count(mooncake_client *client, const char *what, const char *pattern,
                                     bool force, uint32_t timeout_ms, uint64_t *out_counts[2])
{
    struct mc_remove_all_reply reply;

    MC_TRY(remove_many(client, what, pattern, force, timeout_ms, &reply));
    if (out_counts[0] != NULL) {
        *out_counts[0] = reply.removed;
    }
    if (out_counts[1] != NULL) {
        *out_counts[1] = reply.left_leased + reply.left_writing + reply.left_pinned;
    }
    return MOONCAKE_OK;
}

mooncake_err mooncake_remove_all(mooncake_client *client, bool force, uint32_t timeout_ms,
                                 uint64_t *out_removed, uint64_t *out_left)
{
    uint64_t *counts[2] = {out_removed, out_left};

    return remove_and_count(client, "remove_all", NULL, force, timeout_ms, counts);
}

mooncake_err mooncake_remove_matching(mooncake_client *client, const char *pattern, bool force,
                                      uint32_t timeout_ms, uint64_t *out_removed,
                                      uint64_t *out_left)
{
    uint64_t *counts[2] = {out_removed, out_left};

    return remove_and_count(client, "remove_matching", pattern == NULL ? "" : pattern, force,
                            timeout_ms, counts);
}

mooncake_err mooncake_admin_remove(mooncake_client *client, const char *pattern, bool force,
                                   uint32_t timeout_ms, mooncake_removal *out)
{
    struct mc_remove_all_reply reply;
    mooncake_removal removal;

    mc_err_clear();
    if (out == NULL || out->struct_size < sizeof(removal)) {
        return mc_err_set(MOONCAKE_EINVAL, "out: is NULL, or its struct_size is less than %zu",
                          sizeof(removal));
    }
    MC_TRY(remove_many(client, "remove", pattern, force, timeout_ms, &reply));
    removal = (mooncake_removal){
        .struct_size = out->struct_size,
        .removed = reply.removed,
        .left_leased = reply.left_leased,
        .left_writing = reply.left_writing,
    };
    *out = removal;
    return MOONCAKE_OK;
}
