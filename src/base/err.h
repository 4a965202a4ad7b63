/*
 * Private side of the error list: what an error spoils, the thread's detail text, and errors that
 * come from errno. Errors of libuv and protobuf are translated where those libraries are called.
 */
#ifndef MC_BASE_ERR_H
#define MC_BASE_ERR_H

#include <stdbool.h>

#include "base/assert.h"
#include "mooncake/error.h"

enum mc_err_radius {
    MC_ERR_RADIUS_CALL,
    MC_ERR_RADIUS_OBJECT,
    MC_ERR_RADIUS_PEER,
    MC_ERR_RADIUS_CLIENT,
    MC_ERR_RADIUS_BUG,
};

/** What @p err spoils. A number that is not in the list is a BUG. */
enum mc_err_radius mc_err_radius(mooncake_err err);

/** Is @p number in the list? For numbers that come from the wire. */
bool mc_err_known(int number);

/** @p number if it is in the list, else EINTERNAL. For numbers that come from the wire. */
mooncake_err mc_err_from_wire(int number);

/**
 * Our error for an errno of a socket, file or memory call. ENOMEM stays ENOMEM; time-outs become
 * ETIMEDOUT; everything about a connection becomes ERPC; what is left becomes EINTERNAL.
 */
mooncake_err mc_err_from_errno(int error);

/**
 * Remember, for the calling thread, a sentence about @p err for a person, and return @p err:
 *
 *     return mc_err_set(MOONCAKE_EINVAL, "segment_size: %s is not a size; write e.g. 4GiB", s);
 *
 * At most 511 bytes are kept; control characters, such as a newline that a parser quotes, become
 * '?'.
 */
mooncake_err mc_err_set(mooncake_err err, const char *fmt, ...) MC_PRINTF(2, 3);

/** Forget the thread's sentence. Every public call does this first. */
void mc_err_clear(void);

#endif
