/* Completion for shells, made from the tables of commands and options. */
#ifndef MC_CTL_COMPLETION_H
#define MC_CTL_COMPLETION_H

#include "ctl.h"

/** Print the script for the shell that is the command's word. */
enum mc_exit mc_cmd_completion(struct mc_ctl *ctl);

#endif
