/*
 * The control messages as plain structs: what callers fill in and read. Pointers in a request are
 * borrowed from the caller; pointers in a decoded message live in the arena that was given to the
 * decoder. Arrays with one element an item are named for their count. protobuf stays in codec*.c.
 */
#ifndef MC_WIRE_MESSAGES_H
#define MC_WIRE_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/ids.h"
#include "base/limits.h"
#include "mooncake/error.h"

/*
 * One key: bytes, not terminated. A decoder lets every key through as it came, also one that is
 * empty, longer than MC_KEY_LEN_MAX or holds a NUL: such a key spoils its own item only. Whoever
 * handles the items asks mc_key_is_valid() and answers EBADKEY for those.
 */
struct mc_key {
    const char *bytes;
    uint32_t len;
};

static inline bool mc_key_is_valid(const struct mc_key *key)
{
    return key->len >= 1 && key->len <= MC_KEY_LEN_MAX &&
           memchr(key->bytes, '\0', key->len) == NULL;
}

struct mc_segment_info {
    uint64_t mount_id;
    const char *name;
    const char *addresses;
    const char *host;
};

struct mc_replica_info {
    struct mc_extent_ref *extents; /* rights as granted */
    uint32_t *segment;             /* index into the table, one an extent */
    uint32_t extents_count;
};

struct mc_object_info {
    struct mc_object_id id;
    uint64_t value_len;
    struct mc_replica_info *replicas;
    uint32_t replicas_count;
};

struct mc_object_table {
    struct mc_segment_info *segments;
    uint32_t segments_count;
    struct mc_object_info *objects; /* one an item */
    size_t count;
};

struct mc_hello {
    uint32_t protocol_min, protocol_max;
    const char *program;
    uint64_t client_id, features;
};

struct mc_hello_reply {
    uint32_t protocol;
    const char *program;
    uint64_t master_epoch, features;
    uint32_t body_len_max;
};

struct mc_put_start_request {
    uint64_t client_id, nonce;
    const struct mc_key *keys;
    const uint64_t *value_lens;
    size_t count;
    uint32_t replicas;
    bool all_replicas, soft_pin, hard_pin;
    bool upsert; /* replace a readable object; the old version is read until the end of the put */
    uint64_t soft_pin_ms;
    const char *const *preferred_segments;
    size_t preferred_count;
    const uint64_t *excluded_mounts; /* not there: the sender could not write to them */
    size_t excluded_count;
};

struct mc_put_start_reply {
    mooncake_err *statuses;
    uint64_t *attempts;
    struct mc_object_table table; /* rights: WRITE */
    uint32_t retry_after_ms;      /* not 0: an ENOSPACE is for now only; ask again, same nonce */
};

struct mc_put_end_request { /* also PutRevoke, without failed_replicas */
    uint64_t client_id;
    const struct mc_key *keys;
    const uint64_t *attempts;
    const uint32_t *failed_replicas; /* NULL: none */
    size_t count;
};

struct mc_status_reply {
    mooncake_err *statuses;
    size_t count;
};

struct mc_keys_request { /* Query, Exist, Remove, DescribeKey */
    uint64_t client_id;
    const struct mc_key *keys;
    size_t count;
    bool sizes_only;  /* Query */
    bool view;        /* Query: the bytes will be looked at in place */
    bool descriptors; /* Exist: say where the objects are, they will be got next */
    bool force;       /* Remove */
};

struct mc_query_reply {
    mooncake_err *statuses;
    struct mc_object_table table; /* rights: READ */
    uint64_t lease_ms;
};

struct mc_exist_reply {
    mooncake_err *statuses; /* OK readable, ENOENT not */
    size_t count;
    uint64_t lease_ms;
    /* Only if asked for and promised, else of count 0. Rights: READ. From the request's sending on
     * these are the newest versions for reuse_ms. */
    struct mc_object_table table;
    uint64_t reuse_ms;
};

struct mc_renew_request { /* leases of versions that are looked at in place */
    uint64_t client_id;
    uint64_t epoch; /* of their ids: object_id.hi */
    const struct mc_key *keys;
    const uint64_t *attempts;  /* object_id.lo */
    const uint64_t *mount_ids; /* where each is looked at */
    size_t count;
};

