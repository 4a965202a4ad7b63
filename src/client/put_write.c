/* Writing every replica of a window's items, and telling the master how it ended. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "client/put_impl.h"
#include "client/report.h"

/* ---- ending ------------------------------------------------------------------------------ */

static void take_answer(struct mc_put_window *window)
{
    MC_ASSERT(window->questions > 0);
    window->questions--;
    if (window->questions > 0) {
        return;
    }
    for (size_t i = 0; i < window->count; i++) {
        struct mc_put_entry *entry = &window->entries[i];

        if (entry->again && window->all_answered) {
            mc_put_again(window->job, entry);
        } else if (entry->again) { /* our own attempt may still hold the key */
            mc_put_judge(window->job, entry, entry->why);
        }
    }
    mc_put_finish_window(window);
}

static unsigned copies_of(const struct mc_put_entry *entry)
{
    unsigned copies = 0;

    for (unsigned r = 0; r < entry->replicas; r++) {
        copies += (entry->failed & 1u << r) == 0 ? 1 : 0;
    }
    return copies;
}

static void note_copies(struct mc_put_job *job, struct mc_put_entry *entry)
{
    entry->item->copies = copies_of(entry);
    if (entry->item->copies < job->options->replicas) {
        (void)atomic_fetch_add_explicit(&job->base.call->client->counters.puts_degraded, 1,
                                        memory_order_relaxed);
    }
}

static void on_end(struct mc_ask *ask, mooncake_err err)
{
    struct mc_put_window *window = ask->arg;

    for (size_t i = 0; i < window->end.count; i++) {
        if (window->end_entries[i] == NULL) {
            continue; /* undone, whether the master has heard it or not */
        }
        if (err == MOONCAKE_OK) {
            mc_put_judge(window->job, window->end_entries[i], window->ended.statuses[i]);
            if (window->ended.statuses[i] == MOONCAKE_OK) {
                note_copies(window->job, window->end_entries[i]);
            }
        } else {
            window->end_entries[i]->item->err = err;
            window->job->err = err;
        }
    }
    window->all_answered = window->all_answered && err == MOONCAKE_OK;
    take_answer(window);
}

static void on_revoke(struct mc_ask *ask, mooncake_err err)
{
    struct mc_put_window *window = ask->arg;

    if (err != MOONCAKE_OK) { /* the master's discard time-out does it then */
        mc_log_debug("client.revoke", "err=%s", mooncake_err_name(err));
    }
    window->all_answered = window->all_answered && err == MOONCAKE_OK;
    take_answer(window);
}

/* Never runs: the call is cancelled as soon as its bytes are with the kernel. */
static void on_nobody_waits(struct mc_master_call *call, mooncake_err err)
{
    (void)call;
    (void)err;
}

/* Tell the master about entries that are undone, without waiting for its answer. */
static void tell_in_passing(struct mc_put_window *window, struct mc_ask *ask, enum mc_method method,
                            const struct mc_put_end_request *request, struct mc_status_reply *reply)
{
    struct mc_rpc_client *rpc = window->job->base.call->engine->stub.rpc;

    if (request->count == 0 || !mc_rpc_client_is_up(rpc)) {
        return;
    }
    ask->call = window->job->base.call;
    mc_master_call_init(&ask->master_call, window->arena,
                        mc_deadline_ns(mc_monotonic_ns(), MC_STALL_MS_MAX), on_nobody_waits, NULL);
    if (mc_master_call_start(rpc, &ask->master_call, method, request, reply) == MOONCAKE_OK) {
        mc_rpc_client_flush(rpc);
        mc_master_call_cancel(rpc, &ask->master_call);
    }
}

static uint32_t all_replicas(const struct mc_put_entry *entry)
{
    return (1u << entry->replicas) - 1u;
}

static bool must_undo(const struct mc_put_job *job, const struct mc_put_entry *entry)
{
    if (entry->failed == all_replicas(entry)) {
        return true;
    }
    return job->options->all_replicas && entry->failed != 0;
}

/*
 * May a store still write bytes of the entry that it has in its sockets? Then a revoke, which frees
 * the space at once, could cost the next owner its bytes; ending the put with every replica failed
 * keeps the space out of use for a while.
 */
static bool may_write_late(const struct mc_put_entry *entry)
{
    return entry->sent && entry->failed != 0;
}

