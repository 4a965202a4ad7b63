/*
 * Two-level segregated fit with the books outside of the space.
 *
 * Design notes. Lengths and offsets count units of MC_EXTENT_ALIGN. Each extent, free or taken, has
 * a record of 32 bytes; records name each other by 32-bit index, 0 is none. Records of the space
 * form a list in order of offset, in which no two free ones are neighbours. Free ones are also in
 * the list of their size class: lengths below 32 units have a class each, every doubling above is
 * cut into 32 classes. Two bitmaps tell which classes have anything, so that finding one takes two
 * bit scans.
 *
 * A request first looks at a few extents of its own class, where some may be too short, and else
 * takes from the next class that has any, where all are long enough. The list of a class starts
 * with an extent that was its longest when it came in, so that what largest() says is granted.
 */
#include "base/extalloc.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"

#define SUB_SHIFT 5u
#define SUB_COUNT (1u << SUB_SHIFT)
#define LEN_MAX ((uint64_t)1 << 47)
/* 2^47 bytes are 2^41 units: row 0 for lengths below 32, rows 1 to 37 for 2^5 to 2^41. */
#define ROWS 38u

/* Extents of one class that a request looks at: each may cost a cache miss. */
#define TRIES_MAX 8u

#define CHUNK_SHIFT 11u
#define CHUNK_RECORDS (1u << CHUNK_SHIFT)
#define RECORDS_MAX (UINT32_MAX - CHUNK_RECORDS)

enum state { UNUSED, TAKEN, FREE };
#define STATE_SHIFT 62u
#define LEN_MASK (((uint64_t)1 << STATE_SHIFT) - 1)

struct record {
    uint64_t offset;
    uint64_t len_state;     /* length; the top two bits are an enum state */
    uint32_t before, after; /* neighbours in the space; after also links unused records */
    uint32_t prev, next;    /* in the list of the class, while free */
};
_Static_assert(sizeof(struct record) == 32, "two records in a cache line");

struct mc_extalloc {
    uint64_t capacity, used; /* units */
    uint64_t rows;           /* bit r: subs[r] is not 0 */
    uint32_t subs[ROWS];     /* bit s: heads[r][s] is not 0 */
    uint32_t heads[ROWS][SUB_COUNT];
    struct record **chunks;
    uint32_t chunks_count, chunks_cap;
    uint32_t count;  /* records ever used, with record 0, which never is */
    uint32_t unused; /* list of records that are free to use again */
    uint32_t first;  /* at offset 0 */
};

static struct record *at(const struct mc_extalloc *alloc, uint32_t id)
{
    return &alloc->chunks[id >> CHUNK_SHIFT][id & (CHUNK_RECORDS - 1)];
}

static uint64_t len_of(const struct record *r)
{
    return r->len_state & LEN_MASK;
}

static enum state state_of(const struct record *r)
{
    return (enum state)(r->len_state >> STATE_SHIFT);
}

static void set(struct record *r, uint64_t len, enum state state)
{
    r->len_state = len | (uint64_t)state << STATE_SHIFT;
}

/* ---- records ----------------------------------------------------------------------------- */

static bool chunk_add(struct mc_extalloc *alloc)
{
    struct record *chunk;

    if (alloc->count > RECORDS_MAX) {
        return false;
    }
    if (alloc->chunks_count == alloc->chunks_cap) {
        uint32_t cap = alloc->chunks_cap == 0 ? 4 : alloc->chunks_cap * 2;
        struct record **bigger = mc_realloc(alloc->chunks, cap * sizeof(struct record *));

        if (bigger == NULL) {
            return false;
        }
        alloc->chunks = bigger;
        alloc->chunks_cap = cap;
    }
    chunk = mc_malloc(CHUNK_RECORDS * sizeof(struct record));
    if (chunk == NULL) {
        return false;
    }
    alloc->chunks[alloc->chunks_count++] = chunk;
    return true;
}

/* Make sure that the next record_take() has one. */
static bool record_reserve(struct mc_extalloc *alloc)
{
    return alloc->unused != 0 || alloc->count < alloc->chunks_count << CHUNK_SHIFT ||
           chunk_add(alloc);
}

static uint32_t record_take(struct mc_extalloc *alloc)
{
    uint32_t id = alloc->unused;

    if (id != 0) {
        alloc->unused = at(alloc, id)->after;
    } else {
        id = alloc->count++;
    }
    memset(at(alloc, id), 0, sizeof(struct record));
    return id;
}

