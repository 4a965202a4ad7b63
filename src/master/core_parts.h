/*
 * The inside of struct mc_core: its parts, and what the files core*.c share. A part knows those
 * above it in this list and not the core.
 */
#ifndef MC_MASTER_CORE_PARTS_H
#define MC_MASTER_CORE_PARTS_H

#include "master/allocate.h"
#include "master/core.h"
#include "master/fates.h"
#include "master/lifetime.h"
#include "master/members.h"
#include "master/pattern.h"
#include "master/reuse.h"

/* Removals waiting at one time. Bounds memory. */
#define MC_REMOVALS_MAX 64u

/* Objects that eviction inside one request may drop; the slice's time bounds it too. */
#define MC_INLINE_STEPS_MAX 4096u
/* Steps of one slice of background work. */
#define MC_SLICE_STEPS_MAX 4096u

struct mc_removal {
    struct mc_list node;
    struct mc_core *core;
    mc_core_removed_cb done; /* NULL: nobody wants to know */
    void *arg;
    uint64_t client_id; /* whose it is; 0: not known */
    bool force;
    struct mc_pattern *pattern; /* owned; NULL: all keys */
    mooncake_err err;           /* why it must end before the end of the table */
    uint64_t not_before_ns;     /* core time; promises must end first (reuse.h) */
    uint64_t cursor;
    uint8_t mark;
    struct mc_remove_all_reply reply;
};

/* How far a recount in slices has come. */
enum mc_recount_stage {
    MC_RECOUNT_TABLE, /* heads, and what hangs on them */
    MC_RECOUNT_UNFINISHED,
    MC_RECOUNT_FAILED,
    MC_RECOUNT_RETIRED,
    MC_RECOUNT_VIEWED,
    MC_RECOUNT_COMPARE,
};

struct mc_core {
    struct mc_core_env env;
    const struct mc_clock *clock;
    struct mc_segments segments;
    struct mc_objects objects;
    struct mc_fates fates;
    struct mc_lifetime lifetime;
    struct mc_reuse reuse;
    struct mc_allocator allocator;
    struct mc_members members;
    struct mc_list removals; /* the first is running */
    unsigned removals_count;
    unsigned forced_removals; /* among them: while there are any, nothing is promised */
    uint8_t removal_mark;
    struct mc_list recounts; /* who waits for the one under way; empty: none is */
    unsigned recounts_count;
    enum mc_recount_stage recount_stage;
    uint64_t recount_cursor; /* in the table */
    unsigned recount_pace;   /* tests only; 0: as the budget has it */
    uint64_t request_seq;    /* of put_start: finds duplicates inside a batch */
    uint64_t reply_seq;      /* of object tables */
    uint64_t seen_ns;        /* the clock at the last entry */
    uint64_t stalled_ns;     /* sum of our own stalls */
    uint64_t started_ns;     /* core time */
    bool work_left;          /* the last tick did not finish */
};

/** Every public call begins here: sets the core's time, noticing our own stalls. */
void mc_core_enter(struct mc_core *core);
/** Removals go on. False if the budget ended first. */
bool mc_core_removals_step(struct mc_core *core, struct mc_budget *budget);
/** A recount goes on. False if the budget ended first. */
bool mc_core_recount_step(struct mc_core *core, struct mc_budget *budget);
/** Whoever waits for a recount gets EUNAVAILABLE. */
void mc_core_recounts_fini(struct mc_core *core);
/** All waiting removals end with EUNAVAILABLE. */
void mc_core_removals_fini(struct mc_core *core);
/** Is this a key? */
bool mc_core_key_ok(const struct mc_key *key);
/** Statuses of a batch, and the hashes of its keys (prefetched); NULL for no arena. */
uint64_t *mc_core_hash_keys(struct mc_core *core, const struct mc_key *keys, size_t count,
                            struct mc_arena *arena) MC_MUST_CHECK;

#endif