/* Its stores could not be written to, and were not all that there may be. */
static bool may_put_again(const struct mc_put_job *job, const struct mc_put_entry *entry)
{
    return entry->why == MOONCAKE_ETRANSFER && entry->item->tries + 1 < MC_PUT_TRIES_MAX &&
           job->excluded_count > 0 && job->excluded_count < MC_EXCLUDED_MOUNTS_MAX;
}

static void add_to_request(struct mc_put_end_request *request, struct mc_key *keys,
                           uint64_t *attempts, const struct mc_put_entry *entry)
{
    keys[request->count] = entry->item->key;
    attempts[request->count] = entry->attempt;
    request->count++;
}

/* Sort the entries into the two requests: what is written, or may yet be, and what never will. */
static mooncake_err prepare_end(struct mc_put_window *window, bool expired)
{
    struct mc_put_job *job = window->job;
    size_t count = window->count;
    struct mc_key *end_keys = mc_arena_array(window->arena, count, sizeof(*end_keys));
    struct mc_key *revoke_keys = mc_arena_array(window->arena, count, sizeof(*revoke_keys));
    uint64_t *end_attempts = mc_arena_array(window->arena, count, sizeof(*end_attempts));
    uint64_t *revoke_attempts = mc_arena_array(window->arena, count, sizeof(*revoke_attempts));
    uint32_t *failed = mc_arena_array(window->arena, count, sizeof(*failed));

    window->end_entries = mc_arena_array(window->arena, count, sizeof(*window->end_entries));
    if (end_keys == NULL || revoke_keys == NULL || end_attempts == NULL ||
        revoke_attempts == NULL || failed == NULL || window->end_entries == NULL) {
        return MOONCAKE_ENOMEM;
    }
    window->end = (struct mc_put_end_request){.client_id = job->base.call->client->client_id,
                                              .keys = end_keys,
                                              .attempts = end_attempts,
                                              .failed_replicas = failed};
    window->revoke = (struct mc_put_end_request){
        .client_id = window->end.client_id, .keys = revoke_keys, .attempts = revoke_attempts};
    for (size_t i = 0; i < count; i++) {
        struct mc_put_entry *entry = &window->entries[i];
        bool undo;

        if (!entry->granted) {
            continue;
        }
        undo = expired || must_undo(job, entry);
        if (expired) { /* the deadline is everybody's fate, not this entry's verdict */
            entry->item->err = job->base.call->late;
        } else if (undo && may_put_again(job, entry)) {
            entry->again = true;
        } else if (undo) {
            mc_put_judge(job, entry, entry->why);
        }
        if (undo && !may_write_late(entry)) {
            add_to_request(&window->revoke, revoke_keys, revoke_attempts, entry);
        } else {
            failed[window->end.count] = undo ? all_replicas(entry) : entry->failed;
            window->end_entries[window->end.count] = undo ? NULL : entry;
            add_to_request(&window->end, end_keys, end_attempts, entry);
        }
    }
    return MOONCAKE_OK;
}

static void ask_the_end(struct mc_put_window *window)
{
    struct mc_call *call = window->job->base.call;
    bool ends = window->end.count > 0, revokes = window->revoke.count > 0;

    window->end_ask = (struct mc_ask){.method = MC_METHOD_PUT_END,
                                      .request = &window->end,
                                      .reply = &window->ended,
                                      .repeatable = true,
                                      .done = on_end,
                                      .arg = window};
    window->revoke_ask = (struct mc_ask){.method = MC_METHOD_PUT_REVOKE,
                                         .request = &window->revoke,
                                         .reply = &window->revoked,
                                         .repeatable = true,
                                         .done = on_revoke,
                                         .arg = window};
    window->questions = (ends ? 1u : 0u) + (revokes ? 1u : 0u);
    window->all_answered = true;
    if (window->questions == 0) {
        mc_put_finish_window(window);
        return;
    }
    /* The last answer frees the window, so nothing of it may be used after the second start. */
    if (revokes) {
        mc_ask_start(&window->revoke_ask, call, window->arena);
    }
    if (ends) {
        mc_ask_start(&window->end_ask, call, window->arena);
    }
}

