/* Who listens on an address that is not a master's RPC port? */
#ifndef MC_CTL_WHOIS_H
#define MC_CTL_WHOIS_H

/** A sentence about who answers at "host:port" (NULL: the library's default), with what to do; NULL
 * if nothing can be said. Takes at most a few seconds. Static. */
const char *mc_who_listens(const char *address);

#endif
