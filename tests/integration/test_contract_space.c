/* The contract of space: what is free can be used, and eviction finds it in the right place. */
#include "integration/contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEM_LEN ((size_t)64 << 10)
#define BATCH_MAX 500u

static int setup(void **state)
{
    return contract_setup(state);
}

/* Two stores of 32 MiB. */
static int setup_small(void **state)
{
    struct contract *c;

    if (contract_setup(state) != 0) {
        return -1;
    }
    c = *state;
    pool_start_store(&c->pool, 0, "32MiB");
    pool_start_store(&c->pool, 1, "32MiB");
    contract_begin(c);
    return 0;
}

/* ---- many keys --------------------------------------------------------------------------- */

struct items {
    char names[BATCH_MAX][48];
    const char *keys[BATCH_MAX];
    const void *data[BATCH_MAX];
    uint64_t lens[BATCH_MAX];
    mooncake_err results[BATCH_MAX];
};

/* Puts keys [from, from + count) named by @p format, all of the same bytes; returns how many were
 * stored. Any error but ENOSPACE fails the case. */
static unsigned put_items(mooncake_client *client, const char *prefix, unsigned from,
                          unsigned count, size_t len, const mooncake_put_options *options)
{
    static struct items items;
    uint8_t *data = calloc(1, len + 1);
    unsigned stored = 0;

    assert_non_null(data);
    assert_true(count <= BATCH_MAX);
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(items.names[i], sizeof(items.names[i]), "%s%u", prefix, from + i);
        items.keys[i] = items.names[i];
        items.data[i] = data;
        items.lens[i] = len;
    }
    assert_int_equal(mooncake_batch_put(client, items.keys, items.data, items.lens, count, options,
                                        20000, items.results),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < count; i++) {
        stored += items.results[i] == MOONCAKE_OK ? 1 : 0;
        if (items.results[i] != MOONCAKE_OK && items.results[i] != MOONCAKE_ENOSPACE) {
            fail_msg("%s: %s", items.names[i], mooncake_err_name(items.results[i]));
        }
    }
    free(data);
    return stored;
}

/* How many of keys [from, from + count) are there; grants no leases. */
static unsigned count_items(mooncake_client *client, const char *prefix, unsigned from,
                            unsigned count)
{
    static struct items items;
    static uint64_t lens[BATCH_MAX];
    unsigned there = 0;

    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(items.names[i], sizeof(items.names[i]), "%s%u", prefix, from + i);
        items.keys[i] = items.names[i];
    }
    assert_int_equal(mooncake_batch_size(client, items.keys, count, 10000, items.results, lens),
                     MOONCAKE_OK);
    for (unsigned i = 0; i < count; i++) {
        there += items.results[i] == MOONCAKE_OK ? 1 : 0;
    }
    return there;
}

/* ---- more than fits ---------------------------------------------------------------------- */

#define FLOOD 3072u /* three times the pool */
#define FLOOD_WRITERS 3u

struct flooder {
    pthread_t thread;
    mooncake_client *client;
    atomic_uint *next;
    unsigned failed;
    mooncake_err err;
};

static void *flood(void *arg)
{
    struct flooder *f = arg;
    uint8_t *data = malloc(ITEM_LEN);
    unsigned i;

    while (data != NULL && (i = atomic_fetch_add(f->next, 1)) < FLOOD) {
        mooncake_err err;
        char key[32];

        (void)snprintf(key, sizeof(key), "flood-%u", i);
        value_make(data, ITEM_LEN, key, 1);
        err = mooncake_put(f->client, key, data, ITEM_LEN, NULL, 10000);
        if (err != MOONCAKE_OK) {
            f->failed++;
            f->err = err;
        }
    }
    free(data);
    return NULL;
}