static void begin_ending(struct mc_put_window *window)
{
    bool expired = mc_call_expired(window->job->base.call);
    mooncake_err err = prepare_end(window, expired);

    window->state = MC_PUT_ENDING;
    if (err != MOONCAKE_OK || expired) {
        if (err == MOONCAKE_OK) {
            tell_in_passing(window, &window->revoke_ask, MC_METHOD_PUT_REVOKE, &window->revoke,
                            &window->revoked);
            tell_in_passing(window, &window->end_ask, MC_METHOD_PUT_END, &window->end,
                            &window->ended);
        }
        mc_put_fail_window(window, expired ? window->job->base.call->late : err);
        mc_put_finish_window(window);
        return;
    }
    ask_the_end(window);
}

/* ---- writing ----------------------------------------------------------------------------- */

static void note_write_failure(struct mc_put_job *job, const struct mc_put_entry *entry,
                               const struct mc_xfer_op *op)
{
    char key[80], detail[160];

    (void)strncpy(detail, mooncake_last_error(), sizeof(detail) - 1);
    detail[sizeof(detail) - 1] = '\0';
    mc_call_note(job->base.call, "key \"%s\": writing to segment %s failed: %s",
                 mc_key_print(&entry->item->key, key, sizeof(key)), op->target->name,
                 op->err == MOONCAKE_ERPC && detail[0] != '\0' ? detail
                                                               : mooncake_err_text(op->err));
}

static void exclude_mount(struct mc_put_job *job, uint64_t mount_id)
{
    for (size_t i = 0; i < job->excluded_count; i++) {
        if (job->excluded[i] == mount_id) {
            return;
        }
    }
    if (job->excluded_count < MC_EXCLUDED_MOUNTS_MAX) {
        job->excluded[job->excluded_count++] = mount_id;
    }
}

static void on_written(struct mc_xfer *xfer, struct mc_xfer_op *xfer_op)
{
    struct mc_put_op *op = MC_CONTAINER_OF(xfer_op, struct mc_put_op, op);
    struct mc_put_window *window = xfer->arg;
    struct mc_put_entry *entry = op->entry;

    mc_list_drop(&op->node);
    MC_ASSERT(entry->left[op->replica] > 0);
    entry->left[op->replica]--;
    if (xfer_op->err == MOONCAKE_OK) {
        return;
    }
    note_write_failure(window->job, entry, xfer_op);
    mc_report_failure(window->job->base.call, xfer_op, &entry->item->key,
                      mc_job_idle_ms(&window->job->base));
    entry->failed |= 1u << op->replica;
    exclude_mount(window->job, xfer_op->extent.mount_id);
    entry->why = (xfer_op->err == MOONCAKE_ETIMEDOUT && !entry->item->stalled) ||
                         xfer_op->err == MOONCAKE_ENOMEM
                     ? xfer_op->err
                     : MOONCAKE_ETRANSFER;
}

static void on_all_written(struct mc_xfer *xfer)
{
    begin_ending(xfer->arg);
}

static mooncake_err add_replica(struct mc_put_window *window, struct mc_put_entry *entry,
                                const struct mc_replica_info *replica, unsigned number)
{
    struct mc_piece_cursor cursor = mc_piece_cursor(entry->item->pieces, entry->item->pieces_count);
    struct mc_put_op *ops = mc_arena_array(window->arena, replica->extents_count, sizeof(*ops));

    if (ops == NULL) {
        return MOONCAKE_ENOMEM;
    }
    memset(ops, 0, replica->extents_count * sizeof(*ops));
    for (uint32_t i = 0; i < replica->extents_count; i++) {
        struct mc_put_op *op = &ops[i];

        op->entry = entry;
        op->replica = number;
        op->op.right = MC_RIGHT_WRITE;
        op->op.extent = replica->extents[i];
        op->op.target = &window->targets[replica->segment[i]];
        MC_TRY(mc_piece_cursor_cut(&cursor, op->op.extent.payload_len, window->arena,
                                   &op->op.pieces, &op->op.pieces_count));
    }
    for (uint32_t i = 0; i < replica->extents_count; i++) {
        mc_list_add_tail(&window->ops, &ops[i].node);
        entry->left[number]++;
        mc_xfer_add(&window->xfer, &ops[i].op);
    }
    return MOONCAKE_OK;
}

/* The master knows no place but those that were tried. One that only hangs may yet take the bytes,
 * so it is tried again; what has died is gone. */
static void find_no_other_place(struct mc_put_job *job, struct mc_put_entry *entry)
{
    struct mc_put_item *item = entry->item;

    entry->why = item->why;
    if (item->stalled && item->tries + 1 < MC_PUT_TRIES_MAX) {
        job->excluded_count = 0;
        mc_put_again(job, entry);
    } else {
        mc_put_judge(job, entry, entry->why);
    }
}

