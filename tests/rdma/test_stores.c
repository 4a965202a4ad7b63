/* What a store's fate means to a client that talks RDMA to it: killed, frozen, restarted, leaving
 * under a running stream. And what it costs the store to be read. */
#include "rdma/scene.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rdma/stream.h"

#define LEN ((size_t)1 << 20)
#define CALL_MS (15000u * patience())

static struct scene scene;
static mooncake_client *client;
static struct stream stream; /* outlives a case that fails */

static int open_with(unsigned nics)
{
    scene_open(&scene, nics, 1, "16MiB");
    client = scene_client(&scene, "rdma", CALL_MS);
    return 0;
}

static int open_one_nic(void **state)
{
    (void)state;
    return open_with(1);
}

static int open_two_nics(void **state)
{
    (void)state;
    return open_with(2);
}

static int close_scene(void **state)
{
    (void)state;
    mooncake_client_close(client);
    scene_close(&scene);
    return 0;
}

static struct process_costs cost_of_gets(const uint8_t *expected, uint8_t *bytes, unsigned times)
{
    pid_t pid = scene.pool.stores[0].pid;
    struct process_costs before = process_costs(pid), after;

    for (unsigned i = 0; i < times; i++) {
        uint64_t got = 0;

        assert_int_equal(mooncake_get_into(client, "key", bytes, LEN, 0, &got), MOONCAKE_OK);
    }
    assert_memory_equal(bytes, expected, LEN);
    after = process_costs(pid);
    after.user_ticks -= before.user_ticks;
    after.voluntary_switches -= before.voluntary_switches;
    return after;
}

/* Its own time and wake-ups; the kernel's work at the device is another matter, and with soft-RoCE
 * a large one. A store that served each read would wake for each; beyond what it does each second,
 * it must not wake at all. */
static void store__sleeps_while_its_bytes_are_read(void **state)
{
    unsigned few = 2, many = guest_is_slow() ? 20 : 120;
    uint8_t *in = malloc(LEN), *out = malloc(LEN);
    struct process_costs little, much;
    uint64_t began_ms, seconds;

    (void)state;
    fill(in, LEN, 4);
    assert_int_equal(mooncake_put(client, "key", in, LEN, NULL, 0), MOONCAKE_OK);
    (void)cost_of_gets(in, out, 1); /* connections are made by now */
    little = cost_of_gets(in, out, few);
    began_ms = now_ms();
    much = cost_of_gets(in, out, many);
    seconds = 1 + (now_ms() - began_ms) / 1000;
    print_message("           %u MiB: %llu ticks, %llu wake-ups; %u MiB in %llu s: %llu ticks, "
                  "%llu wake-ups\n",
                  few, (unsigned long long)little.user_ticks,
                  (unsigned long long)little.voluntary_switches, many, (unsigned long long)seconds,
                  (unsigned long long)much.user_ticks, (unsigned long long)much.voluntary_switches);
    assert_true(much.voluntary_switches <= little.voluntary_switches + 20 * seconds);
    assert_true(much.voluntary_switches < many || guest_is_slow());
    assert_true(much.user_ticks <= little.user_ticks + 2 + seconds);
    free(in);
    free(out);
}

static void frozen_store__is_still_read(void **state)
{
    (void)state;
    put_filled(client, "key", LEN, 1);
    get_filled(client, "key", LEN, 1);
    daemon_freeze(&scene.pool.stores[0]);
    get_filled(client, "key", LEN, 1); /* the device reads; nobody need be awake */
    daemon_wake(&scene.pool.stores[0]);
    put_filled(client, "other", LEN, 2);
    get_filled(client, "other", LEN, 2);
}

static void killed_store__is_a_named_error_in_time_and_a_new_one_serves(void **state)
{
    uint64_t began_ms;
    mooncake_err err;

    (void)state;
    put_filled(client, "key", LEN, 1);
    get_filled(client, "key", LEN, 1);
    daemon_kill(&scene.pool.stores[0]);
    began_ms = now_ms();
    err = try_get_filled(client, "key", LEN, 1);
    print_message("           %s after %llu ms: %s\n", mooncake_err_name(err),
                  (unsigned long long)(now_ms() - began_ms), mooncake_last_error());
    assert_true(err == MOONCAKE_ETRANSFER || err == MOONCAKE_ENOENT || err == MOONCAKE_ETIMEDOUT);
    assert_true(now_ms() - began_ms <= CALL_MS + 2000);

    scene_start_store(&scene, 0);
    began_ms = now_ms();
    do { /* until the master gives the dead one up, it may still place there */
        uint8_t *bytes = malloc(LEN);

        fill(bytes, LEN, 7);
        err = mooncake_put(client, "fresh", bytes, LEN, NULL, 0);
        free(bytes);
    } while (err != MOONCAKE_OK && now_ms() - began_ms < 60000 * patience());
    assert_int_equal(err, MOONCAKE_OK);
    get_filled(client, "fresh", LEN, 7);
}

