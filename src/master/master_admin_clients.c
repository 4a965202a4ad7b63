/* The admin page about who pings: clients, stores, and how long ago. */
#include <stdio.h>

#include "base/limits.h"
#include "base/mem.h"
#include "master/master_admin.h"

/* Lines of one part: some microseconds each. */
#define CLIENTS_PER_PART 64u

struct listing {
    struct mc_arena arena; /* of the list, which is of one moment */
    struct mc_list_clients_reply clients;
    size_t next;
};

static const char *role_name(uint32_t role)
{
    static const char *const names[] = {"", "client", "store", "tool"};

    return role < MC_ARRAY_LEN(names) ? names[role] : "";
}

static json_t *client_json(const struct mc_client_status *client)
{
    char id[24];

    (void)snprintf(id, sizeof(id), "%016llx", (unsigned long long)client->client_id);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I}", "client_id", id, "host", client->host,
                     "program", client->program, "role", role_name(client->role), "segments",
                     (int)client->segments, "ping_age_ms", (json_int_t)client->ping_age_ms);
}

static mooncake_err next_clients(void *state, struct mc_buf *out, bool *more)
{
    static const char tail[] = "]}\n";
    struct listing *listing = state;
    unsigned i;

    if (listing->next == 0) {
        char head[80];
        int len = snprintf(head, sizeof(head), "{\"total_clients\":%zu,\"clients\":[",
                           listing->clients.count);

        MC_TRY(mc_buf_append(out, head, (size_t)len));
    }
    for (i = 0; i < CLIENTS_PER_PART && listing->next < listing->clients.count; i++) {
        if (listing->next > 0) {
            MC_TRY(mc_buf_append(out, ",", 1));
        }
        MC_TRY(mc_page_json_append(out, client_json(&listing->clients.items[listing->next])));
        listing->next++;
    }
    *more = listing->next < listing->clients.count;
    return *more ? MOONCAKE_OK : mc_buf_append(out, tail, sizeof(tail) - 1);
}

static void free_listing(void *state)
{
    struct listing *listing = state;

    mc_arena_fini(&listing->arena);
    mc_free(listing);
}

void mc_page_clients_detail(void *arg, const struct mc_admin_request *request,
                            struct mc_admin_reply *reply)
{
    struct mc_master *master = arg;
    struct listing *listing = mc_calloc(1, sizeof(*listing));
    mooncake_err err = MOONCAKE_ENOMEM;

    (void)request;
    if (listing != NULL) {
        mc_arena_init(&listing->arena, 0);
        err = mc_core_list_clients(master->core, &listing->arena, &listing->clients);
    }
    if (err != MOONCAKE_OK) {
        if (listing != NULL) {
            free_listing(listing);
        }
        mc_page_error(reply, err);
        return;
    }
    reply->content_type = "application/json; charset=utf-8";
    reply->part = next_clients;
    reply->part_state = listing;
    reply->part_free = free_listing;
}
