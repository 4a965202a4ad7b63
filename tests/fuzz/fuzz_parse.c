/*
 * Sizes, durations, addresses and numbers from text. The first byte chooses the parser. Laws: what
 * is refused leaves the result untouched and has a sentence; what is taken agrees with floating
 * point arithmetic, and written out again it is taken as the same.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"

#include "law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define UNTOUCHED 0x5eed5eed5eed5eedull

/* Is @p value what the number in front of @p text times @p unit comes to, up to rounding? */
static bool is_near(const char *text, long double unit, uint64_t value)
{
    long double wanted = strtold(text, NULL) * unit;
    long double slack = 1.0L + wanted * 1e-15L;

    return (long double)value <= wanted + slack && (long double)value >= wanted - slack;
}

/* The unit behind the number, as a person would read it; 0 for none known. */
static long double unit_of(const char *text, const char *letters, const long double *units)
{
    const char *at = text + strspn(text, "0123456789. ");
    const char *letter = *at == '\0' ? NULL : strchr(letters, *at);

    return letter == NULL ? 0 : units[letter - letters];
}

static void check_size(const char *text)
{
    static const long double units[] = {1,
                                        1,
                                        1024,
                                        1024,
                                        1048576,
                                        1048576,
                                        1073741824,
                                        1073741824,
                                        1099511627776.0L,
                                        1099511627776.0L};
    uint64_t bytes = UNTOUCHED;
    uint64_t again = 0;
    char plain[32];
    long double unit = unit_of(text, "bBkKmMgGtT", units);

    if (mc_parse_size(text, &bytes) != MOONCAKE_OK) {
        law(bytes == UNTOUCHED && mooncake_last_error()[0] != '\0');
        return;
    }
    law(bytes > 0);
    law(is_near(text, unit > 0 ? unit : 1, bytes));
    (void)snprintf(plain, sizeof(plain), "%" PRIu64, bytes);
    law(mc_parse_size(plain, &again) == MOONCAKE_OK && again == bytes);
}

static void check_duration(const char *text, uint64_t plain_ms)
{
    static const long double units[] = {1000, 60000, 3600000};
    uint64_t ms = UNTOUCHED;
    uint64_t again = 0;
    char plain[32];
    long double unit = unit_of(text, "smh", units);

    if (mc_parse_duration(text, plain_ms, &ms) != MOONCAKE_OK) {
        law(ms == UNTOUCHED && mooncake_last_error()[0] != '\0');
        return;
    }
    if (strstr(text, "ms") != NULL) {
        unit = 1;
    }
    law(is_near(text, unit > 0 ? unit : (long double)plain_ms, ms));
    (void)snprintf(plain, sizeof(plain), "%" PRIu64 "ms", ms);
    law(mc_parse_duration(plain, plain_ms, &again) == MOONCAKE_OK && again == ms);
}

static void check_address(const char *text, uint16_t default_port, size_t host_cap)
{
    char host[300] = "untouched";
    char again_host[300];
    char again[400];
    uint16_t port = 7;
    uint16_t again_port = 0;

    if (mc_parse_address(text, default_port, host, host_cap, &port) != MOONCAKE_OK) {
        law(strcmp(host, "untouched") == 0 && port == 7 && mooncake_last_error()[0] != '\0');
        return;
    }
    law(host[0] != '\0' && strlen(host) < host_cap);
    if (strchr(host, ':') ==
        NULL) { /* a name: no empty label; the zone of an address may have one */
        law(host[0] != '.' && strstr(host, "..") == NULL);
    }
    for (const char *at = host; *at != '\0'; at++) {
        law(*at > ' ' && *at <= '~' && *at != '/' && *at != '[' && *at != ']');
    }
    (void)snprintf(again, sizeof(again), strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
                   port);
    law(mc_parse_address(again, 0, again_host, sizeof(again_host), &again_port) == MOONCAKE_OK);
    law(strcmp(again_host, host) == 0 && again_port == port);
}

static void check_u64(const char *text, uint64_t min, uint64_t max)
{
    uint64_t value = UNTOUCHED;

    if (mc_parse_u64(text, min, max, &value) != MOONCAKE_OK) {
        law(value == UNTOUCHED && mooncake_last_error()[0] != '\0');
        return;
    }
    law(value >= min && value <= max);
    law(is_near(text, 1, value));
    law(strspn(text, "0123456789") == strlen(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text; /* exactly as long as it is, for the sanitizer */

    if (len == 0) {
        return 0;
    }
    text = malloc(len);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data + 1, len - 1);
    text[len - 1] = '\0';
    switch (data[0] % 8) {
    case 0:
        check_size(text);
        break;
    case 1:
        check_duration(text, 1);
        break;
    case 2:
        check_duration(text, 1000);
        break;
    case 3:
        check_address(text, 0, 300);
        break;
    case 4:
        check_address(text, 50051, 300);
        break;
    case 5:
        check_address(text, 50051, 12);
        break;
    case 6:
        check_u64(text, 0, UINT64_MAX);
        break;
    default:
        check_u64(text, 5, 65535);
        break;
    }
    free(text);
    return 0;
}
