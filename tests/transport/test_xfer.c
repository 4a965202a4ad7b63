/* Groups of ops, over transports that do as the test tells them. */
#include "rig.h"

#include <string.h>

#include "base/mem.h"
#include "transport/xfer.h"

/* ---- a transport on strings ------------------------------------------------------------------ */

struct fake {
    struct mc_transport transport; /* first */
    bool reaches;
    bool inline_done;     /* end ops inside submit, with `result` */
    mooncake_err result;  /* of ops that end inside submit */
    mooncake_err refusal; /* of submit; OK: accept */
    unsigned room;        /* submits before EREPLICABUSY; counts down */
    unsigned submits, flushes, cancels;
    struct mc_list held; /* accepted and not ended */
};

static struct fake *fake_of(struct mc_transport *transport)
{
    return MC_CONTAINER_OF(transport, struct fake, transport);
}

static bool fake_reaches(struct mc_transport *transport, const struct mc_target *target)
{
    (void)target;
    return fake_of(transport)->reaches;
}

static mooncake_err fake_submit(struct mc_transport *transport, struct mc_xfer_op *op)
{
    struct fake *fake = fake_of(transport);

    fake->submits++;
    if (fake->refusal != MOONCAKE_OK) {
        return fake->refusal;
    }
    if (fake->room == 0) {
        return MOONCAKE_EREPLICABUSY;
    }
    fake->room--;
    if (fake->inline_done) {
        fake->room++;
        op->err = fake->result;
        op->done(op);
    } else {
        mc_list_add_tail(&fake->held, &op->node);
    }
    return MOONCAKE_OK;
}

static void fake_flush(struct mc_transport *transport)
{
    fake_of(transport)->flushes++;
}

static void fake_cancel(struct mc_transport *transport, struct mc_xfer_op *op)
{
    fake_of(transport)->cancels++;
    mc_list_drop(&op->node);
}

/* Only what xfer calls. */
static const struct mc_transport_ops fake_ops = {
    .kind = "fake",
    .reaches = fake_reaches,
    .submit = fake_submit,
    .flush = fake_flush,
    .cancel = fake_cancel,
};

/* End the oldest op that @p fake holds. */
static void fake_end_one(struct fake *fake, mooncake_err err)
{
    struct mc_xfer_op *op = mc_list_first(&fake->held, struct mc_xfer_op, node);

    assert_false(mc_list_empty(&fake->held));
    mc_list_drop(&op->node);
    fake->room++;
    op->err = err;
    op->done(op);
}

/* ---- fixture --------------------------------------------------------------------------------- */

#define OPS 8u

struct fixture {
    struct mc_loop *loop;
    struct fake near, far; /* in this order of choice */
    struct mc_transport_set set;
    struct mc_target target;
    struct mc_xfer xfer;
    struct mc_xfer_op ops[OPS];
    unsigned done_count, on_op_count;
    bool done;
};

static struct fixture fixture; /* on_done finds it here */

static void on_done(struct mc_xfer *xfer)
{
    assert_ptr_equal(xfer, &fixture.xfer);
    assert_ptr_equal(xfer->arg, &fixture);
    fixture.done_count++;
    fixture.done = true;
    memset(xfer, 0xee, sizeof(*xfer)); /* nobody may look at it now */
}

static void fake_init(struct fake *fake)
{
    fake->transport.ops = &fake_ops;
    fake->transport.loop = fixture.loop;
    fake->reaches = true;
    fake->room = 1000;
    mc_list_init(&fake->held);
}

static int open_fixture(void **state)
{
    struct fixture *f = &fixture;

    memset(f, 0, sizeof(*f));
    assert_int_equal(mc_loop_create(0, &f->loop), MOONCAKE_OK);
    fake_init(&f->near);
    fake_init(&f->far);
    f->set.count = 3;
    f->set.instances[0] = &f->near.transport; /* 1 is not allowed here */
    f->set.instances[2] = &f->far.transport;
    f->target = (struct mc_target){.mount_id = 1, .name = "seg-a", .addresses = "x://y"};
    mc_xfer_init(&f->xfer, &f->set, on_done, f);
    for (unsigned i = 0; i < OPS; i++) {
        f->ops[i].target = &f->target;
        f->ops[i].err = MOONCAKE_EINTERNAL;
    }
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;

    mc_loop_destroy(&f->loop);
    return mc_mem_live_count() == 0 ? 0 : -1;
}

static void add_ops(struct fixture *f, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        mc_xfer_add(&f->xfer, &f->ops[i]);
    }
}

