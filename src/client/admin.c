/* The operators' questions: one call to the master each, its answer in public structs. The engine
 * is given back before a callback runs, so that callbacks may make calls of their own. */
#include "mooncake/admin.h"

#include <stdio.h>
#include <string.h>

#include "client/admin_impl.h"
#include "wire/names.h"

/* Keys in one answer: short work for the master, few round trips. */
#define KEYS_PAGE 2048u

static void on_answer(struct mc_ask *ask, mooncake_err err)
{
    struct mc_question *question = ask->arg;

    question->err = err;
    question->done = true;
}

mooncake_err mc_admin_ask(mooncake_client *client, uint64_t deadline_ns,
                          struct mc_question *question, struct mc_arena *arena, const char *what)
{
    uint64_t left_ms = mc_left_ms(mc_monotonic_ns(), deadline_ns);
    struct mc_call call;
    mooncake_err err;

    MC_TRY(mc_call_begin(client, left_ms > 0 ? (uint32_t)left_ms : 1, &call));
    question->done = false;
    question->ask = (struct mc_ask){.method = question->method,
                                    .request = question->request,
                                    .reply = question->reply,
                                    .repeatable = true,
                                    .done = on_answer,
                                    .arg = question};
    mc_ask_start(&question->ask, &call, arena);
    err = mc_call_run(&call, &question->done);
    if (err == MOONCAKE_OK) {
        err = question->err;
    } else {
        mc_ask_time_out(&question->ask);
    }
    return mc_call_end(&call, what, err);
}

mooncake_err mc_admin_begin(const mooncake_client *client, uint32_t timeout_ms, bool callback_given,
                            uint64_t *out_deadline_ns)
{
    MC_TRY(mc_api_need(client, "client"));
    if (!callback_given) {
        return mc_api_need(NULL, "each");
    }
    *out_deadline_ns =
        mc_deadline_ns(mc_monotonic_ns(), timeout_ms == 0 ? client->timeout_ms : timeout_ms);
    return MOONCAKE_OK;
}

mooncake_err mooncake_admin_status(mooncake_client *client, uint32_t timeout_ms,
                                   mooncake_pool_status *out_status)
{
    struct mc_pool_status_request request = {0};
    struct mc_pool_status_reply reply;
    struct mc_question question = {
        .method = MC_METHOD_POOL_STATUS, .request = &request, .reply = &reply};
    mooncake_pool_status status = {0};
    struct mc_arena arena;
    uint64_t deadline_ns;
    mooncake_err err;

    MC_TRY(mc_admin_begin(client, timeout_ms, true, &deadline_ns));
    MC_TRY(mc_api_need(out_status, "out_status"));
    if (out_status->struct_size < offsetof(mooncake_pool_status, hits)) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "out_status: struct_size is %zu; set it to sizeof(mooncake_pool_status)",
                          out_status->struct_size);
    }
    mc_arena_init(&arena, MC_ADMIN_ARENA_MAX);
    err = mc_admin_ask(client, deadline_ns, &question, &arena, "status");
    if (err == MOONCAKE_OK) {
        size_t size = out_status->struct_size;

#define COPY(field) status.field = reply.field
        COPY(capacity);
        COPY(used);
        COPY(keys);
        COPY(unfinished_puts);
        COPY(segments);
        COPY(stores);
        COPY(clients);
        COPY(hits);
        COPY(misses);
        COPY(evicted_keys);
        COPY(evicted_bytes);
        COPY(put_rejected);
        COPY(uptime_ms);
        COPY(master_epoch);
        COPY(puts);
        COPY(gets);
        COPY(removed);
        COPY(busy_span_ms);
        COPY(core_busy_permille);
        COPY(io_busy_permille);
        COPY(io_threads);
#undef COPY
        (void)snprintf(status.master_program, sizeof(status.master_program), "%s", reply.program);
        status.struct_size = size;
        memcpy(out_status, &status, size < sizeof(status) ? size : sizeof(status));
    }
    mc_arena_fini(&arena);
    return err;
}

