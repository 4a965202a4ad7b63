/* Which device moves the bytes, by NUMA distance; and completions that are polled for. */
#include "rdma_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/rdma_device.h"
#include "transport/rdma_numa.h"

#define LEN ((size_t)8 << 20)

/* ---- a machine with nodes -------------------------------------------------------------------- */

static char root[64];
static char sysfs[2][96]; /* of fake0 and fake1 */
static int memory_node;

static int node_of(const void *at)
{
    (void)at;
    return memory_node;
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[160];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void make_dir(char *out, size_t cap, const char *parent, const char *name)
{
    (void)snprintf(out, cap, "%s/%s", parent, name);
    assert_int_equal(mkdir(out, 0700), 0);
}

/* Three nodes: 0 and 1 are near, 2 is far from both. */
static void describe_nodes(void)
{
    static const char *const distances[] = {"10 21 40\n", "21 10 40\n", "40 40 10\n"};
    char dir[96], name[16];

    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof(name), "node%u", i);
        make_dir(dir, sizeof(dir), root, name);
        write_file(dir, "distance", distances[i]);
    }
}

static void describe_device(unsigned device, const char *node)
{
    char name[16], dir[128];

    (void)snprintf(name, sizeof(name), "fake%u", device);
    make_dir(sysfs[device], sizeof(sysfs[device]), root, name);
    make_dir(dir, sizeof(dir), sysfs[device], "device");
    write_file(dir, "numa_node", node);
    fake_set_sysfs(device, sysfs[device]);
}

static void remove_dir(const char *format, unsigned number, const char *file)
{
    char dir[160], path[200];

    (void)snprintf(dir, sizeof(dir), "%s/", root);
    (void)snprintf(dir + strlen(dir), sizeof(dir) - strlen(dir), format, number);
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    (void)unlink(path);
    (void)rmdir(dir);
}

static int open_machine(void **state)
{
    (void)snprintf(root, sizeof(root), "/tmp/mooncake-near-XXXXXX");
    assert_non_null(mkdtemp(root));
    describe_nodes();
    memory_node = 0;
    mc_rdma_numa_replace(root, node_of);
    return rdma_rig_open(state);
}

static int close_machine(void **state)
{
    int result = rdma_rig_close(state);

    mc_rdma_numa_replace(NULL, NULL);
    for (unsigned i = 0; i < 3; i++) {
        remove_dir("node%u", i, "distance");
        remove_dir("fake%u/device", i, "numa_node");
        remove_dir("fake%u", i, "none");
    }
    (void)rmdir(root);
    return result;
}

/* fake0 and fake1 are on these nodes, the memory on @p of_memory, and both are connected. */
static void place(struct rdma_rig *rig, const char *of_fake0, const char *of_fake1, int of_memory)
{
    describe_device(0, of_fake0);
    describe_device(1, of_fake1);
    memory_node = of_memory;
    rdma_rig_restart(rig); /* devices are asked when they are opened */
    rdma_rig_connect_all(rig, LEN);
}

/* What a read moves over each of them. */
static void move(struct rdma_rig *rig, uint64_t out[2])
{
    uint64_t before[2] = {fake_moved(0), fake_moved(1)};

    rdma_rig_get(rig, 0, LEN, 1);
    out[0] = fake_moved(0) - before[0];
    out[1] = fake_moved(1) - before[1];
}

static void bytes__go_over_the_device_that_is_near_to_the_memory(void **state)
{
    uint64_t moved[2];

    place(*state, "1\n", "0\n", 0);
    move(*state, moved);
    assert_int_equal(moved[0], 0);
    assert_int_equal(moved[1], LEN + 64);
}

/* Neither is on the memory's node: the distance decides, not the number. */
static void bytes__go_over_the_nearer_of_two_far_devices(void **state)
{
    uint64_t moved[2];

    place(*state, "2\n", "0\n", 1);
    move(*state, moved);
    assert_int_equal(moved[0], 0);
    assert_int_equal(moved[1], LEN + 64);
}

static void bytes__go_over_all_devices_that_are_as_near(void **state)
{
    uint64_t moved[2];

    place(*state, "0\n", "1\n", 2);
    move(*state, moved);
    assert_true(moved[0] >= LEN / 4);
    assert_true(moved[1] >= LEN / 4);
}

static void bytes__go_over_the_far_device_when_the_near_one_has_no_link(void **state)
{
    struct rdma_rig *rig = *state;
    uint64_t moved[2];

    place(rig, "1\n", "0\n", 0);
    fake_set_port(1, false);
    RIG_RUN_UNTIL(rig->engine.loop, fake_qps_of(1) == 0);
    move(rig, moved);
    assert_int_equal(moved[0], LEN + 64);
    assert_int_equal(moved[1], 0);
}

