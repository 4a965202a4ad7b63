/* Names, texts and radii of the error list, and the thread's last detail. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define DETAIL_LEN_MAX 512

static _Thread_local char detail[DETAIL_LEN_MAX];

const char *mooncake_err_name(mooncake_err err)
{
    switch (err) {
#define NAME(name, number, radius, text)                                                           \
    case MOONCAKE_##name:                                                                          \
        return #name;
        MOONCAKE_ERR_LIST(NAME)
#undef NAME
    }
    return "EUNKNOWN";
}

const char *mooncake_err_text(mooncake_err err)
{
    switch (err) {
#define TEXT(name, number, radius, text)                                                           \
    case MOONCAKE_##name:                                                                          \
        return text;
        MOONCAKE_ERR_LIST(TEXT)
#undef TEXT
    }
    return "a number that is not in the list of errors";
}

enum mc_err_radius mc_err_radius(mooncake_err err)
{
    switch (err) {
#define RADIUS(name, number, radius, text)                                                         \
    case MOONCAKE_##name:                                                                          \
        return MC_ERR_RADIUS_##radius;
        MOONCAKE_ERR_LIST(RADIUS)
#undef RADIUS
    }
    return MC_ERR_RADIUS_BUG;
}

bool mc_err_known(int number)
{
    switch (number) {
#define KNOWN(name, number, radius, text) case (number):
        MOONCAKE_ERR_LIST(KNOWN)
#undef KNOWN
        return true;
    default:
        return false;
    }
}

mooncake_err mc_err_from_wire(int number)
{
    return mc_err_known(number) ? (mooncake_err)number : MOONCAKE_EINTERNAL;
}

mooncake_err mc_err_from_errno(int error)
{
    switch (error) {
    case 0:
        return MOONCAKE_OK;
    case ENOMEM:
        return MOONCAKE_ENOMEM;
    case EINVAL:
        return MOONCAKE_EINVAL;
    case ETIMEDOUT:
        return MOONCAKE_ETIMEDOUT;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENETRESET:
    case ESHUTDOWN:
    case ENOTCONN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EADDRNOTAVAIL:
    case EADDRINUSE:
        return MOONCAKE_ERPC;
    default:
        return MOONCAKE_EINTERNAL;
    }
}

mooncake_err mc_err_set(mooncake_err err, const char *fmt, ...)
{
    char fresh[DETAIL_LEN_MAX]; /* the arguments may hold mooncake_last_error() itself */
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(fresh, sizeof(fresh), fmt, args);
    va_end(args);
    mc_text_hide_controls(fresh);
    memcpy(detail, fresh, strlen(fresh) + 1);
    return err;
}

void mc_err_clear(void)
{
    detail[0] = '\0';
}

const char *mooncake_last_error(void)
{
    return detail;
}
