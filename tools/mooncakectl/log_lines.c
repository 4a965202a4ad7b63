/* Reading a log's end and hashing what names keys. Lines are logfmt: name=value, name="value". */
#include "log_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* So much of the log's end is looked at. */
#define TAIL_LEN (1L << 20)

/* FNV-1a: the same key gives the same number, and nobody reads it back. */
static uint64_t hash(const char *bytes, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++) {
        h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    }
    return h;
}

/* Does a field that names keys begin here? Its length up to the "=", or 0. */
static size_t key_field(const char *line, const char *at)
{
    static const char *const names[] = {"key=", "keys=", "pattern=", "prefix=", "object="};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t len = strlen(names[i]);

        if (strncmp(at, names[i], len) == 0 && (at == line || at[-1] == ' ')) {
            return len;
        }
    }
    return 0;
}

static size_t value_len(const char *value)
{
    size_t len = 1;

    if (value[0] != '"') {
        return strcspn(value, " \n");
    }
    while (value[len] != '\0' && value[len] != '\n' && value[len] != '"') {
        len += value[len] == '\\' && value[len + 1] != '\0' ? 2 : 1;
    }
    return value[len] == '"' ? len + 1 : len;
}

/* "2026-03-01T12:00:00.123456Z D module.event ..." */
static bool is_debug(const char *line)
{
    const char *level = strchr(line, ' ');

    return level != NULL && level[1] == 'D' && level[2] == ' ';
}

static void copy_line(const char *line, FILE *out)
{
    const char *at = line;

    while (*at != '\0') {
        size_t field = key_field(line, at);

        if (field == 0) {
            (void)fputc(*at++, out);
        } else {
            size_t len = value_len(at + field);

            (void)fprintf(out, "%.*s#%016" PRIx64, (int)field, at, hash(at + field, len));
            at += field + len;
        }
    }
}

enum mc_exit mc_log_lines_copy(const struct mc_ctl *ctl, const char *path, FILE *out)
{
    FILE *log = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;

    if (log == NULL) {
        return mc_fail_plain(ctl, MC_EXIT_FAILED, "diag: cannot read the log %s: %s", path,
                             strerror(errno));
    }
    if (fseek(log, -TAIL_LEN, SEEK_END) == 0) {
        (void)!getline(&line, &cap, log); /* the rest of a line that was cut */
    } else {
        rewind(log); /* it is shorter */
    }
    while (getline(&line, &cap, log) > 0) {
        if (!is_debug(line)) {
            copy_line(line, out);
        }
    }
    free(line);
    (void)fclose(log);
    return MC_EXIT_OK;
}
