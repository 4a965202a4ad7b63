/* The walk of each request; see walk.h. */
#include "wire/walk_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void walk_hello(struct walk *walk, struct mc_hello *hello)
{
    walk_u32(walk, &hello->protocol_min);
    walk_u32(walk, &hello->protocol_max);
    walk_text(walk, &hello->program, MC_PROGRAM_LEN_MAX);
    walk_u64(walk, &hello->client_id);
    walk_u64(walk, &hello->features);
}

static void walk_put_start(struct walk *walk, struct mc_put_start_request *request)
{
    const char **names;
    size_t i;

    walk_u64(walk, &request->client_id);
    walk_u64(walk, &request->nonce);
    walk_keys_of(walk, &request->keys, &request->count);
    walk_numbers_of(walk, &request->value_lens, request->count);
    walk_u32_within(walk, &request->replicas, 1, MC_REPLICAS_MAX);
    walk_flag(walk, &request->all_replicas);
    walk_flag(walk, &request->soft_pin);
    walk_flag(walk, &request->hard_pin);
    walk_flag(walk, &request->upsert);
    walk_u64(walk, &request->soft_pin_ms);
    walk_count_of(walk, &request->preferred_count, MC_PREFERRED_SEGMENTS_MAX);
    names =
        walk_array_of(walk, request->preferred_segments, request->preferred_count, sizeof(*names));
    for (i = 0; i < request->preferred_count; i++) {
        walk_text(walk, &names[i], MC_SEGMENT_NAME_LEN_MAX);
    }
    request->preferred_segments = names;
    walk_count_of(walk, &request->excluded_count, MC_EXCLUDED_MOUNTS_MAX);
    walk_numbers_of(walk, &request->excluded_mounts, request->excluded_count);
}

static void walk_put_end(struct walk *walk, struct mc_put_end_request *request, bool with_failed)
{
    uint32_t *failed;
    bool any = request->failed_replicas != NULL;
    size_t i;

    walk_u64(walk, &request->client_id);
    walk_keys_of(walk, &request->keys, &request->count);
    walk_numbers_of(walk, &request->attempts, request->count);
    if (walk->make) {
        any = with_failed && request->count > 0 && walk_below(walk, 2) == 0;
        request->failed_replicas = NULL;
    }
    walk_flatten(walk, &any, sizeof(any));
    if (any) {
        failed = walk_array_of(walk, request->failed_replicas, request->count, sizeof(*failed));
        for (i = 0; i < request->count; i++) {
            walk_u32(walk, &failed[i]);
        }
        request->failed_replicas = failed;
    }
}

static void walk_keys(struct walk *walk, enum mc_method method, struct mc_keys_request *request)
{
    if (walk->make) {
        memset(request, 0, sizeof(*request));
    }
    if (method == MC_METHOD_DESCRIBE_KEY || method == MC_METHOD_WHY_MISS) {
        struct mc_key *one = walk_array_of(walk, request->keys, 1, sizeof(*one));

        request->count = walk->make ? 1 : request->count;
        walk_flatten(walk, &request->count, sizeof(request->count));
        walk_key(walk, one);
        request->keys = one;
        return;
    }
    walk_u64(walk, &request->client_id);
    walk_keys_of(walk, &request->keys, &request->count);
    if (method == MC_METHOD_QUERY) {
        walk_flag(walk, &request->sizes_only);
        walk_flag(walk, &request->view);
    }
    if (method == MC_METHOD_EXIST) {
        walk_flag(walk, &request->descriptors);
    }
    if (method == MC_METHOD_REMOVE) {
        walk_flag(walk, &request->force);
    }
}

static void walk_renew(struct walk *walk, struct mc_renew_request *request)
{
    walk_u64(walk, &request->client_id);
    walk_u64(walk, &request->epoch);
    walk_keys_of(walk, &request->keys, &request->count);
    walk_numbers_of(walk, &request->attempts, request->count);
    walk_numbers_of(walk, &request->mount_ids, request->count);
}

static void walk_remove_all(struct walk *walk, struct mc_remove_all_request *request)
{
    bool any = request->pattern != NULL;

    walk_u64(walk, &request->client_id);
    walk_flag(walk, &request->force);
    if (walk->make) {
        any = walk_below(walk, 2) == 0;
        request->pattern = NULL;
    }
    walk_flatten(walk, &any, sizeof(any));
    if (any) {
        walk_text(walk, &request->pattern, MC_PATTERN_LEN_MAX);
    }
}

static void walk_report(struct walk *walk, struct mc_report_request *request)
{
    struct mc_report_item *items;
    size_t i;

    walk_u64(walk, &request->client_id);
    walk_count_of(walk, &request->count, MC_BATCH_KEYS_MAX);
    items = walk_array_of(walk, request->items, request->count, sizeof(*items));
    for (i = 0; i < request->count; i++) {
        walk_u64(walk, &items[i].mount_id);
        walk_error_number(walk, &items[i].reason);
        walk_key(walk, &items[i].key);
        walk_u64(walk, &items[i].object_id_lo);
    }
    request->items = items;
}

