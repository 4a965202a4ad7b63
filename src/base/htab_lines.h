/*
 * Cache lines by index, for htab only: an array that grows without moving what is in it, so that
 * growth has no pause. Lines live in chunks of 2 MiB whose pages are touched as lines come into
 * use; only the first chunk, while it is smaller than that, is moved.
 */
#ifndef MC_BASE_HTAB_LINES_H
#define MC_BASE_HTAB_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

#define MC_HTAB_SLOTS 6u
#define MC_HTAB_LINE_LEN 64u

#define MC_HTAB_CHUNK_SHIFT 15u
#define MC_HTAB_CHUNK_LINES (1u << MC_HTAB_CHUNK_SHIFT)
#define MC_HTAB_LINES_MAX (UINT32_MAX - MC_HTAB_CHUNK_LINES)

struct mc_htab_line {
    uint16_t tags[MC_HTAB_SLOTS];
    uint32_t next;              /* index of a further line of the bucket; 0 is none */
    void *slots[MC_HTAB_SLOTS]; /* filled from the front; NULL behind the last */
};
_Static_assert(sizeof(struct mc_htab_line) == MC_HTAB_LINE_LEN, "a bucket is one cache line");

struct mc_htab_lines {
    struct mc_htab_line **chunks;
    uint32_t chunks_cap; /* pointers that fit in `chunks` */
    uint32_t count;      /* lines in use; indexes are below it */
    uint32_t cap;        /* lines allocated */
};

static inline struct mc_htab_line *mc_htab_line_at(const struct mc_htab_lines *lines,
                                                   uint32_t index)
{
    return &lines->chunks[index >> MC_HTAB_CHUNK_SHIFT][index & (MC_HTAB_CHUNK_LINES - 1)];
}

/** False: no memory. */
bool mc_htab_lines_init(struct mc_htab_lines *lines) MC_MUST_CHECK;
void mc_htab_lines_fini(struct mc_htab_lines *lines);
/**
 * Make sure that line number `count` exists; what is in it is not defined. Pointers to lines below
 * MC_HTAB_CHUNK_LINES become invalid. False: no memory, or the limit; nothing changed.
 */
bool mc_htab_lines_reserve(struct mc_htab_lines *lines) MC_MUST_CHECK;
size_t mc_htab_lines_bytes(const struct mc_htab_lines *lines);

#endif
