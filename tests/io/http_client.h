/* A small HTTP client on raw sockets, which can also misbehave. */
#ifndef MC_TESTS_HTTP_CLIENT_H
#define MC_TESTS_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

#define HTTP_WAIT_MS 60000

/* A connected socket; -1 if the server does not take it. */
static inline int http_connect(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Send all, as far as the peer takes it; false when it has closed. */
static inline bool http_send(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

        if (n <= 0) {
            return false;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* Read up to the end of the stream or @p cap bytes; the bytes that came. Fails the test when the
 * peer neither sends nor closes. */
static inline size_t http_read(int fd, char *out, size_t cap)
{
    size_t len = 0;

    while (len < cap) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        ssize_t n;

        assert_true(poll(&wait, 1, HTTP_WAIT_MS) == 1);
        n = recv(fd, out + len, cap - len, 0);
        if (n <= 0) {
            break;
        }
        len += (size_t)n;
    }
    return len;
}

struct http_answer {
    int status; /* 0: the connection was closed without an answer */
    char *text; /* head and body, NUL-terminated; the caller frees */
    size_t len; /* of text */
    char *body; /* in text */
    size_t body_len;
};

static inline void http_parse(struct http_answer *answer)
{
    answer->text[answer->len] = '\0';
    answer->body = strstr(answer->text, "\r\n\r\n");
    if (answer->len < 12 || memcmp(answer->text, "HTTP/1.1 ", 9) != 0 || answer->body == NULL) {
        answer->status = 0;
        answer->body = answer->text + answer->len;
        return;
    }
    answer->status = (int)strtol(answer->text + 9, NULL, 10);
    answer->body += 4;
    answer->body_len = answer->len - (size_t)(answer->body - answer->text);
}

/* Send @p bytes and read the answer until the server closes. */
static inline struct http_answer http_exchange(uint16_t port, const char *bytes, size_t len)
{
    size_t cap = (size_t)64 << 10;
    struct http_answer answer = {.text = malloc(cap + 1)};
    int fd = http_connect(port);

    assert_true(fd >= 0);
    (void)http_send(fd, bytes, len);
    assert_non_null(answer.text);
    for (;;) {
        answer.len += http_read(fd, answer.text + answer.len, cap - answer.len);
        if (answer.len < cap) {
            break;
        }
        cap *= 2;
        answer.text = realloc(answer.text, cap + 1);
        assert_non_null(answer.text);
    }
    (void)close(fd);
    http_parse(&answer);
    return answer;
}

static inline struct http_answer http_fetch(uint16_t port, const char *method, const char *path)
{
    char request[1024];
    int len = snprintf(request, sizeof(request),
                       "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, path);

    return http_exchange(port, request, (size_t)len);
}

/* Check the status and that the body holds @p part (NULL: whatever). */
static inline void http_expect(uint16_t port, const char *method, const char *path, int status,
                               const char *part)
{
    struct http_answer answer = http_fetch(port, method, path);

    if (answer.status != status || (part != NULL && strstr(answer.body, part) == NULL)) {
        fail_msg("%s %s: status %d, body \"%s\"; expected %d and \"%s\"", method, path,
                 answer.status, answer.body, status, part == NULL ? "" : part);
    }
    free(answer.text);
}

#endif
