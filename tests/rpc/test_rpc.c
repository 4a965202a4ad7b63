/* Client and server over real sockets: what a call sees. */
#include "rpc/rpc_fixture.h"

#include <string.h>

#include "base/limits.h"

static void rpc__reply_carries_the_body_of_the_request(void **state)
{
    struct fixture f;
    struct call call;

    (void)state;
    fixture_init(&f);
    call_init(&call, 5000);
    call_start(&f, &call, FIXTURE_ECHO, "abc", 3);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_OK);
    assert_int_equal(call.body_len, 3);
    assert_memory_equal(call.body, "abc", 3);
    assert_true(mc_rpc_client_is_up(f.client));
    call_fini(&call);
    fixture_fini(&f);
}

static void rpc__status_and_sentence_of_the_server_reach_the_caller(void **state)
{
    struct fixture f;
    struct call call;

    (void)state;
    fixture_init(&f);
    call_init(&call, 5000);
    call_start(&f, &call, FIXTURE_FAIL, NULL, 0);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_ENOENT);
    assert_string_equal(call.sentence, "no key \"k\" here");
    fixture_fini(&f);
}

static void rpc__answers_may_come_in_any_order(void **state)
{
    struct fixture f;
    struct call calls[8];

    (void)state;
    fixture_init(&f);
    for (size_t i = 0; i < MC_ARRAY_LEN(calls); i++) {
        call_init(&calls[i], 5000);
        call_start(&f, &calls[i], FIXTURE_KEEP, NULL, 0);
    }
    RUN_UNTIL(&f, f.kept_count == MC_ARRAY_LEN(calls));
    for (size_t i = MC_ARRAY_LEN(calls); i-- > 0;) {
        uint8_t body = (uint8_t)i;

        mc_rpc_reply(f.kept[i], MOONCAKE_OK, &body, 1);
        run_until(&f, &calls[i].done);
        assert_int_equal(calls[i].body[0], i);
        assert_true(i == 0 || !calls[i - 1].done);
        call_fini(&calls[i]);
    }
    fixture_fini(&f);
}

static void rpc__refused_connection_names_address_and_cure_at_once(void **state)
{
    struct fixture f;
    struct call call;

    (void)state;
    fixture_init(&f);
    mc_rpc_server_close(&f.server);
    call_init(&call, 10000);
    call_start(&f, &call, FIXTURE_ECHO, "abc", 3);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_ERPC);
    assert_false(call.rpc.maybe_executed);
    assert_non_null(strstr(call.sentence, f.address));
    assert_non_null(strstr(call.sentence, "refused"));
    assert_non_null(strstr(call.sentence, "--master"));
    fixture_fini(&f);
}

static void rpc__greatest_body_goes_both_ways_and_one_byte_more_is_refused(void **state)
{
    struct fixture f;
    struct call call;
    uint8_t *body;

    (void)state;
    fixture_init(&f);
    body = mc_malloc(MC_RPC_BODY_LEN_MAX + 1);
    assert_non_null(body);
    for (size_t i = 0; i < MC_RPC_BODY_LEN_MAX; i++) {
        body[i] = (uint8_t)(i * 7 + i / 65536);
    }
    call_init(&call, 60000); /* 64 MiB each way, on a machine that has other work */
    assert_int_equal(
        mc_rpc_call_start(f.client, &call.rpc, FIXTURE_ECHO, body, MC_RPC_BODY_LEN_MAX + 1),
        MOONCAKE_EINVAL);
    call_start(&f, &call, FIXTURE_ECHO, body, MC_RPC_BODY_LEN_MAX);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_OK);
    assert_int_equal(call.body_len, MC_RPC_BODY_LEN_MAX);
    assert_memory_equal(call.body, body, MC_RPC_BODY_LEN_MAX);
    call_fini(&call);
    mc_free(body);
    fixture_fini(&f);
}

static void rpc__reply_above_the_limit_becomes_an_error(void **state)
{
    static const uint32_t len = MC_RPC_BODY_LEN_MAX + 1;
    struct fixture f;
    struct call call;

    (void)state;
    fixture_init(&f);
    call_init(&call, 60000); /* 64 MiB each way, on a machine that has other work */
    call_start(&f, &call, FIXTURE_GROW, &len, sizeof(len));
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_EINTERNAL);
    fixture_fini(&f);
}

static void rpc__status_without_a_sentence_brings_no_stale_one(void **state)
{
    struct fixture f;
    struct call call;

    (void)state;
    fixture_init(&f);
    call_init(&call, 5000);
    call_start(&f, &call, FIXTURE_FAIL, NULL, 0);
    run_until(&f, &call.done);
    call_init(&call, 5000);
    call_start(&f, &call, FIXTURE_QUIET, NULL, 0);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_ENOENT);
    assert_string_equal(call.sentence, "");
    fixture_fini(&f);
}

