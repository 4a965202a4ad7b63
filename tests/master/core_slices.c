/*
 * How long one slice of background work keeps everybody else waiting, at a size where memory is
 * cold: eviction, the sweep of a lost segment, removal of everything and by pattern, listing.
 *
 *     test_core_slices [OBJECTS]      default 300,000
 *
 * The core's clock is the time of the CPU, because another process that runs on it is not ours to
 * judge. But what a hypervisor takes away counts as ours, so single times are printed only. Judged
 * is what noise hardly touches: how many keys go between two looks at the clock, and that nine
 * slices of ten keep their time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "master/core.h"
#include "master/placement.h"

#define BATCH 512u
#define KEY_CAP 64u
#define VALUE_LEN (4096 - 64)
#define EVICT_TO 0.05
/* Between two looks at the clock there are 32 keys, of a microsecond of cold memory each. */
#define TICK_NS_ALLOWED (MC_TICK_NS_MAX * 2ull)
#define REQUEST_NS_ALLOWED (MC_SLICE_NS_MAX * 5ull / 4)
#define SLICES_MAX 200000u
/* Each may cost a microsecond of cold memory. */
#define KEYS_PER_LOOK_MAX 64u

struct slices {
    struct mc_core *core;
    struct mc_arena arena;
    uint64_t objects, nonce, mounts;
    char keys[BATCH][KEY_CAP];
    struct mc_key key[BATCH];
    uint64_t lens[BATCH];
    bool ended;
    struct mc_remove_all_reply removed;
    unsigned failed;
};

/* What one kind of work cost. */
struct figures {
    uint32_t slices;
    uint64_t total_ns, keys_per_look;
};

/* A clock that keeps books. */
static struct meter {
    struct mc_clock clock;         /* first */
    const struct slices *measured; /* NULL: not now */
    uint64_t slice_start_ns, looked_keys;
    struct figures figures;
    uint64_t times_ns[SLICES_MAX];
} meter;

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

static uint64_t keys_now(const struct slices *s)
{
    return (uint64_t)mc_gauge_get(&mc_core_metrics(s->core)->keys);
}

static void note_keys(void)
{
    uint64_t const keys = keys_now(meter.measured);
    uint64_t const handled = meter.looked_keys - keys;

    if (handled > meter.figures.keys_per_look) {
        meter.figures.keys_per_look = handled;
    }
    meter.looked_keys = keys;
}

static uint64_t look(const struct mc_clock *clock)
{
    uint64_t const now_ns = cpu_ns();

    (void)clock;
    if (meter.measured != NULL) {
        note_keys();
    }
    return now_ns;
}

static void begin_slice(const struct slices *s)
{
    meter.measured = s;
    meter.looked_keys = keys_now(s);
    meter.slice_start_ns = cpu_ns();
}

static void end_slice(void)
{
    uint64_t const spent_ns = cpu_ns() - meter.slice_start_ns;

    note_keys();
    meter.measured = NULL;
    must(meter.figures.slices < SLICES_MAX, "keeping books");
    meter.times_ns[meter.figures.slices++] = spent_ns;
    meter.figures.total_ns += spent_ns;
}

