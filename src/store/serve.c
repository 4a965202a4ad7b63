/* A store's life: segments, the data port, and beginning and ending its membership. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/option.h"
#include "store/store_impl.h"
#include "transport/mount_table.h"

/* Requests under way when the data port closes get so long to finish. */
#define CLOSE_GRACE_MS 500u

static mooncake_err copy_text(const char *text, char **out)
{
    if (text == NULL) {
        *out = NULL;
        return MOONCAKE_OK;
    }
    *out = mc_strndup(text, strlen(text));
    return *out == NULL ? MOONCAKE_ENOMEM : MOONCAKE_OK;
}

static mooncake_err copy_options(struct mc_store *store, const struct mc_store_options *options)
{
    char master[MC_MASTER_ADDRESS_CAP];

    MC_TRY(mc_master_address(options->master, master));
    MC_TRY(copy_text(master, &store->master));
    MC_TRY(copy_text(options->program, &store->program));
    MC_TRY(copy_text(options->data_address, &store->data_address));
    MC_TRY(copy_text(options->advertise_host, &store->advertise_host));
    store->role = options->role;
    store->counts = options->counts;
    store->counts_arg = options->counts_arg;
    store->client_id = options->client_id;
    store->on_state = options->on_state;
    store->arg = options->arg;
    return MOONCAKE_OK;
}

/* The name of this process and the host part of it; the port is that of the data port. */
static mooncake_err choose_name(struct mc_store *store, const char *wished)
{
    char host[MC_SEGMENT_NAME_LEN_MAX + 1];
    const char *colon;
    int len;

    if (wished == NULL || wished[0] == '\0') {
        if (gethostname(host, sizeof(host)) != 0) {
            (void)snprintf(host, sizeof(host), "localhost");
        }
        host[sizeof(host) - 1] = '\0';
    } else if (strlen(wished) >= sizeof(host)) {
        return mc_err_set(MOONCAKE_EINVAL, "name: %zu bytes; at most %u are allowed",
                          strlen(wished), MC_SEGMENT_NAME_LEN_MAX);
    } else {
        (void)snprintf(host, sizeof(host), "%s", wished);
    }
    colon = strrchr(host, ':');
    if (colon != NULL || store->port == 0) {
        len = snprintf(store->name, sizeof(store->name), "%s", host);
    } else {
        len = snprintf(store->name, sizeof(store->name), "%s:%u", host, (unsigned)store->port);
    }
    if (len < 0 || (size_t)len >= sizeof(store->name)) {
        return mc_err_set(MOONCAKE_EINVAL, "name: %s is too long", host);
    }
    if (colon != NULL) {
        host[colon - host] = '\0';
    }
    return copy_text(host, &store->host);
}

static mooncake_err name_mount(const struct mc_store *store, size_t index,
                               struct mc_store_mount *mount)
{
    int len = index == 0 ? snprintf(mount->name, sizeof(mount->name), "%s", store->name)
                         : snprintf(mount->name, sizeof(mount->name), "%s/%zu", store->name, index);

