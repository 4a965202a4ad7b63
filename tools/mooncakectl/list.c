/* Lists for people and for programs. */
#include "list.h"

void mc_list_open(struct mc_list_out *list, const struct mc_ctl *ctl, const char *const *heads,
                  size_t columns)
{
    list->array = ctl->json ? mc_json_array() : NULL;
    list->table = ctl->json ? NULL : mc_table_create(heads, columns);
}

enum mc_exit mc_list_close(struct mc_list_out *list, const struct mc_ctl *ctl, mooncake_err err,
                           const char *name)
{
    if (err != MOONCAKE_OK) {
        json_decref(list->array);
        mc_table_destroy(&list->table);
        return mc_fail(ctl, err, "cannot get the %s of the pool", name);
    }
    if (ctl->json) {
        mc_json_print_field(name, list->array);
    } else {
        mc_table_print(list->table);
        mc_table_destroy(&list->table);
    }
    return MC_EXIT_OK;
}
