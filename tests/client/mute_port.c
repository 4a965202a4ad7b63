/* See the header. The kernel completes connections to a listening socket all by itself. */
#include "client/mute_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

void mute_port_open(struct mute_port *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);

    port->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(port->fd >= 0);
    assert_int_equal(bind(port->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(port->fd, 64), 0);
    assert_int_equal(getsockname(port->fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(port->address, sizeof(port->address), "tcp://127.0.0.1:%u",
                   (unsigned)ntohs(address.sin_port));
}

void mute_port_close(struct mute_port *port)
{
    (void)close(port->fd);
    port->fd = -1;
}
