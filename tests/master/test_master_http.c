/* The admin pages of a real master. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "master/daemon.h"

#define SEGMENT_LEN (1u << 20)

struct fixture {
    struct daemon d;
    struct mc_buf page;
};

static int set_up(void **state)
{
    static struct fixture f;

    daemon_start(&f.d, NULL);
    mc_buf_init(&f.page);
    *state = &f;
    return daemon_mount(&f.d, "seg \"a\"", 11, SEGMENT_LEN) == MOONCAKE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    mc_buf_fini(&f->page);
    return daemon_stop(&f->d, SIGTERM) == 0 ? 0 : -1;
}

static const char *text_of(const struct fixture *f)
{
    return (const char *)mc_buf_bytes(&f->page);
}

/* The page as JSON; the caller drops it. */
static json_t *json_of(const struct fixture *f)
{
    json_error_t error;
    json_t *json = json_loadb(text_of(f), mc_buf_len(&f->page), 0, &error);

    if (json == NULL) {
        fail_msg("no JSON: %s: %s", error.text, text_of(f));
    }
    return json;
}

static double metric(struct fixture *f, const char *name)
{
    return daemon_metric(&f->page, name);
}

static void read_metrics(struct fixture *f)
{
    assert_int_equal(daemon_http(&f->d, "GET", "/metrics", &f->page), 200);
}

static void health__says_that_it_serves(void **state)
{
    struct fixture *f = *state;
    json_t *json;

    assert_int_equal(daemon_http(&f->d, "GET", "/health", &f->page), 200);
    json = json_of(f);
    assert_string_equal(json_string_value(json_object_get(json, "status")), "ok");
    assert_true(json_is_true(json_object_get(json, "service_ready")));
    json_decref(json);
    assert_int_equal(daemon_http(&f->d, "GET", "/role", &f->page), 200);
    assert_string_equal(text_of(f), "leader\n");
    assert_int_equal(daemon_http(&f->d, "GET", "/nothing", &f->page), 404);
}

static void metrics__lookups_are_hits_and_misses(void **state)
{
    struct fixture *f = *state;
    const struct mc_key keys[] = {daemon_key("there"), daemon_key("not there"), {.len = 0}};
    const struct mc_keys_request request = {.keys = keys, .count = 3};
    struct mc_query_reply found;

    daemon_put(&f->d, "there", 100);
    assert_int_equal(daemon_exist(&f->d, "there"), MOONCAKE_OK);
    assert_int_equal(daemon_exist(&f->d, "not there"), MOONCAKE_ENOENT);
    assert_int_equal(daemon_call(&f->d, MC_METHOD_QUERY, &request, &found), MOONCAKE_OK);
    read_metrics(f);
    assert_true(metric(f, "mooncake_master_hits_total") == 2);
    assert_true(metric(f, "mooncake_master_lookups_total") ==
                metric(f, "mooncake_master_hits_total") +
                    metric(f, "mooncake_master_misses_total"));
    assert_true(metric(f, "total_get_nums_") >= metric(f, "valid_get_nums_"));
    assert_true(metric(f, "valid_get_nums_") == 1);
}

static void metrics__requests_are_counted_by_method_and_kind(void **state)
{
    struct fixture *f = *state;
    const struct mc_key keys[] = {daemon_key("k"), daemon_key("absent"), {.len = 0}};
    struct mc_keys_request request = {.keys = keys, .count = 3};
    struct mc_exist_reply exist;
    struct mc_query_reply found;

    daemon_put(&f->d, "k", 100);
    (void)daemon_exist(&f->d, "absent"); /* an answer and no failure */
    assert_int_equal(daemon_call(&f->d, MC_METHOD_EXIST, &request, &exist), MOONCAKE_OK);
    assert_int_equal(daemon_call(&f->d, MC_METHOD_QUERY, &request, &found), MOONCAKE_OK);
    request.keys = keys + 1;
    request.count = 2;
    assert_int_equal(daemon_call(&f->d, MC_METHOD_QUERY, &request, &found), MOONCAKE_OK);
    read_metrics(f);
    assert_true(metric(f, "master_put_start_requests_total") == 1);
    assert_true(metric(f, "master_put_start_failures_total") == 0);
    assert_true(metric(f, "master_exist_key_requests_total") == 1);
    assert_true(metric(f, "master_exist_key_failures_total") == 0);
    assert_true(metric(f, "master_batch_exist_key_requests_total") == 1);
    assert_true(metric(f, "master_batch_exist_key_items_total") == 3);
    assert_true(metric(f, "master_batch_exist_key_failed_items_total") == 1); /* the bad key */
    assert_true(metric(f, "master_batch_exist_key_partial_successes_total") == 1);
    assert_true(metric(f, "master_batch_get_replica_list_requests_total") == 2);
    assert_true(metric(f, "master_batch_get_replica_list_failures_total") == 1);
    assert_true(metric(f, "master_batch_get_replica_list_partial_successes_total") == 1);
    assert_true(metric(f, "master_batch_get_replica_list_failed_items_total") == 4);
    assert_true(metric(f, "mooncake_master_rpc_requests_total{method=\"query\"}") == 2);
    assert_true(metric(f, "mooncake_master_rpc_items_total{method=\"query\"}") == 5);
    assert_true(metric(f, "mooncake_master_rpc_latency_seconds_count{method=\"query\"}") == 2);
    assert_true(metric(f, "master_mount_segment_requests_total") == 1);
}

