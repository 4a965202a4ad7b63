/* The object table: each thing that a hostile or broken master could say in it. Also floods. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "control.pb-c.h"
#include "wire/methods.h"

/* protobuf-c's texts are not const; nobody writes through these. */
#define LIT(text) ((char *)(uintptr_t)(text))

/* Two items: one of 100 bytes with two replicas (60 + 40, and 100), one without. */
struct table {
    Mc__Pb__QueryReply reply;
    Mc__Pb__ObjectTable objects;
    int32_t status[3];
    uint64_t mount_id[3], value_len[3], hi[3], lo[3], offset[4], payload_len[4], capability[4];
    char *name[3], *addresses[3], *host[3];
    uint32_t replica_count[3], extent_count[3], segment[4];
};

static void table_init(struct table *t)
{
    *t = (struct table){
        .reply = MC__PB__QUERY_REPLY__INIT,
        .objects = MC__PB__OBJECT_TABLE__INIT,
        .status = {0, -704, 0},
        .mount_id = {11, 22, 33},
        .value_len = {100, 0, 0},
        .hi = {1, 2, 3},
        .lo = {4, 5, 6},
        .offset = {0, 4096, 64, 0},
        .payload_len = {60, 40, 100, 0},
        .capability = {7, 8, 9, 0},
        .name = {LIT("n0"), LIT("n1"), LIT("n2")},
        .addresses = {LIT("tcp://a:1"), LIT("tcp://b:1"), LIT("tcp://c:1")},
        .host = {LIT("a"), LIT("b"), LIT("c")},
        .replica_count = {2, 0, 0},
        .extent_count = {2, 1, 1},
        .segment = {0, 0, 1, 0},
    };
    t->reply.objects = &t->objects;
    t->reply.status = t->status;
    t->reply.n_status = 2;
    t->objects.mount_id = t->mount_id;
    t->objects.segment_name = t->name;
    t->objects.addresses = t->addresses;
    t->objects.host = t->host;
    t->objects.value_len = t->value_len;
    t->objects.object_id_hi = t->hi;
    t->objects.object_id_lo = t->lo;
    t->objects.replica_count = t->replica_count;
    t->objects.extent_count = t->extent_count;
    t->objects.segment = t->segment;
    t->objects.offset = t->offset;
    t->objects.payload_len = t->payload_len;
    t->objects.capability = t->capability;
    t->objects.n_mount_id = t->objects.n_segment_name = t->objects.n_addresses = t->objects.n_host =
        2;
    t->objects.n_value_len = t->objects.n_object_id_hi = t->objects.n_object_id_lo =
        t->objects.n_replica_count = 2;
    t->objects.n_extent_count = 2;
    t->objects.n_segment = t->objects.n_offset = t->objects.n_payload_len =
        t->objects.n_capability = 3;
}

static mooncake_err table_decode(const struct table *t, struct mc_arena *arena,
                                 struct mc_query_reply *out)
{
    size_t len = protobuf_c_message_get_packed_size(&t->reply.base);
    uint8_t *body = mc_malloc(len);
    mooncake_err err;

    assert_non_null(body);
    assert_int_equal(protobuf_c_message_pack(&t->reply.base, body), len);
    mc_err_clear();
    err = mc_method_codec(MC_METHOD_QUERY)->decode_reply(body, len, arena, out);
    mc_free(body);
    return err;
}

static void expect_refused(const struct table *t, const char *field)
{
    struct mc_query_reply reply;
    struct mc_arena arena;

    mc_arena_init(&arena, 0);
    assert_int_equal(table_decode(t, &arena, &reply), MOONCAKE_EINVAL);
    if (strstr(mooncake_last_error(), field) == NULL) {
        fail_msg("the sentence does not name %s: %s", field, mooncake_last_error());
    }
    mc_arena_fini(&arena);
}

