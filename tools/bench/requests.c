/* Two growing arrays. */
#include "requests.h"

#include <stdlib.h>
#include <string.h>

static bool ids_reserve(struct mc_requests *requests, size_t count)
{
    size_t cap = requests->ids_cap == 0 ? 4096 : requests->ids_cap;
    uint64_t *bigger;

    if (count > MC_REQUEST_IDS_MAX - requests->ids_count) {
        return false;
    }
    while (cap < requests->ids_count + count) {
        cap *= 2;
    }
    if (cap == requests->ids_cap) {
        return true;
    }
    bigger = realloc(requests->ids, cap * sizeof(*bigger));
    if (bigger == NULL) {
        return false;
    }
    requests->ids = bigger;
    requests->ids_cap = cap;
    return true;
}

bool mc_requests_add(struct mc_requests *requests, const uint64_t *ids, size_t count)
{
    if (!ids_reserve(requests, count)) {
        return false;
    }
    if (requests->count == requests->cap) {
        size_t cap = requests->cap == 0 ? 256 : requests->cap * 2;
        size_t *bigger = realloc(requests->ends, cap * sizeof(*bigger));

        if (bigger == NULL) {
            return false;
        }
        requests->ends = bigger;
        requests->cap = cap;
    }
    if (count > 0) {
        memcpy(requests->ids + requests->ids_count, ids, count * sizeof(*ids));
    }
    requests->ids_count += count;
    requests->ends[requests->count++] = requests->ids_count;
    return true;
}

void mc_requests_fini(struct mc_requests *requests)
{
    free(requests->ids);
    free(requests->ends);
    memset(requests, 0, sizeof(*requests));
}

const uint64_t *mc_requests_at(const struct mc_requests *requests, size_t i, size_t *out_count)
{
    size_t start = i == 0 ? 0 : requests->ends[i - 1];

    *out_count = requests->ends[i] - start;
    return requests->ids + start;
}

uint64_t mc_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t mc_random_below(uint64_t *state, uint64_t bound)
{
    return mc_random(state) % bound; /* the bias is far below anything measured here */
}
