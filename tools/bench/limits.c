/* Memory, and the whole. */
#include "limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#if defined(__x86_64__) /* the widest vectors of this machine, as the client library takes them */
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
#define hash_once XXH3_64bits_dispatch
#define hash_more XXH3_64bits_update_dispatch
#else
#define hash_once XXH3_64bits
#define hash_more XXH3_64bits_update
#endif

#include "limits_impl.h"
#include "timing.h"

#define MEMORY_LEN ((size_t)128 << 20) /* beyond any cache */
#define FUSED_BLOCK ((size_t)16 << 10)
#define PASSES 3

unsigned char *mc_limits_memory(size_t len)
{
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED) {
        return NULL;
    }
    memset(at, 0x5a, len); /* touch every page before the clock runs */
    return at;
}

/* ---- memory ------------------------------------------------------------------------------ */

static uint64_t pass_memcpy(unsigned char *to, const unsigned char *from)
{
    memcpy(to, from, MEMORY_LEN);
    return to[MEMORY_LEN / 2];
}

static uint64_t pass_fused(unsigned char *to, const unsigned char *from)
{
    XXH3_state_t *state = XXH3_createState();
    uint64_t sum;

    if (state == NULL) {
        return 0;
    }
    (void)XXH3_64bits_reset(state);
    for (size_t at = 0; at < MEMORY_LEN; at += FUSED_BLOCK) {
        memcpy(to + at, from + at, FUSED_BLOCK);
        (void)hash_more(state, to + at, FUSED_BLOCK);
    }
    sum = XXH3_64bits_digest(state);
    (void)XXH3_freeState(state);
    return sum;
}

static uint64_t pass_xxh3(unsigned char *to, const unsigned char *from)
{
    (void)to;
    return hash_once(from, MEMORY_LEN);
}

/* The best of some passes: what the machine can do, not what else it did. */
static double best_rate(uint64_t (*pass)(unsigned char *to, const unsigned char *from),
                        unsigned char *to, const unsigned char *from)
{
    static volatile uint64_t sink;
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < PASSES; i++) {
        uint64_t start = mc_now_ns();
        uint64_t took;

        sink = pass(to, from);
        took = mc_now_ns() - start;
        best = took < best ? took : best;
    }
    (void)sink;
    return (double)MEMORY_LEN * 1e9 / (double)best;
}

/* Kept for later measurements; not a forked worker's. */
static unsigned char *memory_from, *memory_to;

static bool have_memory(void)
{
    if (memory_from == NULL) {
        memory_from = mc_limits_memory(MEMORY_LEN);
    }
    if (memory_to == NULL) {
        memory_to = mc_limits_memory(MEMORY_LEN);
    }
    return memory_from != NULL && memory_to != NULL &&
           madvise(memory_from, MEMORY_LEN, MADV_DONTFORK) == 0 &&
           madvise(memory_to, MEMORY_LEN, MADV_DONTFORK) == 0;
}

static bool measure_memory(struct mc_limits *out)
{
    if (!have_memory()) {
        return false;
    }
    out->memcpy_rate = best_rate(pass_memcpy, memory_to, memory_from);
    out->fused_rate = best_rate(pass_fused, memory_to, memory_from);
    out->xxh3_rate = best_rate(pass_xxh3, memory_to, memory_from);
    return true;
}

bool mc_limits_measure(struct mc_limits *out, char *why, size_t why_len)
{
    struct mc_limits limits = {0};
    const char *what = "256 MiB for measuring memory";

    if (measure_memory(&limits)) {
        what = "loopback sockets for measuring";
        if (mc_limits_sockets(&limits)) {
            limits.measured = true;
            *out = limits;
            return true;
        }
    }
    (void)snprintf(why, why_len, "%s: %s", what, strerror(errno));
    return false;
}

void mc_limits_look(unsigned kinds, struct mc_limits *out)
{
    *out = (struct mc_limits){0};
    if ((kinds & MC_LIMITS_COPY) != 0 && have_memory()) {
        out->fused_rate = best_rate(pass_fused, memory_to, memory_from);
    }
    mc_limits_sockets_look(kinds, out);
}
