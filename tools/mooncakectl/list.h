/* Lists that are a table for people and an array under --json, and what only a terminal gets. */
#ifndef MC_CTL_LIST_H
#define MC_CTL_LIST_H

#include "ctl.h"
#include "output.h"

/** What a list is gathered into: one of the two, by --json. */
struct mc_list_out {
    json_t *array;
    struct mc_table *table;
};

/** @p heads as for mc_table_create(). */
void mc_list_open(struct mc_list_out *list, const struct mc_ctl *ctl, const char *const *heads,
                  size_t columns);
/** Print it, or tell why there is none. @p name names it in JSON and in the sentence. */
enum mc_exit mc_list_close(struct mc_list_out *list, const struct mc_ctl *ctl, mooncake_err err,
                           const char *name);

#endif
