/* The pool of borrowed loops. */
#include "client/engine.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "client/interrupt.h"

/* Bytes that one engine's replies may take at a time: two replies at the wire's limit, unpacked. */
#define WINDOW_ARENA_MAX ((size_t)512 << 20)
/* What an engine keeps for its next call, of each of its arenas. Without it a call of 512 keys was
 * seen to fault tens of pages in again; a call that needs more gives the rest back. */
#define ARENA_KEEP_MAX ((size_t)2 << 20)
#define REPORT_ARENA_MAX ((size_t)64 << 10)
#define FINDINGS_ARENA_MAX ((size_t)512 << 10) /* MC_FINDINGS_MAX of the longest keys */

/* A connection that no call has used for so long is closed when the engine is next borrowed. */
#define IDLE_CLOSE_MS 60000u

/* Within so short a time little can have happened to an idle engine, and looking costs more than
 * asking again when it did. */
#define FRESH_NS (MC_NS_PER_MS / 2)

static void on_alarm(void *arg)
{
    struct mc_engine *engine = arg;

    if (engine->on_alarm != NULL) {
        engine->on_alarm(engine->alarm_arg);
    }
}

static void destroy_engine(struct mc_engine **engine_ptr)
{
    struct mc_engine *engine = *engine_ptr;

    mc_loop_adopt(engine->loop);
    if (engine->alarm != NULL) {
        mc_timer_destroy(&engine->alarm);
    }
    mc_transport_set_close(&engine->transports);
    if (engine->stub.rpc != NULL) {
        mc_master_stub_close(&engine->stub);
    }
    mc_loop_destroy(&engine->loop);
    mc_arena_fini(&engine->arena);
    mc_arena_fini(&engine->report_arena);
    mc_arena_fini(&engine->findings_arena);
    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        mc_arena_fini(&engine->windows[i]);
    }
    mc_free(engine);
    *engine_ptr = NULL;
}

static mooncake_err create_engine(const struct mc_engine_options *options, struct mc_engine **out)
{
    struct mc_master_stub_options stub = {.address = options->master,
                                          .program = options->program,
                                          .client_id = options->client_id,
                                          .connect_timeout_ms = options->connect_timeout_ms};
    struct mc_transport_options transport = options->transports;
    struct mc_engine *engine = mc_calloc(1, sizeof(*engine));
    mooncake_err err;

    if (engine == NULL) {
        return MOONCAKE_ENOMEM;
    }
    transport.connect_timeout_ms = options->connect_timeout_ms;
    transport.idle_close_ms = IDLE_CLOSE_MS;
    transport.connections_max = options->tcp_connections;
    mc_list_init(&engine->node);
    mc_arena_init(&engine->arena, 0);
    mc_arena_keep(&engine->arena, ARENA_KEEP_MAX);
    mc_arena_init(&engine->report_arena, REPORT_ARENA_MAX);
    mc_arena_init(&engine->findings_arena, FINDINGS_ARENA_MAX);
    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        mc_arena_init(&engine->windows[i], WINDOW_ARENA_MAX);
        mc_arena_keep(&engine->windows[i], ARENA_KEEP_MAX);
    }
    err = mc_loop_create(options->poll_us, &engine->loop);
    if (err != MOONCAKE_OK) {
        mc_free(engine); /* without a loop nothing else has begun */
        return err;
    }
    mc_loop_adopt(engine->loop);
    err = mc_timer_create(engine->loop, on_alarm, engine, &engine->alarm);
    if (err == MOONCAKE_OK) {
        err = mc_master_stub_open(engine->loop, &stub, &engine->stub);
    }
    if (err == MOONCAKE_OK) {
        err = mc_transport_set_open(engine->loop, options->transport, &transport,
                                    &engine->transports);
    }
    if (err != MOONCAKE_OK) {
        destroy_engine(&engine);
        return err;
    }
    *out = engine;
    return MOONCAKE_OK;
}

