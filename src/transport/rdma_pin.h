/* Pinning a registered range ahead of its first use. Nothing of verbs is seen from here. */
#ifndef MC_TRANSPORT_RDMA_PIN_H
#define MC_TRANSPORT_RDMA_PIN_H

#include "transport/transport.h"

/**
 * Pin [base, base + len), which is in options->memreg, once with every device that @p options
 * choose. Any thread; takes as long as pinning takes.
 *
 * @retval ENOTSUP  this machine has no RDMA: nothing is to be pinned
 * @retval ENOMEM   RLIMIT_MEMLOCK or memory: the sentence has what is needed and what there is
 * @retval EINVAL, ERPC
 */
mooncake_err mc_rdma_pin(const struct mc_transport_options *options, const void *base,
                         uint64_t len) MC_MUST_CHECK;

#endif