struct mc_renew_reply {
    mooncake_err *statuses; /* OK leased; ENOENT not held any more */
    size_t count;
    uint64_t lease_ms;
};

struct mc_remove_all_request {
    uint64_t client_id;
    bool force;
    const char *pattern; /* NULL: all */
};

struct mc_remove_all_reply {
    uint64_t removed, left_leased, left_writing, left_pinned;
};

struct mc_mount_request {
    uint64_t client_id;
    const char *host, *program;
    bool again;
    const struct mc_mount_item {
        const char *name, *addresses;
        uint64_t mount_id, len, secret[2];
    } * items;
    size_t count;
};

struct mc_unmount_request {
    uint64_t client_id;
    const uint64_t *mount_ids;
    size_t count;
    uint64_t grace_ms;
};

enum mc_role {
    MC_ROLE_CLIENT = 1,
    MC_ROLE_STORE = 2,
    MC_ROLE_TOOL = 3,
};

struct mc_ping_request {
    uint64_t client_id;
    uint32_t role;
    const char *host, *program;
    const uint64_t *mount_ids;
    size_t count;
    bool leaving;
    /* What the sender has counted in its life, for the pool's sums. */
    struct mc_ping_counts {
        uint64_t read_failovers; /* reads that went on with another copy */
        uint64_t rdma_fallbacks, shm_fallbacks,
            other_fallbacks; /* by the transport that gave way */
    } counts;
};

struct mc_ping_reply {
    uint64_t master_epoch;
    uint64_t *unknown_mount_ids;
    size_t unknown_count;
    uint64_t client_ttl_ms;
};

struct mc_report_request {
    uint64_t client_id;
    const struct mc_report_item {
        uint64_t mount_id;
        mooncake_err reason;
        struct mc_key key; /* len 0: not about one object */
        uint64_t object_id_lo;
    } * items;
    size_t count;
};

struct mc_list_keys_request {
    uint64_t cursor;
    uint32_t keys_max;
    const char *pattern; /* "": all */
};

struct mc_list_keys_reply {
    struct mc_key *keys;
    size_t count;
    uint64_t cursor;
};

struct mc_list_request { /* ListSegments, ListClients */
    uint64_t cursor;     /* 0 at the start; then the last reply's */
    uint32_t items_max;  /* 0: as many as the master likes */
};

enum mc_segment_state {
    MC_SEGMENT_OK = 1,
    MC_SEGMENT_DRAINING = 2,
    MC_SEGMENT_SUSPECT = 3,
    MC_SEGMENT_GONE = 4,
};

/* Why a segment takes nothing new. */
enum mc_exclusion {
    MC_EXCLUDED_NOT = 0,
    MC_EXCLUDED_LEAVING = 1,  /* its store leaves by itself; reason_ms: until it goes */
    MC_EXCLUDED_DRAINED = 2,  /* an operator said so */
    MC_EXCLUDED_REPORTED = 3, /* clients could not reach it; reason_ms: since the last report */
    MC_EXCLUDED_LOST = 4,     /* its mount has ended, it is being swept; reason_ms: since then */
};

struct mc_list_segments_reply {
    struct mc_segment_status {
        const char *name, *host, *addresses;
        uint64_t mount_id, client_id, len, used, largest_free_extent, extents;
        /* Used bytes by what would have to happen first, as in mc_space_reply. */
        uint64_t evictable, leased, soft_pinned, hard_pinned, writing, parked;
        uint64_t next_lease_ms;    /* until the first of its leases ends; 0: there is none */
        uint64_t next_lease_bytes; /* that this gives to eviction */
        uint64_t reason_ms, ping_age_ms;
        uint32_t state, reason;
    } * items;
    size_t count;
    uint64_t cursor; /* 0: that was all */
};

struct mc_list_clients_reply {
    struct mc_client_status {
        uint64_t client_id, ping_age_ms;
        const char *host, *program;
        uint32_t role, segments;
    } * items;
    size_t count;
    uint64_t cursor;
};

struct mc_pool_status_request {
    uint64_t removals_of; /* whose removals removed_now counts; 0: nobody's */
};

