/* What an encoder refuses: everything that the decoder at the other end would. Nothing is appended
 * then, and the sentence names the field. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "wire/methods.h"

enum direction {
    REQUEST,
    REPLY,
};

static void expect_refused(enum mc_method method, enum direction direction, const void *message,
                           const char *field)
{
    const struct mc_method_codec *codec = mc_method_codec(method);
    struct mc_buf out;
    mooncake_err err;

    mc_buf_init(&out);
    mc_err_clear();
    err = direction == REPLY ? codec->encode_reply(message, &out)
                             : codec->encode_request(message, &out);
    assert_int_equal(err, MOONCAKE_EINVAL);
    assert_int_equal(mc_buf_len(&out), 0);
    mc_buf_fini(&out);
    if (strstr(mooncake_last_error(), field) == NULL) {
        fail_msg("the sentence does not name %s: %s", field, mooncake_last_error());
    }
}

/* More of each than any message may have. */
static struct mc_key many_keys[MC_BATCH_KEYS_MAX + 1];
static uint64_t many_numbers[MC_BATCH_KEYS_MAX + 1];
static mooncake_err many_statuses[MC_BATCH_KEYS_MAX + 1];
static const char *many_texts[MC_PREFERRED_SEGMENTS_MAX + 1];
static struct mc_segment_info many_segments[MC_SEGMENTS_MAX + 1];
static struct mc_object_info many_objects[MC_BATCH_KEYS_MAX + 1];

static const char control[] = "bell\x07";

static void encode__refuses_batches_that_are_too_large(void **state)
{
    const size_t count = MC_BATCH_KEYS_MAX + 1;
    static struct mc_report_item items[MC_BATCH_KEYS_MAX + 1];
    const struct mc_keys_request keys = {.keys = many_keys, .count = count};
    const struct mc_put_end_request end = {
        .keys = many_keys, .attempts = many_numbers, .count = count};
    const struct mc_put_start_request start = {
        .keys = many_keys, .value_lens = many_numbers, .count = count, .replicas = 1};
    const struct mc_report_request report = {.items = items, .count = count};
    const struct mc_status_reply status = {.statuses = many_statuses, .count = count};
    const struct mc_exist_reply exist = {.statuses = many_statuses, .count = count};
    const struct mc_list_keys_reply listed = {.keys = many_keys, .count = count};
    const struct mc_query_reply query = {.statuses = many_statuses,
                                         .table = {.objects = many_objects, .count = count}};

    (void)state;
    expect_refused(MC_METHOD_QUERY, REQUEST, &keys, "keys");
    expect_refused(MC_METHOD_EXIST, REQUEST, &keys, "keys");
    expect_refused(MC_METHOD_REMOVE, REQUEST, &keys, "keys");
    expect_refused(MC_METHOD_PUT_START, REQUEST, &start, "keys");
    expect_refused(MC_METHOD_PUT_END, REQUEST, &end, "keys");
    expect_refused(MC_METHOD_PUT_REVOKE, REQUEST, &end, "keys");
    expect_refused(MC_METHOD_REPORT, REQUEST, &report, "mount_id");
    expect_refused(MC_METHOD_REMOVE, REPLY, &status, "status");
    expect_refused(MC_METHOD_EXIST, REPLY, &exist, "status");
    expect_refused(MC_METHOD_LIST_KEYS, REPLY, &listed, "keys");
    expect_refused(MC_METHOD_QUERY, REPLY, &query, "objects");
}

/* 64 MiB and a byte, of keys or of a packed message. */
static void encode__refuses_what_no_body_can_hold(void **state)
{
    static char bytes[MC_RPC_BODY_LEN_MAX / 1024];
    static struct mc_key keys[1025];
    struct mc_keys_request request = {.keys = keys, .count = 1025};
    size_t i;

    (void)state;
    for (i = 0; i < 1025; i++) {
        keys[i] = (struct mc_key){.bytes = bytes, .len = sizeof(bytes)};
    }
    expect_refused(MC_METHOD_EXIST, REQUEST, &request, "keys");
    request.count = 1024; /* the keys alone would fit, with their lengths they do not */
    expect_refused(MC_METHOD_EXIST, REQUEST, &request, "ExistRequest");
}

