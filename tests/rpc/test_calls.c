/* Calls under way: by id and by deadline, against a plain list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/calls.h"

#define COUNT MC_RPC_IN_FLIGHT_MAX

static struct mc_rpc_calls calls;
static struct mc_rpc_call pool[COUNT];
static bool in[COUNT];
static uint64_t last_ids[COUNT];
static uint32_t random_state = 7;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static void expect_earliest(unsigned count)
{
    const struct mc_rpc_call *earliest = mc_rpc_calls_earliest(&calls);
    uint64_t least = UINT64_MAX;

    assert_int_equal(calls.count, count);
    for (unsigned i = 0; i < COUNT; i++) {
        if (in[i] && pool[i].deadline_ns < least) {
            least = pool[i].deadline_ns;
        }
    }
    if (count == 0) {
        assert_null(earliest);
    } else {
        assert_true(earliest->deadline_ns == least);
    }
}

static void add(unsigned i)
{
    pool[i].deadline_ns = random_below(500);
    mc_rpc_calls_add(&calls, &pool[i]);
    in[i] = true;
}

static void drop(unsigned i)
{
    mc_rpc_calls_drop(&calls, &pool[i]);
    in[i] = false;
}

static void calls__earliest_is_right_after_every_add_and_drop(void **state)
{
    unsigned count = 0;

    (void)state;
    mc_rpc_calls_init(&calls);
    for (unsigned round = 0; round < 20; round++) {
        /* Answers and new calls as they come ... */
        for (unsigned step = 0; step < 600; step++) {
            unsigned i = random_below(COUNT);

            if (in[i]) {
                drop(i);
                count--;
            } else {
                add(i);
                count++;
            }
            expect_earliest(count);
        }
        /* ... and then nothing but deadlines. */
        for (; count > 0; count--) {
            expect_earliest(count);
            drop((unsigned)(mc_rpc_calls_earliest(&calls) - pool));
        }
        expect_earliest(0);
    }
}

static void calls__find_knows_those_under_way_and_no_earlier_id(void **state)
{
    (void)state;
    mc_rpc_calls_init(&calls);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            mc_rpc_calls_add(&calls, &pool[i]);
            assert_ptr_equal(mc_rpc_calls_find(&calls, pool[i].request_id), &pool[i]);
            assert_true(pool[i].request_id != 0); /* Hello's */
            if (round > 0) {
                assert_null(mc_rpc_calls_find(&calls, last_ids[i]));
            }
        }
        for (unsigned i = 0; i < COUNT; i++) {
            last_ids[i] = pool[i].request_id;
            mc_rpc_calls_drop(&calls, &pool[i]);
            assert_null(mc_rpc_calls_find(&calls, last_ids[i]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls__earliest_is_right_after_every_add_and_drop),
        cmocka_unit_test(calls__find_knows_those_under_way_and_no_earlier_id),
    };

    return cmocka_run_group_tests_name("rpc/calls", tests, NULL, NULL);
}
