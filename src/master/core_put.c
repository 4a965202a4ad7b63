/* PutStart, PutEnd, PutRevoke. */
#include "master/core_parts.h"
#include "master/reply.h"

#include <string.h>

/* A put asked to come again does so after so long: a few slices of background eviction. */
#define RETRY_AFTER_MS 5u

/* One PutStart request on its way through its items. */
struct start {
    struct mc_core *core;
    const struct mc_put_start_request *request;
    uint64_t request_seq;
    struct mc_budget budget; /* of eviction, for all items together */
    struct mc_slots slots;
    uint64_t near_host; /* see struct mc_allocate_ask */
    bool later;         /* an item was refused for now only */
};

/* The version under way that would have to end before another put of this key can begin. */
static struct mc_object *under_way(struct mc_object *head)
{
    if (head == NULL || head->life == MC_LIFE_WRITING) {
        return head;
    }
    return head->u.pending;
}

static mooncake_err refuse_existing(struct start *start)
{
    MC_COUNT(&start->core->env, put_exists, 1);
    return MOONCAKE_EEXIST;
}

/* Another put of the key is under way: is it this one, asked for again? Or one whose time is up?
 *
 * @retval OK  with *out: the same attempt again; without: the key is free now
 */
static mooncake_err meet_under_way(struct start *start, struct mc_object *busy,
                                   struct mc_object **out)
{
    struct mc_core *const core = start->core;
    struct mc_put *const put = busy->u.put;

    if (put->request_seq == start->request_seq) {
        return refuse_existing(start); /* named before in this batch */
    }
    if (put->client_id == start->request->client_id && put->nonce == start->request->nonce) {
        if (mc_object_any_complete(busy)) {
            put->request_seq = start->request_seq;
            MC_COUNT(&core->env, put_repeated, 1);
            *out = busy;
            return MOONCAKE_OK;
        }
        MC_COUNT(&core->env, put_failed, 1);
        mc_objects_drop(&core->objects, busy); /* its segments are lost: begin anew */
        return MOONCAKE_OK;
    }
    if (!mc_lifetime_discardable(&core->lifetime, busy)) {
        return refuse_existing(start);
    }
    mc_lifetime_take_over(&core->lifetime, busy);
    return MOONCAKE_OK;
}

static uint64_t pin_len_ns(const struct start *start)
{
    const struct mc_core_options *options = &start->core->env.options;
    uint64_t ms = start->request->soft_pin_ms;

    ms = ms == 0 ? options->soft_pin_ms : ms;
    ms = ms > options->soft_pin_ms_max ? options->soft_pin_ms_max : ms;
    return ms * MC_NS_PER_MS;
}

/* The host of whoever asks, if that matters and it is known: tools do not ping. */
static uint64_t near_host(struct mc_core *core, uint64_t client_id)
{
    const struct mc_member *member =
        core->env.options.local_first ? mc_members_find(&core->members, client_id) : NULL;

    return member == NULL ? 0 : mc_htab_hash(member->host, strlen(member->host));
}

static mooncake_err allocate(struct start *start, size_t item)
{
    const struct mc_put_start_request *request = start->request;
    struct mc_core *const core = start->core;
    bool later = false;
    struct mc_allocate_ask const ask = {
        .value_len = request->value_lens[item],
        .replicas = request->replicas == 0 ? 1 : request->replicas,
        .all_replicas = request->all_replicas,
        .preferred = request->preferred_segments,
        .preferred_count = request->preferred_count,
        .excluded = request->excluded_mounts,
        .excluded_count = request->excluded_count,
        .near_host = start->near_host,
        .evict_budget = &start->budget,
    };
    mooncake_err const err = mc_allocate(&core->allocator, &ask, &start->slots, &later);

    if (err == MOONCAKE_OK) {
        MC_COUNT(&core->env, put_degraded, start->slots.replicas < ask.replicas ? 1 : 0);
    } else if (later) {
        MC_COUNT(&core->env, put_deferred, 1);
        start->later = true;
    } else {
        MC_COUNT(&core->env, put_rejected, 1);
    }
    return err;
}

/* A version for a key that is free, or readable and to be replaced. */
static mooncake_err open_version(struct start *start, size_t item, uint64_t hash,
                                 struct mc_object **out)
{
    const struct mc_put_start_request *request = start->request;
    struct mc_core *const core = start->core;
    struct mc_object *head;
    mooncake_err err;
    struct mc_object_spec const spec = {
        .key = &request->keys[item],
        .hash = hash,
        .value_len = request->value_lens[item],
        .client_id = request->client_id,
        .nonce = request->nonce,
        .request_seq = start->request_seq,
        .pin = request->hard_pin   ? MC_PIN_HARD
               : request->soft_pin ? MC_PIN_SOFT
                                   : MC_PIN_NONE,
        .pin_len_ns = request->soft_pin && !request->hard_pin ? pin_len_ns(start) : 0,
        .slots = &start->slots,
    };

