/* The end of a process that has found a bug in itself. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void mc_assert_failed(const char *expr, const char *file, int line)
{
    (void)fprintf(stderr, "assertion failed: %s at %s:%d\n", expr, file, line);
    abort();
}
