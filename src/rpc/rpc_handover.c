/*
 * Tasks from a front to the core and back.
 *
 * Design notes
 * - Both ways are a list under one short lock, moved whole; the lock is held for some stores. A
 * post is under way or it is not (to_core, to_front), so tasks that come together cost one, and
 *   mc_loop_post() makes a system call only for a loop that sleeps.
 * - The core takes a burst of a front at a time, bounded in number and bytes, and posts itself anew
 *   for the rest: other fronts, admin pages, timers and slices have their turn in between.
 * - Memory: a front stops making requests when too much is on its way (given), the core stops
 *   answering a front while too much waits to be sent (ended). Neither waits for the other: whoever
 *   stopped says so under the lock, and the other posts when there is room.
 */
#include "base/limits.h"
#include "rpc/rpc_fronts_impl.h"

/* What the core does for one front before others have their turn. */
#define BURST_MAX 64u
#define BURST_BYTES_MAX ((size_t)4 << 20)
/* Answers go back after so many, so that the first need not wait for the last. */
#define ANSWERS_MAX 16u

static size_t arena_bytes(const struct mc_rpc_task *task)
{
    return task->request->arena->total;
}

/* ---- the front's side -------------------------------------------------------------------------
 */

bool mc_rpc_front_is_full(const struct mc_rpc_front *front)
{
    return front->given_count_seen + front->outbox_count >= MC_RPC_AWAY_MAX ||
           front->given_bytes_seen + front->outbox_bytes >= MC_RPC_AWAY_TOTAL_MAX;
}

void mc_rpc_task_give(struct mc_rpc_task *task, struct mc_rpc_request *request)
{
    struct mc_rpc_server *server =
        MC_CONTAINER_OF(request, struct mc_rpc_request_slot, request)->server;
    struct mc_rpc_front *front = server->front;

    MC_ASSERT_ON_LOOP(front->loop);
    MC_ASSERT(server->current != NULL); /* inside handle(): a flush follows */
    task->request = request;
    task->front = front;
    task->bytes = arena_bytes(task);
    mc_list_add_tail(&front->outbox, &task->node);
    front->outbox_count++;
    front->outbox_bytes += task->bytes;
}

/* Under the lock: what is on its way now. */
static void look(struct mc_rpc_front *front)
{
    front->given_count_seen = front->given_count;
    front->given_bytes_seen = front->given_bytes;
    front->stalled = !mc_list_empty(&front->server->stalled) && mc_rpc_front_is_full(front);
}

void mc_rpc_front_flush(struct mc_rpc_front *front)
{
    enum mc_spent_kind was = mc_spend(front->server->spent, MC_SPENT_HANDOVER);
    bool must_post, stalled;

    if (front->outbox_count == 0 && mc_list_empty(&front->server->stalled)) {
        (void)mc_spend(front->server->spent, was);
        return;
    }
    mc_counter_add_owner(&front->requests, front->outbox_count);
    (void)pthread_mutex_lock(&front->lock);
    mc_list_splice_tail(&front->given, &front->outbox);
    front->given_count += front->outbox_count;
    front->given_bytes += front->outbox_bytes;
    front->outbox_count = 0;
    front->outbox_bytes = 0;
    must_post = !front->to_core && front->given_count > 0 && !front->held;
    front->to_core = front->to_core || must_post;
    look(front);
    stalled = front->stalled;
    (void)pthread_mutex_unlock(&front->lock);
    if (front->given_count_seen > mc_gauge_get(&front->queue_max)) {
        mc_gauge_set(&front->queue_max, front->given_count_seen);
    }
    if (must_post) {
        mc_loop_post(front->fronts->core, &front->core_post);
    }
    if (stalled) {
        mc_counter_add_owner(&front->stalls, 1);
    } else {
        mc_rpc_server_unstall(front->server); /* there was room after all */
    }
    (void)mc_spend(front->server->spent, was);
}

/* Finish these; returns the bytes that were let go. */
static size_t finish_all(struct mc_rpc_front *front, struct mc_list *tasks)
{
    size_t bytes = 0;

    while (!mc_list_empty(tasks)) {
        struct mc_rpc_task *task = mc_list_first(tasks, struct mc_rpc_task, node);

        mc_list_drop(&task->node);
        bytes += task->bytes;
        mc_err_clear();
        front->fronts->ops.finish(front->arg, task);
    }
    return bytes;
}

/* On the front: answers have come, or there is room again. */
static void front_cb(struct mc_post *post)
{
    struct mc_rpc_front *front = MC_CONTAINER_OF(post, struct mc_rpc_front, front_post);
    enum mc_spent_kind was = mc_spend(front->server->spent, MC_SPENT_HANDOVER);
    struct mc_list ended;
    size_t bytes;
    bool must_post, stalled;

    mc_list_init(&ended);
    (void)pthread_mutex_lock(&front->lock);
    front->to_front = false;
    mc_list_splice_tail(&ended, &front->ended);
    (void)pthread_mutex_unlock(&front->lock);
    bytes = finish_all(front, &ended);
    (void)pthread_mutex_lock(&front->lock);
    front->ended_bytes -= bytes;
    must_post = front->held && front->ended_bytes < MC_RPC_AWAY_TOTAL_MAX;
    if (must_post) {
        front->held = false;
        front->to_core = true;
    }
    look(front);
    stalled = front->stalled;
    (void)pthread_mutex_unlock(&front->lock);
    if (must_post) {
        mc_loop_post(front->fronts->core, &front->core_post);
    }
    if (!stalled) {
        mc_rpc_server_unstall(front->server);
    }
    (void)mc_spend(front->server->spent, was);
}

