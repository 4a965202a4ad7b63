/* What the fake master remembers: mounts, objects, who pings. */
#ifndef MC_TESTS_CLIENT_FAKE_OBJECTS_H
#define MC_TESTS_CLIENT_FAKE_OBJECTS_H

#include "base/mem.h"
#include "client/fake_master.h"

#define FAKE_MOUNTS_MAX 16u
#define FAKE_OBJECTS_MAX 16384u
#define FAKE_CLIENTS_MAX 64u

/* Any request or any reply. */
union fake_message {
#define FAKE_MESSAGE_(number, NAME, name, request, reply)                                          \
    struct request name##_request_;                                                                \
    struct reply name##_reply_;
    MC_METHOD_LIST(FAKE_MESSAGE_)
#undef FAKE_MESSAGE_
};

struct fake_mount {
    uint64_t mount_id, client_id, len, secret[2], next;
    char name[64], addresses[64], host[64];
};

struct fake_object {
    char key[128];
    uint32_t key_len;
    uint64_t attempt, nonce, len;
    bool readable, gone;
    unsigned revoked, parked;
    uint32_t failed;
    unsigned replicas, extents;
    unsigned mounts[MC_REPLICAS_MAX];
    uint64_t offsets[MC_REPLICAS_MAX][MC_EXTENTS_MAX];
};

struct fake_pool {
    uint64_t epoch, next_attempt;
    unsigned extents;
    uint32_t retry_after_ms;
    struct fake_mount mounts[FAKE_MOUNTS_MAX];
    unsigned mounts_count;
    struct fake_object *objects; /* owned */
    unsigned objects_count;
    struct {
        uint64_t client_id;
        uint32_t role;
    } clients[FAKE_CLIENTS_MAX];
    unsigned clients_count;
};

void fake_pool_init(struct fake_pool *pool);
void fake_pool_fini(struct fake_pool *pool);
/** Do what the request asks. @p item_status: other than OK, the status of each item. */
mooncake_err fake_pool_handle(struct fake_pool *pool, unsigned method,
                              const union fake_message *request, struct mc_arena *arena,
                              union fake_message *reply, mooncake_err item_status);

struct fake_pool *fake_master_lock_pool(struct fake_master *fake);
void fake_master_unlock_pool(struct fake_master *fake);

#endif
