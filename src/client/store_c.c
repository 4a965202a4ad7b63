/* The C API of the C++ Mooncake, on top of the public client API only. */
#include "mooncake/store_c.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/mem.h"
#include "mooncake/client.h"

/* Ports that the C++ client draws from when the host name has none. */
#define PORT_FIRST 12300u
#define PORT_COUNT 2001u
#define PORT_TRIES 64u

#define HEALTH_TIMEOUT_MS 3000u
#define HEALTHY 0
#define NOT_SET_UP 1
#define MASTER_UNREACHABLE 2

struct store {
    mooncake_client *client; /* NULL until set up */
};

static mooncake_client *client_of(mooncake_store_t handle)
{
    struct store *store = handle;

    return store == NULL ? NULL : store->client;
}

mooncake_store_t mooncake_store_create(void)
{
    return mc_calloc(1, sizeof(struct store));
}

void mooncake_store_destroy(mooncake_store_t handle)
{
    struct store *store = handle;

    if (store != NULL) {
        mooncake_client_close(store->client);
        mc_free(store);
    }
}

/* ---- setting up -------------------------------------------------------------------------- */

/* Open with the name and the data port in agreement: a port that somebody else has is passed by. */
static mooncake_err open_on_free_port(mooncake_client_options *options, const char *host,
                                      mooncake_client **out)
{
    unsigned start = (unsigned)(mc_random_u64() % PORT_COUNT);
    char name[300], address[40];
    mooncake_err err = MOONCAKE_EINTERNAL;

    for (unsigned i = 0; i < PORT_TRIES; i++) {
        unsigned port = PORT_FIRST + (start + i * 31u) % PORT_COUNT;

        if (snprintf(name, sizeof(name), "%s:%u", host, port) >= (int)sizeof(name)) {
            return mc_err_set(MOONCAKE_EINVAL, "local_hostname: is too long");
        }
        (void)snprintf(address, sizeof(address), "0.0.0.0:%u", port);
        options->local_hostname = name;
        options->data_address = options->segment_size > 0 ? address : NULL;
        err = mooncake_client_open(options, out);
        if (err != MOONCAKE_ESEGMENTEXISTS &&
            !(err == MOONCAKE_ERPC && strstr(mooncake_last_error(), address) != NULL)) {
            return err;
        }
    }
    return err;
}

static int check_protocol(const char *protocol)
{
    if (protocol == NULL || protocol[0] == '\0' || strcmp(protocol, "tcp") == 0 ||
        strcmp(protocol, "rdma") == 0) {
        return MOONCAKE_OK;
    }
    return mc_err_set(MOONCAKE_EINVAL, "protocol: \"%.40s\"; allowed are tcp and rdma", protocol);
}

/* "tcp" keeps away from RDMA devices; "rdma" and nothing at all take what works best. */
static void choose_transport(mooncake_client_options *options, const char *protocol,
                             const char *device_name)
{
    if (protocol != NULL && strcmp(protocol, "tcp") == 0) {
        options->transport = "local,shm,tcp";
    } else if (device_name != NULL && device_name[0] != '\0') {
        options->rdma_devices = device_name;
    }
}

int mooncake_store_setup(mooncake_store_t handle, const char *local_hostname,
                         const char *metadata_server, uint64_t global_segment_size,
                         uint64_t local_buffer_size, const char *protocol, const char *device_name,
                         const char *master_server_addr)
{
    struct store *store = handle;
    mooncake_client_options options;
    int err;

    (void)metadata_server;
    (void)local_buffer_size;
    mc_err_clear();
    if (store == NULL || local_hostname == NULL || local_hostname[0] == '\0') {
        return mc_err_set(MOONCAKE_EINVAL, "store or local_hostname: is NULL or empty");
    }
    if (store->client != NULL) {
        return mc_err_set(MOONCAKE_EUNAVAILABLE, "this store is set up already");
    }
    err = check_protocol(protocol);
    if (err != MOONCAKE_OK) {
        return err;
    }
    mooncake_client_options_init(&options);
    options.segment_size = global_segment_size;
    options.local_hostname = local_hostname;
    choose_transport(&options, protocol, device_name);
    if (master_server_addr != NULL && master_server_addr[0] != '\0') {
        options.master = master_server_addr;
    }
    if (strrchr(local_hostname, ':') != NULL) {
        return mooncake_client_open(&options, &store->client);
    }
    return open_on_free_port(&options, local_hostname, &store->client);
}

int mooncake_store_init_all(mooncake_store_t handle, const char *protocol, const char *device_name,
                            uint64_t mount_segment_size)
{
    return mooncake_store_setup(handle, "localhost", NULL, mount_segment_size, 0, protocol,
                                device_name, NULL);
}

