/* Every admin route of a real master: shapes, refusals, and what a stuck core loop looks like. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "io/http_client.h"
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
    return daemon_mount(&f.d, "seg", 11, SEGMENT_LEN) == MOONCAKE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    mc_buf_fini(&f->page);
    return daemon_stop(&f->d, SIGTERM) == 0 ? 0 : -1;
}

static const char *get(struct fixture *f, const char *path, unsigned status)
{
    unsigned got = daemon_http(&f->d, "GET", path, &f->page);

    if (got != status) {
        fail_msg("GET %s: %u, wanted is %u: %s", path, got, status,
                 (const char *)mc_buf_bytes(&f->page));
    }
    return (const char *)mc_buf_bytes(&f->page);
}

/* The answer as JSON; the caller drops it. */
static json_t *ask(struct fixture *f, const char *method, const char *path, unsigned status)
{
    unsigned got = daemon_http(&f->d, method, path, &f->page);
    json_error_t error;
    json_t *json = json_loadb((const char *)mc_buf_bytes(&f->page), mc_buf_len(&f->page),
                              JSON_REJECT_DUPLICATES, &error);

    if (got != status || json == NULL) {
        fail_msg("%s %s: %u, wanted is %u: %s: %s", method, path, got, status, error.text,
                 (const char *)mc_buf_bytes(&f->page));
    }
    return json;
}

static const char *text_at(json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    assert_non_null(text);
    return text;
}

static json_int_t int_at(json_t *json, const char *name)
{
    assert_true(json_is_integer(json_object_get(json, name)));
    return json_integer_value(json_object_get(json, name));
}

/* ---- who it is ------------------------------------------------------------------------------- */

static void admin__says_who_it_is(void **state)
{
    struct fixture *f = *state;
    json_t *json = ask(f, "GET", "/health", 200);
    char port[8];

    assert_string_equal(text_at(json, "status"), "ok");
    assert_string_equal(text_at(json, "role"), "leader");
    assert_string_equal(text_at(json, "ha_state"), "standalone");
    assert_true(json_is_true(json_object_get(json, "service_ready")));
    json_decref(json);
    assert_string_equal(get(f, "/role", 200), "leader\n");
    assert_string_equal(get(f, "/ha_status", 200), "standalone\n");
    json = ask(f, "GET", "/leader", 200);
    assert_true(json_is_true(json_object_get(json, "present")));
    (void)snprintf(port, sizeof(port), ":%u", f->d.rpc_port);
    assert_non_null(strstr(text_at(json, "leader_address"), port));
    json_decref(json);
    json = ask(f, "GET", "/kv_events/status", 200);
    assert_true(json_is_false(json_object_get(json, "enabled")));
    assert_int_equal(int_at(json, "published_batches"), 0);
    json_decref(json);
    assert_string_equal(get(f, "/live", 200), "{\"live\":true}\n");
    assert_string_equal(get(f, "/ready", 200), "{\"ready\":true}\n");
}

static void admin__root_lists_every_route(void **state)
{
    static const char *const lines[] = {
        "GET    /metrics ",
        "GET    /metrics/summary ",
        "GET    /health ",
        "GET    /role ",
        "GET    /ha_status ",
        "GET    /leader ",
        "GET    /kv_events/status ",
        "GET    /query_key?key=KEY ",
        "GET    /batch_query_keys?keys=A,B,C ",
        "GET    /get_all_keys ",
        "GET    /get_all_segments ",
        "GET    /get_segments_detail ",
        "GET    /get_clients_detail ",
        "GET    /query_segment?segment=NAME ",
        "GET    /ui ",
        "GET    /ui/app.js ",
        "GET    /ui/chart.js ",
        "GET    /ui/history ",
        "GET    /ui/style.css ",
        "POST   /api/v1/drain_jobs ",
        "GET    /api/v1/drain_jobs/query?job_id=ID ",
        "POST   /api/v1/drain_jobs/cancel?job_id=ID ",
        "GET    /api/v1/segments/status?segment=NAME ",
        "GET    /api/v1/tenant_quotas?[tenant_id=ID] ",
        "PUT    /api/v1/tenant_quotas?tenant_id=ID ",
        "DELETE /api/v1/tenant_quotas?tenant_id=ID ",
        "POST   /api/v1/remove_all?[force=true][&tenant_id=default] ",
        "GET    /live ",
        "GET    /ready ",
    };
    const char *page = get(*state, "/", 200);

    for (size_t i = 0; i < MC_ARRAY_LEN(lines); i++) {
        if (strstr(page, lines[i]) == NULL) {
            fail_msg("not listed: %s", lines[i]);
        }
    }
}

