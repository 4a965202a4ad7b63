/* Packing, unpacking into an arena, and the parts that many messages have: keys, statuses, texts.
 */
#include "wire/codec.h"

#include <string.h>

#include "base/err.h"

/* ---- protobuf-c on an arena ------------------------------------------------------------------ */

struct unpack_memory {
    struct mc_arena *arena;
    bool exhausted; /* so that a failed unpack can tell bad bytes from no memory */
};

static void *unpack_alloc(void *data, size_t len)
{
    struct unpack_memory *memory = data;
    void *ptr = mc_arena_alloc(memory->arena, len);

    memory->exhausted = memory->exhausted || ptr == NULL;
    return ptr;
}

static void unpack_free(void *data, void *ptr)
{
    (void)data; /* the arena goes as a whole */
    (void)ptr;
}

mooncake_err mc_codec_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *body,
                             size_t len, struct mc_codec_bounds bounds, struct mc_arena *arena,
                             void *out_message)
{
    struct unpack_memory memory = {.arena = arena};
    ProtobufCAllocator allocator = {unpack_alloc, unpack_free, &memory};
    static const uint8_t nothing[1];
    ProtobufCMessage *message;

    MC_TRY(mc_codec_scan(type, body, len, bounds));
    message = protobuf_c_message_unpack(type, &allocator, len, len == 0 ? nothing : body);
    if (message == NULL) {
        return memory.exhausted
                   ? MOONCAKE_ENOMEM
                   : mc_err_set(MOONCAKE_EINVAL, "message %s cannot be decoded", type->short_name);
    }
    memcpy(out_message, &message, sizeof(message));
    return MOONCAKE_OK;
}

mooncake_err mc_codec_pack(const ProtobufCMessage *message, struct mc_buf *out)
{
    size_t len = protobuf_c_message_get_packed_size(message);

    if (len > MC_RPC_BODY_LEN_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "message %s of %zu bytes is above the limit of %u",
                          message->descriptor->short_name, len, MC_RPC_BODY_LEN_MAX);
    }
    MC_TRY(mc_buf_reserve(out, len));
    if (len > 0) {
        size_t packed = protobuf_c_message_pack(message, out->data + out->end);

        MC_ASSERT(packed == len);
        out->end += len;
    }
    return MOONCAKE_OK;
}

/* ---- checks ---------------------------------------------------------------------------------- */

mooncake_err mc_codec_check_count(const char *field, size_t count, size_t count_max)
{
    if (count > count_max) {
        return mc_err_set(MOONCAKE_EINVAL, "%s: %zu elements, at most %zu are allowed", field,
                          count, count_max);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_codec_check_same(const char *field, size_t count, size_t wanted)
{
    if (count != wanted) {
        return mc_err_set(MOONCAKE_EINVAL, "%s: %zu elements where %zu belong", field, count,
                          wanted);
    }
    return MOONCAKE_OK;
}

/* Bytes of the UTF-8 sequence at @p at (NUL-terminated), or 0 if it is none or a control
 * character. Texts end up in log lines and JSON, which neither bears. */
static size_t utf8_len(const unsigned char *at)
{
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = *at < 0x80 ? 1 : *at >> 5 == 6 ? 2 : *at >> 4 == 14 ? 3 : *at >> 3 == 30 ? 4 : 0;
    uint32_t code;
    size_t i;

    if (len <= 1) {
        return len == 1 && *at >= 0x20 && *at != 0x7f ? 1 : 0;
    }
    code = *at & (0x7fu >> len);
    for (i = 1; i < len; i++) {
        if ((at[i] & 0xc0u) != 0x80) {
            return 0;
        }
        code = code << 6 | (at[i] & 0x3fu);
    }
    if (code < smallest[len] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        return 0;
    }
    return len;
}

mooncake_err mc_codec_check_text(const char *field, const char *text, size_t len_max)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t len = text == NULL ? 0 : strnlen(text, len_max + 1);

    if (len > len_max) {
        return mc_err_set(MOONCAKE_EINVAL, "%s: text is above the limit of %zu bytes", field,
                          len_max);
    }
    while (len > 0) {
        size_t step = utf8_len(at);

        if (step == 0) {
            return mc_err_set(MOONCAKE_EINVAL, "%s: text is not UTF-8 or has a control character",
                              field);
        }
        at += step;
        len -= step;
    }
    return MOONCAKE_OK;
}

mooncake_err mc_codec_check_texts(const struct mc_codec_text *texts, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        MC_TRY(mc_codec_check_text(texts[i].field, texts[i].text, texts[i].len_max));
    }
    return MOONCAKE_OK;
}

