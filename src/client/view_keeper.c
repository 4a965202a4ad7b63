/*
 * One thread per client that has ever looked in place: it asks the master to go on with the leases
 * of its views when half of their time has passed, many in one question, one question at a time.
 * It has a connection of its own, so that no crowd of calls can keep it waiting.
 */
#include <stddef.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "client/view.h"
#include "wire/master_stub.h"

/* Views renewed by one question. */
#define RENEW_MAX 2048u
#define ARENA_MAX ((size_t)16 << 20)
/* One question waits for a quarter of a lease, within these; then it is asked again. */
#define ASK_MS_MIN 50u
#define ASK_MS_MAX 5000u
/* After a failure. */
#define RETRY_MS_MIN 10u
#define RETRY_MS_MAX 500u

struct mc_view_keeper {
    struct mc_loop *loop;
    struct mc_master_stub stub;
    struct mc_timer *timer;
    struct mc_post wake;
    uint64_t client_id;

    /* Guarded by the lock of views. */
    struct mc_list views; /* earliest end of a lease first, or nearly so */
    bool wake_posted;

    /* The question under way: on the loop's thread only. */
    bool asking;
    struct mc_master_call call;
    struct mc_arena arena;
    struct mc_renew_reply reply;
    uint64_t asked_ns;
    struct mooncake_view *asked[RENEW_MAX]; /* referenced */
    size_t asked_count;
};

static uint64_t due_ns(const struct mooncake_view *view)
{
    uint64_t end_ns = atomic_load_explicit(&view->lease_end_ns, memory_order_relaxed);
    uint64_t half_ns = view->lease_ms * (MC_NS_PER_MS / 2);

    return end_ns > half_ns ? end_ns - half_ns : 0;
}

static uint64_t within(uint64_t value, uint64_t min, uint64_t max)
{
    return value < min ? min : value > max ? max : value;
}

/* Sleep until the next lease is half over. */
static void schedule(struct mc_view_keeper *keeper)
{
    uint64_t ns = UINT64_MAX;

    mc_views_lock();
    if (!mc_list_empty(&keeper->views)) {
        ns = due_ns(mc_list_first(&keeper->views, struct mooncake_view, node));
    }
    mc_views_unlock();
    if (ns != UINT64_MAX) {
        mc_timer_set(keeper->timer, mc_left_ms(mc_monotonic_ns(), ns), 0);
    }
}

/* References to the views that are due, all of one life of the master. */
static void collect(struct mc_view_keeper *keeper, uint64_t now_ns)
{
    keeper->asked_count = 0;
    mc_views_lock();
    mc_list_for_each (node, &keeper->views) {
        struct mooncake_view *view = MC_CONTAINER_OF(node, struct mooncake_view, node);

        if (due_ns(view) > now_ns || keeper->asked_count == RENEW_MAX ||
            (keeper->asked_count > 0 && keeper->asked[0]->id.hi != view->id.hi)) {
            break;
        }
        view->refs++;
        keeper->asked[keeper->asked_count++] = view;
    }
    mc_views_unlock();
}

static void drop_asked(struct mc_view_keeper *keeper)
{
    for (size_t i = 0; i < keeper->asked_count; i++) {
        mc_view_unref(keeper->asked[i]);
    }
    keeper->asked_count = 0;
}

/* Under the lock: what the master said of one view that is still open. */
static void take_answer(struct mc_view_keeper *keeper, struct mooncake_view *view,
                        mooncake_err status)
{
    uint64_t const lease_ms = keeper->reply.lease_ms;

    if (view->keeper != keeper) {
        return; /* released meanwhile */
    }
    if (status != MOONCAKE_OK) {
        mc_list_drop(&view->node); /* lost: asking again would not bring it back */
        return;
    }
    view->lease_ms = lease_ms;
    atomic_store_explicit(&view->lease_end_ns, mc_deadline_ns(keeper->asked_ns, lease_ms),
                          memory_order_release);
    mc_list_move_tail(&keeper->views, &view->node);
}

static void renew_due(struct mc_view_keeper *keeper);

static void on_answer(struct mc_master_call *call, mooncake_err err)
{
    struct mc_view_keeper *keeper = call->arg;
    uint64_t retry_ms = 0;
    size_t lost = 0;

    keeper->asking = false;
    mc_views_lock();
    for (size_t i = 0; err == MOONCAKE_OK && i < keeper->asked_count; i++) {
        take_answer(keeper, keeper->asked[i], keeper->reply.statuses[i]);
        lost += keeper->reply.statuses[i] == MOONCAKE_OK ? 0 : 1;
    }
    if (err != MOONCAKE_OK && keeper->asked_count > 0) {
        retry_ms = within(keeper->asked[0]->lease_ms / 8, RETRY_MS_MIN, RETRY_MS_MAX);
    }
    mc_views_unlock();
    drop_asked(keeper);
    if (lost > 0) {
        mc_log_warn("views.lost", "views=%zu", lost);
    }
    if (err != MOONCAKE_OK) {
        mc_log_info("views.renew", "err=%s retry_ms=%llu", mooncake_err_name(err),
                    (unsigned long long)retry_ms);
        mc_timer_set(keeper->timer, retry_ms, 0);
        return;
    }
    renew_due(keeper);
}

