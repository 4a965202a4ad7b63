/* See the header. */
#include "rdma/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_SECONDS 60u

static void *read_on(void *arg)
{
    struct stream *s = arg;

    while (s->err == MOONCAKE_OK && !s->wrong && !__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE)) {
        uint64_t got = 0;

        memset(s->bytes, 0xee, s->len);
        s->err = mooncake_get_into(s->client, s->key, s->bytes, s->len, 0, &got);
        if (s->err == MOONCAKE_OK) {
            s->wrong = got != s->len || !is_filled(s->bytes, s->len, s->seed);
        } else {
            (void)snprintf(s->detail, sizeof(s->detail), "%s", mooncake_last_error());
        }
        if (s->err == MOONCAKE_OK && !s->wrong) {
            (void)__atomic_add_fetch(&s->rounds, 1, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

struct goal {
    const struct stream *stream;
    unsigned rounds;
};

static bool has_come(void *arg)
{
    const struct goal *goal = arg;

    return __atomic_load_n(&goal->stream->rounds, __ATOMIC_ACQUIRE) >= goal->rounds;
}

void stream_await(struct stream *stream, unsigned rounds, unsigned seconds)
{
    struct goal goal = {.stream = stream};

    goal.rounds = __atomic_load_n(&stream->rounds, __ATOMIC_ACQUIRE) + rounds;
    if (!wait_until(has_come, &goal, seconds)) {
        stream_stop(stream); /* which tells of an error, if that is why */
        fail_msg("get %s: not %u times in %u s", stream->key, rounds, seconds);
    }
}

void stream_start(struct stream *stream, mooncake_client *client, const char *key, size_t len,
                  uint64_t seed, uint8_t *bytes)
{
    *stream = (struct stream){.client = client, .key = key, .len = len, .seed = seed};
    stream->own_bytes = bytes == NULL;
    stream->bytes = bytes != NULL ? bytes : malloc(len);
    assert_non_null(stream->bytes);
    assert_int_equal(pthread_create(&stream->thread, NULL, read_on, stream), 0);
    stream_await(stream, 1, START_SECONDS);
}

void stream_stop(struct stream *stream)
{
    __atomic_store_n(&stream->stop, true, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(stream->thread, NULL), 0);
    if (stream->own_bytes) {
        free(stream->bytes);
    }
    if (stream->err != MOONCAKE_OK) {
        fail_msg("get %s under way: %s: %s", stream->key, mooncake_err_name(stream->err),
                 stream->detail);
    }
    assert_false(stream->wrong);
}
