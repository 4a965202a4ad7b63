/* SipHash-2-4 and the kernel's random source. */
#include "base/bytes.h"

#include <errno.h>
#include <sys/random.h>

#include "base/assert.h"

static uint64_t rotl(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64u - bits));
}

/* Four words of state. All that changes them is inlined, so that they stay in registers: out of
 * line, each round costs a store and a load of every word, four times the arithmetic. */
struct sip {
    uint64_t a, b, c, d;
};

__attribute__((always_inline)) static inline void sip_round(struct sip *v)
{
    v->a += v->b;
    v->b = rotl(v->b, 13) ^ v->a;
    v->a = rotl(v->a, 32);
    v->c += v->d;
    v->d = rotl(v->d, 16) ^ v->c;
    v->a += v->d;
    v->d = rotl(v->d, 21) ^ v->a;
    v->c += v->b;
    v->b = rotl(v->b, 17) ^ v->c;
    v->c = rotl(v->c, 32);
}

__attribute__((always_inline)) static inline void sip_word(struct sip *v, uint64_t word)
{
    v->d ^= word;
    sip_round(v);
    sip_round(v);
    v->a ^= word;
}

uint64_t mc_siphash(const uint64_t key[2], const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    uint64_t last = (uint64_t)len << 56;
    struct sip v = {
        .a = key[0] ^ 0x736f6d6570736575ull,
        .b = key[1] ^ 0x646f72616e646f6dull,
        .c = key[0] ^ 0x6c7967656e657261ull,
        .d = key[1] ^ 0x7465646279746573ull,
    };

    for (; len >= 8; len -= 8, at += 8) {
        sip_word(&v, mc_load_u64(at));
    }
    for (size_t i = 0; i < len; i++) {
        last |= (uint64_t)at[i] << (8 * i);
    }
    sip_word(&v, last);
    v.c ^= 0xff;
    for (int i = 0; i < 4; i++) {
        sip_round(&v);
    }
    return v.a ^ v.b ^ v.c ^ v.d;
}

void mc_random_bytes(void *out, size_t len)
{
    uint8_t *at = out;

    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);

        MC_ASSERT(n > 0 || errno == EINTR);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
}

uint64_t mc_random_u64(void)
{
    uint64_t value = 0;

    while (value == 0) {
        mc_random_bytes(&value, sizeof(value));
    }
    return value;
}
