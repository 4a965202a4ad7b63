/* The fake master's memory: lists, and space that is handed out once and never comes back. */
#include "client/fake_objects.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/limits.h"

void fake_pool_init(struct fake_pool *pool)
{
    *pool = (struct fake_pool){.epoch = mc_random_u64(), .next_attempt = 1, .extents = 1};
    pool->objects = mc_calloc(FAKE_OBJECTS_MAX, sizeof(*pool->objects));
    assert_non_null(pool->objects);
}

void fake_pool_fini(struct fake_pool *pool)
{
    mc_free(pool->objects);
}

static void *take(struct mc_arena *arena, size_t count, size_t len)
{
    void *memory = mc_arena_array(arena, count + 1, len);

    assert_non_null(memory);
    memset(memory, 0, (count + 1) * len);
    return memory;
}

/* ---- members ----------------------------------------------------------------------------- */

static struct fake_mount *find_mount(struct fake_pool *pool, uint64_t mount_id)
{
    for (unsigned i = 0; i < pool->mounts_count; i++) {
        if (pool->mounts[i].mount_id == mount_id) {
            return &pool->mounts[i];
        }
    }
    return NULL;
}

static void drop_mount(struct fake_pool *pool, struct fake_mount *mount)
{
    mount->mount_id = 0; /* the slot stays, because objects name it by number */
    mount->name[0] = '\0';
    (void)pool;
}

static mooncake_err mount_one(struct fake_pool *pool, const struct mc_mount_request *request,
                              const struct mc_mount_item *item)
{
    struct fake_mount *mount;

    for (unsigned i = 0; i < pool->mounts_count; i++) {
        struct fake_mount *other = &pool->mounts[i];

        if (other->mount_id != 0 && strcmp(other->name, item->name) == 0) {
            if (other->client_id != request->client_id) {
                return MOONCAKE_ESEGMENTEXISTS;
            }
            drop_mount(pool, other);
        }
    }
    assert_true(pool->mounts_count < FAKE_MOUNTS_MAX);
    mount = &pool->mounts[pool->mounts_count++];
    *mount = (struct fake_mount){.mount_id = item->mount_id,
                                 .client_id = request->client_id,
                                 .len = item->len,
                                 .secret = {item->secret[0], item->secret[1]}};
    (void)snprintf(mount->name, sizeof(mount->name), "%s", item->name);
    (void)snprintf(mount->addresses, sizeof(mount->addresses), "%s", item->addresses);
    (void)snprintf(mount->host, sizeof(mount->host), "%s", request->host);
    return MOONCAKE_OK;
}

static void handle_mount(struct fake_pool *pool, const struct mc_mount_request *request,
                         struct mc_arena *arena, struct mc_status_reply *reply)
{
    reply->count = request->count;
    reply->statuses = take(arena, request->count, sizeof(*reply->statuses));
    for (size_t i = 0; i < request->count; i++) {
        reply->statuses[i] = mount_one(pool, request, &request->items[i]);
    }
}

static void handle_unmount(struct fake_pool *pool, const struct mc_unmount_request *request,
                           struct mc_arena *arena, struct mc_status_reply *reply)
{
    reply->count = request->count;
    reply->statuses = take(arena, request->count, sizeof(*reply->statuses));
    for (size_t i = 0; i < request->count; i++) {
        struct fake_mount *mount = find_mount(pool, request->mount_ids[i]);

        reply->statuses[i] = mount == NULL ? MOONCAKE_ENOSEGMENT : MOONCAKE_OK;
        if (mount != NULL) {
            drop_mount(pool, mount);
        }
    }
}

static void handle_ping(struct fake_pool *pool, const struct mc_ping_request *request,
                        struct mc_arena *arena, struct mc_ping_reply *reply)
{
    unsigned at = 0;

