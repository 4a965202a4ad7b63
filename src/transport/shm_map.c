/*
 * The table of mappings. A process maps a handful of segments, so a list under one mutex does; it
 * is taken once per group of transfers, not per byte.
 */
#include "transport/shm_map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/mount_table.h"

struct entry {
    struct mc_shm_map map;
    struct mc_list node; /* in `entries` until dropped */
    int socket;          /* owned; -1: this process serves the mount itself */
    unsigned holders;    /* plus one while in the table */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards entries and holders */
static struct mc_list entries = {.prev = &entries, .next = &entries};

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* In a fork's child nothing is mapped, and the addresses will hold other memory. The entries are
 * left where they lie: the list may be half changed. */
static void forget_all(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    lock = fresh;
    entries = (struct mc_list){.prev = &entries, .next = &entries};
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forget_all);
}

static struct entry *entry_of(struct mc_shm_map *map)
{
    return MC_CONTAINER_OF(map, struct entry, map);
}

static struct entry *find_locked(uint64_t mount_id)
{
    mc_list_for_each (node, &entries) {
        struct entry *entry = MC_CONTAINER_OF(node, struct entry, node);

        if (entry->map.mount_id == mount_id) {
            return entry;
        }
    }
    return NULL;
}

/* After the last holder, outside the lock: unmapping many gigabytes takes its time. */
static void destroy(struct entry *entry)
{
    MC_ASSERT(munmap(entry->map.base, entry->map.len) == 0);
    mc_touched_destroy(&entry->map.touched);
    if (entry->socket >= 0) {
        (void)close(entry->socket);
    }
    mc_free(entry);
}

static void let_go(struct entry *entry)
{
    bool last;

    (void)pthread_mutex_lock(&lock);
    MC_ASSERT(entry->holders > 0);
    last = --entry->holders == 0;
    (void)pthread_mutex_unlock(&lock);
    if (last) {
        destroy(entry);
    }
}

struct mc_shm_map *mc_shm_map_borrow(uint64_t mount_id)
{
    struct entry *entry;

    (void)pthread_mutex_lock(&lock);
    entry = find_locked(mount_id);
    if (entry != NULL) {
        entry->holders++;
    }
    (void)pthread_mutex_unlock(&lock);
    return entry == NULL ? NULL : &entry->map;
}

void mc_shm_map_return(struct mc_shm_map *map)
{
    let_go(entry_of(map));
}

void mc_shm_map_hold(struct mc_shm_map *map)
{
    struct entry *entry = entry_of(map);

    (void)pthread_mutex_lock(&lock);
    MC_ASSERT(entry->holders > 0);
    entry->holders++;
    (void)pthread_mutex_unlock(&lock);
}

/* The memory must be as long as announced and unable to shrink: else a read could be a SIGBUS. */
static mooncake_err check_memfd(int memfd, uint64_t len)
{
    struct stat st;
    int seals = fcntl(memfd, F_GET_SEALS);

    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
        return mc_err_set(MOONCAKE_EINVAL, "shm: the store's segment is not sealed against "
                                           "shrinking; it is not mapped");
    }
    if (fstat(memfd, &st) != 0 || st.st_size < 0 || len == 0 || (uint64_t)st.st_size < len) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "shm: the store's segment is shorter than the %llu bytes it announced",
                          (unsigned long long)len);
    }
    return MOONCAKE_OK;
}

static mooncake_err make_entry(uint64_t mount_id, int memfd, uint64_t len, struct entry **out)
{
    struct entry *entry;
    void *base;

    MC_TRY(check_memfd(memfd, len));
    entry = mc_calloc(1, sizeof(*entry));
    if (entry == NULL) {
        return MOONCAKE_ENOMEM;
    }
    base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memfd, 0);
    if (base == MAP_FAILED) {
        mc_free(entry);
        return mc_err_set(MOONCAKE_ENOMEM, "shm: cannot map a segment of %llu bytes: %s",
                          (unsigned long long)len, strerror(errno));
    }
    (void)madvise(base, len, MADV_DONTFORK);
    (void)madvise(base, len, MADV_DONTDUMP);
    entry->map.mount_id = mount_id;
    entry->map.base = base;
    entry->map.len = len;
    entry->map.touched = mc_touched_create(base, len);
    entry->socket = -1;
    mc_list_init(&entry->node);
    *out = entry;
    return MOONCAKE_OK;
}

