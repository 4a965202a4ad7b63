/*
 * What the codec files share: from protobuf structs to ours and back. Private to wire/.
 *
 * Decoding goes in three steps: mc_codec_scan() walks the bytes and refuses counts that no honest
 * sender makes, before anything is allocated; protobuf-c unpacks into the arena; the decoder checks
 * the lengths against each other and fills our struct, pointing into the unpacked arrays where it
 * can.
 */
#ifndef MC_WIRE_CODEC_H
#define MC_WIRE_CODEC_H

#include "control.pb-c.h"
#include "wire/methods.h"

/* Most elements that the arrays of one message may have. */
struct mc_codec_bounds {
    uint32_t elements_max; /* of a packed array of numbers */
    uint32_t texts_max;    /* of an array of texts */
};

#define MC_CODEC_NO_ARRAYS ((struct mc_codec_bounds){0, 0})
#define MC_CODEC_KEYS ((struct mc_codec_bounds){MC_BATCH_KEYS_MAX, MC_PREFERRED_SEGMENTS_MAX})
#define MC_CODEC_TABLE                                                                             \
    ((struct mc_codec_bounds){MC_BATCH_KEYS_MAX * MC_REPLICAS_MAX * MC_EXTENTS_MAX,                \
                              MC_SEGMENTS_MAX})

/** Do the bytes look like @p type within @p bounds? Allocates nothing. EINVAL with a sentence. */
mooncake_err mc_codec_scan(const ProtobufCMessageDescriptor *type, const uint8_t *body, size_t len,
                           struct mc_codec_bounds bounds) MC_MUST_CHECK;

/** Scan and unpack into @p arena. EINVAL with a sentence, ENOMEM. */
mooncake_err mc_codec_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *body,
                             size_t len, struct mc_codec_bounds bounds, struct mc_arena *arena,
                             void *out_message) MC_MUST_CHECK;
/** Append the packed message to @p out. EINVAL: larger than a body may be. ENOMEM. */
mooncake_err mc_codec_pack(const ProtobufCMessage *message, struct mc_buf *out) MC_MUST_CHECK;

/** protobuf-c's structs have no const; packing does not write through them. */
static inline void *mc_codec_unconst(const void *ptr)
{
    return (void *)(uintptr_t)ptr;
}

/** An element of an array of texts; protobuf-c does not bear NULL there. */
static inline char *mc_codec_text_element(const char *text)
{
    return mc_codec_unconst(text == NULL ? "" : text);
}

/* ---- checks that encoders and decoders share; EINVAL with a sentence naming @p field -------- */

mooncake_err mc_codec_check_count(const char *field, size_t count, size_t count_max) MC_MUST_CHECK;
mooncake_err mc_codec_check_same(const char *field, size_t count, size_t wanted) MC_MUST_CHECK;
/** At most @p len_max bytes of UTF-8 without control characters. NULL counts as "". */
mooncake_err mc_codec_check_text(const char *field, const char *text, size_t len_max) MC_MUST_CHECK;

/* One text of a message, for checking several in one go. */
struct mc_codec_text {
    const char *field;
    const char *text;
    size_t len_max;
};
mooncake_err mc_codec_check_texts(const struct mc_codec_text *texts, size_t count) MC_MUST_CHECK;

/* ---- parts ----------------------------------------------------------------------------------- */

/** Keys end to end into *pb; memory from @p scratch. */
mooncake_err mc_codec_keys_fill(struct mc_arena *scratch, const struct mc_key *keys, size_t count,
                                Mc__Pb__KeySet *pb) MC_MUST_CHECK;
/** @p pb NULL: no keys. */
mooncake_err mc_codec_keys_read(const Mc__Pb__KeySet *pb, struct mc_arena *arena,
                                const struct mc_key **out_keys, size_t *out_count) MC_MUST_CHECK;

/** Statuses as the wire's numbers. */
mooncake_err mc_codec_statuses_fill(struct mc_arena *scratch, const mooncake_err *statuses,
                                    size_t count, int32_t **out) MC_MUST_CHECK;
/** A number that is not in our list becomes EINTERNAL. */
mooncake_err mc_codec_statuses_read(const int32_t *numbers, size_t count, struct mc_arena *arena,
                                    mooncake_err **out) MC_MUST_CHECK;

/** struct mc_status_reply, which is the reply of many methods. */
mooncake_err mc_codec_status_reply_encode(const void *message, struct mc_buf *out) MC_MUST_CHECK;
mooncake_err mc_codec_status_reply_decode(const uint8_t *body, size_t len, struct mc_arena *arena,
                                          void *message) MC_MUST_CHECK;

mooncake_err mc_codec_table_fill(struct mc_arena *scratch, const struct mc_object_table *table,
                                 Mc__Pb__ObjectTable *pb) MC_MUST_CHECK;
/** @p rights go into each extent. @p pb NULL: no items. */
mooncake_err mc_codec_table_read(const Mc__Pb__ObjectTable *pb, uint32_t rights,
                                 struct mc_arena *arena, struct mc_object_table *out) MC_MUST_CHECK;

/* ---- the codec functions of each method ------------------------------------------------------ */

#define MC_CODEC_DECLARE_(number, NAME, name, request, reply)                                      \
    mooncake_err mc_##name##_encode_request(const void *message, struct mc_buf *out);              \
    mooncake_err mc_##name##_decode_request(const uint8_t *body, size_t len,                       \
                                            struct mc_arena *arena, void *message);                \
    mooncake_err mc_##name##_encode_reply(const void *message, struct mc_buf *out);                \
    mooncake_err mc_##name##_decode_reply(const uint8_t *body, size_t len, struct mc_arena *arena, \
                                          void *message);
MC_METHOD_LIST(MC_CODEC_DECLARE_)
#undef MC_CODEC_DECLARE_

#endif
