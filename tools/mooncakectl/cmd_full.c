/* why-full: what keeps the pool's bytes from new objects, as a whole and segment by segment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "space.h"

/* Segments that are shown, and of the excluded ones; all are looked at. */
#define SHOWN 20u
/* Of a name inside a sentence, so that the line has 100 columns at most. */
#define NAME_WIDTH 24

struct segment {
    char *name, *host; /* owned */
    mooncake_segment_status s;
};

struct full {
    const struct mc_ctl *ctl;
    mooncake_space_status space;
    struct segment *all; /* owned */
    size_t count, cap, excluded;
    size_t shown_max;
};

/* ---- gathering ---------------------------------------------------------------------------- */

static void keep(void *arg, const mooncake_segment_status *s)
{
    struct full *full = arg;
    struct segment *kept;

    if (full->count == full->cap) {
        full->cap = full->cap == 0 ? 64 : 2 * full->cap;
        full->all = mc_need(reallocarray(full->all, full->cap, sizeof(*full->all)));
    }
    kept = &full->all[full->count++];
    kept->s = *s;
    kept->name = mc_need(strdup(s->name));
    kept->host = mc_need(strdup(s->host));
    full->excluded += s->excluded[0] != '\0' ? 1 : 0;
}

static void release(struct full *full)
{
    for (size_t i = 0; i < full->count; i++) {
        free(full->all[i].name);
        free(full->all[i].host);
    }
    free(full->all);
}

/* What a put could have there, as a share of the segment. */
static double room(const mooncake_segment_status *s)
{
    return s->len == 0 ? 0 : (double)(s->len - s->used + s->evictable) / (double)s->len;
}

