/* Calls under way: slots and a binary heap. */
#include "rpc/calls.h"

#include <string.h>

#define SLOT_BITS 10u
#define SLOT_MASK ((1u << SLOT_BITS) - 1)

_Static_assert(MC_RPC_IN_FLIGHT_MAX == 1u << SLOT_BITS, "a slot number must fit into its bits");

void mc_rpc_calls_init(struct mc_rpc_calls *calls)
{
    memset(calls, 0, sizeof(*calls));
    for (unsigned i = 0; i < MC_RPC_IN_FLIGHT_MAX; i++) {
        calls->free_slots[i] = (uint16_t)(MC_RPC_IN_FLIGHT_MAX - 1 - i);
    }
}

static void heap_set(struct mc_rpc_calls *calls, unsigned at, struct mc_rpc_call *call)
{
    calls->heap[at] = call;
    call->heap_at = at;
}

static void sift_up(struct mc_rpc_calls *calls, unsigned at, struct mc_rpc_call *call)
{
    while (at > 0) {
        unsigned parent = (at - 1) / 2;

        if (calls->heap[parent]->deadline_ns <= call->deadline_ns) {
            break;
        }
        heap_set(calls, at, calls->heap[parent]);
        at = parent;
    }
    heap_set(calls, at, call);
}

static void sift_down(struct mc_rpc_calls *calls, unsigned at, struct mc_rpc_call *call)
{
    for (;;) {
        unsigned child = 2 * at + 1;

        if (child >= calls->count) {
            break;
        }
        if (child + 1 < calls->count &&
            calls->heap[child + 1]->deadline_ns < calls->heap[child]->deadline_ns) {
            child++;
        }
        if (calls->heap[child]->deadline_ns >= call->deadline_ns) {
            break;
        }
        heap_set(calls, at, calls->heap[child]);
        at = child;
    }
    heap_set(calls, at, call);
}

void mc_rpc_calls_add(struct mc_rpc_calls *calls, struct mc_rpc_call *call)
{
    unsigned slot;

    MC_ASSERT(calls->count < MC_RPC_IN_FLIGHT_MAX);
    slot = calls->free_slots[MC_RPC_IN_FLIGHT_MAX - 1 - calls->count];
    MC_ASSERT(calls->by_slot[slot] == NULL);
    calls->by_slot[slot] = call;
    call->request_id = ++calls->sequence << SLOT_BITS | slot;
    calls->count++;
    sift_up(calls, calls->count - 1, call);
}

void mc_rpc_calls_drop(struct mc_rpc_calls *calls, struct mc_rpc_call *call)
{
    unsigned slot = (unsigned)(call->request_id & SLOT_MASK);
    unsigned at = call->heap_at;
    struct mc_rpc_call *last;

    MC_ASSERT(calls->by_slot[slot] == call);
    MC_ASSERT(calls->heap[at] == call);
    calls->by_slot[slot] = NULL;
    calls->count--;
    calls->free_slots[MC_RPC_IN_FLIGHT_MAX - 1 - calls->count] = (uint16_t)slot;
    last = calls->heap[calls->count];
    if (last == call) {
        return;
    }
    if (at > 0 && calls->heap[(at - 1) / 2]->deadline_ns > last->deadline_ns) {
        sift_up(calls, at, last);
    } else {
        sift_down(calls, at, last);
    }
}

struct mc_rpc_call *mc_rpc_calls_find(const struct mc_rpc_calls *calls, uint64_t request_id)
{
    struct mc_rpc_call *call = calls->by_slot[request_id & SLOT_MASK];

    return call != NULL && call->request_id == request_id ? call : NULL;
}

struct mc_rpc_call *mc_rpc_calls_earliest(const struct mc_rpc_calls *calls)
{
    return calls->count == 0 ? NULL : calls->heap[0];
}
