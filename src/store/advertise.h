/* Which address peers should use for a port that this process listens on. */
#ifndef MC_STORE_ADVERTISE_H
#define MC_STORE_ADVERTISE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/**
 * Write "tcp://HOST:PORT". HOST is @p advertise_host if there is one; else the host of
 * @p data_address unless that means any address; else this machine's address on the way to
 * @p master, as the routing table has it (nothing is sent). May block while it resolves a name.
 *
 * @retval EINVAL  data_address or master is no address, or the result does not fit
 * @retval ERPC    the master's name does not resolve, or there is no route to it
 */
mooncake_err mc_advertise(const char *advertise_host, const char *data_address, uint16_t port,
                          const char *master, char *out, size_t cap) MC_MUST_CHECK;

#endif
