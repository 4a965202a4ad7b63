/* The typed calls, over a fake rpc_client that hands requests to the test and answers on demand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "wire/master_stub.h"

/* ---- the fake -------------------------------------------------------------------------------- */

struct mc_rpc_client {
    struct mc_rpc_client_options options;
    struct mc_rpc_call *call; /* the one under way */
    uint16_t method;
    struct mc_buf body; /* of the last call */
};

static struct mc_rpc_client fake;
static mooncake_err fake_start_err;

mooncake_err mc_rpc_client_create(struct mc_loop *loop, const char *address,
                                  const struct mc_rpc_client_options *options,
                                  struct mc_rpc_client **out)
{
    (void)loop;
    if (strcmp(address, "bad") == 0) {
        return MOONCAKE_EINVAL;
    }
    fake.options = *options;
    *out = &fake;
    return MOONCAKE_OK;
}

void mc_rpc_client_destroy(struct mc_rpc_client **client)
{
    mc_buf_fini(&fake.body);
    *client = NULL;
}

const char *mc_rpc_client_address(const struct mc_rpc_client *client)
{
    (void)client;
    return "10.0.0.7:50051";
}

mooncake_err mc_rpc_call_start(struct mc_rpc_client *client, struct mc_rpc_call *call,
                               uint16_t method, const void *body, size_t body_len)
{
    if (fake_start_err != MOONCAKE_OK) {
        return fake_start_err;
    }
    client->call = call;
    client->method = method;
    mc_buf_clear(&client->body, 0);
    assert_int_equal(mc_buf_append(&client->body, body, body_len), MOONCAKE_OK);
    return MOONCAKE_OK;
}

void mc_rpc_call_cancel(struct mc_rpc_client *client, struct mc_rpc_call *call)
{
    assert_ptr_equal(client->call, call);
    client->call = NULL;
}

/* Answer the call under way with @p reply of @p method. */
static void answer(enum mc_method method, const void *reply)
{
    struct mc_buf body;

    mc_buf_init(&body);
    assert_int_equal(mc_method_codec(method)->encode_reply(reply, &body), MOONCAKE_OK);
    fake.call->done(fake.call, MOONCAKE_OK, mc_buf_bytes(&body), mc_buf_len(&body));
    mc_buf_fini(&body);
}

/* ---- a call ---------------------------------------------------------------------------------- */

struct seen {
    unsigned times;
    mooncake_err err;
    char sentence[512];
};

static void on_done(struct mc_master_call *call, mooncake_err err)
{
    struct seen *seen = call->arg;

    seen->times++;
    seen->err = err;
    (void)snprintf(seen->sentence, sizeof(seen->sentence), "%s", mooncake_last_error());
}

static const struct mc_key keys[] = {{"a", 1}, {"b", 1}};
static const struct mc_keys_request two_keys = {.client_id = 9, .keys = keys, .count = 2};

struct fixture {
    struct mc_arena arena;
    struct mc_master_call call;
    struct seen seen;
};