/* Those that take data first, the least room first among them. */
static int by_room(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    bool const x_out = x->s.excluded[0] != '\0', y_out = y->s.excluded[0] != '\0';
    double const x_room = room(&x->s), y_room = room(&y->s);

    if (x_out != y_out) {
        return x_out ? 1 : -1;
    }
    if (x_room < y_room || x_room > y_room) {
        return x_room < y_room ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

/* The first lease to end where something may be placed; NULL: there is none. */
static const struct segment *next_lease(const struct full *full)
{
    const struct segment *first = NULL;

    for (size_t i = 0; i < full->count - full->excluded; i++) {
        const struct segment *at = &full->all[i];

        if (at->s.next_lease_ms != 0 &&
            (first == NULL || at->s.next_lease_ms < first->s.next_lease_ms)) {
            first = at;
        }
    }
    return first;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *segment_json(const struct segment *segment)
{
    const mooncake_segment_status *s = &segment->s;
    json_t *item = mc_json_object();

    mc_json_set(item, "name", mc_json_text(segment->name));
    mc_json_set(item, "host", mc_json_text(segment->host));
    mc_json_set(item, "mount_id", mc_json_id(s->mount_id));
    mc_json_set(item, "len", mc_json_number(s->len));
    mc_json_set(item, "free", mc_json_number(s->len - s->used));
    mc_json_set(item, "largest_free", mc_json_number(s->largest_free_extent));
    mc_json_set(item, "evictable", mc_json_number(s->evictable));
    mc_json_set(item, "leased", mc_json_number(s->leased));
    mc_json_set(item, "soft_pinned", mc_json_number(s->soft_pinned));
    mc_json_set(item, "hard_pinned", mc_json_number(s->hard_pinned));
    mc_json_set(item, "writing", mc_json_number(s->writing));
    mc_json_set(item, "parked", mc_json_number(s->parked));
    mc_json_set(item, "next_lease_ms",
                s->next_lease_ms == 0 ? json_null() : mc_json_number(s->next_lease_ms));
    mc_json_set(item, "ping_age_ms", mc_json_number(s->ping_age_ms));
    if (s->excluded[0] != '\0') {
        mc_json_set(item, "excluded", mc_json_text(s->excluded));
        mc_json_set(item, "excluded_ms", mc_json_number(s->excluded_ms));
    }
    return item;
}

static size_t at_most(const struct full *full, size_t count)
{
    return count < full->shown_max ? count : full->shown_max;
}

static void print_json(const struct full *full)
{
    size_t const placeable = full->count - full->excluded;
    const struct segment *lease = next_lease(full);
    json_t *object = mc_space_json(&full->space);
    json_t *segments = mc_json_array(), *excluded = mc_json_array();

    for (size_t i = 0; i < at_most(full, placeable); i++) {
        mc_json_append(segments, segment_json(&full->all[i]));
    }
    for (size_t i = 0; i < at_most(full, full->excluded); i++) {
        mc_json_append(excluded, segment_json(&full->all[placeable + i]));
    }
    mc_json_set(object, "next_lease_ms",
                lease == NULL ? json_null() : mc_json_number(lease->s.next_lease_ms));
    mc_json_set(object, "next_lease_bytes",
                mc_json_number(lease == NULL ? 0 : lease->s.next_lease_bytes));
    mc_json_set(object, "next_lease_segment",
                lease == NULL ? json_null() : mc_json_text(lease->name));
    mc_json_set(object, "segments_total", mc_json_number(placeable));
    mc_json_set(object, "segments", segments);
    mc_json_set(object, "excluded_total", mc_json_number(full->excluded));
    mc_json_set(object, "excluded", excluded);
    mc_json_print(object);
}

/* ---- text --------------------------------------------------------------------------------- */

static void print_segments(const struct full *full)
{
    static const char *const heads[] = {"SEGMENT", ">FREE",   ">LARGEST", ">EVICTABLE",
                                        ">LEASED", ">PINNED", ">BUSY",    ">LEASE ENDS"};
    size_t const placeable = full->count - full->excluded;
    size_t const shown = at_most(full, placeable);
    struct mc_table *table = mc_table_create(heads, sizeof(heads) / sizeof(heads[0]));
    char text[2][MC_NUMBER_CAP];

    for (size_t i = 0; i < shown; i++) {
        const mooncake_segment_status *s = &full->all[i].s;
        char n[7][MC_NUMBER_CAP];

        mc_table_add(table,
                     (const char *const[]){
                         full->all[i].name,
                         mc_format_size(s->len - s->used, n[0]),
                         mc_format_size(s->largest_free_extent, n[1]),
                         mc_format_size(s->evictable, n[2]),
                         mc_format_size(s->leased, n[3]),
                         mc_format_size(s->soft_pinned + s->hard_pinned, n[4]),
                         mc_format_size(s->writing + s->parked, n[5]),
                         s->next_lease_ms == 0 ? "-" : mc_format_duration(s->next_lease_ms, n[6]),
                     });
    }
    (void)fputc('\n', stdout);
    mc_table_print(table);
    mc_table_destroy(&table);
    if (shown < placeable) {
        (void)printf("the %s with the least room of %s; --limit=N shows more\n",
                     mc_format_count(shown, text[0]), mc_format_count(placeable, text[1]));
    }
}

/* Why nothing new is placed there, as a sentence. */
static const char *reason_of(const mooncake_segment_status *s, char *out, size_t cap)
{
    char time[2][MC_NUMBER_CAP];
    const char *since = mc_format_duration(s->excluded_ms, time[0]);
    const char *ping = mc_format_duration(s->ping_age_ms, time[1]);

    if (strcmp(s->excluded, "leaving") == 0) {
        (void)snprintf(out, cap, "its store leaves the pool, in %s", since);
    } else if (strcmp(s->excluded, "drained") == 0) {
        (void)snprintf(out, cap, "drained by an operator; drain --cancel takes it back");
    } else if (strcmp(s->excluded, "unreachable") == 0) {
        (void)snprintf(out, cap, "clients could not reach it %s ago; last ping %s ago", since,
                       ping);
    } else if (strcmp(s->excluded, "lost") == 0) {
        (void)snprintf(out, cap, "its store was lost %s ago, it is being swept", since);
    } else {
        (void)snprintf(out, cap, "%s", s->excluded);
    }
    return out;
}

static void print_excluded(const struct full *full)
{
    static const char *const heads[] = {"EXCLUDED", ">FREE", "=WHY NOTHING NEW IS PLACED THERE"};
    size_t const placeable = full->count - full->excluded;
    size_t const shown = at_most(full, full->excluded);
    struct mc_table *table = mc_table_create(heads, sizeof(heads) / sizeof(heads[0]));
    char text[2][MC_NUMBER_CAP];

    for (size_t i = 0; i < shown; i++) {
        const struct segment *segment = &full->all[placeable + i];
        char reason[160], free_bytes[MC_NUMBER_CAP];

        mc_table_add(table, (const char *const[]){
                                segment->name,
                                mc_format_size(segment->s.len - segment->s.used, free_bytes),
                                reason_of(&segment->s, reason, sizeof(reason)),
                            });
    }
    (void)fputc('\n', stdout);
    mc_table_print(table);
    mc_table_destroy(&table);
    if (shown < full->excluded) {
        (void)printf("%s of %s; --limit=N shows more\n", mc_format_count(shown, text[0]),
                     mc_format_count(full->excluded, text[1]));
    }
}

static void print_text(const struct full *full)
{
    const struct segment *lease = next_lease(full);
    char text[2][MC_NUMBER_CAP];

    mc_space_print(&full->space);
    if (lease == NULL) {
        (void)printf("\nnext lease     none%s\n",
                     full->space.leased > 0
                         ? " that would help: what is leased is on the segments below that are "
                           "excluded"
                         : ": nothing is waited for but what is named above");
    } else {
        (void)printf("\nnext lease     ends in %s: eviction can then take %s of segment ",
                     mc_format_duration(lease->s.next_lease_ms, text[0]),
                     mc_format_size(lease->s.next_lease_bytes, text[1]));
        mc_print_short(lease->name, NAME_WIDTH);
        (void)fputc('\n', stdout);
    }
    if (full->count > full->excluded) {
        print_segments(full);
    }
    if (full->excluded > 0) {
        print_excluded(full);
    }
}

enum mc_exit mc_cmd_why_full(struct mc_ctl *ctl)
{
    struct full full = {.ctl = ctl, .space = {.struct_size = sizeof(full.space)}};
    mooncake_err err =
        mooncake_admin_space(ctl->client, false, ctl->timeout_ms, &full.space, NULL, 0);
    enum mc_exit status = MC_EXIT_OK;

    full.shown_max = ctl->limit != 0 ? ctl->limit : SHOWN;
    if (err == MOONCAKE_OK) {
        err = mooncake_admin_segments(ctl->client, ctl->timeout_ms, keep, &full);
    }
    if (err != MOONCAKE_OK) {
        status = mc_fail(ctl, err, "cannot ask where the pool's space is");
    } else {
        if (full.count > 0) {
            qsort(full.all, full.count, sizeof(*full.all), by_room);
        }
        if (ctl->json) {
            print_json(&full);
        } else {
            print_text(&full);
        }
    }
    release(&full);
    return status;
}
