/*
 * A stream and a loop without a kernel behind them, for fuzzing what stands on them: the target is
 * linked with these instead of io/. One thread; nothing happens by itself.
 */
#ifndef MC_TESTS_FUZZ_FAKE_IO_H
#define MC_TESTS_FUZZ_FAKE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/stream.h"

/* Small numbers that follow from the input, to cut bytes into reads and sends. */
struct fake_random {
    uint64_t state;
};
uint64_t fake_random(struct fake_random *random, uint64_t below);

/* The only loop. */
struct mc_loop *fake_loop(void);
/** Run what was posted, and the ends of closed streams. */
void fake_loop_run(void);
/** The newest stream that was made and is open; NULL: none. */
struct mc_stream *fake_stream_newest(void);

/** The connection of a client's stream is up. */
void fake_stream_connected(struct mc_stream *stream);
/** Let bytes come, cut into reads. Returns how many were taken: less than @p len if the stream is
 * paused or closed. */
size_t fake_stream_feed(struct mc_stream *stream, const uint8_t *bytes, size_t len,
                        struct fake_random *random);
/** The peer takes at most @p len of the bytes that are queued. Each of them is read. */
void fake_stream_take(struct mc_stream *stream, size_t len);
bool fake_stream_is_open(const struct mc_stream *stream);
/** Sends that have not ended. */
size_t fake_stream_sends(const struct mc_stream *stream);

#endif
