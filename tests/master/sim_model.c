/* The model's beliefs and its judgement of answers. */
#include "master/sim_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* After so long a tick has freed what was due. */
#define TICKED_NS (200 * MC_NS_PER_MS)

void model_init(struct model *model, const struct mc_core_options *options)
{
    memset(model, 0, sizeof(*model));
    model->options = *options;
}

void model_fail(struct model *model, const char *fmt, ...)
{
    va_list args;

    if (model->failed) {
        return;
    }
    model->failed = true;
    va_start(args, fmt);
    (void)vsnprintf(model->why, sizeof(model->why), fmt, args);
    va_end(args);
}

struct model_version *model_find(struct model *model, unsigned key, enum model_life life)
{
    for (unsigned i = 0; i < MODEL_VERSIONS; i++) {
        if (model->versions[i].life == life && model->versions[i].key == key) {
            return &model->versions[i];
        }
    }
    return NULL;
}

struct model_version *model_attempt(struct model *model, uint64_t attempt)
{
    for (unsigned i = 0; i < MODEL_VERSIONS; i++) {
        if ((model->versions[i].life == MODEL_PENDING || model->versions[i].life == MODEL_PARKED) &&
            model->versions[i].attempt == attempt) {
            return &model->versions[i];
        }
    }
    return NULL;
}

static struct model_version *version_new(struct model *model)
{
    for (unsigned i = 0; i < MODEL_VERSIONS; i++) {
        struct model_version *const version = &model->versions[i];

        if (version->life == MODEL_NONE ||
            (version->life == MODEL_PARKED && version->until_ns + TICKED_NS <= model->now_ns)) {
            memset(version, 0, sizeof(*version));
            return version;
        }
    }
    model_fail(model, "the model has too few versions for this seed");
    return &model->versions[0];
}

struct model_mount *model_mount_of(struct model *model, uint64_t mount_id)
{
    for (unsigned i = 0; i < model->mounts_count; i++) {
        if (model->mounts[i].mount_id == mount_id) {
            return &model->mounts[i];
        }
    }
    return NULL;
}

bool model_leased(const struct model *model, const struct model_version *version)
{
    return version->lease_end_ns > model->now_ns;
}

bool model_evictable(const struct model *model, const struct model_version *version)
{
    return !model_leased(model, version) && !version->hard_pin;
}

bool model_may_lose_one(const struct model *model, const struct model_version *version)
{
    bool const several = (version->replicas & (version->replicas - 1)) != 0;

    return model_evictable(model, version) || version->doubtful ||
           (several && !version->hard_pin && !version->certain);
}

static bool replica_lost(struct model *model, const struct model_version *version, unsigned replica)
{
    for (unsigned i = 0; i < version->extents_count; i++) {
        if (version->extents[i].replica == replica &&
            !model_mount_of(model, version->extents[i].mount_id)->alive) {
            return true;
        }
    }
    return false;
}

uint32_t model_living(struct model *model, const struct model_version *version)
{
    uint32_t mask = version->replicas;

    for (unsigned replica = 0; replica < MC_REPLICAS_MAX; replica++) {
        if ((mask >> replica & 1u) != 0 && replica_lost(model, version, replica)) {
            mask &= ~(1u << replica);
        }
    }
    return mask;
}

bool model_may_be_gone(struct model *model, const struct model_version *version)
{
    uint32_t living;

    if (version == NULL || model_evictable(model, version) || version->doubtful) {
        return true;
    }
    living = model_living(model, version);
    /* The one that was lost may have been the last that eviction had left. */
    return living == 0 || (living != version->replicas && model_may_lose_one(model, version));
}

bool model_may_be_released(const struct model *model, const struct model_version *pending)
{
    return model->now_ns - pending->start_ns >= model->options.put_release_ms * MC_NS_PER_MS;
}

/* ---- bytes --------------------------------------------------------------------------------- */

void model_write(struct model *model, const struct model_version *version, uint32_t mask)
{
    for (unsigned i = 0; i < version->extents_count; i++) {
        const struct model_extent *extent = &version->extents[i];
        unsigned kept = 0;

        if ((mask >> extent->replica & 1u) == 0) {
            continue;
        }
        for (unsigned w = 0; w < model->writes_count; w++) {
            const struct model_write *old = &model->writes[w];

            if (old->mount_id != extent->mount_id || old->offset + old->bytes <= extent->offset ||
                extent->offset + extent->bytes <= old->offset) {
                model->writes[kept++] = *old;
            }
        }
        if (kept == MODEL_WRITES) {
            model_fail(model, "the model has too few writes for this seed");
            return;
        }
        model->writes[kept++] = (struct model_write){
            .mount_id = extent->mount_id,
            .offset = extent->offset,
            .bytes = extent->bytes,
            .attempt = version->attempt,
        };
        model->writes_count = kept;
    }
}

