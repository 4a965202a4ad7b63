/*
 * Regular expressions over keys, for listing and removal, made safe for the core's thread: PCRE2
 * with limits on one match, and a bound on what all matches of one request may cost on average. A
 * pattern beyond either is refused, so that a hostile one on a full table ends soon.
 *
 * A key matches if the pattern is found anywhere in it; anchor it with ^ and $ for whole keys.
 */
#ifndef MC_MASTER_PATTERN_H
#define MC_MASTER_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

struct mc_pattern;

/**
 * @retval EINVAL  no regular expression (the sentence has PCRE2's reason and the position), or
 *                 longer than MC_PATTERN_LEN_MAX
 * @retval ENOMEM
 */
mooncake_err mc_pattern_create(const char *text, struct mc_pattern **out) MC_MUST_CHECK;
/** Nulls *pattern; accepts NULL in it. */
void mc_pattern_destroy(struct mc_pattern **pattern);

/**
 * Is the pattern in these bytes?
 *
 * @retval EINVAL  it costs too much, on this key or on average: give the request up
 * @retval ENOMEM  PCRE2 found no memory
 */
mooncake_err mc_pattern_match(struct mc_pattern *pattern, const char *bytes, size_t len,
                              bool *out_matches) MC_MUST_CHECK;

#endif
