/* The fixture of the core's tests. */
#include "master/pool.h"

#include <stdio.h>
#include <string.h>

void pool_options(struct pool *pool)
{
    memset(pool, 0, sizeof(*pool));
    mc_core_options_init(&pool->options);
    pool->options.lease_ms = 2000;
    pool->options.client_ttl_ms = 5000;
    pool->options.put_discard_ms = 4000;
    pool->options.put_release_ms = 8000;
    pool->options.stall_ms = 0;
    pool->options.reuse_ms = 0; /* nothing waits for promises that nobody has made */
    pool->options.epoch = 0xe90c;
    pool->options.seed = 1;
    pool->options.high_watermark = 1.0; /* background eviction is the exception */
    pool->options.eviction_ratio = 0.0;
}

void pool_open(struct pool *pool)
{
    pool->live_before = mc_mem_live_count();
    mc_clock_fake_init(&pool->clock, 1000 * MC_NS_PER_S);
    pool->pinged_ns = pool->clock.now_ns;
    mc_arena_init(&pool->arena, 0);
    assert_int_equal(mc_core_create(&pool->options, &pool->clock.clock, &pool->core), MOONCAKE_OK);
}

void pool_recount(struct pool *pool)
{
    if (mc_core_recount(pool->core) != MOONCAKE_OK) {
        fail_msg("recount: %s", mooncake_last_error());
    }
}

void pool_close(struct pool *pool)
{
    pool_recount(pool);
    mc_core_destroy(&pool->core);
    mc_arena_fini(&pool->arena);
    assert_int_equal(mc_mem_live_count(), pool->live_before);
}

static void ping_all(struct pool *pool)
{
    for (unsigned i = 0; i < pool->pingers_count; i++) {
        (void)pool_ping(pool, pool->pingers[i], 0);
    }
    pool->pinged_ns = pool->clock.now_ns;
}

void pool_settle(struct pool *pool)
{
    for (unsigned i = 0; i < 100000; i++) {
        if (mc_core_tick(pool->core) > pool->clock.now_ns) {
            return;
        }
    }
    fail_msg("the tick never comes to an end");
}

void pool_advance(struct pool *pool, uint64_t ms)
{
    uint64_t const end_ns = pool->clock.now_ns + ms * MC_NS_PER_MS;

    while (pool->clock.now_ns < end_ns) {
        uint64_t const left_ns = end_ns - pool->clock.now_ns;

        pool->clock.now_ns += left_ns < 50 * MC_NS_PER_MS ? left_ns : 50 * MC_NS_PER_MS;
        if (pool->clock.now_ns - pool->pinged_ns >= MC_NS_PER_S) {
            ping_all(pool);
        }
        pool_settle(pool);
    }
}

/* ---- members ------------------------------------------------------------------------------- */

