/* Opening and closing a client, its options, and what a fork does to it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cores.h"
#include "base/option.h"
#include "client/api.h"
#include "client/thin.h"
#include "client/view.h"
#include "transport/shm_map.h"

#define TIMEOUT_MS_MAX (24u * 3600u * 1000u)
#define ENGINES_MAX 1024u
#define POLL_US_MAX 1000000u
#define TCP_CONNECTIONS_MAX 64u
#define GRACE_MS_MAX (7u * 24u * 3600u * 1000u)
#define PROGRAM_LEN_MAX 100

/* ---- forks ------------------------------------------------------------------------------- */

static _Atomic uint64_t fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* Clients of this process that are open, or being opened or closed. */
static _Atomic uint64_t clients_count;

static void on_forked(void)
{
    (void)atomic_fetch_add_explicit(&fork_generation, 1, memory_order_relaxed);
    atomic_store(&clients_count, 0); /* those that there were are the parent's */
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, on_forked);
}

uint64_t mc_fork_generation(void)
{
    return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

/* ---- options ----------------------------------------------------------------------------- */

static uint32_t within(uint32_t value, uint32_t min, uint32_t max)
{
    return value < min ? min : value > max ? max : value;
}

void mooncake_client_options_init_sized(mooncake_client_options *options, size_t size)
{
    const mooncake_client_options defaults = {
        .struct_size = size,
        .timeout_ms = 30000,
        .connect_timeout_ms = 3000,
        .engines_max = 8,
        .verify = MOONCAKE_VERIFY_FULL,
        .poll_us = 50,
        .reuse_descriptors = true,
        /* Beyond one for each CPU they are in each other's way: four cost puts a tenth on two. */
        .tcp_connections = within(mc_cores_allowed(), 2, 4),
        /* The other CPUs have engines and models to run. A helper that must wait for its CPU keeps
         * its call waiting, so a machine of two or three has none to spare. */
        .copy_threads = within(mc_cores_allowed() / 4, 0, 4),
    };

    mc_api_init_options(options, size, &defaults, sizeof(defaults));
}

static mooncake_err check_range(const char *name, uint64_t value, uint64_t min, uint64_t max)
{
    if (value < min || value > max) {
        return mc_err_set(MOONCAKE_EINVAL, "%s: %llu; allowed are %llu to %llu", name,
                          (unsigned long long)value, (unsigned long long)min,
                          (unsigned long long)max);
    }
    return MOONCAKE_OK;
}

/* The caller's options over the defaults, as far as its version of the struct reaches. */
static mooncake_err read_options(const mooncake_client_options *given, mooncake_client_options *out)
{
    mooncake_client_options_init(out);
    if (given != NULL) {
        if (given->struct_size < offsetof(mooncake_client_options, timeout_ms)) {
            return mc_err_set(MOONCAKE_EINVAL,
                              "options: struct_size is %zu; call "
                              "mooncake_client_options_init() first",
                              given->struct_size);
        }
        memcpy(out, given, given->struct_size < sizeof(*out) ? given->struct_size : sizeof(*out));
    }
    if (out->master == NULL) {
        out->master = getenv("MOONCAKE_MASTER");
    }
    if (out->master == NULL || out->master[0] == '\0') {
        out->master = "127.0.0.1:50051";
    }
    if (out->rdma_devices == NULL) {
        out->rdma_devices = getenv("MOONCAKE_RDMA_DEVICES");
    }
    if (out->rdma_gid_index == NULL) {
        out->rdma_gid_index = getenv("MOONCAKE_RDMA_GID_INDEX");
    }
    if (out->data_address == NULL) {
        out->data_address = "0.0.0.0:0";
    }
    if (out->program == NULL) {
        out->program = program_invocation_short_name;
    }
    MC_TRY(check_range("timeout_ms", out->timeout_ms, 1, TIMEOUT_MS_MAX));
    MC_TRY(check_range("connect_timeout_ms", out->connect_timeout_ms, 1, TIMEOUT_MS_MAX));
    MC_TRY(check_range("engines_max", out->engines_max, 1, ENGINES_MAX));
    MC_TRY(check_range("poll_us", out->poll_us, 0, POLL_US_MAX));
    MC_TRY(check_range("tcp_connections", out->tcp_connections, 1, TCP_CONNECTIONS_MAX));
    MC_TRY(check_range("copy_threads", out->copy_threads, 0, MC_DIRECT_POOL_THREADS_MAX));
    MC_TRY(check_range("verify", (uint64_t)out->verify, 0, MOONCAKE_VERIFY_NONE));
    if (out->rdma_completion != NULL && strcmp(out->rdma_completion, "event") != 0 &&
        strcmp(out->rdma_completion, "poll") != 0) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "rdma_completion: \"%.40s\" is unknown; allowed are event and poll",
                          out->rdma_completion);
    }
    if (out->segment_size != 0) {
        MC_TRY(check_range("segment_size", out->segment_size, MC_SEGMENT_LEN_MIN, INT64_MAX));
    }
    if (out->pool_size != 0 && out->server == NULL) {
        return mc_err_set(MOONCAKE_EINVAL, "pool_size: a pool is shared with a serving process; "
                                           "name it with server");
    }
    if (out->tool && out->segment_size != 0) {
        return mc_err_set(MOONCAKE_EINVAL, "segment_size: a tool does not ping, so it cannot lend "
                                           "memory; set tool to false");
    }
    return MOONCAKE_OK;
}

