/*
 * A walk over packed bytes before they are unpacked. protobuf-c allocates for what the bytes claim,
 * up to a hundred bytes for two on the wire (an empty text, an unknown field); this refuses such
 * floods while they still cost nothing.
 */
#include "wire/codec.h"

#define WIRE_VARINT 0u
#define WIRE_FIXED64 1u
#define WIRE_BYTES 2u
#define WIRE_FIXED32 5u

/* Fields of newer senders that we do not know, in one message. */
#define UNKNOWN_MAX 64u
/* Fields of one message type, and message-typed ones among them. */
#define FIELDS_MAX 24u
#define NESTED_MAX 2u

struct cursor {
    const uint8_t *at, *end;
};

struct nested {
    const ProtobufCMessageDescriptor *type;
    struct cursor bytes;
};

struct scan {
    const ProtobufCMessageDescriptor *type;
    struct mc_codec_bounds bounds;
    uint32_t counts[FIELDS_MAX]; /* elements, or occurrences of a single field */
    uint32_t unknown_count;
    struct nested *nested; /* room for NESTED_MAX; NULL inside a nested message */
    unsigned nested_count;
};

/* Where the value of one field lies. */
struct value {
    uint32_t wire_type;
    struct cursor bytes; /* of WIRE_BYTES, without the length */
};

static mooncake_err refuse(const struct scan *scan, const char *field, const char *why)
{
    return mc_err_set(MOONCAKE_EINVAL, "message %s: %s%s%s", scan->type->short_name, field,
                      field[0] == '\0' ? "" : ": ", why);
}

/* At most 10 bytes; false at a truncated or overlong one. */
static bool read_varint(struct cursor *in, uint64_t *out)
{
    uint64_t value = 0;
    unsigned shift;

    for (shift = 0; shift < 70 && in->at < in->end; shift += 7) {
        uint8_t byte = *in->at++;

        value |= (uint64_t)(byte & 0x7fu) << (shift > 63 ? 63 : shift);
        if ((byte & 0x80u) == 0) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool skip(struct cursor *in, uint64_t len)
{
    if (len > (uint64_t)(in->end - in->at)) {
        return false;
    }
    in->at += len;
    return true;
}

static bool read_value(struct cursor *in, uint32_t wire_type, struct value *out)
{
    uint64_t number;

    out->wire_type = wire_type;
    switch (wire_type) {
    case WIRE_VARINT:
        return read_varint(in, &number);
    case WIRE_FIXED64:
        return skip(in, 8);
    case WIRE_FIXED32:
        return skip(in, 4);
    case WIRE_BYTES:
        if (!read_varint(in, &number)) {
            return false;
        }
        out->bytes.at = in->at;
        if (!skip(in, number)) {
            return false;
        }
        out->bytes.end = in->at;
        return true;
    default: /* groups, which proto3 does not have */
        return false;
    }
}

/* Elements of a packed array. */
static size_t packed_count(const ProtobufCFieldDescriptor *field, struct cursor in)
{
    size_t count = 0;
    const uint8_t *at;

    if (field->type == PROTOBUF_C_TYPE_FIXED64) {
        return (size_t)(in.end - in.at) / 8;
    }
    for (at = in.at; at < in.end; at++) {
        count += (size_t)(*at >> 7) ^ 1u; /* the last byte of each varint has no high bit */
    }
    return count;
}

static mooncake_err take_array(struct scan *scan, const ProtobufCFieldDescriptor *field,
                               const struct value *value, uint32_t *count)
{
    bool texts = field->type == PROTOBUF_C_TYPE_STRING;
    uint32_t max = texts ? scan->bounds.texts_max : scan->bounds.elements_max;
    size_t more = 1;

    if (!texts) {
        /* Senders of ours pack; an array cut into one field an element costs us 30 times more. */
        if (value->wire_type != WIRE_BYTES) {
            return refuse(scan, field->name, "array of numbers is not packed");
        }
        if (*count > 0) {
            return refuse(scan, field->name, "array of numbers comes in pieces");
        }
        more = packed_count(field, value->bytes);
    }
    if (more > max || *count > max - more) {
        return mc_err_set(MOONCAKE_EINVAL, "message %s: %s has more than %u elements",
                          scan->type->short_name, field->name, max);
    }
    *count += (uint32_t)more;
    return MOONCAKE_OK;
}

static mooncake_err take_single(struct scan *scan, const ProtobufCFieldDescriptor *field,
                                const struct value *value, uint32_t *count)
{
    if ((*count)++ > 0) {
        return refuse(scan, field->name, "comes twice");
    }
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
        return MOONCAKE_OK;
    }
    if (value->wire_type != WIRE_BYTES) {
        return refuse(scan, field->name, "is not a message");
    }
    MC_ASSERT(scan->nested != NULL); /* control.proto nests one deep */
    MC_ASSERT(scan->nested_count < NESTED_MAX);
    scan->nested[scan->nested_count].type = field->descriptor;
    scan->nested[scan->nested_count].bytes = value->bytes;
    scan->nested_count++;
    return MOONCAKE_OK;
}

static mooncake_err scan_level(struct scan *scan, struct cursor in)
{
    while (in.at < in.end) {
        const ProtobufCFieldDescriptor *field;
        struct value value;
        uint64_t tag;
        uint32_t *count;

        if (!read_varint(&in, &tag) || tag > UINT32_MAX || tag >> 3 == 0) {
            return refuse(scan, "", "is damaged");
        }
        if (!read_value(&in, (uint32_t)tag & 7u, &value)) {
            return refuse(scan, "", "is truncated or damaged");
        }
        field = protobuf_c_message_descriptor_get_field(scan->type, (unsigned)(tag >> 3));
        if (field == NULL) {
            if (++scan->unknown_count > UNKNOWN_MAX) {
                return refuse(scan, "", "has too many unknown fields");
            }
            continue;
        }
        count = &scan->counts[field - scan->type->fields];
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            MC_TRY(take_array(scan, field, &value, count));
        } else {
            MC_TRY(take_single(scan, field, &value, count));
        }
    }
    return MOONCAKE_OK;
}

mooncake_err mc_codec_scan(const ProtobufCMessageDescriptor *type, const uint8_t *body, size_t len,
                           struct mc_codec_bounds bounds)
{
    struct nested nested[NESTED_MAX];
    struct scan top = {.type = type, .bounds = bounds, .nested = nested};
    unsigned i;

    MC_ASSERT(type->n_fields <= FIELDS_MAX);
    if (len == 0) {
        return MOONCAKE_OK; /* body may be NULL */
    }
    MC_TRY(scan_level(&top, (struct cursor){body, body + len}));
    for (i = 0; i < top.nested_count; i++) {
        struct scan inner = {.type = nested[i].type, .bounds = bounds};

        MC_ASSERT(inner.type->n_fields <= FIELDS_MAX);
        MC_TRY(scan_level(&inner, nested[i].bytes));
    }
    return MOONCAKE_OK;
}
