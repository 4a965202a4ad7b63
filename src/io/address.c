/* Numeric socket addresses. */
#include "io/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/option.h"

mooncake_err mc_address_split(const char *address, struct mc_address_parts *out)
{
    return mc_parse_address(address, 0, out->host, sizeof(out->host), &out->port);
}

bool mc_address_numeric(const struct mc_address_parts *parts, struct sockaddr_storage *out)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    memset(out, 0, sizeof(*out));
    if (uv_ip4_addr(parts->host, parts->port, &v4) == 0) {
        memcpy(out, &v4, sizeof(v4));
        return true;
    }
    if (uv_ip6_addr(parts->host, parts->port, &v6) == 0) {
        memcpy(out, &v6, sizeof(v6));
        return true;
    }
    return false;
}

socklen_t mc_address_len(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? (socklen_t)sizeof(struct sockaddr_in6)
                                          : (socklen_t)sizeof(struct sockaddr_in);
}

void mc_address_print(const struct sockaddr_storage *address, char *out, size_t cap)
{
    char host[INET6_ADDRSTRLEN] = "?";
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (address->ss_family == AF_INET6) {
        memcpy(&v6, address, sizeof(v6));
        (void)inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
        (void)snprintf(out, cap, "[%s]:%u", host, (unsigned)ntohs(v6.sin6_port));
    } else {
        memcpy(&v4, address, sizeof(v4));
        (void)inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
        (void)snprintf(out, cap, "%s:%u", host, (unsigned)ntohs(v4.sin_port));
    }
}
