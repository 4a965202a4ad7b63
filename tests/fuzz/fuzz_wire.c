/*
 * Every decoder of the control messages. The first byte chooses method and direction, the rest is
 * the body. Laws: no crash, no memory beyond a multiple of the body; what decodes encodes again,
 * and what was encoded decodes to what encodes to the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/methods.h"

#include "law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* As the tests have it: the arena's first chunk, and growth that at most doubles what is needed. */
#define ARENA_LEN_MAX(len) (((size_t)256 << 10) + 32 * (len))

/* Room for any message struct, aligned for its members. */
union room {
    uint64_t align;
    char bytes[512];
};

static mooncake_err decode(const struct mc_method_codec *codec, bool reply, const uint8_t *body,
                           size_t len, struct mc_arena *arena, union room *message)
{
    return reply ? codec->decode_reply(body, len, arena, message)
                 : codec->decode_request(body, len, arena, message);
}

static mooncake_err encode(const struct mc_method_codec *codec, bool reply,
                           const union room *message, struct mc_buf *out)
{
    return reply ? codec->encode_reply(message, out) : codec->encode_request(message, out);
}

static void check(const struct mc_method_codec *codec, bool reply, const uint8_t *body, size_t len)
{
    union room message = {0}, again = {0};
    struct mc_arena arena, arena_again;
    struct mc_buf once, twice;

    law(codec->request_len <= sizeof(message) && codec->reply_len <= sizeof(message));
    mc_arena_init(&arena, ARENA_LEN_MAX(len));
    mc_arena_init(&arena_again, 0);
    mc_buf_init(&once);
    mc_buf_init(&twice);
    if (decode(codec, reply, body, len, &arena, &message) == MOONCAKE_OK) {
        law(encode(codec, reply, &message, &once) == MOONCAKE_OK);
        law(decode(codec, reply, mc_buf_bytes(&once), mc_buf_len(&once), &arena_again, &again) ==
            MOONCAKE_OK);
        law(encode(codec, reply, &again, &twice) == MOONCAKE_OK);
        law(mc_buf_len(&once) == mc_buf_len(&twice));
        law(mc_buf_len(&once) == 0 ||
            memcmp(mc_buf_bytes(&once), mc_buf_bytes(&twice), mc_buf_len(&once)) == 0);
    }
    mc_buf_fini(&twice);
    mc_buf_fini(&once);
    mc_arena_fini(&arena_again);
    mc_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct mc_method_codec *codec;
    uint8_t *body;

    if (len == 0 || (codec = mc_method_codec(data[0] & 0x7fu)) == NULL) {
        return 0;
    }
    body = mc_malloc(len - 1); /* of exactly its length, so that a byte too many is seen */
    law(body != NULL);
    memcpy(body, data + 1, len - 1);
    check(codec, (data[0] & 0x80u) != 0, body, len - 1);
    mc_free(body);
    return 0;
}
