/* Commands on the pool: status, segments, config. */
#include <stdio.h>
#include <string.h>

#include "list.h"

#define PERMILLE 1000u
/* From here on the core loop is what the others wait for. */
#define MANY_PERMILLE 800u

/* ---- status ------------------------------------------------------------------------------- */

static void print_status_json(const mooncake_pool_status *s)
{
    json_t *object = mc_json_object();
    uint64_t lookups = s->hits + s->misses;

    mc_json_set(object, "master", mc_json_text(s->master_program));
    mc_json_set(object, "master_epoch", mc_json_id(s->master_epoch));
    mc_json_set(object, "uptime_ms", mc_json_number(s->uptime_ms));
    mc_json_set(object, "capacity", mc_json_number(s->capacity));
    mc_json_set(object, "used", mc_json_number(s->used));
    mc_json_set(object, "keys", mc_json_number(s->keys));
    mc_json_set(object, "unfinished_puts", mc_json_number(s->unfinished_puts));
    mc_json_set(object, "segments", mc_json_number(s->segments));
    mc_json_set(object, "stores", mc_json_number(s->stores));
    mc_json_set(object, "clients", mc_json_number(s->clients));
    mc_json_set(object, "hits", mc_json_number(s->hits));
    mc_json_set(object, "misses", mc_json_number(s->misses));
    mc_json_set(object, "hit_ratio",
                lookups == 0 ? json_null() : json_real((double)s->hits / (double)lookups));
    mc_json_set(object, "evicted_keys", mc_json_number(s->evicted_keys));
    mc_json_set(object, "evicted_bytes", mc_json_number(s->evicted_bytes));
    mc_json_set(object, "put_rejected", mc_json_number(s->put_rejected));
    mc_json_set(object, "io_threads", mc_json_number(s->io_threads));
    mc_json_set(object, "busy_span_ms", mc_json_number(s->busy_span_ms));
    mc_json_set(object, "core_busy_permille", mc_json_number(s->core_busy_permille));
    mc_json_set(object, "io_busy_permille", mc_json_number(s->io_busy_permille));
    mc_json_print(object);
}

static void print_line(const char *name, const char *value, const char *note)
{
    (void)printf("%-16s %16s", name, value);
    (void)printf("%s%s\n", note[0] != '\0' ? "  " : "", note);
}

/* A core loop near 100 % is where a pool's latency comes from. */
static void print_threads(const mooncake_pool_status *s)
{
    char value[MC_NUMBER_CAP], span[MC_NUMBER_CAP], io[MC_NUMBER_CAP];
    char note[3 * MC_NUMBER_CAP + 40];

    if (s->busy_span_ms == 0) {
        return; /* an older master */
    }
    (void)mc_format_duration(s->busy_span_ms, span);
    if (s->io_threads == 0) {
        (void)snprintf(note, sizeof(note), "busy, last %s; no io threads%s", span,
                       s->core_busy_permille >= MANY_PERMILLE ? ": see --io_threads" : "");
    } else {
        (void)snprintf(note, sizeof(note), "busy, last %s; %u io threads, busiest %s", span,
                       (unsigned)s->io_threads, mc_format_share(s->io_busy_permille, PERMILLE, io));
    }
    print_line("core loop", mc_format_share(s->core_busy_permille, PERMILLE, value), note);
}

static void print_status(const mooncake_pool_status *s)
{
    char value[MC_NUMBER_CAP];
    char note[MC_NUMBER_CAP];

    (void)fputs("master           ", stdout);
    mc_print_text(stdout, s->master_program);
    (void)printf(", up %s\n", mc_format_duration(s->uptime_ms, value));
    print_line("capacity", mc_format_size(s->capacity, value), "");
    print_line("used", mc_format_size(s->used, value), mc_format_share(s->used, s->capacity, note));
    print_line("keys", mc_format_count(s->keys, value), "");
    print_line("unfinished puts", mc_format_count(s->unfinished_puts, value), "");
    print_line("stores", mc_format_count(s->stores, value), "");
    print_line("segments", mc_format_count(s->segments, value), "");
    print_line("clients", mc_format_count(s->clients, value), "stores included");
    print_line("hits", mc_format_count(s->hits, value),
               mc_format_share(s->hits, s->hits + s->misses, note));
    print_line("misses", mc_format_count(s->misses, value), "");
    print_line("evicted keys", mc_format_count(s->evicted_keys, value), "");
    print_line("evicted bytes", mc_format_size(s->evicted_bytes, value), "");
    print_line("rejected puts", mc_format_count(s->put_rejected, value), "");
    print_threads(s);
}

