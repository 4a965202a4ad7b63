/*
 * What the numbers of the messages are called wherever a person reads them: logs, pages, the
 * library, mooncakectl. A number that is not ours, of a newer master, is "unknown". Inline, as the
 * master's core has the messages and nothing else of this room.
 */
#ifndef MC_WIRE_NAMES_H
#define MC_WIRE_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "wire/messages.h"

static inline const char *mc_name_of(const char *const *names, size_t count, uint32_t number)
{
    return number < count && names[number] != NULL ? names[number] : "unknown";
}

/** Of a mc_segment_state. */
static inline const char *mc_segment_state_name(uint32_t state)
{
    static const char *const names[] = {
        [MC_SEGMENT_OK] = "ok",
        [MC_SEGMENT_DRAINING] = "draining",
        [MC_SEGMENT_SUSPECT] = "suspect",
        [MC_SEGMENT_GONE] = "gone",
    };

    return mc_name_of(names, MC_ARRAY_LEN(names), state);
}

/** Of a mc_role. */
static inline const char *mc_role_name(uint32_t role)
{
    static const char *const names[] = {
        [MC_ROLE_CLIENT] = "client",
        [MC_ROLE_STORE] = "store",
        [MC_ROLE_TOOL] = "tool",
    };

    return mc_name_of(names, MC_ARRAY_LEN(names), role);
}

/** Of a mc_exclusion; "" for none. */
static inline const char *mc_exclusion_name(uint32_t reason)
{
    static const char *const names[] = {
        [MC_EXCLUDED_NOT] = "",
        [MC_EXCLUDED_LEAVING] = "leaving",
        [MC_EXCLUDED_DRAINED] = "drained",
        [MC_EXCLUDED_REPORTED] = "unreachable",
        [MC_EXCLUDED_LOST] = "lost",
    };

    return mc_name_of(names, MC_ARRAY_LEN(names), reason);
}

#endif