static void table__extents_get_what_the_wire_does_not_carry(void **state)
{
    struct mc_query_reply reply;
    const struct mc_object_info *object;
    const struct mc_extent_ref *extent;
    struct mc_arena arena;
    struct table t;

    (void)state;
    table_init(&t);
    mc_arena_init(&arena, 0);
    assert_int_equal(table_decode(&t, &arena, &reply), MOONCAKE_OK);
    assert_int_equal(reply.table.count, 2);
    assert_int_equal(reply.table.segments_count, 2);
    assert_string_equal(reply.table.segments[1].addresses, "tcp://b:1");
    assert_int_equal(reply.statuses[1], MOONCAKE_ENOENT);
    object = &reply.table.objects[0];
    assert_int_equal(object->replicas_count, 2);
    assert_int_equal(object->replicas[0].extents_count, 2);
    extent = &object->replicas[0].extents[1];
    assert_int_equal(extent->mount_id, 11);
    assert_int_equal(extent->offset, 4096);
    assert_int_equal(extent->payload_len, 40);
    assert_int_equal(extent->capability, 8);
    assert_int_equal(extent->slice_index, 1);
    assert_int_equal(extent->slice_count, 2);
    assert_int_equal(extent->rights, MC_RIGHT_READ);
    assert_int_equal(extent->object_id.hi, 1);
    assert_int_equal(extent->object_id.lo, 4);
    assert_int_equal(object->replicas[1].extents[0].mount_id, 22);
    assert_int_equal(object->replicas[1].segment[0], 1);
    assert_int_equal(reply.table.objects[1].replicas_count, 0);
    mc_arena_fini(&arena);
}

static void table__arrays_of_different_lengths_are_refused(void **state)
{
    struct table t;
    const struct {
        size_t *count;
        const char *name;
    } arrays[] = {
        {&t.objects.n_segment_name, "segment_name"},
        {&t.objects.n_addresses, "addresses"},
        {&t.objects.n_host, "host"},
        {&t.objects.n_object_id_hi, "object_id_hi"},
        {&t.objects.n_object_id_lo, "object_id_lo"},
        {&t.objects.n_replica_count, "replica_count"},
        {&t.objects.n_offset, "offset"},
        {&t.objects.n_payload_len, "payload_len"},
        {&t.objects.n_capability, "capability"},
        {&t.reply.n_status, "status"},
    };
    size_t i;

    (void)state;
    table_init(&t);
    for (i = 0; i < MC_ARRAY_LEN(arrays); i++) {
        (*arrays[i].count)--;
        expect_refused(&t, arrays[i].name);
        *arrays[i].count += 2;
        expect_refused(&t, arrays[i].name);
        (*arrays[i].count)--;
    }
    t.reply.objects = NULL; /* two statuses and no table */
    expect_refused(&t, "status");
}

static void table__counts_that_do_not_add_up_are_refused(void **state)
{
    struct table t;

    (void)state;
    table_init(&t);
    t.replica_count[0] = 3;
    expect_refused(&t, "replica_count");
    t.replica_count[0] = 1;
    expect_refused(&t, "belong to no item");
    t.replica_count[0] = UINT32_MAX;
    expect_refused(&t, "replica_count");
    t.replica_count[0] = 1;
    t.replica_count[1] = 2;
    expect_refused(&t, "replica_count");
    table_init(&t);
    t.extent_count[1] = 2;
    expect_refused(&t, "extent_count");
    t.extent_count[1] = 0;
    expect_refused(&t, "extent_count");
    t.extent_count[1] = UINT32_MAX;
    expect_refused(&t, "extent_count");
    table_init(&t);
    t.objects.n_segment = t.objects.n_offset = t.objects.n_payload_len = t.objects.n_capability = 4;
    expect_refused(&t, "belong to no item");
}