mooncake_err mc_engine_pool_init(struct mc_engine_pool *pool,
                                 const struct mc_engine_options *options)
{
    pthread_condattr_t monotonic;
    int status;

    MC_ASSERT(options->engines_max > 0);
    *pool = (struct mc_engine_pool){.options = *options};
    mc_list_init(&pool->idle);
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    status = pthread_cond_init(&pool->returned, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    return status == 0 ? MOONCAKE_OK : MOONCAKE_ENOMEM;
}

void mc_engine_pool_fini(struct mc_engine_pool *pool)
{
    while (!mc_list_empty(&pool->idle)) {
        struct mc_engine *engine = mc_list_first(&pool->idle, struct mc_engine, node);

        mc_list_drop(&engine->node);
        pool->count--;
        destroy_engine(&engine);
    }
    MC_ASSERT(pool->count == 0);
    (void)pthread_cond_destroy(&pool->returned);
    (void)pthread_mutex_destroy(&pool->lock);
}

/* The lock is held; it is let go of while waiting, and while the hook is asked. */
static mooncake_err wait_for_return(struct mc_engine_pool *pool, uint64_t deadline_ns)
{
    uint64_t until_ns = mc_interrupt_slice_ns(deadline_ns);
    struct timespec until = {.tv_sec = (time_t)(until_ns / MC_NS_PER_S),
                             .tv_nsec = (long)(until_ns % MC_NS_PER_S)};
    bool asked;

    if (pthread_cond_timedwait(&pool->returned, &pool->lock, &until) != ETIMEDOUT) {
        return MOONCAKE_OK;
    }
    if (until_ns == deadline_ns) {
        return mc_err_set(MOONCAKE_ETIMEDOUT,
                          "all %u engines were busy with other calls until the deadline; raise "
                          "engines_max, or make fewer calls at a time",
                          pool->options.engines_max);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    asked = mc_interrupt_asked();
    (void)pthread_mutex_lock(&pool->lock);
    return asked
               ? mc_err_set(MOONCAKE_ECANCELED, "ended early while all engines were busy, because "
                                                "this thread's interrupt hook asked for it")
               : MOONCAKE_OK;
}

/* An idle engine, or permission (NULL) to make one. */
static mooncake_err take_idle(struct mc_engine_pool *pool, uint64_t deadline_ns,
                              struct mc_engine **out)
{
    mooncake_err err = MOONCAKE_OK;

    *out = NULL;
    (void)pthread_mutex_lock(&pool->lock);
    while (mc_list_empty(&pool->idle) && pool->count == pool->options.engines_max &&
           err == MOONCAKE_OK) {
        err = wait_for_return(pool, deadline_ns);
    }
    if (!mc_list_empty(&pool->idle)) {
        err = MOONCAKE_OK; /* also when it came with the deadline */
        *out = mc_list_first(&pool->idle, struct mc_engine, node);
        mc_list_drop(&(*out)->node);
    } else if (err == MOONCAKE_OK) {
        pool->count++;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return err;
}

mooncake_err mc_engine_borrow(struct mc_engine_pool *pool, uint64_t deadline_ns,
                              struct mc_engine **out)
{
    struct mc_engine *engine;
    mooncake_err err;

    MC_TRY(take_idle(pool, deadline_ns, &engine));
    if (engine != NULL) {
        mc_loop_adopt(engine->loop);
        if (mc_monotonic_ns() - engine->returned_ns > FRESH_NS) {
            mc_loop_run_ready(engine->loop); /* a connection that died meanwhile is noticed here */
        }
        *out = engine;
        return MOONCAKE_OK;
    }
    err = create_engine(&pool->options, &engine);
    if (err != MOONCAKE_OK) {
        (void)pthread_mutex_lock(&pool->lock);
        pool->count--;
        (void)pthread_cond_signal(&pool->returned);
        (void)pthread_mutex_unlock(&pool->lock);
        return err;
    }
    *out = engine;
    return MOONCAKE_OK;
}

/* The lock is held. */
static void count_stats(struct mc_engine_pool *pool, struct mc_engine *engine)
{
    const struct mc_loop_stats now = mc_loop_stats(engine->loop);

    pool->stats.idle_poll_ns += now.idle_poll_ns - engine->counted.idle_poll_ns;
    pool->stats.polls_found += now.polls_found - engine->counted.polls_found;
    pool->stats.polls_missed += now.polls_missed - engine->counted.polls_missed;
    pool->stats.turns += now.turns - engine->counted.turns;
    pool->stats.sleeps += now.sleeps - engine->counted.sleeps;
    pool->stats.rests += now.rests - engine->counted.rests;
    engine->counted = now;
}

struct mc_loop_stats mc_engine_pool_stats(struct mc_engine_pool *pool)
{
    struct mc_loop_stats stats;

    (void)pthread_mutex_lock(&pool->lock);
    stats = pool->stats;
    (void)pthread_mutex_unlock(&pool->lock);
    return stats;
}

void mc_engine_return(struct mc_engine_pool *pool, struct mc_engine **engine_ptr)
{
    struct mc_engine *engine = *engine_ptr;

    MC_ASSERT_ON_LOOP(engine->loop);
    MC_ASSERT(!mc_list_linked(&engine->node));
    mc_engine_clear_alarm(engine);
    engine->returned_ns = mc_monotonic_ns();
    mc_arena_reset(&engine->arena);
    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        mc_arena_reset(&engine->windows[i]);
    }
    *engine_ptr = NULL;
    (void)pthread_mutex_lock(&pool->lock);
    count_stats(pool, engine);
    mc_list_add_head(&pool->idle, &engine->node);
    (void)pthread_cond_signal(&pool->returned);
    (void)pthread_mutex_unlock(&pool->lock);
}

void mc_engine_set_alarm(struct mc_engine *engine, uint64_t delay_ms, void (*fire)(void *arg),
                         void *arg)
{
    engine->on_alarm = fire;
    engine->alarm_arg = arg;
    mc_timer_set(engine->alarm, delay_ms, 0);
}

void mc_engine_clear_alarm(struct mc_engine *engine)
{
    if (engine->on_alarm != NULL) {
        engine->on_alarm = NULL;
        mc_timer_clear(engine->alarm);
    }
}
