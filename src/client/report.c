/* Fire-and-forget reports on the engine's own connection. Damage is told at the end of the call,
 * all of a batch at once. */
#include "client/report.h"

#include <string.h>

#include "base/htab.h"
#include "base/log.h"

#define REPORT_TIMEOUT_MS 2000u

/* A store that moved nothing for so long is read last for a while, and after the second time it
 * is worth the master's attention. */
#define SUSPECT_IDLE_MS 100u
#define REPORT_IDLE_MS 1000u

static void on_reported(struct mc_master_call *call, mooncake_err err)
{
    struct mc_engine *engine = call->arg;

    engine->report_under_way = false;
    if (err != MOONCAKE_OK) {
        mc_log_debug("client.report", "err=%s", mooncake_err_name(err));
    }
}

void mc_report_flush(struct mc_call *call)
{
    struct mc_engine *engine = call->engine;
    struct mc_report_request request = {.client_id = call->client->client_id,
                                        .items = engine->findings,
                                        .count = engine->findings_count};

    if (request.count == 0 || engine->report_under_way || !mc_rpc_client_is_up(engine->stub.rpc)) {
        return; /* what has been found stays for the next time */
    }
    mc_arena_reset(&engine->report_arena);
    mc_master_call_init(&engine->report, &engine->report_arena,
                        mc_deadline_ns(mc_monotonic_ns(), REPORT_TIMEOUT_MS), on_reported, engine);
    if (mc_master_call_start(engine->stub.rpc, &engine->report, MC_METHOD_REPORT, &request,
                             &engine->report_reply) == MOONCAKE_OK) {
        engine->report_under_way = true;
        mc_rpc_client_flush(engine->stub.rpc);
    }
    engine->findings_count = 0;
    mc_arena_reset(&engine->findings_arena);
}

static void add_finding(struct mc_engine *engine, struct mc_report_item item)
{
    char *key = NULL;

    if (engine->findings_count == MC_FINDINGS_MAX) {
        return;
    }
    if (item.key.len > 0) {
        key = mc_arena_alloc(&engine->findings_arena, item.key.len);
        if (key == NULL) {
            return;
        }
        memcpy(key, item.key.bytes, item.key.len);
        item.key.bytes = key;
    }
    engine->findings[engine->findings_count++] = item;
}

void mc_report_failure(struct mc_call *call, const struct mc_xfer_op *op, const struct mc_key *key,
                       uint64_t idle_ms)
{
    struct mc_report_item item = {.mount_id = op->extent.mount_id, .reason = op->err};
    bool late = op->err == MOONCAKE_ETIMEDOUT;
    bool report = false;

    /* A caller in a hurry proves nothing about the store. */
    if (late && idle_ms < SUSPECT_IDLE_MS) {
        return;
    }
    if (late || op->err == MOONCAKE_ERPC || op->err == MOONCAKE_ENOSEGMENT) {
        report = mc_suspects_add(&call->client->suspects, item.mount_id, mc_monotonic_ns()) &&
                 (!late || idle_ms >= REPORT_IDLE_MS);
    } else if (op->err == MOONCAKE_ECHECKSUM) {
        (void)atomic_fetch_add_explicit(&call->client->counters.damaged_extents, 1,
                                        memory_order_relaxed);
        item.key = *key;
        item.object_id_lo = op->extent.object_id.lo;
        report = true;
    }
    if (report) {
        /* A key may tell what somebody asked: its hash is enough to find lines about the same. */
        mc_log_warn(
            "client.transfer", "segment=%s addresses=\"%s\" key_hash=%016llx err=%s failures=%llu",
            op->target->name, op->target->addresses,
            (unsigned long long)mc_htab_hash(key->bytes, key->len), mooncake_err_name(op->err),
            (unsigned long long)mc_suspects_take_failures(&call->client->suspects, item.mount_id));
        add_finding(call->engine, item);
        if (item.reason != MOONCAKE_ECHECKSUM) { /* others suffer from it now */
            mc_report_flush(call);
        }
    }
}
