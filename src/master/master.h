/*
 * The master as a program: the core behind an RPC port and an admin HTTP port, on one loop. main.c
 * gives it a loop and options; tests may run it inside their own process.
 *
 * Thread: the loop's owner, which is also the core's.
 */
#ifndef MC_MASTER_MASTER_H
#define MC_MASTER_MASTER_H

#include <stdint.h>

#include "base/err.h"
#include "io/loop.h"
#include "master/core.h"

#define MC_MASTER_PROGRAM "mooncake_master " MC_VERSION

struct mc_master;

struct mc_master_options {
    const char *host;                     /* to listen on, both ports: "0.0.0.0" */
    uint16_t rpc_port, metrics_port;      /* 0: the kernel picks */
    struct mc_core_options core;          /* epoch and seed are chosen by the caller */
    const struct mc_config_reply *config; /* answer to Config; borrowed; NULL: empty */
    uint32_t io_threads;                  /* for connections; 0: the loop itself has them */
    uint32_t poll_us;                     /* of their loops */
    uint64_t summary_ms;                  /* between summary lines in the log; 0: none */
};

/** Listens on both ports when it returns. EINVAL, ENOMEM; ERPC (a port is taken: the sentence
 * names it). */
mooncake_err mc_master_create(struct mc_loop *loop, const struct mc_master_options *options,
                              struct mc_master **out) MC_MUST_CHECK;
uint16_t mc_master_rpc_port(const struct mc_master *master);
uint16_t mc_master_metrics_port(const struct mc_master *master);
/** Take no new connections, finish requests under way for at most @p grace_ms, then @p done. */
void mc_master_drain(struct mc_master *master, uint32_t grace_ms, void (*done)(void *arg),
                     void *arg);
/** Close at once. Nulls *master; accepts NULL in it. */
void mc_master_destroy(struct mc_master **master);

#endif
