/* Each scenario with the n-th allocation of this process failing, for every n: calls end with
 * ENOMEM or do their work, nothing leaks, and the client goes on. */
#include "integration/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* So many runs in a row without an error: the n-th allocation lies behind the scenario's end. */
#define CALM 25u
#define N_MAX 3000

static struct pool pool;

static int setup(void **state)
{
    (void)state;
    pool_init(&pool);
    pool_start_master(&pool, 0);
    pool_start_store(&pool, 0, "64MiB");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pool_fini(&pool);
    return 0;
}

static mooncake_err open_tool(mooncake_client **out)
{
    mooncake_client_options options;

    mooncake_client_options_init(&options);
    options.master = pool.master_address;
    options.tool = true; /* no other thread that would meet the failure */
    options.transport = "tcp";
    options.timeout_ms = 5000;
    return mooncake_client_open(&options, out);
}

/* A call's result when memory was short, if it is one that may be. */
static mooncake_err judge(mooncake_err err)
{
    if (err != MOONCAKE_OK && err != MOONCAKE_ENOMEM && err != MOONCAKE_ETRANSFER &&
        err != MOONCAKE_ERPC) {
        fail_msg("%s: %s", mooncake_err_name(err), mooncake_last_error());
    }
    return err;
}

/* A client from open to close. */
static mooncake_err whole_life(unsigned run)
{
    mooncake_client *client = NULL;
    mooncake_err err = judge(open_tool(&client));
    char key[32], out[8] = "";
    uint64_t got = 0;
    void *fresh = NULL;

    if (err != MOONCAKE_OK) {
        assert_null(client);
        return err;
    }
    (void)snprintf(key, sizeof(key), "life-%u", run);
    err = judge(mooncake_put(client, key, "value", 6, NULL, 0));
    if (err == MOONCAKE_OK) {
        err = mooncake_get_into(client, key, out, 8, 0, &got);
        assert_true(err != MOONCAKE_OK || (got == 6 && strcmp(out, "value") == 0));
        err = judge(err);
    }
    if (err == MOONCAKE_OK) {
        err = judge(mooncake_get(client, key, 0, &fresh, &got));
        mooncake_free(fresh);
    }
    mooncake_client_close(client);
    return err;
}

static void repeat(mooncake_err (*scenario)(unsigned run))
{
    unsigned calm = 0;
    int64_t live = mc_mem_live_count();

    for (int n = 0; n < N_MAX && calm < CALM; n++) {
        mooncake_err err;

        mc_mem_fail_after(n);
        err = scenario((unsigned)n);
        mc_mem_fail_after(-1);
        calm = err == MOONCAKE_OK ? calm + 1 : 0;
        if (mc_mem_live_count() != live) {
            fail_msg("allocation %d failed: %lld blocks are left", n,
                     (long long)(mc_mem_live_count() - live));
        }
    }
    assert_int_equal(calm, CALM);
}

static void client__survives_each_allocation_failing(void **state)
{
    (void)state;
    assert_int_equal(whole_life(100000), MOONCAKE_OK);
    repeat(whole_life);
}

static mooncake_client *warm;

static mooncake_err warm_batch(unsigned run)
{
    static uint8_t in[4][40000], out[4][40000];
    char names[4][32];
    const char *keys[4];
    const void *from[4];
    void *to[4];
    uint64_t lens[4];
    mooncake_err r[4], err;

    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "warm-%u-%u", run, i);
        keys[i] = names[i];
        fill(in[i], sizeof(in[i]), run + i);
        from[i] = in[i];
        to[i] = out[i];
        lens[i] = sizeof(in[i]);
    }
    err = judge(mooncake_batch_put(warm, keys, from, lens, 4, NULL, 0, r));
    for (unsigned i = 0; i < 4; i++) {
        err = err == MOONCAKE_OK ? judge(r[i]) : err;
    }
    if (err != MOONCAKE_OK) {
        return err;
    }
    err = judge(mooncake_batch_get_into(warm, keys, to, lens, 4, 0, r, NULL));
    for (unsigned i = 0; i < 4; i++) {
        assert_true(err != MOONCAKE_OK || r[i] != MOONCAKE_OK ||
                    is_filled(out[i], sizeof(out[i]), run + i));
        err = err == MOONCAKE_OK ? judge(r[i]) : err;
    }
    return err;
}

static void batch__survives_each_allocation_failing(void **state)
{
    unsigned calm = 0;

    (void)state;
    assert_int_equal(open_tool(&warm), MOONCAKE_OK);
    for (int n = 0; n < N_MAX && calm < CALM; n++) {
        mc_mem_fail_after(n);
        calm = warm_batch((unsigned)n) == MOONCAKE_OK ? calm + 1 : 0;
        mc_mem_fail_after(-1);
    }
    assert_int_equal(calm, CALM);
    assert_int_equal(warm_batch(100000), MOONCAKE_OK);
    mooncake_client_close(warm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client__survives_each_allocation_failing),
        cmocka_unit_test(batch__survives_each_allocation_failing),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
