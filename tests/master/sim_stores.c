/* Chance, time, and the life of stores. */
#include <stdio.h>
#include <string.h>

#include "master/sim_world.h"

uint32_t sim_below(struct sim *sim, uint32_t count)
{
    return mc_place_random_below(&sim->random, count);
}

bool sim_chance(struct sim *sim, uint32_t one_in)
{
    return sim_below(sim, one_in) == 0;
}

uint64_t sim_ms(uint64_t count)
{
    return count * MC_NS_PER_MS;
}

/* Core time, before a call into the core. */
void sim_enter(struct sim *sim)
{
    uint64_t const gap_ns = sim->clock.now_ns - sim->seen_ns;

    sim->seen_ns = sim->clock.now_ns;
    if (gap_ns > sim_ms(sim->model.options.stall_ms)) {
        sim->stalled_ns += gap_ns;
    }
    sim->model.now_ns = sim->clock.now_ns - sim->stalled_ns;
    mc_arena_reset(&sim->arena);
}

/* ---- stores -------------------------------------------------------------------------------- */

static void list_segments(struct sim *sim, bool after_tick)
{
    struct mc_list_request const request = {0}; /* one page has them all */
    struct mc_list_segments_reply reply;

    sim_enter(sim);
    if (mc_core_list_segments(sim->core, &request, &sim->arena, &reply) != MOONCAKE_OK) {
        model_fail(&sim->model, "listing segments failed");
        return;
    }
    model_segments(&sim->model, &reply, after_tick);
}

void sim_tick(struct sim *sim)
{
    unsigned slices = 0;

    sim_enter(sim);
    while (mc_core_tick(sim->core) <= sim->clock.now_ns) {
        if (++slices > 1000) {
            model_fail(&sim->model, "the tick never comes to an end");
            return;
        }
    }
    sim->tick_ns = sim->clock.now_ns;
    list_segments(sim, true);
}

void sim_mount(struct sim *sim, struct store *store)
{
    char name[32];
    char host[32];
    struct mc_mount_item item = {.name = name, .addresses = name, .len = store->len};
    struct mc_mount_request const request = {
        .client_id = store->client_id, .host = host, .items = &item, .count = 1};
    struct mc_status_reply reply;
    struct model_mount *old = model_mount_of(&sim->model, store->mount_id);
    struct model_mount *fresh;

    (void)snprintf(name, sizeof(name), "store:%u", store->number);
    (void)snprintf(host, sizeof(host), "host%u", store->number / 2);
    item.mount_id = ++sim->last_id;
    item.secret[0] = mc_place_random_next(&sim->random);
    sim_enter(sim);
    if (mc_core_mount(sim->core, &request, &sim->arena, &reply) != MOONCAKE_OK ||
        reply.statuses[0] != MOONCAKE_OK) {
        model_fail(&sim->model, "a store at its own address cannot mount");
        return;
    }
    if (old != NULL) {
        model_mount_end(old); /* superseded, if it had not ended before */
    }
    if (sim->model.mounts_count == MODEL_MOUNTS) {
        model_fail(&sim->model, "the model has too few mounts for this seed");
        return;
    }
    store->mount_id = item.mount_id;
    fresh = &sim->model.mounts[sim->model.mounts_count++];
    *fresh = (struct model_mount){
        .mount_id = item.mount_id,
        .client_id = store->client_id,
        .len = store->len,
        .secret = {item.secret[0], item.secret[1]},
        .pinged_ns = sim->model.now_ns,
        .alive = true,
        .placeable = true,
    };
}

static void ping(struct sim *sim, struct store *store)
{
    struct model_mount *const mount_model = model_mount_of(&sim->model, store->mount_id);
    struct mc_ping_request const request = {
        .client_id = store->client_id,
        .role = MC_ROLE_STORE,
        .mount_ids = &store->mount_id,
        .count = 1,
    };
    struct mc_ping_reply reply;

    sim_enter(sim);
    if (mc_core_ping(sim->core, &request, &sim->arena, &reply) != MOONCAKE_OK) {
        model_fail(&sim->model, "a ping failed");
        return;
    }
    if ((reply.unknown_count == 0) != mount_model->alive) {
        model_fail(&sim->model, "a ping says that a mount is %s",
                   reply.unknown_count == 0 ? "there" : "unknown");
        return;
    }
    mount_model->pinged_ns = sim->model.now_ns;
    if (reply.unknown_count > 0) {
        sim_mount(sim, store);
    }
    list_segments(sim, false);
}

