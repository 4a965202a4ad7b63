/*
 * What operators ask a pool: status, segments, clients, keys. Used by mooncakectl; the threads and
 * errors are those of client.h. Callbacks run on the calling thread before the call returns; texts
 * handed to them are valid until they return.
 */
#ifndef MOONCAKE_ADMIN_H
#define MOONCAKE_ADMIN_H

#include "mooncake/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Sizes in bytes, times in milliseconds. hits + misses is the number of keys looked up. clients
 * counts every process that pings the master, stores included. */
typedef struct mooncake_pool_status {
    size_t struct_size; /**< set by the caller to sizeof(mooncake_pool_status) */
    uint64_t capacity, used, keys, unfinished_puts, segments, stores, clients;
    uint64_t hits, misses, evicted_keys, evicted_bytes, put_rejected, uptime_ms;
    uint64_t master_epoch;
    char master_program[64];
    uint64_t puts, gets; /**< objects that became readable; keys asked for to be read */
    uint64_t removed;    /**< objects removed on request */
    /** Of the master's threads, lately: thousandths of a processor that its core loop used, and the
     * busiest of its io_threads, in busy_span_ms; 0: not known. */
    uint64_t busy_span_ms, core_busy_permille, io_busy_permille, io_threads;
} mooncake_pool_status;

/**
 * The pool in some numbers.
 *
 * @param out_status  receives them; its struct_size is set by the caller
 */
MOONCAKE_API mooncake_err mooncake_admin_status(mooncake_client *client, uint32_t timeout_ms,
                                                mooncake_pool_status *out_status);

/** One mounted segment. state: "ok", "draining", "suspect" or "gone". Bytes from evictable to
 * parked are as in mooncake_space_status and add up to used. excluded says why nothing new is
 * placed there:
 * "" (it is), "leaving" (its store leaves by itself, in excluded_ms), "drained" (by an operator),
 * "unreachable" (clients reported so, excluded_ms ago) or "lost" (its mount ended, excluded_ms
 * ago).
 */
typedef struct mooncake_segment_status {
    const char *name, *host, *addresses, *state;
    uint64_t mount_id, client_id, len, used, largest_free_extent, extents;
    uint64_t evictable, leased, soft_pinned, hard_pinned, writing, parked;
    uint64_t next_lease_ms;    /**< until the first of its leases ends; 0: there is none */
    uint64_t next_lease_bytes; /**< that eviction can take then */
    const char *excluded;
    uint64_t excluded_ms;
    uint64_t ping_age_ms; /**< since its store was heard of */
} mooncake_segment_status;

typedef void (*mooncake_segment_cb)(void *arg, const mooncake_segment_status *segment);
/** Mounted segments in the order of their mounting, and lost ones that are still being swept. When
 * it fails, some may have been told. */
MOONCAKE_API mooncake_err mooncake_admin_segments(mooncake_client *client, uint32_t timeout_ms,
                                                  mooncake_segment_cb each, void *arg);

/** One process that pings the master. role: "client", "store" or "tool". */
typedef struct mooncake_client_status {
    const char *host, *program, *role;
    uint64_t client_id, ping_age_ms;
    uint32_t segments;
} mooncake_client_status;

typedef void (*mooncake_client_cb)(void *arg, const mooncake_client_status *status);
/** Clients and stores that ping the master, in the order of their coming. When it fails, some may
 * have been told. */
MOONCAKE_API mooncake_err mooncake_admin_clients(mooncake_client *client, uint32_t timeout_ms,
                                                 mooncake_client_cb each, void *arg);

/**
 * List keys, in no order. Keys that come or go meanwhile may be listed or not; others at least
 * once.
 *
 * @param pattern   NULL or "": all; else keys in which this regular expression (PCRE2) is found
 * @param keys_max  at most so many; 0: all
 * @param each      gets bytes and their length, valid until it returns; false stops the listing
 * @retval MOONCAKE_EINVAL  no regular expression, or one that costs too much to match
 */
MOONCAKE_API mooncake_err mooncake_admin_keys(
    mooncake_client *client, const char *pattern, uint64_t keys_max, uint32_t timeout_ms,
    bool (*each)(void *arg, const char *key, size_t key_len), void *arg);

/** What a removal of many keys did: how many went, and how many stayed for which reason. */
typedef struct mooncake_removal {
    size_t struct_size;    /**< set by the caller to sizeof(mooncake_removal) */
    uint64_t removed;      /**< these were readable and are gone */
    uint64_t left_leased;  /**< somebody reads them; force takes them too */
    uint64_t left_writing; /**< their first put has not ended; nothing takes those */
} mooncake_removal;

