/* Blocks go in calls of at most --batch keys, through one buffer of that many blocks. */
#include "replay_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "timing.h"

#define KEY_LEN 128

struct walk {
    const struct mc_bench_options *options;
    mooncake_client *client;
    struct mc_replay *replay;
    uint64_t failures; /* calls, in a row */
    size_t batch;
    /* For one call: */
    char (*texts)[KEY_LEN];
    const char **keys;
    unsigned char *blocks;
    void **spaces;
    const void **sources;
    uint64_t *lens, *got;
    mooncake_err *results;
};

static void name_keys(struct walk *w, const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(w->texts[i], KEY_LEN, "%s/%llx", w->options->prefix,
                       (unsigned long long)ids[i]);
    }
}

/* The call has ended: did it reach the pool? */
static void note(struct walk *w, mooncake_err err)
{
    w->failures = err == MOONCAKE_OK ? 0 : w->failures + 1;
}

/* Blocks at the start of ids[0 .. count) that are there; at most a batch. */
static size_t ask(struct walk *w, const uint64_t *ids, size_t count)
{
    struct mc_tally *tally = &w->replay->exist;
    uint64_t start;
    size_t found = 0;

    name_keys(w, ids, count);
    start = mc_now_ns();
    note(w, mooncake_batch_exist(w->client, w->keys, count, 0, w->results));
    mc_tally_call(tally, mc_now_ns() - start, count, 0);
    while (found < count && w->results[found] == MOONCAKE_OK) {
        found++;
    }
    for (size_t i = found; i < count; i++) {
        if (w->results[i] != MOONCAKE_OK && w->results[i] != MOONCAKE_ENOENT) {
            mc_tally_error(tally, "exist", w->keys[i], w->results[i]);
        }
    }
    return found;
}

/* Is item i of a get the block that was asked for? */
static bool judge_block(struct walk *w, size_t i)
{
    struct mc_tally *tally = &w->replay->get;
    uint64_t wrong = tally->wrong;

    if (w->results[i] == MOONCAKE_OK) {
        mc_tally_verify(tally, w->keys[i], w->spaces[i], w->got[i], w->options->block_bytes);
        return tally->wrong == wrong;
    }
    if (w->results[i] == MOONCAKE_ENOENT) {
        w->replay->vanished++;
    } else {
        mc_tally_error(tally, "get", w->keys[i], w->results[i]);
    }
    return false;
}

/* Get ids[0 .. count), at most a batch. Blocks at its start that are right. */
static size_t get(struct walk *w, const uint64_t *ids, size_t count)
{
    struct mc_tally *tally = &w->replay->get;
    uint64_t start, took;
    uint64_t fine = 0;
    size_t unbroken = 0;

    name_keys(w, ids, count);
    for (size_t i = 0; i < count; i++) {
        mc_spoil(w->spaces[i], w->options->block_bytes);
        w->got[i] = UINT64_MAX;
    }
    start = mc_now_ns();
    note(w, mooncake_batch_get_into(w->client, w->keys, w->spaces, w->lens, count, 0, w->results,
                                    w->got));
    took = mc_now_ns() - start;
    for (size_t i = 0; i < count; i++) {
        bool right = judge_block(w, i);

        fine += right;
        unbroken += right && unbroken == i;
    }
    mc_tally_call(tally, took, fine, fine * w->options->block_bytes);
    return unbroken;
}

/* Put ids[0 .. count), at most a batch. */
static void put(struct walk *w, const uint64_t *ids, size_t count)
{
    struct mc_replay *r = w->replay;
    uint64_t start, took;
    uint64_t fine = 0;

    name_keys(w, ids, count);
    for (size_t i = 0; i < count; i++) {
        mc_pattern_fill(mc_pattern_seed(w->keys[i], 0), w->spaces[i], w->options->block_bytes);
    }
    start = mc_now_ns();
    note(w,
         mooncake_batch_put(w->client, w->keys, w->sources, w->lens, count, NULL, 0, w->results));
    took = mc_now_ns() - start;
    for (size_t i = 0; i < count; i++) {
        if (w->results[i] == MOONCAKE_OK) {
            fine++;
        } else if (w->results[i] == MOONCAKE_EEXIST) {
            r->present++;
        } else if (w->results[i] == MOONCAKE_ENOSPACE) {
            r->refused++;
        } else {
            mc_tally_error(&r->put, "put", w->keys[i], w->results[i]);
        }
    }
    mc_tally_call(&r->put, took, fine, fine * w->options->block_bytes);
}

