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
                     "one: option rpc_port of mooncake_master, 50051 unless it was changed."
                   : "an HTTP server listens there, no master.";
    }
    if (strncmp(answer, "SSH-", 4) == 0) {
        return "an SSH server listens there, no master.";
    }
    if (ask(host, port, hello, sizeof(hello), answer, sizeof(hello)) >= 4 &&
        strncmp(answer, "MCDH", 4) == 0) {
        return "that is the data port of a store; ask its master instead: the line \"serving\" in "
               "the master's log has the port.";
    }
    return NULL;
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

const char *mc_who_listens(const char *address)
{
    const char *host, *port;
    char buffer[256];

    address = address != NULL ? address : getenv("MOONCAKE_MASTER");
    if (!split(address != NULL ? address : "127.0.0.1:50051", buffer, sizeof(buffer), &host,
               &port)) {
        return NULL;
    }
    return judge(host, port);
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