    MC_TRY(allocate(start, item));
    /* Only now: eviction for this very put may have taken the version to be replaced. */
    head = mc_objects_find(&core->objects, spec.key, hash);
    err = mc_objects_open(&core->objects, &spec, head, out);
    if (err != MOONCAKE_OK) {
        mc_allocate_undo(&core->allocator, &start->slots);
        return err;
    }
    mc_lifetime_add(&core->lifetime, *out);
    MC_COUNT(&core->env, put_started, 1);
    return MOONCAKE_OK;
}

static mooncake_err start_item(struct start *start, size_t item, uint64_t hash,
                               struct mc_object **out)
{
    const struct mc_key *key = &start->request->keys[item];
    struct mc_object *head;
    struct mc_object *busy;

    if (!mc_core_key_ok(key)) {
        return MOONCAKE_EBADKEY;
    }
    head = mc_objects_find_live(&start->core->objects, key, hash);
    if (head != NULL && head->life == MC_LIFE_READABLE && !start->request->upsert) {
        return refuse_existing(start);
    }
    busy = under_way(head);
    if (busy != NULL) {
        MC_TRY(meet_under_way(start, busy, out));
        if (*out != NULL) {
            return MOONCAKE_OK;
        }
    }
    return open_version(start, item, hash, out);
}

mooncake_err mc_core_put_start(struct mc_core *core, const struct mc_put_start_request *request,
                               struct mc_arena *arena, struct mc_put_start_reply *out_reply)
{
    struct mc_put_start_reply reply = {0};
    struct mc_object **objects = mc_arena_array(arena, request->count, sizeof(*objects));
    uint64_t *hashes = mc_core_hash_keys(core, request->keys, request->count, arena);
    struct start start = {.core = core, .request = request};

    if (request->replicas > MC_REPLICAS_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "replicas: %u is more than %u", request->replicas,
                          MC_REPLICAS_MAX);
    }
    mc_core_enter(core);
    start.request_seq = ++core->request_seq;
    start.near_host = near_host(core, request->client_id);
    mc_budget_init(&start.budget, core->clock, MC_INLINE_STEPS_MAX, MC_SLICE_NS_MAX);
    reply.statuses = mc_arena_array(arena, request->count, sizeof(*reply.statuses));
    reply.attempts = mc_arena_array(arena, request->count, sizeof(*reply.attempts));
    if (objects == NULL || hashes == NULL || reply.statuses == NULL || reply.attempts == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < request->count; i++) {
        objects[i] = NULL;
        reply.statuses[i] = start_item(&start, i, hashes[i], &objects[i]);
        reply.attempts[i] = objects[i] == NULL ? 0 : objects[i]->attempt;
    }
    reply.retry_after_ms = start.later ? RETRY_AFTER_MS : 0;
    MC_TRY(mc_reply_table(core, objects, request->count, MC_RIGHT_WRITE, arena, &reply.table));
    *out_reply = reply;
    return MOONCAKE_OK;
}

/* ---- end and revoke ------------------------------------------------------------------------ */

/* The unfinished version that this end or revoke means. *out_done: it had been ended before. */
static mooncake_err find_attempt(struct mc_core *core, const struct mc_put_end_request *request,
                                 size_t item, struct mc_object **out, bool *out_done)
{
    const struct mc_key *key = &request->keys[item];
    struct mc_object *head;
    struct mc_object *busy;

    if (!mc_core_key_ok(key)) {
        return MOONCAKE_EBADKEY;
    }
    head = mc_objects_find_live(&core->objects, key, mc_htab_hash(key->bytes, key->len));
    if (head == NULL) {
        return MOONCAKE_ENOENT;
    }
    if (head->life == MC_LIFE_READABLE && head->attempt == request->attempts[item]) {
        *out_done = true;
        return MOONCAKE_OK;
    }
    busy = under_way(head);
    if (busy != NULL && ((busy->attempt == request->attempts[item] &&
                          busy->u.put->client_id == request->client_id) ||
                         core->env.fault == MC_CORE_FAULT_END_IGNORES_ATTEMPT)) {
        *out = busy;
        return MOONCAKE_OK;
    }
    MC_COUNT(&core->env, not_owner, 1);
    return MOONCAKE_ENOTOWNER;
}

/* Replicas of which an extent was lost with its segment: nobody can read them. */
static uint32_t lost_replicas(const struct mc_object *object)
{
    uint32_t mask = 0;

    for (unsigned replica = 0; replica < object->replicas; replica++) {
        mask |= mc_object_replica_complete(object, replica) ? 0 : 1u << replica;
    }
    return mask;
}

