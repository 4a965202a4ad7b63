/* mooncake_master as a process: options, ports, port file, signals. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "master/daemon.h"
#include "rpc/frame.h"

static void main__bad_options_end_with_2_and_name_the_option(void **state)
{
    static const struct {
        const char *option, *named;
    } bad[] = {
        {"--rpc_port=70000", "rpc_port"},
        {"--default_kv_lease_ttl=soon", "default_kv_lease_ttl"},
        {"--eviction_high_watermark_ratio=1.5", "eviction_high_watermark_ratio"},
        {"--eviction_high_watermark_ratio=nan", "eviction_high_watermark_ratio"},
        {"--log_level=loud", "log_level"},
        {"--placement=far", "placement"},
        {"--client_ttl=-1", "client_ttl"},
        {"--no_such_option=1", "no_such_option"},
        {"stray", "stray"},
    };
    struct daemon d;
    size_t i;

    (void)state;
    for (i = 0; i < MC_ARRAY_LEN(bad); i++) {
        const char *const options[] = {"--rpc_port=0", "--metrics_port=0", bad[i].option, NULL};

        assert_int_equal(daemon_run_to_end(&d, options), 2);
        if (strstr(d.text, bad[i].named) == NULL) {
            fail_msg("%s is not named: %s", bad[i].named, d.text);
        }
    }
}

/* What each option means only together with another is found by the core. */
static void main__options_that_contradict_each_other_end_with_2(void **state)
{
    static const char *const options[] = {"--rpc_port=0", "--metrics_port=0",
                                          "--put_start_discard_timeout_sec=20",
                                          "--put_start_release_timeout_sec=10", NULL};
    struct daemon d;

    (void)state;
    assert_int_equal(daemon_run_to_end(&d, options), 2);
    assert_non_null(strstr(d.text, "put_start_release"));
}

static void main__a_port_in_use_ends_with_1_and_names_it(void **state)
{
    struct daemon first, second;
    char port[32], named[16];
    const char *const options[] = {"--rpc_address=127.0.0.1", "--metrics_port=0", port, NULL};

    (void)state;
    daemon_start(&first, NULL);
    (void)snprintf(port, sizeof(port), "--port=%u", first.rpc_port); /* the alias */
    (void)snprintf(named, sizeof(named), "%u", first.rpc_port);
    assert_int_equal(daemon_run_to_end(&second, options), 1);
    assert_non_null(strstr(second.text, named));
    assert_int_equal(daemon_stop(&first, SIGTERM), 0);
}

static void main__questions_are_answered_without_serving(void **state)
{
    static const char *const help[] = {"--help", NULL}, *const version[] = {"--version", NULL};
    static const char *const print[] = {"--print-config", "--client_ttl=4s",
                                        "--put-start-discard-timeout-sec", "1.5", NULL};
    struct daemon d;

    (void)state;
    assert_int_equal(daemon_run_to_end(&d, help), 0);
    assert_non_null(strstr(d.text, "rpc_port"));
    assert_int_equal(daemon_run_to_end(&d, version), 0);
    assert_non_null(strstr(d.text, "mooncake_master 0."));
    assert_int_equal(daemon_run_to_end(&d, print), 0);
    assert_non_null(strstr(d.text, "client_ttl = 4s (flag)"));
    assert_non_null(strstr(d.text, "put_start_discard_timeout_sec = 1500ms (flag)"));
    assert_null(strstr(d.text, " serving "));
}

static void main__the_port_file_holds_the_ports_in_use(void **state)
{
    char folder[] = "/tmp/mc_master_test_XXXXXX", path[64], option[96], wanted[96], got[96] = "";
    const char *const options[] = {option, NULL};
    struct daemon d;
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/ports", folder);
    (void)snprintf(option, sizeof(option), "--port_file=%s", path);
    daemon_start(&d, options);
    (void)snprintf(wanted, sizeof(wanted), "rpc_port=%u\nmetrics_port=%u\n", d.rpc_port,
                   d.metrics_port);
    file = fopen(path, "r");
    if (file != NULL) {
        (void)!fread(got, 1, sizeof(got) - 1, file);
        (void)fclose(file);
    }
    (void)unlink(path);
    assert_int_equal(rmdir(folder), 0); /* and nothing else was left there */
    assert_string_equal(got, wanted);
    assert_int_equal(daemon_stop(&d, SIGTERM), 0);
}