bool model_reads_as(const struct model *model, const struct mc_extent_ref *ref)
{
    for (unsigned w = 0; w < model->writes_count; w++) {
        if (model->writes[w].mount_id == ref->mount_id && model->writes[w].offset == ref->offset) {
            return model->writes[w].attempt == ref->object_id.lo;
        }
    }
    return false;
}

/* A new extent: whatever had this place must have been free to go. */
static void claim(struct model *model, const struct model_extent *fresh)
{
    for (unsigned i = 0; i < MODEL_VERSIONS; i++) {
        struct model_version *const old = &model->versions[i];

        for (unsigned e = 0; old->life != MODEL_NONE && e < old->extents_count; e++) {
            const struct model_extent *extent = &old->extents[e];

            if ((old->replicas >> extent->replica & 1u) == 0 ||
                extent->mount_id != fresh->mount_id ||
                extent->offset + extent->bytes <= fresh->offset ||
                fresh->offset + fresh->bytes <= extent->offset) {
                continue;
            }
            FAIL_IF(model, old->life == MODEL_PENDING && !model_may_be_released(model, old),
                    "attempt %llu is being written where new space was granted",
                    (unsigned long long)old->attempt);
            FAIL_IF(model, old->life == MODEL_PARKED && old->until_ns > model->now_ns,
                    "space of attempt %llu was granted before its time",
                    (unsigned long long)old->attempt);
            FAIL_IF(model,
                    old->life == MODEL_CURRENT && !model_may_lose_one(model, old) &&
                        (model_living(model, old) >> extent->replica & 1u) != 0,
                    "space of attempt %llu was granted while it is protected",
                    (unsigned long long)old->attempt);
            if ((model_living(model, old) >> extent->replica & 1u) == 0) {
                old->doubtful = model_may_lose_one(model, old); /* it may have been the last */
            }
            old->replicas &= ~(1u << extent->replica);
            if (old->replicas == 0) {
                old->life = MODEL_NONE;
            }
        }
    }
}

/* ---- put start ----------------------------------------------------------------------------- */

static void check_replica(struct model *model, const struct model_ask *ask,
                          const struct mc_object_info *object, unsigned replica,
                          struct model_version *version)
{
    const struct mc_replica_info *info = &object->replicas[replica];
    uint64_t sum = 0;

    FAIL_IF(model, info->extents_count == 0 || info->extents_count > MC_EXTENTS_MAX, "%u extents",
            info->extents_count);
    for (unsigned i = 0; i < info->extents_count; i++) {
        const struct mc_extent_ref *ref = &info->extents[i];
        struct model_mount *const mount = model_mount_of(model, ref->mount_id);
        struct model_extent const extent = {
            .mount_id = ref->mount_id,
            .offset = ref->offset,
            .bytes = (ref->payload_len + 127) / 64 * 64,
            .replica = replica,
        };

        FAIL_IF(model, mount == NULL || !mount->alive || !mount->placeable,
                "space granted on mount %llu, which takes no new data",
                (unsigned long long)ref->mount_id);
        FAIL_IF(model, extent.offset > mount->len || extent.bytes > mount->len - extent.offset,
                "an extent outside its segment");
        FAIL_IF(model, ref->slice_index != i || ref->slice_count != info->extents_count,
                "slices out of order");
        FAIL_IF(model, ref->capability != mc_capability(mount->secret, ref), "bad capability");
        for (unsigned e = 0; e < version->extents_count; e++) {
            FAIL_IF(model,
                    version->extents[e].mount_id == ref->mount_id &&
                        version->extents[e].replica != replica,
                    "two replicas on one segment");
        }
        claim(model, &extent);
        FAIL_IF(model, version->extents_count == MODEL_EXTENTS, "the model has too few extents");
        version->extents[version->extents_count++] = extent;
        sum += ref->payload_len;
    }
    FAIL_IF(model, sum != ask->len, "extents of %llu bytes for %llu", (unsigned long long)sum,
            (unsigned long long)ask->len);
}

