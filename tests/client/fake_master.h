/*
 * A small master for tests of clients and stores: real sockets and messages, a thread of its own,
 * the least of a memory (nothing is ever freed but by force), and faults on demand. All functions
 * may be called from the test's thread.
 */
#ifndef MC_TESTS_CLIENT_FAKE_MASTER_H
#define MC_TESTS_CLIENT_FAKE_MASTER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/methods.h"

struct fake_master;

enum fake_action {
    FAKE_ANSWER, /* as a master should */
    FAKE_SILENT, /* take the request, never answer */
    FAKE_LOSE,   /* do what it asks, then lose all connections instead of answering */
    FAKE_REFUSE, /* answer the whole request with a status */
    FAKE_ITEM,   /* PutStart, Query: the status for every item */
};

struct fake_master *fake_master_start(void);
void fake_master_stop(struct fake_master *fake);
/** "127.0.0.1:PORT"; as long as the fake. */
const char *fake_master_address(const struct fake_master *fake);

/** Treat the next @p times requests of @p method so. @p status: of REFUSE and ITEM. */
void fake_master_rule(struct fake_master *fake, enum mc_method method, enum fake_action action,
                      unsigned times, mooncake_err status);
/** Requests of @p method that have come so far. */
unsigned fake_master_seen(struct fake_master *fake, enum mc_method method);

/** Begin a new life: connections lost, mounts and objects forgotten, another epoch. */
void fake_master_restart(struct fake_master *fake);
/** Stop listening and lose all connections, or (true) listen again. */
void fake_master_listen(struct fake_master *fake, bool listen);
/** Forget what is mounted, as after a long silence; objects stay as they are. */
void fake_master_forget_mounts(struct fake_master *fake);

/** Cut each replica into so many extents (1 to 16) from now on. */
void fake_master_set_extents(struct fake_master *fake, unsigned extents);
/** With ENOSPACE answers: come again after so long. 0: for good. */
void fake_master_set_retry_after(struct fake_master *fake, uint32_t ms);
/** Move the object's first replica to where nothing of it lies: its descriptor is stale. */
void fake_master_spoil(struct fake_master *fake, const char *key, unsigned replica);
/** Say that the object's only replica is in the @p index-th mount. */
void fake_master_move(struct fake_master *fake, const char *key, unsigned index);
/** The segments that are mounted, and the id of the @p index-th. */
unsigned fake_master_mounts(struct fake_master *fake);
uint64_t fake_master_mount_id(struct fake_master *fake, unsigned index);
/** From now on tell everybody that the @p index-th mount is reached there. */
void fake_master_set_addresses(struct fake_master *fake, unsigned index, const char *addresses);
/** Is a client of this role among those who ping and have not said goodbye? */
bool fake_master_knows(struct fake_master *fake, enum mc_role role);

struct fake_object_state {
    bool found, readable;
    unsigned replicas; /* that are readable, or are being written */
    uint32_t failed;   /* the mask of the PutEnd */
    unsigned revoked;  /* how often a put of this key was revoked: its space is free at once */
    unsigned parked;   /* how often it was ended with every replica failed: its space waits */
};
struct fake_object_state fake_master_object(struct fake_master *fake, const char *key);

/** Wait until @p holds(arg), asked again and again for at most 10 s; returns whether it came. */
bool fake_wait(bool (*holds)(void *arg), void *arg);

#endif
