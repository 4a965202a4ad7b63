/* Cutting a batch of puts into windows, and asking the master for room. */
#include <string.h>

#include "client/put_impl.h"

/* However patient the caller is, a pool that stays full is full. */
#define ROOM_TRIES_MAX 200u

/* How soon to ask again for room in stores of which the only ones hang. */
#define HANGING_RETRY_MS 200u

static void pump(struct mc_put_job *job);

void mc_put_again(struct mc_put_job *job, struct mc_put_entry *entry)
{
    struct mc_put_item *item = entry->item;

    item->tries++;
    item->why = entry->why;
    item->again = true;
    item->err = entry->why; /* if there is no other place, or no time */
    job->base.judged = true;
    job->again++;
    (void)atomic_fetch_add_explicit(&job->base.call->client->counters.puts_again, 1,
                                    memory_order_relaxed);
}

void mc_put_judge(struct mc_put_job *job, struct mc_put_entry *entry, mooncake_err err)
{
    entry->item->err = err;
    job->base.judged = true;
    if (err != MOONCAKE_OK && job->base.call->note[0] == '\0') {
        char key[80];

        mc_call_note(job->base.call, "key \"%s\": %s",
                     mc_key_print(&entry->item->key, key, sizeof(key)), mooncake_err_text(err));
    }
}

/* The window's items that have no verdict yet share the fate of a question. */
void mc_put_fail_window(struct mc_put_window *window, mooncake_err err)
{
    window->job->err = err;
    for (size_t i = 0; i < window->count; i++) {
        if (window->entries[i].item->err == MOONCAKE_EINTERNAL) {
            window->entries[i].item->err = err;
        }
    }
}

void mc_put_finish_window(struct mc_put_window *window)
{
    struct mc_put_job *job = window->job;

    window->state = MC_PUT_IDLE;
    job->base.busy--;
    pump(job);
}

/* ---- asking ------------------------------------------------------------------------------ */

/* Milliseconds after which room may be found for what has none now; 0: it will not. */
static uint32_t room_later_ms(const struct mc_put_window *window)
{
    for (size_t i = 0; i < window->count; i++) {
        if (window->started.statuses[i] == MOONCAKE_ENOSPACE) {
            const struct mc_put_item *item = window->entries[i].item;

            /* While the master suspects a store it places nothing there. */
            return item->stalled && item->tries + 1 == MC_PUT_TRIES_MAX
                       ? HANGING_RETRY_MS
                       : window->started.retry_after_ms;
        }
    }
    return 0;
}

static void on_started(struct mc_ask *ask, mooncake_err err)
{
    struct mc_put_window *window = ask->arg;
    struct mc_put_job *job = window->job;
    uint64_t now_ns = mc_monotonic_ns();
    uint32_t later_ms;

    if (err != MOONCAKE_OK) {
        mc_put_fail_window(window, err);
        mc_put_finish_window(window);
        return;
    }
    later_ms = room_later_ms(window);
    if (later_ms > 0 && window->tries < ROOM_TRIES_MAX) {
        window->again_ns = mc_deadline_ns(now_ns, later_ms);
        if (window->again_ns < job->base.call->deadline_ns) {
            window->state = MC_PUT_WAITING;
            mc_put_set_alarm(job);
            return;
        }
    }
    mc_put_write(window);
}

/* The request is the same each time, nonce included: what was granted stays granted. */
static void ask_for_room(struct mc_put_window *window)
{
    window->state = MC_PUT_ASKING;
    window->tries++;
    window->start_ask = (struct mc_ask){.method = MC_METHOD_PUT_START,
                                        .request = &window->start,
                                        .reply = &window->started,
                                        .repeatable = true,
                                        .done = on_started,
                                        .arg = window};
    mc_ask_start(&window->start_ask, window->job->base.call, window->arena);
}

/* ---- windows ----------------------------------------------------------------------------- */

