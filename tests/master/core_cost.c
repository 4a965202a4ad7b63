/*
 * What an object costs in memory, and what the calls cost in time, without any network.
 *
 *     test_core_cost [OBJECTS]      default 300,000
 *
 * Fails if an object costs more than is promised; the times (of the CPU) are printed, not judged.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "master/core.h"
#include "master/placement.h"

#define BATCH 512u
#define KEY_LEN 64u
/* Per object of one replica in one extent, beside its key: object, record in the allocator, place
 * in the table, and what malloc adds. */
#define BYTES_PER_OBJECT_MAX 220u

struct cost {
    struct mc_core *core;
    struct mc_arena arena;
    uint64_t objects;
    char keys[BATCH][KEY_LEN + 1];
    struct mc_key key[BATCH];
    uint64_t lens[BATCH];
    uint64_t nonce;
};

static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long size = 0;
    unsigned long resident = 0;

    if (file == NULL || fscanf(file, "%lu %lu", &size, &resident) != 2) {
        (void)fprintf(stderr, "/proc/self/statm cannot be read\n");
        exit(2);
    }
    (void)fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Time that this thread ran: a busy machine does not count. */
static uint64_t cpu_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * MC_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void must(bool ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "%s failed: %s\n", what, mooncake_last_error());
        exit(1);
    }
}

static void name(struct cost *cost, unsigned at, uint64_t number)
{
    (void)snprintf(cost->keys[at], sizeof(cost->keys[at]),
                   "model-8b/tp8/rank3/%08" PRIx64 "/0123456789abcdef0123456789abcdef", number);
    memset(cost->keys[at] + strlen(cost->keys[at]), 'x', KEY_LEN - strlen(cost->keys[at]));
    cost->key[at] = (struct mc_key){.bytes = cost->keys[at], .len = KEY_LEN};
    cost->lens[at] = 4096 - 64;
}

static void put_batch(struct cost *cost, uint64_t first, size_t count)
{
    struct mc_put_start_request const start = {
        .client_id = 1,
        .nonce = ++cost->nonce,
        .keys = cost->key,
        .value_lens = cost->lens,
        .count = count,
        .replicas = 1,
    };
    struct mc_put_end_request end = {.client_id = 1, .keys = cost->key, .count = count};
    struct mc_put_start_reply started;
    struct mc_status_reply ended;

    for (unsigned i = 0; i < count; i++) {
        name(cost, i, first + i);
    }
    mc_arena_reset(&cost->arena);
    must(mc_core_put_start(cost->core, &start, &cost->arena, &started) == MOONCAKE_OK, "start");
    end.attempts = started.attempts;
    must(mc_core_put_end(cost->core, &end, &cost->arena, &ended) == MOONCAKE_OK, "end");
    for (size_t i = 0; i < count; i++) {
        must(ended.statuses[i] == MOONCAKE_OK, "put");
    }
}

static void print_time(const char *what, uint64_t start_ns, uint64_t count)
{
    (void)printf("%-28s %7.0f ns a key\n", what, (double)(cpu_ns() - start_ns) / (double)count);
}

/* Random batches, so that lookups miss the caches as real ones do. */
static void read_batches(struct cost *cost, bool query, uint64_t batches)
{
    struct mc_keys_request const request = {.client_id = 1, .keys = cost->key, .count = BATCH};
    struct mc_place_random random = {.state = 7};
    uint64_t spent_ns = 0;

    for (uint64_t b = 0; b < batches; b++) {
        uint64_t const first =
            mc_place_random_next(&random) % (cost->objects > BATCH ? cost->objects - BATCH : 1);
        uint64_t start_ns;

        for (unsigned i = 0; i < BATCH; i++) {
            name(cost, i, (first + i * 7919ull) % cost->objects);
        }
        mc_arena_reset(&cost->arena);
        start_ns = cpu_ns();
        if (query) {
            struct mc_query_reply reply;

            must(mc_core_query(cost->core, &request, &cost->arena, &reply) == MOONCAKE_OK &&
                     reply.statuses[BATCH - 1] == MOONCAKE_OK,
                 "query");
        } else {
            struct mc_exist_reply reply;

            must(mc_core_exist(cost->core, &request, &cost->arena, &reply) == MOONCAKE_OK &&
                     reply.statuses[BATCH - 1] == MOONCAKE_OK,
                 "exist");
        }
        spent_ns += cpu_ns() - start_ns;
    }
    (void)printf("%-28s %7.0f ns a key\n",
                 query ? "query, batches of 512" : "exist, batches of 512",
                 (double)spent_ns / (double)(batches * BATCH));
}

