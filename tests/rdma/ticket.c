/* See the header. */
#include "rdma/ticket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/loop.h"
#include "wire/master_stub.h"

#define WAIT_NS (20 * MC_NS_PER_S)

struct question {
    struct mc_master_call call;
    mooncake_err err;
    bool done;
};

static void on_answer(struct mc_master_call *call, mooncake_err err)
{
    struct question *question = call->arg;

    question->err = err;
    question->done = true;
}

void ticket_get(const char *master, const char *key, struct ticket *out)
{
    const struct mc_master_stub_options options = {
        .address = master, .program = "ticket", .client_id = 4711, .connect_timeout_ms = 3000};
    const struct mc_key name = {.bytes = key, .len = (uint32_t)strlen(key)};
    struct mc_keys_request request = {.client_id = 4711, .keys = &name, .count = 1};
    struct mc_query_reply reply = {0};
    struct question question = {0};
    struct mc_master_stub stub;
    struct mc_loop *loop = NULL;
    struct mc_arena arena;
    uint64_t deadline_ns = mc_monotonic_ns() + WAIT_NS;

    mc_arena_init(&arena, (size_t)1 << 20);
    assert_int_equal(mc_loop_create(0, &loop), MOONCAKE_OK);
    assert_int_equal(mc_master_stub_open(loop, &options, &stub), MOONCAKE_OK);
    mc_master_call_init(&question.call, &arena, deadline_ns, on_answer, &question);
    assert_int_equal(
        mc_master_call_start(stub.rpc, &question.call, MC_METHOD_QUERY, &request, &reply),
        MOONCAKE_OK);
    mc_rpc_client_flush(stub.rpc);
    assert_int_equal(mc_loop_run_until(loop, &question.done, deadline_ns), MOONCAKE_OK);
    assert_int_equal(question.err, MOONCAKE_OK);
    assert_int_equal(reply.statuses[0], MOONCAKE_OK);
    out->extent = reply.table.objects[0].replicas[0].extents[0];
    (void)snprintf(out->addresses, sizeof(out->addresses), "%s",
                   reply.table.segments[reply.table.objects[0].replicas[0].segment[0]].addresses);
    mc_master_stub_close(&stub);
    mc_loop_destroy(&loop);
    mc_arena_fini(&arena);
}
