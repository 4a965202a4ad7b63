/* Admin pages about segments. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/option.h"
#include "master/master_admin.h"
#include "wire/names.h"

/* Segments of one part of the detailed list: some microseconds each. */
#define SEGMENTS_PER_PART 64u

/* ---- names ---------------------------------------------------------------------------------- */

static mooncake_err next_names(struct mc_core *core, struct mc_arena *arena, uint64_t *cursor,
                               size_t *count, struct mc_buf *out)
{
    struct mc_list_request const request = {.cursor = *cursor};
    struct mc_list_segments_reply segments;

    MC_TRY(mc_core_list_segments(core, &request, arena, &segments));
    for (size_t i = 0; i < segments.count; i++) {
        if (segments.items[i].state != MC_SEGMENT_GONE) {
            MC_TRY(mc_buf_append(out, segments.items[i].name, strlen(segments.items[i].name)));
            MC_TRY(mc_buf_append(out, "\n", 1));
        }
    }
    *count += segments.count;
    *cursor = segments.cursor;
    return MOONCAKE_OK;
}

void mc_page_all_segments(void *arg, const struct mc_admin_request *request,
                          struct mc_admin_reply *reply)
{
    (void)request;
    mc_page_list(arg, reply, NULL, next_names);
}

/* ---- details, in parts ---------------------------------------------------------------------- */

/* What the C++ Mooncake does not tell: why it is full, and why nothing new is placed there. */
static json_t *why_full_json(const struct mc_segment_status *s)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I}", "free_bytes",
        (json_int_t)(s->len - s->used), "largest_free_bytes", (json_int_t)s->largest_free_extent,
        "evictable_bytes", (json_int_t)s->evictable, "leased_bytes", (json_int_t)s->leased,
        "soft_pinned_bytes", (json_int_t)s->soft_pinned, "hard_pinned_bytes",
        (json_int_t)s->hard_pinned, "writing_bytes", (json_int_t)s->writing, "parked_bytes",
        (json_int_t)s->parked, "next_lease_ms", (json_int_t)s->next_lease_ms, "next_lease_bytes",
        (json_int_t)s->next_lease_bytes, "excluded", mc_exclusion_name(s->reason), "excluded_ms",
        (json_int_t)s->reason_ms, "ping_age_ms", (json_int_t)s->ping_age_ms);
}

static json_t *segment_json(const struct mc_segment_status *segment)
{
    char size[16], mount_id[24], client_id[24];
    double percent = segment->len == 0 ? 0.0 : 100.0 * (double)segment->used / (double)segment->len;

    (void)snprintf(mount_id, sizeof(mount_id), "%016llx", (unsigned long long)segment->mount_id);
    (void)snprintf(client_id, sizeof(client_id), "%016llx", (unsigned long long)segment->client_id);
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:s%, s:s, s:I, s:I, s:f, s:o}", "segment_name",
        segment->name, "segment_id", mount_id, "client_id", client_id, "base_address",
        (json_int_t)0, "size_bytes", (json_int_t)segment->len, "size_human",
        mc_format_size(segment->len, size, sizeof(size)), "te_endpoint", segment->addresses,
        "protocol", segment->addresses, strcspn(segment->addresses, ":"), "status",
        mc_segment_state_name(segment->state), "allocator_used_bytes", (json_int_t)segment->used,
        "allocator_capacity_bytes", (json_int_t)segment->len, "allocator_usage_percent", percent,
        "why_full", why_full_json(segment));
}

static mooncake_err next_details(struct mc_core *core, struct mc_arena *arena, uint64_t *cursor,
                                 size_t *count, struct mc_buf *out)
{
    struct mc_list_request const request = {.cursor = *cursor, .items_max = SEGMENTS_PER_PART};
    struct mc_list_segments_reply segments;

    MC_TRY(mc_core_list_segments(core, &request, arena, &segments));
    for (size_t i = 0; i < segments.count; i++) {
        if ((*count)++ > 0) {
            MC_TRY(mc_buf_append(out, ",", 1));
        }
        MC_TRY(mc_page_json_append(out, segment_json(&segments.items[i])));
    }
    *cursor = segments.cursor;
    return MOONCAKE_OK;
}

void mc_page_segments_detail(void *arg, const struct mc_admin_request *request,
                             struct mc_admin_reply *reply)
{
    (void)request;
    mc_page_list(arg, reply, "segments", next_details);
}

/* ---- one segment ---------------------------------------------------------------------------- */

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
    mc_page_json(reply, json_pack("{s:b, s:s, s:i, s:s, s:i, s:s}", "success", 1, "segment",
                                  segment->name, "status", (int)segment->state, "status_name",
                                  mc_segment_state_name(segment->state), "error_code", 0,
                                  "error_message", ""));
}

static void answer_one(struct mc_master *master, const struct mc_admin_request *request,
                       struct mc_admin_reply *reply, const char *example,
                       void (*print)(struct mc_admin_reply *reply,
                                     const struct mc_segment_status *segment))
{
    const char *name = mc_page_param(request, reply, "segment", example);
    struct mc_segment_status segment;
    struct mc_arena arena;
    mooncake_err err;

    if (name == NULL) {
        return;
    }
    mc_err_clear();
    mc_arena_init(&arena, 0);
    err = mc_core_find_segment(master->core, name, &arena, &segment);
    if (err == MOONCAKE_OK) {
        print(reply, &segment);
    } else {
        (void)mc_err_set(err,
                         "segment: \"%.255s\" is not mounted; /get_all_segments lists those that "
                         "are",
                         name);
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