/* Kinds of calls that are methods of their own in the C++ Mooncake. */
static void metrics__patterns_and_remounts_are_counted_apart(void **state)
{
    struct fixture *f = *state;
    struct mc_list_keys_request list = {.pattern = "^k"};
    struct mc_remove_all_request removal = {.client_id = DAEMON_CLIENT_ID, .pattern = "^k"};
    const struct mc_mount_item item = {
        .name = "seg b", .addresses = "tcp://127.0.0.1:2", .mount_id = 12, .len = SEGMENT_LEN};
    const struct mc_mount_request mount = {.client_id = DAEMON_CLIENT_ID,
                                           .host = "host",
                                           .program = "test",
                                           .again = true,
                                           .items = &item,
                                           .count = 1};
    struct mc_list_keys_reply listed;
    struct mc_remove_all_reply removed;
    struct mc_status_reply mounted;

    assert_int_equal(daemon_call(&f->d, MC_METHOD_LIST_KEYS, &list, &listed), MOONCAKE_OK);
    list.pattern = "("; /* no regular expression */
    assert_int_equal(daemon_call(&f->d, MC_METHOD_LIST_KEYS, &list, &listed), MOONCAKE_EINVAL);
    list.pattern = "";
    assert_int_equal(daemon_call(&f->d, MC_METHOD_LIST_KEYS, &list, &listed), MOONCAKE_OK);
    assert_int_equal(daemon_call(&f->d, MC_METHOD_REMOVE_ALL, &removal, &removed), MOONCAKE_OK);
    removal.pattern = NULL;
    assert_int_equal(daemon_call(&f->d, MC_METHOD_REMOVE_ALL, &removal, &removed), MOONCAKE_OK);
    assert_int_equal(daemon_call(&f->d, MC_METHOD_REMOVE_ALL, &removal, &removed), MOONCAKE_OK);
    assert_int_equal(daemon_call(&f->d, MC_METHOD_MOUNT, &mount, &mounted), MOONCAKE_OK);
    read_metrics(f);
    assert_true(metric(f, "master_get_replica_list_by_regex_requests_total") == 2);
    assert_true(metric(f, "master_get_replica_list_by_regex_failures_total") == 1);
    assert_true(metric(f, "master_remove_by_regex_requests_total") == 1);
    assert_true(metric(f, "master_remove_all_requests_total") == 2);
    assert_true(metric(f, "master_remount_segment_requests_total") == 1);
    assert_true(metric(f, "master_mount_segment_requests_total") == 2);
}

static void metrics__gauges_follow_the_pool(void **state)
{
    struct fixture *f = *state;

    daemon_put(&f->d, "k", 1000);
    read_metrics(f);
    assert_true(metric(f, "master_allocated_bytes") == 1088);
    assert_true(metric(f, "master_total_capacity_bytes") == SEGMENT_LEN);
    assert_true(metric(f, "master_key_count") == 1);
    assert_true(metric(f, "segment_allocated_bytes{segment=\"seg \\\"a\\\"\"}") == 1088);
    assert_true(metric(f, "segment_total_capacity_bytes{segment=\"seg \\\"a\\\"\"}") ==
                SEGMENT_LEN);
    assert_true(metric(f, "mooncake_master_evictable_bytes") == 1088);
    assert_true(metric(f, "mooncake_master_free_bytes") == SEGMENT_LEN - 1088);
    assert_int_equal(daemon_exist(&f->d, "k"), MOONCAKE_OK);
    read_metrics(f);
    assert_true(metric(f, "mooncake_master_protected_bytes{reason=\"lease\"}") == 1088);
    assert_true(metric(f, "mooncake_master_evictable_bytes") == 0);
    assert_int_equal(daemon_http(&f->d, "GET", "/metrics/summary", &f->page), 200);
    assert_non_null(strstr(text_of(f), "Keys: 1 "));
    assert_non_null(strstr(text_of(f), "1.0MiB"));
}

