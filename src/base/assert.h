/*
 * Asserts that stay on in release builds, and the small macros everything uses. A failed assert is
 * a bug in this program: it logs one line and aborts. Input from outside is never asserted on.
 */
#ifndef MC_BASE_ASSERT_H
#define MC_BASE_ASSERT_H

#include <stddef.h>

#define MC_MUST_CHECK __attribute__((warn_unused_result))
#define MC_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define MC_LIKELY(x) __builtin_expect(!!(x), 1)
#define MC_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define MC_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The struct that holds @p member at @p ptr. */
#define MC_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/** Print the failed expression to standard error and abort. */
_Noreturn void mc_assert_failed(const char *expr, const char *file, int line);

#define MC_ASSERT(expr)                                                                            \
    do {                                                                                           \
        if (MC_UNLIKELY(!(expr))) {                                                                \
            mc_assert_failed(#expr, __FILE__, __LINE__);                                           \
        }                                                                                          \
    } while (0)

/* Return the error of @p call to our caller unless it is MOONCAKE_OK. */
#define MC_TRY(call)                                                                               \
    do {                                                                                           \
        mooncake_err try_err_ = (call);                                                            \
        if (MC_UNLIKELY(try_err_ != MOONCAKE_OK)) {                                                \
            return try_err_;                                                                       \
        }                                                                                          \
    } while (0)

#endif
