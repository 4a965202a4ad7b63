/*
 * Serving the thin clients of this host. A thin client knows one address, that of this process. It
 * asks here with which master and transports it shall open, and for a pool: memory that both
 * processes have mapped. Its puts and gets do not pass through here.
 *
 * A pool is a sealed memfd in the mount table that the master knows nothing of, under an id that
 * only its client is told. The client gets the memory as that of a segment (transport/shm_ask.h),
 * from those sockets and under that policy. It is freed when the connection over which the memory
 * was handed out has ended, which the kernel sees to when either process dies.
 *
 * Thread: the loop's owner.
 */
#ifndef MC_STORE_ATTACH_H
#define MC_STORE_ATTACH_H

#include <stdint.h>

#include "base/err.h"
#include "io/loop.h"
#include "transport/shm_server.h"

struct mc_attach;

struct mc_attach_options {
    const char *address; /* to listen on: "0.0.0.0:50052" */
    const char *program; /* "mooncake_store 0.1.0" */
    /* What thin clients are told. */
    const char *master, *transport, *rdma_devices, *rdma_gid_index;
    /* Who may have pools, and where the socket for it is: as for segments. OFF: nobody. */
    enum mc_shm_policy shm;
    const char *shm_dir;
    uint64_t pools_len_max; /* bytes of all pools; 0: as much as this machine has memory */
};

/** Texts are borrowed until the close. @retval ERPC the address is in use @retval EINVAL, ENOMEM */
mooncake_err mc_attach_open(struct mc_loop *loop, const struct mc_attach_options *options,
                            struct mc_attach **out) MC_MUST_CHECK;
/** From now on clients are let in; before, they are told to come again. */
void mc_attach_set_ready(struct mc_attach *attach);
/** 0 for NULL. */
uint16_t mc_attach_port(const struct mc_attach *attach);
/** Pools in use, and their bytes. */
void mc_attach_totals(const struct mc_attach *attach, uint64_t *out_pools, uint64_t *out_bytes);
/** Clients keep the memory they have mapped. Nulls *attach. */
void mc_attach_close(struct mc_attach **attach);

#endif
