/*
 * Linear hashing over buckets of one cache line.
 *
 * Design notes. A bucket is a line of six 16-bit tags, six pointers and a link to a further line
 * for what does not fit. The table grows by one bucket at a time: bucket N takes its share of the
 * elements of one older bucket, its parent, so there is never a second table and never a moment
 * when everything moves. Lines live in chunks of 2 MiB that never move; a chunk's pages are touched
 * as its lines come into use, so that no add pays for a large array.
 *
 * Order inside a bucket: the first line fills first. The line linked right behind it is the only
 * further line that may be partly filled; those behind that one are full. Positions count from the
 * first line, then from the oldest further line to the newest, so that the last position is always
 * found at once. A drop moves the last element into the hole. A walk goes from the last position
 * down, and what a drop or a split moves goes to a lower position or to a later bucket: so nothing
 * that waits for its visit can slip behind the cursor.
 */
#include "base/htab.h"

#include <string.h>

#include <xxhash.h>

#include "base/assert.h"
#include "base/htab_lines.h"
#include "base/mem.h"

/* Elements per bucket above which the table grows, in quarters: 3.75 of 6 keeps the second line
 * rare (1 lookup in 12) at about 19 bytes an element. */
#define LOAD_QUARTERS 15u
/* Buckets added by one add at most: two catch up after a time without memory. */
#define SPLITS_PER_ADD 2

/* Empty buckets that a walk passes in one call at most: 256 KiB read, some tens of microseconds. */
#define WALK_EMPTY_MAX 4096u

struct mc_htab {
    struct mc_htab_lines buckets;
    struct mc_htab_lines more; /* index 0 is never used */
    uint32_t more_free;        /* list of unused lines of `more`; 0 is none */
    uint32_t mask;             /* the least 2^n - 1 that is not below the last bucket's index */
    size_t count;
    mc_htab_match match;
    mc_htab_rehash rehash;
};

static inline uint16_t tag_of(uint64_t hash)
{
    return (uint16_t)(hash >> 48); /* buckets are chosen by the low half */
}

static inline uint32_t bucket_of(const struct mc_htab *htab, uint64_t hash)
{
    uint32_t bucket = (uint32_t)hash & htab->mask;

    return bucket < htab->buckets.count ? bucket : bucket & (htab->mask >> 1);
}

static uint32_t filled(const struct mc_htab_line *line)
{
    uint32_t n = 0;

    while (n < MC_HTAB_SLOTS && line->slots[n] != NULL) {
        n++;
    }
    return n;
}

/* ---- one bucket -------------------------------------------------------------------------- */

/* An empty further line, or 0. */
static uint32_t more_take(struct mc_htab *htab)
{
    uint32_t index = htab->more_free;

    if (index != 0) {
        htab->more_free = mc_htab_line_at(&htab->more, index)->next;
    } else if (mc_htab_lines_reserve(&htab->more)) {
        index = htab->more.count++;
    } else {
        return 0;
    }
    memset(mc_htab_line_at(&htab->more, index), 0, MC_HTAB_LINE_LEN);
    return index;
}

static void more_give(struct mc_htab *htab, uint32_t index)
{
    mc_htab_line_at(&htab->more, index)->next = htab->more_free;
    htab->more_free = index;
}

/* The line that holds the bucket's last position. */
static struct mc_htab_line *top_line(const struct mc_htab *htab, struct mc_htab_line *first)
{
    return first->next == 0 ? first : mc_htab_line_at(&htab->more, first->next);
}

/* Add at the last position. False: no memory for a further line, nothing changed. */
static bool bucket_push(struct mc_htab *htab, struct mc_htab_line *first, uint16_t tag,
                        void *element)
{
    struct mc_htab_line *top = top_line(htab, first);
    uint32_t slot = filled(top);

    if (slot == MC_HTAB_SLOTS) {
        uint32_t index = more_take(htab);

        if (index == 0) {
            return false;
        }
        top = mc_htab_line_at(&htab->more, index);
        top->next = first->next;
        first->next = index;
        slot = 0;
    }
    top->tags[slot] = tag;
    top->slots[slot] = element;
    return true;
}

/* Fill the hole at *slot of @p line with the element at the last position. */
static void bucket_close_hole(struct mc_htab *htab, struct mc_htab_line *first,
                              struct mc_htab_line *line, uint32_t slot)
{
    struct mc_htab_line *top = top_line(htab, first);
    uint32_t last = filled(top) - 1;

