/* Text to number: sizes, durations, addresses, plain numbers. Integer arithmetic that cannot wrap.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/option.h"
#include "base/option_private.h"

/* Longest host name that DNS allows, in bytes. */
#define HOST_NAME_LEN_MAX 253u
#define LABEL_LEN_MAX 63u
/* Largest unit that scale() may be given: 9 times it must fit. */
#define UNIT_MAX (UINT64_MAX / 16)

/* "whole.fraction" at the front of a text. */
struct decimal {
    uint64_t whole;
    const char *fraction; /* first digit */
    size_t fraction_len;
    const char *rest; /* what follows the number */
};

enum scan {
    SCAN_OK,
    SCAN_NOT_A_NUMBER,
    SCAN_TOO_LARGE,
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

const char *mc_option_quote(const char *text, char out[MC_OPTION_QUOTE_CAP])
{
    size_t len = 0;
    size_t i;

    out[len++] = '"';
    for (i = 0; text[i] != '\0' && i < 60; i++) {
        out[len++] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
    if (text[i] != '\0') {
        memcpy(out + len, "...", 3);
        len += 3;
    }
    out[len++] = '"';
    out[len] = '\0';
    return out;
}

static enum scan scan_digits(const char *text, uint64_t *out, const char **out_rest)
{
    uint64_t value = 0;
    bool large = false;
    const char *at = text;

    for (; is_digit(*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');

        large = large || value > (UINT64_MAX - digit) / 10;
        value = large ? 0 : value * 10 + digit;
    }
    if (at == text) {
        return SCAN_NOT_A_NUMBER;
    }
    *out = value;
    *out_rest = at;
    return large ? SCAN_TOO_LARGE : SCAN_OK;
}

static enum scan scan_decimal(const char *text, struct decimal *out)
{
    struct decimal d = {0};
    enum scan scan = scan_digits(text, &d.whole, &d.rest);

    if (scan == SCAN_NOT_A_NUMBER) {
        return scan;
    }
    if (*d.rest == '.') {
        d.fraction = d.rest + 1;
        d.fraction_len = strspn(d.fraction, "0123456789");
        d.rest = d.fraction + d.fraction_len;
        if (d.fraction_len == 0) {
            return SCAN_NOT_A_NUMBER;
        }
    }
    *out = d;
    return scan;
}

/* floor(d * unit), exactly: the fraction is summed from its last digit, and flooring at each step
 * gives the same as flooring once. */
static enum scan scale(const struct decimal *d, uint64_t unit, uint64_t *out)
{
    uint64_t part = 0;

    MC_ASSERT(unit > 0 && unit <= UNIT_MAX);
    for (size_t i = d->fraction_len; i > 0; i--) {
        part = (part + (uint64_t)(d->fraction[i - 1] - '0') * unit) / 10;
    }
    if (d->whole > (UINT64_MAX - part) / unit) {
        return SCAN_TOO_LARGE;
    }
    *out = d->whole * unit + part;
    return SCAN_OK;
}

/* Bytes in the unit at @p text, which must be all of it; 0 if it is none. */
static uint64_t size_unit(const char *text)
{
    static const char letters[] = "kmgt";
    uint64_t unit = 1024;

    if (*text == '\0' || strcasecmp(text, "b") == 0) {
        return 1;
    }
    for (const char *letter = letters; *letter != '\0'; letter++, unit *= 1024) {
        if ((*text | 0x20) == *letter) {
            text++;
            return *text == '\0' || strcasecmp(text, "b") == 0 || strcasecmp(text, "ib") == 0 ? unit
                                                                                              : 0;
        }
    }
    return 0;
}

mooncake_err mc_parse_size(const char *text, uint64_t *out_bytes)
{
    char quoted[MC_OPTION_QUOTE_CAP];
    struct decimal d = {0};
    uint64_t bytes = 0;
    uint64_t unit = 0;
    enum scan scan = scan_decimal(text, &d);

    if (scan != SCAN_NOT_A_NUMBER) {
        unit = size_unit(d.rest + (d.rest[0] == ' ' && d.rest[1] != '\0' ? 1 : 0));
    }
    if (unit == 0) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "%s is not a size; write a number above 0 and a unit of "
                          "B, K, M, G or T (KiB and KB also), such as 4GiB",
                          mc_option_quote(text, quoted));
    }
    if (scan == SCAN_TOO_LARGE || scale(&d, unit, &bytes) == SCAN_TOO_LARGE) {
        return mc_err_set(MOONCAKE_EINVAL, "%s is too large a size; the most is %" PRIu64 " bytes",
                          mc_option_quote(text, quoted), UINT64_MAX);
    }
    if (bytes == 0) {
        return mc_err_set(MOONCAKE_EINVAL, "%s is less than one byte; a size must be above 0",
                          mc_option_quote(text, quoted));
    }
    *out_bytes = bytes;
    return MOONCAKE_OK;
}

/* Milliseconds in the unit at @p text, which must be all of it; 0 if it is none. */
static uint64_t duration_unit(const char *text, uint64_t plain_ms)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