mooncake_err mooncake_admin_removed(mooncake_client *client, uint32_t timeout_ms,
                                    uint64_t *out_removed)
{
    struct mc_pool_status_request request;
    struct mc_pool_status_reply reply;
    struct mc_question question = {
        .method = MC_METHOD_POOL_STATUS, .request = &request, .reply = &reply};
    struct mc_arena arena;
    uint64_t deadline_ns;
    mooncake_err err;

    MC_TRY(mc_admin_begin(client, timeout_ms, true, &deadline_ns));
    MC_TRY(mc_api_need(out_removed, "out_removed"));
    request.removals_of = client->client_id;
    mc_arena_init(&arena, MC_ADMIN_ARENA_MAX);
    err = mc_admin_ask(client, deadline_ns, &question, &arena, "removed");
    if (err == MOONCAKE_OK) {
        *out_removed = reply.removed_now;
    }
    mc_arena_fini(&arena);
    return err;
}

static void add_space(const struct mc_space_reply *reply, mooncake_space_status *sums)
{
    sums->capacity += reply->capacity;
    sums->free += reply->free;
    sums->evictable += reply->evictable;
    sums->leased += reply->leased;
    sums->soft_pinned += reply->soft_pinned;
    sums->hard_pinned += reply->hard_pinned;
    sums->writing += reply->writing;
    sums->parked += reply->parked;
    sums->unplaceable += reply->unplaceable;
    if (reply->largest_free > sums->largest_free) {
        sums->largest_free = reply->largest_free;
    }
}

mooncake_err mooncake_admin_space(mooncake_client *client, bool recount, uint32_t timeout_ms,
                                  mooncake_space_status *out_space, char *out_mismatch,
                                  size_t mismatch_cap)
{
    struct mc_space_request request = {.recount = recount};
    struct mc_space_reply reply;
    struct mc_question question = {.method = MC_METHOD_SPACE, .request = &request, .reply = &reply};
    mooncake_space_status sums = {0};
    struct mc_arena arena;
    uint64_t deadline_ns;
    mooncake_err err;

    MC_TRY(mc_admin_begin(client, timeout_ms, true, &deadline_ns));
    MC_TRY(mc_api_need(out_space, "out_space"));
    if (out_space->struct_size < sizeof(*out_space)) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "out_space: struct_size is %zu; set it to sizeof(mooncake_space_status)",
                          out_space->struct_size);
    }
    sums.struct_size = out_space->struct_size;
    mc_arena_init(&arena, MC_ADMIN_ARENA_MAX);
    do {
        mc_arena_reset(&arena);
        err = mc_admin_ask(client, deadline_ns, &question, &arena, "space");
        if (err != MOONCAKE_OK) {
            break;
        }
        add_space(&reply, &sums);
        if (request.cursor == 0 && out_mismatch != NULL && mismatch_cap > 0) {
            (void)snprintf(out_mismatch, mismatch_cap, "%s", reply.mismatch);
        }
        request = (struct mc_space_request){.cursor = reply.cursor};
    } while (request.cursor != 0);
    mc_arena_fini(&arena);
    if (err == MOONCAKE_OK) {
        *out_space = sums;
    }
    return err;
}

/* A list that the master tells page by page. */
struct pages {
    enum mc_method method; /* whose request is a mc_list_request */
    const char *what;
    void *reply;            /* of the method's kind */
    const uint64_t *cursor; /* in it: where the next page begins; 0: there is none */
    void (*hand_out)(void *list);
    void *list;
};

static mooncake_err ask_for_pages(mooncake_client *client, uint32_t timeout_ms, bool callback_given,
                                  const struct pages *pages)
{
    struct mc_list_request request = {0};
    struct mc_question question = {
        .method = pages->method, .request = &request, .reply = pages->reply};
    struct mc_arena arena;
    uint64_t deadline_ns;
    mooncake_err err;

    MC_TRY(mc_admin_begin(client, timeout_ms, callback_given, &deadline_ns));
    mc_arena_init(&arena, MC_ADMIN_ARENA_MAX);
    do {
        mc_arena_reset(&arena);
        err = mc_admin_ask(client, deadline_ns, &question, &arena, pages->what);
        if (err == MOONCAKE_OK) {
            pages->hand_out(pages->list);
        }
        request.cursor = err == MOONCAKE_OK ? *pages->cursor : 0;
    } while (request.cursor != 0);
    mc_arena_fini(&arena);
    return err;
}

