/*
 * Mounts in a fixed array of slots. Borrowing takes no lock: a slot's user count carries a CLOSED
 * bit, and a user counts itself in only while that bit is clear. Adding, dropping and watching take
 * the one mutex.
 */
#include "transport/mount_table.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/limits.h"
#include "transport/touched.h"

/* Several stores may live in one process (tests, an engine with an embedded segment), and the pools
 * of thin clients are mounts too. */
#define SLOTS (4u * MC_SEGMENTS_PER_STORE_MAX + MC_CLIENT_POOLS_MAX)
#define CLOSED (1ull << 63)

struct slot {
    struct mc_mount mount; /* first: a borrowed mount is its slot */
    _Atomic uint64_t id;   /* mount.mount_id, for looking without counting in */
    _Atomic uint64_t users;
    struct mc_touched *touched; /* owned while filled; NULL: none */
};

static struct slot slots[SLOTS];
static _Atomic unsigned slots_used; /* slots at and beyond this were never filled */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t users_changed = PTHREAD_COND_INITIALIZER;
static struct mc_list watchers = {&watchers, &watchers};
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static const struct slot *slot_of(const struct mc_mount *mount)
{
    return (const struct slot *)(const void *)mount;
}

/* Count the caller in, unless the slot is closed. */
static bool enter(struct slot *slot)
{
    uint64_t users = atomic_load_explicit(&slot->users, memory_order_relaxed);

    do {
        if ((users & CLOSED) != 0) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&slot->users, &users, users + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    return true;
}

static void leave(struct slot *slot)
{
    uint64_t before = atomic_fetch_sub_explicit(&slot->users, 1, memory_order_acq_rel);

    MC_ASSERT((before & ~CLOSED) > 0);
    if (before == (CLOSED | 1)) {
        (void)pthread_mutex_lock(&mutex);
        (void)pthread_cond_broadcast(&users_changed);
        (void)pthread_mutex_unlock(&mutex);
    }
}

static struct slot *find(uint64_t mount_id)
{
    unsigned used = atomic_load_explicit(&slots_used, memory_order_acquire);

    for (unsigned i = 0; i < used; i++) {
        if (atomic_load_explicit(&slots[i].id, memory_order_relaxed) == mount_id) {
            return &slots[i];
        }
    }
    return NULL;
}

/* A slot that holds nothing; with the mutex held. */
static struct slot *find_empty(void)
{
    unsigned used = atomic_load_explicit(&slots_used, memory_order_relaxed);
    struct slot *slot = find(0);

    if (slot == NULL && used < SLOTS) {
        slot = &slots[used];
        atomic_store_explicit(&slot->users, CLOSED, memory_order_relaxed);
        atomic_store_explicit(&slots_used, used + 1, memory_order_release);
    }
    return slot;
}

/* In a fork's child the segments are not mapped, and their addresses will hold other memory; users
 * and watchers were threads of the parent, which may have held the mutex. */
static void forget_all(void)
{
    static const pthread_mutex_t fresh_mutex = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t fresh_cond = PTHREAD_COND_INITIALIZER;
    unsigned used = atomic_load_explicit(&slots_used, memory_order_relaxed);

    mutex = fresh_mutex;
    users_changed = fresh_cond;
    watchers = (struct mc_list){&watchers, &watchers};
    for (unsigned i = 0; i < used; i++) {
        atomic_store_explicit(&slots[i].users, CLOSED, memory_order_relaxed);
        atomic_store_explicit(&slots[i].id, 0, memory_order_relaxed);
    }
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forget_all);
}

mooncake_err mc_mount_add(const struct mc_mount *mount)
{
    mooncake_err err = MOONCAKE_OK;
    struct slot *slot = NULL;

    MC_ASSERT(mount->mount_id != 0);
    MC_ASSERT(mount->base != NULL && mount->len > 0);
    (void)pthread_once(&fork_once, watch_forks);
    (void)pthread_mutex_lock(&mutex);
    if (find(mount->mount_id) != NULL) {
        err = MOONCAKE_ESEGMENTEXISTS;
    } else if ((slot = find_empty()) == NULL) {
        err = mc_err_set(MOONCAKE_ENOMEM,
                         "this process serves %u segments already and cannot serve more; use "
                         "fewer and larger segments",
                         SLOTS);
    } else {
        slot->mount = *mount;
        slot->touched = mc_touched_create(mount->base, mount->len);
        atomic_store_explicit(&slot->id, mount->mount_id, memory_order_relaxed);
        atomic_store_explicit(&slot->users, 0, memory_order_release);
    }
    (void)pthread_mutex_unlock(&mutex);
    return err;
}

