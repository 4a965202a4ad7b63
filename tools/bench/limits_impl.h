/* What the two halves of limits share. */
#ifndef MC_BENCH_LIMITS_IMPL_H
#define MC_BENCH_LIMITS_IMPL_H

#include "limits.h"

/** Write what failed, and errno's text. Returns false. */
bool mc_limits_fail(char *why, size_t why_len, const char *what);
/** Memory whose pages have all been touched; NULL: there is none. For munmap(). */
unsigned char *mc_limits_memory(size_t len);
/** The limits of loopback sockets. False: @p why says what failed. */
bool mc_limits_sockets(struct mc_limits *out, char *why, size_t why_len);

#endif
