/*
 * Numeric socket addresses to and from text. Names are resolved by the stream that needs one.
 */
#ifndef MC_IO_ADDRESS_H
#define MC_IO_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/limits.h"

/* Host and port of an address, apart. */
struct mc_address_parts {
    char host[MC_ADDR_LEN_MAX];
    uint16_t port;
};

/** Split "host:port" or "[v6]:port"; the port is 0 to 65535. EINVAL, with a sentence. */
mooncake_err mc_address_split(const char *address, struct mc_address_parts *out) MC_MUST_CHECK;
/** If the host is numeric, fill *out and return true. */
bool mc_address_numeric(const struct mc_address_parts *parts, struct sockaddr_storage *out);
/** Length of the address for bind() and connect(). */
socklen_t mc_address_len(const struct sockaddr_storage *address);
/** "10.0.0.7:18515" or "[::1]:18515". */
void mc_address_print(const struct sockaddr_storage *address, char *out, size_t cap);

#endif