static int compare(const void *a, const void *b)
{
    uint64_t const x = *(const uint64_t *)a;
    uint64_t const y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Print what was measured since the last time, and judge it. */
static void judge(struct slices *s, const char *what, uint64_t count, uint64_t allowed_ns)
{
    const struct figures *f = &meter.figures;
    double times_ms[3];

    must(f->slices > 0 && count > 0, "measuring");
    qsort(meter.times_ns, f->slices, sizeof(meter.times_ns[0]), compare);
    times_ms[0] = (double)meter.times_ns[f->slices / 2] / 1e6;
    times_ms[1] = (double)meter.times_ns[f->slices * 9 / 10] / 1e6;
    times_ms[2] = (double)meter.times_ns[f->slices - 1] / 1e6;
    (void)printf("%-23s %7" PRIu64 " keys, %5.0f ns each; %5u slices of %.2f ms, p90 %.2f, most "
                 "%.2f; %" PRIu64 " keys a look\n",
                 what, count, (double)f->total_ns / (double)count, f->slices, times_ms[0],
                 times_ms[1], times_ms[2], f->keys_per_look);
    if (times_ms[1] * 1e6 > (double)allowed_ns || f->keys_per_look > KEYS_PER_LOOK_MAX) {
        (void)printf("  that is too much\n");
        s->failed++;
    }
    meter.figures = (struct figures){0};
}

/* ---- a pool ------------------------------------------------------------------------------ */

static void name(struct slices *s, unsigned at, uint64_t number)
{
    int len = snprintf(s->keys[at], sizeof(s->keys[at]), "model-8b/tp8/rank3/%016" PRIx64, number);

    s->key[at] = (struct mc_key){.bytes = s->keys[at], .len = (uint32_t)len};
    s->lens[at] = VALUE_LEN;
}

static void put_batch(struct slices *s, uint64_t first)
{
    struct mc_put_start_request const start = {
        .client_id = 1,
        .nonce = ++s->nonce,
        .keys = s->key,
        .value_lens = s->lens,
        .count = BATCH,
        .replicas = 1,
    };
    struct mc_put_end_request end = {.client_id = 1, .keys = s->key, .count = BATCH};
    struct mc_put_start_reply started;
    struct mc_status_reply ended;

    for (unsigned i = 0; i < BATCH; i++) {
        name(s, i, first + i);
    }
    mc_arena_reset(&s->arena);
    must(mc_core_put_start(s->core, &start, &s->arena, &started) == MOONCAKE_OK, "start");
    end.attempts = started.attempts;
    must(mc_core_put_end(s->core, &end, &s->arena, &ended) == MOONCAKE_OK, "end");
    for (size_t i = 0; i < BATCH; i++) {
        must(ended.statuses[i] == MOONCAKE_OK, "put");
    }
}

/* Reads in random order, so that the order of eviction is not the order in memory. */
static void shuffle(struct slices *s)
{
    struct mc_keys_request const request = {.client_id = 1, .keys = s->key, .count = BATCH};
    struct mc_place_random random = {.state = 7};
    struct mc_query_reply reply;

    for (uint64_t n = 0; n < s->objects; n += BATCH) {
        for (unsigned i = 0; i < BATCH; i++) {
            name(s, i, mc_place_random_next(&random) % s->objects);
        }
        mc_arena_reset(&s->arena);
        must(mc_core_query(s->core, &request, &s->arena, &reply) == MOONCAKE_OK, "query");
    }
}

static void mount(struct slices *s)
{
    struct mc_mount_item const item = {
        .name = "a",
        .addresses = "a",
        .mount_id = ++s->mounts,
        .len = (s->objects + 2 * BATCH) * 4096 * 10 / 8,
    };
    struct mc_mount_request const request = {.client_id = 1, .items = &item, .count = 1};
    struct mc_status_reply mounted;

    mc_arena_reset(&s->arena);
    must(mc_core_mount(s->core, &request, &s->arena, &mounted) == MOONCAKE_OK &&
             mounted.statuses[0] == MOONCAKE_OK,
         "mount");
}

/* One segment, 80 % full. */
static void fill(struct slices *s)
{
    for (uint64_t i = keys_now(s); i < s->objects; i += BATCH) {
        put_batch(s, i);
    }
    must(keys_now(s) == s->objects, "filling");
    shuffle(s);
}

/* ---- the work ---------------------------------------------------------------------------- */

static void evict(struct slices *s)
{
    uint64_t const before = keys_now(s);
    uint64_t next = s->objects;

    while (mc_core_wants_tick(s->core)) { /* leases of the reads */
        (void)mc_core_tick(s->core);
    }
    while (!mc_core_wants_tick(s->core)) { /* up to the watermark */
        put_batch(s, next);
        next += BATCH;
    }
    while (mc_core_wants_tick(s->core)) {
        begin_slice(s);
        (void)mc_core_tick(s->core);
        end_slice();
    }
    must(keys_now(s) < before / 5, "evicting");
    judge(s, "eviction", next - keys_now(s), TICK_NS_ALLOWED);
}

static void lose_segment(struct slices *s)
{
    struct mc_unmount_request const request = {
        .client_id = 1, .mount_ids = &s->mounts, .count = 1, .grace_ms = 0};
    struct mc_status_reply reply;
    uint64_t const before = keys_now(s);

    mc_arena_reset(&s->arena);
    begin_slice(s);
    must(mc_core_unmount(s->core, &request, &s->arena, &reply) == MOONCAKE_OK, "unmount");
    end_slice();
    while (mc_core_wants_tick(s->core)) {
        begin_slice(s);
        (void)mc_core_tick(s->core);
        end_slice();
    }
    must(keys_now(s) == 0, "sweeping");
    judge(s, "sweep of a lost segment", before, TICK_NS_ALLOWED);
}

static void on_removed(void *arg, mooncake_err err, const struct mc_remove_all_reply *reply)
{
    struct slices *s = arg;

    must(err == MOONCAKE_OK, "removing");
    s->ended = true;
    s->removed = *reply;
}

static void remove_keys(struct slices *s, const char *what, const char *pattern, uint64_t want)
{
    struct mc_remove_all_request const request = {.force = true, .pattern = pattern};

    s->ended = false;
    begin_slice(s);
    must(mc_core_remove_all(s->core, &request, on_removed, s) == MOONCAKE_OK, what);
    end_slice();
    while (!s->ended) {
        begin_slice(s);
        (void)mc_core_tick(s->core);
        end_slice();
    }
    must(s->removed.removed == want, what);
    judge(s, what, s->objects, TICK_NS_ALLOWED);
}

static void list_keys(struct slices *s, const char *what, const char *pattern)
{
    struct mc_list_keys_request request = {.keys_max = 8192, .pattern = pattern};
    struct mc_list_keys_reply reply;

    do {
        mc_arena_reset(&s->arena);
        begin_slice(s);
        must(mc_core_list_keys(s->core, &request, &s->arena, &reply) == MOONCAKE_OK, what);
        end_slice();
        request.cursor = reply.cursor;
    } while (reply.cursor != 0);
    judge(s, what, s->objects, REQUEST_NS_ALLOWED);
}

/* ---- a pool of many members --------------------------------------------------------------- */

#define MEMBERS 10000u

static void mount_many(struct slices *s)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        char name[64];
        struct mc_mount_item const item = {
            .name = name, .addresses = name, .mount_id = ++s->mounts, .len = 1u << 20};
        struct mc_mount_request const request = {.client_id = 1000 + i,
                                                 .host = "a-host-of-a-usual-length.example.org",
                                                 .program = "mooncake_store 1.0",
                                                 .items = &item,
                                                 .count = 1};
        struct mc_status_reply mounted;

        (void)snprintf(name, sizeof(name), "tcp://a-host-of-a-usual-length.example.org:%u", i);
        mc_arena_reset(&s->arena);
        must(mc_core_mount(s->core, &request, &s->arena, &mounted) == MOONCAKE_OK &&
                 mounted.statuses[0] == MOONCAKE_OK,
             "mount");
    }
}

