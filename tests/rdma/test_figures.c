/*
 * Figures for people, beside a few bounds that hold on any machine. Soft-RoCE says nothing about
 * the speed of a network card, so what is told is what the library does for one operation, and how
 * near it comes to plain verbs in the same guest.
 *
 * Run as "test_rdma_figures gets MASTER COUNT" it only opens a client and gets COUNT times, for
 * strace and valgrind to count.
 */
#include "rdma/scene.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rdma/raw_verbs.h"

#define LEN ((size_t)256 << 10)
#define VALUES 64u
#define TOTAL (VALUES * LEN)
#define ROUNDS 31u
#define WAYS 4u

static struct scene scene;

static int open_scene(void **state)
{
    (void)state;
    scene_open(&scene, 1, 1, "64MiB"); /* every value twice, and nothing evicted */
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    scene_close(&scene);
    return 0;
}

/* ---- beside plain verbs ---------------------------------------------------------------------- */

struct batch {
    char names[VALUES][24];
    const char *keys[VALUES];
    void *to[VALUES];
    uint64_t lens[VALUES];
    mooncake_err results[VALUES];
    uint8_t *memory; /* TOTAL */
};

static void open_batch(struct batch *batch, mooncake_client *client)
{
    batch->memory = calloc(1, TOTAL);
    assert_non_null(batch->memory);
    for (unsigned i = 0; i < VALUES; i++) {
        (void)snprintf(batch->names[i], sizeof(batch->names[i]), "value-%u", i);
        batch->keys[i] = batch->names[i];
        batch->to[i] = batch->memory + i * LEN;
        batch->lens[i] = LEN;
        put_filled(client, batch->keys[i], LEN, i);
    }
    assert_int_equal(mooncake_register_buffer(client, batch->memory, TOTAL), MOONCAKE_OK);
}

static uint64_t time_batch(struct batch *batch, mooncake_client *client)
{
    uint64_t began_us = now_us();

    assert_int_equal(mooncake_batch_get_into(client, batch->keys, batch->to, batch->lens, VALUES, 0,
                                             batch->results, NULL),
                     MOONCAKE_OK);
    return now_us() - began_us;
}

static void check_batch(const struct batch *batch)
{
    for (unsigned i = 0; i < VALUES; i++) {
        assert_int_equal(batch->results[i], MOONCAKE_OK);
        assert_true(is_filled(batch->to[i], LEN, i));
    }
}

struct raw {
    struct raw_end a, b;
    uint8_t *there, *here; /* TOTAL each */
    struct ibv_mr *there_mr, *here_mr;
};

static void open_raw(struct raw *raw)
{
    raw_connect(&raw->a, &raw->b, host_a[0], host_b[0]);
    raw->there = malloc(TOTAL);
    raw->here = calloc(1, TOTAL);
    fill(raw->there, TOTAL, 1);
    raw->there_mr =
        raw_register(&raw->b, raw->there, TOTAL, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    raw->here_mr = raw_register(&raw->a, raw->here, TOTAL, IBV_ACCESS_LOCAL_WRITE);
}

static void close_raw(struct raw *raw)
{
    (void)ibv_dereg_mr(raw->there_mr);
    (void)ibv_dereg_mr(raw->here_mr);
    raw_close(&raw->a);
    raw_close(&raw->b);
    free(raw->there);
    free(raw->here);
}

/* The same reads with nothing around them: as many bytes under way, all of them, as a batch has. At
 * the least that they can cost: one call, one completion, one sleep. */
static uint64_t time_raw(struct raw *raw)
{
    uint64_t began_us = now_us();
    struct ibv_sge locals[VALUES];

    for (unsigned i = 0; i < VALUES; i++) {
        locals[i] = (struct ibv_sge){.addr = (uintptr_t)raw->here + i * LEN,
                                     .length = (uint32_t)LEN,
                                     .lkey = raw->here_mr->lkey};
    }
    raw_post_reads(&raw->a, locals, VALUES, (uintptr_t)raw->there, raw->there_mr->rkey);
    assert_int_equal(raw_sleep(&raw->a, 60 * patience()), IBV_WC_SUCCESS);
    return now_us() - began_us;
}

/* As they are often written: one call for each, and no sleep. */
static uint64_t time_raw_polled(struct raw *raw)
{
    uint64_t began_us = now_us();

    for (unsigned i = 0; i < VALUES; i++) {
        struct ibv_sge local = {.addr = (uintptr_t)raw->here + i * LEN,
                                .length = (uint32_t)LEN,
                                .lkey = raw->here_mr->lkey};

        raw_post(&raw->a, IBV_WR_RDMA_READ, &local, (uintptr_t)raw->there + i * LEN,
                 raw->there_mr->rkey);
    }
    for (unsigned i = 0; i < VALUES; i++) {
        assert_int_equal(raw_await(&raw->a, 60 * patience()), IBV_WC_SUCCESS);
    }
    return now_us() - began_us;
}

static mooncake_client *client_that_verifies(mooncake_verify verify)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;

    scene_client_options(&scene, "rdma", &options);
    options.verify = verify;
    options.poll_us = 0; /* on one processor the device's kernel needs it */
    assert_int_equal(mooncake_client_open(&options, &client), MOONCAKE_OK);
    return client;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *first = a, *second = b;

    return *first < *second ? -1 : *first > *second;
}

