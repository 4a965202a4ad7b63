/* Encoding and checking; see the header for the layouts. */
#include "transport/rdma_wire.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/option.h"

#define MAGIC 0x524du /* "MR" */
#define VERSION 1u
#define REFUSAL_HEAD_LEN 8u
#define HEADER_ALIGN 64u /* no extent's header crosses a multiple of it */

static void put_head(uint8_t *out, uint8_t third)
{
    mc_store_u16(out, MAGIC);
    out[2] = VERSION;
    out[3] = third;
}

static mooncake_err check_head(const uint8_t *bytes, size_t len, size_t need, const char *what)
{
    if (len < need) {
        return mc_err_set(MOONCAKE_ERPC, "rdma: the peer's %s has %zu bytes, fewer than %zu", what,
                          len, need);
    }
    if (mc_load_u16(bytes) != MAGIC) {
        return mc_err_set(MOONCAKE_ERPC, "rdma: the peer's %s is none of Mooncake's", what);
    }
    if (bytes[2] != VERSION) {
        return mc_err_set(MOONCAKE_ENOTSUP,
                          "rdma: the peer speaks version %u, we speak %u; use programs of one "
                          "release",
                          (unsigned)bytes[2], VERSION);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_rdma_request_encode(const struct mc_rdma_request *request,
                                    uint8_t out[MC_RDMA_REQUEST_LEN])
{
    const struct mc_extent_ref *extent = &request->extent;

    if (extent->slice_index > UINT8_MAX || extent->slice_count > UINT8_MAX ||
        extent->rights > UINT8_MAX) {
        return MOONCAKE_EINVAL;
    }
    put_head(out, (uint8_t)request->right);
    out[4] = (uint8_t)extent->rights;
    out[5] = (uint8_t)extent->slice_index;
    out[6] = (uint8_t)extent->slice_count;
    out[7] = 0;
    mc_store_u64(out + 8, extent->mount_id);
    mc_store_u64(out + 16, extent->offset);
    mc_store_u64(out + 24, extent->payload_len);
    mc_store_u64(out + 32, extent->capability);
    mc_store_u64(out + 40, extent->object_id.hi);
    mc_store_u64(out + 48, extent->object_id.lo);
    return MOONCAKE_OK;
}

/* What the capability does not vouch for, and what nobody reads yet. */
static mooncake_err check_request(const uint8_t *bytes, size_t len)
{
    const unsigned both = MC_RIGHT_READ | MC_RIGHT_WRITE;

    if (bytes[3] != MC_RIGHT_READ && bytes[3] != MC_RIGHT_WRITE) {
        return mc_err_set(MOONCAKE_ERPC, "rdma: the peer asks for the unknown right %u",
                          (unsigned)bytes[3]);
    }
    if (bytes[7] != 0) {
        return mc_err_set(MOONCAKE_ERPC, "rdma: byte 7 of the peer's request is %u, not 0",
                          (unsigned)bytes[7]);
    }
    for (size_t i = MC_RDMA_REQUEST_LEN; i < len; i++) {
        if (bytes[i] != 0) {
            return mc_err_set(MOONCAKE_ERPC, "rdma: the peer's request is longer than %u bytes",
                              MC_RDMA_REQUEST_LEN);
        }
    }
    if (bytes[4] == 0 || (bytes[4] & ~both) != 0) {
        return mc_err_set(MOONCAKE_EINVAL, "rdma: the peer's extent has the unknown rights %u",
                          (unsigned)bytes[4]);
    }
    if (bytes[5] >= bytes[6]) {
        return mc_err_set(MOONCAKE_EINVAL, "rdma: the peer's extent is slice %u of %u",
                          (unsigned)bytes[5], (unsigned)bytes[6]);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_rdma_request_decode(const uint8_t *bytes, size_t len, struct mc_rdma_request *out)
{
    MC_TRY(check_head(bytes, len, MC_RDMA_REQUEST_LEN, "request"));
    MC_TRY(check_request(bytes, len));
    out->right = (enum mc_rights)bytes[3];
    out->extent = (struct mc_extent_ref){
        .mount_id = mc_load_u64(bytes + 8),
        .offset = mc_load_u64(bytes + 16),
        .payload_len = mc_load_u64(bytes + 24),
        .capability = mc_load_u64(bytes + 32),
        .object_id = {.hi = mc_load_u64(bytes + 40), .lo = mc_load_u64(bytes + 48)},
        .slice_index = bytes[5],
        .slice_count = bytes[6],
        .rights = bytes[4],
    };
    return MOONCAKE_OK;
}

size_t mc_rdma_answer_encode(const struct mc_rdma_answer *answer,
                             uint8_t out[MC_RDMA_ANSWER_LEN_MAX])
{
    MC_ASSERT(answer->parts > 0 && answer->parts <= MC_RDMA_PARTS_MAX);
    put_head(out, (uint8_t)answer->parts);
    mc_store_u32(out + 4, answer->mtu);
    mc_store_u64(out + 8, answer->base);
    mc_store_u64(out + 16, answer->len);
    mc_store_u64(out + 24, answer->part_len);
    for (unsigned i = 0; i < answer->parts; i++) {
        mc_store_u32(out + 32 + (size_t)4 * i, answer->keys[i]);
    }
    return 32 + (size_t)4 * answer->parts;
}

mooncake_err mc_rdma_answer_decode(const uint8_t *bytes, size_t len, struct mc_rdma_answer *out)
{
    struct mc_rdma_answer answer;

    MC_TRY(check_head(bytes, len, 36, "answer"));
    answer = (struct mc_rdma_answer){.parts = bytes[3],
                                     .mtu = mc_load_u32(bytes + 4),
                                     .base = mc_load_u64(bytes + 8),
                                     .len = mc_load_u64(bytes + 16),
                                     .part_len = mc_load_u64(bytes + 24)};
    if (answer.parts == 0 || answer.parts > MC_RDMA_PARTS_MAX ||
        len < 32 + (size_t)4 * answer.parts || answer.len == 0 || answer.part_len == 0 ||
        answer.len > UINT64_MAX - answer.base ||
        (answer.len - 1) / answer.part_len + 1 != answer.parts ||
        (answer.parts > 1 && answer.part_len % HEADER_ALIGN != 0)) {
        return mc_err_set(MOONCAKE_ERPC, "rdma: the store's answer makes no sense (%u parts)",
                          answer.parts);
    }
    for (unsigned i = 0; i < answer.parts; i++) {
        answer.keys[i] = mc_load_u32(bytes + 32 + (size_t)4 * i);
    }
    *out = answer;
    return MOONCAKE_OK;
}

size_t mc_rdma_refusal_encode(mooncake_err err, const char *text,
                              uint8_t out[MC_RDMA_REFUSAL_LEN_MAX])
{
    size_t len = strnlen(text, MC_RDMA_REFUSAL_TEXT_MAX);

    put_head(out, (uint8_t)len);
    mc_store_u32(out + 4, (uint32_t)err);
    memcpy(out + REFUSAL_HEAD_LEN, text, len);
    return REFUSAL_HEAD_LEN + len;
}

mooncake_err mc_rdma_refusal_decode(const uint8_t *bytes, size_t len,
                                    char out_text[MC_RDMA_REFUSAL_TEXT_MAX + 1])
{
    size_t text_len;
    mooncake_err err;

    out_text[0] = '\0';
    if (len < REFUSAL_HEAD_LEN || mc_load_u16(bytes) != MAGIC) {
        return MOONCAKE_ERPC;
    }
    text_len = bytes[3] < MC_RDMA_REFUSAL_TEXT_MAX ? bytes[3] : MC_RDMA_REFUSAL_TEXT_MAX;
    text_len = text_len < len - REFUSAL_HEAD_LEN ? text_len : len - REFUSAL_HEAD_LEN;
    for (size_t i = 0; i < text_len; i++) {
        uint8_t c = bytes[REFUSAL_HEAD_LEN + i];

        out_text[i] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : (char)c;
    }
    out_text[text_len] = '\0';
    err = mc_err_from_wire((int)mc_load_u32(bytes + 4));
    return err == MOONCAKE_OK ? MOONCAKE_ERPC : err;
}

unsigned mc_rdma_part_of(const struct mc_rdma_answer *answer, uint64_t at, uint64_t *out_left)
{
    uint64_t part = at / answer->part_len;
    uint64_t begin = part * answer->part_len; /* at most at */
    uint64_t part_len =
        answer->len - begin < answer->part_len ? answer->len - begin : answer->part_len;

    MC_ASSERT(at < answer->len && part < answer->parts);
    *out_left = part_len - (at - begin);
    return (unsigned)part;
}

/* ---- addresses ------------------------------------------------------------------------------- */

mooncake_err mc_rdma_place_print(const struct mc_rdma_place *place, char *out, size_t cap)
{
    char host[INET6_ADDRSTRLEN];
    bool v6 = place->address.any.sa_family == AF_INET6;
    unsigned port = ntohs(v6 ? place->address.v6.sin6_port : place->address.v4.sin_port);
    int len;

    (void)mc_rdma_address_print(&place->address, host, sizeof(host));
    len = snprintf(out, cap, MC_RDMA_SCHEME "%s%s%s:%u?dev=%s&gid=%s&numa=%d&mtu=%u", v6 ? "[" : "",
                   host, v6 ? "]" : "", port, place->device, place->gid_kind, place->numa_node,
                   place->mtu);
    if (len < 0 || (size_t)len >= cap) {
        return mc_err_set(MOONCAKE_EINVAL, "rdma: the address of %s is too long", place->device);
    }
    return MOONCAKE_OK;
}

static mooncake_err parse_host(const char *text, size_t len, union mc_rdma_address *out)
{
    char copy[128], host[128];
    uint16_t port = 0;

    if (len >= sizeof(copy)) {
        return MOONCAKE_EINVAL;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    MC_TRY(mc_parse_address(copy, 0, host, sizeof(host), &port));
    memset(out, 0, sizeof(*out));
    if (port == 0) {
        return MOONCAKE_EINVAL;
    }
    if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(port);
    } else if (inet_pton(AF_INET6, host, &out->v6.sin6_addr) == 1) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons(port);
    } else {
        return MOONCAKE_EINVAL; /* names are not resolved here: a store advertises numbers */
    }
    return MOONCAKE_OK;
}

/* The value of "key=" at @p word. False: it is another key, or the value is too long. */
static bool take_value(const char *word, size_t len, const char *key, char *out, size_t cap)
{
    size_t key_len = strlen(key);

    if (len < key_len || memcmp(word, key, key_len) != 0 || len - key_len >= cap) {
        return false;
    }
    memcpy(out, word + key_len, len - key_len);
    out[len - key_len] = '\0';
    return true;
}

static void parse_word(const char *word, size_t len, struct mc_rdma_place *place)
{
    char text[16];
    uint64_t value;

    if (take_value(word, len, "dev=", place->device, sizeof(place->device)) ||
        take_value(word, len, "gid=", place->gid_kind, sizeof(place->gid_kind))) {
        return;
    }
    if (take_value(word, len, "numa=", text, sizeof(text)) &&
        mc_parse_u64(text, 0, 4095, &value) == MOONCAKE_OK) {
        place->numa_node = (int)value;
    } else if (take_value(word, len, "mtu=", text, sizeof(text)) &&
               mc_parse_u64(text, 256, 4096, &value) == MOONCAKE_OK) {
        place->mtu = (uint32_t)value;
    }
}

mooncake_err mc_rdma_place_parse(const char *text, size_t len, struct mc_rdma_place *out)
{
    struct mc_rdma_place place = {.numa_node = -1};
    const size_t scheme_len = strlen(MC_RDMA_SCHEME);
    const char *end = text + len;
    const char *question;

    if (len <= scheme_len || len > MC_RDMA_ADDRESS_LEN_MAX ||
        memcmp(text, MC_RDMA_SCHEME, scheme_len) != 0) {
        return MOONCAKE_EINVAL;
    }
    text += scheme_len;
    question = memchr(text, '?', (size_t)(end - text));
    MC_TRY(parse_host(text, (size_t)((question == NULL ? end : question) - text), &place.address));
    while (question != NULL) {
        const char *word = question + 1;
        const char *next = memchr(word, '&', (size_t)(end - word));

        parse_word(word, (size_t)((next == NULL ? end : next) - word), &place);
        question = next;
    }
    *out = place;
    return MOONCAKE_OK;
}

unsigned mc_rdma_places_parse(const char *addresses, struct mc_rdma_place *out, unsigned max)
{
    unsigned count = 0;

    for (const char *at = addresses + strspn(addresses, " "); *at != '\0' && count < max;) {
        size_t len = strcspn(at, " ");

        if (mc_rdma_place_parse(at, len, &out[count]) == MOONCAKE_OK) {
            count++;
        }
        at += len;
        at += strspn(at, " ");
    }
    return count;
}