static size_t at_most(const struct walk *w, size_t count)
{
    return count < w->batch ? count : w->batch;
}

static void one_request(struct walk *w, const uint64_t *ids, size_t count)
{
    size_t there = 0;
    size_t hits = 0;
    size_t n = at_most(w, count);
    size_t found;

    while (there < count) {
        n = at_most(w, count - there);
        found = ask(w, ids + there, n);
        there += found;
        if (found < n) {
            break;
        }
    }
    while (hits < there) {
        n = at_most(w, there - hits);
        found = get(w, ids + hits, n);
        hits += found;
        if (found < n) {
            break;
        }
    }
    for (size_t at = hits; at < count && w->failures < MC_REPLAY_FAILURES_MAX; at += n) {
        n = at_most(w, count - at);
        put(w, ids + at, n);
    }
    w->replay->hits += hits;
    w->replay->blocks += count;
    w->replay->requests++;
}

static void release(struct walk *w)
{
    free(w->texts);
    free(w->keys);
    free(w->blocks);
    free(w->spaces);
    free(w->sources);
    free(w->lens);
    free(w->got);
    free(w->results);
}

static bool allocate(struct walk *w)
{
    uint64_t block_bytes = w->options->block_bytes;

    w->texts = calloc(w->batch, KEY_LEN);
    w->keys = calloc(w->batch, sizeof(*w->keys));
    w->blocks = calloc(w->batch, block_bytes);
    w->spaces = calloc(w->batch, sizeof(*w->spaces));
    w->sources = calloc(w->batch, sizeof(*w->sources));
    w->lens = calloc(w->batch, sizeof(*w->lens));
    w->got = calloc(w->batch, sizeof(*w->got));
    w->results = calloc(w->batch, sizeof(*w->results));
    if (w->texts == NULL || w->keys == NULL || w->blocks == NULL || w->spaces == NULL ||
        w->sources == NULL || w->lens == NULL || w->got == NULL || w->results == NULL) {
        return false;
    }
    for (size_t i = 0; i < w->batch; i++) {
        w->keys[i] = w->texts[i];
        w->spaces[i] = w->blocks + i * block_bytes;
        w->sources[i] = w->spaces[i];
        w->lens[i] = block_bytes;
    }
    return true;
}

static void clean_up(struct walk *w, const struct mc_requests *requests)
{
    for (size_t at = 0; at < requests->ids_count; at += w->batch) {
        size_t n = at_most(w, requests->ids_count - at);

        name_keys(w, requests->ids + at, n);
        (void)mooncake_batch_remove(w->client, w->keys, n, true, 0, w->results);
    }
}

bool mc_replay_walk(const struct mc_bench_options *options, mooncake_client *client,
                    const struct mc_requests *requests,
                    void (*progress)(void *arg, const struct mc_replay *replay), void *arg,
                    struct mc_replay *replay)
{
    struct walk w = {
        .options = options, .client = client, .replay = replay, .batch = (size_t)options->batch};

    if (!allocate(&w)) {
        release(&w);
        (void)snprintf(replay->put.sentence, sizeof(replay->put.sentence),
                       "out of memory for a batch of blocks; lower --batch or --block-bytes");
        replay->put.errors++;
        return false;
    }
    for (size_t i = 0; i < requests->count && w.failures < MC_REPLAY_FAILURES_MAX; i++) {
        size_t count;
        const uint64_t *ids = mc_requests_at(requests, i, &count);

        one_request(&w, ids, count);
        progress(arg, replay);
    }
    if (options->cleanup && w.failures < MC_REPLAY_FAILURES_MAX) {
        clean_up(&w, requests);
    }
    release(&w);
    mc_tally_finish(&replay->exist);
    mc_tally_finish(&replay->get);
    mc_tally_finish(&replay->put);
    return w.failures < MC_REPLAY_FAILURES_MAX;
}
