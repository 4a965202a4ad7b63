/*
 * What the two ends of an RDMA connection tell each other when it is made, and the address under
 * which a store is advertised. Pure.
 *
 * The asking side says which extent it may use, in what way, and proves it; the store answers where
 * the segment is in its memory and with which keys, or why not. Whoever is accepted can reach the
 * whole segment in the way it asked for (a queue pair for reading cannot write): the capability of
 * one extent is the ticket. Little-endian:
 *
 * request (56 bytes, all that a connection request carries)
 *    0 u16 magic "MR"  2 u8 version (1)  3 u8 right asked for  4 u8 rights of the capability
 *    5 u8 slice index  6 u8 slice count  7 u8 zero
 *    8 u64 mount id  16 u64 offset  24 u64 payload length  32 u64 capability
 *   40 u64 object id hi  48 u64 object id lo
 * answer (32 + 4 x parts bytes, at most 192)
 *    0 u16 magic  2 u8 version  3 u8 parts (1 to 40)  4 u32 MTU in bytes
 *    8 u64 address of the segment  16 u64 length  24 u64 length of a part (the last may be shorter)
 *   32 u32 key of each part
 * refusal (8 to 136 bytes; the same in every version, so that a program of another one can say why)
 *    0 u16 magic  2 u8 version  3 u8 length of the text  4 i32 error number  8 text: the reason
 */
#ifndef MC_TRANSPORT_RDMA_WIRE_H
#define MC_TRANSPORT_RDMA_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ids.h"
#include "transport/rdma_device.h"

#define MC_RDMA_REQUEST_LEN 56u
#define MC_RDMA_PARTS_MAX 40u
#define MC_RDMA_ANSWER_LEN_MAX (32u + 4u * MC_RDMA_PARTS_MAX)
#define MC_RDMA_REFUSAL_TEXT_MAX 128u
#define MC_RDMA_REFUSAL_LEN_MAX (8u + MC_RDMA_REFUSAL_TEXT_MAX)

struct mc_rdma_request {
    struct mc_extent_ref extent;
    enum mc_rights right;
};

struct mc_rdma_answer {
    uint64_t base, len, part_len;
    uint32_t mtu; /* bytes */
    unsigned parts;
    uint32_t keys[MC_RDMA_PARTS_MAX];
};

/** EINVAL: a slice index or count beyond 255. */
mooncake_err mc_rdma_request_encode(const struct mc_rdma_request *request,
                                    uint8_t out[MC_RDMA_REQUEST_LEN]) MC_MUST_CHECK;
/** May be longer if the rest is zero: the connection manager pads.
 *  ERPC: not a request of ours; ENOTSUP: of another version; EINVAL: its extent makes no sense. */
mooncake_err mc_rdma_request_decode(const uint8_t *bytes, size_t len,
                                    struct mc_rdma_request *out) MC_MUST_CHECK;

/** Returns the length. */
size_t mc_rdma_answer_encode(const struct mc_rdma_answer *answer,
                             uint8_t out[MC_RDMA_ANSWER_LEN_MAX]);
/** @p len may be more than was sent: the connection manager pads. ERPC: not a sound answer. */
mooncake_err mc_rdma_answer_decode(const uint8_t *bytes, size_t len,
                                   struct mc_rdma_answer *out) MC_MUST_CHECK;

/** Takes as much of @p text as fits. Returns the length. */
size_t mc_rdma_refusal_encode(mooncake_err err, const char *text,
                              uint8_t out[MC_RDMA_REFUSAL_LEN_MAX]);
/** The store's error; ERPC if the bytes are none of ours. @p out_text: its reason, with nothing in
 * it that does not belong on a line; "" if it gives none. */
mooncake_err mc_rdma_refusal_decode(const uint8_t *bytes, size_t len,
                                    char out_text[MC_RDMA_REFUSAL_TEXT_MAX + 1]);

/** Part that holds byte @p at of the segment, and how many bytes it holds from there on. */
unsigned mc_rdma_part_of(const struct mc_rdma_answer *answer, uint64_t at, uint64_t *out_left);

/* One address of a store: "rdma://10.0.0.7:40001?dev=mlx5_0&gid=rocev2&numa=0&mtu=4096". What
 * follows the question mark may be missing, and unknown words there are passed over. */
struct mc_rdma_place {
    union mc_rdma_address address; /* with port */
    char device[IBV_SYSFS_NAME_MAX];
    char gid_kind[16];
    int numa_node; /* -1: unknown */
    uint32_t mtu;  /* 0: unknown */
};

#define MC_RDMA_SCHEME "rdma://"
#define MC_RDMA_ADDRESS_LEN_MAX 192u

/** EINVAL: it does not fit into @p cap. */
mooncake_err mc_rdma_place_print(const struct mc_rdma_place *place, char *out,
                                 size_t cap) MC_MUST_CHECK;
/** EINVAL: no address of ours. */
mooncake_err mc_rdma_place_parse(const char *text, size_t len,
                                 struct mc_rdma_place *out) MC_MUST_CHECK;
/** All usable rdma addresses among space-separated ones, at most @p max. */
unsigned mc_rdma_places_parse(const char *addresses, struct mc_rdma_place *out, unsigned max);

#endif
