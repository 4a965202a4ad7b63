/* Cables pulled and plugged, packets lost, under a running stream: what a caller sees. Once with
 * one card and once with two cards a host. */
#include "rdma/scene.h"

#include <stdio.h>
#include <string.h>

#include "rdma/stream.h"

#define LEN ((size_t)1 << 20)
#define CALL_MS (20000u * patience())
#define WAIT_SECONDS (60u * patience())

static struct scene scene;
static struct stream stream; /* outlives a case that fails */

static int open_one_nic(void **state)
{
    (void)state;
    scene_open(&scene, 1, 1, "32MiB");
    return 0;
}

static int open_two_nics(void **state)
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
    uint64_t deadline_ms = now_ms() + 1000u * WAIT_SECONDS, before = cable_bytes(nic);

    while (cable_bytes(nic) - before < LEN / 4) {
        assert_true(now_ms() < deadline_ms);
        get_filled(client, key, LEN, 0);
    }
}

static mooncake_peer peer_of(mooncake_client *client)
{
    mooncake_peer peer;
    size_t count = 0;

    memset(&peer, 0, sizeof(peer));
    assert_int_equal(mooncake_client_peers(client, &peer, 1, &count), MOONCAKE_OK);
    assert_int_equal(count, 1);
    return peer;
}

static bool is_by_rdma(void *client)
{
    get_filled(client, "key-0", LEN, 0);
    return strcmp(peer_of(client).transport, "rdma") == 0;
}

static void one_of_two_pulled__is_not_seen_and_is_used_again_when_back(void **state)
{
    const char *const pulled[] = {nic_b[0], nic_a[1]}; /* the store's; our own, whose port tells */
    mooncake_client *client = scene_client(&scene, "rdma", CALL_MS);

    (void)state;
    put_and_get(client, "key", 8);
    for (unsigned nic = 0; nic < NICS; nic++) {
        uint64_t retries = peer_of(client).retries;
        uint64_t began_ms;

        stream_start(&stream, client, "key-0", LEN, 0, NULL);
        cable("pull", pulled[nic], 0);
        began_ms = now_ms();
        put_and_get(client, nic == 0 ? "without-0" : "without-1", 6);
        stream_await(&stream, 3, WAIT_SECONDS);
        print_message("           6 puts and gets without card %u: %llu ms\n", nic,
                      (unsigned long long)(now_ms() - began_ms));
        stream_stop(&stream);
        assert_true(peer_of(client).retries > retries);
        cable("plug", pulled[nic], 0);
        began_ms = now_ms();
        await_card(client, "key-0", nic);
        print_message("           card %u is used again after %llu ms\n", nic,
                      (unsigned long long)(now_ms() - began_ms));
        assert_int_equal(peer_of(client).fallbacks, 0);
        assert_string_equal(peer_of(client).transport, "rdma");
    }
    mooncake_client_close(client);
}

/* With one card that is its only one. */
static void all_pulled__is_tcp_inside_the_same_call(void **state)
{
    mooncake_client *client = scene_client(&scene, "rdma,tcp", CALL_MS);
    mooncake_peer peer;
    uint64_t loopback;

    (void)state;
    put_and_get(client, "key", 8);
    loopback = sent_bytes("lo");
    get_filled(client, "key-0", LEN, 0);
    assert_true(sent_bytes("lo") - loopback < LEN / 8);
    stream_start(&stream, client, "key-0", LEN, 0, NULL);
    for (unsigned nic = 0; nic < scene.nics; nic++) {
        cable("pull", nic_b[nic], 0);
    }
    stream_await(&stream, 3, WAIT_SECONDS);
    stream_stop(&stream);
    put_and_get(client, "tcp", 6);
    assert_true(sent_bytes("lo") - loopback >= 8 * LEN);
    peer = peer_of(client);
    assert_string_equal(peer.transport, "tcp");
    assert_true(peer.fallbacks > 0 && peer.retries > 0);
    assert_string_equal(peer.fallback_from, "rdma");
    assert_non_null(strstr(peer.fallback_reason, "RDMA path"));
    for (unsigned nic = 0; nic < scene.nics; nic++) {
        cable("plug", nic_b[nic], 0);
    }
    assert_true(wait_until(is_by_rdma, client, WAIT_SECONDS));
    for (unsigned nic = 0; nic < scene.nics; nic++) {
        await_card(client, "key-0", nic);
    }
    mooncake_client_close(client);
}

static bool works_again(void *client)
{
    return try_get_filled(client, "key-0", LEN, 0) == MOONCAKE_OK;
}

static void all_pulled__is_the_named_error_where_tcp_is_forbidden(void **state)
{
    mooncake_client *client = scene_client(&scene, "rdma", CALL_MS);
    uint64_t began_ms;
    mooncake_err err;

    (void)state;
    put_and_get(client, "key", 4);
    for (unsigned nic = 0; nic < scene.nics; nic++) {
        cable("pull", nic_b[nic], 0);
    }
    began_ms = now_ms();
    err = try_get_filled(client, "key-0", LEN, 0);
    print_message("           %s after %llu ms: %s\n", mooncake_err_name(err),
                  (unsigned long long)(now_ms() - began_ms), mooncake_last_error());
    assert_true(err == MOONCAKE_ETRANSFER || err == MOONCAKE_ETIMEDOUT);
    assert_true(now_ms() - began_ms <= CALL_MS + 2000);
    for (unsigned nic = 0; nic < scene.nics; nic++) {
        cable("plug", nic_b[nic], 0);
    }
    assert_true(wait_until(works_again, client, WAIT_SECONDS));
    put_and_get(client, "key", 4);
    mooncake_client_close(client);
}

static void lost_packets__cost_time_only(void **state)
{
    mooncake_client *client = scene_client(&scene, "rdma,tcp", 3 * CALL_MS);
    unsigned times = guest_is_slow() ? 9 : 24;

    (void)state;
    put_and_get(client, "before", 4);
    for (unsigned nic = 0; nic < scene.nics; nic++) {
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
    put_and_get(client, "key", 4);
    stream_start(&stream, client, "key-0", LEN, 0, NULL);
    cable("lose", nic_b[0], 100);
    put_and_get(client, "key", 6);
    stream_await(&stream, 3, WAIT_SECONDS);
    stream_stop(&stream);
    cable("mend", nic_b[0], 0);
    await_card(client, "key-0", 0);
    mooncake_client_close(client);
}

#define ONE(f) cmocka_unit_test_setup_teardown(f, open_one_nic, close_scene)
#define TWO(f) cmocka_unit_test_setup_teardown(f, open_two_nics, close_scene)

int main(void)
{
    const struct CMUnitTest one[] = {
        ONE(all_pulled__is_tcp_inside_the_same_call),
    };
    const struct CMUnitTest two[] = {
        TWO(one_of_two_pulled__is_not_seen_and_is_used_again_when_back),
        TWO(silent_card__is_not_seen),
        TWO(all_pulled__is_tcp_inside_the_same_call),
        TWO(all_pulled__is_the_named_error_where_tcp_is_forbidden),
        TWO(lost_packets__cost_time_only),
    };
    int failed = cmocka_run_group_tests_name("rdma cables, one card a host", one, NULL, NULL);

    return failed + cmocka_run_group_tests_name("rdma cables, two cards a host", two, NULL, NULL);
}