static enum mc_verify verify_from(mooncake_verify verify)
{
    switch (verify) {
    case MOONCAKE_VERIFY_FULL:
        return MC_VERIFY_FULL;
    case MOONCAKE_VERIFY_HEADER:
        return MC_VERIFY_HEADER;
    case MOONCAKE_VERIFY_NONE:
        return MC_VERIFY_NONE;
    }
    return MC_VERIFY_FULL;
}

static mooncake_err copy_text(const char *text, size_t len_max, char **out)
{
    if (text == NULL) {
        return MOONCAKE_OK;
    }
    *out = mc_strndup(text, strnlen(text, len_max));
    return *out == NULL ? MOONCAKE_ENOMEM : MOONCAKE_OK;
}

static mooncake_err copy_master(const char *text, char **out)
{
    char address[MC_MASTER_ADDRESS_CAP];

    MC_TRY(mc_master_address(text, address));
    return copy_text(address, sizeof(address), out);
}

static mooncake_err copy_options(mooncake_client *client, const mooncake_client_options *options)
{
    client->segment_size = options->segment_size;
    client->timeout_ms = options->timeout_ms;
    client->connect_timeout_ms = options->connect_timeout_ms;
    client->poll_us = options->poll_us;
    client->verify = verify_from(options->verify);
    client->tool = options->tool;
    client->client_id = mc_random_u64();
    atomic_init(&client->next_nonce, mc_random_u64());
    MC_TRY(copy_master(options->master, &client->master));
    MC_TRY(copy_text(options->local_hostname, SIZE_MAX - 1, &client->local_hostname));
    MC_TRY(copy_text(options->data_address, SIZE_MAX - 1, &client->data_address));
    MC_TRY(copy_text(options->transport, SIZE_MAX - 1, &client->transport));
    MC_TRY(copy_text(options->shm_dir, SIZE_MAX - 1, &client->shm_dir));
    MC_TRY(copy_text(options->rdma_devices, SIZE_MAX - 1, &client->rdma_devices));
    MC_TRY(copy_text(options->rdma_gid_index, SIZE_MAX - 1, &client->rdma_gid_index));
    client->rdma_staging = options->rdma_staging;
    client->rdma_poll =
        options->rdma_completion != NULL && strcmp(options->rdma_completion, "poll") == 0;
    MC_TRY(mc_shm_policy_parse(options->shm == NULL ? "uid" : options->shm, &client->shm));
    return copy_text(options->program, PROGRAM_LEN_MAX, &client->program);
}

/* ---- open -------------------------------------------------------------------------------- */

/* What free_client() needs to find. */
static mooncake_err init_locks(mooncake_client *client, const mooncake_client_options *options)
{
    struct mc_engine_options engines = {.engines_max = options->engines_max};

    (void)pthread_mutex_init(&client->lock, NULL);
    (void)pthread_cond_init(&client->idle, NULL);
    mc_suspects_init(&client->suspects);
    mc_known_init(&client->known, options->reuse_descriptors);
    return mc_engine_pool_init(&client->engines, &engines);
}

