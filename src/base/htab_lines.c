/* Chunks of cache lines by index. */
#include "base/htab_lines.h"

#include <string.h>

#include "base/mem.h"

#define CHUNK_LINES_FIRST 16u

static bool first_chunk_grow(struct mc_htab_lines *lines)
{
    uint32_t cap = lines->cap * 2;
    struct mc_htab_line *bigger =
        mc_aligned_alloc(MC_HTAB_LINE_LEN, (size_t)cap * MC_HTAB_LINE_LEN);

    if (bigger == NULL) {
        return false;
    }
    memcpy(bigger, lines->chunks[0], (size_t)lines->count * MC_HTAB_LINE_LEN);
    mc_free(lines->chunks[0]);
    lines->chunks[0] = bigger;
    lines->cap = cap;
    return true;
}

static bool chunk_add(struct mc_htab_lines *lines)
{
    uint32_t chunk = lines->cap >> MC_HTAB_CHUNK_SHIFT;
    size_t len = (size_t)MC_HTAB_CHUNK_LINES * MC_HTAB_LINE_LEN;
    struct mc_htab_line *fresh;

    if (chunk == lines->chunks_cap) {
        uint32_t cap = lines->chunks_cap * 2;
        struct mc_htab_line **bigger =
            mc_realloc(lines->chunks, cap * sizeof(struct mc_htab_line *));

        if (bigger == NULL) {
            return false;
        }
        lines->chunks = bigger;
        lines->chunks_cap = cap;
    }
    fresh = mc_aligned_alloc(len, len);
    if (fresh == NULL) {
        return false;
    }
    lines->chunks[chunk] = fresh;
    lines->cap += MC_HTAB_CHUNK_LINES;
    return true;
}

bool mc_htab_lines_reserve(struct mc_htab_lines *lines)
{
    if (MC_LIKELY(lines->count < lines->cap)) {
        return true;
    }
    if (lines->count >= MC_HTAB_LINES_MAX) {
        return false;
    }
    return lines->cap < MC_HTAB_CHUNK_LINES ? first_chunk_grow(lines) : chunk_add(lines);
}

bool mc_htab_lines_init(struct mc_htab_lines *lines)
{
    struct mc_htab_line *first;

    memset(lines, 0, sizeof(*lines));
    lines->chunks = mc_malloc(sizeof(struct mc_htab_line *));
    if (lines->chunks == NULL) {
        return false;
    }
    first = mc_aligned_alloc(MC_HTAB_LINE_LEN, (size_t)CHUNK_LINES_FIRST * MC_HTAB_LINE_LEN);
    if (first == NULL) {
        mc_free(lines->chunks);
        lines->chunks = NULL;
        return false;
    }
    lines->chunks[0] = first;
    lines->chunks_cap = 1;
    lines->cap = CHUNK_LINES_FIRST;
    return true;
}

void mc_htab_lines_fini(struct mc_htab_lines *lines)
{
    uint32_t chunks = (lines->cap + MC_HTAB_CHUNK_LINES - 1) >> MC_HTAB_CHUNK_SHIFT;

    for (uint32_t i = 0; i < chunks; i++) {
        mc_free(lines->chunks[i]);
    }
    mc_free(lines->chunks);
}

size_t mc_htab_lines_bytes(const struct mc_htab_lines *lines)
{
    return (size_t)lines->cap * MC_HTAB_LINE_LEN +
           lines->chunks_cap * sizeof(struct mc_htab_line *);
}
