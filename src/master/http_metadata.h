/*
 * The HTTP metadata service of the C++ Mooncake: keys and values in memory, for programs that want
 * one (--enable_http_metadata_server). The pool itself does not use it.
 *
 *   GET, PUT, DELETE /metadata?key=KEY; GET /health
 *
 * Thread: the loop's owner.
 */
#ifndef MC_MASTER_HTTP_METADATA_H
#define MC_MASTER_HTTP_METADATA_H

#include <stdint.h>

#include "base/err.h"
#include "io/loop.h"

struct mc_http_metadata;

/** Listens when it returns. ENOMEM; ERPC (the port is taken: the sentence names it). */
mooncake_err mc_http_metadata_open(struct mc_loop *loop, const char *host, uint16_t port,
                                   struct mc_http_metadata **out) MC_MUST_CHECK;
uint16_t mc_http_metadata_port(const struct mc_http_metadata *metadata);
/** Nulls *metadata; accepts NULL in it. */
void mc_http_metadata_close(struct mc_http_metadata **metadata);

#endif
