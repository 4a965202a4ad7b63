/*
 * Membership in the pool: ping each second, mount what is not mounted, mount it anew when the
 * master has forgotten it, say goodbye.
 *
 * Design notes. The master is the only judge of what is mounted: each ping names what we believe,
 * and the answer names what the master does not know. Such a segment is mounted again under a new
 * mount id and secret, because its objects are gone from the index and old descriptors must not
 * read what new owners write there. Lost answers need no care: the next ping tells.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/advertise.h"
#include "store/store_impl.h"
#include "transport/shm_map.h"

#define PING_INTERVAL_MS 1000u
/* Well inside the master's client TTL (10 s), so that one lost ping is followed by others. */
#define PING_TIMEOUT_MS 2000u
/* At the beginning, while the master may be starting too. */
#define EAGER_INTERVAL_MS 100u
#define PATIENCE_MS 1500u
#define MOUNT_TIMEOUT_MS 5000u
#define UNMOUNT_TIMEOUT_MS 2000u
#define GOODBYE_TIMEOUT_MS 1000u

/* Bytes a reply to one of these small calls may take. */
#define REPLY_ARENA_MAX ((size_t)1 << 20)

static void tell(struct mc_store *store, mooncake_err err)
{
    if (store->on_state != NULL) {
        store->on_state(store->arg, store->state, err);
    }
}

static bool all_mounted(const struct mc_store *store)
{
    for (size_t i = 0; i < store->mounts_count; i++) {
        if (!store->mounts[i].mounted) {
            return false;
        }
    }
    return true;
}

/* What the log is spared: that a master which is started at the same time is not there yet, and a
 * deadline that came before the attempt to connect has ended, which tells more when it does. */
static bool is_no_news(const struct mc_store *store, mooncake_err err)
{
    if (mc_rpc_client_is_up(store->stub.rpc)) {
        return false;
    }
    return err == MOONCAKE_ETIMEDOUT ||
           (err == MOONCAKE_ERPC && mc_monotonic_ns() < store->patient_until_ns);
}

/* The state follows from what is known; a leave under way is not undone. */
static void judge(struct mc_store *store, mooncake_err err)
{
    enum mc_store_state before = store->state;

    if (before == MC_STORE_LEAVING || before == MC_STORE_LEFT) {
        return;
    }
    store->state = store->pinged && all_mounted(store) ? MC_STORE_JOINED : MC_STORE_JOINING;
    if (store->state == MC_STORE_JOINING && before == MC_STORE_JOINED) {
        store->apart_since_ns = mc_monotonic_ns();
    }
    if (store->state == MC_STORE_JOINED && store->apart_since_ns != 0) {
        mc_histogram_observe(&store->reattach, mc_monotonic_ns() - store->apart_since_ns);
        store->apart_since_ns = 0;
    }
    if (store->state == MC_STORE_JOINED && before != MC_STORE_JOINED) {
        mc_log_info("store.joined", "master=%s name=%s segments=%zu", store->master, store->name,
                    store->mounts_count);
        store->join_err = MOONCAKE_OK;
        tell(store, MOONCAKE_OK);
    } else if (store->state == MC_STORE_JOINING && err != MOONCAKE_OK) {
        if (err != store->join_err && !is_no_news(store, err)) { /* once; it tries on and on */
            mc_log_warn("store.joining", "master=%s err=%s detail=\"%s\"", store->master,
                        mooncake_err_name(err), mooncake_last_error());
            store->join_err = err;
        }
        tell(store, err);
    }
}

/* Start one of the store's calls unless it is under way already. */
static void start_call(struct mc_store *store, struct mc_store_call *slot, enum mc_method method,
                       const void *request, void *reply)
{
    mooncake_err err;

    MC_ASSERT(!slot->under_way);
    slot->under_way = true;
    err = mc_master_call_start(store->stub.rpc, &slot->call, method, request, reply);
    if (err != MOONCAKE_OK) { /* no callback will come */
        slot->call.done(&slot->call, err);
        return;
    }
    mc_rpc_client_flush(store->stub.rpc);
}

static void prepare_call(struct mc_store *store, struct mc_store_call *slot, uint32_t timeout_ms,
                         void (*done)(struct mc_master_call *call, mooncake_err err))
{
    mc_arena_reset(&slot->arena);
    mc_master_call_init(&slot->call, &slot->arena, mc_deadline_ns(mc_monotonic_ns(), timeout_ms),
                        done, store);
}

