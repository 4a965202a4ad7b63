/* One question to the serving process, on a loop that lives no longer; and handing out the pool. */
#include "client/thin.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/option.h"
#include "client/api.h"
#include "client/interrupt.h"
#include "transport/shm_ask.h"
#include "wire/master_stub.h"

#define SERVER_PORT 50052u

struct question {
    struct mc_master_call call;
    struct mc_attach_request request;
    struct mc_attach_reply reply; /* texts in arena */
    struct mc_arena *arena;       /* borrowed */
    mooncake_err err;
    char detail[400]; /* the sentence, which the loop's further turns would lose */
    bool done;
};

static void on_answer(struct mc_master_call *call, mooncake_err err)
{
    struct question *question = call->arg;

    question->err = err;
    (void)snprintf(question->detail, sizeof(question->detail), "%s", mooncake_last_error());
    question->done = true;
}

/* Until the answer, the deadline, or Ctrl-C. */
static mooncake_err await(struct mc_loop *loop, struct question *question, uint64_t deadline_ns)
{
    while (!question->done) {
        if (mc_loop_run_until(loop, &question->done, mc_interrupt_slice_ns(deadline_ns)) ==
            MOONCAKE_OK) {
            break;
        }
        if (mc_monotonic_ns() >= deadline_ns) {
            (void)snprintf(question->detail, sizeof(question->detail),
                           "no answer before the deadline");
            return MOONCAKE_ETIMEDOUT;
        }
        if (mc_interrupt_asked()) {
            (void)snprintf(question->detail, sizeof(question->detail),
                           "ended early because this thread's interrupt hook asked for it");
            return MOONCAKE_ECANCELED;
        }
    }
    return question->err;
}

/* Children of a fork may go on using what the pool holds, as they may other shared memory. */
static mooncake_err fetch_pool(mooncake_client *client, const struct mc_attach_reply *reply,
                               uint32_t timeout_ms)
{
    struct mc_shm_map *map;

    MC_TRY(mc_shm_fetch(reply->pool_addresses, reply->pool_mount_id, timeout_ms, &map));
    (void)madvise(map->base, map->len, MADV_DOFORK);
    (void)madvise(map->base, map->len, MADV_HUGEPAGE); /* advice only */
    client->pool = map;
    return MOONCAKE_OK;
}

/* Ask, and fetch the pool while the connection is there: when it ends, the server frees a pool that
 * nobody holds. */
static mooncake_err ask_on(struct mc_loop *loop, const struct mc_master_stub_options *stub_options,
                           mooncake_client *client, struct question *question, uint64_t deadline_ns)
{
    struct mc_master_stub stub;
    mooncake_err err;

    MC_TRY(mc_master_stub_open(loop, stub_options, &stub));
    mc_master_call_init(&question->call, question->arena, deadline_ns, on_answer, question);
    err = mc_master_call_start(stub.rpc, &question->call, MC_METHOD_ATTACH, &question->request,
                               &question->reply);
    if (err == MOONCAKE_OK) {
        mc_rpc_client_flush(stub.rpc);
        err = await(loop, question, deadline_ns);
        if (!question->done) {
            mc_master_call_cancel(stub.rpc, &question->call);
        }
    }
    if (err == MOONCAKE_OK && question->reply.pool_mount_id != 0) {
        err = fetch_pool(client, &question->reply, stub_options->connect_timeout_ms);
        (void)snprintf(question->detail, sizeof(question->detail), "%s", mooncake_last_error());
    }
    mc_master_stub_close(&stub);
    return err;
}

static mooncake_err ask(const struct mc_master_stub_options *stub_options, mooncake_client *client,
                        struct question *question, uint64_t deadline_ns)
{
    struct mc_loop *loop;
    mooncake_err err;

    MC_TRY(mc_loop_create(0, &loop));
    mc_loop_adopt(loop);
    err = ask_on(loop, stub_options, client, question, deadline_ns);
    mc_loop_destroy(&loop);
    return err == MOONCAKE_OK || question->detail[0] == '\0'
               ? err
               : mc_err_set(err, "%s", question->detail);
}

