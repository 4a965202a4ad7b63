/*
 * The client's end of the handshake after which it holds a mount's memory: the steps, for a loop
 * that waits between them, and the whole of it, for a thread that has no loop. Thread-safe.
 */
#ifndef MC_TRANSPORT_SHM_ASK_H
#define MC_TRANSPORT_SHM_ASK_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "transport/shm_map.h"
#include "transport/shm_wire.h"

/**
 * Connect to a store's socket and ask for a mount. Does not wait: a Unix socket connects at once or
 * not at all.
 *
 * @param out_fd  the caller's; what comes on it is for mc_shm_receive()
 * @retval ERPC   nobody serves there, or we may not connect: errno says which
 */
mooncake_err mc_shm_ask(const struct sockaddr_un *address, uint64_t mount_id,
                        int *out_fd) MC_MUST_CHECK;

/** The answer: one packet of MC_SHM_MESSAGE_LEN bytes with at most one descriptor, which is the
 * caller's (else -1). Returns its length; 0 when the peer has closed; -1 with errno. */
ssize_t mc_shm_receive(int fd, uint8_t *bytes, int *out_memfd);

/**
 * Get, map and hold the memory of a mount.
 *
 * @param addresses   as in the mount's list; the one of this machine is asked
 * @param timeout_ms  for the answer
 * @param out         give it to mc_shm_map_return()
 * @retval ENOTSUP      no address is of this machine
 * @retval EUNAVAILABLE the peer refuses: it does not trust this user
 * @retval ENOSEGMENT   it has no such mount
 * @retval ERPC, ETIMEDOUT, ENOMEM
 */
mooncake_err mc_shm_fetch(const char *addresses, uint64_t mount_id, uint32_t timeout_ms,
                          struct mc_shm_map **out) MC_MUST_CHECK;

#endif
