/* Pages of admin ports. */
#ifndef MC_CTL_FETCH_H
#define MC_CTL_FETCH_H

#include <stdbool.h>
#include <stdio.h>

/** GET http://address/path and write the body to @p out. False: nobody answered with 200, or the
 * body ended early. Each silence is waited for by at most a few seconds. */
bool mc_http_fetch(const char *address, const char *path, FILE *out);

#endif
