/*
 * The master's core: what the pool holds, where, for whom, and what must go next. Pure logic on an
 * injected clock: no sockets, threads or locks, so that a simulation can drive it. The program
 * around it (main.c, master_rpc.c, master_admin.c) decodes a request, makes one call here, encodes
 * the reply, and calls mc_core_tick() when asked to.
 *
 * Every call runs to its end on the core's one thread and allocates replies from the caller's
 * arena; nothing in a reply points into the core. A call returns an error only when the request as
 * a whole cannot be answered (ENOMEM, EINVAL with a sentence); what happened to each item is in
 * the reply's statuses, in input order. Requests come as the decoders leave them, but each key's
 * length and bytes are checked here again, because a bad key is the error of one item only.
 */
#ifndef MC_MASTER_CORE_H
#define MC_MASTER_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "master/core_metrics.h"
#include "wire/messages.h"

/* Milliseconds, if not said otherwise. mc_core_options_init() sets the defaults. */
struct mc_core_options {
    uint64_t lease_ms;
    uint64_t reuse_ms; /* how long descriptors told with exist may be used; at most half a lease */
    uint64_t client_ttl_ms;
    uint64_t ping_ms; /* what clients are asked for; a peer silent for 2.5 of them missed a ping */
    uint64_t put_discard_ms;
    uint64_t put_release_ms; /* at least put_discard_ms */
    uint64_t soft_pin_ms;    /* for puts that name no time */
    uint64_t soft_pin_ms_max;
    double high_watermark; /* used / capacity of a segment at which eviction starts; (0, 1] */
    double eviction_ratio; /* eviction ends that far below the watermark; [0, watermark) */
    bool allow_evict_soft_pinned;
    bool local_first;  /* place on the writer's host while it has room */
    uint64_t stall_ms; /* a gap between two calls beyond this is our own stall; 0: never judge so */
    uint64_t epoch;    /* random per master life, not 0 */
    uint64_t seed;     /* of placement's random choices */
    uint32_t miss_history; /* keys that went, remembered for mc_core_why_miss(); 0: none */
};
void mc_core_options_init(struct mc_core_options *options);

/* Items in one page of a list. */
#define MC_PAGE_ITEMS_MAX 512u

struct mc_core;

/** @retval EINVAL an option out of range; the sentence names it. @p clock is borrowed. */
mooncake_err mc_core_create(const struct mc_core_options *options, const struct mc_clock *clock,
                            struct mc_core **out) MC_MUST_CHECK;
/** Pending removals end with EUNAVAILABLE first. Nulls *core; accepts NULL in it. */
void mc_core_destroy(struct mc_core **core);

/**
 * Do due work for at most MC_TICK_NS_MAX: expire members, sweep lost segments, free what dead
 * writers left, evict, go on with removals.
 *
 * @return when to call again, on the clock's scale: at most 100 ms ahead; in the past or now if
 *         work is left. A request may make new work due: after each batch of requests ask
 *         mc_core_wants_tick().
 */
uint64_t mc_core_tick(struct mc_core *core);
/** Is there work that should not wait for the time that the last tick returned? */
bool mc_core_wants_tick(const struct mc_core *core);

/* ---- objects ----------------------------------------------------------------------------- */

/**
 * Open an attempt for each key. By (client_id, nonce) a repeated request gets the same attempts.
 * Items: OK (fewer replicas than wished unless all_replicas), EBADKEY, EEXIST (readable, or being
 * written, or named before in this batch), ENOSPACE, ENOMEM. reply->retry_after_ms is not 0 when
 * an ENOSPACE is for now only: space is being evicted for it, and the same request (same nonce)
 * should be sent again after so long.
 */
mooncake_err mc_core_put_start(struct mc_core *core, const struct mc_put_start_request *request,
                               struct mc_arena *arena,
                               struct mc_put_start_reply *out_reply) MC_MUST_CHECK;
