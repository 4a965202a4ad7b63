/*
 * How long things are kept: leases on readable objects, and the times after which unfinished puts
 * lose their key and their space.
 */
#ifndef MC_MASTER_LIFETIME_H
#define MC_MASTER_LIFETIME_H

#include "master/objects.h"

/* Why a version is parked, which decides for how long. */
enum mc_park_reason {
    MC_PARK_FAILED,  /* a frozen store may still hold its bytes: one client TTL */
    MC_PARK_RETIRED, /* an old version that is being read: one lease time */
    MC_PARK_VIEWED,  /* somebody looks at it in place: one lease time after the last renewal */
};

/* Lists by attempt of what is parked and looked at in place. */
#define MC_VIEW_BUCKETS 1024u

struct mc_lifetime {
    struct mc_core_env *env;
    struct mc_objects *objects;
    /* Records of puts, each list in the order of its ends, so that the first is due first:
     * by start + release (with what was taken over), by end + client TTL, by end + lease, by
     * renewal + lease. */
    struct mc_list unfinished, failed, retired, viewed;
    struct mc_list viewed_by_attempt[MC_VIEW_BUCKETS];
};

void mc_lifetime_init(struct mc_lifetime *lifetime, struct mc_core_env *env,
                      struct mc_objects *objects);
/** Frees what is parked. */
void mc_lifetime_fini(struct mc_lifetime *lifetime);

/** A version was opened: its times begin. */
void mc_lifetime_add(struct mc_lifetime *lifetime, struct mc_object *object);
/** May another put take the key from this WRITING version? */
bool mc_lifetime_discardable(const struct mc_lifetime *lifetime, const struct mc_object *object);
/** A WRITING version loses its key; its space waits for the release timeout. */
void mc_lifetime_take_over(struct mc_lifetime *lifetime, struct mc_object *object);
/** Detached version (or the PARKED one of a split), with a record that is in no list: keep it. */
void mc_lifetime_park(struct mc_lifetime *lifetime, struct mc_object *object, struct mc_put *put,
                      enum mc_park_reason reason);

/**
 * A READABLE version goes although somebody looks at it in place: out of the table, its space kept.
 * @retval ENOMEM  nothing changed
 */
mooncake_err mc_lifetime_retire(struct mc_lifetime *lifetime,
                                struct mc_object *object) MC_MUST_CHECK;

/** A real read: lease and place in the queue. Returns milliseconds of lease left. */
uint64_t mc_lifetime_read(struct mc_lifetime *lifetime, struct mc_object *object);
/** Asked for: a lease, as far as asking alone may prolong it. Milliseconds left. */
uint64_t mc_lifetime_ask(struct mc_lifetime *lifetime, struct mc_object *object);

/** A real read by one who will look at the bytes in place. Milliseconds left. */
uint64_t mc_lifetime_view(struct mc_lifetime *lifetime, struct mc_object *object);
/** Somebody still looks at this attempt's bytes on this mount, and it is parked: keep it for
 * another lease time. False if there is no such one. */
bool mc_lifetime_renew_parked(struct mc_lifetime *lifetime, uint64_t attempt, uint64_t mount_id);

/** Free what is due. False if the budget ended first. */
bool mc_lifetime_step(struct mc_lifetime *lifetime, struct mc_budget *budget);
/** Core time at which the oldest unfinished put began; UINT64_MAX: there is none. Behind more than
 * 1024 that were taken over it is too old. */
uint64_t mc_lifetime_oldest_ns(const struct mc_lifetime *lifetime);
/** Core time at which something falls due; UINT64_MAX: never. */
uint64_t mc_lifetime_next_ns(const struct mc_lifetime *lifetime);

#endif