/* Into the table, unless another was faster: then that one. Held. */
static struct mc_shm_map *enter(struct entry *fresh)
{
    struct entry *entry;

    (void)pthread_once(&fork_once, watch_forks);
    (void)pthread_mutex_lock(&lock);
    entry = find_locked(fresh->map.mount_id);
    if (entry == NULL) {
        entry = fresh;
        mc_list_add_tail(&entries, &entry->node);
        entry->holders = 1;
    }
    entry->holders++;
    (void)pthread_mutex_unlock(&lock);
    if (entry != fresh) {
        destroy(fresh);
    }
    return &entry->map;
}

mooncake_err mc_shm_map_add(uint64_t mount_id, int memfd, uint64_t len, int socket,
                            struct mc_shm_map **out)
{
    struct entry *fresh = NULL;
    mooncake_err err = make_entry(mount_id, memfd, len, &fresh);

    (void)close(memfd);
    if (err != MOONCAKE_OK) {
        (void)close(socket);
        return err;
    }
    fresh->socket = socket;
    *out = enter(fresh);
    return MOONCAKE_OK;
}

mooncake_err mc_shm_map_own(uint64_t mount_id, int memfd, uint64_t len, struct mc_shm_map **out)
{
    struct entry *fresh = NULL;

    MC_TRY(make_entry(mount_id, memfd, len, &fresh));
    *out = enter(fresh);
    return MOONCAKE_OK;
}

static bool is_alive(const struct entry *entry)
{
    char byte;
    ssize_t n;

    if (entry->socket < 0) {
        const struct mc_mount *mount = mc_mount_borrow(entry->map.mount_id);

        if (mount != NULL) {
            mc_mount_return(mount);
        }
        return mount != NULL;
    }
    n = recv(entry->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

bool mc_shm_map_is_alive(const struct mc_shm_map *map)
{
    return is_alive((const struct entry *)(const void *)map);
}

void mc_shm_map_drop(struct mc_shm_map *map)
{
    struct entry *entry = entry_of(map);
    bool was_in;

    (void)pthread_mutex_lock(&lock);
    was_in = mc_list_linked(&entry->node);
    mc_list_drop(&entry->node);
    (void)pthread_mutex_unlock(&lock);
    if (was_in) {
        mc_log_info("shm.unmapped", "mount=%016llx bytes=%llu",
                    (unsigned long long)entry->map.mount_id, (unsigned long long)entry->map.len);
        let_go(entry);
    }
}

/* The first entry (of those whose store has gone, if @p dead_only), held; NULL if there is none. */
static struct entry *hold_first(bool dead_only)
{
    struct entry *found = NULL;

    (void)pthread_mutex_lock(&lock);
    mc_list_for_each (node, &entries) {
        struct entry *entry = MC_CONTAINER_OF(node, struct entry, node);

        if (!dead_only || !is_alive(entry)) {
            entry->holders++;
            found = entry;
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return found;
}

static void drop_entries(bool dead_only)
{
    struct entry *entry;

    while ((entry = hold_first(dead_only)) != NULL) {
        mc_shm_map_drop(&entry->map);
        let_go(entry);
    }
}

void mc_shm_map_sweep(void)
{
    drop_entries(true);
}

void mc_shm_map_drop_all(void)
{
    drop_entries(false);
}

void mc_shm_map_totals(uint64_t *out_count, uint64_t *out_bytes)
{
    *out_count = 0;
    *out_bytes = 0;
    (void)pthread_mutex_lock(&lock);
    mc_list_for_each (node, &entries) {
        *out_count += 1;
        *out_bytes += MC_CONTAINER_OF(node, struct entry, node)->map.len;
    }
    (void)pthread_mutex_unlock(&lock);
}