/**
 * Make attempts readable. Items: OK (also when it had been done before), EBADKEY, ENOENT,
 * ENOTOWNER (another attempt holds the key; nothing changed), ETRANSFER (no replica is left of
 * the attempt, which is undone), ENOMEM (try again). Space of failed replicas is kept out of use
 * for one client TTL: a frozen store may still hold the writer's bytes in its sockets.
 */
mooncake_err mc_core_put_end(struct mc_core *core, const struct mc_put_end_request *request,
                             struct mc_arena *arena,
                             struct mc_status_reply *out_reply) MC_MUST_CHECK;
/**
 * Undo attempts. The space is free at once: the writer promises that no write of its is under way
 * (if it cannot, it ends the put with all replicas failed instead). Items as above, but ESTATE for
 * an attempt that has been made readable.
 */
mooncake_err mc_core_put_revoke(struct mc_core *core, const struct mc_put_end_request *request,
                                struct mc_arena *arena,
                                struct mc_status_reply *out_reply) MC_MUST_CHECK;
/** Items: OK with a lease (none for sizes_only), EBADKEY, ENOENT, ENOTREADY (being written). */
mooncake_err mc_core_query(struct mc_core *core, const struct mc_keys_request *request,
                           struct mc_arena *arena, struct mc_query_reply *out_reply) MC_MUST_CHECK;
/**
 * Items: OK with a lease, EBADKEY, ENOENT. lease_ms is the shortest lease of an OK item. With
 * `descriptors` it counts as a read, and where the objects are is told with a promise (reuse.h).
 */
mooncake_err mc_core_exist(struct mc_core *core, const struct mc_keys_request *request,
                           struct mc_arena *arena, struct mc_exist_reply *out_reply) MC_MUST_CHECK;
/**
 * Leases of versions that are looked at in place, granted by a Query with `view`, go on. Such a
 * version keeps its space while it is renewed, also when its key was removed by force, replaced, or
 * its replica reported as damaged. Items: OK, EBADKEY, ENOENT (that version is not held on that
 * mount: its bytes may be anybody's).
 */
mooncake_err mc_core_renew(struct mc_core *core, const struct mc_renew_request *request,
                           struct mc_arena *arena, struct mc_renew_reply *out_reply) MC_MUST_CHECK;
/** Items: OK, EBADKEY, ENOENT, ELEASED (unless force), ENOTREADY (being written). */
mooncake_err mc_core_remove(struct mc_core *core, const struct mc_keys_request *request,
                            struct mc_arena *arena,
                            struct mc_status_reply *out_reply) MC_MUST_CHECK;

/**
 * Milliseconds that must pass before this request may be carried out, because descriptors are still
 * promised of what it would take away (reuse.h); 0: now. To be asked once, before the call itself;
 * whoever does not ask breaks the promises.
 */
uint64_t mc_core_put_end_wait_ms(struct mc_core *core, const struct mc_put_end_request *request);
uint64_t mc_core_remove_wait_ms(struct mc_core *core, const struct mc_keys_request *request);

typedef void (*mc_core_removed_cb)(void *arg, mooncake_err err,
                                   const struct mc_remove_all_reply *reply);
/**
 * Remove everything that may be removed (and has the pattern, if one is given: pattern.h), in
 * slices. By force it begins when promises about descriptors have ended, and none are made until
 * its end. Pins protect from eviction and not from this. @p done runs exactly once if this returns
 * OK, before the return or from a later tick; it must not call the core. It gets EINVAL, with the
 * thread's sentence, when the pattern turns out to cost too much; what was removed stays removed.
 *
 * @retval EINVAL      no regular expression
 * @retval ETASKQUEUE  64 such requests are waiting
 */
mooncake_err mc_core_remove_all(struct mc_core *core, const struct mc_remove_all_request *request,
                                mc_core_removed_cb done, void *arg) MC_MUST_CHECK;
/** Forget who asked: @p done will not run for this @p arg. The removal itself goes on. */
void mc_core_remove_all_forget(struct mc_core *core, const void *arg);

