/*
 * The pipelines. A batch of requests goes out in as few system calls as its size allows, then the
 * answers are read in order: their lines through a buffer, large values straight to their places.
 *
 *   Redis      RESP2, https://redis.io/docs/reference/protocol-spec
 *   memcached  its text protocol, doc/protocol.txt of its sources
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rival_impl.h"

#define LINE_LEN_MAX 160u
#define PARTS_MAX 512u /* of one writev; each request has at most three */

static bool fail(char *why, size_t why_len, const char *what, const char *how)
{
    (void)snprintf(why, why_len, "%s: %.100s", what, how);
    return false;
}

/* ---- requests out ------------------------------------------------------------------------ */

static bool write_parts(struct mc_rival *rival, struct iovec *parts, size_t count)
{
    while (count > 0) {
        ssize_t done = writev(rival->fd, parts, (int)count);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        while (count > 0 && (size_t)done >= parts->iov_len) {
            done -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + done;
            parts->iov_len -= (size_t)done;
        }
    }
    return true;
}

static int set_line(const struct mc_rival *rival, char *line, const char *key, uint64_t len)
{
    if (mc_rival_is_redis(rival)) {
        return snprintf(line, LINE_LEN_MAX, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%llu\r\n",
                        strlen(key), key, (unsigned long long)len);
    }
    return snprintf(line, LINE_LEN_MAX, "set %s 0 0 %llu\r\n", key, (unsigned long long)len);
}

static int get_line(const struct mc_rival *rival, char *line, const char *key)
{
    if (mc_rival_is_redis(rival)) {
        return snprintf(line, LINE_LEN_MAX, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", strlen(key), key);
    }
    return snprintf(line, LINE_LEN_MAX, "get %s\r\n", key);
}

/* @p values NULL: gets. */
static bool send_requests(struct mc_rival *rival, const char *const *keys,
                          const void *const *values, uint64_t len, size_t count)
{
    static char lines[MC_RIVAL_KEYS_MAX][LINE_LEN_MAX];
    static char end[] = "\r\n";
    struct iovec parts[PARTS_MAX];
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        int line_len = values == NULL ? get_line(rival, lines[i], keys[i])
                                      : set_line(rival, lines[i], keys[i], len);

        if (line_len < 0 || (unsigned)line_len >= LINE_LEN_MAX) {
            errno = ENAMETOOLONG;
            return false;
        }
        parts[used++] = (struct iovec){lines[i], (size_t)line_len};
        if (values != NULL) {
            union {
                const void *in;
                void *out;
            } value = {values[i]}; /* writev only reads it */

            parts[used++] = (struct iovec){value.out, len};
            parts[used++] = (struct iovec){end, 2};
        }
        if (used + 3 > PARTS_MAX || i + 1 == count) {
            if (!write_parts(rival, parts, used)) {
                return false;
            }
            used = 0;
        }
    }
    return true;
}

/* ---- answers in -------------------------------------------------------------------------- */

static bool fill(struct mc_rival *rival)
{
    ssize_t got;

    if (rival->at > 0) {
        memmove(rival->buffer, rival->buffer + rival->at, rival->len - rival->at);
        rival->len -= rival->at;
        rival->at = 0;
    }
    if (rival->len == MC_RIVAL_BUFFER_LEN) {
        errno = EMSGSIZE;
        return false;
    }
    do {
        got = read(rival->fd, rival->buffer + rival->len, MC_RIVAL_BUFFER_LEN - rival->len);
    } while (got < 0 && errno == EINTR);
    if (got == 0) {
        errno = ECONNRESET;
    }
    if (got <= 0) {
        return false;
    }
    rival->len += (size_t)got;
    return true;
}

/* The next line without its end, in @p line. */
static bool take_line(struct mc_rival *rival, char *line)
{
    size_t looked = 0;

    for (;;) {
        char *start = rival->buffer + rival->at;
        char *newline = memchr(start + looked, '\n', rival->len - rival->at - looked);

        if (newline != NULL) {
            size_t len = (size_t)(newline - start);
            size_t kept = len >= LINE_LEN_MAX ? LINE_LEN_MAX - 1 : len;

            memcpy(line, start, kept);
            line[kept > 0 && line[kept - 1] == '\r' ? kept - 1 : kept] = '\0';
            rival->at += len + 1;
            return true;
        }
        looked = rival->len - rival->at;
        if (!fill(rival)) {
            return false;
        }
    }
}

static bool take_bytes(struct mc_rival *rival, char *to, uint64_t len)
{
    size_t ready = rival->len - rival->at;
    size_t from_buffer = ready < len ? ready : len;

    memcpy(to, rival->buffer + rival->at, from_buffer);
    rival->at += from_buffer;
    to += from_buffer;
    len -= from_buffer;
    while (len >= MC_RIVAL_BUFFER_LEN / 4) { /* straight to its place */
        ssize_t got = read(rival->fd, to, len);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            errno = got == 0 ? ECONNRESET : errno;
            return false;
        }
        to += got;
        len -= (uint64_t)got;
    }
    while (len > 0) {
        size_t part;

        if (rival->at == rival->len && !fill(rival)) {
            return false;
        }
        part = rival->len - rival->at < len ? rival->len - rival->at : len;
        memcpy(to, rival->buffer + rival->at, part);
        rival->at += part;
        to += part;
        len -= part;
    }
    return true;
}

static bool take_value(struct mc_rival *rival, const char *key, char *to, uint64_t len, char *why,
                       size_t why_len)
{
    char line[LINE_LEN_MAX], expected[LINE_LEN_MAX];

    if (mc_rival_is_redis(rival)) {
        (void)snprintf(expected, sizeof(expected), "$%llu", (unsigned long long)len);
    } else {
        (void)snprintf(expected, sizeof(expected), "VALUE %s 0 %llu", key, (unsigned long long)len);
    }
    if (!take_line(rival, line)) {
        return fail(why, why_len, "get", strerror(errno));
    }
    if (strcmp(line, expected) != 0) {
        return fail(why, why_len, "get is answered", line);
    }
    if (!take_bytes(rival, to, len) || !take_line(rival, line) ||
        (!mc_rival_is_redis(rival) && !take_line(rival, line))) {
        return fail(why, why_len, "get", strerror(errno));
    }
    return true;
}

/* ---- calls ------------------------------------------------------------------------------- */

bool mc_rival_set(struct mc_rival *rival, const char *const *keys, const void *const *values,
                  uint64_t len, size_t count, char *why, size_t why_len)
{
    const char *stored = mc_rival_is_redis(rival) ? "+OK" : "STORED";
    char line[LINE_LEN_MAX];

    if (count > MC_RIVAL_KEYS_MAX || !send_requests(rival, keys, values, len, count)) {
        return fail(why, why_len, "set", strerror(errno));
    }
    for (size_t i = 0; i < count; i++) {
        if (!take_line(rival, line)) {
            return fail(why, why_len, "set", strerror(errno));
        }
        if (strcmp(line, stored) != 0) {
            return fail(why, why_len, "set is answered", line);
        }
    }
    return true;
}

bool mc_rival_get(struct mc_rival *rival, const char *const *keys, void *const *values,
                  uint64_t len, size_t count, char *why, size_t why_len)
{
    if (count > MC_RIVAL_KEYS_MAX || !send_requests(rival, keys, NULL, 0, count)) {
        return fail(why, why_len, "get", strerror(errno));
    }
    for (size_t i = 0; i < count; i++) {
        if (!take_value(rival, keys[i], values[i], len, why, why_len)) {
            return false;
        }
    }
    return true;
}
