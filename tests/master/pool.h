/*
 * A core on a clock that stands still, and short ways to ask it things. Each test opens one pool;
 * pool_close() recounts, empties and fails the test if a block of memory is left.
 */
#ifndef MC_TESTS_MASTER_POOL_H
#define MC_TESTS_MASTER_POOL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "master/core.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

/* The client that the short ways speak for. */
#define WRITER 7u

#define POOL_PINGERS_MAX 32u

struct pool {
    struct mc_clock_fake clock;
    struct mc_core_options options;
    struct mc_core *core;
    struct mc_arena arena; /* of the last answer */
    int64_t live_before;
    uint64_t nonce; /* of the last put start */
    uint64_t pingers[POOL_PINGERS_MAX];
    unsigned pingers_count;
    uint64_t pinged_ns;
};

/** Lease 2 s, TTL 5 s, discard 4 s, release 8 s, no stall detection; then as the caller wants. */
void pool_options(struct pool *pool);
void pool_open(struct pool *pool);
void pool_close(struct pool *pool);
void pool_recount(struct pool *pool);
/** Time passes, in steps of 50 ms, with ticks, and pings of the pingers each second. */
void pool_advance(struct pool *pool, uint64_t ms);
/** Tick until nothing is due, in no time. */
void pool_settle(struct pool *pool);

/** A segment of a client that pings; the name is also the address. Returns its mount id. */
uint64_t pool_mount(struct pool *pool, const char *name, const char *host, uint64_t client_id,
                    uint64_t len);
mooncake_err pool_mount_as(struct pool *pool, const char *name, const char *address,
                           uint64_t client_id, uint64_t mount_id);
void pool_silence(struct pool *pool, uint64_t client_id);
mooncake_err pool_unmount(struct pool *pool, uint64_t client_id, uint64_t mount_id,
                          uint64_t grace_ms);
struct mc_ping_reply pool_ping(struct pool *pool, uint64_t client_id, uint64_t mount_id);
mooncake_err pool_report(struct pool *pool, uint64_t client_id, uint64_t mount_id,
                         mooncake_err reason);

/** Wishes of a put beside key and length. All 0: one replica, WRITER, a new nonce. */
struct wish {
    uint64_t client_id, nonce;
    uint32_t replicas;
    bool all_replicas, soft_pin, hard_pin, upsert;
    uint64_t soft_pin_ms;
    const char *preferred;
    uint64_t excluded; /* a mount; 0: none */
};

/* What a put start answered; in the pool's arena. */
struct started {
    mooncake_err status;
    uint64_t attempt;
    struct mc_object_info object;
    struct mc_object_table table;
    uint32_t retry_after_ms;
};

struct started pool_start(struct pool *pool, const char *key, uint64_t len,
                          const struct wish *wish);
mooncake_err pool_end(struct pool *pool, const char *key, uint64_t attempt, uint32_t failed);
mooncake_err pool_revoke(struct pool *pool, const char *key, uint64_t attempt);
/** Start and end; the status of whichever failed. */
mooncake_err pool_put(struct pool *pool, const char *key, uint64_t len);
mooncake_err pool_put_wish(struct pool *pool, const char *key, uint64_t len,
                           const struct wish *wish);
/** Puts that must succeed: "<prefix>0" ... */
void pool_put_many(struct pool *pool, const char *prefix, unsigned count, uint64_t len);

/* What a query answered; in the pool's arena. */
struct found {
    mooncake_err status;
    struct mc_object_info object;
    struct mc_object_table table;
    uint64_t lease_ms;
};

struct found pool_query(struct pool *pool, const char *key);
mooncake_err pool_exist(struct pool *pool, const char *key, uint64_t *out_lease_ms);
/** Is it readable? Asks without granting a lease. */
bool pool_has(struct pool *pool, const char *key);
/** How many of "<prefix>0" ... are readable. */
unsigned pool_has_many(struct pool *pool, const char *prefix, unsigned count);
mooncake_err pool_remove(struct pool *pool, const char *key, bool force);
struct mc_pool_status_reply pool_status(struct pool *pool);
struct mc_segment_status pool_segment(struct pool *pool, uint64_t mount_id);

struct mc_key pool_key(const char *text);

#endif