/* ---- mounting ---------------------------------------------------------------------------- */

static void take_mount_status(struct mc_store *store, struct mc_store_mount *mount,
                              mooncake_err status, mooncake_err *worst)
{
    if (status == MOONCAKE_OK) {
        mount->mounted = true;
        mount->again = true;
        mc_log_info("store.mounted",
                    "segment=%s mount_id=%016" PRIx64 " len=%" PRIu64 " addresses=\"%s\"",
                    mount->name, mount->mount_id, mount->segment.len, store->addresses);
        return;
    }
    *worst = status;
    if (status == MOONCAKE_ESEGMENTEXISTS) {
        (void)mc_err_set(status,
                         "segment %s: a live process has mounted this name at master %s; choose "
                         "another name, or wait until the master has given the other up",
                         mount->name, store->master);
    } else {
        (void)mc_err_set(status, "segment %s: master %s does not mount it: %s", mount->name,
                         store->master, mooncake_err_text(status));
    }
}

static void on_mount(struct mc_master_call *call, mooncake_err err)
{
    struct mc_store *store = call->arg;
    size_t item = 0;

    store->mount.under_way = false;
    if (store->state == MC_STORE_LEAVING || store->state == MC_STORE_LEFT) {
        return;
    }
    for (size_t i = 0; err == MOONCAKE_OK && i < store->mounts_count; i++) {
        mooncake_err worst = MOONCAKE_OK;

        if (!store->mounts[i].mounted && item < store->mount_reply.count) {
            take_mount_status(store, &store->mounts[i], store->mount_reply.statuses[item++],
                              &worst);
        }
        if (worst != MOONCAKE_OK) {
            judge(store, worst);
        }
    }
    judge(store, err);
}

static mooncake_err know_addresses(struct mc_store *store)
{
    if (store->addresses[0] != '\0') {
        return MOONCAKE_OK;
    }
    MC_TRY(mc_advertise(store->advertise_host, store->data_address, store->port, store->master,
                        store->addresses, MC_ADDR_LEN_MAX + 16u));
    if (store->shm_server != NULL) {
        size_t len = strlen(store->addresses);

        (void)snprintf(store->addresses + len, sizeof(store->addresses) - len, " %s",
                       mc_shm_server_address(store->shm_server));
    }
    if (store->rdma_server != NULL) {
        size_t len = strlen(store->addresses);

        store->addresses[len] = ' '; /* the texts before leave room for several */
        mc_rdma_server_addresses(store->rdma_server, store->addresses + len + 1,
                                 sizeof(store->addresses) - len - 1);
    }
    return MOONCAKE_OK;
}

static mooncake_err mount_missing(struct mc_store *store)
{
    struct mc_mount_request request = {
        .client_id = store->client_id, .host = store->host, .program = store->program};
    struct mc_mount_item *items;

    MC_TRY(know_addresses(store));
    prepare_call(store, &store->mount, MOUNT_TIMEOUT_MS, on_mount);
    items = mc_arena_array(&store->mount.arena, store->mounts_count, sizeof(*items));
    if (items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < store->mounts_count; i++) {
        struct mc_store_mount *mount = &store->mounts[i];

        if (mount->mounted) {
            continue;
        }
        if (mount->mount_id == 0) {
            MC_TRY(mc_store_renew(mount));
        }
        request.again = request.again || mount->again;
        items[request.count++] = (struct mc_mount_item){
            .name = mount->name,
            .addresses = store->addresses,
            .mount_id = mount->mount_id,
            .len = mount->segment.len,
            .secret = {mount->secret[0], mount->secret[1]},
        };
    }
    request.items = items;
    start_call(store, &store->mount, MC_METHOD_MOUNT, &request, &store->mount_reply);
    return MOONCAKE_OK;
}

static void mount_if_needed(struct mc_store *store)
{
    mooncake_err err;

    if (store->mount.under_way || all_mounted(store)) {
        return;
    }
    err = mount_missing(store);
    if (err != MOONCAKE_OK) {
        judge(store, err);
    }
}

/* ---- pinging ----------------------------------------------------------------------------- */

