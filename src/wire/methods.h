/*
 * The one list of control calls: number, name, request, reply, what it is. From it come the
 * method enum, the codec table, the stub's dispatch, the server's handlers and the metric names.
 * Numbers are wire format: add, never renumber, never reuse.
 */
#ifndef MC_WIRE_METHODS_H
#define MC_WIRE_METHODS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/mem.h"
#include "wire/messages.h"

/* X(number, NAME, name, request struct, reply struct) */
#define MC_METHOD_LIST(X)                                                                          \
    X(1, HELLO, hello, mc_hello, mc_hello_reply)                                                   \
    X(10, PUT_START, put_start, mc_put_start_request, mc_put_start_reply)                          \
    X(11, PUT_END, put_end, mc_put_end_request, mc_status_reply)                                   \
    X(12, PUT_REVOKE, put_revoke, mc_put_end_request, mc_status_reply)                             \
    X(20, QUERY, query, mc_keys_request, mc_query_reply)                                           \
    X(21, EXIST, exist, mc_keys_request, mc_exist_reply)                                           \
    X(22, REMOVE, remove, mc_keys_request, mc_status_reply)                                        \
    X(23, REMOVE_ALL, remove_all, mc_remove_all_request, mc_remove_all_reply)                      \
    X(24, REPORT, report, mc_report_request, mc_status_reply)                                      \
    X(25, RENEW, renew, mc_renew_request, mc_renew_reply)                                          \
    X(30, MOUNT, mount, mc_mount_request, mc_status_reply)                                         \
    X(31, UNMOUNT, unmount, mc_unmount_request, mc_status_reply)                                   \
    X(32, PING, ping, mc_ping_request, mc_ping_reply)                                              \
    X(40, LIST_KEYS, list_keys, mc_list_keys_request, mc_list_keys_reply)                          \
    X(41, LIST_SEGMENTS, list_segments, mc_list_request, mc_list_segments_reply)                   \
    X(42, LIST_CLIENTS, list_clients, mc_list_request, mc_list_clients_reply)                      \
    X(43, POOL_STATUS, pool_status, mc_pool_status_request, mc_pool_status_reply)                  \
    X(44, DESCRIBE_KEY, describe_key, mc_keys_request, mc_describe_key_reply)                      \
    X(45, CONFIG, config, mc_empty_request, mc_config_reply)                                       \
    X(46, SPACE, space, mc_space_request, mc_space_reply)                                          \
    X(47, WHY_MISS, why_miss, mc_keys_request, mc_why_miss_reply)                                  \
    X(48, DRAIN, drain, mc_drain_request, mc_drain_reply)                                          \
    X(49, SOLE_KEYS, sole_keys, mc_sole_keys_request, mc_sole_keys_reply)                          \
    X(50, ATTACH, attach, mc_attach_request, mc_attach_reply)

enum mc_method {
#define MC_METHOD_ENUM_(number, NAME, name, request, reply) MC_METHOD_##NAME = (number),
    MC_METHOD_LIST(MC_METHOD_ENUM_)
#undef MC_METHOD_ENUM_
};

#define MC_METHOD_NUMBER_MAX 50u

/* How the two messages of one method become bytes and back. Encoders append to @p out (ENOMEM).
 * Decoders check every limit of base/limits.h and every cross-array length, so that what they
 * return needs no further checking but of meaning; they return EINVAL with a sentence naming the
 * field, ENOMEM, and leave *message unusable then. What they return lives in @p arena (keys and
 * texts are copied out of @p body; texts are NUL-terminated). */
struct mc_method_codec {
    const char *name; /* "put_start"; NULL: no such method */
    uint16_t method;
    size_t request_len, reply_len; /* bytes of the structs */
    mooncake_err (*encode_request)(const void *message, struct mc_buf *out);
    mooncake_err (*decode_request)(const uint8_t *body, size_t len, struct mc_arena *arena,
                                   void *message);
    mooncake_err (*encode_reply)(const void *message, struct mc_buf *out);
    mooncake_err (*decode_reply)(const uint8_t *body, size_t len, struct mc_arena *arena,
                                 void *message);
};

/** The codec of @p method, or NULL if there is no such method. */
const struct mc_method_codec *mc_method_codec(unsigned method);
const char *mc_method_name(unsigned method);

#endif
