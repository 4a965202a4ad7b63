/* Cutting a batch of gets into windows, and asking the master where the copies are. */
#include "client/get.h"

#include <string.h>

#include "base/bytes.h"
#include "client/get_impl.h"

static void pump(struct mc_get_job *job);

void mc_get_judge(struct mc_get_job *job, struct mc_get_entry *entry, mooncake_err err)
{
    MC_ASSERT(!entry->judged);
    entry->judged = true;
    entry->item->err = err;
    job->base.judged = true;
    if (err != MOONCAKE_OK && job->base.call->note[0] == '\0') {
        char key[80];

        mc_call_note(job->base.call, "key \"%s\": %s",
                     mc_key_print(&entry->item->key, key, sizeof(key)), mooncake_err_text(err));
    }
}

/* The entries without a verdict share one. */
static void finish_window(struct mc_get_window *window, mooncake_err err)
{
    struct mc_get_job *job = window->job;

    for (size_t i = 0; i < window->count; i++) {
        if (!window->entries[i].judged) {
            window->entries[i].judged = true;
            window->entries[i].item->err = err;
            job->err = err;
        }
    }
    if (window->known != NULL) {
        mc_known_return(&job->base.call->client->known, &window->known, 0);
    }
    window->state = MC_GET_IDLE;
    job->base.busy--;
    pump(job);
}

/* ---- asking ------------------------------------------------------------------------------ */

static void on_answer(struct mc_ask *ask, mooncake_err err)
{
    struct mc_get_window *window = ask->arg;

    if (err != MOONCAKE_OK) {
        finish_window(window, err);
        return;
    }
    mc_get_read(window);
}

/* Ask about the entries that have no verdict. */
static void ask_where(struct mc_get_window *window)
{
    struct mc_get_job *job = window->job;

    window->state = MC_GET_ASKING;
    window->query = (struct mc_keys_request){.client_id = job->base.call->client->client_id,
                                             .keys = window->keys,
                                             .view = job->mode == MC_GET_VIEW};
    window->asked_ns = mc_monotonic_ns();
    for (size_t i = 0; i < window->count; i++) {
        struct mc_get_entry *entry = &window->entries[i];

        if (!entry->judged) {
            entry->stale = entry->damaged = entry->unreachable = entry->late = false;
            entry->object = NULL;
            entry->no_lend = false;
            entry->order_count = entry->order_next = 0;
            window->asked[window->query.count] = entry;
            window->keys[window->query.count] = entry->item->key;
            window->query.count++;
        }
    }
    if (window->round == 0 && job->mode != MC_GET_VIEW) {
        window->known =
            mc_known_find(&job->base.call->client->known, window->keys, window->query.count,
                          window->asked_ns, window->arena, &window->answer);
    }
    if (window->known != NULL) {
        window->rounds_max = MC_GET_ROUNDS;
        mc_get_read(window);
        return;
    }
    window->ask = (struct mc_ask){.method = MC_METHOD_QUERY,
                                  .request = &window->query,
                                  .reply = &window->answer,
                                  .repeatable = true,
                                  .done = on_answer,
                                  .arg = window};
    mc_ask_start(&window->ask, job->base.call, window->arena);
}

/*
 * Whoever still has no verdict was failed by all of its copies. Perhaps they were moved or evicted
 * since the master named them, and it knows better ones by now; also damage may be nothing but the
 * next owner's bytes. A copy that is late has had its time.
 */
void mc_get_end_round(struct mc_get_window *window)
{
    bool last = window->round + 1 == window->rounds_max;
    bool known = window->known != NULL; /* then the master has not been asked yet */
    bool expired = mc_call_expired(window->job->base.call);
    size_t left = 0;

    for (size_t i = 0; i < window->count; i++) {
        struct mc_get_entry *entry = &window->entries[i];

        if (entry->judged) {
            continue;
        }
        if (!expired && !known && (last || (entry->late && !entry->stale))) {
            mc_get_judge(window->job, entry, mc_get_final_error(entry));
        } else {
            left++;
        }
    }
    if (known && left > 0 && !expired) {
        mc_known_return(&window->job->base.call->client->known, &window->known, left);
    }
    if (left == 0 || expired) {
        finish_window(window, window->job->base.call->late);
        return;
    }
    window->round++;
    ask_where(window);
}

/* ---- windows ----------------------------------------------------------------------------- */

