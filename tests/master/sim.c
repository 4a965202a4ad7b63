/*
 * The core on a fake clock under a seeded storm: clients that put, read, remove, die and come late;
 * a network that delays, loses and doubles; stores that die, come back, leave; a master that
 * stalls. Every answer is judged by the model. A seed that fails is printed and replays.
 *
 *     test_sim [--seeds N] [--seed FIRST] [--steps N] [--verbose]
 *     test_sim --fault end|extent|lease [--seeds N]     succeeds if a seed finds the planted fault
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "master/sim_world.h"

/* Steps between two recounts. */
#define RECOUNT_EACH 16u

struct plan {
    uint64_t first, seeds, steps;
    enum mc_core_fault fault;
    bool verbose;
};

static void options_of(struct sim *sim, struct mc_core_options *options)
{
    mc_core_options_init(options);
    options->lease_ms = 200 + sim_below(sim, 400);
    options->client_ttl_ms = 1500;
    options->ping_ms = 200;
    options->put_discard_ms = 600;
    options->put_release_ms = 1800;
    options->stall_ms = 1000;
    options->high_watermark = sim_chance(sim, 2) ? 1.0 : 0.8;
    options->eviction_ratio = 0.1;
    options->epoch = 77;
    options->seed = sim->seed;
    options->reuse_ms = 0; /* nobody here asks for promises, so nothing waits for their end */
}

static void begin(struct sim *sim, const struct plan *plan, uint64_t seed)
{
    struct mc_core_options options;

    memset(sim, 0, sizeof(*sim));
    sim->seed = seed;
    sim->verbose = plan->verbose;
    sim->random.state = seed;
    options_of(sim, &options);
    mc_clock_fake_init(&sim->clock, 5 * MC_NS_PER_S);
    sim->seen_ns = sim->clock.now_ns;
    sim->last_id = 100;
    mc_arena_init(&sim->arena, 0);
    model_init(&sim->model, &options);
    if (mc_core_create(&options, &sim->clock.clock, &sim->core) != MOONCAKE_OK) {
        (void)fprintf(stderr, "no core: %s\n", mooncake_last_error());
        exit(2);
    }
    mc_core_plant_fault(sim->core, plan->fault);
    mc_core_recount_pace(sim->core, 1 + (unsigned)(seed % 4));
    for (unsigned i = 0; i < STORES_MAX; i++) {
        sim->stores[i].number = i;
        sim->stores[i].client_id = 50 + i;
        sim->stores[i].len = (uint64_t)32768 << sim_below(sim, 3);
        if (i < 1 + seed % 3) {
            sim->stores[i].mounted_once = true;
            sim_mount(sim, &sim->stores[i]);
        }
    }
}

static void recount(struct sim *sim)
{
    struct mc_pool_status_reply status;

    sim_enter(sim);
    if (mc_core_recount(sim->core) != MOONCAKE_OK) {
        model_fail(&sim->model, "recount: %s", mooncake_last_error());
    }
    mc_core_pool_status(sim->core, &status);
    if (status.used > status.capacity) {
        model_fail(&sim->model, "used exceeds capacity");
    }
}

static void on_recounted(void *arg, mooncake_err err)
{
    struct sim *const sim = arg;

    sim->recounting = false;
    sim->recounts += err == MOONCAKE_OK ? 1 : 0;
    if (err != MOONCAKE_OK && err != MOONCAKE_EUNAVAILABLE) {
        model_fail(&sim->model, "recount in slices: %s", mooncake_last_error());
    }
}

/* One is always under way, a few versions at each tick, and the storm rages between them. */
static void keep_recounting(struct sim *sim)
{
    if (!sim->recounting) {
        sim_enter(sim);
        sim->recounting = true;
        if (mc_core_recount_start(sim->core, on_recounted, sim) != MOONCAKE_OK) {
            model_fail(&sim->model, "no recount: %s", mooncake_last_error());
        }
    }
}

static void one_step(struct sim *sim)
{
    bool const stall = sim_chance(sim, 200);
    uint64_t const since_ms = (sim->clock.now_ns - sim->tick_ns) / MC_NS_PER_MS;

    sim->clock.now_ns += sim_ms(stall ? 1100 + sim_below(sim, 5000) : sim_below(sim, 25));
    if (stall || since_ms > 70 || sim_chance(sim, 2)) {
        sim_tick(sim);
    }
    sim_deliver_due(sim);
    sim_live_stores(sim);
    sim_trouble_stores(sim);
    sim_run_ops(sim);
    keep_recounting(sim);
    sim_act(sim);
    if (sim->step % RECOUNT_EACH == 0) {
        recount(sim);
    }
}

