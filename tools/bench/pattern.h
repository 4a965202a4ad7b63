/*
 * Data that describes itself: each 8-byte word follows from the key, the version and the offset,
 * so that a byte of another key, another version or another place is told from the right one.
 */
#ifndef MC_BENCH_PATTERN_H
#define MC_BENCH_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/** What the bytes of a value follow from. */
uint64_t mc_pattern_seed(const char *key, uint64_t version);

void mc_pattern_fill(uint64_t seed, void *data, size_t len);

/** The offset of the first wrong byte, or @p len if every byte is right. */
size_t mc_pattern_check(uint64_t seed, const void *data, size_t len);

/** A sentence about the wrong byte at @p offset, in data of @p len: what is there instead. */
void mc_pattern_explain(uint64_t seed, const void *data, size_t len, size_t offset, char *text,
                        size_t text_len);

#endif
