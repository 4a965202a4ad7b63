/* The admin page about who pings: clients, stores, and how long ago. */
#include <stdio.h>

#include "base/limits.h"
#include "base/mem.h"
#include "master/master_admin.h"
#include "wire/names.h"

/* Lines of one part: some microseconds each. */
#define CLIENTS_PER_PART 64u

static json_t *client_json(const struct mc_client_status *client)
{
    char id[24];

    (void)snprintf(id, sizeof(id), "%016llx", (unsigned long long)client->client_id);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I}", "client_id", id, "host", client->host,
                     "program", client->program, "role", mc_role_name(client->role), "segments",
                     (int)client->segments, "ping_age_ms", (json_int_t)client->ping_age_ms);
}

static mooncake_err next_clients(struct mc_core *core, struct mc_arena *arena, uint64_t *cursor,
                                 size_t *count, struct mc_buf *out)
{
    struct mc_list_request const request = {.cursor = *cursor, .items_max = CLIENTS_PER_PART};
    struct mc_list_clients_reply clients;

    MC_TRY(mc_core_list_clients(core, &request, arena, &clients));
    for (size_t i = 0; i < clients.count; i++) {
        if ((*count)++ > 0) {
            MC_TRY(mc_buf_append(out, ",", 1));
        }
        MC_TRY(mc_page_json_append(out, client_json(&clients.items[i])));
    }
    *cursor = clients.cursor;
    return MOONCAKE_OK;
}

void mc_page_clients_detail(void *arg, const struct mc_admin_request *request,
                            struct mc_admin_reply *reply)
{
    (void)request;
    mc_page_list(arg, reply, "clients", next_clients);
}
