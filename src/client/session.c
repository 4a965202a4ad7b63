/* A store core on a loop with a thread of its own, and waiting for it from outside. */
#include "client/session.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "client/interrupt.h"

/* A leave is over so long after its grace, also when the master is silent. */
#define LEAVE_MS_MAX 60000u

struct mc_session {
    struct mc_loop *loop;
    struct mc_store *store;
    struct mc_post leave, hurry;
    uint64_t grace_ms; /* of leave */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Guarded by lock: what the session's thread has last heard. */
    bool joined, left;
    mooncake_err err;
    char detail[512];
};

static void on_state(void *arg, enum mc_store_state state, mooncake_err err)
{
    struct mc_session *session = arg;

    (void)pthread_mutex_lock(&session->lock);
    session->joined = session->joined || state == MC_STORE_JOINED;
    session->left = state == MC_STORE_LEFT;
    if (err != MOONCAKE_OK && !session->joined) {
        session->err = err;
        (void)snprintf(session->detail, sizeof(session->detail), "%s", mooncake_last_error());
    }
    (void)pthread_cond_broadcast(&session->changed);
    (void)pthread_mutex_unlock(&session->lock);
}

/* Under the lock, until something has changed. True: nothing has for a while; ask. */
static bool wait_changed(struct mc_session *session, uint64_t deadline_ns)
{
    uint64_t until_ns = mc_interrupt_slice_ns(deadline_ns);
    struct timespec until = {.tv_sec = (time_t)(until_ns / MC_NS_PER_S),
                             .tv_nsec = (long)(until_ns % MC_NS_PER_S)};

    return pthread_cond_timedwait(&session->changed, &session->lock, &until) == ETIMEDOUT;
}

/* Without the lock, which the interrupt hook may wait for. OK: go on waiting. */
static mooncake_err why_no_longer(uint64_t deadline_ns)
{
    return mc_monotonic_ns() >= deadline_ns ? MOONCAKE_ETIMEDOUT
           : mc_interrupt_asked()           ? MOONCAKE_ECANCELED
                                            : MOONCAKE_OK;
}

static mooncake_err wait_joined(struct mc_session *session, uint64_t deadline_ns)
{
    mooncake_err late = MOONCAKE_OK, err = MOONCAKE_OK;

    (void)pthread_mutex_lock(&session->lock);
    while (!session->joined && session->err == MOONCAKE_OK && late == MOONCAKE_OK) {
        if (wait_changed(session, deadline_ns)) {
            (void)pthread_mutex_unlock(&session->lock);
            late = why_no_longer(deadline_ns);
            (void)pthread_mutex_lock(&session->lock);
        }
    }
    if (!session->joined) {
        err = session->err != MOONCAKE_OK ? mc_err_set(session->err, "%s", session->detail)
                                          : mc_err_set(late, "joining the pool took too long");
    }
    (void)pthread_mutex_unlock(&session->lock);
    return err;
}

static void on_leave(struct mc_post *post)
{
    struct mc_session *session = MC_CONTAINER_OF(post, struct mc_session, leave);

    mc_store_leave(session->store, session->grace_ms);
}

static void on_hurry(struct mc_post *post)
{
    struct mc_session *session = MC_CONTAINER_OF(post, struct mc_session, hurry);

    mc_store_leave(session->store, 0);
}

static mooncake_err wait_left(struct mc_session *session, uint64_t grace_ms)
{
    uint64_t const deadline_ns =
        mc_deadline_ns(mc_deadline_ns(mc_monotonic_ns(), grace_ms), LEAVE_MS_MAX);
    mooncake_err err = MOONCAKE_OK;

    (void)pthread_mutex_lock(&session->lock);
    while (!session->left && err == MOONCAKE_OK) {
        if (!wait_changed(session, deadline_ns)) {
            continue;
        }
        (void)pthread_mutex_unlock(&session->lock);
        err = why_no_longer(deadline_ns);
        (void)pthread_mutex_lock(&session->lock);
    }
    err = session->left ? MOONCAKE_OK : err;
    (void)pthread_mutex_unlock(&session->lock);
    return err == MOONCAKE_OK ? err : mc_err_set(err, "leaving the pool goes on, not waited for");
}

static void init_waiting(struct mc_session *session)
{
    pthread_condattr_t monotonic;

    (void)pthread_mutex_init(&session->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&session->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

/* Undo what open has done after the loop was stopped or before it was started. */
static void free_session(struct mc_session *session)
{
    mc_loop_adopt(session->loop);
    mc_store_close(&session->store);
    mc_loop_destroy(&session->loop);
    (void)pthread_cond_destroy(&session->changed);
    (void)pthread_mutex_destroy(&session->lock);
    mc_free(session);
}

mooncake_err mc_session_open(const struct mc_store_options *options, uint64_t deadline_ns,
                             struct mc_session **out)
{
    struct mc_store_options with_callback = *options;
    struct mc_session *session = mc_calloc(1, sizeof(*session));
    mooncake_err err;

    if (session == NULL) {
        return MOONCAKE_ENOMEM;
    }
    err = mc_loop_create(0, &session->loop);
    if (err != MOONCAKE_OK) {
        mc_free(session);
        return err;
    }
    init_waiting(session);
    mc_loop_adopt(session->loop);
    with_callback.on_state = on_state;
    with_callback.arg = session;
    err = mc_store_open(session->loop, &with_callback, &session->store);
    if (err == MOONCAKE_OK) {
        err = mc_loop_start(session->loop, "mc-session");
    }
    if (err != MOONCAKE_OK) {
        free_session(session);
        return err;
    }
    err = wait_joined(session, deadline_ns);
    if (err != MOONCAKE_OK) {
        char detail[sizeof(session->detail)];

        (void)snprintf(detail, sizeof(detail), "%s", mooncake_last_error());
        mc_session_close(&session);
        return mc_err_set(err, "%s", detail);
    }
    *out = session;
    return MOONCAKE_OK;
}

const char *mc_session_name(const struct mc_session *session)
{
    return mc_store_name(session->store);
}

mooncake_err mc_session_leave(struct mc_session *session, uint64_t grace_ms)
{
    session->grace_ms = grace_ms;
    session->leave.run = on_leave;
    mc_loop_post(session->loop, &session->leave);
    return wait_left(session, grace_ms);
}

void mc_session_close(struct mc_session **session_ptr)
{
    struct mc_session *session = *session_ptr;

    if (session == NULL) {
        return;
    }
    session->hurry.run = on_hurry;
    mc_loop_post(session->loop, &session->hurry);
    (void)wait_left(session, 0); /* in vain: the master finds out by silence */
    mc_loop_stop(session->loop);
    free_session(session);
    *session_ptr = NULL;
}
