/* The last lines of a log, fit to be given away. */
#ifndef MC_CTL_LOG_LINES_H
#define MC_CTL_LOG_LINES_H

#include <stdio.h>

#include "ctl.h"

/**
 * Copy the last part of a log: keys and patterns become hashes; lines of level debug, which may
 * hold keys in any place, are left out.
 *
 * @return MC_EXIT_OK; else the fault has been told
 */
enum mc_exit mc_log_lines_copy(const struct mc_ctl *ctl, const char *path, FILE *out);

#endif
