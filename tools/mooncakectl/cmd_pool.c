/* Commands on the pool: status, segments, clients, config. */
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

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
    mc_json_print(object);
}

static void print_line(const char *name, const char *value, const char *note)
{
    (void)printf("%-16s %16s", name, value);
    (void)printf("%s%s\n", note[0] != '\0' ? "  " : "", note);
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

/* What a list is gathered into: one of the two, by --json. */
struct list {
    json_t *array;
    struct mc_table *table;
};

static void list_open(struct list *list, const struct mc_ctl *ctl, const char *const *heads,
                      size_t columns)
{
    list->array = ctl->json ? mc_json_array() : NULL;
    list->table = ctl->json ? NULL : mc_table_create(heads, columns);
}

/* Print it, or tell why there is none. */
static enum mc_exit list_close(struct list *list, const struct mc_ctl *ctl, mooncake_err err,
                               const char *name)
{
    if (err != MOONCAKE_OK) {
        json_decref(list->array);
        mc_table_destroy(&list->table);
        return mc_fail(ctl, err, "cannot get the %s of the pool", name);
    }
    if (ctl->json) {
        mc_json_print_field(name, list->array);
    } else {
        mc_table_print(list->table);
        mc_table_destroy(&list->table);
    }
    return MC_EXIT_OK;
}

static void add_segment(void *arg, const mooncake_segment_status *s)
{
    struct list *list = arg;
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
    struct list list;
    mooncake_err err;

    list_open(&list, ctl, heads, sizeof(heads) / sizeof(heads[0]));
    err = mooncake_admin_segments(ctl->client, ctl->timeout_ms, add_segment, &list);
    return list_close(&list, ctl, err, "segments");
}

static void add_client(void *arg, const mooncake_client_status *s)
{
    struct list *list = arg;
    char numbers[3][MC_NUMBER_CAP];

    if (list->array != NULL) {
        json_t *item = mc_json_object();

        mc_json_set(item, "client_id", mc_json_id(s->client_id));
        mc_json_set(item, "host", mc_json_text(s->host));
        mc_json_set(item, "program", mc_json_text(s->program));
        mc_json_set(item, "role", mc_json_text(s->role));
        mc_json_set(item, "segments", mc_json_number(s->segments));
        mc_json_set(item, "ping_age_ms", mc_json_number(s->ping_age_ms));
        mc_json_append(list->array, item);
        return;
    }
    mc_table_add(list->table, (const char *const[]){
                                  mc_format_id(s->client_id, numbers[0]),
                                  s->role,
                                  s->host,
                                  s->program,
                                  mc_format_count(s->segments, numbers[1]),
                                  mc_format_duration(s->ping_age_ms, numbers[2]),
                              });
}

enum mc_exit mc_cmd_clients(struct mc_ctl *ctl)
{
    static const char *const heads[] = {"CLIENT",  "ROLE",      "HOST",
                                        "PROGRAM", ">SEGMENTS", ">LAST PING"};
    struct list list;
    mooncake_err err;

    list_open(&list, ctl, heads, sizeof(heads) / sizeof(heads[0]));
    err = mooncake_admin_clients(ctl->client, ctl->timeout_ms, add_client, &list);
    return list_close(&list, ctl, err, "clients");
}

static void add_option(void *arg, const char *name, const char *value, const char *source,
                       const char *help)
{
    struct list *list = arg;

    if (list->array != NULL) {
        json_t *item = mc_json_object();

        mc_json_set(item, "name", mc_json_text(name));
        mc_json_set(item, "value", mc_json_text(value));
        mc_json_set(item, "source", mc_json_text(source));
        mc_json_set(item, "help", mc_json_text(help));
        mc_json_append(list->array, item);
        return;
    }
    mc_table_add(list->table, (const char *const[]){name, value, source});
}

enum mc_exit mc_cmd_config(struct mc_ctl *ctl)
{
    static const char *const heads[] = {"OPTION", "VALUE", "SOURCE"};
    struct list list;
    mooncake_err err;

    list_open(&list, ctl, heads, sizeof(heads) / sizeof(heads[0]));
    err = mooncake_admin_config(ctl->client, ctl->timeout_ms, add_option, &list);
    return list_close(&list, ctl, err, "configuration");
}
