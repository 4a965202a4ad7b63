/* How long the hot messages take to encode and decode: nanoseconds a message, best of several
 * rounds. Not a test: run it by hand, with perf if a figure surprises. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "wire/methods.h"

#define KEYS 512u
#define ITEMS 128u
#define KEY_LEN 96u
#define ROUNDS 7u
#define TURNS 2000u

static void must(mooncake_err err, const char *what)
{
    if (err != MOONCAKE_OK) {
        (void)fprintf(stderr, "%s: %s %s\n", what, mooncake_err_name(err), mooncake_last_error());
        exit(1);
    }
}

enum direction {
    REQUEST,
    REPLY,
};

static void measure(enum mc_method method, enum direction direction, const void *message,
                    const char *what)
{
    const struct mc_method_codec *codec = mc_method_codec(method);
    uint64_t encode_best = UINT64_MAX, decode_best = UINT64_MAX;
    _Alignas(16) char decoded[512];
    struct mc_arena arena;
    struct mc_buf body;
    unsigned round, turn;

    mc_arena_init(&arena, 0);
    mc_buf_init(&body);
    for (round = 0; round < ROUNDS; round++) {
        uint64_t start = mc_monotonic_ns(), middle, end;

        for (turn = 0; turn < TURNS; turn++) {
            mc_buf_clear(&body, SIZE_MAX);
            must(direction == REPLY ? codec->encode_reply(message, &body)
                                    : codec->encode_request(message, &body),
                 what);
        }
        middle = mc_monotonic_ns();
        for (turn = 0; turn < TURNS; turn++) {
            mc_arena_reset(&arena);
            must(direction == REPLY
                     ? codec->decode_reply(mc_buf_bytes(&body), mc_buf_len(&body), &arena, decoded)
                     : codec->decode_request(mc_buf_bytes(&body), mc_buf_len(&body), &arena,
                                             decoded),
                 what);
        }
        end = mc_monotonic_ns();
        encode_best = middle - start < encode_best ? middle - start : encode_best;
        decode_best = end - middle < decode_best ? end - middle : decode_best;
    }
    printf("%-24s body_len=%6zu encode_us=%6.2f decode_us=%6.2f\n", what, mc_buf_len(&body),
           (double)encode_best / TURNS / 1e3, (double)decode_best / TURNS / 1e3);
    mc_buf_fini(&body);
    mc_arena_fini(&arena);
}

int main(void)
{
    static char bytes[KEYS][KEY_LEN + 1];
    static struct mc_key keys[KEYS];
    static mooncake_err statuses[KEYS];
    static struct mc_object_info objects[ITEMS];
    static struct mc_replica_info replicas[ITEMS];
    static struct mc_extent_ref extents[ITEMS];
    static uint32_t segment[ITEMS];
    struct mc_segment_info segments[4];
    const struct mc_keys_request request = {.client_id = 1, .keys = keys, .count = KEYS};
    const struct mc_exist_reply exist = {.statuses = statuses, .count = KEYS, .lease_ms = 10000};
    const struct mc_query_reply query = {
        .statuses = statuses,
        .table = {.segments = segments, .segments_count = 4, .objects = objects, .count = ITEMS}};
    size_t i;

    for (i = 0; i < KEYS; i++) {
        (void)snprintf(bytes[i], sizeof(bytes[i]), "%0*zu", (int)KEY_LEN, i * 2654435761u);
        keys[i] = (struct mc_key){.bytes = bytes[i], .len = KEY_LEN};
        statuses[i] = i % 2 == 0 ? MOONCAKE_OK : MOONCAKE_ENOENT;
    }
    for (i = 0; i < 4; i++) {
        segments[i] = (struct mc_segment_info){.mount_id = i * 77 + 1,
                                               .name = "host-7:18515",
                                               .addresses = "tcp://10.0.0.7:18515",
                                               .host = "host-7"};
    }
    for (i = 0; i < ITEMS; i++) {
        segment[i] = (uint32_t)i % 4;
        extents[i] = (struct mc_extent_ref){
            .offset = i * 1310784, .payload_len = 1310720, .capability = i * 0x9e3779b97f4a7c15u};
        replicas[i] = (struct mc_replica_info){
            .extents = &extents[i], .segment = &segment[i], .extents_count = 1};
        objects[i] = (struct mc_object_info){.id = {.hi = 1, .lo = i},
                                             .value_len = 1310720,
                                             .replicas = &replicas[i],
                                             .replicas_count = 1};
    }
    measure(MC_METHOD_EXIST, REQUEST, &request, "exist request 512");
    measure(MC_METHOD_EXIST, REPLY, &exist, "exist reply 512");
    measure(MC_METHOD_QUERY, REPLY, &query, "query reply 128");
    return 0;
}
