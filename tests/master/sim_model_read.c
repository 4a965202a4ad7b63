/* The model's judgement of reads, removals and mounts. */
#include "master/sim_model.h"

/* ---- reads --------------------------------------------------------------------------------- */

/* A key was said to be absent, or being written. */
static void check_miss(struct model *model, unsigned key, mooncake_err status)
{
    struct model_version *const current = model_find(model, key, MODEL_CURRENT);
    struct model_version *const pending = model_find(model, key, MODEL_PENDING);

    FAIL_IF(model, !model_may_be_gone(model, current), "a protected key is missing");
    if (current != NULL) {
        current->life = MODEL_NONE;
    }
    FAIL_IF(model, status == MOONCAKE_ENOTREADY && pending == NULL,
            "said to be written, but by nobody");
    FAIL_IF(model,
            status == MOONCAKE_ENOENT && pending != NULL && !model_may_be_released(model, pending),
            "said to be absent while being written");
    if (status == MOONCAKE_ENOENT && pending != NULL) {
        pending->life = MODEL_NONE;
    }
}

static uint32_t replicas_told(struct model *model, const struct model_version *version,
                              const struct mc_object_info *object)
{
    uint32_t mask = 0;

    for (unsigned r = 0; r < object->replicas_count; r++) {
        const struct mc_extent_ref *ref = &object->replicas[r].extents[0];

        for (unsigned e = 0; e < version->extents_count; e++) {
            if (version->extents[e].mount_id == ref->mount_id &&
                version->extents[e].offset == ref->offset) {
                mask |= 1u << version->extents[e].replica;
            }
        }
        for (unsigned e = 0; e < object->replicas[r].extents_count; e++) {
            if (!model_reads_as(model, &object->replicas[r].extents[e])) {
                model_fail(model, "attempt %llu reads as other bytes",
                           (unsigned long long)version->attempt);
            }
        }
    }
    return mask;
}

void model_query(struct model *model, const struct model_ask *ask,
                 const struct mc_query_reply *reply)
{
    struct model_version *const current = model_find(model, ask->key, MODEL_CURRENT);
    const struct mc_object_info *object = &reply->table.objects[0];
    uint32_t told;

    if (reply->statuses[0] != MOONCAKE_OK) {
        FAIL_IF(model,
                reply->statuses[0] != MOONCAKE_ENOENT && reply->statuses[0] != MOONCAKE_ENOTREADY,
                "query: %s", mooncake_err_name(reply->statuses[0]));
        check_miss(model, ask->key, reply->statuses[0]);
        return;
    }
    FAIL_IF(model, current == NULL, "a key is readable that was not written or was removed");
    FAIL_IF(model, object->id.lo != current->attempt || object->value_len != current->len,
            "attempt %llu is read where %llu was ended last", (unsigned long long)object->id.lo,
            (unsigned long long)current->attempt);
    told = replicas_told(model, current, object);
    FAIL_IF(model, told == 0 || (told & ~model_living(model, current)) != 0,
            "replicas %x are told, %x live", told, model_living(model, current));
    FAIL_IF(model, told != model_living(model, current) && !model_may_lose_one(model, current),
            "replicas %x of a protected object are told, %x live", told,
            model_living(model, current));
    current->replicas = told;
    current->certain = true;
    current->doubtful = false;
    current->touched_ns = model->now_ns;
    if (current->lease_end_ns < model->now_ns + reply->lease_ms * MC_NS_PER_MS) {
        current->lease_end_ns = model->now_ns + reply->lease_ms * MC_NS_PER_MS;
    }
}

void model_exist(struct model *model, const struct model_ask *ask, mooncake_err status,
                 uint64_t lease_ms)
{
    struct model_version *const current = model_find(model, ask->key, MODEL_CURRENT);
    uint64_t const lease_ns = model->options.lease_ms * MC_NS_PER_MS;
    uint64_t wish_ns = model->now_ns + lease_ns;

    if (status != MOONCAKE_OK) {
        FAIL_IF(model, status != MOONCAKE_ENOENT, "exist: %s", mooncake_err_name(status));
        FAIL_IF(model, !model_may_be_gone(model, current), "a protected key does not exist");
        if (current != NULL) {
            current->life = MODEL_NONE;
        }
        return;
    }
    FAIL_IF(model, current == NULL, "a key exists that was not written or was removed");
    FAIL_IF(model, model_living(model, current) == 0, "a key exists on lost segments");
    current->certain = current->certain && model_leased(model, current);
    current->doubtful = false;
    current->replicas = model_living(model, current);
    if (wish_ns > current->touched_ns + 3 * lease_ns) {
        wish_ns = current->touched_ns + 3 * lease_ns;
    }
    if (current->lease_end_ns < wish_ns) {
        current->lease_end_ns = wish_ns;
    }
    FAIL_IF(model,
            lease_ms != (current->lease_end_ns > model->now_ns
                             ? (current->lease_end_ns - model->now_ns) / MC_NS_PER_MS
                             : 0),
            "exist promises %llu ms", (unsigned long long)lease_ms);
}

