/* Reading the copies of a window's items, one copy after the other. */
#include <stdio.h>
#include <string.h>

#include "client/get_impl.h"
#include "client/report.h"

/* Fresh memory begins a cache line. */
#define OWN_ALIGN 64u

static void try_next_copy(struct mc_get_window *window, struct mc_get_entry *entry);

/* ---- what went wrong --------------------------------------------------------------------- */

static void remember_failure(struct mc_get_entry *entry, mooncake_err err)
{
    switch ((int)err) {
    case MOONCAKE_ECHECKSUM:
        entry->damaged = true;
        break;
    case MOONCAKE_ENOENT:
    case MOONCAKE_ENOSEGMENT:
        entry->stale = true;
        break;
    case MOONCAKE_ETIMEDOUT:
        entry->late = true;
        break;
    case MOONCAKE_ERPC:
    case MOONCAKE_ENOTOWNER: /* the store refuses what the master granted: neither is to be had */
    case MOONCAKE_EINVAL:
    default:
        entry->unreachable = true;
        break;
    }
}

mooncake_err mc_get_final_error(const struct mc_get_entry *entry)
{
    if (entry->stale) {
        return MOONCAKE_ENOENT;
    }
    if (entry->late) {
        return MOONCAKE_ETIMEDOUT;
    }
    return entry->damaged && !entry->unreachable ? MOONCAKE_ECHECKSUM : MOONCAKE_ETRANSFER;
}

static void note_read_failure(struct mc_get_job *job, const struct mc_get_entry *entry,
                              const struct mc_xfer_op *op)
{
    char key[80], detail[160];

    if (entry->late && op->err != MOONCAKE_ETIMEDOUT) {
        return; /* that one was late is what the call will tell */
    }
    (void)snprintf(detail, sizeof(detail), "%s",
                   op->err == MOONCAKE_ERPC ? mooncake_last_error() : "");
    mc_call_note(job->base.call, "key \"%s\": reading from segment %s failed: %s",
                 mc_key_print(&entry->item->key, key, sizeof(key)), op->target->name,
                 detail[0] != '\0' ? detail : mooncake_err_text(op->err));
}

/* ---- reading ----------------------------------------------------------------------------- */

/* The present copy has ended, one way or the other. */
static void end_copy(struct mc_get_window *window, struct mc_get_entry *entry)
{
    if (entry->present == MOONCAKE_OK) {
        entry->item->len = entry->object->value_len;
        mc_get_judge(window->job, entry, MOONCAKE_OK);
        return;
    }
    if (entry->present == MOONCAKE_ENOTSUP) { /* not to be lent: the same copy once more */
        entry->no_lend = true;
        entry->order_next--;
    } else {
        remember_failure(entry, entry->present);
        if (entry->order_next < entry->order_count) {
            (void)atomic_fetch_add_explicit(
                &window->job->base.call->client->counters.read_failovers, 1, memory_order_relaxed);
        }
    }
    if (!mc_call_expired(window->job->base.call)) {
        try_next_copy(window, entry);
    }
}

static void on_read(struct mc_xfer *xfer, struct mc_xfer_op *xfer_op)
{
    struct mc_get_op *op = MC_CONTAINER_OF(xfer_op, struct mc_get_op, op);
    struct mc_get_window *window = xfer->arg;
    struct mc_get_entry *entry = op->entry;

    mc_list_drop(&op->node);
    if (xfer_op->err == MOONCAKE_ECHECKSUM && mc_get_doubt_begin(window, op)) {
        mc_list_add_tail(&window->ops, &op->node);
        mc_xfer_add(xfer, xfer_op);
        return;
    }
    mc_get_doubt_end(window, op);
    MC_ASSERT(entry->left > 0);
    entry->left--;
    if (xfer_op->lend != NULL && xfer_op->err == MOONCAKE_ERPC) {
        entry->present = MOONCAKE_ENOTSUP;
    } else if (xfer_op->err != MOONCAKE_OK) {
        note_read_failure(window->job, entry, xfer_op);
        if (!op->untold) {
            mc_report_failure(window->job->base.call, xfer_op, &entry->item->key,
                              mc_job_idle_ms(&window->job->base));
        }
        entry->present = xfer_op->err;
    }
    /* The next copy goes into the same memory, so all of this one must have ended. */
    if (entry->left == 0) {
        end_copy(window, entry);
    }
}

