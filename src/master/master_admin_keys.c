/* Admin pages about keys. Long answers are made in parts, so that no request holds the loop for
 * longer than one slice of work, however many keys it is about. */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "master/master_admin.h"

#define KEYS_PER_PART 1024u
/* Of batch_query_keys: a key of it costs tens of microseconds. */
#define DESCRIBED_PER_PART 16u

/* ---- all keys ------------------------------------------------------------------------------- */

/* Where a listing of all keys has come to. */
struct listing {
    struct mc_core *core;
    struct mc_arena arena;
    uint64_t cursor;
};

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
        MC_TRY(mc_page_key_line(out, &reply.keys[i]));
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

void mc_page_all_keys(void *arg, const struct mc_admin_request *request,
                      struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    struct listing *listing;

    if (!mc_page_tenant_ok(request, reply)) {
        return;
    }
    listing = mc_calloc(1, sizeof(*listing));
    if (listing == NULL) {
        mc_page_error(reply, MOONCAKE_ENOMEM);
        return;
    }
    listing->core = master->core;
    mc_arena_init(&listing->arena, 0);
    reply->part = next_keys;
    reply->part_state = listing;
    reply->part_free = free_listing;
}

/* ---- where copies are ----------------------------------------------------------------------- */

/* "tcp://10.0.0.7:18515 shm:///run/x": the first, split at "://". */
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

/* NULL: no memory. */
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

/* Extents of the copies of a readable key. ENOENT also for one that is being written. */
static mooncake_err find_copies(struct mc_core *core, const char *text, json_t **out)
{
    const struct mc_key key = {.bytes = text, .len = (uint32_t)strnlen(text, MC_KEY_LEN_MAX + 1u)};
    const struct mc_keys_request wanted = {.keys = &key, .count = 1};
    struct mc_describe_key_reply described;
    struct mc_arena arena;
    mooncake_err err;

    mc_err_clear();
    mc_arena_init(&arena, 0);
    err = mc_core_describe_key(core, &wanted, &arena, &described);
    if (err == MOONCAKE_OK && described.state != MC_OBJECT_READABLE) {
        err = MOONCAKE_ENOENT;
    }
    if (err == MOONCAKE_OK) {
        json_t *copies = replicas_json(&described.table);

        err = copies == NULL ? MOONCAKE_ENOMEM : MOONCAKE_OK;
        *out = copies;
    }
    mc_arena_fini(&arena);
    return err;
}

void mc_page_query_key(void *arg, const struct mc_admin_request *request,
                       struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    const char *key = mc_page_param(request, reply, "key", "/query_key?key=KEY");
    json_t *copies = NULL;
    mooncake_err err;

    if (key == NULL) {
        return;
    }
    err = find_copies(master->core, key, &copies);
    if (err != MOONCAKE_OK) {
        mc_page_error(reply, err);
        return;
    }
    mc_page_json(reply, json_pack("{s:b, s:o}", "success", 1, "data", copies));
}

/* ---- a batch of keys ------------------------------------------------------------------------ */

struct batch {
    struct mc_core *core;
    char *keys; /* owned: "a,b,c" */
    char *next; /* in keys; NULL: at the end */
    bool begun;
};

/* "key":{"ok":true,"values":[..]} */
static mooncake_err append_member(struct mc_core *core, const char *key, struct mc_buf *out)
{
    json_t *copies = NULL;
    mooncake_err err = find_copies(core, key, &copies);

    if (err == MOONCAKE_ENOMEM) {
        return err;
    }
    MC_TRY(mc_page_json_append(out, mc_page_key_json(key)));
    MC_TRY(mc_buf_append(out, ":", 1));
    if (err == MOONCAKE_OK) {
        return mc_page_json_append(out, json_pack("{s:b, s:o}", "ok", 1, "values", copies));
    }
    return mc_page_json_append(out, json_pack("{s:b, s:s, s:i}", "ok", 0, "error",
                                              mooncake_err_text(err), "error_code", (int)err));
}

