/* Query, Exist, DescribeKey, ListKeys. */
#include "master/core_parts.h"
#include "master/reply.h"

#include <string.h>

/* Keys of one ListKeys call that names no number. */
#define LIST_KEYS_DEFAULT 1000u

static mooncake_err look_up(struct mc_core *core, const struct mc_key *key, uint64_t hash,
                            struct mc_object **out)
{
    struct mc_object *head;

    if (!mc_core_key_ok(key)) {
        return MOONCAKE_EBADKEY;
    }
    head = mc_objects_find(&core->objects, key, hash);
    if (head == NULL) {
        return MOONCAKE_ENOENT;
    }
    if (mc_object_readable(head)) {
        *out = head;
        return MOONCAKE_OK;
    }
    return head->life == MC_LIFE_WRITING || head->u.pending != NULL ? MOONCAKE_ENOTREADY
                                                                    : MOONCAKE_ENOENT;
}

static void count_lookups(struct mc_core *core, uint64_t hits, uint64_t misses)
{
    MC_COUNT(&core->env, lookups, hits + misses);
    MC_COUNT(&core->env, hits, hits);
    MC_COUNT(&core->env, misses, misses);
}

/* Find all keys of a request. @p objects has the object of each OK item, else NULL. */
static uint64_t look_up_all(struct mc_core *core, const struct mc_keys_request *request,
                            const uint64_t *hashes, struct mc_object **objects,
                            mooncake_err *statuses)
{
    uint64_t hits = 0;

    for (size_t i = 0; i < request->count; i++) {
        objects[i] = NULL;
        statuses[i] = look_up(core, &request->keys[i], hashes[i], &objects[i]);
        hits += statuses[i] == MOONCAKE_OK ? 1 : 0;
    }
    count_lookups(core, hits, request->count - hits);
    return hits;
}

static mooncake_err fill_sizes(struct mc_core *core, struct mc_object **objects, size_t count,
                               struct mc_arena *arena, struct mc_object_table *out)
{
    struct mc_object_info *infos = mc_arena_array(arena, count, sizeof(*infos));

    if (infos == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        infos[i] = (struct mc_object_info){0};
        if (objects[i] != NULL) {
            infos[i].value_len = objects[i]->value_len;
            infos[i].id.hi = core->env.options.epoch;
            infos[i].id.lo = objects[i]->attempt;
        }
    }
    *out = (struct mc_object_table){.objects = infos, .count = count};
    return MOONCAKE_OK;
}

mooncake_err mc_core_query(struct mc_core *core, const struct mc_keys_request *request,
                           struct mc_arena *arena, struct mc_query_reply *out_reply)
{
    size_t const count = request->count;
    struct mc_query_reply reply = {0};
    struct mc_object **objects = mc_arena_array(arena, count, sizeof(*objects));
    uint64_t *hashes = mc_core_hash_keys(core, request->keys, count, arena);
    uint64_t hits, hit_bytes = 0;

    reply.statuses = mc_arena_array(arena, count, sizeof(*reply.statuses));
    if (objects == NULL || hashes == NULL || reply.statuses == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    hits = look_up_all(core, request, hashes, objects, reply.statuses);
    MC_COUNT(&core->env, query_hits, hits);
    MC_COUNT(&core->env, query_misses, count - hits);
    if (request->sizes_only) {
        MC_TRY(fill_sizes(core, objects, count, arena, &reply.table));
        *out_reply = reply;
        return MOONCAKE_OK;
    }
    /* The reply first: a lease is granted only if it will be told. */
    MC_TRY(mc_reply_table(core, objects, count, MC_RIGHT_READ, arena, &reply.table));
    /* Backwards: the tail of a prefix is useless without its head and must go first. */
    for (size_t i = count; i-- > 0;) {
        if (objects[i] != NULL) {
            hit_bytes += objects[i]->value_len;
            reply.lease_ms = request->view ? mc_lifetime_view(&core->lifetime, objects[i])
                                           : mc_lifetime_read(&core->lifetime, objects[i]);
        }
    }
    MC_COUNT(&core->env, query_hit_bytes, hit_bytes);
    *out_reply = reply;
    return MOONCAKE_OK;
}

/* Like a query, with promises: the readers will not come again. Versions that somebody waits to
 * take away exist, but where they are is not told. */
static mooncake_err tell_places(struct mc_core *core, struct mc_object **objects, size_t count,
                                struct mc_arena *arena, struct mc_exist_reply *reply)
{
    for (size_t i = count; i-- > 0;) {
        if (objects[i] != NULL) {
            reply->lease_ms = mc_lifetime_read(&core->lifetime, objects[i]);
            if (!mc_reuse_promise(&core->reuse, objects[i])) {
                objects[i] = NULL;
            }
        }
    }
    reply->reuse_ms = mc_reuse_window_ms(&core->reuse);
    return mc_reply_table(core, objects, count, MC_RIGHT_READ, arena, &reply->table);
}

mooncake_err mc_core_exist(struct mc_core *core, const struct mc_keys_request *request,
                           struct mc_arena *arena, struct mc_exist_reply *out_reply)
{
    size_t const count = request->count;
    struct mc_exist_reply reply = {.count = count};
    struct mc_object **objects = mc_arena_array(arena, count, sizeof(*objects));
    uint64_t *hashes = mc_core_hash_keys(core, request->keys, count, arena);
    bool told;
    uint64_t hits;