    while (at < pool->clients_count && pool->clients[at].client_id != request->client_id) {
        at++;
    }
    if (request->leaving) {
        if (at < pool->clients_count) {
            pool->clients[at] = pool->clients[--pool->clients_count];
        }
    } else if (at == pool->clients_count) {
        assert_true(pool->clients_count < FAKE_CLIENTS_MAX);
        pool->clients[pool->clients_count].client_id = request->client_id;
        pool->clients[pool->clients_count++].role = request->role;
    }
    reply->master_epoch = pool->epoch;
    reply->client_ttl_ms = 10000;
    reply->unknown_mount_ids = take(arena, request->count, sizeof(*reply->unknown_mount_ids));
    for (size_t i = 0; i < request->count; i++) {
        if (find_mount(pool, request->mount_ids[i]) == NULL) {
            reply->unknown_mount_ids[reply->unknown_count++] = request->mount_ids[i];
        }
    }
}

/* ---- objects ----------------------------------------------------------------------------- */

static struct fake_object *find_object(struct fake_pool *pool, const struct mc_key *key)
{
    for (unsigned i = 0; i < pool->objects_count; i++) {
        struct fake_object *object = &pool->objects[i];

        if (!object->gone && object->key_len == key->len &&
            memcmp(object->key, key->bytes, key->len) == 0) {
            return object;
        }
    }
    return NULL;
}

static uint64_t slice_len(const struct fake_object *object, unsigned slice)
{
    uint64_t each = object->len / object->extents;

    return slice + 1 == object->extents ? object->len - each * slice : each;
}

static bool place(struct fake_pool *pool, struct fake_object *object, unsigned mount_index)
{
    struct fake_mount *mount = &pool->mounts[mount_index];

    for (unsigned s = 0; s < object->extents; s++) {
        uint64_t need = (MC_EXTENT_HEADER_LEN + slice_len(object, s) + MC_EXTENT_ALIGN - 1) /
                        MC_EXTENT_ALIGN * MC_EXTENT_ALIGN;

        if (need > mount->len - mount->next) {
            return false;
        }
        object->offsets[object->replicas][s] = mount->next;
        mount->next += need;
    }
    object->mounts[object->replicas++] = mount_index;
    return true;
}

static bool is_excluded(const struct mc_put_start_request *request, uint64_t mount_id)
{
    for (size_t i = 0; i < request->excluded_count; i++) {
        if (request->excluded_mounts[i] == mount_id) {
            return true;
        }
    }
    return false;
}

static mooncake_err start_one(struct fake_pool *pool, const struct mc_put_start_request *request,
                              size_t i, struct fake_object **out)
{
    struct fake_object *object = find_object(pool, &request->keys[i]);

    if (object != NULL) {
        *out = object;
        return object->nonce == request->nonce ? MOONCAKE_OK : MOONCAKE_EEXIST;
    }
    assert_true(pool->objects_count < FAKE_OBJECTS_MAX);
    assert_true(request->keys[i].len < sizeof(object->key));
    object = &pool->objects[pool->objects_count];
    *object = (struct fake_object){.key_len = request->keys[i].len,
                                   .attempt = pool->next_attempt++,
                                   .nonce = request->nonce,
                                   .len = request->value_lens[i],
                                   .extents = pool->extents};
    memcpy(object->key, request->keys[i].bytes, request->keys[i].len);
    for (unsigned m = 0; m < pool->mounts_count && object->replicas < request->replicas; m++) {
        if (pool->mounts[m].mount_id != 0 && !is_excluded(request, pool->mounts[m].mount_id)) {
            (void)place(pool, object, m);
        }
    }
    if (object->replicas < (request->all_replicas ? request->replicas : 1)) {
        return MOONCAKE_ENOSPACE;
    }
    pool->objects_count++;
    *out = object;
    return MOONCAKE_OK;
}

