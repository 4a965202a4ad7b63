/*
 * Calls to one daemon over one connection: many in flight, each with its own deadline, answered in
 * any order. Connects by itself when first needed and again after a loss (with back-off and
 * jitter). Knows bytes, not messages.
 *
 * Thread: the loop's owner. Never blocks. If a function returns an error, no callback comes for it;
 * otherwise done runs exactly once, from the loop.
 */
#ifndef MC_RPC_CLIENT_H
#define MC_RPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "io/loop.h"

struct mc_rpc_client;

/* Bytes of requests that may wait in a client: one of the greatest size and some small ones. */
#define MC_RPC_CLIENT_QUEUE_LEN_MAX ((size_t)96 << 20)

/* One call; the caller's memory, which must stay until done. */
struct mc_rpc_call {
    /* @p body is valid during the call only. With @p err other than OK, body is NULL and the
     * sentence is in mooncake_last_error(). ETIMEDOUT: the deadline passed, an answer that comes
     * later is dropped. ERPC: the connection could not be made or was lost. */
    void (*done)(struct mc_rpc_call *call, mooncake_err err, const uint8_t *body, size_t body_len);
    uint64_t deadline_ns; /* monotonic; set by the caller */

    /* Set before done when the connection was lost, or the deadline passed, after the request may
     * have been read by the peer: it is not known whether it took effect. */
    bool maybe_executed;

    /* Private to rpc_client. */
    struct mc_list node;
    uint64_t request_id;
    uint8_t *held; /* owned: the request, while it waits for a connection; NULL: it was sent */
    size_t held_len;
    unsigned heap_at;
    uint16_t method;
};

struct mc_rpc_client_options {
    uint32_t connect_timeout_ms;             /* for connecting and Hello; 0: 3000 */
    uint32_t backoff_min_ms, backoff_max_ms; /* between attempts; jittered; 0: 50 and 2000 */
    uint16_t hello_method;                   /* method number of Hello */
    /* The Hello body to send; borrowed for the client's life. */
    const uint8_t *hello_body;
    size_t hello_body_len;
    /* The peer's Hello answer has come; an error refuses the connection. NULL allowed. */
    mooncake_err (*on_hello)(void *arg, const uint8_t *body, size_t body_len);
    /* The connection is up (true, after Hello) or lost (false). NULL allowed. */
    void (*on_state)(void *arg, bool up);
    void *arg;
};

/** @p address "host:port", copied. Does not connect yet. EINVAL (not an address), ENOMEM. */
mooncake_err mc_rpc_client_create(struct mc_loop *loop, const char *address,
                                  const struct mc_rpc_client_options *options,
                                  struct mc_rpc_client **out) MC_MUST_CHECK;
/** Calls under way end with ERPC, from here. Memory goes once libuv is done with it. */
void mc_rpc_client_destroy(struct mc_rpc_client **client);

/**
 * Send one request; @p body is copied. While the connection is down it waits for it, within the
 * deadline; when a connection attempt fails, all waiting calls end with ERPC at once (no waiting
 * for the back-off), and a call made during back-off starts the next attempt when that is over or
 * fails with ERPC if its deadline comes first.
 *
 * @retval EINVAL      the body is above MC_RPC_BODY_LEN_MAX
 * @retval ETASKQUEUE  MC_RPC_IN_FLIGHT_MAX calls are under way, or more than
 *                     MC_RPC_CLIENT_QUEUE_LEN_MAX bytes of requests are not sent yet
 * @retval ENOMEM
 */
mooncake_err mc_rpc_call_start(struct mc_rpc_client *client, struct mc_rpc_call *call,
                               uint16_t method, const void *body, size_t body_len) MC_MUST_CHECK;
/** Give queued requests to the kernel now. Call once after starting a group of calls. */
void mc_rpc_client_flush(struct mc_rpc_client *client);
/** Stop waiting: done is not called any more, the memory is the caller's again. */
void mc_rpc_call_cancel(struct mc_rpc_client *client, struct mc_rpc_call *call);

bool mc_rpc_client_is_up(const struct mc_rpc_client *client);
/** Point at another address; a connection to the old one is closed. For fail-over. */
mooncake_err mc_rpc_client_set_address(struct mc_rpc_client *client,
                                       const char *address) MC_MUST_CHECK;
const char *mc_rpc_client_address(const struct mc_rpc_client *client);

#endif
