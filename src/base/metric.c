/* Metrics as Prometheus text, format 0.0.4. */
#include "base/metric.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_CAP 32

void mc_histogram_init(struct mc_histogram *histogram, const double *bounds, unsigned count,
                       double scale)
{
    MC_ASSERT(count <= MC_HISTOGRAM_BOUNDS_MAX);
    MC_ASSERT(scale > 0);
    for (unsigned i = 1; i < count; i++) {
        MC_ASSERT(bounds[i - 1] < bounds[i]);
    }
    histogram->bounds = bounds;
    histogram->bounds_count = count;
    histogram->scale = scale;
    atomic_init(&histogram->sum_scaled, 0);
    for (unsigned i = 0; i <= MC_HISTOGRAM_BOUNDS_MAX; i++) {
        atomic_init(&histogram->counts[i], 0);
    }
}

static unsigned bucket_of(const struct mc_histogram *histogram, uint64_t value)
{
    double shown = (double)value / histogram->scale;
    unsigned i = 0;

    while (i < histogram->bounds_count && shown > histogram->bounds[i]) {
        i++;
    }
    return i;
}

void mc_histogram_observe(struct mc_histogram *histogram, uint64_t value)
{
    unsigned const i = bucket_of(histogram, value);

    (void)atomic_fetch_add_explicit(&histogram->counts[i], 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&histogram->sum_scaled, value, memory_order_relaxed);
}

static void add_owner(_Atomic uint64_t *to, uint64_t n)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

void mc_histogram_observe_owner(struct mc_histogram *histogram, uint64_t value)
{
    add_owner(&histogram->counts[bucket_of(histogram, value)], 1);
    add_owner(&histogram->sum_scaled, value);
}

void mc_histogram_add(struct mc_histogram *to, const struct mc_histogram *from)
{
    MC_ASSERT(to->bounds == from->bounds);
    for (unsigned i = 0; i <= from->bounds_count; i++) {
        add_owner(&to->counts[i], atomic_load_explicit(&from->counts[i], memory_order_relaxed));
    }
    add_owner(&to->sum_scaled, atomic_load_explicit(&from->sum_scaled, memory_order_relaxed));
}

static mooncake_err append_text(struct mc_buf *out, const char *text)
{
    return mc_buf_append(out, text, strlen(text));
}

/* Bytes of the UTF-8 character at @p at (which ends with NUL), 0 if it is none. Overlong forms and
 * surrogates are none: a scraper refuses the whole page for one of them. */
static size_t utf8_len(const unsigned char *at)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t min;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

    for (size_t len = 1; len <= MC_ARRAY_LEN(forms); len++) {
        uint32_t code = at[0] & (unsigned char)~forms[len - 1].mask;

        if ((at[0] & forms[len - 1].mask) != forms[len - 1].lead) {
            continue;
        }
        for (size_t i = 1; i < len; i++) {
            if ((at[i] & 0xc0) != 0x80) {
                return 0; /* also where the text ends early */
            }
            code = code << 6 | (at[i] & 0x3fu);
        }
        return code < forms[len - 1].min || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)
                   ? 0
                   : len;
    }
    return 0;
}

/* Backslash and newline are escaped, quotes when @p quotes; bytes that are no UTF-8 become '?'. */
static mooncake_err append_escaped(struct mc_buf *out, const char *text, bool quotes)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at != '\0') {
        size_t len = utf8_len(at);

        if (len == 0) {
            MC_TRY(append_text(out, "?"));
            len = 1;
        } else if (*at == '\n') {
            MC_TRY(append_text(out, "\\n"));
        } else if (*at == '\\') {
            MC_TRY(append_text(out, "\\\\"));
        } else if (*at == '"' && quotes) {
            MC_TRY(append_text(out, "\\\""));
        } else {
            MC_TRY(mc_buf_append(out, at, len));
        }
        at += len;
    }
    return MOONCAKE_OK;
}

static mooncake_err append_label(struct mc_buf *out, bool first, const char *name,
                                 const char *value)
{
    MC_TRY(append_text(out, first ? "{" : ","));
    MC_TRY(append_text(out, name));
    MC_TRY(append_text(out, "=\""));
    MC_TRY(append_escaped(out, value, true));
    return append_text(out, "\"");
}