static mooncake_err ask(struct mc_view_keeper *keeper)
{
    size_t const count = keeper->asked_count;
    uint64_t const wait_ms = within(keeper->asked[0]->lease_ms / 4, ASK_MS_MIN, ASK_MS_MAX);
    struct mc_key *keys;
    uint64_t *attempts, *mount_ids;
    struct mc_renew_request request = {.client_id = keeper->client_id,
                                       .epoch = keeper->asked[0]->id.hi};

    mc_arena_reset(&keeper->arena);
    keys = mc_arena_array(&keeper->arena, count, sizeof(*keys));
    attempts = mc_arena_array(&keeper->arena, count, sizeof(*attempts));
    mount_ids = mc_arena_array(&keeper->arena, count, sizeof(*mount_ids));
    if (keys == NULL || attempts == NULL || mount_ids == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const struct mooncake_view *view = keeper->asked[i];

        keys[i] = (struct mc_key){.bytes = view->key, .len = view->key_len};
        attempts[i] = view->id.lo;
        mount_ids[i] = view->lend.mount_id;
    }
    request.keys = keys;
    request.attempts = attempts;
    request.mount_ids = mount_ids;
    request.count = count;
    keeper->asked_ns = mc_monotonic_ns();
    mc_master_call_init(&keeper->call, &keeper->arena, mc_deadline_ns(keeper->asked_ns, wait_ms),
                        on_answer, keeper);
    MC_TRY(mc_master_call_start(keeper->stub.rpc, &keeper->call, MC_METHOD_RENEW, &request,
                                &keeper->reply));
    keeper->asking = true;
    mc_rpc_client_flush(keeper->stub.rpc);
    return MOONCAKE_OK;
}

static void renew_due(struct mc_view_keeper *keeper)
{
    mooncake_err err;

    MC_ASSERT_ON_LOOP(keeper->loop);
    if (keeper->asking) {
        return; /* goes on when the answer has come */
    }
    collect(keeper, mc_monotonic_ns());
    if (keeper->asked_count == 0) {
        schedule(keeper);
        return;
    }
    err = ask(keeper);
    if (err != MOONCAKE_OK) {
        drop_asked(keeper);
        mc_log_info("views.renew", "err=%s", mooncake_err_name(err));
        mc_timer_set(keeper->timer, RETRY_MS_MIN, 0);
    }
}

static void on_timer(void *arg)
{
    renew_due(arg);
}

static void on_wake(struct mc_post *post)
{
    struct mc_view_keeper *keeper = MC_CONTAINER_OF(post, struct mc_view_keeper, wake);

    mc_views_lock();
    keeper->wake_posted = false;
    mc_views_unlock();
    renew_due(keeper);
}

void mc_view_keeper_add(struct mc_view_keeper *keeper, struct mooncake_view *view)
{
    bool wake;

    mc_views_lock();
    wake = mc_list_empty(&keeper->views) && !keeper->wake_posted;
    keeper->wake_posted = keeper->wake_posted || wake;
    view->keeper = keeper;
    mc_list_add_tail(&keeper->views, &view->node);
    mc_views_unlock();
    if (wake) {
        mc_loop_post(keeper->loop, &keeper->wake);
    }
}

static void free_keeper(struct mc_view_keeper *keeper)
{
    mc_loop_adopt(keeper->loop);
    if (keeper->asking) {
        mc_master_call_cancel(keeper->stub.rpc, &keeper->call);
        keeper->asking = false;
    }
    drop_asked(keeper);
    if (keeper->timer != NULL) {
        mc_timer_destroy(&keeper->timer);
    }
    if (keeper->stub.rpc != NULL) {
        mc_master_stub_close(&keeper->stub);
    }
    mc_loop_destroy(&keeper->loop);
    mc_arena_fini(&keeper->arena);
    mc_free(keeper);
}

mooncake_err mc_view_keeper_open(const struct mc_view_keeper_options *options,
                                 struct mc_view_keeper **out)
{
    const struct mc_master_stub_options stub = {
        .address = options->master,
        .program = options->program,
        .client_id = options->client_id,
        .connect_timeout_ms = options->connect_timeout_ms,
    };
    struct mc_view_keeper *keeper = mc_calloc(1, sizeof(*keeper));
    mooncake_err err;

    if (keeper == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_list_init(&keeper->views);
    mc_arena_init(&keeper->arena, ARENA_MAX);
    keeper->wake.run = on_wake;
    keeper->client_id = options->client_id;
    err = mc_loop_create(0, &keeper->loop);
    if (err != MOONCAKE_OK) {
        mc_free(keeper); /* without a loop nothing else has begun */
        return err;
    }
    mc_loop_adopt(keeper->loop);
    err = mc_timer_create(keeper->loop, on_timer, keeper, &keeper->timer);
    if (err == MOONCAKE_OK) {
        err = mc_master_stub_open(keeper->loop, &stub, &keeper->stub);
    }
    if (err == MOONCAKE_OK) {
        err = mc_loop_start(keeper->loop, "mc-views");
    }
    if (err != MOONCAKE_OK) {
        free_keeper(keeper);
        return err;
    }
    *out = keeper;
    return MOONCAKE_OK;
}

void mc_view_keeper_close(struct mc_view_keeper **keeper_ptr)
{
    struct mc_view_keeper *keeper = *keeper_ptr;

    if (keeper == NULL) {
        return;
    }
    mc_loop_stop(keeper->loop);
    mc_views_lock();
    while (!mc_list_empty(&keeper->views)) {
        mc_list_drop(keeper->views.next);
    }
    mc_views_unlock();
    free_keeper(keeper);
    *keeper_ptr = NULL;
}
