/* The contract of damage and of what stays behind: bytes that are wrong are found, passed over and
 * counted, and a process keeps nothing of stores when its last client has been closed. */
#include "integration/contract.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS 12u
#define LEN ((size_t)200000)

static int setup(void **state)
{
    struct contract *c;

    if (contract_setup(state) != 0) {
        return -1;
    }
    c = *state;
    pool_start_store(&c->pool, 0, "64MiB");
    pool_start_store(&c->pool, 1, "64MiB");
    contract_begin(c);
    return 0;
}

static void name_key(char key[32], unsigned i)
{
    (void)snprintf(key, 32, "key-%u", i);
}

/* ---- damage ------------------------------------------------------------------------------ */

struct places {
    uint16_t ports[2];
    uint64_t offsets[2];
    size_t count;
};

static void see_places(void *arg, const mooncake_key_status *status)
{
    struct places *places = arg;

    places->count = status->extents_count < 2 ? status->extents_count : 2;
    for (size_t i = 0; i < places->count; i++) {
        const char *port = strrchr(status->extents[i].segment, ':');

        assert_non_null(port);
        places->ports[i] = (uint16_t)strtoul(port + 1, NULL, 10);
        places->offsets[i] = status->extents[i].offset;
    }
}

/* Turns one byte in the memory that a store lends. */
static void damage(const struct daemon *store, uint64_t offset)
{
    char path[80], target[80];
    unsigned damaged = 0;

    for (int fd = 0; fd < 200; fd++) {
        ssize_t len;
        uint8_t byte;
        int memory;

        (void)snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)store->pid, fd);
        len = readlink(path, target, sizeof(target) - 1);
        if (len <= 0 || strncmp(target, "/memfd:", 7) != 0) {
            continue;
        }
        memory = open(path, O_RDWR | O_CLOEXEC);
        assert_true(memory >= 0);
        if (pread(memory, &byte, 1, (off_t)offset) == 1) {
            byte ^= 0x10;
            assert_int_equal(pwrite(memory, &byte, 1, (off_t)offset), 1);
            damaged++;
        }
        (void)close(memory);
    }
    assert_int_equal(damaged, 1);
}

static void damage_copy(struct contract *c, const struct places *places, size_t copy, uint64_t at)
{
    for (unsigned i = 0; i < 2; i++) {
        if (c->pool.stores[i].port == places->ports[copy]) {
            damage(&c->pool.stores[i], places->offsets[copy] + at);
            return;
        }
    }
    fail_msg("no store has port %u", (unsigned)places->ports[copy]);
}

static void damaged__copy_is_passed_over_and_never_returned(void **state)
{
    static const uint64_t at[] = {0, 20, 63, 64, 5000, LEN + 63}; /* of header and payload */
    struct contract *c = *state;

    for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        struct places places = {.count = 0};
        mooncake_put_options options;
        mooncake_err err;
        char key[32];

        name_key(key, i);
        mooncake_put_options_init(&options);
        options.replicas = 2;
        options.all_replicas = true;
        assert_int_equal(value_put(c->client, key, LEN, i, &options, 5000), MOONCAKE_OK);
        assert_int_equal(mooncake_admin_key(c->client, key, 5000, see_places, &places),
                         MOONCAKE_OK);
        assert_int_equal(places.count, 2);
        damage_copy(c, &places, 0, at[i]);
        for (unsigned k = 0; k < 4; k++) {
            assert_int_equal(value_get(c->client, key, LEN, i, 5000), MOONCAKE_OK);
        }
        damage_copy(c, &places, 1, at[i]);
        err = value_get(c->client, key, LEN, i, 5000);
        assert_true(err == MOONCAKE_ECHECKSUM || err == MOONCAKE_ENOENT);
    }
    contract_check(c);
}

static uint64_t damaged_replicas(struct contract *c)
{
    static char page[256 << 10];

    contract_metrics(c, page, sizeof(page));
    return metric_of(page, "damaged_replicas_total");
}

