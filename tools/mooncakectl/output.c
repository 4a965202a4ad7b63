/* Text and numbers for people, JSON for programs. Tables are in table.c. */
#include "output.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

/* Length of the UTF-8 sequence at the start of bytes; 0 if there is none that is valid. */
static size_t utf8_len(const unsigned char *bytes, size_t len)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = bytes[0];
    size_t need = first < 0x80 ? 1 : (first >> 5) == 6 ? 2 : (first >> 4) == 14 ? 3 : 4;
    uint32_t code;

    if (need == 1) {
        return 1;
    }
    if (need > len || (need == 4 && (first >> 3) != 30)) {
        return 0;
    }
    code = first & (0x7Fu >> need);
    for (size_t i = 1; i < need; i++) {
        if ((bytes[i] & 0xC0) != 0x80) {
            return 0;
        }
        code = (code << 6) | (bytes[i] & 0x3Fu);
    }
    if (code < smallest[need] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        return 0;
    }
    return need;
}

static void print_escaped(FILE *out, const char *bytes, size_t len, bool sentence)
{
    const unsigned char *at = (const unsigned char *)bytes;
    const unsigned char *end = at + len;

    while (at < end) {
        size_t step = utf8_len(at, (size_t)(end - at));
        /* U+0080 to U+009F are control characters too, and a terminal obeys them. */
        bool control =
            at[0] < 0x20 || at[0] == 0x7F || (step == 2 && at[0] == 0xC2 && at[1] < 0xA0);

        if (sentence && at[0] == '\n') {
            control = false;
        }
        if (step == 0 || control) {
            (void)fprintf(out, "\\x%02X", at[0]);
            at++;
        } else if (at[0] == '\\' && !sentence) {
            (void)fputs("\\\\", out);
            at++;
        } else {
            (void)fwrite(at, 1, step, out);
            at += step;
        }
    }
}

void mc_print_bytes(FILE *out, const char *bytes, size_t len)
{
    print_escaped(out, bytes, len, false);
}

void mc_print_text(FILE *out, const char *text)
{
    print_escaped(out, text, strlen(text), true);
}

char *mc_format_size(uint64_t bytes, char *out)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;

    if (bytes < 1024) {
        (void)snprintf(out, MC_NUMBER_CAP, "%" PRIu64 " B", bytes);
        return out;
    }
    value /= 1024;
    while (value >= 1023.95 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, MC_NUMBER_CAP, "%.1f %s", value, units[unit]);
    return out;
}

char *mc_format_count(uint64_t count, char *out)
{
    char digits[MC_NUMBER_CAP];
    size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count);
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0) {
            out[used++] = ',';
        }
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}

char *mc_format_duration(uint64_t ms, char *out)
{
    uint64_t s = ms / 1000;
    uint64_t min = s / 60;
    uint64_t h = min / 60;

    if (ms < 1000) {
        (void)snprintf(out, MC_NUMBER_CAP, "%" PRIu64 " ms", ms);
    } else if (s < 60) {
        (void)snprintf(out, MC_NUMBER_CAP, "%" PRIu64 ".%" PRIu64 " s", s, ms % 1000 / 100);
    } else if (min < 60) {
        (void)snprintf(out, MC_NUMBER_CAP, "%" PRIu64 " min %" PRIu64 " s", min, s % 60);
    } else if (h < 24) {
        (void)snprintf(out, MC_NUMBER_CAP, "%" PRIu64 " h %" PRIu64 " min", h, min % 60);
    } else {
        (void)snprintf(out, MC_NUMBER_CAP, "%" PRIu64 " d %" PRIu64 " h", h / 24, h % 24);
    }
    return out;
}

char *mc_format_share(uint64_t part, uint64_t whole, char *out)
{
    if (whole == 0) {
        (void)snprintf(out, MC_NUMBER_CAP, "-");
    } else {
        (void)snprintf(out, MC_NUMBER_CAP, "%.1f %%", 100.0 * (double)part / (double)whole);
    }
    return out;
}

char *mc_format_id(uint64_t id, char *out)
{
    (void)snprintf(out, MC_NUMBER_CAP, "%016" PRIx64, id);
    return out;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static bool document_open;
static bool list_empty;

json_t *mc_json_object(void)
{
    return mc_need(json_object());
}

json_t *mc_json_array(void)
{
    return mc_need(json_array());
}

void mc_json_set(json_t *object, const char *name, json_t *value)
{
    if (json_object_set_new(object, name, mc_need(value)) != 0) {
        (void)mc_need(NULL);
    }
}

void mc_json_append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, mc_need(value)) != 0) {
        (void)mc_need(NULL);
    }
}

json_t *mc_json_bytes(const char *bytes, size_t len)
{
    const unsigned char *at = (const unsigned char *)bytes;
    json_t *object;
    char *hex;

    for (size_t i = 0, step; i < len; i += step) {
        step = utf8_len(at + i, len - i);
        if (step == 0) {
            hex = mc_need(malloc(2 * len + 1));
            for (size_t k = 0; k < len; k++) {
                (void)snprintf(hex + 2 * k, 3, "%02x", at[k]);
            }
            object = mc_json_object();
            mc_json_set(object, "hex", json_string(hex));
            free(hex);
            return object;
        }
    }
    return mc_need(json_stringn(bytes, len));
}

json_t *mc_json_text(const char *text)
{
    return mc_json_bytes(text, strlen(text));
}

json_t *mc_json_number(uint64_t number)
{
    return json_integer(number > INT64_MAX ? INT64_MAX : (json_int_t)number);
}

json_t *mc_json_id(uint64_t id)
{
    char text[MC_NUMBER_CAP];

    return json_string(mc_format_id(id, text));
}

static void dump(json_t *value, size_t flags)
{
    char *text = mc_need(json_dumps(mc_need(value), flags | JSON_ENCODE_ANY));

    (void)fputs(text, stdout);
    free(text);
    json_decref(value);
}

void mc_json_print(json_t *value)
{
    dump(value, JSON_INDENT(2));
    (void)fputc('\n', stdout);
}

void mc_json_print_line(json_t *value)
{
    dump(value, JSON_COMPACT);
    (void)fputc('\n', stdout);
}

void mc_json_list_begin(const char *name)
{
    (void)printf("{\"%s\": [", name);
    document_open = true;
    list_empty = true;
}

void mc_json_list_item(json_t *value)
{
    (void)fputs(list_empty ? "\n  " : ",\n  ", stdout);
    list_empty = false;
    dump(value, JSON_COMPACT);
}

void mc_json_list_end(const char *name, json_t *value)
{
    (void)fputs(list_empty ? "]" : "\n]", stdout);
    mc_json_print_field(name, value);
}

void mc_json_print_field(const char *name, json_t *value)
{
    if (!document_open) {
        json_t *document = mc_json_object();

        mc_json_set(document, name, value);
        mc_json_print(document);
        return;
    }
    (void)printf(", \"%s\": ", name);
    dump(value, 0);
}

void mc_json_finish(void)
{
    if (document_open) {
        (void)fputs("}\n", stdout);
        document_open = false;
    }
}