static mooncake_err end_version(struct mc_core *core, struct mc_object *object, uint32_t failed)
{
    uint32_t const all = (1u << object->replicas) - 1;
    struct mc_object *old;
    struct mc_object *part;
    struct mc_put *put;

    failed = (failed | lost_replicas(object)) & all;
    if (failed == all) {
        put = object->u.put;
        mc_fates_note(&core->fates, object, MC_FATE_ABANDONED, core->env.now_ns, NULL);
        mc_objects_detach(&core->objects, object);
        mc_lifetime_park(&core->lifetime, object, put, MC_PARK_FAILED);
        MC_COUNT(&core->env, put_failed, 1);
        return MOONCAKE_ETRANSFER;
    }
    if (failed != 0) {
        MC_TRY(mc_objects_split(&core->objects, object, failed, &part));
        mc_lifetime_park(&core->lifetime, part, part->u.put, MC_PARK_FAILED);
    }
    mc_objects_make_readable(&core->objects, object, &put, &old);
    MC_COUNT(&core->env, put_ended, 1);
    if (old == NULL) {
        mc_tally_drop_put(&core->objects.tally, put);
        mc_free(put);
        return MOONCAKE_OK;
    }
    MC_COUNT(&core->env, upserted, 1);
    if (mc_object_leased(old, core->env.now_ns)) {
        mc_lifetime_park(&core->lifetime, old, put,
                         old->viewed != 0 ? MC_PARK_VIEWED : MC_PARK_RETIRED);
    } else {
        mc_tally_drop_put(&core->objects.tally, put);
        mc_free(put);
        mc_objects_free(&core->objects, old);
    }
    return MOONCAKE_OK;
}

static mooncake_err end_item(struct mc_core *core, const struct mc_put_end_request *request,
                             size_t item)
{
    uint32_t const failed = request->failed_replicas == NULL ? 0 : request->failed_replicas[item];
    struct mc_object *object = NULL;
    bool done = false;

    MC_TRY(find_attempt(core, request, item, &object, &done));
    return done ? MOONCAKE_OK : end_version(core, object, failed);
}

static mooncake_err revoke_item(struct mc_core *core, const struct mc_put_end_request *request,
                                size_t item)
{
    struct mc_object *object = NULL;
    bool done = false;

    MC_TRY(find_attempt(core, request, item, &object, &done));
    if (done) {
        return MOONCAKE_ESTATE; /* readable already: remove it if it must go */
    }
    mc_fates_note(&core->fates, object, MC_FATE_ABANDONED, core->env.now_ns, NULL);
    mc_objects_drop(&core->objects, object);
    MC_COUNT(&core->env, put_revoked, 1);
    return MOONCAKE_OK;
}

uint64_t mc_core_put_end_wait_ms(struct mc_core *core, const struct mc_put_end_request *request)
{
    uint64_t most_ns;

    mc_core_enter(core);
    most_ns = mc_reuse_lost_ns(&core->reuse);
    for (size_t i = 0; mc_reuse_all_ns(&core->reuse) > 0 && i < request->count; i++) {
        const struct mc_key *key = &request->keys[i];
        struct mc_object *head = NULL;

        if (mc_core_key_ok(key)) {
            head = mc_objects_find(&core->objects, key, mc_htab_hash(key->bytes, key->len));
        }
        if (head != NULL && head->life == MC_LIFE_READABLE && head->u.pending != NULL &&
            head->u.pending->attempt == request->attempts[i]) {
            uint64_t const wait_ns = mc_reuse_close(&core->reuse, head);

            most_ns = wait_ns > most_ns ? wait_ns : most_ns;
        }
    }
    return (most_ns + MC_NS_PER_MS - 1) / MC_NS_PER_MS;
}

static mooncake_err finish(struct mc_core *core, const struct mc_put_end_request *request,
                           struct mc_arena *arena, struct mc_status_reply *out_reply,
                           mooncake_err (*one)(struct mc_core *core,
                                               const struct mc_put_end_request *request,
                                               size_t item))
{
    mooncake_err *statuses = mc_arena_array(arena, request->count, sizeof(*statuses));

    if (statuses == NULL) {
        return MOONCAKE_ENOMEM;
    }
    mc_core_enter(core);
    /* Backwards: what is ended last is evicted last, so the tail of a prefix goes first. */
    for (size_t i = request->count; i-- > 0;) {
        statuses[i] = one(core, request, i);
    }
    *out_reply = (struct mc_status_reply){.statuses = statuses, .count = request->count};
    return MOONCAKE_OK;
}

mooncake_err mc_core_put_end(struct mc_core *core, const struct mc_put_end_request *request,
                             struct mc_arena *arena, struct mc_status_reply *out_reply)
{
    return finish(core, request, arena, out_reply, end_item);
}

mooncake_err mc_core_put_revoke(struct mc_core *core, const struct mc_put_end_request *request,
                                struct mc_arena *arena, struct mc_status_reply *out_reply)
{
    return finish(core, request, arena, out_reply, revoke_item);
}