static void forget_mount(struct mc_store *store, uint64_t mount_id)
{
    for (size_t i = 0; i < store->mounts_count; i++) {
        struct mc_store_mount *mount = &store->mounts[i];

        if (mount->mount_id == mount_id && mount->mounted) {
            mount->mounted = false;
            mc_counter_add_owner(&store->forgotten, 1);
            mc_log_warn("store.forgotten", "segment=%s mount_id=%016" PRIx64 " master=%s",
                        mount->name, mount_id, store->master);
            if (mc_store_renew(mount) != MOONCAKE_OK) {
                mc_log_error("store.renew", "segment=%s err=ENOMEM", mount->name);
            }
        }
    }
}

static void on_ping(struct mc_master_call *call, mooncake_err err)
{
    struct mc_store *store = call->arg;

    store->ping.under_way = false;
    store->pinged = err == MOONCAKE_OK;
    store->heard = store->heard || store->pinged;
    mc_counter_add_owner(&store->ping_failures, err == MOONCAKE_OK ? 0 : 1);
    if (store->state == MC_STORE_LEAVING || store->state == MC_STORE_LEFT) {
        return;
    }
    for (size_t i = 0; err == MOONCAKE_OK && i < store->ping_reply.unknown_count; i++) {
        forget_mount(store, store->ping_reply.unknown_mount_ids[i]);
    }
    judge(store, err);
    if (err == MOONCAKE_OK) {
        mount_if_needed(store);
    }
}

static void ping(struct mc_store *store, bool leaving, uint32_t timeout_ms,
                 void (*done)(struct mc_master_call *call, mooncake_err err))
{
    struct mc_ping_request request = {.client_id = store->client_id,
                                      .role = (uint32_t)store->role,
                                      .host = store->host,
                                      .program = store->program,
                                      .leaving = leaving};
    uint64_t mount_ids[MC_SEGMENTS_PER_STORE_MAX];

    for (size_t i = 0; i < store->mounts_count; i++) {
        if (store->mounts[i].mounted) {
            mount_ids[request.count++] = store->mounts[i].mount_id;
        }
    }
    request.mount_ids = mount_ids;
    if (store->counts != NULL) {
        store->counts(store->counts_arg, &request.counts);
    }
    prepare_call(store, &store->ping, timeout_ms, done);
    start_call(store, &store->ping, MC_METHOD_PING, &request, &store->ping_reply);
}

static void on_tick(void *arg)
{
    struct mc_store *store = arg;

    mc_shm_map_sweep(); /* this is the thread that a process always has */
    if (!store->ping.under_way) {
        ping(store, false, PING_TIMEOUT_MS, on_ping);
    }
    if (store->eager && (store->pinged || mc_monotonic_ns() >= store->patient_until_ns)) {
        store->eager = false;
        mc_timer_set(store->tick, PING_INTERVAL_MS, PING_INTERVAL_MS);
    }
    if (store->state == MC_STORE_JOINING && store->pinged) {
        mount_if_needed(store);
    }
}

/* ---- leaving ----------------------------------------------------------------------------- */

/* No master has ever answered: none was told of the segments. */
static bool nobody_knows(const struct mc_store *store)
{
    return !store->heard && !mc_rpc_client_is_up(store->stub.rpc);
}

static void end_membership(struct mc_store *store, bool heard)
{
    store->state = MC_STORE_LEFT;
    mc_log_info("store.left", "name=%s master=%s heard=%s", store->name, store->master,
                heard ? "yes" : "no");
    tell(store, MOONCAKE_OK);
}

static void on_goodbye(struct mc_master_call *call, mooncake_err err)
{
    struct mc_store *store = call->arg;

    store->ping.under_way = false;
    end_membership(store, err == MOONCAKE_OK);
}

static void on_grace_over(void *arg)
{
    struct mc_store *store = arg;

    mc_timer_clear(store->tick);
    mc_timer_clear(store->grace);
    if (store->ping.under_way) {
        mc_master_call_cancel(store->stub.rpc, &store->ping.call);
        store->ping.under_way = false;
    }
    if (nobody_knows(store)) { /* no goodbye to a master that never answered */
        end_membership(store, false);
        return;
    }
    ping(store, true, GOODBYE_TIMEOUT_MS, on_goodbye);
}

/* Wait for what is left of the grace, at least one turn of the loop. */
static void wait_grace(struct mc_store *store)
{
    mc_timer_set(store->grace, mc_left_ms(mc_monotonic_ns(), store->leave_at_ns), 0);
}

