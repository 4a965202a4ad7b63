/* The walks; see walk.h. */
#include "wire/walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

uint64_t walk_random(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t below(struct walk *walk, uint64_t end)
{
    return walk_random(&walk->seed) % end;
}

static void flatten(struct walk *walk, const void *bytes, size_t len)
{
    assert_int_equal(mc_buf_append(walk->flat, bytes, len), MOONCAKE_OK);
}

/* ---- kinds of fields ------------------------------------------------------------------------- */

/* Numbers of all magnitudes, 0 and the largest among them. */
static uint64_t any_u64(struct walk *walk)
{
    return walk_random(&walk->seed) >> below(walk, 65) % 64 >> (below(walk, 8) == 0 ? 63 : 0);
}

static void u64(struct walk *walk, uint64_t *value)
{
    if (walk->make) {
        *value = any_u64(walk);
    }
    flatten(walk, value, sizeof(*value));
}

static void u32(struct walk *walk, uint32_t *value)
{
    if (walk->make) {
        *value = (uint32_t)any_u64(walk);
    }
    flatten(walk, value, sizeof(*value));
}

static void u32_within(struct walk *walk, uint32_t *value, uint32_t min, uint32_t max)
{
    if (walk->make) {
        *value = min + (uint32_t)below(walk, max - min + 1);
    }
    flatten(walk, value, sizeof(*value));
}

static void flag(struct walk *walk, bool *value)
{
    if (walk->make) {
        *value = below(walk, 2) == 1;
    }
    flatten(walk, value, sizeof(*value));
}

static void count_of(struct walk *walk, size_t *count, size_t max)
{
    if (walk->make) {
        *count = below(walk, (max < walk->items_max ? max : walk->items_max) + 1);
    }
    flatten(walk, count, sizeof(*count));
}

static void *array_of(struct walk *walk, const void *have, size_t count, size_t len)
{
    void *array = (void *)(uintptr_t)have;

    if (walk->make) {
        array = mc_arena_array(walk->arena, count, len);
        assert_non_null(array);
        memset(array, 0, count * len);
    }
    return array;
}

/* A text of 0 to @p len_max bytes, two- and three-byte characters among them. */
static void text(struct walk *walk, const char **value, size_t len_max)
{
    static const char *const letters[] = {"a", "Z", "9", ":", "/", " ", "\xc3\xa9", "\xe2\x82\xac"};

    if (walk->make) {
        size_t len = below(walk, 4) == 0 ? len_max : below(walk, len_max / 8 + 1), at = 0;
        char *made = mc_arena_alloc(walk->arena, len + 1);

        assert_non_null(made);
        while (at < len) {
            const char *letter = letters[below(walk, MC_ARRAY_LEN(letters))];
            size_t letter_len = strlen(letter);

            if (letter_len > len - at) {
                letter = "x";
                letter_len = 1;
            }
            memcpy(made + at, letter, letter_len);
            at += letter_len;
        }
        made[len] = '\0';
        *value = made;
    }
    flatten(walk, *value, strlen(*value) + 1);
}

/* Keys as clients send them, bad ones among them: those must come through as they are. */
static void key(struct walk *walk, struct mc_key *value)
{
    if (walk->make) {
        uint64_t pick = below(walk, 16);
        size_t len = pick == 0 ? 0 : pick == 1 ? MC_KEY_LEN_MAX + 1 : 1 + below(walk, 120), i;
        char *bytes = mc_arena_alloc(walk->arena, len);

        assert_non_null(bytes);
        for (i = 0; i < len; i++) {
            bytes[i] = (char)below(walk, 256);
        }
        *value = (struct mc_key){.bytes = bytes, .len = (uint32_t)len};
    }
    flatten(walk, &value->len, sizeof(value->len));
    flatten(walk, value->bytes, value->len);
}

static void error_number(struct walk *walk, mooncake_err *value)
{
#define NUMBER(name, number, radius, sentence) MOONCAKE_##name,
    static const mooncake_err all[] = {MOONCAKE_ERR_LIST(NUMBER)};
#undef NUMBER

    if (walk->make) {
        *value = all[below(walk, MC_ARRAY_LEN(all))];
    }
    flatten(walk, value, sizeof(*value));
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static void keys_of(struct walk *walk, const struct mc_key **keys, size_t *count)
{
    struct mc_key *array;
    size_t i;

    count_of(walk, count, MC_BATCH_KEYS_MAX);
    array = array_of(walk, *keys, *count, sizeof(*array));
    for (i = 0; i < *count; i++) {
        key(walk, &array[i]);
    }
    *keys = array;
}

static void numbers_of(struct walk *walk, const uint64_t **numbers, size_t count)
{
    uint64_t *array = array_of(walk, *numbers, count, sizeof(*array));
    size_t i;

    for (i = 0; i < count; i++) {
        u64(walk, &array[i]);
    }
    *numbers = array;
}

static void statuses_of(struct walk *walk, mooncake_err **statuses, size_t count)
{
    size_t i;

    *statuses = array_of(walk, *statuses, count, sizeof(**statuses));
    for (i = 0; i < count; i++) {
        error_number(walk, &(*statuses)[i]);
    }
}

/* ---- the object table ------------------------------------------------------------------------ */

static void make_replica(struct walk *walk, const struct mc_object_table *table,
                         const struct mc_object_info *object, uint32_t rights,
                         struct mc_replica_info *replica)
{
    uint32_t count = 1 + (uint32_t)below(walk, below(walk, 4) == 0 ? MC_EXTENTS_MAX : 2), i;
    uint64_t left = object->value_len;

    replica->extents_count = count;
    replica->extents = array_of(walk, NULL, count, sizeof(*replica->extents));
    replica->segment = array_of(walk, NULL, count, sizeof(*replica->segment));
    for (i = 0; i < count; i++) {
        uint64_t len = i + 1 == count || left == 0 ? left : below(walk, left);

        replica->segment[i] = (uint32_t)below(walk, table->segments_count);
        replica->extents[i] = (struct mc_extent_ref){
            .mount_id = table->segments[replica->segment[i]].mount_id,
            .offset = walk_random(&walk->seed) >> (8 + below(walk, 56)),
            .payload_len = len,
            .capability = any_u64(walk),
            .object_id = object->id,
            .slice_index = i,
            .slice_count = count,
            .rights = rights,
        };
        left -= len;
    }
}

static void make_object(struct walk *walk, const struct mc_object_table *table, uint32_t rights,
                        struct mc_object_info *object)
{
    uint32_t i;

    object->id = (struct mc_object_id){.hi = any_u64(walk), .lo = any_u64(walk)};
    object->value_len = any_u64(walk) >> 2; /* room for an offset before it */
    object->replicas_count =
        table->segments_count == 0 ? 0 : (uint32_t)below(walk, MC_REPLICAS_MAX + 1);
    object->replicas = array_of(walk, NULL, object->replicas_count, sizeof(*object->replicas));
    for (i = 0; i < object->replicas_count; i++) {
        make_replica(walk, table, object, rights, &object->replicas[i]);
    }
}

static void flatten_object(struct walk *walk, const struct mc_object_info *object)
{
    uint32_t i, j;

    flatten(walk, &object->id, sizeof(object->id));
    flatten(walk, &object->value_len, sizeof(object->value_len));
    flatten(walk, &object->replicas_count, sizeof(object->replicas_count));
    for (i = 0; i < object->replicas_count; i++) {
        const struct mc_replica_info *replica = &object->replicas[i];

        flatten(walk, &replica->extents_count, sizeof(replica->extents_count));
        for (j = 0; j < replica->extents_count; j++) {
            const struct mc_extent_ref *extent = &replica->extents[j];
            const uint64_t numbers[] = {
                replica->segment[j],  extent->mount_id,    extent->offset,
                extent->payload_len,  extent->capability,  extent->object_id.hi,
                extent->object_id.lo, extent->slice_index, extent->slice_count,
                extent->rights,
            };

            flatten(walk, numbers, sizeof(numbers));
        }
    }
}

static void segments_of(struct walk *walk, struct mc_object_table *table)
{
    uint32_t i;

    if (walk->make) {
        table->segments_count = (uint32_t)below(walk, walk->items_max + 1);
    }
    flatten(walk, &table->segments_count, sizeof(table->segments_count));
    table->segments =
        array_of(walk, table->segments, table->segments_count, sizeof(*table->segments));
    for (i = 0; i < table->segments_count; i++) {
        u64(walk, &table->segments[i].mount_id);
        text(walk, &table->segments[i].name, MC_SEGMENT_NAME_LEN_MAX);
        text(walk, &table->segments[i].addresses, MC_ADDRESSES_LEN_MAX);
        text(walk, &table->segments[i].host, MC_ADDR_LEN_MAX);
    }
}

static void table_of(struct walk *walk, struct mc_object_table *table, uint32_t rights,
                     size_t objects_min, size_t objects_max)
{
    size_t i;

    segments_of(walk, table);
    count_of(walk, &table->count, objects_max);
    if (walk->make && table->count < objects_min) {
        table->count = objects_min;
        walk->flat->end -= sizeof(table->count);
        flatten(walk, &table->count, sizeof(table->count));
    }
    table->objects = array_of(walk, table->objects, table->count, sizeof(*table->objects));
    for (i = 0; i < table->count; i++) {
        if (walk->make) {
            make_object(walk, table, rights, &table->objects[i]);
        }
        flatten_object(walk, &table->objects[i]);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static void walk_hello(struct walk *walk, struct mc_hello *hello)
{
    u32(walk, &hello->protocol_min);
    u32(walk, &hello->protocol_max);
    text(walk, &hello->program, MC_PROGRAM_LEN_MAX);
    u64(walk, &hello->client_id);
    u64(walk, &hello->features);
}

static void walk_put_start(struct walk *walk, struct mc_put_start_request *request)
{
    const char **names;
    size_t i;

    u64(walk, &request->client_id);
    u64(walk, &request->nonce);
    keys_of(walk, &request->keys, &request->count);
    numbers_of(walk, &request->value_lens, request->count);
    u32_within(walk, &request->replicas, 1, MC_REPLICAS_MAX);
    flag(walk, &request->all_replicas);
    flag(walk, &request->soft_pin);
    flag(walk, &request->hard_pin);
    flag(walk, &request->upsert);
    u64(walk, &request->soft_pin_ms);
    count_of(walk, &request->preferred_count, MC_PREFERRED_SEGMENTS_MAX);
    names = array_of(walk, request->preferred_segments, request->preferred_count, sizeof(*names));
    for (i = 0; i < request->preferred_count; i++) {
        text(walk, &names[i], MC_SEGMENT_NAME_LEN_MAX);
    }
    request->preferred_segments = names;
}

static void walk_put_end(struct walk *walk, struct mc_put_end_request *request, bool with_failed)
{
    uint32_t *failed;
    bool any = request->failed_replicas != NULL;
    size_t i;

    u64(walk, &request->client_id);
    keys_of(walk, &request->keys, &request->count);
    numbers_of(walk, &request->attempts, request->count);
    if (walk->make) {
        any = with_failed && request->count > 0 && below(walk, 2) == 0;
        request->failed_replicas = NULL;
    }
    flatten(walk, &any, sizeof(any));
    if (any) {
        failed = array_of(walk, request->failed_replicas, request->count, sizeof(*failed));
        for (i = 0; i < request->count; i++) {
            u32(walk, &failed[i]);
        }
        request->failed_replicas = failed;
    }
}

static void walk_keys(struct walk *walk, enum mc_method method, struct mc_keys_request *request)
{
    if (walk->make) {
        memset(request, 0, sizeof(*request));
    }
    if (method == MC_METHOD_DESCRIBE_KEY) {
        struct mc_key *one = array_of(walk, request->keys, 1, sizeof(*one));

        request->count = walk->make ? 1 : request->count;
        flatten(walk, &request->count, sizeof(request->count));
        key(walk, one);
        request->keys = one;
        return;
    }
    u64(walk, &request->client_id);
    keys_of(walk, &request->keys, &request->count);
    if (method == MC_METHOD_QUERY) {
        flag(walk, &request->sizes_only);
    }
    if (method == MC_METHOD_REMOVE) {
        flag(walk, &request->force);
    }
}

static void walk_remove_all(struct walk *walk, struct mc_remove_all_request *request)
{
    bool any = request->pattern != NULL;

    u64(walk, &request->client_id);
    flag(walk, &request->force);
    if (walk->make) {
        any = below(walk, 2) == 0;
        request->pattern = NULL;
    }
    flatten(walk, &any, sizeof(any));
    if (any) {
        text(walk, &request->pattern, MC_PATTERN_LEN_MAX);
    }
}

static void walk_report(struct walk *walk, struct mc_report_request *request)
{
    struct mc_report_item *items;
    size_t i;

    u64(walk, &request->client_id);
    count_of(walk, &request->count, MC_BATCH_KEYS_MAX);
    items = array_of(walk, request->items, request->count, sizeof(*items));
    for (i = 0; i < request->count; i++) {
        u64(walk, &items[i].mount_id);
        error_number(walk, &items[i].reason);
        key(walk, &items[i].key);
        u64(walk, &items[i].object_id_lo);
    }
    request->items = items;
}

static void walk_mount(struct walk *walk, struct mc_mount_request *request)
{
    struct mc_mount_item *items;
    size_t i;

    u64(walk, &request->client_id);
    text(walk, &request->host, MC_ADDR_LEN_MAX);
    text(walk, &request->program, MC_PROGRAM_LEN_MAX);
    flag(walk, &request->again);
    count_of(walk, &request->count, MC_SEGMENTS_PER_STORE_MAX);
    items = array_of(walk, request->items, request->count, sizeof(*items));
    for (i = 0; i < request->count; i++) {
        text(walk, &items[i].name, MC_SEGMENT_NAME_LEN_MAX);
        text(walk, &items[i].addresses, MC_ADDRESSES_LEN_MAX);
        u64(walk, &items[i].mount_id);
        u64(walk, &items[i].len);
        u64(walk, &items[i].secret[0]);
        u64(walk, &items[i].secret[1]);
    }
    request->items = items;
}

static void walk_unmount(struct walk *walk, struct mc_unmount_request *request)
{
    u64(walk, &request->client_id);
    count_of(walk, &request->count, MC_SEGMENTS_PER_STORE_MAX);
    numbers_of(walk, &request->mount_ids, request->count);
    u64(walk, &request->grace_ms);
}

static void walk_ping(struct walk *walk, struct mc_ping_request *request)
{
    u64(walk, &request->client_id);
    u32_within(walk, &request->role, MC_ROLE_CLIENT, MC_ROLE_TOOL);
    text(walk, &request->host, MC_ADDR_LEN_MAX);
    text(walk, &request->program, MC_PROGRAM_LEN_MAX);
    count_of(walk, &request->count, MC_SEGMENTS_PER_STORE_MAX);
    numbers_of(walk, &request->mount_ids, request->count);
    flag(walk, &request->leaving);
}

static void walk_list_keys(struct walk *walk, struct mc_list_keys_request *request)
{
    u64(walk, &request->cursor);
    u32(walk, &request->keys_max);
    text(walk, &request->pattern, MC_PATTERN_LEN_MAX);
}

void walk_request(struct walk *walk, enum mc_method method, void *message)
{
    switch (method) {
    case MC_METHOD_HELLO:
        walk_hello(walk, message);
        return;
    case MC_METHOD_PUT_START:
        walk_put_start(walk, message);
        return;
    case MC_METHOD_PUT_END:
        walk_put_end(walk, message, true);
        return;
    case MC_METHOD_PUT_REVOKE:
        walk_put_end(walk, message, false);
        return;
    case MC_METHOD_QUERY:
    case MC_METHOD_EXIST:
    case MC_METHOD_REMOVE:
    case MC_METHOD_DESCRIBE_KEY:
        walk_keys(walk, method, message);
        return;
    case MC_METHOD_REMOVE_ALL:
        walk_remove_all(walk, message);
        return;
    case MC_METHOD_REPORT:
        walk_report(walk, message);
        return;
    case MC_METHOD_MOUNT:
        walk_mount(walk, message);
        return;
    case MC_METHOD_UNMOUNT:
        walk_unmount(walk, message);
        return;
    case MC_METHOD_PING:
        walk_ping(walk, message);
        return;
    case MC_METHOD_LIST_KEYS:
        walk_list_keys(walk, message);
        return;
    case MC_METHOD_LIST_SEGMENTS:
    case MC_METHOD_LIST_CLIENTS:
    case MC_METHOD_POOL_STATUS:
    case MC_METHOD_CONFIG:
        return; /* nothing in them */
    }
    fail();
}

/* ---- replies --------------------------------------------------------------------------------- */

static void walk_hello_reply(struct walk *walk, struct mc_hello_reply *reply)
{
    u32(walk, &reply->protocol);
    text(walk, &reply->program, MC_PROGRAM_LEN_MAX);
    u64(walk, &reply->master_epoch);
    u64(walk, &reply->features);
    u32(walk, &reply->body_len_max);
}

static void walk_put_start_reply(struct walk *walk, struct mc_put_start_reply *reply)
{
    const uint64_t *attempts = reply->attempts;

    table_of(walk, &reply->table, MC_RIGHT_WRITE, 0, MC_BATCH_KEYS_MAX);
    statuses_of(walk, &reply->statuses, reply->table.count);
    numbers_of(walk, &attempts, reply->table.count);
    reply->attempts = (uint64_t *)(uintptr_t)attempts;
    u32(walk, &reply->retry_after_ms);
}

static void walk_query_reply(struct walk *walk, struct mc_query_reply *reply)
{
    table_of(walk, &reply->table, MC_RIGHT_READ, 0, MC_BATCH_KEYS_MAX);
    statuses_of(walk, &reply->statuses, reply->table.count);
    u64(walk, &reply->lease_ms);
}

static void walk_ping_reply(struct walk *walk, struct mc_ping_reply *reply)
{
    const uint64_t *ids = reply->unknown_mount_ids;

    u64(walk, &reply->master_epoch);
    count_of(walk, &reply->unknown_count, MC_SEGMENTS_PER_STORE_MAX);
    numbers_of(walk, &ids, reply->unknown_count);
    reply->unknown_mount_ids = (uint64_t *)(uintptr_t)ids;
    u64(walk, &reply->client_ttl_ms);
}

static void walk_list_keys_reply(struct walk *walk, struct mc_list_keys_reply *reply)
{
    const struct mc_key *keys = reply->keys;

    keys_of(walk, &keys, &reply->count);
    reply->keys = (struct mc_key *)(uintptr_t)keys;
    u64(walk, &reply->cursor);
}

static void walk_list_segments_reply(struct walk *walk, struct mc_list_segments_reply *reply)
{
    size_t i;

    count_of(walk, &reply->count, MC_SEGMENTS_MAX);
    reply->items = array_of(walk, reply->items, reply->count, sizeof(*reply->items));
    for (i = 0; i < reply->count; i++) {
        struct mc_segment_status *item = &reply->items[i];

        text(walk, &item->name, MC_SEGMENT_NAME_LEN_MAX);
        text(walk, &item->host, MC_ADDR_LEN_MAX);
        text(walk, &item->addresses, MC_ADDRESSES_LEN_MAX);
        u64(walk, &item->mount_id);
        u64(walk, &item->client_id);
        u64(walk, &item->len);
        u64(walk, &item->used);
        u64(walk, &item->largest_free_extent);
        u64(walk, &item->extents);
        u32_within(walk, &item->state, MC_SEGMENT_OK, MC_SEGMENT_GONE);
    }
}

static void walk_list_clients_reply(struct walk *walk, struct mc_list_clients_reply *reply)
{
    size_t i;

    count_of(walk, &reply->count, MC_SEGMENTS_MAX);
    reply->items = array_of(walk, reply->items, reply->count, sizeof(*reply->items));
    for (i = 0; i < reply->count; i++) {
        struct mc_client_status *item = &reply->items[i];

        u64(walk, &item->client_id);
        u64(walk, &item->ping_age_ms);
        text(walk, &item->host, MC_ADDR_LEN_MAX);
        text(walk, &item->program, MC_PROGRAM_LEN_MAX);
        u32(walk, &item->role);
        u32(walk, &item->segments);
    }
}

static void walk_pool_status_reply(struct walk *walk, struct mc_pool_status_reply *reply)
{
    uint64_t *const numbers[] = {
        &reply->capacity,  &reply->used,         &reply->keys,          &reply->unfinished_puts,
        &reply->segments,  &reply->stores,       &reply->clients,       &reply->hits,
        &reply->misses,    &reply->evicted_keys, &reply->evicted_bytes, &reply->put_rejected,
        &reply->uptime_ms, &reply->master_epoch,
    };
    size_t i;

    for (i = 0; i < MC_ARRAY_LEN(numbers); i++) {
        u64(walk, numbers[i]);
    }
    text(walk, &reply->program, MC_PROGRAM_LEN_MAX);
}

static void walk_describe_key_reply(struct walk *walk, struct mc_describe_key_reply *reply)
{
    u32(walk, &reply->state);
    u32(walk, &reply->pin);
    u64(walk, &reply->lease_left_ms);
    u64(walk, &reply->soft_pin_left_ms);
    u64(walk, &reply->age_ms);
    u64(walk, &reply->owner_client_id);
    table_of(walk, &reply->table, 0, 1, 1);
}

static void walk_config_reply(struct walk *walk, struct mc_config_reply *reply)
{
    size_t i;

    count_of(walk, &reply->count, MC_CONFIG_ITEMS_MAX);
    reply->items = array_of(walk, reply->items, reply->count, sizeof(*reply->items));
    for (i = 0; i < reply->count; i++) {
        text(walk, &reply->items[i].name, MC_CONFIG_TEXT_LEN_MAX);
        text(walk, &reply->items[i].value, MC_CONFIG_TEXT_LEN_MAX);
        text(walk, &reply->items[i].source, MC_CONFIG_TEXT_LEN_MAX);
        text(walk, &reply->items[i].help, MC_CONFIG_TEXT_LEN_MAX);
    }
}

void walk_reply(struct walk *walk, enum mc_method method, void *message)
{
    struct mc_exist_reply *exist = message;
    struct mc_status_reply *status = message;
    struct mc_remove_all_reply *removed = message;

    switch (method) {
    case MC_METHOD_HELLO:
        walk_hello_reply(walk, message);
        return;
    case MC_METHOD_PUT_START:
        walk_put_start_reply(walk, message);
        return;
    case MC_METHOD_QUERY:
        walk_query_reply(walk, message);
        return;
    case MC_METHOD_EXIST:
        count_of(walk, &exist->count, MC_BATCH_KEYS_MAX);
        statuses_of(walk, &exist->statuses, exist->count);
        u64(walk, &exist->lease_ms);
        return;
    case MC_METHOD_PUT_END:
    case MC_METHOD_PUT_REVOKE:
    case MC_METHOD_REMOVE:
    case MC_METHOD_REPORT:
    case MC_METHOD_MOUNT:
    case MC_METHOD_UNMOUNT:
        count_of(walk, &status->count, MC_BATCH_KEYS_MAX);
        statuses_of(walk, &status->statuses, status->count);
        return;
    case MC_METHOD_REMOVE_ALL:
        u64(walk, &removed->removed);
        u64(walk, &removed->left_leased);
        u64(walk, &removed->left_writing);
        u64(walk, &removed->left_pinned);
        return;
    case MC_METHOD_PING:
        walk_ping_reply(walk, message);
        return;
    case MC_METHOD_LIST_KEYS:
        walk_list_keys_reply(walk, message);
        return;
    case MC_METHOD_LIST_SEGMENTS:
        walk_list_segments_reply(walk, message);
        return;
    case MC_METHOD_LIST_CLIENTS:
        walk_list_clients_reply(walk, message);
        return;
    case MC_METHOD_POOL_STATUS:
        walk_pool_status_reply(walk, message);
        return;
    case MC_METHOD_DESCRIBE_KEY:
        walk_describe_key_reply(walk, message);
        return;
    case MC_METHOD_CONFIG:
        walk_config_reply(walk, message);
        return;
    }
    fail();
}

void walk_make_bytes(enum mc_method method, bool reply, uint64_t seed, size_t items_max,
                     struct mc_buf *out)
{
    const struct mc_method_codec *codec = mc_method_codec(method);
    struct mc_arena arena;
    struct mc_buf flat;
    struct walk walk = {
        .make = true, .seed = seed, .items_max = items_max, .arena = &arena, .flat = &flat};
    void *message;

    mc_arena_init(&arena, 0);
    mc_buf_init(&flat);
    message = mc_arena_array(&arena, 1, reply ? codec->reply_len : codec->request_len);
    assert_non_null(message);
    memset(message, 0, reply ? codec->reply_len : codec->request_len);
    if (reply) {
        walk_reply(&walk, method, message);
        assert_int_equal(codec->encode_reply(message, out), MOONCAKE_OK);
    } else {
        walk_request(&walk, method, message);
        assert_int_equal(codec->encode_request(message, out), MOONCAKE_OK);
    }
    mc_buf_fini(&flat);
    mc_arena_fini(&arena);
}
