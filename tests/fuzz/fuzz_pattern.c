/*
 * A regular expression from outside, up to the first NUL, on keys, each up to the next NUL. Laws:
 * taken or refused with a sentence; what is refused leaves the result untouched; one match and all
 * of them take bounded time; a pattern of letters alone is found where the letters are; the same
 * question has the same answer.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/limits.h"
#include "base/mem.h"
#include "master/pattern.h"

#include "law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define KEYS_MAX 16u
/* CPU time of one input. A match is a tenth of a millisecond at most, a pattern of 1 KiB compiles
 * in less than that; the rest is for sanitizers and slow machines. */
#define CPU_NS_MAX (1000ull * 1000 * 1000)
#define MEMORY_BLOCKS_MAX 1

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    law(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        if (!isalnum((unsigned char)*text) && strchr("/_-:", *text) == NULL) {
            return false;
        }
    }
    return true;
}

/* False: the request is to be given up. */
static bool match_key(struct mc_pattern *pattern, const char *text, const uint8_t *key, size_t len)
{
    uint8_t *exact = malloc(len + 1); /* len may be 0, a key's may not; all the same to a pattern */
    bool found = true, again = false;
    mooncake_err err;

    law(exact != NULL);
    memcpy(exact, key, len);
    mc_err_clear();
    err = mc_pattern_match(pattern, (const char *)exact, len, &found);
    if (err != MOONCAKE_OK) {
        law(err == MOONCAKE_EINVAL && found && mooncake_last_error()[0] != '\0');
    } else {
        law(!is_plain(text) || found == (memmem(exact, len, text, strlen(text)) != NULL));
        /* Near the limit of time it may be refused at another try. */
        err = mc_pattern_match(pattern, (const char *)exact, len, &again);
        law(err == MOONCAKE_EINVAL || (err == MOONCAKE_OK && found == again));
    }
    free(exact);
    return err == MOONCAKE_OK;
}

static void match_keys(struct mc_pattern *pattern, const char *text, const uint8_t *keys,
                       size_t len)
{
    size_t at = 0;

    for (unsigned i = 0; i < KEYS_MAX && at < len; i++) {
        size_t key_len = strnlen((const char *)keys + at, len - at);

        if (!match_key(pattern, text, keys + at, key_len)) {
            break;
        }
        at += key_len + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    size_t text_len = strnlen((const char *)data, len);
    char *text = strndup((const char *)data, text_len);
    struct mc_pattern *pattern = NULL;
    uint64_t start_ns = cpu_ns();
    mooncake_err err;

    law(text != NULL);
    mc_err_clear();
    err = mc_pattern_create(text, &pattern);
    if (err != MOONCAKE_OK) {
        law(err == MOONCAKE_EINVAL && pattern == NULL && mooncake_last_error()[0] != '\0');
    } else {
        law(text_len <= MC_PATTERN_LEN_MAX && mc_mem_live_count() <= MEMORY_BLOCKS_MAX);
        if (text_len < len) {
            match_keys(pattern, text, data + text_len + 1, len - text_len - 1);
        }
        mc_pattern_destroy(&pattern);
        law(pattern == NULL);
    }
    law(mc_mem_live_count() == 0);
    law(cpu_ns() - start_ns < CPU_NS_MAX);
    free(text);
    return 0;
}
