/* `peers`: the same batches of puts and gets, by this pool and by each rival, side by side. */
#include "peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "io.h"
#include "pattern.h"
#include "pool.h"
#include "report.h"
#include "requests.h"
#include "rival.h"
#include "timing.h"

#define KEY_LEN 64
/* Beside the values of a working set a rival needs room for its own books. */
#define RIVAL_MEMORY(set) ((set) + (set) / 2 + ((uint64_t)256 << 20))

/* Columns: the pool twice, then the rivals. */
enum { POOL_ANY, POOL_TCP, FIRST_RIVAL, COLUMNS = FIRST_RIVAL + MC_RIVALS_COUNT };

static const char *const pool_names[FIRST_RIVAL] = {"mooncake", "mooncake tcp"};

struct cell {
    bool known;
    struct mc_tally tally;
};

struct run {
    const struct mc_bench_options *options;
    struct cell cells[COLUMNS];
    bool missing[COLUMNS]; /* not installed: said once */
    struct mc_tally sum;
    json_t *cases; /* NULL unless --json */
};

static const char *column_name(size_t column)
{
    return column < FIRST_RIVAL ? pool_names[column] : mc_rival_names[column - FIRST_RIVAL];
}

static bool is_tcp_rival(size_t column)
{
    return column == FIRST_RIVAL + MC_RIVAL_REDIS_TCP ||
           column == FIRST_RIVAL + MC_RIVAL_MEMCACHED_TCP;
}

/* ---- one rival, one case ----------------------------------------------------------------- */

struct batch {
    char texts[MC_RIVAL_KEYS_MAX][KEY_LEN];
    const char *keys[MC_RIVAL_KEYS_MAX];
    void *spaces[MC_RIVAL_KEYS_MAX];
    const void *sources[MC_RIVAL_KEYS_MAX];
    unsigned char *values;
};

static bool batch_init(struct batch *batch, const struct mc_io_case *c)
{
    batch->values = malloc(c->size * c->batch);
    if (batch->values == NULL) {
        return false;
    }
    for (size_t i = 0; i < c->batch; i++) {
        batch->keys[i] = batch->texts[i];
        batch->spaces[i] = batch->values + i * c->size;
        batch->sources[i] = batch->spaces[i];
    }
    return true;
}

static void name_keys(struct batch *batch, const struct mc_io_case *c, uint64_t number)
{
    for (size_t i = 0; i < c->batch; i++) {
        (void)snprintf(batch->texts[i], KEY_LEN, "bench/%016llx/0/%llu", (unsigned long long)c->run,
                       (unsigned long long)(number * c->batch + i));
    }
}

static bool rival_put(struct mc_rival *rival, struct batch *batch, const struct mc_io_case *c,
                      struct mc_tally *tally)
{
    uint64_t start;

    for (size_t i = 0; i < c->batch; i++) {
        mc_pattern_fill(mc_pattern_seed(batch->keys[i], 0), batch->spaces[i], c->size);
    }
    start = mc_now_ns();
    if (!mc_rival_set(rival, batch->keys, batch->sources, c->size, c->batch, tally->sentence,
                      sizeof(tally->sentence))) {
        return false;
    }
    mc_tally_call(tally, mc_now_ns() - start, c->batch, c->batch * c->size);
    return true;
}

static bool rival_get(struct mc_rival *rival, struct batch *batch, const struct mc_io_case *c,
                      struct mc_tally *tally)
{
    uint64_t start;

    for (size_t i = 0; i < c->batch; i++) {
        mc_spoil(batch->spaces[i], c->size);
    }
    start = mc_now_ns();
    if (!mc_rival_get(rival, batch->keys, batch->spaces, c->size, c->batch, tally->sentence,
                      sizeof(tally->sentence))) {
        return false;
    }
    mc_tally_call(tally, mc_now_ns() - start, c->batch, c->batch * c->size);
    for (size_t i = 0; i < c->batch; i++) {
        mc_tally_verify(tally, batch->keys[i], batch->spaces[i], c->size, c->size);
    }
    return true;
}

static uint64_t batches_held(const struct mc_bench_options *o, const struct mc_io_case *c)
{
    uint64_t fit = o->working_set / c->size;
    uint64_t keys = (fit < o->keys ? fit : o->keys) / c->batch;

    return keys == 0 ? 1 : keys;
}