    line->tags[slot] = top->tags[last];
    line->slots[slot] = top->slots[last];
    top->tags[last] = 0;
    top->slots[last] = NULL;
    if (last == 0 && top != first) {
        uint32_t emptied = first->next;

        first->next = top->next;
        more_give(htab, emptied);
    }
}

static void prefetch_elements(const struct mc_htab_line *line)
{
    for (uint32_t i = 0; i < MC_HTAB_SLOTS; i++) {
        __builtin_prefetch(line->slots[i]);
    }
}

/* Empty the bucket and return its further lines, oldest first: that is in order of position. */
static uint32_t bucket_detach(struct mc_htab *htab, struct mc_htab_line *first,
                              struct mc_htab_line *out_first)
{
    uint32_t index = first->next;
    uint32_t reversed = 0;

    *out_first = *first;
    memset(first, 0, sizeof(*first));
    prefetch_elements(out_first);
    while (index != 0) {
        struct mc_htab_line *line = mc_htab_line_at(&htab->more, index);
        uint32_t next = line->next;

        prefetch_elements(line);
        line->next = reversed;
        reversed = index;
        index = next;
    }
    return reversed;
}

/* Share the elements of one detached line between the parent and the fresh bucket. */
static void deal_out(struct mc_htab *htab, const struct mc_htab_line *from,
                     struct mc_htab_line *parent, struct mc_htab_line *fresh, uint32_t fresh_bucket)
{
    for (uint32_t i = 0; i < MC_HTAB_SLOTS && from->slots[i] != NULL; i++) {
        uint64_t hash = htab->rehash(from->slots[i]);
        struct mc_htab_line *to = bucket_of(htab, hash) == fresh_bucket ? fresh : parent;
        /* Two chains of whole lines need no more further lines than their elements needed in one
         * chain, and those were given back before: there is always one. */
        bool pushed = bucket_push(htab, to, from->tags[i], from->slots[i]);

        MC_ASSERT(pushed);
    }
}

/* Add one bucket. False: no memory, nothing changed. */
static bool split(struct mc_htab *htab)
{
    uint32_t fresh_bucket = htab->buckets.count;
    struct mc_htab_line *fresh, *parent;
    struct mc_htab_line copy;
    uint32_t index;

    if (!mc_htab_lines_reserve(&htab->buckets)) {
        return false;
    }
    htab->buckets.count++;
    if (fresh_bucket > htab->mask) {
        htab->mask = htab->mask * 2 + 1;
    }
    fresh = mc_htab_line_at(&htab->buckets, fresh_bucket);
    parent = mc_htab_line_at(&htab->buckets, fresh_bucket & (htab->mask >> 1));
    memset(fresh, 0, sizeof(*fresh));
    index = bucket_detach(htab, parent, &copy);
    deal_out(htab, &copy, parent, fresh, fresh_bucket);
    while (index != 0) {
        copy = *mc_htab_line_at(&htab->more, index);
        more_give(htab, index);
        index = copy.next;
        deal_out(htab, &copy, parent, fresh, fresh_bucket);
    }
    return true;
}

/* ---- the table --------------------------------------------------------------------------- */

mooncake_err mc_htab_create(size_t count_hint, mc_htab_match match, mc_htab_rehash rehash,
                            struct mc_htab **out)
{
    size_t buckets = count_hint / LOAD_QUARTERS * 4 + LOAD_QUARTERS;
    struct mc_htab *htab;

    MC_ASSERT(match != NULL);
    MC_ASSERT(rehash != NULL);
    if (count_hint > (size_t)MC_HTAB_LINES_MAX * 3) {
        return mc_err_set(MOONCAKE_ENOMEM, "a hash table of %zu elements is beyond its limit",
                          count_hint);
    }
    htab = mc_calloc(1, sizeof(*htab));
    if (htab == NULL) {
        return MOONCAKE_ENOMEM;
    }
    htab->match = match;
    htab->rehash = rehash;
    if (!mc_htab_lines_init(&htab->buckets)) {
        goto free_htab;
    }
    if (!mc_htab_lines_init(&htab->more)) {
        goto fini_buckets;
    }
    htab->more.count = 1;
    while (htab->buckets.count < buckets) {
        if (!mc_htab_lines_reserve(&htab->buckets)) {
            goto fini_more;
        }
        memset(mc_htab_line_at(&htab->buckets, htab->buckets.count), 0, MC_HTAB_LINE_LEN);
        htab->buckets.count++;
    }
    while (htab->mask < htab->buckets.count - 1) {
        htab->mask = htab->mask * 2 + 1;
    }
    *out = htab;
    return MOONCAKE_OK;

fini_more:
    mc_htab_lines_fini(&htab->more);
fini_buckets:
    mc_htab_lines_fini(&htab->buckets);
free_htab:
    mc_free(htab);
    return MOONCAKE_ENOMEM;
}

