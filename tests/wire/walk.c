/* Kinds of fields that messages are made of; see walk.h. */
#include "wire/walk_parts.h"

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

uint64_t walk_below(struct walk *walk, uint64_t end)
{
    return walk_random(&walk->seed) % end;
}

void walk_flatten(struct walk *walk, const void *bytes, size_t len)
{
    assert_int_equal(mc_buf_append(walk->flat, bytes, len), MOONCAKE_OK);
}

/* ---- kinds of fields ------------------------------------------------------------------------- */

/* Numbers of all magnitudes, 0 and the largest among them. */
static uint64_t any_u64(struct walk *walk)
{
    return walk_random(&walk->seed) >> walk_below(walk, 65) % 64 >>
           (walk_below(walk, 8) == 0 ? 63 : 0);
}

void walk_u64(struct walk *walk, uint64_t *value)
{
    if (walk->make) {
        *value = any_u64(walk);
    }
    walk_flatten(walk, value, sizeof(*value));
}

void walk_u32(struct walk *walk, uint32_t *value)
{
    if (walk->make) {
        *value = (uint32_t)any_u64(walk);
    }
    walk_flatten(walk, value, sizeof(*value));
}

void walk_u32_within(struct walk *walk, uint32_t *value, uint32_t min, uint32_t max)
{
    if (walk->make) {
        *value = min + (uint32_t)walk_below(walk, max - min + 1);
    }
    walk_flatten(walk, value, sizeof(*value));
}

void walk_flag(struct walk *walk, bool *value)
{
    if (walk->make) {
        *value = walk_below(walk, 2) == 1;
    }
    walk_flatten(walk, value, sizeof(*value));
}

void walk_count_of(struct walk *walk, size_t *count, size_t max)
{
    if (walk->make) {
        *count = walk_below(walk, (max < walk->items_max ? max : walk->items_max) + 1);
    }
    walk_flatten(walk, count, sizeof(*count));
}

