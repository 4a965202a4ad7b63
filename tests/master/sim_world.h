/*
 * The world of the simulation: stores, clients and the network between them and the core.
 * sim_stores.c has the stores and time, sim_clients.c the messages and clients, sim.c runs seeds.
 */
#ifndef MC_TESTS_MASTER_SIM_WORLD_H
#define MC_TESTS_MASTER_SIM_WORLD_H

#include "master/placement.h"
#include "master/sim_model.h"

#define STORES_MAX 5u
#define OPS_MAX 24u
#define MESSAGES_MAX 512u
#define CLIENTS 4u

enum message_kind {
    MESSAGE_START,
    MESSAGE_END,
    MESSAGE_REVOKE,
    MESSAGE_QUERY,
    MESSAGE_EXIST,
    MESSAGE_REMOVE,
};

/* On its way to the master. The answer goes back at once or is lost. */
struct message {
    enum message_kind kind;
    uint64_t due_ns;
    struct model_ask ask;
    unsigned op; /* OPS_MAX: of none */
    uint64_t op_serial;
};

enum op_state {
    OP_FREE,
    OP_STARTING,
    OP_WRITING,
    OP_ENDING,
    OP_REVOKING,
};

/* One put, as its client sees it. */
struct op {
    enum op_state state;
    uint64_t serial;
    struct model_ask ask;
    uint64_t due_ns; /* WRITING: bytes are there then; else: ask again then */
    uint64_t write_end_ns;
    unsigned tries;
};

struct store {
    bool mounted_once, dead;
    unsigned number;
    uint64_t client_id, mount_id, len;
    uint64_t silent_until_ns, ping_ns;
};

struct sim {
    uint64_t seed, steps, step;
    bool verbose;
    struct mc_place_random random;
    struct mc_clock_fake clock;
    uint64_t seen_ns, stalled_ns; /* mirrors the core's judgement of stalls */
    uint64_t tick_ns;             /* of the last tick */
    struct mc_core *core;
    struct mc_arena arena;
    struct model model;
    struct store stores[STORES_MAX];
    struct op ops[OPS_MAX];
    struct message messages[MESSAGES_MAX];
    unsigned messages_count;
    uint64_t last_id; /* of clients, mounts, nonces, ops */
    bool recounting;  /* in slices */
    uint64_t recounts;
};

uint32_t sim_below(struct sim *sim, uint32_t count);
bool sim_chance(struct sim *sim, uint32_t one_in);
uint64_t sim_ms(uint64_t count);
/** Core time, before a call into the core; empties the arena. */
void sim_enter(struct sim *sim);
/** Ticks until nothing is due, and compares the mounts. */
void sim_tick(struct sim *sim);
void sim_mount(struct sim *sim, struct store *store);
/** Pings, and returns of the dead. */
void sim_live_stores(struct sim *sim);
/** Perhaps something happens to a store. */
void sim_trouble_stores(struct sim *sim);

void sim_deliver_due(struct sim *sim);
/** Clients go on with their puts. */
void sim_run_ops(struct sim *sim);
/** Somebody begins something. */
void sim_act(struct sim *sim);
void sim_remove_all(struct sim *sim, bool force);

#endif
