/*
 * A few threads that help with copies between segments of this host and callers' memory. The caller
 * works too, and returns when every piece is done: no thread touches its memory afterwards.
 *
 * Thread: any, several callers at a time. Threads are made when they are first of use, and end with
 * the pool. A forked child has none of them and must leave the pool alone.
 */
#ifndef MC_TRANSPORT_DIRECT_POOL_H
#define MC_TRANSPORT_DIRECT_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MC_DIRECT_POOL_THREADS_MAX 64u
/* Work of fewer bytes is done before a thread has woken up to help. */
#define MC_DIRECT_POOL_LEN_MIN ((uint64_t)2 << 20)

struct mc_direct_pool;

/** @p threads besides the caller, 1 at least; work of less than @p len_min bytes is not shared. */
mooncake_err mc_direct_pool_create(unsigned threads, uint64_t len_min,
                                   struct mc_direct_pool **out) MC_MUST_CHECK;
/** Nobody is in mc_direct_pool_run(). Accepts NULL, nulls *pool. */
void mc_direct_pool_destroy(struct mc_direct_pool **pool);
/** How many work at a time, the caller included. 1 for NULL. */
unsigned mc_direct_pool_width(const struct mc_direct_pool *pool);
/** Call @p work for each of @p count pieces, @p len bytes in all, once each and in any order. @p
 * pool NULL: the caller does it alone. */
void mc_direct_pool_run(struct mc_direct_pool *pool, void (*work)(void *arg, size_t piece),
                        void *arg, size_t count, uint64_t len);

#endif
