/* Making the core, its time, its tick. */
#include "master/core_parts.h"

#include <string.h>

#include "base/log.h"

/* The longest time that the tick lets pass without being called again. */
#define TICK_MS_MAX 100u

/* Times beyond this many milliseconds (3 years) are a mistake, and cannot overflow below. */
#define OPTION_MS_MAX 100000000000ull

void mc_core_options_init(struct mc_core_options *options)
{
    *options = (struct mc_core_options){
        .lease_ms = 10000,
        .reuse_ms = 500,
        .client_ttl_ms = 10000,
        .ping_ms = 1000,
        .put_discard_ms = 30000,
        .put_release_ms = 600000,
        .soft_pin_ms = 1800000,
        .soft_pin_ms_max = 86400000,
        .high_watermark = 0.90,
        .eviction_ratio = 0.05,
        .allow_evict_soft_pinned = true,
        .stall_ms = 1000,
        .miss_history = 65536,
    };
}

static mooncake_err check_times(const struct mc_core_options *options)
{
    const struct {
        const char *name;
        uint64_t value, min;
    } times[] = {
        {"lease", options->lease_ms, 1},
        {"client_ttl", options->client_ttl_ms, 1},
        {"ping", options->ping_ms, 1},
        {"put_discard", options->put_discard_ms, 1},
        {"put_release", options->put_release_ms, options->put_discard_ms},
        {"soft_pin", options->soft_pin_ms, 1},
        {"soft_pin_max", options->soft_pin_ms_max, options->soft_pin_ms},
        {"stall", options->stall_ms, 0},
    };

    for (size_t i = 0; i < MC_ARRAY_LEN(times); i++) {
        if (times[i].value < times[i].min || times[i].value > OPTION_MS_MAX) {
            return mc_err_set(MOONCAKE_EINVAL, "%s: %llu ms is not from %llu to %llu ms",
                              times[i].name, (unsigned long long)times[i].value,
                              (unsigned long long)times[i].min, OPTION_MS_MAX);
        }
    }
    return MOONCAKE_OK;
}

static mooncake_err check_options(const struct mc_core_options *options)
{
    MC_TRY(check_times(options));
    if (!(options->high_watermark > 0.0 && options->high_watermark <= 1.0)) {
        return mc_err_set(MOONCAKE_EINVAL, "high_watermark: %g is not above 0 and at most 1",
                          options->high_watermark);
    }
    if (!(options->eviction_ratio >= 0.0 && options->eviction_ratio < options->high_watermark)) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "eviction_ratio: %g is not from 0 to below high_watermark (%g)",
                          options->eviction_ratio, options->high_watermark);
    }
    if (options->miss_history > MC_FATES_ENTRIES_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "miss_history: %u is above %u", options->miss_history,
                          MC_FATES_ENTRIES_MAX);
    }
    if (options->epoch == 0) {
        return mc_err_set(MOONCAKE_EINVAL, "epoch: must be a random number that is not 0");
    }
    return MOONCAKE_OK;
}

static void init_histograms(struct mc_core_metrics *metrics){
#define INIT_(name, help, scale, ...)                                                              \
    {                                                                                              \
        static const double bounds[] = {__VA_ARGS__};                                              \
        mc_histogram_init(&metrics->name, bounds, MC_ARRAY_LEN(bounds), scale);                    \
    }
    MC_CORE_HISTOGRAM_LIST(INIT_)
#undef INIT_
}

mooncake_err mc_core_create(const struct mc_core_options *options, const struct mc_clock *clock,
                            struct mc_core **out)
{
    struct mc_core *core;
    mooncake_err err;

    MC_TRY(check_options(options));
    core = mc_calloc(1, sizeof(*core));
    if (core == NULL) {
        return MOONCAKE_ENOMEM;
    }
    core->env.options = *options;
    init_histograms(&core->env.metrics);
    core->clock = clock;
    core->seen_ns = mc_now_ns(clock);
    core->env.now_ns = core->seen_ns;
    core->started_ns = core->seen_ns;
    mc_list_init(&core->removals);
    mc_list_init(&core->recounts);
    err = mc_fates_init(&core->fates, options->miss_history, core->env.now_ns);
    if (err != MOONCAKE_OK) {
        goto free_core;
    }
    core->env.fates = &core->fates;
    err = mc_segments_init(&core->segments, &core->env);
    if (err != MOONCAKE_OK) {
        goto fini_fates;
    }
    err = mc_objects_init(&core->objects, &core->env, &core->segments);
    if (err != MOONCAKE_OK) {
        goto fini_segments;
    }
    err = mc_members_init(&core->members, &core->env, &core->segments);
    if (err != MOONCAKE_OK) {
        goto fini_objects;
    }
    mc_lifetime_init(&core->lifetime, &core->env, &core->objects);
    mc_reuse_init(&core->reuse, &core->env);
    core->allocator = (struct mc_allocator){
        .env = &core->env,
        .objects = &core->objects,
        .segments = &core->segments,
        .random.state = options->seed,
    };
    *out = core;
    return MOONCAKE_OK;

fini_objects:
    mc_objects_fini(&core->objects);
fini_segments:
    mc_segments_fini(&core->segments);
fini_fates:
    mc_fates_fini(&core->fates);
free_core:
    mc_free(core);
    return err;
}

void mc_core_destroy(struct mc_core **core)
{
    struct mc_core *const c = *core;

    if (c == NULL) {
        return;
    }
    mc_core_removals_fini(c);
    mc_core_recounts_fini(c);
    mc_lifetime_fini(&c->lifetime);
    mc_objects_fini(&c->objects);
    mc_members_fini(&c->members);
    mc_fates_fini(&c->fates);
    mc_segments_fini(&c->segments);
    mc_free(c);
    *core = NULL;
}

