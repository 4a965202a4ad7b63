/* The ring of keys that went. */
#include "master/fates.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/htab.h"
#include "base/mem.h"

#define NONE UINT32_MAX
/* Times are kept in tenths of a second: 13 years of them. */
#define TENTH_NS (MC_NS_PER_S / 10)
#define TENTH_MS 100u
#define NO_STORE 0u

struct mc_fates_entry {
    uint32_t hash_hi, hash_lo;
    uint32_t when;      /* tenths since the history began */
    uint32_t age, idle; /* tenths */
    uint32_t next;      /* the one before in its bucket */
    uint16_t store;     /* number of the lost store, from 1; NO_STORE */
    uint8_t fate;
};

_Static_assert(sizeof(struct mc_fates_entry) + sizeof(uint32_t) <= 32,
               "memory for each entry is a promise");

mooncake_err mc_fates_init(struct mc_fates *fates, uint32_t entries, uint64_t now_ns)
{
    memset(fates, 0, sizeof(*fates));
    fates->began_ns = now_ns;
    if (entries == 0) {
        return MOONCAKE_OK;
    }
    MC_ASSERT(entries <= MC_FATES_ENTRIES_MAX);
    fates->count = 1;
    while (fates->count < entries) {
        fates->count *= 2;
    }
    fates->entries = mc_calloc(fates->count, sizeof(*fates->entries));
    fates->buckets = mc_malloc(fates->count * sizeof(*fates->buckets));
    if (fates->entries == NULL || fates->buckets == NULL) {
        mc_fates_fini(fates);
        return MOONCAKE_ENOMEM;
    }
    memset(fates->buckets, 0xff, fates->count * sizeof(*fates->buckets));
    return MOONCAKE_OK;
}

void mc_fates_fini(struct mc_fates *fates)
{
    mc_free(fates->entries);
    mc_free(fates->buckets);
    fates->entries = NULL;
    fates->buckets = NULL;
}

static uint32_t tenths(uint64_t from_ns, uint64_t to_ns)
{
    uint64_t n = to_ns > from_ns ? (to_ns - from_ns) / TENTH_NS : 0;

    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* The number of a store's name; segments are swept one after the other, so the last one fits. */
static uint16_t number_of(struct mc_fates *fates, const char *store)
{
    uint64_t n = fates->stores_written;

    if (store == NULL) {
        return NO_STORE;
    }
    if (n == 0 || strcmp(fates->stores[n % MC_FATES_STORES], store) != 0) {
        n = n == UINT16_MAX ? 1 : n + 1;
        fates->stores_written = n;
        (void)snprintf(fates->stores[n % MC_FATES_STORES], sizeof(fates->stores[0]), "%s", store);
    }
    return (uint16_t)n;
}

void mc_fates_note(struct mc_fates *fates, const struct mc_object *object, enum mc_fate fate,
                   uint64_t now_ns, const char *store)
{
    struct mc_fates_entry *entry;
    uint64_t hash;
    uint32_t slot;
    uint32_t *bucket;

    if (fates->entries == NULL) {
        return;
    }
    hash = mc_htab_hash(mc_object_key(object), object->key_len);
    slot = (uint32_t)(fates->written++ & (fates->count - 1));
    bucket = &fates->buckets[hash & (fates->count - 1)];
    entry = &fates->entries[slot];
    *entry = (struct mc_fates_entry){
        .hash_hi = (uint32_t)(hash >> 32),
        .hash_lo = (uint32_t)hash,
        .when = tenths(fates->began_ns, now_ns),
        .age = tenths(object->since_ns, now_ns),
        .idle = tenths(object->touched_ns, now_ns),
        .next = *bucket,
        .store = number_of(fates, store),
        .fate = (uint8_t)fate,
    };
    *bucket = slot;
}

/* How many entries were written after this one. Larger is older. */
static uint64_t depth_of(const struct mc_fates *fates, uint32_t slot)
{
    return (fates->written - 1 - slot) & (fates->count - 1);
}

static void fill(const struct mc_fates *fates, const struct mc_fates_entry *entry, uint64_t now_ns,
                 struct mc_fates_answer *out)
{
    uint64_t const then_ns = fates->began_ns + (uint64_t)entry->when * TENTH_NS;

    out->fate = (enum mc_fate)entry->fate;
    out->ago_ms = now_ns > then_ns ? (now_ns - then_ns) / MC_NS_PER_MS : 0;
    out->age_ms = (uint64_t)entry->age * TENTH_MS;
    out->idle_ms = (uint64_t)entry->idle * TENTH_MS;
    if (entry->store != NO_STORE && fates->stores_written - entry->store < MC_FATES_STORES) {
        memcpy(out->store, fates->stores[entry->store % MC_FATES_STORES], sizeof(out->store));
    }
}

void mc_fates_find(const struct mc_fates *fates, uint64_t hash, uint64_t now_ns,
                   struct mc_fates_answer *out)
{
    uint32_t const mask = fates->count - 1;
    uint64_t depth = 0;
    uint32_t slot;

    memset(out, 0, sizeof(*out));
    if (fates->entries == NULL || fates->written == 0) {
        return;
    }
    for (slot = fates->buckets[hash & mask]; slot != NONE;) {
        const struct mc_fates_entry *entry = &fates->entries[slot];

        if (depth_of(fates, slot) < depth || ((entry->hash_lo ^ (uint32_t)hash) & mask) != 0) {
            return; /* overwritten since */
        }
        if (entry->hash_lo == (uint32_t)hash && entry->hash_hi == (uint32_t)(hash >> 32)) {
            fill(fates, entry, now_ns, out);
            return;
        }
        depth = depth_of(fates, slot) + 1;
        slot = entry->next;
    }
}

uint64_t mc_fates_reach_ms(const struct mc_fates *fates, uint64_t now_ns)
{
    uint64_t from_ns = fates->began_ns;

    if (fates->entries == NULL) {
        return 0;
    }
    if (fates->written > fates->count) {
        from_ns += fates->entries[fates->written & (fates->count - 1)].when * TENTH_NS;
    }
    return now_ns > from_ns ? (now_ns - from_ns) / MC_NS_PER_MS : 0;
}
