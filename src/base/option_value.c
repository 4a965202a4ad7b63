/* One option's value: text into the field of its kind, and back. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/option.h"
#include "base/option_private.h"

/* Values of one repeatable option. */
#define TEXTS_MAX 1024u

static void *field_of(const struct mc_option *option, void *target)
{
    return (char *)target + option->offset;
}

static const void *field_of_const(const struct mc_option *option, const void *target)
{
    return (const char *)target + option->offset;
}

static mooncake_err parse_bool(const char *text, bool *out)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"true", true},   {"1", true},  {"yes", true}, {"on", true},
                 {"false", false}, {"0", false}, {"no", false}, {"off", false}};
    char quoted[MC_OPTION_QUOTE_CAP];

    for (size_t i = 0; i < MC_ARRAY_LEN(words); i++) {
        if (strcasecmp(text, words[i].word) == 0) {
            *out = words[i].value;
            return MOONCAKE_OK;
        }
    }
    return mc_err_set(
        MOONCAKE_EINVAL,
        "%s is neither true nor false; allowed is true, 1, yes, on, false, 0, no, off",
        mc_option_quote(text, quoted));
}

static mooncake_err parse_ratio(const char *text, double *out)
{
    char quoted[MC_OPTION_QUOTE_CAP];
    char *rest = NULL;
    double value = -1;

    /* strtod takes more than we do: "nan", "0x1p-1", blanks in front. */
    if (text[0] != '\0' && strspn(text, "0123456789.e-") == strlen(text)) {
        value = strtod(text, &rest);
    }
    if (rest == NULL || rest == text || *rest != '\0' || !isfinite(value) || value < 0 ||
        value > 1 || signbit(value)) {
        return mc_err_set(MOONCAKE_EINVAL, "%s is not a ratio; allowed is 0 to 1, such as 0.95",
                          mc_option_quote(text, quoted));
    }
    *out = value;
    return MOONCAKE_OK;
}

static mooncake_err append_text(struct mc_option_texts *texts, const char *text)
{
    char **items;
    char *copy;

    if (texts->count >= TEXTS_MAX) {
        return mc_err_set(MOONCAKE_EINVAL, "is given more than %u times", TEXTS_MAX);
    }
    items = mc_realloc(texts->items, (texts->count + 1) * sizeof(*items));
    if (items == NULL) {
        return MOONCAKE_ENOMEM;
    }
    texts->items = items;
    copy = mc_strndup(text, strlen(text));
    if (copy == NULL) {
        return MOONCAKE_ENOMEM;
    }
    items[texts->count++] = copy;
    return MOONCAKE_OK;
}

static void clear_texts(struct mc_option_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        mc_free(texts->items[i]);
    }
    mc_free(texts->items);
    texts->items = NULL;
    texts->count = 0;
}

/* The number that an integer kind's @p text stands for, before the range of the option itself. */
static mooncake_err parse_number(enum mc_option_kind kind, const char *text, uint64_t *out)
{
    switch (kind) {
    case MC_OPTION_U32:
        return mc_parse_u64(text, 0, UINT32_MAX, out);
    case MC_OPTION_U64:
        return mc_parse_u64(text, 0, UINT64_MAX, out);
    case MC_OPTION_PORT:
        return mc_parse_u64(text, 0, UINT16_MAX, out);
    case MC_OPTION_SIZE:
        return mc_parse_size(text, out);
    case MC_OPTION_MS:
        return mc_parse_duration(text, 1, out);
    case MC_OPTION_SECONDS:
        return mc_parse_duration(text, 1000, out);
    case MC_OPTION_BOOL:
    case MC_OPTION_RATIO:
    case MC_OPTION_TEXT:
    case MC_OPTION_TEXTS:
        break;
    }
    return mc_err_set(MOONCAKE_EINTERNAL, "option kind %d holds no number", (int)kind);
}

/* @p number as text that parses back to it, in the largest unit that divides it. */
static void number_text(enum mc_option_kind kind, uint64_t number, char *out, size_t cap)
{
    static const char *const size_units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    unsigned i = 0;

    if (kind == MC_OPTION_SIZE) {
        while (number > 0 && number % 1024 == 0 && i + 1 < MC_ARRAY_LEN(size_units)) {
            number /= 1024;
            i++;
        }
        (void)snprintf(out, cap, "%" PRIu64 "%s", number, size_units[i]);
    } else if (kind == MC_OPTION_MS || kind == MC_OPTION_SECONDS) {
        bool whole = number % 1000 == 0;

        (void)snprintf(out, cap, "%" PRIu64 "%s", whole ? number / 1000 : number,
                       whole ? "s" : "ms");
    } else {
        (void)snprintf(out, cap, "%" PRIu64, number);
    }
}

static mooncake_err check_range(const struct mc_option *option, uint64_t number, const char *text)
{
    char quoted[MC_OPTION_QUOTE_CAP];
    char min[MC_OPTION_VALUE_CAP];
    char max[MC_OPTION_VALUE_CAP];

    if (number >= option->min && (option->max == 0 || number <= option->max)) {
        return MOONCAKE_OK;
    }
    number_text(option->kind, option->min, min, sizeof(min));
    if (option->max == 0) {
        return mc_err_set(MOONCAKE_EINVAL, "%s is out of range; allowed is %s or more",
                          mc_option_quote(text, quoted), min);
    }
    number_text(option->kind, option->max, max, sizeof(max));
    return mc_err_set(MOONCAKE_EINVAL, "%s is out of range; allowed is %s to %s",
                      mc_option_quote(text, quoted), min, max);
}