/* With a window far longer than the gap between two requests, one after another, and pings far
 * apart. */
static void metrics__polling_is_counted_and_its_cost_too(void **state)
{
    static const char *const options[] = {"--poll_us=20000", NULL};
    struct fixture *f = *state;
    struct daemon polling;
    struct mc_buf page;

    read_metrics(f);
    assert_true(metric(f, "mooncake_master_polls_found_total") == 0); /* by default it sleeps */
    assert_true(metric(f, "mooncake_master_poll_idle_seconds_total") == 0);
    assert_true(metric(f, "mooncake_master_sleeps_total") > 0);

    mc_buf_init(&page);
    daemon_start(&polling, options);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(daemon_exist(&polling, "nothing"), MOONCAKE_ENOENT);
    }
    assert_int_equal(daemon_http(&polling, "GET", "/metrics", &page), 200);
    /* On a crowded machine it may be that none is found. */
    assert_true(daemon_metric(&page, "mooncake_master_polls_found_total") +
                    daemon_metric(&page, "mooncake_master_polls_missed_total") >
                0);
    assert_true(daemon_metric(&page, "mooncake_master_poll_idle_seconds_total") > 0);
    mc_buf_fini(&page);
    assert_int_equal(daemon_stop(&polling, SIGTERM), 0);
}

static void metrics__labels_of_a_gone_segment_go_with_it(void **state)
{
    struct fixture *f = *state;
    const uint64_t id = 11;
    const struct mc_unmount_request request = {
        .client_id = DAEMON_CLIENT_ID, .mount_ids = &id, .count = 1};
    struct mc_status_reply reply;

    assert_int_equal(daemon_call(&f->d, MC_METHOD_UNMOUNT, &request, &reply), MOONCAKE_OK);
    read_metrics(f);
    assert_null(strstr(text_of(f), "segment=\"seg"));
}

/* Prometheus refuses a page on which a name has two types or comes in two places. */
static void metrics__each_name_is_announced_once(void **state)
{
    struct fixture *f = *state;
    const char *at;

    read_metrics(f);
    for (at = strstr(text_of(f), "# TYPE "); at != NULL; at = strstr(at + 1, "# TYPE ")) {
        char line[160];
        size_t len = strcspn(at + 7, " ");

        assert_true(len + 9 < sizeof(line));
        (void)snprintf(line, sizeof(line), "# TYPE %.*s ", (int)len, at + 7);
        if (strstr(at + 1, line) != NULL) {
            fail_msg("announced twice: %s", line);
        }
    }
}

static void keys__are_listed_one_a_line(void **state)
{
    struct fixture *f = *state;
    bool seen[3000] = {false};
    size_t i, lines = 0;
    const char *at;

    for (i = 0; i < MC_ARRAY_LEN(seen); i += 500) { /* in batches: 3000 keys, several parts */
        struct mc_key keys[500];
        static char names[500][16];
        uint64_t lens[500] = {0}, attempts[500];
        const struct mc_put_start_request start = {.client_id = 1,
                                                   .nonce = 1000 + i,
                                                   .keys = keys,
                                                   .value_lens = lens,
                                                   .count = 500,
                                                   .replicas = 1};
        struct mc_put_end_request end = {
            .client_id = 1, .keys = keys, .attempts = attempts, .count = 500};
        struct mc_put_start_reply started;
        struct mc_status_reply ended;
        size_t k;

        for (k = 0; k < 500; k++) {
            (void)snprintf(names[k], sizeof(names[k]), "key-%04zu", i + k);
            keys[k] = daemon_key(names[k]);
        }
        assert_int_equal(daemon_call(&f->d, MC_METHOD_PUT_START, &start, &started), MOONCAKE_OK);
        memcpy(attempts, started.attempts, sizeof(attempts));
        assert_int_equal(daemon_call(&f->d, MC_METHOD_PUT_END, &end, &ended), MOONCAKE_OK);
    }
    assert_int_equal(daemon_http(&f->d, "GET", "/get_all_keys", &f->page), 200);
    for (at = text_of(f); *at != '\0'; at = strchr(at, '\n') + 1) {
        unsigned number;

        assert_int_equal(sscanf(at, "key-%4u\n", &number), 1);
        seen[number] = true;
        lines++;
    }
    for (i = 0; i < MC_ARRAY_LEN(seen); i++) {
        assert_true(seen[i]);
    }
    assert_true(lines >= MC_ARRAY_LEN(seen));
}

