/* Who listens on an address that is not a master's RPC port? */
#ifndef MC_CTL_WHOIS_H
#define MC_CTL_WHOIS_H

#include <stdbool.h>
#include <stdio.h>

/** A sentence about who answers at "host:port" (NULL: the library's default), with what to do; NULL
 * if nothing can be said. Takes at most a few seconds. Static. */
const char *mc_who_listens(const char *address);

/** GET http://address/path and write the body to @p out. False: nobody answered with 200, or the
 * body ended early. Each silence is waited for by at most a few seconds. */
bool mc_http_fetch(const char *address, const char *path, FILE *out);

#endif