static mooncake_err next_members(void *state, struct mc_buf *out, bool *more)
{
    static const char head[] = "{\"success\":true,\"data\":{", tail[] = "}}\n";
    struct batch *batch = state;
    unsigned i;

    for (i = 0; i < DESCRIBED_PER_PART && batch->next != NULL; i++) {
        char *key = batch->next;
        char *comma = strchr(key, ',');

        if (comma != NULL) {
            *comma = '\0';
        }
        batch->next = comma == NULL ? NULL : comma + 1;
        MC_TRY(batch->begun ? mc_buf_append(out, ",", 1)
                            : mc_buf_append(out, head, sizeof(head) - 1));
        batch->begun = true;
        MC_TRY(append_member(batch->core, key, out));
    }
    *more = batch->next != NULL;
    return *more ? MOONCAKE_OK : mc_buf_append(out, tail, sizeof(tail) - 1);
}

static void free_batch(void *state)
{
    struct batch *batch = state;

    mc_free(batch->keys);
    mc_free(batch);
}

void mc_page_batch_query_keys(void *arg, const struct mc_admin_request *request,
                              struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    const char *keys = mc_page_param(request, reply, "keys", "/batch_query_keys?keys=A,B,C");
    struct batch *batch;

    if (keys == NULL) {
        return;
    }
    batch = mc_calloc(1, sizeof(*batch));
    if (batch != NULL) {
        batch->keys = mc_strndup(keys, strlen(keys));
    }
    if (batch == NULL || batch->keys == NULL) {
        mc_free(batch);
        mc_page_error(reply, MOONCAKE_ENOMEM);
        return;
    }
    batch->core = master->core;
    batch->next = batch->keys;
    reply->content_type = "application/json; charset=utf-8";
    reply->part = next_members;
    reply->part_state = batch;
    reply->part_free = free_batch;
}

/* ---- removal -------------------------------------------------------------------------------- */

static void on_removed(void *arg, mooncake_err err, const struct mc_remove_all_reply *counts)
{
    struct mc_admin_reply *reply = arg;

    if (err == MOONCAKE_OK) {
        mc_page_json(reply, json_pack("{s:b, s:I, s:I, s:I}", "success", 1, "removed_count",
                                      (json_int_t)counts->removed, "left_leased",
                                      (json_int_t)counts->left_leased, "left_writing",
                                      (json_int_t)counts->left_writing));
    } else {
        mc_err_clear();
        mc_page_error(reply, err);
    }
    mc_admin_answer(reply);
}

static mooncake_err parse_force(const char *text, bool *out)
{
    static const struct {
        const char *text;
        bool value;
    } words[] = {{"true", true}, {"1", true}, {"false", false}, {"0", false}, {"", false}};
    size_t i;

    for (i = 0; i < MC_ARRAY_LEN(words); i++) {
        if (strcmp(text, words[i].text) == 0) {
            *out = words[i].value;
            return MOONCAKE_OK;
        }
    }
    return mc_err_set(MOONCAKE_EINVAL, "force: write true or false");
}

void mc_page_remove_all(void *arg, const struct mc_admin_request *request,
                        struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    const char *force = mc_admin_param(request, "force");
    struct mc_remove_all_request wanted = {.pattern = NULL};
    mooncake_err err;

    if (!mc_page_tenant_ok(request, reply)) {
        return;
    }
    err = parse_force(force == NULL ? "" : force, &wanted.force);
    if (err == MOONCAKE_OK) {
        reply->later = true; /* it is done in slices, on which nobody waits but this request */
        err = mc_core_remove_all(master->core, &wanted, on_removed, reply);
        reply->later = err == MOONCAKE_OK && reply->later;
    }
    if (err != MOONCAKE_OK) {
        mc_page_error(reply, err);
    }
    mc_master_tick_soon(master);
}
