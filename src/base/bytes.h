/*
 * Little-endian integers at a byte address, and SipHash-2-4 for capabilities.
 */
#ifndef MC_BASE_BYTES_H
#define MC_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire is little-endian and so must this machine be; add byte swaps here for others"
#endif

static inline uint16_t mc_load_u16(const uint8_t *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static inline uint32_t mc_load_u32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static inline uint64_t mc_load_u64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static inline void mc_store_u16(uint8_t *at, uint16_t value)
{
    memcpy(at, &value, sizeof(value));
}

static inline void mc_store_u32(uint8_t *at, uint32_t value)
{
    memcpy(at, &value, sizeof(value));
}

static inline void mc_store_u64(uint8_t *at, uint64_t value)
{
    memcpy(at, &value, sizeof(value));
}

/** SipHash-2-4 (Aumasson and Bernstein, 2012) of @p len bytes under a 128-bit key. */
uint64_t mc_siphash(const uint64_t key[2], const void *bytes, size_t len);

/** @p len bytes from the kernel's random source. Aborts if there is none: nothing is safe then. */
void mc_random_bytes(void *out, size_t len);
/** A random 64-bit number that is not 0. */
uint64_t mc_random_u64(void);

#endif