/* Move items into @p window until it is full or none are left. ENOMEM: none were moved. */
static mooncake_err fill_window(struct mc_get_window *window)
{
    struct mc_get_job *job = window->job;
    size_t left = job->base.count - job->base.next;
    size_t cap = left < MC_WINDOW_KEYS_MAX ? left : MC_WINDOW_KEYS_MAX;
    uint64_t key_bytes = 0, value_bytes = 0;

    mc_arena_reset(window->arena);
    mc_list_init(&window->ops);
    window->round = 0;
    window->rounds_max = MC_GET_ROUNDS - 1;
    window->count = 0;
    window->entries = mc_arena_array(window->arena, cap, sizeof(*window->entries));
    window->keys = mc_arena_array(window->arena, cap, sizeof(*window->keys));
    window->asked = mc_arena_array(window->arena, cap, sizeof(struct mc_get_entry *));
    if (window->entries == NULL || window->keys == NULL || window->asked == NULL) {
        return MOONCAKE_ENOMEM;
    }
    while (job->base.next < job->base.count && window->count < cap &&
           key_bytes < MC_WINDOW_KEY_BYTES_MAX && value_bytes < MC_WINDOW_VALUE_BYTES_MAX) {
        struct mc_get_item *item = &job->items[job->base.next++];

        if (item->skip) {
            continue;
        }
        window->entries[window->count++] = (struct mc_get_entry){.item = item};
        key_bytes += item->key.len;
        value_bytes +=
            item->cap < MC_WINDOW_VALUE_BYTES_MAX ? item->cap : MC_WINDOW_VALUE_BYTES_MAX;
    }
    return MOONCAKE_OK;
}

static void fail_rest(struct mc_get_job *job, mooncake_err err)
{
    job->err = err;
    for (; job->base.next < job->base.count; job->base.next++) {
        if (!job->items[job->base.next].skip) {
            job->items[job->base.next].err = err;
        }
    }
}

/* Begin windows while there are items and room; when nothing is left, the job is done. */
static void pump(struct mc_get_job *job)
{
    if (job->pumping) {
        return; /* the pump below us goes on */
    }
    job->pumping = true;
    while (job->base.next < job->base.count && job->base.busy < MC_WINDOWS_MAX) {
        struct mc_get_window *window = job->windows;
        mooncake_err err = job->base.call->late;

        while (window->state != MC_GET_IDLE) {
            window++;
        }
        if (!mc_call_expired(job->base.call)) {
            err = fill_window(window);
        }
        if (err != MOONCAKE_OK) {
            fail_rest(job, err);
        } else if (window->count > 0) {
            job->base.busy++;
            ask_where(window);
        }
    }
    job->pumping = false;
    job->base.done = job->base.busy == 0;
}

/* Is some entry of the window waiting for a copy while it has another? */
static bool has_choice(const struct mc_get_window *window)
{
    mc_list_for_each (node, &window->ops) {
        const struct mc_get_op *op = MC_CONTAINER_OF(node, struct mc_get_op, node);

        if (op->entry->order_next < op->entry->order_count) {
            return true;
        }
    }
    return false;
}

static void on_alarm(void *arg)
{
    struct mc_get_job *job = arg;

    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        struct mc_get_window *window = &job->windows[i];

        if (window->state == MC_GET_READING && mc_job_idle_ms(&job->base) >= job->base.stall_ms) {
            mc_get_give_up_stalled(window);
        }
    }
    mc_get_set_alarm(job);
}

void mc_get_set_alarm(struct mc_get_job *job)
{
    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        if (job->windows[i].state == MC_GET_READING && has_choice(&job->windows[i])) {
            /* Half of it: a stall is noticed so much too late at most. */
            mc_engine_set_alarm(job->base.call->engine, job->base.stall_ms / 2 + 1, on_alarm, job);
            return;
        }
    }
}

/* The deadline has come: make the caller's memory quiet. */
static void cancel(struct mc_get_job *job)
{
    fail_rest(job, job->base.call->late);
    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        struct mc_get_window *window = &job->windows[i];

        switch (window->state) {
        case MC_GET_IDLE:
            break;
        case MC_GET_READING:
            mc_xfer_cancel(&window->xfers[window->round]); /* goes on to mc_get_end_round() */
            break;
        case MC_GET_ASKING:
            mc_ask_time_out(&window->ask);
            finish_window(window, window->job->base.call->late);
            break;
        }
    }
}

/* What the callers do not get. */
static void free_leftovers(struct mc_get_item *item)
{
    if (item->err != MOONCAKE_OK || item->lend.map != NULL) {
        mc_free(item->own.iov_base);
        item->own = (struct iovec){0};
    }
    if (item->err != MOONCAKE_OK) {
        mc_lend_return(&item->lend);
    }
}

mooncake_err mc_get_run(struct mc_call *call, struct mc_get_item *items, size_t count,
                        enum mc_get_mode mode)
{
    struct mc_get_job *job = mc_arena_alloc(&call->engine->arena, sizeof(*job));

    if (job == NULL) {
        return MOONCAKE_ENOMEM;
    }
    memset(job, 0, sizeof(*job));
    mc_job_init(&job->base, call, count);
    job->items = items;
    job->mode = mode;
    job->random = mc_monotonic_ns() >> 4; /* spreads readers; need not be unguessable */
    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        job->windows[i].job = job;
        job->windows[i].arena = &call->engine->windows[i];
        mc_list_init(&job->windows[i].ops);
    }
    for (size_t i = 0; i < count; i++) {
        job->base.judged = job->base.judged || items[i].skip;
    }
    pump(job);
    if (mc_call_run(call, &job->base.done) != MOONCAKE_OK) {
        cancel(job);
    }
    MC_ASSERT(job->base.done);
    for (size_t i = 0; mode != MC_GET_INTO && i < count; i++) {
        free_leftovers(&items[i]);
    }
    return mc_job_verdict(&job->base, job->err);
}