int mooncake_store_health_check(mooncake_store_t handle)
{
    mooncake_client *client = client_of(handle);

    if (client == NULL) {
        return NOT_SET_UP;
    }
    return mooncake_client_check(client, HEALTH_TIMEOUT_MS) == MOONCAKE_OK ? HEALTHY
                                                                           : MASTER_UNREACHABLE;
}

/* ---- putting ----------------------------------------------------------------------------- */

/* A store that holds the very key is as good as one that has just taken it. */
static int put_result(mooncake_err err)
{
    return err == MOONCAKE_EEXIST ? MOONCAKE_OK : err;
}

static int read_config(const mooncake_replicate_config_t *config, mooncake_put_options *out)
{
    mooncake_put_options_init(out);
    if (config == NULL) {
        return MOONCAKE_OK;
    }
    if (config->replica_num > UINT32_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "replica_num: %zu; allowed are 1 to 8",
                          config->replica_num);
    }
    out->replicas = config->replica_num == 0 ? 1 : (uint32_t)config->replica_num;
    out->soft_pin = config->with_soft_pin != 0;
    out->hard_pin = config->with_hard_pin != 0;
    out->preferred_segments = config->preferred_segments;
    out->preferred_segments_count = config->preferred_segments_count;
    return MOONCAKE_OK;
}

static int need_client(mooncake_store_t handle)
{
    mc_err_clear();
    if (handle == NULL) {
        return mc_err_set(MOONCAKE_EINVAL, "store: is NULL");
    }
    if (client_of(handle) == NULL) {
        return mc_err_set(MOONCAKE_EUNAVAILABLE, "call mooncake_store_setup() first");
    }
    return MOONCAKE_OK;
}

int mooncake_store_put(mooncake_store_t handle, const char *key, const void *value, size_t size,
                       const mooncake_replicate_config_t *config)
{
    mooncake_put_options options;
    int err = need_client(handle);

    if (err == MOONCAKE_OK) {
        err = read_config(config, &options);
    }
    if (err != MOONCAKE_OK) {
        return err;
    }
    return put_result(mooncake_put(client_of(handle), key, value, size, &options, 0));
}

int mooncake_store_put_from(mooncake_store_t handle, const char *key, void *buffer, size_t size,
                            const mooncake_replicate_config_t *config)
{
    return mooncake_store_put(handle, key, buffer, size, config);
}

/* Arrays of one batch, in the types of client.h. */
struct batch {
    uint64_t *lens;        /* count of them */
    mooncake_err *results; /* count of them */
};

static int make_batch(const size_t *sizes, size_t count, struct batch *out)
{
    struct batch batch = {.lens = mc_calloc(count, sizeof(*batch.lens)),
                          .results = mc_calloc(count, sizeof(*batch.results))};

    if (batch.lens == NULL || batch.results == NULL) {
        mc_free(batch.lens);
        mc_free(batch.results);
        return MOONCAKE_ENOMEM;
    }
    for (size_t i = 0; sizes != NULL && i < count; i++) {
        batch.lens[i] = sizes[i];
    }
    *out = batch;
    return MOONCAKE_OK;
}

static void free_batch(struct batch *batch)
{
    mc_free(batch->lens);
    mc_free(batch->results);
}

static int need_arrays(mooncake_store_t handle, bool given, size_t count)
{
    int err = need_client(handle);

    if (err == MOONCAKE_OK && count > 0 && !given) {
        err = mc_err_set(MOONCAKE_EINVAL, "keys, buffers, sizes or results_out: is NULL");
    }
    return err;
}

int mooncake_store_batch_put_from(mooncake_store_t handle, const char **keys, void **buffers,
                                  const size_t *sizes, size_t count,
                                  const mooncake_replicate_config_t *config, int *results_out)
{
    mooncake_put_options options;
    struct batch batch;
    int err = need_arrays(handle, keys && buffers && sizes && results_out, count);

    if (err == MOONCAKE_OK) {
        err = read_config(config, &options);
    }
    if (err == MOONCAKE_OK) {
        err = make_batch(sizes, count, &batch);
    }
    if (err != MOONCAKE_OK) {
        return err;
    }
    err = mooncake_batch_put(client_of(handle), keys, (const void *const *)buffers, batch.lens,
                             count, &options, 0, batch.results);
    for (size_t i = 0; i < count; i++) {
        results_out[i] = put_result(batch.results[i]);
    }
    free_batch(&batch);
    return err;
}

/* ---- getting ----------------------------------------------------------------------------- */

int64_t mooncake_store_get_into(mooncake_store_t handle, const char *key, void *buffer, size_t size)
{
    uint64_t len = 0;
    int err = need_client(handle);

    if (err == MOONCAKE_OK) {
        err = mooncake_get_into(client_of(handle), key, buffer, size, 0, &len);
    }
    return err == MOONCAKE_OK ? (int64_t)len : err;
}

