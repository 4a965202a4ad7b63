/*
 * A chat service's workload, made from a seed: conversations start with one of a few shared system
 * prompts and grow turn by turn; many are under way at once; each request's prompt is the whole
 * conversation so far.
 */
#ifndef MC_BENCH_CHAT_H
#define MC_BENCH_CHAT_H

#include "requests.h"

/* Blocks of a conversation after which it ends. */
#define MC_CHAT_BLOCKS_MAX 256u
#define MC_CHAT_CONVERSATIONS_MAX 4096u

struct mc_chat {
    uint64_t seed;
    uint64_t requests;
    uint64_t conversations;  /* under way at once, 1 to MC_CHAT_CONVERSATIONS_MAX */
    uint64_t system_prompts; /* at least 1 */
    uint64_t turns;          /* of a conversation on average, at least 1 */
};

/** Add the whole workload. False: no memory. The same @p chat gives the same requests. */
bool mc_chat_generate(const struct mc_chat *chat, struct mc_requests *requests);

#endif