/* Staging is anywhere, and a device that says nothing is as good as any. */
static void bytes__of_unknown_nodes_go_over_all_devices(void **state)
{
    struct rdma_rig *rig = *state;
    uint64_t before[2];

    place(rig, "1\n", "0\n", 0);
    before[0] = fake_moved(0);
    before[1] = fake_moved(1);
    assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->loose), MOONCAKE_OK);
    assert_true(fake_moved(0) - before[0] >= LEN / 4);
    assert_true(fake_moved(1) - before[1] >= LEN / 4);
}

static void distance__of_nodes_nobody_describes_is_that_of_one_node(void **state)
{
    (void)state;
    assert_int_equal(mc_rdma_numa_distance(0, 1), 21);
    assert_int_equal(mc_rdma_numa_distance(2, 0), 40);
    assert_int_equal(mc_rdma_numa_distance(0, 0), 10);
    assert_int_equal(mc_rdma_numa_distance(0, 3), 10); /* beyond the line's end */
    assert_int_equal(mc_rdma_numa_distance(9, 0), 10); /* no such directory */
    assert_int_equal(mc_rdma_numa_distance(-1, 0), 10);
    assert_int_equal(mc_rdma_numa_distance(0, 100000), 10);
    assert_int_equal(mc_rdma_numa_node_of_device("/nowhere"), -1);
}

/* ---- polling --------------------------------------------------------------------------------- */

static void polling__finds_completions_that_nobody_tells_of(void **state)
{
    struct rdma_rig *rig = *state;

    rdma_rig_put(rig, 0, LEN, 1);
    fake_silence_channels(true);
    rig->options.rdma_stall_ms = 60000;
    rig->options.rdma_poll = true;
    rdma_rig_reopen(rig);
    rdma_rig_get(rig, 0, LEN, 1);
    rdma_rig_put(rig, LEN * 2, 4096, 2);
    rdma_rig_get(rig, LEN * 2, 4096, 2);
    fake_silence_channels(false);
}

static void polling__ends_with_the_work(void **state)
{
    struct rdma_rig *rig = *state;
    unsigned polls;

    rdma_rig_put(rig, 0, LEN, 1);
    rig->options.rdma_poll = true;
    rdma_rig_reopen(rig);
    rdma_rig_get(rig, 0, LEN, 1);
    polls = fake_counts().polls;
    for (unsigned i = 0; i < 20; i++) {
        rig_run_a_little(
            rig->engine.loop); /* a millisecond each: a poller turns thousands of times */
    }
    assert_true(fake_counts().polls - polls <= 20);
}

static void polling__sees_errors_and_lost_connections(void **state)
{
    struct rdma_rig *rig = *state;

    rdma_rig_put(rig, 0, LEN, 1);
    rig->options.rdma_poll = true;
    rdma_rig_reopen(rig);
    fake_silence_channels(true);
    fake_fail_nth(0, 1, IBV_WC_RETRY_EXC_ERR);
    fake_fail_nth(1, 1, IBV_WC_REM_ACCESS_ERR);
    rdma_rig_get(rig, 0, LEN, 1);
    fake_hold(0, true); /* nothing comes: its own time-out ends it, though it is looked for */
    fake_hold(1, true);
    assert_int_equal(rdma_rig_read(rig, 0, LEN, rig->in), MOONCAKE_ERPC);
    fake_hold(0, false);
    fake_hold(1, false);
    fake_silence_channels(false);
}

/* Being told costs a system call a completion; who polls must not ask for it. */
static void polling__asks_for_no_notice(void **state)
{
    struct rdma_rig *rig = *state;
    unsigned asked;

    rdma_rig_put(rig, 0, LEN, 1);
    rig->options.rdma_poll = true;
    rdma_rig_reopen(rig);
    rdma_rig_connect_all(rig, LEN);
    asked = fake_counts().notices;
    for (unsigned i = 0; i < 10; i++) {
        rdma_rig_get(rig, 0, LEN, 1);
    }
    assert_int_equal(fake_counts().notices, asked);
}

#define NEAR_TEST(f) cmocka_unit_test_setup_teardown(f, open_machine, close_machine)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NEAR_TEST(bytes__go_over_the_device_that_is_near_to_the_memory),
        NEAR_TEST(bytes__go_over_the_nearer_of_two_far_devices),
        NEAR_TEST(bytes__go_over_all_devices_that_are_as_near),
        NEAR_TEST(bytes__go_over_the_far_device_when_the_near_one_has_no_link),
        NEAR_TEST(bytes__of_unknown_nodes_go_over_all_devices),
        NEAR_TEST(distance__of_nodes_nobody_describes_is_that_of_one_node),
        RDMA_RIG_TEST(polling__finds_completions_that_nobody_tells_of),
        RDMA_RIG_TEST(polling__ends_with_the_work),
        RDMA_RIG_TEST(polling__sees_errors_and_lost_connections),
        RDMA_RIG_TEST(polling__asks_for_no_notice),
    };

    return cmocka_run_group_tests_name("rdma near", tests, NULL, NULL);
}
