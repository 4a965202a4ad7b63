/* Where the address of the master comes from when no flag names it. */
#ifndef MC_CTL_CONFIG_H
#define MC_CTL_CONFIG_H

#include "ctl.h"

/**
 * Fill ctl->master and ctl->master_source: the flag, else MOONCAKE_MASTER, else the first of these
 * files that exists, else the library's default. Files are JSON objects with "master":
 *   --config_path=FILE or MOONCAKE_CTL_CONFIG
 *   $XDG_CONFIG_HOME/mooncake/ctl.json, or ~/.config/mooncake/ctl.json
 *   /etc/mooncake/ctl.json
 *
 * @return MC_EXIT_USAGE when a file is no such object, or a named one is not there; it has been
 *         told
 */
enum mc_exit mc_config_find_master(struct mc_ctl *ctl);

#endif