/* ---- a core loop that does not turn ---------------------------------------------------------- */

/* The core loop is the first thread of the process; a tracer can stop it and leave the others be.
 */
static bool stop_core_thread(pid_t pid)
{
    int status;

    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0) {
        print_message("SKIPPED: no ptrace here: %s\n", strerror(errno));
        return false;
    }
    assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    assert_true(WIFSTOPPED(status));
    return true;
}

static void admin__stuck_core_loop_turns_ready_red_and_leaves_live_green(void **state)
{
    struct fixture *f = *state;
    uint64_t start_ns = mc_monotonic_ns();
    unsigned ready;

    if (!stop_core_thread(f->d.pid)) {
        skip();
    }
    ready = daemon_http(&f->d, "GET", "/ready", &f->page);
    assert_int_equal(daemon_http(&f->d, "GET", "/live", &f->page), 200);
    assert_int_equal(ptrace(PTRACE_DETACH, f->d.pid, NULL, NULL), 0);
    assert_int_equal(ready, 503);
    /* 2 s by itself; a busy machine may add some */
    assert_true(mc_monotonic_ns() - start_ns < 10 * MC_NS_PER_S);
    (void)get(f, "/ready", 200);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void admin__batch_of_keys_tells_of_each(void **state)
{
    struct fixture *f = *state;
    json_t *json, *data, *values;
    char path[4000] = "/batch_query_keys?keys=";

    daemon_put(&f->d, "here", 1000);
    daemon_put(&f->d, "\xff\\", 5);
    assert_int_equal(daemon_put_start(&f->d, "half", 10, NULL), MOONCAKE_OK);
    json = ask(f, "GET", "/batch_query_keys?keys=here,absent,half,,%ff%5c", 200);
    assert_true(json_is_true(json_object_get(json, "success")));
    data = json_object_get(json, "data");
    assert_int_equal(json_object_size(data), 5);
    assert_true(json_is_true(json_object_get(json_object_get(data, "here"), "ok")));
    values = json_object_get(json_object_get(data, "here"), "values");
    assert_int_equal(json_array_size(values), 1);
    assert_int_equal(int_at(json_array_get(values, 0), "size_"), 1000);
    assert_string_equal(text_at(json_array_get(values, 0), "protocol_"), "tcp");
    assert_true(json_is_false(json_object_get(json_object_get(data, "absent"), "ok")));
    assert_string_equal(text_at(json_object_get(data, "absent"), "error"), "no such object");
    assert_true(json_is_false(json_object_get(json_object_get(data, "half"), "ok")));
    assert_true(json_is_false(json_object_get(json_object_get(data, ""), "ok")));
    assert_true(json_is_true(json_object_get(json_object_get(data, "\\xff\\x5c"), "ok")));
    json_decref(json);

    for (int i = 0; i < 500; i++) { /* several parts */
        (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "k%d,", i);
    }
    (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "here");
    json = ask(f, "GET", path, 200);
    assert_int_equal(json_object_size(json_object_get(json, "data")), 501);
    json_decref(json);

    json = ask(f, "GET", "/batch_query_keys", 400);
    assert_int_equal(int_at(json, "error_code"), MOONCAKE_EINVAL);
    json_decref(json);
    (void)get(f, "/metrics", 200); /* no lease was granted */
    assert_true(daemon_metric(&f->page, "mooncake_master_protected_bytes{reason=\"lease\"}") == 0);
}

static void admin__keys_of_another_tenant_are_none(void **state)
{
    struct fixture *f = *state;
    json_t *json = ask(f, "GET", "/get_all_keys?tenant_id=other", 404);

    assert_int_equal(int_at(json, "error_code"), MOONCAKE_ENOTENANT);
    json_decref(json);
    daemon_put(&f->d, "k", 1);
    assert_string_equal(get(f, "/get_all_keys?tenant_id=default", 200), "k\n");
}

static void admin__remove_all_counts_and_respects_leases(void **state)
{
    struct fixture *f = *state;
    json_t *json;

    daemon_put(&f->d, "a", 1);
    daemon_put(&f->d, "b", 1);
    daemon_put(&f->d, "c", 1);
    assert_int_equal(daemon_exist(&f->d, "a"), MOONCAKE_OK); /* a lease */
    json = ask(f, "POST", "/api/v1/remove_all?force=perhaps", 400);
    assert_int_equal(int_at(json, "error_code"), MOONCAKE_EINVAL);
    json_decref(json);
    json = ask(f, "POST", "/api/v1/remove_all?tenant_id=other", 404);
    json_decref(json);
    json = ask(f, "POST", "/api/v1/remove_all", 200);
    assert_true(json_is_true(json_object_get(json, "success")));
    assert_int_equal(int_at(json, "removed_count"), 2);
    assert_int_equal(int_at(json, "left_leased"), 1);
    json_decref(json);
    assert_string_equal(get(f, "/get_all_keys", 200), "a\n");
    json = ask(f, "POST", "/api/v1/remove_all?force=true", 200);
    assert_int_equal(int_at(json, "removed_count"), 1);
    json_decref(json);
    (void)get(f, "/get_all_keys", 200);
    assert_int_equal(mc_buf_len(&f->page), 0);
}

/* ---- segments -------------------------------------------------------------------------------- */

static void admin__segment_is_told_by_name(void **state)
{
    struct fixture *f = *state;
    json_t *json;

    daemon_put(&f->d, "k", 1000);
    assert_string_equal(get(f, "/query_segment?segment=seg", 200),
                        "seg\nUsed(bytes): 1088\nCapacity(bytes): 1048576\n");
    json = ask(f, "GET", "/query_segment?segment=nowhere", 404);
    assert_int_equal(int_at(json, "error_code"), MOONCAKE_ENOSEGMENT);
    assert_non_null(strstr(text_at(json, "error_message"), "nowhere"));
    json_decref(json);
    json = ask(f, "GET", "/query_segment", 400);
    json_decref(json);

    json = ask(f, "GET", "/api/v1/segments/status?segment=seg", 200);
    assert_true(json_is_true(json_object_get(json, "success")));
    assert_string_equal(text_at(json, "segment"), "seg");
    assert_int_equal(int_at(json, "status"), MC_SEGMENT_OK);
    assert_string_equal(text_at(json, "status_name"), "ok");
    assert_int_equal(int_at(json, "error_code"), 0);
    assert_string_equal(text_at(json, "error_message"), "");
    json_decref(json);
    json = ask(f, "GET", "/api/v1/segments/status?segment=nowhere", 404);
    json_decref(json);
}

static void admin__many_segments_are_listed_whole(void **state)
{
    struct fixture *f = *state;
    json_t *json, *segments;

    for (uint64_t i = 0; i < 200; i++) { /* several parts */
        char name[32];

        (void)snprintf(name, sizeof(name), "more-%u", (unsigned)i);
        assert_int_equal(daemon_mount(&f->d, name, 100 + i, SEGMENT_LEN), MOONCAKE_OK);
    }
    json = ask(f, "GET", "/get_segments_detail", 200);
    assert_int_equal(int_at(json, "total_segments"), 201);
    segments = json_object_get(json, "segments");
    assert_int_equal(json_array_size(segments), 201);
    assert_string_equal(text_at(json_array_get(segments, 200), "segment_name"), "more-199");
    json_decref(json);
    (void)get(f, "/metrics", 200); /* each once, also here */
    for (uint64_t i = 0; i < 200; i++) {
        char name[80];

        (void)snprintf(name, sizeof(name),
                       "mooncake_master_segment_used_ratio{segment=\"more-%u\"}", (unsigned)i);
        assert_true(daemon_metric(&f->page, name) == 0);
    }
}

static void admin__clients_are_listed_whole(void **state)
{
    struct fixture *f = *state;
    size_t found = 0;
    json_t *json, *clients;

    for (uint64_t i = 1; i <= 130; i++) { /* more than one part of the answer */
        const struct mc_ping_request ping = {
            .client_id = i, .role = MC_ROLE_CLIENT, .host = "<b>h</b>", .program = "p 1.0"};
        struct mc_ping_reply reply;

        assert_int_equal(daemon_call(&f->d, MC_METHOD_PING, &ping, &reply), MOONCAKE_OK);
    }
    json = ask(f, "GET", "/get_clients_detail", 200);
    clients = json_object_get(json, "clients");
    assert_int_equal(json_array_size(clients), int_at(json, "total_clients"));
    assert_true(json_array_size(clients) >= 130);
    for (size_t i = 0; i < json_array_size(clients); i++) {
        json_t *client = json_array_get(clients, i);

        assert_int_equal(strlen(text_at(client, "client_id")), 16);
        assert_true(int_at(client, "ping_age_ms") < 60000);
        if (strcmp(text_at(client, "host"), "<b>h</b>") == 0) {
            assert_string_equal(text_at(client, "role"), "client");
            assert_string_equal(text_at(client, "program"), "p 1.0");
            assert_int_equal(int_at(client, "segments"), 0);
            found++;
        }
    }
    assert_int_equal(found, 130);
    json_decref(json);
}

static void admin__the_page_begins_with_history(void **state)
{
    json_t *json = ask(*state, "GET", "/ui/history", 200);

    assert_true(json_array_size(json_object_get(json, "samples")) >= 1);
    json_decref(json);
    assert_non_null(strstr(get(*state, "/ui", 200), "<title>Mooncake pool</title>"));
    assert_non_null(strstr(get(*state, "/ui/app.js", 200), "textContent"));
}

/* ---- drain jobs ------------------------------------------------------------------------------ */

/* POST /api/v1/drain_jobs with this body. */
static json_t *post_job(struct fixture *f, const char *body, unsigned status)
{
    struct http_answer answer;
    char request[2000];
    json_error_t error;
    json_t *json;
    int len = snprintf(request, sizeof(request),
                       "POST /api/v1/drain_jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       strlen(body), body);

    answer = http_exchange(f->d.metrics_port, request, (size_t)len);
    if (answer.status != (int)status) {
        fail_msg("%s: %d, wanted is %u: %s", body, answer.status, status, answer.text);
    }
    json = json_loads(strstr(answer.text, "\r\n\r\n"), 0, &error);
    assert_non_null(json);
    free(answer.text);
    return json;
}

static json_t *query_job(struct fixture *f, const char *how, const char *id, unsigned status)
{
    char path[120];

    (void)snprintf(path, sizeof(path), "/api/v1/drain_jobs/%s?job_id=%s", how, id);
    return ask(f, strcmp(how, "query") == 0 ? "GET" : "POST", path, status);
}

static void admin__a_drain_job_waits_for_readers_and_is_cancelled(void **state)
{
    struct fixture *f = *state;
    char id[64];
    json_t *json;

    assert_int_equal(daemon_mount(&f->d, "drained", 77, SEGMENT_LEN), MOONCAKE_OK);
    json = post_job(f, "{\"segments\": [\"drained\"], \"max_concurrency\": 4}", 200);
    assert_true(json_is_true(json_object_get(json, "success")));
    assert_string_equal(text_at(json, "status_name"), "SUCCEEDED"); /* nobody uses it */
    (void)snprintf(id, sizeof(id), "%s", text_at(json, "job_id"));
    json_decref(json);
    json = ask(f, "GET", "/api/v1/segments/status?segment=drained", 200);
    assert_string_equal(text_at(json, "status_name"), "draining");
    json_decref(json);
    json = query_job(f, "query", id, 200);
    assert_int_equal(int_at(json, "succeeded_units"), 1);
    assert_int_equal(int_at(json, "active_units"), 0);
    assert_int_equal(int_at(json, "migrated_bytes"), 0);
    assert_true(int_at(json, "created_at_ms_epoch") > 1600000000000);
    assert_string_equal(json_string_value(json_array_get(json_object_get(json, "segments"), 0)),
                        "drained");
    json_decref(json);
    json = query_job(f, "cancel", id, 200);
    assert_string_equal(text_at(json, "status_name"), "CANCELED");
    json_decref(json);
    json = ask(f, "GET", "/api/v1/segments/status?segment=drained", 200);
    assert_string_equal(text_at(json, "status_name"), "ok");
    json_decref(json);
    json_decref(query_job(f, "cancel", id, 409));
}

static void admin__a_drain_job_is_running_while_somebody_reads(void **state)
{
    struct fixture *f = *state;
    char id[64];
    json_t *json;

    daemon_put(&f->d, "read just now", 1000);
    assert_int_equal(daemon_exist(&f->d, "read just now"), MOONCAKE_OK); /* a lease of 10 s */
    json = post_job(f, "{\"segments\": [\"seg\"], \"target_segments\": []}", 200);
    assert_string_equal(text_at(json, "status_name"), "RUNNING");
    (void)snprintf(id, sizeof(id), "%s", text_at(json, "job_id"));
    json_decref(json);
    json = query_job(f, "query", id, 200);
    assert_int_equal(int_at(json, "active_units"), 1);
    assert_true(int_at(json, "bytes_in_use") >= 1000);
    json_decref(json);
    json_decref(query_job(f, "cancel", id, 200));
}

static void admin__drain_jobs_that_cannot_be_are_refused(void **state)
{
    static const struct {
        const char *body;
        unsigned status;
    } wrong[] = {
        {"", 400},
        {"[]", 400},
        {"{}", 400},
        {"{\"segments\": []}", 400},
        {"{\"segments\": [5]}", 400},
        {"{\"segments\": [\"seg\"], \"max_concurrency\": 0}", 400},
        {"{\"segments\": [\"seg\", \"not there\"]}", 404},
        {"{\"segments\": [\"seg\"], \"target_segments\": [\"x\"]}", 501},
    };
    struct fixture *f = *state;
    json_t *json;

    for (size_t i = 0; i < MC_ARRAY_LEN(wrong); i++) {
        json_decref(post_job(f, wrong[i].body, wrong[i].status));
    }
    json = ask(f, "GET", "/api/v1/segments/status?segment=seg", 200);
    assert_string_equal(text_at(json, "status_name"), "ok"); /* none of them began */
    json_decref(json);
    json = query_job(f, "query", "nobody", 404);
    assert_int_equal(int_at(json, "error_code"), -1402);
    json_decref(json);
    json_decref(query_job(f, "cancel", "nobody", 404));
    json_decref(ask(f, "GET", "/api/v1/drain_jobs/query", 400));
}

/* ---- what there is not, and nonsense --------------------------------------------------------- */

static void admin__what_does_not_exist_answers_501_with_a_sentence(void **state)
{
    static const struct {
        const char *method, *path, *part;
    } absent[] = {
        {"GET", "/api/v1/tenant_quotas", "tenants"},
        {"PUT", "/api/v1/tenant_quotas?tenant_id=x", "tenants"},
        {"DELETE", "/api/v1/tenant_quotas?tenant_id=x", "tenants"},
    };

    for (size_t i = 0; i < MC_ARRAY_LEN(absent); i++) {
        json_t *json = ask(*state, absent[i].method, absent[i].path, 501);

        assert_true(json_is_false(json_object_get(json, "success")));
        assert_int_equal(int_at(json, "error_code"), MOONCAKE_ENOTSUP);
        assert_non_null(strstr(text_at(json, "error_message"), absent[i].part));
        json_decref(json);
    }
}

static void admin__nonsense_is_refused_by_kind(void **state)
{
    static const char head[] =
        "PUT /api/v1/tenant_quotas HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        "Content-Length: 2000000\r\n\r\n";
    struct fixture *f = *state;
    size_t len = sizeof(head) - 1 + 2000000;
    char *large = malloc(len);
    struct http_answer answer;
    char path[5000] = "/query_key?key=";
    json_t *json;

    json = ask(f, "GET", "/no_such_page", 404);
    json_decref(json);
    json = ask(f, "POST", "/metrics", 405);
    json_decref(json);
    json = ask(f, "GET", "/api/v1/remove_all", 405); /* asking must never remove */
    json_decref(json);
    json = ask(f, "GET", "/query_key?key=a%00b", 400);
    json_decref(json);
    memset(path + strlen(path), 'k', 4500);
    json = ask(f, "GET", path, 400);
    assert_int_equal(int_at(json, "error_code"), MOONCAKE_EBADKEY);
    json_decref(json);
    assert_non_null(large);
    memset(large, 'x', len);
    memcpy(large, head, sizeof(head) - 1);
    answer = http_exchange(f->d.metrics_port, large, len);
    assert_int_equal(answer.status, 413);
    free(answer.text);
    free(large);
}

int main(void)
{
#define ADMIN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ADMIN_TEST(admin__says_who_it_is),
        ADMIN_TEST(admin__root_lists_every_route),
        ADMIN_TEST(admin__stuck_core_loop_turns_ready_red_and_leaves_live_green),
        ADMIN_TEST(admin__batch_of_keys_tells_of_each),
        ADMIN_TEST(admin__keys_of_another_tenant_are_none),
        ADMIN_TEST(admin__remove_all_counts_and_respects_leases),
        ADMIN_TEST(admin__segment_is_told_by_name),
        ADMIN_TEST(admin__many_segments_are_listed_whole),
        ADMIN_TEST(admin__clients_are_listed_whole),
        ADMIN_TEST(admin__the_page_begins_with_history),
        ADMIN_TEST(admin__a_drain_job_waits_for_readers_and_is_cancelled),
        ADMIN_TEST(admin__a_drain_job_is_running_while_somebody_reads),
        ADMIN_TEST(admin__drain_jobs_that_cannot_be_are_refused),
        ADMIN_TEST(admin__what_does_not_exist_answers_501_with_a_sentence),
        ADMIN_TEST(admin__nonsense_is_refused_by_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
