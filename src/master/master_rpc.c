/*
 * One handler a method: one call into the core. On the core loop, whoever decoded the request and
 * will encode the answer (master_front.c).
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/spent.h"
#include "master/master_front.h"
#include "master/master_impl.h"
#include "rpc/frame.h"
#include "wire/methods.h"

/* ---- handlers -------------------------------------------------------------------------------- */

/* Fills @p reply from @p arena. An error refuses the request as a whole. */
typedef mooncake_err (*handler)(struct mc_master *master, const union mc_master_message *request,
                                struct mc_arena *arena, union mc_master_message *reply);

#define CORE_CALL(name)                                                                            \
    static mooncake_err do_##name(struct mc_master *master,                                        \
                                  const union mc_master_message *request, struct mc_arena *arena,  \
                                  union mc_master_message *reply)                                  \
    {                                                                                              \
        return mc_core_##name(master->core, &request->name##_request, arena,                       \
                              &reply->name##_reply);                                               \
    }

CORE_CALL(put_start)
CORE_CALL(put_end)
CORE_CALL(put_revoke)
CORE_CALL(query)
CORE_CALL(exist)
CORE_CALL(renew)
CORE_CALL(remove)
CORE_CALL(report)
CORE_CALL(unmount)
CORE_CALL(ping)
CORE_CALL(describe_key)
CORE_CALL(why_miss)
CORE_CALL(drain)
CORE_CALL(sole_keys)

static mooncake_err do_mount(struct mc_master *master, const union mc_master_message *request,
                             struct mc_arena *arena, union mc_master_message *reply)
{
    bool again = request->mount_request.again;
    mooncake_err err =
        mc_core_mount(master->core, &request->mount_request, arena, &reply->mount_reply);

    if (again) {
        mc_master_count(&master->front.metrics.remount,
                        err == MOONCAKE_OK ? mc_master_outcome(MC_METHOD_MOUNT, reply)
                                           : (struct mc_master_outcome){
                                                 .err = err, .items = 1, .failed_items = 1});
    }
    return err;
}

static mooncake_err do_list_keys(struct mc_master *master, const union mc_master_message *request,
                                 struct mc_arena *arena, union mc_master_message *reply)
{
    const char *pattern = request->list_keys_request.pattern;
    bool by_regex = pattern != NULL && pattern[0] != '\0';
    mooncake_err err = mc_core_list_keys(master->core, &request->list_keys_request, arena,
                                         &reply->list_keys_reply);

    if (by_regex) {
        mc_master_count_kind(&master->front.metrics.list_by_regex, err);
    }
    return err;
}

static mooncake_err do_list_segments(struct mc_master *master,
                                     const union mc_master_message *request, struct mc_arena *arena,
                                     union mc_master_message *reply)
{
    return mc_core_list_segments(master->core, &request->list_segments_request, arena,
                                 &reply->list_segments_reply);
}

static mooncake_err do_list_clients(struct mc_master *master,
                                    const union mc_master_message *request, struct mc_arena *arena,
                                    union mc_master_message *reply)
{
    return mc_core_list_clients(master->core, &request->list_clients_request, arena,
                                &reply->list_clients_reply);
}

static mooncake_err do_pool_status(struct mc_master *master, const union mc_master_message *request,
                                   struct mc_arena *arena, union mc_master_message *reply)
{
    struct mc_master_busy busy;

    (void)arena;
    mc_core_pool_status(master->core, &reply->pool_status_reply);
    reply->pool_status_reply.program = MC_MASTER_PROGRAM;
    mc_master_busy(master, &busy);
    reply->pool_status_reply.busy_span_ms = busy.span_ms;
    reply->pool_status_reply.io_threads = busy.io_threads;
    reply->pool_status_reply.core_busy_permille = busy.core_permille;
    reply->pool_status_reply.io_busy_permille = busy.io_permille;
    reply->pool_status_reply.removed_now =
        mc_core_removed_now(master->core, request->pool_status_request.removals_of);
    return MOONCAKE_OK;
}

static mooncake_err do_config(struct mc_master *master, const union mc_master_message *request,
                              struct mc_arena *arena, union mc_master_message *reply)
{
    (void)request;
    (void)arena;
    reply->config_reply =
        master->config == NULL ? (struct mc_config_reply){.count = 0} : *master->config;
    return MOONCAKE_OK;
}

static mooncake_err do_space(struct mc_master *master, const union mc_master_message *request,
                             struct mc_arena *arena, union mc_master_message *reply)
{
    struct mc_space_reply *out = &reply->space_reply;
    struct mc_core_space space = {0};
    uint64_t cursor = request->space_request.cursor;

    (void)arena;
    mc_core_space_page(master->core, &cursor, &space);
    *out = (struct mc_space_reply){
        .capacity = space.capacity,
        .free = space.free,
        .evictable = space.evictable,
        .leased = space.leased,
        .soft_pinned = space.soft_pinned,
        .hard_pinned = space.hard_pinned,
        .writing = space.writing,
        .parked = space.parked + space.reading,
        .unplaceable = space.unplaceable,
        .largest_free = space.largest_free,
        .cursor = cursor,
        .mismatch = "",
    };
    return MOONCAKE_OK;
}

