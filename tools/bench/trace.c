/* JSON lines, one by one. */
#include "trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static bool read_ids(json_t *array, uint64_t *ids, char *why, size_t why_len)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_t *id = json_array_get(array, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0) {
            (void)snprintf(why, why_len, "\"hash_ids\"[%zu] is not a whole number from 0", i);
            return false;
        }
        ids[i] = (uint64_t)json_integer_value(id);
    }
    return true;
}

static bool add_request(json_t *array, struct mc_requests *requests, char *why, size_t why_len)
{
    size_t count = json_array_size(array);
    uint64_t *ids = malloc((count + 1) * sizeof(*ids));
    bool added = false;

    if (ids == NULL) {
        (void)snprintf(why, why_len, "out of memory");
        return false;
    }
    if (read_ids(array, ids, why, why_len)) {
        added = mc_requests_add(requests, ids, count);
        if (!added) {
            (void)snprintf(why, why_len, "more than memory holds");
        }
    }
    free(ids);
    return added;
}

bool mc_trace_parse_line(const char *line, size_t len, struct mc_requests *requests, char *why,
                         size_t why_len)
{
    json_error_t error;
    json_t *root = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
    json_t *array;
    bool added = false;

    if (root == NULL) {
        (void)snprintf(why, why_len, "not JSON: %s", error.text);
        return false;
    }
    array = json_object_get(root, "hash_ids");
    if (!json_is_array(array)) {
        (void)snprintf(why, why_len, "no array \"hash_ids\" in it");
    } else if (json_array_size(array) > MC_TRACE_BLOCKS_MAX) {
        (void)snprintf(why, why_len, "%zu blocks in one request, at most %u",
                       json_array_size(array), MC_TRACE_BLOCKS_MAX);
    } else {
        added = add_request(array, requests, why, why_len);
    }
    json_decref(root);
    return added;
}

static bool load_lines(FILE *file, const char *path, struct mc_requests *requests, char *why,
                       size_t why_len)
{
    char *line = NULL;
    size_t cap = 0;
    char reason[200];
    bool fine = true;
    size_t number = 0;
    ssize_t len;

    while (fine && (len = getline(&line, &cap, file)) >= 0) {
        size_t text_len = (size_t)len;

        number++;
        while (text_len > 0 && strchr("\r\n \t", line[text_len - 1]) != NULL) {
            text_len--;
        }
        if (text_len > MC_TRACE_LINE_LEN_MAX) {
            (void)snprintf(reason, sizeof(reason), "longer than 4 MiB");
            fine = false;
        } else if (text_len > 0) {
            fine = mc_trace_parse_line(line, text_len, requests, reason, sizeof(reason));
        }
    }
    free(line);
    if (!fine) {
        (void)snprintf(why, why_len, "%s: line %zu: %s", path, number, reason);
    } else if (ferror(file)) {
        (void)snprintf(why, why_len, "%s: cannot be read: %s", path, strerror(errno));
        fine = false;
    } else if (requests->count == 0) {
        (void)snprintf(why, why_len, "%s: no requests in it", path);
        fine = false;
    }
    return fine;
}

bool mc_trace_load(const char *path, struct mc_requests *requests, char *why, size_t why_len)
{
    FILE *file = fopen(path, "re");
    bool fine;

    if (file == NULL) {
        (void)snprintf(why, why_len, "%s: %s", path, strerror(errno));
        return false;
    }
    fine = load_lines(file, path, requests, why, why_len);
    (void)fclose(file);
    return fine;
}