void mc_htab_destroy(struct mc_htab **htab)
{
    if (*htab == NULL) {
        return;
    }
    mc_htab_lines_fini(&(*htab)->more);
    mc_htab_lines_fini(&(*htab)->buckets);
    mc_free(*htab);
    *htab = NULL;
}

uint64_t mc_htab_hash(const void *key, size_t key_len)
{
    return XXH3_64bits(key, key_len);
}

void mc_htab_prefetch(const struct mc_htab *htab, uint64_t hash)
{
    __builtin_prefetch(mc_htab_line_at(&htab->buckets, bucket_of(htab, hash)));
}

void mc_htab_prefetch_element(const struct mc_htab *htab, uint64_t hash)
{
    const struct mc_htab_line *line = mc_htab_line_at(&htab->buckets, bucket_of(htab, hash));
    uint16_t tag = tag_of(hash);

    for (uint32_t i = 0; i < MC_HTAB_SLOTS; i++) {
        if (line->tags[i] == tag) {
            __builtin_prefetch(line->slots[i]);
            return;
        }
    }
    if (line->next != 0) {
        __builtin_prefetch(mc_htab_line_at(&htab->more, line->next));
    }
}

void *mc_htab_find(const struct mc_htab *htab, uint64_t hash, const void *key, size_t key_len)
{
    const struct mc_htab_line *line = mc_htab_line_at(&htab->buckets, bucket_of(htab, hash));
    uint16_t tag = tag_of(hash);

    for (;;) {
        for (uint32_t i = 0; i < MC_HTAB_SLOTS; i++) {
            if (line->tags[i] == tag && line->slots[i] != NULL &&
                htab->match(line->slots[i], key, key_len)) {
                return line->slots[i];
            }
        }
        if (line->next == 0) {
            return NULL;
        }
        line = mc_htab_line_at(&htab->more, line->next);
    }
}

static bool too_full(const struct mc_htab *htab)
{
    return htab->count > (size_t)htab->buckets.count * LOAD_QUARTERS / 4;
}

mooncake_err mc_htab_add(struct mc_htab *htab, uint64_t hash, void *element)
{
    MC_ASSERT(element != NULL);
    if (!bucket_push(htab, mc_htab_line_at(&htab->buckets, bucket_of(htab, hash)), tag_of(hash),
                     element)) {
        return MOONCAKE_ENOMEM;
    }
    htab->count++;
    for (int i = 0; i < SPLITS_PER_ADD && too_full(htab); i++) {
        if (!split(htab)) {
            break; /* buckets get longer meanwhile; a later add tries again */
        }
    }
    return MOONCAKE_OK;
}

/* Where @p element, which must be there, stands in the bucket. */
static void bucket_find(const struct mc_htab *htab, struct mc_htab_line *first, const void *element,
                        struct mc_htab_line **out_line, uint32_t *out_slot)
{
    struct mc_htab_line *line = first;

    MC_ASSERT(element != NULL);
    for (;;) {
        for (uint32_t i = 0; i < MC_HTAB_SLOTS; i++) {
            if (line->slots[i] == element) {
                *out_line = line;
                *out_slot = i;
                return;
            }
        }
        MC_ASSERT(line->next != 0); /* else the element is not in the table */
        line = mc_htab_line_at(&htab->more, line->next);
    }
}

void mc_htab_drop(struct mc_htab *htab, uint64_t hash, const void *element)
{
    struct mc_htab_line *first = mc_htab_line_at(&htab->buckets, bucket_of(htab, hash));
    struct mc_htab_line *line;
    uint32_t slot;

    bucket_find(htab, first, element, &line, &slot);
    bucket_close_hole(htab, first, line, slot);
    htab->count--;
}

void mc_htab_replace(struct mc_htab *htab, uint64_t hash, const void *old, void *fresh)
{
    struct mc_htab_line *line;
    uint32_t slot;

    MC_ASSERT(fresh != NULL);
    MC_ASSERT(htab->rehash(fresh) == hash);
    bucket_find(htab, mc_htab_line_at(&htab->buckets, bucket_of(htab, hash)), old, &line, &slot);
    line->slots[slot] = fresh;
}

size_t mc_htab_count(const struct mc_htab *htab)
{
    return htab->count;
}

