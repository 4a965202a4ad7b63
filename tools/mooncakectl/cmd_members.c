/* Who is in the pool: stores, clients. The master knows processes and segments apart; people ask
 * about a store, which is both. */
#include <stdlib.h>
#include <string.h>

#include "list.h"

/* Two pings and a half: as the master judges. */
#define SILENT_MS 2500u

/* What the segments of one process come to. */
struct lender {
    uint64_t client_id, len, used;
    char *addresses, *host; /* of the first; owned */
    const char *state;      /* the worst; static */
    uint64_t segments;
    bool listed;
};

struct members {
    const struct mc_ctl *ctl;
    bool stores_only;
    struct lender *lenders; /* owned */
    size_t count, cap;
    struct mc_list_out list;
};

static const char *const states[] = {"ok", "draining", "suspect", "gone"};

static unsigned badness(const char *state)
{
    for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (strcmp(states[i], state) == 0) {
            return i;
        }
    }
    return 0;
}

static struct lender *find_lender(struct members *members, uint64_t client_id)
{
    for (size_t i = 0; i < members->count; i++) {
        if (members->lenders[i].client_id == client_id) {
            return &members->lenders[i];
        }
    }
    return NULL;
}

static void add_segment(void *arg, const mooncake_segment_status *s)
{
    struct members *members = arg;
    struct lender *lender = find_lender(members, s->client_id);

    if (lender == NULL) {
        if (members->count == members->cap) {
            members->cap = members->cap == 0 ? 16 : 2 * members->cap;
            members->lenders =
                mc_need(reallocarray(members->lenders, members->cap, sizeof(*members->lenders)));
        }
        lender = &members->lenders[members->count++];
        *lender = (struct lender){.client_id = s->client_id,
                                  .addresses = mc_need(strdup(s->addresses)),
                                  .host = mc_need(strdup(s->host)),
                                  .state = states[0]};
    }
    lender->len += s->len;
    lender->used += s->used;
    lender->segments++;
    if (badness(s->state) > badness(lender->state)) {
        lender->state = states[badness(s->state)];
    }
}

/* "tcp://10.0.0.1:7000 shm://..." -> "10.0.0.1:7000", else the host. */
static char *short_address(const struct lender *lender, const char *host)
{
    static const char scheme[] = "tcp://";
    const char *at = lender == NULL ? NULL : strstr(lender->addresses, scheme);

    if (at == NULL) {
        return mc_need(strdup(host));
    }
    at += sizeof(scheme) - 1;
    return mc_need(strndup(at, strcspn(at, " ,")));
}

static json_t *member_json(const mooncake_client_status *s, const struct lender *lender,
                           const char *state)
{
    json_t *item = mc_json_object();

    mc_json_set(item, "client_id", mc_json_id(s->client_id));
    mc_json_set(item, "host", mc_json_text(s->host));
    mc_json_set(item, "addresses", mc_json_text(lender == NULL ? "" : lender->addresses));
    mc_json_set(item, "program", mc_json_text(s->program));
    mc_json_set(item, "role", mc_json_text(s->role));
    mc_json_set(item, "segments", mc_json_number(s->segments));
    mc_json_set(item, "len", mc_json_number(lender == NULL ? 0 : lender->len));
    mc_json_set(item, "used", mc_json_number(lender == NULL ? 0 : lender->used));
    mc_json_set(item, "ping_age_ms",
                s->ping_age_ms == UINT64_MAX ? json_null() : mc_json_number(s->ping_age_ms));
    mc_json_set(item, "state", json_string(state));
    return item;
}

static void add_member(struct members *members, const mooncake_client_status *s,
                       const struct lender *lender)
{
    const char *state = lender == NULL ? states[0] : lender->state;
    char numbers[4][MC_NUMBER_CAP];
    char *address;

    if (s->ping_age_ms == UINT64_MAX) {
        state = "gone";
    } else if (badness(state) == 0 && s->ping_age_ms > SILENT_MS) {
        state = "suspect";
    }
    if (members->list.array != NULL) {
        mc_json_append(members->list.array, member_json(s, lender, state));
        return;
    }
    address = short_address(lender, s->host);
    mc_table_add(
        members->list.table,
        (const char *const[]){
            mc_format_id(s->client_id, numbers[0]),
            s->role,
            address,
            s->program,
            s->ping_age_ms == UINT64_MAX ? "-" : mc_format_duration(s->ping_age_ms, numbers[1]),
            lender == NULL ? "-" : mc_format_size(lender->len, numbers[2]),
            lender == NULL ? "-" : mc_format_share(lender->used, lender->len, numbers[3]),
            state,
        });
    free(address);
}

static void add_client(void *arg, const mooncake_client_status *s)
{
    struct members *members = arg;
    struct lender *lender = find_lender(members, s->client_id);

    if (lender != NULL) {
        lender->listed = true;
    }
    if (!members->stores_only || lender != NULL || strcmp(s->role, "store") == 0) {
        add_member(members, s, lender);
    }
}

/* Their process is not known any more; their objects are still being swept. */
static void add_gone(struct members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        struct lender *lender = &members->lenders[i];

        if (!lender->listed) {
            const mooncake_client_status status = {.host = lender->host,
                                                   .program = "",
                                                   .role = "store",
                                                   .client_id = lender->client_id,
                                                   .segments = (uint32_t)lender->segments,
                                                   .ping_age_ms = UINT64_MAX};

            add_member(members, &status, lender);
        }
    }
}

static enum mc_exit list_members(struct mc_ctl *ctl, bool stores_only)
{
    static const char *const heads[] = {"CLIENT", "ROLE",   "ADDRESS", "PROGRAM",
                                        ">PING",  ">BYTES", ">USED",   "STATE"};
    struct members members = {.ctl = ctl, .stores_only = stores_only};
    mooncake_err err;
    enum mc_exit status;

    mc_list_open(&members.list, ctl, heads, sizeof(heads) / sizeof(heads[0]));
    err = mooncake_admin_segments(ctl->client, ctl->timeout_ms, add_segment, &members);
    if (err == MOONCAKE_OK) {
        err = mooncake_admin_clients(ctl->client, ctl->timeout_ms, add_client, &members);
    }
    if (err == MOONCAKE_OK) {
        add_gone(&members);
    }
    status = mc_list_close(&members.list, ctl, err, stores_only ? "stores" : "clients");
    for (size_t i = 0; i < members.count; i++) {
        free(members.lenders[i].addresses);
        free(members.lenders[i].host);
    }
    free(members.lenders);
    return status;
}

enum mc_exit mc_cmd_stores(struct mc_ctl *ctl)
{
    return list_members(ctl, true);
}

enum mc_exit mc_cmd_clients(struct mc_ctl *ctl)
{
    return list_members(ctl, false);
}
