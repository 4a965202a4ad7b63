/* `replay`: makes or loads the workload, walks it, and sets the result beside the LRU model. */
#include "replay.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "lru.h"
#include "mooncake/admin.h"
#include "pool.h"
#include "replay_walk.h"
#include "report.h"
#include "timing.h"
#include "trace.h"

#define TRACE_BLOCK_BYTES 4096u
#define CHAT_BLOCK_BYTES 65536u
#define BUFFER_MAX ((uint64_t)16 << 30)
#define EXTENT_HEADER_LEN 64u /* in front of each block in a segment, and the unit of space */
#define TERMINAL_NS 200000000u
#define LINE_NS 5000000000u
#define MODELS_MAX (MC_LIST_MAX + 4)

/* The model at one capacity. */
struct model {
    const char *what;
    uint64_t capacity; /* in blocks; 0: unlimited */
    uint64_t hits;
};

struct run {
    struct mc_bench_options options;
    struct mc_requests requests;
    uint64_t distinct;
    struct model models[MODELS_MAX];
    size_t models_count;
    struct mc_limits limits;
    struct mc_replay replay;
    uint64_t told_ns, took_ns;
    bool terminal, done;
};

/* ---- workload and models ----------------------------------------------------------------- */

static bool workload(struct run *run)
{
    const struct mc_bench_options *o = &run->options;
    char why[400] = "out of memory";
    bool fine;

    if (o->trace != NULL) {
        fine = mc_trace_load(o->trace, &run->requests, why, sizeof(why));
    } else {
        struct mc_chat chat = {o->seed, o->requests, o->conversations, o->system_prompts, o->turns};

        fine = mc_chat_generate(&chat, &run->requests);
    }
    if (fine) {
        fine = mc_lru_distinct(&run->requests, &run->distinct);
    }
    if (!fine) {
        (void)fprintf(stderr, "mooncake_bench replay: %s\n", why);
    }
    return fine;
}

static bool model_add(struct run *run, const char *what, uint64_t capacity)
{
    struct model *m = &run->models[run->models_count];

    m->what = what;
    m->capacity = capacity;
    if (!mc_lru_run(&run->requests, capacity, &m->hits)) {
        (void)fprintf(stderr, "mooncake_bench replay: out of memory for the LRU model\n");
        return false;
    }
    run->models_count++;
    return true;
}

static bool models(struct run *run)
{
    for (size_t i = 0; i < run->options.capacity.count; i++) {
        if (!model_add(run, "as asked for", run->options.capacity.items[i])) {
            return false;
        }
    }
    return model_add(run, "unlimited", 0);
}

/* Where eviction begins and where it ends, as shares of the pool; 0: not known. */
struct eviction {
    double high, width;
};

static void take_option(void *arg, const char *name, const char *value, const char *source,
                        const char *help)
{
    struct eviction *eviction = arg;
    double number = 0;

    (void)source;
    (void)help;
    if (sscanf(value, "%lf", &number) != 1 || !(number > 0 && number <= 1)) {
        return;
    }
    if (strcmp(name, "eviction_high_watermark_ratio") == 0) {
        eviction->high = number;
    } else if (strcmp(name, "eviction_ratio") == 0) {
        eviction->width = number;
    }
}

static bool model_add_share(struct run *run, const char *what, double share, uint64_t capacity)
{
    uint64_t blocks = (uint64_t)(share * (double)capacity);

    return blocks == 0 || model_add(run, what, blocks);
}

/* The model at what the pool holds: all of it, and where eviction begins and ends. */
static bool models_of_pool(struct run *run, mooncake_client *client)
{
    mooncake_pool_status status = {.struct_size = sizeof(status)};
    uint64_t block = run->options.block_bytes + EXTENT_HEADER_LEN;
    struct eviction eviction = {0, 0};
    uint64_t capacity;

    if (mooncake_admin_status(client, 0, &status) != MOONCAKE_OK) {
        return true; /* not every pool tells; the replay does not need it */
    }
    block = (block + EXTENT_HEADER_LEN - 1) / EXTENT_HEADER_LEN * EXTENT_HEADER_LEN;
    capacity = status.capacity / block;
    if (mooncake_admin_config(client, 0, take_option, &eviction) != MOONCAKE_OK) {
        eviction = (struct eviction){0, 0};
    }
    return (!(eviction.high > eviction.width) ||
            model_add_share(run, "the pool where eviction ends", eviction.high - eviction.width,
                            capacity)) &&
           model_add_share(run, "the pool where eviction begins", eviction.high, capacity) &&
           model_add_share(run, "the whole pool", 1, capacity);
}

/* ---- progress ---------------------------------------------------------------------------- */

