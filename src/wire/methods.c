/* The codec table, from the one list of methods. */
#include "wire/methods.h"

#include "wire/codec.h"

static const struct mc_method_codec codecs[MC_METHOD_NUMBER_MAX + 1] = {
#define CODEC(number, NAME, low, request, reply)                                                   \
    [(number)] = {                                                                                 \
        .name = #low,                                                                              \
        .method = (number),                                                                        \
        .request_len = sizeof(struct request),                                                     \
        .reply_len = sizeof(struct reply),                                                         \
        .encode_request = mc_##low##_encode_request,                                               \
        .decode_request = mc_##low##_decode_request,                                               \
        .encode_reply = mc_##low##_encode_reply,                                                   \
        .decode_reply = mc_##low##_decode_reply,                                                   \
    },
    MC_METHOD_LIST(CODEC)
#undef CODEC
};

const struct mc_method_codec *mc_method_codec(unsigned method)
{
    return method <= MC_METHOD_NUMBER_MAX && codecs[method].name != NULL ? &codecs[method] : NULL;
}

const char *mc_method_name(unsigned method)
{
    const struct mc_method_codec *codec = mc_method_codec(method);

    return codec == NULL ? "unknown" : codec->name;
}
