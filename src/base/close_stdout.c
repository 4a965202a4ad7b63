/* What was printed counts only when it has arrived. */
#include "base/close_stdout.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int mc_close_stdout(const char *program, int status, int failed)
{
    bool lost = ferror(stdout) != 0;
    int why = lost ? errno : 0; /* mostly still that of the write */

    if (fflush(stdout) != 0) {
        lost = true;
        why = errno;
    }
    /* Closed by the caller's caller is fine for a program that had nothing to say. */
    if (fclose(stdout) != 0 && errno != EBADF) {
        lost = true;
        why = errno;
    }
    if (!lost) {
        return status;
    }
    if (why != EPIPE) {
        (void)fprintf(stderr, "%s: cannot write to the standard output: %s\n", program,
                      why == 0 ? "an earlier write failed" : strerror(why));
    }
    return status == 0 ? failed : status;
}
