/* Cutting ranges out of ranges. */
#include "client/pieces.h"

/* How many pieces the next @p len bytes touch. */
static unsigned count_pieces(const struct mc_piece_cursor *cursor, uint64_t len)
{
    uint64_t skip = cursor->offset;
    unsigned count = 0;

    for (size_t i = 0; len > 0; i++) {
        uint64_t have;

        MC_ASSERT(i < cursor->left);
        have = cursor->pieces[i].iov_len - skip;
        skip = 0;
        count += have > 0 ? 1u : 0u;
        len -= have < len ? have : len;
    }
    return count;
}

mooncake_err mc_piece_cursor_cut(struct mc_piece_cursor *cursor, uint64_t len,
                                 struct mc_arena *arena, struct iovec **out_pieces,
                                 unsigned *out_count)
{
    unsigned count = count_pieces(cursor, len);
    struct iovec *pieces = mc_arena_array(arena, count + 1u, sizeof(*pieces));
    unsigned filled = 0;

    if (pieces == NULL) {
        return MOONCAKE_ENOMEM;
    }
    while (len > 0) {
        const struct iovec *from = cursor->pieces;
        uint64_t have = from->iov_len - cursor->offset;
        uint64_t take = have < len ? have : len;

        if (take > 0) {
            MC_ASSERT(filled < count);
            pieces[filled].iov_base = (char *)from->iov_base + cursor->offset;
            pieces[filled].iov_len = (size_t)take;
            filled++;
        }
        len -= take;
        cursor->offset += take;
        if (cursor->offset == from->iov_len) {
            cursor->pieces++;
            cursor->left--;
            cursor->offset = 0;
        }
    }
    *out_pieces = pieces;
    *out_count = filled;
    return MOONCAKE_OK;
}
