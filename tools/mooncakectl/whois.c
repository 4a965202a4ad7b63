/*
 * Asked when the library says that no master is there: one question in HTTP, one in the stores'
 * data protocol, each on a connection of its own and with little patience.
 */
#include "whois.h"

#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 1000
#define ANSWER_CAP 1024

static int connect_to(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int fd = -1;

    if (getaddrinfo(host, port, &hints, &list) != 0) {
        return -1;
    }
    for (const struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next) {
        struct pollfd connected = {.events = POLLOUT};

        fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connected.fd = fd;
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0 &&
            (poll(&connected, 1, PATIENCE_MS) != 1 || (connected.revents & POLLERR) != 0)) {
            (void)close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

/* Say something and take down what comes back: @p want bytes, or until the end or a silence. */
static size_t ask(const char *host, const char *port, const void *question, size_t len,
                  char *answer, size_t want)
{
    int fd = connect_to(host, port);
    size_t got = 0;

    if (fd < 0) {
        return 0;
    }
    if (send(fd, question, len, MSG_NOSIGNAL) == (ssize_t)len) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};

        while (got < want && poll(&readable, 1, PATIENCE_MS) == 1) {
            ssize_t n = read(fd, answer + got, want - got);

            if (n <= 0) {
                break;
            }
            got += (size_t)n;
        }
    }
    (void)close(fd);
    answer[got] = '\0';
    return got;
}

static const char *judge(const char *host, const char *port)
{
    static const char get[] = "GET / HTTP/1.0\r\n\r\n";
    /* The first bytes of the data protocol: magic, protocol 1 to 1, status 0. */
    static const char hello[16] = {'M', 'C', 'D', 'H', 1, 0, 1, 0};
    char answer[ANSWER_CAP];

    if (ask(host, port, get, sizeof(get) - 1, answer, ANSWER_CAP - 1) > 0 &&
        strncmp(answer, "HTTP/", 5) == 0) {
        return strstr(answer, "/live ") != NULL
                   ? "that is the admin HTTP port of a master or store; the RPC port is another "
                     "one: option rpc_port of mooncake_master, 50051 unless it was changed"
                   : "an HTTP server listens there, no master";
    }
    if (strncmp(answer, "SSH-", 4) == 0) {
        return "an SSH server listens there, no master";
    }
    if (ask(host, port, hello, sizeof(hello), answer, sizeof(hello)) >= 4 &&
        strncmp(answer, "MCDH", 4) == 0) {
        return "that is the data port of a store; ask its master instead: the line \"serving\" in "
               "the master's log has the port";
    }
    return NULL;
}

const char *mc_who_listens(const char *address)
{
    const char *colon;
    char host[256];

    address = address != NULL ? address : getenv("MOONCAKE_MASTER");
    if (address == NULL) {
        address = "127.0.0.1:50051";
    }
    colon = strrchr(address, ':');
    if (colon == NULL || colon == address || (size_t)(colon - address) >= sizeof(host)) {
        return NULL;
    }
    (void)snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
    if (host[0] == '[' && colon[-1] == ']') { /* [::1]:50051 */
        host[strlen(host) - 1] = '\0';
        return judge(host + 1, colon + 1);
    }
    return judge(host, colon + 1);
}
