/* See the header. */
#include "rdma/scene.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char *const devices_a[NICS] = {"rxea0", "rxea0,rxea1"};
static const char *const devices_b[NICS] = {"rxeb0", "rxeb0,rxeb1"};

void scene_start_store(struct scene *scene, unsigned index)
{
    char segment[60], devices[80];
    const char *flags[] = {segment,     devices,     "--grace=0", "--advertise_host=127.0.0.1",
                           "--shm=off", "--rdma=on", NULL};

    (void)snprintf(segment, sizeof(segment), "--segment=%s", scene->size);
    (void)snprintf(devices, sizeof(devices), "--rdma_devices=%s", devices_b[scene->nics - 1]);
    pool_launch_store(&scene->pool, index, flags);
    daemon_await(&scene->pool.stores[index], "data_port");
}

void scene_open(struct scene *scene, unsigned nics, unsigned stores, const char *size)
{
    assert_in_range(nics, 1, NICS);
    *scene = (struct scene){.nics = nics, .stores = stores, .size = size};
    pool_init(&scene->pool);
    pool_start_master(&scene->pool, 0);
    for (unsigned i = 0; i < stores; i++) {
        scene_start_store(scene, i);
    }
}

void scene_close(struct scene *scene)
{
    cables_restore();
    pool_fini(&scene->pool);
}

void scene_client_options(const struct scene *scene, const char *transport,
                          mooncake_client_options *out)
{
    mooncake_client_options_init(out);
    out->master = scene->pool.master_address;
    out->transport = transport;
    out->rdma_devices = devices_a[scene->nics - 1];
    out->connect_timeout_ms *= patience();
    out->timeout_ms *= patience();
}

mooncake_client *scene_client(struct scene *scene, const char *transport, uint32_t timeout_ms)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;
    mooncake_err err;

    scene_client_options(scene, transport, &options);
    if (timeout_ms != 0) {
        options.timeout_ms = timeout_ms;
    }
    err = mooncake_client_open(&options, &client);
    if (err != MOONCAKE_OK) {
        fail_msg("open: %s: %s", mooncake_err_name(err), mooncake_last_error());
    }
    return client;
}

static uint8_t *memory(size_t len)
{
    uint8_t *bytes = malloc(len + 1);

    assert_non_null(bytes);
    return bytes;
}

void put_filled(mooncake_client *client, const char *key, size_t len, uint64_t seed)
{
    uint8_t *bytes = memory(len);
    mooncake_put_options options;
    mooncake_err err;

    mooncake_put_options_init(&options);
    options.upsert = true;
    fill(bytes, len, seed);
    err = mooncake_put(client, key, bytes, len, &options, 0);
    free(bytes);
    if (err != MOONCAKE_OK) {
        fail_msg("put %s: %s: %s", key, mooncake_err_name(err), mooncake_last_error());
    }
}

mooncake_err try_get_filled(mooncake_client *client, const char *key, size_t len, uint64_t seed)
{
    uint8_t *bytes = memory(len);
    uint64_t got = 0;
    bool right = true;
    mooncake_err err;

    memset(bytes, 0xee, len + 1);
    err = mooncake_get_into(client, key, bytes, len, 0, &got);
    if (err == MOONCAKE_OK) {
        right = got == len && is_filled(bytes, len, seed) && bytes[len] == 0xee;
    }
    free(bytes);
    if (!right) {
        fail_msg("get %s: OK, and wrong bytes", key);
    }
    return err;
}

void get_filled(mooncake_client *client, const char *key, size_t len, uint64_t seed)
{
    mooncake_err err = try_get_filled(client, key, len, seed);

    if (err != MOONCAKE_OK) {
        fail_msg("get %s: %s: %s", key, mooncake_err_name(err), mooncake_last_error());
    }
}

/* ---- readers --------------------------------------------------------------------------------- */

#define READER_MS (15000u * patience())

static mooncake_err read_for_ever(mooncake_client *client, const char *key, size_t len,
                                  uint64_t seed)
{
    uint8_t *bytes = malloc(len);
    mooncake_err err = MOONCAKE_OK;
    bool told = false;

    while (bytes != NULL && err == MOONCAKE_OK) {
        uint64_t got = 0;

        err = mooncake_get_into(client, key, bytes, len, READER_MS, &got);
        if (err == MOONCAKE_OK && (got != len || !is_filled(bytes, len, seed))) {
            exit(2);
        }
        if (err == MOONCAKE_OK && !told) {
            told = write(STDOUT_FILENO, "r", 1) == 1;
        }
    }
    free(bytes);
    return err;
}

void reader_main(int argc, char **argv)
{
    mooncake_client_options options;
    mooncake_client *client = NULL;
    mooncake_err err;

    if (argc != 7 || strcmp(argv[1], "reader") != 0) {
        return;
    }
    mooncake_client_options_init(&options);
    options.master = argv[2];
    options.transport = "rdma";
    options.rdma_devices = argv[3];
    options.connect_timeout_ms *= patience();
    err = mooncake_client_open(&options, &client);
    if (err == MOONCAKE_OK) {
        err = read_for_ever(client, argv[4], strtoull(argv[5], NULL, 10),
                            strtoull(argv[6], NULL, 10));
    }
    mooncake_client_close(client);
    exit(err == MOONCAKE_ENOENT || err == MOONCAKE_ETRANSFER ? 0 : 1);
}

pid_t reader_start(const struct scene *scene, const char *key, size_t len, uint64_t seed)
{
    char len_text[24], seed_text[24], byte;
    int out[2];
    pid_t pid;

    (void)snprintf(len_text, sizeof(len_text), "%zu", len);
    (void)snprintf(seed_text, sizeof(seed_text), "%" PRIu64, seed);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execl("/proc/self/exe", "reader", "reader", scene->pool.master_address,
                    devices_a[scene->nics - 1], key, len_text, seed_text, (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    assert_int_equal(read(out[0], &byte, 1), 1); /* else it has ended without a read */
    (void)close(out[0]);
    return pid;
}

/* ---- what the kernel counts ------------------------------------------------------------------ */

uint64_t cable_bytes(unsigned nic)
{
    return sent_bytes(nic_a[nic]) + sent_bytes(nic_b[nic]);
}

static unsigned count_entries(const char *path)
{
    DIR *dir = opendir(path);
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    (void)closedir(dir);
    return count - 2;
}

/* Voluntary switches of one thread. */
static uint64_t switches_of(const char *path)
{
    FILE *file = fopen(path, "re");
    uint64_t switches = 0;
    char line[160];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0) {
            switches = strtoull(line + 24, NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return switches;
}

struct process_costs process_costs(pid_t pid)
{
    struct process_costs costs = {0};
    char path[300], line[600] = "";
    struct dirent *entry;
    const char *fields;
    FILE *file;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    (void)fclose(file);
    fields = strrchr(line, ')'); /* the name may hold anything */
    assert_non_null(fields);
    assert_int_equal(sscanf(fields + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64,
                            &costs.user_ticks),
                     1);
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    costs.descriptors = count_entries(path);
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.20s/status", (int)pid, entry->d_name);
        costs.voluntary_switches += switches_of(path);
    }
    (void)closedir(dir);
    return costs;
}
