/* Keys in windows to the master and answers back into the caller's arrays. */
#include "client/keys.h"

#include <string.h>

/* A question about keys is short work for the master, so its windows are wider than those of puts
 * and gets; but not so wide that others have to wait for milliseconds. */
#define KEYS_MAX 2048u

struct window {
    struct keys_job *job;
    struct mc_arena *arena;
    bool busy;
    uint64_t sent_ns;
    size_t *items; /* index in the batch, by index in the request */
    struct mc_ask ask;
    struct mc_keys_request request;
    union {
        struct mc_exist_reply exist;
        struct mc_query_reply query;
        struct mc_status_reply status;
    } reply;
};

struct keys_job {
    struct mc_job base;
    const struct mc_key *keys;
    struct mc_keys_job_options options;
    mooncake_err *results;
    uint64_t *lens;
    struct window windows[MC_WINDOWS_MAX];
    mooncake_err err; /* of the last question that failed as a whole */
    bool pumping;
};

static void pump(struct keys_job *job);

static enum mc_method method_of(enum mc_keys_question question)
{
    switch (question) {
    case MC_KEYS_EXIST:
        return MC_METHOD_EXIST;
    case MC_KEYS_SIZE:
        return MC_METHOD_QUERY;
    case MC_KEYS_REMOVE:
        return MC_METHOD_REMOVE;
    }
    return MC_METHOD_EXIST;
}

static const mooncake_err *statuses_of(const struct window *window)
{
    switch (window->job->options.question) {
    case MC_KEYS_EXIST:
        return window->reply.exist.statuses;
    case MC_KEYS_SIZE:
        return window->reply.query.statuses;
    case MC_KEYS_REMOVE:
        return window->reply.status.statuses;
    }
    return NULL;
}

static void fail_window(struct window *window, mooncake_err err)
{
    window->job->err = err;
    for (size_t i = 0; i < window->request.count; i++) {
        window->job->results[window->items[i]] = err;
    }
}

static void finish_window(struct window *window)
{
    window->busy = false;
    window->job->base.busy--;
    pump(window->job);
}

static void take_answers(struct window *window)
{
    struct keys_job *job = window->job;
    const mooncake_err *statuses = statuses_of(window);

    for (size_t i = 0; i < window->request.count; i++) {
        size_t item = window->items[i];

        job->results[item] = statuses[i];
        if (statuses[i] == MOONCAKE_OK && job->lens != NULL) {
            job->lens[item] = window->reply.query.table.objects[i].value_len;
        } else if (statuses[i] != MOONCAKE_OK && job->base.call->note[0] == '\0') {
            char key[80];

            mc_call_note(job->base.call, "key \"%s\": %s",
                         mc_key_print(&job->keys[item], key, sizeof(key)),
                         mooncake_err_text(statuses[i]));
        }
    }
    job->base.judged = job->base.judged || window->request.count > 0;
}

/* The last that is done with the window: its memory may be given away. */
static void keep_places(struct window *window)
{
    const struct mc_exist_reply *reply = &window->reply.exist;

    if (window->request.descriptors && reply->table.count > 0) {
        mc_known_keep(&window->job->base.call->client->known, window->request.keys, reply,
                      window->sent_ns, window->arena);
    }
}

static void on_answer(struct mc_ask *ask, mooncake_err err)
{
    struct window *window = ask->arg;

    if (err == MOONCAKE_OK) {
        take_answers(window);
        keep_places(window);
    } else {
        fail_window(window, err);
    }
    finish_window(window);
}

