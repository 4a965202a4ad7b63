/*
 * What recent exists have told about where objects are: a get of the same keys soon after needs no
 * question to the master. The master promises for each such answer that for a short time these are
 * the newest versions (master/reuse.h); here the time is counted from the sending of the question.
 *
 * Descriptors make an answer larger, so they are asked for only while exists are seen to be
 * followed by gets: each exist costs a credit and each get of what an exist has just found gives
 * some.
 *
 * Thread-safe; shared by all engines of a client.
 */
#ifndef MC_CLIENT_KNOWN_H
#define MC_CLIENT_KNOWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/mem.h"
#include "wire/messages.h"

/* Answers kept at a time, and bytes of each. */
#define MC_KNOWN_MAX 16u
#define MC_KNOWN_LEN_MAX ((size_t)2 << 20)
/* First keys of exists by which a get that follows is recognised. */
#define MC_KNOWN_FIRSTS 16u

/* The answer to one exist. Nothing of it changes while it is held. */
struct mc_known_answer {
    struct mc_list node; /* in the cache, newest first; not linked: dropped */
    unsigned refs;       /* guarded by the cache's lock */
    uint64_t until_ns;
    struct mc_arena arena; /* owned; holds all that follows */
    const struct mc_key *keys;
    struct mc_object_table table;
    uint32_t *slots; /* index of a key plus one, by its hash; 0: free */
    uint32_t slots_mask;
};

struct mc_known {
    pthread_mutex_t lock;
    bool enabled; /* read-only */
    /* Guarded by lock. */
    struct mc_list answers;
    unsigned count, credit, next_first;
    struct {
        uint64_t hash, until_ns;
    } firsts[MC_KNOWN_FIRSTS];
    uint64_t asked, kept, reused, stale;
};

void mc_known_init(struct mc_known *known, bool enabled);
void mc_known_fini(struct mc_known *known);

/** An exist of @p keys is about to be sent: should it ask for descriptors? */
bool mc_known_before_exist(struct mc_known *known, const struct mc_key *keys, size_t count,
                           uint64_t now_ns);
/**
 * Keep an answer that has a table.
 *
 * @param arena  in which the reply lives: taken if the answer is kept, and then empty
 */
void mc_known_keep(struct mc_known *known, const struct mc_key *keys,
                   const struct mc_exist_reply *reply, uint64_t sent_ns, struct mc_arena *arena);

/**
 * Is everything known about these keys? Then *out_reply is as the master would have answered (in
 * @p arena and in the answer) and the answer is held until mc_known_return(). Otherwise NULL.
 */
struct mc_known_answer *mc_known_find(struct mc_known *known, const struct mc_key *keys,
                                      size_t count, uint64_t now_ns, struct mc_arena *arena,
                                      struct mc_query_reply *out_reply);
/** @p stale  of how many keys what it says was not so: then nobody gets it any more */
void mc_known_return(struct mc_known *known, struct mc_known_answer **answer, size_t stale);

/** Counters since the client was opened. */
struct mc_known_totals {
    uint64_t asked, kept, reused, stale;
};
struct mc_known_totals mc_known_totals(struct mc_known *known);

#endif
