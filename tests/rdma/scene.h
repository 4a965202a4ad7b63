/*
 * A pool whose stores are on host B and whose clients are on host A. Their master, and TCP, are on
 * the loopback network, which no cable carries: what crosses the cables is RDMA.
 */
#ifndef MC_TESTS_RDMA_SCENE_H
#define MC_TESTS_RDMA_SCENE_H

#include "integration/harness.h"

#include "rdma/guest.h"

struct scene {
    struct pool pool;
    unsigned nics; /* of each host: 1 or 2 */
    unsigned stores;
    const char *size; /* of each store's segment */
};

void scene_open(struct scene *scene, unsigned nics, unsigned stores, const char *size);
/** Restores the cables as well. */
void scene_close(struct scene *scene);
/** Start store @p index (again); returns when it is mounted. */
void scene_start_store(struct scene *scene, unsigned index);

/** Options of a client on A, as scene_client() has them. */
void scene_client_options(const struct scene *scene, const char *transport,
                          mooncake_client_options *out);
/** A client on A; @p transport: "rdma", "rdma,tcp". Its calls end by @p timeout_ms (0: default). */
mooncake_client *scene_client(struct scene *scene, const char *transport, uint32_t timeout_ms);

/** Put a value of @p len bytes that @p seed decides, over what was there; must succeed. */
void put_filled(mooncake_client *client, const char *key, size_t len, uint64_t seed);
/** Get it and compare every byte; must succeed. */
void get_filled(mooncake_client *client, const char *key, size_t len, uint64_t seed);
/** The same where failing is allowed: OK only with every byte as put. */
mooncake_err try_get_filled(mooncake_client *client, const char *key, size_t len, uint64_t seed);

/* A process that reads one value for ever and compares each byte. Started anew and not forked: open
 * devices are no good in a child. It ends with 0 when the store is lost, 2 after a wrong byte. */

/** If this process was started as a reader, be one and do not return. First thing in main(). */
void reader_main(int argc, char **argv);
/** Start one; returns when it has read the value once. */
pid_t reader_start(const struct scene *scene, const char *key, size_t len, uint64_t seed);

/** Bytes that both hosts have sent over network @p nic. */
uint64_t cable_bytes(unsigned nic);

/* What the kernel has counted of a process. */
struct process_costs {
    uint64_t user_ticks, voluntary_switches;
    unsigned descriptors;
};
struct process_costs process_costs(pid_t pid);

#endif
