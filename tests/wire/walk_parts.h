/*
 * Kinds of fields: each function makes one (if the walk makes) and flattens it. Private to the
 * walks.
 */
#ifndef MC_TESTS_WIRE_WALK_PARTS_H
#define MC_TESTS_WIRE_WALK_PARTS_H

#include "wire/walk.h"

void walk_flatten(struct walk *walk, const void *bytes, size_t len);
uint64_t walk_below(struct walk *walk, uint64_t end);
void walk_u64(struct walk *walk, uint64_t *value);
void walk_u32(struct walk *walk, uint32_t *value);
void walk_u32_within(struct walk *walk, uint32_t *value, uint32_t min, uint32_t max);
void walk_flag(struct walk *walk, bool *value);
void walk_count_of(struct walk *walk, size_t *count, size_t max);
void *walk_array_of(struct walk *walk, const void *have, size_t count, size_t len);
void walk_text(struct walk *walk, const char **value, size_t len_max);
void walk_key(struct walk *walk, struct mc_key *value);
void walk_error_number(struct walk *walk, mooncake_err *value);
void walk_keys_of(struct walk *walk, const struct mc_key **keys, size_t *count);
void walk_numbers_of(struct walk *walk, const uint64_t **numbers, size_t count);
void walk_statuses_of(struct walk *walk, mooncake_err **statuses, size_t count);
void walk_table_of(struct walk *walk, struct mc_object_table *table, uint32_t rights,
                   size_t objects_min, size_t objects_max);

#endif
