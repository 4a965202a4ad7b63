/*
 * One group of ops: who is under way, who waits for room, what is left.
 *
 * Design notes: an op may end inside its own submit, and whoever hears of that may add the next op
 * at once. So that this does not nest, ops only ever enter the waiting list, and one pump at a time
 * takes them out; the group's end is looked for at the end of the pump and nowhere else, because
 * done may free everything.
 */
#include "transport/xfer.h"

#include "base/clock.h"
#include "transport/peers.h"

#define BUSY_RETRY_MS 1u
#define TIMER_MS_MAX 3600000u /* an hour; the timer looks at the clock again then */

void mc_xfer_init(struct mc_xfer *xfer, struct mc_transport_set *set,
                  void (*done)(struct mc_xfer *xfer), void *arg)
{
    *xfer = (struct mc_xfer){.set = set, .done = done, .arg = arg};
    mc_list_init(&xfer->under_way);
    mc_list_init(&xfer->waiting);
}

void mc_xfer_set_on_op(struct mc_xfer *xfer,
                       void (*on_op)(struct mc_xfer *xfer, struct mc_xfer_op *op))
{
    xfer->on_op = on_op;
}

static void end_op(struct mc_xfer *xfer, struct mc_xfer_op *op, mooncake_err err)
{
    MC_ASSERT(xfer->left > 0);
    op->err = err;
    xfer->left--;
    if (xfer->on_op != NULL) {
        xfer->on_op(xfer, op); /* may free op, may add others */
    }
}

static const char *kind_name(const struct mc_xfer *xfer, unsigned kind)
{
    return xfer->set->instances[kind]->ops->kind;
}

/* For whoever looks at peers: the op has ended over its transport. */
static void note_end(const struct mc_xfer *xfer, const struct mc_xfer_op *op, mooncake_err err)
{
    mc_peers_note_op(xfer->set->peers, op->target->name, kind_name(xfer, op->kind), op->right,
                     op->extent.payload_len, err);
}

/* The op's transport could not do it: wait for the next kind, or end. */
static void lose_op(struct mc_xfer *xfer, struct mc_xfer_op *op, mooncake_err err)
{
    int next = -1;

    op->tried_mask |= 1u << op->kind;
    if (err == MOONCAKE_ERPC && !xfer->stopped) {
        next = mc_transport_set_choose(xfer->set, op->target, op->tried_mask);
    }
    if (next >= 0) {
        mc_peers_note_fallback(xfer->set->peers, op->target->name, kind_name(xfer, op->kind),
                               kind_name(xfer, (unsigned)next));
        mc_list_add_tail(&xfer->waiting, &op->xfer_node);
        xfer->again = true;
    } else {
        note_end(xfer, op, err);
        end_op(xfer, op, err);
    }
}

/* Submit @p op, which is in no list. */
static void submit(struct mc_xfer *xfer, struct mc_xfer_op *op)
{
    int kind = mc_transport_set_choose(xfer->set, op->target, op->tried_mask);
    struct mc_transport *t;
    mooncake_err err;

    if (kind < 0) {
        end_op(xfer, op,
               mc_err_set(MOONCAKE_ERPC,
                          "segment %s: none of its addresses (%s) can be reached with the "
                          "transports that are allowed here",
                          op->target->name, op->target->addresses));
        return;
    }
    t = xfer->set->instances[kind];
    op->kind = (unsigned)kind;
    xfer->touched_mask |= 1u << (unsigned)kind;
    mc_list_add_tail(&xfer->under_way, &op->xfer_node);
    op->submitted = true;
    err = t->ops->submit(t, op);
    if (err == MOONCAKE_OK) {
        return; /* op may be gone already */
    }
    op->submitted = false;
    mc_list_drop(&op->xfer_node);
    if (err == MOONCAKE_EREPLICABUSY) {
        mc_list_add_tail(&xfer->waiting, &op->xfer_node);
    } else {
        lose_op(xfer, op, err);
    }
}

/* One pass over those who wait now. */
static void submit_waiting(struct mc_xfer *xfer)
{
    struct mc_list batch;

    mc_list_init(&batch);
    mc_list_splice_tail(&batch, &xfer->waiting);
    while (!mc_list_empty(&batch)) {
        struct mc_xfer_op *op = mc_list_first(&batch, struct mc_xfer_op, xfer_node);

        mc_list_drop(&op->xfer_node);
        if (xfer->stopped) {
            end_op(xfer, op, MOONCAKE_ETIMEDOUT);
        } else {
            submit(xfer, op);
        }
    }
}

static void flush(struct mc_xfer *xfer)
{
    unsigned mask = xfer->touched_mask;

    xfer->touched_mask = 0;
    for (unsigned i = 0; i < xfer->set->count; i++) {
        if ((mask & 1u << i) != 0) {
            xfer->set->instances[i]->ops->flush(xfer->set->instances[i]);
        }
    }
}

