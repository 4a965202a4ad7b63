/*
 * Turns the bytes that come on one connection into frames. Bytes land in a scratch area that all
 * connections of a loop share; whole frames are used where they lie, and only an unfinished one is
 * kept in memory of its own. That memory grows as bytes truly come, not as a header announces them.
 */
#ifndef MC_RPC_INPUT_H
#define MC_RPC_INPUT_H

#include <stdbool.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "rpc/frame.h"

#define MC_RPC_SCRATCH_LEN ((size_t)64 << 10)

struct mc_rpc_input {
    struct mc_buf held;   /* bytes not yet used */
    size_t asked;         /* of the last mc_rpc_input_space(): room in held */
    const uint8_t *fresh; /* bytes in scratch, behind those in held; NULL outside a feeding */
    size_t fresh_len;
    size_t using_len;    /* bytes of the frame that was given out last */
    size_t keep_len_max; /* memory that held keeps when it is empty; the owner may change it */
};

/* What a connection keeps so that it allocates nothing for a flow of requests, and what it keeps
 * when there are very many of them. */
#define MC_RPC_INPUT_KEEP_LEN ((size_t)256 << 10)
#define MC_RPC_INPUT_KEEP_LEN_SMALL ((size_t)4 << 10)

void mc_rpc_input_init(struct mc_rpc_input *input);
void mc_rpc_input_fini(struct mc_rpc_input *input);

/** Where the next bytes may land; *count of ranges, at most 2. ENOMEM. */
mooncake_err mc_rpc_input_space(struct mc_rpc_input *input, uint8_t *scratch, struct iovec *iov,
                                unsigned *count) MC_MUST_CHECK;
/** @p len bytes have landed there. Then take frames with next, and end with settle. */
void mc_rpc_input_feed(struct mc_rpc_input *input, const uint8_t *scratch, size_t len);
/**
 * The next whole frame, valid until the next call about this input; *got is false if there is none.
 * ERPC: nonsense, with a sentence; ENOMEM.
 */
mooncake_err mc_rpc_input_next(struct mc_rpc_input *input, struct mc_frame *out_frame,
                               const uint8_t **out_body, bool *got) MC_MUST_CHECK;
/** The scratch area is about to be used for others: keep what is left. ENOMEM. */
mooncake_err mc_rpc_input_settle(struct mc_rpc_input *input) MC_MUST_CHECK;

#endif
