/*
 * Fronts: their loops and threads, who gets which connection, drain, end.
 *
 * Design note: one listener, which front 0 looks after and which gives each connection to the front
 * that has the fewest. SO_REUSEPORT would spare the hand-over of a descriptor, but it deals
 * connections out by a hash (some fronts get none while there are few), and it would let a second
 * server start on the same port and take half of the first one's connections.
 */
#include "rpc/rpc_fronts.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "rpc/rpc_fronts_impl.h"

/* ---- connections ------------------------------------------------------------------------------
 */

/* A connection on its way from the listener to its front. */
struct newcomer {
    struct mc_post post;
    struct mc_rpc_front *front;
    int fd;
};

static void give_connection(struct mc_rpc_front *front, int fd)
{
    if (!mc_rpc_server_take(front->server, fd)) {
        mc_counter_add_owner(&front->ended_conns, 1);
    }
}

static void newcomer_cb(struct mc_post *post)
{
    struct newcomer *newcomer = MC_CONTAINER_OF(post, struct newcomer, post);

    give_connection(newcomer->front, newcomer->fd);
    mc_free(newcomer);
}

static uint64_t load_of(const struct mc_rpc_front *front)
{
    return front->assigned - mc_counter_get(&front->ended_conns);
}

/* On front 0. */
static void on_accept(void *arg, int fd)
{
    struct mc_rpc_fronts *fronts = arg;
    struct mc_rpc_front *front = &fronts->front[0];
    struct newcomer *newcomer;

    for (unsigned i = 1; i < fronts->count; i++) {
        front = load_of(&fronts->front[i]) < load_of(front) ? &fronts->front[i] : front;
    }
    if (front == &fronts->front[0]) {
        front->assigned++;
        give_connection(front, fd);
        return;
    }
    newcomer = mc_malloc(sizeof(*newcomer));
    if (newcomer == NULL) {
        (void)close(fd);
        return;
    }
    front->assigned++;
    *newcomer = (struct newcomer){.post = {.run = newcomer_cb}, .front = front, .fd = fd};
    mc_loop_post(front->loop, &newcomer->post);
}

static void on_conn_closed(void *arg, struct mc_rpc_conn *conn)
{
    struct mc_rpc_front *front = conn->server->front;
    const struct mc_rpc_server_ops *ops = front->fronts->ops.server;

    mc_counter_add_owner(&front->ended_conns, 1);
    if (ops->on_conn_closed != NULL) {
        ops->on_conn_closed(arg, conn);
    }
}

/* ---- are they awake? --------------------------------------------------------------------------
 */

static void ask_cb(struct mc_post *post)
{
    struct mc_rpc_front *front = MC_CONTAINER_OF(post, struct mc_rpc_front, ask_post);

    mc_loop_post(front->fronts->core, &front->told_post);
}

static void told_cb(struct mc_post *post)
{
    MC_CONTAINER_OF(post, struct mc_rpc_front, told_post)->asked_ns = 0;
}

uint64_t mc_rpc_fronts_late_ns(struct mc_rpc_fronts *fronts)
{
    uint64_t now_ns = mc_monotonic_ns();
    uint64_t late_ns = 0;

    MC_ASSERT_ON_LOOP(fronts->core);
    for (unsigned i = 0; i < fronts->count && !fronts->stopped; i++) {
        struct mc_rpc_front *front = &fronts->front[i];

        if (front->asked_ns == 0) {
            front->asked_ns = now_ns;
            mc_loop_post(front->loop, &front->ask_post);
        } else if (now_ns - front->asked_ns > late_ns) {
            late_ns = now_ns - front->asked_ns;
        }
    }
    return late_ns;
}

/* ---- drain ------------------------------------------------------------------------------------
 */

/* On the core. */
static void drained_cb(struct mc_post *post)
{
    struct mc_rpc_fronts *fronts = MC_CONTAINER_OF(post, struct mc_rpc_front, drained_post)->fronts;

    MC_ASSERT(fronts->drains_left > 0);
    if (--fronts->drains_left == 0 && !fronts->stopped) {
        fronts->drain_done(fronts->drain_arg);
    }
}

static void server_drained(void *arg)
{
    struct mc_rpc_front *front = arg;

    mc_loop_post(front->fronts->core, &front->drained_post);
}

/* On the front. */
static void drain_cb(struct mc_post *post)
{
    struct mc_rpc_front *front = MC_CONTAINER_OF(post, struct mc_rpc_front, drain_post);
    struct mc_rpc_fronts *fronts = front->fronts;

    if (front == &fronts->front[0]) {
        mc_listener_close(&fronts->listener);
    }
    mc_rpc_server_drain(front->server, fronts->grace_ms, server_drained, front);
}

void mc_rpc_fronts_drain(struct mc_rpc_fronts *fronts, uint32_t grace_ms, void (*done)(void *arg),
                         void *done_arg)
{
    MC_ASSERT_ON_LOOP(fronts->core);
    MC_ASSERT(fronts->drains_left == 0 && !fronts->stopped);
    fronts->grace_ms = grace_ms;
    fronts->drain_done = done;
    fronts->drain_arg = done_arg;
    fronts->drains_left = fronts->count;
    for (unsigned i = 0; i < fronts->count; i++) {
        mc_loop_post(fronts->front[i].loop, &fronts->front[i].drain_post);
    }
}

/* ---- the end ----------------------------------------------------------------------------------
 */

