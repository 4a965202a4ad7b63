/*
 * Promises about descriptors. A client that asks for existence and will get the same keys next may
 * be told where they are, with the promise that for a short time (the window) these are the newest
 * versions: it may read them without asking again. The promise is kept by making those wait who
 * would break it: a removal by force and the end of a put that replaces a version are carried out
 * only when all promises about that version have ended, and until then no more are made about it.
 * So a get that began with a promised descriptor began before the removal or the new value did.
 *
 * A promise is never longer than half a lease, so nothing else can end a promised version but the
 * loss of its store or of this master's memory; after these every end of a put waits for the rest
 * of the window, because the key of a lost version is free for another value.
 */
#ifndef MC_MASTER_REUSE_H
#define MC_MASTER_REUSE_H

#include "master/env.h"
#include "master/object.h"

struct mc_reuse {
    struct mc_core_env *env;
    uint64_t last_ns; /* of the latest promise about anything */
};

/** At the start all promises of an earlier life count as made just now. */
void mc_reuse_init(struct mc_reuse *reuse, struct mc_core_env *env);

/** Length of a promise in milliseconds; 0: none are made. */
uint64_t mc_reuse_window_ms(const struct mc_reuse *reuse);
/** Promise for the window that this leased version is the newest. False: not about this one. */
bool mc_reuse_promise(struct mc_reuse *reuse, struct mc_object *object);

/** Nanoseconds until no promise about anything is alive. */
uint64_t mc_reuse_all_ns(const struct mc_reuse *reuse);
/** Nanoseconds until this version may be taken away; 0: now. Not 0: no more promises about it. */
uint64_t mc_reuse_close(struct mc_reuse *reuse, struct mc_object *object);
/** Nanoseconds until a key that nobody holds may get a value. */
uint64_t mc_reuse_lost_ns(const struct mc_reuse *reuse);

#endif
