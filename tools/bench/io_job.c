/*
 * What one worker of `io` does. Its keys are numbered; those from `first` to below `next` are in
 * the pool. Numbers go by whole batches. Only the time inside the call that is measured counts:
 * making data, comparing it and making room is done outside.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "io.h"
#include "mooncake/view.h"
#include "pattern.h"
#include "requests.h"
#include "timing.h"

#define KEY_LEN 64
#define BATCHES_MAX 65536u

struct state {
    char (*texts)[KEY_LEN];
    const char **keys;
    unsigned char *values; /* batch times size */
    void **spaces;
    const void **sources;
    uint64_t *lens, *got;
    mooncake_err *results;
    mooncake_view **views;
    uint64_t first, next, held_max; /* in batches */
};

static const struct mc_io_case *case_of(const struct mc_worker *worker)
{
    return worker->job_case;
}

static void name_keys(struct mc_worker *worker, uint64_t batch_number)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;

    for (uint64_t i = 0; i < c->batch; i++) {
        (void)snprintf(s->texts[i], KEY_LEN, "bench/%016llx/%u/%llu", (unsigned long long)c->run,
                       worker->index, (unsigned long long)(batch_number * c->batch + i));
    }
}

/* ---- the calls --------------------------------------------------------------------------- */

/* Count the items of a call that ended; those that are not @p expected have failed. */
static uint64_t judge(struct mc_worker *worker, const char *what, mooncake_err expected)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;
    uint64_t fine = 0;

    for (uint64_t i = 0; i < c->batch; i++) {
        if (s->results[i] == expected) {
            fine++;
        } else {
            mc_tally_error(worker->tally, what, s->keys[i],
                           s->results[i] == MOONCAKE_OK ? MOONCAKE_EEXIST : s->results[i]);
        }
    }
    return fine;
}

static mooncake_err call_put(struct mc_worker *worker)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;

    if (c->batch == 1) {
        s->results[0] = mooncake_put(worker->client, s->keys[0], s->values, c->size, NULL, 0);
        return s->results[0];
    }
    return mooncake_batch_put(worker->client, s->keys, s->sources, s->lens, c->batch, NULL, 0,
                              s->results);
}

static mooncake_err call_get(struct mc_worker *worker)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;

    if (c->batch == 1) {
        s->results[0] =
            mooncake_get_into(worker->client, s->keys[0], s->values, c->size, 0, &s->got[0]);
        return s->results[0];
    }
    return mooncake_batch_get_into(worker->client, s->keys, s->spaces, s->lens, c->batch, 0,
                                   s->results, s->got);
}

static mooncake_err call_view(struct mc_worker *worker)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;

    if (c->batch == 1) {
        s->results[0] = mooncake_get_view(worker->client, s->keys[0], NULL, 0, &s->views[0]);
        return s->results[0];
    }
    return mooncake_get_views(worker->client, s->keys, c->batch, NULL, 0, s->results, s->views);
}

static mooncake_err call_exist(struct mc_worker *worker)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;
    bool exists = false;

    if (c->batch == 1) {
        mooncake_err err = mooncake_exist(worker->client, s->keys[0], 0, &exists);

        s->results[0] = err == MOONCAKE_OK && !exists ? MOONCAKE_ENOENT : err;
        return err;
    }
    return mooncake_batch_exist(worker->client, s->keys, c->batch, 0, s->results);
}

static mooncake_err call_size(struct mc_worker *worker)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;

    if (c->batch == 1) {
        s->results[0] = mooncake_size(worker->client, s->keys[0], 0, &s->got[0]);
        return s->results[0];
    }
    return mooncake_batch_size(worker->client, s->keys, c->batch, 0, s->results, s->got);
}

static mooncake_err call_remove(struct mc_worker *worker)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;

    if (c->batch == 1) {
        s->results[0] = mooncake_remove(worker->client, s->keys[0], true, 0);
        return s->results[0];
    }
    return mooncake_batch_remove(worker->client, s->keys, c->batch, true, 0, s->results);
}

/* Make the call on the keys that are named; if @p measured its time and items count. Returns how
 * many items ended as @p expected. */
