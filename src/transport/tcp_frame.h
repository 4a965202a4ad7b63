/*
 * The frames of the data protocol over TCP. Pure: bytes to structs and back. Little-endian.
 *
 * A connection begins with one hello from the client and one from the server; the client sends
 * nothing else before it has read the server's. Then the client sends requests, as many as it likes
 * without waiting, and the server answers each of them in the order of their coming.
 *
 *   hello, 16 bytes      0 u32 magic "MCDH"   4 u16 protocol min   6 u16 protocol max
 *                        8 i32 status (client: 0)   12 u32 zero
 *   request, 96 bytes    0 u32 magic "MCDQ"   4 u16 op   6 u16 zero   8 u64 request id
 *                       16 u64 mount id      24 u64 offset           32 u64 payload length
 *                       40 u64 object id hi  48 u64 object id lo
 *                       56 u32 slice index   60 u32 slice count
 *                       64 u64 capability    72 u32 rights           76 u32 zero
 *                       80 u64 part offset   88 u64 part length
 *   answer, 32 bytes     0 u32 magic "MCDA"   4 i32 status            8 u64 request id
 *                       16 u64 length        24 u64 zero
 *
 * A request is about a part of the extent's bytes [64-byte extent header | payload]; those of one
 * extent may come over several connections, in any order. A WRITE's part follows its request,
 * whatever the server will think of it. A READ's part follows its answer if the status is 0; length
 * says how many bytes follow.
 */
#ifndef MC_TRANSPORT_TCP_FRAME_H
#define MC_TRANSPORT_TCP_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ids.h"

#define MC_TCP_PROTOCOL 1u

#define MC_TCP_HELLO_LEN 16u
#define MC_TCP_REQUEST_LEN 96u
#define MC_TCP_ANSWER_LEN 32u

/* No payload is longer: sums of lengths from outside cannot wrap. 256 TiB. */
#define MC_TCP_PAYLOAD_LEN_MAX (1ull << 48)

struct mc_tcp_hello {
    uint16_t protocol_min, protocol_max;
    int32_t status;
};

struct mc_tcp_request {
    enum mc_rights op;
    uint64_t id;
    struct mc_extent_ref extent;
    uint64_t part_offset, part_len;
};

struct mc_tcp_answer {
    int32_t status;
    uint64_t id;
    uint64_t len;
};

void mc_tcp_hello_encode(const struct mc_tcp_hello *hello, uint8_t out[MC_TCP_HELLO_LEN]);
void mc_tcp_request_encode(const struct mc_tcp_request *request, uint8_t out[MC_TCP_REQUEST_LEN]);
void mc_tcp_answer_encode(const struct mc_tcp_answer *answer, uint8_t out[MC_TCP_ANSWER_LEN]);

/* EINVAL: not such a frame. What is accepted encodes to the same bytes again. */
mooncake_err mc_tcp_hello_decode(const uint8_t bytes[MC_TCP_HELLO_LEN],
                                 struct mc_tcp_hello *out) MC_MUST_CHECK;
/** The part lies inside the extent, and the extent's length in bounds; all else is unchecked. */
mooncake_err mc_tcp_request_decode(const uint8_t bytes[MC_TCP_REQUEST_LEN],
                                   struct mc_tcp_request *out) MC_MUST_CHECK;
mooncake_err mc_tcp_answer_decode(const uint8_t bytes[MC_TCP_ANSWER_LEN],
                                  struct mc_tcp_answer *out) MC_MUST_CHECK;

/** Do the two ranges of protocol versions meet? */
bool mc_tcp_hello_agrees(const struct mc_tcp_hello *hello);

#endif