/* Hello opens a connection and is answered in on_hello(). */
static mooncake_err do_hello(struct mc_master *master, const union mc_master_message *request,
                             struct mc_arena *arena, union mc_master_message *reply)
{
    (void)master;
    (void)request;
    (void)arena;
    (void)reply;
    return mc_err_set(MOONCAKE_EINVAL, "hello: a connection says it once, at its start");
}

/* ---- RemoveAll: answered when the last slice is done ----------------------------------------- */

/* Lives in its request's arena, so until the reply. */
struct removal {
    struct mc_master *master;
    struct mc_rpc_request *request;
    bool by_regex;
};

static void on_removed(void *arg, mooncake_err err, const struct mc_remove_all_reply *counts)
{
    struct removal *removal = arg;
    union mc_master_message reply;

    if (removal->by_regex) {
        mc_master_count_kind(&removal->master->front.metrics.remove_by_regex, err);
    }
    if (err != MOONCAKE_OK) {
        if (err != MOONCAKE_EINVAL) { /* then the sentence is the pattern's */
            (void)mc_err_set(err, "remove_all did not come to its end: %s", mooncake_err_text(err));
        }
        mc_master_refuse(removal->master, removal->request, err);
        return;
    }
    reply.remove_all_reply = *counts;
    mc_master_answer(removal->master, removal->request, &reply);
}

static void start_remove_all(struct mc_master *master, struct mc_rpc_request *request,
                             const union mc_master_message *message)
{
    struct removal *removal = mc_arena_alloc(request->arena, sizeof(*removal));
    mooncake_err err = MOONCAKE_ENOMEM;

    if (removal != NULL) {
        *removal = (struct removal){.master = master,
                                    .request = request,
                                    .by_regex = message->remove_all_request.pattern != NULL};
        err = mc_core_remove_all(master->core, &message->remove_all_request, on_removed, removal);
    }
    if (err != MOONCAKE_OK) {
        mc_master_refuse(master, request, err);
    }
}

/* ---- Space with a recount: answered when its last slice is done ------------------------------ */

/* Lives in its request's arena, so until the reply. */
struct recount {
    struct mc_master *master;
    struct mc_rpc_request *request;
    char mismatch[MC_MISMATCH_LEN_MAX + 1];
};

static void on_recounted(void *arg, mooncake_err err)
{
    struct recount *recount = arg;
    union mc_master_message empty = {.space_request = {.recount = false}};
    union mc_master_message reply;

    if (err != MOONCAKE_OK && err != MOONCAKE_EINTERNAL) {
        (void)mc_err_set(err, "the recount did not come to its end: %s", mooncake_err_text(err));
        mc_master_refuse(recount->master, recount->request, err);
        return;
    }
    (void)do_space(recount->master, &empty, recount->request->arena, &reply);
    if (err == MOONCAKE_EINTERNAL) {
        mc_log_error("books.differ", "detail=\"%s\"", mooncake_last_error());
        (void)snprintf(recount->mismatch, sizeof(recount->mismatch), "%s", mooncake_last_error());
        reply.space_reply.mismatch = recount->mismatch;
    }
    mc_master_answer(recount->master, recount->request, &reply);
}

static void start_recount(struct mc_master *master, struct mc_rpc_request *request)
{
    struct recount *recount = mc_arena_alloc(request->arena, sizeof(*recount));
    mooncake_err err = MOONCAKE_ENOMEM;

    if (recount != NULL) {
        *recount = (struct recount){.master = master, .request = request};
        err = mc_core_recount_start(master->core, on_recounted, recount);
    }
    if (err != MOONCAKE_OK) {
        mc_master_refuse(master, request, err);
    }
}

/* ---- requests that wait for promises to end (reuse.h) --------------------------------------- */

/* Lives in its request's arena, so until the reply. */
struct mc_master_waiting {
    struct mc_list node; /* in the master's list */
    struct mc_master *master;
    struct mc_rpc_request *request;
    struct mc_timer *timer;
    uint64_t until_ns; /* monotonic; timers may be early */
    union mc_master_message message;
};

static void carry_out(struct mc_master *master, struct mc_rpc_request *request,
                      const union mc_master_message *message);

static uint64_t wait_ms(struct mc_master *master, enum mc_method method,
                        const union mc_master_message *message)
{
    if (method == MC_METHOD_PUT_END) {
        return mc_core_put_end_wait_ms(master->core, &message->put_end_request);
    }
    if (method == MC_METHOD_REMOVE) {
        return mc_core_remove_wait_ms(master->core, &message->remove_request);
    }
    return 0;
}

static void on_waited(void *arg)
{
    struct mc_master_waiting *waiting = arg;
    struct mc_master *master = waiting->master;
    enum mc_spent_kind was;
    uint64_t const left_ms = mc_left_ms(mc_monotonic_ns(), waiting->until_ns);

    if (left_ms > 0) {
        mc_timer_set(waiting->timer, left_ms, 0);
        return;
    }
    mc_list_drop(&waiting->node);
    mc_timer_destroy(&waiting->timer);
    was = mc_spend(master->spent, MC_SPENT_TABLE);
    carry_out(master, waiting->request, &waiting->message);
    mc_master_tick_soon(master);
    (void)mc_spend(master->spent, was);
}

