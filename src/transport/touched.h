/*
 * The page table of a mapping, filled by the stretch before its bytes are used. To touch fresh
 * memory page by page is a fault for each 4 KiB, which takes longer than to copy them; what asking
 * by the stretch saves is in docs/rationale.md. Which stretches have been asked for is remembered,
 * so that the question is one look at a bit afterwards. Thread-safe.
 */
#ifndef MC_TRANSPORT_TOUCHED_H
#define MC_TRANSPORT_TOUCHED_H

#include <stdint.h>

/* What is asked for at once: 64 faults saved, and no more memory taken than a few values need. */
#define MC_TOUCHED_STRETCH_LEN ((uint64_t)256 << 10)

struct mc_touched;

/** For a mapping of @p len bytes at @p base (borrowed). NULL without memory: everything works then,
 * by a fault a page. */
struct mc_touched *mc_touched_create(uint8_t *base, uint64_t len);
/** NULL is accepted. */
void mc_touched_destroy(struct mc_touched **touched);

/**
 * These bytes are about to be read or written: have the kernel enter their stretches, with pages
 * that can be written, if that was not done yet. Pages that it cannot give fault later, as they
 * would without this; the call tells nobody.
 *
 * @param touched  NULL: nothing is done
 * @param offset   with @p len inside the mapping
 */
void mc_touched_range(struct mc_touched *touched, uint64_t offset, uint64_t len);

#endif