static void hand_out_segment(const struct mc_segment_status *item, mooncake_segment_cb each,
                             void *arg)
{
    mooncake_segment_status const status = {
        .name = item->name,
        .host = item->host,
        .addresses = item->addresses,
        .state = mc_segment_state_name(item->state),
        .mount_id = item->mount_id,
        .client_id = item->client_id,
        .len = item->len,
        .used = item->used,
        .largest_free_extent = item->largest_free_extent,
        .extents = item->extents,
        .evictable = item->evictable,
        .leased = item->leased,
        .soft_pinned = item->soft_pinned,
        .hard_pinned = item->hard_pinned,
        .writing = item->writing,
        .parked = item->parked,
        .next_lease_ms = item->next_lease_ms,
        .next_lease_bytes = item->next_lease_bytes,
        .excluded = mc_exclusion_name(item->reason),
        .excluded_ms = item->reason_ms,
        .ping_age_ms = item->ping_age_ms,
    };

    each(arg, &status);
}

struct segments_list {
    struct mc_list_segments_reply reply;
    mooncake_segment_cb each;
    void *arg;
};

static void hand_out_segments(void *arg)
{
    const struct segments_list *list = arg;

    for (size_t i = 0; i < list->reply.count; i++) {
        hand_out_segment(&list->reply.items[i], list->each, list->arg);
    }
}

mooncake_err mooncake_admin_segments(mooncake_client *client, uint32_t timeout_ms,
                                     mooncake_segment_cb each, void *arg)
{
    struct segments_list list = {.each = each, .arg = arg};
    const struct pages pages = {.method = MC_METHOD_LIST_SEGMENTS,
                                .what = "segments",
                                .reply = &list.reply,
                                .cursor = &list.reply.cursor,
                                .hand_out = hand_out_segments,
                                .list = &list};

    return ask_for_pages(client, timeout_ms, each != NULL, &pages);
}

static void hand_out_client(const struct mc_client_status *item, mooncake_client_cb each, void *arg)
{
    mooncake_client_status const status = {
        .host = item->host,
        .program = item->program,
        .role = mc_role_name(item->role),
        .client_id = item->client_id,
        .ping_age_ms = item->ping_age_ms,
        .segments = item->segments,
    };

    each(arg, &status);
}

struct clients_list {
    struct mc_list_clients_reply reply;
    mooncake_client_cb each;
    void *arg;
};

static void hand_out_clients(void *arg)
{
    const struct clients_list *list = arg;

    for (size_t i = 0; i < list->reply.count; i++) {
        hand_out_client(&list->reply.items[i], list->each, list->arg);
    }
}

mooncake_err mooncake_admin_clients(mooncake_client *client, uint32_t timeout_ms,
                                    mooncake_client_cb each, void *arg)
{
    struct clients_list list = {.each = each, .arg = arg};
    const struct pages pages = {.method = MC_METHOD_LIST_CLIENTS,
                                .what = "clients",
                                .reply = &list.reply,
                                .cursor = &list.reply.cursor,
                                .hand_out = hand_out_clients,
                                .list = &list};

    return ask_for_pages(client, timeout_ms, each != NULL, &pages);
}

/* ---- keys -------------------------------------------------------------------------------- */

struct key_list {
    bool (*each)(void *arg, const char *key, size_t key_len);
    void *arg;
    uint64_t left; /* how many more the caller wants */
    bool stopped;
};