static void describe_object(struct fake_pool *pool, const struct fake_object *object,
                            uint32_t rights, struct mc_arena *arena, struct mc_object_info *out)
{
    unsigned count = 0;

    out->id = (struct mc_object_id){.hi = pool->epoch, .lo = object->attempt};
    out->value_len = object->len;
    out->replicas = take(arena, object->replicas, sizeof(*out->replicas));
    for (unsigned r = 0; r < object->replicas; r++) {
        struct mc_replica_info *replica = &out->replicas[count];
        const struct fake_mount *mount = &pool->mounts[object->mounts[r]];

        if ((object->failed & 1u << r) != 0 || mount->mount_id == 0) {
            continue;
        }
        replica->extents_count = object->extents;
        replica->extents = take(arena, object->extents, sizeof(*replica->extents));
        replica->segment = take(arena, object->extents, sizeof(*replica->segment));
        for (unsigned s = 0; s < object->extents; s++) {
            struct mc_extent_ref *extent = &replica->extents[s];

            *extent = (struct mc_extent_ref){.mount_id = mount->mount_id,
                                             .offset = object->offsets[r][s],
                                             .payload_len = slice_len(object, s),
                                             .object_id = out->id,
                                             .slice_index = s,
                                             .slice_count = object->extents,
                                             .rights = rights};
            extent->capability = mc_capability(mount->secret, extent);
            replica->segment[s] = object->mounts[r];
        }
        count++;
    }
    out->replicas_count = count;
}

static void begin_table(struct fake_pool *pool, struct mc_arena *arena, size_t count,
                        struct mc_object_table *table)
{
    table->segments = take(arena, pool->mounts_count, sizeof(*table->segments));
    table->segments_count = pool->mounts_count;
    for (unsigned i = 0; i < pool->mounts_count; i++) {
        table->segments[i] = (struct mc_segment_info){.mount_id = pool->mounts[i].mount_id,
                                                      .name = pool->mounts[i].name,
                                                      .addresses = pool->mounts[i].addresses,
                                                      .host = pool->mounts[i].host};
        if (pool->mounts[i].mount_id == 0) { /* a slot that was dropped still needs a name */
            table->segments[i].mount_id = i + 1;
            table->segments[i].name = "gone";
        }
    }
    table->objects = take(arena, count, sizeof(*table->objects));
    table->count = count;
}

static void handle_start(struct fake_pool *pool, const struct mc_put_start_request *request,
                         struct mc_arena *arena, struct mc_put_start_reply *reply,
                         mooncake_err item_status)
{
    begin_table(pool, arena, request->count, &reply->table);
    reply->statuses = take(arena, request->count, sizeof(*reply->statuses));
    reply->attempts = take(arena, request->count, sizeof(*reply->attempts));
    reply->retry_after_ms = pool->retry_after_ms;
    for (size_t i = 0; i < request->count; i++) {
        struct fake_object *object = NULL;

        reply->statuses[i] =
            item_status != MOONCAKE_OK ? item_status : start_one(pool, request, i, &object);
        if (reply->statuses[i] == MOONCAKE_OK) {
            reply->attempts[i] = object->attempt;
            describe_object(pool, object, MC_RIGHT_WRITE, arena, &reply->table.objects[i]);
        }
    }
}

static void handle_end(struct fake_pool *pool, const struct mc_put_end_request *request,
                       struct mc_arena *arena, struct mc_status_reply *reply, bool revoke)
{
    reply->count = request->count;
    reply->statuses = take(arena, request->count, sizeof(*reply->statuses));
    for (size_t i = 0; i < request->count; i++) {
        struct fake_object *object = find_object(pool, &request->keys[i]);

        if (object == NULL || object->attempt != request->attempts[i]) {
            reply->statuses[i] = MOONCAKE_ENOTOWNER;
        } else if (revoke) {
            object->gone = true;
            object->revoked++;
        } else {
            object->failed = request->failed_replicas == NULL ? 0 : request->failed_replicas[i];
            object->gone = object->failed == (1u << object->replicas) - 1;
            object->readable = !object->gone;
            object->parked += object->gone ? 1 : 0;
            reply->statuses[i] = object->gone ? MOONCAKE_ETRANSFER : MOONCAKE_OK;
        }
    }
}

static mooncake_err readable(struct fake_pool *pool, const struct mc_key *key,
                             struct fake_object **out)
{
    *out = find_object(pool, key);
    if (*out == NULL) {
        return MOONCAKE_ENOENT;
    }
    return (*out)->readable ? MOONCAKE_OK : MOONCAKE_ENOTREADY;
}

