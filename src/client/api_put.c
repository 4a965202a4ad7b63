/* The public puts: arguments into items, items into a job, verdicts back. */
#include <string.h>

#include "base/htab.h"
#include "client/api.h"
#include "client/put.h"

/* ---- items ------------------------------------------------------------------------------- */

/* The transports take iovecs of memory that they promise not to write to. */
static void *without_const(const void *data)
{
    return (void *)(uintptr_t)data;
}

static void judge_item(struct mc_put_item *item, mooncake_err err)
{
    item->err = err;
    item->skip = err != MOONCAKE_OK;
}

static mooncake_err fill_item(struct mc_arena *arena, const char *key, const mooncake_piece *pieces,
                              size_t count, struct mc_put_item *item)
{
    struct iovec *iov;

    MC_TRY(mc_key_from_text(key, &item->key));
    if (count > MC_PIECES_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "pieces: %zu; at most %u are allowed", count,
                          MC_PIECES_MAX);
    }
    MC_TRY(count > 0 ? mc_api_need(pieces, "pieces") : MOONCAKE_OK);
    iov = mc_arena_array(arena, count + 1, sizeof(*iov));
    if (iov == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].len == 0) {
            continue;
        }
        MC_TRY(mc_api_need(pieces[i].data, "data"));
        if (pieces[i].len > INT64_MAX || item->len > INT64_MAX - pieces[i].len) {
            return mc_err_set(MOONCAKE_EINVAL, "len: %llu is more than memory can hold",
                              (unsigned long long)pieces[i].len);
        }
        iov[item->pieces_count].iov_base = without_const(pieces[i].data);
        iov[item->pieces_count].iov_len = (size_t)pieces[i].len;
        item->pieces_count++;
        item->len += pieces[i].len;
    }
    item->pieces = iov;
    return MOONCAKE_OK;
}

/* ---- the same key several times ---------------------------------------------------------- */

/* Marks all but the first of equal keys to be skipped; same_as[i] is the first, or i itself. */
static mooncake_err find_repeats(struct mc_arena *arena, struct mc_put_item *items, size_t count,
                                 size_t *same_as)
{
    size_t slots = 16;
    size_t *table; /* index + 1; 0: free */

    while (slots < count * 2) {
        slots *= 2;
    }
    table = mc_arena_array(arena, slots, sizeof(*table));
    if (table == NULL) {
        return MOONCAKE_ENOMEM;
    }
    memset(table, 0, slots * sizeof(*table));
    for (size_t i = 0; i < count; i++) {
        const struct mc_key *key = &items[i].key;
        size_t at;

        same_as[i] = i;
        if (items[i].skip) {
            continue;
        }
        for (at = (size_t)mc_htab_hash(key->bytes, key->len) & (slots - 1); table[at] != 0;
             at = (at + 1) & (slots - 1)) {
            const struct mc_key *other = &items[table[at] - 1].key;

            if (other->len == key->len && memcmp(other->bytes, key->bytes, key->len) == 0) {
                same_as[i] = table[at] - 1;
                items[i].skip = true;
                break;
            }
        }
        if (same_as[i] == i) {
            table[at] = i + 1;
        }
    }
    return MOONCAKE_OK;
}

/* A repeat exists already if its first was stored; else it shares the first's fate. */
static void judge_repeats(struct mc_put_item *items, size_t count, const size_t *same_as)
{
    for (size_t i = 0; i < count; i++) {
        if (same_as[i] != i) {
            mooncake_err first = items[same_as[i]].err;

            items[i].err = first == MOONCAKE_OK ? MOONCAKE_EEXIST : first;
        }
    }
}

/* ---- the job ----------------------------------------------------------------------------- */

/* Where a batch's pieces come from: per item one buffer, or a list. */
struct source {
    const char *const *keys;
    const void *const *data;
    const uint64_t *lens;
    const mooncake_piece *const *pieces; /* NULL: data and lens */
    const size_t *pieces_counts;
    size_t count;
};

static mooncake_err run_source(struct mc_call *call, const struct source *source,
                               const mooncake_put_options *options, struct mc_put_item *items)
{
    struct mc_arena *arena = &call->engine->arena;
    size_t *same_as = mc_arena_array(arena, source->count, sizeof(*same_as));
    mooncake_err err;

    if (same_as == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < source->count; i++) {
        mooncake_piece one = {0};

        items[i] = (struct mc_put_item){0};
        if (source->pieces == NULL) {
            one = (mooncake_piece){.data = source->data[i], .len = source->lens[i]};
        }
        err = fill_item(arena, source->keys[i], source->pieces == NULL ? &one : source->pieces[i],
                        source->pieces == NULL ? 1 : source->pieces_counts[i], &items[i]);
        judge_item(&items[i], err);
        if (err != MOONCAKE_OK) {
            mc_call_note(call, "item %zu: %s", i, mooncake_last_error());
        }
    }
    MC_TRY(find_repeats(arena, items, source->count, same_as));
    err = mc_put_run(call, items, source->count, options);
    judge_repeats(items, source->count, same_as);
    return err;
}