void mc_mount_drop(uint64_t mount_id)
{
    struct slot *slot;

    MC_ASSERT(mount_id != 0);
    (void)pthread_mutex_lock(&mutex);
    slot = find(mount_id);
    if (slot != NULL &&
        (atomic_fetch_or_explicit(&slot->users, CLOSED, memory_order_acq_rel) & CLOSED) == 0) {
        mc_list_for_each (node, &watchers) {
            struct mc_mount_watcher *w = MC_CONTAINER_OF(node, struct mc_mount_watcher, node);

            w->on_drop(w);
        }
        while (atomic_load_explicit(&slot->users, memory_order_acquire) != CLOSED) {
            (void)pthread_cond_wait(&users_changed, &mutex);
        }
        mc_touched_destroy(&slot->touched);
        atomic_store_explicit(&slot->id, 0, memory_order_relaxed);
        (void)pthread_cond_broadcast(&users_changed);
    }
    while (slot != NULL && atomic_load_explicit(&slot->id, memory_order_relaxed) == mount_id) {
        (void)pthread_cond_wait(&users_changed, &mutex); /* another thread drops it */
    }
    (void)pthread_mutex_unlock(&mutex);
}

const struct mc_mount *mc_mount_borrow(uint64_t mount_id)
{
    struct slot *slot = mount_id == 0 ? NULL : find(mount_id);

    if (slot == NULL || !enter(slot)) {
        return NULL;
    }
    if (slot->mount.mount_id != mount_id) { /* dropped and filled anew while we looked */
        leave(slot);
        return NULL;
    }
    return &slot->mount;
}

void mc_mount_return(const struct mc_mount *mount)
{
    ptrdiff_t index = slot_of(mount) - slots;

    MC_ASSERT(index >= 0 && index < (ptrdiff_t)SLOTS);
    leave(&slots[index]);
}

bool mc_mount_is_held(uint64_t mount_id)
{
    struct slot *slot = mount_id == 0 ? NULL : find(mount_id);

    return slot != NULL && (atomic_load_explicit(&slot->users, memory_order_relaxed) & ~CLOSED) > 0;
}

bool mc_mount_is_dropped(const struct mc_mount *mount)
{
    return (atomic_load_explicit(&slot_of(mount)->users, memory_order_relaxed) & CLOSED) != 0;
}

void mc_mount_watch(struct mc_mount_watcher *watcher)
{
    MC_ASSERT(watcher->on_drop != NULL);
    (void)pthread_mutex_lock(&mutex);
    mc_list_add_tail(&watchers, &watcher->node);
    (void)pthread_mutex_unlock(&mutex);
}

void mc_mount_unwatch(struct mc_mount_watcher *watcher)
{
    (void)pthread_mutex_lock(&mutex);
    mc_list_drop(&watcher->node);
    (void)pthread_mutex_unlock(&mutex);
}

mooncake_err mc_mount_check(const struct mc_mount *mount, const struct mc_extent_ref *extent,
                            enum mc_rights right)
{
    if (extent->mount_id != mount->mount_id || (extent->rights & (uint32_t)right) == 0 ||
        extent->capability != mc_capability(mount->secret, extent)) {
        return MOONCAKE_ENOTOWNER;
    }
    if (extent->offset > mount->len || MC_EXTENT_HEADER_LEN > mount->len - extent->offset ||
        extent->payload_len > mount->len - extent->offset - MC_EXTENT_HEADER_LEN) {
        return MOONCAKE_EINVAL;
    }
    return MOONCAKE_OK;
}

void mc_mount_touch(const struct mc_mount *mount, uint64_t offset, uint64_t len)
{
    mc_touched_range(slot_of(mount)->touched, offset, len);
}
