/* Copies that are stale, damaged, gone or hang, and what reads and writes make of them. */
#include "client/client_rig.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "client/mute_port.h"
#include "transport/mount_table.h"

static mooncake_put_options two_copies(void)
{
    mooncake_put_options options;

    mooncake_put_options_init(&options);
    options.replicas = 2;
    return options;
}

/* Store "k" in both lenders. */
static void put_twice(struct rig *rig)
{
    mooncake_put_options options = two_copies();

    assert_int_equal(mooncake_put(rig->client, "k", "value", 6, &options, 0), MOONCAKE_OK);
    assert_int_equal(fake_master_object(rig->master, "k").replicas, 2);
    assert_int_equal(fake_master_object(rig->master, "k").failed, 0);
}

/* Copies are drawn at random: enough reads meet each first. */
static void assert_reads_are_good(struct rig *rig)
{
    for (unsigned i = 0; i < 32; i++) {
        char out[6] = "";

        assert_int_equal(mooncake_get_into(rig->client, "k", out, 6, 0, NULL), MOONCAKE_OK);
        assert_string_equal(out, "value");
    }
}

static mooncake_err read_k(struct rig *rig, uint32_t timeout_ms)
{
    char out[6];

    return mooncake_get_into(rig->client, "k", out, 6, timeout_ms, NULL);
}

/* Flip a bit of the first object's first extent in the @p index-th segment, @p at bytes in. */
static void damage(struct rig *rig, unsigned index, uint64_t at)
{
    const struct mc_mount *mount = mc_mount_borrow(fake_master_mount_id(rig->master, index));

    assert_non_null(mount);
    mount->base[at] ^= 1;
    mc_mount_return(mount);
}

static bool report_is_seen(void *arg)
{
    return fake_master_seen(arg, MC_METHOD_REPORT) > 0;
}

/* ---- stale ------------------------------------------------------------------------------- */

static void get__of_a_stale_descriptor_asks_once_more_and_is_a_miss(void **state)
{
    struct rig *rig = *state;
    const unsigned before = fake_master_seen(rig->master, MC_METHOD_QUERY);

    assert_int_equal(mooncake_put(rig->client, "first", "other", 6, NULL, 0), MOONCAKE_OK);
    assert_int_equal(mooncake_put(rig->client, "k", "value", 6, NULL, 0), MOONCAKE_OK);
    fake_master_spoil(rig->master, "k", 0);
    assert_int_equal(read_k(rig, 0), MOONCAKE_ENOENT);
    assert_int_equal(fake_master_seen(rig->master, MC_METHOD_QUERY) - before, 2);
}

static void get__goes_on_to_the_other_copy_when_one_is_stale(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(mooncake_put(rig->client, "first", "other", 6, NULL, 0), MOONCAKE_OK);
    put_twice(rig);
    fake_master_spoil(rig->master, "k", 0);
    assert_reads_are_good(rig);
}

static void get__from_a_segment_that_left_is_a_miss(void **state)
{
    struct rig *rig = *state;
    mooncake_client *other = rig_open(rig, RIG_SEGMENT_LEN, NULL);

    /* The third segment gets nothing; the others go. */
    put_twice(rig);
    rig_close_lender(rig, 0);
    rig_close_lender(rig, 1);
    assert_int_equal(read_k(rig, 2000), MOONCAKE_ENOENT);
    mooncake_client_close(other);
}

/* ---- damage ------------------------------------------------------------------------------ */

static void get__of_a_damaged_value_is_an_error_and_the_master_hears_of_it(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(mooncake_put(rig->client, "k", "value", 6, NULL, 0), MOONCAKE_OK);
    damage(rig, 0, MC_EXTENT_HEADER_LEN + 2);
    assert_int_equal(read_k(rig, 0), MOONCAKE_ECHECKSUM);
    assert_true(fake_wait(report_is_seen, rig->master));
    damage(rig, 0, MC_EXTENT_HEADER_LEN + 2); /* the same bit again */
    assert_int_equal(read_k(rig, 0), MOONCAKE_OK);
    damage(rig, 0, 8);
    assert_int_equal(read_k(rig, 0), MOONCAKE_ECHECKSUM);
}

static void get__goes_on_to_the_other_copy_when_one_is_damaged(void **state)
{
    struct rig *rig = *state;

    put_twice(rig);
    damage(rig, 1, MC_EXTENT_HEADER_LEN);
    assert_reads_are_good(rig);
}

/* ---- dead -------------------------------------------------------------------------------- */

static void get__from_a_dead_store_fails_unless_there_is_another_copy(void **state)
{
    struct rig *rig = *state;

    put_twice(rig);
    fake_master_set_addresses(rig->master, 0, "tcp://127.0.0.1:1");
    assert_reads_are_good(rig);
    assert_true(fake_wait(report_is_seen, rig->master));
    fake_master_set_addresses(rig->master, 1, "tcp://127.0.0.1:1");
    assert_int_equal(read_k(rig, 0), MOONCAKE_ETRANSFER);
    assert_non_null(strstr(mooncake_last_error(), "127.0.0.1"));
}

