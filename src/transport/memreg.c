/*
 * An array of ranges sorted by base, then length. reach[i] is the greatest end of ranges 0 to i, so
 * that a look-up may stop walking back as soon as no earlier range can reach far enough.
 */
#include "transport/memreg.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

#define CAP_MIN 16u

struct entry {
    struct mc_memreg_range range; /* first: a borrowed range is its entry */
    uint64_t registrations;       /* of exactly this base and length */
    uint64_t newest;              /* serial number of the latest of them */
    uint64_t borrowed;
};

struct mc_memreg {
    pthread_mutex_t mutex;
    struct entry **entries; /* owned, sorted */
    uintptr_t *reach;       /* owned, parallel */
    size_t count, cap;
    uint64_t registrations, serial;
};

mooncake_err mc_memreg_create(struct mc_memreg **out)
{
    struct mc_memreg *reg = mc_calloc(1, sizeof(*reg));

    if (reg == NULL) {
        return MOONCAKE_ENOMEM;
    }
    if (pthread_mutex_init(&reg->mutex, NULL) != 0) {
        mc_free(reg);
        return MOONCAKE_ENOMEM;
    }
    *out = reg;
    return MOONCAKE_OK;
}

static void entry_destroy(struct entry *entry)
{
    for (unsigned i = 0; i < MC_TRANSPORT_KINDS_MAX; i++) {
        struct mc_memreg_key *key = &entry->range.keys[i];

        if (key->data != NULL) {
            key->release(key->data);
        }
    }
    mc_free(entry);
}

void mc_memreg_destroy(struct mc_memreg **reg)
{
    struct mc_memreg *r = *reg;

    if (r == NULL) {
        return;
    }
    for (size_t i = 0; i < r->count; i++) {
        MC_ASSERT(r->entries[i]->borrowed == 0);
        entry_destroy(r->entries[i]);
    }
    (void)pthread_mutex_destroy(&r->mutex);
    mc_free(r->entries);
    mc_free(r->reach);
    mc_free(r);
    *reg = NULL;
}

static uintptr_t end_of(const struct entry *entry)
{
    return entry->range.base + (uintptr_t)entry->range.len;
}

/* Index of the first entry that is not before (base, len). */
static size_t lower_bound(const struct mc_memreg *reg, uintptr_t base, uint64_t len)
{
    size_t low = 0;
    size_t high = reg->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct mc_memreg_range *range = &reg->entries[mid]->range;

        if (range->base < base || (range->base == base && range->len < len)) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static void refresh_reach(struct mc_memreg *reg, size_t from)
{
    for (size_t i = from; i < reg->count; i++) {
        uintptr_t end = end_of(reg->entries[i]);

        reg->reach[i] = i > 0 && reg->reach[i - 1] > end ? reg->reach[i - 1] : end;
    }
}

static mooncake_err grow(struct mc_memreg *reg)
{
    size_t cap = reg->cap == 0 ? CAP_MIN : reg->cap * 2;
    struct entry **entries;
    uintptr_t *reach;

    if (reg->count < reg->cap) {
        return MOONCAKE_OK;
    }
    entries = mc_realloc(reg->entries, cap * sizeof(*entries));
    if (entries == NULL) {
        return MOONCAKE_ENOMEM;
    }
    reg->entries = entries;
    reach = mc_realloc(reg->reach, cap * sizeof(*reach));
    if (reach == NULL) {
        return MOONCAKE_ENOMEM; /* the longer entries array does no harm */
    }
    reg->reach = reach;
    reg->cap = cap;
    return MOONCAKE_OK;
}

/* Put a new entry at its place, @p index. */
static mooncake_err insert(struct mc_memreg *reg, size_t index, uintptr_t base, uint64_t len)
{
    struct entry *entry;

    MC_TRY(grow(reg));
    entry = mc_calloc(1, sizeof(*entry));
    if (entry == NULL) {
        return MOONCAKE_ENOMEM;
    }
    entry->range.base = base;
    entry->range.len = len;
    memmove(&reg->entries[index + 1], &reg->entries[index],
            (reg->count - index) * sizeof(struct entry *));
    reg->entries[index] = entry;
    reg->count++;
    refresh_reach(reg, index);
    return MOONCAKE_OK;
}

static mooncake_err add_locked(struct mc_memreg *reg, uintptr_t base, uint64_t len)
{
    size_t index = lower_bound(reg, base, len);

    if (reg->registrations >= MC_MEMREG_RANGES_MAX) {
        return mc_err_set(MOONCAKE_ENOMEM,
                          "%u buffers are registered already; unregister those no longer used",
                          MC_MEMREG_RANGES_MAX);
    }
    if (index == reg->count || reg->entries[index]->range.base != base ||
        reg->entries[index]->range.len != len) {
        MC_TRY(insert(reg, index, base, len));
    }
    reg->entries[index]->registrations++;
    reg->entries[index]->newest = ++reg->serial;
    reg->registrations++;
    return MOONCAKE_OK;
}

mooncake_err mc_memreg_add(struct mc_memreg *reg, const void *base, uint64_t len)
{
    mooncake_err err;

    if (base == NULL || len == 0 || len > UINTPTR_MAX - (uintptr_t)base) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "buffer at %p of %llu bytes: it must have at least one byte and end "
                          "inside the address space",
                          base, (unsigned long long)len);
    }
    (void)pthread_mutex_lock(&reg->mutex);
    err = add_locked(reg, (uintptr_t)base, len);
    (void)pthread_mutex_unlock(&reg->mutex);
    return err;
}

