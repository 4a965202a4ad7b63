/*
 * The C API of the C++ Mooncake: batches from registered memory, and removal of many keys.
 *
 * Shows: mooncake_store_init_all mooncake_store_register_buffer mooncake_store_unregister_buffer
 *        mooncake_store_put_from mooncake_store_batch_put_from mooncake_store_batch_get_into
 *        mooncake_store_batch_is_exist mooncake_store_remove_by_regex mooncake_store_remove_all
 *
 * Prints:
 *     there: 1 1
 *     lengths: 8 8
 *     removed by pattern: 2
 *     removed: 1
 */
#include <mooncake/store_c.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    static char memory[2][8] = {"bytes 0", "bytes 1"}, back[2][8];
    const char *keys[] = {"many/0", "many/1"};
    void *from[] = {memory[0], memory[1]}, *into[] = {back[0], back[1]};
    const size_t sizes[] = {8, 8};
    mooncake_replicate_config_t config = {.replica_num = 1, .with_soft_pin = 1};
    mooncake_store_t store = mooncake_store_create();
    int64_t lens[2] = {0, 0};
    int codes[2] = {0, 0};

    /* The master of MOONCAKE_MASTER; this process lends 1 MiB. */
    if (mooncake_store_init_all(store, "tcp", "", 1u << 20) != 0 ||
        mooncake_store_register_buffer(store, memory, sizeof(memory)) != 0 ||
        mooncake_store_batch_put_from(store, keys, from, sizes, 2, &config, codes) != 0 ||
        mooncake_store_put_from(store, "single", memory[0], 8, NULL) != 0 ||
        mooncake_store_batch_is_exist(store, keys, 2, codes) != 0 ||
        mooncake_store_batch_get_into(store, keys, into, sizes, 2, lens) != 0 ||
        memcmp(memory, back, sizeof(memory)) != 0) {
        fprintf(stderr, "%s\n", mooncake_last_error());
        mooncake_store_destroy(store);
        return 1;
    }
    printf("there: %d %d\n", codes[0], codes[1]);
    printf("lengths: %lld %lld\n", (long long)lens[0], (long long)lens[1]);
    printf("removed by pattern: %lld\n",
           (long long)mooncake_store_remove_by_regex(store, "^many/", 1));
    printf("removed: %lld\n", (long long)mooncake_store_remove_all(store, 1));
    (void)mooncake_store_unregister_buffer(store, memory);
    mooncake_store_destroy(store);
    return 0;
}