    reply.statuses = mc_arena_array(arena, count, sizeof(*reply.statuses));
    if (objects == NULL || hashes == NULL || reply.statuses == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    hits = look_up_all(core, request, hashes, objects, reply.statuses);
    MC_COUNT(&core->env, exist_hits, hits);
    MC_COUNT(&core->env, exist_misses, count - hits);
    told =
        request->descriptors && core->forced_removals == 0 && mc_reuse_window_ms(&core->reuse) > 0;
    reply.lease_ms = hits == 0 || told ? 0 : UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        if (objects[i] != NULL && !told) {
            uint64_t const lease_ms = mc_lifetime_ask(&core->lifetime, objects[i]);

            reply.lease_ms = lease_ms < reply.lease_ms ? lease_ms : reply.lease_ms;
        } else if (reply.statuses[i] == MOONCAKE_ENOTREADY) {
            reply.statuses[i] = MOONCAKE_ENOENT;
        }
    }
    if (told) {
        MC_TRY(tell_places(core, objects, count, arena, &reply));
    }
    *out_reply = reply;
    return MOONCAKE_OK;
}

/* The version may be the readable one, and a part of it may be parked beside it. */
static mooncake_err renew_item(struct mc_core *core, const struct mc_renew_request *request,
                               size_t item, uint64_t hash)
{
    const struct mc_key *key = &request->keys[item];
    bool held;
    struct mc_object *head;

    if (!mc_core_key_ok(key)) {
        return MOONCAKE_EBADKEY;
    }
    if (request->epoch != core->env.options.epoch) {
        return MOONCAKE_ENOENT; /* granted by another life of ours */
    }
    held = mc_lifetime_renew_parked(&core->lifetime, request->attempts[item],
                                    request->mount_ids[item]);
    head = mc_objects_find(&core->objects, key, hash);
    if (head != NULL && head->life == MC_LIFE_READABLE &&
        head->attempt == request->attempts[item] &&
        mc_object_on_mount(head, request->mount_ids[item])) {
        (void)mc_lifetime_view(&core->lifetime, head);
        held = true;
    }
    return held ? MOONCAKE_OK : MOONCAKE_ENOENT;
}

mooncake_err mc_core_renew(struct mc_core *core, const struct mc_renew_request *request,
                           struct mc_arena *arena, struct mc_renew_reply *out_reply)
{
    mooncake_err *statuses = mc_arena_array(arena, request->count, sizeof(*statuses));
    uint64_t *hashes = mc_core_hash_keys(core, request->keys, request->count, arena);

    if (statuses == NULL || hashes == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    for (size_t i = request->count; i-- > 0;) {
        statuses[i] = renew_item(core, request, i, hashes[i]);
    }
    *out_reply = (struct mc_renew_reply){
        .statuses = statuses, .count = request->count, .lease_ms = core->env.options.lease_ms};
    return MOONCAKE_OK;
}

mooncake_err mc_core_describe_key(struct mc_core *core, const struct mc_keys_request *request,
                                  struct mc_arena *arena, struct mc_describe_key_reply *out_reply)
{
    struct mc_describe_key_reply reply = {0};
    struct mc_object *head;