/* Fill the working set, untimed; then the operation until the time is over. */
static bool rival_work(struct mc_rival *rival, struct batch *batch,
                       const struct mc_bench_options *o, const struct mc_io_case *c,
                       struct mc_tally *tally)
{
    static struct mc_tally unmeasured;
    uint64_t held = batches_held(o, c), rnd = o->seed, end;

    unmeasured = (struct mc_tally){0};
    for (uint64_t i = 0; i < held; i++) {
        name_keys(batch, c, i);
        if (!rival_put(rival, batch, c, &unmeasured)) {
            memcpy(tally->sentence, unmeasured.sentence, sizeof(tally->sentence));
            return false;
        }
    }
    end = mc_now_ns() + o->time_ms * 1000000u;
    do {
        name_keys(batch, c, mc_random_below(&rnd, held));
        if (c->op == MC_IO_PUT ? !rival_put(rival, batch, c, tally)
                               : !rival_get(rival, batch, c, tally)) {
            return false;
        }
    } while (mc_now_ns() < end);
    mc_tally_finish(tally);
    return true;
}

static bool run_rival(struct run *run, size_t column, const struct mc_io_case *c)
{
    static struct batch batch;
    struct mc_tally *tally = &run->cells[column].tally;
    struct mc_rival rival;
    bool fine;

    if (run->missing[column]) {
        return true;
    }
    if (!mc_rival_start((enum mc_rival_kind)(column - FIRST_RIVAL),
                        RIVAL_MEMORY(run->options->working_set), &rival, &run->missing[column],
                        tally->sentence, sizeof(tally->sentence))) {
        if (run->missing[column]) {
            (void)fprintf(stderr, "mooncake_bench: no %s: %s\n", column_name(column),
                          tally->sentence);
        }
        return run->missing[column];
    }
    fine = batch_init(&batch, c) && rival_work(&rival, &batch, run->options, c, tally);
    free(batch.values);
    mc_rival_stop(&rival);
    run->cells[column].known = fine;
    return fine;
}

/* ---- all of them, one case --------------------------------------------------------------- */

static bool run_pool(struct run *run, size_t column, const struct mc_io_case *c)
{
    struct mc_bench_options options = *run->options;
    struct mc_io_case own = *c;
    struct cell *cell = &run->cells[column];

    own.run += column; /* keys of its own */
    if (column == POOL_TCP) {
        options.transport = "tcp";
    }
    cell->known = mc_crew_run(&options, &mc_io_job, &own, &cell->tally);
    return cell->known;
}

/* Of the fastest rival over TCP; 0: there is none. */
static double best_tcp_rival(const struct run *run)
{
    double best = 0;

    for (size_t i = 0; i < COLUMNS; i++) {
        if (is_tcp_rival(i) && run->cells[i].known && run->cells[i].tally.items_rate > best) {
            best = run->cells[i].tally.items_rate;
        }
    }
    return best;
}

static void report_json(struct run *run, const struct mc_io_case *c)
{
    double best = best_tcp_rival(run);
    json_t *who = json_object();

    for (size_t i = 0; i < COLUMNS; i++) {
        if (run->cells[i].known) {
            (void)json_object_set_new(who, column_name(i), mc_json_tally(&run->cells[i].tally));
        }
    }
    (void)json_array_append_new(
        run->cases, json_pack("{s:s, s:I, s:I, s:o, s:o}", "op", mc_io_op_names[c->op],
                              "value_bytes", (json_int_t)c->size, "batch", (json_int_t)c->batch,
                              "who", who, "tcp_x_best_rival",
                              best > 0 ? json_real(run->cells[POOL_TCP].tally.items_rate / best)
                                       : json_null()));
}

static void report_line(const struct run *run, const struct mc_io_case *c)
{
    char size[MC_TEXT_LEN], text[MC_TEXT_LEN], title[80];
    double best = best_tcp_rival(run);

    (void)snprintf(title, sizeof(title), "%-4s %8s x %llu", mc_io_op_names[c->op],
                   mc_text_size(size, c->size), (unsigned long long)c->batch);
    (void)printf("%-22s", title);
    for (size_t i = 0; i < COLUMNS; i++) {
        (void)printf(" %14s", run->cells[i].known
                                  ? mc_text_count(text, run->cells[i].tally.items_rate)
                                  : "-");
    }
    if (best > 0) {
        (void)printf(" %8.2f", run->cells[POOL_TCP].tally.items_rate / best);
    }
    (void)printf("\n");
    (void)fflush(stdout);
}

