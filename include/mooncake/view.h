/*
 * Looking at values where they lie. A view is a read-only look at one value: at the memory of a
 * store on this host, or of this process, without a copy, where all of the value lies there in one
 * piece and can be proven; else at a copy that the view owns. The caller sees no difference but in
 * time and memory.
 *
 * While a view in place is open, the client renews its lease, from a thread of its own, at half of
 * the lease time. So the bytes stay what they are until mooncake_view_release(), also if meanwhile
 * the key is asked to be removed (refused: MOONCAKE_ELEASED), removed by force or replaced (the key
 * shows that at once, the space is kept for the view), the pool is full, or the store dies (its
 * memory stays mapped here). Three things end that: the client could not reach its master for a
 * whole lease time, the master began a new life, or the master gave the store up and the store
 * began anew. Looking is safe then too, but the bytes may be those of other values:
 * mooncake_view_check() tells.
 */
#ifndef MOONCAKE_VIEW_H
#define MOONCAKE_VIEW_H

#include "mooncake/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A look at one value. Opaque; made by mooncake_get_view(). */
typedef struct mooncake_view mooncake_view;

/** How to look. Call mooncake_view_options_init() first. */
typedef struct mooncake_view_options {
    size_t struct_size;
    /** Longest value, in bytes, of which a copy is made if it cannot be looked at in place
     * (UINT64_MAX: any); a longer one gives MOONCAKE_ENOTSUP. 0: no copies. */
    uint64_t copy_len_max;
} mooncake_view_options;

/**
 * Set every field of a view's options to its default, as mooncake_view_options_init() does.
 *
 * @param options  the caller's
 * @param size     of the structure as the caller knows it, in bytes; later versions are longer
 */
MOONCAKE_API void mooncake_view_options_init_sized(mooncake_view_options *options, size_t size);

/** Set every field of a view's options to its default. */
static inline void mooncake_view_options_init(mooncake_view_options *options)
{
    mooncake_view_options_init_sized(options, sizeof(*options));
}

/**
 * Look at one value. It is proven as the client's `verify` says before this returns.
 *
 * @param options   borrowed for the call; NULL: all defaults
 * @param out_view  the caller's; give it to mooncake_view_release(), before
 *                  mooncake_client_close()
 * @retval MOONCAKE_ENOTSUP  it cannot be looked at in place, and is longer than copy_len_max
 * @retval MOONCAKE_ENOMEM   no memory for the copy
 * Other errors are those of mooncake_get().
 */
MOONCAKE_API mooncake_err mooncake_get_view(mooncake_client *client, const char *key,
                                            const mooncake_view_options *options,
                                            uint32_t timeout_ms, mooncake_view **out_view);

/**
 * The bytes of a view. Whoever writes there harms others' values. In a forked child those in place
 * are not mapped.
 *
 * @return never NULL, also of an empty value
 */
MOONCAKE_API const void *mooncake_view_data(const mooncake_view *view);
/** Length of the value that a view is of. @return bytes */
MOONCAKE_API uint64_t mooncake_view_size(const mooncake_view *view);
/** Is a view at the store's own memory, and not at a copy? @return true if in place */
MOONCAKE_API bool mooncake_view_in_place(const mooncake_view *view);

/**
 * Were the bytes all the time, until now, those that were proven? Asked after the last look, OK
 * covers all that was read before. Costs a system call. A copy is always OK.
 *
 * @retval MOONCAKE_ELEASEEXPIRED  not assured any more, or its store has died
 */
MOONCAKE_API mooncake_err mooncake_view_check(const mooncake_view *view);

/**
 * Stop looking: the pointer is invalid. From any thread, once. NULL is ignored. After
 * mooncake_client_close(), which ends the renewal of leases and waits for no view, and in a forked
 * child it is allowed, and frees what is left.
 */
MOONCAKE_API void mooncake_view_release(mooncake_view *view);

/**
 * As mooncake_get_view() for many keys, each judged alone.
 *
 * @param out_views  out_views[i] is NULL where results[i] is not OK; release each of the others
 */
MOONCAKE_API mooncake_err mooncake_get_views(mooncake_client *client, const char *const *keys,
                                             size_t count, const mooncake_view_options *options,
                                             uint32_t timeout_ms, mooncake_err *results,
                                             mooncake_view **out_views);

#ifdef __cplusplus
}
#endif

#endif