static void on_all_read(struct mc_xfer *xfer)
{
    mc_get_end_round(xfer->arg);
}

static mooncake_err add_copy(struct mc_get_window *window, struct mc_get_entry *entry,
                             const struct mc_replica_info *replica)
{
    const struct mc_get_item *item = entry->item;
    struct mc_piece_cursor cursor = window->job->mode == MC_GET_INTO
                                        ? mc_piece_cursor(item->spaces, item->spaces_count)
                                        : mc_piece_cursor(&item->own, 1);
    struct mc_get_op *ops = mc_arena_array(window->arena, replica->extents_count, sizeof(*ops));

    if (ops == NULL) {
        return MOONCAKE_ENOMEM;
    }
    memset(ops, 0, replica->extents_count * sizeof(*ops));
    for (uint32_t i = 0; i < replica->extents_count; i++) {
        struct mc_get_op *op = &ops[i];

        op->entry = entry;
        op->op.right = MC_RIGHT_READ;
        op->op.extent = replica->extents[i];
        op->op.target = &window->targets[replica->segment[i]];
        op->op.verify = window->job->base.call->client->verify;
        MC_TRY(mc_piece_cursor_cut(&cursor, op->op.extent.payload_len, window->arena,
                                   &op->op.pieces, &op->op.pieces_count));
    }
    entry->present = MOONCAKE_OK;
    entry->left = replica->extents_count;
    for (uint32_t i = 0; i < replica->extents_count; i++) {
        mc_list_add_tail(&window->ops, &ops[i].node);
    }
    for (uint32_t i = 0; i < replica->extents_count; i++) {
        mc_xfer_add(&window->xfers[window->round], &ops[i].op);
    }
    return MOONCAKE_OK;
}

/* Can this copy be looked at where it lies? It must be in one piece, on this host. */
static bool can_lend(struct mc_get_window *window, const struct mc_get_entry *entry,
                     const struct mc_replica_info *replica)
{
    struct mc_transport_set *set = &window->job->base.call->engine->transports;

    return window->job->mode == MC_GET_VIEW && !entry->no_lend && replica->extents_count == 1 &&
           mc_transport_set_choose(set, &window->targets[replica->segment[0]],
                                   mc_transport_set_without(set, MC_TRANSPORT_LENDS)) >= 0;
}

static mooncake_err add_lend(struct mc_get_window *window, struct mc_get_entry *entry,
                             const struct mc_replica_info *replica)
{
    struct mc_get_op *op = mc_arena_alloc(window->arena, sizeof(*op));

    if (op == NULL) {
        return MOONCAKE_ENOMEM;
    }
    memset(op, 0, sizeof(*op));
    op->entry = entry;
    op->op.right = MC_RIGHT_READ;
    op->op.extent = replica->extents[0];
    op->op.target = &window->targets[replica->segment[0]];
    op->op.verify = window->job->base.call->client->verify;
    op->op.lend = &entry->item->lend;
    entry->present = MOONCAKE_OK;
    entry->left = 1;
    mc_list_add_tail(&window->ops, &op->node);
    mc_xfer_add(&window->xfers[window->round], &op->op);
    return MOONCAKE_OK;
}

/* Is there room for the value where it is to go? */
static mooncake_err make_room(struct mc_get_job *job, struct mc_get_item *item, uint64_t len)
{
    char key[80];

    if (job->mode == MC_GET_INTO) {
        if (len <= item->cap) {
            return MOONCAKE_OK;
        }
        item->len = len;
        mc_call_note(job->base.call,
                     "key \"%s\": the value has %llu bytes and the buffer only %llu",
                     mc_key_print(&item->key, key, sizeof(key)), (unsigned long long)len,
                     (unsigned long long)item->cap);
        return MOONCAKE_EINVAL;
    }
    if (job->mode == MC_GET_VIEW && len > item->copy_len_max) {
        mc_call_note(job->base.call,
                     "key \"%s\": its %llu bytes cannot be looked at in place, and copy_len_max "
                     "(%llu) forbids a copy",
                     mc_key_print(&item->key, key, sizeof(key)), (unsigned long long)len,
                     (unsigned long long)item->copy_len_max);
        return MOONCAKE_ENOTSUP;
    }
    if (item->own.iov_base != NULL && item->own.iov_len == len) {
        return MOONCAKE_OK; /* from another copy or the first round */
    }
    mc_free(item->own.iov_base);
    item->own = (struct iovec){0};
    if (len > SIZE_MAX - OWN_ALIGN) {
        return MOONCAKE_ENOMEM;
    }
    item->own.iov_base = mc_aligned_alloc(OWN_ALIGN, (size_t)len);
    if (item->own.iov_base == NULL) {
        return MOONCAKE_ENOMEM;
    }
    item->own.iov_len = (size_t)len;
    return MOONCAKE_OK;
}