static mooncake_client_stats stats_of(struct rig *rig)
{
    mooncake_client_stats stats = {.struct_size = sizeof(stats)};

    assert_int_equal(mooncake_client_get_stats(rig->client, &stats), MOONCAKE_OK);
    return stats;
}

static void put__to_a_dead_store_is_placed_anew_on_another(void **state)
{
    struct rig *rig = *state;
    mooncake_put_options options;
    const char *keys[] = {"a", "b", "c"};
    const void *data[] = {"value", "value", "value"};
    const uint64_t lens[] = {6, 6, 6};
    mooncake_err results[3];
    uint32_t copies[3] = {9, 9, 9};

    fake_master_set_addresses(rig->master, 0, "tcp://127.0.0.1:1");
    mooncake_put_options_init(&options);
    options.copies = copies;
    assert_int_equal(mooncake_put(rig->client, "k", "value", 6, &options, 0), MOONCAKE_OK);
    assert_int_equal(copies[0], 1);
    assert_int_equal(stats_of(rig).puts_again, 1);
    assert_reads_are_good(rig);
    assert_int_equal(mooncake_batch_put(rig->client, keys, data, lens, 3, &options, 0, results),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(results[i], MOONCAKE_OK);
        assert_int_equal(copies[i], 1);
    }
    assert_int_equal(stats_of(rig).puts_again, 4);
    options.replicas = 2;
    assert_int_equal(mooncake_put(rig->client, "both", "value", 6, &options, 0), MOONCAKE_OK);
    assert_int_equal(copies[0], 1); /* a success that says how many */
    assert_int_equal(stats_of(rig).puts_degraded, 1);
    assert_int_equal(stats_of(rig).puts_again, 4);
}

static void put__to_dead_stores_fails_and_leaves_no_key(void **state)
{
    struct rig *rig = *state;
    mooncake_put_options options = two_copies();

    fake_master_set_addresses(rig->master, 0, "tcp://127.0.0.1:1");
    assert_int_equal(mooncake_put(rig->client, "k", "value", 6, &options, 0), MOONCAKE_OK);
    assert_int_equal(fake_master_object(rig->master, "k").failed, 1);
    assert_reads_are_good(rig);
    options.all_replicas = true;
    assert_int_equal(mooncake_put(rig->client, "all", "value", 6, &options, 0), MOONCAKE_ETRANSFER);
    assert_int_equal(fake_master_object(rig->master, "all").parked, 1);
    fake_master_set_addresses(rig->master, 1, "tcp://127.0.0.1:1");
    options.all_replicas = false;
    assert_int_equal(mooncake_put(rig->client, "none", "value", 6, &options, 0),
                     MOONCAKE_ETRANSFER);
    assert_int_equal(fake_master_object(rig->master, "none").parked, 1);
    assert_false(fake_master_object(rig->master, "none").found);
    assert_int_equal(stats_of(rig).puts_again, 2);
}

/* ---- hanging ----------------------------------------------------------------------------- */

/* With a store, of a call that has time; less than what the library has (MC_STALL_MS_MAX). */
#define PATIENCE_MS 900u

static void get__from_a_store_that_hangs_ends_by_the_deadline(void **state)
{
    struct rig *rig = *state;
    struct mute_port mute;
    uint64_t start_ns;

    mute_port_open(&mute);
    assert_int_equal(mooncake_put(rig->client, "k", "value", 6, NULL, 0), MOONCAKE_OK);
    fake_master_set_addresses(rig->master, 0, mute.address);
    start_ns = mc_monotonic_ns();
    assert_int_equal(read_k(rig, 300), MOONCAKE_ETIMEDOUT);
    assert_in_range(rig_ms_since(start_ns), 290, 20000);
    mute_port_close(&mute);
}

struct impatience {
    unsigned asked, patience;
};

static bool lose_patience(void *arg)
{
    struct impatience *impatience = arg;

    return ++impatience->asked > impatience->patience;
}

static void get__from_a_store_that_hangs_ends_when_the_hook_says_so(void **state)
{
    struct rig *rig = *state;
    struct impatience impatience = {.patience = 2};
    mooncake_err results[2];
    const char *const keys[2] = {"k", "none"};
    char space[2][16];
    void *const data[2] = {space[0], space[1]};
    const uint64_t caps[2] = {sizeof(space[0]), sizeof(space[1])};
    struct mute_port mute;
    uint64_t start_ns;

    mute_port_open(&mute);
    assert_int_equal(mooncake_put(rig->client, "k", "value", 6, NULL, 0), MOONCAKE_OK);
    fake_master_set_addresses(rig->master, 0, mute.address);
    mooncake_set_interrupt(lose_patience, &impatience);
    start_ns = mc_monotonic_ns();
    assert_int_equal(read_k(rig, 60000), MOONCAKE_ECANCELED);
    assert_true(rig_ms_since(start_ns) < 30000);
    assert_int_equal(impatience.asked, 3);
    assert_non_null(strstr(mooncake_last_error(), "interrupt hook"));
    impatience.patience = 0; /* from now on at once */
    assert_int_equal(
        mooncake_batch_get_into(rig->client, keys, data, caps, 2, 60000, results, NULL),
        MOONCAKE_OK);
    assert_int_equal(results[0], MOONCAKE_ECANCELED);
    assert_int_equal(results[1], MOONCAKE_ENOENT);
    mooncake_set_interrupt(NULL, NULL);
    assert_int_equal(read_k(rig, 200), MOONCAKE_ETIMEDOUT);
    mute_port_close(&mute);
}

