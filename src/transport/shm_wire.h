/*
 * What both ends of same-host sharing agree on: the address, and the two messages after which a
 * client holds the segment's memory.
 *
 * Address: "shm://<boot id><path of a Unix socket>". The boot id keeps a client on another machine
 * (or in another virtual machine) from trying a path that happens to exist there.
 *
 * The socket is SOCK_SEQPACKET, so each message is one packet. All integers are little-endian.
 *   client -> store  u32 magic "MCS1", u16 version, u16 zero, u64 mount id
 *   store -> client  u32 magic, i32 status, u64 length of the segment; with status 0 a memfd
 * Afterwards nothing is sent. The store closes the connection when the mount ends; the kernel does
 * when the store dies. Either is how the client learns that the memory is nobody's any more.
 */
#ifndef MC_TRANSPORT_SHM_WIRE_H
#define MC_TRANSPORT_SHM_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "base/err.h"

#define MC_SHM_MAGIC 0x3153434du /* "MCS1" */
#define MC_SHM_VERSION 1u
#define MC_SHM_MESSAGE_LEN 16u
#define MC_SHM_BOOT_ID_LEN 36u
#define MC_SHM_ADDRESS_LEN_MAX 160u

struct mc_shm_request {
    uint64_t mount_id;
};

struct mc_shm_reply {
    int32_t status;
    uint64_t len;
};

void mc_shm_request_encode(const struct mc_shm_request *request, uint8_t out[MC_SHM_MESSAGE_LEN]);
/** @retval ERPC not a request of this version */
mooncake_err mc_shm_request_decode(const uint8_t *bytes, size_t len,
                                   struct mc_shm_request *out) MC_MUST_CHECK;
void mc_shm_reply_encode(const struct mc_shm_reply *reply, uint8_t out[MC_SHM_MESSAGE_LEN]);
/** @retval ERPC not a reply of this version */
mooncake_err mc_shm_reply_decode(const uint8_t *bytes, size_t len,
                                 struct mc_shm_reply *out) MC_MUST_CHECK;

/** "shm://<boot id><path>" for a socket of this machine. EINVAL: the path is relative or too long
 * for a socket; EINTERNAL: no boot id. */
mooncake_err mc_shm_address_format(const char *path,
                                   char out[MC_SHM_ADDRESS_LEN_MAX]) MC_MUST_CHECK;
/** Is there an shm address of this very machine in the space-separated @p addresses? Then its
 * socket's name is in *out. */
bool mc_shm_address_find(const char *addresses, struct sockaddr_un *out);

#endif
