/* Whole files in and out. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_FIRST (1u << 20) /* room to begin with when the length is not known */

/* errno after a failure. */
static int read_to_end(int fd, char **data, size_t cap, uint64_t *out_len)
{
    size_t used = 0;

    for (;;) {
        ssize_t got;

        if (used == cap) {
            char *more = cap > SIZE_MAX / 2 ? NULL : realloc(*data, 2 * cap);

            if (more == NULL) {
                return ENOMEM;
            }
            *data = more;
            cap *= 2;
        }
        got = read(fd, *data + used, cap - used);
        if (got == 0) {
            *out_len = used;
            return 0;
        }
        if (got > 0) {
            used += (size_t)got;
        } else if (errno != EINTR) {
            return errno;
        }
    }
}

enum mc_exit mc_file_read(const struct mc_ctl *ctl, const char *path, void **out_data,
                          uint64_t *out_len)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    size_t cap = READ_FIRST;
    struct stat info;
    char *data;
    int fault;

    if (fd < 0) {
        return mc_fail_plain(ctl, MC_EXIT_FAILED, "cannot open %s: %s", path, strerror(errno));
    }
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
        cap = (size_t)info.st_size + 1; /* one more, so that the end is seen without growing */
    }
    data = malloc(cap);
    fault = data == NULL ? ENOMEM : read_to_end(fd, &data, cap, out_len);
    if (!is_stdin) {
        (void)close(fd);
    }
    if (fault != 0) {
        free(data);
        return mc_fail_plain(ctl, MC_EXIT_FAILED, "cannot read %s: %s",
                             is_stdin ? "the standard input" : path, strerror(fault));
    }
    *out_data = data;
    return MC_EXIT_OK;
}

/* errno after a failure, else 0. */
static int write_all(int fd, const void *data, uint64_t len)
{
    const char *at = data;

    while (len > 0) {
        ssize_t put = write(fd, at, len);

        if (put >= 0) {
            at += put;
            len -= (uint64_t)put;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* Write beside path, then rename over it. errno after a failure, and then path is as it was. */
static int replace(const char *path, mode_t mode, const void *data, uint64_t len)
{
    size_t room = strlen(path) + sizeof(".XXXXXX");
    char *temp = mc_need(malloc(room));
    int fault = 0;
    int fd;

    (void)snprintf(temp, room, "%s.XXXXXX", path);
    fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0) {
        fault = errno;
        free(temp);
        return fault;
    }
    fault = write_all(fd, data, len);
    if (fault == 0 && (fchmod(fd, mode) != 0 || fsync(fd) != 0)) {
        fault = errno;
    }
    if (close(fd) != 0 && fault == 0) {
        fault = errno;
    }
    if (fault == 0 && rename(temp, path) != 0) {
        fault = errno;
    }
    if (fault != 0) {
        (void)unlink(temp);
    }
    free(temp);
    return fault;
}

static int write_direct(const char *path, const void *data, uint64_t len)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int fault;

    if (fd < 0) {
        return errno;
    }
    fault = write_all(fd, data, len);
    if (close(fd) != 0 && fault == 0) {
        fault = errno;
    }
    return fault;
}

enum mc_exit mc_file_write(const struct mc_ctl *ctl, const char *path, const void *data,
                           uint64_t len)
{
    struct stat info;
    mode_t mask;
    char *real; /* a symbolic link stays one: its target is replaced */
    int fault;

    if (strcmp(path, "-") == 0) {
        fault = write_all(STDOUT_FILENO, data, len);
        path = "the standard output";
    } else if (stat(path, &info) != 0) {
        mask = umask(0);
        (void)umask(mask);
        fault = replace(path, 0666 & ~mask, data, len);
    } else if (!S_ISREG(info.st_mode)) {
        fault = write_direct(path, data, len);
    } else {
        real = realpath(path, NULL);
        fault = real == NULL ? errno : replace(real, info.st_mode & 0777, data, len);
        free(real);
    }
    if (fault != 0) {
        return mc_fail_plain(ctl, MC_EXIT_FAILED, "cannot write %s: %s", path, strerror(fault));
    }
    return MC_EXIT_OK;
}