static void leave(struct sim *sim, struct store *store, uint64_t grace_ms)
{
    struct model_mount *const mount_model = model_mount_of(&sim->model, store->mount_id);
    struct mc_unmount_request const request = {
        .client_id = store->client_id,
        .mount_ids = &store->mount_id,
        .count = 1,
        .grace_ms = grace_ms,
    };
    struct mc_status_reply reply;

    sim_enter(sim);
    if (mc_core_unmount(sim->core, &request, &sim->arena, &reply) != MOONCAKE_OK ||
        (reply.statuses[0] == MOONCAKE_OK) != mount_model->alive) {
        model_fail(&sim->model, "an unmount was answered wrongly");
        return;
    }
    if (grace_ms == 0) {
        model_mount_end(mount_model);
    } else if (mount_model->alive) {
        mount_model->leave_ns = sim->model.now_ns + sim_ms(grace_ms);
        mount_model->placeable = false;
    }
}

static void report(struct sim *sim, uint64_t mount_id, mooncake_err reason,
                   const struct model_ask *ask)
{
    char key[16];
    struct mc_report_item item = {.mount_id = mount_id, .reason = reason};
    struct mc_report_request const request = {
        .client_id = ask->client_id, .items = &item, .count = 1};
    struct mc_status_reply reply;

    (void)snprintf(key, sizeof(key), "key%u", ask->key);
    item.key = (struct mc_key){.bytes = key, .len = (uint32_t)strlen(key)};
    item.object_id_lo = ask->attempt;
    sim_enter(sim);
    if (mc_core_report(sim->core, &request, &sim->arena, &reply) != MOONCAKE_OK) {
        model_fail(&sim->model, "a report failed");
        return;
    }
    if (reason == MOONCAKE_ECHECKSUM && reply.statuses[0] == MOONCAKE_OK) {
        model_damaged(&sim->model, ask, mount_id);
    }
    list_segments(sim, false);
}

void sim_live_stores(struct sim *sim)
{
    for (unsigned i = 0; i < STORES_MAX; i++) {
        struct store *const store = &sim->stores[i];
        bool const silent = store->silent_until_ns > sim->clock.now_ns;

        if (!store->mounted_once || silent || store->ping_ns > sim->clock.now_ns) {
            continue;
        }
        store->ping_ns = sim->clock.now_ns + sim_ms(150 + sim_below(sim, 100));
        if (store->dead) { /* started again: another process at the same address */
            store->dead = false;
            store->client_id = ++sim->last_id;
            sim_mount(sim, store);
        } else if (!sim_chance(sim, 10)) {
            ping(sim, store);
        }
    }
}

void sim_trouble_stores(struct sim *sim)
{
    struct store *const store = &sim->stores[sim_below(sim, STORES_MAX)];
    struct model_ask ask = {.key = sim_below(sim, MODEL_KEYS),
                            .client_id = 1 + sim_below(sim, CLIENTS)};
    const struct model_version *current = model_find(&sim->model, ask.key, MODEL_CURRENT);

    if (!store->mounted_once) {
        if (sim_chance(sim, 30)) {
            store->mounted_once = true;
            sim_mount(sim, store);
        }
        return;
    }
    if (sim_chance(sim, 60)) {
        report(sim, store->mount_id, MOONCAKE_ERPC, &ask);
    } else if (sim_chance(sim, 60)) {
        ask.attempt = current == NULL ? 1 : current->attempt - (sim_chance(sim, 4) ? 1 : 0);
        report(sim, store->mount_id, MOONCAKE_ECHECKSUM, &ask);
    } else if (sim_chance(sim, 100)) {
        store->dead = true; /* killed; back after a while */
        store->silent_until_ns = sim->clock.now_ns + sim_ms(sim_below(sim, 3000));
    } else if (sim_chance(sim, 100)) {
        store->silent_until_ns = sim->clock.now_ns + sim_ms(sim_below(sim, 3000)); /* frozen */
    } else if (sim_chance(sim, 150)) {
        leave(sim, store, sim_chance(sim, 2) ? 0 : 1 + sim_below(sim, 1000));
    }
}