static mooncake_err set_number(const struct mc_option *option, void *field, const char *text)
{
    uint64_t number = 0;

    MC_TRY(parse_number(option->kind, text, &number));
    MC_TRY(check_range(option, number, text));
    if (option->kind == MC_OPTION_PORT) {
        *(uint16_t *)field = (uint16_t)number;
    } else if (option->kind == MC_OPTION_U32) {
        *(uint32_t *)field = (uint32_t)number;
    } else {
        *(uint64_t *)field = number;
    }
    return MOONCAKE_OK;
}

static uint64_t number_of(const struct mc_option *option, const void *field)
{
    if (option->kind == MC_OPTION_PORT) {
        return *(const uint16_t *)field;
    }
    if (option->kind == MC_OPTION_U32) {
        return *(const uint32_t *)field;
    }
    return *(const uint64_t *)field;
}

mooncake_err mc_option_value_set(const struct mc_option *option, void *target, const char *text)
{
    void *field = field_of(option, target);
    char *copy;

    switch (option->kind) {
    case MC_OPTION_BOOL:
        return parse_bool(text, field);
    case MC_OPTION_RATIO:
        return parse_ratio(text, field);
    case MC_OPTION_TEXT:
        copy = mc_strndup(text, strlen(text));
        if (copy == NULL) {
            return MOONCAKE_ENOMEM;
        }
        mc_free(*(char **)field);
        *(char **)field = copy;
        return MOONCAKE_OK;
    case MC_OPTION_TEXTS:
        return append_text(field, text);
    case MC_OPTION_U32:
    case MC_OPTION_U64:
    case MC_OPTION_PORT:
    case MC_OPTION_SIZE:
    case MC_OPTION_MS:
    case MC_OPTION_SECONDS:
        break;
    }
    return set_number(option, field, text);
}

void mc_option_value_clear(const struct mc_option *option, void *target)
{
    void *field = field_of(option, target);

    if (option->kind == MC_OPTION_TEXT) {
        mc_free(*(char **)field);
        *(char **)field = NULL;
    } else if (option->kind == MC_OPTION_TEXTS) {
        clear_texts(field);
    }
}

/* The items with commas between them; NULL without memory. */
static char *join_texts(const struct mc_option_texts *texts)
{
    size_t len = 0;
    size_t at = 0;
    char *joined;

    for (size_t i = 0; i < texts->count; i++) {
        len += strlen(texts->items[i]) + 1;
    }
    joined = mc_malloc(len + 1);
    if (joined == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < texts->count; i++) {
        size_t item_len = strlen(texts->items[i]);

        memcpy(joined + at, texts->items[i], item_len);
        at += item_len;
        joined[at++] = ',';
    }
    joined[at == 0 ? 0 : at - 1] = '\0';
    return joined;
}

/* The shortest decimal that reads back as the same number. */
static void ratio_text(double ratio, char *out, size_t cap)
{
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(out, cap, "%.*g", digits, ratio);
        if (memcmp(&(double){strtod(out, NULL)}, &ratio, sizeof(ratio)) == 0) {
            return;
        }
    }
}

const char *mc_option_value_text(const struct mc_option *option, const void *target, char *out,
                                 size_t cap, char **list)
{
    const void *field = field_of_const(option, target);

    *list = NULL;
    switch (option->kind) {
    case MC_OPTION_BOOL:
        return *(const bool *)field ? "true" : "false";
    case MC_OPTION_RATIO:
        ratio_text(*(const double *)field, out, cap);
        return out;
    case MC_OPTION_TEXT:
        return *(char *const *)field;
    case MC_OPTION_TEXTS:
        *list = join_texts(field);
        return *list == NULL ? "(no memory to show it)" : *list;
    case MC_OPTION_U32:
    case MC_OPTION_U64:
    case MC_OPTION_PORT:
    case MC_OPTION_SIZE:
    case MC_OPTION_MS:
    case MC_OPTION_SECONDS:
        break;
    }
    number_text(option->kind, number_of(option, field), out, cap);
    return out;
}

const char *mc_option_unit(const struct mc_option *option)
{
    if (option->unit != NULL) {
        return option->unit;
    }
    switch (option->kind) {
    case MC_OPTION_SIZE:
        return "bytes";
    case MC_OPTION_MS:
        return "ms";
    case MC_OPTION_SECONDS:
        return "s";
    case MC_OPTION_RATIO:
        return "0..1";
    case MC_OPTION_PORT:
        return "port";
    case MC_OPTION_BOOL:
    case MC_OPTION_U32:
    case MC_OPTION_U64:
    case MC_OPTION_TEXT:
    case MC_OPTION_TEXTS:
        break;
    }
    return "";
}

const char *mc_option_kind_word(enum mc_option_kind kind)
{
    switch (kind) {
    case MC_OPTION_BOOL:
        return "true|false";
    case MC_OPTION_U32:
    case MC_OPTION_U64:
        return "NUMBER";
    case MC_OPTION_PORT:
        return "PORT";
    case MC_OPTION_RATIO:
        return "0..1";
    case MC_OPTION_SIZE:
        return "SIZE";
    case MC_OPTION_MS:
        return "DURATION(ms)";
    case MC_OPTION_SECONDS:
        return "DURATION(s)";
    case MC_OPTION_TEXT:
    case MC_OPTION_TEXTS:
        break;
    }
    return "TEXT";
}
