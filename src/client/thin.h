/* Thin clients: what the process that serves them tells, and the memory shared with it. */
#ifndef MC_CLIENT_THIN_H
#define MC_CLIENT_THIN_H

#include "client/client_impl.h"

/**
 * Ask options->server what to open with, and fetch the pool into client->pool. Blocks, on a loop of
 * its own.
 *
 * @param options  what the server names is filled in, where it was not set; texts in @p arena
 */
mooncake_err mc_thin_attach(mooncake_client *client, mooncake_client_options *options,
                            uint64_t deadline_ns, struct mc_arena *arena) MC_MUST_CHECK;
/** Let go of the pool, if there is one. The server frees it then. */
void mc_thin_detach(mooncake_client *client);

#endif
