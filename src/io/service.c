/* The daemon's side of sd_notify(3): a datagram socket, and a timer when there is a watchdog. */
#include "io/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"

#define LINE_LEN_MAX 264
#define WATCHDOG_USEC_MIN 2000u /* half of it is the finest that a timer can do */

struct mc_service {
    struct mc_loop *loop;
    struct mc_timer *watchdog; /* NULL: nobody watches */
    int fd;                    /* -1: nobody listens */
    bool complained;
    socklen_t address_len;
    struct sockaddr_un address;
};

/* Never waits: a manager that does not read is the manager's trouble. */
static void tell(struct mc_service *service, const char *line)
{
    size_t len = strlen(line);

    if (service->fd < 0) {
        return;
    }
    if (sendto(service->fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL,
               (const struct sockaddr *)&service->address, service->address_len) != (ssize_t)len &&
        !service->complained) {
        service->complained = true;
        mc_log_warn("service.notify_failed", "error=\"%s\" line=\"%s\"", strerrordesc_np(errno),
                    line);
    }
}

static void on_watchdog(void *arg)
{
    tell(arg, "WATCHDOG=1");
}

/* A path, or with a leading '@' a name in the abstract namespace. */
static mooncake_err set_address(struct mc_service *service, const char *text)
{
    size_t len = strlen(text);

    if ((text[0] != '/' && text[0] != '@') || len < 2 || len >= sizeof(service->address.sun_path)) {
        return mc_err_set(
            MOONCAKE_EINVAL,
            "NOTIFY_SOCKET: \"%s\" is no socket; expected a path or @NAME of 2 to %zu "
            "characters",
            text, sizeof(service->address.sun_path) - 1);
    }
    service->address.sun_family = AF_UNIX;
    memcpy(service->address.sun_path, text, len);
    if (text[0] == '@') {
        service->address.sun_path[0] = '\0';
    }
    service->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return MOONCAKE_OK;
}

/* A watchdog that was meant for another process (a wrapper's) is not ours to feed. */
static bool watchdog_is_for_us(void)
{
    const char *pid = getenv("WATCHDOG_PID");
    char ours[32];

    (void)snprintf(ours, sizeof(ours), "%ld", (long)getpid());
    return pid == NULL || strcmp(pid, ours) == 0;
}

static mooncake_err start_watchdog(struct mc_service *service)
{
    const char *text = getenv("WATCHDOG_USEC");
    char *end = NULL;
    unsigned long long usec;

    if (text == NULL || !watchdog_is_for_us()) {
        return MOONCAKE_OK;
    }
    errno = 0;
    usec = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || usec < WATCHDOG_USEC_MIN) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "WATCHDOG_USEC: \"%s\" is no time; expected microseconds, at least %u",
                          text, WATCHDOG_USEC_MIN);
    }
    MC_TRY(mc_timer_create(service->loop, on_watchdog, service, &service->watchdog));
    mc_timer_set(service->watchdog, usec / 2000, usec / 2000);
    return MOONCAKE_OK;
}

static mooncake_err open_socket(struct mc_service *service, const char *text)
{
    MC_TRY(set_address(service, text));
    service->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (service->fd < 0) {
        return mc_err_set(mc_err_from_errno(errno), "NOTIFY_SOCKET: no socket to reach it: %s",
                          strerrordesc_np(errno));
    }
    return start_watchdog(service);
}

mooncake_err mc_service_create(struct mc_loop *loop, struct mc_service **out)
{
    const char *text = getenv("NOTIFY_SOCKET");
    struct mc_service *service = mc_calloc(1, sizeof(*service));
    mooncake_err err = MOONCAKE_OK;

    if (service == NULL) {
        return MOONCAKE_ENOMEM;
    }
    service->loop = loop;
    service->fd = -1;
    if (text != NULL && text[0] != '\0') {
        err = open_socket(service, text);
    }
    if (err != MOONCAKE_OK) {
        mc_service_destroy(&service);
        return err;
    }
    *out = service;
    return MOONCAKE_OK;
}

void mc_service_ready(struct mc_service *service)
{
    tell(service, "READY=1");
}

void mc_service_status(struct mc_service *service, const char *status)
{
    char line[LINE_LEN_MAX];

    (void)snprintf(line, sizeof(line), "STATUS=%.255s", status);
    tell(service, line);
}

void mc_service_stopping(struct mc_service *service)
{
    tell(service, "STOPPING=1");
}

void mc_service_destroy(struct mc_service **service)
{
    struct mc_service *gone = *service;

    *service = NULL;
    if (gone == NULL) {
        return;
    }
    mc_timer_destroy(&gone->watchdog);
    if (gone->fd >= 0) {
        (void)close(gone->fd);
    }
    mc_free(gone);
}
