/* What clients send, how it travels, and what they do with the answers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "master/sim_world.h"

static void say(const struct sim *sim, const char *what, const struct model_ask *ask,
                mooncake_err status)
{
    if (sim->verbose) {
        (void)printf("%6" PRIu64 " %8.3f %-8s key=%u client=%" PRIu64 " attempt=%" PRIu64
                     " len=%" PRIu64 " %s\n",
                     sim->step, (double)sim->model.now_ns / 1e9, what, ask->key, ask->client_id,
                     ask->attempt, ask->len, mooncake_err_name(status));
    }
}

/* ---- messages ------------------------------------------------------------------------------ */

static void send(struct sim *sim, enum message_kind kind, const struct model_ask *ask, unsigned op)
{
    unsigned const copies = sim_chance(sim, 20) ? 0 : sim_chance(sim, 15) ? 2 : 1;

    for (unsigned i = 0; i < copies && sim->messages_count < MESSAGES_MAX; i++) {
        sim->messages[sim->messages_count++] = (struct message){
            .kind = kind,
            .due_ns = sim->clock.now_ns + sim_ms(sim_below(sim, sim_chance(sim, 20) ? 1500 : 30)),
            .ask = *ask,
            .op = op,
            .op_serial = op < OPS_MAX ? sim->ops[op].serial : 0,
        };
    }
}

/* The put that an answer belongs to, if its client is still waiting for it. */
static struct op *waiting(struct sim *sim, const struct message *message, enum op_state state)
{
    struct op *op;

    if (message->op >= OPS_MAX || sim_chance(sim, 20)) { /* the answer is lost */
        return NULL;
    }
    op = &sim->ops[message->op];
    return op->serial == message->op_serial && op->state == state ? op : NULL;
}

static void deliver_start(struct sim *sim, const struct message *message, const struct mc_key *key)
{
    const struct model_ask *ask = &message->ask;
    struct mc_put_start_request const request = {
        .client_id = ask->client_id,
        .nonce = ask->nonce,
        .keys = key,
        .value_lens = &ask->len,
        .count = 1,
        .replicas = ask->replicas,
        .all_replicas = ask->all_replicas,
        .hard_pin = ask->hard_pin,
        .soft_pin = ask->soft_pin,
        .soft_pin_ms = 300,
        .upsert = ask->upsert,
    };
    struct mc_put_start_reply reply;
    struct op *op;

    if (mc_core_put_start(sim->core, &request, &sim->arena, &reply) != MOONCAKE_OK) {
        model_fail(&sim->model, "a put start failed as a whole");
        return;
    }
    say(sim, "start", ask, reply.statuses[0]);
    model_put_start(&sim->model, ask, reply.statuses[0], &reply);
    op = waiting(sim, message, OP_STARTING);
    if (op == NULL) {
        return;
    }
    if (reply.statuses[0] != MOONCAKE_OK) {
        op->state = OP_FREE;
        return;
    }
    op->state = OP_WRITING;
    op->ask.attempt = reply.attempts[0];
    op->tries = 0;
    op->due_ns = sim->clock.now_ns + sim_ms(sim_below(sim, sim_chance(sim, 8) ? 2500 : 40));
}

static void deliver_end(struct sim *sim, const struct message *message, const struct mc_key *key)
{
    const struct model_ask *ask = &message->ask;
    bool const revoke = message->kind == MESSAGE_REVOKE;
    struct mc_put_end_request const request = {
        .client_id = ask->client_id,
        .keys = key,
        .attempts = &ask->attempt,
        .failed_replicas = &ask->failed,
        .count = 1,
    };
    struct mc_status_reply reply;
    mooncake_err const err = revoke ? mc_core_put_revoke(sim->core, &request, &sim->arena, &reply)
                                    : mc_core_put_end(sim->core, &request, &sim->arena, &reply);
    struct op *op;

    if (err != MOONCAKE_OK) {
        model_fail(&sim->model, "an end failed as a whole");
        return;
    }
    say(sim, revoke ? "revoke" : "end", ask, reply.statuses[0]);
    if (revoke) {
        model_put_revoke(&sim->model, ask, reply.statuses[0]);
    } else {
        model_put_end(&sim->model, ask, reply.statuses[0]);
    }
    op = waiting(sim, message, revoke ? OP_REVOKING : OP_ENDING);
    if (op != NULL) {
        op->state = OP_FREE;
    }
}

