/* Gets of one value, one after the other, in a thread: what faults happen under. Each must succeed,
 * with every byte as put; stream_stop() says so. */
#ifndef MC_TESTS_RDMA_STREAM_H
#define MC_TESTS_RDMA_STREAM_H

#include <pthread.h>

#include "rdma/scene.h"

struct stream {
    mooncake_client *client;
    const char *key;
    size_t len;
    uint64_t seed;
    uint8_t *bytes; /* len of them */
    pthread_t thread;
    unsigned rounds; /* atomic, as the next */
    bool stop;
    mooncake_err err; /* of the last get */
    bool wrong;       /* it was OK with wrong bytes */
    char detail[300]; /* of an error */
    bool own_bytes;
};

/** Start to read @p key into memory of the stream's own (@p bytes NULL) or of the caller. Returns
 * when the value has come once. */
void stream_start(struct stream *stream, mooncake_client *client, const char *key, size_t len,
                  uint64_t seed, uint8_t *bytes);
/** Wait until it has come @p rounds times more, or fail after @p seconds. */
void stream_await(struct stream *stream, unsigned rounds, unsigned seconds);
/** End it; it must have met no error. */
void stream_stop(struct stream *stream);

#endif
