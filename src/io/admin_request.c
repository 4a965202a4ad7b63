/* The life of one admin request between the HTTP thread and the loop. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "io/admin_impl.h"

mooncake_err mc_admin_gate_create(struct mc_admin_gate **out)
{
    struct mc_admin_gate *gate = mc_calloc(1, sizeof(*gate));
    pthread_condattr_t attr;

    if (gate == NULL) {
        return MOONCAKE_ENOMEM;
    }
    (void)pthread_mutex_init(&gate->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&gate->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    gate->refs = 1;
    mc_list_init(&gate->requests);
    mc_list_init(&gate->conns);
    *out = gate;
    return MOONCAKE_OK;
}

void mc_admin_gate_unref(struct mc_admin_gate *gate)
{
    unsigned left;

    (void)pthread_mutex_lock(&gate->lock);
    MC_ASSERT(gate->refs > 0);
    left = --gate->refs;
    (void)pthread_mutex_unlock(&gate->lock);
    if (left == 0) {
        (void)pthread_cond_destroy(&gate->changed);
        (void)pthread_mutex_destroy(&gate->lock);
        mc_free(gate);
    }
}

mooncake_err mc_admin_request_create(struct mc_admin_gate *gate, struct mc_loop *loop, void *arg,
                                     uint32_t timeout_ms, struct mc_admin_request **out)
{
    struct mc_admin_request *request = mc_calloc(1, sizeof(*request));

    if (request == NULL) {
        return MOONCAKE_ENOMEM;
    }
    request->gate = gate;
    request->loop = loop;
    request->arg = arg;
    request->timeout_ms = timeout_ms;
    request->refs = 1;
    mc_arena_init(&request->arena, 0);
    mc_buf_init(&request->body);
    mc_buf_init(&request->reply.body);
    request->reply.status = 200;
    request->reply.content_type = "text/plain; charset=utf-8";
    (void)pthread_mutex_lock(&gate->lock);
    gate->refs++;
    mc_list_add_tail(&gate->requests, &request->node);
    (void)pthread_mutex_unlock(&gate->lock);
    *out = request;
    return MOONCAKE_OK;
}

void mc_admin_request_ref(struct mc_admin_request *request)
{
    (void)pthread_mutex_lock(&request->gate->lock);
    request->refs++;
    (void)pthread_mutex_unlock(&request->gate->lock);
}

void mc_admin_request_unref(struct mc_admin_request *request)
{
    struct mc_admin_gate *gate = request->gate;
    unsigned left;

    (void)pthread_mutex_lock(&gate->lock);
    MC_ASSERT(request->refs > 0);
    left = --request->refs;
    if (left == 0) {
        mc_list_drop(&request->node);
    }
    (void)pthread_mutex_unlock(&gate->lock);
    if (left == 0) {
        MC_ASSERT(request->reply.part_free == NULL);
        mc_buf_fini(&request->reply.body);
        mc_buf_fini(&request->body);
        mc_arena_fini(&request->arena);
        mc_free(request);
        mc_admin_gate_unref(gate);
    }
}

/* The state of the parts, taken out of a reply so that it is freed once. */
struct parts {
    void *state;
    void (*free)(void *state);
};

/* With the gate's lock held, or when the reply is this thread's alone. */
static struct parts take_parts(struct mc_admin_request *request)
{
    struct parts parts = {request->reply.part_state, request->reply.part_free};

    request->reply.part = NULL;
    request->reply.part_state = NULL;
    request->reply.part_free = NULL;
    request->more = false;
    return parts;
}

static void free_parts(struct parts parts)
{
    if (parts.free != NULL) {
        parts.free(parts.state);
    }
}

static void do_work(struct mc_admin_request *request, enum mc_admin_work work)
{
    struct mc_admin_reply *reply = &request->reply;

    switch (work) {
    case MC_ADMIN_HANDLE:
        request->in_handler = true;
        request->route->handle(request->arg, request, reply);
        request->in_handler = false;
        request->more = reply->part != NULL;
        break;
    case MC_ADMIN_PART:
        request->part_err = reply->part(reply->part_state, &reply->body, &request->more);
        request->more = request->more && request->part_err == MOONCAKE_OK;
        break;
    case MC_ADMIN_RELEASE:
        request->more = false;
        break;
    }
}

void mc_admin_request_run_here(struct mc_admin_request *request, enum mc_admin_work work)
{
    do_work(request, work);
    MC_ASSERT(!request->reply.later);
    if (!request->more) {
        free_parts(take_parts(request));
    }
}

