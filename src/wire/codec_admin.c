/* What operators ask: keys, status, one key, configuration. */
#include "base/err.h"
#include "wire/codec.h"

#define ROWS(rows_max) ((struct mc_codec_bounds){(rows_max), (rows_max)})

/* ---- requests without content ---------------------------------------------------------------- */

static mooncake_err decode_empty(const ProtobufCMessageDescriptor *type, const uint8_t *body,
                                 size_t len, void *message)
{
    struct mc_empty_request *request = message;

    request->unused = 0;
    return mc_codec_scan(type, body, len, MC_CODEC_NO_ARRAYS);
}

#define EMPTY_REQUEST(name)                                                                        \
    mooncake_err mc_##name##_encode_request(const void *message, struct mc_buf *out)               \
    {                                                                                              \
        (void)message;                                                                             \
        (void)out;                                                                                 \
        return MOONCAKE_OK;                                                                        \
    }                                                                                              \
    mooncake_err mc_##name##_decode_request(const uint8_t *body, size_t len,                       \
                                            struct mc_arena *arena, void *message)                 \
    {                                                                                              \
        (void)arena;                                                                               \
        return decode_empty(&mc__pb__##name##_request__descriptor, body, len, message);            \
    }

EMPTY_REQUEST(config)

/* ---- ListKeys -------------------------------------------------------------------------------- */

mooncake_err mc_list_keys_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_list_keys_request *request = message;
    Mc__Pb__ListKeysRequest pb;

    mc__pb__list_keys_request__init(&pb);
    MC_TRY(mc_codec_check_text("pattern", request->pattern, MC_PATTERN_LEN_MAX));
    pb.cursor = request->cursor;
    pb.keys_max = request->keys_max;
    pb.pattern = mc_codec_unconst(request->pattern);
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_list_keys_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                         void *message)
{
    struct mc_list_keys_request *request = message;
    const Mc__Pb__ListKeysRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__list_keys_request__descriptor, body, len, MC_CODEC_NO_ARRAYS,
                           arena, &pb));
    *request = (struct mc_list_keys_request){
        .cursor = pb->cursor, .keys_max = pb->keys_max, .pattern = pb->pattern};
    return mc_codec_check_text("pattern", request->pattern, MC_PATTERN_LEN_MAX);
}

mooncake_err mc_list_keys_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_list_keys_reply *reply = message;
    Mc__Pb__ListKeysReply pb = MC__PB__LIST_KEYS_REPLY__INIT;
    Mc__Pb__KeySet keys;
    struct mc_arena scratch;
    mooncake_err err;

    mc_arena_init(&scratch, 0);
    err = mc_codec_keys_fill(&scratch, reply->keys, reply->count, &keys);
    if (err == MOONCAKE_OK) {
        pb.keys = &keys;
        pb.cursor = reply->cursor;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_list_keys_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                       void *message)
{
    struct mc_list_keys_reply *reply = message;
    const Mc__Pb__ListKeysReply *pb;
    const struct mc_key *keys;

    MC_TRY(mc_codec_unpack(&mc__pb__list_keys_reply__descriptor, body, len, MC_CODEC_KEYS, arena,
                           &pb));
    MC_TRY(mc_codec_keys_read(pb->keys, arena, &keys, &reply->count));
    reply->keys = mc_codec_unconst(keys); /* the arena's, just made */
    reply->cursor = pb->cursor;
    return MOONCAKE_OK;
}

/* ---- PoolStatus ------------------------------------------------------------------------------ */

/* The numbers have the same names on both sides. */
#define POOL_NUMBERS(X)                                                                            \
    X(capacity)                                                                                    \
    X(used)                                                                                        \
    X(keys)                                                                                        \
    X(unfinished_puts)                                                                             \
    X(segments)                                                                                    \
    X(stores)                                                                                      \
    X(clients)                                                                                     \
    X(hits)                                                                                        \
    X(misses)                                                                                      \
    X(evicted_keys)                                                                                \
    X(evicted_bytes)                                                                               \
    X(put_rejected)                                                                                \
    X(puts)                                                                                        \
    X(gets)                                                                                        \
    X(removed)                                                                                     \
    X(busy_span_ms)                                                                                \
    X(io_threads)                                                                                  \
    X(core_busy_permille)                                                                          \
    X(io_busy_permille)                                                                            \
    X(removed_now)                                                                                 \
    X(uptime_ms)                                                                                   \
    X(master_epoch)