/* When to look again: at the deadline, or soon if ops wait and no completion will wake them. */
static void set_timer(struct mc_xfer *xfer)
{
    uint64_t ms = mc_left_ms(mc_monotonic_ns(), xfer->deadline_ns);

    if (!mc_list_empty(&xfer->waiting) && mc_list_empty(&xfer->under_way) && ms > BUSY_RETRY_MS) {
        ms = BUSY_RETRY_MS;
    }
    mc_timer_set(xfer->timer, ms > TIMER_MS_MAX ? TIMER_MS_MAX : ms, 0);
}

/* Submit all that can be submitted; the outermost call that touches the group ends with this. */
static void pump(struct mc_xfer *xfer)
{
    MC_ASSERT(xfer->pumping);
    do {
        xfer->again = false;
        submit_waiting(xfer);
        flush(xfer);
    } while (xfer->again);
    xfer->pumping = false;
    if (xfer->left > 0) {
        if (xfer->timer != NULL && !mc_list_empty(&xfer->waiting)) {
            set_timer(xfer);
        }
    } else {
        if (xfer->timer != NULL) {
            mc_timer_destroy(&xfer->timer);
        }
        xfer->done(xfer);
    }
}

static void on_op_done(struct mc_xfer_op *op)
{
    struct mc_xfer *xfer = op->arg;
    bool nested = xfer->pumping;

    xfer->pumping = true;
    xfer->again = true; /* there is room for one more now */
    op->submitted = false;
    mc_list_drop(&op->xfer_node);
    if (op->err == MOONCAKE_OK) {
        note_end(xfer, op, MOONCAKE_OK);
        end_op(xfer, op, MOONCAKE_OK);
    } else {
        lose_op(xfer, op, op->err);
    }
    if (!nested) {
        pump(xfer);
    }
}

void mc_xfer_add(struct mc_xfer *xfer, struct mc_xfer_op *op)
{
    MC_ASSERT(op->target != NULL);
    op->done = on_op_done;
    op->arg = xfer;
    op->err = MOONCAKE_OK;
    op->kind = 0;
    op->retries = 0;
    op->tried_mask = op->lend == NULL ? 0 : mc_transport_set_without(xfer->set, MC_TRANSPORT_LENDS);
    op->submitted = false;
    mc_list_init(&op->node);
    mc_list_init(&op->xfer_node);
    mc_list_add_tail(&xfer->waiting, &op->xfer_node);
    xfer->left++;
    xfer->again = true;
}

static void stop_all(struct mc_xfer *xfer)
{
    xfer->stopped = true;
    xfer->again = true; /* the pump ends those who wait */
    while (!mc_list_empty(&xfer->under_way)) {
        struct mc_xfer_op *op = mc_list_first(&xfer->under_way, struct mc_xfer_op, xfer_node);
        struct mc_transport *t = xfer->set->instances[op->kind];

        mc_list_drop(&op->xfer_node);
        t->ops->cancel(t, op);
        end_op(xfer, op, MOONCAKE_ETIMEDOUT);
    }
}

void mc_xfer_cancel(struct mc_xfer *xfer)
{
    bool nested = xfer->pumping;

    xfer->pumping = true;
    stop_all(xfer);
    if (!nested) {
        pump(xfer);
    }
}

void mc_xfer_cancel_op(struct mc_xfer *xfer, struct mc_xfer_op *op)
{
    bool nested = xfer->pumping;

    MC_ASSERT(op->arg == xfer && mc_list_linked(&op->xfer_node));
    xfer->pumping = true;
    xfer->again = true;
    mc_list_drop(&op->xfer_node);
    if (op->submitted) {
        struct mc_transport *t = xfer->set->instances[op->kind];

        op->submitted = false;
        t->ops->cancel(t, op);
    }
    end_op(xfer, op, MOONCAKE_ETIMEDOUT);
    if (!nested) {
        pump(xfer);
    }
}

static void on_timer(void *arg)
{
    struct mc_xfer *xfer = arg;

    if (mc_monotonic_ns() >= xfer->deadline_ns) {
        mc_xfer_cancel(xfer);
        return;
    }
    set_timer(xfer); /* fired early, or ops wait for room */
    if (!mc_list_empty(&xfer->waiting)) {
        xfer->pumping = true;
        pump(xfer);
    }
}

/* The loop of any instance; all are of one loop. */
static struct mc_loop *loop_of(const struct mc_xfer *xfer)
{
    for (unsigned i = 0; i < xfer->set->count; i++) {
        if (xfer->set->instances[i] != NULL) {
            return xfer->set->instances[i]->loop;
        }
    }
    MC_ASSERT(false); /* mc_transport_set_open() gives at least one */
    return NULL;
}

mooncake_err mc_xfer_start(struct mc_xfer *xfer, uint64_t deadline_ns)
{
    MC_ASSERT(!xfer->pumping && xfer->timer == NULL);
    xfer->deadline_ns = deadline_ns;
    if (xfer->left > 0) {
        MC_TRY(mc_timer_create(loop_of(xfer), on_timer, xfer, &xfer->timer));
        set_timer(xfer);
    }
    xfer->pumping = true;
    pump(xfer);
    return MOONCAKE_OK;
}
