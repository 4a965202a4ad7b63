/* Growable byte buffer. */
#include "base/buf.h"

#include <string.h>

#include "base/mem.h"

#define CAP_MIN 256u

void mc_buf_init(struct mc_buf *buf)
{
    memset(buf, 0, sizeof(*buf));
}

void mc_buf_fini(struct mc_buf *buf)
{
    mc_free(buf->data);
    mc_buf_init(buf);
}

mooncake_err mc_buf_reserve(struct mc_buf *buf, size_t len)
{
    size_t held = mc_buf_len(buf);
    size_t cap = buf->cap < CAP_MIN ? CAP_MIN : buf->cap;
    uint8_t *data;

    if (len <= buf->cap - buf->end) {
        return MOONCAKE_OK;
    }
    if (len > SIZE_MAX / 2 - held) {
        return MOONCAKE_ENOMEM;
    }
    if (buf->start >= buf->cap / 2 && held + len <= buf->cap) {
        memmove(buf->data, buf->data + buf->start, held);
    } else {
        while (cap < held + len) {
            cap *= 2;
        }
        data = mc_malloc(cap);
        if (data == NULL) {
            return MOONCAKE_ENOMEM;
        }
        if (held > 0) {
            memcpy(data, buf->data + buf->start, held);
        }
        mc_free(buf->data);
        buf->data = data;
        buf->cap = cap;
    }
    buf->start = 0;
    buf->end = held;
    return MOONCAKE_OK;
}

mooncake_err mc_buf_append(struct mc_buf *buf, const void *bytes, size_t len)
{
    MC_TRY(mc_buf_reserve(buf, len));
    if (len > 0) {
        memcpy(buf->data + buf->end, bytes, len);
    }
    buf->end += len;
    return MOONCAKE_OK;
}

void mc_buf_consume(struct mc_buf *buf, size_t len)
{
    MC_ASSERT(len <= mc_buf_len(buf));
    buf->start += len;
    if (buf->start == buf->end) {
        buf->start = 0;
        buf->end = 0;
    }
}

void mc_buf_clear(struct mc_buf *buf, size_t keep_max)
{
    buf->start = 0;
    buf->end = 0;
    if (buf->cap > keep_max) {
        mc_buf_fini(buf);
    }
}
