/* Laws that every codec obeys: round trips, truncation, damage, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "wire/walk.h"

#define SEEDS 60u
#define ITEMS_MAX 6u

/* Bytes of arena that decoding a body of @p len bytes may take: its first chunk, and growth that
 * at most doubles what is needed. */
#define ARENA_LEN_MAX(len) (((size_t)256 << 10) + 32 * (len))

static const enum mc_method methods[] = {
#define NUMBER(number, NAME, name, request, reply) MC_METHOD_##NAME,
    MC_METHOD_LIST(NUMBER)
#undef NUMBER
};

/* One codec, one direction. */
struct side {
    enum mc_method method;
    bool reply;
    const struct mc_method_codec *codec;
};

static struct side side_of(size_t index)
{
    enum mc_method method = methods[index / 2];

    return (struct side){
        .method = method, .reply = index % 2 == 1, .codec = mc_method_codec(method)};
}

#define SIDES (2 * MC_ARRAY_LEN(methods))

static size_t message_len(const struct side *side)
{
    return side->reply ? side->codec->reply_len : side->codec->request_len;
}

static mooncake_err encode(const struct side *side, const void *message, struct mc_buf *out)
{
    return side->reply ? side->codec->encode_reply(message, out)
                       : side->codec->encode_request(message, out);
}

static mooncake_err decode(const struct side *side, const uint8_t *body, size_t len,
                           struct mc_arena *arena, void *message)
{
    return side->reply ? side->codec->decode_reply(body, len, arena, message)
                       : side->codec->decode_request(body, len, arena, message);
}

static void walk_message(struct walk *walk, const struct side *side, void *message)
{
    if (side->reply) {
        walk_reply(walk, side->method, message);
    } else {
        walk_request(walk, side->method, message);
    }
}

/* Decode a copy of exactly @p len bytes, so that a sanitizer sees one byte too many being read,
 * into an arena of its own; what decodes must encode again. */
