/*
 * The calls of one client that are under way: by request id, and by deadline. Pure.
 */
#ifndef MC_RPC_CALLS_H
#define MC_RPC_CALLS_H

#include <stdbool.h>

#include "base/limits.h"
#include "rpc/rpc_client.h"

/* The id of a call is its slot plus a number that makes it unlike every earlier id, so that a late
 * answer finds nobody. */
struct mc_rpc_calls {
    struct mc_rpc_call *by_slot[MC_RPC_IN_FLIGHT_MAX]; /* borrowed; NULL: free */
    struct mc_rpc_call *heap[MC_RPC_IN_FLIGHT_MAX];    /* earliest deadline first */
    uint16_t free_slots[MC_RPC_IN_FLIGHT_MAX];         /* stack */
    unsigned count;
    uint64_t sequence;
};

void mc_rpc_calls_init(struct mc_rpc_calls *calls);
/** Give @p call an id and remember it. There must be room: count < MC_RPC_IN_FLIGHT_MAX. */
void mc_rpc_calls_add(struct mc_rpc_calls *calls, struct mc_rpc_call *call);
void mc_rpc_calls_drop(struct mc_rpc_calls *calls, struct mc_rpc_call *call);
/** NULL: no call with this id is under way. */
struct mc_rpc_call *mc_rpc_calls_find(const struct mc_rpc_calls *calls, uint64_t request_id);
/** The call with the earliest deadline; NULL: there is none. */
struct mc_rpc_call *mc_rpc_calls_earliest(const struct mc_rpc_calls *calls);

#endif
