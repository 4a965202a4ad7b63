/*
 * Each limit and each length that must match another, violated once: the decoder refuses and names
 * the field. The messages are built with protobuf-c directly, as a sender that does not care would.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "control.pb-c.h"
#include "wire/methods.h"

/* protobuf-c's texts are not const; nobody writes through these. */
#define LIT(text) ((char *)(uintptr_t)(text))

#define REQUEST false
#define REPLY true

static mooncake_err decode(enum mc_method method, bool reply, const uint8_t *body, size_t len)
{
    const struct mc_method_codec *codec = mc_method_codec(method);
    void *message = mc_calloc(1, reply ? codec->reply_len : codec->request_len);
    struct mc_arena arena;
    mooncake_err err;

    assert_non_null(message);
    mc_arena_init(&arena, 0);
    mc_err_clear();
    err = reply ? codec->decode_reply(body, len, &arena, message)
                : codec->decode_request(body, len, &arena, message);
    mc_arena_fini(&arena);
    mc_free(message);
    return err;
}

static mooncake_err decode_pb(enum mc_method method, bool reply, const void *pb)
{
    size_t len = protobuf_c_message_get_packed_size(pb);
    uint8_t *body = mc_malloc(len);
    mooncake_err err;

    assert_non_null(body);
    assert_int_equal(protobuf_c_message_pack(pb, body), len);
    err = decode(method, reply, body, len);
    mc_free(body);
    return err;
}

static void expect_ok(enum mc_method method, bool reply, const void *pb)
{
    mooncake_err err = decode_pb(method, reply, pb);

    if (err != MOONCAKE_OK) {
        fail_msg("%s is refused: %s", mc_method_name(method), mooncake_last_error());
    }
}

/* Refused, and the sentence names @p field. */
static void expect_refused(enum mc_method method, bool reply, const void *pb, const char *field)
{
    assert_int_equal(decode_pb(method, reply, pb), MOONCAKE_EINVAL);
    if (strstr(mooncake_last_error(), field) == NULL) {
        fail_msg("the sentence does not name %s: %s", field, mooncake_last_error());
    }
}

/* Each of these arrays, one element short. @p counts are the offsets of its n_ fields. */
struct array_field {
    size_t count_offset;
    const char *name;
};

static void expect_each_short_array_refused(enum mc_method method, bool reply, void *pb,
                                            void *holder, const struct array_field *fields,
                                            size_t fields_count)
{
    size_t i;

    expect_ok(method, reply, pb);
    for (i = 0; i < fields_count; i++) {
        size_t *count = (size_t *)(void *)((char *)holder + fields[i].count_offset);

        assert_true(*count > 0);
        (*count)--;
        expect_refused(method, reply, pb, fields[i].name);
        (*count)++;
    }
}

