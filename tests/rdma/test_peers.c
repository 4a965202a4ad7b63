/* "mooncakectl peers" as an operator on host A has it: which transport, over what, and why not. */
#include "rdma/scene.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define MTU 4096 /* the largest of RDMA; the cards' is 4500 */
#define TEXT_CAP ((size_t)16 << 10)

static struct scene scene;

static int open_one_nic(void **state)
{
    (void)state;
    scene_open(&scene, 1, 1, "16MiB");
    return 0;
}

static int open_two_nics(void **state)
{
    (void)state;
    scene_open(&scene, 2, 1, "16MiB");
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    scene_close(&scene);
    return 0;
}

/* What it prints, with this further flag. Must end with status 0. */
static char *run_peers(const char *flag)
{
    char command[300];
    char *text = calloc(1, TEXT_CAP);
    FILE *pipe;

    assert_non_null(text);
    (void)snprintf(
        command, sizeof(command), "MOONCAKE_RDMA_DEVICES=%s %s/mooncakectl --master=%s peers %s",
        scene.nics == 1 ? "rxea0" : "rxea0,rxea1", MC_BIN_DIR, scene.pool.master_address, flag);
    pipe = popen(command, "re");
    assert_non_null(pipe);
    (void)!fread(text, 1, TEXT_CAP - 1, pipe);
    assert_int_equal(pclose(pipe), 0);
    return text;
}

/* The one store; must be freed by json_decref(*out_all). */
static json_t *look(json_t **out_all)
{
    char *text = run_peers("--json");
    json_t *peers;

    *out_all = json_loads(text, 0, NULL);
    peers = json_object_get(*out_all, "peers");
    if (json_array_size(peers) != 1) {
        fail_msg("not one peer: %s", text);
    }
    free(text);
    return json_array_get(peers, 0);
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text != NULL ? text : "(none)";
}

static json_int_t number_of(const json_t *object, const char *name)
{
    assert_true(json_is_integer(json_object_get(object, name)));
    return json_integer_value(json_object_get(object, name));
}

/* The path over card @p nic is among those shown. */
static void expect_path(const json_t *paths, unsigned nic)
{
    char device[16];

    (void)snprintf(device, sizeof(device), "rxea%u", nic);
    for (size_t i = 0; i < json_array_size(paths); i++) {
        const json_t *path = json_array_get(paths, i);

        if (strcmp(text_of(path, "device"), device) == 0) {
            assert_string_equal(text_of(path, "gid"), host_a[nic]);
            assert_string_equal(text_of(path, "gid_kind"), "rocev2");
            assert_int_equal(number_of(path, "mtu"), MTU);
            return;
        }
    }
    fail_msg("no path over %s", device);
}

/* A probe may be done before its second card is connected. */
static bool every_path_is_shown(void *out_all)
{
    json_t **all = out_all;

    json_decref(*all);
    return json_array_size(json_object_get(look(all), "paths")) == scene.nics;
}

static void peers__show_device_gid_mtu_and_queue_pairs(void **state)
{
    json_t *all = NULL;
    const json_t *peer;
    char *table;

    (void)state;
    assert_true(wait_until(every_path_is_shown, &all, 60 * patience()));
    peer = json_array_get(json_object_get(all, "peers"), 0);
    assert_string_equal(text_of(peer, "transport"), "rdma");
    assert_true(json_is_true(json_object_get(peer, "ok")));
    assert_in_range(number_of(peer, "queue_pairs"), 1, 2 * scene.nics); /* reading, writing */
    assert_int_equal(number_of(peer, "retries"), 0);
    assert_int_equal(number_of(peer, "fallbacks"), 0);
    assert_string_equal(text_of(peer, "fallback_reason"), "");
    for (unsigned nic = 0; nic < scene.nics; nic++) {
        expect_path(json_object_get(peer, "paths"), nic);
    }
    json_decref(all);
    table = run_peers("");
    assert_non_null(strstr(table, " rdma "));
    assert_non_null(strstr(table, " rxea"));
    assert_non_null(strstr(table, " 4,096 "));
    free(table);
}

static void peers__say_why_tcp_has_taken_over(void **state)
{
    json_t *all = NULL;
    const json_t *peer;

    (void)state;
    for (unsigned nic = 0; nic < scene.nics; nic++) {
        cable("pull", nic_b[nic], 0);
    }
    peer = look(&all);
    assert_string_equal(text_of(peer, "transport"), "tcp");
    assert_true(json_is_true(json_object_get(peer, "ok")));
    assert_int_equal(number_of(peer, "queue_pairs"), 0);
    assert_true(number_of(peer, "retries") > 0);
    assert_true(number_of(peer, "fallbacks") > 0);
    assert_string_equal(text_of(peer, "fallback_from"), "rdma");
    assert_non_null(strstr(text_of(peer, "fallback_reason"), "rxea0>10.77.0.2"));
    json_decref(all);
    cables_restore();
    peer = look(&all);
    assert_string_equal(text_of(peer, "transport"), "rdma");
    assert_int_equal(number_of(peer, "fallbacks"), 0);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"peers__show_device_gid_mtu_and_queue_pairs, one card a host",
         peers__show_device_gid_mtu_and_queue_pairs, open_one_nic, close_scene, NULL},
        {"peers__show_device_gid_mtu_and_queue_pairs, two cards a host",
         peers__show_device_gid_mtu_and_queue_pairs, open_two_nics, close_scene, NULL},
        {"peers__say_why_tcp_has_taken_over, two cards a host", peers__say_why_tcp_has_taken_over,
         open_two_nics, close_scene, NULL},
    };

    return cmocka_run_group_tests_name("rdma peers", tests, NULL, NULL);
}