static void open_version(struct model *model, const struct model_ask *ask, uint64_t attempt,
                         const struct mc_object_info *object)
{
    struct model_version *const version = version_new(model);

    FAIL_IF(model, attempt <= model->last_attempt, "attempt %llu is not new",
            (unsigned long long)attempt);
    FAIL_IF(model, object->replicas_count == 0 || object->replicas_count > ask->replicas,
            "%u replicas for %u", object->replicas_count, ask->replicas);
    FAIL_IF(model, ask->all_replicas && object->replicas_count != ask->replicas,
            "fewer replicas than all");
    model->last_attempt = attempt;
    version->key = ask->key;
    version->attempt = attempt;
    version->client_id = ask->client_id;
    version->nonce = ask->nonce;
    version->len = ask->len;
    version->start_ns = model->now_ns;
    version->hard_pin = ask->hard_pin;
    version->replicas = (1u << object->replicas_count) - 1;
    for (unsigned r = 0; r < object->replicas_count; r++) {
        check_replica(model, ask, object, r, version);
    }
    version->life = MODEL_PENDING;
}

static bool same_put(const struct model_version *version, const struct model_ask *ask)
{
    return version->client_id == ask->client_id && version->nonce == ask->nonce;
}

/* May these bytes be why there is no space? */
static bool holds_space(const struct model *model, const struct model_version *version)
{
    uint64_t const slack_ns = model->options.lease_ms * MC_NS_PER_MS / 8; /* of the core's books */

    switch (version->life) {
    case MODEL_NONE:
        return false;
    case MODEL_PENDING:
        return true;
    case MODEL_CURRENT:
        return version->hard_pin || version->lease_end_ns + slack_ns > model->now_ns;
    case MODEL_PARKED:
        return true;
    }
    return true;
}

/* If a segment holds nothing that is protected, one copy must fit that is no longer than it. */
static void check_no_space(struct model *model, const struct model_ask *ask)
{
    for (unsigned m = 0; m < model->mounts_count; m++) {
        const struct model_mount *mount = &model->mounts[m];
        bool held =
            (ask->all_replicas && ask->replicas > 1) || model->now_ns < model->retired_end_ns;

        for (unsigned i = 0; i < MODEL_VERSIONS; i++) {
            const struct model_version *version = &model->versions[i];

            for (unsigned e = 0; e < version->extents_count; e++) {
                held = held || (version->extents[e].mount_id == mount->mount_id &&
                                holds_space(model, version));
            }
        }
        FAIL_IF(model, mount->alive && mount->placeable && !held && ask->len <= mount->len - 64,
                "no space for %llu bytes though all of a segment of %llu may go",
                (unsigned long long)ask->len, (unsigned long long)mount->len);
    }
}

void model_put_start(struct model *model, const struct model_ask *ask, mooncake_err status,
                     const struct mc_put_start_reply *reply)
{
    struct model_version *const current = model_find(model, ask->key, MODEL_CURRENT);
    struct model_version *const pending = model_find(model, ask->key, MODEL_PENDING);
    bool const discardable = pending != NULL && model->now_ns - pending->start_ns >=
                                                    model->options.put_discard_ms * MC_NS_PER_MS;

    if (status == MOONCAKE_EEXIST) {
        FAIL_IF(model, (current == NULL || ask->upsert) && pending == NULL,
                "EEXIST but nothing exists");
        FAIL_IF(model, (current == NULL || ask->upsert) && (discardable || same_put(pending, ask)),
                "EEXIST but the put under way is the same or too old");
        return;
    }
    FAIL_IF(model, status != MOONCAKE_OK && status != MOONCAKE_ENOSPACE, "put start: %s",
            mooncake_err_name(status));
    if (current != NULL && !ask->upsert) {
        FAIL_IF(model, !model_may_be_gone(model, current), "a put of a key that is protected");
        current->life = MODEL_NONE;
    }
    if (status == MOONCAKE_OK && pending != NULL && same_put(pending, ask) &&
        reply->attempts[0] == pending->attempt) {
        return;
    }
    if (pending != NULL && same_put(pending, ask)) {
        FAIL_IF(model, model_living(model, pending) != 0 && !model_may_be_released(model, pending),
                "the same put got another attempt");
        pending->life = MODEL_NONE;
    } else if (pending != NULL) {
        FAIL_IF(model, !discardable, "a put took the key of one under way");
        pending->life = MODEL_PARKED;
        pending->until_ns = pending->start_ns + model->options.put_release_ms * MC_NS_PER_MS;
    }
    if (status == MOONCAKE_OK) {
        open_version(model, ask, reply->attempts[0], &reply->table.objects[0]);
    } else {
        check_no_space(model, ask);
    }
}

/* ---- put end ------------------------------------------------------------------------------- */

