/* What is left when connections have come and gone: nothing. */
#include "rdma/scene.h"

#include <signal.h>
#include <sys/wait.h>

#define CYCLES 200u
#define LEN ((size_t)64 << 10)

static struct scene scene;

struct leftovers {
    struct rdma_resources kernel;
    unsigned store_descriptors, own_descriptors;
};

static struct leftovers look(void)
{
    return (struct leftovers){
        .kernel = count_resources(),
        .store_descriptors = process_costs(scene.pool.stores[0].pid).descriptors,
        .own_descriptors = count_descriptors(),
    };
}

static void show(const char *when, const struct leftovers *l)
{
    print_message("           %s: pd %u cq %u qp %u cm_id %u mr %u ctx %u, descriptors: store %u, "
                  "client %u\n",
                  when, l->kernel.pds, l->kernel.cqs, l->kernel.qps, l->kernel.cm_ids,
                  l->kernel.mrs, l->kernel.contexts, l->store_descriptors, l->own_descriptors);
}

/* It may have less: a count can meet a connection that is just being closed. */
static bool has_no_more(void *arg)
{
    const struct leftovers *before = arg, now = look();

    return now.kernel.pds <= before->kernel.pds && now.kernel.cqs <= before->kernel.cqs &&
           now.kernel.qps <= before->kernel.qps && now.kernel.cm_ids <= before->kernel.cm_ids &&
           now.kernel.mrs <= before->kernel.mrs && now.kernel.contexts <= before->kernel.contexts &&
           now.store_descriptors <= before->store_descriptors &&
           now.own_descriptors <= before->own_descriptors;
}

static bool has_no_client(void *arg)
{
    const struct rdma_resources *alone = arg;

    return count_resources().qps == alone->qps;
}

/* A pool that has had its first clients, so that what is made once has been made, and has none. */
static struct leftovers open_scene(void)
{
    struct rdma_resources alone;
    struct leftovers before;
    mooncake_client *client;

    scene_open(&scene, 2, 1, "16MiB");
    alone = count_resources();
    client = scene_client(&scene, "rdma", 0);
    put_filled(client, "key", LEN, 1);
    get_filled(client, "key", LEN, 1);
    mooncake_client_close(client);
    assert_true(wait_until(has_no_client, &alone, 20 * patience()));
    before = look();
    show("before", &before);
    return before;
}

static void expect_no_more(struct leftovers *before)
{
    if (!wait_until(has_no_more, before, 30 * patience())) {
        struct leftovers after = look();

        show("after ", &after);
        fail_msg("something was left behind");
    }
}

static void cycle(void)
{
    mooncake_client *client = scene_client(&scene, "rdma", 0);

    get_filled(client, "key", LEN, 1);
    mooncake_client_close(client);
}

static void connections__leave_nothing_behind(void **state)
{
    unsigned cycles = guest_is_slow() ? CYCLES / 4 : CYCLES;
    struct leftovers before = open_scene();

    (void)state;
    for (unsigned i = 0; i < cycles; i++) {
        cycle();
    }
    expect_no_more(&before);
    scene_close(&scene);
}

static void kill_a_client_that_reads(void)
{
    pid_t pid = reader_start(&scene, "key", LEN, 1);
    int status = 0;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static void killed_clients__leave_nothing_behind(void **state)
{
    unsigned kills = guest_is_slow() ? 5 : 10;
    struct leftovers before = open_scene();

    (void)state;
    for (unsigned i = 0; i < kills; i++) {
        kill_a_client_that_reads();
    }
    expect_no_more(&before);
    scene_close(&scene);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections__leave_nothing_behind),
        cmocka_unit_test(killed_clients__leave_nothing_behind),
    };

    reader_main(argc, argv);
    return cmocka_run_group_tests_name("rdma cycles", tests, NULL, NULL);
}