static mooncake_err init_parts(mooncake_client *client, const mooncake_client_options *options)
{
    MC_TRY(copy_options(client, options));
    client->engines.options = (struct mc_engine_options){
        .master = client->master,
        .program = client->program,
        .transport = client->transport,
        .client_id = client->client_id,
        .connect_timeout_ms = client->connect_timeout_ms,
        .poll_us = client->poll_us,
        .tcp_connections = options->tcp_connections,
        .engines_max = options->engines_max,
    };
    MC_TRY(mc_memreg_create(&client->memreg));
    MC_TRY(mc_peers_create(&client->peers));
    if (options->copy_threads > 0) {
        MC_TRY(
            mc_direct_pool_create(options->copy_threads, MC_DIRECT_POOL_LEN_MIN, &client->copiers));
    }
    mc_client_transport_options(client, &client->engines.options.transports);
    return MOONCAKE_OK;
}

static void tell_counts(void *arg, struct mc_ping_counts *out)
{
    mooncake_client *client = arg;

    out->read_failovers =
        atomic_load_explicit(&client->counters.read_failovers, memory_order_relaxed);
    out->rdma_fallbacks = mc_peers_fallbacks(client->peers, "rdma");
    out->shm_fallbacks = mc_peers_fallbacks(client->peers, "shm");
    out->other_fallbacks = mc_peers_fallbacks(client->peers, NULL);
}

static mooncake_err open_session(mooncake_client *client, uint64_t deadline_ns)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct mc_store_options options = {
        .master = client->master,
        .program = client->program,
        .role = MC_ROLE_CLIENT,
        .client_id = client->client_id,
        .segment_lens = &client->segment_size,
        .segments_count = client->segment_size > 0 ? 1 : 0,
        .name = client->local_hostname,
        .data_address = client->data_address,
        .loops = cores > 1 ? 2 : 1, /* the process has better things to do than to serve */
        .shm = client->shm,
        .shm_dir = client->shm_dir,
        .rdma = mc_transport_allowed(client->transport, "rdma") ? MC_RDMA_AUTO : MC_RDMA_OFF,
        .rdma_devices = client->rdma_devices,
        .rdma_gid_index = client->rdma_gid_index,
        .poll_us = client->poll_us,
        .connect_timeout_ms = client->connect_timeout_ms,
        .counts = tell_counts,
        .counts_arg = client,
    };

    return mc_session_open(&options, deadline_ns, &client->session);
}

static void choose_hostname(mooncake_client *client)
{
    size_t cap = sizeof(client->hostname);

    if (client->session != NULL) {
        (void)snprintf(client->hostname, cap, "%s", mc_session_name(client->session));
    } else if (client->local_hostname != NULL) {
        (void)snprintf(client->hostname, cap, "%s", client->local_hostname);
    } else if (gethostname(client->hostname, cap) != 0) {
        (void)snprintf(client->hostname, cap, "localhost");
    }
    client->hostname[cap - 1] = '\0';
}

static mooncake_err ask_status(mooncake_client *client, uint64_t deadline_ns)
{
    struct mc_pool_status_request request = {0};
    struct mc_pool_status_reply reply;
    uint64_t left_ms = mc_left_ms(mc_monotonic_ns(), deadline_ns);
    struct mc_call call;
    mooncake_err err;

    MC_TRY(mc_call_begin(client, left_ms > 0 ? (uint32_t)left_ms : 1, &call));
    err = mc_ask_wait(&call, MC_METHOD_POOL_STATUS, &request, &reply);
    return mc_call_end(&call, "asking the master", err);
}

static void free_client(mooncake_client *client)
{
    mc_view_keeper_close(&client->view_keeper);
    mc_session_close(&client->session);
    mc_shm_map_sweep(); /* what was lent of the segment that is gone now is its viewers' alone */
    mc_engine_pool_fini(&client->engines);
    mc_direct_pool_destroy(&client->copiers);
    if (client->memreg != NULL) {
        mc_memreg_destroy(&client->memreg);
    }
    mc_peers_destroy(&client->peers);
    mc_thin_detach(client);
    mc_suspects_fini(&client->suspects);
    mc_known_fini(&client->known);
    (void)pthread_cond_destroy(&client->idle);
    (void)pthread_mutex_destroy(&client->lock);
    mc_free(client->master);
    mc_free(client->local_hostname);
    mc_free(client->data_address);
    mc_free(client->transport);
    mc_free(client->shm_dir);
    mc_free(client->rdma_devices);
    mc_free(client->rdma_gid_index);
    mc_free(client->program);
    mc_free(client);
    if (atomic_fetch_sub(&clients_count, 1) == 1) {
        mc_shm_map_drop_all(); /* what stores shared stays mapped for other clients, not for none */
    }
}

