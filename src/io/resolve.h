/*
 * Host names to addresses, on a thread for each question. Not on libuv's pool: a loop cannot end
 * before a request of libuv has, and a resolver whose servers are silent takes as long as it likes.
 */
#ifndef MC_IO_RESOLVE_H
#define MC_IO_RESOLVE_H

#include <netdb.h>

#include "io/address.h"
#include "io/loop.h"

/* Questions under way in this process; a silent resolver must not pile up threads. */
#define MC_RESOLVES_MAX 64u

struct mc_resolve;

/**
 * Ask for the addresses of a host.
 *
 * @param done  runs once from the loop: @p gai_error is 0 or an EAI_ number, @p found is valid
 *              during the call
 * @retval ETASKQUEUE  MC_RESOLVES_MAX are under way
 * @retval ENOMEM
 */
mooncake_err mc_resolve_start(struct mc_loop *loop, const struct mc_address_parts *parts,
                              void (*done)(void *arg, int gai_error, const struct addrinfo *found),
                              void *arg, struct mc_resolve **out) MC_MUST_CHECK;
/** done is not called any more, and the loop may end. Nulls *resolve. */
void mc_resolve_abandon(struct mc_resolve **resolve);

#endif
