/* Refusals that come late, when the store thinks otherwise by then: they end what was there when it
 * was asked, and leave newer reads alone. */
#include "rdma_rig.h"

#include <string.h>

#define LEN ((size_t)1 << 20)

/* A segment with a value, and a client that is not connected to it. */
struct late {
    struct rdma_rig *rig;
    struct mc_mount mount; /* as it is served in good times */
    struct mc_extent_ref extent;
    struct rig_op old, new;
};

/* The old read asks over both paths, is refused with @p refusal over both, and hears of nothing. */
static void open_late(struct late *late, struct rdma_rig *rig, mooncake_err refusal)
{
    *late = (struct late){.rig = rig, .mount = rig->segment.mount};
    late->extent = rig_extent(&rig->segment, 0, LEN, 0);
    rdma_rig_put(rig, 0, LEN, 1);
    rdma_rig_reopen(rig);
    mc_mount_drop(late->mount.mount_id);
    if (refusal == MOONCAKE_ENOTOWNER) {
        rig->segment.mount.secret[0]++;
        rig_segment_serve(&rig->segment);
    }
    fake_hold_answers(0, true);
    fake_hold_answers(1, true);
    memset(rig->in, 0xee, 2 * LEN);
    rig_op_init(&late->old, &rig->engine, MC_RIGHT_READ, &late->extent, rig->in);
    rig_submit(&rig->engine, &late->old);
    rig->engine.transport->ops->flush(rig->engine.transport);
    RIG_RUN_UNTIL(rig->engine.loop, fake_answers_held(0) == 1 && fake_answers_held(1) == 1);
}

/* From now on the store serves the segment to who asks. */
static void mend_store(struct late *late)
{
    if (late->rig->segment.mount.secret[0] != late->mount.secret[0]) {
        mc_mount_drop(late->mount.mount_id);
    }
    late->rig->segment.mount = late->mount;
    rig_segment_serve(&late->rig->segment);
}

static void submit_new(struct late *late)
{
    rig_op_init(&late->new, &late->rig->engine, MC_RIGHT_READ, &late->extent, late->rig->in + LEN);
    rig_submit(&late->rig->engine, &late->new);
}

static void expect_new_is_done(struct late *late)
{
    rig_wait(&late->rig->engine, &late->new);
    assert_int_equal(late->new.op.err, MOONCAKE_OK);
    rig_check(late->rig->in + LEN, LEN, 1);
}

static void release_answers(unsigned device)
{
    fake_hold_answers(device, false);
}

static void expect_new_between_ask_and_refusal_is_done(struct rdma_rig *rig, mooncake_err refusal)
{
    struct late late;

    open_late(&late, rig, refusal);
    mend_store(&late);
    submit_new(&late);
    release_answers(0);
    release_answers(1);
    rig_wait(&rig->engine, &late.old);
    assert_int_equal(late.old.op.err, refusal);
    expect_new_is_done(&late);
}

static void read__that_comes_while_an_older_one_asks_is_not_refused_with_it(void **state)
{
    expect_new_between_ask_and_refusal_is_done(*state, MOONCAKE_ENOSEGMENT);
    expect_new_between_ask_and_refusal_is_done(*state, MOONCAKE_ENOTOWNER);
}

/* The first path has told the old read already. */
static void refusal__over_the_second_path_ends_no_newer_read(void **state)
{
    struct rdma_rig *rig = *state;
    struct late late;

    open_late(&late, rig, MOONCAKE_ENOTOWNER);
    release_answers(0);
    rig_wait(&rig->engine, &late.old);
    assert_int_equal(late.old.op.err, MOONCAKE_ENOTOWNER);
    assert_int_equal(fake_answers_held(1), 1);
    mend_store(&late);
    submit_new(&late);
    release_answers(1);
    expect_new_is_done(&late);
    assert_string_not_equal(rdma_rig_path_state(rig, "fake1"), "paused"); /* not to blame */
}

/* The old read is cancelled: the first refusal finds nobody, the second one a newer read. */
static void expect_refusals_of_nobody_harm_nobody(struct rdma_rig *rig, mooncake_err refusal)
{
    struct late late;

    open_late(&late, rig, refusal);
    rig->engine.transport->ops->cancel(rig->engine.transport, &late.old.op);
    release_answers(0);
    RIG_RUN_UNTIL(rig->engine.loop, strcmp(rdma_rig_path_state(rig, "fake0"), "paused") == 0);
    assert_int_equal(fake_answers_held(1), 1);
    mend_store(&late);
    submit_new(&late);
    release_answers(1);
    expect_new_is_done(&late);
    assert_false(late.old.done);
}

static void refusals__of_a_cancelled_read_end_no_newer_one(void **state)
{
    expect_refusals_of_nobody_harm_nobody(*state, MOONCAKE_ENOSEGMENT);
    expect_refusals_of_nobody_harm_nobody(*state, MOONCAKE_ENOTOWNER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RDMA_RIG_TEST(read__that_comes_while_an_older_one_asks_is_not_refused_with_it),
        RDMA_RIG_TEST(refusal__over_the_second_path_ends_no_newer_read),
        RDMA_RIG_TEST(refusals__of_a_cancelled_read_end_no_newer_one),
    };

    return cmocka_run_group_tests_name("rdma late", tests, NULL, NULL);
}