    if (*text == '\0') {
        return plain_ms;
    }
    for (size_t i = 0; i < MC_ARRAY_LEN(units); i++) {
        if (strcmp(text, units[i].name) == 0) {
            return units[i].ms;
        }
    }
    return 0;
}

/* Is any digit of the number other than 0? */
static bool is_above_zero(const struct decimal *d)
{
    return d->whole > 0 || (d->fraction_len > 0 && strspn(d->fraction, "0") < d->fraction_len);
}

mooncake_err mc_parse_duration(const char *text, uint64_t plain_ms, uint64_t *out_ms)
{
    char quoted[MC_OPTION_QUOTE_CAP];
    struct decimal d = {0};
    uint64_t ms = 0;
    uint64_t unit = 0;
    enum scan scan = scan_decimal(text, &d);

    MC_ASSERT(plain_ms > 0);
    if (scan != SCAN_NOT_A_NUMBER) {
        unit = duration_unit(d.rest + (d.rest[0] == ' ' && d.rest[1] != '\0' ? 1 : 0), plain_ms);
    }
    if (unit == 0) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "%s is not a duration; write a number, 0 or more, and a unit of "
                          "ms, s, m or h, such as 10s",
                          mc_option_quote(text, quoted));
    }
    if (scan == SCAN_TOO_LARGE || scale(&d, unit, &ms) == SCAN_TOO_LARGE) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "%s is too long a duration; the most is %" PRIu64 " milliseconds",
                          mc_option_quote(text, quoted), UINT64_MAX);
    }
    if (ms == 0 && is_above_zero(&d)) {
        return mc_err_set(MOONCAKE_EINVAL, "%s is less than a millisecond; write 0 or at least 1ms",
                          mc_option_quote(text, quoted));
    }
    *out_ms = ms;
    return MOONCAKE_OK;
}

mooncake_err mc_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char quoted[MC_OPTION_QUOTE_CAP];
    const char *rest = text;
    uint64_t value = 0;
    enum scan scan = scan_digits(text, &value, &rest);

    MC_ASSERT(min <= max);
    if (scan == SCAN_NOT_A_NUMBER || *rest != '\0') {
        return mc_err_set(MOONCAKE_EINVAL,
                          "%s is not a whole number; allowed is %" PRIu64 " to %" PRIu64,
                          mc_option_quote(text, quoted), min, max);
    }
    if (scan == SCAN_TOO_LARGE || value < min || value > max) {
        return mc_err_set(MOONCAKE_EINVAL, "%s is out of range; allowed is %" PRIu64 " to %" PRIu64,
                          mc_option_quote(text, quoted), min, max);
    }
    *out = value;
    return MOONCAKE_OK;
}

/* Is it a name of letters, digits, '-', '_' in labels, or an IPv4 address? A name of digits and
 * dots only must be an address, so that 10.0.0.300 is not asked of a name server. */
