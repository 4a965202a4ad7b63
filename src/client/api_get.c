/* The public gets: arguments into items, items into a job, verdicts back. */
#include <string.h>

#include "client/api.h"
#include "client/get.h"

static mooncake_err fill_item(struct mc_arena *arena, const char *key, const mooncake_space *spaces,
                              size_t count, struct mc_get_item *item)
{
    struct iovec *iov;
    size_t used = 0;

    MC_TRY(mc_key_from_text(key, &item->key));
    if (count > MC_PIECES_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "pieces: %zu; at most %u are allowed", count,
                          MC_PIECES_MAX);
    }
    MC_TRY(count > 0 ? mc_api_need(spaces, "pieces") : MOONCAKE_OK);
    iov = mc_arena_array(arena, count + 1, sizeof(*iov));
    if (iov == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        if (spaces[i].len == 0) {
            continue;
        }
        MC_TRY(mc_api_need(spaces[i].data, "data"));
        if (spaces[i].len > INT64_MAX || item->cap > INT64_MAX - spaces[i].len) {
            return mc_err_set(MOONCAKE_EINVAL, "cap: %llu is more than memory can hold",
                              (unsigned long long)spaces[i].len);
        }
        iov[used].iov_base = spaces[i].data;
        iov[used].iov_len = (size_t)spaces[i].len;
        item->cap += spaces[i].len;
        used++;
    }
    item->spaces = iov;
    item->spaces_count = used;
    return MOONCAKE_OK;
}

/* Where a batch's memory is: per item one buffer, a list, or nowhere yet. */
struct sink {
    const char *const *keys;
    void *const *data;
    const uint64_t *caps;
    const mooncake_space *const *pieces; /* NULL: data and caps */
    const size_t *pieces_counts;
    size_t count;
    bool allocate; /* none of the above */
};

static mooncake_err fill_from_sink(struct mc_arena *arena, const struct sink *sink, size_t i,
                                   struct mc_get_item *item)
{
    mooncake_space one;

    if (sink->allocate) {
        return mc_key_from_text(sink->keys[i], &item->key);
    }
    if (sink->pieces != NULL) {
        return fill_item(arena, sink->keys[i], sink->pieces[i], sink->pieces_counts[i], item);
    }
    one = (mooncake_space){.data = sink->data[i], .len = sink->caps[i]};
    return fill_item(arena, sink->keys[i], &one, 1, item);
}

static mooncake_err run_sink(struct mc_call *call, const struct sink *sink,
                             struct mc_get_item *items)
{
    for (size_t i = 0; i < sink->count; i++) {
        items[i] = (struct mc_get_item){0};
        items[i].err = fill_from_sink(&call->engine->arena, sink, i, &items[i]);
        items[i].skip = items[i].err != MOONCAKE_OK;
        if (items[i].skip) {
            mc_call_note(call, "item %zu: %s", i, mooncake_last_error());
        }
    }
    return mc_get_run(call, items, sink->count, sink->allocate ? MC_GET_FRESH : MC_GET_INTO);
}

static void hand_out(const struct mc_get_item *item, void **out_data, uint64_t *out_len)
{
    bool known = item->err == MOONCAKE_OK || (item->err == MOONCAKE_EINVAL && item->len > 0);

    if (out_len != NULL && known) {
        *out_len = item->len;
    }
    if (out_data != NULL) {
        *out_data = item->err == MOONCAKE_OK ? item->own.iov_base : NULL;
    }
}

static mooncake_err get_batch(mooncake_client *client, const struct sink *sink, uint32_t timeout_ms,
                              mooncake_err *results, void **out_data, uint64_t *out_lens)
{
    struct mc_get_item *items = NULL;
    struct mc_call call;
    mooncake_err err;

    for (size_t i = 0; out_data != NULL && i < sink->count; i++) {
        out_data[i] = NULL;
    }
    err = mc_call_begin(client, timeout_ms, &call);
    if (err != MOONCAKE_OK) {
        return mc_api_fail_all(results, sink->count, err);
    }
    items = mc_arena_array(&call.engine->arena, sink->count + 1, sizeof(*items));
    err = items == NULL ? MOONCAKE_ENOMEM : run_sink(&call, sink, items);
    for (size_t i = 0; err == MOONCAKE_OK && i < sink->count; i++) {
        results[i] = items[i].err;
        hand_out(&items[i], out_data == NULL ? NULL : &out_data[i],
                 out_lens == NULL ? NULL : &out_lens[i]);
    }
    if (err != MOONCAKE_OK) {
        (void)mc_api_fail_all(results, sink->count, err);
    }
    return mc_call_end(&call, "batch_get", err);
}

