/*
 * The admin HTTP pages: what operators and start-up checks of engines ask by curl. They read the
 * core on its own loop and grant no leases.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/option.h"
#include "master/master_impl.h"

#define KEYS_PER_PART 1024u

/* ---- helpers --------------------------------------------------------------------------------- */

static int append_json(const char *bytes, size_t len, void *out)
{
    return mc_buf_append(out, bytes, len) == MOONCAKE_OK ? 0 : -1;
}

/* @p json is consumed; NULL stands for no memory. */
static void reply_json(struct mc_admin_reply *reply, json_t *json)
{
    reply->content_type = "application/json; charset=utf-8";
    if (json == NULL || json_dump_callback(json, append_json, &reply->body, JSON_COMPACT) != 0) {
        mc_buf_clear(&reply->body, 0);
        mc_admin_reply_error(reply, MOONCAKE_ENOMEM, mooncake_err_text(MOONCAKE_ENOMEM));
    }
    json_decref(json);
}

static void reply_text(struct mc_admin_reply *reply, const char *text)
{
    if (mc_buf_append(&reply->body, text, strlen(text)) != MOONCAKE_OK) {
        mc_admin_reply_error(reply, MOONCAKE_ENOMEM, mooncake_err_text(MOONCAKE_ENOMEM));
    }
}

static void reply_error(struct mc_admin_reply *reply, mooncake_err err)
{
    const char *sentence = mooncake_last_error();

    mc_buf_clear(&reply->body, 0);
    mc_admin_reply_error(reply, err, sentence[0] == '\0' ? mooncake_err_text(err) : sentence);
}

/* ---- liveness and roles ---------------------------------------------------------------------- */

static void get_health(void *arg, const struct mc_admin_request *request,
                       struct mc_admin_reply *reply)
{
    (void)arg;
    (void)request;
    reply_json(reply, json_pack("{s:s, s:s, s:s, s:b}", "status", "ok", "role", "leader",
                                "ha_state", "standalone", "service_ready", 1));
}

static void get_role(void *arg, const struct mc_admin_request *request,
                     struct mc_admin_reply *reply)
{
    (void)arg;
    (void)request;
    reply_text(reply, "leader\n");
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void get_metrics(void *arg, const struct mc_admin_request *request,
                        struct mc_admin_reply *reply)
{
    mooncake_err err;

    (void)request;
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    err = mc_master_metrics_print(arg, &reply->body);
    if (err != MOONCAKE_OK) {
        reply_error(reply, err);
    }
}

static void get_summary(void *arg, const struct mc_admin_request *request,
                        struct mc_admin_reply *reply)
{
    mooncake_err err = mc_master_summary_print(arg, &reply->body);