int mooncake_store_batch_get_into(mooncake_store_t handle, const char **keys, void **buffers,
                                  const size_t *sizes, size_t count, int64_t *results_out)
{
    struct batch batch, lens;
    int err = need_arrays(handle, keys && buffers && sizes && results_out, count);

    if (err == MOONCAKE_OK) {
        err = make_batch(sizes, count, &batch);
    }
    if (err != MOONCAKE_OK) {
        return err;
    }
    err = make_batch(NULL, count, &lens);
    if (err != MOONCAKE_OK) {
        free_batch(&batch);
        return err;
    }
    err = mooncake_batch_get_into(client_of(handle), keys, buffers, batch.lens, count, 0,
                                  batch.results, lens.lens);
    for (size_t i = 0; i < count; i++) {
        results_out[i] =
            batch.results[i] == MOONCAKE_OK ? (int64_t)lens.lens[i] : (int64_t)batch.results[i];
    }
    free_batch(&lens);
    free_batch(&batch);
    return err;
}

/* ---- asking and removing ----------------------------------------------------------------- */

/* 1, 0, or what went wrong. */
static int exist_result(mooncake_err err)
{
    if (err == MOONCAKE_OK) {
        return 1;
    }
    return err == MOONCAKE_ENOENT ? 0 : err;
}

int mooncake_store_is_exist(mooncake_store_t handle, const char *key)
{
    bool exists = false;
    int err = need_client(handle);

    if (err == MOONCAKE_OK) {
        err = mooncake_exist(client_of(handle), key, 0, &exists);
    }
    return err == MOONCAKE_OK ? (exists ? 1 : 0) : err;
}

int mooncake_store_batch_is_exist(mooncake_store_t handle, const char **keys, size_t count,
                                  int *results_out)
{
    struct batch batch;
    int err = need_arrays(handle, keys && results_out, count);

    if (err == MOONCAKE_OK) {
        err = make_batch(NULL, count, &batch);
    }
    if (err != MOONCAKE_OK) {
        return err;
    }
    err = mooncake_batch_exist(client_of(handle), keys, count, 0, batch.results);
    for (size_t i = 0; i < count; i++) {
        results_out[i] = exist_result(batch.results[i]);
    }
    free_batch(&batch);
    return err;
}

int64_t mooncake_store_get_size(mooncake_store_t handle, const char *key)
{
    uint64_t len = 0;
    int err = need_client(handle);

    if (err == MOONCAKE_OK) {
        err = mooncake_size(client_of(handle), key, 0, &len);
    }
    return err == MOONCAKE_OK ? (int64_t)len : err;
}

int mooncake_store_get_hostname(mooncake_store_t handle, char *buf_out, size_t buf_len)
{
    const char *hostname;
    size_t len;
    int err = need_client(handle);

    if (err != MOONCAKE_OK) {
        return err;
    }
    hostname = mooncake_client_hostname(client_of(handle));
    len = strlen(hostname);
    if (buf_out == NULL || buf_len <= len) {
        return mc_err_set(MOONCAKE_EINVAL, "buf_len: %zu; the name needs %zu", buf_len, len + 1);
    }
    memcpy(buf_out, hostname, len + 1);
    return (int)len;
}

int mooncake_store_remove(mooncake_store_t handle, const char *key, int force)
{
    int err = need_client(handle);

    return err != MOONCAKE_OK ? err : (int)mooncake_remove(client_of(handle), key, force != 0, 0);
}

int64_t mooncake_store_remove_by_regex(mooncake_store_t handle, const char *pattern, int force)
{
    int err = need_client(handle);

    uint64_t removed = 0;

    if (err == MOONCAKE_OK) {
        err = (int)mooncake_remove_matching(client_of(handle), pattern, force != 0, 0, &removed,
                                            NULL);
    }
    return err != MOONCAKE_OK ? err : (int64_t)removed;
}

int64_t mooncake_store_remove_all(mooncake_store_t handle, int force)
{
    uint64_t removed = 0;
    int err = need_client(handle);

    if (err == MOONCAKE_OK) {
        err = mooncake_remove_all(client_of(handle), force != 0, 0, &removed, NULL);
    }
    return err == MOONCAKE_OK ? (int64_t)removed : err;
}

int mooncake_store_register_buffer(mooncake_store_t handle, void *buffer, size_t size)
{
    int err = need_client(handle);

    return err != MOONCAKE_OK ? err
                              : (int)mooncake_register_buffer(client_of(handle), buffer, size);
}

int mooncake_store_unregister_buffer(mooncake_store_t handle, void *buffer)
{
    int err = need_client(handle);

    return err != MOONCAKE_OK ? err : (int)mooncake_unregister_buffer(client_of(handle), buffer);
}