mooncake_err mc_pool_status_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_pool_status_request *request = message;
    Mc__Pb__PoolStatusRequest pb = MC__PB__POOL_STATUS_REQUEST__INIT;

    pb.removals_of = request->removals_of;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_pool_status_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                           void *message)
{
    struct mc_pool_status_request *request = message;
    const Mc__Pb__PoolStatusRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__pool_status_request__descriptor, body, len, MC_CODEC_NO_ARRAYS,
                           arena, &pb));
    request->removals_of = pb->removals_of;
    return MOONCAKE_OK;
}

mooncake_err mc_pool_status_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_pool_status_reply *reply = message;
    Mc__Pb__PoolStatusReply pb;

    mc__pb__pool_status_reply__init(&pb);
    MC_TRY(mc_codec_check_text("program", reply->program, MC_PROGRAM_LEN_MAX));
#define TO_PB(name) pb.name = reply->name;
    POOL_NUMBERS(TO_PB)
#undef TO_PB
    pb.program = mc_codec_unconst(reply->program);
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_pool_status_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                         void *message)
{
    struct mc_pool_status_reply *reply = message;
    const Mc__Pb__PoolStatusReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__pool_status_reply__descriptor, body, len, MC_CODEC_NO_ARRAYS,
                           arena, &pb));
#define FROM_PB(name) reply->name = pb->name;
    POOL_NUMBERS(FROM_PB)
#undef FROM_PB
    reply->program = pb->program;
    return mc_codec_check_text("program", reply->program, MC_PROGRAM_LEN_MAX);
}

/* ---- DescribeKey ----------------------------------------------------------------------------- */

mooncake_err mc_describe_key_encode_request(const void *message, struct mc_buf *out)
{
    const struct mc_keys_request *request = message;
    Mc__Pb__DescribeKeyRequest pb = MC__PB__DESCRIBE_KEY_REQUEST__INIT;
    Mc__Pb__KeySet keys;
    struct mc_arena scratch;
    mooncake_err err;

    MC_TRY(mc_codec_check_same("key", request->count, 1));
    mc_arena_init(&scratch, 0);
    err = mc_codec_keys_fill(&scratch, request->keys, request->count, &keys);
    if (err == MOONCAKE_OK) {
        pb.key = &keys;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_describe_key_decode_request(const uint8_t *body, size_t len, struct mc_arena *arena,
                                            void *message)
{
    struct mc_keys_request *request = message;
    const Mc__Pb__DescribeKeyRequest *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__describe_key_request__descriptor, body, len, MC_CODEC_KEYS,
                           arena, &pb));
    *request = (struct mc_keys_request){.client_id = 0};
    MC_TRY(mc_codec_keys_read(pb->key, arena, &request->keys, &request->count));
    return mc_codec_check_same("key", request->count, 1);
}

mooncake_err mc_describe_key_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_describe_key_reply *reply = message;
    Mc__Pb__DescribeKeyReply pb = MC__PB__DESCRIBE_KEY_REPLY__INIT;
    Mc__Pb__ObjectTable table;
    struct mc_arena scratch;
    mooncake_err err;

    MC_TRY(mc_codec_check_same("object", reply->table.count, 1));
    mc_arena_init(&scratch, 0);
    err = mc_codec_table_fill(&scratch, &reply->table, &table);
    if (err == MOONCAKE_OK) {
        pb.state = reply->state;
        pb.lease_left_ms = reply->lease_left_ms;
        pb.pin = reply->pin;
        pb.soft_pin_left_ms = reply->soft_pin_left_ms;
        pb.age_ms = reply->age_ms;
        pb.owner_client_id = reply->owner_client_id;
        pb.object = &table;
        err = mc_codec_pack(&pb.base, out);
    }
    mc_arena_fini(&scratch);
    return err;
}