static int set_up(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    fake_start_err = MOONCAKE_OK;
    mc_buf_init(&fake.body);
    mc_arena_init(&f.arena, 0);
    mc_master_call_init(&f.call, &f.arena, 123, on_done, &f.seen);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    mc_arena_fini(&f->arena);
    mc_buf_fini(&fake.body);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

static void stub__a_call_sends_the_request_and_fills_the_reply(void **state)
{
    struct fixture *f = *state;
    mooncake_err statuses[] = {MOONCAKE_OK, MOONCAKE_ENOENT};
    const struct mc_exist_reply sent = {.statuses = statuses, .count = 2, .lease_ms = 10000};
    struct mc_exist_reply reply;
    struct mc_keys_request read;

    assert_int_equal(mc_master_call_start(&fake, &f->call, MC_METHOD_EXIST, &two_keys, &reply),
                     MOONCAKE_OK);
    assert_int_equal(fake.method, MC_METHOD_EXIST);
    assert_int_equal(fake.call->deadline_ns, 123);
    assert_int_equal(
        mc_method_codec(MC_METHOD_EXIST)
            ->decode_request(mc_buf_bytes(&fake.body), mc_buf_len(&fake.body), &f->arena, &read),
        MOONCAKE_OK);
    assert_int_equal(read.client_id, 9);
    assert_int_equal(read.count, 2);
    assert_int_equal(f->seen.times, 0);
    answer(MC_METHOD_EXIST, &sent);
    assert_int_equal(f->seen.times, 1);
    assert_int_equal(f->seen.err, MOONCAKE_OK);
    assert_int_equal(reply.count, 2);
    assert_int_equal(reply.statuses[1], MOONCAKE_ENOENT);
    assert_int_equal(reply.lease_ms, 10000);
}

static void stub__an_answer_with_another_count_is_no_answer(void **state)
{
    struct fixture *f = *state;
    mooncake_err statuses[] = {MOONCAKE_OK};
    const struct mc_exist_reply sent = {.statuses = statuses, .count = 1};
    struct mc_exist_reply reply;

    assert_int_equal(mc_master_call_start(&fake, &f->call, MC_METHOD_EXIST, &two_keys, &reply),
                     MOONCAKE_OK);
    answer(MC_METHOD_EXIST, &sent);
    assert_int_equal(f->seen.err, MOONCAKE_ERPC);
    assert_non_null(strstr(f->seen.sentence, "1 of 2 items of exist"));
}

/* The count of each batch method is taken from the right place of its request and reply. */
static void stub__every_batch_method_compares_its_counts(void **state)
{
    struct fixture *f = *state;
    mooncake_err statuses[] = {MOONCAKE_OK, MOONCAKE_OK};
    uint64_t numbers[] = {1, 2};
    struct mc_object_info objects[2] = {{.value_len = 0}, {.value_len = 0}};
    const struct mc_mount_item mounts[2] = {{.name = "a"}, {.name = "b"}};
    const struct mc_report_item reports[2] = {{.mount_id = 1}, {.mount_id = 2}};
    const struct mc_put_start_request start = {
        .keys = keys, .value_lens = numbers, .count = 2, .replicas = 1};
    const struct mc_put_end_request end = {.keys = keys, .attempts = numbers, .count = 2};
    const struct mc_mount_request mount = {.items = mounts, .count = 2};
    const struct mc_unmount_request unmount = {.mount_ids = numbers, .count = 2};
    const struct mc_report_request report = {.items = reports, .count = 2};
    struct mc_put_start_reply started = {
        .statuses = statuses, .attempts = numbers, .table = {.objects = objects}};
    struct mc_query_reply found = {.statuses = statuses, .table = {.objects = objects}};
    struct mc_exist_reply exists = {.statuses = statuses};
    const struct mc_renew_request renew = {
        .keys = keys, .attempts = numbers, .mount_ids = numbers, .count = 2};
    struct mc_renew_reply renewed = {.statuses = statuses};
    struct mc_status_reply status = {.statuses = statuses};
    const struct {
        enum mc_method method;
        const void *request;
        const void *reply;
        size_t *count;
    } batches[] = {
        {MC_METHOD_PUT_START, &start, &started, &started.table.count},
        {MC_METHOD_PUT_END, &end, &status, &status.count},
        {MC_METHOD_PUT_REVOKE, &end, &status, &status.count},
        {MC_METHOD_QUERY, &two_keys, &found, &found.table.count},
        {MC_METHOD_EXIST, &two_keys, &exists, &exists.count},
        {MC_METHOD_RENEW, &renew, &renewed, &renewed.count},
        {MC_METHOD_REMOVE, &two_keys, &status, &status.count},
        {MC_METHOD_REPORT, &report, &status, &status.count},
        {MC_METHOD_MOUNT, &mount, &status, &status.count},
        {MC_METHOD_UNMOUNT, &unmount, &status, &status.count},
    };
    size_t i, count;

    for (i = 0; i < MC_ARRAY_LEN(batches); i++) {
        for (count = 1; count <= 2; count++) {
            union {
                struct mc_put_start_reply started;
                struct mc_status_reply status;
                struct mc_query_reply found;
                struct mc_exist_reply exists;
                struct mc_renew_reply renewed;
            } room;

            *batches[i].count = count;
            assert_int_equal(
                mc_master_call_start(&fake, &f->call, batches[i].method, batches[i].request, &room),
                MOONCAKE_OK);
            answer(batches[i].method, batches[i].reply);
            assert_int_equal(f->seen.err, count == 2 ? MOONCAKE_OK : MOONCAKE_ERPC);
        }
    }
}

static void stub__an_answer_that_cannot_be_read_says_why(void **state)
{
    struct fixture *f = *state;
    struct mc_exist_reply reply;
    const uint8_t torn[] = {0x0a, 0x05, 0x00};

    assert_int_equal(mc_master_call_start(&fake, &f->call, MC_METHOD_EXIST, &two_keys, &reply),
                     MOONCAKE_OK);
    fake.call->done(fake.call, MOONCAKE_OK, torn, sizeof(torn));
    assert_int_equal(f->seen.err, MOONCAKE_ERPC);
    assert_non_null(strstr(f->seen.sentence, "exist"));
    assert_non_null(strstr(f->seen.sentence, "truncated"));
}

static void stub__errors_of_the_connection_pass_through(void **state)
{
    struct fixture *f = *state;
    struct mc_exist_reply reply;

    assert_int_equal(mc_master_call_start(&fake, &f->call, MC_METHOD_EXIST, &two_keys, &reply),
                     MOONCAKE_OK);
    fake.call->done(fake.call, MOONCAKE_ETIMEDOUT, NULL, 0);
    assert_int_equal(f->seen.times, 1);
    assert_int_equal(f->seen.err, MOONCAKE_ETIMEDOUT);
    fake_start_err = MOONCAKE_ETASKQUEUE;
    assert_int_equal(mc_master_call_start(&fake, &f->call, MC_METHOD_EXIST, &two_keys, &reply),
                     MOONCAKE_ETASKQUEUE);
    assert_int_equal(f->seen.times, 1);
}

static void stub__a_request_that_cannot_be_encoded_sends_nothing(void **state)
{
    struct fixture *f = *state;
    const struct mc_ping_request ping = {.role = 77};
    struct mc_ping_reply reply;

    fake.call = NULL;
    assert_int_equal(mc_master_call_start(&fake, &f->call, MC_METHOD_PING, &ping, &reply),
                     MOONCAKE_EINVAL);
    assert_null(fake.call);
}

/* ---- the connection -------------------------------------------------------------------------- */

static void note_state(void *arg, bool up)
{
    *(bool *)arg = up;
}

static mooncake_err say_hello(const struct mc_hello_reply *reply)
{
    struct mc_buf body;
    mooncake_err err;

    mc_buf_init(&body);
    assert_int_equal(mc_method_codec(MC_METHOD_HELLO)->encode_reply(reply, &body), MOONCAKE_OK);
    err = fake.options.on_hello(fake.options.arg, mc_buf_bytes(&body), mc_buf_len(&body));
    mc_buf_fini(&body);
    return err;
}

static void stub__hello_tells_who_we_are_and_who_the_master_is(void **state)
{
    struct fixture *f = *state;
    bool up = false;
    const struct mc_master_stub_options options = {.address = "10.0.0.7:50051",
                                                   .program = "test 1.2",
                                                   .client_id = 42,
                                                   .connect_timeout_ms = 700,
                                                   .on_state = note_state,
                                                   .arg = &up};
    struct mc_hello_reply reply = {
        .protocol = 1, .program = "mooncake_master 0.1.0", .master_epoch = 77};
    struct mc_master_stub stub;
    struct mc_hello hello;

    assert_int_equal(mc_master_stub_open(NULL, &options, &stub), MOONCAKE_OK);
    assert_int_equal(fake.options.hello_method, MC_METHOD_HELLO);
    assert_int_equal(fake.options.connect_timeout_ms, 700);
    assert_int_equal(mc_method_codec(MC_METHOD_HELLO)
                         ->decode_request(fake.options.hello_body, fake.options.hello_body_len,
                                          &f->arena, &hello),
                     MOONCAKE_OK);
    assert_string_equal(hello.program, "test 1.2");
    assert_int_equal(hello.client_id, 42);
    assert_int_equal(hello.protocol_min, 1);

    reply.protocol = 2;
    assert_int_equal(say_hello(&reply), MOONCAKE_ERPC);
    assert_non_null(strstr(mooncake_last_error(), "mooncake_master 0.1.0 at 10.0.0.7:50051"));
    assert_non_null(strstr(mooncake_last_error(), "protocol 2"));
    assert_int_equal(stub.master_epoch, 0);
    reply.protocol = 1;
    assert_int_equal(say_hello(&reply), MOONCAKE_OK);
    assert_int_equal(stub.master_epoch, 77);
    assert_string_equal(stub.master_program, "mooncake_master 0.1.0");
    fake.options.on_state(fake.options.arg, true);
    assert_true(up);
    mc_master_stub_close(&stub);
    assert_null(stub.rpc);
}

static void stub__open_that_fails_leaves_nothing_behind(void **state)
{
    const struct mc_master_stub_options options = {.address = "bad", .program = "test 1.2"};
    struct mc_master_stub stub;

    (void)state;
    assert_int_equal(mc_master_stub_open(NULL, &options, &stub), MOONCAKE_EINVAL);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void stub__master_address_without_a_port_gets_the_usual_one(void **state)
{
    static const char *const good[][2] = {
        {"kv1", "kv1:50051"},           {"kv1:7", "kv1:7"},
        {"[::1]", "[::1]:50051"},       {"[::1]:7", "[::1]:7"},
        {"10.0.0.1", "10.0.0.1:50051"},
    };
    static const char *const bad[] = {"", ":50051", "kv1:", "kv1:70000", "::1:7", "http://kv1:7"};
    char address[MC_MASTER_ADDRESS_CAP];

    (void)state;
    for (size_t i = 0; i < MC_ARRAY_LEN(good); i++) {
        assert_int_equal(mc_master_address(good[i][0], address), MOONCAKE_OK);
        assert_string_equal(address, good[i][1]);
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(bad); i++) {
        assert_int_equal(mc_master_address(bad[i], address), MOONCAKE_EINVAL);
        assert_non_null(strstr(mooncake_last_error(), "master: "));
    }
}

int main(void)
{
#define STUB_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stub__master_address_without_a_port_gets_the_usual_one),
        STUB_TEST(stub__an_answer_with_another_count_is_no_answer),
        STUB_TEST(stub__every_batch_method_compares_its_counts),
        STUB_TEST(stub__an_answer_that_cannot_be_read_says_why),
        STUB_TEST(stub__errors_of_the_connection_pass_through),
        STUB_TEST(stub__a_request_that_cannot_be_encoded_sends_nothing),
        STUB_TEST(stub__a_call_sends_the_request_and_fills_the_reply),
        STUB_TEST(stub__hello_tells_who_we_are_and_who_the_master_is),
        STUB_TEST(stub__open_that_fails_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
