/*
 * Any bytes on the master's admin HTTP port, over a real connection. Laws: no crash; the answer is
 * empty or begins as HTTP/1.1 does; a parameter with a NUL is never answered with 200; the
 * connection ends soon after the peer has said its last; afterwards no memory is held and the
 * books agree with a recount.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "a_master.h"
#include "base/clock.h"
#include "base/mem.h"
#include "law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define SEND_LEN_MAX ((size_t)48 << 10)
#define ANSWER_LEN_MAX ((size_t)1 << 20)
/* For an answer, and until the HTTP library has let go of what it held. */
#define PATIENCE_NS (20 * MC_NS_PER_S)

/* From another address of the loopback each time, so that no pair of ports is used up. */
static int connect_to(uint16_t port)
{
    static uint32_t serial;
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    serial++;
    from.sin_addr.s_addr = htonl(0x7f000002u + (serial & 0x3fffffu));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    law(fd >= 0);
    law(bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0);
    law(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    return fd;
}

/* Turn the loop, on which the pages are made, until the peer has closed. */
static size_t read_answer(struct mc_master *master, int fd, char *answer)
{
    const struct timespec pause = {.tv_nsec = 50000};
    uint64_t const end_ns = mc_monotonic_ns() + PATIENCE_NS;
    size_t len = 0;

    for (;;) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        ssize_t n;

        mc_loop_run_ready(master->loop);
        (void)ppoll(&poll_fd, 1, &pause, NULL);
        n = recv(fd, answer + len, ANSWER_LEN_MAX - 1 - len, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            break;
        }
        len += n > 0 ? (size_t)n : 0;
        law(len < ANSWER_LEN_MAX - 1);
        law(mc_monotonic_ns() < end_ns);
    }
    answer[len] = '\0';
    return len;
}

/* Does the first request's line hold a parameter with a NUL in it? */
static bool has_nul_param(const uint8_t *data, size_t len)
{
    const uint8_t *end = memchr(data, '\n', len);
    size_t line_len = end == NULL ? len : (size_t)(end - data);
    const uint8_t *query = memchr(data, '?', line_len);

    return query != NULL && memmem(query, line_len - (size_t)(query - data), "%00", 3) != NULL &&
           memchr(data, '\0', line_len) == NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char answer[ANSWER_LEN_MAX];
    static bool filled;
    struct mc_master *master = a_master();
    int64_t const blocks = mc_mem_live_count();
    uint64_t end_ns;
    size_t got;
    int fd;

    if (!filled) {
        a_master_fill(master->core);
        filled = true;
        return 0;
    }
    len = len < SEND_LEN_MAX ? len : SEND_LEN_MAX;
    fd = connect_to(mc_master_metrics_port(master));
    (void)!send(fd, data, len, MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    got = read_answer(master, fd, answer);
    (void)close(fd);
    law(got == 0 || strncmp(answer, "HTTP/1.", 7) == 0);
    law(got == 0 || !has_nul_param(data, len) || strncmp(answer + 8, " 200", 4) != 0);
    end_ns = mc_monotonic_ns() + PATIENCE_NS;
    while (mc_mem_live_count() > blocks) { /* its thread is about to be done */
        mc_loop_run_ready(master->loop);
        law(mc_monotonic_ns() < end_ns);
    }
    law(mc_core_recount(master->core) == MOONCAKE_OK);
    return 0;
}