static void start(struct fixture *f, uint64_t in_ms)
{
    assert_int_equal(mc_xfer_start(&f->xfer, mc_deadline_ns(mc_monotonic_ns(), in_ms)),
                     MOONCAKE_OK);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void xfer__without_ops_is_done_at_once(void **state)
{
    struct fixture *f = *state;

    start(f, 10000);
    assert_int_equal(f->done_count, 1);
}

static void xfer__is_done_once_when_the_last_op_has_ended(void **state)
{
    struct fixture *f = *state;

    add_ops(f, 3);
    start(f, 10000);
    assert_int_equal(f->near.submits, 3);
    assert_int_equal(f->near.flushes, 1);
    fake_end_one(&f->near, MOONCAKE_OK);
    fake_end_one(&f->near, MOONCAKE_ECHECKSUM);
    assert_int_equal(f->done_count, 0);
    fake_end_one(&f->near, MOONCAKE_OK);
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->ops[0].err, MOONCAKE_OK);
    assert_int_equal(f->ops[1].err, MOONCAKE_ECHECKSUM);
    assert_int_equal(f->ops[2].err, MOONCAKE_OK);
    assert_int_equal(f->far.submits, 0);
}

static void xfer__may_be_done_inside_start(void **state)
{
    struct fixture *f = *state;

    f->near.inline_done = true;
    add_ops(f, OPS);
    start(f, 10000);
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->ops[OPS - 1].err, MOONCAKE_OK);
}

static void xfer__takes_the_next_kind_when_a_connection_is_lost(void **state)
{
    struct fixture *f = *state;

    add_ops(f, 2);
    start(f, 10000);
    fake_end_one(&f->near, MOONCAKE_ERPC);
    assert_int_equal(f->far.submits, 1);
    assert_int_equal(f->far.flushes, 1);
    assert_int_equal(f->ops[0].kind, 2);
    fake_end_one(&f->near, MOONCAKE_ERPC);
    fake_end_one(&f->far, MOONCAKE_OK);
    fake_end_one(&f->far, MOONCAKE_ERPC);
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->ops[0].err, MOONCAKE_OK);
    assert_int_equal(f->ops[1].err, MOONCAKE_ERPC);
    assert_int_equal(f->near.submits, 2);
}

static void xfer__takes_the_next_kind_when_a_peer_cannot_be_reached(void **state)
{
    struct fixture *f = *state;

    f->near.refusal = MOONCAKE_ERPC;
    f->far.inline_done = true;
    add_ops(f, 1);
    start(f, 10000);
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->ops[0].err, MOONCAKE_OK);
    assert_int_equal(f->ops[0].kind, 2);
}

static void xfer__does_not_repeat_what_another_kind_cannot_cure(void **state)
{
    static const mooncake_err errs[] = {MOONCAKE_ENOENT, MOONCAKE_ECHECKSUM, MOONCAKE_ENOTOWNER,
                                        MOONCAKE_EINVAL, MOONCAKE_ENOSEGMENT};
    struct fixture *f = *state;

    add_ops(f, MC_ARRAY_LEN(errs));
    start(f, 10000);
    for (size_t i = 0; i < MC_ARRAY_LEN(errs); i++) {
        fake_end_one(&f->near, errs[i]);
    }
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->far.submits, 0);
    for (size_t i = 0; i < MC_ARRAY_LEN(errs); i++) {
        assert_int_equal(f->ops[i].err, errs[i]);
    }
}

static void xfer__without_a_way_to_the_target_says_so(void **state)
{
    struct fixture *f = *state;

    f->near.reaches = false;
    f->far.reaches = false;
    add_ops(f, 1);
    start(f, 10000);
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->ops[0].err, MOONCAKE_ERPC);
    assert_non_null(strstr(mooncake_last_error(), "seg-a"));
}

static void xfer__submits_busy_ops_after_a_completion(void **state)
{
    struct fixture *f = *state;

    f->near.room = 2;
    add_ops(f, 5);
    start(f, 10000);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(f->done_count, 0);
        fake_end_one(&f->near, MOONCAKE_OK);
    }
    assert_int_equal(f->done_count, 1);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(f->ops[i].err, MOONCAKE_OK);
        assert_int_equal(f->ops[i].kind, 0);
    }
}

/* Others on the same loop have filled the queue: no completion of ours will tell when it empties.
 */
static void xfer__looks_again_when_all_its_ops_are_busy(void **state)
{
    struct fixture *f = *state;

    f->near.room = 0;
    add_ops(f, 1);
    start(f, 10000);
    RIG_RUN_UNTIL(f->loop, f->near.submits > 3);
    f->near.room = 1;
    f->near.inline_done = true;
    RIG_RUN_UNTIL(f->loop, f->done);
    assert_int_equal(f->ops[0].err, MOONCAKE_OK);
}