static void main__a_port_file_that_cannot_be_written_stops_the_start(void **state)
{
    static const char *const options[] = {"--rpc_port=0", "--metrics_port=0",
                                          "--port_file=/proc/no/such/folder/ports", NULL};
    struct daemon d;

    (void)state;
    assert_int_equal(daemon_run_to_end(&d, options), 2);
    assert_non_null(strstr(d.text, "port_file"));
}

static void main__signals_end_it_cleanly(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT};
    struct daemon d;
    size_t i;

    (void)state;
    for (i = 0; i < MC_ARRAY_LEN(signals); i++) {
        daemon_start(&d, NULL);
        assert_int_equal(daemon_exist(&d, "k"), MOONCAKE_ENOENT);
        assert_int_equal(daemon_stop(&d, signals[i]), 0);
    }
}

/* A peer that never reads and never closes must not hold the end up. */
static void main__ends_although_peers_keep_their_connections(void **state)
{
    struct daemon d;
    char body[256];
    int idle, silent;

    (void)state;
    daemon_start(&d, NULL);
    idle = daemon_connect(d.rpc_port);
    assert_int_equal(daemon_hello(idle, MC_PROTOCOL_MIN, MC_PROTOCOL_MAX, body, sizeof(body)),
                     MOONCAKE_OK);
    silent = daemon_connect(d.rpc_port);
    assert_int_equal(daemon_stop(&d, SIGTERM), 0);
    assert_true(daemon_is_closed(idle));
    (void)close(idle);
    (void)close(silent);
}

static void main__options_reach_the_core(void **state)
{
    static const char *const options[] = {"--default_kv_lease_ttl=1234", "--client_ttl=7", NULL};
    const struct mc_ping_request ping = {
        .client_id = 5, .role = MC_ROLE_TOOL, .host = "h", .program = "p"};
    const struct mc_key key = daemon_key("k");
    const struct mc_keys_request request = {.keys = &key, .count = 1};
    struct mc_ping_reply pong;
    struct mc_query_reply found;
    struct daemon d;

    (void)state;
    daemon_start(&d, options);
    assert_int_equal(daemon_call(&d, MC_METHOD_PING, &ping, &pong), MOONCAKE_OK);
    assert_int_equal(pong.client_ttl_ms, 7000);
    assert_int_equal(daemon_mount(&d, "seg-a", 11, 1u << 20), MOONCAKE_OK);
    daemon_put(&d, "k", 10);
    assert_int_equal(daemon_call(&d, MC_METHOD_QUERY, &request, &found), MOONCAKE_OK);
    assert_int_equal(found.lease_ms, 1234);
    assert_int_equal(daemon_stop(&d, SIGTERM), 0);
}

/* Two lives of a master differ, so that nobody takes one for the other. */
static void main__each_life_has_its_own_epoch(void **state)
{
    struct daemon first, second;

    (void)state;
    daemon_start(&first, NULL);
    daemon_start(&second, NULL);
    assert_int_equal(daemon_exist(&first, "k"), MOONCAKE_ENOENT);
    assert_int_equal(daemon_exist(&second, "k"), MOONCAKE_ENOENT);
    assert_true(first.stub.master_epoch != 0);
    assert_true(first.stub.master_epoch != second.stub.master_epoch);
    assert_int_equal(daemon_stop(&first, SIGTERM), 0);
    assert_int_equal(daemon_stop(&second, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(main__bad_options_end_with_2_and_name_the_option),
        cmocka_unit_test(main__options_that_contradict_each_other_end_with_2),
        cmocka_unit_test(main__a_port_in_use_ends_with_1_and_names_it),
        cmocka_unit_test(main__questions_are_answered_without_serving),
        cmocka_unit_test(main__the_port_file_holds_the_ports_in_use),
        cmocka_unit_test(main__a_port_file_that_cannot_be_written_stops_the_start),
        cmocka_unit_test(main__signals_end_it_cleanly),
        cmocka_unit_test(main__ends_although_peers_keep_their_connections),
        cmocka_unit_test(main__options_reach_the_core),
        cmocka_unit_test(main__each_life_has_its_own_epoch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