/**
 * As mooncake_remove_all() and mooncake_remove_matching(), with the reasons.
 *
 * @param pattern  NULL: every key; "" is refused, because it would mean the same
 * @param out      not changed unless the call returns OK
 */
MOONCAKE_API mooncake_err mooncake_admin_remove(mooncake_client *client, const char *pattern,
                                                bool force, uint32_t timeout_ms,
                                                mooncake_removal *out);

/**
 * How far this client's removals of many keys have come that are under way: for another thread than
 * the one that waits for them.
 *
 * @param out_removed  keys that they have removed so far; 0 if none is under way
 */
MOONCAKE_API mooncake_err mooncake_admin_removed(mooncake_client *client, uint32_t timeout_ms,
                                                 uint64_t *out_removed);

/** One extent of one copy. */
typedef struct mooncake_extent_status {
    uint32_t replica, slice;
    const char *segment, *host;
    uint64_t mount_id, offset, len;
} mooncake_extent_status;

/** One object. state: "writing" or "readable"; pin: "none", "soft" or "hard". */
typedef struct mooncake_key_status {
    const char *state, *pin;
    uint64_t len, lease_left_ms, soft_pin_left_ms, age_ms, owner_client_id;
    uint64_t object_id_hi, object_id_lo;
    uint32_t replicas;
    const mooncake_extent_status *extents;
    size_t extents_count;
} mooncake_key_status;

/**
 * All about one key. Grants no lease.
 *
 * @param each  runs once, on the calling thread, before the call returns
 * @retval MOONCAKE_ENOENT  no such key, not even an unfinished put
 */
MOONCAKE_API mooncake_err
mooncake_admin_key(mooncake_client *client, const char *key, uint32_t timeout_ms,
                   void (*each)(void *arg, const mooncake_key_status *status), void *arg);

/** Why a key is a miss. fate: "unknown" (never written, or it went before what the master
 * remembers), "readable" (it is none), "writing", "evicted", "removed", "lost" (with the store that
 * had its last copy), "damaged" (a reader found its last copy damaged) or "abandoned" (its put
 * failed or was given up). */
typedef struct mooncake_miss {
    const char *fate;
    const char *store;        /**< lost, damaged: the segment's name; "": not known */
    uint64_t ago_ms;          /**< since it went */
    uint64_t age_ms;          /**< how old it was then; readable, writing: how old it is */
    uint64_t idle_ms;         /**< for how long nobody had read or written it then */
    uint64_t uptime_ms;       /**< the master's: nothing older is known */
    uint64_t reach_ms;        /**< how far back the master remembers keys that went */
    uint64_t entries;         /**< how many such keys it remembers at most; 0: none */
    uint64_t owner_client_id; /**< writing: of the put */
} mooncake_miss;

/**
 * What became of a key: why is it a miss? Grants no lease.
 *
 * @param each  runs once, also for a key that is not known
 */
MOONCAKE_API mooncake_err
mooncake_admin_why_miss(mooncake_client *client, const char *key, uint32_t timeout_ms,
                        void (*each)(void *arg, const mooncake_miss *miss), void *arg);

typedef enum mooncake_drain_action {
    MOONCAKE_DRAIN_LOOK = 0, /**< change nothing */
    MOONCAKE_DRAIN_BEGIN =
        1, /**< place nothing new on the segments; what is there stays readable */
    MOONCAKE_DRAIN_CANCEL = 2 /**< place on them again */
} mooncake_drain_action;

/** What some segments hold, in bytes; it is safe to stop their store when leased, reading and
 * writing are 0: nobody uses them then. */
typedef struct mooncake_drain_status {
    size_t struct_size; /**< set by the caller to sizeof(mooncake_drain_status) */
    uint64_t capacity, used, extents;
    uint64_t leased;      /**< somebody reads them, or has just asked; up to 1/8 lease too long */
    uint64_t reading;     /**< of removed or replaced objects that somebody may be reading */
    uint64_t writing;     /**< of unfinished puts */
    uint64_t hard_pinned; /**< a part of used */
    uint64_t draining;    /**< how many of the segments take nothing new */
} mooncake_drain_status;

