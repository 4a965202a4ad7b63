/* Views: what is looked at in place stays what it was, whatever happens to key, pool and store. */
#include "integration/contract.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mooncake/view.h"

#define LEN (MIB + 123)
#define DEADLINE_MS 10000u
/* Longer than three leases: so long asking alone could keep an object. */
#define LONG_MS (4 * LEASE_MS)

static mooncake_view *look(mooncake_client *client, const char *key)
{
    mooncake_view *view = NULL;
    mooncake_err err = mooncake_get_view(client, key, NULL, 0, &view);

    if (err != MOONCAKE_OK) {
        fail_msg("get_view: %s", mooncake_last_error());
    }
    return view;
}

static mooncake_view *look_in_place(mooncake_client *client, const char *key)
{
    mooncake_view *view = look(client, key);

    assert_true(mooncake_view_in_place(view));
    return view;
}

static void assert_shows(const mooncake_view *view, const char *key, uint64_t version, size_t len)
{
    assert_int_equal(mooncake_view_size(view), len);
    assert_string_equal(verdict_name(value_judge(mooncake_view_data(view), len, key, version)),
                        verdict_name(VALUE_RIGHT));
}

static void put(struct contract *c, const char *key, size_t len, uint64_t version, bool upsert)
{
    mooncake_put_options options;

    mooncake_put_options_init(&options);
    options.upsert = upsert;
    assert_int_equal(value_put(c->client, key, len, version, &options, DEADLINE_MS), MOONCAKE_OK);
}

static int setup(void **state)
{
    mooncake_view *view;
    struct contract *c;

    if (contract_setup(state) != 0) {
        return -1;
    }
    c = *state;
    pool_start_store(&c->pool, 0, "64MiB");
    contract_begin(c);
    mooncake_client_close(c->client); /* sees the test's own transports, whatever the pool's are */
    c->client = contract_open(c, "auto", DEADLINE_MS);
    put(c, "first", LEN, 1, false); /* so that what views need is open, and counted */
    view = look_in_place(c->client, "first");
    for (uint64_t end_ms = now_ms() + LEASE_MS; now_ms() < end_ms;) { /* past a renewal */
        assert_int_equal(mooncake_view_check(view), MOONCAKE_OK);
    }
    mooncake_view_release(view);
    contract_count(c);
    return 0;
}

/* Write over every byte of the pool that may be written, again and again for @p ms. */
static void press(struct contract *c, uint64_t ms)
{
    uint64_t const end_ms = now_ms() + ms;
    static unsigned count;
    char key[32];

    for (unsigned i = 0; i < 200 || now_ms() < end_ms; i++) {
        (void)snprintf(key, sizeof(key), "pressure-%u", count++);
        assert_int_equal(value_put(c->client, key, MIB, 1, NULL, DEADLINE_MS), MOONCAKE_OK);
    }
}

/* ---- what a view is ------------------------------------------------------------------------ */

static void view__shows_the_stores_own_memory(void **state)
{
    struct contract *c = *state;
    mooncake_view *first, *second;

    put(c, "k", LEN, 1, false);
    first = look_in_place(c->client, "k");
    second = look_in_place(c->client, "k");
    assert_shows(first, "k", 1, LEN);
    assert_ptr_equal(mooncake_view_data(first), mooncake_view_data(second));
    mooncake_view_release(first);
    assert_shows(second, "k", 1, LEN);
    assert_int_equal(mooncake_view_check(second), MOONCAKE_OK);
    mooncake_view_release(second);
    put(c, "empty", 0, 1, false);
    first = look_in_place(c->client, "empty");
    assert_int_equal(mooncake_view_size(first), 0);
    assert_non_null(mooncake_view_data(first));
    mooncake_view_release(first);
    contract_check(c);
}

static void view__over_tcp_owns_a_copy_within_its_bound(void **state)
{
    struct contract *c = *state;
    mooncake_client *far = contract_open(c, "tcp", DEADLINE_MS);
    mooncake_view *const before = (mooncake_view *)state;
    mooncake_view_options options;
    mooncake_view *view = before;

    put(c, "k", LEN, 1, false);
    mooncake_view_options_init(&options);
    options.copy_len_max = LEN - 1;
    assert_int_equal(mooncake_get_view(far, "k", &options, 0, &view), MOONCAKE_ENOTSUP);
    assert_non_null(strstr(mooncake_last_error(), "copy_len_max"));
    assert_ptr_equal(view, before);
    options.copy_len_max = LEN;
    assert_int_equal(mooncake_get_view(far, "k", &options, 0, &view), MOONCAKE_OK);
    assert_false(mooncake_view_in_place(view));
    mooncake_client_close(far);
    assert_shows(view, "k", 1, LEN);
    assert_int_equal(mooncake_view_check(view), MOONCAKE_OK);
    mooncake_view_release(view);
    options.copy_len_max = 0; /* no copy is needed here */
    assert_int_equal(mooncake_get_view(c->client, "k", &options, 0, &view), MOONCAKE_OK);
    mooncake_view_release(view);
    contract_check(c);
}

