/* Finding a store by what people call it. */
#include "store_name.h"

#include <string.h>

#include "output.h"

struct search {
    const char *name;
    struct mc_store_segments found;
    bool by_host, several;
};

static bool has_address(const char *addresses, const char *name)
{
    const char *at = strstr(addresses, "://");
    size_t len = strlen(name);

    for (; at != NULL; at = strstr(at, "://")) {
        at += 3;
        if (strncmp(at, name, len) == 0 && (at[len] == '\0' || at[len] == ' ')) {
            return true;
        }
    }
    return false;
}

static void find_owner(void *arg, const mooncake_segment_status *s)
{
    struct search *search = arg;
    char id[MC_NUMBER_CAP];
    bool exact = strcmp(s->name, search->name) == 0 || has_address(s->addresses, search->name) ||
                 strcmp(mc_format_id(s->client_id, id), search->name) == 0;
    bool host = strcmp(s->host, search->name) == 0;

    if (strcmp(s->state, "gone") == 0 || (!exact && !host)) {
        return;
    }
    if (exact && search->by_host) { /* a better match than those so far */
        search->found.client_id = 0;
        search->by_host = false;
        search->several = false;
    }
    if (search->found.client_id == 0) {
        search->found.client_id = s->client_id;
        search->by_host = !exact;
    } else if (search->found.client_id != s->client_id && exact != search->by_host) {
        search->several = true;
    }
}

static void gather(void *arg, const mooncake_segment_status *s)
{
    struct search *search = arg;

    if (s->client_id == search->found.client_id && strcmp(s->state, "gone") != 0 &&
        search->found.count < MC_STORE_SEGMENTS_MAX) {
        search->found.mount_ids[search->found.count++] = s->mount_id;
    }
}

enum mc_exit mc_store_find(const struct mc_ctl *ctl, const char *name,
                           struct mc_store_segments *out)
{
    struct search search = {.name = name};
    mooncake_err err = mooncake_admin_segments(ctl->client, ctl->timeout_ms, find_owner, &search);

    if (err == MOONCAKE_OK && search.found.client_id != 0 && !search.several) {
        err = mooncake_admin_segments(ctl->client, ctl->timeout_ms, gather, &search);
    }
    if (err != MOONCAKE_OK) {
        return mc_fail(ctl, err, "cannot get the segments of the pool");
    }
    if (search.several) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE,
                             "several stores are called \"%.80s\": name one by its id, as "
                             "mooncakectl stores shows it",
                             name);
    }
    if (search.found.count == 0) {
        return mc_fail_plain(ctl, MC_EXIT_NO,
                             "no store is called \"%.80s\": mooncakectl stores lists them, by id "
                             "and address",
                             name);
    }
    *out = search.found;
    return MC_EXIT_OK;
}
