/* The pool's bytes by what would have to happen before they are free, as text and as JSON. */
#ifndef MC_CTL_SPACE_H
#define MC_CTL_SPACE_H

#include "ctl.h"
#include "output.h"

void mc_space_print(const mooncake_space_status *s);
/** The caller's. */
json_t *mc_space_json(const mooncake_space_status *s);

#endif