#define ARRAY(type, field)                                                                         \
    {                                                                                              \
        offsetof(type, n_##field), #field                                                          \
    }

/* A text of @p len bytes, good until the next call. */
static char *long_text(size_t len)
{
    static char text[5000];

    assert_true(len < sizeof(text));
    memset(text, 'x', len);
    text[len] = '\0';
    return text;
}

/* A text field at every kind of bad content. */
static void expect_bad_texts_refused(enum mc_method method, bool reply, const void *pb, char **text,
                                     size_t len_max, const char *field)
{
    const char *const bad[] = {
        "line\nbreak", "\x7f", "\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"};
    char *before = *text;
    size_t i;

    *text = long_text(len_max);
    expect_ok(method, reply, pb);
    *text = long_text(len_max + 1);
    expect_refused(method, reply, pb, field);
    for (i = 0; i < MC_ARRAY_LEN(bad); i++) {
        *text = LIT(bad[i]);
        expect_refused(method, reply, pb, field);
    }
    *text = before;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static uint32_t many_lens[MC_BATCH_KEYS_MAX + 1];
static uint64_t many_numbers[MC_BATCH_KEYS_MAX + 1];
static int32_t many_statuses[MC_BATCH_KEYS_MAX + 1];

static Mc__Pb__KeySet key_set(char *bytes, size_t bytes_len, uint32_t *lens, size_t count)
{
    Mc__Pb__KeySet keys = MC__PB__KEY_SET__INIT;

    keys.bytes = (ProtobufCBinaryData){.len = bytes_len, .data = (uint8_t *)bytes};
    keys.lens = lens;
    keys.n_lens = count;
    return keys;
}

static void limits__key_lengths_must_add_up_to_the_bytes(void **state)
{
    char bytes[] = "abcdef";
    uint32_t lens[] = {2, 4, UINT32_MAX};
    Mc__Pb__KeySet keys = key_set(bytes, 6, lens, 2);
    Mc__Pb__ExistRequest pb = MC__PB__EXIST_REQUEST__INIT;

    (void)state;
    pb.keys = &keys;
    expect_ok(MC_METHOD_EXIST, REQUEST, &pb);
    lens[1] = 5;
    expect_refused(MC_METHOD_EXIST, REQUEST, &pb, "keys");
    lens[1] = 3;
    expect_refused(MC_METHOD_EXIST, REQUEST, &pb, "keys");
    lens[1] = 4;
    keys.n_lens = 3; /* would wrap a 32-bit sum back to a good one */
    expect_refused(MC_METHOD_EXIST, REQUEST, &pb, "keys");
    keys.n_lens = 0;
    expect_refused(MC_METHOD_EXIST, REQUEST, &pb, "keys");
    pb.keys = NULL; /* an empty batch is lawful */
    expect_ok(MC_METHOD_EXIST, REQUEST, &pb);
}

static void limits__more_keys_than_a_batch_may_have_are_refused(void **state)
{
    static const enum mc_method methods[] = {MC_METHOD_EXIST, MC_METHOD_QUERY, MC_METHOD_REMOVE};
    Mc__Pb__KeySet keys = key_set(NULL, 0, many_lens, MC_BATCH_KEYS_MAX);
    Mc__Pb__QueryRequest pb = MC__PB__QUERY_REQUEST__INIT; /* keys are field 2 in all of them */
    size_t i;

    (void)state;
    pb.keys = &keys;
    for (i = 0; i < MC_ARRAY_LEN(methods); i++) {
        keys.n_lens = MC_BATCH_KEYS_MAX;
        expect_ok(methods[i], REQUEST, &pb);
        keys.n_lens = MC_BATCH_KEYS_MAX + 1;
        expect_refused(methods[i], REQUEST, &pb, "lens");
    }
}

static void limits__bad_keys_come_through_for_their_item_to_be_refused(void **state)
{
    static char bytes[MC_KEY_LEN_MAX + 1 + 3 + 1];
    const struct mc_key sent[] = {
        {.bytes = bytes, .len = 0},
        {.bytes = bytes, .len = MC_KEY_LEN_MAX + 1},
        {.bytes = "a\0b", .len = 3},
        {.bytes = "k", .len = 1},
    };
    const struct mc_keys_request request = {.keys = sent, .count = MC_ARRAY_LEN(sent)};
    const struct mc_method_codec *codec = mc_method_codec(MC_METHOD_QUERY);
    struct mc_keys_request got;
    struct mc_arena arena;
    struct mc_buf body;
    size_t i;

    (void)state;
    memset(bytes, 'x', sizeof(bytes));
    mc_buf_init(&body);
    mc_arena_init(&arena, 0);
    assert_int_equal(codec->encode_request(&request, &body), MOONCAKE_OK);
    assert_int_equal(codec->decode_request(mc_buf_bytes(&body), mc_buf_len(&body), &arena, &got),
                     MOONCAKE_OK);
    assert_int_equal(got.count, MC_ARRAY_LEN(sent));
    for (i = 0; i < got.count; i++) {
        assert_int_equal(got.keys[i].len, sent[i].len);
        assert_memory_equal(got.keys[i].bytes, sent[i].bytes, sent[i].len);
        assert_int_equal(mc_key_is_valid(&got.keys[i]), i == 3);
    }
    mc_arena_fini(&arena);
    mc_buf_fini(&body);
}

static void limits__describe_key_takes_exactly_one_key(void **state)
{
    uint32_t lens[] = {1, 1};
    char bytes[] = "ab";
    Mc__Pb__KeySet keys = key_set(bytes, 1, lens, 1);
    Mc__Pb__DescribeKeyRequest pb = MC__PB__DESCRIBE_KEY_REQUEST__INIT;

    (void)state;
    expect_refused(MC_METHOD_DESCRIBE_KEY, REQUEST, &pb, "key");
    pb.key = &keys;
    expect_ok(MC_METHOD_DESCRIBE_KEY, REQUEST, &pb);
    keys = key_set(bytes, 2, lens, 2);
    expect_refused(MC_METHOD_DESCRIBE_KEY, REQUEST, &pb, "key");
}

/* ---- puts ------------------------------------------------------------------------------------ */

static void limits__put_start_checks_each_field(void **state)
{
    uint32_t lens[] = {1, 1};
    char bytes[] = "ab", *names[MC_PREFERRED_SEGMENTS_MAX + 1];
    uint64_t values[] = {1, 2, 3};
    Mc__Pb__KeySet keys = key_set(bytes, 2, lens, 2);
    Mc__Pb__PutStartRequest pb = MC__PB__PUT_START_REQUEST__INIT;
    uint64_t mounts[MC_EXCLUDED_MOUNTS_MAX + 1] = {0};
    size_t i;

    (void)state;
    for (i = 0; i < MC_ARRAY_LEN(names); i++) {
        names[i] = LIT("n");
    }
    pb.keys = &keys;
    pb.value_len = values;
    pb.n_value_len = 2;
    pb.replicas = 1;
    pb.preferred_segment = names;
    pb.n_preferred_segment = 1;
    expect_ok(MC_METHOD_PUT_START, REQUEST, &pb);
    pb.n_value_len = 1;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &pb, "value_len");
    pb.n_value_len = 3;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &pb, "value_len");
    pb.n_value_len = 2;
    pb.replicas = 0;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &pb, "replicas");
    pb.replicas = MC_REPLICAS_MAX;
    expect_ok(MC_METHOD_PUT_START, REQUEST, &pb);
    pb.replicas = MC_REPLICAS_MAX + 1;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &pb, "replicas");
    pb.replicas = 1;
    pb.flags = 2;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &pb, "flags");
    pb.flags = 1;
    expect_ok(MC_METHOD_PUT_START, REQUEST, &pb);
    pb.n_preferred_segment = MC_PREFERRED_SEGMENTS_MAX;
    expect_ok(MC_METHOD_PUT_START, REQUEST, &pb);
    pb.n_preferred_segment++;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &pb, "preferred_segment");
    pb.n_preferred_segment = 1;
    pb.excluded_mount = mounts;
    pb.n_excluded_mount = MC_EXCLUDED_MOUNTS_MAX;
    expect_ok(MC_METHOD_PUT_START, REQUEST, &pb);
    pb.n_excluded_mount++;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &pb, "excluded_mount");
    pb.n_excluded_mount = 0;
    expect_bad_texts_refused(MC_METHOD_PUT_START, REQUEST, &pb, names, MC_SEGMENT_NAME_LEN_MAX,
                             "preferred_segment");
}

