/* A file that appears by a rename. */
#include "io/port_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

mooncake_err mc_port_file_write(const char *path, const char *lines)
{
    char temporary[4096];
    int len = snprintf(temporary, sizeof(temporary), "%s.%ld", path, (long)getpid());
    struct stat there;
    bool written;
    FILE *file;

    if (len < 0 || (size_t)len >= sizeof(temporary)) {
        return mc_err_set(MOONCAKE_EINVAL, "port_file: the path is too long");
    }
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) {
        return mc_err_set(MOONCAKE_EINVAL,
                          "port_file: \"%s\" is there and no regular file; name another one", path);
    }
    file = fopen(temporary, "we");
    if (file == NULL) {
        return mc_err_set(MOONCAKE_EINVAL, "port_file: cannot create \"%s\": %s", temporary,
                          strerror(errno));
    }
    written = fputs(lines, file) >= 0;
    written = fclose(file) == 0 && written;
    if (!written || rename(temporary, path) != 0) {
        (void)mc_err_set(MOONCAKE_EINVAL, "port_file: cannot write \"%s\": %s", path,
                         strerror(errno));
        (void)unlink(temporary);
        return MOONCAKE_EINVAL;
    }
    return MOONCAKE_OK;
}
