/* Sets up the master that the targets master and admin ask. */
#include "a_master.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "wire/messages.h"

#define KEYS 12u

static void must(bool holds)
{
    if (!holds) {
        (void)fprintf(stderr, "cannot set the master up: %s\n", mooncake_last_error());
        exit(2);
    }
}

void a_master_options(struct mc_core_options *out)
{
    mc_core_options_init(out);
    out->epoch = 0xe90c;
    out->seed = 1;
}

struct mc_master *a_master(void)
{
    static struct mc_master *master;
    static struct mc_loop *loop;
    struct mc_master_options options = {.host = "127.0.0.1"};

    if (master == NULL) {
        mc_log_set_level(MC_LOG_OFF);
        a_master_options(&options.core);
        must(mc_loop_create(0, &loop) == MOONCAKE_OK);
        must(mc_master_create(loop, &options, &master) == MOONCAKE_OK);
    }
    return master;
}

void a_master_renew(struct mc_master *master)
{
    struct mc_core_options options;

    a_master_options(&options);
    mc_core_destroy(&master->core);
    must(mc_core_create(&options, mc_clock_system(), &master->core) == MOONCAKE_OK);
}

static void mount(struct mc_core *core, struct mc_arena *arena)
{
    static const struct mc_mount_item items[] = {
        {.name = "one", .addresses = "tcp://10.0.0.7:1 shm://x", .mount_id = 1, .len = 1u << 20},
        {.name = "two\"\\", .addresses = "without a scheme", .mount_id = 2, .len = 1u << 20},
    };
    const struct mc_mount_request request = {.client_id = A_MASTER_CLIENT,
                                             .host = "host",
                                             .program = "fuzz",
                                             .items = items,
                                             .count = MC_ARRAY_LEN(items)};
    struct mc_status_reply reply;

    must(mc_core_mount(core, &request, arena, &reply) == MOONCAKE_OK);
    must(reply.statuses[0] == MOONCAKE_OK && reply.statuses[1] == MOONCAKE_OK);
}

static void put(struct mc_core *core, struct mc_arena *arena, const char *text, uint64_t len)
{
    const struct mc_key key = {.bytes = text, .len = (uint32_t)strlen(text)};
    const struct mc_put_start_request start = {.client_id = A_MASTER_CLIENT,
                                               .nonce = len,
                                               .keys = &key,
                                               .value_lens = &len,
                                               .count = 1,
                                               .replicas = 1};
    struct mc_put_start_reply started;
    struct mc_put_end_request end = {.client_id = A_MASTER_CLIENT, .keys = &key, .count = 1};
    struct mc_status_reply ended;

    must(mc_core_put_start(core, &start, arena, &started) == MOONCAKE_OK);
    must(started.statuses[0] == MOONCAKE_OK);
    end.attempts = started.attempts;
    must(mc_core_put_end(core, &end, arena, &ended) == MOONCAKE_OK);
    must(ended.statuses[0] == MOONCAKE_OK);
}

void a_master_fill(struct mc_core *core)
{
    struct mc_arena arena;

    mc_arena_init(&arena, 0);
    mount(core, &arena);
    for (unsigned i = 0; i < KEYS; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "key%u", i);
        put(core, &arena, key, 1000 + 5000 * i);
    }
    put(core, &arena, "line\nend\r\\", 1);
    put(core, &arena, "\xff\xfe \"", 2);
    mc_arena_fini(&arena);
}
