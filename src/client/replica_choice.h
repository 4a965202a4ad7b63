/* In which order the copies of an object are tried. Pure but for the suspects' lock. */
#ifndef MC_CLIENT_REPLICA_CHOICE_H
#define MC_CLIENT_REPLICA_CHOICE_H

#include "client/suspects.h"
#include "transport/transport.h"
#include "wire/messages.h"

/**
 * Fill @p out_order with the numbers of the object's replicas, best first: healthy before suspect,
 * then by reach (own process first), then at random, so that readers spread over the copies.
 *
 * @param targets  of the reply that @p object is from
 * @return         how many: all that have extents
 */
unsigned mc_replica_order(struct mc_suspects *suspects, struct mc_transport_set *transports,
                          const struct mc_target *targets, const struct mc_object_info *object,
                          uint64_t random, uint8_t out_order[MC_REPLICAS_MAX]);

#endif