static void park_copy(struct model *model, const struct model_version *from, uint32_t mask,
                      uint64_t until_ns)
{
    struct model_version *copy;

    if (mask == 0) {
        return;
    }
    copy = version_new(model);
    *copy = *from;
    copy->life = MODEL_PARKED;
    copy->replicas = mask;
    copy->until_ns = until_ns;
}

static void ended(struct model *model, const struct model_ask *ask, struct model_version *pending,
                  mooncake_err status)
{
    struct model_version *const current = model_find(model, ask->key, MODEL_CURRENT);
    uint32_t const good = model_living(model, pending) & ~ask->failed;
    uint64_t const ttl_ns = model->options.client_ttl_ms * MC_NS_PER_MS;

    FAIL_IF(model, status != (good == 0 ? MOONCAKE_ETRANSFER : MOONCAKE_OK),
            "end of a put with replicas %x left: %s", good, mooncake_err_name(status));
    if (good == 0) {
        pending->life = MODEL_PARKED;
        pending->until_ns = model->now_ns + ttl_ns;
        return;
    }
    park_copy(model, pending, pending->replicas & ~good, model->now_ns + ttl_ns);
    if (current != NULL) {
        model->retired_end_ns = model->now_ns + model->options.lease_ms * MC_NS_PER_MS;
        current->life = model_may_lose_one(model, current) ? MODEL_NONE : MODEL_PARKED;
        current->replicas = model_living(model, current);
        current->until_ns = current->lease_end_ns;
    }
    pending->life = MODEL_CURRENT;
    pending->replicas = good;
    pending->touched_ns = model->now_ns;
}

/* The put of this ask, if its client may still end it. */
static struct model_version *own_pending(struct model *model, const struct model_ask *ask)
{
    struct model_version *const pending = model_find(model, ask->key, MODEL_PENDING);

    return pending != NULL && pending->attempt == ask->attempt &&
                   pending->client_id == ask->client_id
               ? pending
               : NULL;
}

/* An end or revoke that must change nothing. */
static void check_foreign(struct model *model, const struct model_ask *ask, mooncake_err status)
{
    const struct model_version *current = model_find(model, ask->key, MODEL_CURRENT);
    const struct model_version *pending = model_find(model, ask->key, MODEL_PENDING);

    FAIL_IF(model, status != MOONCAKE_ENOTOWNER && status != MOONCAKE_ENOENT,
            "an end or revoke of a stranger: %s", mooncake_err_name(status));
    FAIL_IF(model, status == MOONCAKE_ENOTOWNER && current == NULL && pending == NULL,
            "another attempt was said to hold a free key");
    FAIL_IF(model,
            status == MOONCAKE_ENOENT &&
                (!model_may_be_gone(model, current) ||
                 (pending != NULL && !model_may_be_released(model, pending))),
            "a key that is held was said to be free");
}

void model_put_end(struct model *model, const struct model_ask *ask, mooncake_err status)
{
    struct model_version *const current = model_find(model, ask->key, MODEL_CURRENT);
    struct model_version *const own = own_pending(model, ask);

    if (own != NULL) {
        if (status != MOONCAKE_OK && status != MOONCAKE_ETRANSFER &&
            model_may_be_released(model, own)) {
            own->life = MODEL_NONE;
            return;
        }
        ended(model, ask, own, status);
        return;
    }
    if (current != NULL && current->attempt == ask->attempt) {
        FAIL_IF(model, status != MOONCAKE_OK && !model_may_be_gone(model, current),
                "the end of an ended put: %s", mooncake_err_name(status));
        if (status != MOONCAKE_OK) {
            current->life = MODEL_NONE;
        }
        return;
    }
    check_foreign(model, ask, status);
}

void model_put_revoke(struct model *model, const struct model_ask *ask, mooncake_err status)
{
    struct model_version *const current = model_find(model, ask->key, MODEL_CURRENT);
    struct model_version *const own = own_pending(model, ask);

    if (own != NULL) {
        FAIL_IF(model, status != MOONCAKE_OK && !model_may_be_released(model, own), "revoke: %s",
                mooncake_err_name(status));
        own->life = MODEL_NONE;
        return;
    }
    if (current != NULL && current->attempt == ask->attempt) {
        FAIL_IF(model, status != MOONCAKE_ESTATE && !model_may_be_gone(model, current),
                "the revoke of an ended put: %s", mooncake_err_name(status));
        if (status != MOONCAKE_ESTATE) {
            current->life = MODEL_NONE;
        }
        return;
    }
    check_foreign(model, ask, status);
}
