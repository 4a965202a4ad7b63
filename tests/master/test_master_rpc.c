/* Every method of a real master over a real socket: what succeeds, what is refused and how. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "master/daemon.h"

#define SEGMENT_LEN (1u << 20)

static int set_up(void **state)
{
    static struct daemon d;

    daemon_start(&d, NULL);
    *state = &d;
    return daemon_mount(&d, "seg-a", 11, SEGMENT_LEN) == MOONCAKE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    struct daemon *d = *state;

    if (daemon_stop(d, SIGTERM) != 0) {
        print_error("the master did not end with 0\n");
        return -1;
    }
    return 0;
}

static struct mc_keys_request keys_of(const struct mc_key *keys, size_t count)
{
    return (struct mc_keys_request){.client_id = DAEMON_CLIENT_ID, .keys = keys, .count = count};
}

/* ---- objects --------------------------------------------------------------------------------- */

static void put__is_readable_only_after_its_end(void **state)
{
    struct daemon *d = *state;
    const struct mc_key key = daemon_key("k");
    const struct mc_keys_request request = keys_of(&key, 1);
    struct mc_query_reply reply;
    const struct mc_extent_ref *extent;
    uint64_t attempt;

    assert_int_equal(daemon_call(d, MC_METHOD_QUERY, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_ENOENT);
    assert_int_equal(daemon_put_start(d, "k", 1000, &attempt), MOONCAKE_OK);
    assert_int_equal(daemon_call(d, MC_METHOD_QUERY, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_ENOTREADY);
    assert_int_equal(daemon_exist(d, "k"), MOONCAKE_ENOENT);
    assert_int_equal(daemon_put_start(d, "k", 1000, NULL), MOONCAKE_EEXIST);
    assert_int_equal(daemon_put_end(d, "k", attempt + 1), MOONCAKE_ENOTOWNER);
    assert_int_equal(daemon_put_end(d, "other", attempt), MOONCAKE_ENOENT);
    assert_int_equal(daemon_put_end(d, "k", attempt), MOONCAKE_OK);
    assert_int_equal(daemon_exist(d, "k"), MOONCAKE_OK);
    assert_int_equal(daemon_call(d, MC_METHOD_QUERY, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_OK);
    assert_int_equal(reply.lease_ms, 10000);
    assert_int_equal(reply.table.objects[0].value_len, 1000);
    assert_int_equal(reply.table.objects[0].replicas_count, 1);
    extent = &reply.table.objects[0].replicas[0].extents[0];
    assert_int_equal(extent->mount_id, 11);
    assert_int_equal(extent->payload_len, 1000);
    assert_true(extent->offset + 64 + 1000 <= SEGMENT_LEN);
    assert_int_equal(extent->rights, MC_RIGHT_READ);
    assert_string_equal(reply.table.segments[0].name, "seg-a");
    assert_int_equal(daemon_put_start(d, "k", 1000, NULL), MOONCAKE_EEXIST);
}

/* The store checks the capability that the master made: so it must be made for what the client
 * will ask with, rights and all. */
static void put__grants_capabilities_under_the_mounts_secret(void **state)
{
    struct daemon *d = *state;
    const struct mc_key key = daemon_key("k");
    const uint64_t secret[2] = {11, 1}, len = 5000;
    const struct mc_put_start_request start = {.client_id = DAEMON_CLIENT_ID,
                                               .nonce = 99,
                                               .keys = &key,
                                               .value_lens = &len,
                                               .count = 1,
                                               .replicas = 1};
    const struct mc_keys_request query = keys_of(&key, 1);
    struct mc_put_start_reply started;
    struct mc_query_reply found;
    const struct mc_extent_ref *extent;

    assert_int_equal(daemon_call(d, MC_METHOD_PUT_START, &start, &started), MOONCAKE_OK);
    assert_int_equal(started.statuses[0], MOONCAKE_OK);
    extent = &started.table.objects[0].replicas[0].extents[0];
    assert_int_equal(extent->rights, MC_RIGHT_WRITE);
    assert_true(extent->capability == mc_capability(secret, extent));
    assert_int_equal(extent->object_id.lo, started.attempts[0]);
    assert_int_equal(daemon_put_end(d, "k", started.attempts[0]), MOONCAKE_OK);
    assert_int_equal(daemon_call(d, MC_METHOD_QUERY, &query, &found), MOONCAKE_OK);
    assert_int_equal(found.table.objects[0].replicas[0].extents[0].rights, MC_RIGHT_READ);
    assert_true(found.table.objects[0].replicas[0].extents[0].capability ==
                mc_capability(secret, &found.table.objects[0].replicas[0].extents[0]));
}

static void put__sent_again_with_its_nonce_gets_the_same_attempt(void **state)
{
    struct daemon *d = *state;
    const struct mc_key key = daemon_key("k");
    const uint64_t len = 10;
    struct mc_put_start_request start = {.client_id = DAEMON_CLIENT_ID,
                                         .nonce = 1234,
                                         .keys = &key,
                                         .value_lens = &len,
                                         .count = 1,
                                         .replicas = 1};
    struct mc_put_start_reply first, second;

    assert_int_equal(daemon_call(d, MC_METHOD_PUT_START, &start, &first), MOONCAKE_OK);
    assert_int_equal(daemon_call(d, MC_METHOD_PUT_START, &start, &second), MOONCAKE_OK);
    assert_int_equal(second.statuses[0], MOONCAKE_OK);
    assert_int_equal(first.attempts[0], second.attempts[0]);
    start.nonce++;
    assert_int_equal(daemon_call(d, MC_METHOD_PUT_START, &start, &second), MOONCAKE_OK);
    assert_int_equal(second.statuses[0], MOONCAKE_EEXIST);
}

static void put__that_is_revoked_leaves_nothing(void **state)
{
    struct daemon *d = *state;
    const struct mc_key key = daemon_key("k");
    uint64_t attempt, wrong;
    struct mc_put_end_request revoke = {
        .client_id = DAEMON_CLIENT_ID, .keys = &key, .attempts = &attempt, .count = 1};
    struct mc_pool_status_reply status;
    struct mc_pool_status_request ask = {0};
    struct mc_status_reply reply;

    assert_int_equal(daemon_put_start(d, "k", 1000, &attempt), MOONCAKE_OK);
    wrong = attempt + 1;
    revoke.attempts = &wrong;
    assert_int_equal(daemon_call(d, MC_METHOD_PUT_REVOKE, &revoke, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_ENOTOWNER);
    revoke.attempts = &attempt;
    assert_int_equal(daemon_call(d, MC_METHOD_PUT_REVOKE, &revoke, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_OK);
    assert_int_equal(daemon_call(d, MC_METHOD_POOL_STATUS, &ask, &status), MOONCAKE_OK);
    assert_int_equal(status.used, 0);
    assert_int_equal(status.unfinished_puts, 0);
    assert_int_equal(daemon_put_end(d, "k", attempt), MOONCAKE_ENOENT);
}

static void put__that_can_never_fit_is_refused_and_spoils_nothing(void **state)
{
    struct daemon *d = *state;

    daemon_put(d, "there", 1000);
    assert_int_equal(daemon_put_start(d, "large", 2 * SEGMENT_LEN, NULL), MOONCAKE_ENOSPACE);
    assert_int_equal(daemon_put_start(d, "huge", UINT64_MAX, NULL), MOONCAKE_ENOSPACE);
    assert_int_equal(daemon_exist(d, "there"), MOONCAKE_OK);
}

static void batch__answers_each_item_in_order(void **state)
{
    static char long_key[MC_KEY_LEN_MAX + 1];
    struct daemon *d = *state;
    const struct mc_key keys[] = {
        daemon_key("new-1"), {.bytes = "", .len = 0},
        daemon_key("old"),   {.bytes = long_key, .len = MC_KEY_LEN_MAX + 1},
        daemon_key("new-1"), {.bytes = "a\0b", .len = 3},
        daemon_key("large"), {.bytes = long_key, .len = MC_KEY_LEN_MAX},
        daemon_key("new-2"),
    };
    const uint64_t lens[] = {10, 10, 10, 10, 10, 10, 4 * SEGMENT_LEN, 10, 0};
    const struct mc_put_start_request start = {.client_id = DAEMON_CLIENT_ID,
                                               .nonce = 55,
                                               .keys = keys,
                                               .value_lens = lens,
                                               .count = MC_ARRAY_LEN(keys),
                                               .replicas = 1};
    static const mooncake_err started_as[] = {
        MOONCAKE_OK,      MOONCAKE_EBADKEY,  MOONCAKE_EEXIST, MOONCAKE_EBADKEY, MOONCAKE_EEXIST,
        MOONCAKE_EBADKEY, MOONCAKE_ENOSPACE, MOONCAKE_OK,     MOONCAKE_OK,
    };
    static const mooncake_err there_as[] = {
        MOONCAKE_ENOENT,  MOONCAKE_EBADKEY, MOONCAKE_OK,     MOONCAKE_EBADKEY, MOONCAKE_ENOENT,
        MOONCAKE_EBADKEY, MOONCAKE_ENOENT,  MOONCAKE_ENOENT, MOONCAKE_ENOENT,
    };
    const struct mc_keys_request exist = keys_of(keys, MC_ARRAY_LEN(keys));
    struct mc_put_start_reply started;
    struct mc_exist_reply there;
    size_t i;

    memset(long_key, 'x', sizeof(long_key));
    daemon_put(d, "old", 10);
    assert_int_equal(daemon_call(d, MC_METHOD_PUT_START, &start, &started), MOONCAKE_OK);
    assert_int_equal(daemon_call(d, MC_METHOD_EXIST, &exist, &there), MOONCAKE_OK);
    for (i = 0; i < MC_ARRAY_LEN(keys); i++) {
        assert_int_equal(started.statuses[i], started_as[i]);
        assert_int_equal(started.table.objects[i].replicas_count, started_as[i] == MOONCAKE_OK);
        assert_int_equal(there.statuses[i], there_as[i]);
    }
}

static void query__for_sizes_only_grants_no_lease(void **state)
{
    struct daemon *d = *state;
    const struct mc_key key = daemon_key("k");
    struct mc_keys_request request = keys_of(&key, 1);
    struct mc_query_reply reply;
    struct mc_status_reply removed;

    daemon_put(d, "k", 4321);
    request.sizes_only = true;
    assert_int_equal(daemon_call(d, MC_METHOD_QUERY, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.table.objects[0].value_len, 4321);
    assert_int_equal(reply.table.objects[0].replicas_count, 0);
    assert_int_equal(daemon_call(d, MC_METHOD_REMOVE, &request, &removed), MOONCAKE_OK);
    assert_int_equal(removed.statuses[0], MOONCAKE_OK);
}

static void remove__respects_a_lease_unless_forced(void **state)
{
    struct daemon *d = *state;
    const struct mc_key key = daemon_key("k");
    struct mc_keys_request request = keys_of(&key, 1);
    struct mc_status_reply reply;

    assert_int_equal(daemon_call(d, MC_METHOD_REMOVE, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_ENOENT);
    daemon_put(d, "k", 10);
    assert_int_equal(daemon_exist(d, "k"), MOONCAKE_OK);
    assert_int_equal(daemon_call(d, MC_METHOD_REMOVE, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_ELEASED);
    request.force = true;
    assert_int_equal(daemon_call(d, MC_METHOD_REMOVE, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_OK);
    assert_int_equal(daemon_exist(d, "k"), MOONCAKE_ENOENT);
}

static void remove_all__tells_what_it_left(void **state)
{
    struct daemon *d = *state;
    struct mc_remove_all_request request = {.client_id = DAEMON_CLIENT_ID, .pattern = "a(*"};
    struct mc_remove_all_reply reply;

    daemon_put(d, "free-1", 10);
    daemon_put(d, "free-2", 10);
    daemon_put(d, "leased", 10);
    assert_int_equal(daemon_exist(d, "leased"), MOONCAKE_OK);
    assert_int_equal(daemon_put_start(d, "writing", 10, NULL), MOONCAKE_OK);
    assert_int_equal(daemon_call(d, MC_METHOD_REMOVE_ALL, &request, &reply), MOONCAKE_EINVAL);
    assert_true(d->sentence[0] != '\0');
    request.pattern = NULL;
    assert_int_equal(daemon_call(d, MC_METHOD_REMOVE_ALL, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.removed, 2);
    assert_int_equal(reply.left_leased, 1);
    assert_int_equal(reply.left_writing, 1);
    request.force = true;
    assert_int_equal(daemon_call(d, MC_METHOD_REMOVE_ALL, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.removed, 1);
}

/* ---- members --------------------------------------------------------------------------------- */

static void mount__is_idempotent_for_its_owner_and_closed_to_others(void **state)
{
    struct daemon *d = *state;
    const struct mc_mount_item item = {.name = "seg-a",
                                       .addresses = "tcp://127.0.0.1:2",
                                       .mount_id = 77,
                                       .len = SEGMENT_LEN,
                                       .secret = {1, 2}};
    const struct mc_mount_request stranger = {.client_id = DAEMON_CLIENT_ID + 1,
                                              .host = "host-b",
                                              .program = "x",
                                              .items = &item,
                                              .count = 1};
    struct mc_status_reply reply;

    assert_int_equal(daemon_mount(d, "seg-a", 11, SEGMENT_LEN), MOONCAKE_OK);
    assert_int_equal(daemon_call(d, MC_METHOD_MOUNT, &stranger, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_ESEGMENTEXISTS);
    assert_int_equal(daemon_mount(d, "seg-b", 12, 0), MOONCAKE_EINVAL);
    assert_int_equal(daemon_mount(d, "seg-b", 12, SEGMENT_LEN), MOONCAKE_OK);
}

static void unmount__ends_a_segment_and_its_objects(void **state)
{
    struct daemon *d = *state;
    const uint64_t ids[] = {11, 999};
    const struct mc_unmount_request request = {
        .client_id = DAEMON_CLIENT_ID, .mount_ids = ids, .count = 2};
    struct mc_status_reply reply;

    daemon_put(d, "k", 10);
    assert_int_equal(daemon_call(d, MC_METHOD_UNMOUNT, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_OK);
    assert_int_equal(reply.statuses[1], MOONCAKE_ENOSEGMENT);
    assert_int_equal(daemon_exist(d, "k"), MOONCAKE_ENOENT);
    assert_int_equal(daemon_put_start(d, "k2", 10, NULL), MOONCAKE_ENOSPACE);
}

static void ping__tells_which_mounts_are_unknown(void **state)
{
    struct daemon *d = *state;
    const uint64_t ids[] = {11, 999};
    const struct mc_ping_request request = {.client_id = DAEMON_CLIENT_ID,
                                            .role = MC_ROLE_STORE,
                                            .host = "host-a",
                                            .program = "test_master 1.0",
                                            .mount_ids = ids,
                                            .count = 2};
    struct mc_list_request list = {0};
    struct mc_list_clients_reply clients;
    struct mc_ping_reply reply;

    assert_int_equal(daemon_call(d, MC_METHOD_PING, &request, &reply), MOONCAKE_OK);
    assert_true(reply.master_epoch != 0);
    assert_true(reply.master_epoch == d->stub.master_epoch);
    assert_int_equal(reply.client_ttl_ms, 10000);
    assert_int_equal(reply.unknown_count, 1);
    assert_int_equal(reply.unknown_mount_ids[0], 999);
    assert_int_equal(daemon_call(d, MC_METHOD_LIST_CLIENTS, &list, &clients), MOONCAKE_OK);
    assert_int_equal(clients.count, 1);
    assert_int_equal(clients.items[0].client_id, DAEMON_CLIENT_ID);
    assert_int_equal(clients.items[0].segments, 1);
    assert_string_equal(clients.items[0].program, "test_master 1.0");
}

static void report__names_segments(void **state)
{
    struct daemon *d = *state;
    const struct mc_report_item items[] = {
        {.mount_id = 11, .reason = MOONCAKE_ERPC},
        {.mount_id = 999, .reason = MOONCAKE_ETIMEDOUT},
    };
    const struct mc_report_request request = {
        .client_id = DAEMON_CLIENT_ID, .items = items, .count = 2};
    struct mc_status_reply reply;

    assert_int_equal(daemon_call(d, MC_METHOD_REPORT, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_OK);
    assert_int_equal(reply.statuses[1], MOONCAKE_ENOSEGMENT);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void list_keys__walks_all_keys_in_pages(void **state)
{
    struct daemon *d = *state;
    struct mc_list_keys_request request = {.keys_max = 7, .pattern = ""};
    struct mc_list_keys_reply reply;
    bool seen[40] = {false};
    char name[16];
    size_t i, pages = 0;

    for (i = 0; i < MC_ARRAY_LEN(seen); i++) {
        (void)snprintf(name, sizeof(name), "key-%02zu", i);
        daemon_put(d, name, 1);
    }
    do {
        assert_int_equal(daemon_call(d, MC_METHOD_LIST_KEYS, &request, &reply), MOONCAKE_OK);
        for (i = 0; i < reply.count; i++) {
            assert_int_equal(reply.keys[i].len, 6);
            seen[(reply.keys[i].bytes[4] - '0') * 10 + reply.keys[i].bytes[5] - '0'] = true;
        }
        request.cursor = reply.cursor;
        assert_true(++pages < 1000);
    } while (reply.cursor != 0);
    for (i = 0; i < MC_ARRAY_LEN(seen); i++) {
        assert_true(seen[i]);
    }
    request.pattern = "a(*";
    assert_int_equal(daemon_call(d, MC_METHOD_LIST_KEYS, &request, &reply), MOONCAKE_EINVAL);
}

static void describe_key__tells_state_and_copies(void **state)
{
    struct daemon *d = *state;
    const struct mc_key key = daemon_key("k"), bad = {.bytes = "a\0", .len = 2};
    const struct mc_keys_request request = keys_of(&key, 1), bad_request = keys_of(&bad, 1);
    struct mc_describe_key_reply reply;
    uint64_t attempt;

    assert_int_equal(daemon_call(d, MC_METHOD_DESCRIBE_KEY, &bad_request, &reply),
                     MOONCAKE_EBADKEY);
    assert_int_equal(daemon_call(d, MC_METHOD_DESCRIBE_KEY, &request, &reply), MOONCAKE_ENOENT);
    assert_int_equal(daemon_put_start(d, "k", 77, &attempt), MOONCAKE_OK);
    assert_int_equal(daemon_call(d, MC_METHOD_DESCRIBE_KEY, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.state, MC_OBJECT_WRITING);
    assert_int_equal(daemon_put_end(d, "k", attempt), MOONCAKE_OK);
    assert_int_equal(daemon_call(d, MC_METHOD_DESCRIBE_KEY, &request, &reply), MOONCAKE_OK);
    assert_int_equal(reply.state, MC_OBJECT_READABLE);
    assert_int_equal(reply.lease_left_ms, 0);
    assert_int_equal(reply.table.objects[0].value_len, 77);
    assert_int_equal(reply.table.objects[0].replicas[0].extents[0].capability, 0);
}

static void status__adds_up(void **state)
{
    struct daemon *d = *state;
    struct mc_pool_status_request ask = {0};
    struct mc_list_request list = {0};
    struct mc_list_segments_reply segments;
    struct mc_pool_status_reply status;

    daemon_put(d, "k", 1000);
    assert_int_equal(daemon_exist(d, "k"), MOONCAKE_OK);
    assert_int_equal(daemon_exist(d, "not there"), MOONCAKE_ENOENT);
    assert_int_equal(daemon_exist(d, "not there"), MOONCAKE_ENOENT);
    assert_int_equal(daemon_call(d, MC_METHOD_POOL_STATUS, &ask, &status), MOONCAKE_OK);
    assert_int_equal(status.capacity, SEGMENT_LEN);
    assert_int_equal(status.used, 1000 + 64 + 24); /* the header, and up to the next 64 */
    assert_int_equal(status.keys, 1);
    assert_int_equal(status.hits, 1);
    assert_int_equal(status.misses, 2);
    assert_int_equal(status.segments, 1);
    assert_true(status.master_epoch == d->stub.master_epoch);
    assert_string_equal(status.program, d->stub.master_program);
    assert_int_equal(daemon_call(d, MC_METHOD_LIST_SEGMENTS, &list, &segments), MOONCAKE_OK);
    assert_int_equal(segments.count, 1);
    assert_string_equal(segments.items[0].name, "seg-a");
    assert_int_equal(segments.items[0].used, status.used);
    assert_int_equal(segments.items[0].state, MC_SEGMENT_OK);
}

static void config__lists_each_option_with_its_source(void **state)
{
    struct daemon *d = *state;
    struct mc_empty_request empty = {0};
    struct mc_config_reply reply;
    bool port = false, ttl = false;
    size_t i;

    assert_int_equal(daemon_call(d, MC_METHOD_CONFIG, &empty, &reply), MOONCAKE_OK);
    for (i = 0; i < reply.count; i++) {
        if (strcmp(reply.items[i].name, "rpc_port") == 0) {
            assert_string_equal(reply.items[i].value, "0");
            assert_string_equal(reply.items[i].source, "flag");
            port = true;
        }
        if (strcmp(reply.items[i].name, "client_ttl") == 0) {
            assert_string_equal(reply.items[i].source, "default");
            assert_true(reply.items[i].help[0] != '\0');
            ttl = true;
        }
    }
    assert_true(port && ttl);
}

int main(void)
{
#define MASTER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        MASTER_TEST(put__is_readable_only_after_its_end),
        MASTER_TEST(put__grants_capabilities_under_the_mounts_secret),
        MASTER_TEST(put__sent_again_with_its_nonce_gets_the_same_attempt),
        MASTER_TEST(put__that_is_revoked_leaves_nothing),
        MASTER_TEST(put__that_can_never_fit_is_refused_and_spoils_nothing),
        MASTER_TEST(batch__answers_each_item_in_order),
        MASTER_TEST(query__for_sizes_only_grants_no_lease),
        MASTER_TEST(remove__respects_a_lease_unless_forced),
        MASTER_TEST(remove_all__tells_what_it_left),
        MASTER_TEST(mount__is_idempotent_for_its_owner_and_closed_to_others),
        MASTER_TEST(unmount__ends_a_segment_and_its_objects),
        MASTER_TEST(ping__tells_which_mounts_are_unknown),
        MASTER_TEST(report__names_segments),
        MASTER_TEST(list_keys__walks_all_keys_in_pages),
        MASTER_TEST(describe_key__tells_state_and_copies),
        MASTER_TEST(status__adds_up),
        MASTER_TEST(config__lists_each_option_with_its_source),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