static void deliver_read(struct sim *sim, const struct message *message, const struct mc_key *key)
{
    const struct model_ask *ask = &message->ask;
    struct mc_keys_request const request = {
        .client_id = ask->client_id, .keys = key, .count = 1, .force = ask->force};
    struct mc_query_reply query;
    struct mc_exist_reply exist;
    struct mc_status_reply removed;
    mooncake_err err;

    if (message->kind == MESSAGE_QUERY) {
        err = mc_core_query(sim->core, &request, &sim->arena, &query);
        if (err == MOONCAKE_OK) {
            say(sim, "query", ask, query.statuses[0]);
            model_query(&sim->model, ask, &query);
        }
    } else if (message->kind == MESSAGE_EXIST) {
        err = mc_core_exist(sim->core, &request, &sim->arena, &exist);
        if (err == MOONCAKE_OK) {
            say(sim, "exist", ask, exist.statuses[0]);
            model_exist(&sim->model, ask, exist.statuses[0], exist.lease_ms);
        }
    } else {
        err = mc_core_remove(sim->core, &request, &sim->arena, &removed);
        if (err == MOONCAKE_OK) {
            say(sim, "remove", ask, removed.statuses[0]);
            model_remove(&sim->model, ask, removed.statuses[0]);
        }
    }
    if (err != MOONCAKE_OK) {
        model_fail(&sim->model, "a read or removal failed as a whole");
    }
}

static void deliver(struct sim *sim, const struct message *message)
{
    char text[16];
    struct mc_key key = {.bytes = text};

    (void)snprintf(text, sizeof(text), "key%u", message->ask.key);
    key.len = (uint32_t)strlen(text);
    sim_enter(sim);
    switch (message->kind) {
    case MESSAGE_START:
        deliver_start(sim, message, &key);
        break;
    case MESSAGE_END:
    case MESSAGE_REVOKE:
        deliver_end(sim, message, &key);
        break;
    case MESSAGE_QUERY:
    case MESSAGE_EXIST:
    case MESSAGE_REMOVE:
        deliver_read(sim, message, &key);
        break;
    }
}

void sim_deliver_due(struct sim *sim)
{
    for (;;) {
        unsigned first = MESSAGES_MAX;
        struct message message;

        for (unsigned i = 0; i < sim->messages_count; i++) {
            if (sim->messages[i].due_ns <= sim->clock.now_ns &&
                (first == MESSAGES_MAX || sim->messages[i].due_ns < sim->messages[first].due_ns)) {
                first = i;
            }
        }
        if (first == MESSAGES_MAX || sim->model.failed) {
            return;
        }
        message = sim->messages[first];
        sim->messages[first] = sim->messages[--sim->messages_count];
        deliver(sim, &message);
    }
}

/* ---- clients ------------------------------------------------------------------------------- */

static uint64_t some_len(struct sim *sim)
{
    switch (sim_below(sim, 12)) {
    case 0:
        return 0;
    case 1:
        return sim_below(sim, 150000);
    case 2:
        return sim_chance(sim, 4) ? UINT64_MAX - sim_below(sim, 100) : sim_below(sim, 300000);
    default:
        return sim_below(sim, 24000);
    }
}

static void begin_put(struct sim *sim)
{
    for (unsigned i = 0; i < OPS_MAX; i++) {
        struct op *const op = &sim->ops[i];

        if (op->state != OP_FREE) {
            continue;
        }
        *op = (struct op){.state = OP_STARTING, .serial = ++sim->last_id};
        op->ask = (struct model_ask){
            .key = sim_below(sim, MODEL_KEYS),
            .client_id = 1 + sim_below(sim, CLIENTS),
            .nonce = ++sim->last_id,
            .len = some_len(sim),
            .replicas = 1 + sim_below(sim, 3),
            .all_replicas = sim_chance(sim, 4),
            .upsert = sim_chance(sim, 4),
            .hard_pin = sim_chance(sim, 40),
            .soft_pin = sim_chance(sim, 6),
        };
        op->due_ns = sim->clock.now_ns + sim_ms(100);
        send(sim, MESSAGE_START, &op->ask, i);
        return;
    }
}

