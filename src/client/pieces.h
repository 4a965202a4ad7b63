/* A value's memory as ranges laid end to end, and cutting it into the extents of a replica. */
#ifndef MC_CLIENT_PIECES_H
#define MC_CLIENT_PIECES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/mem.h"

/* Walks a value from its first byte to its last. */
struct mc_piece_cursor {
    const struct iovec *pieces; /* borrowed */
    size_t left;                /* pieces not used up, the current one included */
    uint64_t offset;            /* bytes of the current piece that are used up */
};

static inline struct mc_piece_cursor mc_piece_cursor(const struct iovec *pieces, size_t count)
{
    return (struct mc_piece_cursor){.pieces = pieces, .left = count};
}

/**
 * The next @p len bytes as ranges in @p arena; none if len is 0. There must be that many.
 *
 * @retval ENOMEM  the cursor is unchanged
 */
mooncake_err mc_piece_cursor_cut(struct mc_piece_cursor *cursor, uint64_t len,
                                 struct mc_arena *arena, struct iovec **out_pieces,
                                 unsigned *out_count) MC_MUST_CHECK;

#endif
