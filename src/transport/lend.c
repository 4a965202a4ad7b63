/* Lends are holders of mappings (shm_map.h), also those of segments that this process serves. */
#include "transport/lend.h"

#include <stddef.h>

#include "base/assert.h"
#include "transport/shm_map.h"

void mc_lend_init(struct mc_lend *lend, struct mc_shm_map *map, uint64_t offset, uint64_t len)
{
    MC_ASSERT(offset <= map->len && len <= map->len - offset);
    mc_shm_map_hold(map);
    *lend = (struct mc_lend){
        .data = map->base + offset, .len = len, .mount_id = map->mount_id, .map = map};
}

void mc_lend_return(struct mc_lend *lend)
{
    if (lend->map != NULL) {
        mc_shm_map_return(lend->map);
        *lend = (struct mc_lend){0};
    }
}

bool mc_lend_is_sure(const struct mc_lend *lend)
{
    return lend->map != NULL && mc_shm_map_is_alive(lend->map);
}
