/*
 * The fixed header in front of each control message. Pure: no I/O, no allocation.
 *
 *   0  u32 magic "MCK1"     4  u8 protocol version    5  u8 flags     6  u16 method
 *   8  u64 request id      16  i32 status            20  u32 body length
 *
 * Little-endian. The body is protobuf, except that a reply with a status other than 0 may carry a
 * sentence (UTF-8, at most 511 bytes) for a person.
 */
#ifndef MC_RPC_FRAME_H
#define MC_RPC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MC_FRAME_LEN 24u
#define MC_FRAME_MAGIC 0x314b434du /* "MCK1" */
#define MC_PROTOCOL_MIN 1u
#define MC_PROTOCOL_MAX 1u
#define MC_FRAME_DETAIL_LEN_MAX 511u

enum mc_frame_flags {
    MC_FRAME_REPLY = 1,
};

struct mc_frame {
    uint8_t version;
    uint8_t flags;
    uint16_t method;
    uint64_t request_id;
    int32_t status;
    uint32_t body_len;
};

/** Write MC_FRAME_LEN bytes. */
void mc_frame_encode(const struct mc_frame *frame, uint8_t out[MC_FRAME_LEN]);
/** Can these be the first bytes of a frame? True for none. */
bool mc_frame_may_begin(const uint8_t *bytes, size_t len);
/**
 * Read MC_FRAME_LEN bytes.
 *
 * @retval ERPC  wrong magic, unknown flags, or a body above MC_RPC_BODY_LEN_MAX: the connection is
 *               beyond help. The sentence says which. *out is untouched.
 */
mooncake_err mc_frame_decode(const uint8_t bytes[MC_FRAME_LEN], struct mc_frame *out) MC_MUST_CHECK;

#endif
