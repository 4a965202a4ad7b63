/* A master that is down, silent or forgetful, and answers that are lost. */
#include "client/client_rig.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* ---- the master -------------------------------------------------------------------------- */

static void master__that_is_down_fails_calls_at_once_and_is_found_again(void **state)
{
    struct rig *rig = *state;
    uint64_t start_ns = mc_monotonic_ns();
    mooncake_err results[2] = {MOONCAKE_OK, MOONCAKE_OK};
    const char *keys[] = {"a", "b"};
    bool exists;

    fake_master_listen(rig->master, false);
    assert_int_equal(mooncake_exist(rig->client, "k", 0, &exists), MOONCAKE_ERPC);
    assert_non_null(strstr(mooncake_last_error(), fake_master_address(rig->master)));
    assert_int_equal(mooncake_put(rig->client, "k", "v", 1, NULL, 0), MOONCAKE_ERPC);
    assert_int_equal(mooncake_batch_exist(rig->client, keys, 2, 0, results), MOONCAKE_ERPC);
    assert_int_equal(results[0], MOONCAKE_ERPC);
    assert_int_equal(results[1], MOONCAKE_ERPC);
    assert_true(rig_ms_since(start_ns) < 20000);
    fake_master_listen(rig->master, true);
    assert_int_equal(mooncake_exist(rig->client, "k", 0, &exists), MOONCAKE_OK);
}

static void open__of_a_pool_without_a_master_fails_and_names_it(void **state)
{
    struct rig *rig = *state;
    mooncake_client *client = NULL;
    mooncake_client_options options;
    uint64_t start_ns = mc_monotonic_ns();

    mooncake_client_options_init(&options);
    options.master = fake_master_address(rig->master);
    fake_master_listen(rig->master, false);
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_ERPC);
    assert_null(client);
    assert_non_null(strstr(mooncake_last_error(), options.master));
    assert_true(rig_ms_since(start_ns) < 20000);
    fake_master_listen(rig->master, true);
}

static void master__that_is_silent_ends_each_call_by_its_deadline(void **state)
{
    struct rig *rig = *state;
    const char *keys[] = {"a", "b"};
    const void *data[] = {"1", "2"};
    uint64_t lens[] = {1, 1}, start_ns = mc_monotonic_ns();
    mooncake_err results[2];
    char out[4];

    fake_master_rule(rig->master, MC_METHOD_QUERY, FAKE_SILENT, 1, MOONCAKE_OK);
    assert_int_equal(mooncake_get_into(rig->client, "k", out, 4, 500, NULL), MOONCAKE_ETIMEDOUT);
    assert_non_null(strstr(mooncake_last_error(), "query"));
    fake_master_rule(rig->master, MC_METHOD_PUT_START, FAKE_SILENT, 1, MOONCAKE_OK);
    assert_int_equal(mooncake_batch_put(rig->client, keys, data, lens, 2, NULL, 500, results),
                     MOONCAKE_ETIMEDOUT);
    assert_int_equal(results[0], MOONCAKE_ETIMEDOUT);
    assert_int_equal(results[1], MOONCAKE_ETIMEDOUT);
    fake_master_rule(rig->master, MC_METHOD_PUT_END, FAKE_SILENT, 1, MOONCAKE_OK);
    assert_int_equal(mooncake_put(rig->client, "k", "v", 1, NULL, 500), MOONCAKE_ETIMEDOUT);
    fake_master_rule(rig->master, MC_METHOD_REMOVE_ALL, FAKE_SILENT, 1, MOONCAKE_OK);
    assert_int_equal(mooncake_remove_all(rig->client, true, 500, NULL, NULL), MOONCAKE_ETIMEDOUT);
    assert_in_range(rig_ms_since(start_ns), 2000, 30000);
    assert_int_equal(mooncake_put(rig->client, "later", "v", 1, NULL, 0), MOONCAKE_OK);
}

static void master__that_refuses_a_question_fails_every_item_with_its_reason(void **state)
{
    struct rig *rig = *state;
    const char *keys[] = {"a", "b"};
    mooncake_err results[2];

    fake_master_rule(rig->master, MC_METHOD_EXIST, FAKE_REFUSE, 1, MOONCAKE_EUNAVAILABLE);
    assert_int_equal(mooncake_batch_exist(rig->client, keys, 2, 0, results), MOONCAKE_EUNAVAILABLE);
    assert_int_equal(results[1], MOONCAKE_EUNAVAILABLE);
    assert_non_null(strstr(mooncake_last_error(), "the fake refuses"));
}