static void handle_query(struct fake_pool *pool, const struct mc_keys_request *request,
                         struct mc_arena *arena, struct mc_query_reply *reply,
                         mooncake_err item_status)
{
    begin_table(pool, arena, request->count, &reply->table);
    reply->statuses = take(arena, request->count, sizeof(*reply->statuses));
    for (size_t i = 0; i < request->count; i++) {
        struct fake_object *object;

        reply->statuses[i] = readable(pool, &request->keys[i], &object);
        if (item_status != MOONCAKE_OK) {
            reply->statuses[i] = item_status;
        }
        if (reply->statuses[i] == MOONCAKE_OK) {
            reply->table.objects[i].value_len = object->len;
            if (!request->sizes_only) {
                describe_object(pool, object, MC_RIGHT_READ, arena, &reply->table.objects[i]);
            }
        }
    }
}

static void handle_exist(struct fake_pool *pool, const struct mc_keys_request *request,
                         struct mc_arena *arena, mooncake_err **statuses, size_t *count,
                         bool remove)
{
    *count = request->count;
    *statuses = take(arena, request->count, sizeof(**statuses));
    for (size_t i = 0; i < request->count; i++) {
        struct fake_object *object;

        (*statuses)[i] = readable(pool, &request->keys[i], &object);
        if (remove && (*statuses)[i] == MOONCAKE_OK) {
            object->gone = true;
        } else if (!remove && (*statuses)[i] == MOONCAKE_ENOTREADY) {
            (*statuses)[i] = MOONCAKE_ENOENT;
        }
    }
}

static void handle_remove_all(struct fake_pool *pool, struct mc_remove_all_reply *reply)
{
    for (unsigned i = 0; i < pool->objects_count; i++) {
        if (!pool->objects[i].gone) {
            pool->objects[i].gone = true;
            reply->removed++;
        }
    }
}

mooncake_err fake_pool_handle(struct fake_pool *pool, unsigned method,
                              const union fake_message *request, struct mc_arena *arena,
                              union fake_message *reply, mooncake_err item_status)
{
    switch (method) {
    case MC_METHOD_PUT_START:
        handle_start(pool, &request->put_start_request_, arena, &reply->put_start_reply_,
                     item_status);
        return MOONCAKE_OK;
    case MC_METHOD_PUT_END:
    case MC_METHOD_PUT_REVOKE:
        handle_end(pool, &request->put_end_request_, arena, &reply->put_end_reply_,
                   method == MC_METHOD_PUT_REVOKE);
        return MOONCAKE_OK;
    case MC_METHOD_QUERY:
        handle_query(pool, &request->query_request_, arena, &reply->query_reply_, item_status);
        return MOONCAKE_OK;
    case MC_METHOD_EXIST:
        handle_exist(pool, &request->exist_request_, arena, &reply->exist_reply_.statuses,
                     &reply->exist_reply_.count, false);
        return MOONCAKE_OK;
    case MC_METHOD_REMOVE:
        handle_exist(pool, &request->remove_request_, arena, &reply->remove_reply_.statuses,
                     &reply->remove_reply_.count, true);
        return MOONCAKE_OK;
    case MC_METHOD_REMOVE_ALL:
        handle_remove_all(pool, &reply->remove_all_reply_);
        return MOONCAKE_OK;
    case MC_METHOD_REPORT:
        reply->report_reply_.count = request->report_request_.count;
        reply->report_reply_.statuses =
            take(arena, reply->report_reply_.count, sizeof(mooncake_err));
        return MOONCAKE_OK;
    case MC_METHOD_MOUNT:
        handle_mount(pool, &request->mount_request_, arena, &reply->mount_reply_);
        return MOONCAKE_OK;
    case MC_METHOD_UNMOUNT:
        handle_unmount(pool, &request->unmount_request_, arena, &reply->unmount_reply_);
        return MOONCAKE_OK;
    case MC_METHOD_PING:
        handle_ping(pool, &request->ping_request_, arena, &reply->ping_reply_);
        return MOONCAKE_OK;
    case MC_METHOD_POOL_STATUS:
        reply->pool_status_reply_.keys = pool->objects_count;
        reply->pool_status_reply_.program = "fake_master";
        return MOONCAKE_OK;
    default:
        return mc_err_set(MOONCAKE_ENOTSUP, "the fake has no %s", mc_method_name(method));
    }
}

