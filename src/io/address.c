/* Numeric socket addresses. */
#include "io/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

static bool is_port(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= 5 && strspn(text, "0123456789") == len &&
           strtoul(text, NULL, 10) <= 65535;
}

mooncake_err mc_address_split(const char *address, struct mc_address_parts *out)
{
    const char *colon = strrchr(address, ':');
    const char *host = address;
    size_t host_len;

    if (colon == NULL || !is_port(colon + 1)) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "\"%.300s\" is not an address; write host:port, e.g. 10.0.0.7:50051",
                          address);
    }
    host_len = (size_t)(colon - address);
    if (host_len >= 2 && host[0] == '[' && host[host_len - 1] == ']') {
        host++;
        host_len -= 2;
    } else if (memchr(host, ':', host_len) != NULL) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "\"%.300s\" is not an address; write IPv6 as [::1]:50051", address);
    }
    if (host_len == 0 || host_len >= sizeof(out->host)) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "\"%.300s\" is not an address: the host has %zu bytes, "
                          "1 to %zu are allowed",
                          address, host_len, sizeof(out->host) - 1);
    }
    memcpy(out->host, host, host_len);
    out->host[host_len] = '\0';
    (void)snprintf(out->port, sizeof(out->port), "%s", colon + 1);
    return MOONCAKE_OK;
}

bool mc_address_numeric(const struct mc_address_parts *parts, struct sockaddr_storage *out)
{
    int port = (int)strtoul(parts->port, NULL, 10);
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    memset(out, 0, sizeof(*out));
    if (uv_ip4_addr(parts->host, port, &v4) == 0) {
        memcpy(out, &v4, sizeof(v4));
        return true;
    }
    if (uv_ip6_addr(parts->host, port, &v6) == 0) {
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
