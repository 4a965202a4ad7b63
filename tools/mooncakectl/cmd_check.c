/* check: does every segment take, give and forget? peers: how would this host reach each of them?
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mooncake/observe.h"

#include "list.h"
#include "probe.h"

#define CHECK_LEN (64u << 10)
#define STEP_MS 5000u
#define PEERS_LEN 4096u

static uint32_t step_ms(const struct mc_ctl *ctl)
{
    return ctl->timeout_ms != 0 ? ctl->timeout_ms : STEP_MS;
}

static char *format_us(uint64_t us, char *out)
{
    if (us == 0) {
        (void)snprintf(out, MC_NUMBER_CAP, "-");
    } else {
        (void)snprintf(out, MC_NUMBER_CAP, "%.1f ms", (double)us / 1000);
    }
    return out;
}

static const char *verdict(const struct mc_probe *probe)
{
    return !probe->tried ? probe->state : probe->ok ? "ok" : "failed";
}

static void add_probe(struct mc_list_out *list, const struct mc_probe *probe)
{
    char numbers[3][MC_NUMBER_CAP];

    if (list->array != NULL) {
        json_t *item = mc_json_object();

        mc_json_set(item, "segment", mc_json_text(probe->name));
        mc_json_set(item, "mount_id", mc_json_id(probe->mount_id));
        mc_json_set(item, "state", mc_json_text(probe->state));
        mc_json_set(item, "tried", json_boolean(probe->tried));
        mc_json_set(item, "ok", json_boolean(probe->ok));
        mc_json_set(item, "put_us", mc_json_number(probe->put_us));
        mc_json_set(item, "get_us", mc_json_number(probe->get_us));
        mc_json_set(item, "remove_us", mc_json_number(probe->remove_us));
        mc_json_set(item, "why", mc_json_text(probe->why));
        mc_json_append(list->array, item);
        return;
    }
    mc_table_add(list->table, (const char *const[]){
                                  probe->name,
                                  verdict(probe),
                                  format_us(probe->put_us, numbers[0]),
                                  format_us(probe->get_us, numbers[1]),
                                  format_us(probe->remove_us, numbers[2]),
                              });
}

enum mc_exit mc_cmd_check(struct mc_ctl *ctl)
{
    static const char *const heads[] = {"SEGMENT", "CHECK", ">PUT", ">GET", ">REMOVE"};
    struct mc_list_out list;
    struct mc_probes probes;
    enum mc_exit status = mc_probe_all(ctl, CHECK_LEN, step_ms(ctl), &probes);
    bool good = true;

    if (status != MC_EXIT_OK) {
        return status;
    }
    mc_list_open(&list, ctl, heads, sizeof(heads) / sizeof(heads[0]));
    for (size_t i = 0; i < probes.count; i++) {
        add_probe(&list, &probes.items[i]);
        good = good && probes.items[i].ok;
    }
    (void)mc_list_close(&list, ctl, MOONCAKE_OK, "segments");
    for (size_t i = 0; !ctl->json && i < probes.count; i++) {
        if (!probes.items[i].ok) {
            (void)fputc('\n', stdout);
            mc_print_text(stdout, probes.items[i].name);
            (void)fputs(": ", stdout);
            mc_print_text(stdout, probes.items[i].why);
            (void)fputc('\n', stdout);
        }
    }
    if (!ctl->json && probes.count == 0) {
        (void)printf("no store has joined the pool: there is nothing to check\n");
    }
    mc_probes_free(&probes);
    return good ? MC_EXIT_OK : MC_EXIT_NO;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static json_t *paths_json(const mooncake_peer *peer)
{
    json_t *paths = mc_json_array();

    for (uint32_t i = 0; i < peer->paths_count && i < MOONCAKE_PEER_PATHS_MAX; i++) {
        const mooncake_peer_path *path = &peer->paths[i];
        json_t *item = mc_json_object();

        mc_json_set(item, "device", mc_json_text(path->device));
        mc_json_set(item, "gid_kind", mc_json_text(path->gid_kind));
        mc_json_set(item, "gid", mc_json_text(path->gid));
        mc_json_set(item, "gid_index", mc_json_number(path->gid_index));
        mc_json_set(item, "mtu", mc_json_number(path->mtu));
        mc_json_set(item, "state", mc_json_text(path->state));
        mc_json_append(paths, item);
    }
    return paths;
}

static json_t *peer_json(const struct mc_probe *probe, const mooncake_peer *peer)
{
    json_t *item = mc_json_object();

    mc_json_set(item, "segment", mc_json_text(probe->name));
    mc_json_set(item, "state", mc_json_text(probe->state));
    mc_json_set(item, "ok", json_boolean(probe->ok));
    mc_json_set(item, "why", mc_json_text(probe->why));
    if (peer != NULL) {
        mc_json_set(item, "transport", mc_json_text(peer->transport));
        mc_json_set(item, "failures", mc_json_number(peer->failures));
        mc_json_set(item, "retries", mc_json_number(peer->retries));
        mc_json_set(item, "fallbacks", mc_json_number(peer->fallbacks));
        mc_json_set(item, "fallback_from", mc_json_text(peer->fallback_from));
        mc_json_set(item, "fallback_reason", mc_json_text(peer->fallback_reason));
        mc_json_set(item, "queue_pairs", mc_json_number(peer->queue_pairs));
        mc_json_set(item, "paths", paths_json(peer));
    }
    return item;
}

static void add_peer(struct mc_list_out *list, const struct mc_probe *probe,
                     const mooncake_peer *peer)
{
    const mooncake_peer_path *path = peer != NULL && peer->paths_count > 0 ? peer->paths : NULL;
    char numbers[4][MC_NUMBER_CAP];

    if (list->array != NULL) {
        mc_json_append(list->array, peer_json(probe, peer));
        return;
    }
    mc_table_add(
        list->table,
        (const char *const[]){
            probe->name,
            probe->ok && peer != NULL && peer->transport[0] != '\0' ? peer->transport : "-",
            path != NULL ? path->device : "-",
            path != NULL ? path->gid : "-",
            path != NULL ? mc_format_count(path->mtu, numbers[0]) : "-",
            peer != NULL ? mc_format_count(peer->queue_pairs, numbers[1]) : "-",
            peer != NULL ? mc_format_count(peer->retries, numbers[2]) : "-",
            peer != NULL ? mc_format_count(peer->fallbacks, numbers[3]) : "-",
            !probe->ok || !probe->tried           ? probe->why
            : peer != NULL && peer->fallbacks > 0 ? peer->fallback_reason
                                                  : "",
        });
}

static const mooncake_peer *find_peer(const mooncake_peer *peers, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(peers[i].segment, name) == 0) {
            return &peers[i];
        }
    }
    return NULL;
}

enum mc_exit mc_cmd_peers(struct mc_ctl *ctl)
{
    static const char *const heads[] = {"SEGMENT", "TRANSPORT", "DEVICE",     "GID", ">MTU",
                                        ">QPS",    ">RETRIES",  ">FALLBACKS", "NOTE"};
    size_t count = 0, there = 0;
    struct mc_list_out list;
    struct mc_probes probes;
    mooncake_peer *peers;
    enum mc_exit status;
    mooncake_err err;
    bool good = true;

    status = mc_probe_all(ctl, PEERS_LEN, step_ms(ctl), &probes);
    if (status != MC_EXIT_OK) {
        return status;
    }
    peers = mc_need(calloc(probes.count + 1, sizeof(*peers)));
    err = mooncake_client_peers(ctl->client, peers, probes.count, &there);
    count = there < probes.count ? there : probes.count;
    mc_list_open(&list, ctl, heads, sizeof(heads) / sizeof(heads[0]));
    for (size_t i = 0; err == MOONCAKE_OK && i < probes.count; i++) {
        add_peer(&list, &probes.items[i], find_peer(peers, count, probes.items[i].name));
        good = good && probes.items[i].ok;
    }
    status = mc_list_close(&list, ctl, err, "peers");
    free(peers);
    mc_probes_free(&probes);
    return status == MC_EXIT_OK && !good ? MC_EXIT_NO : status;
}
