/*
 * Patterns.
 *
 * Design notes
 * - PCRE2 counts its match limit anew for each place where a match may start, and does not count
 *   plain letters at all: with it alone, one match on a key of 3 KiB took 2.7 s. So each item of a
 *   pattern carries a callout, where we count, over all places; an item like .* that walks the key
 *   pays for its way. MATCH_STEPS_MAX is about 0.5 ms.
 * - That is still 100 s for 200,000 keys, so all matches of a request share an account too: each
 *   pays the steps that it took and adds STEPS_PER_MATCH. Steps and not time, because time also
 *   counts what a busy machine or a hypervisor takes away, and an honest pattern must never be
 *   refused for that. A page of a listing has an account of its own: a hostile pattern is broke on
 *   its first.
 * - A step is no exact unit of time. The CPU clock stops what is too costly all the same, late
 *   enough that no pause of this thread looks like it.
 * - No JIT: it wants memory that is writable and executable.
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

/* Steps that a match may take at most; that it may take on average, about 8 us; and what an account
 * has at the start. */
#define MATCH_STEPS_MAX 30000u
#define STEPS_PER_MATCH 800u
#define STEPS_AT_START MATCH_STEPS_MAX
/* Bytes of the key that an item may walk for one step. */
#define BYTES_PER_STEP 32u

#define METER_EVERY 32u
#define AVERAGE_NS_MAX 20000u
#define GRACE_NS (500u * MC_NS_PER_MS)

struct mc_pattern {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *limits;
    uint64_t steps;     /* of the match under way */
    size_t at;          /* in its key, at its last step */
    int64_t steps_left; /* of the account */
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
    pattern->code =
        pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                      PCRE2_NEVER_UTF | PCRE2_DOTALL | PCRE2_AUTO_CALLOUT, &error, &at, context);
    pcre2_compile_context_free(context);
    if (pattern->code == NULL) {
        (void)pcre2_get_error_message(error, why, sizeof(why));
        return mc_err_set(MOONCAKE_EINVAL, "pattern: \"%.80s\": %s at byte %zu", text,
                          (const char *)why, (size_t)at);
    }
    return MOONCAKE_OK;
}

/* Before each item of the pattern that is tried. */
static int count_step(pcre2_callout_block *block, void *arg)
{
    struct mc_pattern *const pattern = arg;
    size_t const at = block->current_position;
    size_t const way = at > pattern->at ? at - pattern->at : pattern->at - at;

    pattern->at = at;
    pattern->steps += 1 + way / BYTES_PER_STEP;
    return pattern->steps > MATCH_STEPS_MAX ? PCRE2_ERROR_MATCHLIMIT : 0;
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
    (void)pcre2_set_callout(pattern->limits, count_step, pattern);
    (void)pcre2_set_match_limit(pattern->limits, MATCH_LIMIT);
    (void)pcre2_set_depth_limit(pattern->limits, DEPTH_LIMIT);
    (void)pcre2_set_heap_limit(pattern->limits, HEAP_LIMIT_KIB);
    pattern->steps_left = STEPS_AT_START;
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

static mooncake_err refuse(const char *what, unsigned steps)
{
    return mc_err_set(MOONCAKE_EINVAL,
                      "pattern: takes more than %u steps %s; anchor it (^...) or write it without "
                      "nested repetition",
                      steps, what);
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
    if (pattern->cpu_ns > GRACE_NS + pattern->matches * AVERAGE_NS_MAX) {
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
    pattern->steps = 0;
    pattern->at = 0;
    found =
        pcre2_match(pattern->code, (PCRE2_SPTR)bytes, len, 0, 0, pattern->data, pattern->limits);
    pattern->steps_left += (int64_t)STEPS_PER_MATCH - (int64_t)pattern->steps;
    if (pattern->steps_left < 0 && (found == PCRE2_ERROR_NOMATCH || found >= 0)) {
        return refuse("a key on average", STEPS_PER_MATCH);
    }
    switch (found) {
    case PCRE2_ERROR_NOMATCH:
        *out_matches = false;
        return MOONCAKE_OK;
    case PCRE2_ERROR_NOMEMORY:
        return MOONCAKE_ENOMEM;
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
        return refuse("on one key", MATCH_STEPS_MAX);
    default:
        break;
    }
    if (found < 0) {
        return mc_err_set(MOONCAKE_EINVAL, "pattern: PCRE2 fails with %d on a key", found);
    }
    *out_matches = true;
    return MOONCAKE_OK;
}
