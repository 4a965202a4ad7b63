/* Finding mooncake_bench and becoming it. */
#include "bench.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "mooncake_bench"

static char name[] = NAME; /* an argument vector has no const */

enum mc_exit mc_bench_exec(const struct mc_ctl *ctl, char **args)
{
    char path[PATH_MAX + sizeof(NAME)];
    ssize_t len = readlink("/proc/self/exe", path, PATH_MAX);
    char *slash;

    if (ctl->master != NULL && setenv("MOONCAKE_MASTER", ctl->master, 1) != 0) {
        (void)mc_need(NULL);
    }
    args[-1] = name; /* argv has the word "bench" there */
    if (len > 0) {
        path[len] = '\0';
        slash = strrchr(path, '/');
        (void)snprintf(slash + 1, sizeof(NAME), "%s", NAME);
        (void)execv(path, args - 1);
    }
    (void)execvp(NAME, args - 1);
    return mc_fail_plain(ctl, MC_EXIT_FAILED,
                         "bench: cannot start " NAME " (%s): it belongs beside mooncakectl, or in "
                         "PATH",
                         strerror(errno));
}