static void limits__put_end_and_revoke_want_an_attempt_a_key(void **state)
{
    uint32_t lens[] = {1, 1}, failed[] = {0, 1};
    char bytes[] = "ab";
    uint64_t attempts[] = {1, 2};
    Mc__Pb__KeySet keys = key_set(bytes, 2, lens, 2);
    Mc__Pb__PutEndRequest end = MC__PB__PUT_END_REQUEST__INIT;
    Mc__Pb__PutRevokeRequest revoke = MC__PB__PUT_REVOKE_REQUEST__INIT;

    (void)state;
    end.keys = revoke.keys = &keys;
    end.attempt = revoke.attempt = attempts;
    end.n_attempt = revoke.n_attempt = 2;
    end.failed_replicas = failed;
    expect_ok(MC_METHOD_PUT_END, REQUEST, &end);
    expect_ok(MC_METHOD_PUT_REVOKE, REQUEST, &revoke);
    end.n_failed_replicas = 1;
    expect_refused(MC_METHOD_PUT_END, REQUEST, &end, "failed_replicas");
    end.n_failed_replicas = 2;
    end.n_attempt = revoke.n_attempt = 1;
    expect_refused(MC_METHOD_PUT_END, REQUEST, &end, "attempt");
    expect_refused(MC_METHOD_PUT_REVOKE, REQUEST, &revoke, "attempt");
}