static void xfer__stops_all_at_the_deadline(void **state)
{
    struct fixture *f = *state;
    uint64_t begin_ns = mc_monotonic_ns();

    f->near.room = 2;
    add_ops(f, 3);
    start(f, 30);
    RIG_RUN_UNTIL(f->loop, f->done);
    assert_true(mc_monotonic_ns() - begin_ns >= 30 * MC_NS_PER_MS);
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->near.cancels, 2);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(f->ops[i].err, MOONCAKE_ETIMEDOUT);
    }
}

static void xfer__with_a_deadline_in_the_past_ends_soon(void **state)
{
    struct fixture *f = *state;

    add_ops(f, 1);
    assert_int_equal(mc_xfer_start(&f->xfer, 1), MOONCAKE_OK);
    RIG_RUN_UNTIL(f->loop, f->done);
    assert_int_equal(f->ops[0].err, MOONCAKE_ETIMEDOUT);
}

static void xfer__when_cancelled_is_done_at_once(void **state)
{
    struct fixture *f = *state;

    f->near.room = 1;
    add_ops(f, 2);
    start(f, 10000);
    mc_xfer_cancel(&f->xfer);
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->near.cancels, 1);
    assert_int_equal(f->ops[0].err, MOONCAKE_ETIMEDOUT);
    assert_int_equal(f->ops[1].err, MOONCAKE_ETIMEDOUT);
}

static void cancel_op__stops_one_and_leaves_the_others(void **state)
{
    struct fixture *f = *state;

    f->near.room = 2;
    add_ops(f, 4);
    start(f, 10000);
    mc_xfer_cancel_op(&f->xfer, &f->ops[0]); /* under way */
    assert_int_equal(f->near.cancels, 1);
    mc_xfer_cancel_op(&f->xfer, &f->ops[3]); /* waits */
    assert_int_equal(f->near.cancels, 1);
    fake_end_one(&f->near, MOONCAKE_OK);
    assert_int_equal(f->done_count, 0);
    mc_xfer_cancel_op(&f->xfer, &f->ops[2]); /* the last */
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->ops[0].err, MOONCAKE_ETIMEDOUT);
    assert_int_equal(f->ops[1].err, MOONCAKE_OK);
    assert_int_equal(f->ops[2].err, MOONCAKE_ETIMEDOUT);
    assert_int_equal(f->ops[3].err, MOONCAKE_ETIMEDOUT);
}

/* The next replica: the same op again until it has been tried 1000 times. */
static void add_again(struct mc_xfer *xfer, struct mc_xfer_op *op)
{
    if (++fixture.on_op_count < 1000) {
        mc_xfer_add(xfer, op);
    }
}

static void on_op__may_add_an_op_from_inside_submit(void **state)
{
    struct fixture *f = *state;

    f->near.inline_done = true;
    f->near.result = MOONCAKE_ENOENT;
    mc_xfer_set_on_op(&f->xfer, add_again);
    add_ops(f, 1);
    start(f, 10000);
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->on_op_count, 1000);
    assert_int_equal(f->near.submits, 1000);
}

static void on_op__may_add_an_op_from_the_loop(void **state)
{
    struct fixture *f = *state;

    mc_xfer_set_on_op(&f->xfer, add_again);
    add_ops(f, 1);
    start(f, 10000);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(f->done_count, 0);
        fake_end_one(&f->near, MOONCAKE_ENOENT);
    }
    assert_int_equal(f->done_count, 1);
}

static void on_op__may_add_but_not_prolong_after_the_deadline(void **state)
{
    struct fixture *f = *state;

    mc_xfer_set_on_op(&f->xfer, add_again);
    add_ops(f, 1);
    start(f, 10000);
    mc_xfer_cancel(&f->xfer);
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->near.submits, 1);
    assert_int_equal(f->ops[0].err, MOONCAKE_ETIMEDOUT);
}

static void cancel_all(struct mc_xfer *xfer, struct mc_xfer_op *op)
{
    (void)op;
    if (fixture.on_op_count++ == 0) {
        mc_xfer_cancel(xfer);
    }
}

static void on_op__may_cancel_the_group(void **state)
{
    struct fixture *f = *state;

    mc_xfer_set_on_op(&f->xfer, cancel_all);
    add_ops(f, 3);
    start(f, 10000);
    fake_end_one(&f->near, MOONCAKE_OK);
    assert_int_equal(f->done_count, 1);
    assert_int_equal(f->on_op_count, 3);
    assert_int_equal(f->ops[0].err, MOONCAKE_OK);
    assert_int_equal(f->ops[2].err, MOONCAKE_ETIMEDOUT);
    assert_int_equal(f->near.cancels, 2);
}