static double ratio(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (double)part / (double)whole;
}

static void progress(void *arg, const struct mc_replay *replay)
{
    struct run *run = arg;
    uint64_t now = mc_now_ns();
    char size[MC_TEXT_LEN];

    if (now - run->told_ns < (run->terminal ? TERMINAL_NS : LINE_NS)) {
        return;
    }
    run->told_ns = now;
    (void)fprintf(stderr, "%s%llu of %zu requests, hit ratio %.4f, %s moved%s",
                  run->terminal ? "\r" : "", (unsigned long long)replay->requests,
                  run->requests.count, ratio(replay->hits, replay->blocks),
                  mc_text_size(size, replay->get.bytes + replay->put.bytes),
                  run->terminal ? "   " : "\n");
}

static void progress_end(const struct run *run)
{
    if (run->terminal) {
        (void)fprintf(stderr, "\r%78s\r", "");
    }
}

/* ---- result ------------------------------------------------------------------------------ */

static void sum_up(const struct mc_replay *r, struct mc_tally *out)
{
    memset(out, 0, sizeof(*out));
    mc_tally_merge(out, &r->exist);
    mc_tally_merge(out, &r->get);
    mc_tally_merge(out, &r->put);
}

static void print_models(const struct run *run)
{
    for (size_t i = 0; i < run->models_count; i++) {
        const struct model *m = &run->models[i];
        char blocks[MC_TEXT_LEN] = "";

        if (m->capacity > 0) {
            (void)snprintf(blocks, sizeof(blocks), "%llu blocks, ",
                           (unsigned long long)m->capacity);
        }
        (void)printf("  exact LRU             %.4f   %s%s\n",
                     ratio(m->hits, run->requests.ids_count), blocks, m->what);
    }
}

static void print_workload(const struct run *run)
{
    char size[MC_TEXT_LEN];

    (void)printf("%s: %zu requests, %zu blocks of %s, %llu distinct\n",
                 run->options.trace == NULL ? "chat workload" : run->options.trace,
                 run->requests.count, run->requests.ids_count,
                 mc_text_size(size, run->options.block_bytes), (unsigned long long)run->distinct);
}

static void print_notes(const struct mc_replay *r)
{
    if (r->refused > 0) {
        (void)printf("  %llu puts were refused: the pool is full, and what is under a lease or "
                     "pinned\n  is not evicted; the exact LRU knows no leases\n",
                     (unsigned long long)r->refused);
    }
    if (r->vanished > 0) {
        (void)printf("  %llu blocks were there when asked for and gone when got: counted as "
                     "misses\n",
                     (unsigned long long)r->vanished);
    }
    if (r->present > 0) {
        (void)printf("  %llu blocks behind a gap in their prompt were still there when put\n",
                     (unsigned long long)r->present);
    }
}

static void print_result(const struct run *run, const struct mc_tally *sum)
{
    const struct mc_replay *r = &run->replay;

    print_workload(run);
    (void)printf("\nhit ratio%s\n", run->done ? "" : " (not to its end)");
    (void)printf("  measured              %.4f   %llu of %llu blocks\n", ratio(r->hits, r->blocks),
                 (unsigned long long)r->hits, (unsigned long long)r->blocks);
    print_models(run);
    print_notes(r);
    (void)printf("\n");
    mc_report_head("call", &run->limits);
    mc_report_line("batch_exist", &r->exist, &run->limits);
    mc_report_line("batch_get_into", &r->get, &run->limits);
    mc_report_line("batch_put", &r->put, &run->limits);
    (void)printf("\n");
    mc_report_limits(&run->limits);
    (void)printf("%s%.1f s in all; ", run->limits.measured ? "\n" : "", (double)run->took_ns / 1e9);
    mc_report_verdict(sum);
}

static json_t *json_models(const struct run *run)
{
    json_t *array = json_array();

    for (size_t i = 0; i < run->models_count; i++) {
        const struct model *m = &run->models[i];

        (void)json_array_append_new(array, json_pack("{s:s, s:I, s:I, s:f}", "what", m->what,
                                                     "capacity_blocks", (json_int_t)m->capacity,
                                                     "hits", (json_int_t)m->hits, "hit_ratio",
                                                     ratio(m->hits, run->requests.ids_count)));
    }
    return array;
}

