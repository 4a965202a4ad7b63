/*
 * The C API of the C++ Mooncake.
 *
 * Shows: mooncake_store_create mooncake_store_destroy mooncake_store_setup
 *        mooncake_store_health_check mooncake_store_put mooncake_store_get_into
 *        mooncake_store_is_exist mooncake_store_get_size mooncake_store_get_hostname
 *        mooncake_store_remove
 *
 * Prints:
 *     not set up: 1
 *     localhost:..., healthy: 0
 *     exists: 1, 5 bytes: value
 *     a key that is not there: -704
 */
#include <mooncake/store_c.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    const char *master = getenv("MOONCAKE_MASTER");
    mooncake_store_t store = mooncake_store_create();
    char name[256], value[16];
    int64_t len;

    printf("not set up: %d\n", mooncake_store_health_check(store));
    if (mooncake_store_setup(store, "localhost", "P2PHANDSHAKE", 0, 0, "tcp", "",
                             master != NULL ? master : "127.0.0.1:50051") != 0 ||
        mooncake_store_get_hostname(store, name, sizeof(name)) < 0) {
        fprintf(stderr, "%s\n", mooncake_last_error());
        mooncake_store_destroy(store);
        return 1;
    }
    printf("%s, healthy: %d\n", name, mooncake_store_health_check(store));
    if (mooncake_store_put(store, "c-key", "value", 5, NULL) == 0) {
        len = mooncake_store_get_into(store, "c-key", value, sizeof(value));
        printf("exists: %d, %lld bytes: %.*s\n", mooncake_store_is_exist(store, "c-key"),
               (long long)mooncake_store_get_size(store, "c-key"), (int)len, value);
    }
    (void)mooncake_store_remove(store, "c-key", 1);
    printf("a key that is not there: %lld\n",
           (long long)mooncake_store_get_into(store, "c-key", value, sizeof(value)));
    mooncake_store_destroy(store);
    return 0;
}
