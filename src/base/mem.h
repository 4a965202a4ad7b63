/*
 * The door to malloc. All heap memory of the project comes through here, so that tests can fail
 * the n-th allocation and ask whether everything was given back. Also the arena, from which a
 * request takes all its memory and gives it back in one call.
 */
#ifndef MC_BASE_MEM_H
#define MC_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

/** malloc. NULL when there is none (or a test asked for that). Any thread. len 0 takes 1. */
void *mc_malloc(size_t len) MC_MUST_CHECK;
/** Zeroed memory for @p count elements of @p len; NULL also when the product overflows. */
void *mc_calloc(size_t count, size_t len) MC_MUST_CHECK;
/** realloc; on NULL the old block is untouched. */
void *mc_realloc(void *ptr, size_t len) MC_MUST_CHECK;
/** Memory at a multiple of @p align (a power of two). Freed by mc_free(). */
void *mc_aligned_alloc(size_t align, size_t len) MC_MUST_CHECK;
/** A copy of @p len bytes plus a NUL. */
char *mc_strndup(const char *text, size_t len) MC_MUST_CHECK;
/** Accepts NULL. */
void mc_free(void *ptr);

/** Blocks that are allocated now, for leak checks in tests. */
int64_t mc_mem_live_count(void);

/** Let the n-th allocation from now fail (0 is the next), once. Negative: never. Tests only. */
void mc_mem_fail_after(int64_t n);

/**
 * Keep freed memory for the next allocations: giving a large run of pages back to the kernel stops
 * the thread that happened to free the last block for tens of milliseconds. For daemons with a
 * latency to keep, before their first thread; the process then never shrinks.
 */
void mc_mem_keep_freed(void);

/* ---- arena ------------------------------------------------------------------------------- */

struct mc_arena_chunk;

/**
 * Bump allocator. init does not allocate; the first chunk comes with the first use. reset keeps at
 * most one chunk for the next request. One owner thread. Memory is aligned to 16 bytes and not
 * zeroed; len 0 takes 16 bytes, so that NULL always means failure.
 */
struct mc_arena {
    struct mc_arena_chunk *chunks; /* newest first; owned */
    char *next, *end;              /* free part of the newest chunk */
    size_t total;                  /* bytes of all chunks */
    size_t total_max;              /* refuse to grow beyond; 0 is no bound */
    size_t keep_max;               /* bytes that reset may keep */
    size_t first_len;              /* of the next first chunk, at least */
};

void mc_arena_init(struct mc_arena *arena, size_t total_max);
void mc_arena_fini(struct mc_arena *arena);
/**
 * Let reset keep a chunk of up to @p keep_max bytes, and not just 64 KiB: for an arena whose next
 * use is much like the last, and soon. Given back each time, its memory would come back from the
 * kernel page by page.
 */
void mc_arena_keep(struct mc_arena *arena, size_t keep_max);
/** Everything given out becomes invalid. Of what several chunks held, the next first chunk will
 * have the size, if it may be kept. */
void mc_arena_reset(struct mc_arena *arena);
void *mc_arena_alloc_slow_(struct mc_arena *arena, size_t len) MC_MUST_CHECK;

static inline void *mc_arena_bump_(struct mc_arena *arena, size_t len)
{
    size_t need = (len + 15u) & ~(size_t)15u;
    void *ptr = arena->next;

    /* need is 0 when len is 0 or so large that the rounding wrapped: both are the slow path's. */
    if (MC_UNLIKELY(need - 1u >= (size_t)(arena->end - arena->next))) {
        return mc_arena_alloc_slow_(arena, len);
    }
    arena->next += need;
    return ptr;
}

/* Under the address sanitizer blocks stand apart and what lies between them is poisoned; otherwise
 * a read past one block would silently find the next. */
#if defined(__SANITIZE_ADDRESS__)
#define MC_ARENA_GUARDED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MC_ARENA_GUARDED 1
#endif
#endif

#ifdef MC_ARENA_GUARDED
void *mc_arena_alloc(struct mc_arena *arena, size_t len) MC_MUST_CHECK;
#else
static inline void *mc_arena_alloc(struct mc_arena *arena, size_t len)
{
    return mc_arena_bump_(arena, len);
}
#endif

/** Array of @p count elements; NULL when the product overflows or the arena is full. */
void *mc_arena_array(struct mc_arena *arena, size_t count, size_t len) MC_MUST_CHECK;

#endif