/* On the loop: what was asked for is done. Lets go of the post's reference. */
static void finish(struct mc_admin_request *request)
{
    struct mc_admin_gate *gate = request->gate;
    struct parts parts = {0};

    (void)pthread_mutex_lock(&gate->lock);
    if (request->abandoned || !request->more) {
        parts = take_parts(request);
    }
    request->reply.later = false;
    request->state = MC_ADMIN_ANSWERED;
    (void)pthread_cond_broadcast(&gate->changed);
    (void)pthread_mutex_unlock(&gate->lock);
    free_parts(parts);
    mc_admin_request_unref(request);
}

void mc_admin_answer(struct mc_admin_reply *reply)
{
    struct mc_admin_request *request = MC_CONTAINER_OF(reply, struct mc_admin_request, reply);

    MC_ASSERT(reply->later);
    if (request->in_handler) {
        reply->later = false;
        return;
    }
    request->more = reply->part != NULL;
    finish(request);
}

/* On the loop: what ask() posted. */
static void run_post(struct mc_post *post)
{
    struct mc_admin_request *request = MC_CONTAINER_OF(post, struct mc_admin_request, post);
    struct mc_admin_gate *gate = request->gate;
    bool run;

    (void)pthread_mutex_lock(&gate->lock);
    run = !request->abandoned;
    request->state = MC_ADMIN_RUNNING;
    (void)pthread_mutex_unlock(&gate->lock);

    if (run) {
        do_work(request, request->work);
    }
    if (!request->reply.later) { /* else mc_admin_answer() finishes it */
        finish(request);
    }
}

/* With the gate's lock held. */
static void post_work(struct mc_admin_request *request, enum mc_admin_work work)
{
    MC_ASSERT(request->state == MC_ADMIN_IDLE || request->state == MC_ADMIN_ANSWERED);
    request->refs++; /* the post's */
    request->state = MC_ADMIN_ASKED;
    request->work = work;
    request->post.run = run_post;
    mc_loop_post(request->loop, &request->post);
}

bool mc_admin_request_ask(struct mc_admin_request *request, enum mc_admin_work work,
                          uint64_t deadline_ns)
{
    struct mc_admin_gate *gate = request->gate;
    const struct timespec until = {
        .tv_sec = (time_t)(deadline_ns / MC_NS_PER_S),
        .tv_nsec = (long)(deadline_ns % MC_NS_PER_S),
    };
    bool answered = false;

    (void)pthread_mutex_lock(&gate->lock);
    if (!gate->closing) {
        post_work(request, work);
        while (request->state != MC_ADMIN_ANSWERED && !gate->closing &&
               mc_monotonic_ns() < deadline_ns) {
            (void)pthread_cond_timedwait(&gate->changed, &gate->lock, &until);
        }
        answered = request->state == MC_ADMIN_ANSWERED;
        request->abandoned = !answered;
    }
    (void)pthread_mutex_unlock(&gate->lock);
    return answered;
}

void mc_admin_request_release(struct mc_admin_request *request)
{
    struct mc_admin_gate *gate = request->gate;

    (void)pthread_mutex_lock(&gate->lock);
    if (request->abandoned || request->reply.part_free == NULL) {
        /* The post that is still to run frees the state, or there is none. */
    } else if (gate->closing) {
        request->refs++; /* mc_admin_release_all()'s */
        request->orphan = true;
    } else {
        post_work(request, MC_ADMIN_RELEASE);
    }
    (void)pthread_mutex_unlock(&gate->lock);
}

/* A request whose parts are to be freed, or NULL. With the gate's lock held. */
static struct mc_admin_request *find_unfinished(const struct mc_admin_gate *gate)
{
    mc_list_for_each (pos, &gate->requests) {
        struct mc_admin_request *request = MC_CONTAINER_OF(pos, struct mc_admin_request, node);

        if (request->reply.later) {
            continue; /* mc_admin_answer() is still to come, and lets go of it */
        }
        MC_ASSERT(request->state != MC_ADMIN_RUNNING); /* a handler must not close the server */
        if (request->reply.part_free != NULL) {
            return request;
        }
    }
    return NULL;
}

void mc_admin_release_all(struct mc_admin_gate *gate)
{
    struct mc_admin_request *request;

    do {
        struct parts parts = {0};
        bool orphan = false;

        (void)pthread_mutex_lock(&gate->lock);
        request = find_unfinished(gate);
        if (request != NULL) {
            parts = take_parts(request);
            orphan = request->orphan;
            request->orphan = false;
        }
        (void)pthread_mutex_unlock(&gate->lock);
        free_parts(parts);
        if (orphan) {
            mc_admin_request_unref(request);
        }
    } while (request != NULL);
}