static mooncake_err mount(struct pool *pool, const struct mc_mount_item *item, const char *host,
                          uint64_t client_id)
{
    struct mc_mount_request const request = {
        .client_id = client_id,
        .host = host,
        .program = "test",
        .items = item,
        .count = 1,
    };
    struct mc_status_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_mount(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    assert_int_equal(reply.count, 1);
    return reply.statuses[0];
}

static void add_pinger(struct pool *pool, uint64_t client_id)
{
    for (unsigned i = 0; i < pool->pingers_count; i++) {
        if (pool->pingers[i] == client_id) {
            return;
        }
    }
    assert_true(pool->pingers_count < POOL_PINGERS_MAX);
    pool->pingers[pool->pingers_count++] = client_id;
}

uint64_t pool_mount(struct pool *pool, const char *name, const char *host, uint64_t client_id,
                    uint64_t len)
{
    static uint64_t last_mount = 100;
    struct mc_mount_item const item = {
        .name = name,
        .addresses = name,
        .mount_id = ++last_mount,
        .len = len,
        .secret = {last_mount, 3},
    };

    assert_int_equal(mount(pool, &item, host, client_id), MOONCAKE_OK);
    add_pinger(pool, client_id);
    return item.mount_id;
}

mooncake_err pool_mount_as(struct pool *pool, const char *name, const char *address,
                           uint64_t client_id, uint64_t mount_id)
{
    struct mc_mount_item const item = {
        .name = name,
        .addresses = address,
        .mount_id = mount_id,
        .len = MIB,
        .secret = {mount_id, 3},
    };

    return mount(pool, &item, "host", client_id);
}

void pool_silence(struct pool *pool, uint64_t client_id)
{
    for (unsigned i = 0; i < pool->pingers_count; i++) {
        if (pool->pingers[i] == client_id) {
            pool->pingers[i] = pool->pingers[--pool->pingers_count];
            return;
        }
    }
}

mooncake_err pool_unmount(struct pool *pool, uint64_t client_id, uint64_t mount_id,
                          uint64_t grace_ms)
{
    struct mc_unmount_request const request = {
        .client_id = client_id,
        .mount_ids = &mount_id,
        .count = 1,
        .grace_ms = grace_ms,
    };
    struct mc_status_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_unmount(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    return reply.statuses[0];
}

struct mc_ping_reply pool_ping(struct pool *pool, uint64_t client_id, uint64_t mount_id)
{
    struct mc_ping_request const request = {
        .client_id = client_id,
        .role = MC_ROLE_STORE,
        .host = "host",
        .program = "test",
        .mount_ids = &mount_id,
        .count = mount_id == 0 ? 0 : 1,
    };
    struct mc_ping_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_ping(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    return reply;
}

mooncake_err pool_report(struct pool *pool, uint64_t client_id, uint64_t mount_id,
                         mooncake_err reason)
{
    struct mc_report_item const item = {.mount_id = mount_id, .reason = reason};
    struct mc_report_request const request = {
        .client_id = client_id,
        .items = &item,
        .count = 1,
    };
    struct mc_status_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_report(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    return reply.statuses[0];
}

struct mc_segment_status pool_segment(struct pool *pool, uint64_t mount_id)
{
    struct mc_segment_status none = {0};
    struct mc_list_request const request = {0};
    struct mc_list_segments_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_list_segments(pool->core, &request, &pool->arena, &reply),
                     MOONCAKE_OK);
    for (size_t i = 0; i < reply.count; i++) {
        if (reply.items[i].mount_id == mount_id) {
            return reply.items[i];
        }
    }
    return none;
}

/* ---- puts ---------------------------------------------------------------------------------- */

struct mc_key pool_key(const char *text)
{
    return (struct mc_key){.bytes = text, .len = (uint32_t)strlen(text)};
}

struct started pool_start(struct pool *pool, const char *key, uint64_t len, const struct wish *wish)
{
    struct wish const plain = {0};
    const struct wish *w = wish == NULL ? &plain : wish;
    struct mc_key const keys[1] = {pool_key(key)};
    struct mc_put_start_request const request = {
        .client_id = w->client_id == 0 ? WRITER : w->client_id,
        .nonce = w->nonce == 0 ? ++pool->nonce : w->nonce,
        .keys = keys,
        .value_lens = &len,
        .count = 1,
        .replicas = w->replicas == 0 ? 1 : w->replicas,
        .all_replicas = w->all_replicas,
        .soft_pin = w->soft_pin,
        .hard_pin = w->hard_pin,
        .upsert = w->upsert,
        .soft_pin_ms = w->soft_pin_ms,
        .preferred_segments = &w->preferred,
        .preferred_count = w->preferred == NULL ? 0 : 1,
        .excluded_mounts = &w->excluded,
        .excluded_count = w->excluded == 0 ? 0 : 1,
    };
    struct mc_put_start_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_put_start(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    assert_int_equal(reply.table.count, 1);
    return (struct started){
        .status = reply.statuses[0],
        .attempt = reply.attempts[0],
        .object = reply.table.objects[0],
        .table = reply.table,
        .retry_after_ms = reply.retry_after_ms,
    };
}

static mooncake_err finish(struct pool *pool, const char *key, uint64_t attempt, uint32_t failed,
                           bool revoke)
{
    struct mc_key const keys[1] = {pool_key(key)};
    struct mc_put_end_request const request = {
        .client_id = WRITER,
        .keys = keys,
        .attempts = &attempt,
        .failed_replicas = failed == 0 ? NULL : &failed,
        .count = 1,
    };
    struct mc_status_reply reply;

    mc_arena_reset(&pool->arena);
    if (revoke) {
        assert_int_equal(mc_core_put_revoke(pool->core, &request, &pool->arena, &reply),
                         MOONCAKE_OK);
    } else {
        assert_int_equal(mc_core_put_end(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    }
    assert_int_equal(reply.count, 1);
    return reply.statuses[0];
}

mooncake_err pool_end(struct pool *pool, const char *key, uint64_t attempt, uint32_t failed)
{
    return finish(pool, key, attempt, failed, false);
}

mooncake_err pool_revoke(struct pool *pool, const char *key, uint64_t attempt)
{
    return finish(pool, key, attempt, 0, true);
}

mooncake_err pool_put_wish(struct pool *pool, const char *key, uint64_t len,
                           const struct wish *wish)
{
    struct started const started = pool_start(pool, key, len, wish);

    return started.status != MOONCAKE_OK ? started.status : pool_end(pool, key, started.attempt, 0);
}

mooncake_err pool_put(struct pool *pool, const char *key, uint64_t len)
{
    return pool_put_wish(pool, key, len, NULL);
}

void pool_put_many(struct pool *pool, const char *prefix, unsigned count, uint64_t len)
{
    for (unsigned i = 0; i < count; i++) {
        char key[64];

        (void)snprintf(key, sizeof(key), "%s%u", prefix, i);
        assert_int_equal(pool_put(pool, key, len), MOONCAKE_OK);
    }
}

/* ---- questions ----------------------------------------------------------------------------- */

static mooncake_err query(struct pool *pool, const char *key, bool sizes_only,
                          struct mc_query_reply *out)
{
    struct mc_key const keys[1] = {pool_key(key)};
    struct mc_keys_request const request = {
        .client_id = WRITER,
        .keys = keys,
        .count = 1,
        .sizes_only = sizes_only,
    };

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_query(pool->core, &request, &pool->arena, out), MOONCAKE_OK);
    assert_int_equal(out->table.count, 1);
    return out->statuses[0];
}

struct found pool_query(struct pool *pool, const char *key)
{
    struct mc_query_reply reply;
    mooncake_err const status = query(pool, key, false, &reply);

    return (struct found){
        .status = status,
        .object = reply.table.objects[0],
        .table = reply.table,
        .lease_ms = reply.lease_ms,
    };
}

mooncake_err pool_exist(struct pool *pool, const char *key, uint64_t *out_lease_ms)
{
    struct mc_key const keys[1] = {pool_key(key)};
    struct mc_keys_request const request = {.client_id = WRITER, .keys = keys, .count = 1};
    struct mc_exist_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_exist(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    if (out_lease_ms != NULL) {
        *out_lease_ms = reply.lease_ms;
    }
    return reply.statuses[0];
}

bool pool_has(struct pool *pool, const char *key)
{
    struct mc_query_reply reply;

    return query(pool, key, true, &reply) == MOONCAKE_OK;
}

unsigned pool_has_many(struct pool *pool, const char *prefix, unsigned count)
{
    unsigned has = 0;

    for (unsigned i = 0; i < count; i++) {
        char key[64];

        (void)snprintf(key, sizeof(key), "%s%u", prefix, i);
        has += pool_has(pool, key) ? 1 : 0;
    }
    return has;
}

mooncake_err pool_remove(struct pool *pool, const char *key, bool force)
{
    struct mc_key const keys[1] = {pool_key(key)};
    struct mc_keys_request const request = {
        .client_id = WRITER,
        .keys = keys,
        .count = 1,
        .force = force,
    };
    struct mc_status_reply reply;

    mc_arena_reset(&pool->arena);
    assert_int_equal(mc_core_remove(pool->core, &request, &pool->arena, &reply), MOONCAKE_OK);
    return reply.statuses[0];
}

struct mc_pool_status_reply pool_status(struct pool *pool)
{
    struct mc_pool_status_reply reply;

    mc_core_pool_status(pool->core, &reply);
    return reply;
}