/* ---- members ----------------------------------------------------------------------------- */

/** Items: OK (also for a mount that is there already), EINVAL, ESEGMENTEXISTS, ENOMEM. */
mooncake_err mc_core_mount(struct mc_core *core, const struct mc_mount_request *request,
                           struct mc_arena *arena, struct mc_status_reply *out_reply) MC_MUST_CHECK;
/** Items: OK, ENOSEGMENT (no such mount of this client). */
mooncake_err mc_core_unmount(struct mc_core *core, const struct mc_unmount_request *request,
                             struct mc_arena *arena,
                             struct mc_status_reply *out_reply) MC_MUST_CHECK;
/** @retval EUNAVAILABLE  too many members */
mooncake_err mc_core_ping(struct mc_core *core, const struct mc_ping_request *request,
                          struct mc_arena *arena, struct mc_ping_reply *out_reply) MC_MUST_CHECK;
/** Items: OK, ENOSEGMENT. */
mooncake_err mc_core_report(struct mc_core *core, const struct mc_report_request *request,
                            struct mc_arena *arena,
                            struct mc_status_reply *out_reply) MC_MUST_CHECK;

/* ---- questions --------------------------------------------------------------------------- */

/** Readable keys (that have the pattern, if one is given), at most MC_BATCH_KEYS_MAX a call; with a
 * pattern a page may be empty and not the last. @retval EINVAL a bad or costly pattern */
mooncake_err mc_core_list_keys(struct mc_core *core, const struct mc_list_keys_request *request,
                               struct mc_arena *arena,
                               struct mc_list_keys_reply *out_reply) MC_MUST_CHECK;
/** Segments in the order of their mounting, lost ones that are still being swept among them; each
 * once. A page has at most MC_PAGE_ITEMS_MAX of them and takes no longer than a slice. */
mooncake_err mc_core_list_segments(struct mc_core *core, const struct mc_list_request *request,
                                   struct mc_arena *arena,
                                   struct mc_list_segments_reply *out_reply) MC_MUST_CHECK;
/** The same of members, in the order of their coming. */
mooncake_err mc_core_list_clients(struct mc_core *core, const struct mc_list_request *request,
                                  struct mc_arena *arena,
                                  struct mc_list_clients_reply *out_reply) MC_MUST_CHECK;
/** One mounted segment by its name. @retval ENOSEGMENT, without a sentence */
mooncake_err mc_core_find_segment(struct mc_core *core, const char *name, struct mc_arena *arena,
                                  struct mc_segment_status *out_status) MC_MUST_CHECK;
/** Is this mount there, and not lost? */
bool mc_core_is_mounted(const struct mc_core *core, uint64_t mount_id);
/** Keys that removals by this client have removed so far which are under way; 0 is no client. */
uint64_t mc_core_removed_now(const struct mc_core *core, uint64_t client_id);
/** What is told of program, threads and removals is the caller's to fill. */
void mc_core_pool_status(struct mc_core *core, struct mc_pool_status_reply *out_reply);
/** Of request->keys[0], which must be the only one. @retval EBADKEY, ENOENT */
mooncake_err mc_core_describe_key(struct mc_core *core, const struct mc_keys_request *request,
                                  struct mc_arena *arena,
                                  struct mc_describe_key_reply *out_reply) MC_MUST_CHECK;

/** Why is this key a miss? Grants no lease. EBADKEY. */
mooncake_err mc_core_why_miss(struct mc_core *core, const struct mc_keys_request *request,
                              struct mc_arena *arena,
                              struct mc_why_miss_reply *out_reply) MC_MUST_CHECK;
/** Take segments out of placement, or back into it, and tell what they hold. What they hold stays
 * readable. Forgotten when the mount ends. Items: OK, ENOSEGMENT, ESTATE. */
mooncake_err mc_core_drain(struct mc_core *core, const struct mc_drain_request *request,
                           struct mc_arena *arena, struct mc_drain_reply *out_reply) MC_MUST_CHECK;