static void tell_copies(const mooncake_put_options *options, const struct mc_put_item *item,
                        size_t at)
{
    if (options->copies != NULL) {
        options->copies[at] = item->err == MOONCAKE_OK ? item->copies : 0;
    }
}

static mooncake_err put_batch(mooncake_client *client, const struct source *source,
                              const mooncake_put_options *given, uint32_t timeout_ms,
                              mooncake_err *results)
{
    mooncake_put_options options;
    struct mc_put_item *items;
    struct mc_call call;
    mooncake_err err = mc_api_put_options(given, &options);

    if (err != MOONCAKE_OK) {
        return mc_api_fail_all(results, source->count, err);
    }
    for (size_t i = 0; options.copies != NULL && i < source->count; i++) {
        options.copies[i] = 0;
    }
    err = mc_call_begin(client, timeout_ms, &call);
    if (err != MOONCAKE_OK) {
        return mc_api_fail_all(results, source->count, err);
    }
    items = mc_arena_array(&call.engine->arena, source->count + 1, sizeof(*items));
    err = items == NULL ? MOONCAKE_ENOMEM : run_source(&call, source, &options, items);
    for (size_t i = 0; err == MOONCAKE_OK && i < source->count; i++) {
        results[i] = items[i].err;
        tell_copies(&options, &items[i], i);
    }
    if (err != MOONCAKE_OK) {
        (void)mc_api_fail_all(results, source->count, err);
    }
    return mc_call_end(&call, "batch_put", err);
}

mooncake_err mooncake_put_pieces(mooncake_client *client, const char *key,
                                 const mooncake_piece *pieces, size_t pieces_count,
                                 const mooncake_put_options *given, uint32_t timeout_ms)
{
    mooncake_put_options options;
    struct mc_put_item item = {0};
    struct mc_call call;
    mooncake_err err;

    mc_err_clear();
    MC_TRY(mc_api_put_options(given, &options));
    if (options.copies != NULL) {
        options.copies[0] = 0;
    }
    MC_TRY(mc_call_begin(client, timeout_ms, &call));
    err = fill_item(&call.engine->arena, key, pieces, pieces_count, &item);
    if (err == MOONCAKE_OK) {
        err = mc_put_run(&call, &item, 1, &options);
        err = err == MOONCAKE_OK ? item.err : err;
        tell_copies(&options, &item, 0);
    } else {
        mc_call_note(&call, "%s", mooncake_last_error());
    }
    return mc_call_end(&call, "put", err);
}

mooncake_err mooncake_put(mooncake_client *client, const char *key, const void *data, uint64_t len,
                          const mooncake_put_options *options, uint32_t timeout_ms)
{
    mooncake_piece piece = {.data = data, .len = len};

    return mooncake_put_pieces(client, key, &piece, 1, options, timeout_ms);
}

mooncake_err mooncake_batch_put(mooncake_client *client, const char *const *keys,
                                const void *const *data, const uint64_t *lens, size_t count,
                                const mooncake_put_options *options, uint32_t timeout_ms,
                                mooncake_err *results)
{
    struct source source = {.keys = keys, .data = data, .lens = lens, .count = count};

    if (count > 0 && (keys == NULL || data == NULL || lens == NULL || results == NULL)) {
        return mc_api_fail_all(results, count,
                               mc_err_set(MOONCAKE_EINVAL, "batch_put: keys, data, lens or "
                                                           "results is NULL"));
    }
    return put_batch(client, &source, options, timeout_ms, results);
}

mooncake_err mooncake_batch_put_pieces(mooncake_client *client, const char *const *keys,
                                       const mooncake_piece *const *pieces,
                                       const size_t *pieces_counts, size_t count,
                                       const mooncake_put_options *options, uint32_t timeout_ms,
                                       mooncake_err *results)
{
    struct source source = {
        .keys = keys, .pieces = pieces, .pieces_counts = pieces_counts, .count = count};

    if (count > 0 && (keys == NULL || pieces == NULL || pieces_counts == NULL || results == NULL)) {
        return mc_api_fail_all(results, count,
                               mc_err_set(MOONCAKE_EINVAL, "batch_put_pieces: keys, pieces, "
                                                           "pieces_counts or results is NULL"));
    }
    return put_batch(client, &source, options, timeout_ms, results);
}