static void fill_request(struct mc_put_window *window)
{
    struct mc_put_job *job = window->job;
    const mooncake_put_options *options = job->options;

    window->start = (struct mc_put_start_request){
        .client_id = job->base.call->client->client_id,
        .nonce =
            atomic_fetch_add_explicit(&job->base.call->client->next_nonce, 1, memory_order_relaxed),
        .keys = window->keys,
        .value_lens = window->lens,
        .count = window->count,
        .replicas = options->replicas,
        .all_replicas = options->all_replicas,
        .soft_pin = options->soft_pin,
        .hard_pin = options->hard_pin,
        .upsert = options->upsert,
        .soft_pin_ms = options->soft_pin_ms,
        .preferred_segments = options->preferred_segments,
        .preferred_count = options->preferred_segments_count,
    };
}

static struct mc_put_item *next_again(struct mc_put_job *job)
{
    struct mc_put_item *item;

    if (job->again == 0) {
        return NULL;
    }
    do { /* round and round: there is one */
        job->again_at = (job->again_at + 1) % job->base.next;
        item = &job->items[job->again_at];
    } while (!item->again);
    item->again = false;
    job->again--;
    return item;
}

/* The next item that is to be put: a new one, or when those are under way one to be put again. A
 * window has either. */
static struct mc_put_item *next_item(struct mc_put_job *job, bool again)
{
    if (again) {
        struct mc_put_item *item = next_again(job);

        if (item != NULL) {
            item->err = MOONCAKE_EINTERNAL; /* no verdict yet */
        }
        return item;
    }
    while (job->base.next < job->base.count) {
        struct mc_put_item *item = &job->items[job->base.next++];

        if (!item->skip) {
            item->err = MOONCAKE_EINTERNAL;
            return item;
        }
    }
    return NULL;
}

/* Move items into @p window until it is full or none are left. ENOMEM: none were moved. */
static mooncake_err fill_window(struct mc_put_window *window)
{
    struct mc_put_job *job = window->job;
    bool again = job->base.next == job->base.count;
    size_t left = again ? job->again : job->base.count - job->base.next;
    struct mc_put_item *item = NULL;
    size_t cap = left < MC_WINDOW_KEYS_MAX ? left : MC_WINDOW_KEYS_MAX;
    uint64_t key_bytes = 0, value_bytes = 0;

    mc_arena_reset(window->arena);
    mc_list_init(&window->ops);
    window->tries = 0;
    window->count = 0;
    window->entries = mc_arena_array(window->arena, cap, sizeof(*window->entries));
    window->keys = mc_arena_array(window->arena, cap, sizeof(*window->keys));
    window->lens = mc_arena_array(window->arena, cap, sizeof(*window->lens));
    if (window->entries == NULL || window->keys == NULL || window->lens == NULL) {
        return MOONCAKE_ENOMEM;
    }
    while (window->count < cap && key_bytes < MC_WINDOW_KEY_BYTES_MAX &&
           value_bytes < MC_WINDOW_VALUE_BYTES_MAX && (item = next_item(job, again)) != NULL) {
        window->entries[window->count] = (struct mc_put_entry){.item = item};
        window->keys[window->count] = item->key;
        window->lens[window->count] = item->len;
        window->count++;
        key_bytes += item->key.len;
        value_bytes +=
            item->len < MC_WINDOW_VALUE_BYTES_MAX ? item->len : MC_WINDOW_VALUE_BYTES_MAX;
    }
    fill_request(window);
    if (again) {
        window->start.excluded_mounts = job->excluded;
        window->start.excluded_count = job->excluded_count;
    }
    return MOONCAKE_OK;
}

static void fail_rest(struct mc_put_job *job, mooncake_err err)
{
    job->err = err;
    for (; job->base.next < job->base.count; job->base.next++) {
        if (!job->items[job->base.next].skip) {
            job->items[job->base.next].err = err;
        }
    }
    while (next_again(job) != NULL) {
        continue; /* why it failed before stays its verdict */
    }
}

