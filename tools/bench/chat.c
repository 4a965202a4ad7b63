/* Conversations as growing arrays of block ids; ids are counted up, so none is used twice. */
#include "chat.h"

#include <stdlib.h>

#define SYSTEM_BLOCKS_MIN 4u
#define SYSTEM_BLOCKS_MAX 24u
/* Blocks a user adds in one turn, and blocks an answer adds. */
#define TURN_BLOCKS_MAX 8u

struct conversation {
    uint64_t ids[MC_CHAT_BLOCKS_MAX];
    size_t count;
};

struct generator {
    const struct mc_chat *chat;
    uint64_t rnd, next_id;
    struct conversation *conversations;
};

/* System prompt p has the ids p * SYSTEM_BLOCKS_MAX and up; its length follows from p alone. */
static void begin(struct generator *g, struct conversation *c)
{
    uint64_t a = mc_random_below(&g->rnd, g->chat->system_prompts);
    uint64_t b = mc_random_below(&g->rnd, g->chat->system_prompts);
    uint64_t prompt = a < b ? a : b; /* some are more popular than others */
    uint64_t len_rnd = g->chat->seed ^ prompt;

    c->count =
        SYSTEM_BLOCKS_MIN + mc_random_below(&len_rnd, SYSTEM_BLOCKS_MAX - SYSTEM_BLOCKS_MIN + 1);
    for (size_t i = 0; i < c->count; i++) {
        c->ids[i] = prompt * SYSTEM_BLOCKS_MAX + i;
    }
}

static void grow(struct generator *g, struct conversation *c)
{
    uint64_t blocks = 1 + mc_random_below(&g->rnd, TURN_BLOCKS_MAX);

    for (uint64_t i = 0; i < blocks; i++) {
        c->ids[c->count++] = g->next_id++;
    }
}

static bool one_request(struct generator *g, struct mc_requests *requests)
{
    struct conversation *c = &g->conversations[mc_random_below(&g->rnd, g->chat->conversations)];

    if (c->count == 0 || c->count > MC_CHAT_BLOCKS_MAX - 2 * TURN_BLOCKS_MAX) {
        begin(g, c);
    }
    grow(g, c);
    if (!mc_requests_add(requests, c->ids, c->count)) {
        return false;
    }
    if (mc_random_below(&g->rnd, g->chat->turns) == 0) {
        c->count = 0; /* it ends */
    } else {
        grow(g, c); /* the answer is in the next prompt */
    }
    return true;
}

bool mc_chat_generate(const struct mc_chat *chat, struct mc_requests *requests)
{
    struct generator g = {chat, chat->seed, chat->system_prompts * SYSTEM_BLOCKS_MAX, NULL};
    bool fine = true;

    g.conversations = calloc(chat->conversations, sizeof(*g.conversations));
    if (g.conversations == NULL) {
        return false;
    }
    for (uint64_t i = 0; fine && i < chat->requests; i++) {
        fine = one_request(&g, requests);
    }
    free(g.conversations);
    return fine;
}
