/*
 * A batch under way: its items are cut into windows, a few of which are in flight at a time, each
 * walking its own states. Here is what put, get and the calls about keys have in common.
 */
#ifndef MC_CLIENT_JOB_H
#define MC_CLIENT_JOB_H

#include "client/call.h"

/* Bounds of one window. Small enough that a few of them overlap in a large batch and that a reply
 * is short work for the master; large enough that the round trips do not count. */
#define MC_WINDOW_KEYS_MAX 256u
#define MC_WINDOW_KEY_BYTES_MAX ((uint64_t)4 << 20)
#define MC_WINDOW_VALUE_BYTES_MAX ((uint64_t)256 << 20)

/* Longest time that nothing may move before another copy is tried. */
#define MC_STALL_MS_MAX 1000u
/* The same before a value of which no copy is written is put anew elsewhere: that is dearer, and a
 * store may have paused for the moment only. */
#define MC_ANEW_MS_MAX 3000u

struct mc_job {
    struct mc_call *call;
    size_t count;
    size_t next;       /* first item that is in no window yet */
    unsigned busy;     /* windows in flight */
    uint64_t stall_ms; /* patience with a store while there is another copy */
    uint64_t anew_ms;  /* and while there is none; leaves time for doing it elsewhere */
    uint64_t moved;    /* bytes that this engine had moved at moved_ns */
    uint64_t moved_ns;
    bool judged; /* some item has a verdict of its own */
    bool done;
};

void mc_job_init(struct mc_job *job, struct mc_call *call, size_t count);

/** Milliseconds since a byte has last moved on this engine. */
uint64_t mc_job_idle_ms(struct mc_job *job);
/** Something was started: patience begins anew. */
void mc_job_touch(struct mc_job *job);

/**
 * What the call as a whole returns: OK if any item was judged by itself, else @p err, which then
 * is every item's.
 */
mooncake_err mc_job_verdict(const struct mc_job *job, mooncake_err err);

/* Targets for transports, made of a reply's table; NULL when out of memory. */
struct mc_target *mc_job_targets(const struct mc_object_table *table, struct mc_arena *arena);

#endif