static const char *text_or(const char *given, const char *other)
{
    return given != NULL || other[0] == '\0' ? given : other;
}

static mooncake_err attach(mooncake_client *client, mooncake_client_options *options,
                           const char *address, uint64_t deadline_ns, struct mc_arena *arena)
{
    const struct mc_master_stub_options stub_options = {
        .address = address,
        .program = options->program,
        .client_id = mc_random_u64(),
        .connect_timeout_ms = options->connect_timeout_ms,
    };
    struct question question = {.request = {.pool_len = options->pool_size}, .arena = arena};

    MC_TRY(ask(&stub_options, client, &question, deadline_ns));
    if (question.reply.master[0] == '\0' || (options->pool_size > 0) != (client->pool != NULL)) {
        return mc_err_set(MOONCAKE_ERPC, "the answer names no master, or no pool");
    }
    options->master = question.reply.master;
    options->transport = text_or(options->transport, question.reply.transport);
    options->rdma_devices = text_or(options->rdma_devices, question.reply.rdma_devices);
    options->rdma_gid_index = text_or(options->rdma_gid_index, question.reply.rdma_gid_index);
    return MOONCAKE_OK;
}

mooncake_err mc_thin_attach(mooncake_client *client, mooncake_client_options *options,
                            uint64_t deadline_ns, struct mc_arena *arena)
{
    char host[MC_ADDR_LEN_MAX + 1], address[MC_ADDR_LEN_MAX + 16], why[400];
    uint16_t port;
    mooncake_err err;

    if (mc_parse_address(options->server, SERVER_PORT, host, sizeof(host), &port) != MOONCAKE_OK) {
        (void)snprintf(why, sizeof(why), "%s", mooncake_last_error());
        return mc_err_set(MOONCAKE_EINVAL, "server: %s", why); /* names the text */
    }
    (void)snprintf(address, sizeof(address), strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
                   (unsigned)port);
    err = attach(client, options, address, deadline_ns, arena);
    if (err != MOONCAKE_OK) {
        (void)snprintf(why, sizeof(why), "%s", mooncake_last_error());
        return mc_err_set(err, "server %s: %s", address,
                          why[0] != '\0' ? why : mooncake_err_text(err));
    }
    return MOONCAKE_OK;
}

void mc_thin_detach(mooncake_client *client)
{
    if (client->pool != NULL) {
        mc_shm_map_drop(client->pool);
        mc_shm_map_return(client->pool);
        client->pool = NULL;
    }
}

/* ---- the pool ------------------------------------------------------------------------------ */

static mooncake_err take(mooncake_client *client, uint64_t len, void **out)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t used = atomic_load_explicit(&client->pool_used, memory_order_relaxed);
    uint64_t left, whole;

    if (client->pool == NULL) {
        return mc_err_set(MOONCAKE_EMODE,
                          "pool_alloc: this client has no pool: open it with server "
                          "and pool_size");
    }
    if (len == 0) {
        return mc_err_set(MOONCAKE_EINVAL, "pool_alloc: len is 0");
    }
    do {
        left = client->pool->len - used; /* both whole pages */
        if (len > left) {
            return mc_err_set(MOONCAKE_ENOSPACE,
                              "pool_alloc: %llu bytes; the pool of %llu has %llu left",
                              (unsigned long long)len, (unsigned long long)client->pool->len,
                              (unsigned long long)left);
        }
        whole = (len + page - 1) / page * page;
    } while (!atomic_compare_exchange_weak_explicit(&client->pool_used, &used, used + whole,
                                                    memory_order_relaxed, memory_order_relaxed));
    *out = client->pool->base + used;
    return MOONCAKE_OK;
}

mooncake_err mooncake_pool_alloc(mooncake_client *client, uint64_t len, void **out_data)
{
    mooncake_err err;

    MC_TRY(mc_client_enter(client));
    err = mc_api_need(out_data, "out_data");
    if (err == MOONCAKE_OK) {
        err = take(client, len, out_data);
    }
    mc_client_leave(client);
    return err;
}
