/*
 * A port of this host that stays the test's: it is bound, so that the kernel gives it to nobody
 * else, and nobody listens, so that connects are refused until the server that is tested listens
 * there. Both sockets must have SO_REUSEADDR; our servers' have. It is bound at all addresses: one
 * that is free at 127.0.0.1 may be the end of a connection at another, and then no server can
 * listen at all of them. For servers that go and come back, and for addresses where nobody is.
 */
#ifndef MC_TESTS_HELD_PORT_H
#define MC_TESTS_HELD_PORT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

/** The socket, which holds the port until it is closed. */
static inline int held_port_open(uint16_t *out_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t len = sizeof(at);
    const int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *out_port = ntohs(at.sin_port);
    return fd;
}

#endif