/* Each of them once. */
static bool run_round(struct run *run, const struct mc_io_case *c)
{
    bool fine = true;

    for (size_t i = 0; i < COLUMNS && fine; i++) {
        run->cells[i] = (struct cell){0};
        fine = i < FIRST_RIVAL ? run_pool(run, i, c) : run_rival(run, i, c);
        if (!fine && run->cells[i].tally.errors == 0) {
            run->cells[i].tally.errors = 1;
        }
        if (!fine) {
            (void)fprintf(stderr, "mooncake_bench: %s\n", column_name(i));
        }
        mc_tally_merge(&run->sum, &run->cells[i].tally);
    }
    return fine;
}

/* In rounds, so that what the machine does meanwhile falls on all of them alike. */
static bool run_case(struct run *run, const struct mc_io_case *c)
{
    static struct mc_tally tallies[COLUMNS][MC_REPEAT_MAX];
    const uint64_t repeat = run->options->repeat;
    struct mc_io_case round = *c;
    bool fine = true;

    for (uint64_t r = 0; r < repeat && fine; r++) {
        fine = run_round(run, &round);
        for (size_t i = 0; i < COLUMNS; i++) {
            tallies[i][r] = run->cells[i].tally;
        }
        round.run += COLUMNS;
    }
    for (size_t i = 0; i < COLUMNS && fine; i++) {
        run->cells[i].tally = *mc_tally_median(tallies[i], repeat);
    }
    if (fine && run->cases != NULL) {
        report_json(run, c);
    } else if (fine) {
        report_line(run, c);
    }
    return fine;
}

static void report_head(void)
{
    (void)printf("\nkeys/s, one thread\n%-22s", "operation");
    for (size_t i = 0; i < COLUMNS; i++) {
        (void)printf(" %14s", column_name(i));
    }
    (void)printf(" %8s\n", "tcp x");
}

/* ---- the command ------------------------------------------------------------------------- */

static bool options_check(const struct mc_bench_options *o)
{
    for (size_t i = 0; i < o->sizes.count; i++) {
        for (size_t j = 0; j < o->batches.count; j++) {
            if (o->sizes.items[i] * o->batches.items[j] > o->working_set) {
                (void)fprintf(stderr,
                              "mooncake_bench: %llu values of %llu bytes are more than "
                              "--working-set; raise it\n",
                              (unsigned long long)o->batches.items[j],
                              (unsigned long long)o->sizes.items[i]);
                return false;
            }
        }
    }
    return mc_pool_options_check(o);
}

static void run_cases(struct run *run)
{
    static const enum mc_io_op ops[] = {MC_IO_PUT, MC_IO_GET};
    const struct mc_bench_options *o = run->options;
    uint64_t run_id = mc_pool_run_id();

    for (size_t s = 0; s < o->sizes.count; s++) {
        for (size_t b = 0; b < o->batches.count; b++) {
            for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
                struct mc_io_case c = {ops[i], o->sizes.items[s], o->batches.items[b], run_id};

                if (!run_case(run, &c)) {
                    return;
                }
                run_id += COLUMNS * o->repeat;
            }
        }
    }
}

enum mc_exit mc_peers_run(const struct mc_bench_options *options)
{
    static struct run run;

    if (!options_check(options)) {
        return MC_EXIT_USAGE;
    }
    if (!mc_pool_try(options, "peers")) {
        return MC_EXIT_FAILED;
    }
    run.options = options;
    if (options->json) {
        run.cases = json_array();
    } else {
        report_head();
    }
    run_cases(&run); /* what went wrong is in the sum */
    if (options->json) {
        mc_json_print(json_pack("{s:s, s:o, s:I, s:I, s:I, s:s}", "command", "peers", "cases",
                                run.cases, "verified_bytes", (json_int_t)run.sum.verified, "wrong",
                                (json_int_t)run.sum.wrong, "errors", (json_int_t)run.sum.errors,
                                "first_error", run.sum.sentence));
    } else {
        mc_report_verdict(&run.sum);
    }
    return mc_exit_of(&run.sum);
}