static void record_give(struct mc_extalloc *alloc, uint32_t id)
{
    set(at(alloc, id), 0, UNUSED);
    at(alloc, id)->after = alloc->unused;
    alloc->unused = id;
}

/* ---- classes ----------------------------------------------------------------------------- */

struct size_class {
    uint32_t row, sub;
};

static struct size_class class_of(uint64_t len)
{
    struct size_class c = {0, (uint32_t)len};

    if (len >= SUB_COUNT) {
        uint32_t log2 = 63u - (uint32_t)__builtin_clzll(len);

        c.row = log2 - SUB_SHIFT + 1;
        c.sub = (uint32_t)(len >> (log2 - SUB_SHIFT)) & (SUB_COUNT - 1);
    }
    return c;
}

static uint32_t *head_of(struct mc_extalloc *alloc, struct size_class c)
{
    return &alloc->heads[c.row][c.sub];
}

/* The extent joins its class: in front if it is the longest there, else second. */
static void class_add(struct mc_extalloc *alloc, uint32_t id)
{
    struct record *r = at(alloc, id);
    struct size_class c = class_of(len_of(r));
    uint32_t *head = head_of(alloc, c);
    struct record *front = *head == 0 ? NULL : at(alloc, *head);

    r->prev = 0;
    r->next = 0;
    if (front == NULL || len_of(front) <= len_of(r)) {
        r->next = *head;
        *head = id;
    } else {
        r->prev = *head;
        r->next = front->next;
        front->next = id;
    }
    if (r->next != 0) {
        at(alloc, r->next)->prev = id;
    }
    alloc->subs[c.row] |= 1u << c.sub;
    alloc->rows |= (uint64_t)1 << c.row;
}

static void class_drop(struct mc_extalloc *alloc, uint32_t id)
{
    struct record *r = at(alloc, id);
    struct size_class c = class_of(len_of(r));

    if (r->prev != 0) {
        at(alloc, r->prev)->next = r->next;
    } else {
        *head_of(alloc, c) = r->next;
    }
    if (r->next != 0) {
        at(alloc, r->next)->prev = r->prev;
    }
    if (*head_of(alloc, c) == 0) {
        alloc->subs[c.row] &= ~(1u << c.sub);
        if (alloc->subs[c.row] == 0) {
            alloc->rows &= ~((uint64_t)1 << c.row);
        }
    }
}

/* The shortest that is long enough among the first few of the class, or 0. */
static uint32_t class_best(struct mc_extalloc *alloc, struct size_class c, uint64_t len)
{
    uint32_t best = 0;
    uint64_t best_len = UINT64_MAX;
    uint32_t id = *head_of(alloc, c);

    for (uint32_t tries = 0; id != 0 && tries < TRIES_MAX && best_len != len; tries++) {
        const struct record *r = at(alloc, id);

        if (len_of(r) >= len && len_of(r) < best_len) {
            best = id;
            best_len = len_of(r);
        }
        id = r->next;
    }
    return best;
}

/* The least class above @p c that has any extent; false if none. */
static bool class_above(const struct mc_extalloc *alloc, struct size_class c,
                        struct size_class *out)
{
    uint32_t subs = c.sub == SUB_COUNT - 1 ? 0 : alloc->subs[c.row] & (UINT32_MAX << (c.sub + 1));

    if (subs == 0) {
        uint64_t rows = alloc->rows & (UINT64_MAX << (c.row + 1));

        if (rows == 0) {
            return false;
        }
        c.row = (uint32_t)__builtin_ctzll(rows);
        subs = alloc->subs[c.row];
    }
    out->row = c.row;
    out->sub = (uint32_t)__builtin_ctz(subs);
    return true;
}

/* A free extent of at least @p len, or 0. */
static uint32_t find(struct mc_extalloc *alloc, uint64_t len)
{
    struct size_class c = class_of(len);
    uint32_t id = class_best(alloc, c, len);

    if (id == 0 && class_above(alloc, c, &c)) {
        id = class_best(alloc, c, len);
        MC_ASSERT(id != 0);
    }
    return id;
}

/* ---- the space --------------------------------------------------------------------------- */

