/*
 * Counting everything again, to compare with the gauges and the segments' books: in one go, also
 * along every queue, or in slices while the pool works (tally.h says how that stays exact).
 */
#include "master/core_parts.h"

/* Versions that a slice visits whatever else the tick has done: so it comes to its end. */
#define VISITS_MIN 64u
/* A step of the budget, which looks at the clock every 64 of them: a version out of the cache takes
 * up to a microsecond. */
#define VISITS_PER_STEP 4u
/* Who may wait for one. Bounds memory. */
#define MC_RECOUNTS_MAX 64u

/* What is truly there beside the versions. */
struct counts {
    int64_t capacity_bytes, used_bytes, segments, gone_segments, members, stores;
};

/* ---- what both ways compare at their end ----------------------------------------------------- */

/* Along the queues, which a recount in slices cannot do: they change under its hands. */
static void check_queues(struct mc_tally *tally, struct mc_segment *segment)
{
    uint64_t bytes[MC_CLASSES] = {0};
    uint64_t leased[2][MC_LEASE_BUCKETS] = {{0}};
    uint64_t extents = 0;
    uint64_t sum = 0;

    for (unsigned queue = 0; queue < MC_QUEUES; queue++) {
        mc_list_for_each (node, &segment->queues[queue]) {
            struct mc_extent *const extent = MC_CONTAINER_OF(node, struct mc_extent, node);
            uint64_t const end_ns = mc_extent_object(extent)->lease_end_ns;
            uint64_t const bucket = mc_lease_bucket(tally->segments, end_ns);
            uint64_t const len = mc_extent_bytes(extent->payload_len);

            extents++;
            sum += len;
            bytes[extent->klass] += len;
            mc_tally_expect(tally, "queue of an extent", extent->queue, queue);
            if (extent->klass <= MC_CLASS_SOFT && end_ns != 0 &&
                segment->leased[extent->klass].number[bucket % MC_LEASE_BUCKETS] == bucket) {
                leased[extent->klass][bucket % MC_LEASE_BUCKETS] += len;
            }
        }
    }
    for (unsigned klass = 0; klass < MC_CLASSES; klass++) {
        mc_tally_expect(tally, "bytes of a class", segment->bytes[klass], bytes[klass]);
    }
    for (unsigned i = 0; i < MC_LEASE_BUCKETS; i++) {
        mc_tally_expect(tally, "leased bytes", segment->leased[MC_CLASS_PLAIN].bytes[i],
                        leased[MC_CLASS_PLAIN][i]);
        mc_tally_expect(tally, "leased soft-pinned bytes", segment->leased[MC_CLASS_SOFT].bytes[i],
                        leased[MC_CLASS_SOFT][i]);
    }
    mc_tally_expect(tally, "extents of a segment", segment->extents, extents);
    mc_tally_expect(tally, "used bytes of a segment", mc_extalloc_used(segment->alloc), sum);
}

static void check_placeable(struct mc_tally *tally, const struct mc_segments *segments)
{
    uint64_t placeable_len = 0;
    uint64_t placeable_used = 0;
    uint32_t recent = 0;

    for (uint32_t i = 0; i < segments->placeable_count; i++) {
        mc_tally_expect(tally, "place of a segment", segments->placeable[i]->place_index, i);
        placeable_len += mc_extalloc_capacity(segments->placeable[i]->alloc);
        placeable_used += mc_extalloc_used(segments->placeable[i]->alloc);
        recent += segments->placeable[i]->recent;
    }
    mc_tally_expect(tally, "placeable bytes", segments->placeable_len, placeable_len);
    mc_tally_expect(tally, "used placeable bytes", segments->placeable_used, placeable_used);
    mc_tally_expect(tally, "recent placements", segments->recent_total, recent);
}

static void check_segments(struct mc_core *core, struct mc_tally *tally, struct counts *counts,
                           void (*check)(struct mc_tally *tally, struct mc_segment *segment))
{
    const struct mc_segments *segments = &core->segments;

    mc_list_for_each (node, &segments->mounted) {
        struct mc_segment *const segment = MC_CONTAINER_OF(node, struct mc_segment, node);

        check(tally, segment);
        counts->segments++;
        counts->capacity_bytes += (int64_t)mc_extalloc_capacity(segment->alloc);
        counts->used_bytes += (int64_t)mc_extalloc_used(segment->alloc);
    }
    mc_list_for_each (node, &segments->gone) {
        check(tally, MC_CONTAINER_OF(node, struct mc_segment, node));
        counts->gone_segments++;
    }
    check_placeable(tally, segments);
    mc_tally_expect(tally, "mounts in the table", mc_htab_count(segments->by_mount),
                    (uint64_t)counts->segments);
    mc_tally_expect(tally, "names in the table", mc_htab_count(segments->by_name),
                    (uint64_t)counts->segments);
}

