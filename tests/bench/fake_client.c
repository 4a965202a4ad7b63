/*
 * A client library that keeps values in this process, so that mooncake_bench can be tested without
 * a pool, and so that its judgement can be tested with a pool that lies. The master's address
 * chooses how it behaves:
 *   fake            keeps everything
 *   fake:lru=N      keeps N objects, drops the least recently put or got
 *   fake:full=N     keeps N objects, refuses more
 *   fake:flip=N     the N-th value that is got has one byte changed
 *   fake:stale=N    the N-th value that is got is not written to the caller's memory
 *   fake:swap=N     the N-th value that is got is that of another key
 *   fake:short=N    the N-th value that is got is said to be one byte shorter
 *   fake:dead=N     every call after the N-th fails
 *   fake:vanish=N   what the N-th and later gets ask for is gone
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mooncake/admin.h"
#include "mooncake/view.h"

#define BUCKETS 65536u

struct object {
    struct object *next;          /* of the bucket */
    struct object *newer, *older; /* of all */
    char *key;
    unsigned char *data;
    uint64_t len;
};

struct mooncake_client {
    pthread_mutex_t lock;
    struct object *buckets[BUCKETS];
    struct object ring; /* ring.newer is the oldest */
    uint64_t count, calls, gets;
    char mode[16];
    uint64_t number;
};

static _Thread_local char sentence[256];

const char *mooncake_last_error(void)
{
    return sentence;
}

const char *mooncake_version(void)
{
    return "9.8.7";
}

const char *mooncake_err_name(mooncake_err err)
{
    switch (err) {
#define NAME(name, number, radius, text)                                                           \
    case MOONCAKE_##name:                                                                          \
        return #name;
        MOONCAKE_ERR_LIST(NAME)
#undef NAME
    }
    return "EUNKNOWN";
}

const char *mooncake_err_text(mooncake_err err)
{
    switch (err) {
#define TEXT(name, number, radius, text)                                                           \
    case MOONCAKE_##name:                                                                          \
        return text;
        MOONCAKE_ERR_LIST(TEXT)
#undef TEXT
    }
    return "unknown";
}

/* ---- objects ----------------------------------------------------------------------------- */

static struct object **slot_of(mooncake_client *c, const char *key)
{
    uint32_t hash = 2166136261u;
    struct object **slot;

    for (const char *at = key; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    }
    slot = &c->buckets[hash % BUCKETS];
    while (*slot != NULL && strcmp((*slot)->key, key) != 0) {
        slot = &(*slot)->next;
    }
    return slot;
}

static void unlink_object(struct object *o)
{
    o->newer->older = o->older;
    o->older->newer = o->newer;
}

static void touch(mooncake_client *c, struct object *o)
{
    if (o->newer != NULL) {
        unlink_object(o);
    }
    o->newer = &c->ring;
    o->older = c->ring.older;
    o->older->newer = o;
    c->ring.older = o;
}

static void drop(mooncake_client *c, struct object **slot)
{
    struct object *o = *slot;

    *slot = o->next;
    unlink_object(o);
    free(o->key);
    free(o->data);
    free(o);
    c->count--;
}

static bool mode_is(const mooncake_client *c, const char *mode)
{
    return strcmp(c->mode, mode) == 0;
}

static bool is_dead(mooncake_client *c)
{
    c->calls++;
    if (mode_is(c, "dead") && c->calls > c->number) {
        (void)snprintf(sentence, sizeof(sentence), "master fake:dead is gone");
        return true;
    }
    sentence[0] = '\0';
    return false;
}

/* ---- open and close ---------------------------------------------------------------------- */

void mooncake_client_options_init_sized(mooncake_client_options *options, size_t size)
{
    (void)memset(options, 0, size);
    options->struct_size = size;
    options->timeout_ms = 30000;
    options->connect_timeout_ms = 3000;
    options->engines_max = 8;
}

mooncake_err mooncake_client_open(const mooncake_client_options *options,
                                  mooncake_client **out_client)
{
    const char *master = options->master != NULL ? options->master : "";
    mooncake_client *c;

    if (strncmp(master, "fake", 4) != 0) {
        (void)snprintf(sentence, sizeof(sentence), "master %s refuses connections", master);
        return MOONCAKE_ERPC;
    }
    c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return MOONCAKE_ENOMEM;
    }
    (void)pthread_mutex_init(&c->lock, NULL);
    c->ring.newer = c->ring.older = &c->ring;
    if (sscanf(master, "fake:%15[a-z]=%llu", c->mode, (unsigned long long *)&c->number) != 2) {
        c->mode[0] = '\0';
    }
    *out_client = c;
    return MOONCAKE_OK;
}