/* The master has given room for this entry. */
static void write_entry(struct mc_put_window *window, struct mc_put_entry *entry,
                        const struct mc_object_info *object)
{
    mooncake_err err = MOONCAKE_OK;

    entry->granted = true;
    entry->replicas = object->replicas_count;
    if (object->replicas_count == 0 || object->value_len != entry->item->len) {
        entry->why = MOONCAKE_ERPC;
        mc_call_note(window->job->base.call, "master %s granted room for another length",
                     window->job->base.call->client->master);
        entry->failed = all_replicas(entry);
        return;
    }
    for (uint32_t r = 0; r < object->replicas_count && err == MOONCAKE_OK; r++) {
        err = add_replica(window, entry, &object->replicas[r], r);
    }
    entry->sent = true;
    if (err != MOONCAKE_OK) { /* the replicas that were begun do no harm: it will be undone */
        entry->why = err;
        entry->failed = all_replicas(entry);
    }
}

void mc_put_write(struct mc_put_window *window)
{
    struct mc_put_job *job = window->job;
    mooncake_err err = MOONCAKE_OK;

    mc_xfer_init(&window->xfer, &job->base.call->engine->transports, on_all_written, window);
    mc_xfer_set_on_op(&window->xfer, on_written);
    window->state = MC_PUT_WRITING;
    window->targets = mc_job_targets(&window->started.table, window->arena);
    if (window->targets == NULL) {
        err = MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < window->count; i++) {
        struct mc_put_entry *entry = &window->entries[i];

        entry->attempt = window->started.attempts[i];
        if (window->started.statuses[i] == MOONCAKE_ENOSPACE && entry->item->tries > 0) {
            find_no_other_place(job, entry);
        } else if (window->started.statuses[i] != MOONCAKE_OK) {
            mc_put_judge(job, entry, window->started.statuses[i]);
        } else if (err != MOONCAKE_OK) {
            entry->granted = true;
            entry->failed = all_replicas(entry);
            entry->why = err;
        } else {
            write_entry(window, entry, &window->started.table.objects[i]);
        }
    }
    mc_job_touch(&job->base);
    mc_put_set_alarm(job);
    err = mc_xfer_start(&window->xfer, job->base.call->deadline_ns);
    if (err != MOONCAKE_OK) { /* nothing was written */
        for (size_t i = 0; i < window->count; i++) {
            window->entries[i].failed = all_replicas(&window->entries[i]);
            window->entries[i].why = err;
            window->entries[i].sent = false;
        }
        begin_ending(window);
    }
}

/* Is a copy of the entry written whole? */
static bool has_copy(const struct mc_put_entry *entry)
{
    for (unsigned r = 0; r < entry->replicas; r++) {
        if (entry->left[r] == 0 && (entry->failed & 1u << r) == 0) {
            return true;
        }
    }
    return false;
}

/* Is it time to write the entry elsewhere? The last try lasts until the deadline. */
static bool may_move(const struct mc_put_job *job, const struct mc_put_entry *entry,
                     uint64_t idle_ms)
{
    return idle_ms >= job->base.anew_ms && entry->item->tries + 1 < MC_PUT_TRIES_MAX;
}

void mc_put_give_up_stalled(struct mc_put_window *window, uint64_t idle_ms)
{
    struct mc_put_job *job = window->job;
    struct mc_list victims;

    if (idle_ms < job->base.stall_ms && idle_ms < job->base.anew_ms) {
        return;
    }
    mc_list_init(&victims);
    mc_list_for_each_safe (node, next, &window->ops) {
        struct mc_put_op *op = MC_CONTAINER_OF(node, struct mc_put_op, node);
        bool enough = has_copy(op->entry) && !job->options->all_replicas;

        if (enough ? idle_ms >= job->base.stall_ms : may_move(job, op->entry, idle_ms)) {
            op->entry->item->stalled = true;
            mc_list_drop(node);
            mc_list_add_tail(&victims, node);
        }
    }
    /* Stopping one may end others, and the last one ends the window; each leaves the list. */
    while (!mc_list_empty(&victims)) {
        struct mc_put_op *op = mc_list_first(&victims, struct mc_put_op, node);

        mc_xfer_cancel_op(&window->xfer, &op->op);
    }
}
