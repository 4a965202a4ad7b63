/* Remove, and the removal of everything in slices. */
#include "master/core_parts.h"

#include "base/log.h"
#include "master/reply.h"

/* Table elements visited in one go; with a pattern one, which may cost 100 us, or of long keys
 * more. */
#define WALK_STEPS 32u
#define WALK_STEPS_MATCHING 1u

/* A newer version under way stays: its end is a put that comes after this removal. Who looks at
 * the bytes in place goes on to do so; only the key is gone. */
static mooncake_err remove_head(struct mc_core *core, struct mc_object *head)
{
    mc_fates_note(&core->fates, head, MC_FATE_REMOVED, core->env.now_ns, NULL);
    if (mc_object_viewed(head, core->env.now_ns)) {
        MC_TRY(mc_lifetime_retire(&core->lifetime, head));
    } else {
        mc_objects_drop(&core->objects, head);
    }
    MC_COUNT(&core->env, removed, 1);
    return MOONCAKE_OK;
}

static mooncake_err remove_item(struct mc_core *core, const struct mc_key *key, uint64_t hash,
                                bool force)
{
    struct mc_object *head;

    if (!mc_core_key_ok(key)) {
        return MOONCAKE_EBADKEY;
    }
    head = mc_objects_find_live(&core->objects, key, hash);
    if (head == NULL) {
        return MOONCAKE_ENOENT;
    }
    if (head->life == MC_LIFE_WRITING) {
        return MOONCAKE_ENOTREADY;
    }
    if (mc_object_leased(head, core->env.now_ns) && !force) {
        return MOONCAKE_ELEASED;
    }
    return remove_head(core, head);
}

uint64_t mc_core_remove_wait_ms(struct mc_core *core, const struct mc_keys_request *request)
{
    uint64_t most_ns = 0;

    mc_core_enter(core);
    for (size_t i = 0; request->force && i < request->count; i++) {
        const struct mc_key *key = &request->keys[i];
        struct mc_object *head = NULL;

        if (mc_core_key_ok(key)) {
            head = mc_objects_find(&core->objects, key, mc_htab_hash(key->bytes, key->len));
        }
        if (head != NULL && head->life == MC_LIFE_READABLE) {
            uint64_t const wait_ns = mc_reuse_close(&core->reuse, head);

            most_ns = wait_ns > most_ns ? wait_ns : most_ns;
        }
    }
    return (most_ns + MC_NS_PER_MS - 1) / MC_NS_PER_MS;
}

void mc_core_count_reuse_wait(struct mc_core *core)
{
    MC_COUNT(&core->env, reuse_waits, 1);
}

mooncake_err mc_core_remove(struct mc_core *core, const struct mc_keys_request *request,
                            struct mc_arena *arena, struct mc_status_reply *out_reply)
{
    mooncake_err *statuses = mc_arena_array(arena, request->count, sizeof(*statuses));
    uint64_t *hashes = mc_core_hash_keys(core, request->keys, request->count, arena);

