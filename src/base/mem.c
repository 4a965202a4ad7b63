/* Counting wrapper around malloc, and the arena. The only file that calls malloc. */
#include "base/mem.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef MC_ARENA_GUARDED
#include <sanitizer/asan_interface.h>
#endif

#define CHUNK_LEN_MIN ((size_t)64 << 10)
#define CHUNK_LEN_MAX ((size_t)4 << 20)

static _Atomic int64_t live_count;
static _Atomic int64_t fail_after = -1;

static bool must_fail(void)
{
    int64_t left = atomic_load_explicit(&fail_after, memory_order_relaxed);

    if (MC_LIKELY(left < 0)) {
        return false;
    }
    return atomic_fetch_sub_explicit(&fail_after, 1, memory_order_relaxed) == 0;
}

static void *counted(void *ptr)
{
    if (ptr != NULL) {
        (void)atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    }
    return ptr;
}

void *mc_malloc(size_t len)
{
    return must_fail() ? NULL : counted(malloc(len == 0 ? 1 : len));
}

void *mc_calloc(size_t count, size_t len)
{
    if (must_fail() || (len != 0 && count > SIZE_MAX / len)) {
        return NULL;
    }
    return counted(calloc(count == 0 ? 1 : count, len == 0 ? 1 : len));
}

void *mc_realloc(void *ptr, size_t len)
{
    void *fresh;

    if (ptr == NULL) {
        return mc_malloc(len);
    }
    if (must_fail()) {
        return NULL;
    }
    fresh = realloc(ptr, len == 0 ? 1 : len);
    return fresh;
}

void *mc_aligned_alloc(size_t align, size_t len)
{
    size_t rounded = (len + align - 1) & ~(align - 1);

    MC_ASSERT(align != 0 && (align & (align - 1)) == 0);
    if (must_fail() || rounded < len) {
        return NULL;
    }
    return counted(aligned_alloc(align, rounded == 0 ? align : rounded));
}

char *mc_strndup(const char *text, size_t len)
{
    char *copy = len == SIZE_MAX ? NULL : mc_malloc(len + 1);

    if (copy != NULL) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

void mc_free(void *ptr)
{
    if (ptr != NULL) {
        (void)atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
        free(ptr);
    }
}

int64_t mc_mem_live_count(void)
{
    return atomic_load_explicit(&live_count, memory_order_relaxed);
}

void mc_mem_fail_after(int64_t n)
{
    atomic_store_explicit(&fail_after, n, memory_order_relaxed);
}

void mc_mem_keep_freed(void)
{
#ifdef __GLIBC__
    /* Setting one turns off glibc's own moving of both, so the other must be set too. */
    (void)mallopt(M_TRIM_THRESHOLD, -1); /* as an unsigned number: never */
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
#endif
}

#ifdef MC_ARENA_GUARDED
#define GUARD_LEN 16u

/* What nobody may touch until it is given out. */
static void guard(const char *bytes, size_t len)
{
    if (len > 0) {
        __asan_poison_memory_region(bytes, len);
    }
}

void *mc_arena_alloc(struct mc_arena *arena, size_t len)
{
    char *ptr = len > SIZE_MAX - GUARD_LEN ? NULL : mc_arena_bump_(arena, len + GUARD_LEN);

    if (ptr != NULL) {
        __asan_unpoison_memory_region(ptr, len);
    }
    return ptr;
}
#else
static void guard(const char *bytes, size_t len)
{
    (void)bytes;
    (void)len;
}
#endif

struct mc_arena_chunk {
    struct mc_arena_chunk *older;
    size_t len; /* bytes behind this header */
};

static char *chunk_bytes(struct mc_arena_chunk *chunk)
{
    return (char *)chunk + sizeof(*chunk);
}

static void free_chunks(struct mc_arena *arena)
{
    while (arena->chunks != NULL) {
        struct mc_arena_chunk *older = arena->chunks->older;

        mc_free(arena->chunks);
        arena->chunks = older;
    }
}

void mc_arena_init(struct mc_arena *arena, size_t total_max)
{
    *arena = (struct mc_arena){.total_max = total_max, .keep_max = CHUNK_LEN_MIN};
}

void mc_arena_keep(struct mc_arena *arena, size_t keep_max)
{
    arena->keep_max = keep_max > CHUNK_LEN_MIN ? keep_max : CHUNK_LEN_MIN;
}

void mc_arena_fini(struct mc_arena *arena)
{
    free_chunks(arena);
    *arena = (struct mc_arena){.total_max = arena->total_max, .keep_max = arena->keep_max};
}

/* Take the newest chunk that may be kept out of the list; NULL: none. */
static struct mc_arena_chunk *take_kept(struct mc_arena *arena)
{
    struct mc_arena_chunk **link = &arena->chunks;

    while (*link != NULL && (*link)->len > arena->keep_max) {
        link = &(*link)->older;
    }
    if (*link != NULL) {
        struct mc_arena_chunk *kept = *link;

        *link = kept->older;
        kept->older = NULL;
        return kept;
    }
    return NULL;
}

void mc_arena_reset(struct mc_arena *arena)
{
    struct mc_arena_chunk *kept = NULL;

    if (arena->chunks != NULL && arena->chunks->older != NULL && arena->total <= arena->keep_max) {
        arena->first_len = arena->total; /* one chunk for all, from the next use on */
    } else {
        kept = take_kept(arena);
    }
    free_chunks(arena);
    arena->chunks = kept;
    arena->next = kept == NULL ? NULL : chunk_bytes(kept);
    arena->end = kept == NULL ? NULL : chunk_bytes(kept) + kept->len;
    arena->total = kept == NULL ? 0 : kept->len;
    guard(arena->next, arena->total);
}

void *mc_arena_alloc_slow_(struct mc_arena *arena, size_t len)
{
    size_t need = (len + (len == 0) + 15u) & ~(size_t)15u;
    size_t chunk_len = arena->total < CHUNK_LEN_MIN ? CHUNK_LEN_MIN : arena->total;
    size_t room = arena->total_max == 0 ? SIZE_MAX : arena->total_max;
    struct mc_arena_chunk *chunk;

    room = room < arena->total ? 0 : room - arena->total;
    if (len == 0 && need <= (size_t)(arena->end - arena->next)) {
        arena->next += need;
        return arena->next - need;
    }
    if (need < len || need > room) {
        return NULL;
    }
    chunk_len = chunk_len > CHUNK_LEN_MAX ? CHUNK_LEN_MAX : chunk_len;
    chunk_len = arena->total == 0 && chunk_len < arena->first_len ? arena->first_len : chunk_len;
    /* The last chunk may be smaller than others, so that all of total_max can be used. */
    chunk_len = chunk_len > room ? room : chunk_len;
    chunk_len = chunk_len < need ? need : chunk_len;
    if (chunk_len > SIZE_MAX - sizeof(*chunk)) {
        return NULL;
    }
    chunk = mc_malloc(sizeof(*chunk) + chunk_len);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->len = chunk_len;
    chunk->older = arena->chunks;
    arena->chunks = chunk;
    arena->total += chunk_len;
    arena->next = chunk_bytes(chunk) + need;
    arena->end = chunk_bytes(chunk) + chunk_len;
    guard(chunk_bytes(chunk), chunk_len);
    return chunk_bytes(chunk);
}

void *mc_arena_array(struct mc_arena *arena, size_t count, size_t len)
{
    if (len != 0 && count > SIZE_MAX / len) {
        return NULL;
    }
    return mc_arena_alloc(arena, count * len);
}
