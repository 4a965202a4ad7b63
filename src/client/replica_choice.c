/* Ranking the copies of an object. */
#include "client/replica_choice.h"

#include "base/clock.h"

#define RANK_UNREACHABLE 15u
#define RANK_SUSPECT 16u

/* A replica is as far away as its farthest extent, and as suspect as its most suspect one. */
static unsigned rank(struct mc_suspects *suspects, struct mc_transport_set *transports,
                     const struct mc_target *targets, const struct mc_replica_info *replica)
{
    uint64_t now_ns = mc_monotonic_ns();
    unsigned worst = 0;

    for (uint32_t i = 0; i < replica->extents_count; i++) {
        const struct mc_target *target = &targets[replica->segment[i]];
        int kind = mc_transport_set_choose(transports, target, 0);
        unsigned this_one = kind < 0 ? RANK_UNREACHABLE : (unsigned)kind;

        if (mc_suspects_has(suspects, target->mount_id, now_ns)) {
            this_one += RANK_SUSPECT;
        }
        worst = this_one > worst ? this_one : worst;
    }
    return worst;
}

unsigned mc_replica_order(struct mc_suspects *suspects, struct mc_transport_set *transports,
                          const struct mc_target *targets, const struct mc_object_info *object,
                          uint64_t random, uint8_t out_order[MC_REPLICAS_MAX])
{
    unsigned ranks[MC_REPLICAS_MAX];
    unsigned all = object->replicas_count, count = 0;

    MC_ASSERT(all <= MC_REPLICAS_MAX);
    if (all == 1) { /* the common case needs no thought */
        out_order[0] = 0;
        return object->replicas[0].extents_count > 0 ? 1 : 0;
    }
    for (unsigned i = 0; i < all; i++) {
        unsigned number = (unsigned)((random + i) % all);
        unsigned its = rank(suspects, transports, targets, &object->replicas[number]);
        unsigned at = count;

        if (object->replicas[number].extents_count == 0) {
            continue;
        }
        for (; at > 0 && ranks[at - 1] > its; at--) { /* insertion keeps equals in drawn order */
            ranks[at] = ranks[at - 1];
            out_order[at] = out_order[at - 1];
        }
        ranks[at] = its;
        out_order[at] = (uint8_t)number;
        count++;
    }
    return count;
}