static void check_members(struct mc_core *core, struct mc_tally *tally, struct counts *counts)
{
    const struct mc_members *members = &core->members;

    mc_list_for_each (node, &members->by_ping) {
        const struct mc_member *member = MC_CONTAINER_OF(node, struct mc_member, node);
        uint32_t count = 0;

        mc_list_for_each (segment, &member->segments) {
            count++;
        }
        mc_tally_expect(tally, "segments of a member", member->segments_count, count);
        counts->members++;
        counts->stores += count > 0 ? 1 : 0;
    }
    mc_tally_expect(tally, "members in the table", mc_htab_count(members->by_id),
                    (uint64_t)counts->members);
}

/* The sentence is the thread's, so it is made for each who is told. */
static mooncake_err verdict(const struct mc_tally *tally)
{
    if (tally->wrong != NULL) {
        return mc_err_set(MOONCAKE_EINTERNAL, "%s: the books say %llu, a recount %llu",
                          tally->wrong, (unsigned long long)tally->told,
                          (unsigned long long)tally->found);
    }
    return MOONCAKE_OK;
}

/* The versions are counted: compare. */
static void conclude(struct mc_core *core, struct mc_tally *tally,
                     void (*check)(struct mc_tally *tally, struct mc_segment *segment))
{
    const struct mc_core_metrics *metrics = &core->env.metrics;
    struct counts counts = {0};

    check_segments(core, tally, &counts, check);
    check_members(core, tally, &counts);
#define FOUND_keys tally->keys
#define FOUND_soft_pinned_keys tally->soft_pinned_keys
#define FOUND_unfinished_puts tally->unfinished_puts
#define FOUND_parked_puts tally->parked_puts
#define FOUND_capacity_bytes counts.capacity_bytes
#define FOUND_used_bytes counts.used_bytes
#define FOUND_segments counts.segments
#define FOUND_gone_segments counts.gone_segments
#define FOUND_members counts.members
#define FOUND_stores counts.stores
#define EXPECT_GAUGE_(name, help)                                                                  \
    mc_tally_expect(tally, "gauge " #name, (uint64_t)mc_gauge_get(&metrics->name),                 \
                    (uint64_t)FOUND_##name);
    MC_CORE_GAUGE_LIST(EXPECT_GAUGE_)
#undef EXPECT_GAUGE_
    mc_tally_expect(tally, "hits and misses", mc_counter_get(&metrics->lookups),
                    mc_counter_get(&metrics->hits) + mc_counter_get(&metrics->misses));
    MC_COUNT(&core->env, recounts, 1);
    MC_COUNT(&core->env, gauge_recount_mismatch, tally->wrong != NULL ? 1 : 0);
}

/* ---- in one go ------------------------------------------------------------------------------- */

static void add_version(struct mc_tally *tally, struct mc_object *object)
{
    mc_tally_add_life(tally, object, 1);
    mc_tally_check_version(tally, object);
}

static void add_head(void *arg, void *element)
{
    struct mc_tally *const tally = arg;
    struct mc_object *const head = element;

    add_version(tally, head);
    if (head->life == MC_LIFE_READABLE && head->u.pending != NULL) {
        mc_tally_expect(tally, "life of a pending version", head->u.pending->life, MC_LIFE_WRITING);
        add_version(tally, head->u.pending);
    }
}

static void add_parked(struct mc_tally *tally, const struct mc_list *list)
{
    mc_list_for_each (node, list) {
        struct mc_object *const object = MC_CONTAINER_OF(node, struct mc_put, node)->object;

        if (object->life == MC_LIFE_PARKED) {
            add_version(tally, object);
        }
    }
}

mooncake_err mc_core_recount(struct mc_core *core)
{
    struct mc_tally tally; /* its own: one in slices may be under way */
    uint64_t cursor = 0;

    mc_core_enter(core);
    mc_tally_init(&tally, &core->segments);
    do {
        mc_htab_walk(core->objects.table, &cursor, SIZE_MAX, add_head, &tally);
    } while (cursor != 0);
    add_parked(&tally, &core->lifetime.unfinished);
    add_parked(&tally, &core->lifetime.failed);
    add_parked(&tally, &core->lifetime.retired);
    add_parked(&tally, &core->lifetime.viewed);
    conclude(core, &tally, check_queues);
    return verdict(&tally);
}

/* ---- in slices ------------------------------------------------------------------------------- */

/* Somebody who waits for the end of a recount. */
struct mc_recount_waiter {
    struct mc_list node;
    mc_core_recounted_cb done;
    void *arg;
};

static void count_head(void *arg, void *element)
{
    struct mc_tally *const tally = arg;
    struct mc_object *const head = element;

    mc_tally_count(tally, head);
    if (head->life == MC_LIFE_READABLE && head->u.pending != NULL) {
        mc_tally_expect(tally, "life of a pending version", head->u.pending->life, MC_LIFE_WRITING);
        mc_tally_count(tally, head->u.pending);
    }
}

static struct mc_list *list_of(struct mc_core *core, enum mc_recount_stage stage)
{
    switch (stage) {
    case MC_RECOUNT_UNFINISHED:
        return &core->lifetime.unfinished;
    case MC_RECOUNT_FAILED:
        return &core->lifetime.failed;
    case MC_RECOUNT_RETIRED:
        return &core->lifetime.retired;
    case MC_RECOUNT_VIEWED:
        return &core->lifetime.viewed;
    case MC_RECOUNT_TABLE:
    case MC_RECOUNT_COMPARE:
        break;
    }
    return NULL;
}

/* Go on in the list of this stage, for some records. True: at its end. */
static bool count_list(struct mc_core *core, struct mc_list *list, unsigned visits)
{
    struct mc_tally *const tally = &core->objects.tally;

    if (tally->cursor == NULL) {
        tally->cursor = list->next;
    }
    for (; visits > 0 && tally->cursor != list; visits--) {
        mc_tally_count(tally, MC_CONTAINER_OF(tally->cursor, struct mc_put, node)->object);
        tally->cursor = tally->cursor->next;
    }
    if (tally->cursor != list) {
        return false;
    }
    tally->cursor = NULL;
    return true;
}

/* Tell everybody who waits. They came before the comparison, so it is as new as they can wish. */
static void tell(struct mc_core *core, bool ended)
{
    const struct mc_tally *const tally = &core->objects.tally;

    while (!mc_list_empty(&core->recounts)) {
        struct mc_recount_waiter *const waiter =
            mc_list_first(&core->recounts, struct mc_recount_waiter, node);

        mc_list_drop(&waiter->node);
        core->recounts_count--;
        waiter->done(waiter->arg, ended ? verdict(tally) : MOONCAKE_EUNAVAILABLE);
        mc_free(waiter);
    }
}

static void check_sums(struct mc_tally *tally, struct mc_segment *segment)
{
    mc_tally_check_segment(tally, segment);
}

/* Some visits more. True: the recount has come to its end. */
static bool go_on(struct mc_core *core, unsigned visits)
{
    struct mc_tally *const tally = &core->objects.tally;

    if (core->recount_stage == MC_RECOUNT_TABLE) {
        mc_htab_walk(core->objects.table, &core->recount_cursor, visits, count_head, tally);
        core->recount_stage += core->recount_cursor == 0 ? 1 : 0;
        return false;
    }
    if (core->recount_stage != MC_RECOUNT_COMPARE) {
        core->recount_stage += count_list(core, list_of(core, core->recount_stage), visits) ? 1 : 0;
        return false;
    }
    conclude(core, tally, check_sums);
    mc_tally_end(tally);
    tell(core, true);
    return true;
}

bool mc_core_recount_step(struct mc_core *core, struct mc_budget *budget)
{
    unsigned const pace = core->recount_pace;

    if (mc_list_empty(&core->recounts)) {
        return true;
    }
    if (pace != 0) {
        (void)go_on(core, pace);
        return true; /* the rest at later ticks: a test lets things happen meanwhile */
    }
    if (go_on(core, VISITS_MIN)) {
        return true;
    }
    while (mc_budget_step(budget)) {
        if (go_on(core, VISITS_PER_STEP)) {
            return true;
        }
    }
    return false;
}

mooncake_err mc_core_recount_start(struct mc_core *core, mc_core_recounted_cb done, void *arg)
{
    struct mc_recount_waiter *waiter;
    struct mc_budget budget;

    if (core->recounts_count >= MC_RECOUNTS_MAX) {
        return mc_err_set(MOONCAKE_ETASKQUEUE,
                          "%u recounts are waited for; try again when it ended", MC_RECOUNTS_MAX);
    }
    waiter = mc_calloc(1, sizeof(*waiter));
    if (waiter == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    waiter->done = done;
    waiter->arg = arg;
    mc_list_add_tail(&core->recounts, &waiter->node);
    core->recounts_count++;
    if (core->objects.tally.pass == 0) { /* else: it is still before its comparison */
        mc_tally_begin(&core->objects.tally);
        core->recount_stage = MC_RECOUNT_TABLE;
        core->recount_cursor = 0;
        mc_budget_init(&budget, core->clock, MC_SLICE_STEPS_MAX, MC_TICK_NS_MAX);
        (void)mc_core_recount_step(core, &budget); /* a small pool is done at once */
    }
    return MOONCAKE_OK;
}

void mc_core_recounts_fini(struct mc_core *core)
{
    mc_tally_end(&core->objects.tally);
    tell(core, false);
}

void mc_core_recount_pace(struct mc_core *core, unsigned visits)
{
    core->recount_pace = visits;
}
