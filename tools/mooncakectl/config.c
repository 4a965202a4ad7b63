/* The address of the master: flag, environment, a file of the user's or the host's, default. */
#include "config.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

#define SYSTEM_FILE "/etc/mooncake/ctl.json"
#define FILE_LEN_MAX ((size_t)64 << 10)
#define MASTER_LEN_MAX 300

/* What was read from a file; lives as long as the program. */
static char master[MASTER_LEN_MAX + 1];
static char source[PATH_MAX + 8];

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The one option that there is; what is not known is a mistake somebody should hear of. */
static enum mc_exit read_object(const struct mc_ctl *ctl, const char *path, json_t *root)
{
    const char *name;
    json_t *value;

    if (!json_is_object(root)) {
        return mc_fail_plain(ctl, MC_EXIT_USAGE,
                             "%s: is no JSON object, such as {\"master\": \"HOST:PORT\"}", path);
    }
    json_object_foreach(root, name, value)
    {
        const char *text = json_string_value(value);

        if (strcmp(name, "master") != 0) {
            return mc_fail_plain(ctl, MC_EXIT_USAGE,
                                 "%s: unknown option \"%.80s\"; there is only \"master\"", path,
                                 name);
        }
        if (text == NULL || text[0] == '\0' || strlen(text) > MASTER_LEN_MAX) {
            return mc_fail_plain(ctl, MC_EXIT_USAGE,
                                 "%s: \"master\" must be a text, such as \"HOST:PORT\"", path);
        }
        (void)snprintf(master, sizeof(master), "%s", text);
    }
    return MC_EXIT_OK;
}

/* *out_found: the file is there. One that cannot be read because it is not there is no fault. */
static enum mc_exit read_file(const struct mc_ctl *ctl, const char *path, bool *out_found)
{
    FILE *file = fopen(path, "re");
    enum mc_exit status;
    json_error_t error;
    json_t *root;
    char *text;
    size_t len;

    *out_found = file != NULL;
    if (file == NULL) {
        return errno == ENOENT || errno == ENOTDIR
                   ? MC_EXIT_OK
                   : mc_fail_plain(ctl, MC_EXIT_USAGE, "%s: cannot be read: %s", path,
                                   strerror(errno));
    }
    text = mc_need(malloc(FILE_LEN_MAX));
    len = fread(text, 1, FILE_LEN_MAX, file);
    if (ferror(file) != 0) {
        status = mc_fail_plain(ctl, MC_EXIT_USAGE, "%s: cannot be read: %s", path, strerror(errno));
        goto close_file;
    }
    root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        status = mc_fail_plain(ctl, MC_EXIT_USAGE, "%s: line %d: %s", path, error.line, error.text);
        goto close_file;
    }
    status = read_object(ctl, path, root);
    json_decref(root);
close_file:
    free(text);
    (void)fclose(file);
    return status;
}

static enum mc_exit try_file(struct mc_ctl *ctl, const char *path, bool *out_found)
{
    enum mc_exit status = read_file(ctl, path, out_found);

    if (status == MC_EXIT_OK && *out_found && master[0] != '\0') {
        (void)snprintf(source, sizeof(source), "file %s", path);
        ctl->master = master;
        ctl->master_source = source;
    }
    return status;
}

/* The user's file, else the host's. */
static enum mc_exit try_usual_files(struct mc_ctl *ctl)
{
    const char *config_home = environment("XDG_CONFIG_HOME");
    const char *home = environment("HOME");
    char path[PATH_MAX];
    bool found = false;
    enum mc_exit status;
    int len = 0;

    if (config_home != NULL) {
        len = snprintf(path, sizeof(path), "%s/mooncake/ctl.json", config_home);
    } else if (home != NULL) {
        len = snprintf(path, sizeof(path), "%s/.config/mooncake/ctl.json", home);
    }
    if (len > 0 && (size_t)len < sizeof(path)) {
        status = try_file(ctl, path, &found);
        if (status != MC_EXIT_OK || found) {
            return status;
        }
    }
    return try_file(ctl, SYSTEM_FILE, &found);
}

enum mc_exit mc_config_find_master(struct mc_ctl *ctl)
{
    const char *named =
        ctl->config_path != NULL ? ctl->config_path : environment("MOONCAKE_CTL_CONFIG");
    enum mc_exit status;
    bool found;

    if (ctl->master != NULL && ctl->master[0] == '\0') {
        return mc_fail_plain(ctl, MC_EXIT_USAGE, "--master: is empty; write HOST:PORT");
    }
    if (ctl->master != NULL) {
        ctl->master_source = "--master";
        return MC_EXIT_OK;
    }
    ctl->master = environment("MOONCAKE_MASTER");
    ctl->master_source = ctl->master != NULL ? "environment MOONCAKE_MASTER" : "the default";
    if (ctl->master != NULL) {
        return MC_EXIT_OK;
    }
    if (named == NULL) {
        return try_usual_files(ctl);
    }
    status = try_file(ctl, named, &found);
    return status != MC_EXIT_OK || found
               ? status
               : mc_fail_plain(ctl, MC_EXIT_USAGE, "%s: there is no such file (from %s)", named,
                               ctl->config_path != NULL ? "--config-path" : "MOONCAKE_CTL_CONFIG");
}
