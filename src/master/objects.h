/*
 * Key -> object: the table, and the steps of a version's life. Whoever drops or frees here keeps
 * the table, the segments' books and the gauges in step; when is decided above (lifetime, evict,
 * core_*).
 */
#ifndef MC_MASTER_OBJECTS_H
#define MC_MASTER_OBJECTS_H

#include "master/segments.h"
#include "master/tally.h"
#include "wire/messages.h"

struct mc_objects {
    struct mc_core_env *env;
    struct mc_segments *segments;
    struct mc_htab *table; /* key -> head */
    uint64_t last_attempt;
    struct mc_tally tally;
};

/* Extents for one new object, replica by replica. */
struct mc_slots {
    unsigned count, replicas;
    struct mc_slot slots[MC_REPLICAS_MAX * MC_EXTENTS_MAX];
};

struct mc_object_spec {
    const struct mc_key *key;
    uint64_t hash; /* mc_htab_hash() of the key */
    uint64_t value_len;
    uint64_t client_id, nonce, request_seq;
    enum mc_pin pin;
    uint64_t pin_len_ns;
    const struct mc_slots *slots;
};

mooncake_err mc_objects_init(struct mc_objects *objects, struct mc_core_env *env,
                             struct mc_segments *segments) MC_MUST_CHECK;
/** Drops what is in the table. Parked versions are their lists' business. */
void mc_objects_fini(struct mc_objects *objects);

/** The head of a key, or NULL. */
struct mc_object *mc_objects_find(const struct mc_objects *objects, const struct mc_key *key,
                                  uint64_t hash);
/** As above, after dropping a readable head of which no replica is left. */
struct mc_object *mc_objects_find_live(struct mc_objects *objects, const struct mc_key *key,
                                       uint64_t hash);

/** A readable head has no complete replica left: count it, remember with which store, drop it. */
void mc_objects_lose(struct mc_objects *objects, struct mc_object *object);

/** Are all extents of this replica there, on segments that are not gone? */
bool mc_object_replica_complete(const struct mc_object *object, unsigned replica);
bool mc_object_any_complete(const struct mc_object *object);
/** Is some extent of it on this mount, which is not gone? */
bool mc_object_on_mount(const struct mc_object *object, uint64_t mount_id);
/** Can it be read now? Exactly this decides hit or miss. */
static inline bool mc_object_readable(const struct mc_object *object)
{
    return object->life == MC_LIFE_READABLE && mc_object_any_complete(object);
}

/**
 * A WRITING version in the table, or pending on @p head if that is not NULL (it is READABLE and
 * has no pending one). Takes the slots on success only. @retval ENOMEM
 */
mooncake_err mc_objects_open(struct mc_objects *objects, const struct mc_object_spec *spec,
                             struct mc_object *head, struct mc_object **out) MC_MUST_CHECK;
/**
 * WRITING -> READABLE, in the table in the place of an older version, if there is one.
 *
 * @param out_put  its record: the caller's now
 * @param out_old  the older version, detached, or NULL: the caller parks or frees it
 */
void mc_objects_make_readable(struct mc_objects *objects, struct mc_object *object,
                              struct mc_put **out_put, struct mc_object **out_old);
/** Out of the table or off its head; a pending version takes its place. Not freed. */
void mc_objects_detach(struct mc_objects *objects, struct mc_object *object);
/** WRITING or READABLE, detached -> PARKED. Takes @p put, in no list. @p klass is PARKED or
 * READING.
 */
void mc_objects_park(struct mc_objects *objects, struct mc_object *object, struct mc_put *put,
                     enum mc_class klass);
/** Free a detached or parked version with its space. */
void mc_objects_free(struct mc_objects *objects, struct mc_object *object);
/** detach and free. */
void mc_objects_drop(struct mc_objects *objects, struct mc_object *object);
/** Free all extents of one replica; returns their bytes. */
uint64_t mc_objects_drop_replica(struct mc_objects *objects, struct mc_object *object,
                                 unsigned replica);
/**
 * Cut the replicas in @p mask from a WRITING or READABLE object into a detached version of their
 * own, which is PARKED, its record in no list. @retval ENOMEM nothing changed
 */
mooncake_err mc_objects_split(struct mc_objects *objects, struct mc_object *object, uint32_t mask,
                              struct mc_object **out) MC_MUST_CHECK;
/** The extent of a version that is not readable was lost; the rest of its replica stays. */
void mc_objects_lose_extent(struct mc_objects *objects, struct mc_extent *extent);
/** Its lease ends at @p end_ns now. */
void mc_objects_set_lease(struct mc_objects *objects, struct mc_object *object, uint64_t end_ns);
/** The pin is over: it may be evicted like any other. */
void mc_objects_unpin(struct mc_objects *objects, struct mc_object *object);

uint64_t mc_object_hash(const struct mc_object *object);

#endif
