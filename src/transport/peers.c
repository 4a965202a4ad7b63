/* A hash table by name, and a list in order. */
#include "transport/peers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/extent.h"

#define BUCKETS 256u

struct entry {
    struct mc_list bucket_node, node;
    struct mc_peer_info info;
    bool fallback_logged;
};

/* Which transport gave way. */
#define FALLBACK_KINDS 3u
static const char *const fallback_kinds[FALLBACK_KINDS - 1] = {"rdma", "shm"};

struct mc_peers {
    pthread_mutex_t mutex;
    _Atomic uint64_t fallbacks[FALLBACK_KINDS]; /* the last is of all others */
    struct mc_list buckets[BUCKETS];
    struct mc_list all;
    size_t count;
};

mooncake_err mc_peers_create(struct mc_peers **out)
{
    struct mc_peers *peers = mc_calloc(1, sizeof(*peers));

    if (peers == NULL) {
        return MOONCAKE_ENOMEM;
    }
    if (pthread_mutex_init(&peers->mutex, NULL) != 0) {
        mc_free(peers);
        return MOONCAKE_ENOMEM;
    }
    mc_list_init(&peers->all);
    for (unsigned i = 0; i < BUCKETS; i++) {
        mc_list_init(&peers->buckets[i]);
    }
    *out = peers;
    return MOONCAKE_OK;
}

void mc_peers_destroy(struct mc_peers **peers_ptr)
{
    struct mc_peers *peers = *peers_ptr;

    if (peers == NULL) {
        return;
    }
    while (!mc_list_empty(&peers->all)) {
        struct entry *entry = mc_list_first(&peers->all, struct entry, node);

        mc_list_drop(&entry->node);
        mc_free(entry);
    }
    (void)pthread_mutex_destroy(&peers->mutex);
    mc_free(peers);
    *peers_ptr = NULL;
}

/* The entry of this name, made if need be, with the mutex held; NULL (and no mutex): no table, no
 * memory, or too many. */
static struct entry *lock_entry(struct mc_peers *peers, const char *name)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)name, .iov_len = strlen(name)};
    struct mc_list *bucket;
    struct entry *entry;

    if (peers == NULL) {
        return NULL;
    }
    bucket = &peers->buckets[mc_extent_hash_iov(&iov, 1) % BUCKETS];
    (void)pthread_mutex_lock(&peers->mutex);
    mc_list_for_each (node, bucket) {
        entry = MC_CONTAINER_OF(node, struct entry, bucket_node);
        if (strcmp(entry->info.name, name) == 0) {
            return entry;
        }
    }
    entry = peers->count < MC_PEERS_MAX ? mc_calloc(1, sizeof(*entry)) : NULL;
    if (entry == NULL) {
        (void)pthread_mutex_unlock(&peers->mutex);
        return NULL;
    }
    (void)snprintf(entry->info.name, sizeof(entry->info.name), "%s", name);
    entry->info.transport = "";
    entry->info.fallback_from = "";
    mc_list_add_head(bucket, &entry->bucket_node);
    mc_list_add_tail(&peers->all, &entry->node);
    peers->count++;
    return entry;
}

static void unlock(struct mc_peers *peers)
{
    (void)pthread_mutex_unlock(&peers->mutex);
}

void mc_peers_note_op(struct mc_peers *peers, const char *name, const char *kind,
                      enum mc_rights right, uint64_t len, mooncake_err err)
{
    struct entry *entry = lock_entry(peers, name);

    if (entry == NULL) {
        return;
    }
    entry->info.ops++;
    if (err != MOONCAKE_OK) {
        entry->info.failures++;
    } else {
        entry->info.transport = kind;
        if (right == MC_RIGHT_READ) {
            entry->info.bytes_read += len;
        } else {
            entry->info.bytes_written += len;
        }
        if (entry->fallback_logged && strcmp(entry->info.fallback_from, kind) == 0) {
            entry->fallback_logged = false; /* it works again: the next fallback is news */
        }
    }
    unlock(peers);
}

static unsigned fallback_kind(const char *from)
{
    unsigned kind = 0;

    while (kind + 1 < FALLBACK_KINDS && (from == NULL || strcmp(fallback_kinds[kind], from) != 0)) {
        kind++;
    }
    return kind;
}

uint64_t mc_peers_fallbacks(const struct mc_peers *peers, const char *from)
{
    return atomic_load_explicit(&peers->fallbacks[fallback_kind(from)], memory_order_relaxed);
}

void mc_peers_note_fallback(struct mc_peers *peers, const char *name, const char *from,
                            const char *to)
{
    struct entry *entry = lock_entry(peers, name);
    bool first;

    if (peers != NULL) {
        (void)atomic_fetch_add_explicit(&peers->fallbacks[fallback_kind(from)], 1,
                                        memory_order_relaxed);
    }
    if (entry == NULL) {
        return;
    }
    first = !entry->fallback_logged;
    entry->fallback_logged = true;
    entry->info.fallbacks++;
    entry->info.fallback_from = from;
    (void)snprintf(entry->info.fallback_reason, sizeof(entry->info.fallback_reason), "%s",
                   mooncake_last_error());
    unlock(peers);
    if (first) {
        mc_log_warn("transport.fallback", "segment=%s from=%s to=%s detail=\"%s\"", name, from, to,
                    mooncake_last_error());
    }
}

void mc_peers_note_path(struct mc_peers *peers, const char *name, const struct mc_peer_path *path)
{
    struct entry *entry = lock_entry(peers, name);
    struct mc_peer_info *info;
    unsigned i = 0;

    if (entry == NULL) {
        return;
    }
    info = &entry->info;
    while (i < info->paths_count && (strcmp(info->paths[i].device, path->device) != 0 ||
                                     strcmp(info->paths[i].gid, path->gid) != 0)) {
        i++;
    }
    if (i < MC_PEER_PATHS_MAX) {
        uint32_t mtu = path->mtu == 0 && i < info->paths_count ? info->paths[i].mtu : path->mtu;

        info->paths[i] = *path;
        info->paths[i].mtu = mtu; /* it has one only while it is connected */
        info->paths_count = i < info->paths_count ? info->paths_count : i + 1;
    }
    unlock(peers);
}

void mc_peers_note_connections(struct mc_peers *peers, const char *name, int change)
{
    struct entry *entry = lock_entry(peers, name);

    if (entry != NULL) {
        entry->info.queue_pairs += change;
        unlock(peers);
    }
}

void mc_peers_note_retry(struct mc_peers *peers, const char *name)
{
    struct entry *entry = lock_entry(peers, name);

    if (entry != NULL) {
        entry->info.retries++;
        unlock(peers);
    }
}

size_t mc_peers_list(struct mc_peers *peers, struct mc_peer_info *out, size_t cap)
{
    size_t count;
    size_t i = 0;

    (void)pthread_mutex_lock(&peers->mutex);
    count = peers->count;
    mc_list_for_each (node, &peers->all) {
        if (i == cap) {
            break;
        }
        out[i++] = MC_CONTAINER_OF(node, struct entry, node)->info;
    }
    unlock(peers);
    return count;
}