/* The client's transfers are over: its bytes are where it was told to put them. */
static void finish_writing(struct sim *sim, struct op *op, unsigned index)
{
    const struct model_version *version = model_attempt(&sim->model, op->ask.attempt);
    bool const in_time = version != NULL && !model_may_be_released(&sim->model, version);

    if (sim_chance(sim, 12)) {
        op->ask.failed = 1u << sim_below(sim, 3);
    }
    if (sim_chance(sim, 15)) {
        op->state = OP_REVOKING; /* nothing of it is under way any more */
    } else {
        /* A client's own deadline is far below the release timeout. */
        if (in_time && version->client_id == op->ask.client_id) {
            model_write(&sim->model, version, ~op->ask.failed);
        } else {
            op->ask.failed = UINT32_MAX;
        }
        op->state = OP_ENDING;
    }
    op->due_ns = sim->clock.now_ns + sim_ms(100);
    send(sim, op->state == OP_ENDING ? MESSAGE_END : MESSAGE_REVOKE, &op->ask, index);
}

void sim_run_ops(struct sim *sim)
{
    static const enum message_kind again[] = {
        [OP_STARTING] = MESSAGE_START,
        [OP_ENDING] = MESSAGE_END,
        [OP_REVOKING] = MESSAGE_REVOKE,
    };

    for (unsigned i = 0; i < OPS_MAX; i++) {
        struct op *const op = &sim->ops[i];

        if (op->state == OP_FREE || op->due_ns > sim->clock.now_ns) {
            continue;
        }
        if (op->state == OP_WRITING) {
            finish_writing(sim, op, i);
        } else if (++op->tries > 4) {
            op->state = OP_FREE; /* gave up; the master does not know */
        } else {
            op->due_ns = sim->clock.now_ns + sim_ms(100);
            send(sim, again[op->state], &op->ask, i);
        }
    }
}

static void kill_client(struct sim *sim)
{
    uint64_t const client_id = 1 + sim_below(sim, CLIENTS);

    for (unsigned i = 0; i < OPS_MAX; i++) {
        if (sim->ops[i].ask.client_id == client_id) {
            sim->ops[i].state = OP_FREE;
        }
    }
}

static void on_removed(void *arg, mooncake_err err, const struct mc_remove_all_reply *reply)
{
    struct mc_remove_all_reply *out = arg;

    *out = *reply;
    out->left_pinned = err == MOONCAKE_OK ? 1 : 2; /* says that it came */
}

void sim_remove_all(struct sim *sim, bool force)
{
    struct mc_remove_all_request const request = {.force = force};
    struct mc_remove_all_reply reply = {0};

    sim_enter(sim);
    if (mc_core_remove_all(sim->core, &request, on_removed, &reply) != MOONCAKE_OK ||
        reply.left_pinned != 1) {
        model_fail(&sim->model, "removing a few keys did not end at once");
        return;
    }
    model_remove_all(&sim->model, force, &reply);
}

void sim_act(struct sim *sim)
{
    struct model_ask ask = {.key = sim_below(sim, MODEL_KEYS),
                            .client_id = 1 + sim_below(sim, CLIENTS)};
    uint32_t const dice = sim_below(sim, 100);

    if (dice < 40) {
        begin_put(sim);
    } else if (dice < 70) {
        send(sim, MESSAGE_QUERY, &ask, OPS_MAX);
    } else if (dice < 85) {
        send(sim, MESSAGE_EXIST, &ask, OPS_MAX);
    } else if (dice < 95) {
        ask.force = sim_chance(sim, 4);
        send(sim, MESSAGE_REMOVE, &ask, OPS_MAX);
    } else if (dice < 98) {
        kill_client(sim);
    } else if (sim_chance(sim, 4)) {
        sim_remove_all(sim, sim_chance(sim, 2));
    }
}