/* ---- keys ------------------------------------------------------------------------------------ */

mooncake_err mc_codec_keys_fill(struct mc_arena *scratch, const struct mc_key *keys, size_t count,
                                Mc__Pb__KeySet *pb)
{
    uint32_t *lens;
    uint8_t *bytes;
    size_t total = 0, i;

    MC_TRY(mc_codec_check_count("keys", count, MC_BATCH_KEYS_MAX));
    for (i = 0; i < count; i++) {
        total += keys[i].len; /* at most 8192 * 4 GiB: cannot wrap in 64 bits */
    }
    if (total > MC_RPC_BODY_LEN_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "keys: %zu bytes in all, at most %u fit a message",
                          total, MC_RPC_BODY_LEN_MAX);
    }
    lens = mc_arena_array(scratch, count, sizeof(*lens));
    bytes = mc_arena_alloc(scratch, total);
    if (lens == NULL || bytes == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc__pb__key_set__init(pb);
    pb->bytes = (ProtobufCBinaryData){.len = total, .data = bytes};
    pb->lens = lens;
    pb->n_lens = count;
    for (i = 0; i < count; i++) {
        lens[i] = keys[i].len;
        if (keys[i].len > 0) {
            memcpy(bytes, keys[i].bytes, keys[i].len);
            bytes += keys[i].len;
        }
    }
    return MOONCAKE_OK;
}

mooncake_err mc_codec_keys_read(const Mc__Pb__KeySet *pb, struct mc_arena *arena,
                                const struct mc_key **out_keys, size_t *out_count)
{
    size_t count = pb == NULL ? 0 : pb->n_lens;
    const char *bytes = pb == NULL || pb->bytes.data == NULL ? "" : (const char *)pb->bytes.data;
    size_t left = pb == NULL ? 0 : pb->bytes.len;
    struct mc_key *keys;
    size_t i;

    MC_TRY(mc_codec_check_count("keys", count, MC_BATCH_KEYS_MAX));
    keys = mc_arena_array(arena, count, sizeof(*keys));
    if (keys == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (i = 0; i < count; i++) {
        uint32_t len = pb->lens[i];

        if (len > left) {
            return mc_err_set(MOONCAKE_EINVAL, "keys: the lengths are more than the bytes");
        }
        keys[i] = (struct mc_key){.bytes = bytes, .len = len};
        bytes += len;
        left -= len;
    }
    if (left != 0) {
        return mc_err_set(MOONCAKE_EINVAL, "keys: %zu bytes belong to no key", left);
    }
    *out_keys = keys;
    *out_count = count;
    return MOONCAKE_OK;
}

/* ---- statuses -------------------------------------------------------------------------------- */

mooncake_err mc_codec_statuses_fill(struct mc_arena *scratch, const mooncake_err *statuses,
                                    size_t count, int32_t **out)
{
    int32_t *numbers = mc_arena_array(scratch, count, sizeof(*numbers));
    size_t i;

    if (numbers == NULL) {
        return MOONCAKE_ENOMEM;
    }
    MC_TRY(mc_codec_check_count("status", count, MC_BATCH_KEYS_MAX));
    for (i = 0; i < count; i++) {
        numbers[i] = (int32_t)statuses[i];
    }
    *out = numbers;
    return MOONCAKE_OK;
}

mooncake_err mc_codec_statuses_read(const int32_t *numbers, size_t count, struct mc_arena *arena,
                                    mooncake_err **out)
{
    mooncake_err *statuses = mc_arena_array(arena, count, sizeof(*statuses));
    size_t i;

    if (statuses == NULL) {
        return MOONCAKE_ENOMEM;
    }
    MC_TRY(mc_codec_check_count("status", count, MC_BATCH_KEYS_MAX));
    for (i = 0; i < count; i++) {
        statuses[i] = numbers[i] == 0 ? MOONCAKE_OK : mc_err_from_wire(numbers[i]);
    }
    *out = statuses;
    return MOONCAKE_OK;
}
