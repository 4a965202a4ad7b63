/* A ring of samples, and its JSON. */
#include "master/history.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"

void mc_history_add(struct mc_history *history, const struct mc_history_sample *sample)
{
    history->samples[history->next] = *sample;
    history->next = (history->next + 1) % MC_HISTORY_SAMPLES_MAX;
    if (history->count < MC_HISTORY_SAMPLES_MAX) {
        history->count++;
    }
}

_Static_assert(MC_HISTORY_STEP_MS == 10000u, "the JSON below says 10");

/* Text of at most 20 digits for each number, and what stands between them. */
#define LINE_LEN_MAX 300

static mooncake_err print_sample(const struct mc_history_sample *sample, uint64_t now_ns,
                                 bool first, struct mc_buf *out)
{
    double age = now_ns > sample->at_ns ? (double)(now_ns - sample->at_ns) / 1e9 : 0.0;
    char line[LINE_LEN_MAX];
    int len;

#define FORMAT(name) ",%" PRIu64
#define VALUE(name) , sample->name
    len = snprintf(line, sizeof(line), "%s[%.1f" MC_HISTORY_LIST(FORMAT) "]", first ? "" : ",",
                   age MC_HISTORY_LIST(VALUE));
#undef FORMAT
#undef VALUE
    MC_ASSERT(len > 0 && (size_t)len < sizeof(line));
    return mc_buf_append(out, line, (size_t)len);
}

mooncake_err mc_history_print(const struct mc_history *history, uint64_t now_ns, struct mc_buf *out)
{
#define NAME(name) ",\"" #name "\""
    static const char head[] =
        "{\"step_seconds\":10,\"fields\":[\"age_seconds\"" MC_HISTORY_LIST(NAME) "],\"samples\":[";
#undef NAME
    static const char tail[] = "]}\n";
    unsigned first = history->count < MC_HISTORY_SAMPLES_MAX ? 0 : history->next;
    unsigned i;

    MC_TRY(mc_buf_append(out, head, sizeof(head) - 1));
    for (i = 0; i < history->count; i++) {
        unsigned at = (first + i) % MC_HISTORY_SAMPLES_MAX;

        MC_TRY(print_sample(&history->samples[at], now_ns, i == 0, out));
    }
    return mc_buf_append(out, tail, sizeof(tail) - 1);
}