static void writes__of_three_times_the_pool_succeed_and_the_last_fifth_is_there(void **state)
{
    struct contract *c = *state;
    struct flooder flooders[FLOOD_WRITERS];
    mooncake_pool_status status;
    atomic_uint next;
    unsigned failed = 0, lost = 0;
    char key[32];

    atomic_init(&next, 0);
    for (unsigned i = 0; i < FLOOD_WRITERS; i++) {
        flooders[i] = (struct flooder){.next = &next, .client = contract_open(c, NULL, 10000)};
        assert_int_equal(pthread_create(&flooders[i].thread, NULL, flood, &flooders[i]), 0);
    }
    do {
        contract_status(c, &status);
        assert_true(status.used <= status.capacity);
    } while (atomic_load(&next) < FLOOD);
    for (unsigned i = 0; i < FLOOD_WRITERS; i++) {
        assert_int_equal(pthread_join(flooders[i].thread, NULL), 0);
        mooncake_client_close(flooders[i].client);
        failed += flooders[i].failed;
    }
    if (failed > FLOOD / 1000) {
        fail_msg("%u of %u puts failed", failed, FLOOD);
    }
    /* A fifth of the pool: what was written last is there, what was written first has gone. */
    for (unsigned i = FLOOD - FLOOD / 15; i < FLOOD; i++) {
        (void)snprintf(key, sizeof(key), "flood-%u", i);
        lost += value_get(c->client, key, ITEM_LEN, 1, 5000) == MOONCAKE_OK ? 0 : 1;
    }
    assert_true(lost <= failed);
    assert_int_equal(count_items(c->client, "flood-", 0, 500), 0);
    contract_check(c);
}

/* ---- polling ----------------------------------------------------------------------------- */

struct poller {
    pthread_t thread;
    mooncake_client *client;
    atomic_bool stop;
    mooncake_err err;
    atomic_uint rounds;
};

#define POLLED 900u

static void *poll_all(void *arg)
{
    static char names[POLLED][32];
    static const char *keys[POLLED];
    static mooncake_err results[POLLED];
    struct poller *p = arg;

    for (unsigned i = 0; i < POLLED; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "polled-%u", i);
        keys[i] = names[i];
    }
    while (p->err == MOONCAKE_OK && !atomic_load(&p->stop)) {
        p->err = mooncake_batch_exist(p->client, keys, POLLED, 10000, results);
        (void)atomic_fetch_add(&p->rounds, 1);
    }
    return NULL;
}

static bool has_polled(void *arg)
{
    struct poller *p = arg;

    return atomic_load(&p->rounds) > 1;
}

struct pressure {
    struct contract *c;
    unsigned stored;
};

/* As much again as the pool holds went in; none of it makes room for the rest. */
static bool has_turned_over(void *arg)
{
    struct pressure *p = arg;
    mooncake_put_options hard;

    mooncake_put_options_init(&hard);
    hard.hard_pin = true;
    p->stored += put_items(p->c->client, "new-", p->stored, 1, ITEM_LEN, &hard);
    return p->stored >= POLLED;
}

static void polling__exist_on_everything_does_not_freeze_eviction(void **state)
{
    struct contract *c = *state;
    static struct poller poller;
    struct pressure pressure = {.c = c};
    bool turned;

    memset(&poller, 0, sizeof(poller));
    poller.client = contract_open(c, NULL, 10000);
    assert_int_equal(put_items(c->client, "polled-", 0, 450, ITEM_LEN, NULL), 450);
    assert_int_equal(put_items(c->client, "polled-", 450, 450, ITEM_LEN, NULL), 450);
    assert_int_equal(pthread_create(&poller.thread, NULL, poll_all, &poller), 0);
    assert_true(wait_until(has_polled, &poller, 60)); /* now all of them have a lease */
    /* Three leases at most; from then on space is found in time. */
    turned = wait_until(has_turned_over, &pressure, (3 * LEASE_MS + 2 * SLACK_MS) / 1000);
    atomic_store(&poller.stop, true);
    assert_int_equal(pthread_join(poller.thread, NULL), 0);
    mooncake_client_close(poller.client);
    assert_int_equal(poller.err, MOONCAKE_OK);
    if (!turned) {
        fail_msg("only %u were stored", pressure.stored);
    }
    contract_check(c);
}

