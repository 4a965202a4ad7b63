/* Setting the master up and down inside this process: what fails half-way leaves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "master/master.h"

static struct mc_master_options options_of_a_test(void)
{
    struct mc_master_options options = {.host = "127.0.0.1"};

    mc_core_options_init(&options.core);
    options.core.epoch = 1;
    options.core.seed = 2;
    return options;
}

static void create__without_memory_leaves_nothing(void **state)
{
    const struct mc_master_options options = options_of_a_test();
    struct mc_master *const before = (struct mc_master *)0x1, *master = before;
    mooncake_err err = MOONCAKE_ENOMEM;
    struct mc_loop *loop;
    int64_t live, n;

    (void)state;
    for (n = 0; err != MOONCAKE_OK; n++) {
        live = mc_mem_live_count();
        assert_int_equal(mc_loop_create(0, &loop), MOONCAKE_OK);
        mc_mem_fail_after(n);
        err = mc_master_create(loop, &options, &master);
        mc_mem_fail_after(-1);
        assert_true(err == MOONCAKE_OK || err == MOONCAKE_ENOMEM);
        if (err == MOONCAKE_OK) {
            mc_master_destroy(&master);
            assert_null(master);
        } else {
            assert_ptr_equal(master, before);
        }
        mc_loop_destroy(&loop);
        assert_int_equal(mc_mem_live_count(), live);
    }
    assert_true(n > 10);
}

static void create__on_a_port_in_use_names_it_and_leaves_nothing(void **state)
{
    struct mc_master_options options = options_of_a_test();
    struct mc_master *first, *second = NULL;
    struct mc_loop *loop;
    char port[16];

    (void)state;
    assert_int_equal(mc_loop_create(0, &loop), MOONCAKE_OK);
    assert_int_equal(mc_master_create(loop, &options, &first), MOONCAKE_OK);
    options.rpc_port = mc_master_rpc_port(first);
    assert_int_equal(mc_master_create(loop, &options, &second), MOONCAKE_ERPC);
    (void)snprintf(port, sizeof(port), "%u", options.rpc_port);
    assert_non_null(strstr(mooncake_last_error(), port));
    options.rpc_port = 0;
    options.metrics_port = mc_master_metrics_port(first);
    assert_int_equal(mc_master_create(loop, &options, &second), MOONCAKE_ERPC);
    (void)snprintf(port, sizeof(port), "%u", options.metrics_port);
    assert_non_null(strstr(mooncake_last_error(), port));
    assert_null(second);
    mc_master_destroy(&first);
    mc_loop_destroy(&loop);
    assert_int_equal(mc_mem_live_count(), 0);
}

static void create__refuses_a_host_that_is_none(void **state)
{
    static char long_host[400];
    struct mc_master_options options = options_of_a_test();
    struct mc_master *master = NULL;
    struct mc_loop *loop;

    (void)state;
    memset(long_host, 'h', sizeof(long_host) - 1);
    assert_int_equal(mc_loop_create(0, &loop), MOONCAKE_OK);
    options.host = long_host;
    assert_int_equal(mc_master_create(loop, &options, &master), MOONCAKE_EINVAL);
    options.host = "no host at all";
    assert_int_not_equal(mc_master_create(loop, &options, &master), MOONCAKE_OK);
    assert_null(master);
    mc_loop_destroy(&loop);
    assert_int_equal(mc_mem_live_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create__without_memory_leaves_nothing),
        cmocka_unit_test(create__on_a_port_in_use_names_it_and_leaves_nothing),
        cmocka_unit_test(create__refuses_a_host_that_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