/* Without another copy the entry is left without a verdict: the end of the round judges it. */
static void try_next_copy(struct mc_get_window *window, struct mc_get_entry *entry)
{
    const struct mc_replica_info *replica;
    mooncake_err err;

    do {
        if (entry->order_next == entry->order_count) {
            return;
        }
        replica = &entry->object->replicas[entry->order[entry->order_next++]];
        if (can_lend(window, entry, replica)) {
            err = add_lend(window, entry, replica);
        } else {
            entry->no_lend = false; /* of the next copy nothing is known */
            err = make_room(window->job, entry->item, entry->object->value_len);
            err = err == MOONCAKE_OK ? add_copy(window, entry, replica) : err;
        }
        /* What must not be copied may still be lent from elsewhere. */
    } while (err == MOONCAKE_ENOTSUP && entry->order_next < entry->order_count);
    if (err != MOONCAKE_OK) {
        mc_get_judge(window->job, entry, err);
    }
}

/* The master knows the object: begin with its best copy. */
static void read_entry(struct mc_get_window *window, struct mc_get_entry *entry,
                       const struct mc_object_info *object)
{
    struct mc_get_job *job = window->job;

    entry->object = object;
    entry->item->id = object->id;
    entry->item->lease_ms = window->answer.lease_ms;
    entry->item->lease_end_ns = mc_deadline_ns(window->asked_ns, window->answer.lease_ms);
    entry->order_next = 0;
    entry->order_count =
        mc_replica_order(&job->base.call->client->suspects, &job->base.call->engine->transports,
                         window->targets, object, job->random++, entry->order);
    if (entry->order_count == 0) {
        entry->stale = true;
    }
    try_next_copy(window, entry);
}

void mc_get_read(struct mc_get_window *window)
{
    struct mc_get_job *job = window->job;
    struct mc_xfer *xfer = &window->xfers[window->round];
    mooncake_err err;

    window->state = MC_GET_READING;
    mc_list_init(&window->ops);
    mc_xfer_init(xfer, &job->base.call->engine->transports, on_all_read, window);
    mc_xfer_set_on_op(xfer, on_read);
    window->targets = mc_job_targets(&window->answer.table, window->arena);
    for (size_t i = 0; i < window->query.count; i++) {
        struct mc_get_entry *entry = window->asked[i];

        if (window->answer.statuses[i] != MOONCAKE_OK) {
            mc_get_judge(job, entry, window->answer.statuses[i]);
        } else if (window->targets == NULL) {
            mc_get_judge(job, entry, MOONCAKE_ENOMEM);
        } else {
            read_entry(window, entry, &window->answer.table.objects[i]);
        }
    }
    mc_job_touch(&job->base);
    mc_get_set_alarm(job);
    err = mc_xfer_start(xfer, job->base.call->deadline_ns);
    if (err != MOONCAKE_OK) { /* nothing was read */
        for (size_t i = 0; i < window->query.count; i++) {
            if (!window->asked[i]->judged) {
                mc_get_judge(job, window->asked[i], err);
            }
        }
        mc_get_end_round(window);
    }
}

void mc_get_give_up_stalled(struct mc_get_window *window)
{
    struct mc_list victims;

    mc_list_init(&victims);
    mc_list_for_each_safe (node, next, &window->ops) {
        const struct mc_get_op *op = MC_CONTAINER_OF(node, struct mc_get_op, node);

        if (op->entry->order_next < op->entry->order_count) {
            mc_list_drop(node);
            mc_list_add_tail(&victims, node);
        }
    }
    /* Stopping one may end others, and the last one ends the round; each leaves the list. */
    while (!mc_list_empty(&victims)) {
        struct mc_get_op *op = mc_list_first(&victims, struct mc_get_op, node);

        mc_xfer_cancel_op(&window->xfers[window->round], &op->op);
    }
}