    if (statuses == NULL || hashes == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    for (size_t i = 0; i < request->count; i++) {
        statuses[i] = remove_item(core, &request->keys[i], hashes[i], request->force);
    }
    *out_reply = (struct mc_status_reply){.statuses = statuses, .count = request->count};
    return MOONCAKE_OK;
}

/* ---- everything ---------------------------------------------------------------------------- */

static bool removal_wants(struct mc_removal *removal, const struct mc_object *head)
{
    bool matches = false;

    if (removal->pattern == NULL || removal->err != MOONCAKE_OK) {
        return removal->err == MOONCAKE_OK;
    }
    removal->err = mc_pattern_match(removal->pattern, mc_object_key(head), head->key_len, &matches);
    if (removal->err != MOONCAKE_OK) {
        mc_log_info("pattern.refused", "removed=%llu detail=\"%s\"",
                    (unsigned long long)removal->reply.removed, mooncake_last_error());
    }
    return removal->err == MOONCAKE_OK && matches;
}

static void remove_visited(void *arg, void *element)
{
    struct mc_removal *const removal = arg;
    struct mc_core *const core = removal->core;
    struct mc_object *const head = element;
    bool const again = head->mark == removal->mark; /* the walk may come by twice */

    if (!removal_wants(removal, head)) {
        return;
    }
    head->mark = removal->mark;
    if (head->life == MC_LIFE_WRITING) {
        removal->reply.left_writing += again ? 0 : 1;
        return;
    }
    if (!mc_object_any_complete(head)) {
        mc_objects_lose(&core->objects, head);
        return;
    }
    if (mc_object_leased(head, core->env.now_ns) && !removal->force) {
        removal->reply.left_leased += again ? 0 : 1;
        return;
    }
    if (remove_head(core, head) != MOONCAKE_OK) { /* no memory to remember its readers */
        removal->reply.left_leased += again ? 0 : 1;
        return;
    }
    removal->reply.removed++;
}

static void removal_end(struct mc_core *core, struct mc_removal *removal, mooncake_err err)
{
    mc_list_drop(&removal->node);
    core->removals_count--;
    core->forced_removals -= removal->force ? 1 : 0;
    if (removal->done != NULL) {
        removal->done(removal->arg, err, &removal->reply);
    }
    mc_pattern_destroy(&removal->pattern);
    mc_free(removal);
}

/* Visit the next few elements. False if the budget has ended. */
static bool removal_walk(struct mc_core *core, struct mc_removal *removal, struct mc_budget *budget)
{
    unsigned steps = removal->pattern == NULL ? WALK_STEPS : WALK_STEPS_MATCHING;

    for (unsigned i = 0; i < steps; i++) {
        if (!mc_budget_step(budget)) {
            return false;
        }
    }
    if (removal->pattern != NULL && mc_now_ns(budget->clock) >= budget->end_ns) {
        return false;
    }
    mc_htab_walk(core->objects.table, &removal->cursor, steps, remove_visited, removal);
    return true;
}

bool mc_core_removals_step(struct mc_core *core, struct mc_budget *budget)
{
    while (!mc_list_empty(&core->removals)) {
        struct mc_removal *const removal = mc_list_first(&core->removals, struct mc_removal, node);

        if (removal->not_before_ns > core->env.now_ns) {
            return true;
        }
        if (removal->mark == 0) {
            /* One runs at a time and marks what it leaves, so a mark of an earlier one is at most
             * one round old and 255 values are plenty. */
            core->removal_mark = core->removal_mark == UINT8_MAX ? 1 : core->removal_mark + 1;
            removal->mark = core->removal_mark;
        }
        do {
            if (!removal_walk(core, removal, budget)) {
                return false;
            }
        } while (removal->cursor != 0 && removal->err == MOONCAKE_OK);
        removal_end(core, removal, removal->err);
    }
    return true;
}

uint64_t mc_core_removed_now(const struct mc_core *core, uint64_t client_id)
{
    uint64_t removed = 0;

    mc_list_for_each (node, &core->removals) {
        const struct mc_removal *removal = MC_CONTAINER_OF(node, struct mc_removal, node);

        removed += client_id != 0 && removal->client_id == client_id ? removal->reply.removed : 0;
    }
    return removed;
}

void mc_core_removals_fini(struct mc_core *core)
{
    while (!mc_list_empty(&core->removals)) {
        removal_end(core, mc_list_first(&core->removals, struct mc_removal, node),
                    MOONCAKE_EUNAVAILABLE);
    }
}

mooncake_err mc_core_remove_all(struct mc_core *core, const struct mc_remove_all_request *request,
                                mc_core_removed_cb done, void *arg)
{
    struct mc_removal *removal;
    struct mc_budget budget;
    bool const first = mc_list_empty(&core->removals);

    if (core->removals_count >= MC_REMOVALS_MAX) {
        return mc_err_set(MOONCAKE_ETASKQUEUE, "%u removals are waiting; try again when some ended",
                          MC_REMOVALS_MAX);
    }
    removal = mc_calloc(1, sizeof(*removal));
    if (removal == NULL) {
        return MOONCAKE_ENOMEM;
    }
    if (request->pattern != NULL) {
        mooncake_err err = mc_pattern_create(request->pattern, &removal->pattern);

        if (err != MOONCAKE_OK) {
            mc_free(removal);
            return err;
        }
    }
    mc_core_enter(core);
    removal->core = core;
    removal->done = done;
    removal->arg = arg;
    removal->client_id = request->client_id;
    removal->force = request->force;
    removal->not_before_ns =
        core->env.now_ns + (request->force ? mc_reuse_all_ns(&core->reuse) : 0);
    mc_list_add_tail(&core->removals, &removal->node);
    core->removals_count++;
    core->forced_removals += removal->force ? 1 : 0;
    if (first) { /* a small pool is done at once */
        mc_budget_init(&budget, core->clock, MC_SLICE_STEPS_MAX, MC_TICK_NS_MAX);
        (void)mc_core_removals_step(core, &budget);
    }
    return MOONCAKE_OK;
}

void mc_core_remove_all_forget(struct mc_core *core, const void *arg)
{
    mc_list_for_each (node, &core->removals) {
        struct mc_removal *const removal = MC_CONTAINER_OF(node, struct mc_removal, node);

        if (removal->arg == arg) {
            removal->done = NULL;
        }
    }
}