/* ---- what tests ask ---------------------------------------------------------------------- */

void fake_master_forget_mounts(struct fake_master *fake)
{
    struct fake_pool *pool = fake_master_lock_pool(fake);

    for (unsigned i = 0; i < pool->mounts_count; i++) {
        drop_mount(pool, &pool->mounts[i]);
    }
    fake_master_unlock_pool(fake);
}

void fake_master_set_extents(struct fake_master *fake, unsigned extents)
{
    fake_master_lock_pool(fake)->extents = extents;
    fake_master_unlock_pool(fake);
}

void fake_master_set_retry_after(struct fake_master *fake, uint32_t ms)
{
    fake_master_lock_pool(fake)->retry_after_ms = ms;
    fake_master_unlock_pool(fake);
}

static struct mc_key key_of(const char *text)
{
    return (struct mc_key){.bytes = text, .len = (uint32_t)strlen(text)};
}

void fake_master_spoil(struct fake_master *fake, const char *key, unsigned replica)
{
    struct fake_pool *pool = fake_master_lock_pool(fake);
    struct mc_key wanted = key_of(key);
    struct fake_object *object = find_object(pool, &wanted);

    assert_non_null(object);
    for (unsigned s = 0; s < object->extents; s++) {
        object->offsets[replica][s] = 0; /* where the first object that was ever put lies */
    }
    fake_master_unlock_pool(fake);
}

void fake_master_move(struct fake_master *fake, const char *key, unsigned index)
{
    struct fake_pool *pool = fake_master_lock_pool(fake);
    struct mc_key wanted = key_of(key);
    struct fake_object *object = find_object(pool, &wanted);

    assert_non_null(object);
    object->mounts[0] = index;
    fake_master_unlock_pool(fake);
}

unsigned fake_master_mounts(struct fake_master *fake)
{
    struct fake_pool *pool = fake_master_lock_pool(fake);
    unsigned count = 0;

    for (unsigned i = 0; i < pool->mounts_count; i++) {
        count += pool->mounts[i].mount_id != 0 ? 1u : 0u;
    }
    fake_master_unlock_pool(fake);
    return count;
}

uint64_t fake_master_mount_id(struct fake_master *fake, unsigned index)
{
    struct fake_pool *pool = fake_master_lock_pool(fake);
    uint64_t mount_id = 0;

    for (unsigned i = 0; i < pool->mounts_count; i++) {
        if (pool->mounts[i].mount_id != 0 && index-- == 0) {
            mount_id = pool->mounts[i].mount_id;
            break;
        }
    }
    fake_master_unlock_pool(fake);
    return mount_id;
}

void fake_master_set_addresses(struct fake_master *fake, unsigned index, const char *addresses)
{
    struct fake_pool *pool = fake_master_lock_pool(fake);

    assert_true(index < pool->mounts_count);
    (void)snprintf(pool->mounts[index].addresses, sizeof(pool->mounts[index].addresses), "%s",
                   addresses);
    fake_master_unlock_pool(fake);
}

bool fake_master_knows(struct fake_master *fake, enum mc_role role)
{
    struct fake_pool *pool = fake_master_lock_pool(fake);
    bool found = false;

    for (unsigned i = 0; i < pool->clients_count; i++) {
        found = found || pool->clients[i].role == (uint32_t)role;
    }
    fake_master_unlock_pool(fake);
    return found;
}

struct fake_object_state fake_master_object(struct fake_master *fake, const char *key)
{
    struct fake_pool *pool = fake_master_lock_pool(fake);
    struct mc_key wanted = key_of(key);
    struct fake_object_state state = {0};

    for (unsigned i = 0; i < pool->objects_count; i++) {
        const struct fake_object *object = &pool->objects[i];

        if (object->key_len == wanted.len && memcmp(object->key, key, wanted.len) == 0) {
            state.revoked += object->revoked;
            state.parked += object->parked;
            if (!object->gone) {
                state.found = true;
                state.readable = object->readable;
                state.failed = object->failed;
                state.replicas = object->replicas;
            }
        }
    }
    fake_master_unlock_pool(fake);
    return state;
}