static void table__more_items_than_a_batch_may_have_are_refused(void **state)
{
    static uint64_t numbers[MC_BATCH_KEYS_MAX + 1];
    static uint32_t counts[MC_BATCH_KEYS_MAX + 1];
    struct table t;

    (void)state;
    table_init(&t);
    t.objects.value_len = t.objects.object_id_hi = t.objects.object_id_lo = numbers;
    t.objects.replica_count = counts;
    t.objects.n_value_len = t.objects.n_object_id_hi = t.objects.n_object_id_lo =
        t.objects.n_replica_count = MC_BATCH_KEYS_MAX + 1;
    t.objects.n_extent_count = t.objects.n_segment = 0;
    t.objects.n_offset = t.objects.n_payload_len = t.objects.n_capability = 0;
    expect_refused(&t, "value_len");
}

/* PutStart has two arrays beside its table, DescribeKey wants one object. */
static void table__replies_around_it_must_match_it(void **state)
{
    const struct mc_method_codec *start = mc_method_codec(MC_METHOD_PUT_START);
    const struct mc_method_codec *describe = mc_method_codec(MC_METHOD_DESCRIBE_KEY);
    uint64_t attempts[] = {1, 2};
    Mc__Pb__PutStartReply pb = MC__PB__PUT_START_REPLY__INIT;
    Mc__Pb__DescribeKeyReply key = MC__PB__DESCRIBE_KEY_REPLY__INIT;
    struct mc_put_start_reply reply;
    struct mc_describe_key_reply described;
    struct mc_arena arena;
    uint8_t body[1024];
    struct table t;
    size_t i;

    (void)state;
    table_init(&t);
    pb.objects = &t.objects;
    pb.status = t.status;
    pb.attempt = attempts;
    mc_arena_init(&arena, 0);
    for (i = 0; i < 4; i++) {
        pb.n_status = i % 2 == 0 ? 2 : 1;
        pb.n_attempt = i / 2 == 0 ? 2 : 1;
        assert_int_equal(
            start->decode_reply(body, protobuf_c_message_pack(&pb.base, body), &arena, &reply),
            i == 0 ? MOONCAKE_OK : MOONCAKE_EINVAL);
    }
    assert_int_equal(
        describe->decode_reply(body, protobuf_c_message_pack(&key.base, body), &arena, &described),
        MOONCAKE_EINVAL);
    key.object = &t.objects; /* two objects */
    assert_int_equal(
        describe->decode_reply(body, protobuf_c_message_pack(&key.base, body), &arena, &described),
        MOONCAKE_EINVAL);
    mc_arena_fini(&arena);
}

static void table__more_replicas_or_extents_than_allowed_are_refused(void **state)
{
    enum { MANY = MC_EXTENTS_MAX + 1 };
    uint32_t ones[MANY], zeros[MANY] = {0};
    uint64_t lens[MANY], offsets[MANY] = {0};
    struct mc_query_reply reply;
    struct mc_arena arena;
    struct table t;
    size_t i;

    (void)state;
    table_init(&t);
    for (i = 0; i < MANY; i++) {
        ones[i] = 1;
        lens[i] = 100;
    }
    t.objects.extent_count = ones;
    t.objects.segment = zeros;
    t.objects.offset = t.objects.capability = offsets;
    t.objects.payload_len = lens;
    t.replica_count[0] = MC_REPLICAS_MAX + 1;
    t.objects.n_extent_count = t.objects.n_segment = MC_REPLICAS_MAX + 1;
    t.objects.n_offset = t.objects.n_payload_len = t.objects.n_capability = MC_REPLICAS_MAX + 1;
    expect_refused(&t, "replica_count");

    t.replica_count[0] = 1;
    t.objects.n_extent_count = 1;
    ones[0] = MANY;
    for (i = 0; i < MANY; i++) {
        lens[i] = 1;
    }
    t.value_len[0] = MANY;
    t.objects.n_segment = MANY;
    t.objects.n_offset = t.objects.n_payload_len = t.objects.n_capability = MANY;
    expect_refused(&t, "extent_count");

    ones[0] = MC_EXTENTS_MAX;
    t.value_len[0] = MC_EXTENTS_MAX;
    t.objects.n_segment = MC_EXTENTS_MAX;
    t.objects.n_offset = t.objects.n_payload_len = t.objects.n_capability = MC_EXTENTS_MAX;
    mc_arena_init(&arena, 0);
    assert_int_equal(table_decode(&t, &arena, &reply), MOONCAKE_OK);
    mc_arena_fini(&arena);
}

