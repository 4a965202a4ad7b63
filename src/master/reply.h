/* Objects as replies name them: extents with capabilities, segments once each in a table. */
#ifndef MC_MASTER_REPLY_H
#define MC_MASTER_REPLY_H

#include "master/core_parts.h"

/**
 * One element per object; NULL in @p objects is an item without replicas. Only complete replicas
 * are named. Everything is copied into @p arena.
 *
 * @param rights  mc_rights that the capabilities grant; 0: none, capabilities are 0
 * @retval ENOMEM
 */
mooncake_err mc_reply_table(struct mc_core *core, struct mc_object *const *objects, size_t count,
                            uint32_t rights, struct mc_arena *arena,
                            struct mc_object_table *out_table) MC_MUST_CHECK;
/** A copy in the arena; NULL for no memory. */
char *mc_reply_text(struct mc_arena *arena, const char *text) MC_MUST_CHECK;

#endif
