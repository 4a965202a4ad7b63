/* Probing segments. */
#include "probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "output.h"

static uint64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void add_segment(void *arg, const mooncake_segment_status *s)
{
    struct mc_probes *probes = arg;

    probes->items = mc_need(reallocarray(probes->items, probes->count + 1, sizeof(*probes->items)));
    probes->items[probes->count++] = (struct mc_probe){
        .name = mc_need(strdup(s->name)),
        .state = mc_need(strdup(s->state)),
        .mount_id = s->mount_id,
    };
}

static bool fail(struct mc_probe *probe, const char *step, mooncake_err err)
{
    const char *detail = mooncake_last_error();

    if (detail[0] != '\0') { /* it names the step itself */
        (void)snprintf(probe->why, sizeof(probe->why), "%s [%s %d]", detail, mooncake_err_name(err),
                       (int)err);
    } else {
        (void)snprintf(probe->why, sizeof(probe->why), "%s: %s [%s %d]", step,
                       mooncake_err_text(err), mooncake_err_name(err), (int)err);
    }
    return false;
}

struct landing {
    uint64_t mount_id;
    bool elsewhere;
};

static void see_landing(void *arg, const mooncake_key_status *s)
{
    struct landing *landing = arg;

    for (size_t i = 0; i < s->extents_count; i++) {
        landing->elsewhere = landing->elsewhere || s->extents[i].mount_id != landing->mount_id;
    }
}

/* The probe's bytes: other ones for each segment, so that no two can be mistaken. */
static void fill(unsigned char *bytes, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (unsigned char)(seed >> 56);
    }
}

static bool put_and_get(const struct mc_ctl *ctl, struct mc_probe *probe, const char *key,
                        size_t len, uint32_t timeout_ms)
{
    struct landing landing = {.mount_id = probe->mount_id};
    const char *preferred = probe->name;
    unsigned char *bytes = mc_need(malloc(2 * len));
    mooncake_put_options options;
    uint64_t got = 0, start_us = now_us();
    mooncake_err err;
    bool ok = false;

    fill(bytes, len, probe->mount_id);
    mooncake_put_options_init(&options);
    options.preferred_segments = &preferred;
    options.preferred_segments_count = 1;
    err = mooncake_put(ctl->client, key, bytes, len, &options, timeout_ms);
    if (err != MOONCAKE_OK) {
        (void)fail(probe, "put", err);
        goto free_bytes;
    }
    probe->put_us = now_us() - start_us;
    err = mooncake_admin_key(ctl->client, key, timeout_ms, see_landing, &landing);
    if (err != MOONCAKE_OK || landing.elsewhere) {
        (void)snprintf(probe->why, sizeof(probe->why), "put: %s",
                       err != MOONCAKE_OK
                           ? "the key vanished at once"
                           : "went to another segment: no room here, or its store cannot be "
                             "written to");
        goto free_bytes;
    }
    start_us = now_us();
    err = mooncake_get_into(ctl->client, key, bytes + len, len, timeout_ms, &got);
    if (err != MOONCAKE_OK) {
        (void)fail(probe, "get", err);
    } else if (got != len || memcmp(bytes, bytes + len, len) != 0) {
        (void)snprintf(probe->why, sizeof(probe->why), "get: other bytes than were put");
    } else {
        probe->get_us = now_us() - start_us;
        ok = true;
    }

free_bytes:
    free(bytes);
    return ok;
}

static void probe_one(const struct mc_ctl *ctl, struct mc_probe *probe, size_t len,
                      uint32_t timeout_ms)
{
    uint64_t start_us;
    mooncake_err err;
    char key[100];

    (void)snprintf(key, sizeof(key), "mooncakectl/check/%016" PRIx64 "/%lx-%016" PRIx64,
                   probe->mount_id, (unsigned long)getpid(), now_us());
    probe->tried = true;
    probe->ok = put_and_get(ctl, probe, key, len, timeout_ms);
    start_us = now_us();
    err = mooncake_remove(ctl->client, key, true, timeout_ms);
    if (err == MOONCAKE_OK) {
        probe->remove_us = now_us() - start_us;
    } else if (probe->ok) {
        probe->ok = fail(probe, "remove", err);
    }
}

enum mc_exit mc_probe_all(const struct mc_ctl *ctl, size_t len, uint32_t timeout_ms,
                          struct mc_probes *out)
{
    struct mc_probes probes = {.count = 0};
    mooncake_err err = mooncake_admin_segments(ctl->client, ctl->timeout_ms, add_segment, &probes);

    if (err != MOONCAKE_OK) {
        mc_probes_free(&probes);
        return mc_fail(ctl, err, "cannot get the segments of the pool");
    }
    for (size_t i = 0; i < probes.count; i++) {
        struct mc_probe *probe = &probes.items[i];

        if (strcmp(probe->state, "ok") == 0) {
            probe_one(ctl, probe, len, timeout_ms);
        } else {
            probe->ok = strcmp(probe->state, "draining") == 0; /* as its operator wants it */
            (void)snprintf(probe->why, sizeof(probe->why), "not tried: takes nothing new");
        }
    }
    *out = probes;
    return MC_EXIT_OK;
}

void mc_probes_free(struct mc_probes *probes)
{
    for (size_t i = 0; i < probes->count; i++) {
        free(probes->items[i].name);
        free(probes->items[i].state);
    }
    free(probes->items);
    probes->items = NULL;
    probes->count = 0;
}