/**
 * Take segments out of placement, or back into it. Lasts until their store leaves or the master is
 * started anew.
 *
 * @param mount_ids   of mooncake_segment_status; at most 64
 * @param action      what to do with all of them
 * @param out_status  receives what they hold; its struct_size is set by the caller
 * @retval MOONCAKE_ENOSEGMENT  one of them is not mounted (any more); the others were done
 * @retval MOONCAKE_ESTATE      cancel: its store is leaving by itself; the others were done
 */
MOONCAKE_API mooncake_err mooncake_admin_drain(mooncake_client *client, const uint64_t *mount_ids,
                                               size_t count, mooncake_drain_action action,
                                               uint32_t timeout_ms,
                                               mooncake_drain_status *out_status);

/** What would be lost with some segments. A key that came or went meanwhile may be missing or be
 * counted twice. */
typedef struct mooncake_sole_keys {
    size_t struct_size;   /**< set by the caller to sizeof(mooncake_sole_keys) */
    uint64_t keys, bytes; /**< that are there */
    uint64_t sole_keys;   /**< of them without a whole copy elsewhere */
    uint64_t sole_bytes;
} mooncake_sole_keys;

/**
 * Which keys have no copy outside of these segments, and would be lost with them?
 *
 * @param mount_ids  of mooncake_segment_status; at most 64
 * @param keys_max   tell at most so many to @p each; 0: none
 * @param each       gets keys and their length, valid until it returns; false: no more. NULL
 * allowed
 * @param out_sums   receives how many there are; its struct_size is set by the caller
 */
MOONCAKE_API mooncake_err mooncake_admin_sole_keys(
    mooncake_client *client, const uint64_t *mount_ids, size_t count, uint64_t keys_max,
    uint32_t timeout_ms, bool (*each)(void *arg, const char *key, size_t key_len), void *arg,
    mooncake_sole_keys *out_sums);

/** Bytes of the pool by what would have to happen before they can be given to a new object. All but
 * largest_free add up to capacity. */
typedef struct mooncake_space_status {
    size_t struct_size; /**< set by the caller to sizeof(mooncake_space_status) */
    uint64_t capacity;
    uint64_t free;         /**< nothing */
    uint64_t evictable;    /**< eviction, now */
    uint64_t leased;       /**< a lease must end */
    uint64_t soft_pinned;  /**< eviction as a last resort */
    uint64_t hard_pinned;  /**< removal only */
    uint64_t writing;      /**< a put must end, or the release time-out pass */
    uint64_t parked;       /**< left by a lost writer or an old version: a time must pass */
    uint64_t unplaceable;  /**< free, but in a segment that is draining or suspect */
    uint64_t largest_free; /**< longest single extent */
} mooncake_space_status;

/**
 * Where the pool's bytes are, and whether the master's books agree with what is there.
 *
 * @param out_space     receives the bytes; its struct_size is set by the caller
 * @param recount       also walk everything and compare each gauge, in slices between requests; it
 *                      takes the longer the more keys there are
 * @param out_mismatch  the first gauge that differs, with both values; "" if all agree or none was
 *                      asked for; cut to @p mismatch_cap bytes with the NUL. NULL allowed
 * @param mismatch_cap  bytes there
 */
MOONCAKE_API mooncake_err mooncake_admin_space(mooncake_client *client, bool recount,
                                               uint32_t timeout_ms,
                                               mooncake_space_status *out_space, char *out_mismatch,
                                               size_t mismatch_cap);

/** Effective configuration of the master: @p each gets option, value, source, and help. */
MOONCAKE_API mooncake_err mooncake_admin_config(mooncake_client *client, uint32_t timeout_ms,
                                                void (*each)(void *arg, const char *name,
                                                             const char *value, const char *source,
                                                             const char *help),
                                                void *arg);

/** One option of the master. */
typedef struct mooncake_option_status {
    const char *name, *value, *default_value, *help;
    const char *source; /**< "default", "file PATH", "environment NAME" or "flag" */
    const char *unit;   /**< of a number without one: "ms", "bytes"; "": it has none */
} mooncake_option_status;

/**
 * Effective configuration of the master, as mooncake_admin_config() with more to each option.
 *
 * @param each  runs once an option
 */
MOONCAKE_API mooncake_err mooncake_admin_options(mooncake_client *client, uint32_t timeout_ms,
                                                 void (*each)(void *arg,
                                                              const mooncake_option_status *option),
                                                 void *arg);

#ifdef __cplusplus
}
#endif

#endif
