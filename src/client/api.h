/* Small checks that the public functions share. */
#ifndef MC_CLIENT_API_H
#define MC_CLIENT_API_H

#include "client/call.h"

/** EINVAL naming the argument unless @p pointer is one. */
mooncake_err mc_api_need(const void *pointer, const char *name) MC_MUST_CHECK;
/** Fill the caller's structure of @p size bytes with defaults; zero what we do not know of. */
void mc_api_init_options(void *options, size_t size, const void *defaults, size_t defaults_size);
/** Every item's result is @p err. Returns err. */
mooncake_err mc_api_fail_all(mooncake_err *results, size_t count, mooncake_err err);
/** The options in force: those given, over the defaults, checked. */
mooncake_err mc_api_put_options(const mooncake_put_options *given,
                                mooncake_put_options *out) MC_MUST_CHECK;

#endif