/* ---- freed space ------------------------------------------------------------------------- */

static uint64_t largest_free(struct contract *c)
{
    mooncake_space_status space = {.struct_size = sizeof(space)};

    assert_int_equal(mooncake_admin_space(c->client, false, 5000, &space, NULL, 0), MOONCAKE_OK);
    return space.largest_free;
}

static void space__that_was_freed_fits_any_size_again(void **state)
{
    const unsigned keys = 28000; /* of 4 KB: 110 MiB of 136 */
    struct contract *c = *state;
    mooncake_put_options pinned; /* nothing may be evicted to make room */
    uint64_t largest;

    pool_start_store(&c->pool, 0, "136MiB");
    contract_begin(c);
    mooncake_put_options_init(&pinned);
    pinned.hard_pin = true;
    largest = largest_free(c);
    for (unsigned cycle = 0; cycle < 10; cycle++) {
        unsigned small = 0;

        for (unsigned i = 0; i < keys; i += BATCH_MAX) {
            small += put_items(c->client, "small-", i, BATCH_MAX, 4096, &pinned);
        }
        assert_int_equal(small, keys);
        assert_int_equal(mooncake_remove_all(c->client, true, 20000, NULL, NULL), MOONCAKE_OK);
        assert_int_equal(largest_free(c), largest);
        assert_int_equal(put_items(c->client, "large-", 0, 3, 64 * MIB, &pinned), 2);
        assert_int_equal(mooncake_remove_all(c->client, true, 20000, NULL, NULL), MOONCAKE_OK);
        assert_int_equal(largest_free(c), largest);
    }
    contract_check(c);
}

static void value__fits_wherever_so_many_bytes_are_free(void **state)
{
    struct contract *c = *state;
    char key[32];

    /* 1 MiB values in both stores; every second one goes: no hole is larger than about 2 MiB. */
    for (unsigned i = 0; i < 48; i++) {
        (void)snprintf(key, sizeof(key), "hole-%u", i);
        assert_int_equal(value_put(c->client, key, MIB, 1, NULL, 5000), MOONCAKE_OK);
    }
    for (unsigned i = 0; i < 48; i += 2) {
        (void)snprintf(key, sizeof(key), "hole-%u", i);
        assert_int_equal(mooncake_remove(c->client, key, true, 5000), MOONCAKE_OK);
    }
    assert_true(largest_free(c) < 16 * MIB);
    assert_int_equal(value_put(c->client, "split", 24 * MIB, 7, NULL, 5000), MOONCAKE_OK);
    assert_int_equal(value_get(c->client, "split", 24 * MIB, 7, 5000), MOONCAKE_OK);
    for (unsigned i = 1; i < 48; i += 2) { /* and nothing was evicted for it */
        (void)snprintf(key, sizeof(key), "hole-%u", i);
        assert_int_equal(value_get(c->client, key, MIB, 1, 5000), MOONCAKE_OK);
    }
    contract_check(c);
}

/* ---- segments ---------------------------------------------------------------------------- */

struct fillings {
    uint16_t port; /* of the store that is looked for */
    double least, most;
    uint64_t used, used_there;
};

static void see_filling(void *arg, const mooncake_segment_status *segment)
{
    struct fillings *f = arg;
    double ratio = (double)segment->used / (double)segment->len;
    const char *port = strrchr(segment->name, ':');

    f->least = ratio < f->least ? ratio : f->least;
    f->most = ratio > f->most ? ratio : f->most;
    f->used += segment->used;
    if (port != NULL && (uint16_t)strtoul(port + 1, NULL, 10) == f->port) {
        f->used_there += segment->used;
    }
}

static struct fillings look(struct contract *c, uint16_t port)
{
    struct fillings f = {.port = port, .least = 1};

    assert_int_equal(mooncake_admin_segments(c->client, 5000, see_filling, &f), MOONCAKE_OK);
    return f;
}

