/*
 * The store's data loops. The first loop listens and hands each connection to the loop that has the
 * fewest; the sessions do the rest.
 */
#include "transport/tcp_server.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/loop.h"
#include "io/stream.h"
#include "transport/mount_table.h"
#include "transport/tcp_session.h"

#define LOOPS_MAX 16u
#define STALL_MS_DEFAULT 30000u
#define STALL_LOOKS 4u /* per stall time */

/* One data loop. Its thread owns all but what is said to be shared. */
struct data_loop {
    struct mc_tcp_server *server; /* borrowed */
    struct mc_loop *loop;         /* owned */
    struct mc_timer *stall_timer; /* owned */
    struct mc_tcp_session_group group;
    struct mc_post drop_post; /* in the loop's queue while drop_posted */
    _Atomic bool drop_posted; /* shared */
    struct mc_post drain_post;
    bool draining;
    bool idle; /* guarded by server->mutex: seen without a request after draining began */
};

struct mc_tcp_server {
    struct mc_tcp_server_options options; /* address is the caller's: not read after open */
    struct mc_tcp_server_stats stats;
    struct mc_listener *listener; /* owned; of the first loop */
    uint16_t port;
    struct mc_mount_watcher watcher;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* on the monotonic clock */
    unsigned loops_count;
    struct data_loop loops[LOOPS_MAX];
};

/* A connection on its way from the listening loop to another. */
struct handover {
    struct mc_post post;
    struct data_loop *to; /* borrowed */
    int fd;               /* owned */
};

/* ---- connections ----------------------------------------------------------------------------- */

static void serve(struct data_loop *dl, int fd)
{
    mooncake_err err = mc_tcp_session_open(&dl->group, fd);

    if (err != MOONCAKE_OK) {
        mc_log_warn("tcp.accept", "err=%s", mooncake_err_name(err));
    } else {
        mc_counter_add(&dl->server->stats.accepted, 1);
    }
}

static void run_handover(struct mc_post *post)
{
    struct handover *h = MC_CONTAINER_OF(post, struct handover, post);
    struct data_loop *dl = h->to;
    int fd = h->fd;

    mc_free(h);
    serve(dl, fd);
}

static void hand_over(struct data_loop *to, int fd)
{
    struct handover *h = mc_malloc(sizeof(*h));

    if (h == NULL) {
        mc_log_warn("tcp.accept", "err=%s", mooncake_err_name(MOONCAKE_ENOMEM));
        mc_tcp_session_unexpect(&to->group);
        (void)close(fd);
        return;
    }
    *h = (struct handover){.to = to, .fd = fd};
    h->post.run = run_handover;
    mc_loop_post(to->loop, &h->post);
}

/* The loop that serves the fewest. Counts of other loops may be a moment old. */
static struct data_loop *least_loaded(struct mc_tcp_server *server)
{
    struct data_loop *best = &server->loops[0];

    for (unsigned i = 1; i < server->loops_count; i++) {
        if (atomic_load_explicit(&server->loops[i].group.connections, memory_order_relaxed) <
            atomic_load_explicit(&best->group.connections, memory_order_relaxed)) {
            best = &server->loops[i];
        }
    }
    return best;
}

static void on_accept(void *arg, int fd)
{
    struct mc_tcp_server *server = arg;
    struct data_loop *dl = least_loaded(server);

    if (mc_gauge_get(&server->stats.connections) >= (int64_t)MC_CONNECTIONS_MAX) {
        mc_log_warn("tcp.accept", "connections_max=%u err=%s", MC_CONNECTIONS_MAX,
                    mooncake_err_name(MOONCAKE_EUNAVAILABLE));
        (void)close(fd);
        return;
    }
    mc_tcp_session_expect(&dl->group);
    if (dl == &server->loops[0]) {
        serve(dl, fd);
    } else {
        hand_over(dl, fd);
    }
}

/* ---- mounts that go -------------------------------------------------------------------------- */

static void run_drop(struct mc_post *post)
{
    struct data_loop *dl = MC_CONTAINER_OF(post, struct data_loop, drop_post);

    atomic_store(&dl->drop_posted, false); /* before looking: a later drop posts again */
    mc_tcp_session_close_dropped(&dl->group);
}

