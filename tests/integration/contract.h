/*
 * What the tests of the contract share: a pool with short timers, values that describe themselves,
 * and the list of what must be true after each case, whatever was killed or frozen in it.
 */
#ifndef MC_TESTS_INTEGRATION_CONTRACT_H
#define MC_TESTS_INTEGRATION_CONTRACT_H

#include "integration/harness.h"

#include "mooncake/admin.h"

#define LEASE_MS 2000u
#define TTL_MS 5000u
#define DISCARD_MS 4000u
#define RELEASE_MS 8000u

/* What a shared machine may add to a time that is promised. */
#define SLACK_MS 15000u

/* A call that is open so long after its deadline hangs. */
#define HANG_MS 15000u

#define MIB ((size_t)1 << 20)

struct contract {
    struct pool pool;
    mooncake_client *client;
    unsigned descriptors[2 + POOL_STORES_MAX]; /* at the start: ours, the master's, the stores' */
};

/** Setup of a case: a master with the timers above. Stores are the case's own choice. */
int contract_setup(void **state);
/** The same, with another TTL: "--client_ttl=30". */
int contract_setup_ttl(void **state, const char *ttl);
/** Teardown of a case. */
int contract_teardown(void **state);
/** Open the client, and count. */
void contract_begin(struct contract *c);
/** Use every store once and take the descriptors that are open then for those of the start: also
 * after a store has joined or has come back. */
void contract_count(struct contract *c);
/** After each case: all alive, a round trip works, the books agree, nothing is left. */
void contract_check(struct contract *c);

/** Prints p99 and the longest of these times, and fails the case beyond 500 ms and 5 s: what a call
 * may wait for another is a matter of milliseconds, but a machine may stop. That slices are short
 * is seen by CPU time (core_slices, master_inside). Sorts. */
void assert_calls_are_short(const char *when, uint32_t *times_us, unsigned count);

/** A client of its own, with this default deadline; transport NULL: the pool's. */
mooncake_client *contract_open(struct contract *c, const char *transport, uint32_t timeout_ms);
void contract_status(struct contract *c, mooncake_pool_status *out_status);
/** The page of the master's metrics, NUL-terminated. */
void contract_metrics(struct contract *c, char *page, size_t cap);
/** A value on that page: mooncake_master_<name>. */
uint64_t metric_of(const char *page, const char *name);
/** Fails the case if the master's books differ from a recount, or hits and misses from lookups. */
void contract_check_books(struct contract *c);

/* Values that describe themselves: every 32 bytes name their key, version and place. */
enum verdict {
    VALUE_RIGHT,
    VALUE_OTHER_VERSION,
    VALUE_OTHER_KEY,
    VALUE_MIXED,
    VALUE_ZEROS,
    VALUE_DAMAGED
};

void value_make(void *data, size_t len, const char *key, uint64_t version);
/** @p len at least 32. */
enum verdict value_judge(const void *data, size_t len, const char *key, uint64_t version);
/** The version that the first bytes name. */
uint64_t value_version(const void *data);
const char *verdict_name(enum verdict verdict);

/** Put, get: whole values of this version. A get that gives wrong bytes or hangs fails the case. */
mooncake_err value_put(mooncake_client *client, const char *key, size_t len, uint64_t version,
                       const mooncake_put_options *options, uint32_t timeout_ms);
mooncake_err value_get(mooncake_client *client, const char *key, size_t len, uint64_t version,
                       uint32_t timeout_ms);

#endif