static void on_removed(void *arg, mooncake_err err, const struct mc_remove_all_reply *reply)
{
    (void)err;
    *(uint64_t *)arg = reply->removed;
}

static void remove_everything(struct cost *cost)
{
    struct mc_remove_all_request const request = {.force = true};
    uint64_t removed = UINT64_MAX;
    uint64_t const start_ns = cpu_ns();
    uint64_t longest_ns = 0;

    must(mc_core_remove_all(cost->core, &request, on_removed, &removed) == MOONCAKE_OK,
         "remove all");
    while (removed == UINT64_MAX) {
        uint64_t const slice_ns = cpu_ns();

        (void)mc_core_tick(cost->core);
        longest_ns = cpu_ns() - slice_ns > longest_ns ? cpu_ns() - slice_ns : longest_ns;
    }
    print_time("remove all", start_ns, cost->objects);
    (void)printf("%-28s %7.2f ms\n", "longest slice of that", (double)longest_ns / 1e6);
    must(removed == cost->objects, "removing all");
}

int main(int argc, char **argv)
{
    static struct cost cost;
    struct mc_core_options options;
    struct mc_mount_item item = {.name = "a", .addresses = "a", .mount_id = 1};
    struct mc_mount_request const mount = {.client_id = 1, .items = &item, .count = 1};
    struct mc_status_reply mounted;
    uint64_t before;
    uint64_t per_object;
    uint64_t start_ns;

    mc_log_set_level(MC_LOG_OFF);
    mc_mem_keep_freed();
    cost.objects = argc > 1 ? strtoull(argv[1], NULL, 10) : 300000;
    item.len = (cost.objects + BATCH) * 4096 * 5 / 4;
    mc_core_options_init(&options);
    options.epoch = 1;
    options.client_ttl_ms = 3600000; /* nobody pings here */
    mc_arena_init(&cost.arena, 0);
    must(mc_core_create(&options, mc_clock_system(), &cost.core) == MOONCAKE_OK, "create");
    must(mc_core_mount(cost.core, &mount, &cost.arena, &mounted) == MOONCAKE_OK, "mount");
    put_batch(&cost, UINT32_MAX, BATCH); /* warm up: arenas and the first chunks are not counted */
    cost.objects -= cost.objects % BATCH;
    before = resident_bytes();
    start_ns = cpu_ns();
    for (uint64_t i = 0; i < cost.objects; i += BATCH) {
        put_batch(&cost, i, BATCH);
    }
    print_time("put start and end", start_ns, cost.objects);
    per_object = (resident_bytes() - before) / cost.objects;
    (void)printf("%-28s %7" PRIu64 " bytes, of which the key has %u\n", "memory an object",
                 per_object, KEY_LEN);
    read_batches(&cost, false, 1000);
    read_batches(&cost, true, 1000);
    cost.objects += BATCH;
    remove_everything(&cost);
    mc_core_destroy(&cost.core);
    mc_arena_fini(&cost.arena);
    if (per_object > BYTES_PER_OBJECT_MAX + KEY_LEN) {
        (void)printf("that is more than %u + %u bytes\n", BYTES_PER_OBJECT_MAX, KEY_LEN);
        return 1;
    }
    return 0;
}
