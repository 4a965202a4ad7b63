/*
 * Memory that is lent to the pool: a sealed memfd, mapped whole, touched page by page as it is
 * used. A memfd and not plain memory, so that a peer on this host can map it too.
 */
#ifndef MC_STORE_SEGMENT_H
#define MC_STORE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct mc_segment {
    uint8_t *base; /* owned mapping of len bytes */
    uint64_t len;  /* whole pages, at least what was asked for */
    int memfd;     /* owned; sealed against shrinking and growing */
};

/**
 * Make a segment of @p len bytes.
 *
 * @param name        shows in /proc/PID/maps; cut to what the kernel takes
 * @param huge_pages  take 2 MiB pages of the hugetlb pool (len is rounded up to them); without it
 *                    the kernel is asked for transparent huge pages
 * @retval EINVAL  len is below MC_SEGMENT_LEN_MIN or cannot be mapped on this machine
 * @retval ENOMEM  the kernel refuses the mapping, or has too few free huge pages
 */
mooncake_err mc_segment_open(const char *name, uint64_t len, bool huge_pages,
                             struct mc_segment *out) MC_MUST_CHECK;
/** Unmap and close. Accepts a segment that was never opened if it is all zero and memfd -1. */
void mc_segment_close(struct mc_segment *segment);

#endif
