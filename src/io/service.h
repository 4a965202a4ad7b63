/*
 * What a service manager wants to hear from a daemon: that it serves, that it is about to end, and,
 * when it asks, that its loop still turns. The protocol is the one of sd_notify(3): datagrams of
 * NAME=VALUE lines to the Unix socket that NOTIFY_SOCKET names.
 */
#ifndef MC_IO_SERVICE_H
#define MC_IO_SERVICE_H

#include "base/err.h"
#include "io/loop.h"

struct mc_service;

/**
 * Look at the environment (NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID). Without a manager that
 * listens, and with a service from here on, every call below does nothing. With a watchdog, @p loop
 * sends a sign of life at half the time that was asked for: a loop that is stuck falls silent, and
 * the manager restarts the daemon.
 *
 * EINVAL: NOTIFY_SOCKET or WATCHDOG_USEC cannot be meant (the sentence says which); ENOMEM.
 */
mooncake_err mc_service_create(struct mc_loop *loop, struct mc_service **out) MC_MUST_CHECK;

/** Its ports are open: what comes after it may start. */
void mc_service_ready(struct mc_service *service);

/** How it stands, for people, shown by `systemctl status`; one line, at most 255 bytes of it are
 * used. */
void mc_service_status(struct mc_service *service, const char *status);

/** It has begun to end. */
void mc_service_stopping(struct mc_service *service);

/** Signs of life end. Nulls *service; NULL is fine. Before the loop goes. */
void mc_service_destroy(struct mc_service **service);

#endif
