/*
 * Who listens where no master answered Hello? For the sentence of somebody who has the wrong port.
 * One question in HTTP, one in the stores' data protocol, each on a connection of its own. Thread:
 * the loop's owner.
 */
#ifndef MC_RPC_RPC_WHO_H
#define MC_RPC_RPC_WHO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/loop.h"

struct mc_rpc_who;

/* Every part of a sentence that says who somebody is. */
#define MC_RPC_WHO_CAP 128u

/* What to do about a port that is none of a master's. */
#define MC_RPC_WHERE_A_MASTER_IS                                                                   \
    "the master's RPC port is another one: option rpc_port of mooncake_master, 50051 unless it "   \
    "was changed"

/** Whose first bytes are these? A part of a sentence, or NULL. */
const char *mc_rpc_who_begins(const uint8_t *bytes, size_t len);

/** Nobody that we know: name them by their first words. False if there are none; what is untouched
 * then. */
bool mc_rpc_who_words(const void *bytes, size_t len, char what[MC_RPC_WHO_CAP]);

/**
 * Ask. Does not look at the time: the caller stops it.
 *
 * @param done  runs once, from the loop, unless it is stopped before: with a part of a sentence,
 * valid until it returns, or NULL if it is not known who that is; *out is no more then
 * @retval ENOMEM, EINVAL (not an address)
 */
mooncake_err mc_rpc_who_start(struct mc_loop *loop, const char *address, uint32_t timeout_ms,
                              void (*done)(void *arg, const char *what), void *arg,
                              struct mc_rpc_who **out) MC_MUST_CHECK;
/** done will not run. NULL is fine. */
void mc_rpc_who_stop(struct mc_rpc_who **who);

#endif
