/* The walk of each reply; see walk.h. */
#include "wire/walk_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void walk_hello_reply(struct walk *walk, struct mc_hello_reply *reply)
{
    walk_u32(walk, &reply->protocol);
    walk_text(walk, &reply->program, MC_PROGRAM_LEN_MAX);
    walk_u64(walk, &reply->master_epoch);
    walk_u64(walk, &reply->features);
    walk_u32(walk, &reply->body_len_max);
}

static void walk_put_start_reply(struct walk *walk, struct mc_put_start_reply *reply)
{
    const uint64_t *attempts = reply->attempts;

    walk_table_of(walk, &reply->table, MC_RIGHT_WRITE, 0, MC_BATCH_KEYS_MAX);
    walk_statuses_of(walk, &reply->statuses, reply->table.count);
    walk_numbers_of(walk, &attempts, reply->table.count);
    reply->attempts = (uint64_t *)(uintptr_t)attempts;
    walk_u32(walk, &reply->retry_after_ms);
}

static void walk_query_reply(struct walk *walk, struct mc_query_reply *reply)
{
    walk_table_of(walk, &reply->table, MC_RIGHT_READ, 0, MC_BATCH_KEYS_MAX);
    walk_statuses_of(walk, &reply->statuses, reply->table.count);
    walk_u64(walk, &reply->lease_ms);
}

/* With a table of as many items, or with none. */
static void walk_exist_reply(struct walk *walk, struct mc_exist_reply *reply)
{
    bool any = reply->table.count > 0;

    if (walk->make) {
        memset(reply, 0, sizeof(*reply));
        any = walk_below(walk, 2) == 0;
    }
    walk_flatten(walk, &any, sizeof(any));
    if (any) {
        walk_table_of(walk, &reply->table, MC_RIGHT_READ, 1, MC_BATCH_KEYS_MAX);
        reply->count = reply->table.count;
        walk_u64(walk, &reply->reuse_ms);
    } else {
        walk_count_of(walk, &reply->count, MC_BATCH_KEYS_MAX);
    }
    walk_statuses_of(walk, &reply->statuses, reply->count);
    walk_u64(walk, &reply->lease_ms);
}

static void walk_ping_reply(struct walk *walk, struct mc_ping_reply *reply)
{
    const uint64_t *ids = reply->unknown_mount_ids;

    walk_u64(walk, &reply->master_epoch);
    walk_count_of(walk, &reply->unknown_count, MC_SEGMENTS_PER_STORE_MAX);
    walk_numbers_of(walk, &ids, reply->unknown_count);
    reply->unknown_mount_ids = (uint64_t *)(uintptr_t)ids;
    walk_u64(walk, &reply->client_ttl_ms);
}

static void walk_list_keys_reply(struct walk *walk, struct mc_list_keys_reply *reply)
{
    const struct mc_key *keys = reply->keys;

    walk_keys_of(walk, &keys, &reply->count);
    reply->keys = (struct mc_key *)(uintptr_t)keys;
    walk_u64(walk, &reply->cursor);
}

static void walk_list_segments_reply(struct walk *walk, struct mc_list_segments_reply *reply)
{
    size_t i;

    walk_count_of(walk, &reply->count, MC_SEGMENTS_MAX);
    reply->items = walk_array_of(walk, reply->items, reply->count, sizeof(*reply->items));
    for (i = 0; i < reply->count; i++) {
        struct mc_segment_status *item = &reply->items[i];

        walk_text(walk, &item->name, MC_SEGMENT_NAME_LEN_MAX);
        walk_text(walk, &item->host, MC_ADDR_LEN_MAX);
        walk_text(walk, &item->addresses, MC_ADDRESSES_LEN_MAX);
        walk_u64(walk, &item->mount_id);
        walk_u64(walk, &item->client_id);
        walk_u64(walk, &item->len);
        walk_u64(walk, &item->used);
        walk_u64(walk, &item->largest_free_extent);
        walk_u64(walk, &item->extents);
        walk_u64(walk, &item->evictable);
        walk_u64(walk, &item->leased);
        walk_u64(walk, &item->soft_pinned);
        walk_u64(walk, &item->hard_pinned);
        walk_u64(walk, &item->writing);
        walk_u64(walk, &item->parked);
        walk_u64(walk, &item->next_lease_ms);
        walk_u64(walk, &item->next_lease_bytes);
        walk_u64(walk, &item->reason_ms);
        walk_u64(walk, &item->ping_age_ms);
        walk_u32(walk, &item->reason);
        walk_u32_within(walk, &item->state, MC_SEGMENT_OK, MC_SEGMENT_GONE);
    }
    walk_u64(walk, &reply->cursor);
}