/* One way of reading the bytes of a batch, over all rounds. */
struct way {
    const char *name;
    uint64_t us[ROUNDS];
    uint64_t user_us, system_us; /* of this process */
    uint64_t switches;           /* voluntary ones: how often it has slept */
};

static uint64_t us_of(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

/* Minus before, plus after: modulo 2^64. */
static void add_costs(struct way *way, bool after)
{
    uint64_t sign = after ? 1 : UINT64_MAX;
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    way->user_us += sign * us_of(usage.ru_utime);
    way->system_us += sign * us_of(usage.ru_stime);
    way->switches += sign * (uint64_t)usage.ru_nvcsw;
}

/* Permille of what plain READs reached in the same round, the median of all rounds: what slows the
 * machine down for a while slows both. */
static unsigned paired_permille(const struct way *way, const struct way *plain)
{
    uint64_t ratios[ROUNDS];

    for (unsigned i = 0; i < ROUNDS; i++) {
        ratios[i] = plain->us[i] * 1000 / way->us[i];
    }
    qsort(ratios, ROUNDS, sizeof(ratios[0]), by_value);
    return (unsigned)ratios[ROUNDS / 2];
}

static void tell_way(const struct way *way, const struct way *plain)
{
    unsigned permille = paired_permille(way, plain);
    uint64_t us[ROUNDS];

    memcpy(us, way->us, sizeof(us));
    qsort(us, ROUNDS, sizeof(us[0]), by_value);
    print_message("           %-22s %.3f of plain READs; median %" PRIu64 " MB/s, best %" PRIu64
                  "; own time of one: %" PRIu64 " us user, %" PRIu64 " us system, slept %" PRIu64
                  " times\n",
                  way->name, permille / 1000.0, TOTAL / us[ROUNDS / 2], TOTAL / us[0],
                  way->user_us / ROUNDS, way->system_us / ROUNDS, way->switches / ROUNDS);
    assert_true(permille > 333);
}

/* Turn by turn, so that other load of the machine meets all; each follows each other one. */
static void batch_get__comes_near_plain_reads(void **state)
{
    mooncake_client *clients[2] = {client_that_verifies(MOONCAKE_VERIFY_FULL),
                                   client_that_verifies(MOONCAKE_VERIFY_NONE)};
    static struct way ways[WAYS] = {{.name = "batch get"},
                                    {.name = "batch get, unverified"},
                                    {.name = "plain READs"},
                                    {.name = "plain READs, polled"}};
    static struct batch batches[2];
    struct raw raw;

    (void)state;
    open_raw(&raw);
    for (unsigned i = 0; i < 2; i++) {
        open_batch(&batches[i], clients[i]);
        (void)time_batch(&batches[i], clients[i]); /* connects */
    }
    (void)time_raw(&raw);
    for (unsigned turn = 0; turn < WAYS * ROUNDS; turn++) {
        unsigned i = turn / WAYS % 2 == 0 ? turn % WAYS : WAYS - 1 - turn % WAYS;
        uint64_t us = 0;

        memset(i < 2 ? batches[i].memory : raw.here, (int)turn, TOTAL);
        add_costs(&ways[i], false);
        switch (i) {
        case 2:
            us = time_raw(&raw);
            break;
        case 3:
            us = time_raw_polled(&raw);
            break;
        default:
            us = time_batch(&batches[i], clients[i]);
        }
        add_costs(&ways[i], true);
        ways[i].us[turn / WAYS] = us;
        if (i < 2) {
            check_batch(&batches[i]);
        } else {
            assert_memory_equal(raw.here, raw.there, TOTAL);
        }
    }
    for (unsigned i = WAYS; i-- > 0;) {
        tell_way(&ways[i], &ways[2]);
    }
    for (unsigned i = 0; i < 2; i++) {
        mooncake_client_close(clients[i]);
        free(batches[i].memory);
    }
    close_raw(&raw);
}

/* ---- of one operation ------------------------------------------------------------------------ */

static int only_get(const char *master, unsigned count)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;
    uint8_t *bytes = malloc(LEN);
    mooncake_err err;

    mooncake_client_options_init(&options);
    options.master = master;
    options.transport = "rdma";
    options.rdma_devices = "rxea0";
    options.tool = true;
    err = mooncake_client_open(&options, &client);
    if (err == MOONCAKE_OK) {
        err = mooncake_register_buffer(client, bytes, LEN);
    }
    for (unsigned i = 0; err == MOONCAKE_OK && i < count; i++) {
        err = mooncake_get_into(client, "key", bytes, LEN, 0, NULL);
    }
    mooncake_client_close(client);
    free(bytes);
    return err == MOONCAKE_OK ? 0 : 1;
}

