/* Cables pulled and plugged, packets lost: what a caller sees. */
#include "rdma/scene.h"

#include <stdio.h>

#define LEN ((size_t)1 << 20)
#define CALL_MS 20000u

static struct scene scene;

static int open_scene(void **state)
{
    (void)state;
    scene_open(&scene, 2, 1, "32MiB");
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    scene_close(&scene);
    return 0;
}

/* Each of them must succeed, byte by byte. */
static void put_and_get(mooncake_client *client, const char *name, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        char key[48];

        (void)snprintf(key, sizeof(key), "%s-%u", name, i % 8);
        if (i >= 8) {
            get_filled(client, key, LEN, i % 8);
        } else {
            put_filled(client, key, LEN, i);
            get_filled(client, key, LEN, i);
        }
    }
}

/* Gets until card @p nic carries bytes again. */
static void await_card(mooncake_client *client, const char *key, unsigned nic)
{
    uint64_t deadline_ms = now_ms() + 60000, before = cable_bytes(nic);

    while (cable_bytes(nic) - before < LEN / 4) {
        assert_true(now_ms() < deadline_ms);
        get_filled(client, key, LEN, 0);
    }
}

static void one_of_two_pulled__is_not_seen_and_is_used_again_when_back(void **state)
{
    mooncake_client *client = scene_client(&scene, "rdma", CALL_MS);

    (void)state;
    put_and_get(client, "before", 12);
    for (unsigned nic = 0; nic < NICS; nic++) {
        uint64_t began_ms;

        cable("pull", nic_b[nic], 0);
        began_ms = now_ms();
        put_and_get(client, nic == 0 ? "without-0" : "without-1", 16);
        print_message("           16 puts and gets without card %u: %llu ms\n", nic,
                      (unsigned long long)(now_ms() - began_ms));
        cable("plug", nic_b[nic], 0);
        began_ms = now_ms();
        await_card(client, "before-0", nic);
        print_message("           card %u is used again after %llu ms\n", nic,
                      (unsigned long long)(now_ms() - began_ms));
    }
    mooncake_client_close(client);
}

static void own_port_down__is_not_seen(void **state)
{
    mooncake_client *client = scene_client(&scene, "rdma", CALL_MS);

    (void)state;
    put_and_get(client, "key", 10);
    cable("pull", nic_a[1], 0); /* our own card tells */
    put_and_get(client, "key", 10);
    cable("plug", nic_a[1], 0);
    await_card(client, "key-0", 1);
    mooncake_client_close(client);
}

static void both_pulled__is_tcp_inside_the_same_call(void **state)
{
    mooncake_client *client = scene_client(&scene, "rdma,tcp", CALL_MS);
    uint64_t loopback, began_ms;

    (void)state;
    put_and_get(client, "key", 10);
    loopback = sent_bytes("lo");
    get_filled(client, "key-0", LEN, 0);
    assert_true(sent_bytes("lo") - loopback < LEN / 8);
    cable("pull", nic_b[0], 0);
    cable("pull", nic_b[1], 0);
    began_ms = now_ms();
    get_filled(client, "key-0", LEN, 0);
    print_message("           the call that lost both: %llu ms\n",
                  (unsigned long long)(now_ms() - began_ms));
    put_and_get(client, "tcp", 10);
    assert_true(sent_bytes("lo") - loopback >= 10 * LEN);
    cable("plug", nic_b[0], 0);
    cable("plug", nic_b[1], 0);
    await_card(client, "key-0", 0);
    await_card(client, "key-0", 1);
    mooncake_client_close(client);
}

static void both_pulled__is_the_named_error_where_tcp_is_forbidden(void **state)
{
    mooncake_client *client = scene_client(&scene, "rdma", CALL_MS);
    uint64_t began_ms;
    mooncake_err err;

    (void)state;
    put_and_get(client, "key", 10);
    cable("pull", nic_b[0], 0);
    cable("pull", nic_b[1], 0);
    began_ms = now_ms();
    err = try_get_filled(client, "key-0", LEN, 0);
    print_message("           %s after %llu ms: %s\n", mooncake_err_name(err),
                  (unsigned long long)(now_ms() - began_ms), mooncake_last_error());
    assert_true(err == MOONCAKE_ETRANSFER || err == MOONCAKE_ETIMEDOUT);
    assert_true(now_ms() - began_ms <= CALL_MS + 2000);
    cable("plug", nic_b[0], 0);
    cable("plug", nic_b[1], 0);
    began_ms = now_ms();
    while (try_get_filled(client, "key-0", LEN, 0) != MOONCAKE_OK) {
        assert_true(now_ms() - began_ms < 60000);
    }
    put_and_get(client, "key", 10);
    mooncake_client_close(client);
}

static void lost_packets__cost_time_only(void **state)
{
    mooncake_client *client = scene_client(&scene, "rdma,tcp", 60000);
    unsigned times = guest_is_slow() ? 9 : 24;

    (void)state;
    put_and_get(client, "before", 8);
    for (unsigned nic = 0; nic < NICS; nic++) {
        cable("lose", nic_a[nic], 1);
        cable("lose", nic_b[nic], 1);
    }
    put_and_get(client, "lossy", times);
    mooncake_client_close(client);
}

/* No event tells, no packet comes back: only our own deadlines notice. */
static void silent_card__is_not_seen(void **state)
{
    mooncake_client *client = scene_client(&scene, "rdma", CALL_MS);

    (void)state;
    put_and_get(client, "key", 10);
    cable("lose", nic_b[0], 100);
    put_and_get(client, "key", 12);
    cable("mend", nic_b[0], 0);
    await_card(client, "key-0", 0);
    mooncake_client_close(client);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_of_two_pulled__is_not_seen_and_is_used_again_when_back),
        TEST(own_port_down__is_not_seen),
        TEST(silent_card__is_not_seen),
        TEST(both_pulled__is_tcp_inside_the_same_call),
        TEST(both_pulled__is_the_named_error_where_tcp_is_forbidden),
        TEST(lost_packets__cost_time_only),
    };

    return cmocka_run_group_tests_name("rdma cables", tests, NULL, NULL);
}