void mc_core_enter(struct mc_core *core)
{
    uint64_t const now_ns = mc_now_ns(core->clock);
    uint64_t const stall_ns = core->env.options.stall_ms * MC_NS_PER_MS;
    uint64_t const gap_ns = now_ns - core->seen_ns;

    MC_ASSERT(now_ns >= core->seen_ns);
    core->seen_ns = now_ns;
    if (stall_ns != 0 && gap_ns > stall_ns) {
        /* We were stopped, and what peers sent meanwhile is still unread: nobody may be judged
         * by this time. It did not happen. */
        core->stalled_ns += gap_ns;
        MC_COUNT(&core->env, stalls, 1);
        MC_COUNT(&core->env, stalled_ms, gap_ns / MC_NS_PER_MS);
        mc_log_warn("core.stalled", "gap_ms=%llu", (unsigned long long)(gap_ns / MC_NS_PER_MS));
    }
    core->env.now_ns = now_ns - core->stalled_ns;
}

/* ---- tick ---------------------------------------------------------------------------------- */

static bool sweep_step(struct mc_core *core, struct mc_budget *budget)
{
    while (!mc_list_empty(&core->segments.gone)) {
        struct mc_segment *const segment =
            mc_list_first(&core->segments.gone, struct mc_segment, node);

        for (;;) {
            if (!mc_budget_step(budget)) {
                return false;
            }
            if (!mc_evict_sweep_one(&core->objects, segment)) {
                break;
            }
        }
        mc_histogram_observe(&core->env.metrics.sweep_duration_seconds,
                             mc_now_ns(core->clock) - core->stalled_ns - segment->gone_ns);
        mc_segments_destroy(&core->segments, segment);
    }
    return true;
}

static uint64_t next_ns(const struct mc_core *core)
{
    uint64_t const by_ns = mc_deadline_ns(core->env.now_ns, TICK_MS_MAX);
    uint64_t const members_ns = mc_members_next_ns(&core->members);
    uint64_t const lifetime_ns = mc_lifetime_next_ns(&core->lifetime);
    uint64_t next = members_ns < lifetime_ns ? members_ns : lifetime_ns;

    if (core->work_left) {
        next = core->env.now_ns;
    }
    mc_list_for_each (node, &core->segments.over) {
        uint64_t const after_ns =
            MC_CONTAINER_OF(node, struct mc_segment, over_node)->evict_after_ns;

        next = after_ns < next ? after_ns : next;
    }
    if (!mc_list_empty(&core->removals)) {
        uint64_t const begin_ns =
            mc_list_first(&core->removals, struct mc_removal, node)->not_before_ns;

        next = begin_ns < next ? begin_ns : next;
    }
    return (next < by_ns ? next : by_ns) + core->stalled_ns;
}

uint64_t mc_core_tick(struct mc_core *core)
{
    bool (*const steps[])(struct mc_core * core, struct mc_budget * budget) = {
        sweep_step,
        mc_core_removals_step,
        mc_core_recount_step,
    };
    struct mc_budget budget;
    bool done;

    mc_core_enter(core);
    mc_budget_init(&budget, core->clock, MC_SLICE_STEPS_MAX, MC_TICK_NS_MAX);
    /* What others wait for comes first, and long work is last; those share what is left, so
     * that none can keep another waiting. */
    done = mc_members_step(&core->members, &budget);
    done = mc_lifetime_step(&core->lifetime, &budget) && done;
    done = mc_evict_step(&core->objects, &budget) && done;
    for (size_t i = 0; i < MC_ARRAY_LEN(steps); i++) {
        struct mc_budget share = budget;

        if (i + 1 < MC_ARRAY_LEN(steps)) {
            share.steps_left /= 2;
        }
        budget.steps_left -= share.steps_left;
        done = steps[i](core, &share) && done;
        budget.steps_left += share.steps_left;
    }
    core->work_left = !done;
    return next_ns(core);
}

bool mc_core_wants_tick(const struct mc_core *core)
{
    if (core->work_left || !mc_list_empty(&core->segments.gone) ||
        (!mc_list_empty(&core->recounts) && core->recount_pace == 0)) {
        return true;
    }
    if (!mc_list_empty(&core->removals) &&
        mc_list_first(&core->removals, struct mc_removal, node)->not_before_ns <=
            core->env.now_ns) {
        return true;
    }
    mc_list_for_each (node, &core->segments.over) {
        if (MC_CONTAINER_OF(node, struct mc_segment, over_node)->evict_after_ns <=
            core->env.now_ns) {
            return true;
        }
    }
    return false;
}

/* ---- small things -------------------------------------------------------------------------- */

bool mc_core_key_ok(const struct mc_key *key)
{
    return key->len >= 1 && key->len <= MC_KEY_LEN_MAX &&
           memchr(key->bytes, '\0', key->len) == NULL;
}

uint64_t *mc_core_hash_keys(struct mc_core *core, const struct mc_key *keys, size_t count,
                            struct mc_arena *arena)
{
    uint64_t *hashes = mc_arena_array(arena, count, sizeof(*hashes));

    for (size_t i = 0; hashes != NULL && i < count; i++) {
        hashes[i] = mc_htab_hash(keys[i].bytes, keys[i].len);
        mc_htab_prefetch(core->objects.table, hashes[i]);
    }
    return hashes;
}

const struct mc_core_metrics *mc_core_metrics(const struct mc_core *core)
{
    return &core->env.metrics;
}

void mc_core_plant_fault(struct mc_core *core, enum mc_core_fault fault)
{
    core->env.fault = fault;
}

uint64_t mc_core_table_bytes(const struct mc_core *core)
{
    return mc_htab_bytes(core->objects.table);
}