static void limits__remove_all_with_a_stray_pattern_does_not_become_all(void **state)
{
    Mc__Pb__RemoveAllRequest pb = MC__PB__REMOVE_ALL_REQUEST__INIT;

    (void)state;
    expect_ok(MC_METHOD_REMOVE_ALL, REQUEST, &pb);
    pb.pattern = LIT("a.*");
    expect_refused(MC_METHOD_REMOVE_ALL, REQUEST, &pb, "pattern");
    pb.has_pattern = true;
    expect_bad_texts_refused(MC_METHOD_REMOVE_ALL, REQUEST, &pb, &pb.pattern, MC_PATTERN_LEN_MAX,
                             "pattern");
}

/* ---- members --------------------------------------------------------------------------------- */

static void limits__hello_bounds_the_program_name(void **state)
{
    Mc__Pb__Hello hello = MC__PB__HELLO__INIT;
    Mc__Pb__HelloReply reply = MC__PB__HELLO_REPLY__INIT;

    (void)state;
    expect_bad_texts_refused(MC_METHOD_HELLO, REQUEST, &hello, &hello.program, MC_PROGRAM_LEN_MAX,
                             "program");
    expect_bad_texts_refused(MC_METHOD_HELLO, REPLY, &reply, &reply.program, MC_PROGRAM_LEN_MAX,
                             "program");
}

static void limits__mount_wants_arrays_of_one_length(void **state)
{
    static const struct array_field fields[] = {
        ARRAY(Mc__Pb__MountRequest, segment_name), ARRAY(Mc__Pb__MountRequest, len),
        ARRAY(Mc__Pb__MountRequest, secret_0),     ARRAY(Mc__Pb__MountRequest, secret_1),
        ARRAY(Mc__Pb__MountRequest, addresses),
    };
    char *texts[MC_SEGMENTS_PER_STORE_MAX + 1], *addresses[MC_SEGMENTS_PER_STORE_MAX + 1];
    Mc__Pb__MountRequest pb = MC__PB__MOUNT_REQUEST__INIT;
    size_t i, *const counts[] = {&pb.n_segment_name, &pb.n_mount_id, &pb.n_len,
                                 &pb.n_secret_0,     &pb.n_secret_1, &pb.n_addresses};

    (void)state;
    for (i = 0; i < MC_ARRAY_LEN(texts); i++) {
        texts[i] = addresses[i] = LIT("t");
    }
    pb.segment_name = texts;
    pb.addresses = addresses;
    pb.mount_id = pb.len = pb.secret_0 = pb.secret_1 = many_numbers;
    for (i = 0; i < MC_ARRAY_LEN(counts); i++) {
        *counts[i] = MC_SEGMENTS_PER_STORE_MAX + 1;
    }
    expect_refused(MC_METHOD_MOUNT, REQUEST, &pb, "more than 64");
    for (i = 0; i < MC_ARRAY_LEN(counts); i++) {
        *counts[i] = MC_SEGMENTS_PER_STORE_MAX;
    }
    expect_each_short_array_refused(MC_METHOD_MOUNT, REQUEST, &pb, &pb, fields,
                                    MC_ARRAY_LEN(fields));
    pb.n_mount_id--;
    expect_refused(MC_METHOD_MOUNT, REQUEST, &pb, "64 elements where 63 belong");
    pb.n_mount_id++;
    expect_bad_texts_refused(MC_METHOD_MOUNT, REQUEST, &pb, &texts[3], MC_SEGMENT_NAME_LEN_MAX,
                             "segment_name");
    expect_bad_texts_refused(MC_METHOD_MOUNT, REQUEST, &pb, &addresses[3], MC_ADDRESSES_LEN_MAX,
                             "addresses");
    expect_bad_texts_refused(MC_METHOD_MOUNT, REQUEST, &pb, &pb.host, MC_ADDR_LEN_MAX, "host");
    expect_bad_texts_refused(MC_METHOD_MOUNT, REQUEST, &pb, &pb.program, MC_PROGRAM_LEN_MAX,
                             "program");
}