static mooncake_err join(mooncake_client *client, mooncake_client_options *options)
{
    uint64_t deadline_ns = mc_deadline_ns(mc_monotonic_ns(), options->timeout_ms);
    struct mc_arena arena;
    mooncake_err err = init_locks(client, options);

    mc_arena_init(&arena, 0);
    if (err == MOONCAKE_OK && options->server != NULL) {
        err = mc_thin_attach(client, options, deadline_ns, &arena);
    }
    if (err == MOONCAKE_OK) {
        err = init_parts(client, options);
    }
    mc_arena_fini(&arena);    /* the options were copied */
    if (err == MOONCAKE_OK) { /* first of all, because its errors are the clearest */
        err = ask_status(client, deadline_ns);
    }
    if (err == MOONCAKE_OK && !client->tool) {
        err = open_session(client, deadline_ns);
    }
    if (err == MOONCAKE_OK && client->pool != NULL) {
        err = mooncake_register_buffer(client, client->pool->base, client->pool->len);
    }
    return err;
}

mooncake_err mooncake_client_open(const mooncake_client_options *options,
                                  mooncake_client **out_client)
{
    mooncake_client_options effective;
    mooncake_client *client;
    mooncake_err err;
    char detail[400];

    mc_err_clear();
    if (out_client == NULL) {
        return mc_err_set(MOONCAKE_EINVAL, "out_client: is NULL");
    }
    MC_TRY(read_options(options, &effective));
    (void)pthread_once(&fork_once, watch_forks);
    client = mc_calloc(1, sizeof(*client));
    if (client == NULL) {
        return MOONCAKE_ENOMEM;
    }
    client->fork_generation = mc_fork_generation();
    (void)atomic_fetch_add(&clients_count, 1);
    err = join(client, &effective);
    if (err != MOONCAKE_OK) {
        (void)snprintf(detail, sizeof(detail), "%s", mooncake_last_error());
        free_client(client);
        return mc_err_set(err, "%s", detail);
    }
    choose_hostname(client);
    *out_client = client;
    return MOONCAKE_OK;
}

/* ---- close and small questions ----------------------------------------------------------- */

mooncake_err mooncake_client_leave(mooncake_client *client, uint64_t grace_ms)
{
    mooncake_err err;
    bool again;

    MC_TRY(check_range("grace_ms", grace_ms, 0, GRACE_MS_MAX));
    MC_TRY(mc_client_enter(client));
    (void)pthread_mutex_lock(&client->lock);
    again = client->leaving;
    client->leaving = client->segment_size > 0;
    (void)pthread_mutex_unlock(&client->lock);
    err = again || client->segment_size == 0
              ? mc_err_set(MOONCAKE_EINVAL,
                           again ? "leave: was asked for already" : "leave: no segment is lent")
              : mc_session_leave(client->session, grace_ms);
    mc_client_leave(client);
    return err;
}

void mooncake_client_close(mooncake_client *client)
{
    if (client == NULL) {
        return;
    }
    if (client->fork_generation != mc_fork_generation()) {
        /* The loops' descriptors and the threads are the parent's, and a lock may be held by a
         * thread that is not here: all of that is left alone. */
        mc_free(client->master);
        mc_free(client->local_hostname);
        mc_free(client->data_address);
        mc_free(client->transport);
        mc_free(client->shm_dir);
        mc_free(client->rdma_devices);
        mc_free(client->rdma_gid_index);
        mc_free(client->program);
        mc_free(client);
        return;
    }
    (void)pthread_mutex_lock(&client->lock);
    client->closing = true;
    while (client->calls > 0) {
        (void)pthread_cond_wait(&client->idle, &client->lock);
    }
    (void)pthread_mutex_unlock(&client->lock);
    free_client(client);
}

const char *mooncake_client_hostname(const mooncake_client *client)
{
    return client == NULL ? "" : client->hostname;
}

mooncake_err mooncake_client_check(mooncake_client *client, uint32_t timeout_ms)
{
    struct mc_pool_status_request request = {0};
    struct mc_pool_status_reply reply;
    struct mc_call call;
    mooncake_err err;

    MC_TRY(mc_call_begin(client, timeout_ms, &call));
    err = mc_ask_wait(&call, MC_METHOD_POOL_STATUS, &request, &reply);
    return mc_call_end(&call, "check", err);
}

void mooncake_free(void *data)
{
    mc_free(data);
}

const char *mooncake_version(void)
{
    return MC_VERSION;
}
