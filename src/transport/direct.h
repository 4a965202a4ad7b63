/*
 * Reading and writing an extent of a segment that this process can address: what `local` and `shm`
 * share. Pure but for the copy.
 */
#ifndef MC_TRANSPORT_DIRECT_H
#define MC_TRANSPORT_DIRECT_H

#include "transport/transport.h"

/**
 * Copy the payload of @p op's extent into its pieces and prove it as op->verify asks.
 *
 * @param base  of the segment; header and payload lie inside it (the caller has checked)
 * @retval ECHECKSUM, ENOENT  as mc_extent_header_check(); ECHECKSUM also for a torn payload
 */
mooncake_err mc_direct_read(const uint8_t *base, const struct mc_xfer_op *op) MC_MUST_CHECK;

/** Prove the payload of @p op's extent where it lies, as op->verify asks. Errors as above. */
mooncake_err mc_direct_prove(const uint8_t *base, const struct mc_xfer_op *op) MC_MUST_CHECK;

/** Copy @p op's pieces behind the header's place, then the header. */
void mc_direct_write(uint8_t *base, const struct mc_xfer_op *op);

#endif