static void on_unmount(struct mc_master_call *call, mooncake_err err)
{
    struct mc_store *store = call->arg;

    store->unmount.under_way = false;
    if (err != MOONCAKE_OK) {
        /* Nobody finds our objects without the master: waiting would serve no reader. */
        store->leave_at_ns = 0;
    }
    wait_grace(store);
}

static void unmount_all(struct mc_store *store, uint64_t grace_ms)
{
    uint64_t mount_ids[MC_SEGMENTS_PER_STORE_MAX];
    struct mc_unmount_request request = {
        .client_id = store->client_id, .mount_ids = mount_ids, .grace_ms = grace_ms};

    /* Also those whose mount was not answered yet: the master may have heard it. */
    for (size_t i = 0; i < store->mounts_count; i++) {
        if (store->mounts[i].mount_id != 0) {
            mount_ids[request.count++] = store->mounts[i].mount_id;
        }
    }
    prepare_call(store, &store->unmount, UNMOUNT_TIMEOUT_MS, on_unmount);
    start_call(store, &store->unmount, MC_METHOD_UNMOUNT, &request, &store->unmount_reply);
}

void mc_store_leave(struct mc_store *store, uint64_t grace_ms)
{
    uint64_t leave_at_ns = mc_deadline_ns(mc_monotonic_ns(), grace_ms);

    MC_ASSERT_ON_LOOP(store->loop);
    if (store->state == MC_STORE_LEFT) {
        return;
    }
    if (store->state == MC_STORE_LEAVING) {
        if (leave_at_ns < store->leave_at_ns) {
            store->leave_at_ns = leave_at_ns;
            if (!store->unmount.under_way) {
                wait_grace(store);
            }
        }
        return;
    }
    store->state = MC_STORE_LEAVING;
    store->leave_at_ns = leave_at_ns;
    tell(store, MOONCAKE_OK);
    if (store->mount.under_way) {
        mc_master_call_cancel(store->stub.rpc, &store->mount.call);
        store->mount.under_way = false;
    }
    if (nobody_knows(store)) {
        store->leave_at_ns = 0;
        wait_grace(store);
    } else if (store->mounts_count > 0) {
        mc_log_info("store.leaving", "name=%s grace_ms=%" PRIu64, store->name, grace_ms);
        unmount_all(store, grace_ms);
    } else {
        wait_grace(store);
    }
}

/* ---- beginning and ending ---------------------------------------------------------------- */

mooncake_err mc_membership_begin(struct mc_store *store, uint32_t connect_timeout_ms)
{
    struct mc_master_stub_options options = {.address = store->master,
                                             .program = store->program,
                                             .client_id = store->client_id,
                                             .connect_timeout_ms = connect_timeout_ms};

    static const double reattach_bounds[] = {0.1, 0.5, 1, 2, 5, 10, 30, 60, 300};

    mc_histogram_init(&store->reattach, reattach_bounds, MC_ARRAY_LEN(reattach_bounds), 1e9);
    mc_arena_init(&store->ping.arena, REPLY_ARENA_MAX);
    mc_arena_init(&store->mount.arena, REPLY_ARENA_MAX);
    mc_arena_init(&store->unmount.arena, REPLY_ARENA_MAX);
    MC_TRY(mc_master_stub_open(store->loop, &options, &store->stub));
    store->stub_open = true;
    MC_TRY(mc_timer_create(store->loop, on_tick, store, &store->tick));
    MC_TRY(mc_timer_create(store->loop, on_grace_over, store, &store->grace));
    store->eager = true;
    store->patient_until_ns = mc_deadline_ns(mc_monotonic_ns(), PATIENCE_MS);
    mc_timer_set(store->tick, 0, EAGER_INTERVAL_MS);
    return MOONCAKE_OK;
}

static void end_call(struct mc_store *store, struct mc_store_call *slot)
{
    if (slot->under_way) {
        mc_master_call_cancel(store->stub.rpc, &slot->call);
        slot->under_way = false;
    }
    mc_arena_fini(&slot->arena);
}

void mc_membership_end(struct mc_store *store)
{
    if (store->tick != NULL) {
        mc_timer_destroy(&store->tick);
    }
    if (store->grace != NULL) {
        mc_timer_destroy(&store->grace);
    }
    end_call(store, &store->ping);
    end_call(store, &store->mount);
    end_call(store, &store->unmount);
    if (store->stub_open) {
        mc_master_stub_close(&store->stub);
        store->stub_open = false;
    }
}