static void walk_list_clients_reply(struct walk *walk, struct mc_list_clients_reply *reply)
{
    size_t i;

    walk_count_of(walk, &reply->count, MC_SEGMENTS_MAX);
    reply->items = walk_array_of(walk, reply->items, reply->count, sizeof(*reply->items));
    for (i = 0; i < reply->count; i++) {
        struct mc_client_status *item = &reply->items[i];

        walk_u64(walk, &item->client_id);
        walk_u64(walk, &item->ping_age_ms);
        walk_text(walk, &item->host, MC_ADDR_LEN_MAX);
        walk_text(walk, &item->program, MC_PROGRAM_LEN_MAX);
        walk_u32(walk, &item->role);
        walk_u32(walk, &item->segments);
    }
    walk_u64(walk, &reply->cursor);
}

static void walk_pool_status_reply(struct walk *walk, struct mc_pool_status_reply *reply)
{
    uint64_t *const numbers[] = {
        &reply->capacity,
        &reply->used,
        &reply->keys,
        &reply->unfinished_puts,
        &reply->segments,
        &reply->stores,
        &reply->clients,
        &reply->hits,
        &reply->misses,
        &reply->evicted_keys,
        &reply->evicted_bytes,
        &reply->put_rejected,
        &reply->uptime_ms,
        &reply->master_epoch,
        &reply->puts,
        &reply->gets,
        &reply->removed,
        &reply->busy_span_ms,
        &reply->io_threads,
        &reply->core_busy_permille,
        &reply->io_busy_permille,
        &reply->removed_now,
    };
    size_t i;

    for (i = 0; i < MC_ARRAY_LEN(numbers); i++) {
        walk_u64(walk, numbers[i]);
    }
    walk_text(walk, &reply->program, MC_PROGRAM_LEN_MAX);
}

static void walk_space_reply(struct walk *walk, struct mc_space_reply *reply)
{
    uint64_t *const numbers[] = {
        &reply->capacity,    &reply->free,         &reply->evictable, &reply->leased,
        &reply->soft_pinned, &reply->hard_pinned,  &reply->writing,   &reply->parked,
        &reply->unplaceable, &reply->largest_free,
    };
    size_t i;

    for (i = 0; i < MC_ARRAY_LEN(numbers); i++) {
        walk_u64(walk, numbers[i]);
    }
    walk_text(walk, &reply->mismatch, MC_MISMATCH_LEN_MAX);
}

static void walk_attach_reply(struct walk *walk, struct mc_attach_reply *reply)
{
    walk_text(walk, &reply->master, MC_ADDR_LEN_MAX);
    walk_text(walk, &reply->transport, MC_ADDR_LEN_MAX);
    walk_text(walk, &reply->rdma_devices, MC_ADDRESSES_LEN_MAX);
    walk_text(walk, &reply->rdma_gid_index, MC_ADDR_LEN_MAX);
    walk_u64(walk, &reply->pool_mount_id);
    walk_text(walk, &reply->pool_addresses, MC_ADDRESSES_LEN_MAX);
}

static void walk_describe_key_reply(struct walk *walk, struct mc_describe_key_reply *reply)
{
    walk_u32(walk, &reply->state);
    walk_u32(walk, &reply->pin);
    walk_u64(walk, &reply->lease_left_ms);
    walk_u64(walk, &reply->soft_pin_left_ms);
    walk_u64(walk, &reply->age_ms);
    walk_u64(walk, &reply->owner_client_id);
    walk_table_of(walk, &reply->table, 0, 1, 1);
}

static void walk_config_reply(struct walk *walk, struct mc_config_reply *reply)
{
    size_t i;

    walk_count_of(walk, &reply->count, MC_CONFIG_ITEMS_MAX);
    reply->items = walk_array_of(walk, reply->items, reply->count, sizeof(*reply->items));
    for (i = 0; i < reply->count; i++) {
        walk_text(walk, &reply->items[i].name, MC_CONFIG_TEXT_LEN_MAX);
        walk_text(walk, &reply->items[i].value, MC_CONFIG_TEXT_LEN_MAX);
        walk_text(walk, &reply->items[i].source, MC_CONFIG_TEXT_LEN_MAX);
        walk_text(walk, &reply->items[i].help, MC_CONFIG_TEXT_LEN_MAX);
        walk_text(walk, &reply->items[i].default_value, MC_CONFIG_TEXT_LEN_MAX);
        walk_text(walk, &reply->items[i].unit, MC_CONFIG_TEXT_LEN_MAX);
    }
}