static void limits__unmount_and_ping_bound_what_they_name(void **state)
{
    Mc__Pb__UnmountRequest unmount = MC__PB__UNMOUNT_REQUEST__INIT;
    Mc__Pb__PingRequest ping = MC__PB__PING_REQUEST__INIT;
    Mc__Pb__PingReply pong = MC__PB__PING_REPLY__INIT;

    (void)state;
    unmount.mount_id = ping.mount_id = pong.unknown_mount_id = many_numbers;
    ping.role = MC_ROLE_TOOL;
    unmount.n_mount_id = ping.n_mount_id = pong.n_unknown_mount_id = MC_SEGMENTS_PER_STORE_MAX;
    expect_ok(MC_METHOD_UNMOUNT, REQUEST, &unmount);
    expect_ok(MC_METHOD_PING, REQUEST, &ping);
    expect_ok(MC_METHOD_PING, REPLY, &pong);
    unmount.n_mount_id++;
    ping.n_mount_id++;
    pong.n_unknown_mount_id++;
    expect_refused(MC_METHOD_UNMOUNT, REQUEST, &unmount, "mount_id");
    expect_refused(MC_METHOD_PING, REQUEST, &ping, "mount_id");
    expect_refused(MC_METHOD_PING, REPLY, &pong, "mount_id");
    ping.n_mount_id = 1;
    ping.role = 0;
    expect_refused(MC_METHOD_PING, REQUEST, &ping, "role");
    ping.role = MC_ROLE_TOOL + 1;
    expect_refused(MC_METHOD_PING, REQUEST, &ping, "role");
    ping.role = MC_ROLE_CLIENT;
    expect_bad_texts_refused(MC_METHOD_PING, REQUEST, &ping, &ping.host, MC_ADDR_LEN_MAX, "host");
    expect_bad_texts_refused(MC_METHOD_PING, REQUEST, &ping, &ping.program, MC_PROGRAM_LEN_MAX,
                             "program");
}

static void limits__report_wants_arrays_of_one_length(void **state)
{
    static const struct array_field fields[] = {
        ARRAY(Mc__Pb__ReportRequest, mount_id),
        ARRAY(Mc__Pb__ReportRequest, reason),
        ARRAY(Mc__Pb__ReportRequest, object_id_lo),
    };
    uint32_t lens[] = {0, 1};
    char bytes[] = "k";
    uint64_t numbers[] = {1, 2};
    int32_t reasons[] = {-900, 12345};
    Mc__Pb__KeySet keys = key_set(bytes, 1, lens, 2);
    Mc__Pb__ReportRequest pb = MC__PB__REPORT_REQUEST__INIT;

    (void)state;
    pb.keys = &keys;
    pb.mount_id = pb.object_id_lo = numbers;
    pb.reason = reasons;
    pb.n_mount_id = pb.n_object_id_lo = pb.n_reason = 2;
    expect_each_short_array_refused(MC_METHOD_REPORT, REQUEST, &pb, &pb, fields,
                                    MC_ARRAY_LEN(fields));
    keys.n_lens = 0;
    keys.bytes.len = 0;
    expect_refused(MC_METHOD_REPORT, REQUEST, &pb, "mount_id");
}

/* ---- answers to operators -------------------------------------------------------------------- */