void mooncake_client_close(mooncake_client *client)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        while (client->buckets[i] != NULL) {
            drop(client, &client->buckets[i]);
        }
    }
    (void)pthread_mutex_destroy(&client->lock);
    free(client);
}

/* ---- single items, the lock held --------------------------------------------------------- */

static mooncake_err put_one(mooncake_client *c, const char *key, const void *data, uint64_t len)
{
    struct object **slot = slot_of(c, key);
    struct object *o = *slot;

    if (o != NULL) {
        touch(c, o);
        return MOONCAKE_EEXIST;
    }
    if (mode_is(c, "full") && c->count == c->number) {
        return MOONCAKE_ENOSPACE;
    }
    if (mode_is(c, "lru") && c->count == c->number) {
        drop(c, slot_of(c, c->ring.newer->key));
        slot = slot_of(c, key);
    }
    o = calloc(1, sizeof(*o));
    o->key = strdup(key);
    o->data = malloc(len + 1);
    o->len = len;
    if (len > 0) {
        memcpy(o->data, data, len);
    }
    *slot = o;
    touch(c, o);
    c->count++;
    return MOONCAKE_OK;
}

static mooncake_err get_one(mooncake_client *c, const char *key, void *data, uint64_t cap,
                            uint64_t *out_len)
{
    struct object *o = *slot_of(c, key);
    bool now = c->gets++ == c->number;

    if (o == NULL || (mode_is(c, "vanish") && c->gets > c->number)) {
        return MOONCAKE_ENOENT;
    }
    touch(c, o);
    *out_len = o->len;
    if (o->len > cap) {
        return MOONCAKE_EINVAL;
    }
    if (now && mode_is(c, "swap")) {
        o = o->older != &c->ring ? o->older : o;
    }
    if (o->len > 0 && !(now && mode_is(c, "stale"))) {
        memcpy(data, o->data, o->len);
    }
    if (now && mode_is(c, "flip")) {
        ((unsigned char *)data)[o->len / 3] ^= 0x10;
    }
    *out_len -= now && mode_is(c, "short");
    return MOONCAKE_OK;
}

static mooncake_err exist_one(mooncake_client *c, const char *key)
{
    return *slot_of(c, key) != NULL ? MOONCAKE_OK : MOONCAKE_ENOENT;
}

static mooncake_err remove_one(mooncake_client *c, const char *key)
{
    struct object **slot = slot_of(c, key);

    if (*slot == NULL) {
        return MOONCAKE_ENOENT;
    }
    drop(c, slot);
    return MOONCAKE_OK;
}

/* ---- batches, and single calls as batches of one ----------------------------------------- */

/* Run `call` for each item under the lock, unless the pool is dead. */
#define BATCH(call)                                                                                \
    do {                                                                                           \
        mooncake_err whole_ = MOONCAKE_OK;                                                         \
        (void)pthread_mutex_lock(&client->lock);                                                   \
        whole_ = is_dead(client) ? MOONCAKE_ERPC : MOONCAKE_OK;                                    \
        for (size_t i = 0; i < count; i++) {                                                       \
            results[i] = whole_ != MOONCAKE_OK ? whole_ : (call);                                  \
        }                                                                                          \
        (void)pthread_mutex_unlock(&client->lock);                                                 \
        return whole_;                                                                             \
    } while (0)

mooncake_err mooncake_batch_put(mooncake_client *client, const char *const *keys,
                                const void *const *data, const uint64_t *lens, size_t count,
                                const mooncake_put_options *options, uint32_t timeout_ms,
                                mooncake_err *results)
{
    (void)options;
    (void)timeout_ms;
    BATCH(put_one(client, keys[i], data[i], lens[i]));
}

mooncake_err mooncake_batch_get_into(mooncake_client *client, const char *const *keys,
                                     void *const *data, const uint64_t *caps, size_t count,
                                     uint32_t timeout_ms, mooncake_err *results, uint64_t *out_lens)
{
    (void)timeout_ms;
    BATCH(get_one(client, keys[i], data[i], caps[i], &out_lens[i]));
}

mooncake_err mooncake_batch_exist(mooncake_client *client, const char *const *keys, size_t count,
                                  uint32_t timeout_ms, mooncake_err *results)
{
    (void)timeout_ms;
    BATCH(exist_one(client, keys[i]));
}

static mooncake_err size_one(mooncake_client *c, const char *key, uint64_t *out_len)
{
    const struct object *o = *slot_of(c, key);

    if (o == NULL) {
        return MOONCAKE_ENOENT;
    }
    *out_len = o->len;
    return MOONCAKE_OK;
}

