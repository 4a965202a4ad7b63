/*
 * The admin HTTP of a store daemon: is it alive, does it serve, what has it moved. Off unless asked
 * for. Thread: the owner of the store's loop.
 */
#ifndef MC_STORE_STORE_ADMIN_H
#define MC_STORE_STORE_ADMIN_H

#include "io/admin_http.h"
#include "store/attach.h"
#include "store/store_serve.h"

struct mc_store_admin;

struct mc_store_admin_options {
    const char *host, *port;        /* port "9300"; "0": the kernel picks; "": nothing is opened */
    const struct mc_attach *attach; /* whose pools are counted; NULL: none */
};

/**
 * With port "" *out is NULL.
 *
 * @retval EINVAL  port is no port, or host no numeric address
 * @retval ERPC    the port is taken: the sentence names it
 */
mooncake_err mc_store_admin_open(struct mc_loop *loop, struct mc_store *store,
                                 const struct mc_store_admin_options *options,
                                 struct mc_store_admin **out) MC_MUST_CHECK;
/** 0 for NULL. */
uint16_t mc_store_admin_port(const struct mc_store_admin *admin);
/** Before the store is closed. Nulls *admin; accepts NULL in it. */
void mc_store_admin_close(struct mc_store_admin **admin);

#endif