mooncake_err mc_extalloc_create(uint64_t len, struct mc_extalloc **out)
{
    struct mc_extalloc *alloc;

    if (len < MC_EXTENT_ALIGN || len > LEN_MAX) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "segment of %llu bytes: the length must be 64 bytes to 128 TiB",
                          (unsigned long long)len);
    }
    alloc = mc_calloc(1, sizeof(*alloc));
    if (alloc == NULL) {
        return MOONCAKE_ENOMEM;
    }
    alloc->count = 1;
    if (!chunk_add(alloc)) {
        mc_free(alloc->chunks);
        mc_free(alloc);
        return MOONCAKE_ENOMEM;
    }
    memset(at(alloc, 0), 0, sizeof(struct record));
    alloc->capacity = len / MC_EXTENT_ALIGN;
    alloc->first = record_take(alloc);
    set(at(alloc, alloc->first), alloc->capacity, FREE);
    class_add(alloc, alloc->first);
    *out = alloc;
    return MOONCAKE_OK;
}

void mc_extalloc_destroy(struct mc_extalloc **alloc)
{
    struct mc_extalloc *a = *alloc;

    if (a == NULL) {
        return;
    }
    for (uint32_t i = 0; i < a->chunks_count; i++) {
        mc_free(a->chunks[i]);
    }
    mc_free(a->chunks);
    mc_free(a);
    *alloc = NULL;
}

/* Cut what lies behind the first @p len units off into a free extent of its own. */
static void cut(struct mc_extalloc *alloc, uint32_t id, uint64_t len)
{
    uint32_t rest = record_take(alloc);
    struct record *r = at(alloc, id);
    struct record *s = at(alloc, rest);

    s->offset = r->offset + len;
    set(s, len_of(r) - len, FREE);
    s->before = id;
    s->after = r->after;
    if (s->after != 0) {
        at(alloc, s->after)->before = rest;
    }
    r->after = rest;
    class_add(alloc, rest);
}

mooncake_err mc_extalloc_take(struct mc_extalloc *alloc, uint64_t len, mc_extent_id *out_id,
                              uint64_t *out_offset)
{
    uint64_t units;
    uint32_t id;
    struct record *r;

    if (len > alloc->capacity * MC_EXTENT_ALIGN) {
        return MOONCAKE_ENOSPACE;
    }
    units = len == 0 ? 1 : (len + MC_EXTENT_ALIGN - 1) / MC_EXTENT_ALIGN;
    id = find(alloc, units);
    if (id == 0) {
        return MOONCAKE_ENOSPACE;
    }
    r = at(alloc, id);
    if (len_of(r) > units && !record_reserve(alloc)) {
        return MOONCAKE_ENOMEM;
    }
    class_drop(alloc, id);
    if (len_of(r) > units) {
        cut(alloc, id, units);
    }
    set(r, units, TAKEN);
    alloc->used += units;
    *out_id = id;
    *out_offset = r->offset * MC_EXTENT_ALIGN;
    return MOONCAKE_OK;
}

/* @p id grows over its neighbour behind it, whose record goes. */
static void swallow(struct mc_extalloc *alloc, uint32_t id, uint32_t behind)
{
    struct record *r = at(alloc, id);
    struct record *s = at(alloc, behind);

    set(r, len_of(r) + len_of(s), FREE);
    r->after = s->after;
    if (r->after != 0) {
        at(alloc, r->after)->before = id;
    }
    record_give(alloc, behind);
}

static const struct record *taken(const struct mc_extalloc *alloc, mc_extent_id id)
{
    MC_ASSERT(id != 0 && id < alloc->count);
    MC_ASSERT(state_of(at(alloc, id)) == TAKEN);
    return at(alloc, id);
}

void mc_extalloc_give(struct mc_extalloc *alloc, mc_extent_id id)
{
    uint64_t len = len_of(taken(alloc, id));
    struct record *r = at(alloc, id);

    alloc->used -= len;
    set(r, len, FREE);
    if (r->after != 0 && state_of(at(alloc, r->after)) == FREE) {
        class_drop(alloc, r->after);
        swallow(alloc, id, r->after);
    }
    if (r->before != 0 && state_of(at(alloc, r->before)) == FREE) {
        uint32_t before = r->before;

        class_drop(alloc, before);
        swallow(alloc, before, id);
        id = before;
    }
    class_add(alloc, id);
}

