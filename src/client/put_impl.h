/* The put state machine's own structs: put.c cuts the batch and asks for room, put_write.c writes
 * and ends. */
#ifndef MC_CLIENT_PUT_IMPL_H
#define MC_CLIENT_PUT_IMPL_H

#include "client/put.h"
#include "transport/xfer.h"

enum mc_put_state {
    MC_PUT_IDLE,
    MC_PUT_ASKING,
    MC_PUT_WAITING,
    MC_PUT_WRITING,
    MC_PUT_ENDING,
};

struct mc_put_job;

/* One extent of one replica of one item, being written. */
struct mc_put_op {
    struct mc_xfer_op op;
    struct mc_list node; /* in the window's list while under way */
    struct mc_put_entry *entry;
    unsigned replica;
};

/* An item while it is in a window. */
struct mc_put_entry {
    struct mc_put_item *item;
    uint64_t attempt;
    uint32_t replicas;              /* granted */
    uint32_t failed;                /* bit r: replica r was not written */
    uint32_t left[MC_REPLICAS_MAX]; /* extents under way, by replica */
    mooncake_err why;               /* the last failure of a replica */
    bool granted;
    bool sent;  /* bytes may have gone to a store */
    bool again; /* its item is to be put once more, if this attempt can be undone */
};

struct mc_put_window {
    struct mc_put_job *job;
    enum mc_put_state state;
    struct mc_arena *arena;
    struct mc_put_entry *entries;
    struct mc_key *keys;
    uint64_t *lens;
    size_t count;

    struct mc_ask start_ask;
    struct mc_put_start_request start;
    struct mc_put_start_reply started;
    struct mc_target *targets;
    uint64_t again_ns; /* WAITING: when to ask again */
    unsigned tries;

    struct mc_xfer xfer;
    struct mc_list ops; /* under way */

    unsigned questions; /* ENDING: not answered yet */
    bool all_answered;  /* those that were, were answered well */
    struct mc_ask end_ask, revoke_ask;
    struct mc_put_end_request end, revoke;
    struct mc_status_reply ended, revoked;
    struct mc_put_entry **end_entries; /* in the order of the request; NULL: has its verdict */
};

/* Times that an item is put when its stores die under it. */
#define MC_PUT_TRIES_MAX 3u

struct mc_put_job {
    struct mc_job base;
    size_t again;                              /* items that wait to be put once more */
    size_t again_at;                           /* the last of them that went into a window */
    uint64_t excluded[MC_EXCLUDED_MOUNTS_MAX]; /* mounts that could not be written to */
    size_t excluded_count;
    struct mc_put_item *items;
    const mooncake_put_options *options;
    struct mc_put_window windows[MC_WINDOWS_MAX];
    mooncake_err err; /* of the last question that failed as a whole */
    bool pumping;
};

/* ---- put.c ------------------------------------------------------------------------------- */

/** This entry's verdict, which is its own. */
void mc_put_judge(struct mc_put_job *job, struct mc_put_entry *entry, mooncake_err err);
/** This entry's attempt is undone: its item is put once more. */
void mc_put_again(struct mc_put_job *job, struct mc_put_entry *entry);
/** The window's entries without a verdict share one. */
void mc_put_fail_window(struct mc_put_window *window, mooncake_err err);
/** The window is free for other items. */
void mc_put_finish_window(struct mc_put_window *window);
/** Wake up when the first window wants it. */
void mc_put_set_alarm(struct mc_put_job *job);

/* ---- put_write.c ------------------------------------------------------------------------- */

/** The master has answered: write what it gave room for, then end it. */
void mc_put_write(struct mc_put_window *window);
/** Nothing has moved for @p idle_ms: go on without the copies that hang, where another is written
 * or it is time to write it elsewhere. */
void mc_put_give_up_stalled(struct mc_put_window *window, uint64_t idle_ms);

#endif