    if (request->count != 1) {
        return mc_err_set(MOONCAKE_EINVAL, "keys: %zu were given; this call describes one",
                          request->count);
    }
    if (!mc_core_key_ok(&request->keys[0])) {
        return MOONCAKE_EBADKEY;
    }
    mc_core_enter(core);
    head = mc_objects_find_live(&core->objects, &request->keys[0],
                                mc_htab_hash(request->keys[0].bytes, request->keys[0].len));
    if (head == NULL) {
        return MOONCAKE_ENOENT;
    }
    reply.pin = head->pin;
    reply.age_ms = (core->env.now_ns - head->since_ns) / MC_NS_PER_MS;
    if (head->life == MC_LIFE_READABLE) {
        reply.state = MC_OBJECT_READABLE;
        reply.lease_left_ms = mc_left_ms(core->env.now_ns, head->lease_end_ns);
        reply.soft_pin_left_ms =
            head->pin == MC_PIN_SOFT ? mc_left_ms(core->env.now_ns, head->pin_ns) : 0;
    } else {
        reply.state = MC_OBJECT_WRITING;
        reply.owner_client_id = head->u.put->client_id;
    }
    MC_TRY(mc_reply_table(core, &head, 1, 0, arena, &reply.table));
    *out_reply = reply;
    return MOONCAKE_OK;
}

/* ---- list ---------------------------------------------------------------------------------- */

#define WALK_STEPS_MATCHING 1u

struct listing {
    struct mc_arena *arena;
    struct mc_key *keys;
    size_t count, max;
    mooncake_err err;
    struct mc_pattern *pattern; /* NULL: all */
};

static void list_one(void *arg, void *element)
{
    struct listing *const listing = arg;
    const struct mc_object *head = element;
    bool matches = true;
    char *bytes;

    if (listing->err != MOONCAKE_OK || !mc_object_readable(head)) {
        return;
    }
    if (listing->pattern != NULL) {
        listing->err =
            mc_pattern_match(listing->pattern, mc_object_key(head), head->key_len, &matches);
        if (listing->err != MOONCAKE_OK || !matches) {
            return;
        }
    }
    if (listing->count == listing->max) { /* the walk may end a bucket later than asked */
        struct mc_key *grown =
            mc_arena_array(listing->arena, listing->max * 2, sizeof(struct mc_key));

        if (grown == NULL) {
            listing->err = MOONCAKE_ENOMEM;
            return;
        }
        memcpy(grown, listing->keys, listing->count * sizeof(struct mc_key));
        listing->keys = grown;
        listing->max *= 2;
    }
    bytes = mc_arena_alloc(listing->arena, head->key_len);
    if (bytes == NULL) {
        listing->err = MOONCAKE_ENOMEM;
        return;
    }
    memcpy(bytes, mc_object_key(head), head->key_len);
    listing->keys[listing->count++] = (struct mc_key){.bytes = bytes, .len = head->key_len};
}

/* With a pattern a page ends when its slice of time has ended, often with few keys or none: the
 * caller comes back with the cursor. */
static void list_matching(struct mc_core *core, uint64_t *cursor, size_t max,
                          struct listing *listing)
{
    uint64_t const end_ns = mc_now_ns(core->clock) + MC_SLICE_NS_MAX;

    do {
        mc_htab_walk(core->objects.table, cursor, WALK_STEPS_MATCHING, list_one, listing);
    } while (*cursor != 0 && listing->count < max && listing->err == MOONCAKE_OK &&
             mc_now_ns(core->clock) < end_ns);
}

mooncake_err mc_core_list_keys(struct mc_core *core, const struct mc_list_keys_request *request,
                               struct mc_arena *arena, struct mc_list_keys_reply *out_reply)
{
    uint32_t max = request->keys_max == 0 ? LIST_KEYS_DEFAULT : request->keys_max;
    struct listing listing = {.arena = arena};
    uint64_t cursor = request->cursor;

    if (request->pattern != NULL && request->pattern[0] != '\0') {
        MC_TRY(mc_pattern_create(request->pattern, &listing.pattern));
    }
    mc_core_enter(core);
    max = max > MC_BATCH_KEYS_MAX ? MC_BATCH_KEYS_MAX : max;
    listing.max = max;
    listing.keys = mc_arena_array(arena, max, sizeof(struct mc_key));
    if (listing.keys == NULL) {
        mc_pattern_destroy(&listing.pattern);
        return MOONCAKE_ENOMEM;
    }
    if (listing.pattern == NULL) {
        mc_htab_walk(core->objects.table, &cursor, max, list_one, &listing);
    } else {
        list_matching(core, &cursor, max, &listing);
        mc_pattern_destroy(&listing.pattern);
    }
    if (listing.err != MOONCAKE_OK) {
        return listing.err;
    }
    *out_reply = (struct mc_list_keys_reply){
        .keys = listing.keys,
        .count = listing.count,
        .cursor = cursor,
    };
    return MOONCAKE_OK;
}
