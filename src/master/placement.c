/* Comparing places, and the random numbers to choose candidates by. */
#include "master/placement.h"

#include "base/assert.h"

bool mc_place_fits(const struct mc_place_view *view, uint64_t bytes)
{
    return view->largest >= bytes;
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0.0 : (double)part / (double)whole;
}

bool mc_place_capped(const struct mc_place_view *view)
{
    if (view->others_capacity == 0 || view->recent_total < MC_PLACE_RECENT_MIN) {
        return false;
    }
    if ((uint64_t)view->recent * 100u < (uint64_t)view->recent_total * MC_PLACE_NEWCOMER_PERCENT) {
        return false;
    }
    return ratio(view->free, view->capacity) - ratio(view->others_free, view->others_capacity) >
           MC_PLACE_AHEAD_PERCENT / 100.0;
}

bool mc_place_better(const struct mc_place_view *a, const struct mc_place_view *b, uint64_t bytes)
{
    bool const a_fits = mc_place_fits(a, bytes);
    bool const b_fits = mc_place_fits(b, bytes);

    if (a_fits != b_fits) {
        return a_fits;
    }
    if (a->host_used != b->host_used) {
        return !a->host_used;
    }
    if (mc_place_capped(a) != mc_place_capped(b)) {
        return !mc_place_capped(a);
    }
    return ratio(a->free, a->capacity) > ratio(b->free, b->capacity);
}

uint64_t mc_place_random_next(struct mc_place_random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15ull);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

uint32_t mc_place_random_below(struct mc_place_random *random, uint32_t count)
{
    MC_ASSERT(count > 0);
    return (uint32_t)(((mc_place_random_next(random) >> 32) * count) >> 32);
}