/* ---- lost answers ------------------------------------------------------------------------ */

static void put__whose_answers_are_lost_is_asked_again_and_stored_once(void **state)
{
    struct rig *rig = *state;
    char out[4] = "";

    fake_master_rule(rig->master, MC_METHOD_PUT_START, FAKE_LOSE, 1, MOONCAKE_OK);
    assert_int_equal(mooncake_put(rig->client, "a", "one", 4, NULL, 0), MOONCAKE_OK);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_PUT_START), 2);
    fake_master_rule(rig->master, MC_METHOD_PUT_END, FAKE_LOSE, 1, MOONCAKE_OK);
    assert_int_equal(mooncake_put(rig->client, "b", "two", 4, NULL, 0), MOONCAKE_OK);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_PUT_END), 3);
    fake_master_rule(rig->master, MC_METHOD_QUERY, FAKE_LOSE, 1, MOONCAKE_OK);
    assert_int_equal(mooncake_get_into(rig->client, "b", out, 4, 0, NULL), MOONCAKE_OK);
    assert_string_equal(out, "two");
}

static void put__whose_answer_is_lost_twice_says_so(void **state)
{
    struct rig *rig = *state;

    fake_master_rule(rig->master, MC_METHOD_PUT_START, FAKE_LOSE, 2, MOONCAKE_OK);
    assert_int_equal(mooncake_put(rig->client, "a", "one", 4, NULL, 0), MOONCAKE_ERPC);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_PUT_START), 2);
}

static void remove__whose_answer_is_lost_is_not_repeated(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(mooncake_put(rig->client, "a", "one", 4, NULL, 0), MOONCAKE_OK);
    fake_master_rule(rig->master, MC_METHOD_REMOVE, FAKE_LOSE, 1, MOONCAKE_OK);
    assert_int_equal(mooncake_remove(rig->client, "a", true, 0), MOONCAKE_ERPC);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_REMOVE), 1);
}

/* ---- a full pool ------------------------------------------------------------------------- */

static void put__into_a_full_pool_fails_at_once(void **state)
{
    struct rig *rig = *state;
    uint64_t start_ns = mc_monotonic_ns();

    fake_master_rule(rig->master, MC_METHOD_PUT_START, FAKE_ITEM, 100, MOONCAKE_ENOSPACE);
    assert_int_equal(mooncake_put(rig->client, "a", "one", 4, NULL, 0), MOONCAKE_ENOSPACE);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_PUT_START), 1);
    assert_true(rig_ms_since(start_ns) < 10000);
}

static void put__comes_again_when_the_master_makes_room(void **state)
{
    struct rig *rig = *state;

    fake_master_set_retry_after(rig->master, 5);
    fake_master_rule(rig->master, MC_METHOD_PUT_START, FAKE_ITEM, 3, MOONCAKE_ENOSPACE);
    assert_int_equal(mooncake_put(rig->client, "a", "one", 4, NULL, 0), MOONCAKE_OK);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_PUT_START), 4);
    /* Room that does not come before the deadline is no room. */
    fake_master_set_retry_after(rig->master, 1000);
    fake_master_rule(rig->master, MC_METHOD_PUT_START, FAKE_ITEM, 1000, MOONCAKE_ENOSPACE);
    assert_int_equal(mooncake_put(rig->client, "b", "one", 4, NULL, 500), MOONCAKE_ENOSPACE);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_PUT_START), 5);
}

/* ---- engines, closing, forks ------------------------------------------------------------- */

struct slow_call {
    mooncake_client *client;
    uint32_t timeout_ms;
    mooncake_err err;
};

static void *run_slow_call(void *arg)
{
    struct slow_call *call = arg;
    bool exists;

    call->err = mooncake_exist(call->client, "slow", call->timeout_ms, &exists);
    return NULL;
}

static bool exist_is_seen(void *arg)
{
    return fake_master_seen(arg, MC_METHOD_EXIST) > 0;
}

