/* The order in which copies are tried, and the memory of who failed lately. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "client/replica_choice.h"
#include "transport/mount_table.h"

#define REPLICAS 4u

struct scene {
    struct mc_loop *loop;
    struct mc_transport_set set;
    struct mc_suspects suspects;
    struct mc_target targets[REPLICAS];
    struct mc_extent_ref extents[REPLICAS];
    uint32_t segments[REPLICAS];
    struct mc_replica_info replicas[REPLICAS];
    struct mc_object_info object;
};

static struct scene scene;

/* Copy i lies in the segment with mount id 100 + i, reachable over TCP. */
static int setup(void **state)
{
    struct mc_transport_options options = {.connect_timeout_ms = 1000, .connections_max = 1};

    (void)state;
    assert_int_equal(mc_loop_create(0, &scene.loop), MOONCAKE_OK);
    mc_loop_adopt(scene.loop);
    assert_int_equal(mc_transport_set_open(scene.loop, NULL, &options, &scene.set), MOONCAKE_OK);
    mc_suspects_init(&scene.suspects);
    for (unsigned i = 0; i < REPLICAS; i++) {
        scene.targets[i] =
            (struct mc_target){.mount_id = 100 + i, .name = "s", .addresses = "tcp://127.0.0.1:1"};
        scene.segments[i] = i;
        scene.replicas[i] = (struct mc_replica_info){
            .extents = &scene.extents[i], .segment = &scene.segments[i], .extents_count = 1};
    }
    scene.object = (struct mc_object_info){.replicas = scene.replicas, .replicas_count = REPLICAS};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mc_suspects_fini(&scene.suspects);
    mc_transport_set_close(&scene.set);
    mc_loop_destroy(&scene.loop);
    return 0;
}

static unsigned order(uint64_t random, uint8_t out[MC_REPLICAS_MAX])
{
    return mc_replica_order(&scene.suspects, &scene.set, scene.targets, &scene.object, random, out);
}

static void order__holds_every_copy_once_and_begins_with_each_in_turn(void **state)
{
    unsigned first[REPLICAS] = {0};

    (void)state;
    for (uint64_t random = 0; random < REPLICAS; random++) {
        uint8_t out[MC_REPLICAS_MAX];
        unsigned seen = 0;

        assert_int_equal(order(random, out), REPLICAS);
        for (unsigned i = 0; i < REPLICAS; i++) {
            seen |= 1u << out[i];
        }
        assert_int_equal(seen, (1u << REPLICAS) - 1);
        first[out[0]]++;
    }
    for (unsigned i = 0; i < REPLICAS; i++) {
        assert_int_equal(first[i], 1);
    }
}

static void order__begins_with_the_copy_in_this_process(void **state)
{
    static uint8_t memory[64];
    struct mc_mount mount = {.mount_id = 102, .base = memory, .len = 64, .memfd = -1};

    (void)state;
    assert_int_equal(mc_mount_add(&mount), MOONCAKE_OK);
    for (uint64_t random = 0; random < REPLICAS; random++) {
        uint8_t out[MC_REPLICAS_MAX];

        assert_int_equal(order(random, out), REPLICAS);
        assert_int_equal(out[0], 2);
    }
    mc_mount_drop(102);
}

static void order__puts_suspects_last_until_they_are_forgiven(void **state)
{
    uint64_t now_ns = mc_monotonic_ns();

    (void)state;
    assert_true(mc_suspects_add(&scene.suspects, 101, now_ns));
    for (uint64_t random = 0; random < REPLICAS; random++) {
        uint8_t out[MC_REPLICAS_MAX];

        assert_int_equal(order(random, out), REPLICAS);
        assert_int_equal(out[REPLICAS - 1], 1);
    }
    assert_true(mc_suspects_has(&scene.suspects, 101, now_ns));
    assert_false(mc_suspects_has(&scene.suspects, 100, now_ns));
    assert_false(mc_suspects_has(&scene.suspects, 101, mc_deadline_ns(now_ns, MC_SUSPECT_MS)));
}

static void order__puts_what_no_transport_reaches_behind_what_one_does(void **state)
{
    (void)state;
    scene.targets[0].addresses = "pigeon://here";
    for (uint64_t random = 0; random < REPLICAS; random++) {
        uint8_t out[MC_REPLICAS_MAX];

        assert_int_equal(order(random, out), REPLICAS);
        assert_int_equal(out[REPLICAS - 1], 0);
    }
}

static void suspects__are_reported_at_most_once_a_second(void **state)
{
    uint64_t now_ns = mc_monotonic_ns();

    (void)state;
    assert_true(mc_suspects_add(&scene.suspects, 7, now_ns));
    assert_false(mc_suspects_add(&scene.suspects, 7, now_ns + 1));
    assert_true(mc_suspects_add(&scene.suspects, 8, now_ns + 1));
    assert_true(mc_suspects_add(&scene.suspects, 7, mc_deadline_ns(now_ns, MC_SUSPECT_REPORT_MS)));
}

static void suspects__beyond_the_table_push_out_the_oldest(void **state)
{
    uint64_t now_ns = mc_monotonic_ns();

    (void)state;
    for (unsigned i = 0; i < MC_SUSPECTS_MAX + 1; i++) {
        (void)mc_suspects_add(&scene.suspects, 1000 + i, now_ns + i);
    }
    assert_false(mc_suspects_has(&scene.suspects, 1000, now_ns + 100));
    assert_true(mc_suspects_has(&scene.suspects, 1001, now_ns + 100));
    assert_true(mc_suspects_has(&scene.suspects, 1000 + MC_SUSPECTS_MAX, now_ns + 100));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(order__holds_every_copy_once_and_begins_with_each_in_turn),
        TEST(order__begins_with_the_copy_in_this_process),
        TEST(order__puts_suspects_last_until_they_are_forgiven),
        TEST(order__puts_what_no_transport_reaches_behind_what_one_does),
        TEST(suspects__are_reported_at_most_once_a_second),
        TEST(suspects__beyond_the_table_push_out_the_oldest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