static void start__out_of_memory_submits_nothing(void **state)
{
    struct fixture *f = *state;

    add_ops(f, 1);
    mc_mem_fail_after(0);
    assert_int_equal(mc_xfer_start(&f->xfer, UINT64_MAX), MOONCAKE_ENOMEM);
    mc_mem_fail_after(-1);
    assert_int_equal(f->near.submits, 0);
    assert_int_equal(f->done_count, 0);
}

/* ---- the set --------------------------------------------------------------------------------- */

static void set__names_the_known_kinds_when_one_is_not(void **state)
{
    struct fixture *f = *state;
    struct mc_transport_set set;

    assert_int_equal(mc_transport_set_open(f->loop, "local,pigeon", &rig_options, &set),
                     MOONCAKE_EINVAL);
    assert_non_null(strstr(mooncake_last_error(), "pigeon"));
    assert_non_null(strstr(mooncake_last_error(), "local"));
    assert_non_null(strstr(mooncake_last_error(), "tcp"));
    assert_int_equal(mc_transport_set_open(f->loop, " , ", &rig_options, &set), MOONCAKE_EINVAL);
    assert_int_equal(mc_transport_set_open(f->loop, "", &rig_options, &set), MOONCAKE_EINVAL);
}

static int index_of(const char *kind)
{
    unsigned count;
    const struct mc_transport_ops *const *kinds = mc_transport_kinds(&count);

    for (unsigned i = 0; i < count; i++) {
        if (strcmp(kinds[i]->kind, kind) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static void set__chooses_the_best_kind_that_reaches_and_was_not_tried(void **state)
{
    static uint8_t memory[64];
    const struct mc_mount mount = {.mount_id = 5, .base = memory, .len = 64, .memfd = -1};
    const struct mc_target both = {.mount_id = 5, .name = "a", .addresses = "tcp://h:1"};
    const struct mc_target remote = {.mount_id = 6, .name = "b", .addresses = "x://y tcp://h:1"};
    const struct mc_target none = {.mount_id = 6, .name = "c", .addresses = "x://tcp://h:1"};
    const int local = index_of("local");
    const int tcp = index_of("tcp");
    struct fixture *f = *state;
    struct mc_transport_set set;

    assert_true(local >= 0 && local < tcp);
    assert_int_equal(mc_mount_add(&mount), MOONCAKE_OK);
    assert_int_equal(mc_transport_set_open(f->loop, NULL, &rig_options, &set), MOONCAKE_OK);
    assert_int_equal(mc_transport_set_choose(&set, &both, 0), local);
    assert_int_equal(mc_transport_set_choose(&set, &both, 1u << local), tcp);
    assert_int_equal(mc_transport_set_choose(&set, &both, 1u << local | 1u << tcp), -1);
    assert_int_equal(mc_transport_set_choose(&set, &remote, 0), tcp);
    assert_int_equal(mc_transport_set_choose(&set, &none, 0), -1);
    mc_transport_set_close(&set);
    assert_int_equal(mc_transport_set_open(f->loop, "tcp", &rig_options, &set), MOONCAKE_OK);
    assert_int_equal(mc_transport_set_choose(&set, &both, 0), tcp);
    mc_transport_set_close(&set);
    mc_mount_drop(5);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(xfer__without_ops_is_done_at_once),
        TEST(xfer__is_done_once_when_the_last_op_has_ended),
        TEST(xfer__may_be_done_inside_start),
        TEST(xfer__takes_the_next_kind_when_a_connection_is_lost),
        TEST(xfer__takes_the_next_kind_when_a_peer_cannot_be_reached),
        TEST(xfer__does_not_repeat_what_another_kind_cannot_cure),
        TEST(xfer__without_a_way_to_the_target_says_so),
        TEST(xfer__submits_busy_ops_after_a_completion),
        TEST(xfer__looks_again_when_all_its_ops_are_busy),
        TEST(xfer__stops_all_at_the_deadline),
        TEST(xfer__with_a_deadline_in_the_past_ends_soon),
        TEST(xfer__when_cancelled_is_done_at_once),
        TEST(cancel_op__stops_one_and_leaves_the_others),
        TEST(on_op__may_add_an_op_from_inside_submit),
        TEST(on_op__may_add_an_op_from_the_loop),
        TEST(on_op__may_add_but_not_prolong_after_the_deadline),
        TEST(on_op__may_cancel_the_group),
        TEST(start__out_of_memory_submits_nothing),
        TEST(set__names_the_known_kinds_when_one_is_not),
        TEST(set__chooses_the_best_kind_that_reaches_and_was_not_tried),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
