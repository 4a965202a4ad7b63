/* Small checks that the public functions share. */
#include "client/api.h"

#include <string.h>

mooncake_err mc_api_need(const void *pointer, const char *name)
{
    if (pointer == NULL) {
        mc_err_clear();
        return mc_err_set(MOONCAKE_EINVAL, "%s: is NULL", name);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_api_fail_all(mooncake_err *results, size_t count, mooncake_err err)
{
    for (size_t i = 0; results != NULL && i < count; i++) {
        results[i] = err;
    }
    return err;
}

void mc_api_init_options(void *options, size_t size, const void *defaults, size_t defaults_size)
{
    if (options != NULL) {
        memset(options, 0, size);
        memcpy(options, defaults, size < defaults_size ? size : defaults_size);
    }
}

void mooncake_put_options_init_sized(mooncake_put_options *options, size_t size)
{
    const mooncake_put_options defaults = {.struct_size = size, .replicas = 1};

    mc_api_init_options(options, size, &defaults, sizeof(defaults));
}

static mooncake_err check_preferred(const mooncake_put_options *options)
{
    if (options->preferred_segments_count > MC_SEGMENTS_PER_STORE_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "preferred_segments: %zu names; at most %u are allowed",
                          options->preferred_segments_count, MC_SEGMENTS_PER_STORE_MAX);
    }
    if (options->preferred_segments_count > 0) {
        MC_TRY(mc_api_need(options->preferred_segments, "preferred_segments"));
    }
    for (size_t i = 0; i < options->preferred_segments_count; i++) {
        MC_TRY(mc_api_need(options->preferred_segments[i], "preferred_segments[i]"));
        if (strnlen(options->preferred_segments[i], MC_SEGMENT_NAME_LEN_MAX + 1) >
            MC_SEGMENT_NAME_LEN_MAX) {
            return mc_err_set(MOONCAKE_EINVAL, "preferred_segments[%zu]: longer than %u bytes", i,
                              MC_SEGMENT_NAME_LEN_MAX);
        }
    }
    return MOONCAKE_OK;
}

mooncake_err mc_api_put_options(const mooncake_put_options *given, mooncake_put_options *out)
{
    mooncake_put_options_init(out);
    if (given != NULL) {
        if (given->struct_size < offsetof(mooncake_put_options, soft_pin)) {
            return mc_err_set(MOONCAKE_EINVAL,
                              "options: struct_size is %zu; call "
                              "mooncake_put_options_init() first",
                              given->struct_size);
        }
        memcpy(out, given, given->struct_size < sizeof(*out) ? given->struct_size : sizeof(*out));
    }
    if (out->replicas < 1 || out->replicas > MC_REPLICAS_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "replicas: %u; allowed are 1 to %u", out->replicas,
                          MC_REPLICAS_MAX);
    }
    return check_preferred(out);
}