/* Take entry @p index out of the array; it lives on while it is borrowed. */
static void take_out(struct mc_memreg *reg, size_t index)
{
    struct entry *entry = reg->entries[index];

    reg->count--;
    memmove(&reg->entries[index], &reg->entries[index + 1],
            (reg->count - index) * sizeof(struct entry *));
    refresh_reach(reg, index);
    if (entry->borrowed == 0) {
        entry_destroy(entry);
    }
}

mooncake_err mc_memreg_drop(struct mc_memreg *reg, const void *base)
{
    const uintptr_t at = (uintptr_t)base;
    size_t found = SIZE_MAX;

    (void)pthread_mutex_lock(&reg->mutex);
    for (size_t i = lower_bound(reg, at, 0); i < reg->count && reg->entries[i]->range.base == at;
         i++) {
        if (found == SIZE_MAX || reg->entries[i]->newest > reg->entries[found]->newest) {
            found = i;
        }
    }
    if (found != SIZE_MAX) {
        reg->registrations--;
        if (--reg->entries[found]->registrations == 0) {
            take_out(reg, found);
        }
    }
    (void)pthread_mutex_unlock(&reg->mutex);
    if (found == SIZE_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "no buffer is registered at %p", base);
    }
    return MOONCAKE_OK;
}

struct mc_memreg_range *mc_memreg_borrow(struct mc_memreg *reg, const void *base, uint64_t len)
{
    const uintptr_t at = (uintptr_t)base;
    struct mc_memreg_range *range = NULL;
    size_t i;

    if (len > UINTPTR_MAX - at) {
        return NULL;
    }
    (void)pthread_mutex_lock(&reg->mutex);
    i = lower_bound(reg, at, UINT64_MAX);
    while (range == NULL && i > 0 && reg->reach[i - 1] >= at + len) {
        i--;
        if (end_of(reg->entries[i]) >= at + len) {
            reg->entries[i]->borrowed++;
            range = &reg->entries[i]->range;
        }
    }
    (void)pthread_mutex_unlock(&reg->mutex);
    return range;
}

void mc_memreg_return(struct mc_memreg *reg, struct mc_memreg_range *range)
{
    struct entry *entry = MC_CONTAINER_OF(range, struct entry, range);

    (void)pthread_mutex_lock(&reg->mutex);
    MC_ASSERT(entry->borrowed > 0);
    if (--entry->borrowed == 0 && entry->registrations == 0) {
        entry_destroy(entry);
    }
    (void)pthread_mutex_unlock(&reg->mutex);
}

uint64_t mc_memreg_count(struct mc_memreg *reg)
{
    uint64_t count;

    (void)pthread_mutex_lock(&reg->mutex);
    count = reg->count;
    (void)pthread_mutex_unlock(&reg->mutex);
    return count;
}