static void encode__refuses_put_starts_out_of_range(void **state)
{
    const struct mc_key key = {.bytes = "k", .len = 1};
    const uint64_t len = 1;
    struct mc_put_start_request request = {
        .keys = &key, .value_lens = &len, .count = 1, .replicas = 0};
    size_t i;

    (void)state;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &request, "replicas");
    request.replicas = MC_REPLICAS_MAX + 1;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &request, "replicas");
    request.replicas = 1;
    for (i = 0; i < MC_ARRAY_LEN(many_texts); i++) {
        many_texts[i] = "n";
    }
    request.preferred_segments = many_texts;
    request.preferred_count = MC_ARRAY_LEN(many_texts);
    expect_refused(MC_METHOD_PUT_START, REQUEST, &request, "preferred_segment");
    request.preferred_count = 2;
    many_texts[1] = NULL;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &request, "preferred_segment");
    many_texts[1] = control;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &request, "preferred_segment");
    request.preferred_count = 0;
    request.excluded_count = MC_EXCLUDED_MOUNTS_MAX + 1;
    expect_refused(MC_METHOD_PUT_START, REQUEST, &request, "excluded_mount");
}

static void encode__refuses_bad_texts(void **state)
{
    const struct mc_hello hello = {.program = control};
    const struct mc_hello_reply hello_reply = {.program = control};
    const struct mc_remove_all_request remove_all = {.pattern = control};
    const struct mc_list_keys_request list_keys = {.pattern = control};
    const struct mc_pool_status_reply status = {.program = control};
    const struct mc_ping_request ping = {.role = MC_ROLE_CLIENT, .host = control};
    const struct mc_mount_item item = {.name = control};
    const struct mc_mount_request mount = {.items = &item, .count = 1},
                                  program = {.program = control};
    struct mc_segment_status segment = {.host = control, .state = MC_SEGMENT_OK};
    struct mc_client_status client = {.program = control};
    struct mc_config_item config = {.help = control};
    const struct mc_list_segments_reply segments = {.items = &segment, .count = 1};
    const struct mc_list_clients_reply clients = {.items = &client, .count = 1};
    const struct mc_config_reply configs = {.items = &config, .count = 1};
    struct mc_segment_info info = {.addresses = control};
    const struct mc_attach_reply attached = {.pool_addresses = control};
    const struct mc_query_reply query = {.table = {.segments = &info, .segments_count = 1}};

    (void)state;
    expect_refused(MC_METHOD_HELLO, REQUEST, &hello, "program");
    expect_refused(MC_METHOD_HELLO, REPLY, &hello_reply, "program");
    expect_refused(MC_METHOD_ATTACH, REPLY, &attached, "pool_addresses");
    expect_refused(MC_METHOD_REMOVE_ALL, REQUEST, &remove_all, "pattern");
    expect_refused(MC_METHOD_LIST_KEYS, REQUEST, &list_keys, "pattern");
    expect_refused(MC_METHOD_POOL_STATUS, REPLY, &status, "program");
    expect_refused(MC_METHOD_PING, REQUEST, &ping, "host");
    expect_refused(MC_METHOD_MOUNT, REQUEST, &mount, "segment_name");
    expect_refused(MC_METHOD_MOUNT, REQUEST, &program, "program");
    expect_refused(MC_METHOD_LIST_SEGMENTS, REPLY, &segments, "host");
    expect_refused(MC_METHOD_LIST_CLIENTS, REPLY, &clients, "program");
    expect_refused(MC_METHOD_CONFIG, REPLY, &configs, "help");
    expect_refused(MC_METHOD_QUERY, REPLY, &query, "addresses");
}

