/*
 * What a user of the core may believe, kept as simply as possible: versions with their extents and
 * times, by linear search. Eviction and loss are the core's choice, so the model learns of them
 * from answers, and says no when what vanished was protected.
 */
#ifndef MC_TESTS_MASTER_SIM_MODEL_H
#define MC_TESTS_MASTER_SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "master/core.h"

#define MODEL_KEYS 16u
#define MODEL_MOUNTS 256u
#define MODEL_VERSIONS 1024u
#define MODEL_EXTENTS 64u
#define MODEL_WRITES 2048u

enum model_life {
    MODEL_NONE,
    MODEL_PENDING, /* started, not ended */
    MODEL_CURRENT, /* ended: readable, unless it has vanished */
    MODEL_PARKED,  /* not readable; its space must not be given out before until_ns */
};

struct model_extent {
    uint64_t mount_id, offset, bytes;
    unsigned replica;
};

struct model_version {
    enum model_life life;
    unsigned key;
    uint64_t attempt, client_id, nonce, len;
    uint64_t start_ns, touched_ns, lease_end_ns, until_ns;
    bool hard_pin;
    uint32_t replicas; /* those that are there, a bit each, as far as was told */
    bool certain;      /* leased without a gap since they were told: none can have been evicted */
    bool doubtful;     /* one was dropped, and the others may have been evicted before */
    unsigned extents_count;
    struct model_extent extents[MODEL_EXTENTS];
};

struct model_mount {
    uint64_t mount_id, client_id, len;
    uint64_t secret[2];
    uint64_t pinged_ns, leave_ns; /* leave_ns 0: not leaving */
    bool alive, placeable;
};

/* Which attempt wrote last at this place: the bytes of all segments. */
struct model_write {
    uint64_t mount_id, offset, bytes, attempt;
};

struct model {
    struct mc_core_options options;
    uint64_t now_ns; /* core time */
    uint64_t last_attempt;
    uint64_t retired_end_ns; /* until then old versions may be parked that are not below */
    struct model_version versions[MODEL_VERSIONS];
    struct model_mount mounts[MODEL_MOUNTS];
    unsigned mounts_count;
    struct model_write writes[MODEL_WRITES];
    unsigned writes_count;
    bool failed;
    char why[256];
};

/* One request about one key, as it was sent. */
struct model_ask {
    unsigned key;
    uint64_t client_id, nonce, attempt, len;
    uint32_t replicas, failed;
    bool all_replicas, upsert, hard_pin, soft_pin, force;
};

void model_init(struct model *model, const struct mc_core_options *options);
/** Say no, once: the first reason is kept. */
void model_fail(struct model *model, const char *fmt, ...) MC_PRINTF(2, 3);

struct model_version *model_find(struct model *model, unsigned key, enum model_life life);
struct model_mount *model_mount_of(struct model *model, uint64_t mount_id);
/** Written by the client: all extents of the replicas in @p mask. */
void model_write(struct model *model, const struct model_version *version, uint32_t mask);
/** The version of this attempt that is being written or parked with its key taken, or NULL. */
struct model_version *model_attempt(struct model *model, uint64_t attempt);

/* Each checks one answer and learns from it. */
void model_put_start(struct model *model, const struct model_ask *ask, mooncake_err status,
                     const struct mc_put_start_reply *reply);
void model_put_end(struct model *model, const struct model_ask *ask, mooncake_err status);
void model_put_revoke(struct model *model, const struct model_ask *ask, mooncake_err status);
void model_query(struct model *model, const struct model_ask *ask,
                 const struct mc_query_reply *reply);
void model_exist(struct model *model, const struct model_ask *ask, mooncake_err status,
                 uint64_t lease_ms);
void model_remove(struct model *model, const struct model_ask *ask, mooncake_err status);
void model_remove_all(struct model *model, bool force, const struct mc_remove_all_reply *reply);
void model_damaged(struct model *model, const struct model_ask *ask, uint64_t mount_id);
/** What is listed now; mounts end by time in ticks only. */
void model_segments(struct model *model, const struct mc_list_segments_reply *reply,
                    bool after_tick);
void model_mount_end(struct model_mount *mount);

/* ---- between the two files of the model ---- */

/** Has it been under way for so long that the core may have dropped it? */
bool model_may_be_released(const struct model *model, const struct model_version *pending);
/** The replicas that are there and on living mounts. */
uint32_t model_living(struct model *model, const struct model_version *version);
bool model_leased(const struct model *model, const struct model_version *version);
/** May eviction have taken it by now? */
bool model_evictable(const struct model *model, const struct model_version *version);
/** May eviction have taken one of several replicas, now or before the lease? */
bool model_may_lose_one(const struct model *model, const struct model_version *version);
/** May it be absent by now, by eviction or loss? NULL is. */
bool model_may_be_gone(struct model *model, const struct model_version *version);
/** Are the bytes at this extent those of its object? */
bool model_reads_as(const struct model *model, const struct mc_extent_ref *ref);

#define FAIL_IF(model, wrong, ...)                                                                 \
    do {                                                                                           \
        if (wrong) {                                                                               \
            model_fail((model), __VA_ARGS__);                                                      \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#endif
