/* `io` and `meta`: which cases there are, and their table. */
#include "io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "pool.h"
#include "report.h"

#define MEMORY_MAX ((uint64_t)64 << 30)

const char *const mc_io_op_names[MC_IO_OPS_COUNT] = {
#define NAME(name, word) word,
    MC_IO_OP_LIST(NAME)
#undef NAME
};

struct ops {
    enum mc_io_op items[MC_LIST_MAX];
    size_t count;
};

static bool parse_ops(const char *text, struct ops *out)
{
    const char *at = text;

    out->count = 0;
    for (;;) {
        size_t len = strcspn(at, ",");
        size_t op = 0;

        while (op < MC_IO_OPS_COUNT &&
               (strlen(mc_io_op_names[op]) != len || strncmp(mc_io_op_names[op], at, len) != 0)) {
            op++;
        }
        if (op == MC_IO_OPS_COUNT || out->count == MC_LIST_MAX) {
            (void)fprintf(stderr, "mooncake_bench: --ops: \"%.*s\" is not one of %s\n",
                          (int)(len > 80 ? 80 : len), at, MC_IO_OP_WORDS);
            return false;
        }
        out->items[out->count++] = (enum mc_io_op)op;
        if (at[len] == '\0') {
            return true;
        }
        at += len + 1;
    }
}

static bool options_check(const struct mc_bench_options *o)
{
    uint64_t workers = o->threads * o->processes;

    for (size_t s = 0; s < o->sizes.count; s++) {
        for (size_t b = 0; b < o->batches.count; b++) {
            uint64_t size = o->sizes.items[s];

            if (size > MEMORY_MAX / o->batches.items[b] / workers) {
                (void)fprintf(stderr,
                              "mooncake_bench: %llu workers with %llu values of %llu bytes need "
                              "more than 64 GiB; lower --batches, --sizes or --threads\n",
                              (unsigned long long)workers, (unsigned long long)o->batches.items[b],
                              (unsigned long long)size);
                return false;
            }
        }
    }
    return mc_pool_options_check(o);
}

struct run {
    const struct mc_bench_options *options;
    struct mc_limits limits;
    struct mc_tally sum;
    json_t *cases; /* NULL unless --json */
};

/* What a case is to be compared with: mc_limits_kind or-ed together. */
static unsigned limits_of(const struct mc_io_case *c)
{
    unsigned kinds = 0;

    if (c->batch == 1) {
        kinds |= MC_LIMITS_TRIP;
    }
    if (c->batch == 1 && c->op == MC_IO_GET && c->size == MC_LIMITS_MESSAGE_LEN) {
        kinds |= MC_LIMITS_ASK;
    }
    if (c->size >= MC_IO_BULK_LEN &&
        (c->op == MC_IO_PUT || c->op == MC_IO_GET || c->op == MC_IO_MIX)) {
        kinds |= MC_LIMITS_COPY | MC_LIMITS_STREAM;
    }
    return kinds;
}

static void report_case(struct run *run, const struct mc_io_case *c, const struct mc_tally *tally)
{
    char size[MC_TEXT_LEN];
    char title[80];

    if (run->cases != NULL) {
        json_t *root = mc_json_tally(tally);

        (void)json_object_set_new(root, "op", json_string(mc_io_op_names[c->op]));
        (void)json_object_set_new(root, "value_bytes", json_integer((json_int_t)c->size));
        (void)json_object_set_new(root, "batch", json_integer((json_int_t)c->batch));
        (void)json_array_append_new(run->cases, root);
        return;
    }
    (void)snprintf(title, sizeof(title), "%-6s %8s x %llu", mc_io_op_names[c->op],
                   mc_text_size(size, c->size), (unsigned long long)c->batch);
    mc_report_line(title, tally, &run->limits);
    (void)fflush(stdout);
}

/* One run of a case, compared with what the machine does just before and after. */
static bool run_once(const struct run *run, const struct mc_io_case *c, struct mc_tally *tally)
{
    unsigned kinds = run->limits.measured ? limits_of(c) : 0;
    struct mc_limits before, after;
    bool fine;

    mc_limits_look(kinds, &before);
    fine = mc_crew_run(run->options, &mc_io_job, c, tally);
    mc_limits_look(kinds, &after);
    mc_tally_compare(tally, &before, &after);
    return fine;
}

/* False: there is no sense in further cases. */
static bool run_case(struct run *run, struct mc_io_case *c)
{
    static struct mc_tally tallies[MC_REPEAT_MAX];
    uint64_t repeat = run->options->repeat;

    for (uint64_t i = 0; i < repeat; i++) {
        struct mc_tally *tally = &tallies[i];
        bool fine = run_once(run, c, tally);

        if (!fine && tally->errors == 0) {
            tally->errors = 1;
        }
        mc_tally_merge(&run->sum, tally);
        if (!fine) {
            return false;
        }
        c->run++;
    }
    report_case(run, c, mc_tally_median(tallies, repeat));
    return true;
}

static bool run_cases(struct run *run, const struct ops *ops)
{
    const struct mc_bench_options *o = run->options;
    uint64_t run_id = mc_pool_run_id();

    for (size_t s = 0; s < o->sizes.count; s++) {
        for (size_t b = 0; b < o->batches.count; b++) {
            for (size_t i = 0; i < ops->count; i++) {
                struct mc_io_case c = {ops->items[i], o->sizes.items[s], o->batches.items[b],
                                       run_id};

                if (!run_case(run, &c)) {
                    return false;
                }
                run_id = c.run;
            }
        }
    }
    return true;
}

static enum mc_exit run_command(const struct mc_bench_options *options, const char *command)
{
    static struct run run;
    struct ops ops;

    if (!parse_ops(options->ops, &ops) || !options_check(options)) {
        return MC_EXIT_USAGE;
    }
    if (!mc_pool_try(options, command)) {
        return MC_EXIT_FAILED;
    }
    run.options = options;
    mc_report_measure_limits(options, &run.limits);
    if (options->json) {
        run.cases = json_array();
    } else {
        mc_report_limits(&run.limits);
        (void)printf(
            "\n%llu process(es) of %llu thread(s), %llu ms a case, median of %llu, polling "
            "%llu us\n",
            (unsigned long long)options->processes, (unsigned long long)options->threads,
            (unsigned long long)options->time_ms, (unsigned long long)options->repeat,
            (unsigned long long)options->poll_us);
        mc_report_head("operation", &run.limits);
    }
    (void)run_cases(&run, &ops); /* what went wrong is in the sum */
    if (options->json) {
        mc_json_print(json_pack(
            "{s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:s}", "command", command, "repeat",
            (json_int_t)options->repeat, "poll_us", (json_int_t)options->poll_us, "processes",
            (json_int_t)options->processes, "threads", (json_int_t)options->threads, "limits",
            mc_json_limits(&run.limits), "cases", run.cases, "verified_bytes",
            (json_int_t)run.sum.verified, "wrong", (json_int_t)run.sum.wrong, "errors",
            (json_int_t)run.sum.errors, "first_error", run.sum.sentence));
    } else {
        mc_report_verdict(&run.sum);
    }
    return mc_exit_of(&run.sum);
}

enum mc_exit mc_io_run(const struct mc_bench_options *options)
{
    return run_command(options, "io");
}

enum mc_exit mc_meta_run(const struct mc_bench_options *options)
{
    return run_command(options, "meta");
}