struct mc_pool_status_reply {
    uint64_t capacity, used, keys, unfinished_puts, segments, stores, clients, hits, misses,
        evicted_keys, evicted_bytes, put_rejected, uptime_ms, master_epoch, puts, gets, removed,
        busy_span_ms, io_threads, core_busy_permille, io_busy_permille, removed_now;
    const char *program;
};

enum mc_object_state {
    MC_OBJECT_WRITING = 1,
    MC_OBJECT_READABLE = 2,
};

struct mc_describe_key_reply {
    uint32_t state, pin;
    uint64_t lease_left_ms, soft_pin_left_ms, age_ms, owner_client_id;
    struct mc_object_table table; /* one object; capabilities 0 */
};

/* What became of a key. */
enum mc_fate {
    MC_FATE_UNKNOWN = 0,   /* never written, or gone before what is remembered */
    MC_FATE_READABLE = 1,  /* it is no miss */
    MC_FATE_WRITING = 2,   /* its first put has not ended */
    MC_FATE_EVICTED = 3,   /* to make room */
    MC_FATE_REMOVED = 4,   /* on request */
    MC_FATE_LOST = 5,      /* with the store that had its last copy */
    MC_FATE_DAMAGED = 6,   /* a reader found the last copy's bytes damaged */
    MC_FATE_ABANDONED = 7, /* its put was given up, or failed, before it could be read */
};

struct mc_why_miss_reply {
    uint32_t fate;
    uint32_t entries;                 /* of the history; 0: it is off */
    uint64_t ago_ms, age_ms, idle_ms; /* since it went; how old, and how long unread, it was */
    uint64_t uptime_ms, reach_ms;     /* of the master; how far back the history goes */
    uint64_t owner_client_id;         /* WRITING: of the put */
    const char *store;                /* LOST, DAMAGED: the segment's name; "": not known */
};

enum mc_drain_action {
    MC_DRAIN_LOOK = 0,
    MC_DRAIN_BEGIN = 1,  /* nothing new is placed there */
    MC_DRAIN_CANCEL = 2, /* as before */
};

struct mc_drain_request {
    const uint64_t *mount_ids;
    size_t count;
    uint32_t action;
};

/* Sums over the segments that were found. */
struct mc_drain_reply {
    mooncake_err *statuses; /* OK, ENOSEGMENT, ESTATE (cancel: the store leaves by itself) */
    size_t count;
    uint64_t capacity, used, extents, leased, reading, writing, hard_pinned, draining;
};

struct mc_sole_keys_request {
    const uint64_t *mount_ids;
    size_t count;
    uint64_t cursor;
    uint32_t keys_max; /* named in the reply; all are counted */
};

/* Of one part of the table: sums are of the keys that were visited. */
struct mc_sole_keys_reply {
    struct mc_key *keys; /* whose only copy is there */
    size_t count;
    uint64_t cursor; /* 0: that was all */
    uint64_t keys_there, bytes_there, keys_sole, bytes_sole;
};

struct mc_space_request {
    bool recount;
    uint64_t cursor; /* 0 at the start; then the last reply's */
};

/* Bytes by what would have to happen before they can be given to a new object. */
struct mc_space_reply {
    uint64_t capacity, free, evictable, leased, soft_pinned, hard_pinned, writing, parked,
        unplaceable, largest_free;
    uint64_t cursor;      /* not 0: there are more segments, whose bytes are to be added */
    const char *mismatch; /* "": none, or no recount was asked for */
};

/* To a serving store, by a thin client; see store/attach.h. */
struct mc_attach_request {
    uint64_t pool_len; /* bytes of memory to share; 0: none */
};

struct mc_attach_reply {
    const char *master, *transport, *rdma_devices, *rdma_gid_index; /* to open a client with */
    uint64_t pool_mount_id;                                         /* 0: no pool */
    const char *pool_addresses;
};

struct mc_config_reply {
    struct mc_config_item {
        const char *name, *value, *source, *help;
        const char *default_value, *unit; /* "": an older master's */
    } * items;
    size_t count;
};

struct mc_empty_request {
    char unused;
};

#endif
