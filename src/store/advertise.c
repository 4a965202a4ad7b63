/* The address on the way to the master, from the kernel's routing table. */
#include "store/advertise.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/option.h"

static bool is_any(const char *host)
{
    return host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 ||
           strcmp(host, "*") == 0;
}

static mooncake_err print_address(const char *host, uint16_t port, char *out, size_t cap)
{
    bool v6 = strchr(host, ':') != NULL;
    int len = snprintf(out, cap, v6 ? "tcp://[%s]:%u" : "tcp://%s:%u", host, (unsigned)port);

    if (len < 0 || (size_t)len >= cap) {
        return mc_err_set(MOONCAKE_EINVAL, "address %s is too long", host);
    }
    return MOONCAKE_OK;
}

/* Connecting a datagram socket sends nothing; it makes the kernel choose our address. */
static mooncake_err local_host_towards(const struct addrinfo *peer, char *out_host, size_t cap)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof(local);
    mooncake_err err = MOONCAKE_OK;
    int fd = socket(peer->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return mc_err_from_errno(errno);
    }
    if (connect(fd, peer->ai_addr, peer->ai_addrlen) != 0 ||
        getsockname(fd, (struct sockaddr *)&local, &len) != 0) {
        err = mc_err_from_errno(errno);
    } else if (getnameinfo((struct sockaddr *)&local, len, out_host, (socklen_t)cap, NULL, 0,
                           NI_NUMERICHOST) != 0) {
        err = MOONCAKE_EINTERNAL;
    }
    (void)close(fd);
    return err;
}

static mooncake_err route_to(const char *master, char *out_host, size_t cap)
{
    char host[MC_ADDR_LEN_MAX + 1], port_text[8];
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
    mooncake_err err = MOONCAKE_ERPC;
    uint16_t port;
    int status;

    MC_TRY(mc_parse_address(master, 0, host, sizeof(host), &port));
    (void)snprintf(port_text, sizeof(port_text), "%u", (unsigned)port);
    status = getaddrinfo(host, port_text, &hints, &found);
    if (status != 0) {
        return mc_err_set(MOONCAKE_ERPC, "master %s: the name does not resolve: %s", master,
                          gai_strerror(status));
    }
    for (const struct addrinfo *at = found; at != NULL && err != MOONCAKE_OK; at = at->ai_next) {
        err = local_host_towards(at, out_host, cap);
    }
    freeaddrinfo(found);
    if (err != MOONCAKE_OK) {
        return mc_err_set(MOONCAKE_ERPC,
                          "master %s: no route to it, so no address to advertise; name one with "
                          "advertise_host",
                          master);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_advertise(const char *advertise_host, const char *data_address, uint16_t port,
                          const char *master, char *out, size_t cap)
{
    char host[MC_ADDR_LEN_MAX + 1];
    uint16_t unused;

    if (advertise_host != NULL && advertise_host[0] != '\0') {
        return print_address(advertise_host, port, out, cap);
    }
    MC_TRY(mc_parse_address(data_address, 1, host, sizeof(host), &unused));
    if (is_any(host)) {
        MC_TRY(route_to(master, host, sizeof(host)));
    }
    return print_address(host, port, out, cap);
}
