/*
 * What the two ends of an RDMA connection tell each other, and the list of addresses of a store.
 * The first byte chooses. Laws: what decodes encodes to the same bytes; what is refused leaves the
 * result untouched; whatever answer is believed, no extent's header is cut by its parts, and each
 * byte of the segment is in one of them; a reason is one printable line; an address prints and
 * parses to itself.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/rdma_wire.h"

#include "law.h"

#define HEADER_LEN 64u
#define PLACES_MAX 8u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_request(const uint8_t *bytes, size_t len)
{
    struct mc_rdma_request request;
    struct mc_rdma_request before;
    uint8_t again[MC_RDMA_REQUEST_LEN];

    memset(&request, 0x77, sizeof(request));
    memcpy(&before, &request, sizeof(before));
    if (mc_rdma_request_decode(bytes, len, &request) != MOONCAKE_OK) {
        law(memcmp(&request, &before, sizeof(before)) == 0);
        law(mooncake_last_error()[0] != '\0');
        return;
    }
    law(mc_rdma_request_encode(&request, again) == MOONCAKE_OK);
    law(len >= sizeof(again) && memcmp(again, bytes, sizeof(again)) == 0);
    law(request.right == MC_RIGHT_READ || request.right == MC_RIGHT_WRITE);
    law(request.extent.slice_index < request.extent.slice_count);
    for (size_t i = sizeof(again); i < len; i++) {
        law(bytes[i] == 0);
    }
}

/* Whoever believes @p answer looks at byte @p at of the segment. */
static void look_at(const struct mc_rdma_answer *answer, uint64_t at)
{
    uint64_t left = 0;
    unsigned part;

    if (at >= answer->len) {
        return;
    }
    part = mc_rdma_part_of(answer, at, &left);
    law(part < answer->parts && left > 0 && left <= answer->len - at);
    law(left == answer->len - at || mc_rdma_part_of(answer, at + left, &left) == part + 1);
    at -= at % HEADER_LEN;
    if (answer->len - at >= HEADER_LEN) {
        (void)mc_rdma_part_of(answer, at, &left);
        law(left >= HEADER_LEN);
    }
}

static void check_answer(const uint8_t *bytes, size_t len)
{
    struct mc_rdma_answer answer = {.parts = 77};
    uint8_t again[MC_RDMA_ANSWER_LEN_MAX];
    size_t again_len;

    if (mc_rdma_answer_decode(bytes, len, &answer) != MOONCAKE_OK) {
        law(answer.parts == 77 && mooncake_last_error()[0] != '\0');
        return;
    }
    again_len = mc_rdma_answer_encode(&answer, again);
    law(again_len <= len && memcmp(again, bytes, again_len) == 0);
    law(answer.base + answer.len >= answer.base);
    look_at(&answer, 0);
    look_at(&answer, answer.len - 1);
    for (unsigned i = 0; i < answer.parts; i++) {
        look_at(&answer, i * answer.part_len);
        look_at(&answer, i * answer.part_len + answer.part_len - 1);
        look_at(&answer, i * answer.part_len + answer.keys[i] % answer.part_len);
    }
}

static void check_refusal(const uint8_t *bytes, size_t len)
{
    char text[MC_RDMA_REFUSAL_TEXT_MAX + 1];
    uint8_t again[MC_RDMA_REFUSAL_LEN_MAX];
    char text_again[sizeof(text)];
    mooncake_err err;

    memset(text, 'x', sizeof(text));
    err = mc_rdma_refusal_decode(bytes, len, text);
    law(err != MOONCAKE_OK);
    law(memchr(text, '\0', sizeof(text)) != NULL);
    for (const char *at = text; *at != '\0'; at++) {
        law(*at >= ' ' && *at <= '~' && *at != '"' && *at != '\\');
    }
    len = mc_rdma_refusal_encode(err, text, again);
    law(mc_rdma_refusal_decode(again, len, text_again) == err);
    law(strcmp(text, text_again) == 0);
}

static void check_place(const struct mc_rdma_place *place)
{
    char text[MC_RDMA_ADDRESS_LEN_MAX];
    struct mc_rdma_place again;

    law(memchr(place->device, '\0', sizeof(place->device)) != NULL);
    law(memchr(place->gid_kind, '\0', sizeof(place->gid_kind)) != NULL);
    law(place->numa_node >= -1 && (place->mtu == 0 || place->mtu >= 256));
    if (mc_rdma_place_print(place, text, sizeof(text)) != MOONCAKE_OK) {
        return; /* it is too long */
    }
    law(mc_rdma_place_parse(text, strlen(text), &again) == MOONCAKE_OK);
    law(memcmp(&place->address, &again.address, sizeof(again.address)) == 0);
    law(strcmp(place->device, again.device) == 0 && strcmp(place->gid_kind, again.gid_kind) == 0);
    law(place->numa_node == again.numa_node && place->mtu == again.mtu);
}

static void check_list(const uint8_t *bytes, size_t len)
{
    struct mc_rdma_place places[PLACES_MAX];
    char *list = strndup((const char *)bytes, len); /* of exactly its length, for the sanitizer */
    unsigned count;

    law(list != NULL);
    count = mc_rdma_places_parse(list, places, PLACES_MAX);
    law(count <= PLACES_MAX);
    for (unsigned i = 0; i < count; i++) {
        check_place(&places[i]);
    }
    free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void (*const checks[])(const uint8_t *bytes, size_t len) = {check_request, check_answer,
                                                                       check_refusal, check_list};

    law_choose(data, len, checks, sizeof(checks) / sizeof(checks[0]));
    return 0;
}
