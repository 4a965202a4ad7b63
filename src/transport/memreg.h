/*
 * The ranges of caller memory that one client has registered: announced once by the engine, looked
 * up by transports that need memory pinned. Registering touches no page; what a kind of transport
 * needs for a range (a memory key) it makes when it first meets the range, and hangs it there.
 *
 * Any thread. Ranges may overlap and may be registered several times; each registration wants its
 * own drop. A range that is borrowed stays until it is returned, also when it was dropped
 * meanwhile.
 */
#ifndef MC_TRANSPORT_MEMREG_H
#define MC_TRANSPORT_MEMREG_H

#include <stdint.h>

#include "base/err.h"
#include "transport/transport.h"

struct mc_memreg;

/* What one kind of transport keeps for a range. */
struct mc_memreg_key {
    void *data; /* the kind's own; NULL at first */
    /* Give data back; runs when the range goes, on whichever thread lets it go. */
    void (*release)(void *data);
};

struct mc_memreg_range {
    uintptr_t base;
    uint64_t len;
    struct mc_memreg_key keys[MC_TRANSPORT_KINDS_MAX]; /* by kind; guarded by the kind */
};

/* Registrations of one client. An engine registers a few per layer; this refuses a leak. */
#define MC_MEMREG_RANGES_MAX 65536u

mooncake_err mc_memreg_create(struct mc_memreg **out) MC_MUST_CHECK;
/** Drops all ranges; none may be borrowed. Nulls *reg. */
void mc_memreg_destroy(struct mc_memreg **reg);

/** Cost does not depend on @p len. EINVAL: len is 0 or the range wraps; ENOMEM: no memory, or
 * MC_MEMREG_RANGES_MAX registrations exist. */
mooncake_err mc_memreg_add(struct mc_memreg *reg, const void *base, uint64_t len) MC_MUST_CHECK;
/** Undo one registration that began at @p base, the newest first. EINVAL: there is none. */
mooncake_err mc_memreg_drop(struct mc_memreg *reg, const void *base) MC_MUST_CHECK;

/** A range that holds all of [base, base + len), held until mc_memreg_return(); NULL: none. */
struct mc_memreg_range *mc_memreg_borrow(struct mc_memreg *reg, const void *base, uint64_t len);
void mc_memreg_return(struct mc_memreg *reg, struct mc_memreg_range *range);

/** Distinct ranges registered now. */
uint64_t mc_memreg_count(struct mc_memreg *reg);

#endif