/* Everybody stops, all times pass, everything is removed: nothing may be left. */
static void settle(struct sim *sim)
{
    const struct mc_core_metrics *metrics = mc_core_metrics(sim->core);

    sim->messages_count = 0;
    for (unsigned i = 0; i < 100 && !sim->model.failed; i++) {
        sim->clock.now_ns += sim_ms(50);
        sim_live_stores(sim);
        sim_tick(sim);
    }
    sim_remove_all(sim, true);
    recount(sim);
    if (sim->recounts == 0 && sim->step >= 600) {
        model_fail(&sim->model, "no recount in slices came to its end");
    }
    if (mc_gauge_get(&metrics->keys) != 0 || mc_gauge_get(&metrics->used_bytes) != 0 ||
        mc_gauge_get(&metrics->unfinished_puts) != 0 || mc_gauge_get(&metrics->parked_puts) != 0) {
        model_fail(&sim->model, "left at the end: %" PRId64 " keys, %" PRId64 " bytes",
                   mc_gauge_get(&metrics->keys), mc_gauge_get(&metrics->used_bytes));
    }
}

/* False: the seed failed; sim->model.why says how. */
static bool run_seed(struct sim *sim, const struct plan *plan, uint64_t seed)
{
    int64_t const live_before = mc_mem_live_count();

    begin(sim, plan, seed);
    for (sim->step = 0; sim->step < plan->steps && !sim->model.failed; sim->step++) {
        one_step(sim);
    }
    if (!sim->model.failed) {
        settle(sim);
    }
    mc_core_destroy(&sim->core);
    mc_arena_fini(&sim->arena);
    if (mc_mem_live_count() != live_before) {
        model_fail(&sim->model, "%" PRId64 " blocks of memory are left",
                   mc_mem_live_count() - live_before);
    }
    return !sim->model.failed;
}

static int run(const struct plan *plan)
{
    struct sim *sim = malloc(sizeof(*sim));
    uint64_t failed = 0;

    if (sim == NULL) {
        return 2;
    }
    for (uint64_t seed = plan->first; seed < plan->first + plan->seeds; seed++) {
        if (run_seed(sim, plan, seed)) {
            continue;
        }
        failed++;
        (void)printf("seed %" PRIu64 " step %" PRIu64 ": %s\n  replay: test_sim --seed %" PRIu64
                     " --seeds 1 --verbose\n",
                     seed, sim->step, sim->model.why, seed);
        if (plan->fault != MC_CORE_FAULT_NONE) {
            break; /* found */
        }
        if (failed == 10) {
            break;
        }
    }
    free(sim);
    if (plan->fault != MC_CORE_FAULT_NONE) {
        (void)printf("the planted fault was %s\n", failed > 0 ? "found" : "NOT found");
        return failed > 0 ? 0 : 1;
    }
    (void)printf("%" PRIu64 " seeds from %" PRIu64 ", %" PRIu64 " failed\n", plan->seeds,
                 plan->first, failed);
    return failed > 0 ? 1 : 0;
}

static bool fault_from_text(const char *text, enum mc_core_fault *out)
{
    static const struct {
        const char *text;
        enum mc_core_fault fault;
    } faults[] = {
        {"end", MC_CORE_FAULT_END_IGNORES_ATTEMPT},
        {"extent", MC_CORE_FAULT_EXTENT_HANDED_OUT_TWICE},
        {"lease", MC_CORE_FAULT_LEASE_FORGOTTEN},
    };

    for (size_t i = 0; i < MC_ARRAY_LEN(faults); i++) {
        if (strcmp(text, faults[i].text) == 0) {
            *out = faults[i].fault;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    struct plan plan = {.first = 1, .seeds = 1000, .steps = 600};

    mc_log_set_level(MC_LOG_OFF);
    for (int i = 1; i < argc; i++) {
        const char *const value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--verbose") == 0) {
            plan.verbose = true;
            continue;
        }
        if (strcmp(argv[i], "--seeds") == 0) {
            plan.seeds = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            plan.first = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--steps") == 0) {
            plan.steps = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--fault") != 0 || !fault_from_text(value, &plan.fault)) {
            (void)fprintf(stderr, "%s: unknown; see the head of sim.c\n", argv[i]);
            return 2;
        }
        i++;
    }
    return run(&plan);
}