enum mc_exit mc_cmd_status(struct mc_ctl *ctl)
{
    mooncake_pool_status status;
    mooncake_err err;

    (void)memset(&status, 0, sizeof(status));
    status.struct_size = sizeof(status);
    err = mooncake_admin_status(ctl->client, ctl->timeout_ms, &status);
    if (err != MOONCAKE_OK) {
        return mc_fail(ctl, err, "cannot get the status of the pool");
    }
    if (ctl->json) {
        print_status_json(&status);
    } else {
        print_status(&status);
    }
    return MC_EXIT_OK;
}

/* ---- lists -------------------------------------------------------------------------------- */

static void add_segment(void *arg, const mooncake_segment_status *s)
{
    struct mc_list_out *list = arg;
    char numbers[5][MC_NUMBER_CAP];

    if (list->array != NULL) {
        json_t *item = mc_json_object();

        mc_json_set(item, "name", mc_json_text(s->name));
        mc_json_set(item, "host", mc_json_text(s->host));
        mc_json_set(item, "addresses", mc_json_text(s->addresses));
        mc_json_set(item, "state", mc_json_text(s->state));
        mc_json_set(item, "mount_id", mc_json_id(s->mount_id));
        mc_json_set(item, "client_id", mc_json_id(s->client_id));
        mc_json_set(item, "len", mc_json_number(s->len));
        mc_json_set(item, "used", mc_json_number(s->used));
        mc_json_set(item, "largest_free_extent", mc_json_number(s->largest_free_extent));
        mc_json_set(item, "extents", mc_json_number(s->extents));
        mc_json_append(list->array, item);
        return;
    }
    mc_table_add(list->table, (const char *const[]){
                                  s->name,
                                  s->host,
                                  s->state,
                                  mc_format_size(s->len, numbers[0]),
                                  mc_format_size(s->used, numbers[1]),
                                  mc_format_share(s->used, s->len, numbers[2]),
                                  mc_format_size(s->largest_free_extent, numbers[3]),
                                  mc_format_count(s->extents, numbers[4]),
                              });
}

enum mc_exit mc_cmd_segments(struct mc_ctl *ctl)
{
    static const char *const heads[] = {"SEGMENT", "HOST",   "STATE",         ">SIZE",
                                        ">USED",   ">SHARE", ">LARGEST FREE", ">EXTENTS"};
    struct mc_list_out list;
    mooncake_err err;

    mc_list_open(&list, ctl, heads, sizeof(heads) / sizeof(heads[0]));
    err = mooncake_admin_segments(ctl->client, ctl->timeout_ms, add_segment, &list);
    return mc_list_close(&list, ctl, err, "segments");
}

static void add_option(void *arg, const mooncake_option_status *o)
{
    struct mc_list_out *list = arg;

    if (list->array != NULL) {
        json_t *item = mc_json_object();

        mc_json_set(item, "name", mc_json_text(o->name));
        mc_json_set(item, "value", mc_json_text(o->value));
        mc_json_set(item, "default", mc_json_text(o->default_value));
        mc_json_set(item, "source", mc_json_text(o->source));
        mc_json_set(item, "unit", mc_json_text(o->unit));
        mc_json_set(item, "help", mc_json_text(o->help));
        mc_json_append(list->array, item);
        return;
    }
    mc_table_add(list->table,
                 (const char *const[]){o->name, o->value, o->default_value, o->source, o->unit});
}

enum mc_exit mc_cmd_config(struct mc_ctl *ctl)
{
    static const char *const heads[] = {"OPTION", "VALUE", "DEFAULT", "SOURCE", "UNIT"};
    struct mc_list_out list;
    mooncake_err err;

    mc_list_open(&list, ctl, heads, sizeof(heads) / sizeof(heads[0]));
    err = mooncake_admin_options(ctl->client, ctl->timeout_ms, add_option, &list);
    return mc_list_close(&list, ctl, err, "configuration");
}