static bool is_host_name(const char *host)
{
    struct in_addr v4;
    size_t label_len = 0;
    bool letters = false;

    for (const char *at = host; *at != '\0'; at++) {
        char lower = (char)(*at | 0x20);

        if (*at == '.') {
            if (label_len == 0) {
                return false;
            }
            label_len = 0;
            continue;
        }
        label_len++;
        if (label_len > LABEL_LEN_MAX) {
            return false;
        }
        if ((lower >= 'a' && lower <= 'z') || *at == '-' || *at == '_') {
            letters = true;
        } else if (!is_digit(*at)) {
            return false;
        }
    }
    return letters ? host[0] != '.' : inet_pton(AF_INET, host, &v4) == 1;
}

/* Is it an IPv6 address, perhaps with a zone ("fe80::1%eth0")? */
static bool is_host_v6(const char *host)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr v6;
    const char *zone = strchr(host, '%');
    size_t len = zone == NULL ? strlen(host) : (size_t)(zone - host);

    if (len >= sizeof(address)) {
        return false;
    }
    memcpy(address, host, len);
    address[len] = '\0';
    if (zone != NULL) {
        size_t zone_len = strspn(zone + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789-_.");

        if (zone_len == 0 || zone[1 + zone_len] != '\0') {
            return false;
        }
    }
    return inet_pton(AF_INET6, address, &v6) == 1;
}

mooncake_err mc_parse_address(const char *text, uint16_t default_port, char *out_host,
                              size_t host_cap, uint16_t *out_port)
{
    char quoted[MC_OPTION_QUOTE_CAP];
    char host[HOST_NAME_LEN_MAX + 1];
    bool bracket = text[0] == '[';
    const char *start = text + (bracket ? 1 : 0);
    size_t len = strcspn(start, bracket ? "]" : ":");
    const char *after = start + len;
    uint64_t port = default_port;

    if (len == 0 || len >= sizeof(host) || (bracket && *after != ']')) {
        goto refuse;
    }
    memcpy(host, start, len);
    host[len] = '\0';
    after += bracket ? 1 : 0;
    if (!(bracket ? is_host_v6(host) : is_host_name(host))) {
        goto refuse;
    }
    if (*after == '\0' && default_port == 0) {
        return mc_err_set(MOONCAKE_EINVAL, "%s has no port; write host:port",
                          mc_option_quote(text, quoted));
    }
    if (*after != '\0' &&
        (*after != ':' || strlen(after) > 6 || mc_parse_u64(after + 1, 0, 65535, &port) != 0)) {
        goto refuse;
    }
    if (len >= host_cap) {
        return mc_err_set(MOONCAKE_EINVAL, "%s is too long: the host may have %zu bytes",
                          mc_option_quote(text, quoted), host_cap == 0 ? 0 : host_cap - 1);
    }
    memcpy(out_host, host, len + 1);
    *out_port = (uint16_t)port;
    return MOONCAKE_OK;

refuse:
    return mc_err_set(MOONCAKE_EINVAL,
                      "%s is not an address; write host:port, or [v6]:port with the brackets, "
                      "and a port of 0 to 65535",
                      mc_option_quote(text, quoted));
}

char *mc_format_size(uint64_t bytes, char *out, size_t cap)
{
    static const char letters[] = "KMGTPE";
    size_t i = 0;
    uint64_t unit = 1024;
    uint64_t tenths;

    if (bytes < 1024) {
        (void)snprintf(out, cap, "%" PRIu64 "B", bytes);
        return out;
    }
    while (i < 5 && bytes / unit >= 1024) {
        unit *= 1024;
        i++;
    }
    tenths = (bytes % unit) * 10 / unit; /* fits: 10 * 2^60 < 2^64 */
    (void)snprintf(out, cap, "%" PRIu64 ".%" PRIu64 "%ciB", bytes / unit, tenths, letters[i]);
    return out;
}
