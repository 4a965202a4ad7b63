/*
 * A line of a published trace. Laws: a line that is refused has a sentence and adds nothing; one
 * that is taken adds one request with the ids that stand in it; the requests before stay as they
 * were.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "law.h"
#include "trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A line written by us from the request that was read must be read as the same. */
static void check_again(const uint64_t *ids, size_t count)
{
    struct mc_requests again = {0};
    char *line = malloc(32 + count * 24);
    char why[200] = "";
    size_t at, got_count;

    law(line != NULL);
    at = (size_t)snprintf(line, 32, "{\"hash_ids\":[");
    for (size_t i = 0; i < count; i++) {
        at += (size_t)snprintf(line + at, 24, "%s%llu", i == 0 ? "" : ",",
                               (unsigned long long)ids[i]);
    }
    at += (size_t)snprintf(line + at, 3, "]}");
    law(mc_trace_parse_line(line, at, &again, why, sizeof(why)));
    law(memcmp(mc_requests_at(&again, 0, &got_count), ids, count * sizeof(*ids)) == 0);
    law(got_count == count);
    mc_requests_fini(&again);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint64_t before[] = {7, 8, 9};
    struct mc_requests requests = {0};
    char why[200] = "";
    char *line = malloc(len + 1); /* not ended, so that a byte too many is seen */
    size_t count;
    bool taken;

    law(line != NULL && mc_requests_add(&requests, before, 3));
    memcpy(line, data, len);
    memset(line + len, '7', 1);
    taken = mc_trace_parse_line(line, len, &requests, why, sizeof(why));
    free(line);
    law(memcmp(mc_requests_at(&requests, 0, &count), before, sizeof(before)) == 0 && count == 3);
    if (taken) {
        const uint64_t *ids = mc_requests_at(&requests, 1, &count);

        law(requests.count == 2 && requests.ids_count == 3 + count);
        law(count <= MC_TRACE_BLOCKS_MAX);
        for (size_t i = 0; i < count; i++) {
            law(ids[i] <= INT64_MAX);
        }
        check_again(ids, count);
    } else {
        law(requests.count == 1 && requests.ids_count == 3);
        law(why[0] != '\0' && memchr(why, '\0', sizeof(why)) != NULL);
    }
    mc_requests_fini(&requests);
    return 0;
}