struct reads {
    struct contract *c;
    mooncake_client *client;
    uint64_t counted; /* what the master's counter is to reach */
    uint8_t *room;
    mooncake_err results[KEYS];
    bool wrong;
};

/* A batch of all keys; what is OK must be right. */
static void read_batch(struct reads *r)
{
    char names[KEYS][32];
    const char *keys[KEYS];
    void *into[KEYS];
    uint64_t caps[KEYS], lens[KEYS];

    for (unsigned i = 0; i < KEYS; i++) {
        name_key(names[i], i);
        keys[i] = names[i];
        into[i] = r->room + i * LEN;
        caps[i] = LEN;
    }
    memset(r->room, 0, KEYS * LEN);
    assert_int_equal(
        mooncake_batch_get_into(r->client, keys, into, caps, KEYS, 5000, r->results, lens),
        MOONCAKE_OK);
    for (unsigned i = 0; i < KEYS; i++) {
        if (r->results[i] == MOONCAKE_OK) {
            assert_int_equal(lens[i], LEN);
            assert_int_equal(value_judge(into[i], LEN, keys[i], i), VALUE_RIGHT);
        }
    }
}

/* Copies are drawn at random, so sooner or later each is read. */
static bool read_until_counted(void *arg)
{
    struct reads *r = arg;

    read_batch(r);
    for (unsigned i = 0; i < KEYS; i++) {
        r->wrong = r->wrong || r->results[i] != MOONCAKE_OK;
    }
    return r->wrong || damaged_replicas(r->c) >= r->counted;
}

static bool is_counted(void *arg)
{
    const struct reads *r = arg;

    return damaged_replicas(r->c) >= r->counted;
}

static void put_whole(struct contract *c, unsigned replicas)
{
    mooncake_put_options options;
    char key[32];

    mooncake_put_options_init(&options);
    options.replicas = replicas;
    options.all_replicas = true;
    for (unsigned i = 0; i < KEYS; i++) {
        name_key(key, i);
        assert_int_equal(value_put(c->client, key, LEN, i, &options, 5000), MOONCAKE_OK);
    }
}

static void put_and_damage(struct contract *c, unsigned replicas)
{
    char key[32];

    put_whole(c, replicas);
    for (unsigned i = 0; i < KEYS; i++) {
        struct places places = {.count = 0};

        name_key(key, i);
        assert_int_equal(mooncake_admin_key(c->client, key, 5000, see_places, &places),
                         MOONCAKE_OK);
        assert_int_equal(places.count, replicas);
        damage_copy(c, &places, i % replicas, 64 + i * 1000);
    }
}

static void damaged__copies_in_a_batch_are_judged_alone_and_each_is_counted(void **state)
{
    static const char *const transports[2] = {"tcp", "shm,tcp"};
    struct contract *c = *state;
    struct reads reads = {.c = c, .room = malloc(KEYS * LEN)};
    mooncake_client_stats stats = {.struct_size = sizeof(stats)};
    uint64_t before;

    assert_non_null(reads.room);
    for (unsigned i = 0; i < 2; i++) {
        reads.client = contract_open(c, transports[i], 5000);
        before = damaged_replicas(c);
        put_and_damage(c, 2); /* with another copy nobody notices */
        reads.counted = before + KEYS;
        assert_true(wait_until(read_until_counted, &reads, 60));
        assert_false(reads.wrong);
        assert_int_equal(damaged_replicas(c), before + KEYS);
        read_batch(&reads);
        assert_int_equal(reads.results[0], MOONCAKE_OK);
        assert_int_equal(mooncake_remove_all(c->client, true, 5000, NULL, NULL), MOONCAKE_OK);

        put_and_damage(c, 1); /* without, an error, and then a miss */
        reads.counted = before + 2 * KEYS;
        read_batch(&reads);
        for (unsigned k = 0; k < KEYS; k++) {
            assert_int_equal(reads.results[k], MOONCAKE_ECHECKSUM);
        }
        assert_true(wait_until(is_counted, &reads, 60));
        assert_int_equal(damaged_replicas(c), before + 2 * KEYS);
        read_batch(&reads);
        for (unsigned k = 0; k < KEYS; k++) {
            assert_int_equal(reads.results[k], MOONCAKE_ENOENT);
        }
        assert_int_equal(mooncake_client_get_stats(reads.client, &stats), MOONCAKE_OK);
        assert_true(stats.damaged_extents >= 2 * KEYS);
        mooncake_client_close(reads.client);
    }
    free(reads.room);
    contract_check(c);
}

