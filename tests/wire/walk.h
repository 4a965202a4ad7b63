/*
 * One walk per message for two jobs: fill it with seeded random contents, or only visit it. Either
 * way each field that was visited goes as bytes into `flat`, so that two messages are equal when
 * their flat bytes are. A field that a walk forgets is a hole in the tests: keep the walks in step
 * with wire/messages.h.
 */
#ifndef MC_TESTS_WIRE_WALK_H
#define MC_TESTS_WIRE_WALK_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/mem.h"
#include "wire/methods.h"

struct walk {
    bool make;        /* fill the message from seed */
    bool short_texts; /* of made texts: at most 15 bytes */
    uint64_t seed;
    size_t items_max; /* most elements of made arrays, at least 1 */
    struct mc_arena *arena;
    struct mc_buf *flat;
};

void walk_request(struct walk *walk, enum mc_method method, void *message);
void walk_reply(struct walk *walk, enum mc_method method, void *message);

/* The next number of a seeded sequence (splitmix64). */
uint64_t walk_random(uint64_t *seed);

/* A made request or reply, as the codec packs it, appended to @p out. */
void walk_make_bytes(enum mc_method method, bool reply, uint64_t seed, size_t items_max,
                     struct mc_buf *out);
/* The same with short texts and keys: for seeds of a fuzzer. */
void walk_make_small(enum mc_method method, bool reply, uint64_t seed, struct mc_buf *out);

#endif