    (void)request;
    if (err != MOONCAKE_OK) {
        reply_error(reply, err);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Where a listing of all keys has come to. */
struct listing {
    struct mc_core *core;
    struct mc_arena arena;
    uint64_t cursor;
};

/* A key is any bytes but NUL; line ends and backslashes are written as \xHH, so that a line is a
 * key. */
static mooncake_err append_key_line(struct mc_buf *out, const struct mc_key *key)
{
    static const char hex[] = "0123456789abcdef";
    uint32_t i, from = 0;

    for (i = 0; i < key->len; i++) {
        unsigned char byte = (unsigned char)key->bytes[i];

        if (byte == '\n' || byte == '\r' || byte == '\\') {
            const char escape[4] = {'\\', 'x', hex[byte >> 4], hex[byte & 15u]};

            MC_TRY(mc_buf_append(out, key->bytes + from, i - from));
            MC_TRY(mc_buf_append(out, escape, sizeof(escape)));
            from = i + 1;
        }
    }
    MC_TRY(mc_buf_append(out, key->bytes + from, key->len - from));
    return mc_buf_append(out, "\n", 1);
}

static mooncake_err next_keys(void *state, struct mc_buf *out, bool *more)
{
    struct listing *listing = state;
    const struct mc_list_keys_request request = {
        .cursor = listing->cursor, .keys_max = KEYS_PER_PART, .pattern = ""};
    struct mc_list_keys_reply reply;
    size_t i;

    mc_arena_reset(&listing->arena);
    MC_TRY(mc_core_list_keys(listing->core, &request, &listing->arena, &reply));
    for (i = 0; i < reply.count; i++) {
        MC_TRY(append_key_line(out, &reply.keys[i]));
    }
    listing->cursor = reply.cursor;
    *more = reply.cursor != 0;
    return MOONCAKE_OK;
}

static void free_listing(void *state)
{
    struct listing *listing = state;

    mc_arena_fini(&listing->arena);
    mc_free(listing);
}

static void get_all_keys(void *arg, const struct mc_admin_request *request,
                         struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    struct listing *listing = mc_calloc(1, sizeof(*listing));

    (void)request;
    if (listing == NULL) {
        reply_error(reply, MOONCAKE_ENOMEM);
        return;
    }
    listing->core = master->core;
    mc_arena_init(&listing->arena, 0);
    reply->part = next_keys;
    reply->part_state = listing;
    reply->part_free = free_listing;
}

/* "tcp://10.0.0.7:18515 shm:///run/x": the first, split at "://". NULL if it has no scheme. */
static json_t *endpoint_json(const struct mc_segment_info *segment,
                             const struct mc_extent_ref *extent)
{
    size_t len = strcspn(segment->addresses, " ");
    const char *split = strstr(segment->addresses, "://");
    size_t scheme_len = split == NULL ? 0 : (size_t)(split - segment->addresses);
    size_t skip = split == NULL || scheme_len > len ? 0 : scheme_len + 3;

    scheme_len = skip == 0 ? 0 : scheme_len;
    return json_pack("{s:I, s:I, s:s%, s:s%}", "size_", (json_int_t)extent->payload_len,
                     "buffer_address_", (json_int_t)extent->offset, "protocol_", segment->addresses,
                     scheme_len, "transport_endpoint_", segment->addresses + skip, len - skip);
}

static json_t *replicas_json(const struct mc_object_table *table)
{
    const struct mc_object_info *object = &table->objects[0];
    json_t *array = json_array();
    uint32_t r, e;

    for (r = 0; r < object->replicas_count && array != NULL; r++) {
        const struct mc_replica_info *replica = &object->replicas[r];

        for (e = 0; e < replica->extents_count; e++) {
            json_t *item =
                endpoint_json(&table->segments[replica->segment[e]], &replica->extents[e]);

            if (json_array_append_new(array, item) != 0) { /* takes NULL as no memory */
                json_decref(array);
                return NULL;
            }
        }
    }
    return array;
}

static void get_query_key(void *arg, const struct mc_admin_request *request,
                          struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    const char *text = mc_admin_param(request, "key");
    struct mc_describe_key_reply described;
    struct mc_arena arena;
    mooncake_err err;

    if (text == NULL || strlen(text) > MC_KEY_LEN_MAX) {
        err = mc_err_set(MOONCAKE_EINVAL, "key: wanted is /query_key?key=KEY of 1 to %u bytes",
                         MC_KEY_LEN_MAX);
        reply_error(reply, err);
        return;
    }
    mc_arena_init(&arena, 0);
    {
        const struct mc_key key = {.bytes = text, .len = (uint32_t)strlen(text)};
        const struct mc_keys_request wanted = {.keys = &key, .count = 1};

        mc_err_clear();
        err = mc_core_describe_key(master->core, &wanted, &arena, &described);
    }
    if (err == MOONCAKE_OK && described.state != MC_OBJECT_READABLE) {
        err = MOONCAKE_ENOENT;
    }
    if (err == MOONCAKE_OK) {
        reply_json(reply,
                   json_pack("{s:b, s:o}", "success", 1, "data", replicas_json(&described.table)));
    } else {
        reply_error(reply, err);
    }
    mc_arena_fini(&arena);
}

/* ---- segments -------------------------------------------------------------------------------- */

static mooncake_err append_segment_lines(struct mc_core *core, struct mc_arena *arena,
                                         struct mc_buf *out)
{
    struct mc_list_segments_reply segments;
    size_t i;

    MC_TRY(mc_core_list_segments(core, arena, &segments));
    for (i = 0; i < segments.count; i++) {
        MC_TRY(mc_buf_append(out, segments.items[i].name, strlen(segments.items[i].name)));
        MC_TRY(mc_buf_append(out, "\n", 1));
    }
    return MOONCAKE_OK;
}

static void get_all_segments(void *arg, const struct mc_admin_request *request,
                             struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    struct mc_arena arena;
    mooncake_err err;

    (void)request;
    mc_arena_init(&arena, 0);
    err = append_segment_lines(master->core, &arena, &reply->body);
    if (err != MOONCAKE_OK) {
        reply_error(reply, err);
    }
    mc_arena_fini(&arena);
}

static const char *state_name(uint32_t state)
{
    static const char *const names[] = {"", "ok", "draining", "suspect", "gone"};

    return state < MC_ARRAY_LEN(names) ? names[state] : "";
}

static json_t *segment_json(const struct mc_segment_status *segment)
{
    char size[16], mount_id[24], client_id[24];
    double percent = segment->len == 0 ? 0.0 : 100.0 * (double)segment->used / (double)segment->len;

    (void)snprintf(mount_id, sizeof(mount_id), "%016llx", (unsigned long long)segment->mount_id);
    (void)snprintf(client_id, sizeof(client_id), "%016llx", (unsigned long long)segment->client_id);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:s%, s:s, s:I, s:I, s:f}",
                     "segment_name", segment->name, "segment_id", mount_id, "client_id", client_id,
                     "base_address", (json_int_t)0, "size_bytes", (json_int_t)segment->len,
                     "size_human", mc_format_size(segment->len, size, sizeof(size)), "te_endpoint",
                     segment->addresses, "protocol", segment->addresses,
                     strcspn(segment->addresses, ":"), "status", state_name(segment->state),
                     "allocator_used_bytes", (json_int_t)segment->used, "allocator_capacity_bytes",
                     (json_int_t)segment->len, "allocator_usage_percent", percent);
}

static json_t *segments_json(const struct mc_list_segments_reply *segments)
{
    json_t *array = json_array();
    size_t i;

    for (i = 0; i < segments->count && array != NULL; i++) {
        if (json_array_append_new(array, segment_json(&segments->items[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return json_pack("{s:I, s:o}", "total_segments", (json_int_t)segments->count, "segments",
                     array);
}

static void get_segments_detail(void *arg, const struct mc_admin_request *request,
                                struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    struct mc_list_segments_reply segments;
    struct mc_arena arena;
    mooncake_err err;

    (void)request;
    mc_arena_init(&arena, 0);
    err = mc_core_list_segments(master->core, &arena, &segments);
    if (err == MOONCAKE_OK) {
        reply_json(reply, segments_json(&segments));
    } else {
        reply_error(reply, err);
    }
    mc_arena_fini(&arena);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static const struct mc_admin_route routes[] = {
    {"GET", "/health", "Is this master serving?", get_health, false},
    {"GET", "/role", "leader or standby", get_role, false},
    {"GET", "/metrics", "Counters and gauges in Prometheus text format", get_metrics, false},
    {"GET", "/metrics/summary", "The pool in one line", get_summary, false},
    {"GET", "/get_all_keys", "Readable keys, one a line", get_all_keys, false},
    {"GET", "/query_key", "Where the copies of ?key=KEY are", get_query_key, false},
    {"GET", "/get_all_segments", "Names of mounted segments, one a line", get_all_segments, false},
    {"GET", "/get_segments_detail", "Mounted segments with their use", get_segments_detail, false},
};

const struct mc_admin_route *mc_master_admin_routes(size_t *out_count)
{
    *out_count = MC_ARRAY_LEN(routes);
    return routes;
}