static void wait_for(struct mc_master *master, struct mc_rpc_request *request,
                     const union mc_master_message *message, uint64_t delay_ms)
{
    struct mc_master_waiting *waiting = mc_arena_alloc(request->arena, sizeof(*waiting));

    if (waiting == NULL) {
        mc_master_refuse(master, request, MOONCAKE_ENOMEM);
        return;
    }
    *waiting = (struct mc_master_waiting){.master = master,
                                          .request = request,
                                          .until_ns = mc_deadline_ns(mc_monotonic_ns(), delay_ms),
                                          .message = *message};
    if (mc_timer_create(master->loop, on_waited, waiting, &waiting->timer) != MOONCAKE_OK) {
        mc_master_refuse(master, request, MOONCAKE_ENOMEM);
        return;
    }
    mc_timer_set(waiting->timer, delay_ms, 0);
    mc_list_add_tail(&master->waiting, &waiting->node);
    mc_core_count_reuse_wait(master->core);
}

void mc_master_rpc_end_waiting(struct mc_master *master)
{
    while (!mc_list_empty(&master->waiting)) {
        struct mc_master_waiting *waiting =
            mc_list_first(&master->waiting, struct mc_master_waiting, node);

        mc_list_drop(&waiting->node);
        mc_timer_destroy(&waiting->timer);
        mc_master_refuse(master, waiting->request,
                         mc_err_set(MOONCAKE_EUNAVAILABLE, "the master is closing"));
    }
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static void carry_out(struct mc_master *master, struct mc_rpc_request *request,
                      const union mc_master_message *message)
{
    static const handler handlers[MC_METHOD_NUMBER_MAX + 1] = {
        [MC_METHOD_HELLO] = do_hello,
        [MC_METHOD_PUT_START] = do_put_start,
        [MC_METHOD_PUT_END] = do_put_end,
        [MC_METHOD_PUT_REVOKE] = do_put_revoke,
        [MC_METHOD_QUERY] = do_query,
        [MC_METHOD_EXIST] = do_exist,
        [MC_METHOD_RENEW] = do_renew,
        [MC_METHOD_REMOVE] = do_remove,
        [MC_METHOD_REMOVE_ALL] = NULL, /* start_remove_all() */
        [MC_METHOD_REPORT] = do_report,
        [MC_METHOD_MOUNT] = do_mount,
        [MC_METHOD_UNMOUNT] = do_unmount,
        [MC_METHOD_PING] = do_ping,
        [MC_METHOD_LIST_KEYS] = do_list_keys,
        [MC_METHOD_LIST_SEGMENTS] = do_list_segments,
        [MC_METHOD_LIST_CLIENTS] = do_list_clients,
        [MC_METHOD_POOL_STATUS] = do_pool_status,
        [MC_METHOD_DESCRIBE_KEY] = do_describe_key,
        [MC_METHOD_CONFIG] = do_config,
        [MC_METHOD_SPACE] = do_space,
        [MC_METHOD_WHY_MISS] = do_why_miss,
        [MC_METHOD_DRAIN] = do_drain,
        [MC_METHOD_SOLE_KEYS] = do_sole_keys,
        [MC_METHOD_ATTACH] = NULL, /* a serving store's */
    };
    union mc_master_message reply;
    mooncake_err err;

    if (request->method == MC_METHOD_REMOVE_ALL) {
        start_remove_all(master, request, message);
        return;
    }
    if (request->method == MC_METHOD_SPACE && message->space_request.recount) {
        start_recount(master, request);
        return;
    }
    if (request->method == MC_METHOD_ATTACH) {
        err = mc_err_set(MOONCAKE_ENOTSUP, MC_MASTER_PROGRAM
                         " does not serve thin clients: give "
                         "them the address of mooncake_client or mooncake_store --serve_clients");
        mc_master_refuse(master, request, err);
        return;
    }
    MC_ASSERT(handlers[request->method] != NULL);
    err = handlers[request->method](master, message, request->arena, &reply);
    if (err == MOONCAKE_OK) {
        mc_master_answer(master, request, &reply);
    } else {
        mc_master_refuse(master, request, err);
    }
}

void mc_master_do(struct mc_master *master, struct mc_rpc_request *request,
                  const union mc_master_message *message)
{
    enum mc_spent_kind was = mc_spend(master->spent, MC_SPENT_TABLE);
    uint64_t delay_ms;

    MC_ASSERT_ON_LOOP(master->loop);
    delay_ms = wait_ms(master, (enum mc_method)request->method, message);
    if (delay_ms > 0) {
        wait_for(master, request, message, delay_ms);
    } else {
        carry_out(master, request, message);
    }
    mc_master_tick_soon(master);
    (void)mc_spend(master->spent, was);
}
