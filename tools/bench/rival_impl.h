/* Between rival.c, which starts servers, and rival_talk.c, which talks with them. */
#ifndef MC_BENCH_RIVAL_IMPL_H
#define MC_BENCH_RIVAL_IMPL_H

#include "rival.h"

#define MC_RIVAL_BUFFER_LEN ((size_t)64 << 10)

static inline bool mc_rival_is_redis(const struct mc_rival *rival)
{
    return rival->kind == MC_RIVAL_REDIS_TCP || rival->kind == MC_RIVAL_REDIS_UNIX;
}

static inline bool mc_rival_is_unix(enum mc_rival_kind kind)
{
    return kind == MC_RIVAL_REDIS_UNIX || kind == MC_RIVAL_MEMCACHED_UNIX;
}

#endif