static void json_result(const struct run *run, const struct mc_tally *sum)
{
    const struct mc_replay *r = &run->replay;
    json_t *root =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:o}", "command", "replay", "requests",
                  (json_int_t)run->requests.count, "blocks", (json_int_t)run->requests.ids_count,
                  "distinct_blocks", (json_int_t)run->distinct, "block_bytes",
                  (json_int_t)run->options.block_bytes, "models", json_models(run), "limits",
                  mc_json_limits(&run->limits));

    if (!run->options.offline) {
        (void)json_object_update_new(
            root, json_pack("{s:b, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s}", "complete",
                            (int)run->done, "hit_ratio", ratio(r->hits, r->blocks), "hits",
                            (json_int_t)r->hits, "refused", (json_int_t)r->refused, "vanished",
                            (json_int_t)r->vanished, "present", (json_int_t)r->present,
                            "verified_bytes", (json_int_t)sum->verified, "wrong",
                            (json_int_t)sum->wrong, "errors", (json_int_t)sum->errors, "seconds",
                            (double)run->took_ns / 1e9, "first_error", sum->sentence));
        (void)json_object_set_new(root, "exist", mc_json_tally(&r->exist));
        (void)json_object_set_new(root, "get", mc_json_tally(&r->get));
        (void)json_object_set_new(root, "put", mc_json_tally(&r->put));
    }
    mc_json_print(root);
}

/* ---- the command ------------------------------------------------------------------------- */

/* Large blocks beside copies and streams, as they were before the first request. */
static void compare(struct run *run)
{
    const struct mc_limits bulk = {.fused_rate = run->limits.fused_rate,
                                   .stream_rate = run->limits.stream_rate,
                                   .stream2_rate = run->limits.stream2_rate};

    if (run->options.block_bytes >= CHAT_BLOCK_BYTES) {
        mc_tally_compare(&run->replay.get, &bulk, &bulk);
        mc_tally_compare(&run->replay.put, &bulk, &bulk);
    }
}

static enum mc_exit run_online(struct run *run)
{
    static struct mc_tally sum;
    mooncake_client *client = NULL;
    char why[MC_SENTENCE_LEN];
    uint64_t start;

    mc_report_measure_limits(&run->options, &run->limits); /* forks: before the client opens */
    if (!mc_pool_open(&run->options, &client, why, sizeof(why))) {
        (void)fprintf(stderr, "mooncake_bench replay: %s\n", why);
        return MC_EXIT_FAILED;
    }
    if (!models_of_pool(run, client)) {
        mooncake_client_close(client);
        return MC_EXIT_FAILED;
    }
    run->terminal = isatty(STDERR_FILENO) == 1;
    start = mc_now_ns();
    run->told_ns = start;
    run->done = mc_replay_walk(&run->options, client, &run->requests, progress, run, &run->replay);
    run->took_ns = mc_now_ns() - start;
    progress_end(run);
    mooncake_client_close(client);
    sum_up(&run->replay, &sum);
    compare(run);
    if (run->options.json) {
        json_result(run, &sum);
    } else {
        print_result(run, &sum);
    }
    if (!run->done) {
        (void)fprintf(stderr, "mooncake_bench replay: given up: %u calls in a row failed\n",
                      MC_REPLAY_FAILURES_MAX);
    }
    return mc_exit_of(&sum);
}

static enum mc_exit run_offline(struct run *run)
{
    if (run->options.json) {
        json_result(run, &run->replay.put);
    } else {
        print_workload(run);
        print_models(run);
    }
    return MC_EXIT_OK;
}

enum mc_exit mc_replay_run(const struct mc_bench_options *options)
{
    static struct run run;
    static char prefix[40];
    enum mc_exit result = MC_EXIT_FAILED;

    run.options = *options;
    if (run.options.block_bytes == 0) {
        run.options.block_bytes = options->trace != NULL ? TRACE_BLOCK_BYTES : CHAT_BLOCK_BYTES;
    }
    if (run.options.block_bytes > BUFFER_MAX / run.options.batch) {
        (void)fprintf(stderr,
                      "mooncake_bench replay: --batch %llu blocks of %llu bytes are more "
                      "than 16 GiB\n",
                      (unsigned long long)run.options.batch,
                      (unsigned long long)run.options.block_bytes);
        return MC_EXIT_USAGE;
    }
    if (run.options.prefix == NULL) {
        (void)snprintf(prefix, sizeof(prefix), "replay/%016llx",
                       (unsigned long long)mc_pool_run_id());
        run.options.prefix = prefix;
    }
    if (strlen(run.options.prefix) > 100 || run.options.prefix[0] == '\0') {
        (void)fprintf(stderr, "mooncake_bench replay: --prefix: write 1 to 100 bytes\n");
        return MC_EXIT_USAGE;
    }
    if (!mc_pool_options_check(options)) {
        return MC_EXIT_USAGE;
    }
    if (workload(&run) && models(&run)) {
        result = options->offline ? run_offline(&run) : run_online(&run);
    }
    mc_requests_fini(&run.requests);
    return result;
}
