/* Finding the RDMA libraries at run time. */
#include "transport/rdma_verbs.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define DEVICES_DIR "/sys/class/infiniband"

struct symbol {
    const char *name;
    size_t offset; /* of the function's pointer in struct mc_verbs */
};

#define SYMBOL(result, field, symbol, parameters) {symbol, offsetof(struct mc_verbs, field)},

static const struct symbol verbs_symbols[] = {MC_VERBS_LIBIBVERBS(SYMBOL)};
static const struct symbol cm_symbols[] = {MC_VERBS_LIBRDMACM(SYMBOL)};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct mc_verbs loaded; /* filled once, under the mutex */
static bool is_loaded;
static const struct mc_verbs *_Atomic replaced;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **out_bad)
{
    return ibv_post_send(qp, wr, out_bad);
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *out)
{
    return ibv_poll_cq(cq, count, out);
}

static int request_notify(struct ibv_cq *cq, int solicited_only)
{
    return ibv_req_notify_cq(cq, solicited_only);
}

static bool any_device(void)
{
    DIR *dir = opendir(DEVICES_DIR);
    bool found = false;

    if (dir == NULL) {
        return false;
    }
    for (const struct dirent *at = readdir(dir); at != NULL && !found; at = readdir(dir)) {
        found = at->d_name[0] != '.';
    }
    (void)closedir(dir);
    return found;
}

/* The libraries stay loaded: threads of theirs may outlive our use. */
static mooncake_err find_symbols(const char *library, const struct symbol *symbols, size_t count,
                                 struct mc_verbs *table)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    if (handle == NULL) {
        return mc_err_set(MOONCAKE_ENOTSUP,
                          "rdma: %s cannot be loaded (%s); install rdma-core's libraries "
                          "(libibverbs1, librdmacm1, ibverbs-providers)",
                          library, dlerror());
    }
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(handle, symbols[i].name);

        if (function == NULL) {
            (void)dlclose(handle);
            return mc_err_set(MOONCAKE_ENOTSUP,
                              "rdma: %s is too old: it has no %s; rdma-core 34 or newer is needed",
                              library, symbols[i].name);
        }
        memcpy((char *)table + symbols[i].offset, &function, sizeof(function));
    }
    return MOONCAKE_OK;
}

static mooncake_err load_once(void)
{
    struct mc_verbs table = {
        .post_send = post_send, .poll_cq = poll_cq, .request_notify = request_notify};
    int error;

    if (is_loaded) {
        return MOONCAKE_OK;
    }
    MC_TRY(find_symbols("libibverbs.so.1", verbs_symbols, MC_ARRAY_LEN(verbs_symbols), &table));
    MC_TRY(find_symbols("librdmacm.so.1", cm_symbols, MC_ARRAY_LEN(cm_symbols), &table));
    /* So that a fork of the application cannot take pinned pages away from us. Kernels since 5.12
     * see to it themselves, and the library knows. */
    error = table.init_fork();
    if (error != 0) {
        mc_log_warn("rdma.fork", "err=\"%s\"", strerror(error));
    }
    loaded = table;
    is_loaded = true;
    return MOONCAKE_OK;
}

mooncake_err mc_verbs_load(const struct mc_verbs **out)
{
    const struct mc_verbs *other = atomic_load(&replaced);
    mooncake_err err;

    if (other != NULL) {
        *out = other;
        return MOONCAKE_OK;
    }
    if (!any_device()) {
        return mc_err_set(MOONCAKE_ENOTSUP, "rdma: this machine has no RDMA device (%s is empty)",
                          DEVICES_DIR);
    }
    (void)pthread_mutex_lock(&mutex);
    err = load_once();
    (void)pthread_mutex_unlock(&mutex);
    if (err == MOONCAKE_OK) {
        *out = &loaded;
    }
    return err;
}

void mc_verbs_replace(const struct mc_verbs *table)
{
    atomic_store(&replaced, table);
}

mooncake_err mc_verbs_err(int error, const char *what)
{
    mooncake_err err = mc_err_from_errno(error);

    if (error == ENODEV || error == EADDRNOTAVAIL || error == EADDRINUSE || error == EINVAL) {
        err = MOONCAKE_ERPC;
    }
    return mc_err_set(err, "rdma: %s: %s", what, strerror(error));
}
