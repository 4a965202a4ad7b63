/*
 * diag: this program asks the pool through its own commands, each in a process of its own, so that
 * one that fails leaves its error in the archive and the rest goes on. tar makes one file of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl.h"
#include "fetch.h"
#include "log_lines.h"
#include "output.h"

#define FOLDER "mooncake-diag"
#define ARCHIVE "mooncake-diag.tar.gz"
#define PATH_CAP (PATH_MAX + 64)
#define PART_TIMEOUT "5s"

/* Each becomes FOLDER/name.json. */
static const char *const parts[] = {"version", "status",   "segments", "stores",
                                    "clients", "why-full", "config"};

struct diag {
    const struct mc_ctl *ctl;
    char scratch[PATH_MAX]; /* holds FOLDER */
};

static void path_of(const struct diag *diag, const char *name, const char *end, char *out)
{
    (void)snprintf(out, PATH_CAP, "%s/" FOLDER "/%s%s", diag->scratch, name, end);
}

/* Run a program with its output going to a file (NULL: ours). Its exit status, or -1. */
static int run(char *const *args, const char *out_path)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        int fd = out_path == NULL ? -1 : open(out_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

        if (out_path != NULL && (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 ||
                                 dup2(open("/dev/null", O_WRONLY), STDERR_FILENO) < 0)) {
            _exit(127);
        }
        (void)execvp(args[0], args);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void ask_part(const struct diag *diag, const char *part)
{
    char self[] = "/proc/self/exe", json[] = "--json", timeout[] = "--timeout=" PART_TIMEOUT;
    char path[PATH_CAP], master[512], command[32];
    char *args[] = {self, command, json, timeout, NULL, NULL};

    (void)snprintf(command, sizeof(command), "%s", part);
    if (diag->ctl->master != NULL) {
        (void)snprintf(master, sizeof(master), "--master=%s", diag->ctl->master);
        args[4] = master;
    }
    path_of(diag, part, ".json", path);
    (void)run(args, path);
}

/* The value of one of the master's options, as the part "config" has it; caller frees. */
static char *option_value(const struct diag *diag, const char *name)
{
    char path[PATH_CAP];
    char *value = NULL;
    json_t *document, *list, *item;
    size_t i;

    path_of(diag, "config", ".json", path);
    document = json_load_file(path, 0, NULL);
    list = json_object_get(document, "configuration");
    json_array_foreach(list, i, item)
    {
        const char *its_name = json_string_value(json_object_get(item, "name"));
        const char *its_value = json_string_value(json_object_get(item, "value"));

        if (value == NULL && its_name != NULL && its_value != NULL && strcmp(its_name, name) == 0) {
            value = mc_need(strdup(its_value));
        }
    }
    json_decref(document);
    return value;
}

/* Where is /metrics? False: nobody can say. */
static bool metrics_address(const struct diag *diag, char *out, size_t cap)
{
    const char *master = diag->ctl->master != NULL ? diag->ctl->master : getenv("MOONCAKE_MASTER");
    const char *colon;
    char *port;
    bool known;

    if (diag->ctl->metrics != NULL) {
        (void)snprintf(out, cap, "%s", diag->ctl->metrics);
        return true;
    }
    port = option_value(diag, "metrics_port");
    master = master != NULL ? master : "127.0.0.1:50051";
    colon = strrchr(master, ':');
    known = port != NULL && strcmp(port, "0") != 0 && colon != NULL;
    if (known) {
        (void)snprintf(out, cap, "%.*s:%s", (int)(colon - master), master, port);
    }
    free(port);
    return known;
}

static void add_metrics(const struct diag *diag)
{
    char path[PATH_CAP], address[600];
    FILE *file;

    path_of(diag, "metrics", ".txt", path);
    file = fopen(path, "w");
    if (file == NULL) {
        return;
    }
    if (!metrics_address(diag, address, sizeof(address))) {
        (void)fputs("# not asked for: the port is not known; --metrics=HOST:PORT names it\n", file);
    } else if (!mc_http_fetch(address, "/metrics", file)) {
        (void)fprintf(file, "# http://%s/metrics did not answer with a whole page\n", address);
    }
    (void)fclose(file);
}

static enum mc_exit add_log(const struct diag *diag)
{
    enum mc_exit status;
    char path[PATH_CAP];
    FILE *file;

    if (diag->ctl->log == NULL) {
        return MC_EXIT_OK;
    }
    path_of(diag, "log", ".txt", path);
    file = fopen(path, "w");
    if (file == NULL) {
        return mc_fail_plain(diag->ctl, MC_EXIT_FAILED, "diag: cannot write %s: %s", path,
                             strerror(errno));
    }
    status = mc_log_lines_copy(diag->ctl, diag->ctl->log, file);
    (void)fclose(file);
    return status;
}

static enum mc_exit pack(const struct diag *diag, const char *archive)
{
    char tar[] = "tar", create[] = "-czf", change[] = "-C", folder[] = FOLDER;
    char scratch[PATH_MAX];
    char *target = mc_need(strdup(archive));
    char *args[] = {tar, create, target, change, scratch, folder, NULL};
    int status;

    (void)snprintf(scratch, sizeof(scratch), "%s", diag->scratch);
    status = run(args, NULL);
    free(target);
    if (status != 0) {
        return mc_fail_plain(diag->ctl, MC_EXIT_FAILED,
                             "diag: tar could not write %s (exit status %d)", archive, status);
    }
    return MC_EXIT_OK;
}

static void tidy_up(const struct diag *diag)
{
    static const char *const others[] = {"metrics.txt", "log.txt"};
    char path[PATH_CAP];

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        path_of(diag, parts[i], ".json", path);
        (void)unlink(path);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        path_of(diag, others[i], "", path);
        (void)unlink(path);
    }
    path_of(diag, "", "", path);
    (void)rmdir(path);
    (void)rmdir(diag->scratch);
}

enum mc_exit mc_cmd_diag(struct mc_ctl *ctl)
{
    const char *archive = ctl->words_count > 0 ? ctl->words[0] : ARCHIVE;
    const char *tmp = getenv("TMPDIR");
    struct diag diag = {.ctl = ctl};
    enum mc_exit status;
    char path[PATH_CAP];

    (void)snprintf(diag.scratch, sizeof(diag.scratch), "%.3000s/mooncakectl-XXXXXX",
                   tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(diag.scratch) == NULL) {
        return mc_fail_plain(ctl, MC_EXIT_FAILED, "diag: cannot make a folder in %s: %s",
                             tmp != NULL ? tmp : "/tmp", strerror(errno));
    }
    path_of(&diag, "", "", path);
    (void)mkdir(path, 0700);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        ask_part(&diag, parts[i]);
    }
    add_metrics(&diag);
    status = add_log(&diag);
    if (status == MC_EXIT_OK) {
        status = pack(&diag, archive);
    }
    tidy_up(&diag);
    if (status == MC_EXIT_OK && ctl->json) {
        mc_json_print_field("archive", mc_json_text(archive));
    } else if (status == MC_EXIT_OK) {
        (void)fputs("wrote ", stdout);
        mc_print_text(stdout, archive);
        (void)fputs(": no values, no secrets; keys in the log are hashes\n", stdout);
    }
    return status;
}
