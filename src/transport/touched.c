/* A bit for each stretch, and the call that fills page tables. */
#include "transport/touched.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

#ifndef MADV_POPULATE_WRITE /* Linux 5.14; older kernels refuse it, and nothing is won or lost */
#define MADV_POPULATE_WRITE 23
#endif

#define WORD_BITS 64u

struct mc_touched {
    uint8_t *base;
    uint64_t len;
    _Atomic uint64_t bits[];
};

struct mc_touched *mc_touched_create(uint8_t *base, uint64_t len)
{
    uint64_t words = len / MC_TOUCHED_STRETCH_LEN / WORD_BITS + 1;
    struct mc_touched *touched;

    touched = mc_calloc(1, sizeof(*touched) + words * sizeof(touched->bits[0]));
    if (touched != NULL) {
        touched->base = base;
        touched->len = len;
    }
    return touched;
}

void mc_touched_destroy(struct mc_touched **touched)
{
    mc_free(*touched);
    *touched = NULL;
}

static bool is_asked(const struct mc_touched *touched, uint64_t stretch)
{
    uint64_t word = atomic_load_explicit(&touched->bits[stretch / WORD_BITS], memory_order_relaxed);

    return (word >> stretch % WORD_BITS & 1) != 0;
}

static void note(struct mc_touched *touched, uint64_t stretch)
{
    (void)atomic_fetch_or_explicit(&touched->bits[stretch / WORD_BITS],
                                   (uint64_t)1 << stretch % WORD_BITS, memory_order_relaxed);
}

/* Enter the whole pages of the stretches from @p first to before @p end. */
static void enter(const struct mc_touched *touched, uint64_t first, uint64_t end)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t base = (uintptr_t)touched->base;
    uint64_t from_offset = first * MC_TOUCHED_STRETCH_LEN;
    uint64_t to_offset = end * MC_TOUCHED_STRETCH_LEN;
    uintptr_t from, to;

    if (to_offset > touched->len) {
        to_offset = touched->len;
    }
    from = (base + from_offset + page - 1) / page * page;
    to = (base + to_offset) / page * page;
    if (from < to) {
        (void)madvise(touched->base + (from - base), to - from, MADV_POPULATE_WRITE);
    }
}

void mc_touched_range(struct mc_touched *touched, uint64_t offset, uint64_t len)
{
    uint64_t stretch, end;

    if (touched == NULL || len == 0) {
        return;
    }
    MC_ASSERT(offset < touched->len && len <= touched->len - offset);
    stretch = offset / MC_TOUCHED_STRETCH_LEN;
    end = (offset + len - 1) / MC_TOUCHED_STRETCH_LEN + 1;
    while (stretch < end) {
        uint64_t first = stretch;

        while (stretch < end && !is_asked(touched, stretch)) {
            stretch++;
        }
        if (first < stretch) {
            enter(touched, first, stretch);
        }
        for (; first < stretch; first++) {
            note(touched, first);
        }
        while (stretch < end && is_asked(touched, stretch)) {
            stretch++;
        }
    }
}