    if (len < 0 || (size_t)len >= sizeof(mount->name)) {
        return mc_err_set(MOONCAKE_EINVAL, "name: %s is too long for several segments",
                          store->name);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_store_renew(struct mc_store_mount *mount)
{
    struct mc_mount fresh = {
        .base = mount->segment.base, .len = mount->segment.len, .memfd = mount->segment.memfd};
    mooncake_err err;

    if (mount->mount_id != 0) {
        mc_mount_drop(mount->mount_id);
        mount->mount_id = 0;
    }
    fresh.mount_id = mc_random_u64();
    mc_random_bytes(fresh.secret, sizeof(fresh.secret));
    err = mc_mount_add(&fresh);
    if (err == MOONCAKE_OK) {
        mount->mount_id = fresh.mount_id;
        memcpy(mount->secret, fresh.secret, sizeof(mount->secret));
    }
    return err;
}

mooncake_err mc_store_open_shm(const char *dir, enum mc_shm_policy policy,
                               struct mc_shm_server **out)
{
    bool chosen = dir != NULL && dir[0] != '\0';
    mooncake_err err;

    if (policy == MC_SHM_OFF) {
        return MOONCAKE_OK;
    }
    err = mc_shm_server_open(dir, policy, out);
    if (err != MOONCAKE_OK && err != MOONCAKE_ENOMEM && !chosen) {
        mc_log_warn("store.unshared", "err=%s detail=\"%s\"", mooncake_err_name(err),
                    mooncake_last_error());
        return MOONCAKE_OK;
    }
    return err;
}

/* RDMA is a shortcut, too, unless it was asked for. */
static mooncake_err open_rdma_server(struct mc_store *store, const struct mc_store_options *options)
{
    const struct mc_rdma_server_options rdma = {.devices = options->rdma_devices,
                                                .gid_index = options->rdma_gid_index};
    mooncake_err err;

    if (options->rdma == MC_RDMA_OFF) {
        return MOONCAKE_OK;
    }
    err = mc_rdma_server_open(&rdma, &store->rdma_server);
    if (err == MOONCAKE_OK || options->rdma == MC_RDMA_ON || err == MOONCAKE_EINVAL) {
        return err;
    }
    mc_log_info("store.no_rdma", "detail=\"%s\"", mooncake_last_error());
    return MOONCAKE_OK;
}

/* With AUTO a segment that cannot be registered ends RDMA for this store: an address that leads
 * nowhere would cost every client a try. */
static mooncake_err register_segment(struct mc_store *store, const struct mc_store_options *options,
                                     const struct mc_segment *segment)
{
    mooncake_err err;

    if (store->rdma_server == NULL) {
        return MOONCAKE_OK;
    }
    err = mc_rdma_server_add_segment(store->rdma_server, segment->base, segment->len);
    if (err == MOONCAKE_OK || options->rdma == MC_RDMA_ON) {
        return err;
    }
    mc_log_warn("store.no_rdma", "detail=\"%s\"", mooncake_last_error());
    mc_rdma_server_close(&store->rdma_server);
    return MOONCAKE_OK;
}

static mooncake_err open_server(struct mc_store *store, const struct mc_store_options *options)
{
    struct mc_tcp_server_options server = {
        .address = options->data_address,
        .loops = options->loops,
        .poll_us = options->poll_us,
    };

    if (options->segments_count == 0) {
        return MOONCAKE_OK;
    }
    if (options->segments_count > MC_SEGMENTS_PER_STORE_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "segment: %zu of them; at most %u are allowed",
                          options->segments_count, MC_SEGMENTS_PER_STORE_MAX);
    }
    MC_TRY(mc_tcp_server_open(&server, &store->server));
    store->port = mc_tcp_server_port(store->server);
    MC_TRY(mc_store_open_shm(options->shm_dir, options->shm, &store->shm_server));
    return open_rdma_server(store, options);
}

static mooncake_err open_mounts(struct mc_store *store, const struct mc_store_options *options)
{
    if (options->segments_count == 0) {
        return MOONCAKE_OK;
    }
    store->mounts = mc_calloc(options->segments_count, sizeof(*store->mounts));
    if (store->mounts == NULL) {
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; i < options->segments_count; i++) {
        struct mc_store_mount *mount = &store->mounts[i];

        mount->segment.memfd = -1;
        store->mounts_count = i + 1;
        MC_TRY(name_mount(store, i, mount));
        MC_TRY(mc_segment_open(mount->name, options->segment_lens[i], options->huge_pages,
                               &mount->segment));
        MC_TRY(register_segment(store, options, &mount->segment));
        MC_TRY(mc_store_renew(mount));
    }
    return MOONCAKE_OK;
}

mooncake_err mc_store_open(struct mc_loop *loop, const struct mc_store_options *options,
                           struct mc_store **out)
{
    struct mc_store *store = mc_calloc(1, sizeof(*store));
    mooncake_err err;

    MC_ASSERT_ON_LOOP(loop);
    MC_ASSERT(options->master != NULL && options->program != NULL);
    if (store == NULL) {
        return MOONCAKE_ENOMEM;
    }
    store->loop = loop;
    err = copy_options(store, options);
    if (err == MOONCAKE_OK) {
        err = open_server(store, options);
    }
    if (err == MOONCAKE_OK) {
        err = choose_name(store, options->name);
    }
    if (err == MOONCAKE_OK) {
        err = open_mounts(store, options);
    }
    if (err == MOONCAKE_OK) {
        err = mc_membership_begin(store, options->connect_timeout_ms);
    }
    if (err != MOONCAKE_OK) {
        mc_store_close(&store);
        return err;
    }
    *out = store;
    return MOONCAKE_OK;
}

void mc_store_close(struct mc_store **store_ptr)
{
    struct mc_store *store = *store_ptr;

    if (store == NULL) {
        return;
    }
    MC_ASSERT_ON_LOOP(store->loop);
    mc_membership_end(store);
    if (store->server != NULL) {
        mc_tcp_server_close(&store->server, CLOSE_GRACE_MS);
    }
    for (size_t i = 0; i < store->mounts_count; i++) {
        if (store->mounts[i].mount_id != 0) {
            mc_mount_drop(store->mounts[i].mount_id);
        }
        if (store->rdma_server != NULL && store->mounts[i].segment.base != NULL) {
            mc_rdma_server_drop_segment(store->rdma_server, store->mounts[i].segment.base);
        }
        mc_segment_close(&store->mounts[i].segment);
    }
    mc_shm_server_close(&store->shm_server); /* after the mounts: it takes them back from peers */
    mc_rdma_server_close(&store->rdma_server);
    mc_free(store->mounts);
    mc_free(store->master);
    mc_free(store->program);
    mc_free(store->host);
    mc_free(store->data_address);
    mc_free(store->advertise_host);
    mc_free(store);
    *store_ptr = NULL;
}

enum mc_store_state mc_store_state(const struct mc_store *store)
{
    return store->state;
}

const char *mc_store_name(const struct mc_store *store)
{
    return store->name;
}

uint16_t mc_store_data_port(const struct mc_store *store)
{
    return store->port;
}
