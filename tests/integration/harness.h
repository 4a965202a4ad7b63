/*
 * A real pool for tests: mooncake_master and mooncake_store processes on ports that the kernel
 * picks. None survives the test, however it ends, and each must end with status 0 when it is told
 * to, so that what a sanitizer finds in a daemon fails the test.
 */
#ifndef MC_TESTS_INTEGRATION_HARNESS_H
#define MC_TESTS_INTEGRATION_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mooncake/observe.h"

#define POOL_STORES_MAX 4u
#define POOL_ARGS_MAX 16u

struct daemon {
    pid_t pid; /* 0: not running */
    char name[16], port_file[80], log[80];
    uint16_t port; /* of RPC or of data, as last seen */
};

struct pool {
    char dir[64];
    struct daemon master, stores[POOL_STORES_MAX];
    char master_address[32];
    int held_fd; /* keeps the master's port while it is down; -1: it has none yet */
    const char *master_args[POOL_ARGS_MAX]; /* further flags, NULL ends; set before start */
    const char *store_args[POOL_ARGS_MAX];
    const char *transport; /* of clients; NULL: all. At first what MC_TEST_TRANSPORT says. */
};

/** Make a pool's directory; nothing runs yet. */
void pool_init(struct pool *pool);
/** Stop what runs (each must end well) and remove the directory. */
void pool_fini(struct pool *pool);

/** Start the master; @p port 0: the kernel picks one, which is the pool's until its end, so that
 * another master can be started there. Returns when it serves. */
void pool_start_master(struct pool *pool, uint16_t port);
/** Start store @p index with one segment of @p size ("64MiB"). Returns when it is mounted. */
void pool_start_store(struct pool *pool, unsigned index, const char *size);

/** Only launch store @p index, with these flags (NULL ends) and a port file; nothing is awaited. */
void pool_launch_store(struct pool *pool, unsigned index, const char *const *flags);
/** Wait until a daemon that was launched serves. */
void daemon_await(struct daemon *daemon, const char *port_name);
/** A port that a daemon which serves has written down. */
uint16_t daemon_port(const struct daemon *daemon, const char *port_name);
/** Is it running? Notices and remembers (in *out_status) when it has ended by itself. */
bool daemon_runs(struct daemon *daemon, int *out_status);

/** SIGTERM, and wait: the exit status, which the caller judges. */
int daemon_stop(struct daemon *daemon);
/** SIGKILL, and wait. */
void daemon_kill(struct daemon *daemon);
/** SIGSTOP; returns when it has stopped. */
void daemon_freeze(struct daemon *daemon);
void daemon_wake(struct daemon *daemon);

/** A client of the pool that is a tool (no thread of its own, no ping) unless @p member. */
mooncake_client *pool_open(struct pool *pool, bool member);

/** Open descriptors of this process. */
unsigned count_descriptors(void);
uint64_t now_ms(void);
uint64_t now_us(void);
/** Ask @p holds until it says yes, for at most @p seconds; returns whether it did. */
bool wait_until(bool (*holds)(void *arg), void *arg, unsigned seconds);

/** Bytes that differ from place to place and from seed to seed. */
void fill(void *data, size_t len, uint64_t seed);
bool is_filled(const void *data, size_t len, uint64_t seed);

#endif
