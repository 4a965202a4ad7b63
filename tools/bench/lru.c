/* Ids are first made dense with a hash table; the cache is then a list in two arrays. */
#include "lru.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Number the ids in the order in which they come: dense[i] is the number of ids[i]. */
static bool number_ids(const struct mc_requests *requests, uint32_t *dense, uint32_t *out_count)
{
    size_t cap = 16;
    uint32_t *table;
    uint64_t *ids;
    uint32_t count = 0;

    while (cap < requests->ids_count * 2) {
        cap *= 2;
    }
    table = malloc(cap * sizeof(*table));
    ids = malloc((requests->ids_count + 1) * sizeof(*ids));
    if (table == NULL || ids == NULL) {
        free(table);
        free(ids);
        return false;
    }
    memset(table, 0xff, cap * sizeof(*table));
    for (size_t i = 0; i < requests->ids_count; i++) {
        uint64_t id = requests->ids[i];
        uint64_t hash = id;
        size_t at = mc_random(&hash) & (cap - 1);

        while (table[at] != NONE && ids[table[at]] != id) {
            at = (at + 1) & (cap - 1);
        }
        if (table[at] == NONE) {
            ids[count] = id;
            table[at] = count++;
        }
        dense[i] = table[at];
    }
    free(table);
    free(ids);
    *out_count = count;
    return true;
}

/* Numbers of blocks from the least to the most recently used; `end` closes the ring. */
struct cache {
    uint32_t *newer, *older; /* newer[b] is NONE while b is not cached */
    uint32_t end;
    uint64_t count, capacity;
};

static void cache_drop(struct cache *c, uint32_t block)
{
    c->newer[c->older[block]] = c->newer[block];
    c->older[c->newer[block]] = c->older[block];
    c->newer[block] = NONE;
    c->count--;
}

static void cache_touch(struct cache *c, uint32_t block)
{
    if (c->newer[block] != NONE) {
        cache_drop(c, block);
    }
    if (c->count == c->capacity) {
        cache_drop(c, c->newer[c->end]);
    }
    c->newer[block] = c->end;
    c->older[block] = c->older[c->end];
    c->newer[c->older[block]] = block;
    c->older[c->end] = block;
    c->count++;
}

static uint64_t run(const struct mc_requests *requests, const uint32_t *dense, struct cache *c)
{
    uint64_t hits = 0;
    size_t start = 0;

    for (size_t r = 0; r < requests->count; r++) {
        size_t end = requests->ends[r];
        size_t i = start;

        while (i < end && c->newer[dense[i]] != NONE) {
            i++;
        }
        hits += i - start;
        for (i = start; i < end; i++) {
            cache_touch(c, dense[i]);
        }
        start = end;
    }
    return hits;
}

bool mc_lru_run(const struct mc_requests *requests, uint64_t capacity, uint64_t *out_hits)
{
    uint32_t *dense = malloc((requests->ids_count + 1) * sizeof(*dense));
    struct cache c = {NULL, NULL, 0, 0, capacity == 0 ? UINT64_MAX : capacity};
    bool fine = false;

    if (dense == NULL || !number_ids(requests, dense, &c.end)) {
        goto free_dense;
    }
    c.newer = malloc(((size_t)c.end + 1) * sizeof(*c.newer));
    c.older = malloc(((size_t)c.end + 1) * sizeof(*c.older));
    if (c.newer == NULL || c.older == NULL) {
        goto free_cache;
    }
    memset(c.newer, 0xff, ((size_t)c.end + 1) * sizeof(*c.newer));
    c.newer[c.end] = c.older[c.end] = c.end;
    *out_hits = run(requests, dense, &c);
    fine = true;

free_cache:
    free(c.newer);
    free(c.older);
free_dense:
    free(dense);
    return fine;
}

bool mc_lru_distinct(const struct mc_requests *requests, uint64_t *out_distinct)
{
    uint32_t *dense = malloc((requests->ids_count + 1) * sizeof(*dense));
    uint32_t count = 0;
    bool fine = dense != NULL && number_ids(requests, dense, &count);

    free(dense);
    if (fine) {
        *out_distinct = count;
    }
    return fine;
}
