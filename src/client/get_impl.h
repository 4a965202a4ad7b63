/* The get state machine's own structs: get.c cuts the batch and asks, get_read.c reads. */
#ifndef MC_CLIENT_GET_IMPL_H
#define MC_CLIENT_GET_IMPL_H

#include "client/get.h"

/* Rounds of asking and reading: the last is for descriptors that have gone stale meanwhile. Before
 * the first there may be one that reads what is known without asking. */
#define MC_GET_ROUNDS 3u

enum mc_get_state {
    MC_GET_IDLE,
    MC_GET_ASKING,
    MC_GET_READING,
};

struct mc_get_job;
struct mc_get_window;

/* One extent of one item, being read. */
struct mc_get_op {
    struct mc_xfer_op op;
    struct mc_list node; /* in the window's list while under way */
    struct mc_get_entry *entry;
    /* get_doubt.c: memory of the second look, owned, and the caller's meanwhile. */
    struct iovec own, *pieces;
    unsigned pieces_count;
    bool untold; /* it could not be had: whether the copy is damaged is not known */
};

/* An item while it is in a window. */
struct mc_get_entry {
    struct mc_get_item *item;
    const struct mc_object_info *object; /* NULL: nothing to read in this round */
    uint8_t order[MC_REPLICAS_MAX];      /* copies, best first */
    unsigned order_count, order_next;
    uint32_t left;        /* extents of the present copy under way */
    mooncake_err present; /* how the present copy has failed; OK: it has not */
    /* What was wrong with the copies tried so far. */
    bool stale, damaged, unreachable, late;
    bool no_lend; /* VIEW: lending the present copy has failed, so it is copied */
    bool judged;
};

struct mc_get_window {
    struct mc_get_job *job;
    enum mc_get_state state;
    struct mc_arena *arena;
    struct mc_get_entry *entries;
    size_t count;
    unsigned round, rounds_max;
    struct mc_known_answer *known; /* held while it is read from */

    /* The question; entry i of the request is asked[i]. */
    uint64_t asked_ns; /* when the question was sent: what it grants begins here */
    struct mc_ask ask;
    struct mc_keys_request query;
    struct mc_query_reply answer;
    struct mc_key *keys;
    struct mc_get_entry **asked;
    struct mc_target *targets;

    struct mc_xfer xfers[MC_GET_ROUNDS];
    struct mc_list ops; /* under way */
};

struct mc_get_job {
    struct mc_job base;
    struct mc_get_item *items;
    struct mc_get_window windows[MC_WINDOWS_MAX];
    uint64_t random;
    mooncake_err err;     /* of the last question that failed as a whole */
    uint64_t doubt_bytes; /* of second looks under way */
    enum mc_get_mode mode;
    bool pumping;
};

/* ---- get.c ------------------------------------------------------------------------------- */

/** This entry's verdict. */
void mc_get_judge(struct mc_get_job *job, struct mc_get_entry *entry, mooncake_err err);
/** All that could be read was: ask again for the rest if that may help, else free the window. */
void mc_get_end_round(struct mc_get_window *window);
/** Wake up when reading has stalled. */
void mc_get_set_alarm(struct mc_get_job *job);

/* ---- get_read.c -------------------------------------------------------------------------- */

/** The master has answered: read what it named. */
void mc_get_read(struct mc_get_window *window);
/** Nothing has moved for a while: go on to other copies where there are some. */
void mc_get_give_up_stalled(struct mc_get_window *window);
/** What the entry is, when every copy has been tried. */
mooncake_err mc_get_final_error(const struct mc_get_entry *entry);

/* ---- get_doubt.c ------------------------------------------------------------------------- */

/** The op's checksum did not hold. True: its transfer is to be done once more, as it is now. */
bool mc_get_doubt_begin(struct mc_get_window *window, struct mc_get_op *op);
/** It has ended, with or without a second look: what that has proven is in the caller's memory. */
void mc_get_doubt_end(struct mc_get_window *window, struct mc_get_op *op);

#endif
