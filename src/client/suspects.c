/* A small table of mounts that failed lately; the oldest gives way. */
#include "client/suspects.h"

#include "base/clock.h"

void mc_suspects_init(struct mc_suspects *suspects)
{
    *suspects = (struct mc_suspects){0};
    (void)pthread_mutex_init(&suspects->lock, NULL);
}

void mc_suspects_fini(struct mc_suspects *suspects)
{
    (void)pthread_mutex_destroy(&suspects->lock);
}

/* This mount's entry, or the one that gives way to it. */
static struct mc_suspect *find_slot(struct mc_suspects *suspects, uint64_t mount_id)
{
    struct mc_suspect *oldest = &suspects->items[0];

    for (unsigned i = 0; i < MC_SUSPECTS_MAX; i++) {
        struct mc_suspect *item = &suspects->items[i];

        if (item->mount_id == mount_id) {
            return item;
        }
        if (item->until_ns < oldest->until_ns) {
            oldest = item;
        }
    }
    *oldest = (struct mc_suspect){.mount_id = mount_id};
    return oldest;
}

bool mc_suspects_add(struct mc_suspects *suspects, uint64_t mount_id, uint64_t now_ns)
{
    struct mc_suspect *item;
    bool report;

    (void)pthread_mutex_lock(&suspects->lock);
    item = find_slot(suspects, mount_id);
    item->until_ns = mc_deadline_ns(now_ns, MC_SUSPECT_MS);
    item->failures++;
    report =
        item->reported_ns == 0 || now_ns >= mc_deadline_ns(item->reported_ns, MC_SUSPECT_REPORT_MS);
    if (report) {
        item->reported_ns = now_ns;
    }
    if (item->until_ns > atomic_load_explicit(&suspects->any_until_ns, memory_order_relaxed)) {
        atomic_store_explicit(&suspects->any_until_ns, item->until_ns, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&suspects->lock);
    return report;
}

uint64_t mc_suspects_take_failures(struct mc_suspects *suspects, uint64_t mount_id)
{
    uint64_t failures = 0;

    (void)pthread_mutex_lock(&suspects->lock);
    for (unsigned i = 0; i < MC_SUSPECTS_MAX; i++) {
        if (suspects->items[i].mount_id == mount_id) {
            failures = suspects->items[i].failures;
            suspects->items[i].failures = 0;
            break;
        }
    }
    (void)pthread_mutex_unlock(&suspects->lock);
    return failures;
}

bool mc_suspects_has(struct mc_suspects *suspects, uint64_t mount_id, uint64_t now_ns)
{
    bool found = false;

    /* The healthy case costs one load. A suspicion missed by a race costs one slow read. */
    if (now_ns >= atomic_load_explicit(&suspects->any_until_ns, memory_order_relaxed)) {
        return false;
    }
    (void)pthread_mutex_lock(&suspects->lock);
    for (unsigned i = 0; i < MC_SUSPECTS_MAX && !found; i++) {
        found = suspects->items[i].mount_id == mount_id && now_ns < suspects->items[i].until_ns;
    }
    (void)pthread_mutex_unlock(&suspects->lock);
    return found;
}