uint64_t mc_extalloc_offset(const struct mc_extalloc *alloc, mc_extent_id id)
{
    return taken(alloc, id)->offset * MC_EXTENT_ALIGN;
}

uint64_t mc_extalloc_len(const struct mc_extalloc *alloc, mc_extent_id id)
{
    return len_of(taken(alloc, id)) * MC_EXTENT_ALIGN;
}

uint64_t mc_extalloc_capacity(const struct mc_extalloc *alloc)
{
    return alloc->capacity * MC_EXTENT_ALIGN;
}

uint64_t mc_extalloc_used(const struct mc_extalloc *alloc)
{
    return alloc->used * MC_EXTENT_ALIGN;
}

uint64_t mc_extalloc_largest(const struct mc_extalloc *alloc)
{
    uint32_t row, sub;

    if (alloc->rows == 0) {
        return 0;
    }
    row = 63u - (uint32_t)__builtin_clzll(alloc->rows);
    sub = 31u - (uint32_t)__builtin_clz(alloc->subs[row]);
    return len_of(at(alloc, alloc->heads[row][sub])) * MC_EXTENT_ALIGN;
}

uint64_t mc_extalloc_bytes(const struct mc_extalloc *alloc)
{
    return sizeof(*alloc) + alloc->chunks_cap * sizeof(struct record *) +
           (uint64_t)alloc->chunks_count * CHUNK_RECORDS * sizeof(struct record);
}

/* ---- check ------------------------------------------------------------------------------- */

/* Counts the extents of the space; their order, lengths and sums must be right. */
static uint32_t check_space(const struct mc_extalloc *alloc, uint32_t *out_free)
{
    uint64_t offset = 0;
    uint64_t used = 0;
    uint32_t before = 0;
    uint32_t extents = 0;
    uint32_t frees = 0;

    for (uint32_t id = alloc->first; id != 0; id = at(alloc, id)->after) {
        const struct record *r = at(alloc, id);

        MC_ASSERT(id < alloc->count);
        MC_ASSERT(r->before == before);
        MC_ASSERT(r->offset == offset);
        MC_ASSERT(len_of(r) > 0 && len_of(r) <= alloc->capacity - offset);
        MC_ASSERT(state_of(r) != UNUSED);
        MC_ASSERT(state_of(r) == TAKEN || before == 0 || state_of(at(alloc, before)) == TAKEN);
        offset += len_of(r);
        used += state_of(r) == TAKEN ? len_of(r) : 0;
        frees += state_of(r) == FREE;
        extents++;
        before = id;
    }
    MC_ASSERT(offset == alloc->capacity);
    MC_ASSERT(used == alloc->used);
    *out_free = frees;
    return extents;
}

/* Counts the extents of one class. */
static uint32_t check_class(const struct mc_extalloc *alloc, struct size_class c)
{
    uint32_t head = alloc->heads[c.row][c.sub];
    uint32_t prev = 0;
    uint32_t n = 0;

    MC_ASSERT((alloc->subs[c.row] >> c.sub & 1u) == (head != 0));
    for (uint32_t id = head; id != 0; id = at(alloc, id)->next) {
        const struct record *r = at(alloc, id);
        struct size_class own = class_of(len_of(r));

        MC_ASSERT(state_of(r) == FREE);
        MC_ASSERT(r->prev == prev);
        MC_ASSERT(own.row == c.row && own.sub == c.sub);
        prev = id;
        n++;
    }
    return n;
}

void mc_extalloc_check(const struct mc_extalloc *alloc)
{
    uint32_t frees;
    uint32_t records = 1 + check_space(alloc, &frees); /* with record 0 */
    struct size_class c;

    for (c.row = 0; c.row < ROWS; c.row++) {
        MC_ASSERT((alloc->rows >> c.row & 1u) == (alloc->subs[c.row] != 0));
        for (c.sub = 0; c.sub < SUB_COUNT; c.sub++) {
            uint32_t n = check_class(alloc, c);

            MC_ASSERT(n <= frees);
            frees -= n;
        }
    }
    MC_ASSERT(frees == 0);
    for (uint32_t id = alloc->unused; id != 0; id = at(alloc, id)->after) {
        MC_ASSERT(state_of(at(alloc, id)) == UNUSED);
        records++;
    }
    MC_ASSERT(records == alloc->count);
}