void mc_rpc_fronts_stop(struct mc_rpc_fronts *fronts)
{
    MC_ASSERT_ON_LOOP(fronts->core);
    if (fronts->stopped) {
        return;
    }
    fronts->stopped = true;
    for (unsigned i = 0; i < fronts->count; i++) { /* 0 first: it gives the others connections */
        mc_loop_stop(fronts->front[i].loop);
    }
    for (unsigned i = 0; i < fronts->count; i++) {
        mc_rpc_handover_end(&fronts->front[i]);
    }
}

static void free_cb(struct mc_post *post)
{
    mc_free(MC_CONTAINER_OF(post, struct mc_rpc_fronts, free_post));
}

void mc_rpc_fronts_close(struct mc_rpc_fronts **fronts_ptr)
{
    struct mc_rpc_fronts *fronts = *fronts_ptr;

    if (fronts == NULL) {
        return;
    }
    mc_rpc_fronts_stop(fronts);
    mc_listener_close(&fronts->listener);
    for (unsigned i = 0; i < fronts->count; i++) {
        mc_rpc_server_close(&fronts->front[i].server);
        mc_loop_destroy(&fronts->front[i].loop);
        mc_rpc_handover_fini(&fronts->front[i]);
    }
    *fronts_ptr = NULL;
    /* Posts of the threads may still wait on the core's loop; this one is behind them. */
    fronts->free_post.run = free_cb;
    mc_loop_post(fronts->core, &fronts->free_post);
}

/* ---- the beginning ----------------------------------------------------------------------------
 */

static mooncake_err open_front(struct mc_rpc_fronts *fronts, unsigned index,
                               const struct mc_rpc_fronts_options *options)
{
    struct mc_rpc_front *front = &fronts->front[index];
    mooncake_err err;

    front->fronts = fronts;
    front->arg = options->front_arg[index];
    front->ask_post.run = ask_cb;
    front->told_post.run = told_cb;
    front->drain_post.run = drain_cb;
    front->drained_post.run = drained_cb;
    MC_TRY(mc_loop_create(options->poll_us, &front->loop));
    mc_spent_init(mc_loop_spent(front->loop), options->spent_turns);
    err = mc_rpc_server_open_part(front->loop, options->count, &fronts->server_ops, front->arg,
                                  &front->server);
    if (err != MOONCAKE_OK) {
        mc_loop_destroy(&front->loop);
        return err;
    }
    front->server->front = front;
    mc_rpc_handover_init(front);
    fronts->count++;
    return MOONCAKE_OK;
}

static mooncake_err start_threads(struct mc_rpc_fronts *fronts)
{
    char name[16];

    for (unsigned i = fronts->count; i-- > 0;) { /* 0, which accepts, last */
        (void)snprintf(name, sizeof(name), "mc-io-%u", i % MC_IO_THREADS_MAX);
        MC_TRY(mc_loop_start(fronts->front[i].loop, name));
    }
    return MOONCAKE_OK;
}

mooncake_err mc_rpc_fronts_open(struct mc_loop *core, const struct mc_rpc_fronts_options *options,
                                const struct mc_rpc_fronts_ops *ops, struct mc_rpc_fronts **out)
{
    struct mc_rpc_fronts *fronts = mc_calloc(1, sizeof(*fronts));
    mooncake_err err = MOONCAKE_OK;

    MC_ASSERT_ON_LOOP(core);
    MC_ASSERT(options->count >= 1 && options->count <= MC_IO_THREADS_MAX);
    if (fronts == NULL) {
        return MOONCAKE_ENOMEM;
    }
    fronts->core = core;
    fronts->ops = *ops;
    fronts->server_ops = *ops->server;
    fronts->server_ops.on_conn_closed = on_conn_closed;
    fronts->arg = options->arg;
    for (unsigned i = 0; i < options->count && err == MOONCAKE_OK; i++) {
        err = open_front(fronts, i, options);
    }
    if (err == MOONCAKE_OK) {
        err = mc_listener_open(fronts->front[0].loop, options->address, false, on_accept, fronts,
                               &fronts->listener);
    }
    if (err == MOONCAKE_OK) {
        fronts->port = mc_listener_port(fronts->listener);
        err = start_threads(fronts);
    }
    if (err != MOONCAKE_OK) {
        mc_rpc_fronts_close(&fronts);
        return err;
    }
    *out = fronts;
    return MOONCAKE_OK;
}

/* ---- figures ----------------------------------------------------------------------------------
 */

uint16_t mc_rpc_fronts_port(const struct mc_rpc_fronts *fronts)
{
    return fronts->port;
}

unsigned mc_rpc_fronts_count(const struct mc_rpc_fronts *fronts)
{
    return fronts->count;
}

struct mc_loop *mc_rpc_fronts_loop(const struct mc_rpc_fronts *fronts, unsigned index)
{
    return fronts->front[index].loop;
}

const struct mc_rpc_server_stats *mc_rpc_fronts_server_stats(const struct mc_rpc_fronts *fronts,
                                                             unsigned index)
{
    return mc_rpc_server_stats(fronts->front[index].server);
}

struct mc_rpc_fronts_stats mc_rpc_fronts_stats(const struct mc_rpc_fronts *fronts)
{
    struct mc_rpc_fronts_stats sum = {0};

    for (unsigned i = 0; i < fronts->count; i++) {
        const struct mc_rpc_front *front = &fronts->front[i];
        uint64_t const queue_max = (uint64_t)mc_gauge_get(&front->queue_max);

        sum.requests += mc_counter_get(&front->requests);
        sum.bursts += mc_counter_get(&front->bursts);
        sum.queue_max = queue_max > sum.queue_max ? queue_max : sum.queue_max;
        sum.stalls += mc_counter_get(&front->stalls);
        sum.holds += mc_counter_get(&front->holds);
    }
    return sum;
}
