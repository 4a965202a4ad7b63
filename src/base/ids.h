/*
 * What a client needs to reach one extent, and the proof that it may: the plain structs that the
 * control messages carry and the transports use.
 */
#ifndef MC_BASE_IDS_H
#define MC_BASE_IDS_H

#include <stdbool.h>
#include <stdint.h>

/* Names one version of one object; stamped into each of its extents. hi is the master's epoch (a
 * random number per master life), lo the attempt that wrote it. */
struct mc_object_id {
    uint64_t hi, lo;
};

static inline bool mc_object_id_equal(struct mc_object_id a, struct mc_object_id b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

enum mc_rights {
    MC_RIGHT_READ = 1,
    MC_RIGHT_WRITE = 2,
};

/* One extent: [64-byte header | payload_len bytes] at offset in the segment of this mount. */
struct mc_extent_ref {
    uint64_t mount_id;    /* random, unique per mount; a restarted store has another */
    uint64_t offset;      /* of the header in the segment */
    uint64_t payload_len; /* bytes behind the header */
    uint64_t capability;  /* see mc_capability() */
    struct mc_object_id object_id;
    uint32_t slice_index, slice_count; /* which part of the value, of how many */
    uint32_t rights;                   /* mc_rights that the capability was made for */
};

/**
 * SipHash-2-4, under the mount's secret, of mount id, offset, payload length, object id, slice
 * index and count, and rights. The master makes it, the store checks it.
 */
uint64_t mc_capability(const uint64_t secret[2], const struct mc_extent_ref *extent);

#endif