mooncake_err mooncake_get_into_pieces(mooncake_client *client, const char *key,
                                      const mooncake_space *pieces, size_t pieces_count,
                                      uint32_t timeout_ms, uint64_t *out_len)
{
    struct mc_get_item item = {0};
    struct mc_call call;
    mooncake_err err;

    MC_TRY(mc_call_begin(client, timeout_ms, &call));
    err = fill_item(&call.engine->arena, key, pieces, pieces_count, &item);
    if (err == MOONCAKE_OK) {
        err = mc_get_run(&call, &item, 1, MC_GET_INTO);
        err = err == MOONCAKE_OK ? item.err : err;
        hand_out(&item, NULL, out_len);
    } else {
        mc_call_note(&call, "%s", mooncake_last_error());
    }
    return mc_call_end(&call, "get", err);
}

mooncake_err mooncake_get_into(mooncake_client *client, const char *key, void *data, uint64_t cap,
                               uint32_t timeout_ms, uint64_t *out_len)
{
    mooncake_space space = {.data = data, .len = cap};

    return mooncake_get_into_pieces(client, key, &space, 1, timeout_ms, out_len);
}

mooncake_err mooncake_get(mooncake_client *client, const char *key, uint32_t timeout_ms,
                          void **out_data, uint64_t *out_len)
{
    struct mc_get_item item = {0};
    struct mc_call call;
    mooncake_err err;

    MC_TRY(mc_api_need(out_data, "out_data"));
    MC_TRY(mc_api_need(out_len, "out_len"));
    MC_TRY(mc_call_begin(client, timeout_ms, &call));
    err = mc_key_from_text(key, &item.key);
    if (err == MOONCAKE_OK) {
        err = mc_get_run(&call, &item, 1, MC_GET_FRESH);
        err = err == MOONCAKE_OK ? item.err : err;
    } else {
        mc_call_note(&call, "%s", mooncake_last_error());
    }
    if (err == MOONCAKE_OK) {
        hand_out(&item, out_data, out_len);
    }
    return mc_call_end(&call, "get", err);
}

mooncake_err mooncake_batch_get_into(mooncake_client *client, const char *const *keys,
                                     void *const *data, const uint64_t *caps, size_t count,
                                     uint32_t timeout_ms, mooncake_err *results, uint64_t *out_lens)
{
    struct sink sink = {.keys = keys, .data = data, .caps = caps, .count = count};

    if (count > 0 && (keys == NULL || data == NULL || caps == NULL || results == NULL)) {
        return mc_api_fail_all(results, count,
                               mc_err_set(MOONCAKE_EINVAL, "batch_get_into: keys, data, caps or "
                                                           "results is NULL"));
    }
    return get_batch(client, &sink, timeout_ms, results, NULL, out_lens);
}

mooncake_err mooncake_batch_get_into_pieces(mooncake_client *client, const char *const *keys,
                                            const mooncake_space *const *pieces,
                                            const size_t *pieces_counts, size_t count,
                                            uint32_t timeout_ms, mooncake_err *results,
                                            uint64_t *out_lens)
{
    struct sink sink = {
        .keys = keys, .pieces = pieces, .pieces_counts = pieces_counts, .count = count};

    if (count > 0 && (keys == NULL || pieces == NULL || pieces_counts == NULL || results == NULL)) {
        return mc_api_fail_all(results, count,
                               mc_err_set(MOONCAKE_EINVAL, "batch_get_into_pieces: keys, pieces, "
                                                           "pieces_counts or results is NULL"));
    }
    return get_batch(client, &sink, timeout_ms, results, NULL, out_lens);
}

mooncake_err mooncake_batch_get(mooncake_client *client, const char *const *keys, size_t count,
                                uint32_t timeout_ms, mooncake_err *results, void **out_data,
                                uint64_t *out_lens)
{
    struct sink sink = {.keys = keys, .count = count, .allocate = true};

    if (count > 0 && (keys == NULL || results == NULL || out_data == NULL || out_lens == NULL)) {
        return mc_api_fail_all(results, count,
                               mc_err_set(MOONCAKE_EINVAL, "batch_get: keys, results, out_data or "
                                                           "out_lens is NULL"));
    }
    return get_batch(client, &sink, timeout_ms, results, out_data, out_lens);
}