static void walk_mount(struct walk *walk, struct mc_mount_request *request)
{
    struct mc_mount_item *items;
    size_t i;

    walk_u64(walk, &request->client_id);
    walk_text(walk, &request->host, MC_ADDR_LEN_MAX);
    walk_text(walk, &request->program, MC_PROGRAM_LEN_MAX);
    walk_flag(walk, &request->again);
    walk_count_of(walk, &request->count, MC_SEGMENTS_PER_STORE_MAX);
    items = walk_array_of(walk, request->items, request->count, sizeof(*items));
    for (i = 0; i < request->count; i++) {
        walk_text(walk, &items[i].name, MC_SEGMENT_NAME_LEN_MAX);
        walk_text(walk, &items[i].addresses, MC_ADDRESSES_LEN_MAX);
        walk_u64(walk, &items[i].mount_id);
        walk_u64(walk, &items[i].len);
        walk_u64(walk, &items[i].secret[0]);
        walk_u64(walk, &items[i].secret[1]);
    }
    request->items = items;
}

static void walk_unmount(struct walk *walk, struct mc_unmount_request *request)
{
    walk_u64(walk, &request->client_id);
    walk_count_of(walk, &request->count, MC_SEGMENTS_PER_STORE_MAX);
    walk_numbers_of(walk, &request->mount_ids, request->count);
    walk_u64(walk, &request->grace_ms);
}

static void walk_ping(struct walk *walk, struct mc_ping_request *request)
{
    walk_u64(walk, &request->client_id);
    walk_u32_within(walk, &request->role, MC_ROLE_CLIENT, MC_ROLE_TOOL);
    walk_text(walk, &request->host, MC_ADDR_LEN_MAX);
    walk_text(walk, &request->program, MC_PROGRAM_LEN_MAX);
    walk_count_of(walk, &request->count, MC_SEGMENTS_PER_STORE_MAX);
    walk_numbers_of(walk, &request->mount_ids, request->count);
    walk_flag(walk, &request->leaving);
    walk_u64(walk, &request->counts.read_failovers);
    walk_u64(walk, &request->counts.rdma_fallbacks);
    walk_u64(walk, &request->counts.shm_fallbacks);
    walk_u64(walk, &request->counts.other_fallbacks);
}

static void walk_list_keys(struct walk *walk, struct mc_list_keys_request *request)
{
    walk_u64(walk, &request->cursor);
    walk_u32(walk, &request->keys_max);
    walk_text(walk, &request->pattern, MC_PATTERN_LEN_MAX);
}

static void walk_list(struct walk *walk, struct mc_list_request *request)
{
    walk_u64(walk, &request->cursor);
    walk_u32(walk, &request->items_max);
}

static void walk_drain(struct walk *walk, struct mc_drain_request *request)
{
    walk_count_of(walk, &request->count, MC_SEGMENTS_PER_STORE_MAX);
    walk_numbers_of(walk, &request->mount_ids, request->count);
    walk_u32_within(walk, &request->action, MC_DRAIN_LOOK, MC_DRAIN_CANCEL);
}

static void walk_sole_keys(struct walk *walk, struct mc_sole_keys_request *request)
{
    walk_count_of(walk, &request->count, MC_SEGMENTS_PER_STORE_MAX);
    walk_numbers_of(walk, &request->mount_ids, request->count);
    walk_u64(walk, &request->cursor);
    walk_u32(walk, &request->keys_max);
}

void walk_request(struct walk *walk, enum mc_method method, void *message)
{
    switch (method) {
    case MC_METHOD_HELLO:
        walk_hello(walk, message);
        return;
    case MC_METHOD_PUT_START:
        walk_put_start(walk, message);
        return;
    case MC_METHOD_PUT_END:
        walk_put_end(walk, message, true);
        return;
    case MC_METHOD_PUT_REVOKE:
        walk_put_end(walk, message, false);
        return;
    case MC_METHOD_QUERY:
    case MC_METHOD_EXIST:
    case MC_METHOD_REMOVE:
    case MC_METHOD_DESCRIBE_KEY:
    case MC_METHOD_WHY_MISS:
        walk_keys(walk, method, message);
        return;
    case MC_METHOD_REMOVE_ALL:
        walk_remove_all(walk, message);
        return;
    case MC_METHOD_REPORT:
        walk_report(walk, message);
        return;
    case MC_METHOD_RENEW:
        walk_renew(walk, message);
        return;
    case MC_METHOD_MOUNT:
        walk_mount(walk, message);
        return;
    case MC_METHOD_UNMOUNT:
        walk_unmount(walk, message);
        return;
    case MC_METHOD_PING:
        walk_ping(walk, message);
        return;
    case MC_METHOD_LIST_KEYS:
        walk_list_keys(walk, message);
        return;
    case MC_METHOD_DRAIN:
        walk_drain(walk, message);
        return;
    case MC_METHOD_SOLE_KEYS:
        walk_sole_keys(walk, message);
        return;
    case MC_METHOD_SPACE:
        walk_flag(walk, &((struct mc_space_request *)message)->recount);
        walk_u64(walk, &((struct mc_space_request *)message)->cursor);
        return;
    case MC_METHOD_ATTACH:
        walk_u64(walk, &((struct mc_attach_request *)message)->pool_len);
        return;
    case MC_METHOD_LIST_SEGMENTS:
    case MC_METHOD_LIST_CLIENTS:
        walk_list(walk, message);
        return;
    case MC_METHOD_POOL_STATUS:
        walk_u64(walk, &((struct mc_pool_status_request *)message)->removals_of);
        return;
    case MC_METHOD_CONFIG:
        return; /* nothing in them */
    }
    fail();
}