/* Its memory is taken from the devices while they read it. */
static void leaving_store__ends_a_running_stream_without_a_wrong_byte(void **state)
{
    uint64_t deadline_ms;
    unsigned good = 0;
    mooncake_err err = MOONCAKE_OK;

    (void)state;
    put_filled(client, "key", LEN, 1);
    for (; good < 3; good++) {
        get_filled(client, "key", LEN, 1);
    }
    assert_int_equal(kill(scene.pool.stores[0].pid, SIGTERM), 0);
    deadline_ms = now_ms() + 60000 * patience();
    while (err == MOONCAKE_OK) {
        assert_true(now_ms() < deadline_ms);
        err = try_get_filled(client, "key", LEN, 1);
        good++;
    }
    print_message("           %u reads, then %s\n", good - 1, mooncake_err_name(err));
    assert_true(err == MOONCAKE_ENOENT || err == MOONCAKE_ETRANSFER);
    assert_int_equal(daemon_stop(&scene.pool.stores[0]), 0);
}

static void leaving_store__under_several_readers_ends_well(void **state)
{
    pid_t readers[3];

    (void)state;
    put_filled(client, "key", LEN, 1);
    for (unsigned i = 0; i < 3; i++) {
        readers[i] = reader_start(&scene, "key", LEN, 1);
    }
    for (unsigned i = 0; i < 5; i++) {
        get_filled(client, "key", LEN, 1);
    }
    assert_int_equal(daemon_stop(&scene.pool.stores[0]), 0);
    for (unsigned i = 0; i < 3; i++) {
        int status = -1;

        assert_int_equal(waitpid(readers[i], &status, 0), readers[i]);
        assert_int_equal(status, 0);
    }
}

/* Our own memory is taken from the devices while they write to it: not before they are done. */
static void memory__unregistered_under_a_running_stream_spoils_no_read(void **state)
{
    uint8_t *bytes = malloc(LEN);

    (void)state;
    assert_non_null(bytes);
    put_filled(client, "key", LEN, 1);
    assert_int_equal(mooncake_register_buffer(client, bytes, LEN), MOONCAKE_OK);
    stream_start(&stream, client, "key", LEN, 1, bytes);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(mooncake_unregister_buffer(client, bytes), MOONCAKE_OK);
        if (i % 2 == 0) {
            stream_await(&stream, 1, CALL_MS / 1000);
        }
        assert_int_equal(mooncake_register_buffer(client, bytes, LEN), MOONCAKE_OK);
        if (i % 4 < 2) {
            stream_await(&stream, 1, CALL_MS / 1000);
        }
    }
    stream_stop(&stream);
    assert_int_equal(mooncake_unregister_buffer(client, bytes), MOONCAKE_OK);
    free(bytes);
}

/* In a child of a process with open devices. 0: RDMA said no, and TCP did it. */
static int use_in_child(void)
{
    mooncake_client_options options;
    mooncake_client *own = NULL;
    static uint8_t bytes[LEN];
    mooncake_err err;

    scene_client_options(&scene, "rdma", &options);
    if (mooncake_client_open(&options, &own) != MOONCAKE_ENOTSUP) {
        return 1;
    }
    options.transport = "rdma,tcp";
    err = mooncake_client_open(&options, &own);
    if (err == MOONCAKE_OK) {
        err = mooncake_get_into(own, "key", bytes, LEN, 0, NULL);
    }
    mooncake_client_close(own);
    return err == MOONCAKE_OK && is_filled(bytes, LEN, 1) ? 0 : 2;
}

static void forked_child__uses_another_transport(void **state)
{
    int status = -1;
    pid_t pid;

    (void)state;
    put_filled(client, "key", LEN, 1);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(use_in_child());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    get_filled(client, "key", LEN, 1);
}

#define ONE(f) cmocka_unit_test_setup_teardown(f, open_one_nic, close_scene)
#define TWO(f) cmocka_unit_test_setup_teardown(f, open_two_nics, close_scene)

int main(int argc, char **argv)
{
    const struct CMUnitTest one[] = {
        ONE(store__sleeps_while_its_bytes_are_read),
        ONE(frozen_store__is_still_read),
        ONE(killed_store__is_a_named_error_in_time_and_a_new_one_serves),
        ONE(leaving_store__ends_a_running_stream_without_a_wrong_byte),
    };
    const struct CMUnitTest two[] = {
        TWO(store__sleeps_while_its_bytes_are_read),
        TWO(frozen_store__is_still_read),
        TWO(killed_store__is_a_named_error_in_time_and_a_new_one_serves),
        TWO(leaving_store__ends_a_running_stream_without_a_wrong_byte),
        TWO(leaving_store__under_several_readers_ends_well),
        TWO(memory__unregistered_under_a_running_stream_spoils_no_read),
        TWO(forked_child__uses_another_transport),
    };
    int failed;

    reader_main(argc, argv);
    failed = cmocka_run_group_tests_name("rdma stores, one card a host", one, NULL, NULL);
    return failed + cmocka_run_group_tests_name("rdma stores, two cards a host", two, NULL, NULL);
}