mooncake_err mc_describe_key_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                          void *message)
{
    struct mc_describe_key_reply *reply = message;
    const Mc__Pb__DescribeKeyReply *pb;

    MC_TRY(mc_codec_unpack(&mc__pb__describe_key_reply__descriptor, body, len, MC_CODEC_TABLE,
                           arena, &pb));
    *reply = (struct mc_describe_key_reply){.state = pb->state,
                                            .pin = pb->pin,
                                            .lease_left_ms = pb->lease_left_ms,
                                            .soft_pin_left_ms = pb->soft_pin_left_ms,
                                            .age_ms = pb->age_ms,
                                            .owner_client_id = pb->owner_client_id};
    MC_TRY(mc_codec_table_read(pb->object, 0, arena, &reply->table));
    return mc_codec_check_same("object", reply->table.count, 1);
}

/* ---- Config ---------------------------------------------------------------------------------- */

static mooncake_err check_config(const struct mc_config_item *item)
{
    const struct mc_codec_text texts[] = {
        {"name", item->name, MC_CONFIG_TEXT_LEN_MAX},
        {"value", item->value, MC_CONFIG_TEXT_LEN_MAX},
        {"source", item->source, MC_CONFIG_TEXT_LEN_MAX},
        {"help", item->help, MC_CONFIG_TEXT_LEN_MAX},
        {"default_value", item->default_value, MC_CONFIG_TEXT_LEN_MAX},
        {"unit", item->unit, MC_CONFIG_TEXT_LEN_MAX},
    };

    return mc_codec_check_texts(texts, MC_ARRAY_LEN(texts));
}

mooncake_err mc_config_encode_reply(const void *message, struct mc_buf *out)
{
    const struct mc_config_reply *reply = message;
    Mc__Pb__ConfigReply pb = MC__PB__CONFIG_REPLY__INIT;
    char *texts[6][MC_CONFIG_ITEMS_MAX];
    size_t i;

    MC_TRY(mc_codec_check_count("name", reply->count, MC_CONFIG_ITEMS_MAX));
    for (i = 0; i < reply->count; i++) {
        MC_TRY(check_config(&reply->items[i]));
        texts[0][i] = mc_codec_text_element(reply->items[i].name);
        texts[1][i] = mc_codec_text_element(reply->items[i].value);
        texts[2][i] = mc_codec_text_element(reply->items[i].source);
        texts[3][i] = mc_codec_text_element(reply->items[i].help);
        texts[4][i] = mc_codec_text_element(reply->items[i].default_value);
        texts[5][i] = mc_codec_text_element(reply->items[i].unit);
    }
    pb.name = texts[0];
    pb.value = texts[1];
    pb.source = texts[2];
    pb.help = texts[3];
    pb.default_value = texts[4];
    pb.unit = texts[5];
    pb.n_name = pb.n_value = pb.n_source = pb.n_help = reply->count;
    pb.n_default_value = pb.n_unit = reply->count;
    return mc_codec_pack(&pb.base, out);
}

mooncake_err mc_config_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena,
                                    void *message)
{
    struct mc_config_reply *reply = message;
    const Mc__Pb__ConfigReply *pb;
    size_t i;

    MC_TRY(mc_codec_unpack(&mc__pb__config_reply__descriptor, body, len, ROWS(MC_CONFIG_ITEMS_MAX),
                           arena, &pb));
    MC_TRY(mc_codec_check_same("value", pb->n_value, pb->n_name));
    MC_TRY(mc_codec_check_same("source", pb->n_source, pb->n_name));
    MC_TRY(mc_codec_check_same("help", pb->n_help, pb->n_name));
    MC_TRY(mc_codec_check_same("default_value", pb->n_default_value,
                               pb->n_default_value == 0 ? 0 : pb->n_name));
    MC_TRY(mc_codec_check_same("unit", pb->n_unit, pb->n_unit == 0 ? 0 : pb->n_name));
    reply->count = pb->n_name;
    reply->items = mc_arena_array(arena, reply->count, sizeof(*reply->items));
    if (reply->items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (i = 0; i < reply->count; i++) {
        reply->items[i] = (struct mc_config_item){
            .name = pb->name[i],
            .value = pb->value[i],
            .source = pb->source[i],
            .help = pb->help[i],
            .default_value = pb->n_default_value == 0 ? "" : pb->default_value[i],
            .unit = pb->n_unit == 0 ? "" : pb->unit[i],
        };
        MC_TRY(check_config(&reply->items[i]));
    }
    return MOONCAKE_OK;
}