static void view__of_what_lies_in_two_stores_owns_a_copy(void **state)
{
    const size_t len = 80 * MIB;
    struct contract *c = *state;
    mooncake_view_options options;
    mooncake_view *view = NULL;

    pool_start_store(&c->pool, 1, "64MiB");
    contract_count(c);
    put(c, "large", len, 1, false);
    mooncake_view_options_init(&options);
    options.copy_len_max = 0;
    assert_int_equal(mooncake_get_view(c->client, "large", &options, 0, &view), MOONCAKE_ENOTSUP);
    view = look(c->client, "large");
    assert_false(mooncake_view_in_place(view));
    assert_shows(view, "large", 1, len);
    mooncake_view_release(view);
    contract_check(c);
}

static void view__goes_to_the_copy_that_is_whole(void **state)
{
    struct contract *c = *state;
    mooncake_put_options options;

    pool_start_store(&c->pool, 1, "64MiB");
    contract_count(c);
    mooncake_put_options_init(&options);
    options.replicas = 2;
    options.all_replicas = true;
    for (unsigned i = 0; i < 4; i++) { /* the copies take turns */
        mooncake_view *spoilt, *whole;
        char key[32];

        (void)snprintf(key, sizeof(key), "k-%u", i);
        assert_int_equal(value_put(c->client, key, LEN, i, &options, DEADLINE_MS), MOONCAKE_OK);
        spoilt = look_in_place(c->client, key);
        ((uint8_t *)(uintptr_t)mooncake_view_data(spoilt))[LEN / 2] ^= 1;
        whole = look_in_place(c->client, key);
        assert_shows(whole, key, i, LEN);
        if (mooncake_view_data(whole) == mooncake_view_data(spoilt)) {
            fail_msg("a damaged copy was shown");
        }
        mooncake_view_release(whole);
        mooncake_view_release(spoilt);
    }
    contract_check(c);
}

static void view__batch_judges_each_key(void **state)
{
    const char *const keys[] = {"a", "none", "", "b", "a"};
    struct contract *c = *state;
    mooncake_err results[5];
    mooncake_view *views[5];

    put(c, "a", LEN, 1, false);
    put(c, "b", 5000, 2, false);
    assert_int_equal(mooncake_get_views(c->client, keys, 5, NULL, 0, results, views), MOONCAKE_OK);
    assert_int_equal(results[1], MOONCAKE_ENOENT);
    assert_int_equal(results[2], MOONCAKE_EBADKEY);
    assert_null(views[1]);
    assert_null(views[2]);
    assert_shows(views[0], "a", 1, LEN);
    assert_shows(views[3], "b", 2, 5000);
    assert_ptr_equal(mooncake_view_data(views[0]), mooncake_view_data(views[4]));
    for (unsigned i = 0; i < 5; i++) {
        mooncake_view_release(views[i]);
    }
    contract_check(c);
}

/* ---- the lease ----------------------------------------------------------------------------- */

static bool can_be_removed(void *arg)
{
    mooncake_err err = mooncake_remove(arg, "k", false, DEADLINE_MS);

    assert_true(err == MOONCAKE_OK || err == MOONCAKE_ELEASED);
    return err == MOONCAKE_OK;
}

static void view__holds_its_lease_while_it_is_open(void **state)
{
    struct contract *c = *state;
    mooncake_view *view;
    uint64_t end_ms;

    put(c, "k", LEN, 1, false);
    view = look_in_place(c->client, "k");
    end_ms = now_ms() + LONG_MS;
    do {
        assert_int_equal(mooncake_remove(c->client, "k", false, DEADLINE_MS), MOONCAKE_ELEASED);
        assert_int_equal(mooncake_view_check(view), MOONCAKE_OK);
    } while (now_ms() < end_ms);
    assert_shows(view, "k", 1, LEN);
    mooncake_view_release(view);
    assert_true(wait_until(can_be_removed, c->client, (LEASE_MS + SLACK_MS) / 1000));
    contract_check(c);
}

