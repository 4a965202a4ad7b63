/* An array in the order of numbers, with holes where something went. */
#include "master/roster.h"

#include "base/assert.h"
#include "base/mem.h"

#define ENTRIES_FIRST 64u

void mc_roster_fini(struct mc_roster *roster)
{
    mc_free(roster->entries);
    *roster = (struct mc_roster){0};
}

/* Close the holes. */
static void pack(struct mc_roster *roster)
{
    size_t kept = 0;

    for (size_t i = 0; i < roster->count; i++) {
        if (roster->entries[i].item != NULL) {
            roster->entries[kept++] = roster->entries[i];
        }
    }
    roster->count = kept;
    roster->gone = 0;
}

static mooncake_err grow(struct mc_roster *roster)
{
    size_t const max = roster->max == 0 ? ENTRIES_FIRST : roster->max * 2;
    struct mc_roster_entry *grown = mc_realloc(roster->entries, max * sizeof(*grown));

    if (grown == NULL) {
        return MOONCAKE_ENOMEM;
    }
    roster->entries = grown;
    roster->max = max;
    return MOONCAKE_OK;
}

mooncake_err mc_roster_add(struct mc_roster *roster, void *item, uint64_t *out_seq)
{
    MC_ASSERT(item != NULL);
    if (roster->count == roster->max) {
        MC_TRY(grow(roster));
    }
    roster->last++;
    roster->entries[roster->count++] = (struct mc_roster_entry){.seq = roster->last, .item = item};
    *out_seq = roster->last;
    return MOONCAKE_OK;
}

/* Index of the first entry with a number of at least @p seq. */
static size_t find(const struct mc_roster *roster, uint64_t seq)
{
    size_t low = 0, high = roster->count;

    while (low < high) {
        size_t const middle = low + (high - low) / 2;

        if (roster->entries[middle].seq < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void mc_roster_drop(struct mc_roster *roster, uint64_t seq)
{
    size_t const at = find(roster, seq);

    MC_ASSERT(at < roster->count && roster->entries[at].seq == seq);
    MC_ASSERT(roster->entries[at].item != NULL);
    roster->entries[at].item = NULL;
    roster->gone++;
    if (roster->gone > roster->count / 2) {
        pack(roster);
    }
}

void *mc_roster_next(const struct mc_roster *roster, uint64_t *cursor)
{
    size_t at;

    if (*cursor >= roster->last) {
        return NULL;
    }
    for (at = find(roster, *cursor + 1); at < roster->count; at++) {
        if (roster->entries[at].item != NULL) {
            *cursor = roster->entries[at].seq;
            return roster->entries[at].item;
        }
    }
    return NULL;
}
