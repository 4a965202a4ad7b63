/*
 * Word i is (seed + i) * ODD. Multiplying by an odd number can be undone, so that a foreign word
 * tells which word of the same value it is; adding ODD steps from word to word, which the
 * compiler turns into vectors.
 */
#include "pattern.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#define ODD 0x9e3779b97f4a7c15u
#define WORD sizeof(uint64_t)
/* Words that are checked before looking whether one was wrong. */
#define BLOCK_WORDS 512u

uint64_t mc_pattern_seed(const char *key, uint64_t version)
{
    return XXH3_64bits_withSeed(key, strlen(key), version);
}

void mc_pattern_fill(uint64_t seed, void *data, size_t len)
{
    unsigned char *at = data;
    uint64_t word = seed * ODD;
    uint64_t block[8];

    while (len >= sizeof(block)) {
        for (uint32_t i = 0; i < 8; i++) {
            block[i] = word + i * ODD;
        }
        memcpy(at, block, sizeof(block));
        word += 8 * ODD;
        at += sizeof(block);
        len -= sizeof(block);
    }
    for (uint32_t i = 0; i < 8; i++) {
        block[i] = word + i * ODD;
    }
    memcpy(at, block, len);
}

/* Are all words of a whole block right? */
static bool block_is_right(uint64_t word, const unsigned char *at)
{
    uint64_t wrong = 0;

    for (uint32_t i = 0; i < BLOCK_WORDS; i++) {
        uint64_t is;

        memcpy(&is, at + i * WORD, WORD);
        wrong |= is ^ (word + i * ODD);
    }
    return wrong == 0;
}

static unsigned char byte_at(uint64_t seed, size_t offset)
{
    uint64_t word = (seed + offset / WORD) * ODD;
    unsigned char bytes[WORD];

    memcpy(bytes, &word, WORD);
    return bytes[offset % WORD];
}

size_t mc_pattern_check(uint64_t seed, const void *data, size_t len)
{
    const unsigned char *at = data;
    size_t offset = 0;

    while (len - offset >= BLOCK_WORDS * WORD &&
           block_is_right((seed + offset / WORD) * ODD, at + offset)) {
        offset += BLOCK_WORDS * WORD;
    }
    while (len - offset >= WORD) {
        uint64_t is;

        memcpy(&is, at + offset, WORD);
        if (is != (seed + offset / WORD) * ODD) {
            break;
        }
        offset += WORD;
    }
    while (offset < len && at[offset] == byte_at(seed, offset)) {
        offset++;
    }
    return offset;
}

/* The inverse of ODD modulo 2^64, by Newton's method: each round doubles the right bits. */
static uint64_t inverse_of_odd(void)
{
    uint64_t inverse = ODD;

    for (int i = 0; i < 5; i++) {
        inverse *= 2 - ODD * inverse;
    }
    return inverse;
}

void mc_pattern_explain(uint64_t seed, const void *data, size_t len, size_t offset, char *text,
                        size_t text_len)
{
    const unsigned char *at = data;
    size_t start = offset - offset % WORD;
    uint64_t is = 0;
    uint64_t should = (seed + start / WORD) * ODD;
    size_t word_len = len - start < WORD ? len - start : WORD;
    uint64_t index;

    memcpy(&is, at + start, word_len);
    index = is * inverse_of_odd() - seed;
    if (word_len == WORD && index < len / WORD) {
        (void)snprintf(text, text_len, "byte %zu of %zu is wrong: this is what belongs at %llu",
                       offset, len, (unsigned long long)index * WORD);
    } else if (is == 0) {
        (void)snprintf(text, text_len, "byte %zu of %zu is wrong: zeros, as if never written",
                       offset, len);
    } else {
        (void)snprintf(text, text_len, "byte %zu of %zu is wrong: word %016llx, not %016llx",
                       offset, len, (unsigned long long)is, (unsigned long long)should);
    }
}