/* Frozen for so long, the master leaves one question without an answer (it is asked when half of a
 * lease has passed, and waited for for a quarter), and wakes while there is time for another. */
#define FREEZE_MS (LEASE_MS * 4 / 5)

static bool outlives_a_lost_question(struct contract *c)
{
    mooncake_view *view = look_in_place(c->client, "k");
    uint64_t const start_ms = now_ms();
    bool lives = true;

    daemon_freeze(&c->pool.master);
    while (now_ms() < start_ms + FREEZE_MS) {
    }
    daemon_wake(&c->pool.master);
    while (lives && now_ms() < start_ms + 2 * LEASE_MS) {
        lives = mooncake_view_check(view) == MOONCAKE_OK;
    }
    mooncake_view_release(view);
    return lives;
}

static void view__outlives_a_question_that_gets_no_answer(void **state)
{
    struct contract *c = *state;
    bool lives = false;

    put(c, "k", LEN, 1, false);
    for (unsigned i = 0; i < 8 && !lives; i++) { /* a machine may be too slow now and then */
        lives = outlives_a_lost_question(c);
    }
    assert_true(lives);
    contract_check(c);
}

static void view__stays_in_a_full_pool(void **state)
{
    struct contract *c = *state;
    mooncake_view *views[8];
    char key[32];

    for (unsigned i = 0; i < 8; i++) {
        (void)snprintf(key, sizeof(key), "k-%u", i);
        put(c, key, LEN, i, false);
        views[i] = look_in_place(c->client, key);
    }
    press(c, LONG_MS);
    for (unsigned i = 0; i < 8; i++) {
        (void)snprintf(key, sizeof(key), "k-%u", i);
        assert_int_equal(mooncake_view_check(views[i]), MOONCAKE_OK);
        assert_shows(views[i], key, i, LEN);
        mooncake_view_release(views[i]);
    }
    contract_check(c);
}

static void view__keeps_its_bytes_when_the_key_is_removed_by_force(void **state)
{
    struct contract *c = *state;
    mooncake_view *first, *second;
    bool exists = true;

    put(c, "k", LEN, 1, false);
    put(c, "l", LEN, 2, false);
    first = look_in_place(c->client, "k");
    second = look_in_place(c->client, "l");
    assert_int_equal(mooncake_remove(c->client, "k", true, DEADLINE_MS), MOONCAKE_OK);
    assert_int_equal(mooncake_remove_all(c->client, true, DEADLINE_MS, NULL, NULL), MOONCAKE_OK);
    assert_int_equal(mooncake_exist(c->client, "k", DEADLINE_MS, &exists), MOONCAKE_OK);
    assert_false(exists);
    assert_int_equal(value_get(c->client, "l", LEN, 2, DEADLINE_MS), MOONCAKE_ENOENT);
    press(c, LONG_MS);
    assert_shows(first, "k", 1, LEN);
    assert_shows(second, "l", 2, LEN);
    assert_int_equal(mooncake_view_check(first), MOONCAKE_OK);
    assert_int_equal(mooncake_view_check(second), MOONCAKE_OK);
    mooncake_view_release(first);
    mooncake_view_release(second);
    contract_check(c); /* the space comes back */
}

static void view__keeps_the_old_value_when_the_key_is_replaced(void **state)
{
    struct contract *c = *state;
    mooncake_view *old, *new;

    put(c, "k", LEN, 1, false);
    old = look_in_place(c->client, "k");
    put(c, "k", LEN, 2, true);
    new = look_in_place(c->client, "k");
    assert_shows(new, "k", 2, LEN);
    press(c, LONG_MS);
    assert_shows(old, "k", 1, LEN);
    assert_shows(new, "k", 2, LEN);
    assert_int_equal(mooncake_view_check(old), MOONCAKE_OK);
    assert_int_equal(mooncake_view_check(new), MOONCAKE_OK);
    mooncake_view_release(old);
    mooncake_view_release(new);
    contract_check(c);
}

/* ---- ends ---------------------------------------------------------------------------------- */

static bool is_unsure(void *arg)
{
    mooncake_err err = mooncake_view_check(arg);

    assert_true(err == MOONCAKE_OK || err == MOONCAKE_ELEASEEXPIRED);
    return err != MOONCAKE_OK;
}

static bool has_no_segment(void *arg)
{
    mooncake_pool_status status;

    contract_status(arg, &status);
    return status.segments == 0;
}