/* One page: asked for, handed out, freed. */
static mooncake_err list_page(mooncake_client *client, uint64_t deadline_ns, const char *pattern,
                              uint64_t *cursor, struct key_list *list)
{
    struct mc_list_keys_request request = {.cursor = *cursor,
                                           .keys_max = list->left < KEYS_PAGE ? (uint32_t)list->left
                                                                              : KEYS_PAGE,
                                           .pattern = pattern};
    struct mc_list_keys_reply reply;
    struct mc_question question = {
        .method = MC_METHOD_LIST_KEYS, .request = &request, .reply = &reply};
    struct mc_arena arena;
    mooncake_err err;

    mc_arena_init(&arena, MC_ADMIN_ARENA_MAX);
    err = mc_admin_ask(client, deadline_ns, &question, &arena, "keys");
    if (err == MOONCAKE_OK) {
        *cursor = reply.cursor;
        for (size_t i = 0; i < reply.count && list->left > 0 && !list->stopped; i++) {
            list->left--;
            list->stopped = !list->each(list->arg, reply.keys[i].bytes, reply.keys[i].len);
        }
    }
    mc_arena_fini(&arena);
    return err;
}

mooncake_err mooncake_admin_keys(mooncake_client *client, const char *pattern, uint64_t keys_max,
                                 uint32_t timeout_ms,
                                 bool (*each)(void *arg, const char *key, size_t key_len),
                                 void *arg)
{
    struct key_list list = {
        .each = each, .arg = arg, .left = keys_max == 0 ? UINT64_MAX : keys_max};
    uint64_t cursor = 0, deadline_ns;
    mooncake_err err;

    MC_TRY(mc_admin_begin(client, timeout_ms, each != NULL, &deadline_ns));
    if (pattern == NULL) {
        pattern = "";
    }
    do {
        if (mc_monotonic_ns() >= deadline_ns) {
            return mc_err_set(MOONCAKE_ETIMEDOUT, "keys: not all were listed before the deadline");
        }
        err = list_page(client, deadline_ns, pattern, &cursor, &list);
    } while (err == MOONCAKE_OK && cursor != 0 && list.left > 0 && !list.stopped);
    return err;
}

/* ---- one key ----------------------------------------------------------------------------- */

static const char *pin_name(uint32_t pin)
{
    static const char *const names[] = {"none", "soft", "hard"};

    return pin < MC_ARRAY_LEN(names) ? names[pin] : "unknown";
}

static size_t count_extents(const struct mc_object_info *object)
{
    size_t count = 0;

    for (uint32_t r = 0; r < object->replicas_count; r++) {
        count += object->replicas[r].extents_count;
    }
    return count;
}

static mooncake_extent_status *list_extents(const struct mc_object_table *table,
                                            struct mc_arena *arena, size_t count)
{
    const struct mc_object_info *object = &table->objects[0];
    mooncake_extent_status *list = mc_arena_array(arena, count + 1, sizeof(*list));
    size_t at = 0;

    for (uint32_t r = 0; list != NULL && r < object->replicas_count; r++) {
        const struct mc_replica_info *replica = &object->replicas[r];

        for (uint32_t i = 0; i < replica->extents_count; i++, at++) {
            const struct mc_segment_info *segment = &table->segments[replica->segment[i]];

            list[at] = (mooncake_extent_status){
                .replica = r,
                .slice = i,
                .segment = segment->name,
                .host = segment->host,
                .mount_id = segment->mount_id,
                .offset = replica->extents[i].offset,
                .len = replica->extents[i].payload_len,
            };
        }
    }
    return list;
}

