/*
 * Which group: /proc/self/cgroup, a line for each hierarchy. Where its files are:
 * /proc/self/mountinfo, a line for each mount, which may show a part of the hierarchy only (as in
 * containers).
 */
#include "store/memory_limit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lines of both files; a longer one is none that we understand. */
#define LINE_CAP (3 * PATH_MAX)

/* The two forms. */
struct form {
    const char *fs_type, *file;
    bool v1;
};

static const struct form forms[] = {{"cgroup2", "memory.max", false},
                                    {"cgroup", "memory.limit_in_bytes", true}};

/* Is word one of a list with commas? */
static bool lists(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strncmp(at, word, len) == 0 && (at[len] == '\0' || at[len] == ',')) {
            return true;
        }
    }
    return false;
}

/* A line without its end. False at the end of the file. */
static bool read_line(FILE *file, char *line)
{
    while (fgets(line, LINE_CAP, file) != NULL) {
        size_t len = strlen(line);

        if (len > 0 && line[len - 1] == '\n') {
            line[len - 1] = '\0';
            return true;
        }
        if (len + 1 < LINE_CAP) {
            return true; /* the last one */
        }
        for (int c = fgetc(file); c != '\n' && c != EOF; c = fgetc(file)) {
        }
    }
    return false;
}

static FILE *open_proc(const char *groups, const char *name)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof(path), "%s/proc/self/%s", groups, name);

    return len > 0 && (size_t)len < sizeof(path) ? fopen(path, "re") : NULL;
}

/* The process's group: "4:memory:/a/b" of v1, "0::/a/b" of v2. */
static bool find_group(const char *groups, const struct form *form, char *out_path)
{
    char line[LINE_CAP];
    FILE *file = open_proc(groups, "cgroup");
    bool found = false;

    if (file == NULL) {
        return false;
    }
    while (!found && read_line(file, line)) {
        char *names = strchr(line, ':');
        char *path = names == NULL ? NULL : strchr(++names, ':');

        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        found = path[0] == '/' && strlen(path) < PATH_MAX &&
                (form->v1 ? lists(names, "memory") : names[0] == '\0');
        if (found) {
            memcpy(out_path, path, strlen(path) + 1);
        }
    }
    (void)fclose(file);
    return found;
}

/* mountinfo writes a space as \040, and so on. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *at = text; *at != '\0'; to++) {
        if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' &&
            at[3] >= '0' && at[3] <= '7') {
            *to = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
            at += 4;
        } else {
            *to = *at++;
        }
    }
    *to = '\0';
}

struct mount {
    char *root;  /* which part of the hierarchy is there */
    char *point; /* where */
};

/* "31 24 0:28 /part /where opts [fields] - type source options" */
static bool parse_mount(char *line, const struct form *form, struct mount *out)
{
    char *rest = strstr(line, " - ");
    char *words[5], *more = NULL, *type, *options;

    if (rest == NULL) {
        return false;
    }
    *rest = '\0';
    for (size_t i = 0; i < 5; i++) {
        words[i] = strtok_r(i == 0 ? line : NULL, " ", &more);
        if (words[i] == NULL) {
            return false;
        }
    }
    type = strtok_r(rest + 3, " ", &more);
    (void)strtok_r(NULL, " ", &more);
    options = strtok_r(NULL, " ", &more);
    if (type == NULL || strcmp(type, form->fs_type) != 0 ||
        (form->v1 && (options == NULL || !lists(options, "memory")))) {
        return false;
    }
    *out = (struct mount){.root = words[3], .point = words[4]};
    unescape(out->root);
    unescape(out->point);
    return true;
}

/* The group's path below the mount's point: what the mount does not show is left out. */
static const char *below(const struct mount *mount, const char *group)
{
    size_t len = strlen(mount->root);

    if (strcmp(mount->root, "/") == 0) {
        return strstr(group, "/..") == NULL ? group : "";
    }
    return strncmp(group, mount->root, len) == 0 && (group[len] == '/' || group[len] == '\0')
               ? group + len
               : "";
}

/* A number of bytes; "max" and what cannot be read are no limit. */
static void take_file(const char *groups, const char *path, struct mc_memory_limit *limit)
{
    unsigned long long bytes;
    char text[32] = "";
    char *end;
    FILE *file = fopen(path, "re");
    bool read = file != NULL && fgets(text, sizeof(text), file) != NULL;

    if (file != NULL) {
        (void)fclose(file);
    }
    if (!read || text[0] < '0' || text[0] > '9') {
        return;
    }
    errno = 0;
    bytes = strtoull(text, &end, 10);
    if (errno == 0 && (*end == '\n' || *end == '\0') && bytes < limit->bytes) {
        limit->bytes = bytes;
        (void)snprintf(limit->file, sizeof(limit->file), "%s", path + strlen(groups));
    }
}

/* The limits of the group and of its parents, as far as the mount shows them. */
static void take_limits(const char *groups, const struct form *form, const struct mount *mount,
                        const char *group, struct mc_memory_limit *limit)
{
    char folder[PATH_MAX], path[PATH_MAX];
    size_t top = strlen(groups) + strlen(mount->point);
    int len = snprintf(folder, sizeof(folder), "%s%s%s", groups, mount->point, below(mount, group));

    if (len <= 0 || (size_t)len >= sizeof(folder)) {
        return;
    }
    for (;;) {
        char *slash = strrchr(folder, '/');

        len = snprintf(path, sizeof(path), "%s%s%s", folder,
                       folder[strlen(folder) - 1] == '/' ? "" : "/", form->file);
        if (len > 0 && (size_t)len < sizeof(path)) {
            take_file(groups, path, limit);
        }
        if (slash == NULL || (size_t)(slash - folder) < top) {
            return;
        }
        *slash = '\0';
    }
}

static void take_form(const char *groups, const struct form *form, struct mc_memory_limit *limit)
{
    char group[PATH_MAX], line[LINE_CAP];
    struct mount mount;
    FILE *file;

    if (!find_group(groups, form, group)) {
        return;
    }
    file = open_proc(groups, "mountinfo");
    while (file != NULL && read_line(file, line)) {
        if (parse_mount(line, form, &mount)) {
            take_limits(groups, form, &mount, group, limit);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

void mc_memory_limit_find(const char *groups, struct mc_memory_limit *out)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    out->bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : INT64_MAX;
    out->file[0] = '\0';
    for (size_t i = 0; groups != NULL && i < sizeof(forms) / sizeof(forms[0]); i++) {
        take_form(groups, &forms[i], out);
    }
}