static void on_mount_drop(struct mc_mount_watcher *watcher)
{
    struct mc_tcp_server *server = MC_CONTAINER_OF(watcher, struct mc_tcp_server, watcher);

    for (unsigned i = 0; i < server->loops_count; i++) {
        struct data_loop *dl = &server->loops[i];

        if (!atomic_exchange(&dl->drop_posted, true)) {
            mc_loop_post(dl->loop, &dl->drop_post);
        }
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void tell_idle(struct data_loop *dl)
{
    (void)pthread_mutex_lock(&dl->server->mutex);
    dl->idle = true;
    (void)pthread_cond_signal(&dl->server->changed);
    (void)pthread_mutex_unlock(&dl->server->mutex);
}

static void on_group_idle(struct mc_tcp_session_group *group)
{
    struct data_loop *dl = MC_CONTAINER_OF(group, struct data_loop, group);

    if (dl->draining) {
        tell_idle(dl);
    }
}

static void run_drain(struct mc_post *post)
{
    struct data_loop *dl = MC_CONTAINER_OF(post, struct data_loop, drain_post);

    dl->draining = true;
    if (dl->group.requests_now == 0) {
        tell_idle(dl);
    }
}

static bool all_idle(const struct mc_tcp_server *server)
{
    for (unsigned i = 0; i < server->loops_count; i++) {
        if (!server->loops[i].idle) {
            return false;
        }
    }
    return true;
}

static void drain(struct mc_tcp_server *server, uint32_t grace_ms)
{
    const uint64_t until_ns = mc_deadline_ns(mc_monotonic_ns(), grace_ms);
    const struct timespec until = {.tv_sec = (time_t)(until_ns / MC_NS_PER_S),
                                   .tv_nsec = (long)(until_ns % MC_NS_PER_S)};

    for (unsigned i = 0; i < server->loops_count; i++) {
        mc_loop_post(server->loops[i].loop, &server->loops[i].drain_post);
    }
    (void)pthread_mutex_lock(&server->mutex);
    while (!all_idle(server) &&
           pthread_cond_timedwait(&server->changed, &server->mutex, &until) == 0) {
    }
    (void)pthread_mutex_unlock(&server->mutex);
}

/* Take down what has been built, as far as it has been. Loops without a thread are the caller's. */
static void teardown(struct mc_tcp_server *server)
{
    /* The first loop first: it hands connections to the others. */
    for (unsigned i = 0; i < server->loops_count; i++) {
        mc_loop_stop(server->loops[i].loop);
    }
    mc_listener_close(&server->listener);
    for (unsigned i = 0; i < server->loops_count; i++) {
        struct data_loop *dl = &server->loops[i];

        mc_tcp_session_close_all(&dl->group);
        mc_timer_destroy(&dl->stall_timer);
        mc_loop_destroy(&dl->loop);
    }
    (void)pthread_cond_destroy(&server->changed);
    (void)pthread_mutex_destroy(&server->mutex);
    mc_free(server);
}

static void log_served(const struct mc_tcp_server *server)
{
    const struct mc_tcp_server_stats *stats = &server->stats;
    const struct mc_loop_stats polling = mc_tcp_server_loop_stats(server);

    mc_log_info("tcp.served",
                "reads=%" PRIu64 " read_bytes=%" PRIu64 " writes=%" PRIu64 " written_bytes=%" PRIu64
                " poll_idle_ms=%" PRIu64 " polls_found=%" PRIu64 " polls_missed=%" PRIu64
                " sleeps=%" PRIu64,
                mc_counter_get(&stats->reads), mc_counter_get(&stats->bytes_read),
                mc_counter_get(&stats->writes), mc_counter_get(&stats->bytes_written),
                (uint64_t)(polling.idle_poll_ns / MC_NS_PER_MS), polling.polls_found,
                polling.polls_missed, polling.sleeps);
}

void mc_tcp_server_close(struct mc_tcp_server **server_ptr, uint32_t grace_ms)
{
    struct mc_tcp_server *server = *server_ptr;

    if (server == NULL) {
        return;
    }
    drain(server, grace_ms);
    log_served(server);
    mc_mount_unwatch(&server->watcher); /* from here on, teardown() gives all mounts back */
    teardown(server);
    *server_ptr = NULL;
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void on_stall_timer(void *arg)
{
    struct data_loop *dl = arg;
    const uint64_t now_ns = mc_loop_now_ns(dl->loop);
    const uint64_t stall_ns = dl->server->options.stall_ms * MC_NS_PER_MS;

    mc_tcp_session_close_stalled(&dl->group, now_ns > stall_ns ? now_ns - stall_ns : 0);
}

/* Make the next loop; it has no thread yet, so that this thread may put things on it. */
static mooncake_err add_loop(struct mc_tcp_server *server)
{
    struct data_loop *dl = &server->loops[server->loops_count];
    const uint32_t look_ms = server->options.stall_ms / STALL_LOOKS + 1;

    MC_TRY(mc_loop_create(server->options.poll_us, &dl->loop));
    server->loops_count++; /* teardown() knows of it from here */
    dl->server = server;
    dl->drop_post.run = run_drop;
    dl->drain_post.run = run_drain;
    mc_tcp_session_group_init(&dl->group, dl->loop, &server->stats, on_group_idle);
    MC_TRY(mc_timer_create(dl->loop, on_stall_timer, dl, &dl->stall_timer));
    mc_timer_set(dl->stall_timer, look_ms, look_ms);
    return MOONCAKE_OK;
}

static mooncake_err build(struct mc_tcp_server *server)
{
    for (unsigned i = 0; i < server->options.loops; i++) {
        MC_TRY(add_loop(server));
    }
    MC_TRY(mc_listener_open(server->loops[0].loop, server->options.address, false, on_accept,
                            server, &server->listener));
    server->port = mc_listener_port(server->listener);
    for (unsigned i = server->loops_count; i > 0; i--) { /* the listening one last */
        char name[24];

        (void)snprintf(name, sizeof(name), "mc-data-%u", (i - 1) % LOOPS_MAX);
        MC_TRY(mc_loop_start(server->loops[i - 1].loop, name));
    }
    return MOONCAKE_OK;
}

static mooncake_err init_sync(struct mc_tcp_server *server)
{
    pthread_condattr_t attr;

    if (pthread_mutex_init(&server->mutex, NULL) != 0) {
        return MOONCAKE_ENOMEM;
    }
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (pthread_cond_init(&server->changed, &attr) != 0) {
        (void)pthread_condattr_destroy(&attr);
        (void)pthread_mutex_destroy(&server->mutex);
        return MOONCAKE_ENOMEM;
    }
    (void)pthread_condattr_destroy(&attr);
    return MOONCAKE_OK;
}

mooncake_err mc_tcp_server_open(const struct mc_tcp_server_options *options,
                                struct mc_tcp_server **out)
{
    struct mc_tcp_server *server;
    mooncake_err err;

    if (options->loops == 0 || options->loops > LOOPS_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "data loops: %u is not between 1 and %u", options->loops,
                          LOOPS_MAX);
    }
    server = mc_calloc(1, sizeof(*server));
    if (server == NULL) {
        return MOONCAKE_ENOMEM;
    }
    err = init_sync(server);
    if (err != MOONCAKE_OK) {
        mc_free(server);
        return err;
    }
    server->options = *options;
    if (options->stall_ms == 0) {
        server->options.stall_ms = STALL_MS_DEFAULT;
    }
    server->watcher.on_drop = on_mount_drop;
    err = build(server);
    if (err != MOONCAKE_OK) {
        teardown(server);
        return err;
    }
    mc_mount_watch(&server->watcher);
    *out = server;
    return MOONCAKE_OK;
}

uint16_t mc_tcp_server_port(const struct mc_tcp_server *server)
{
    return server->port;
}

const struct mc_tcp_server_stats *mc_tcp_server_stats(const struct mc_tcp_server *server)
{
    return &server->stats;
}

struct mc_loop_stats mc_tcp_server_loop_stats(const struct mc_tcp_server *server)
{
    struct mc_loop_stats sum = {0};

    for (unsigned i = 0; i < server->loops_count; i++) {
        const struct mc_loop_stats one = mc_loop_stats(server->loops[i].loop);

        sum.idle_poll_ns += one.idle_poll_ns;
        sum.polls_found += one.polls_found;
        sum.polls_missed += one.polls_missed;
        sum.turns += one.turns;
        sum.sleeps += one.sleeps;
        sum.rests += one.rests;
    }
    return sum;
}
