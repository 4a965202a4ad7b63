/*
 * Patterns.
 *
 * Design notes: PCRE2's match limit bounds one match at about 100 us. That is still 20 s for
 * 200,000 keys, so the CPU time of all matches of a request is metered too: from METER_AFTER
 * matches on, they may take AVERAGE_NS_MAX each on average. Honest patterns on keys of 250 bytes
 * take well below 1 us. The meter is this thread's CPU clock, because other programs on the machine
 * must not make a pattern look costly. No JIT: it wants memory that is writable and executable.
 */
#include "master/pattern.h"

#include <string.h>
#include <time.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/clock.h"
#include "base/mem.h"

#define MATCH_LIMIT 10000u
#define DEPTH_LIMIT 1000u
#define HEAP_LIMIT_KIB 1024u
#define NEST_LIMIT 50u

#define METER_AFTER 256u
#define METER_EVERY 32u
#define AVERAGE_NS_MAX 8000u

struct mc_pattern {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
    uint64_t matches;
    uint64_t start_cpu_ns; /* of the METER_EVERY matches under way */
    uint64_t cpu_ns;       /* of those before */
};

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * MC_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static mooncake_err compile(struct mc_pattern *pattern, const char *text)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    PCRE2_UCHAR why[120];
    PCRE2_SIZE at = 0;
    int error = 0;

    if (context == NULL) {
        return MOONCAKE_ENOMEM;
    }
    (void)pcre2_set_parens_nest_limit(context, NEST_LIMIT);
    pattern->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                                  PCRE2_NEVER_UTF | PCRE2_DOTALL, &error, &at, context);
    pcre2_compile_context_free(context);
    if (pattern->code == NULL) {
        (void)pcre2_get_error_message(error, why, sizeof(why));
        return mc_err_set(MOONCAKE_EINVAL, "pattern: \"%.80s\": %s at byte %zu", text,
                          (const char *)why, (size_t)at);
    }
    return MOONCAKE_OK;
}

mooncake_err mc_pattern_create(const char *text, struct mc_pattern **out)
{
    struct mc_pattern *pattern;
    mooncake_err err;

    if (strnlen(text, MC_PATTERN_LEN_MAX + 1) > MC_PATTERN_LEN_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "pattern: is longer than %u bytes", MC_PATTERN_LEN_MAX);
    }
    pattern = mc_calloc(1, sizeof(*pattern));
    if (pattern == NULL) {
        return MOONCAKE_ENOMEM;
    }
    err = compile(pattern, text);
    if (err != MOONCAKE_OK) {
        mc_pattern_destroy(&pattern);
        return err;
    }
    pattern->data = pcre2_match_data_create(1, NULL);
    pattern->limits = pcre2_match_context_create(NULL);
    if (pattern->data == NULL || pattern->limits == NULL) {
        mc_pattern_destroy(&pattern);
        return MOONCAKE_ENOMEM;
    }
    (void)pcre2_set_match_limit(pattern->limits, MATCH_LIMIT);
    (void)pcre2_set_depth_limit(pattern->limits, DEPTH_LIMIT);
    (void)pcre2_set_heap_limit(pattern->limits, HEAP_LIMIT_KIB);
    *out = pattern;
    return MOONCAKE_OK;
}

void mc_pattern_destroy(struct mc_pattern **pattern_ptr)
{
    struct mc_pattern *pattern = *pattern_ptr;

    if (pattern == NULL) {
        return;
    }
    pcre2_match_context_free(pattern->limits);
    pcre2_match_data_free(pattern->data);
    pcre2_code_free(pattern->code);
    mc_free(pattern);
    *pattern_ptr = NULL;
}

/* Looks at the clock for a group of matches at once. A group that is cut in two by a pause of the
 * removal also counts what the core did in the pause, which is little beside its own keys. */
static mooncake_err meter(struct mc_pattern *pattern)
{
    if (pattern->matches % METER_EVERY == 0) {
        pattern->start_cpu_ns = cpu_ns();
    }
    pattern->matches++;
    if (pattern->matches % METER_EVERY != 0) {
        return MOONCAKE_OK;
    }
    pattern->cpu_ns += cpu_ns() - pattern->start_cpu_ns;
    if (pattern->matches > METER_AFTER && pattern->cpu_ns > pattern->matches * AVERAGE_NS_MAX) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "pattern: costs %u us of CPU a key on average, and at most %u are "
                          "allowed; anchor it (^...) or write it without nested repetition",
                          (unsigned)(pattern->cpu_ns / pattern->matches / MC_NS_PER_US),
                          (unsigned)(AVERAGE_NS_MAX / MC_NS_PER_US));
    }
    return MOONCAKE_OK;
}

mooncake_err mc_pattern_match(struct mc_pattern *pattern, const char *bytes, size_t len,
                              bool *out_matches)
{
    int found;

    MC_TRY(meter(pattern));
    found =
        pcre2_match(pattern->code, (PCRE2_SPTR)bytes, len, 0, 0, pattern->data, pattern->limits);
    switch (found) {
    case PCRE2_ERROR_NOMATCH:
        *out_matches = false;
        return MOONCAKE_OK;
    case PCRE2_ERROR_NOMEMORY:
        return MOONCAKE_ENOMEM;
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
        return mc_err_set(MOONCAKE_EINVAL,
                          "pattern: takes more than %u steps on one key; write "
                          "it without nested repetition",
                          MATCH_LIMIT);
    default:
        break;
    }
    if (found < 0) {
        return mc_err_set(MOONCAKE_EINVAL, "pattern: PCRE2 fails with %d on a key", found);
    }
    *out_matches = true;
    return MOONCAKE_OK;
}
