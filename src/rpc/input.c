/* Bytes to frames. */
#include "rpc/input.h"

#include <string.h>

void mc_rpc_input_init(struct mc_rpc_input *input)
{
    memset(input, 0, sizeof(*input));
    input->keep_len_max = MC_RPC_INPUT_KEEP_LEN;
}

void mc_rpc_input_fini(struct mc_rpc_input *input)
{
    mc_buf_fini(&input->held);
    mc_rpc_input_init(input);
}

/* How many bytes the frame at the front of held has in all, as far as held tells. */
static mooncake_err front_len(const struct mc_rpc_input *input, size_t *out_len)
{
    struct mc_frame frame;

    if (mc_buf_len(&input->held) < MC_FRAME_LEN) {
        *out_len = MC_FRAME_LEN;
        return MOONCAKE_OK;
    }
    MC_TRY(mc_frame_decode(mc_buf_bytes(&input->held), &frame));
    *out_len = MC_FRAME_LEN + (size_t)frame.body_len;
    return MOONCAKE_OK;
}

mooncake_err mc_rpc_input_space(struct mc_rpc_input *input, uint8_t *scratch, struct iovec *iov,
                                unsigned *count)
{
    size_t have = mc_buf_len(&input->held);
    size_t grow_max = have < MC_RPC_SCRATCH_LEN ? MC_RPC_SCRATCH_LEN : have;
    unsigned n = 0;
    size_t want = 0;

    MC_ASSERT(input->fresh == NULL);
    if (have > 0) {
        MC_TRY(front_len(input, &want));
        MC_ASSERT(want > have); /* whole frames have been taken */
        want = want - have < grow_max ? want - have : grow_max;
        MC_TRY(mc_buf_reserve(&input->held, want));
        iov[n].iov_base = input->held.data + input->held.end;
        iov[n++].iov_len = want;
    }
    if (want < grow_max || have == 0) {
        iov[n].iov_base = scratch;
        iov[n++].iov_len = MC_RPC_SCRATCH_LEN;
    }
    input->asked = want;
    *count = n;
    return MOONCAKE_OK;
}

void mc_rpc_input_feed(struct mc_rpc_input *input, const uint8_t *scratch, size_t len)
{
    size_t in_held = len < input->asked ? len : input->asked;

    MC_ASSERT(len - in_held <= MC_RPC_SCRATCH_LEN);
    input->held.end += in_held;
    input->asked = 0;
    input->fresh = scratch;
    input->fresh_len = len - in_held;
}

/* Move up to @p want bytes from fresh to held. */
static mooncake_err move_to_held(struct mc_rpc_input *input, size_t want)
{
    size_t len = input->fresh_len < want ? input->fresh_len : want;

    if (len > 0) {
        MC_TRY(mc_buf_append(&input->held, input->fresh, len));
        input->fresh += len;
        input->fresh_len -= len;
    }
    return MOONCAKE_OK;
}

/* Forget the frame that was given out last. */
static void forget_used(struct mc_rpc_input *input)
{
    if (input->using_len > 0) {
        mc_buf_consume(&input->held, input->using_len);
        input->using_len = 0;
        if (mc_buf_len(&input->held) == 0) {
            mc_buf_clear(&input->held, input->keep_len_max);
        }
    }
}

static mooncake_err next_from_held(struct mc_rpc_input *input, struct mc_frame *out_frame,
                                   const uint8_t **out_body, bool *got)
{
    size_t want;

    /* Bytes land in held until the header is whole (mc_rpc_input_space()): if it is not, there is
     * nothing fresh, and the length is that of a header. */
    MC_TRY(front_len(input, &want));
    if (want > mc_buf_len(&input->held)) {
        MC_TRY(move_to_held(input, want - mc_buf_len(&input->held)));
    }
    if (want > mc_buf_len(&input->held)) {
        return MOONCAKE_OK;
    }
    MC_TRY(mc_frame_decode(mc_buf_bytes(&input->held), out_frame));
    *out_body = mc_buf_bytes(&input->held) + MC_FRAME_LEN;
    input->using_len = want;
    *got = true;
    return MOONCAKE_OK;
}

mooncake_err mc_rpc_input_next(struct mc_rpc_input *input, struct mc_frame *out_frame,
                               const uint8_t **out_body, bool *got)
{
    struct mc_frame frame;
    size_t len;

    *got = false;
    forget_used(input);
    if (mc_buf_len(&input->held) > 0) {
        return next_from_held(input, out_frame, out_body, got);
    }
    if (input->fresh_len < MC_FRAME_LEN) {
        return MOONCAKE_OK;
    }
    MC_TRY(mc_frame_decode(input->fresh, &frame));
    len = MC_FRAME_LEN + (size_t)frame.body_len;
    if (input->fresh_len < len) {
        return MOONCAKE_OK;
    }
    *out_frame = frame;
    *out_body = input->fresh + MC_FRAME_LEN;
    input->fresh += len;
    input->fresh_len -= len;
    *got = true;
    return MOONCAKE_OK;
}

mooncake_err mc_rpc_input_settle(struct mc_rpc_input *input)
{
    mooncake_err err;

    forget_used(input);
    err = move_to_held(input, input->fresh_len);
    input->fresh = NULL;
    input->fresh_len = 0;
    return err;
}