/* ---- removal ------------------------------------------------------------------------------- */

void model_remove(struct model *model, const struct model_ask *ask, mooncake_err status)
{
    struct model_version *const current = model_find(model, ask->key, MODEL_CURRENT);

    if (status == MOONCAKE_OK) {
        FAIL_IF(model, current == NULL || model_living(model, current) == 0,
                "a key was removed that was not there");
        FAIL_IF(model, model_leased(model, current) && !ask->force, "a leased key was removed");
        current->life = MODEL_NONE;
    } else if (status == MOONCAKE_ELEASED) {
        FAIL_IF(model, current == NULL || !model_leased(model, current) || ask->force,
                "said to be leased, but is not");
    } else {
        FAIL_IF(model, status != MOONCAKE_ENOENT && status != MOONCAKE_ENOTREADY, "remove: %s",
                mooncake_err_name(status));
        check_miss(model, ask->key, status);
    }
}

void model_remove_all(struct model *model, bool force, const struct mc_remove_all_reply *reply)
{
    uint64_t may_go = 0;
    uint64_t must_stay = 0;
    uint64_t may_stay = 0;
    uint64_t writing = 0;

    for (unsigned i = 0; i < MODEL_VERSIONS; i++) {
        struct model_version *const version = &model->versions[i];

        writing += version->life == MODEL_PENDING ? 1 : 0;
        if (version->life != MODEL_CURRENT) {
            continue;
        }
        if (model_leased(model, version) && !force) {
            may_stay++;
            must_stay += model_may_be_gone(model, version) ? 0 : 1;
        } else {
            may_go++;
            version->life = MODEL_NONE;
        }
    }
    FAIL_IF(model, reply->removed > may_go, "%llu removed of %llu",
            (unsigned long long)reply->removed, (unsigned long long)may_go);
    FAIL_IF(model, reply->left_leased > may_stay || reply->left_leased < must_stay,
            "%llu left for their leases of %llu to %llu", (unsigned long long)reply->left_leased,
            (unsigned long long)must_stay, (unsigned long long)may_stay);
    FAIL_IF(model, reply->left_writing > writing, "%llu left being written of %llu",
            (unsigned long long)reply->left_writing, (unsigned long long)writing);
}

void model_damaged(struct model *model, const struct model_ask *ask, uint64_t mount_id)
{
    struct model_version *const current = model_find(model, ask->key, MODEL_CURRENT);

    if (current == NULL || current->attempt != ask->attempt) {
        return;
    }
    current->doubtful = current->doubtful || model_may_lose_one(model, current);
    for (unsigned e = 0; e < current->extents_count; e++) {
        if (current->extents[e].mount_id == mount_id) {
            current->replicas &= ~(1u << current->extents[e].replica);
        }
    }
    if (current->replicas == 0) {
        current->life = MODEL_NONE;
    }
}

/* ---- segments ------------------------------------------------------------------------------ */

void model_mount_end(struct model_mount *mount)
{
    mount->alive = false;
    mount->placeable = false;
}

void model_segments(struct model *model, const struct mc_list_segments_reply *reply,
                    bool after_tick)
{
    for (unsigned m = 0; m < model->mounts_count; m++) {
        struct model_mount *const mount = &model->mounts[m];
        uint64_t const ttl_ns = model->options.client_ttl_ms * MC_NS_PER_MS;
        const struct mc_segment_status *status = NULL;

        for (size_t i = 0; i < reply->count; i++) {
            if (reply->items[i].mount_id == mount->mount_id &&
                reply->items[i].state != MC_SEGMENT_GONE) {
                status = &reply->items[i];
            }
        }
        if (after_tick && mount->alive &&
            (model->now_ns - mount->pinged_ns >= ttl_ns ||
             (mount->leave_ns != 0 && mount->leave_ns <= model->now_ns))) {
            model_mount_end(mount);
        }
        FAIL_IF(model, mount->alive != (status != NULL), "mount %llu is %s",
                (unsigned long long)mount->mount_id,
                mount->alive ? "missing though it pings" : "there though it is dead");
        if (status != NULL) {
            mount->placeable = status->state == MC_SEGMENT_OK;
            FAIL_IF(model, status->used > status->len, "used exceeds the segment");
        }
    }
}