mooncake_err mooncake_batch_size(mooncake_client *client, const char *const *keys, size_t count,
                                 uint32_t timeout_ms, mooncake_err *results, uint64_t *out_lens)
{
    (void)timeout_ms;
    BATCH(size_one(client, keys[i], &out_lens[i]));
}

mooncake_err mooncake_batch_remove(mooncake_client *client, const char *const *keys, size_t count,
                                   bool force, uint32_t timeout_ms, mooncake_err *results)
{
    (void)force;
    (void)timeout_ms;
    BATCH(remove_one(client, keys[i]));
}

mooncake_err mooncake_put(mooncake_client *client, const char *key, const void *data, uint64_t len,
                          const mooncake_put_options *options, uint32_t timeout_ms)
{
    mooncake_err result;

    (void)mooncake_batch_put(client, &key, &data, &len, 1, options, timeout_ms, &result);
    return result;
}

mooncake_err mooncake_get_into(mooncake_client *client, const char *key, void *data, uint64_t cap,
                               uint32_t timeout_ms, uint64_t *out_len)
{
    mooncake_err result;

    (void)mooncake_batch_get_into(client, &key, &data, &cap, 1, timeout_ms, &result, out_len);
    return result;
}

mooncake_err mooncake_exist(mooncake_client *client, const char *key, uint32_t timeout_ms,
                            bool *out_exists)
{
    mooncake_err result;
    mooncake_err whole = mooncake_batch_exist(client, &key, 1, timeout_ms, &result);

    *out_exists = result == MOONCAKE_OK;
    return whole;
}

mooncake_err mooncake_size(mooncake_client *client, const char *key, uint32_t timeout_ms,
                           uint64_t *out_len)
{
    mooncake_err result;

    (void)mooncake_batch_size(client, &key, 1, timeout_ms, &result, out_len);
    return result;
}

/* ---- views: each a copy of its own ------------------------------------------------------- */

struct mooncake_view {
    unsigned char *data;
    uint64_t len;
};

mooncake_err mooncake_get_view(mooncake_client *client, const char *key,
                               const mooncake_view_options *options, uint32_t timeout_ms,
                               mooncake_view **out_view)
{
    mooncake_view *view = calloc(1, sizeof(*view));
    mooncake_err result;
    uint64_t len = 0;

    (void)options;
    if (view == NULL) {
        return MOONCAKE_ENOMEM;
    }
    result = mooncake_size(client, key, timeout_ms, &len);
    view->data = calloc(1, len + 1);
    if (result == MOONCAKE_OK && view->data == NULL) {
        result = MOONCAKE_ENOMEM;
    }
    if (result == MOONCAKE_OK) {
        result = mooncake_get_into(client, key, view->data, len, timeout_ms, &view->len);
    }
    if (result != MOONCAKE_OK) {
        mooncake_view_release(view);
        return result;
    }
    *out_view = view;
    return MOONCAKE_OK;
}

mooncake_err mooncake_get_views(mooncake_client *client, const char *const *keys, size_t count,
                                const mooncake_view_options *options, uint32_t timeout_ms,
                                mooncake_err *results, mooncake_view **out_views)
{
    for (size_t i = 0; i < count; i++) {
        results[i] = mooncake_get_view(client, keys[i], options, timeout_ms, &out_views[i]);
    }
    return MOONCAKE_OK;
}

const void *mooncake_view_data(const mooncake_view *view)
{
    return view->data;
}

uint64_t mooncake_view_size(const mooncake_view *view)
{
    return view->len;
}

void mooncake_view_release(mooncake_view *view)
{
    free(view->data);
    free(view);
}

mooncake_err mooncake_remove(mooncake_client *client, const char *key, bool force,
                             uint32_t timeout_ms)
{
    mooncake_err result;

    (void)mooncake_batch_remove(client, &key, 1, force, timeout_ms, &result);
    return result;
}

/* ---- admin ------------------------------------------------------------------------------- */

mooncake_err mooncake_admin_status(mooncake_client *client, uint32_t timeout_ms,
                                   mooncake_pool_status *out_status)
{
    (void)timeout_ms;
    if (!mode_is(client, "lru")) {
        return MOONCAKE_ENOTSUP;
    }
    out_status->capacity = client->number * (4096 + 64); /* blocks of 4 KiB with their headers */
    return MOONCAKE_OK;
}

mooncake_err mooncake_admin_config(mooncake_client *client, uint32_t timeout_ms,
                                   void (*each)(void *arg, const char *name, const char *value,
                                                const char *source, const char *help),
                                   void *arg)
{
    (void)client;
    (void)timeout_ms;
    each(arg, "eviction_high_watermark_ratio", "0.5", "default", "");
    each(arg, "eviction_ratio", "0.1", "default", "");
    return MOONCAKE_OK;
}