static void encode__refuses_more_members_than_allowed(void **state)
{
    const size_t count = MC_SEGMENTS_PER_STORE_MAX + 1;
    static struct mc_mount_item items[MC_SEGMENTS_PER_STORE_MAX + 1];
    static struct mc_client_status clients[MC_CONNECTIONS_MAX + 1];
    static struct mc_config_item configs[MC_CONFIG_ITEMS_MAX + 1];
    static struct mc_segment_status segments[MC_SEGMENTS_MAX + 1];
    const struct mc_mount_request mount = {.items = items, .count = count};
    const struct mc_unmount_request unmount = {.mount_ids = many_numbers, .count = count};
    struct mc_ping_request ping = {
        .role = MC_ROLE_CLIENT, .mount_ids = many_numbers, .count = count};
    const struct mc_ping_reply pong = {.unknown_mount_ids = many_numbers, .unknown_count = count};
    const struct mc_list_clients_reply list = {.items = clients, .count = MC_ARRAY_LEN(clients)};
    const struct mc_config_reply config = {.items = configs, .count = MC_ARRAY_LEN(configs)};
    const struct mc_list_segments_reply many = {.items = segments, .count = MC_ARRAY_LEN(segments)};
    struct mc_list_segments_reply one = {.items = segments, .count = 1};
    const struct mc_query_reply query = {
        .table = {.segments = many_segments, .segments_count = MC_ARRAY_LEN(many_segments)}};
    size_t i;

    (void)state;
    for (i = 0; i < MC_ARRAY_LEN(segments); i++) {
        segments[i].state = MC_SEGMENT_OK;
    }
    expect_refused(MC_METHOD_MOUNT, REQUEST, &mount, "mount_id");
    expect_refused(MC_METHOD_UNMOUNT, REQUEST, &unmount, "mount_id");
    expect_refused(MC_METHOD_PING, REQUEST, &ping, "mount_id");
    expect_refused(MC_METHOD_PING, REPLY, &pong, "unknown_mount_id");
    expect_refused(MC_METHOD_LIST_CLIENTS, REPLY, &list, "client_id");
    expect_refused(MC_METHOD_LIST_SEGMENTS, REPLY, &many, "mount_id");
    expect_refused(MC_METHOD_CONFIG, REPLY, &config, "name");
    expect_refused(MC_METHOD_QUERY, REPLY, &query, "mount_id");
    ping.count = 0;
    ping.role = 0;
    expect_refused(MC_METHOD_PING, REQUEST, &ping, "role");
    segments[0].state = 0;
    expect_refused(MC_METHOD_LIST_SEGMENTS, REPLY, &one, "state");
}

static void encode__refuses_tables_that_do_not_add_up(void **state)
{
    uint32_t segment[MC_EXTENTS_MAX + 1] = {0};
    struct mc_extent_ref extents[MC_EXTENTS_MAX + 1] = {{.payload_len = 100}};
    struct mc_replica_info replicas[MC_REPLICAS_MAX + 1] = {
        {.extents = extents, .segment = segment, .extents_count = 1}};
    struct mc_object_info object = {.value_len = 100, .replicas = replicas, .replicas_count = 1};
    struct mc_segment_info info = {.name = "n"};
    mooncake_err status = MOONCAKE_OK;
    uint64_t attempt = 1;
    const struct mc_put_start_reply reply = {
        .statuses = &status,
        .attempts = &attempt,
        .table = {.segments = &info, .segments_count = 1, .objects = &object, .count = 1}};

    (void)state;
    segment[0] = 1;
    expect_refused(MC_METHOD_PUT_START, REPLY, &reply, "segment");
    segment[0] = 0;
    object.value_len = 101;
    expect_refused(MC_METHOD_PUT_START, REPLY, &reply, "payload_len");
    object.value_len = 99;
    expect_refused(MC_METHOD_PUT_START, REPLY, &reply, "payload_len");
    object.value_len = 100;
    extents[0].offset = UINT64_MAX - 100;
    expect_refused(MC_METHOD_PUT_START, REPLY, &reply, "offset");
    extents[0].offset = 0;
    replicas[0].extents_count = 0;
    expect_refused(MC_METHOD_PUT_START, REPLY, &reply, "extent_count");
    replicas[0].extents_count = MC_EXTENTS_MAX + 1;
    expect_refused(MC_METHOD_PUT_START, REPLY, &reply, "extent_count");
    replicas[0].extents_count = 1;
    object.replicas_count = MC_REPLICAS_MAX + 1;
    expect_refused(MC_METHOD_PUT_START, REPLY, &reply, "replica_count");
}

static void encode__describes_exactly_one_key(void **state)
{
    const struct mc_key keys[] = {{"a", 1}, {"b", 1}};
    const struct mc_keys_request request = {.keys = keys, .count = 2};
    const struct mc_describe_key_reply reply = {.state = MC_OBJECT_READABLE};

    (void)state;
    expect_refused(MC_METHOD_DESCRIBE_KEY, REQUEST, &request, "key");
    expect_refused(MC_METHOD_DESCRIBE_KEY, REPLY, &reply, "object");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encode__refuses_batches_that_are_too_large),
        cmocka_unit_test(encode__refuses_what_no_body_can_hold),
        cmocka_unit_test(encode__refuses_put_starts_out_of_range),
        cmocka_unit_test(encode__refuses_bad_texts),
        cmocka_unit_test(encode__refuses_more_members_than_allowed),
        cmocka_unit_test(encode__refuses_tables_that_do_not_add_up),
        cmocka_unit_test(encode__describes_exactly_one_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