/* ---- the other copy ----------------------------------------------------------------------- */

static uint64_t failovers_told(struct contract *c)
{
    static char page[256 << 10];

    contract_metrics(c, page, sizeof(page));
    return metric_of(page, "read_failover_total");
}

static bool is_failover_told(void *arg)
{
    const struct reads *r = arg;

    return failovers_told(r->c) >= r->counted;
}

/* Until the master has heard of more of them, from the reader's pings. */
static bool read_until_failover_is_told(void *arg)
{
    struct reads *r = arg;

    read_batch(r);
    for (unsigned i = 0; i < KEYS; i++) {
        r->wrong = r->wrong || r->results[i] != MOONCAKE_OK;
    }
    return r->wrong || is_failover_told(r);
}

static void failover__to_another_copy_is_told_by_the_master_that_hears_it_from_pings(void **state)
{
    struct contract *c = *state;
    struct reads reads = {.c = c, .room = malloc(KEYS * LEN)};

    assert_non_null(reads.room);
    reads.client = contract_open(c, "tcp", 5000); /* shared memory outlives its store */
    put_and_damage(c, 2);
    assert_int_equal(failovers_told(c), 0);
    reads.counted = damaged_replicas(c) + KEYS;
    assert_true(wait_until(read_until_counted, &reads, 60)); /* each damaged copy was passed over */
    assert_false(reads.wrong);
    reads.counted = KEYS;
    assert_true(wait_until(is_failover_told, &reads, 60));
    assert_int_equal(mooncake_remove_all(c->client, true, 5000, NULL, NULL), MOONCAKE_OK);

    put_whole(c, 2);
    daemon_kill(&c->pool.stores[0]);
    reads.counted = failovers_told(c) + 1;
    assert_true(wait_until(read_until_failover_is_told, &reads, 60));
    assert_false(reads.wrong);
    mooncake_client_close(reads.client);
    free(reads.room);
    pool_start_store(&c->pool, 0, "64MiB");
    contract_count(c);
    contract_check(c);
}

/* ---- what only seems damaged -------------------------------------------------------------- */

#define SHARED_LEN ((size_t)3 << 19) /* over TCP in parts, over shm worth several threads */

static mooncake_client *open_busy(struct contract *c, const char *transport)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;

    mooncake_client_options_init(&options);
    options.master = c->pool.master_address;
    options.transport = transport;
    options.tcp_connections = 4;
    options.copy_threads = 2;
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_OK);
    return client;
}

/* Read all keys into one buffer, as no program should, until they got in each other's way. Returns
 * how often they did. */