void *walk_array_of(struct walk *walk, const void *have, size_t count, size_t len)
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
void walk_text(struct walk *walk, const char **value, size_t len_max)
{
    static const char *const letters[] = {"a", "Z", "9", ":", "/", " ", "\xc3\xa9", "\xe2\x82\xac"};

    if (walk->make) {
        size_t len = walk->short_texts          ? walk_below(walk, 16)
                     : walk_below(walk, 4) == 0 ? len_max
                                                : walk_below(walk, len_max / 8 + 1),
               at = 0;
        char *made = mc_arena_alloc(walk->arena, len + 1);

        assert_non_null(made);
        while (at < len) {
            const char *letter = letters[walk_below(walk, MC_ARRAY_LEN(letters))];
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
    walk_flatten(walk, *value, strlen(*value) + 1);
}

/* Keys as clients send them, bad ones among them: those must come through as they are. */
void walk_key(struct walk *walk, struct mc_key *value)
{
    if (walk->make) {
        uint64_t pick = walk->short_texts ? 2 : walk_below(walk, 16);
        size_t len = pick == 0   ? 0
                     : pick == 1 ? MC_KEY_LEN_MAX + 1
                                 : 1 + walk_below(walk, walk->short_texts ? 8 : 120),
               i;
        char *bytes = mc_arena_alloc(walk->arena, len);

        assert_non_null(bytes);
        for (i = 0; i < len; i++) {
            bytes[i] = (char)walk_below(walk, 256);
        }
        *value = (struct mc_key){.bytes = bytes, .len = (uint32_t)len};
    }
    walk_flatten(walk, &value->len, sizeof(value->len));
    walk_flatten(walk, value->bytes, value->len);
}

void walk_error_number(struct walk *walk, mooncake_err *value)
{
#define NUMBER(name, number, radius, sentence) MOONCAKE_##name,
    static const mooncake_err all[] = {MOONCAKE_ERR_LIST(NUMBER)};
#undef NUMBER

    if (walk->make) {
        *value = all[walk_below(walk, MC_ARRAY_LEN(all))];
    }
    walk_flatten(walk, value, sizeof(*value));
}

/* ---- arrays ---------------------------------------------------------------------------------- */

void walk_keys_of(struct walk *walk, const struct mc_key **keys, size_t *count)
{
    struct mc_key *array;
    size_t i;

    walk_count_of(walk, count, MC_BATCH_KEYS_MAX);
    array = walk_array_of(walk, *keys, *count, sizeof(*array));
    for (i = 0; i < *count; i++) {
        walk_key(walk, &array[i]);
    }
    *keys = array;
}

void walk_numbers_of(struct walk *walk, const uint64_t **numbers, size_t count)
{
    uint64_t *array = walk_array_of(walk, *numbers, count, sizeof(*array));
    size_t i;

    for (i = 0; i < count; i++) {
        walk_u64(walk, &array[i]);
    }
    *numbers = array;
}

void walk_statuses_of(struct walk *walk, mooncake_err **statuses, size_t count)
{
    size_t i;

    *statuses = walk_array_of(walk, *statuses, count, sizeof(**statuses));
    for (i = 0; i < count; i++) {
        walk_error_number(walk, &(*statuses)[i]);
    }
}

/* ---- the object table ------------------------------------------------------------------------ */

static void make_replica(struct walk *walk, const struct mc_object_table *table,
                         const struct mc_object_info *object, uint32_t rights,
                         struct mc_replica_info *replica)
{
    uint32_t count = 1 + (uint32_t)walk_below(walk, walk_below(walk, 4) == 0 ? MC_EXTENTS_MAX : 2),
             i;
    uint64_t left = object->value_len;

    replica->extents_count = count;
    replica->extents = walk_array_of(walk, NULL, count, sizeof(*replica->extents));
    replica->segment = walk_array_of(walk, NULL, count, sizeof(*replica->segment));
    for (i = 0; i < count; i++) {
        uint64_t len = i + 1 == count || left == 0 ? left : walk_below(walk, left);

        replica->segment[i] = (uint32_t)walk_below(walk, table->segments_count);
        replica->extents[i] = (struct mc_extent_ref){
            .mount_id = table->segments[replica->segment[i]].mount_id,
            .offset = walk_random(&walk->seed) >> (8 + walk_below(walk, 56)),
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
        table->segments_count == 0 ? 0 : (uint32_t)walk_below(walk, MC_REPLICAS_MAX + 1);
    object->replicas = walk_array_of(walk, NULL, object->replicas_count, sizeof(*object->replicas));
    for (i = 0; i < object->replicas_count; i++) {
        make_replica(walk, table, object, rights, &object->replicas[i]);
    }
}

static void flatten_object(struct walk *walk, const struct mc_object_info *object)
{
    uint32_t i, j;

    walk_flatten(walk, &object->id, sizeof(object->id));
    walk_flatten(walk, &object->value_len, sizeof(object->value_len));
    walk_flatten(walk, &object->replicas_count, sizeof(object->replicas_count));
    for (i = 0; i < object->replicas_count; i++) {
        const struct mc_replica_info *replica = &object->replicas[i];

        walk_flatten(walk, &replica->extents_count, sizeof(replica->extents_count));
        for (j = 0; j < replica->extents_count; j++) {
            const struct mc_extent_ref *extent = &replica->extents[j];
            const uint64_t numbers[] = {
                replica->segment[j],  extent->mount_id,    extent->offset,
                extent->payload_len,  extent->capability,  extent->object_id.hi,
                extent->object_id.lo, extent->slice_index, extent->slice_count,
                extent->rights,
            };

            walk_flatten(walk, numbers, sizeof(numbers));
        }
    }
}

static void segments_of(struct walk *walk, struct mc_object_table *table)
{
    uint32_t i;

    if (walk->make) {
        table->segments_count = (uint32_t)walk_below(walk, walk->items_max + 1);
    }
    walk_flatten(walk, &table->segments_count, sizeof(table->segments_count));
    table->segments =
        walk_array_of(walk, table->segments, table->segments_count, sizeof(*table->segments));
    for (i = 0; i < table->segments_count; i++) {
        walk_u64(walk, &table->segments[i].mount_id);
        walk_text(walk, &table->segments[i].name, MC_SEGMENT_NAME_LEN_MAX);
        walk_text(walk, &table->segments[i].addresses, MC_ADDRESSES_LEN_MAX);
        walk_text(walk, &table->segments[i].host, MC_ADDR_LEN_MAX);
    }
}

void walk_table_of(struct walk *walk, struct mc_object_table *table, uint32_t rights,
                   size_t objects_min, size_t objects_max)
{
    size_t i;

    segments_of(walk, table);
    walk_count_of(walk, &table->count, objects_max);
    if (walk->make && table->count < objects_min) {
        table->count = objects_min;
        walk->flat->end -= sizeof(table->count);
        walk_flatten(walk, &table->count, sizeof(table->count));
    }
    table->objects = walk_array_of(walk, table->objects, table->count, sizeof(*table->objects));
    for (i = 0; i < table->count; i++) {
        if (walk->make) {
            make_object(walk, table, rights, &table->objects[i]);
        }
        flatten_object(walk, &table->objects[i]);
    }
}

static void make_bytes(struct walk *walk, enum mc_method method, bool reply, struct mc_buf *out)
{
    const struct mc_method_codec *codec = mc_method_codec(method);
    size_t len = reply ? codec->reply_len : codec->request_len;
    struct mc_arena arena;
    struct mc_buf flat;
    void *message;

    mc_arena_init(&arena, 0);
    mc_buf_init(&flat);
    walk->make = true;
    walk->arena = &arena;
    walk->flat = &flat;
    message = mc_arena_array(&arena, 1, len);
    assert_non_null(message);
    memset(message, 0, len);
    if (reply) {
        walk_reply(walk, method, message);
        assert_int_equal(codec->encode_reply(message, out), MOONCAKE_OK);
    } else {
        walk_request(walk, method, message);
        assert_int_equal(codec->encode_request(message, out), MOONCAKE_OK);
    }
    mc_buf_fini(&flat);
    mc_arena_fini(&arena);
}

void walk_make_bytes(enum mc_method method, bool reply, uint64_t seed, size_t items_max,
                     struct mc_buf *out)
{
    struct walk walk = {.seed = seed, .items_max = items_max};

    make_bytes(&walk, method, reply, out);
}

void walk_make_small(enum mc_method method, bool reply, uint64_t seed, struct mc_buf *out)
{
    struct walk walk = {.seed = seed, .items_max = 3, .short_texts = true};

    make_bytes(&walk, method, reply, out);
}
