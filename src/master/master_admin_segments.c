/* Admin pages about segments. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/option.h"
#include "master/master_admin.h"

/* Segments of one part of the detailed list: some microseconds each. */
#define SEGMENTS_PER_PART 64u

static const char *state_name(uint32_t state)
{
    static const char *const names[] = {"", "ok", "draining", "suspect", "gone"};

    return state < MC_ARRAY_LEN(names) ? names[state] : "";
}

/* ---- names ---------------------------------------------------------------------------------- */

static mooncake_err append_names(struct mc_core *core, struct mc_arena *arena, struct mc_buf *out)
{
    struct mc_list_segments_reply segments;
    size_t i;

    MC_TRY(mc_core_list_segments(core, arena, &segments));
    for (i = 0; i < segments.count; i++) {
        if (segments.items[i].state != MC_SEGMENT_GONE) {
            MC_TRY(mc_buf_append(out, segments.items[i].name, strlen(segments.items[i].name)));
            MC_TRY(mc_buf_append(out, "\n", 1));
        }
    }
    return MOONCAKE_OK;
}

void mc_page_all_segments(void *arg, const struct mc_admin_request *request,
                          struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    struct mc_arena arena;
    mooncake_err err;

    (void)request;
    mc_arena_init(&arena, 0);
    err = append_names(master->core, &arena, &reply->body);
    if (err != MOONCAKE_OK) {
        mc_page_error(reply, err);
    }
    mc_arena_fini(&arena);
}

/* ---- details, in parts ---------------------------------------------------------------------- */

struct details {
    struct mc_arena arena; /* of the list, which is of one moment */
    struct mc_list_segments_reply segments;
    size_t next;
};

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

static mooncake_err next_details(void *state, struct mc_buf *out, bool *more)
{
    static const char tail[] = "]}\n";
    struct details *details = state;
    unsigned i;

    if (details->next == 0) {
        char head[80];
        int len = snprintf(head, sizeof(head), "{\"total_segments\":%zu,\"segments\":[",
                           details->segments.count);

        MC_TRY(mc_buf_append(out, head, (size_t)len));
    }
    for (i = 0; i < SEGMENTS_PER_PART && details->next < details->segments.count; i++) {
        if (details->next > 0) {
            MC_TRY(mc_buf_append(out, ",", 1));
        }
        MC_TRY(mc_page_json_append(out, segment_json(&details->segments.items[details->next])));
        details->next++;
    }
    *more = details->next < details->segments.count;
    return *more ? MOONCAKE_OK : mc_buf_append(out, tail, sizeof(tail) - 1);
}

static void free_details(void *state)
{
    struct details *details = state;

    mc_arena_fini(&details->arena);
    mc_free(details);
}

void mc_page_segments_detail(void *arg, const struct mc_admin_request *request,
                             struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    struct details *details = mc_calloc(1, sizeof(*details));
    mooncake_err err = MOONCAKE_ENOMEM;

    (void)request;
    if (details != NULL) {
        mc_arena_init(&details->arena, 0);
        err = mc_core_list_segments(master->core, &details->arena, &details->segments);
    }
    if (err != MOONCAKE_OK) {
        if (details != NULL) {
            free_details(details);
        }
        mc_page_error(reply, err);
        return;
    }
    reply->content_type = "application/json; charset=utf-8";
    reply->part = next_details;
    reply->part_state = details;
    reply->part_free = free_details;
}

/* ---- one segment ---------------------------------------------------------------------------- */

/* The mounted segment of a name. What *out points to lives in @p arena. */
static mooncake_err find_segment(struct mc_core *core, const char *name, struct mc_arena *arena,
                                 const struct mc_segment_status **out)
{
    struct mc_list_segments_reply segments;
    size_t i;

    MC_TRY(mc_core_list_segments(core, arena, &segments));
    for (i = 0; i < segments.count; i++) {
        if (segments.items[i].state != MC_SEGMENT_GONE &&
            strcmp(segments.items[i].name, name) == 0) {
            *out = &segments.items[i];
            return MOONCAKE_OK;
        }
    }
    return mc_err_set(MOONCAKE_ENOSEGMENT,
                      "segment: \"%.255s\" is not mounted; "
                      "/get_all_segments lists those that are",
                      name);
}

static void print_use(struct mc_admin_reply *reply, const struct mc_segment_status *segment)
{
    char text[MC_SEGMENT_NAME_LEN_MAX + 100];

    (void)snprintf(text, sizeof(text), "%s\nUsed(bytes): %llu\nCapacity(bytes): %llu\n",
                   segment->name, (unsigned long long)segment->used,
                   (unsigned long long)segment->len);
    mc_page_text(reply, text);
}

static void print_status(struct mc_admin_reply *reply, const struct mc_segment_status *segment)
{
    mc_page_json(reply,
                 json_pack("{s:b, s:s, s:i, s:s, s:i, s:s}", "success", 1, "segment", segment->name,
                           "status", (int)segment->state, "status_name", state_name(segment->state),
                           "error_code", 0, "error_message", ""));
}

static void answer_one(struct mc_master *master, const struct mc_admin_request *request,
                       struct mc_admin_reply *reply, const char *example,
                       void (*print)(struct mc_admin_reply *reply,
                                     const struct mc_segment_status *segment))
{
    const char *name = mc_page_param(request, reply, "segment", example);
    const struct mc_segment_status *segment = NULL;
    struct mc_arena arena;
    mooncake_err err;

    if (name == NULL) {
        return;
    }
    mc_err_clear();
    mc_arena_init(&arena, 0);
    err = find_segment(master->core, name, &arena, &segment);
    if (err == MOONCAKE_OK) {
        print(reply, segment);
    } else {
        mc_page_error(reply, err);
    }
    mc_arena_fini(&arena);
}

void mc_page_query_segment(void *arg, const struct mc_admin_request *request,
                           struct mc_admin_reply *reply)
{
    answer_one(arg, request, reply, "/query_segment?segment=NAME", print_use);
}

void mc_page_segment_status(void *arg, const struct mc_admin_request *request,
                            struct mc_admin_reply *reply)
{
    answer_one(arg, request, reply, "/api/v1/segments/status?segment=NAME", print_status);
}