static void get__leaves_a_store_that_hangs_for_another_copy_and_remembers(void **state)
{
    struct rig *rig = *state;
    uint64_t start_ns, slow = 0;
    struct mute_port mute;

    mute_port_open(&mute);
    put_twice(rig);
    fake_master_set_addresses(rig->master, 1, mute.address);
    for (unsigned i = 0; i < 24; i++) {
        start_ns = mc_monotonic_ns();
        assert_int_equal(read_k(rig, 20000), MOONCAKE_OK);
        slow += rig_ms_since(start_ns) >= PATIENCE_MS ? 1 : 0;
    }
    assert_in_range(slow, 1, 4); /* one read pays with its patience, not every second */
    mute_port_close(&mute);
}

static void put__goes_on_without_a_copy_that_hangs(void **state)
{
    struct rig *rig = *state;
    mooncake_put_options options = two_copies();
    struct mute_port mute;
    uint64_t start_ns = mc_monotonic_ns();

    mute_port_open(&mute);
    fake_master_set_addresses(rig->master, 0, mute.address);
    assert_int_equal(mooncake_put(rig->client, "k", "value", 6, &options, 30000), MOONCAKE_OK);
    assert_in_range(rig_ms_since(start_ns), PATIENCE_MS, 20000);
    assert_int_equal(fake_master_object(rig->master, "k").failed, 1);
    assert_reads_are_good(rig);
    mute_port_close(&mute);
}

static bool is_parked(void *arg)
{
    return fake_master_object(arg, "k").parked > 0;
}

/* Not revoked: the store may wake up and write what it has in its sockets. */
static void put__to_a_store_that_hangs_ends_by_the_deadline_and_its_space_waits(void **state)
{
    struct rig *rig = *state;
    struct mute_port mute;
    uint64_t start_ns = mc_monotonic_ns();

    mute_port_open(&mute);
    fake_master_set_addresses(rig->master, 0, mute.address);
    assert_int_equal(mooncake_put(rig->client, "k", "value", 6, NULL, 300), MOONCAKE_ETIMEDOUT);
    assert_in_range(rig_ms_since(start_ns), 290, 20000);
    assert_true(fake_wait(is_parked, rig->master));
    assert_int_equal(fake_master_object(rig->master, "k").revoked, 0);
    mute_port_close(&mute);
}

static void batch__with_some_stores_hanging_gives_the_rest(void **state)
{
    struct rig *rig = *state;
    const char *keys[] = {"a", "k", "b"};
    const void *data[] = {"AA", "KK", "BB"};
    uint64_t lens[] = {3, 3, 3};
    char out[3][3] = {"", "", ""};
    void *outs[] = {out[0], out[1], out[2]};
    struct mute_port mute;
    mooncake_err r[3];

    mute_port_open(&mute);
    assert_int_equal(mooncake_batch_put(rig->client, keys, data, lens, 3, NULL, 0, r), MOONCAKE_OK);
    fake_master_move(rig->master, "k", 1); /* into the second segment, which hangs */
    fake_master_set_addresses(rig->master, 1, mute.address);
    assert_int_equal(mooncake_batch_get_into(rig->client, keys, outs, lens, 3, 2000, r, NULL),
                     MOONCAKE_OK);
    assert_int_equal(r[0], MOONCAKE_OK);
    assert_int_equal(r[1], MOONCAKE_ETIMEDOUT);
    assert_int_equal(r[2], MOONCAKE_OK);
    assert_string_equal(out[0], "AA");
    assert_string_equal(out[2], "BB");
    mute_port_close(&mute);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
#define TEST2(name) cmocka_unit_test_setup_teardown(name, rig_setup_two, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(get__of_a_stale_descriptor_asks_once_more_and_is_a_miss),
        TEST2(get__goes_on_to_the_other_copy_when_one_is_stale),
        TEST2(get__from_a_segment_that_left_is_a_miss),
        TEST(get__of_a_damaged_value_is_an_error_and_the_master_hears_of_it),
        TEST2(get__goes_on_to_the_other_copy_when_one_is_damaged),
        TEST2(get__from_a_dead_store_fails_unless_there_is_another_copy),
        TEST2(put__to_a_dead_store_is_placed_anew_on_another),
        TEST2(put__to_dead_stores_fails_and_leaves_no_key),
        TEST(get__from_a_store_that_hangs_ends_by_the_deadline),
        TEST(get__from_a_store_that_hangs_ends_when_the_hook_says_so),
        TEST2(get__leaves_a_store_that_hangs_for_another_copy_and_remembers),
        TEST2(put__goes_on_without_a_copy_that_hangs),
        TEST(put__to_a_store_that_hangs_ends_by_the_deadline_and_its_space_waits),
        TEST2(batch__with_some_stores_hanging_gives_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