size_t mc_htab_bytes(const struct mc_htab *htab)
{
    return sizeof(*htab) + mc_htab_lines_bytes(&htab->buckets) + mc_htab_lines_bytes(&htab->more);
}

/* ---- walk -------------------------------------------------------------------------------- */

static uint32_t more_count(const struct mc_htab *htab, const struct mc_htab_line *first)
{
    uint32_t n = 0;

    for (uint32_t i = first->next; i != 0; i = mc_htab_line_at(&htab->more, i)->next) {
        n++;
    }
    return n;
}

static uint32_t bucket_count(const struct mc_htab *htab, struct mc_htab_line *first)
{
    uint32_t more = more_count(htab, first);

    return filled(top_line(htab, first)) + more * MC_HTAB_SLOTS;
}

static void *bucket_at(const struct mc_htab *htab, const struct mc_htab_line *first,
                       uint32_t position)
{
    uint32_t behind; /* further lines between the first line and the one we want */
    uint32_t index = first->next;

    if (position < MC_HTAB_SLOTS) {
        return first->slots[position];
    }
    behind = more_count(htab, first) - position / MC_HTAB_SLOTS;
    for (uint32_t i = 0; i < behind; i++) {
        index = mc_htab_line_at(&htab->more, index)->next;
    }
    return mc_htab_line_at(&htab->more, index)->slots[position % MC_HTAB_SLOTS];
}

void mc_htab_walk(struct mc_htab *htab, uint64_t *cursor, size_t visits_max,
                  void (*visit)(void *arg, void *element), void *arg)
{
    /* High half: the bucket. Low half: positions still to visit in it; 0 is all. */
    uint32_t bucket = (uint32_t)(*cursor >> 32);
    uint32_t left = (uint32_t)*cursor;
    size_t visits = 0;
    uint32_t empty = 0;

    MC_ASSERT(visits_max > 0);
    while (bucket < htab->buckets.count) {
        uint32_t count;

        if (visits == visits_max || empty == WALK_EMPTY_MAX) {
            *cursor = (uint64_t)bucket << 32 | left;
            return;
        }
        count = bucket_count(htab, mc_htab_line_at(&htab->buckets, bucket));
        left = left == 0 || left > count ? count : left;
        empty += left == 0;
        for (; left > 0 && visits < visits_max; visits++) {
            left--;
            visit(arg, bucket_at(htab, mc_htab_line_at(&htab->buckets, bucket), left));
        }
        bucket += left == 0;
    }
    *cursor = 0;
}

/* ---- check ------------------------------------------------------------------------------- */

static void check_line(const struct mc_htab *htab, const struct mc_htab_line *line, uint32_t bucket)
{
    uint32_t n = filled(line);

    for (uint32_t i = 0; i < MC_HTAB_SLOTS; i++) {
        if (i < n) {
            uint64_t hash = htab->rehash(line->slots[i]);

            MC_ASSERT(bucket_of(htab, hash) == bucket);
            MC_ASSERT(tag_of(hash) == line->tags[i]);
        } else {
            MC_ASSERT(line->slots[i] == NULL);
            MC_ASSERT(line->tags[i] == 0);
        }
    }
}

void mc_htab_check(const struct mc_htab *htab)
{
    size_t count = 0;
    size_t more = 1; /* line 0 */

    MC_ASSERT(htab->buckets.count > 0 && htab->buckets.count <= htab->buckets.cap);
    MC_ASSERT(htab->more.count > 0 && htab->more.count <= htab->more.cap);
    MC_ASSERT(htab->mask >= htab->buckets.count - 1);
    MC_ASSERT(htab->mask >> 1 < htab->buckets.count);
    for (uint32_t bucket = 0; bucket < htab->buckets.count; bucket++) {
        const struct mc_htab_line *line = mc_htab_line_at(&htab->buckets, bucket);

        check_line(htab, line, bucket);
        MC_ASSERT(line->next == 0 || filled(line) == MC_HTAB_SLOTS);
        count += filled(line);
        for (uint32_t i = line->next; i != 0; i = mc_htab_line_at(&htab->more, i)->next) {
            const struct mc_htab_line *further = mc_htab_line_at(&htab->more, i);

            check_line(htab, further, bucket);
            MC_ASSERT(filled(further) > 0);
            MC_ASSERT(i == line->next || filled(further) == MC_HTAB_SLOTS);
            count += filled(further);
            more++;
        }
    }
    MC_ASSERT(count == htab->count);
    for (uint32_t i = htab->more_free; i != 0; i = mc_htab_line_at(&htab->more, i)->next) {
        more++;
    }
    MC_ASSERT(more == htab->more.count);
}
