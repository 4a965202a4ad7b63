/* SipHash-2-4 and the kernel's random source. */
#include "base/bytes.h"

#include <errno.h>
#include <sys/random.h>

#include "base/assert.h"

static uint64_t rotl(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64u - bits));
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
}

uint64_t mc_siphash(const uint64_t key[2], const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    uint64_t last = (uint64_t)len << 56;
    uint64_t v[4] = {
        key[0] ^ 0x736f6d6570736575ull,
        key[1] ^ 0x646f72616e646f6dull,
        key[0] ^ 0x6c7967656e657261ull,
        key[1] ^ 0x7465646279746573ull,
    };

    for (; len >= 8; len -= 8, at += 8) {
        sip_word(v, mc_load_u64(at));
    }
    for (size_t i = 0; i < len; i++) {
        last |= (uint64_t)at[i] << (8 * i);
    }
    sip_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
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