/* What @p command counts of a client that gets @p count times: the first number that awk finds with
 * @p pick in the file FILE. -1: the tool is not here. */
static double counted(const char *command, const char *pick, unsigned count)
{
    char text[700], file[100];
    double number = -1;
    FILE *pipe;

    (void)snprintf(file, sizeof(file), "%s/count", scene.pool.dir);
    (void)snprintf(text, sizeof(text), "FILE=%s; %s /proc/%d/exe gets %s %u >$FILE.out 2>&1 && %s",
                   file, command, (int)getpid(), scene.pool.master_address, count, pick);
    pipe = popen(text, "re");
    assert_non_null(pipe);
    if (fscanf(pipe, "%lf", &number) != 1) {
        number = -1;
    }
    (void)pclose(pipe);
    (void)snprintf(text, sizeof(text), "rm -f %s %s.out", file, file);
    (void)!system(text);
    return number;
}

static void tell(const char *what, const char *command, const char *pick, unsigned few,
                 unsigned many)
{
    double first = counted(command, pick, few), second = counted(command, pick, many);

    if (first < 0 || second < 0) {
        print_message("           %s of one get: not counted here\n", what);
        return;
    }
    print_message("           %s of one get on the client: %.1f\n", what,
                  (second - first) / (many - few));
}

static void one_get__costs_little(void **state)
{
    mooncake_client *client = scene_client(&scene, "rdma", 0);
    struct process_costs before, after;
    unsigned many = guest_is_slow() ? 20 : 220;

    (void)state;
    put_filled(client, "key", LEN, 1);
    mooncake_client_close(client);
    before = process_costs(scene.pool.stores[0].pid);
    tell("system calls", "strace -f -c -o $FILE", "awk '$NF == \"total\" {print $4}' $FILE", 20,
         20 + many);
    after = process_costs(scene.pool.stores[0].pid);
    print_message("           store meanwhile: %" PRIu64 " ticks of its own time, %" PRIu64
                  " wake-ups, for %u gets\n",
                  after.user_ticks - before.user_ticks,
                  after.voluntary_switches - before.voluntary_switches, 40 + many);
    if (!guest_is_slow()) {
        tell("instructions", "valgrind --tool=callgrind --callgrind-out-file=/dev/null",
             "awk '/Collected/ {print $NF}' $FILE.out", 20, 120);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_get__costs_little),
        cmocka_unit_test(batch_get__comes_near_plain_reads),
    };

    if (argc == 4 && strcmp(argv[1], "gets") == 0) {
        return only_get(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
    }
    return cmocka_run_group_tests_name("rdma figures", tests, open_scene, close_scene);
}