static void keys__with_line_ends_stay_on_their_line(void **state)
{
    struct fixture *f = *state;

    daemon_put(&f->d, "a\nb\\c", 1);
    assert_int_equal(daemon_http(&f->d, "GET", "/get_all_keys", &f->page), 200);
    assert_string_equal(text_of(f), "a\\x0ab\\x5cc\n");
}

static void query_key__tells_where_the_copies_are(void **state)
{
    struct fixture *f = *state;
    json_t *json, *copy;

    assert_int_equal(daemon_http(&f->d, "GET", "/query_key?key=k%2F1", &f->page), 404);
    json = json_of(f);
    assert_true(json_is_false(json_object_get(json, "success")));
    assert_int_equal(json_integer_value(json_object_get(json, "error_code")), MOONCAKE_ENOENT);
    assert_true(json_is_string(json_object_get(json, "error_message")));
    json_decref(json);
    assert_int_equal(daemon_http(&f->d, "GET", "/query_key", &f->page), 400);
    assert_int_equal(daemon_put_start(&f->d, "half", 10, NULL), MOONCAKE_OK);
    assert_int_equal(daemon_http(&f->d, "GET", "/query_key?key=half", &f->page), 404);
    daemon_put(&f->d, "k/1", 1000);
    assert_int_equal(daemon_http(&f->d, "GET", "/query_key?key=k%2F1", &f->page), 200);
    json = json_of(f);
    assert_int_equal(json_array_size(json_object_get(json, "data")), 1);
    copy = json_array_get(json_object_get(json, "data"), 0);
    assert_int_equal(json_integer_value(json_object_get(copy, "size_")), 1000);
    assert_string_equal(json_string_value(json_object_get(copy, "protocol_")), "tcp");
    assert_string_equal(json_string_value(json_object_get(copy, "transport_endpoint_")),
                        "127.0.0.1:1");
    json_decref(json);
    read_metrics(f); /* asking so granted no lease */
    assert_true(metric(f, "mooncake_master_protected_bytes{reason=\"lease\"}") == 0);
}

static void segments__are_listed_with_their_use(void **state)
{
    struct fixture *f = *state;
    json_t *json, *segment;

    daemon_put(&f->d, "k", 1000);
    assert_int_equal(daemon_http(&f->d, "GET", "/get_all_segments", &f->page), 200);
    assert_string_equal(text_of(f), "seg \"a\"\n");
    assert_int_equal(daemon_http(&f->d, "GET", "/get_segments_detail", &f->page), 200);
    json = json_of(f);
    assert_int_equal(json_integer_value(json_object_get(json, "total_segments")), 1);
    segment = json_array_get(json_object_get(json, "segments"), 0);
    assert_string_equal(json_string_value(json_object_get(segment, "segment_name")), "seg \"a\"");
    assert_int_equal(json_integer_value(json_object_get(segment, "size_bytes")), SEGMENT_LEN);
    assert_int_equal(json_integer_value(json_object_get(segment, "allocator_used_bytes")), 1088);
    assert_string_equal(json_string_value(json_object_get(segment, "status")), "ok");
    assert_string_equal(json_string_value(json_object_get(segment, "protocol")), "tcp");
    json_decref(json);
}

int main(void)
{
#define HTTP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        HTTP_TEST(health__says_that_it_serves),
        HTTP_TEST(metrics__lookups_are_hits_and_misses),
        HTTP_TEST(metrics__requests_are_counted_by_method_and_kind),
        HTTP_TEST(metrics__patterns_and_remounts_are_counted_apart),
        HTTP_TEST(metrics__gauges_follow_the_pool),
        HTTP_TEST(metrics__polling_is_counted_and_its_cost_too),
        HTTP_TEST(metrics__labels_of_a_gone_segment_go_with_it),
        HTTP_TEST(metrics__each_name_is_announced_once),
        HTTP_TEST(keys__are_listed_one_a_line),
        HTTP_TEST(keys__with_line_ends_stay_on_their_line),
        HTTP_TEST(query_key__tells_where_the_copies_are),
        HTTP_TEST(segments__are_listed_with_their_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
