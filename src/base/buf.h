/*
 * A growable run of bytes that one side fills at the end and another empties from the front.
 * Used for encoding messages and for unparsed input. One owner thread.
 */
#ifndef MC_BASE_BUF_H
#define MC_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct mc_buf {
    uint8_t *data; /* owned */
    size_t start;  /* first byte that is still of interest */
    size_t end;    /* one past the last byte */
    size_t cap;    /* bytes at data */
};

void mc_buf_init(struct mc_buf *buf);
/** Accepts a buffer after init or fini. */
void mc_buf_fini(struct mc_buf *buf);

static inline size_t mc_buf_len(const struct mc_buf *buf)
{
    return buf->end - buf->start;
}

static inline uint8_t *mc_buf_bytes(const struct mc_buf *buf)
{
    return buf->data == NULL ? NULL : buf->data + buf->start; /* NULL + 0 is undefined */
}

/** Make room for @p len more bytes at the end (moving or growing). ENOMEM leaves it unchanged. */
mooncake_err mc_buf_reserve(struct mc_buf *buf, size_t len) MC_MUST_CHECK;
/** Append @p len bytes. */
mooncake_err mc_buf_append(struct mc_buf *buf, const void *bytes, size_t len) MC_MUST_CHECK;
/** Forget @p len bytes at the front. */
void mc_buf_consume(struct mc_buf *buf, size_t len);
/** Forget all; give memory beyond @p keep_max bytes back. */
void mc_buf_clear(struct mc_buf *buf, size_t keep_max);

#endif