static uint64_t make(struct mc_worker *worker, mooncake_err (*call)(struct mc_worker *worker),
                     const char *what, mooncake_err expected, bool measured)
{
    const struct mc_io_case *c = case_of(worker);
    bool much = measured && c->size * c->batch >= MC_IO_BULK_LEN;
    uint64_t cpu_ns = much ? mc_thread_cpu_ns() : 0; /* a system call: not for every small one */
    uint64_t start = mc_now_ns();
    uint64_t took, fine;

    (void)call(worker); /* each item has its result */
    took = mc_now_ns() - start;
    if (much) {
        worker->tally->cpu_ns += mc_thread_cpu_ns() - cpu_ns;
    }
    fine = judge(worker, what, expected);
    if (measured) {
        bool moves = call == call_put || call == call_get || call == call_view;

        mc_tally_call(worker->tally, took, fine, moves ? fine * c->size : 0);
    }
    return fine;
}

/* ---- steps ------------------------------------------------------------------------------- */

static bool do_put(struct mc_worker *worker, bool measured)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;

    name_keys(worker, s->next);
    for (uint64_t i = 0; i < c->batch && c->size > 0; i++) {
        mc_pattern_fill(mc_pattern_seed(s->keys[i], 0), s->values + i * c->size, c->size);
    }
    s->next++;
    return make(worker, call_put, "put", MOONCAKE_OK, measured) > 0;
}

static bool do_remove(struct mc_worker *worker, bool measured)
{
    struct state *s = worker->state;

    name_keys(worker, s->first++);
    return make(worker, call_remove, "remove", MOONCAKE_OK, measured) > 0;
}

static bool make_room(struct mc_worker *worker)
{
    struct state *s = worker->state;

    return s->next - s->first < s->held_max || do_remove(worker, false);
}

static void name_any(struct mc_worker *worker)
{
    struct state *s = worker->state;

    name_keys(worker, s->first + mc_random_below(&worker->rnd, s->next - s->first));
}

static bool do_get(struct mc_worker *worker)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;
    uint64_t fine;

    name_any(worker);
    for (uint64_t i = 0; i < c->batch; i++) {
        mc_spoil(s->values + i * c->size, c->size);
        s->got[i] = UINT64_MAX;
    }
    fine = make(worker, call_get, "get", MOONCAKE_OK, true);
    for (uint64_t i = 0; i < c->batch; i++) {
        if (s->results[i] == MOONCAKE_OK) {
            mc_tally_verify(worker->tally, s->keys[i], s->values + i * c->size, s->got[i], c->size);
        }
    }
    return fine > 0;
}

/* Opening is what is measured; the bytes are compared where they lie, and let go of, after it. */
static bool do_view(struct mc_worker *worker)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;
    uint64_t fine;

    name_any(worker);
    memset(s->views, 0, c->batch * sizeof(*s->views));
    fine = make(worker, call_view, "view", MOONCAKE_OK, true);
    for (uint64_t i = 0; i < c->batch; i++) {
        if (s->views[i] != NULL) {
            mc_tally_verify(worker->tally, s->keys[i], mooncake_view_data(s->views[i]),
                            mooncake_view_size(s->views[i]), c->size);
            mooncake_view_release(s->views[i]);
        }
    }
    return fine > 0;
}

static bool do_size(struct mc_worker *worker)
{
    const struct mc_io_case *c = case_of(worker);
    struct state *s = worker->state;
    uint64_t fine;

    name_any(worker);
    fine = make(worker, call_size, "size", MOONCAKE_OK, true);
    for (uint64_t i = 0; i < c->batch; i++) {
        if (s->results[i] == MOONCAKE_OK && s->got[i] != c->size) {
            mc_tally_wrong(worker->tally, s->keys[i], "another length than was put");
        }
    }
    return fine > 0;
}

static bool step(struct mc_worker *worker)
{
    struct state *s = worker->state;

    switch (case_of(worker)->op) {
    case MC_IO_PUT:
        return make_room(worker) && do_put(worker, true);
    case MC_IO_GET:
        return do_get(worker);
    case MC_IO_VIEW:
        return do_view(worker);
    case MC_IO_MIX:
        if (mc_random_below(&worker->rnd, 100) < worker->options->get_percent) {
            return do_get(worker);
        }
        return make_room(worker) && do_put(worker, true);
    case MC_IO_EXIST:
        name_any(worker);
        return make(worker, call_exist, "exist", MOONCAKE_OK, true) > 0;
    case MC_IO_MISS:
        name_keys(worker, s->next + mc_random_below(&worker->rnd, s->held_max));
        return make(worker, call_exist, "exist", MOONCAKE_ENOENT, true) > 0;
    case MC_IO_SIZE:
        return do_size(worker);
    case MC_IO_REMOVE:
        return do_put(worker, false) && do_remove(worker, true);
    case MC_IO_OPS_COUNT:
        break;
    }
    return false;
}