static void segments__of_unequal_size_fill_to_the_same_ratio(void **state)
{
    static const char *const sizes[] = {"64MiB", "128MiB", "512MiB"};
    struct contract *c = *state;

    for (unsigned i = 0; i < 3; i++) {
        pool_start_store(&c->pool, i, sizes[i]);
    }
    contract_begin(c);
    for (unsigned i = 0; i < 600; i += 50) {
        struct fillings f;

        assert_int_equal(put_items(c->client, "even-", i, 50, MIB, NULL), 50);
        f = look(c, 0);
        if (i >= 100 && f.most - f.least > 0.15) {
            fail_msg("filled to %.2f and %.2f", f.least, f.most);
        }
    }
    contract_check(c);
}

static void newcomer__gets_more_than_its_share_and_less_than_nine_tenths(void **state)
{
    struct contract *c = *state;
    struct fillings before, after;

    assert_int_equal(put_items(c->client, "old-", 0, 500, ITEM_LEN, NULL), 500);
    pool_start_store(&c->pool, 2, "32MiB");
    contract_count(c);
    before = look(c, c->pool.stores[2].port);
    assert_int_equal(before.used_there, 0);
    for (unsigned i = 0; i < 3; i++) { /* fewer than any second would see */
        double share;

        assert_int_equal(put_items(c->client, "more-", i * 100, 100, ITEM_LEN, NULL), 100);
        after = look(c, c->pool.stores[2].port);
        share = (double)(after.used_there - before.used_there) / (double)(after.used - before.used);
        if (share <= 1.0 / 3 || share >= 0.9) {
            fail_msg("the newcomer's share is %.2f", share);
        }
        before = after;
    }
    contract_check(c);
}

/* ---- pins -------------------------------------------------------------------------------- */

static void pins__hold_under_pressure_the_soft_ones_until_nothing_else_is_left(void **state)
{
    struct contract *c = *state;
    mooncake_put_options hard, soft;

    mooncake_put_options_init(&hard);
    hard.hard_pin = true;
    mooncake_put_options_init(&soft);
    soft.soft_pin = true;
    assert_int_equal(put_items(c->client, "hard-", 0, 200, ITEM_LEN, &hard), 200);
    assert_int_equal(put_items(c->client, "soft-", 0, 200, ITEM_LEN, &soft), 200);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(put_items(c->client, "plain-", i * 400, 400, ITEM_LEN, NULL), 400);
    }
    assert_int_equal(count_items(c->client, "hard-", 0, 200), 200);
    assert_int_equal(count_items(c->client, "soft-", 0, 200), 200);
    contract_check_books(c);
    /* Hard pins to the brim: the plain ones go, then the soft ones, then a put is refused. */
    for (unsigned i = 200; i < 1100; i += 50) {
        (void)put_items(c->client, "hard-", i, 50, ITEM_LEN, &hard);
    }
    assert_int_equal(put_items(c->client, "one-more-", 0, 20, ITEM_LEN, &hard), 0);
    assert_int_equal(count_items(c->client, "soft-", 0, 200), 0);
    assert_int_equal(count_items(c->client, "hard-", 0, 500), 500);
    contract_check_books(c);
    assert_int_equal(mooncake_remove_all(c->client, true, 5000, NULL, NULL), MOONCAKE_OK);
    contract_check(c);
}

int main(void)
{
#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, contract_teardown)
    const struct CMUnitTest tests[] = {
        TEST(writes__of_three_times_the_pool_succeed_and_the_last_fifth_is_there, setup_small),
        TEST(polling__exist_on_everything_does_not_freeze_eviction, setup_small),
        TEST(space__that_was_freed_fits_any_size_again, setup),
        TEST(value__fits_wherever_so_many_bytes_are_free, setup_small),
        TEST(segments__of_unequal_size_fill_to_the_same_ratio, setup),
        TEST(newcomer__gets_more_than_its_share_and_less_than_nine_tenths, setup_small),
        TEST(pins__hold_under_pressure_the_soft_ones_until_nothing_else_is_left, setup_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