static void table__extents_outside_the_value_or_the_segment_are_refused(void **state)
{
    struct mc_query_reply reply;
    struct mc_arena arena;
    struct table t;

    (void)state;
    table_init(&t);
    t.segment[1] = 2;
    expect_refused(&t, "segment");
    t.segment[1] = UINT32_MAX;
    expect_refused(&t, "segment");
    table_init(&t);
    t.payload_len[1] = 41;
    expect_refused(&t, "payload_len");
    t.payload_len[1] = 39;
    expect_refused(&t, "payload_len");
    t.payload_len[0] = UINT64_MAX - 9; /* 100 in all, if it wrapped */
    t.payload_len[1] = 110;
    expect_refused(&t, "payload_len");
    table_init(&t);
    t.offset[2] = UINT64_MAX - 64 - 100;
    mc_arena_init(&arena, 0);
    assert_int_equal(table_decode(&t, &arena, &reply), MOONCAKE_OK);
    mc_arena_fini(&arena);
    t.offset[2]++;
    expect_refused(&t, "offset");
    table_init(&t);
    t.name[1] = LIT("a\tb");
    expect_refused(&t, "segment_name");
}

/* ---- floods: refused before anything is allocated -------------------------------------------- */

#define FLOOD_LEN ((size_t)1 << 20)

static void expect_flood_refused(enum mc_method method, bool reply, const uint8_t *body, size_t len)
{
    const struct mc_method_codec *codec = mc_method_codec(method);
    struct mc_put_start_request request;
    struct mc_query_reply query;
    struct mc_arena arena;

    mc_arena_init(&arena, 0);
    assert_int_equal(reply ? codec->decode_reply(body, len, &arena, &query)
                           : codec->decode_request(body, len, &arena, &request),
                     MOONCAKE_EINVAL);
    assert_int_equal(arena.total, 0);
    mc_arena_fini(&arena);
}

/* @p pattern over and over. */
static void expect_repeated_refused(enum mc_method method, bool reply, const void *pattern,
                                    size_t pattern_len)
{
    uint8_t *body = mc_malloc(FLOOD_LEN);
    size_t at;

    assert_non_null(body);
    for (at = 0; at + pattern_len <= FLOOD_LEN; at += pattern_len) {
        memcpy(body + at, pattern, pattern_len);
    }
    expect_flood_refused(method, reply, body, at);
    mc_free(body);
}

#define TAG(field, type) (uint8_t)((field) << 3 | (type))

static void flood__of_small_fields_allocates_nothing(void **state)
{
    const uint8_t unknown[] = {TAG(15, 0), 0}, empty_text[] = {TAG(10, 2), 0};
    const uint8_t unpacked[] = {TAG(4, 0), 1}, key_sets[] = {TAG(3, 2), 0};
    const uint8_t tables[] = {TAG(2, 2), 0}, single[] = {TAG(5, 0), 1};

    (void)state;
    expect_repeated_refused(MC_METHOD_PUT_START, false, unknown, sizeof(unknown));
    expect_repeated_refused(MC_METHOD_PUT_START, false, empty_text, sizeof(empty_text));
    expect_repeated_refused(MC_METHOD_PUT_START, false, unpacked, sizeof(unpacked));
    expect_repeated_refused(MC_METHOD_PUT_START, false, key_sets, sizeof(key_sets));
    expect_repeated_refused(MC_METHOD_PUT_START, false, single, sizeof(single));
    expect_repeated_refused(MC_METHOD_QUERY, true, tables, sizeof(tables));
}