static uint64_t read_into_one_buffer(mooncake_client *client, uint8_t *room, unsigned rounds)
{
    mooncake_client_stats stats = {.struct_size = sizeof(stats)};
    char names[KEYS][32];
    const char *keys[KEYS];
    void *into[KEYS];
    uint64_t caps[KEYS];
    mooncake_err results[KEYS];

    for (unsigned i = 0; i < KEYS; i++) {
        name_key(names[i], i);
        keys[i] = names[i];
        into[i] = room;
        caps[i] = SHARED_LEN;
    }
    for (unsigned round = 0; round < rounds && stats.reads_disturbed == 0; round++) {
        assert_int_equal(
            mooncake_batch_get_into(client, keys, into, caps, KEYS, 10000, results, NULL),
            MOONCAKE_OK);
        for (unsigned i = 0; i < KEYS; i++) {
            assert_int_equal(results[i], MOONCAKE_OK);
        }
        assert_int_equal(mooncake_client_get_stats(client, &stats), MOONCAKE_OK);
    }
    assert_int_equal(stats.damaged_extents, 0);
    return stats.reads_disturbed;
}

/* Returns how often reads got in each other's way. No copy may be lost by it. */
static uint64_t overlap(struct contract *c, const char *transport, unsigned rounds)
{
    uint8_t *room = malloc(SHARED_LEN);
    mooncake_client *client;
    uint64_t disturbed;
    char key[32];

    assert_non_null(room);
    for (unsigned i = 0; i < KEYS; i++) {
        name_key(key, i);
        assert_int_equal(value_put(c->client, key, SHARED_LEN, i, NULL, 5000), MOONCAKE_OK);
    }
    client = open_busy(c, transport);
    disturbed = read_into_one_buffer(client, room, rounds);
    mooncake_client_close(client);
    for (unsigned i = 0; i < KEYS; i++) {
        name_key(key, i);
        assert_int_equal(value_get(c->client, key, SHARED_LEN, i, 5000), MOONCAKE_OK);
    }
    assert_int_equal(damaged_replicas(c), 0);
    free(room);
    contract_check(c);
    return disturbed;
}

static void buffers__that_overlap_over_tcp_cost_nobody_a_copy(void **state)
{
    assert_true(overlap(*state, "tcp", 1000) > 0); /* parts of several values land by turns */
}

static void buffers__that_overlap_over_shm_cost_nobody_a_copy(void **state)
{
#if defined(__SANITIZE_THREAD__)
    (void)state;
    skip(); /* threads that write one buffer race: that is what is tried, and would be told */
#else
    (void)overlap(*state, "shm", 20); /* a thread hashes what it copies at once: may see nothing */
#endif
}

/* ---- what stays behind ------------------------------------------------------------------- */

static unsigned count_mapped_segments(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    char line[400];
    unsigned count = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        count += strstr(line, "/memfd:") != NULL ? 1 : 0;
    }
    (void)fclose(file);
    return count;
}

static void client__that_is_closed_last_leaves_no_descriptor_and_no_mapping(void **state)
{
    struct contract *c = *state;
    unsigned before;

    mooncake_client_close(c->client);
    c->client = NULL;
    before = count_descriptors();
    assert_int_equal(count_mapped_segments(), 0);
    for (unsigned i = 0; i < 3; i++) {
        mooncake_client *other = contract_open(c, "shm,tcp", 5000);

        c->client = contract_open(c, "shm,tcp", 5000);
        contract_count(c); /* uses each store */
        mooncake_client_close(other);
        assert_int_equal(count_mapped_segments(), 2);
        contract_count(c); /* what it shared with the other is still there */
        mooncake_client_close(c->client);
        c->client = NULL;
        assert_int_equal(count_mapped_segments(), 0);
        assert_int_equal(count_descriptors(), before);
    }
    contract_begin(c);
    contract_check(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, contract_teardown)
    const struct CMUnitTest tests[] = {
        TEST(damaged__copy_is_passed_over_and_never_returned),
        TEST(damaged__copies_in_a_batch_are_judged_alone_and_each_is_counted),
        TEST(failover__to_another_copy_is_told_by_the_master_that_hears_it_from_pings),
        TEST(buffers__that_overlap_over_tcp_cost_nobody_a_copy),
        TEST(buffers__that_overlap_over_shm_cost_nobody_a_copy),
        TEST(client__that_is_closed_last_leaves_no_descriptor_and_no_mapping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
