/* A page of an admin port, over a connection of its own and with little patience. */
#include "fetch.h"

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
/* Of a page that is fetched: its longest silence, and its size. */
#define FETCH_MS 5000
#define FETCH_LEN_MAX ((size_t)64 << 20)

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

/* "host:port", "[::1]:port" -> two texts in out; false if it is neither. */
static bool split(const char *address, char *out, size_t cap, const char **out_host,
                  const char **out_port)
{
    const char *colon = strrchr(address, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - address);

    if (len == 0 || len >= cap) {
        return false;
    }
    (void)snprintf(out, cap, "%.*s", (int)len, address);
    *out_host = out;
    *out_port = colon + 1;
    if (out[0] == '[' && out[len - 1] == ']') {
        out[len - 1] = '\0';
        *out_host = out + 1;
    }
    return true;
}

/* The answer's head is read byte by byte: it is short. */
static bool read_head(int fd)
{
    char head[ANSWER_CAP] = "";
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    for (size_t len = 0; len + 1 < sizeof(head); len++) {
        if (poll(&readable, 1, FETCH_MS) != 1 || read(fd, head + len, 1) != 1) {
            return false;
        }
        head[len + 1] = '\0';
        if (len >= 3 && strcmp(head + len - 3, "\r\n\r\n") == 0) {
            return strncmp(head, "HTTP/1.", 7) == 0 && strncmp(head + 8, " 200", 4) == 0;
        }
    }
    return false;
}

static bool copy_body(int fd, FILE *out)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    char bytes[ANSWER_CAP];
    size_t total = 0;

    while (total < FETCH_LEN_MAX && poll(&readable, 1, FETCH_MS) == 1) {
        ssize_t n = read(fd, bytes, sizeof(bytes));

        if (n <= 0) {
            return n == 0;
        }
        total += (size_t)n;
        (void)fwrite(bytes, 1, (size_t)n, out);
    }
    return false;
}

bool mc_http_fetch(const char *address, const char *path, FILE *out)
{
    const char *host, *port;
    char buffer[256], request[512];
    bool done = false;
    int fd, len;

    if (!split(address, buffer, sizeof(buffer), &host, &port)) {
        return false;
    }
    fd = connect_to(host, port);
    if (fd < 0) {
        return false;
    }
    len = snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, address);
    if (len > 0 && (size_t)len < sizeof(request) &&
        send(fd, request, (size_t)len, MSG_NOSIGNAL) == len && read_head(fd)) {
        done = copy_body(fd, out);
    }
    (void)close(fd);
    return done;
}