static void rpc__calls_beyond_the_limit_are_refused_and_the_others_answered(void **state)
{
    static struct call calls[MC_RPC_IN_FLIGHT_MAX];
    struct fixture f;
    struct call extra;

    (void)state;
    fixture_init(&f);
    for (unsigned i = 0; i < MC_RPC_IN_FLIGHT_MAX; i++) {
        call_init(&calls[i], 20000);
        call_start(&f, &calls[i], FIXTURE_ECHO, &i, sizeof(i));
    }
    call_init(&extra, 20000);
    assert_int_equal(mc_rpc_call_start(f.client, &extra.rpc, FIXTURE_ECHO, NULL, 0),
                     MOONCAKE_ETASKQUEUE);
    for (unsigned i = 0; i < MC_RPC_IN_FLIGHT_MAX; i++) {
        run_until(&f, &calls[i].done);
        assert_int_equal(calls[i].err, MOONCAKE_OK);
        assert_memory_equal(calls[i].body, &i, sizeof(i));
        call_fini(&calls[i]);
    }
    call_start(&f, &extra, FIXTURE_ECHO, NULL, 0);
    run_until(&f, &extra.done);
    assert_int_equal(extra.err, MOONCAKE_OK);
    call_fini(&extra);
    fixture_fini(&f);
}

static void rpc__deadlines_end_calls_in_their_order_and_late_answers_find_nobody(void **state)
{
    static const uint64_t timeouts_ms[] = {60000, 30, 60, 120, 31, 90};
    struct call calls[MC_ARRAY_LEN(timeouts_ms)];
    struct fixture f;

    (void)state;
    fixture_init(&f);
    for (size_t i = 0; i < MC_ARRAY_LEN(calls); i++) {
        call_init(&calls[i], timeouts_ms[i]);
        call_start(&f, &calls[i], FIXTURE_KEEP, NULL, 0);
    }
    run_until(&f, &calls[1].done);
    assert_true(mc_monotonic_ns() >= calls[1].rpc.deadline_ns);
    assert_int_equal(calls[1].err, MOONCAKE_ETIMEDOUT);
    assert_true(calls[1].rpc.maybe_executed);
    assert_non_null(strstr(calls[1].sentence, f.address));
    run_until(&f, &calls[3].done);
    assert_true(calls[2].done && calls[4].done && calls[5].done);
    assert_false(calls[0].done); /* the first to start, the last to end */
    for (size_t i = 0; i < MC_ARRAY_LEN(calls); i++) {
        mc_rpc_reply(f.kept[i], MOONCAKE_OK, "late", 4);
    }
    run_until(&f, &calls[0].done);
    assert_int_equal(calls[0].err, MOONCAKE_OK);
    for (size_t i = 0; i < MC_ARRAY_LEN(calls); i++) {
        assert_int_equal(calls[i].dones, 1);
    }
    assert_int_equal(f.downs, 0); /* a short deadline is no reason to give the connection up */
    call_fini(&calls[0]);
    fixture_fini(&f);
}

static void rpc__cancelled_call_is_not_told_and_its_memory_not_touched(void **state)
{
    struct call *cancelled = test_calloc(1, sizeof(*cancelled));
    struct fixture f;
    struct call call;

    (void)state;
    fixture_init(&f);
    call_init(cancelled, 5000);
    call_start(&f, cancelled, FIXTURE_KEEP, NULL, 0);
    RUN_UNTIL(&f, f.kept_count == 1);
    mc_rpc_call_cancel(f.client, &cancelled->rpc);
    test_free(cancelled);
    mc_rpc_reply(f.kept[0], MOONCAKE_OK, "x", 1);
    call_init(&call, 5000);
    call_start(&f, &call, FIXTURE_ECHO, NULL, 0);
    run_until(&f, &call.done);
    assert_int_equal(call.err, MOONCAKE_OK);
    call_fini(&call);
    fixture_fini(&f);
}

static void rpc__call_cancelled_before_the_connection_is_up_is_not_sent(void **state)
{
    struct fixture f;
    struct call cancelled, call;

    (void)state;
    fixture_init(&f);
    call_init(&cancelled, 5000);
    call_start(&f, &cancelled, FIXTURE_KEEP, "big", 3);
    mc_rpc_call_cancel(f.client, &cancelled.rpc);
    call_init(&call, 5000);
    call_start(&f, &call, FIXTURE_ECHO, NULL, 0);
    run_until(&f, &call.done);
    assert_int_equal(f.kept_count, 0);
    assert_false(cancelled.done);
    call_fini(&call);
    fixture_fini(&f);
}

