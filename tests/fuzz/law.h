/*
 * What the fuzzers share: a law that must hold, and inputs of exactly their length, so that a
 * sanitizer sees a read of one byte beyond.
 */
#ifndef MC_TESTS_FUZZ_LAW_H
#define MC_TESTS_FUZZ_LAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline void law(bool holds)
{
    if (!holds) {
        abort();
    }
}

/** The first byte of @p data chooses who checks a copy of the others. */
static inline void law_choose(const uint8_t *data, size_t len,
                              void (*const *checks)(const uint8_t *bytes, size_t len),
                              size_t checks_count)
{
    uint8_t *exact;

    if (len == 0) {
        return;
    }
    exact = malloc(len - 1);
    law(exact != NULL || len == 1);
    if (len > 1) {
        memcpy(exact, data + 1, len - 1);
    }
    checks[data[0] % checks_count](exact, len - 1);
    free(exact);
}

#endif
