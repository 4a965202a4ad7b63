/*
 * Requests one after another: which blocks of the prompt are there, get the unbroken prefix of
 * those, put the rest.
 */
#ifndef MC_BENCH_REPLAY_WALK_H
#define MC_BENCH_REPLAY_WALK_H

#include "mooncake/client.h"
#include "options.h"
#include "requests.h"
#include "tally.h"

/* Calls that fail one after another before the walk gives up. */
#define MC_REPLAY_FAILURES_MAX 20u

struct mc_replay {
    struct mc_tally exist, get, put;
    uint64_t hits;             /* blocks got, in the unbroken prefix, every byte right */
    uint64_t requests, blocks; /* walked so far */
    uint64_t vanished;         /* said to be there, then gone when got */
    uint64_t refused;          /* put refused because the pool is full */
    uint64_t present;          /* put refused because the block was there behind a gap */
};

/**
 * @param progress  runs after each request
 * @return false: given up; a tally has the reason
 */
bool mc_replay_walk(const struct mc_bench_options *options, mooncake_client *client,
                    const struct mc_requests *requests,
                    void (*progress)(void *arg, const struct mc_replay *replay), void *arg,
                    struct mc_replay *replay);

#endif