/** Readable keys that have bytes on these segments, and those of them with no complete copy
 * elsewhere; a slice of the table at a time. A key may be counted twice when the table grows. */
mooncake_err mc_core_sole_keys(struct mc_core *core, const struct mc_sole_keys_request *request,
                               struct mc_arena *arena,
                               struct mc_sole_keys_reply *out_reply) MC_MUST_CHECK;

/* Bytes of the pool by what would have to happen before they can be given to a new object. They
 * add up to capacity. */
struct mc_core_space {
    uint64_t capacity;
    uint64_t free;         /* nothing */
    uint64_t evictable;    /* eviction, now */
    uint64_t leased;       /* a lease must end */
    uint64_t soft_pinned;  /* eviction as a last resort */
    uint64_t hard_pinned;  /* removal only */
    uint64_t writing;      /* a put must end, or the release timeout pass */
    uint64_t parked;       /* left by a lost writer; a time must pass */
    uint64_t reading;      /* of replaced versions that somebody may be reading; a lease time */
    uint64_t unplaceable;  /* free, but in a segment that is draining or suspect */
    uint64_t largest_free; /* longest single extent; a part of free */
    uint64_t books;        /* heap bytes of the segments' allocators; no part of capacity */
};
/** Add the next MC_PAGE_ITEMS_MAX segments to @p sums, which is zeroed at the start, as is *cursor;
 * 0 in *cursor says that all were added. */
void mc_core_space_page(struct mc_core *core, uint64_t *cursor, struct mc_core_space *sums);
/** All in one go: 2 ms for 10,000 segments, so for tests. */
void mc_core_space(struct mc_core *core, struct mc_core_space *out_space);

/** Age of the oldest unfinished put in milliseconds; 0: there is none. */
uint64_t mc_core_oldest_put_ms(struct mc_core *core);

const struct mc_core_metrics *mc_core_metrics(const struct mc_core *core);
/**
 * Walk everything and compare each gauge with what is truly there, and every list with its
 * members. Takes time in proportion to the number of objects, in one go: for tests.
 *
 * @retval EINTERNAL  the sentence names the first gauge that differs, with both values
 */
mooncake_err mc_core_recount(struct mc_core *core) MC_MUST_CHECK;
typedef void (*mc_core_recounted_cb)(void *arg, mooncake_err err);
/**
 * The same in slices of at most MC_TICK_NS_MAX, while the pool works, and exact at its end all the
 * same. It does not walk along the queues of segments. @p done runs exactly once if this returns
 * OK, before the return or from a later tick, and must not call the core; it gets OK, EINTERNAL
 * with the thread's sentence as above, or EUNAVAILABLE when the core is destroyed. Who comes while
 * one is under way joins it.
 *
 * The last slice looks at every segment and member at once: about 100 ns each.
 *
 * @retval ETASKQUEUE  64 are waiting
 */
mooncake_err mc_core_recount_start(struct mc_core *core, mc_core_recounted_cb done,
                                   void *arg) MC_MUST_CHECK;
/** Tests only: one slice a tick, of so many versions, and no tick on its account. 0: as it is. */
void mc_core_recount_pace(struct mc_core *core, unsigned visits);
/** A request is being kept waiting as mc_core_*_wait_ms() said. */
void mc_core_count_reuse_wait(struct mc_core *core);
/** Heap bytes of the table of keys (not of objects, nor of segments: those are in the sums). */
uint64_t mc_core_table_bytes(const struct mc_core *core);

/* Planted faults, so that a test can show that the simulation finds each. Tests only. */
enum mc_core_fault {
    MC_CORE_FAULT_NONE,
    MC_CORE_FAULT_END_IGNORES_ATTEMPT,
    MC_CORE_FAULT_EXTENT_HANDED_OUT_TWICE,
    MC_CORE_FAULT_LEASE_FORGOTTEN,
};
void mc_core_plant_fault(struct mc_core *core, enum mc_core_fault fault);

#endif
