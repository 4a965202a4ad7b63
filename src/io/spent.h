/*
 * What a loop's thread spends its processor time on, by kind of work. In about one turn of the loop
 * in so many, chosen at random, each change from one kind to the next reads the thread's clock, and
 * what that finds counts for all of them. In every other turn a change costs one test, so that busy
 * paths can afford it. The clock is that of the thread: what others do on a busy machine does not
 * count.
 *
 * Thread: the loop's owner; any thread may read the counters.
 */
#ifndef MC_IO_SPENT_H
#define MC_IO_SPENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/metric.h"

/* X(NAME, name): `loop` is all that nobody has claimed: waiting, libuv, timers, posts. */
#define MC_SPENT_LIST(X)                                                                           \
    X(LOOP, loop)                                                                                  \
    X(SOCKETS, sockets)   /* accepting, reading and writing */                                     \
    X(FRAMES, frames)     /* cutting bytes into requests, queueing replies */                      \
    X(CODEC, codec)       /* decoding requests, encoding replies */                                \
    X(TABLE, table)       /* what the requests ask for */                                          \
    X(HANDOVER, handover) /* passing requests and answers between threads */

enum mc_spent_kind {
#define MC_SPENT_ENUM_(NAME, name) MC_SPENT_##NAME,
    MC_SPENT_LIST(MC_SPENT_ENUM_)
#undef MC_SPENT_ENUM_
        MC_SPENT_KINDS
};

struct mc_spent {
    bool timing;         /* in this turn */
    uint32_t turns_mean; /* between timed turns; 0: none is timed */
    uint32_t turns_left;
    uint64_t random;
    enum mc_spent_kind kind; /* while timing: what is being done */
    uint64_t since_ns;
    uint64_t read_ns; /* what reading the clock costs */
    struct mc_counter ns[MC_SPENT_KINDS];
};

/** Time one turn in @p turns_mean from now on; 1: each; 0: none. */
void mc_spent_init(struct mc_spent *spent, uint32_t turns_mean);
void mc_spent_turn_begin_(struct mc_spent *spent);
void mc_spent_turn_end_(struct mc_spent *spent);
enum mc_spent_kind mc_spend_(struct mc_spent *spent, enum mc_spent_kind kind);

/* By the loop, around each turn. */
static inline void mc_spent_turn_begin(struct mc_spent *spent)
{
    if (spent->turns_mean != 0 && --spent->turns_left == 0) {
        mc_spent_turn_begin_(spent);
    }
}

static inline void mc_spent_turn_end(struct mc_spent *spent)
{
    if (MC_UNLIKELY(spent->timing)) {
        mc_spent_turn_end_(spent);
    }
}

/** From here on it is @p kind. Returns what it was, to be gone back to. */
static inline enum mc_spent_kind mc_spend(struct mc_spent *spent, enum mc_spent_kind kind)
{
    return MC_UNLIKELY(spent->timing) ? mc_spend_(spent, kind) : MC_SPENT_LOOP;
}

#endif
