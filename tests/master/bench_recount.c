/*
 * The longest slice of a recount, in CPU time: bench_recount [OBJECTS, default 1000000]. The time
 * of the recount in one go stands beside it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "master/core.h"

#define BATCH 1000u

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * MC_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void must(mooncake_err err)
{
    if (err != MOONCAKE_OK) {
        (void)fprintf(stderr, "bench_recount: %s\n", mooncake_last_error());
        exit(1);
    }
}

static void mount(struct mc_core *core, struct mc_arena *arena, uint64_t number, uint64_t len)
{
    char name[16];
    const struct mc_mount_item item = {
        .name = name, .addresses = "", .mount_id = number, .len = len};
    const struct mc_mount_request request = {
        .client_id = number, .host = name, .program = "", .items = &item, .count = 1};
    struct mc_status_reply reply;

    (void)snprintf(name, sizeof(name), "s%u", (unsigned)number);
    must(mc_core_mount(core, &request, arena, &reply));
    must(reply.statuses[0]);
}

static void put_batch(struct mc_core *core, struct mc_arena *arena, uint64_t first)
{
    static char texts[BATCH][24];
    static struct mc_key keys[BATCH];
    static uint64_t lens[BATCH];
    struct mc_put_start_request start = {.client_id = 1,
                                         .nonce = first + 1,
                                         .keys = keys,
                                         .value_lens = lens,
                                         .count = BATCH,
                                         .replicas = 1};
    struct mc_put_end_request end = {.client_id = 1, .keys = keys, .count = BATCH};
    struct mc_put_start_reply started;
    struct mc_status_reply ended;

    for (unsigned i = 0; i < BATCH; i++) {
        keys[i].bytes = texts[i];
        keys[i].len = (uint32_t)snprintf(texts[i], sizeof(texts[i]), "key-%" PRIu64, first + i);
        lens[i] = 4096;
    }
    must(mc_core_put_start(core, &start, arena, &started));
    end.attempts = started.attempts;
    must(mc_core_put_end(core, &end, arena, &ended));
    for (unsigned i = 0; i < BATCH; i++) {
        must(ended.statuses[i]);
    }
    mc_arena_reset(arena);
}

static void on_recounted(void *arg, mooncake_err err)
{
    must(err);
    *(bool *)arg = true;
}

int main(int argc, char **argv)
{
    uint64_t const objects = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    uint64_t longest = 0, sum = 0, slices = 0, late = 0, start_ns;
    struct mc_core_options options;
    struct mc_core *core;
    struct mc_arena arena;
    bool done = false;

    mc_log_set_level(MC_LOG_OFF);
    mc_core_options_init(&options);
    options.epoch = 1;
    options.high_watermark = 1.0;
    options.eviction_ratio = 0;
    options.stall_ms = 0;
    options.client_ttl_ms = 3600000;
    must(mc_core_create(&options, mc_clock_system(), &core));
    mc_arena_init(&arena, 0);
    for (uint64_t i = 1; i <= 16; i++) {
        mount(core, &arena, i, objects * 512);
    }
    for (uint64_t i = 0; i < objects; i += BATCH) {
        put_batch(core, &arena, i);
    }
    must(mc_core_recount_start(core, on_recounted, &done));
    while (!done) {
        start_ns = cpu_ns();
        (void)mc_core_tick(core);
        start_ns = cpu_ns() - start_ns;
        longest = start_ns > longest ? start_ns : longest;
        late += start_ns > 2200000 ? 1 : 0;
        sum += start_ns;
        slices++;
    }
    (void)printf("%" PRIu64 " objects: %" PRIu64 " slices, the longest %.3f ms, %" PRIu64
                 " above 2.2 ms, all %.0f ms of CPU\n",
                 objects, slices, (double)longest / 1e6, late, (double)sum / 1e6);
    start_ns = cpu_ns();
    must(mc_core_recount(core));
    (void)printf("in one go: %.0f ms\n", (double)(cpu_ns() - start_ns) / 1e6);
    mc_arena_fini(&arena);
    return 0;
}