/* Begin windows while there are items and room; when nothing is left, the job is done. */
static void pump(struct mc_put_job *job)
{
    if (job->pumping) {
        return; /* the pump below us goes on */
    }
    job->pumping = true;
    while ((job->base.next < job->base.count || job->again > 0) &&
           job->base.busy < MC_WINDOWS_MAX) {
        struct mc_put_window *window = job->windows;
        mooncake_err err = job->base.call->late;

        while (window->state != MC_PUT_IDLE) {
            window++;
        }
        if (!mc_call_expired(job->base.call)) {
            err = fill_window(window);
        }
        if (err != MOONCAKE_OK) {
            fail_rest(job, err);
        } else if (window->count > 0) {
            job->base.busy++;
            ask_for_room(window);
        }
    }
    job->pumping = false;
    job->base.done = job->base.busy == 0;
}

static void on_alarm(void *arg)
{
    struct mc_put_job *job = arg;

    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        struct mc_put_window *window = &job->windows[i];

        if (window->state == MC_PUT_WAITING && mc_monotonic_ns() >= window->again_ns) {
            ask_for_room(window);
        } else if (window->state == MC_PUT_WRITING) {
            mc_put_give_up_stalled(window, mc_job_idle_ms(&job->base));
        }
    }
    mc_put_set_alarm(job);
}

/* Wake up when the first window wants it. */
void mc_put_set_alarm(struct mc_put_job *job)
{
    uint64_t now_ns = mc_monotonic_ns(), soonest_ms = UINT64_MAX;

    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        const struct mc_put_window *window = &job->windows[i];
        uint64_t ms = UINT64_MAX;

        if (window->state == MC_PUT_WAITING) {
            ms = mc_left_ms(now_ns, window->again_ns);
        } else if (window->state == MC_PUT_WRITING) {
            ms = job->base.stall_ms / 2 + 1; /* so late at most is a stall noticed */
        }
        soonest_ms = ms < soonest_ms ? ms : soonest_ms;
    }
    if (soonest_ms != UINT64_MAX) {
        mc_engine_set_alarm(job->base.call->engine, soonest_ms, on_alarm, job);
    }
}

/* The deadline has come: make the caller's memory quiet and leave no half-written object. */
static void cancel(struct mc_put_job *job)
{
    fail_rest(job, job->base.call->late);
    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        struct mc_put_window *window = &job->windows[i];

        switch (window->state) {
        case MC_PUT_IDLE:
            break;
        case MC_PUT_WRITING:
            mc_xfer_cancel(&window->xfer); /* goes on to begin_ending(), which sees the time */
            break;
        case MC_PUT_ASKING:
        case MC_PUT_WAITING:
        case MC_PUT_ENDING:
            mc_ask_time_out(&window->start_ask);
            mc_ask_time_out(&window->end_ask);
            mc_ask_time_out(&window->revoke_ask);
            mc_put_fail_window(window, job->base.call->late);
            mc_put_finish_window(window);
            break;
        }
    }
}

mooncake_err mc_put_run(struct mc_call *call, struct mc_put_item *items, size_t count,
                        const mooncake_put_options *options)
{
    struct mc_put_job *job = mc_arena_alloc(&call->engine->arena, sizeof(*job));

    if (job == NULL) {
        return MOONCAKE_ENOMEM;
    }
    memset(job, 0, sizeof(*job));
    mc_job_init(&job->base, call, count);
    job->items = items;
    job->options = options;
    for (unsigned i = 0; i < MC_WINDOWS_MAX; i++) {
        job->windows[i].job = job;
        job->windows[i].arena = &call->engine->windows[i];
    }
    for (size_t i = 0; i < count; i++) {
        job->base.judged = job->base.judged || items[i].skip;
    }
    pump(job);
    if (mc_call_run(call, &job->base.done) != MOONCAKE_OK) {
        cancel(job);
    }
    MC_ASSERT(job->base.done);
    return mc_job_verdict(&job->base, job->err);
}