static void rpc__destroy_ends_every_call_once(void **state)
{
    struct fixture f;
    struct call sent[3], held;

    (void)state;
    fixture_init(&f);
    for (size_t i = 0; i < MC_ARRAY_LEN(sent); i++) {
        call_init(&sent[i], 5000);
        call_start(&f, &sent[i], FIXTURE_KEEP, NULL, 0);
    }
    RUN_UNTIL(&f, f.kept_count == MC_ARRAY_LEN(sent));
    mc_rpc_client_destroy(&f.client);
    for (size_t i = 0; i < MC_ARRAY_LEN(sent); i++) {
        assert_int_equal(sent[i].dones, 1);
        assert_int_equal(sent[i].err, MOONCAKE_ERPC);
        assert_true(sent[i].rpc.maybe_executed);
    }
    fixture_open_client(&f, f.address);
    call_init(&held, 5000);
    call_start(&f, &held, FIXTURE_ECHO, NULL, 0);
    mc_rpc_client_destroy(&f.client);
    assert_int_equal(held.dones, 1);
    assert_false(held.rpc.maybe_executed);
    RUN_UNTIL(&f, f.conns_closed >= 1);
    for (size_t i = 0; i < MC_ARRAY_LEN(sent); i++) {
        assert_null(f.kept[i]->conn);
        mc_rpc_reply(f.kept[i], MOONCAKE_OK, "x", 1); /* for nobody */
    }
    fixture_fini(&f);
}

static struct fixture *destroy_on_done;

static void done_destroys(struct mc_rpc_call *rpc, mooncake_err err, const uint8_t *body,
                          size_t body_len)
{
    (void)body;
    (void)body_len;
    MC_CONTAINER_OF(rpc, struct call, rpc)->err = err;
    MC_CONTAINER_OF(rpc, struct call, rpc)->dones++;
    MC_CONTAINER_OF(rpc, struct call, rpc)->done = true;
    mc_rpc_client_destroy(&destroy_on_done->client);
}

/* Destroy the client from the done of the first call to end; the others end inside. */
static void destroy_from_done(uint16_t method, uint64_t timeout_ms, bool close_server)
{
    struct call calls[3];
    struct fixture f;

    fixture_init(&f);
    destroy_on_done = &f;
    for (size_t i = 0; i < MC_ARRAY_LEN(calls); i++) {
        call_init(&calls[i], timeout_ms);
        calls[i].rpc.done = done_destroys;
        call_start(&f, &calls[i], method, NULL, 0);
    }
    if (close_server) {
        RUN_UNTIL(&f, f.handled == MC_ARRAY_LEN(calls));
        mc_rpc_server_close(&f.server);
    }
    run_until(&f, &calls[0].done);
    for (size_t i = 0; i < MC_ARRAY_LEN(calls); i++) {
        assert_int_equal(calls[i].dones, 1);
    }
    for (unsigned i = 0; i < f.kept_count; i++) {
        mc_rpc_reply(f.kept[i], MOONCAKE_OK, NULL, 0);
    }
    fixture_fini(&f);
}

static void rpc__client_may_be_destroyed_from_any_done(void **state)
{
    (void)state;
    destroy_from_done(FIXTURE_ECHO, 5000, false); /* answered */
    destroy_from_done(FIXTURE_KEEP, 50, false);   /* deadline */
    destroy_from_done(FIXTURE_KEEP, 5000, true);  /* connection lost */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rpc__reply_carries_the_body_of_the_request),
        cmocka_unit_test(rpc__status_and_sentence_of_the_server_reach_the_caller),
        cmocka_unit_test(rpc__answers_may_come_in_any_order),
        cmocka_unit_test(rpc__refused_connection_names_address_and_cure_at_once),
        cmocka_unit_test(rpc__greatest_body_goes_both_ways_and_one_byte_more_is_refused),
        cmocka_unit_test(rpc__reply_above_the_limit_becomes_an_error),
        cmocka_unit_test(rpc__status_without_a_sentence_brings_no_stale_one),
        cmocka_unit_test(rpc__calls_beyond_the_limit_are_refused_and_the_others_answered),
        cmocka_unit_test(rpc__deadlines_end_calls_in_their_order_and_late_answers_find_nobody),
        cmocka_unit_test(rpc__cancelled_call_is_not_told_and_its_memory_not_touched),
        cmocka_unit_test(rpc__call_cancelled_before_the_connection_is_up_is_not_sent),
        cmocka_unit_test(rpc__destroy_ends_every_call_once),
        cmocka_unit_test(rpc__client_may_be_destroyed_from_any_done),
    };

    return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