static void limits__list_segments_wants_arrays_of_one_length(void **state)
{
    static const struct array_field fields[] = {
        ARRAY(Mc__Pb__ListSegmentsReply, segment_name),
        ARRAY(Mc__Pb__ListSegmentsReply, host),
        ARRAY(Mc__Pb__ListSegmentsReply, addresses),
        ARRAY(Mc__Pb__ListSegmentsReply, client_id),
        ARRAY(Mc__Pb__ListSegmentsReply, len),
        ARRAY(Mc__Pb__ListSegmentsReply, used),
        ARRAY(Mc__Pb__ListSegmentsReply, extents),
        ARRAY(Mc__Pb__ListSegmentsReply, state),
        ARRAY(Mc__Pb__ListSegmentsReply, largest_free_extent),
        ARRAY(Mc__Pb__ListSegmentsReply, evictable), /* absent as a whole would be lawful */
        ARRAY(Mc__Pb__ListSegmentsReply, reason),
        ARRAY(Mc__Pb__ListSegmentsReply, ping_age_ms),
    };
    char *names[] = {LIT("a"), LIT("b")}, *hosts[] = {LIT("a"), LIT("b")},
         *addresses[] = {LIT("a"), LIT("b")};
    uint32_t states[] = {1, 4};
    Mc__Pb__ListSegmentsReply pb = MC__PB__LIST_SEGMENTS_REPLY__INIT;

    (void)state;
    pb.segment_name = names;
    pb.host = hosts;
    pb.addresses = addresses;
    pb.mount_id = pb.client_id = pb.len = pb.used = many_numbers;
    pb.largest_free_extent = pb.extents = many_numbers;
    pb.state = states;
    pb.evictable = pb.ping_age_ms = many_numbers;
    pb.reason = many_lens;
    pb.n_evictable = pb.n_reason = pb.n_ping_age_ms = 2;
    pb.n_segment_name = pb.n_host = pb.n_addresses = pb.n_mount_id = pb.n_client_id = 2;
    pb.n_len = pb.n_used = pb.n_largest_free_extent = pb.n_extents = pb.n_state = 2;
    expect_each_short_array_refused(MC_METHOD_LIST_SEGMENTS, REPLY, &pb, &pb, fields,
                                    MC_ARRAY_LEN(fields));
    states[1] = 5;
    expect_refused(MC_METHOD_LIST_SEGMENTS, REPLY, &pb, "state");
    states[1] = 0;
    expect_refused(MC_METHOD_LIST_SEGMENTS, REPLY, &pb, "state");
    states[1] = 1;
    expect_bad_texts_refused(MC_METHOD_LIST_SEGMENTS, REPLY, &pb, &names[1],
                             MC_SEGMENT_NAME_LEN_MAX, "segment_name");
    expect_bad_texts_refused(MC_METHOD_LIST_SEGMENTS, REPLY, &pb, &hosts[1], MC_ADDR_LEN_MAX,
                             "host");
    expect_bad_texts_refused(MC_METHOD_LIST_SEGMENTS, REPLY, &pb, &addresses[1],
                             MC_ADDRESSES_LEN_MAX, "addresses");
}

static void limits__list_clients_wants_arrays_of_one_length(void **state)
{
    static const struct array_field fields[] = {
        ARRAY(Mc__Pb__ListClientsReply, role),        ARRAY(Mc__Pb__ListClientsReply, host),
        ARRAY(Mc__Pb__ListClientsReply, program),     ARRAY(Mc__Pb__ListClientsReply, segments),
        ARRAY(Mc__Pb__ListClientsReply, ping_age_ms),
    };
    char *hosts[] = {LIT("a"), LIT("b")}, *programs[] = {LIT("a"), LIT("b")};
    Mc__Pb__ListClientsReply pb = MC__PB__LIST_CLIENTS_REPLY__INIT;

    (void)state;
    pb.client_id = pb.ping_age_ms = many_numbers;
    pb.role = pb.segments = many_lens;
    pb.host = hosts;
    pb.program = programs;
    pb.n_client_id = pb.n_ping_age_ms = pb.n_role = pb.n_segments = pb.n_host = pb.n_program = 2;
    expect_each_short_array_refused(MC_METHOD_LIST_CLIENTS, REPLY, &pb, &pb, fields,
                                    MC_ARRAY_LEN(fields));
    expect_bad_texts_refused(MC_METHOD_LIST_CLIENTS, REPLY, &pb, &hosts[1], MC_ADDR_LEN_MAX,
                             "host");
    expect_bad_texts_refused(MC_METHOD_LIST_CLIENTS, REPLY, &pb, &programs[1], MC_PROGRAM_LEN_MAX,
                             "program");
}