static mooncake_err hand_out_key(const struct mc_describe_key_reply *reply, struct mc_arena *arena,
                                 void (*each)(void *arg, const mooncake_key_status *status),
                                 void *arg)
{
    const struct mc_object_info *object;
    mooncake_key_status status;

    if (reply->table.count != 1) {
        return mc_err_set(MOONCAKE_ERPC, "key: the master described %zu objects",
                          reply->table.count);
    }
    object = &reply->table.objects[0];
    status = (mooncake_key_status){
        .state = reply->state == MC_OBJECT_READABLE ? "readable" : "writing",
        .pin = pin_name(reply->pin),
        .len = object->value_len,
        .lease_left_ms = reply->lease_left_ms,
        .soft_pin_left_ms = reply->soft_pin_left_ms,
        .age_ms = reply->age_ms,
        .owner_client_id = reply->owner_client_id,
        .object_id_hi = object->id.hi,
        .object_id_lo = object->id.lo,
        .replicas = object->replicas_count,
        .extents_count = count_extents(object),
    };
    status.extents = list_extents(&reply->table, arena, status.extents_count);
    if (status.extents == NULL) {
        return MOONCAKE_ENOMEM;
    }
    each(arg, &status);
    return MOONCAKE_OK;
}

mooncake_err mooncake_admin_key(mooncake_client *client, const char *key, uint32_t timeout_ms,
                                void (*each)(void *arg, const mooncake_key_status *status),
                                void *arg)
{
    struct mc_keys_request request = {0};
    struct mc_describe_key_reply reply;
    struct mc_question question = {
        .method = MC_METHOD_DESCRIBE_KEY, .request = &request, .reply = &reply};
    struct mc_key one;
    struct mc_arena arena;
    uint64_t deadline_ns;
    mooncake_err err;

    MC_TRY(mc_admin_begin(client, timeout_ms, each != NULL, &deadline_ns));
    MC_TRY(mc_key_from_text(key, &one));
    request = (struct mc_keys_request){.client_id = client->client_id, .keys = &one, .count = 1};
    mc_arena_init(&arena, MC_ADMIN_ARENA_MAX);
    err = mc_admin_ask(client, deadline_ns, &question, &arena, "key");
    if (err == MOONCAKE_OK) {
        err = hand_out_key(&reply, &arena, each, arg);
    }
    mc_arena_fini(&arena);
    return err;
}

/* Ask for the configuration; what is in *out_reply lives in @p arena. */
static mooncake_err ask_config(mooncake_client *client, uint32_t timeout_ms, bool callback_given,
                               struct mc_arena *arena, struct mc_config_reply *out_reply)
{
    struct mc_empty_request request = {0};
    struct mc_question question = {
        .method = MC_METHOD_CONFIG, .request = &request, .reply = out_reply};
    uint64_t deadline_ns;

    MC_TRY(mc_admin_begin(client, timeout_ms, callback_given, &deadline_ns));
    return mc_admin_ask(client, deadline_ns, &question, arena, "config");
}

mooncake_err mooncake_admin_config(mooncake_client *client, uint32_t timeout_ms,
                                   void (*each)(void *arg, const char *name, const char *value,
                                                const char *source, const char *help),
                                   void *arg)
{
    struct mc_config_reply reply;
    struct mc_arena arena;
    mooncake_err err;

    mc_arena_init(&arena, MC_ADMIN_ARENA_MAX);
    err = ask_config(client, timeout_ms, each != NULL, &arena, &reply);
    for (size_t i = 0; err == MOONCAKE_OK && i < reply.count; i++) {
        each(arg, reply.items[i].name, reply.items[i].value, reply.items[i].source,
             reply.items[i].help);
    }
    mc_arena_fini(&arena);
    return err;
}

mooncake_err mooncake_admin_options(mooncake_client *client, uint32_t timeout_ms,
                                    void (*each)(void *arg, const mooncake_option_status *option),
                                    void *arg)
{
    struct mc_config_reply reply;
    struct mc_arena arena;
    mooncake_err err;

    mc_arena_init(&arena, MC_ADMIN_ARENA_MAX);
    err = ask_config(client, timeout_ms, each != NULL, &arena, &reply);
    for (size_t i = 0; err == MOONCAKE_OK && i < reply.count; i++) {
        const struct mc_config_item *item = &reply.items[i];
        mooncake_option_status const option = {
            .name = item->name,
            .value = item->value,
            .default_value = item->default_value,
            .source = item->source,
            .unit = item->unit,
            .help = item->help,
        };

        each(arg, &option);
    }
    mc_arena_fini(&arena);
    return err;
}
