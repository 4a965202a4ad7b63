/* A client as a member of the pool: joining, being forgotten, leaving. */
#include "client/client_rig.h"

#include <string.h>

#include "base/clock.h"

static mooncake_err open_named(struct rig *rig, const char *name, uint32_t timeout_ms,
                               mooncake_client **out)
{
    mooncake_client_options options;

    mooncake_client_options_init(&options);
    options.master = fake_master_address(rig->master);
    options.segment_size = 1 << 20;
    options.local_hostname = name;
    options.data_address = "127.0.0.1:0";
    options.timeout_ms = timeout_ms;
    return mooncake_client_open(&options, out);
}

static void put_get(mooncake_client *client, const char *key)
{
    char out[6] = "";

    assert_int_equal(mooncake_put(client, key, "value", 6, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_get_into(client, key, out, 6, 0, NULL), MOONCAKE_OK);
    assert_string_equal(out, "value");
}

static bool knows_no_client(void *arg)
{
    return !fake_master_knows(arg, MC_ROLE_CLIENT);
}

static bool knows_a_client(void *arg)
{
    return fake_master_knows(arg, MC_ROLE_CLIENT);
}

static bool has_one_mount(void *arg)
{
    return fake_master_mounts(arg) == 1;
}

/* ---- joining ----------------------------------------------------------------------------- */

static void client__is_known_from_open_to_close(void **state)
{
    struct rig *rig = *state;

    assert_true(knows_a_client(rig->master));
    assert_int_equal(fake_master_mounts(rig->master), 1);
    rig_close_lender(rig, 0);
    assert_int_equal(fake_master_mounts(rig->master), 0);
    mooncake_client_close(rig->client);
    rig->client = NULL;
    assert_true(knows_no_client(rig->master));
}

static void tool__does_not_count_as_a_client(void **state)
{
    struct rig *rig = *state;
    mooncake_client_options options;
    mooncake_client *tool = NULL;

    rig_close_lender(rig, 0);
    mooncake_client_close(rig->client);
    rig->client = NULL;
    mooncake_client_options_init(&options);
    options.master = fake_master_address(rig->master);
    options.tool = true;
    assert_int_equal(mooncake_client_open(&options, &tool), MOONCAKE_OK);
    assert_int_equal(mooncake_client_check(tool, 0), MOONCAKE_OK);
    assert_false(knows_a_client(rig->master));
    assert_false(fake_master_knows(rig->master, MC_ROLE_TOOL));
    mooncake_client_close(tool);
    options.segment_size = 1 << 20;
    assert_int_equal(mooncake_client_open(&options, &tool), MOONCAKE_EINVAL);
}

static void open__with_a_name_that_is_taken_fails_and_says_so(void **state)
{
    struct rig *rig = *state;
    mooncake_client *first = NULL, *second = NULL;

    assert_int_equal(open_named(rig, "here:1", 5000, &first), MOONCAKE_OK);
    assert_string_equal(mooncake_client_hostname(first), "here:1");
    assert_int_equal(open_named(rig, "here:1", 5000, &second), MOONCAKE_ESEGMENTEXISTS);
    assert_null(second);
    assert_non_null(strstr(mooncake_last_error(), "here:1"));
    mooncake_client_close(first);
    assert_int_equal(open_named(rig, "here:1", 5000, &second), MOONCAKE_OK);
    mooncake_client_close(second);
}

static void open__that_hears_nothing_ends_by_its_deadline(void **state)
{
    struct rig *rig = *state;
    mooncake_client *client = NULL;
    uint64_t start_ns = mc_monotonic_ns();

    fake_master_rule(rig->master, MC_METHOD_MOUNT, FAKE_SILENT, 100, MOONCAKE_OK);
    assert_int_equal(open_named(rig, "here:2", 300, &client), MOONCAKE_ETIMEDOUT);
    assert_null(client);
    assert_true(rig_ms_since(start_ns) < 20000);
}

/* ---- being forgotten --------------------------------------------------------------------- */

static void segment__that_the_master_forgot_is_mounted_under_another_id(void **state)
{
    struct rig *rig = *state;
    uint64_t before = fake_master_mount_id(rig->master, 0);
    char out[6];

    put_get(rig->client, "old");
    fake_master_forget_mounts(rig->master);
    assert_true(fake_wait(has_one_mount, rig->master));
    assert_int_not_equal(fake_master_mount_id(rig->master, 0), before);
    put_get(rig->client, "new");
    /* The fake still has "old", without a copy that exists: its bytes are gone. */
    assert_int_equal(mooncake_get_into(rig->client, "old", out, 6, 0, NULL), MOONCAKE_ENOENT);
}

static void master__that_was_restarted_is_joined_again(void **state)
{
    struct rig *rig = *state;
    bool exists = true;

    put_get(rig->client, "old");
    fake_master_restart(rig->master);
    assert_true(fake_wait(has_one_mount, rig->master));
    assert_true(fake_wait(knows_a_client, rig->master));
    assert_int_equal(mooncake_exist(rig->client, "old", 0, &exists), MOONCAKE_OK);
    assert_false(exists);
    put_get(rig->client, "new");
}

static void mount__whose_answer_is_lost_is_asked_for_again(void **state)
{
    struct rig *rig = *state;

    fake_master_rule(rig->master, MC_METHOD_MOUNT, FAKE_LOSE, 1, MOONCAKE_OK);
    fake_master_forget_mounts(rig->master);
    assert_true(fake_wait(has_one_mount, rig->master));
    put_get(rig->client, "k");
}

static void close__ends_although_the_master_is_down(void **state)
{
    struct rig *rig = *state;
    uint64_t start_ns = mc_monotonic_ns();

    fake_master_listen(rig->master, false);
    rig_close_lender(rig, 0);
    mooncake_client_close(rig->client);
    rig->client = NULL;
    assert_true(rig_ms_since(start_ns) < 30000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(client__is_known_from_open_to_close),
        TEST(tool__does_not_count_as_a_client),
        TEST(open__with_a_name_that_is_taken_fails_and_says_so),
        TEST(open__that_hears_nothing_ends_by_its_deadline),
        TEST(segment__that_the_master_forgot_is_mounted_under_another_id),
        TEST(master__that_was_restarted_is_joined_again),
        TEST(mount__whose_answer_is_lost_is_asked_for_again),
        TEST(close__ends_although_the_master_is_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