/* A call that the master holds, on a thread of its own; returns when the master has it. */
static void begin_slow_call(struct rig *rig, struct slow_call *call, pthread_t *thread)
{
    fake_master_rule(rig->master, MC_METHOD_EXIST, FAKE_SILENT, 1, MOONCAKE_OK);
    assert_int_equal(pthread_create(thread, NULL, run_slow_call, call), 0);
    assert_true(fake_wait(exist_is_seen, rig->master));
}

static void call__without_a_free_engine_waits_until_its_deadline(void **state)
{
    struct rig *rig = *state;
    struct slow_call slow = {.timeout_ms = 3000};
    mooncake_client_options options;
    pthread_t thread;
    bool exists;

    mooncake_client_options_init(&options);
    options.master = fake_master_address(rig->master);
    options.engines_max = 1;
    assert_int_equal(mooncake_client_open(&options, &slow.client), MOONCAKE_OK);
    begin_slow_call(rig, &slow, &thread);
    assert_int_equal(mooncake_exist(slow.client, "k", 50, &exists), MOONCAKE_ETIMEDOUT);
    assert_non_null(strstr(mooncake_last_error(), "engines_max"));
    assert_int_equal(mooncake_exist(slow.client, "k", 60000, &exists), MOONCAKE_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(slow.err, MOONCAKE_ETIMEDOUT);
    mooncake_client_close(slow.client);
}

static void close__waits_for_calls_under_way(void **state)
{
    struct rig *rig = *state;
    struct slow_call slow = {.timeout_ms = 300, .err = MOONCAKE_EINTERNAL};
    uint64_t start_ns;
    pthread_t thread;

    slow.client = rig_open(rig, 0, NULL);
    begin_slow_call(rig, &slow, &thread);
    start_ns = mc_monotonic_ns();
    mooncake_client_close(slow.client);
    assert_true(rig_ms_since(start_ns) < 20000);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(slow.err, MOONCAKE_ETIMEDOUT);
}

/* In the child: 0 if every call was refused at once. */
static int use_in_child(mooncake_client *client)
{
    uint64_t start_ns = mc_monotonic_ns();
    char out[4];
    bool exists;

    if (mooncake_put(client, "child", "v", 1, NULL, 0) != MOONCAKE_EUNAVAILABLE ||
        mooncake_get_into(client, "k", out, 4, 0, NULL) != MOONCAKE_EUNAVAILABLE ||
        mooncake_exist(client, "k", 0, &exists) != MOONCAKE_EUNAVAILABLE ||
        mooncake_register_buffer(client, out, 4) != MOONCAKE_EUNAVAILABLE ||
        strstr(mooncake_last_error(), "fork") == NULL) {
        return 1;
    }
    mooncake_client_close(client);
    return rig_ms_since(start_ns) < 10000 ? 0 : 2;
}

static void fork__leaves_the_child_an_error_and_the_parent_unharmed(void **state)
{
    struct rig *rig = *state;
    char out[4] = "";
    int status = -1;
    pid_t child;

    assert_int_equal(mooncake_put(rig->client, "k", "abc", 4, NULL, 0), MOONCAKE_OK);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(use_in_child(rig->lenders[0]) + 10 * use_in_child(rig->client));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(mooncake_get_into(rig->client, "k", out, 4, 0, NULL), MOONCAKE_OK);
    assert_string_equal(out, "abc");
    assert_int_equal(mooncake_put(rig->client, "l", "abc", 4, NULL, 0), MOONCAKE_OK);
    assert_int_equal(fake_master_mounts(rig->master), 1); /* the child unmounted nothing */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(master__that_is_down_fails_calls_at_once_and_is_found_again),
        TEST(open__of_a_pool_without_a_master_fails_and_names_it),
        TEST(master__that_is_silent_ends_each_call_by_its_deadline),
        TEST(master__that_refuses_a_question_fails_every_item_with_its_reason),
        TEST(put__whose_answers_are_lost_is_asked_again_and_stored_once),
        TEST(put__whose_answer_is_lost_twice_says_so),
        TEST(remove__whose_answer_is_lost_is_not_repeated),
        TEST(put__into_a_full_pool_fails_at_once),
        TEST(put__comes_again_when_the_master_makes_room),
        TEST(call__without_a_free_engine_waits_until_its_deadline),
        TEST(close__waits_for_calls_under_way),
        TEST(fork__leaves_the_child_an_error_and_the_parent_unharmed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
