/* Client and server over real sockets: what a call sees. */
#include "rpc/rpc_fixture.h"

#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rpc__reply_carries_the_body_of_the_request),
        cmocka_unit_test(rpc__status_and_sentence_of_the_server_reach_the_caller),
        cmocka_unit_test(rpc__answers_may_come_in_any_order),
        cmocka_unit_test(rpc__refused_connection_names_address_and_cure_at_once),
    };

    return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