static void walk_why_miss_reply(struct walk *walk, struct mc_why_miss_reply *reply)
{
    walk_u32(walk, &reply->fate);
    walk_u32(walk, &reply->entries);
    walk_u64(walk, &reply->ago_ms);
    walk_u64(walk, &reply->age_ms);
    walk_u64(walk, &reply->idle_ms);
    walk_u64(walk, &reply->uptime_ms);
    walk_u64(walk, &reply->reach_ms);
    walk_u64(walk, &reply->owner_client_id);
    walk_text(walk, &reply->store, MC_SEGMENT_NAME_LEN_MAX);
}

static void walk_drain_reply(struct walk *walk, struct mc_drain_reply *reply)
{
    uint64_t *const numbers[] = {
        &reply->capacity, &reply->used,    &reply->extents,     &reply->leased,
        &reply->reading,  &reply->writing, &reply->hard_pinned, &reply->draining,
    };
    size_t i;

    walk_count_of(walk, &reply->count, MC_SEGMENTS_PER_STORE_MAX);
    walk_statuses_of(walk, &reply->statuses, reply->count);
    for (i = 0; i < MC_ARRAY_LEN(numbers); i++) {
        walk_u64(walk, numbers[i]);
    }
}

static void walk_sole_keys_reply(struct walk *walk, struct mc_sole_keys_reply *reply)
{
    const struct mc_key *keys = reply->keys;

    walk_keys_of(walk, &keys, &reply->count);
    reply->keys = (struct mc_key *)(uintptr_t)keys;
    walk_u64(walk, &reply->cursor);
    walk_u64(walk, &reply->keys_there);
    walk_u64(walk, &reply->bytes_there);
    walk_u64(walk, &reply->keys_sole);
    walk_u64(walk, &reply->bytes_sole);
}

static void walk_remove_all_reply(struct walk *walk, struct mc_remove_all_reply *reply)
{
    walk_u64(walk, &reply->removed);
    walk_u64(walk, &reply->left_leased);
    walk_u64(walk, &reply->left_writing);
    walk_u64(walk, &reply->left_pinned);
}

static void walk_renew_reply(struct walk *walk, struct mc_renew_reply *reply)
{
    walk_count_of(walk, &reply->count, MC_BATCH_KEYS_MAX);
    walk_statuses_of(walk, &reply->statuses, reply->count);
    walk_u64(walk, &reply->lease_ms);
}

void walk_reply(struct walk *walk, enum mc_method method, void *message)
{
    struct mc_status_reply *status = message;

    switch (method) {
    case MC_METHOD_HELLO:
        walk_hello_reply(walk, message);
        return;
    case MC_METHOD_PUT_START:
        walk_put_start_reply(walk, message);
        return;
    case MC_METHOD_QUERY:
        walk_query_reply(walk, message);
        return;
    case MC_METHOD_EXIST:
        walk_exist_reply(walk, message);
        return;
    case MC_METHOD_RENEW:
        walk_renew_reply(walk, message);
        return;
    case MC_METHOD_PUT_END:
    case MC_METHOD_PUT_REVOKE:
    case MC_METHOD_REMOVE:
    case MC_METHOD_REPORT:
    case MC_METHOD_MOUNT:
    case MC_METHOD_UNMOUNT:
        walk_count_of(walk, &status->count, MC_BATCH_KEYS_MAX);
        walk_statuses_of(walk, &status->statuses, status->count);
        return;
    case MC_METHOD_REMOVE_ALL:
        walk_remove_all_reply(walk, message);
        return;
    case MC_METHOD_PING:
        walk_ping_reply(walk, message);
        return;
    case MC_METHOD_LIST_KEYS:
        walk_list_keys_reply(walk, message);
        return;
    case MC_METHOD_LIST_SEGMENTS:
        walk_list_segments_reply(walk, message);
        return;
    case MC_METHOD_LIST_CLIENTS:
        walk_list_clients_reply(walk, message);
        return;
    case MC_METHOD_POOL_STATUS:
        walk_pool_status_reply(walk, message);
        return;
    case MC_METHOD_DESCRIBE_KEY:
        walk_describe_key_reply(walk, message);
        return;
    case MC_METHOD_CONFIG:
        walk_config_reply(walk, message);
        return;
    case MC_METHOD_WHY_MISS:
        walk_why_miss_reply(walk, message);
        return;
    case MC_METHOD_DRAIN:
        walk_drain_reply(walk, message);
        return;
    case MC_METHOD_SOLE_KEYS:
        walk_sole_keys_reply(walk, message);
        return;
    case MC_METHOD_SPACE:
        walk_space_reply(walk, message);
        return;
    case MC_METHOD_ATTACH:
        walk_attach_reply(walk, message);
        return;
    }
    fail();
}
