/* Commands on keys as the master sees them: ls, key. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

/* A listing goes on as long as somebody reads it; this only ends one that hangs. */
#define LS_TIMEOUT_MS (10u * 60 * 1000)

/* ---- ls ----------------------------------------------------------------------------------- */

struct listing {
    const struct mc_ctl *ctl;
    uint64_t count;
};

static bool print_key(void *arg, const char *key, size_t key_len)
{
    struct listing *listing = arg;

    if (listing->ctl->json) {
        mc_json_list_item(mc_json_bytes(key, key_len));
    } else if (listing->ctl->null_ends) {
        (void)fwrite(key, 1, key_len, stdout);
        (void)fputc('\0', stdout);
    } else {
        mc_print_bytes(stdout, key, key_len);
        (void)fputc('\n', stdout);
    }
    listing->count++;
    return ferror(stdout) == 0; /* nobody reads any more: stop asking */
}

enum mc_exit mc_check_ls(const struct mc_ctl *ctl)
{
    if (ctl->json && ctl->null_ends) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE, "ls: choose one of --json and --null");
    }
    return MC_EXIT_OK;
}

enum mc_exit mc_cmd_ls(struct mc_ctl *ctl)
{
    struct listing listing = {.ctl = ctl};
    uint32_t timeout_ms = ctl->timeout_ms != 0 ? ctl->timeout_ms : LS_TIMEOUT_MS;
    mooncake_err err;

    if (ctl->json) {
        mc_json_list_begin("keys");
    }
    err = mooncake_admin_keys(ctl->client, ctl->words_count > 0 ? ctl->words[0] : NULL, ctl->limit,
                              timeout_ms, print_key, &listing);
    if (ctl->json) {
        mc_json_list_end("count", mc_json_number(listing.count));
    }
    if (err != MOONCAKE_OK) {
        return mc_fail(ctl, err, "the list of keys is not complete");
    }
    return MC_EXIT_OK;
}

/* ---- key ---------------------------------------------------------------------------------- */

static json_t *key_json(const char *key, const mooncake_key_status *s)
{
    char id[2][MC_NUMBER_CAP];
    char object_id[2 * MC_NUMBER_CAP];
    json_t *extents = mc_json_array();
    json_t *object = mc_json_object();

    (void)snprintf(object_id, sizeof(object_id), "%s%s", mc_format_id(s->object_id_hi, id[0]),
                   mc_format_id(s->object_id_lo, id[1]));
    mc_json_set(object, "key", mc_json_text(key));
    mc_json_set(object, "state", mc_json_text(s->state));
    mc_json_set(object, "len", mc_json_number(s->len));
    mc_json_set(object, "pin", mc_json_text(s->pin));
    mc_json_set(object, "soft_pin_left_ms", mc_json_number(s->soft_pin_left_ms));
    mc_json_set(object, "lease_left_ms", mc_json_number(s->lease_left_ms));
    mc_json_set(object, "age_ms", mc_json_number(s->age_ms));
    mc_json_set(object, "object_id", mc_json_text(object_id));
    mc_json_set(object, "owner_client_id", mc_json_id(s->owner_client_id));
    mc_json_set(object, "replicas", mc_json_number(s->replicas));
    for (size_t i = 0; i < s->extents_count; i++) {
        const mooncake_extent_status *e = &s->extents[i];
        json_t *item = mc_json_object();

        mc_json_set(item, "replica", mc_json_number(e->replica));
        mc_json_set(item, "slice", mc_json_number(e->slice));
        mc_json_set(item, "segment", mc_json_text(e->segment));
        mc_json_set(item, "host", mc_json_text(e->host));
        mc_json_set(item, "mount_id", mc_json_id(e->mount_id));
        mc_json_set(item, "offset", mc_json_number(e->offset));
        mc_json_set(item, "len", mc_json_number(e->len));
        mc_json_append(extents, item);
    }
    mc_json_set(object, "extents", extents);
    return object;
}

static void print_extents(const mooncake_key_status *s)
{
    static const char *const heads[] = {">COPY", ">SLICE", "SEGMENT", "HOST", ">OFFSET", ">LENGTH"};
    struct mc_table *table = mc_table_create(heads, sizeof(heads) / sizeof(heads[0]));

    for (size_t i = 0; i < s->extents_count; i++) {
        const mooncake_extent_status *e = &s->extents[i];
        char numbers[4][MC_NUMBER_CAP];

        mc_table_add(table, (const char *const[]){
                                mc_format_count(e->replica, numbers[0]),
                                mc_format_count(e->slice, numbers[1]),
                                e->segment,
                                e->host,
                                mc_format_count(e->offset, numbers[2]),
                                mc_format_size(e->len, numbers[3]),
                            });
    }
    mc_table_print(table);
    mc_table_destroy(&table);
}

/* Who is in the middle of putting it? */
struct owner {
    uint64_t client_id;
    bool found;
};

static void print_if_owner(void *arg, const mooncake_client_status *s)
{
    struct owner *owner = arg;

    if (s->client_id == owner->client_id && !owner->found) {
        owner->found = true;
        (void)fputs(" (", stdout);
        mc_print_text(stdout, s->program);
        (void)fputs(" on ", stdout);
        mc_print_text(stdout, s->host);
        (void)fputs(")", stdout);
    }
}

static void print_owner(const struct mc_ctl *ctl, uint64_t client_id)
{
    struct owner owner = {.client_id = client_id};
    char id[MC_NUMBER_CAP];

    (void)printf("owner      %s", mc_format_id(client_id, id));
    if (mooncake_admin_clients(ctl->client, ctl->timeout_ms, print_if_owner, &owner) ==
            MOONCAKE_OK &&
        !owner.found) {
        (void)fputs(" (not known any more: it left, or is a tool)", stdout);
    }
    (void)fputc('\n', stdout);
}

static void print_one(void *arg, const mooncake_key_status *s)
{
    const struct mc_ctl *ctl = arg;
    char numbers[2][MC_NUMBER_CAP];

    if (ctl->json) {
        mc_json_print(key_json(ctl->words[0], s));
        return;
    }
    (void)printf("state      %s\n", s->state);
    (void)printf("length     %s (%s bytes)\n", mc_format_size(s->len, numbers[0]),
                 mc_format_count(s->len, numbers[1]));
    (void)printf("lease      %s\n",
                 s->lease_left_ms > 0 ? mc_format_duration(s->lease_left_ms, numbers[0]) : "none");
    (void)printf("pin        %s", s->pin);
    (void)printf("%s%s\n", s->soft_pin_left_ms > 0 ? ", for another " : "",
                 s->soft_pin_left_ms > 0 ? mc_format_duration(s->soft_pin_left_ms, numbers[0])
                                         : "");
    (void)printf("age        %s\n", mc_format_duration(s->age_ms, numbers[0]));
    if (s->owner_client_id != 0) {
        print_owner(ctl, s->owner_client_id);
    }
    (void)printf("object     %s%s\n", mc_format_id(s->object_id_hi, numbers[0]),
                 mc_format_id(s->object_id_lo, numbers[1]));
    (void)printf("copies     %s\n\n", mc_format_count(s->replicas, numbers[0]));
    print_extents(s);
}

enum mc_exit mc_cmd_key(struct mc_ctl *ctl)
{
    const char *key = ctl->words[0];
    mooncake_err err;

    err = mooncake_admin_key(ctl->client, key, ctl->timeout_ms, print_one, ctl);
    if (err != MOONCAKE_OK) {
        return mc_fail(ctl, err, "cannot show \"%.80s\"", key);
    }
    return MC_EXIT_OK;
}
