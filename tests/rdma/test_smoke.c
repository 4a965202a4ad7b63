/* The rig itself: before a fault is the transport's, it must not be the rig's. */
#include "integration/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/guest.h"
#include "rdma/raw_verbs.h"

#define LEN ((size_t)4 << 20)
#define CHUNK ((size_t)64 << 10)

static int restore(void **state)
{
    (void)state;
    cables_restore();
    return 0;
}

static void links__are_up_on_both_hosts(void **state)
{
    static const char *const devices[] = {"rxea0", "rxea1", "rxeb0", "rxeb1"};

    (void)state;
    for (unsigned i = 0; i < 2 * NICS; i++) {
        char path[80], text[32] = "";
        FILE *file;

        (void)snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/state", devices[i]);
        file = fopen(path, "re");
        assert_non_null(file);
        assert_non_null(fgets(text, sizeof(text), file));
        assert_string_equal(text, "4: ACTIVE\n");
        (void)fclose(file);
    }
}

/* Two connected ends with memory: A reads what B has. */
struct scene {
    struct raw_end a, b;
    uint8_t *there, *here;
    struct ibv_mr *there_mr, *here_mr;
};

static void open_scene(struct scene *scene, unsigned nic)
{
    raw_connect(&scene->a, &scene->b, host_a[nic], host_b[nic]);
    scene->there = malloc(LEN);
    scene->here = malloc(LEN);
    assert_non_null(scene->there);
    assert_non_null(scene->here);
    fill(scene->there, LEN, nic);
    memset(scene->here, 0xee, LEN);
    scene->there_mr =
        raw_register(&scene->b, scene->there, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    scene->here_mr = raw_register(&scene->a, scene->here, LEN, IBV_ACCESS_LOCAL_WRITE);
}

static void close_scene(struct scene *scene)
{
    (void)ibv_dereg_mr(scene->there_mr); /* first: what they are in goes with the ends */
    (void)ibv_dereg_mr(scene->here_mr);
    raw_close(&scene->a);
    raw_close(&scene->b);
    free(scene->there);
    free(scene->here);
}

static enum ibv_wc_status read_chunk(struct scene *scene, size_t at)
{
    struct ibv_sge local = {.addr = (uintptr_t)scene->here + at,
                            .length = (uint32_t)CHUNK,
                            .lkey = scene->here_mr->lkey};

    return raw_do(&scene->a, IBV_WR_RDMA_READ, &local, (uintptr_t)scene->there + at,
                  scene->there_mr->rkey);
}

static void read__crosses_each_cable_with_every_byte(void **state)
{
    (void)state;
    for (unsigned nic = 0; nic < NICS; nic++) {
        uint64_t sent = sent_bytes(nic_b[nic]);
        struct scene scene;

        open_scene(&scene, nic);
        for (size_t at = 0; at < LEN; at += CHUNK) {
            assert_int_equal(read_chunk(&scene, at), IBV_WC_SUCCESS);
        }
        assert_true(is_filled(scene.here, LEN, nic));
        assert_true(sent_bytes(nic_b[nic]) - sent >= LEN);
        close_scene(&scene);
    }
}

static void read__ends_when_the_cable_is_pulled_and_works_when_it_is_back(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene, 0);
    assert_int_equal(read_chunk(&scene, 0), IBV_WC_SUCCESS);
    cable("pull", nic_b[0], 0);
    assert_int_equal(read_chunk(&scene, 0), IBV_WC_RETRY_EXC_ERR);
    close_scene(&scene);
    cable("plug", nic_b[0], 0);
    open_scene(&scene, 0);
    assert_int_equal(read_chunk(&scene, 0), IBV_WC_SUCCESS);
    close_scene(&scene);
}

static void pool__works_over_tcp_across_the_cable(void **state)
{
    const char *flags[] = {"--segment=32MiB", "--grace=0", "--data_address=10.77.0.2:0",
                           "--advertise_host=10.77.0.2", NULL};
    uint64_t sent = sent_bytes(nic_a[0]);
    uint8_t *in = malloc(LEN), *out = malloc(LEN);
    uint64_t len = 0;
    mooncake_client *client;
    struct pool pool;

    (void)state;
    pool_init(&pool);
    pool.transport = "tcp";
    pool_start_master(&pool, 0);
    pool_launch_store(&pool, 0, flags);
    daemon_await(&pool.stores[0], "data_port");
    client = pool_open(&pool, true);
    fill(in, LEN, 5);
    assert_int_equal(mooncake_put(client, "key", in, LEN, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_get_into(client, "key", out, LEN, 0, &len), MOONCAKE_OK);
    assert_int_equal(len, LEN);
    assert_true(is_filled(out, LEN, 5));
    assert_true(sent_bytes(nic_a[0]) - sent >= LEN);
    mooncake_client_close(client);
    pool_fini(&pool);
    free(in);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links__are_up_on_both_hosts),
        cmocka_unit_test(read__crosses_each_cable_with_every_byte),
        cmocka_unit_test_teardown(read__ends_when_the_cable_is_pulled_and_works_when_it_is_back,
                                  restore),
        cmocka_unit_test(pool__works_over_tcp_across_the_cable),
    };

    return cmocka_run_group_tests_name("rdma smoke", tests, NULL, NULL);
}