static void view__survives_its_store_and_tells(void **state)
{
    struct contract *c = *state;
    mooncake_view *view;

    put(c, "k", LEN, 1, false);
    view = look_in_place(c->client, "k");
    daemon_kill(&c->pool.stores[0]);
    assert_true(wait_until(is_unsure, view, SLACK_MS / 1000));
    assert_shows(view, "k", 1, LEN);
    assert_true(wait_until(has_no_segment, c, (TTL_MS + SLACK_MS) / 1000));
    pool_start_store(&c->pool, 0, "64MiB"); /* in its place, with memory of its own */
    contract_count(c);
    press(c, 0);
    assert_shows(view, "k", 1, LEN);
    mooncake_view_release(view);
    contract_check(c);
}

static void view__tells_when_the_master_began_a_new_life(void **state)
{
    struct contract *c = *state;
    mooncake_view *view;
    uint16_t port = c->pool.master.port;

    put(c, "k", LEN, 1, false);
    view = look_in_place(c->client, "k");
    daemon_kill(&c->pool.master);
    pool_start_master(&c->pool, port);
    assert_true(wait_until(is_unsure, view, (2 * LEASE_MS + SLACK_MS) / 1000));
    mooncake_view_release(view);
}

static void view__may_be_released_after_its_client_is_closed(void **state)
{
    struct contract *c = *state;
    mooncake_client *other = contract_open(c, "auto", DEADLINE_MS);
    mooncake_view *view;

    put(c, "k", LEN, 1, false);
    view = look_in_place(other, "k");
    mooncake_client_close(other);
    assert_shows(view, "k", 1, LEN);
    mooncake_view_release(view);
    contract_check(c);
}

static void view__of_the_own_segment_outlives_it(void **state)
{
    struct contract *c = *state;
    const char *preferred[1];
    mooncake_client_options options;
    mooncake_put_options put_options;
    mooncake_client *lender = NULL;
    mooncake_view *view;

    mooncake_client_options_init(&options);
    options.master = c->pool.master_address;
    options.segment_size = 32 * MIB;
    options.transport = "local,tcp";
    assert_int_equal(mooncake_client_open(&options, &lender), MOONCAKE_OK);
    mooncake_put_options_init(&put_options);
    preferred[0] = mooncake_client_hostname(lender);
    put_options.preferred_segments = preferred;
    put_options.preferred_segments_count = 1;
    assert_int_equal(value_put(lender, "own", LEN, 1, &put_options, DEADLINE_MS), MOONCAKE_OK);
    view = look_in_place(lender, "own");
    assert_shows(view, "own", 1, LEN);
    assert_int_equal(mooncake_view_check(view), MOONCAKE_OK);
    mooncake_client_close(lender); /* waits for no view */
    assert_int_equal(mooncake_view_check(view), MOONCAKE_ELEASEEXPIRED);
    assert_shows(view, "own", 1, LEN);
    mooncake_view_release(view);
    contract_check(c);
}

static void *release(void *arg)
{
    mooncake_view_release(arg);
    return NULL;
}

static void view__is_released_from_any_thread_and_in_a_forked_child(void **state)
{
    struct contract *c = *state;
    mooncake_view *view;
    pthread_t thread;
    int status = -1;
    pid_t child;

    put(c, "k", LEN, 1, false);
    view = look_in_place(c->client, "k");
    child = fork();
    if (child == 0) {
        mooncake_err err = mooncake_view_check(view);

        mooncake_view_release(view);
        mooncake_client_close(c->client);
        _exit(err == MOONCAKE_EUNAVAILABLE ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_shows(view, "k", 1, LEN);
    assert_int_equal(mooncake_view_check(view), MOONCAKE_OK);
    assert_int_equal(pthread_create(&thread, NULL, release, view), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    contract_check(c);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, contract_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(view__shows_the_stores_own_memory),
        CASE(view__over_tcp_owns_a_copy_within_its_bound),
        CASE(view__of_what_lies_in_two_stores_owns_a_copy),
        CASE(view__goes_to_the_copy_that_is_whole),
        CASE(view__batch_judges_each_key),
        CASE(view__holds_its_lease_while_it_is_open),
        CASE(view__outlives_a_question_that_gets_no_answer),
        CASE(view__stays_in_a_full_pool),
        CASE(view__keeps_its_bytes_when_the_key_is_removed_by_force),
        CASE(view__keeps_the_old_value_when_the_key_is_replaced),
        CASE(view__survives_its_store_and_tells),
        CASE(view__tells_when_the_master_began_a_new_life),
        CASE(view__may_be_released_after_its_client_is_closed),
        CASE(view__of_the_own_segment_outlives_it),
        CASE(view__is_released_from_any_thread_and_in_a_forked_child),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