static mooncake_err decode_alone(const struct side *side, const uint8_t *body, size_t len)
{
    uint8_t *copy = mc_malloc(len);
    void *message = mc_calloc(1, message_len(side));
    struct mc_arena arena;
    struct mc_buf again;
    mooncake_err err;

    assert_non_null(copy);
    assert_non_null(message);
    if (len > 0) {
        memcpy(copy, body, len);
    }
    mc_arena_init(&arena, ARENA_LEN_MAX(len));
    mc_buf_init(&again);
    err = decode(side, copy, len, &arena, message);
    mc_free(copy); /* what was decoded must not point into the body */
    if (err == MOONCAKE_OK) {
        assert_int_equal(encode(side, message, &again), MOONCAKE_OK);
    }
    mc_buf_fini(&again);
    mc_arena_fini(&arena);
    mc_free(message);
    return err;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void codec__every_method_of_the_list_has_its_codec(void **state)
{
    unsigned number, found = 0;

    (void)state;
#define CHECK(number_, NAME, name_, request, reply)                                                \
    assert_string_equal(mc_method_codec(number_)->name, #name_);                                   \
    assert_string_equal(mc_method_name(number_), #name_);                                          \
    assert_int_equal(mc_method_codec(number_)->method, number_);                                   \
    assert_int_equal(mc_method_codec(number_)->request_len, sizeof(struct request));               \
    assert_int_equal(mc_method_codec(number_)->reply_len, sizeof(struct reply));
    MC_METHOD_LIST(CHECK)
#undef CHECK
    for (number = 0; number < 70000; number++) {
        found += mc_method_codec(number) != NULL;
    }
    assert_int_equal(found, MC_ARRAY_LEN(methods));
    assert_string_equal(mc_method_name(2), "unknown");
}

static bool same_bytes(const struct mc_buf *a, const struct mc_buf *b)
{
    size_t len = mc_buf_len(a);

    return mc_buf_len(b) == len && (len == 0 || memcmp(mc_buf_bytes(a), mc_buf_bytes(b), len) == 0);
}

static void round_trip(const struct side *side, uint64_t seed)
{
    struct mc_arena made_arena, read_arena;
    struct mc_buf made_flat, read_flat, bytes;
    struct walk make = {.make = true,
                        .seed = seed,
                        .items_max = ITEMS_MAX,
                        .arena = &made_arena,
                        .flat = &made_flat};
    struct walk look = {.arena = &read_arena, .flat = &read_flat};
    void *made = mc_calloc(1, message_len(side)), *read = mc_calloc(1, message_len(side));

    assert_true(made != NULL && read != NULL);
    mc_arena_init(&made_arena, 0);
    mc_buf_init(&made_flat);
    mc_buf_init(&read_flat);
    mc_buf_init(&bytes);
    walk_message(&make, side, made);
    assert_int_equal(encode(side, made, &bytes), MOONCAKE_OK);
    mc_arena_init(&read_arena, ARENA_LEN_MAX(mc_buf_len(&bytes)));
    assert_int_equal(decode(side, mc_buf_bytes(&bytes), mc_buf_len(&bytes), &read_arena, read),
                     MOONCAKE_OK);
    mc_buf_fini(&bytes); /* nothing may point there */
    walk_message(&look, side, read);
    if (!same_bytes(&made_flat, &read_flat)) {
        fail_msg("%s %s with seed %llu is not what it was", side->codec->name,
                 side->reply ? "reply" : "request", (unsigned long long)seed);
    }
    mc_buf_fini(&read_flat);
    mc_buf_fini(&made_flat);
    mc_arena_fini(&read_arena);
    mc_arena_fini(&made_arena);
    mc_free(read);
    mc_free(made);
}

static void codec__what_is_decoded_is_what_was_encoded(void **state)
{
    int64_t live = mc_mem_live_count();
    size_t i;
    uint64_t seed;

    (void)state;
    for (i = 0; i < SIDES; i++) {
        struct side side = side_of(i);

        for (seed = 1; seed <= SEEDS; seed++) {
            round_trip(&side, seed * 1000 + i);
        }
    }
    assert_int_equal(mc_mem_live_count(), live);
}

static void codec__encoding_appends_to_what_is_there(void **state)
{
    const struct mc_key key = {.bytes = "k", .len = 1};
    const struct mc_keys_request request = {.keys = &key, .count = 1};
    struct mc_buf out;

    (void)state;
    mc_buf_init(&out);
    assert_int_equal(mc_buf_append(&out, "head", 4), MOONCAKE_OK);
    assert_int_equal(mc_method_codec(MC_METHOD_EXIST)->encode_request(&request, &out), MOONCAKE_OK);
    assert_true(mc_buf_len(&out) > 4);
    assert_memory_equal(mc_buf_bytes(&out), "head", 4);
    mc_buf_fini(&out);
}

static void codec__a_message_cut_at_any_byte_is_refused_or_still_lawful(void **state)
{
    size_t i, len, refused = 0;

    (void)state;
    for (i = 0; i < SIDES; i++) {
        struct side side = side_of(i);
        struct mc_buf bytes;

        mc_buf_init(&bytes);
        walk_make_bytes(side.method, side.reply, 77 + i, 3, &bytes);
        for (len = 0; len < mc_buf_len(&bytes); len++) {
            mooncake_err err = decode_alone(&side, mc_buf_bytes(&bytes), len);

            assert_true(err == MOONCAKE_OK || err == MOONCAKE_EINVAL);
            refused += err == MOONCAKE_EINVAL;
        }
        assert_int_equal(decode_alone(&side, mc_buf_bytes(&bytes), len), MOONCAKE_OK);
        mc_buf_fini(&bytes);
    }
    assert_true(refused > 1000);
}

static void codec__damaged_bytes_are_refused_or_still_lawful(void **state)
{
    uint64_t seed = 5;
    size_t i, round;

    (void)state;
    for (i = 0; i < SIDES; i++) {
        struct side side = side_of(i);
        struct mc_buf bytes;

        mc_buf_init(&bytes);
        walk_make_bytes(side.method, side.reply, 99 + i, 3, &bytes);
        for (round = 0; round < 300 && mc_buf_len(&bytes) > 0; round++) {
            uint8_t *at = mc_buf_bytes(&bytes) + walk_random(&seed) % mc_buf_len(&bytes);
            uint8_t before = *at;
            mooncake_err err;

            *at = (uint8_t)walk_random(&seed);
            err = decode_alone(&side, mc_buf_bytes(&bytes), mc_buf_len(&bytes));
            assert_true(err == MOONCAKE_OK || err == MOONCAKE_EINVAL);
            *at = before;
        }
        mc_buf_fini(&bytes);
    }
}

static void codec__decoding_without_memory_ends_in_enomem_and_leaks_nothing(void **state)
{
    int64_t live = mc_mem_live_count();
    size_t i;

    (void)state;
    for (i = 0; i < SIDES; i++) {
        struct side side = side_of(i);
        void *message = mc_calloc(1, message_len(&side));
        mooncake_err err = MOONCAKE_ENOMEM;
        struct mc_buf bytes;
        int64_t n;

        mc_buf_init(&bytes);
        walk_make_bytes(side.method, side.reply, 3 + i, 400, &bytes); /* several chunks of arena */
        for (n = 0; err != MOONCAKE_OK; n++) {
            struct mc_arena arena;

            assert_int_equal(err, MOONCAKE_ENOMEM);
            mc_arena_init(&arena, 0);
            mc_mem_fail_after(n);
            err = decode(&side, mc_buf_bytes(&bytes), mc_buf_len(&bytes), &arena, message);
            mc_mem_fail_after(-1);
            mc_arena_fini(&arena);
        }
        mc_buf_fini(&bytes);
        mc_free(message);
    }
    assert_int_equal(mc_mem_live_count(), live);
}

static void codec__encoding_without_memory_ends_in_enomem_and_appends_nothing(void **state)
{
    int64_t live = mc_mem_live_count();
    size_t i;

    (void)state;
    for (i = 0; i < SIDES; i++) {
        struct side side = side_of(i);
        struct mc_arena arena;
        struct mc_buf flat;
        struct walk make = {
            .make = true, .seed = 8 + i, .items_max = 400, .arena = &arena, .flat = &flat};
        void *message = mc_calloc(1, message_len(&side));
        mooncake_err err = MOONCAKE_ENOMEM;
        int64_t n;

        mc_arena_init(&arena, 0);
        mc_buf_init(&flat);
        walk_message(&make, &side, message);
        for (n = 0; err != MOONCAKE_OK; n++) {
            struct mc_buf out;

            assert_int_equal(err, MOONCAKE_ENOMEM);
            mc_buf_init(&out);
            mc_mem_fail_after(n);
            err = encode(&side, message, &out);
            mc_mem_fail_after(-1);
            assert_true(err == MOONCAKE_OK || mc_buf_len(&out) == 0);
            mc_buf_fini(&out);
        }
        mc_buf_fini(&flat);
        mc_arena_fini(&arena);
        mc_free(message);
    }
    assert_int_equal(mc_mem_live_count(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codec__every_method_of_the_list_has_its_codec),
        cmocka_unit_test(codec__what_is_decoded_is_what_was_encoded),
        cmocka_unit_test(codec__encoding_appends_to_what_is_there),
        cmocka_unit_test(codec__a_message_cut_at_any_byte_is_refused_or_still_lawful),
        cmocka_unit_test(codec__damaged_bytes_are_refused_or_still_lawful),
        cmocka_unit_test(codec__decoding_without_memory_ends_in_enomem_and_leaks_nothing),
        cmocka_unit_test(codec__encoding_without_memory_ends_in_enomem_and_appends_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