static void limits__config_wants_arrays_of_one_length(void **state)
{
    static const struct array_field fields[] = {
        ARRAY(Mc__Pb__ConfigReply, value),
        ARRAY(Mc__Pb__ConfigReply, source),
        ARRAY(Mc__Pb__ConfigReply, help),
    };
    char *texts[MC_CONFIG_ITEMS_MAX + 1], *values[2] = {LIT("1"), LIT("2")};
    Mc__Pb__ConfigReply pb = MC__PB__CONFIG_REPLY__INIT;
    size_t i;

    (void)state;
    for (i = 0; i < MC_ARRAY_LEN(texts); i++) {
        texts[i] = LIT("t");
    }
    pb.name = pb.value = pb.source = pb.help = texts;
    pb.n_name = pb.n_value = pb.n_source = pb.n_help = MC_CONFIG_ITEMS_MAX;
    expect_each_short_array_refused(MC_METHOD_CONFIG, REPLY, &pb, &pb, fields,
                                    MC_ARRAY_LEN(fields));
    pb.n_name = pb.n_value = pb.n_source = pb.n_help = MC_CONFIG_ITEMS_MAX + 1;
    expect_refused(MC_METHOD_CONFIG, REPLY, &pb, "more than 256");
    pb.n_name = pb.n_value = pb.n_source = pb.n_help = 2;
    pb.value = values;
    expect_bad_texts_refused(MC_METHOD_CONFIG, REPLY, &pb, &values[1], MC_CONFIG_TEXT_LEN_MAX,
                             "value");
}

static void limits__an_attach_reply_has_bounded_texts(void **state)
{
    Mc__Pb__AttachReply pb = MC__PB__ATTACH_REPLY__INIT;

    (void)state;
    expect_bad_texts_refused(MC_METHOD_ATTACH, REPLY, &pb, &pb.master, MC_ADDR_LEN_MAX, "master");
    expect_bad_texts_refused(MC_METHOD_ATTACH, REPLY, &pb, &pb.pool_addresses, MC_ADDRESSES_LEN_MAX,
                             "pool_addresses");
}

static void limits__statuses_are_bounded_and_unknown_ones_are_internal(void **state)
{
    const struct mc_method_codec *codec = mc_method_codec(MC_METHOD_REMOVE);
    Mc__Pb__StatusReply pb = MC__PB__STATUS_REPLY__INIT;
    int32_t statuses[] = {-704, -4711, 0};
    struct mc_status_reply reply;
    struct mc_arena arena;
    uint8_t body[64];

    (void)state;
    pb.status = many_statuses;
    pb.n_status = MC_BATCH_KEYS_MAX;
    expect_ok(MC_METHOD_REMOVE, REPLY, &pb);
    pb.n_status++;
    expect_refused(MC_METHOD_REMOVE, REPLY, &pb, "status");
    pb.status = statuses;
    pb.n_status = 3;
    mc_arena_init(&arena, 0);
    assert_int_equal(
        codec->decode_reply(body, protobuf_c_message_pack(&pb.base, body), &arena, &reply),
        MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_ENOENT);
    assert_int_equal(reply.statuses[1], MOONCAKE_EINTERNAL);
    assert_int_equal(reply.statuses[2], MOONCAKE_OK);
    mc_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits__key_lengths_must_add_up_to_the_bytes),
        cmocka_unit_test(limits__more_keys_than_a_batch_may_have_are_refused),
        cmocka_unit_test(limits__bad_keys_come_through_for_their_item_to_be_refused),
        cmocka_unit_test(limits__describe_key_takes_exactly_one_key),
        cmocka_unit_test(limits__put_start_checks_each_field),
        cmocka_unit_test(limits__put_end_and_revoke_want_an_attempt_a_key),
        cmocka_unit_test(limits__remove_all_with_a_stray_pattern_does_not_become_all),
        cmocka_unit_test(limits__hello_bounds_the_program_name),
        cmocka_unit_test(limits__mount_wants_arrays_of_one_length),
        cmocka_unit_test(limits__unmount_and_ping_bound_what_they_name),
        cmocka_unit_test(limits__report_wants_arrays_of_one_length),
        cmocka_unit_test(limits__list_segments_wants_arrays_of_one_length),
        cmocka_unit_test(limits__list_clients_wants_arrays_of_one_length),
        cmocka_unit_test(limits__config_wants_arrays_of_one_length),
        cmocka_unit_test(limits__an_attach_reply_has_bounded_texts),
        cmocka_unit_test(limits__statuses_are_bounded_and_unknown_ones_are_internal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
