/*
 * One version of one object, and its extents. The shape is tuned: a pool of 10 M objects keeps one
 * of these per object, in one allocation: [mc_object | extents | key].
 *
 * A version is WRITING from PutStart, READABLE from PutEnd, PARKED when it no longer answers for
 * its key but its space must not be given out yet. The table holds one version per key, the head.
 * A readable head may have a pending version (an upsert under way) hanging on it.
 */
#ifndef MC_MASTER_OBJECT_H
#define MC_MASTER_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/extalloc.h"
#include "base/limits.h"
#include "base/list.h"

struct mc_segment;

/* In which list of its segment an extent is. */
enum mc_queue {
    MC_QUEUE_BUSY, /* written or parked: nothing for eviction */
    MC_QUEUE_LRU,  /* head: longest unread */
    MC_QUEUE_HELD, /* found leased when it was its turn; comes back when the lease ends */
    MC_QUEUE_SOFT, /* soft-pinned, head: pin that ends first */
    MC_QUEUE_HARD,
    MC_QUEUES,
};

/* Why the bytes of an extent are taken. */
enum mc_class {
    MC_CLASS_PLAIN,
    MC_CLASS_SOFT,
    MC_CLASS_HARD,
    MC_CLASS_WRITING,
    MC_CLASS_PARKED,
    MC_CLASS_READING, /* parked because it has been replaced while readers may have it */
    MC_CLASSES,
};

enum mc_life {
    MC_LIFE_WRITING = 1,
    MC_LIFE_READABLE,
    MC_LIFE_PARKED,
};

enum mc_pin {
    MC_PIN_NONE,
    MC_PIN_SOFT,
    MC_PIN_HARD,
};

struct mc_extent {
    struct mc_list node;        /* in a queue of its segment */
    struct mc_segment *segment; /* NULL: lost or dropped, and in no list */
    uint64_t offset;
    uint64_t payload_len;
    mc_extent_id id;
    uint8_t index;         /* in the object's array, which leads back to the object */
    uint8_t replica_slice; /* replica << 4 | slice */
    uint8_t queue;         /* mc_queue */
    uint8_t klass;         /* mc_class */
};

/* A put that is not ended, or a version that is parked. */
struct mc_put {
    struct mc_list node;      /* in a list of mc_lifetime, oldest first */
    struct mc_list view_node; /* PARKED and looked at in place: in mc_lifetime.viewed_by_attempt */
    struct mc_object *object; /* the version this belongs to */
    uint64_t client_id, nonce;
    uint64_t start_ns;
    uint64_t until_ns;    /* PARKED: when the space is free */
    uint64_t request_seq; /* the request that last named it: finds duplicates inside a batch */
};

struct mc_object {
    uint64_t attempt;
    uint64_t value_len;
    union {
        struct mc_put *put;        /* WRITING, PARKED; owned */
        struct mc_object *pending; /* READABLE: a newer version being written, or NULL; owned */
    } u;
    uint64_t lease_end_ns; /* 0: never had one */
    uint64_t touched_ns;   /* last real read or write */
    uint64_t since_ns;     /* PutStart; from PutEnd on, PutEnd */
    uint64_t pin_ns;       /* soft pin: its length while WRITING, its end afterwards */
    uint16_t key_len;
    uint8_t life : 2;    /* mc_life */
    uint8_t viewed : 1;  /* READABLE: some reader under its lease looks at it in place */
    uint8_t promise : 5; /* READABLE: see reuse.c */
    union {
        uint8_t pin;          /* mc_pin; WRITING, READABLE */
        uint8_t parked_class; /* PARKED: why, as an mc_class */
    };
    uint8_t extents_count; /* places in the array, used or not */
    uint8_t replicas;      /* as placed; some may be gone */
    uint8_t mark;          /* of the last removal that left it, so that each counts it once */
    uint8_t counted;       /* mark of the recount that has it in its sums (tally.h) */
    struct mc_extent extents[];
};

_Static_assert(MC_REPLICAS_MAX <= 16 && MC_EXTENTS_MAX <= 16, "replica_slice is two nibbles");
_Static_assert(MC_REPLICAS_MAX *MC_EXTENTS_MAX <= 255, "extents_count and index are bytes");
_Static_assert(sizeof(struct mc_object) == 64 && sizeof(struct mc_extent) == 48,
               "memory per object is a promise");

static inline char *mc_object_key(const struct mc_object *object)
{
    return (char *)(uintptr_t)(object->extents + object->extents_count);
}

static inline struct mc_object *mc_extent_object(struct mc_extent *extent)
{
    struct mc_extent *first = extent - extent->index;

    return MC_CONTAINER_OF(first, struct mc_object, extents);
}

static inline unsigned mc_extent_replica(const struct mc_extent *extent)
{
    return extent->replica_slice >> 4;
}

static inline unsigned mc_extent_slice(const struct mc_extent *extent)
{
    return extent->replica_slice & 15u;
}

/* Bytes that an extent of this payload takes in a segment. payload_len is at most 2^47. */
static inline uint64_t mc_extent_bytes(uint64_t payload_len)
{
    uint64_t const unit = MC_EXTENT_ALIGN;

    return (payload_len + MC_EXTENT_HEADER_LEN + unit - 1) / unit * unit;
}

static inline bool mc_object_leased(const struct mc_object *object, uint64_t now_ns)
{
    return object->lease_end_ns > now_ns;
}

/* Must its space be kept from others even if the object goes? */
static inline bool mc_object_viewed(const struct mc_object *object, uint64_t now_ns)
{
    return object->viewed != 0 && mc_object_leased(object, now_ns);
}

#endif