/* ---- begin and end ----------------------------------------------------------------------- */

static void *array(uint64_t count, size_t len)
{
    return calloc(count, len); /* checks the product */
}

/* Values, which begin pages as an engine's pool does: 16 bytes into a cache line, where malloc()
 * puts large memory, every copy takes a third longer. */
static unsigned char *value_memory(uint64_t count, size_t len)
{
    void *at = NULL;

    len = len == 0 ? 1 : len;
    if (count > SIZE_MAX / len || posix_memalign(&at, 4096, count * len) != 0) {
        return NULL;
    }
    return memset(at, 0, count * len);
}

static bool allocate(struct mc_worker *worker, struct state *s)
{
    const struct mc_io_case *c = case_of(worker);

    s->texts = array(c->batch, KEY_LEN);
    s->keys = array(c->batch, sizeof(*s->keys));
    s->values = value_memory(c->batch, c->size);
    s->spaces = array(c->batch, sizeof(*s->spaces));
    s->sources = array(c->batch, sizeof(*s->sources));
    s->lens = array(c->batch, sizeof(*s->lens));
    s->got = array(c->batch, sizeof(*s->got));
    s->results = array(c->batch, sizeof(*s->results));
    s->views = array(c->batch, sizeof(*s->views));
    if (s->texts == NULL || s->keys == NULL || s->values == NULL || s->spaces == NULL ||
        s->sources == NULL || s->lens == NULL || s->got == NULL || s->results == NULL ||
        s->views == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < c->batch; i++) {
        s->keys[i] = s->texts[i];
        s->spaces[i] = s->values + i * c->size;
        s->sources[i] = s->spaces[i];
        s->lens[i] = c->size;
    }
    return true;
}

static uint64_t held_max_of(const struct mc_worker *worker)
{
    const struct mc_io_case *c = case_of(worker);
    uint64_t keys = worker->options->keys;

    if (c->size > 0) {
        uint64_t fit = worker->options->working_set / worker->count / c->size;

        keys = fit < keys ? fit : keys;
    }
    keys /= c->batch;
    return keys == 0 ? 1 : keys > BATCHES_MAX ? BATCHES_MAX : keys;
}

/* Put as many batches as are held, @p rounds times over. */
static bool fill(struct mc_worker *worker, uint64_t rounds)
{
    struct state *s = worker->state;

    while (s->next < rounds * s->held_max) {
        if (!make_room(worker) || !do_put(worker, false)) {
            return false;
        }
    }
    return true;
}

static bool prepare(struct mc_worker *worker)
{
    struct state *s = calloc(1, sizeof(*s));

    worker->state = s;
    if (s == NULL || !allocate(worker, s)) {
        (void)snprintf(worker->tally->sentence, sizeof(worker->tally->sentence),
                       "out of memory for a batch of such values");
        return false;
    }
    s->held_max = held_max_of(worker);
    switch (case_of(worker)->op) {
    case MC_IO_PUT: /* twice: the space of what was removed is taken last, and puts that are
                     * measured go to space that was used before, as in a pool of some age */
        if (!fill(worker, 2)) {
            return false;
        }
        break;
    case MC_IO_GET:
    case MC_IO_VIEW:
    case MC_IO_MIX:
    case MC_IO_EXIST:
    case MC_IO_SIZE:
        if (!fill(worker, 1)) {
            return false;
        }
        break;
    case MC_IO_MISS:
    case MC_IO_REMOVE:
    case MC_IO_OPS_COUNT:
        break;
    }
    return worker->tally->errors == 0;
}

/* Take what this worker has put out of the pool again. What was never stored is no fault. */
static void clear_pool(struct mc_worker *worker)
{
    struct state *s = worker->state;

    while (s->first < s->next) {
        name_keys(worker, s->first++);
        (void)call_remove(worker);
    }
}

static void finish(struct mc_worker *worker)
{
    struct state *s = worker->state;

    if (s == NULL) {
        return;
    }
    if (s->results != NULL) { /* the last of them */
        clear_pool(worker);
    }
    free(s->texts);
    free(s->keys);
    free(s->values);
    free(s->spaces);
    free(s->sources);
    free(s->lens);
    free(s->got);
    free(s->results);
    free(s->views);
    free(s);
    worker->state = NULL;
}

const struct mc_job mc_io_job = {prepare, step, finish};