/* One field of FLOOD_LEN bytes behind @p head. */
static void flood__of_packed_numbers_allocates_nothing(void **state)
{
    uint8_t *body = mc_calloc(1, FLOOD_LEN + 5), *at = body;

    (void)state;
    assert_non_null(body);
    *at++ = TAG(4, 2); /* value_len */
    *at++ = 0x80;
    *at++ = 0x80;
    *at++ = 0x40; /* 1 MiB */
    expect_flood_refused(MC_METHOD_PUT_START, false, body, FLOOD_LEN + 4);
    mc_free(body);
}

static void flood__of_numbers_inside_the_table_allocates_nothing(void **state)
{
    uint8_t *body = mc_calloc(1, 4 * FLOOD_LEN + 32), *at = body;

    (void)state;
    assert_non_null(body);
    *at++ = TAG(2, 2); /* objects: 2 MiB and its inner head */
    *at++ = 0x85;
    *at++ = 0x80;
    *at++ = 0x80;
    *at++ = 0x01;
    *at++ = TAG(10, 2); /* segment: 2 MiB of one-byte numbers */
    *at++ = 0x80;
    *at++ = 0x80;
    *at++ = 0x80;
    *at++ = 0x01;
    expect_flood_refused(MC_METHOD_QUERY, true, body, 5 + 5 + 2 * FLOOD_LEN);
    mc_free(body);
}

static void scan__refuses_what_proto3_does_not_have(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bodies[] = {
        {"\x0b\x0c", 2},                                      /* a group */
        {"\x1d\x00\x00\x00\x00", 5},                          /* keys as a number */
        {"\x0e", 1},                                          /* wire type 6 */
        {"\x00\x00", 2},                                      /* field 0 */
        {"\xf8\xff\xff\xff\x7f\x00", 6},                      /* a tag beyond 32 bits */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11}, /* a number of 11 bytes */
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}, /* a length of 2^64 - 1 */
    };
    size_t i;

    (void)state;
    for (i = 0; i < MC_ARRAY_LEN(bodies); i++) {
        expect_flood_refused(MC_METHOD_PUT_START, false, (const uint8_t *)bodies[i].bytes,
                             bodies[i].len);
    }
}

static void scan__a_few_unknown_fields_of_a_newer_sender_are_skipped(void **state)
{
    const struct mc_key key = {.bytes = "k", .len = 1};
    const struct mc_keys_request request = {.keys = &key, .count = 1, .client_id = 5};
    const uint8_t newer[] = {TAG(14, 0), 1, TAG(15, 2), 2, 'h', 'i'};
    const struct mc_method_codec *codec = mc_method_codec(MC_METHOD_EXIST);
    struct mc_keys_request got;
    struct mc_arena arena;
    struct mc_buf body;

    (void)state;
    mc_buf_init(&body);
    mc_arena_init(&arena, 0);
    assert_int_equal(mc_buf_append(&body, newer, sizeof(newer)), MOONCAKE_OK);
    assert_int_equal(codec->encode_request(&request, &body), MOONCAKE_OK);
    assert_int_equal(codec->decode_request(mc_buf_bytes(&body), mc_buf_len(&body), &arena, &got),
                     MOONCAKE_OK);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.client_id, 5);
    mc_arena_fini(&arena);
    mc_buf_fini(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table__arrays_of_different_lengths_are_refused),
        cmocka_unit_test(table__counts_that_do_not_add_up_are_refused),
        cmocka_unit_test(table__more_items_than_a_batch_may_have_are_refused),
        cmocka_unit_test(table__replies_around_it_must_match_it),
        cmocka_unit_test(table__more_replicas_or_extents_than_allowed_are_refused),
        cmocka_unit_test(table__extents_outside_the_value_or_the_segment_are_refused),
        cmocka_unit_test(table__extents_get_what_the_wire_does_not_carry),
        cmocka_unit_test(flood__of_small_fields_allocates_nothing),
        cmocka_unit_test(flood__of_packed_numbers_allocates_nothing),
        cmocka_unit_test(flood__of_numbers_inside_the_table_allocates_nothing),
        cmocka_unit_test(scan__refuses_what_proto3_does_not_have),
        cmocka_unit_test(scan__a_few_unknown_fields_of_a_newer_sender_are_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