/* name suffix {labels, le="..."} value newline; @p le may be NULL. */
static mooncake_err append_line(struct mc_buf *out, const char *name, const char *suffix,
                                const char *const *labels, const char *le, const char *value)
{
    bool first = true;

    MC_TRY(append_text(out, name));
    MC_TRY(append_text(out, suffix));
    for (size_t i = 0; labels != NULL && labels[i] != NULL; i += 2) {
        MC_ASSERT(labels[i + 1] != NULL);
        MC_TRY(append_label(out, first, labels[i], labels[i + 1]));
        first = false;
    }
    if (le != NULL) {
        MC_TRY(append_label(out, first, "le", le));
        first = false;
    }
    MC_TRY(append_text(out, first ? " " : "} "));
    MC_TRY(append_text(out, value));
    return append_text(out, "\n");
}

/* Take back what was appended behind the first @p len bytes unless all went well: half a line would
 * spoil the page. */
static mooncake_err keep_or_undo(struct mc_buf *out, size_t len, mooncake_err err)
{
    if (err != MOONCAKE_OK) {
        out->end = out->start + len;
    }
    return err;
}

static void format_double(double value, char out[NUMBER_CAP])
{
    if (isnan(value)) {
        memcpy(out, "NaN", sizeof("NaN"));
        return;
    }
    if (isinf(value)) {
        memcpy(out, value > 0 ? "+Inf" : "-Inf", sizeof("+Inf"));
        return;
    }
    for (int digits = 1; digits <= 17; digits++) { /* the shortest that reads back the same */
        (void)snprintf(out, NUMBER_CAP, "%.*g", digits, value);
        if (!(strtod(out, NULL) < value) && !(strtod(out, NULL) > value)) {
            return;
        }
    }
}

static mooncake_err print_head(struct mc_buf *out, const char *name, const char *type,
                               const char *help)
{
    MC_TRY(append_text(out, "# HELP "));
    MC_TRY(append_text(out, name));
    MC_TRY(append_text(out, " "));
    MC_TRY(append_escaped(out, help, false));
    MC_TRY(append_text(out, "\n# TYPE "));
    MC_TRY(append_text(out, name));
    MC_TRY(append_text(out, " "));
    MC_TRY(append_text(out, type));
    return append_text(out, "\n");
}

mooncake_err mc_metric_print_head(struct mc_buf *out, const char *name, const char *type,
                                  const char *help)
{
    size_t len = mc_buf_len(out);

    return keep_or_undo(out, len, print_head(out, name, type, help));
}

static mooncake_err print_line(struct mc_buf *out, const char *name, const char *const *labels,
                               const char *value)
{
    size_t len = mc_buf_len(out);

    return keep_or_undo(out, len, append_line(out, name, "", labels, NULL, value));
}

mooncake_err mc_metric_print_u64(struct mc_buf *out, const char *name, const char *const *labels,
                                 uint64_t value)
{
    char text[NUMBER_CAP];

    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    return print_line(out, name, labels, text);
}

mooncake_err mc_metric_print_i64(struct mc_buf *out, const char *name, const char *const *labels,
                                 int64_t value)
{
    char text[NUMBER_CAP];

    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    return print_line(out, name, labels, text);
}

mooncake_err mc_metric_print_double(struct mc_buf *out, const char *name, const char *const *labels,
                                    double value)
{
    char text[NUMBER_CAP];

    format_double(value, text);
    return print_line(out, name, labels, text);
}

static mooncake_err print_histogram(struct mc_buf *out, const char *name, const char *const *labels,
                                    const struct mc_histogram *histogram)
{
    uint64_t count = 0;
    char text[NUMBER_CAP];
    char le[NUMBER_CAP];
    uint64_t sum = atomic_load_explicit(&histogram->sum_scaled, memory_order_relaxed);

    for (unsigned i = 0; i <= histogram->bounds_count; i++) {
        count += atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
        format_double(i < histogram->bounds_count ? histogram->bounds[i] : INFINITY, le);
        (void)snprintf(text, sizeof(text), "%" PRIu64, count);
        MC_TRY(append_line(out, name, "_bucket", labels, le, text));
    }
    /* The count is the sum of the buckets just shown, so that the page agrees with itself while
     * other threads go on counting. */
    format_double((double)sum / histogram->scale, le);
    MC_TRY(append_line(out, name, "_sum", labels, NULL, le));
    return append_line(out, name, "_count", labels, NULL, text);
}

mooncake_err mc_metric_print_histogram(struct mc_buf *out, const char *name,
                                       const char *const *labels,
                                       const struct mc_histogram *histogram)
{
    size_t len = mc_buf_len(out);

    return keep_or_undo(out, len, print_histogram(out, name, labels, histogram));
}