static void list_segments(struct slices *s)
{
    struct mc_list_request request = {0};
    struct mc_list_segments_reply reply;
    uint64_t told = 0;

    do {
        mc_arena_reset(&s->arena);
        begin_slice(s);
        must(mc_core_list_segments(s->core, &request, &s->arena, &reply) == MOONCAKE_OK, "list");
        end_slice();
        told += reply.count;
        request.cursor = reply.cursor;
    } while (reply.cursor != 0);
    must(told == MEMBERS + 1, "counting segments");
    judge(s, "list of segments", told, REQUEST_NS_ALLOWED);
}

static void list_clients(struct slices *s)
{
    struct mc_list_request request = {0};
    struct mc_list_clients_reply reply;
    uint64_t told = 0;

    do {
        mc_arena_reset(&s->arena);
        begin_slice(s);
        must(mc_core_list_clients(s->core, &request, &s->arena, &reply) == MOONCAKE_OK, "list");
        end_slice();
        told += reply.count;
        request.cursor = reply.cursor;
    } while (reply.cursor != 0);
    must(told == MEMBERS + 1, "counting clients");
    judge(s, "list of clients", told, REQUEST_NS_ALLOWED);
}

static void sum_space(struct slices *s)
{
    struct mc_core_space space = {0};
    uint64_t cursor = 0;

    do {
        begin_slice(s);
        mc_core_space_page(s->core, &cursor, &space);
        end_slice();
    } while (cursor != 0);
    must(space.capacity >= (uint64_t)MEMBERS << 20, "summing");
    judge(s, "sums of all segments", MEMBERS + 1, REQUEST_NS_ALLOWED);
}

int main(int argc, char **argv)
{
    static struct slices s;
    struct mc_core_options options;

    mc_log_set_level(MC_LOG_OFF);
    mc_mem_keep_freed();
    s.objects = argc > 1 ? strtoull(argv[1], NULL, 10) : 300000;
    s.objects -= s.objects % BATCH;
    mc_core_options_init(&options);
    options.epoch = 1;
    options.client_ttl_ms = 3600000; /* nobody pings here */
    options.lease_ms = 1;
    options.eviction_ratio = options.high_watermark - EVICT_TO;
    mc_arena_init(&s.arena, 0);
    meter.clock.now_ns = look;
    must(mc_core_create(&options, &meter.clock, &s.core) == MOONCAKE_OK, "create");
    mount(&s);
    fill(&s);
    list_keys(&s, "list by pattern", "0{9,}[0-9a-f]*7$");
    remove_keys(&s, "removal by pattern", "[0-7]$", s.objects / 2);
    remove_keys(&s, "removal of everything", NULL, s.objects - s.objects / 2);
    fill(&s);
    evict(&s);
    remove_keys(&s, "removal of what is left", NULL, keys_now(&s));
    mount_many(&s);
    list_segments(&s);
    list_clients(&s);
    sum_space(&s);
    while (mc_core_tick(s.core) <= mc_now_ns(&meter.clock)) {
    }
    mc_core_destroy(&s.core);
    must(mc_core_create(&options, &meter.clock, &s.core) == MOONCAKE_OK, "create");
    mount(&s);
    fill(&s);
    lose_segment(&s);
    must(mc_core_recount(s.core) == MOONCAKE_OK, "recount");
    mc_core_destroy(&s.core);
    mc_arena_fini(&s.arena);
    return s.failed == 0 ? 0 : 1;
}