/* ---- the core's side --------------------------------------------------------------------------
 */

/* Let the answers go back. True: no more may be made for now. */
static bool send_answers(struct mc_rpc_front *front)
{
    bool must_post, full;

    (void)pthread_mutex_lock(&front->lock);
    front->ended_bytes += front->answers_bytes;
    must_post = !front->to_front && (!mc_list_empty(&front->answers) || front->stalled);
    front->to_front = front->to_front || must_post;
    mc_list_splice_tail(&front->ended, &front->answers);
    full = front->ended_bytes >= MC_RPC_AWAY_TOTAL_MAX;
    (void)pthread_mutex_unlock(&front->lock);
    front->answers_bytes = 0;
    if (must_post) {
        mc_loop_post(front->loop, &front->front_post);
    }
    return full;
}

void mc_rpc_task_done(struct mc_rpc_task *task)
{
    struct mc_rpc_front *front = task->front;

    MC_ASSERT_ON_LOOP(front->fronts->core);
    if (front->fronts->stopped) {
        front->fronts->ops.finish(front->arg, task);
        return;
    }
    task->bytes = arena_bytes(task);
    mc_list_add_tail(&front->answers, &task->node);
    front->answers_bytes += task->bytes;
    if (!front->running) {
        (void)send_answers(front);
    }
}

/* Take a burst; what was taken before and not run comes first. */
static void take(struct mc_rpc_front *front)
{
    size_t bytes = 0;
    unsigned count = 0;

    (void)pthread_mutex_lock(&front->lock);
    while (count < BURST_MAX && bytes < BURST_BYTES_MAX && !mc_list_empty(&front->given) &&
           (count > 0 || mc_list_empty(&front->taken))) {
        struct mc_rpc_task *task = mc_list_first(&front->given, struct mc_rpc_task, node);

        mc_list_drop(&task->node);
        mc_list_add_tail(&front->taken, &task->node);
        bytes += task->bytes;
        count++;
    }
    front->given_count -= count;
    front->given_bytes -= bytes;
    (void)pthread_mutex_unlock(&front->lock);
}

/* Run what was taken, as long as the answers find room. */
static void run_taken(struct mc_rpc_front *front)
{
    unsigned run = 0;
    bool full = send_answers(front); /* says whether, and that there is room for requests */

    front->running = true;
    while (!full && !mc_list_empty(&front->taken)) {
        struct mc_rpc_task *task = mc_list_first(&front->taken, struct mc_rpc_task, node);

        mc_list_drop(&task->node);
        mc_err_clear();
        front->fronts->ops.run(front->fronts->arg, task);
        if (++run % ANSWERS_MAX == 0 || front->answers_bytes >= BURST_BYTES_MAX) {
            full = send_answers(front);
        }
    }
    front->running = false;
}

/* On the core: a front has given something. */
static void core_cb(struct mc_post *post)
{
    struct mc_rpc_front *front = MC_CONTAINER_OF(post, struct mc_rpc_front, core_post);
    struct mc_spent *spent = mc_loop_spent(front->fronts->core);
    enum mc_spent_kind was = mc_spend(spent, MC_SPENT_HANDOVER);
    bool again, held;

    if (front->fronts->stopped) {
        return; /* mc_rpc_handover_end() has seen to what was here */
    }
    take(front);
    mc_counter_add_owner(&front->bursts, 1);
    run_taken(front);
    (void)send_answers(front);
    (void)pthread_mutex_lock(&front->lock);
    again = !mc_list_empty(&front->given) || !mc_list_empty(&front->taken);
    held = again && front->ended_bytes >= MC_RPC_AWAY_TOTAL_MAX;
    front->held = held;
    front->to_core = again && !held;
    (void)pthread_mutex_unlock(&front->lock);
    if (again && !held) {
        mc_loop_post(front->fronts->core, &front->core_post);
    }
    mc_counter_add_owner(&front->holds, held ? 1 : 0);
    (void)mc_spend(spent, was);
}

/* ---- the beginning and the end ----------------------------------------------------------------
 */

void mc_rpc_handover_init(struct mc_rpc_front *front)
{
    (void)pthread_mutex_init(&front->lock, NULL);
    mc_list_init(&front->outbox);
    mc_list_init(&front->taken);
    mc_list_init(&front->answers);
    mc_list_init(&front->given);
    mc_list_init(&front->ended);
    front->core_post.run = core_cb;
    front->front_post.run = front_cb;
}

void mc_rpc_handover_fini(struct mc_rpc_front *front)
{
    (void)pthread_mutex_destroy(&front->lock);
}

void mc_rpc_handover_end(struct mc_rpc_front *front)
{
    struct mc_list begun_never;

    mc_list_init(&begun_never);
    mc_list_splice_tail(&begun_never, &front->taken);
    mc_list_splice_tail(&begun_never, &front->given);
    mc_list_splice_tail(&begun_never, &front->outbox);
    (void)finish_all(front, &front->ended);
    (void)finish_all(front, &front->answers);
    while (!mc_list_empty(&begun_never)) {
        struct mc_rpc_task *task = mc_list_first(&begun_never, struct mc_rpc_task, node);

        mc_list_drop(&task->node);
        mc_rpc_reply(task->request, mc_err_set(MOONCAKE_EUNAVAILABLE, "the server is closing"),
                     NULL, 0);
    }
}