/* Move keys into @p window until it is full or none are left. ENOMEM: none were moved. */
static mooncake_err fill_window(struct window *window)
{
    struct keys_job *job = window->job;
    size_t left = job->base.count - job->base.next;
    size_t cap = left < KEYS_MAX ? left : KEYS_MAX;
    uint64_t key_bytes = 0;
    struct mc_key *keys;

    mc_arena_reset(window->arena);
    keys = mc_arena_array(window->arena, cap, sizeof(*keys));
    window->items = mc_arena_array(window->arena, cap, sizeof(*window->items));
    if (keys == NULL || window->items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    window->request = (struct mc_keys_request){
        .client_id = job->base.call->client->client_id,
        .keys = keys,
        .sizes_only = job->options.question == MC_KEYS_SIZE,
        .force = job->options.force,
    };
    while (job->base.next < job->base.count && window->request.count < cap &&
           key_bytes < MC_WINDOW_KEY_BYTES_MAX) {
        size_t item = job->base.next++;

        if (job->results[item] == MOONCAKE_EINTERNAL) {
            window->items[window->request.count] = item;
            keys[window->request.count] = job->keys[item];
            window->request.count++;
            key_bytes += job->keys[item].len;
        }
    }
    return MOONCAKE_OK;
}

static void fail_rest(struct keys_job *job, mooncake_err err)
{
    job->err = err;
    for (; job->base.next < job->base.count; job->base.next++) {
        if (job->results[job->base.next] == MOONCAKE_EINTERNAL) {
            job->results[job->base.next] = err;
        }
    }
}

static void ask(struct window *window)
{
    struct keys_job *job = window->job;

    window->busy = true;
    job->base.busy++;
    window->sent_ns = mc_monotonic_ns();
    window->request.descriptors =
        job->options.question == MC_KEYS_EXIST &&
        mc_known_before_exist(&job->base.call->client->known, window->request.keys,
                              window->request.count, window->sent_ns);
    window->ask = (struct mc_ask){
        .method = method_of(job->options.question),
        .request = &window->request,
        .reply = &window->reply,
        /* A removal asked for twice would say "no such key" of what it has just removed. */
        .repeatable = job->options.question != MC_KEYS_REMOVE,
        .done = on_answer,
        .arg = window,
    };
    mc_ask_start(&window->ask, job->base.call, window->arena);
}

static void pump(struct keys_job *job)
{
    if (job->pumping) {
        return; /* the pump below us goes on */
    }
    job->pumping = true;
    while (job->base.next < job->base.count && job->base.busy < MC_WINDOWS_MAX) {
        struct window *window = job->windows;
        mooncake_err err = job->base.call->late;

        while (window->busy) {
            window++;
        }
        if (!mc_call_expired(job->base.call)) {
            err = fill_window(window);
        }
        if (err != MOONCAKE_OK) {
            fail_rest(job, err);
        } else if (window->request.count > 0) {
            ask(window);
        }
    }
    job->pumping = false;
    job->base.done = job->base.busy == 0;
}

static void cancel(struct keys_job *job)
{
    fail_rest(job, job->base.call->late);
    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        struct window *window = &job->windows[i];

        if (window->busy) {
            mc_ask_time_out(&window->ask);
            fail_window(window, job->base.call->late);
            finish_window(window);
        }
    }
}

mooncake_err mc_keys_run(struct mc_call *call, const struct mc_key *keys, size_t count,
                         struct mc_keys_job_options options, mooncake_err *results, uint64_t *lens)
{
    struct keys_job *job = mc_arena_alloc(&call->engine->arena, sizeof(*job));

    if (job == NULL) {
        return MOONCAKE_ENOMEM;
    }
    memset(job, 0, sizeof(*job));
    mc_job_init(&job->base, call, count);
    job->keys = keys;
    job->options = options;
    job->results = results;
    job->lens = lens;
    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        job->windows[i].job = job;
        job->windows[i].arena = &call->engine->windows[i];
    }
    for (size_t i = 0; i < count; i++) {
        job->base.judged = job->base.judged || results[i] != MOONCAKE_EINTERNAL;
    }
    pump(job);
    if (mc_call_run(call, &job->base.done) != MOONCAKE_OK) {
        cancel(job);
    }
    MC_ASSERT(job->base.done);
    return mc_job_verdict(&job->base, job->err);
}
